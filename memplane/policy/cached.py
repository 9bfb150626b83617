"""The parsed form of the five policies in one file, so that a warm plane parses no YAML.

One line of JSON: `{"documents":{...},"overridden":[...],"sha256":"..."}`: the documents by their
file names, and which of them the environment changed. The checksum is over the key and the rest, so
a damaged form, and a good one under another key, are no forms at all.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memplane.policy.values import Json

__all__ = ["Form", "key", "pack", "unpack", "written"]

# What JSON leaves as it is and YAML would refuse or fold.
_ESCAPED: Final = "[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]"


class Form(NamedTuple):
    """Documents without mistakes, and the names of those that the environment changed."""

    documents: dict[str, Json]
    overridden: list[str]


def key(version: str, data: Mapping[str, bytes], overrides: Mapping[str, str]) -> str:
    """Name the parsed form of these bytes and variables as this version of memplane reads them."""
    parts = [version.encode()]
    parts += [part for name, given in data.items() for part in (name.encode(), given)]
    for variable, value in sorted(overrides.items()):
        # A variable may hold any bytes; Python has those that are no UTF-8 as lone surrogates.
        parts += [variable.encode(errors="surrogatepass"), value.encode(errors="surrogatepass")]
    digests = b"".join(sha256(part).digest() for part in parts)
    return sha256(digests).hexdigest()


def pack(at: str, form: Form) -> bytes:
    """Return the form to keep under the key `at`."""
    kept = form._asdict()
    return _canonical({**kept, "sha256": _checksum(at, kept)})


def unpack(at: str, data: bytes) -> Form | None:
    """Return the form kept under `at`, None for anything that memplane did not write there."""
    try:
        kept = json.loads(data)
        found = kept.pop("sha256")
        form = Form(**kept)
        sound = found == _checksum(at, kept) and isinstance(form.documents, dict)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return form if sound else None


def written(document: Json) -> bytes:
    """Return a document as canonical JSON that YAML reads as the same document."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return re.sub(_ESCAPED, lambda odd: f"\\u{ord(odd[0]):04x}", text).encode() + b"\n"


def _checksum(at: str, kept: Any) -> str:
    return sha256(at.encode() + _canonical(kept)).hexdigest()


def _canonical(value: Any) -> bytes:
    # Keys stay in the file's order: sections, channels and intents have one.
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
