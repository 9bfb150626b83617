"""What happens to an event before the log: checked, redacted, marked, counted, serialised.

Pure: nothing here reads a clock, a file or the environment. The fields that a caller gives become a
`Draft` that the log only has to number and chain. The order is fixed: check every field, clean the
text, redact, mark, count, serialise. So a secret that a rule knows never reaches a byte that is
written.

`schemas/event.schema.json` says the same of the fields for other languages (its `$defs/input`);
the tests hold the two together. This one is here because it is fast and because its messages say
what to do. Each field gets its stored form: strings and data that a line of the log can hold, times
as `2026-01-05T12:17:31.459000Z`, so that they compare as strings.

The skeleton of a line or name is what it looks like without its invisible characters, after those
of Unicode's UTS #39: default-ignorable code points, control and format characters and terminal
sequences are removed, compatibility forms fold (NFKC), and letters of other scripts that look like
Latin ones become these. Two texts with one skeleton look alike. The tables are those of Unicode 3.2
and of this file, so the result is the same under every Python.

An agent that echoes the block it was given would have it recorded, and retrieved again, in each
turn. So a block whose checksum verifies is moved out of the text into a file of its own, which the
event names in `data.recalled`. The checksum contains no secret: anybody can write such a block. So
it is moved only out of what a person or an agent says (messages of role user or assistant) and out
of results of memplane's own tools and commands. In any other event it stays where it is: in the
output of a tool, in a statement, in words of the system.

The log adds seq, dur, id, ts, rec and h around `Draft.rest`; a text that would make the line longer
than LINE_MAX goes to a body, and the line keeps its head.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import InputError
from memplane.event import (
    CUSTOM_KIND,
    CUSTOM_MARKER,
    DATA_BYTES_MAX,
    FIELDS,
    GLOBAL,
    IMPORTANCE_DEFAULT,
    KINDS,
    MARKERS,
    PROJECTS,
    REFS_MAX,
    ROLES,
    SENSITIVITIES,
    TYPED_KINDS,
    UPKEEP_KINDS,
    Draft,
    Event,
    encode,
    is_kind,
    same_place,
)
from memplane.intake.markers import Marker, marker_of
from memplane.intake.redact import Redactor, masked, quoted_value
from memplane.lazy import NamedTuple, regex, word_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime


__all__ = [
    "Intake",
    "Marker",
    "PreparedText",
    "Redactor",
    "check_whole",
    "cleaned",
    "marker_of",
    "namespace",
    "normalise",
    "prepare",
    "same",
    "time_bound",
    "timestamp",
]


# Escape sequences of terminals: CSI, OSC with its text, the other string controls, two characters.
_SEQUENCE: Final = regex(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
# Controls but tab and newline, default-ignorable code points, other formats, what stands for
# something that could not be read or shown.
_UNSEEN: Final = regex(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffd\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_BEYOND_ASCII: Final = regex(r"[^\x00-\x7f]")
_COMBINING: Final = "".join(
    map(chr, (*range(0x300, 0x370), *range(0x20D0, 0x2100), *range(0xFE20, 0xFE30)))
)
# Of other scripts what looks like a Latin letter or a colon, and letters of later versions of
# Unicode than the normalisation knows.
_LIKE: Final = {
    "a": "\u0430\u03b1\u0251\u0410\u0391\u1d00",
    "b": "\u0412\u0392\u0299",
    "c": "\u0441\u0421\u03f9\u1d04",
    "d": "\u0501\u1d05",
    "e": "\u0435\u0415\u0395\u1d07",
    "f": "\ua730",
    "g": "\u0261\u0262",
    "h": "\u04bb\u041d\u0397\u029c",
    "i": "\u0456\u0406\u03b9\u0399\u0131\u026a\u0130",
    "j": "\u0458\u0408\u1d0a",
    "k": "\u041a\u039a\u03ba\u043a\u1d0b",
    "l": "\u04cf\u04c0\u029f\u01c0",
    "m": "\u041c\u039c\u1d0d",
    "n": "\u0578\u039d\u0274",
    "o": "\u043e\u041e\u03bf\u039f\u1d0f",
    "p": "\u0440\u0420\u03c1\u03a1\u1d18",
    "r": "\u0280",
    "s": "\u0455\u0405\ua731",
    "t": "\u0422\u03a4\u03c4\u0442\u1d1b",
    "u": "\u03c5\u057d\u1d1c",
    "v": "\u03bd\u1d20",
    "w": "\u051d\u1d21",
    "x": "\u0445\u0425\u03a7",
    "y": "\u0443\u0423\u04ae\u04af\u03a5\u028f",
    "z": "\u0396\u1d22",
    " ": "\u1680",
    ":": "\u2236\ua789\u02d0\u05c3\u0589\u1804",
    "<": "\u2039\u3008\u2329",
}
_LETTERS_FROM: Final = (0x1F130, 0x1F150, 0x1F170, 0x1F1E6)  # squared, circled, flags
# What a client or a model calls those who speak. Who is called so speaks in their place.
_ROLES: Final = frozenset(("user", "assistant", "system", "tool", "human"))
_DAY: Final = regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SEPARATORS: Final = regex("[\u2028\u2029]+")
_NO_LETTER: Final = regex(
    "[\x00-/:-@\\[-`{-\xbf\u2000-\u206f\u2190-\u2bff\u3000-\u3020\ufe30-\ufe6f\U0001f300-\U0001faff]+"
)


@lru_cache(maxsize=1)
def _table() -> dict[int, str]:
    table = {ord(one): letter for letter, like in _LIKE.items() for one in like}
    for start in _LETTERS_FROM:
        table.update({start + at: chr(ord("a") + at) for at in range(26)})
    return table


def skeleton(text: str) -> str:
    """The skeleton of a text: lower case, without default-ignorable characters or leading blanks.

    Two texts that look alike have the same skeleton (Unicode UTS #39).
    """
    if not text.isprintable():
        text = _UNSEEN.sub("", _SEQUENCE.sub("", text))
    if not text.isascii():
        from unicodedata import ucd_3_2_0  # noqa: PLC0415 - English goes without

        text = ucd_3_2_0.normalize("NFKC", _UNSEEN.sub("", text).translate(_table()))
        text = text.lstrip(f"{_COMBINING} \t\n")
    return text.lower().lstrip()


def hides_nothing(text: str) -> bool:
    """Whether each line of a text is its own skeleton but for case, without control characters.

    A quick test that holds for nearly every text in any script; where it fails, compare skeletons.
    """
    return text.isascii() or all(map(_is_inert, set(_BEYOND_ASCII.findall(text))))


@lru_cache(maxsize=8192)
def _is_inert(char: str) -> bool:
    among = f"x{char}x"
    return not char.isspace() and char not in _COMBINING and skeleton(among) == among.lower()


@lru_cache(maxsize=1024)
def imitated(name: str) -> str | None:
    """The role (`user`, `assistant`, ...) that a name reads like; None where it reads like none.

    Characters between the letters are ignored.
    """
    letters = _NO_LETTER.sub("", skeleton(name))
    return letters if letters in _ROLES else None


def permitted_actor(name: str, role: str | None) -> str | None:
    """The name in a form that is accepted as an actor, for importers, which cannot ask for another.

    None where the name says no more than the role does.
    """
    name = _SEPARATORS.sub(" ", name)
    read = imitated(name)
    if read is None:
        return name
    return f"actor {read}" if read != role else None


def with_permitted_actor(row: dict[str, Any]) -> dict[str, Any]:
    """The row of an imported event with its actor in a form that is accepted."""
    actor = row.get("actor")
    if not isinstance(actor, str):
        return row
    permitted = permitted_actor(actor, row.get("role"))
    return row if permitted == actor else {**row, "actor": permitted}


NAME_MAX: Final = 128  # session, task, actor, ids and the last part of ns
KEY_MAX: Final = 256
TAGS_MAX: Final = 32
TAG_MAX: Final = 64
MARKERS_MAX: Final = 16
TEXT_BYTES_MAX: Final = 64 * 1024 * 1024
OWN_KINDS: Final = frozenset(
    ("purge", "repair", "segment", "project")
)  # memplane alone writes these

_GIVEN_BY_THE_LOG: Final = frozenset(("seq", "dur", "rec", "tokens", "h"))
_CALLERS_FIELDS: Final = tuple(name for name in FIELDS if name not in _GIVEN_BY_THE_LOG)

_ID: Final = regex(r"[!-~]{1,128}")
_CHECKSUM: Final = regex(r"[0-9a-f]{16}")
_CONTROL: Final = regex("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_SEPARATOR: Final = regex("[\u2028\u2029]")
_NS_HEADS: Final = (PROJECTS, "/task/", "/spec/", "/agent/")


def normalise(
    fields: Mapping[str, Any], *, internal: bool = False, where: str = ""
) -> dict[str, Any]:
    """The fields in the order and form of the log, without defaults except `kind`.

    None counts as not given. `internal` accepts what only memplane writes: kinds of OWN_KINDS and
    `data.body`. Raises InputError for the first field that is not valid; `where` stands before the
    field's name in its message (`rows[3]`).
    """
    taken = collect(fields, internal=internal, where=where)
    return {name: taken[name] for name in _CALLERS_FIELDS if name in taken}


def collect(fields: Mapping[str, Any], *, internal: bool, where: str) -> dict[str, Any]:
    """The fields checked and cleaned as by `normalise`, in the order in which they were given."""
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
            f"found {quoted_value(actor)}, which reads like the role `{read}`; expected the name "
            "of who "
            "speaks: give another name, or leave it out and say it by `role`",
            where=prefix + "actor",
        )


_BY_COMMAND: Final = {"repair": " (`memplane repair`)", "project": " (`memplane projects`)"}
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
    if not (few and all(map(is_marker, marked))):
        raise InputError(
            "expected the markers that were found in the text; memplane writes this key: "
            "leave it out",
            where=f"{where}.marked",
        )


def is_checksum(value: Any) -> bool:
    """Whether a value is a checksum alone, as earlier versions named a quoted block."""
    return isinstance(value, str) and _CHECKSUM.fullmatch(value) is not None


def is_marker(value: Any) -> bool:
    """Whether a value is a marker that an event can have."""
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
        f"unknown field {quoted_value(name)}; expected one of: {', '.join(_CALLERS_FIELDS)}"
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
        else quoted_value(value)
    )


def namespace(value: str | None, *, where: str = "ns") -> None:
    """Raise InputError where a namespace is not well formed; None (all namespaces) is accepted.

    For reads: a misspelt namespace would look like one in which nothing was ever stored.
    """
    if value is not None and value != GLOBAL:
        _ns(value, where, Cleaner())


def _kind(value: Any, where: str, _: Cleaner) -> str:
    # Kinds that commands write are accepted too, but not offered.
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
        f"found {_found(value)}; expected /global, /project/<name>, /task/<id>, "
        "/spec/<name> or /agent/<id>",
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


# Events about other events: what names those, and how to come to one without writing it by hand.
_ABOUT: Final = {
    "forget": ("data.forget", "`memplane forget` or `unforget` writes one"),
    "pin": ("refs", "`memplane pin` or `unpin` writes one"),
    "touch": ("refs", "`memplane touch` writes one"),
}
# Characters: who hides more of them than that wrote something.
_UNSEEN_MAX: Final = 256


def check_whole(fields: Mapping[str, Any], kind: str, where: str = "") -> None:
    """Raise InputError for an event whose valid fields together say nothing.

    These are a message without visible text and without data; a statement without a key and without
    visible text; an event about others that names none; an event that is valid at no time.
    """
    prefix = f"{where}." if where else ""
    if kind == "message" or kind in TYPED_KINDS:
        text, names = str(fields.get("text") or ""), fields.get("data")
        if kind != "message":
            names = names or fields.get("key") or not text
        if not names and _is_blank(text):
            raise InputError(f"a {kind} without text and data says nothing", where=f"{prefix}text")
    elif kind in _ABOUT:
        target, instead = _ABOUT[kind]
        named = fields.get("refs")
        if kind == "forget":
            named = (fields.get("data") or {}).get("forget")
            named = isinstance(named, Mapping) and named
        if not named:
            raise InputError(
                f"a `{kind}` event names what it is about in {target}, this one names nothing; "
                f"{instead}",
                where=f"{prefix}kind",
            )
    begin, end = fields.get("valid_from"), fields.get("valid_until")
    if begin is not None and end is not None and timestamp(begin) > timestamp(end):
        raise InputError(
            f"lies after valid_until ({timestamp(end)}): the event would be valid at no time",
            where=f"{prefix}valid_from",
        )


def _is_blank(text: str) -> bool:
    """Whether a text has no visible character."""
    return not text.strip() or (len(text) <= _UNSEEN_MAX and not skeleton(text))


DATA_DEPTH_MAX: Final = 32
# Of a place in data, its keys apart by NUL, until secrets are masked in it for an error.
_PATH_MAX: Final = 4096
_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**64 - 1
# Characters that are looked at at once: encoded, or replaced one by one, they take several times
# their room.
PART: Final = 1 << 18
# No value takes more bytes of JSON than this, and six for each of its characters.
_ITEM_BYTES: Final = 32
_UNSTORABLE: Final = regex("[\0\ud800-\udfff]")


class Cleaner:
    """Cleans the strings of one event and counts the characters that were replaced."""

    __slots__ = ("_bound", "replaced")

    def __init__(self) -> None:
        self.replaced = 0
        self._bound = 0  # bytes that the data seen so far can take at most

    def text(self, text: str) -> str:
        """The text with U+FFFD for NUL and lone surrogates, on which JSON readers disagree."""
        if "\0" not in text:
            if text.isascii():
                return text
            try:
                for at in range(0, len(text), PART):
                    text[at : at + PART].encode()
            except UnicodeEncodeError:
                pass
            else:
                return text
        cleaned = []
        for at in range(0, len(text), PART):
            part, number = _UNSTORABLE.subn("\ufffd", text[at : at + PART])
            cleaned.append(part)
            self.replaced += number
        return "".join(cleaned)

    def data(self, value: Any, where: str) -> dict[str, Any]:
        """A value converted to JSON types; InputError names the place of any other type."""
        if not isinstance(value, Mapping):
            raise InputError(
                f"found {type(value).__name__}; expected an object with string keys", where=where
            )
        self._bound = _ITEM_BYTES
        out = self._object(value, where, 1)
        size = len(encode(out).encode()) if self._bound > DATA_BYTES_MAX else 0
        if size > DATA_BYTES_MAX:
            raise InputError(
                f"found {size} bytes of JSON; expected at most {DATA_BYTES_MAX}; "
                "put what a model would read into text",
                where=where,
            )
        return out

    def _object(self, value: Mapping[Any, Any], where: str, depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise InputError(
                    f"found a key of type {type(key).__name__}; expected a string",
                    where=_shown(where),
                )
            self._bound += 6 * len(key)
            out[self.text(key)] = self._any(item, where, key, depth + 1)
        return out

    def _any(self, value: Any, where: str, key: object, depth: int) -> Any:
        self._bound += _ITEM_BYTES
        if isinstance(value, str):
            self._bound += 6 * len(value)
            return self.text(str(value))
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return int(value) if _INT_MIN <= value <= _INT_MAX else str(int(value))
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else _NOT_FINITE[repr(float(value))]
        return self._nested(value, f"{where}\0{key}"[:_PATH_MAX], depth)

    def _nested(self, value: Any, where: str, depth: int) -> Any:
        if not isinstance(value, Mapping | list | tuple):
            raise InputError(
                f"found {type(value).__name__}; expected JSON: "
                "null, boolean, number, string, list or object",
                where=_shown(where),
            )
        if depth > DATA_DEPTH_MAX:
            raise InputError(
                f"nested deeper than {DATA_DEPTH_MAX} levels; store it as text instead",
                where=_shown(where)[:80],
            )
        if isinstance(value, Mapping):
            return self._object(value, where, depth)
        return [self._any(item, where, number, depth + 1) for number, item in enumerate(value)]


def _shown(where: str) -> str:
    """A place in data for an error: its keys came from outside, and a secret may be one."""
    return ".".join(masked(key) for key in where.split("\0"))[:200]


_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


_RFC3339: Final = regex(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?:\.([0-9]{1,9}))?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_NO_ZONE: Final = regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ][0-9:.]*)?")
_EXPECTED: Final = "expected RFC 3339 with a zone, such as 2026-01-05T12:17:31Z"


def timestamp(value: str | datetime, *, where: str = "ts") -> str:
    """A time in UTC, RFC 3339 with six decimals; finer digits are cut off, never rounded up.

    Raises InputError for a time without a zone, a leap second, a date that does not exist, and a
    year outside 0001 to 9999 in UTC.
    """
    from datetime import UTC, datetime  # noqa: PLC0415 - most events come without a time

    if isinstance(value, datetime):
        moment = value
    elif isinstance(value, str):
        moment = _parsed(value, where)
    else:
        found = type(value).__name__
        raise InputError(f"found a value of type {found}; {_EXPECTED}", where=where)
    if moment.utcoffset() is None:
        raise InputError(
            f"the time has no zone (naive); {_EXPECTED}, or a datetime with tzinfo", where=where
        )
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:
        raise InputError(
            "in UTC the time lies outside the years 0001 to 9999; give one inside", where=where
        ) from None
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def time_bound(value: str | datetime, *, where: str, last: bool = False) -> str:
    """A bound of a choice by time, as `timestamp`; a day alone is its beginning in UTC.

    `last`: it is the end of the choice, so that a day is its last microsecond.
    """
    if isinstance(value, str) and _DAY.fullmatch(value) is not None:
        value = f"{value}T{'23:59:59.999999' if last else '00:00:00'}Z"
    return timestamp(value, where=where)


def _parsed(value: str, where: str) -> datetime:
    from datetime import UTC, datetime, timedelta, timezone  # noqa: PLC0415 - likewise

    match = _RFC3339.fullmatch(value)
    if match is None:
        reason = "no zone (naive)" if _NO_ZONE.fullmatch(value) else "no time that can be read"
        raise InputError(f"found {reason}; {_EXPECTED}", where=where)
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    if second == 60:
        raise InputError(
            "a leap second (:60) has no place in an ordered log; give :59.999999 instead",
            where=where,
        )
    fraction, sign, zone_hours, zone_minutes = match.groups()[6:]
    micros = int(fraction.ljust(6, "0")[:6]) if fraction else 0
    zone = UTC
    if sign is not None:
        if int(zone_minutes) > 59:
            raise InputError(f"the zone has more than 59 minutes; {_EXPECTED}", where=where)
        offset = timedelta(hours=int(zone_hours), minutes=int(zone_minutes))
        if offset >= timedelta(days=1):
            raise InputError(f"the zone is a day or more; {_EXPECTED}", where=where)
        zone = timezone(-offset if sign == "-" else offset)
    try:
        return datetime(year, month, day, hour, minute, second, micros, tzinfo=zone)
    except ValueError as error:
        raise InputError(f"no such time ({error}); {_EXPECTED}", where=where) from None


RECALLED_MAX: Final = 16  # files of one event; the last one holds all further blocks
_BEGIN: Final = "memplane:begin\n"
_MARK: Final = regex(r"(?m)^memplane:(?:begin\n|end ([0-9a-f]{16})(?:\n|\Z))")
_SPEAKERS: Final = ("user", "assistant")
_OWN_SERVER: Final = regex(r"(?:^|_)memplane$")
# Tools that run one command line, as Claude Code, Codex and chats name them.
_SHELLS: Final = word_set("""
    Bash bash shell local_shell shell_command exec_command container.exec
""")
_COMMAND_MAX: Final = 1_000  # characters
# One program whose output nothing else can mix with: no pipe, chain, substitution or redirection
# but of its errors. What is harder to read than this is not taken for memplane's own.
_WORD: Final = r"""(?:[A-Za-z0-9_@%+=:,./~-]|'[^']*'|"[^"$`\\]*")"""
_OWN_COMMAND: Final = regex(
    rf"[ \t]*(?:memplane|python[0-9.]{{0,5}}[ \t]+-m[ \t]+memplane)(?:[ \t]+{_WORD}+)*"
    r"(?:[ \t]+2>(?:&1|[ \t]?/dev/null))?[ \t\n]*"
)
_PIECE: Final = 1 << 20  # characters that are encoded at once


def moves_blocks(line: Mapping[str, Any]) -> bool:
    """Whether quoted blocks are moved out of the text of an event with these fields."""
    kind = line.get("kind")
    if kind == "message":
        return line.get("role") in _SPEAKERS
    data = line.get("data")
    if kind != "tool_result" or not data:
        return False
    tool = data.get("tool")
    return isinstance(tool, str) and (
        is_own_tool(tool) or is_own_command(tool, data.get("command"))
    )


def is_own_tool(tool: str) -> bool:
    """Whether a tool is one of memplane's MCP server: `mcp__memplane__memory_search`."""
    *server, name = tool.split("__")
    return bool(name) and any(_OWN_SERVER.search(part) for part in server)


def is_own_command(tool: str, command: object) -> bool:
    """Whether a shell tool ran memplane and nothing else, by its command line."""
    return (
        tool in _SHELLS
        and isinstance(command, str)
        and len(command) <= _COMMAND_MAX
        and _OWN_COMMAND.fullmatch(command) is not None
    )


def parted(line: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The text of an event without its quoted blocks, and the blocks in the order of the text."""
    text = line.get("text", "")
    if _BEGIN not in text or not moves_blocks(line):
        return text, []
    return without_blocks(text)


def without_blocks(text: str) -> tuple[str, list[str]]:
    """A text without the blocks quoted in it, and these blocks with their marks; one pass.

    At most RECALLED_MAX blocks are returned: the last one holds all further blocks in sequence.
    """
    if _BEGIN not in text:
        return text, []
    found: list[str] = []
    further: list[str] = []
    kept: list[str] = []
    at, begin = 0, None
    for mark in _MARK.finditer(text):
        if mark[1] is None:
            begin = mark  # no line inside a block looks like a mark, so the nearest one opens it
        elif begin is not None:
            if _checksum(text, begin.end(), mark.start()) == mark[1]:
                block = text[begin.start() : mark.end()]
                (found if len(found) < RECALLED_MAX - 1 else further).append(block)
                kept.append(text[at : begin.start()])
                at = mark.end()
            begin = None
    if not found:
        return text, []
    kept.append(text[at:])
    return "".join(kept), [*found, "".join(further)] if further else found


def checksums(blocks: Iterable[str]) -> list[str]:
    """The checksums in the end marks of blocks, in their order."""
    return [mark[1] for block in blocks for mark in _MARK.finditer(block) if mark[1] is not None]


def _checksum(text: str, start: int, end: int) -> str:
    """The checksum of a part of the text, as a block states it."""
    digest = hashlib.sha256()
    for at in range(start, end, _PIECE):
        digest.update(text[at : min(at + _PIECE, end)].encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]


LINE_MAX: Final = 1024 * 1024
LOG_ADDS: Final = 300  # seq, dur, id (up to 128), ts, rec, h and their names
HEAD_BYTES: Final = 4096

_IDENTIFIERS: Final = ("id", "session", "task", "actor", "key", "ns")
_REST: Final = FIELDS[FIELDS.index("kind") : FIELDS.index("h")]
# Keys of data that memplane writes itself: names of rules, counts, hashes; never secrets.
_OWN_DATA: Final = ("redactions", "replaced", "body", "recalled")


class PreparedText(NamedTuple):
    """The text of an event as it would be stored, and the SHA-256 of each block moved out of it.

    `before` is the form of versions that stored no blocks: the text, then the checksums of the
    blocks. It equals `text` without checksums where no block is quoted.
    """

    text: str
    recalled: tuple[str, ...]
    before: tuple[str, tuple[str, ...]]


class Intake(NamedTuple):
    """The part of the privacy policy that acts before an event is stored; built once a policy."""

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
        recalled: Sequence[str] = (),
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
            recalled=recalled,
        )

    def said(self, fields: Mapping[str, Any]) -> PreparedText:
        """The stored form of the text of these fields, which need not have been checked."""
        redact = self.redactor.redact
        whole = Cleaner().text(str(fields.get("text") or ""))
        text, blocks = parted({**fields, "kind": fields.get("kind", "message"), "text": whole})
        masked = redact(text)[0]
        digests = tuple(_digest(redact(block)[0].encode()) for block in blocks)
        before, removed = without_blocks(whole)
        if not removed:
            return PreparedText(masked, digests, (masked, ()))
        before = masked if blocks else redact(before)[0]
        return PreparedText(masked, digests, (before, tuple(checksums(removed))))


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
    recalled: Sequence[str] = (),
) -> Draft:
    """Turn the fields of an event into a draft. Raises InputError, and then nothing is stored.

    `id` is used where the fields have none. `count` gives the tokens of the whole text; None leaves
    them out. `marker` finds markers in the redacted text where the fields have no `markers`, not
    even an empty list. `recalled` are blocks that the caller moved out of the text. The same
    arguments give the same bytes.
    """
    line = collect(fields, internal=internal, where=where)
    kind = line["kind"]
    text, blocks = parted(line)
    if blocks:
        line["text"] = text
    if recalled:
        blocks = [*recalled, *blocks]
    if kind in never_store_kinds and not internal:
        raise InputError(
            f"`{kind}` is never stored: privacy.yaml names it in store.never_store_kinds; "
            "record another kind, or take it off that list",
            where=f"{where}.kind" if where else "kind",
        )
    _refuse_secrets(line, redactor, where)
    text, moved = _redact(line, redactor, blocks)
    if marker is not None and not internal:
        _mark(line, text, marker, given=fields.get("markers") is not None)
    if count is not None:
        line["tokens"] = count(text)
    given_id, ts = line.pop("id", None), line.pop("ts", None)
    rest, body = _written(line, text)
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
        moved,
    )


def cleaned(text: str) -> str:
    """What a user says in its stored form but for redaction: valid text without quoted blocks."""
    return without_blocks(Cleaner().text(text))[0]


def same(
    event: Event,
    draft: Draft,
    redactor: Redactor,
    whole_text: Callable[[], str],
    recalled: Callable[[], Sequence[str | None]] = tuple,
) -> bool:
    """Whether a draft repeats a stored event: equal kind, ns, role, session, key, text and blocks.

    Namespaces are compared by `same_place`. The stored text is redacted by today's rules first, so
    that a stricter policy does not make a repeat look like other content. `whole_text` loads the
    text and is called only if the hash of a body does not decide; `recalled` loads the blocks that
    were moved out of the stored text, None for a lost one. An event of a version that stored
    checksums instead of blocks is repeated by its text alone, or by the text with blocks of those
    checksums.
    """
    if not same_place(event.ns, draft.ns) or (event.kind, event.role, event.session, event.key) != (
        draft.kind,
        draft.role,
        draft.session,
        draft.key,
    ):
        return False
    named = event.data.get("recalled")
    named = named if isinstance(named, list) else []
    text = draft.text
    if named and all(isinstance(one, str) for one in named):
        text, left = without_blocks(text)
        found = checksums([*(block.decode() for block in draft.recalled), *left])
        if found and found != named:
            return False
    elif (named or draft.recalled) and not _same_blocks(named, draft, redactor, recalled):
        return False
    if draft.body is not None and text is draft.text:
        stored_as = event.data.get("body")
        if isinstance(stored_as, dict) and stored_as.get("sha256") == _digest(draft.body):
            return True
    stored = whole_text()
    return stored == text or redactor.redact(stored)[0] == text


def _same_blocks(
    named: Sequence[Any],
    draft: Draft,
    redactor: Redactor,
    recalled: Callable[[], Sequence[str | None]],
) -> bool:
    """Whether a draft brings the blocks that an event names."""
    digests = [one.get("sha256") for one in named if isinstance(one, dict)]
    if digests == [_digest(block) for block in draft.recalled]:
        return True
    redact = redactor.redact
    stored = [None if block is None else redact(block)[0].encode() for block in recalled()]
    return stored == list(draft.recalled)


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _mark(line: dict[str, Any], text: str, marker: Marker, *, given: bool) -> None:
    """Add the markers found in the text to an event without any, and name them.

    `data.marked` records that this was decided: [] where the caller passed no markers.
    """
    data = line.get("data", {})
    if "markers" in line or "marked" in data:
        return
    found = marker.find(text, line.get("role"), line["kind"])
    if found:
        if not given:
            line["markers"] = list(found)
        line["data"] = {**data, "marked": [] if given else list(found)}


def _written(line: dict[str, Any], text: str) -> tuple[bytes, bytes | None]:
    """The line, and the whole text as a body where a line cannot hold it: then it has its head.

    A text of more characters than a line has bytes is not serialised to find that out.
    """
    if len(text) <= LINE_MAX:
        rest = _serialised(line)
        if len(rest) + LOG_ADDS <= LINE_MAX:
            return rest, None
    body = text.encode()
    line["text"] = body[:HEAD_BYTES].decode(errors="ignore")
    named = {"sha256": _digest(body), "bytes": len(body)}
    line["data"] = {**line.get("data", {}), "body": named}
    return _serialised(line), body


def _serialised(line: dict[str, Any]) -> bytes:
    ordered = {name: line[name] for name in _REST if name in line}
    return encode(ordered)[1:-1].encode()


def _refuse_secrets(line: dict[str, Any], redactor: Redactor, where: str) -> None:
    """Refuse secrets in identifiers: they are compared, and a mask would break them."""
    for name in _IDENTIFIERS:
        value = line.get(name)
        if value is not None and redactor.in_name(value):
            raise _secret_in(name, where)
    if line["kind"].startswith(CUSTOM_KIND) and redactor.in_name(line["kind"]):
        raise _secret_in("kind", where)
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


def _redact(
    line: dict[str, Any], redactor: Redactor, blocks: Sequence[str]
) -> tuple[str, tuple[bytes, ...]]:
    """Redact text, tags and data in place, note the counts; give back the text, and the blocks.

    `blocks` were moved out of the text: they are named in data by what is left of them.
    """
    text, counts = redactor.redact_value(line.get("key") or "", line.get("text", ""))
    if counts:
        line["text"] = text
    moved = tuple(_masked(redactor.redact(block), counts) for block in blocks)
    if moved:
        data = line.get("data", {})
        names = [{"sha256": _digest(one), "bytes": len(one), "lines": _lines(one)} for one in moved]
        line["data"] = {**data, "recalled": [*data.get("recalled", ()), *names]}
    if "tags" in line:
        line["tags"] = [_short(redactor.redact(tag), tag, counts) for tag in line["tags"]]
    data = line.get("data")
    if data is not None:
        own = {key: data[key] for key in _OWN_DATA if key in data}
        data, found = redactor.redact_data({k: v for k, v in data.items() if k not in own})
        line["data"] = data = {**data, **own}
        _add(counts, found)
    if counts:
        total = dict(data.get("redactions", {})) if data else {}
        _add(total, counts)
        line["data"] = {**(data or {}), "redactions": dict(sorted(total.items()))}
    return text, moved


def _lines(block: bytes) -> int:
    return block.count(b"\n") + (not block.endswith(b"\n"))


def _masked(redacted: tuple[str, dict[str, int]], counts: dict[str, int]) -> bytes:
    text, found = redacted
    _add(counts, found)
    return text.encode()


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
