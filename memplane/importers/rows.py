"""The rows and counts that one record of a source gives, and names that the log accepts."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from memplane.lazy import late

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memplane.intake import redact
else:
    redact = late("memplane.intake.redact")

__all__ = [
    "ReadOutcome",
    "RecordReader",
    "Row",
    "json_digest",
    "name",
    "short_text",
    "told",
    "type_word",
]

Row = dict[str, Any]

_NAME_MAX: Final = 128

_FIELD_MAX: Final = 4096

_SAFE: Final = "!#$&'()*+,-./:;<=>?@[]^_{|}"

_ALWAYS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~"


class ReadOutcome(NamedTuple):
    """Rows in file order, a reason for each part left out, and parts that were seen before.

    A record always comes to something: the three are never empty together. `turn` is the client's
    id of the turn that the rows are of, where it has one.
    """

    rows: tuple[Row, ...] = ()
    skipped: tuple[str, ...] = ()
    repeated: int = 0
    turn: str = ""


class RecordReader(Protocol):
    """Makes rows of the records of one source. One reader serves one run over many files."""

    def begin(self, state: Mapping[str, Any], file: str = "") -> None:
        """Begin a file, or go on with one where `state()` was left. `file` is its name."""
        ...

    def read(self, record: dict[str, Any], body: bytes) -> ReadOutcome:
        """Say what the record comes to; never raises, whatever it holds. `body` is its line."""
        ...

    def state(self) -> dict[str, Any]:
        """Return what later lines of this file need of the earlier ones, as JSON."""
        ...


def name(*parts: str, joint: str = ":") -> str:
    """Join parts into 1-128 printable ASCII characters without space.

    As many parts that differ give different names: what is not safe is percent-encoded,
    and a name that would be too long is a SHA-256 of its parts.
    """
    *scopes, last = parts
    scopes = [_encode(part, _SAFE.replace(joint, "")) for part in scopes]
    joined = joint.join([*scopes, _encode(last, _SAFE)])
    if len(joined) <= _NAME_MAX:
        return joined
    # "%=" cannot come out of percent-encoding, so no short name is taken.
    shortened = f"%={hashlib.sha256(joined.encode()).hexdigest()}"
    return f"{scopes[0]}{joint}{shortened}" if scopes and len(scopes[0]) < 32 else shortened


@lru_cache(maxsize=4096)
def _encode(part: str, safe: str) -> str:
    if not part.strip(_ALWAYS + safe):
        return part  # most names
    from urllib.parse import quote  # noqa: PLC0415 - a hook goes without

    return quote(part, safe=safe, errors="surrogatepass")


def short_text(record: Mapping[str, Any], field: str) -> str:
    """Return the field where it is a string of at most 4,096 characters, else ""."""
    value = record.get(field)
    return value if isinstance(value, str) and len(value) <= _FIELD_MAX else ""


def told(data: Mapping[str, str]) -> dict[str, str]:
    """Return what is not empty."""
    return {key: value for key, value in data.items() if value}


def type_word(kind: str) -> str:
    """Show a type as part of a reason: short and printable, whatever stood there."""
    return redact.masked(name(kind))[:40] if kind else "(none)"


def json_digest(*parts: Any) -> str:
    """A SHA-256 of JSON values, in hex; the order of an object's fields does not matter."""
    try:
        whole = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    except (RecursionError, ValueError):
        # Nested too deep to be written; repr would be, too.
        whole = "too deep"
    return hashlib.sha256(whole.encode()).hexdigest()
