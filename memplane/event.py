"""The event: what happened. Everything else in memplane is folded from events.

The log holds one event a line, as one JSON object in the field order of
`FIELDS`; defaults are left out, so a line costs what it says and no more.

Keys of `data` that memplane writes itself: `redactions` and `replaced` (counts), `marked`, `body`
({sha256, bytes}: the whole text of an event whose line holds its head), and `recalled`: the quoted
blocks that were moved out of the text, each {sha256, bytes, lines} of a file in bodies/. Events of
earlier versions have the checksums of their blocks there, 16 hex digits, and no files. A change
names what it took the place of: `updates` (ids that it forgot), `undoes` (ids that it takes back),
`restores` (the id of the value that holds again) and `confirms` (the id of what a user confirmed).
Relations that a caller states stand in `relations`: a name to a list of ids.
"""

from __future__ import annotations

import json
from enum import StrEnum
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from memplane.lazy import NamedTuple, Protocol, TypedDict, word_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

TYPED_KINDS: Final = word_table("""
    fact decision observation plan summary preference rule insight
""")
# Written by memplane about its own log: never shown in a block, never superseding anything.
UPKEEP_KINDS: Final = ("forget", "pin", "touch", "purge", "repair", "segment", "project")
KINDS: Final = (
    "message",
    "tool_call",
    "tool_result",
    *TYPED_KINDS,
    "task",
    "artifact",
    "approval",
    "session",
    "episode",
    *UPKEEP_KINDS[:-1],
    "secret",
    UPKEEP_KINDS[-1],  # last, as indexes know a kind by its place
)
# And with any name behind it, for what others' logs have: no memory, shown as turns are.
CUSTOM_KIND: Final = "custom:"
ROLES: Final = ("user", "assistant", "tool", "system")
SENSITIVITIES: Final = ("low", "normal", "high", "secret")


class MarkerType(StrEnum):
    """What an event is beside its kind. A marker of one's own is a text: `custom:<name>`."""

    DECISION = "decision"
    CONSTRAINT = "constraint"
    FAILURE = "failure"
    GOAL = "goal"


MARKERS: Final = tuple(marker.value for marker in MarkerType)
CUSTOM_MARKER: Final = "custom:"
# What a user wants of the work at hand: it can be found by this, and nothing lifts or recalls it.
WISH_MARKER: Final = "custom:wish"
GLOBAL: Final = "/global"
PROJECTS: Final = "/project/"  # how the namespace of a project begins
IMPORTANCE_DEFAULT: Final = 500
REFS_MAX: Final = 256
_PROJECT_DIGITS: Final = 8
DATA_BYTES_MAX: Final = 64 * 1024

FIELDS: Final = word_table("""
    seq dur id ts rec kind ns session task actor role text key tags markers refs sensitivity
    importance tokens valid_from valid_until data h
""")


class Event(NamedTuple):
    """One line of the log.

    `seq` is given by the log, dense from 1, and is the only order memplane
    trusts. `ts` is for people: clocks run backwards, sequence numbers do not.
    Times are RFC 3339 in UTC with six decimals, so they compare as strings.
    """

    seq: int
    id: str
    ts: str
    rec: str
    kind: str
    ns: str = GLOBAL
    session: str | None = None
    task: str | None = None
    actor: str | None = None
    role: str | None = None
    text: str = ""
    key: str | None = None  # a later event of the same ns and key supersedes this one
    tags: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()  # ids of other events
    sensitivity: str = "normal"
    importance: int = IMPORTANCE_DEFAULT  # 0..1000
    tokens: int | None = (
        None  # of the whole text, as counted at write time; None: a light process wrote it
    )
    valid_from: str | None = None
    valid_until: str | None = None
    data: dict[str, Any] = {}  # noqa: RUF012 - read only, and most events have none
    dur: int = 0  # highest seq of this segment that the writer knew to be synced
    h: str = ""

    @property
    def said_by(self) -> str | None:
        """Who says so: one of SPEAKERS, None where nothing says it; see `said_by`."""
        return said_by(self.kind, self.role, self.actor, self.id)


class AnyEventFields(TypedDict, total=False):
    """What a caller may say of an event whatever records it; None is as good as nothing said.

    Times are RFC 3339 or aware datetimes; `importance` is 0 to 1000, or 0.0 to 1.0.
    """

    key: str | None
    ns: str | None
    actor: str | None
    role: str | None
    tags: Iterable[str] | None
    markers: Iterable[str] | None
    sensitivity: str | None
    importance: float | None
    ts: str | datetime | None
    valid_from: str | datetime | None


class EventFields(AnyEventFields, total=False):
    """What a caller may say of an event beside its text; `refs` are ids or seqs of others."""

    kind: str | None
    session: str | None
    task: str | None
    refs: Iterable[str | int] | None
    valid_until: str | datetime | None
    data: Mapping[str, Any] | None
    id: str | None


class Draft(NamedTuple):
    """A checked and redacted event on its way to the log, which adds seq, dur, rec and h.

    `rest` is the serialised line from `"kind"` to the last field, without braces.
    """

    id: str
    id_given: bool  # by the caller: a repeat must be recognised
    ts: str | None  # None: the time of recording
    kind: str
    ns: str
    role: str | None
    session: str | None
    key: str | None
    text: str  # the whole text after redaction
    rest: bytes
    body: bytes | None = (
        None  # text too large for a line: goes to bodies/ before the line is written
    )
    recalled: tuple[bytes, ...] = ()  # blocks moved out of the text: to bodies/, as a body is


# Who says so. A reader trusts a user's word, and weighs what an agent inferred, a tool printed or a
# model made of turns.
SPEAKERS: Final = ("user", "agent", "tool", "model", "person")
PERSON: Final = "person:"  # how the actor of what another person's device said begins
REFLECTOR: Final = "reflector:"  # how the actor of what a model made of turns begins
RELAYED: Final = "mcp:"  # how the id of what an agent stores through MCP begins
VOUCHED: Final = "agent:"  # and of what an agent says in a program that a user confirmed
_BY_ROLE: Final = {"user": "user", "assistant": "agent", "tool": "tool"}


def said_by(kind: str, role: str | None, actor: str | None, id: str) -> str | None:  # noqa: A002
    """Return who says what an event says: one of SPEAKERS; None where its fields do not tell.

    Of the event alone, so it never changes: a user who confirms a statement says it anew. A user's
    role counts before everything else, as a confirmation keeps the rest of what it confirms.
    """
    if role == "user":
        return "user"
    if actor is not None and actor.startswith(REFLECTOR):
        return "model"
    if actor is not None and actor.startswith(PERSON):
        return "person"
    if role is None:
        if kind == "tool_result":
            return "tool"
        return "agent" if kind == "tool_call" or id.startswith(RELAYED) else None
    return _BY_ROLE.get(role)


def relayed_by(id: str) -> str | None:  # noqa: A002
    """Return by what way an agent relays what an event says: `mcp`, `agent`, None for no agent.

    The id of the event says so, and the id of what restates it.
    """
    return id.partition(":")[0] if id.startswith((RELAYED, VOUCHED)) else None


def speaker_mark(kind: str, role: str | None, actor: str | None, id: str) -> str:  # noqa: A002
    """Return the word that marks a statement in blocks: `agent`, `tool` or `model`, "" for none.

    Of another person it is `person:` and the name. A user's statement needs none, nor do turns,
    whose labels name who speaks.
    """
    if kind not in TYPED_KINDS:
        return ""
    by = said_by(kind, role, actor, id)
    if by == "person" and actor is not None:
        return actor
    return "" if by is None or by == "user" else by


class Relation(NamedTuple):
    """What one memory has to do with another: the name of the relation, and the other's id."""

    name: str
    id: str


class SourceInfo(NamedTuple):
    """Where a statement is from, as its event says it.

    `said_by`: one of SPEAKERS or None. `actor`: who is named; `through`: `mcp` or `agent`
    where an agent relays it. Of what a model made: the episode, how sure it was (0 to 1) and the
    SHA-256 of the prompt. `tool`: what printed or imported it.
    """

    said_by: str | None
    actor: str | None = None
    through: str | None = None
    episode: str | None = None
    confidence: float | None = None
    prompt: str | None = None
    tool: str | None = None


def source_of(event: Event) -> SourceInfo:
    """Return where an event is from."""
    get = event.data.get
    sure = get("confidence")
    return SourceInfo(
        event.said_by,
        event.actor,
        relayed_by(event.id),
        _word(get("episode")),
        float(sure) if isinstance(sure, int | float) and not isinstance(sure, bool) else None,
        _word(get("prompt")),
        _word(get("tool")),
    )


def relations_of(event: Event) -> tuple[Relation, ...]:
    """Return how an event relates to others, at most REFS_MAX, each other event once a relation.

    What memplane wrote (`confirms`, `updates`, `restores`), what a caller stated in
    `data.relations`, and the rest of `refs`: `derived_from` where the event was made of them, else
    `refers_to`.
    """
    found: dict[Relation, None] = {}
    stated = event.data.get("relations")
    named = {name: event.data.get(name) for name in ("confirms", "updates", "restores")}
    for name, ids in [*named.items(), *(stated.items() if isinstance(stated, dict) else ())]:
        each = [ids] if isinstance(ids, str) else ids if isinstance(ids, list) else []
        found.update((Relation(name, id_), None) for id_ in each if isinstance(id_, str))
    known = {one.id for one in found}
    derived = event.data.get("derived") is True or event.data.get("extract") is True
    rest = "derived_from" if derived else "refers_to"
    found.update((Relation(rest, ref), None) for ref in event.refs if ref not in known)
    return tuple(found)[:REFS_MAX]


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def is_extract(event: Event) -> bool:
    """Whether it is a generated summary, which quotes the events in its `refs`."""
    return event.kind == "summary" and event.data.get("extract") is True


def is_derived(event: Event) -> bool:
    """Whether it was made by rules of the events in its `refs`, and goes where they go."""
    return is_extract(event) or event.data.get("derived") is True


def lifting(markers: Iterable[str]) -> tuple[str, ...]:
    """Return the markers that may lift an event: all but `WISH_MARKER`."""
    return tuple(marker for marker in markers if marker != WISH_MARKER)


def same_place(ns: str, other: str) -> bool:
    """Whether two namespaces are no reason to take a repeated id for another event.

    Equal, or one is a project's and the other one's too, or `/global`: which project a session is
    of was told apart only from some day on, and is corrected later.
    """
    if ns == other:
        return True
    parted = ns.startswith(PROJECTS), other.startswith(PROJECTS)
    return all(parted) or (any(parted) and GLOBAL in (ns, other))


def bare_project(ns: str) -> str:
    """Return the name of a project without its digits: `app` of `/project/app-1a2b3c4d`."""
    last = ns.removeprefix(PROJECTS)
    name, dash, digits = last.rpartition("-")
    plain = len(digits) == _PROJECT_DIGITS and all(one in "0123456789abcdef" for one in digits)
    return name if dash and plain and name else last


def is_kind(kind: str) -> bool:
    """Whether an event may be of that kind.

    One of KINDS, or CUSTOM_KIND and a name: 1 to 64 ASCII letters, digits, `_`, `.` and `-`, with
    a letter or digit first.
    """
    if kind in KINDS:
        return True
    name = kind.removeprefix(CUSTOM_KIND)
    plain = name.isascii() and all(one.isalnum() or one in "_.-" for one in name)
    return name != kind and plain and 0 < len(name) <= _KIND_NAME_MAX and name[0].isalnum()


class EventSource(Protocol):
    """The fields of an event that whatever is written from it keeps."""

    @property
    def id(self) -> str: ...
    @property
    def sensitivity(self) -> str: ...
    @property
    def valid_from(self) -> str | None: ...
    @property
    def valid_until(self) -> str | None: ...


def inherited(sources: Sequence[EventSource]) -> dict[str, Any]:
    """Return the fields that an event made from the text of others takes over from them.

    `sensitivity` is the highest of theirs, `valid_from` the latest, `valid_until` the earliest,
    `refs` are their ids, at most REFS_MAX. No sources give no fields.
    """
    if not sources:
        return {}
    fields: dict[str, Any] = {
        "sensitivity": max((one.sensitivity for one in sources), key=SENSITIVITIES.index),
        "refs": list(dict.fromkeys(one.id for one in sources))[:REFS_MAX],
    }
    begins = [one.valid_from for one in sources if one.valid_from is not None]
    ends = [one.valid_until for one in sources if one.valid_until is not None]
    fields |= {"valid_from": max(begins)} if begins else {}
    return fields | ({"valid_until": min(ends)} if ends else {})


def at_least(sensitivity: str, row: Mapping[str, Any]) -> dict[str, str]:
    """Return the sensitivity for a row that may not be less sensitive; what is no word stays."""
    given = row.get("sensitivity") or _NORMAL
    if given not in SENSITIVITIES:
        return {}
    highest = max(sensitivity, given, key=SENSITIVITIES.index)
    return {} if highest == given else {"sensitivity": highest}


# What parsing and `decode` raise for a line that memplane did not write, though it may verify.
NO_EVENT: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
_NORMAL: Final = "normal"
_KIND_NAME_MAX: Final = 64
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_quoted = json.encoder.encode_basestring


def encode(fields: dict[str, Any]) -> str:
    """Serialise fields in the order given; the only writer of log JSON in memplane."""
    # Most are texts and numbers; an encoder that is made for each call costs more than they do.
    parts = [
        f"{_quoted(name)}:{_quoted(value)}"
        if type(value) is str
        else f"{_quoted(name)}:{value if type(value) is int else _ENCODER.encode(value)}"
        for name, value in fields.items()
    ]
    return f"{{{','.join(parts)}}}"


def encode_text(text: str) -> str:
    """The text as it stands in a line that `encode` writes, quotes included."""
    return _quoted(text)


def decode(fields: dict[str, Any]) -> Event:
    """Build an event from a parsed line; fields that a newer memplane added are ignored.

    Raises one of NO_EVENT where a field is missing or of another type than memplane writes.
    """
    # Every line that is read passes here, and a log knows few forms of lines: which types are there
    # and where each field stands, or that it is as usual, is found out once for each.
    form = (*fields, *map(type, fields.values()))
    in_order = _FORMS.get(form) or _form(form)
    event: Event = tuple.__new__(Event, in_order((*fields.values(), *_USUAL)))
    if "tags" in fields or "markers" in fields or "refs" in fields:
        tags, markers, refs = tuple(event.tags), tuple(event.markers), tuple(event.refs)
        if not all(isinstance(one, str) for one in (*tags, *markers, *refs)):
            raise TypeError("tags, markers, refs: expected texts")
        event = event._replace(tags=tags, markers=markers, refs=refs)
    return event if event.rec is not None else event._replace(rec=fields["ts"])


def _form(form: tuple[Any, ...]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """What puts a line's values, with the usual ones behind them, in the order of an event.

    `form`: the names of a line's fields, then the types of their values.
    """
    names, types = form[: len(form) // 2], form[len(form) // 2 :]
    for name, found in zip(names, types, strict=True):
        if found not in _TYPES.get(name, (found,)):
            raise TypeError(f"{name}: expected {_TYPES[name][0].__name__}, found {found.__name__}")
    stands = {name: at for at, name in enumerate(names)}
    for name in _REQUIRED:
        _ = stands[name]
    stands.setdefault("rec", stands["ts"])
    usual = range(len(names), len(names) + len(_USUAL))
    places = [stands.get(name, at) for name, at in zip(Event._fields, usual, strict=True)]
    made: Callable[[tuple[Any, ...]], tuple[Any, ...]] = itemgetter(*places)
    if len(_FORMS) < _FORMS_MAX:  # what others write may have any number of them
        _FORMS[form] = made
    return made


_NOTHING: Final = type(None)
_TEXTS: Final = ("session", "task", "actor", "role", "key", "rec", "valid_from", "valid_until")
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    **dict.fromkeys(("id", "ts", "kind", "ns", "text", "sensitivity", "h"), (str,)),
    **dict.fromkeys(_TEXTS, (str, _NOTHING)),
    **dict.fromkeys(("seq", "dur", "importance"), (int,)),
    **dict.fromkeys(("tags", "markers", "refs"), (list, tuple)),
    "tokens": (int, _NOTHING),
    "data": (dict,),
}
_REQUIRED: Final = ("seq", "id", "ts", "kind")
_USUAL: Final = tuple(Event._field_defaults.get(name) for name in Event._fields)
_FORMS: Final[dict[tuple[Any, ...], Callable[[tuple[Any, ...]], tuple[Any, ...]]]] = {}
_FORMS_MAX: Final = 1000
