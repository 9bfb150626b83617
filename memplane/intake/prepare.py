"""Make a draft: checked, redacted, counted and serialised, ready for the log to number.

The log adds seq, dur, id, ts, rec and h around `Draft.rest`; a text that would
make the line longer than LINE_MAX goes to a body, and the line keeps its head.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.errors import InputError
from memplane.event import FIELDS, GLOBAL, Draft, Event, encode
from memplane.intake.check import TAG_MAX, collect
from memplane.intake.recalled import without_blocks
from memplane.intake.redact import Redactor
from memplane.intake.values import Cleaner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from memplane.intake.markers import Marker

__all__ = ["HEAD_BYTES", "LINE_MAX", "Intake", "cleaned", "prepare", "same"]

LINE_MAX: Final = 1024 * 1024
LOG_ADDS: Final = 300  # seq, dur, id (up to 128), ts, rec, h and their names
HEAD_BYTES: Final = 4096

_IDENTIFIERS: Final = ("id", "session", "task", "actor", "key", "ns")
_REST: Final = FIELDS[FIELDS.index("kind") : FIELDS.index("h")]


class Intake(NamedTuple):
    """The part of the privacy policy that acts before the log; built once per policy."""

    redactor: Redactor
    never_store_kinds: tuple[str, ...] = ("secret",)
    marker: Marker | None = None  # None: markers are only those that are given

    def prepare(
        self,
        fields: Mapping[str, Any],
        *,
        id: str,  # noqa: A002 - the field's name
        count: Callable[[str], int] | None = None,
        where: str = "",
        internal: bool = False,
    ) -> Draft:
        """`prepare` under this policy."""
        return prepare(
            fields,
            redactor=self.redactor,
            never_store_kinds=self.never_store_kinds,
            marker=self.marker,
            id=id,
            count=count,
            where=where,
            internal=internal,
        )


def prepare(
    fields: Mapping[str, Any],
    *,
    redactor: Redactor,
    never_store_kinds: tuple[str, ...],
    id: str,  # noqa: A002 - the field's name
    count: Callable[[str], int] | None,
    where: str = "",
    internal: bool = False,
    marker: Marker | None = None,
) -> Draft:
    """Turn what a caller gave into a draft, or raise InputError and store nothing.

    `id` serves where fields has none. `count` gives the tokens of the whole text;
    None leaves them out. `marker` finds markers in the redacted text of what no marker was given
    for, not even an empty list of them. The same arguments give the same bytes.
    """
    line = collect(fields, internal=internal, where=where)
    kind = line["kind"]
    text, blocks = without_blocks(line.get("text", ""))
    if blocks:
        line["text"] = text
        line["data"] = {**line.get("data", {}), "recalled": blocks}
    if kind in never_store_kinds and not internal:
        raise InputError(
            f"`{kind}` is never stored: privacy.yaml names it in store.never_store_kinds; "
            "record another kind, or take it off that list",
            where=f"{where}.kind" if where else "kind",
        )
    _refuse_secrets(line, redactor, where)
    text = _redact(line, redactor)
    if marker is not None and not internal:
        _mark(line, text, marker, given=fields.get("markers") is not None)
    if count is not None:
        line["tokens"] = count(text)
    given_id, ts = line.pop("id", None), line.pop("ts", None)
    rest = _serialised(line)
    body = None
    if len(rest) + LOG_ADDS > LINE_MAX:
        body = text.encode()
        line["text"] = body[:HEAD_BYTES].decode(errors="ignore")
        digest = hashlib.sha256(body).hexdigest()
        line["data"] = {**line.get("data", {}), "body": {"sha256": digest, "bytes": len(body)}}
        rest = _serialised(line)
    get = line.get
    return Draft(
        id if given_id is None else given_id,
        given_id is not None,
        ts,
        kind,
        get("ns", GLOBAL),
        get("role"),
        get("session"),
        get("key"),
        text,
        rest,
        body,
    )


def cleaned(text: str) -> str:
    """A text as the log would hold it but for redaction: storable, without quoted blocks."""
    return without_blocks(Cleaner().text(text))[0]


def same(event: Event, draft: Draft, redactor: Redactor, whole_text: str) -> bool:
    """Whether a draft repeats an event: equal kind, ns, role, session, key and text.

    The stored text is redacted as today before the comparison, so that a stricter
    policy does not make a repeat look like other content.
    """
    return (
        event.kind == draft.kind
        and event.ns == draft.ns
        and event.role == draft.role
        and event.session == draft.session
        and event.key == draft.key
        and (whole_text == draft.text or redactor.redact(whole_text)[0] == draft.text)
    )


def _mark(line: dict[str, Any], text: str, marker: Marker, *, given: bool) -> None:
    """Add the markers that the text carries to an event that came with none, and name them.

    `data.marked` says that this was decided: [] where the caller said that there are none.
    """
    data = line.get("data", {})
    if "markers" in line or "marked" in data:
        return
    found = marker.find(text, line.get("role"), line["kind"])
    if found:
        if not given:
            line["markers"] = list(found)
        line["data"] = {**data, "marked": [] if given else list(found)}


def _serialised(line: dict[str, Any]) -> bytes:
    ordered = {name: line[name] for name in _REST if name in line}
    return encode(ordered)[1:-1].encode()


def _refuse_secrets(line: dict[str, Any], redactor: Redactor, where: str) -> None:
    """Refuse secrets in identifiers: they are compared, and a mask would break them."""
    for name in _IDENTIFIERS:
        value = line.get(name)
        if value is not None and redactor.in_name(value):
            raise _secret_in(name, where)
    for name in ("refs", "markers"):
        for number, value in enumerate(line.get(name, ())):
            if redactor.in_name(value):
                raise _secret_in(f"{name}[{number}]", where)


def _secret_in(name: str, where: str) -> InputError:
    return InputError(
        "holds what looks like a secret, a provider's token or what privacy.yaml masks (not "
        "repeated here); identifiers are stored as they are: use one without secrets",
        where=f"{where}.{name}" if where else name,
    )


def _redact(line: dict[str, Any], redactor: Redactor) -> str:
    """Redact text, tags and data in place, note the counts, and give back the text."""
    text, counts = redactor.redact(line.get("text", ""))
    if counts:
        line["text"] = text
    if "tags" in line:
        line["tags"] = [_short(redactor.redact(tag), tag, counts) for tag in line["tags"]]
    data = line.get("data")
    if data is not None:
        # What memplane writes itself: counts by rule have names like `jwt`, never secrets.
        own = {key: data[key] for key in ("redactions", "replaced", "body") if key in data}
        data, found = redactor.redact_data({k: v for k, v in data.items() if k not in own})
        line["data"] = data = {**data, **own}
        _add(counts, found)
    if counts:
        total = dict(data.get("redactions", {})) if data else {}
        _add(total, counts)
        line["data"] = {**(data or {}), "redactions": dict(sorted(total.items()))}
    return text


def _short(redacted: tuple[str, dict[str, int]], before: str, counts: dict[str, int]) -> str:
    after, found = redacted
    _add(counts, found)
    if after == before or len(after) <= TAG_MAX:
        return after
    # Several marks can outgrow a tag; one says enough.
    return f"[redacted:{min(found).partition(':')[0]}]"


def _add(counts: dict[str, int], found: Mapping[str, int]) -> None:
    for rule, number in found.items():
        counts[rule] = counts.get(rule, 0) + number
