"""Check what a caller gives for an event, field by field, and bring it to its stored form.

`schemas/event.schema.json` says the same for other languages (its `$defs/input`);
the tests hold the two together. This one is here because it is fast and because
its messages say what to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from memplane.errors import InputError
from memplane.event import (
    CUSTOM_KIND,
    CUSTOM_MARKER,
    FIELDS,
    GLOBAL,
    IMPORTANCE_DEFAULT,
    KINDS,
    MARKERS,
    REFS_MAX,
    ROLES,
    SENSITIVITIES,
    UPKEEP_KINDS,
    is_kind,
)
from memplane.intake.redact import shown
from memplane.intake.skeleton import imitated
from memplane.intake.times import timestamp
from memplane.intake.values import PART, Cleaner
from memplane.lazy import regex

__all__ = [
    "KEY_MAX",
    "NAME_MAX",
    "OWN_KINDS",
    "TEXT_BYTES_MAX",
    "check",
    "collect",
    "is_checksum",
    "namespace",
    "normalise",
]

NAME_MAX: Final = 128  # session, task, actor, ids and the last part of ns
KEY_MAX: Final = 256
TAGS_MAX: Final = 32
TAG_MAX: Final = 64
MARKERS_MAX: Final = 16
TEXT_BYTES_MAX: Final = 64 * 1024 * 1024
OWN_KINDS: Final = frozenset(("purge", "repair", "segment"))  # memplane alone writes these

_GIVEN_BY_THE_LOG: Final = frozenset(("seq", "dur", "rec", "tokens", "h"))
_CALLERS_FIELDS: Final = tuple(name for name in FIELDS if name not in _GIVEN_BY_THE_LOG)

_ID: Final = regex(r"[!-~]{1,128}")
_CHECKSUM: Final = regex(r"[0-9a-f]{16}")
_CONTROL: Final = regex("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_SEPARATOR: Final = regex("[\u2028\u2029]")
_NS_HEADS: Final = ("/task/", "/spec/", "/agent/")


def check(fields: Mapping[str, Any], *, internal: bool = False, where: str = "") -> None:
    """Raise InputError for the first field that cannot be taken; see `normalise`."""
    normalise(fields, internal=internal, where=where)


def normalise(
    fields: Mapping[str, Any], *, internal: bool = False, where: str = ""
) -> dict[str, Any]:
    """Bring the fields to the log's order and form, defaults left out except `kind`.

    None counts as not given. `internal` lets through what only memplane writes: the
    kinds of OWN_KINDS and `data.body`. `where` goes before the field in errors (`rows[3]`).
    """
    taken = collect(fields, internal=internal, where=where)
    return {name: taken[name] for name in _CALLERS_FIELDS if name in taken}


def collect(fields: Mapping[str, Any], *, internal: bool, where: str) -> dict[str, Any]:
    """Do the work of `normalise`, in the order given: for a caller that orders later."""
    prefix = f"{where}." if where else ""
    cleaner = Cleaner()
    taken: dict[str, Any] = {}
    for name, value in fields.items():
        field = _FIELD_CHECKS.get(name)
        if field is None:
            raise _unknown(name, where)
        if value is not None:
            taken[name] = field(value, prefix + name, cleaner)
    _whole(taken, prefix, cleaner, internal=internal)
    return taken


def _whole(taken: dict[str, Any], prefix: str, cleaner: Cleaner, *, internal: bool) -> None:
    """Decide what no field can alone: defaults, memplane's own kinds, the count replaced."""
    kind = taken.setdefault("kind", "message")
    if kind in OWN_KINDS and not internal:
        raise InputError(
            f"`{kind}` events are written by memplane alone{_BY_COMMAND.get(kind, '')}; "
            "record another kind",
            where=prefix + "kind",
        )
    if not internal:
        _check_labels(taken, prefix)
    if "ns" not in taken and "task" in taken:
        taken["ns"] = f"/task/{taken['task']}"
    for name, default in _DEFAULTS:
        if name in taken and taken[name] == default:
            del taken[name]
    data = taken.get("data")
    if data is not None:
        _own_data(data, prefix + "data", internal=internal)
    if cleaner.replaced:
        data = taken.setdefault("data", {})
        data["replaced"] = data.get("replaced", 0) + cleaner.replaced


def _check_labels(taken: dict[str, Any], prefix: str) -> None:
    """Refuse what a block would print as a label of its own: a second line, an actor like a role.

    Whatever its case, width or unseen characters. Events of earlier versions may have such names.
    """
    for name in ("actor", "key"):
        if name in taken and _SEPARATOR.search(taken[name]) is not None:
            raise InputError(
                "found a line or paragraph separator (U+2028, U+2029); expected a name on one line",
                where=prefix + name,
            )
    actor, role = taken.get("actor"), taken.get("role")
    if actor is None or actor == role:
        return
    read = imitated(actor)
    if read is not None:
        raise InputError(
            f"found {shown(actor)}, which reads like the role `{read}`; expected the name of who "
            "speaks: give another name, or leave it out and say it by `role`",
            where=prefix + "actor",
        )


_BY_COMMAND: Final = {"repair": " (`memplane repair`)"}
_DEFAULTS: Final[tuple[tuple[str, Any], ...]] = (
    ("ns", GLOBAL),
    ("text", ""),
    ("tags", []),
    ("markers", []),
    ("refs", []),
    ("sensitivity", "normal"),
    ("importance", IMPORTANCE_DEFAULT),
    ("data", {}),
)


def _own_data(data: dict[str, Any], where: str, *, internal: bool) -> None:
    """Hold the keys of data that memplane writes itself to their form: readers trust it."""
    if "body" in data and not internal:
        raise InputError(
            "memplane itself writes this key, for text that is stored apart; "
            "give yours another name, such as `content`",
            where=f"{where}.body",
        )
    if not _is_count(data.get("replaced", 1)):
        raise InputError(
            "found something else than a count; memplane writes this key: leave it out",
            where=f"{where}.replaced",
        )
    recalled = data.get("recalled", [])
    if not internal and not (isinstance(recalled, list) and all(map(is_checksum, recalled))):
        raise InputError(
            "expected checksums of 16 hex digits; memplane writes this key: leave it out",
            where=f"{where}.recalled",
        )
    redactions = data.get("redactions", {})
    if not isinstance(redactions, dict) or not all(map(_is_count, redactions.values())):
        raise InputError(
            "expected counts by rule; memplane writes this key: leave it out",
            where=f"{where}.redactions",
        )
    marked = data.get("marked", [])
    few = isinstance(marked, list) and len(marked) <= MARKERS_MAX
    if not (few and all(map(_is_marker, marked))):
        raise InputError(
            "expected the markers that were found in the text; memplane writes this key: "
            "leave it out",
            where=f"{where}.marked",
        )


def is_checksum(value: Any) -> bool:
    """Whether a value names a quoted block as earlier versions did: by its checksum alone."""
    return isinstance(value, str) and _CHECKSUM.fullmatch(value) is not None


def _is_marker(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    name = value.removeprefix(CUSTOM_MARKER)
    if name == value:
        return value in MARKERS
    return 0 < len(name) <= TAG_MAX and _CONTROL.search(name) is None


def _is_count(value: Any) -> bool:
    whole = isinstance(value, int | float) and not isinstance(value, bool) and value == int(value)
    return whole and 1 <= value <= 2**53


def _unknown(name: object, where: str) -> InputError:
    if name in _GIVEN_BY_THE_LOG:
        return InputError(
            f"`{name}` is set by the log and cannot be given; leave it out", where=where
        )
    return InputError(
        f"unknown field {shown(name)}; expected one of: {', '.join(_CALLERS_FIELDS)}"
        f"{_suggestion(name, _CALLERS_FIELDS)}",
        where=where,
    )


def _suggestion(value: object, known: tuple[str, ...]) -> str:
    import difflib  # noqa: PLC0415 - only mistakes pay for it

    word = value[:64].lower() if isinstance(value, str) else ""
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


def _found(value: Any) -> str:
    kind = type(value).__name__
    return (
        f"a value of type {kind}"
        if isinstance(value, Mapping | list | tuple | bytes)
        else shown(value)
    )


def namespace(value: str | None, *, where: str = "ns") -> None:
    """Raise InputError for what is no namespace; None, for all of them, is fine.

    For what reads: a misspelt one would be a place where nothing was ever stored.
    """
    if value is not None and value != GLOBAL:
        _ns(value, where, Cleaner())


def _kind(value: Any, where: str, _: Cleaner) -> str:
    # What commands write is taken too, and offered to nobody.
    if isinstance(value, str) and is_kind(value):
        return str(value)
    raise InputError(
        f"found {_found(value)}; expected one of: {', '.join(_RECORDED_KINDS)}, "
        f"{CUSTOM_KIND}<name>{_suggestion(value, _RECORDED_KINDS)}",
        where=where,
    )


def _one_of(known: tuple[str, ...]) -> Callable[[Any, str, Cleaner], str]:
    allowed = frozenset(known)

    def field(value: Any, where: str, _: Cleaner) -> str:
        if isinstance(value, str) and value in allowed:
            return str(value)
        raise InputError(
            f"found {_found(value)}; expected one of: {', '.join(known)}"
            f"{_suggestion(value, known)}",
            where=where,
        )

    return field


def _name(most: int) -> Callable[[Any, str, Cleaner], str]:
    def field(value: Any, where: str, _: Cleaner) -> str:
        if (
            isinstance(value, str)
            and 0 < len(value) <= most
            and (value.isprintable() or _CONTROL.search(value) is None)
        ):
            return str(value)
        reason = f"{len(value)} characters" if isinstance(value, str) else _found(value)
        if isinstance(value, str) and 0 < len(value) <= most:
            reason = "a control character or lone surrogate"
        raise InputError(
            f"found {reason}; expected 1 to {most} characters without control characters",
            where=where,
        )

    return field


def _id(value: Any, where: str, _: Cleaner) -> str:
    if isinstance(value, str) and _ID.fullmatch(value):
        return str(value)
    reason = f"{len(value)} characters" if isinstance(value, str) else _found(value)
    raise InputError(
        f"found {reason}; expected an id of 1 to {NAME_MAX} printable ASCII characters "
        "without space",
        where=where,
    )


def _time(value: Any, where: str, _: Cleaner) -> str:
    return timestamp(value, where=where)


def _ns(value: Any, where: str, cleaner: Cleaner) -> str:
    if value == GLOBAL:
        return GLOBAL
    if isinstance(value, str):
        for head in _NS_HEADS:
            if value.startswith(head):
                _NAME(value[len(head) :], where, cleaner)
                return str(value)
    raise InputError(
        f"found {_found(value)}; expected /global, /task/<id>, /spec/<name> or /agent/<id>",
        where=where,
    )


def _text(value: Any, where: str, cleaner: Cleaner) -> str:
    if not isinstance(value, str):
        hint = "decode the bytes first" if isinstance(value, bytes) else "give it as a string"
        raise InputError(f"found {_found(value)}; expected text: {hint}", where=where)
    text = cleaner.text(str(value))
    # Four bytes a character at most, so that short texts are not encoded to be measured.
    if len(text) > TEXT_BYTES_MAX // 4 and _utf8_bytes(text) > TEXT_BYTES_MAX:
        raise InputError(
            f"found more than {TEXT_BYTES_MAX} bytes of UTF-8; store the file as an artifact",
            where=where,
        )
    return text


def _utf8_bytes(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(len(text[at : at + PART].encode()) for at in range(0, len(text), PART))


def _list_of(
    item: Callable[[Any, str, Cleaner], str], most: int
) -> Callable[[Any, str, Cleaner], list[str]]:
    def field(value: Any, where: str, cleaner: Cleaner) -> list[str]:
        if not isinstance(value, list | tuple):
            raise InputError(f"found {_found(value)}; expected a list of strings", where=where)
        if len(value) > most:
            raise InputError(f"found {len(value)} entries; expected at most {most}", where=where)
        return [item(each, f"{where}[{number}]", cleaner) for number, each in enumerate(value)]

    return field


def _marker(value: Any, where: str, cleaner: Cleaner) -> str:
    if value in MARKERS:
        return str(value)
    if isinstance(value, str) and value.startswith(CUSTOM_MARKER):
        _TAG(value[len(CUSTOM_MARKER) :], where, cleaner)
        return str(value)
    raise InputError(
        f"found {_found(value)}; expected one of: {', '.join(MARKERS)}, {CUSTOM_MARKER}<name>"
        f"{_suggestion(value, MARKERS)}",
        where=where,
    )


def _importance(value: Any, where: str, _: Cleaner) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1000:
        return int(value)
    # With a point it is a part of 1: 2.0 is a mistake, not two thousandths.
    if isinstance(value, float) and 0 <= value <= 1:
        return math.floor(value * 1000 + 0.5)
    raise InputError(
        f"found {_found(value)}; expected an integer from 0 to 1000 or a float from 0 to 1",
        where=where,
    )


def _data(value: Any, where: str, cleaner: Cleaner) -> dict[str, Any]:
    return cleaner.data(value, where)


_OTHER_KINDS: Final = (*UPKEEP_KINDS, "secret")  # by commands; never stored by the shipped policy
_RECORDED_KINDS: Final = tuple(kind for kind in KINDS if kind not in _OTHER_KINDS)
_NAME: Final = _name(NAME_MAX)
_TAG: Final = _name(TAG_MAX)
_FIELD_CHECKS: Final[dict[str, Callable[[Any, str, Cleaner], Any]]] = {
    "id": _id,
    "ts": _time,
    "kind": _kind,
    "ns": _ns,
    "session": _NAME,
    "task": _NAME,
    "actor": _NAME,
    "role": _one_of(ROLES),
    "text": _text,
    "key": _name(KEY_MAX),
    "tags": _list_of(_TAG, TAGS_MAX),
    "markers": _list_of(_marker, MARKERS_MAX),
    "refs": _list_of(_id, REFS_MAX),
    "sensitivity": _one_of(SENSITIVITIES),
    "importance": _importance,
    "valid_from": _time,
    "valid_until": _time,
    "data": _data,
}
