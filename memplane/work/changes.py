"""Changes to memories: update, undo, pin, touch, evict, and the writes of agents.

Forget events by name, or by what describes them, with the summaries that quote them.

What describes: tags, words, a span of time, a project, a kind, a namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from memplane.clock import ulid
from memplane.context.calls import Receipt, check_texts, texts_of_argument
from memplane.context.folds import text_of
from memplane.errors import ConflictError, CorruptError, InputError, LockError, NotFoundError
from memplane.event import (
    GLOBAL,
    IMPORTANCE_DEFAULT,
    KINDS,
    REFS_MAX,
    TYPED_KINDS,
    UPKEEP_KINDS,
    VOUCHED,
    Event,
    at_least,
    is_derived,
    is_extract,
    relayed_by,
)
from memplane.intake import namespace, normalise, time_bound, timestamp
from memplane.intake.redact import quoted_value, unexpected
from memplane.lazy import NamedTuple, Protocol, TypedDict, regex, word_set
from memplane.projections.in_force import EVICTED, forget_of
from memplane.projections.ledger import states_decision
from memplane.recall.score import FADING_KINDS, LASTING
from memplane.recall.suppress import is_pattern, within

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memplane.context.context import PlaneContext
    from memplane.context.event_access import EventAccess
    from memplane.context.folds import Folds
    from memplane.log import FileLog
    from memplane.ports import Appended, Progress
    from memplane.projections.memories import Memories


def summaries_quoting(
    log: FileLog, folds: Folds, field: str, value: str, ns: str, *, undo: bool
) -> list[str]:
    """Return the ids of the summaries that are to be forgotten with what is named, or to come back.

    A summary quotes events of its own session alone, so a session takes its own along by name,
    as a source does those of its importer. One comes back if nothing else that it quotes is
    forgotten.
    """
    return summaries_of(
        log, folds, _forget_named(log, folds, field, value, ns, undo=undo), undo=undo
    )


def summaries_of(log: FileLog, folds: Folds, events: Iterable[Event], *, undo: bool) -> list[str]:
    """The same for events that are at hand."""
    named: dict[str, dict[str, int]] = {}  # by session, with their seqs
    for event in events:
        if event.session is not None:
            named.setdefault(event.session, {})[event.id] = event.seq
    return [
        one.id
        for session, ids in named.items()
        for one in (
            *_summaries(log, folds, session, undo=undo),
            *_derived(log, folds, session, min(ids.values())),
        )
        if not ids.keys().isdisjoint(one.refs)
        and one.id not in ids
        and not (undo and _quotes_more(log, folds, one, set(ids)))
    ]


def _derived(log: FileLog, folds: Folds, session: str, first: int) -> Iterator[Event]:
    """What rules made of a session's events behind a seq: decisions, tasks."""
    facts = folds.sessions.state.sessions.get(session)
    last = log.head().seq if facts is None else facts.last_seq
    for line in log.read(first, min(last, first + _DERIVED_WITHIN)):
        event = line.event
        if event.session == session and is_derived(event) and not is_extract(event):
            yield event


def _forget_named(
    log: FileLog, folds: Folds, field: str, value: str, ns: str, *, undo: bool
) -> Iterator[Event]:
    if field == "id":
        line = log.find(value)
        if line is not None:
            yield line.event
    elif field == "key":
        versions = folds.memories.history(ns, value)
        for row in versions[-1:] if undo else versions:
            line = log.line(row.seq)
            if line is not None:
                yield line.event
    elif field == "source":
        for line in log.read():
            if line.event.id.startswith(f"{value}:"):
                yield line.event


def _summaries(log: FileLog, folds: Folds, session: str, *, undo: bool) -> Iterator[Event]:
    """The session's summaries in force; of those that may come back, the newest."""
    if undo:
        facts = folds.sessions.state.sessions.get(session)
        seqs = [facts.summary] if facts is not None and facts.summary else []
    else:
        key = f"session/{session}/summary"
        seqs = [row.seq for row in folds.memories.keys(key, None) if row.key == key]
    for seq in seqs:
        line = log.line(seq)
        if line is not None and is_extract(line.event):
            yield line.event


def _quotes_more(log: FileLog, folds: Folds, summary: Event, ids: set[str]) -> bool:
    """Whether another event that the summary quotes is forgotten."""
    for ref in summary.refs:
        line = None if ref in ids else log.find(ref)
        gone = None if line is None else folds.memories.archived(line.event)
        if gone is not None and gone[0] == "forgotten":
            return True
    return False


# How something is forgotten: what is named must be there, and what quotes it goes with it.
_DERIVED_WITHIN: Final = 5_000  # lines behind an event, in which stands what was made of it
_IDS_AT_ONCE: Final = 200  # of an event that forgets
_TRIES: Final = 5  # before somebody else writes


def forget(
    context: PlaneContext,
    named: dict[str, str | None],
    ns: str,
    reason: str,
    *,
    undo: bool,
    reader: EventAccess | None = None,
) -> Receipt:
    """Record a forget, or with `undo` an unforget; it must name at least one event.

    With a `reader` a key whose newest value it may not see has none.
    """
    context.check_open()
    namespace(ns)
    given = [(field, value) for field, value in named.items() if value is not None]
    if len(given) != 1:
        raise InputError("expected exactly one of key, id, session and source")
    (field, value) = given[0]
    check_texts(**{field: value}, reason=reason)
    what: dict[str, Any] = {field: value}
    context.take_in_waiting()
    if field == "key":
        with context.lock:
            _check_key(context.caught_up(), ns, value, reader, undo=undo)
        what["ns"] = ns
    elif field == "id":
        if context.log.find(value) is None:
            raise NotFoundError(f"no event {quoted_value(value)}")
        what = {"ids": [value]}
    elif not any(_is_of(line.event, field, value) for line in context.log.read()):
        raise NotFoundError(f"no event of {field} {quoted_value(value)}")
    for left in range(_TRIES, -1, -1):  # a session that ends meanwhile may quote what is named
        with context.lock:
            folds = context.caught_up()
            read = folds.memories.position
            if field == "key" and reader is not None:
                _check_key(folds, ns, value, reader, undo=undo)
            quoting = summaries_quoting(context.log, folds, field, value, ns, undo=undo)
        rows = [_forget_row(what, reason, undo=undo), *forget_rows(quoting, reason, undo=undo)]
        draft = context.drafting(internal=True)
        drafts = [draft(row, "") for row in rows]
        try:
            sure = left or reader is not None
            done = context.append(drafts, expected_seq=read.seq if read and sure else None)
            break
        except ConflictError:
            if not left:
                raise
    return Receipt(done[0], context.durability, context.log.line)


def _check_key(folds: Folds, ns: str, key: str, reader: EventAccess | None, *, undo: bool) -> None:
    history = folds.memories.history(ns, key)
    gone = not history or (not undo and history[-1].reason is not None)
    if gone or (reader is not None and not reader.shows_row(history[-1])):
        raise NotFoundError(f"no value under {quoted_value(key)} in {ns}")


def forget_rows(ids: list[str], reason: str, *, undo: bool = False) -> list[dict[str, Any]]:
    """Return rows that forget these ids: one event names a key or source, or ids, not both."""
    portions = (ids[at : at + _IDS_AT_ONCE] for at in range(0, len(ids), _IDS_AT_ONCE))
    return [_forget_row({"ids": some}, reason, undo=undo) for some in portions]


def _forget_row(named: dict[str, Any], reason: str, *, undo: bool) -> dict[str, Any]:
    again = {"undo": True} if undo else {}
    return {"kind": "forget", "text": reason, "data": {"forget": named, **again}}


def _is_of(event: Event, field: str, value: str | None) -> bool:
    if field == "session":
        return event.session == value and event.kind != "forget"
    return event.id.startswith(f"{value}:")


# Which events a forget or a purge takes that names none: by tag, words, time, kind and namespace.
#
# What lasts is kept unless it is asked for: decisions, rules, constraints and what is pinned.
# Tasks, sessions, artifacts and what memplane writes about its log are taken only where their kind
# is named.
_USUAL: Final = frozenset(("message", "tool_call", "tool_result", *TYPED_KINDS))
_LASTING_KINDS: Final = frozenset(("decision", "rule"))
_AGE: Final = regex(r"([0-9]{1,6})([smhdw])")
_WORDS: Final = regex(r"\w+")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_TOLD_EVERY: Final = 5_000  # events


class Pick(NamedTuple):
    """Which events to archive: those that match all that is given.

    One of the ids and of the tags, from `since` on and before `before`, a kind, a namespace, and
    every one of `words` in the whole text. `project`: the namespace is a project's that was named.
    """

    tags: tuple[str, ...]
    before: str | None
    kinds: tuple[str, ...]
    ns: str | None
    decisions: bool
    since: str | None = None
    words: frozenset[str] = frozenset()
    project: bool = False
    ids: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        now: str,
        *,
        tag: str | Iterable[str] | None,
        older_than: str | timedelta | None,
        kind: str | Iterable[str] | None,
        ns: str | None,
        decisions: bool,
        query: str | None = None,
        since: str | datetime | None = None,
        project: str | None = None,
        ids: str | Iterable[str] | None = None,
    ) -> Pick:
        """Check what a caller gave; raises InputError naming the argument."""
        kinds = texts_of_argument("kind", kind)
        for one in kinds:
            if (one not in KINDS and not one.startswith("custom:")) or one in UPKEEP_KINDS:
                raise unexpected("a kind of events", one, "kind")
        if ns is not None and project is not None and ns != project:
            raise InputError("expected one of ns and project, found both", where="ns")
        ns = project if ns is None else ns
        namespace(ns)
        tags = tuple(one.lower() for one in texts_of_argument("tag", tag))
        check_texts(**dict(zip(map(str, tags), tags, strict=True)), query=query)
        words = frozenset() if query is None else _words(query)
        if query is not None and not words:
            raise unexpected("words", query, "query")
        before = None if older_than is None else _moment_before(now, older_than)
        from_ = None if since is None else _since(now, since)
        chosen = frozenset(texts_of_argument("ids", ids))
        return cls(tags, before, kinds, ns, decisions, from_, words, project is not None, chosen)

    @property
    def narrows(self) -> bool:
        """Whether it names more than a kind and a namespace, which do not suffice."""
        times = self.before is not None or self.since is not None
        return bool(self.ids or self.tags or self.words) or times or self.project

    def names(self, event: Event) -> bool:
        """Whether the event matches, before `says` and `keeps` are asked."""
        return (
            (not self.ids or event.id in self.ids)
            and (event.kind in self.kinds if self.kinds else _is_usual(event.kind))
            and (self.before is None or event.ts < self.before)
            and (self.since is None or event.ts >= self.since)
            and (self.ns is None or event.ns == self.ns)
            and (not self.tags or any(tag.lower() in self.tags for tag in event.tags))
        )

    def says(self, event: Event, text: Callable[[Event], str]) -> bool:
        """Whether the whole text has every word; a text that is lost has none."""
        if not self.words:
            return True
        try:
            return self.words <= _words(text(event))
        except (CorruptError, NotFoundError):
            return False

    def keeps(self, event: Event, memories: Memories) -> bool:
        """Whether a matching event is kept all the same."""
        if self.decisions or event.kind in self.kinds:
            return False
        lasting = event.kind in _LASTING_KINDS or not LASTING.isdisjoint(event.markers)
        return lasting or memories.pinned(event)


class Forgotten(NamedTuple):
    """What was archived, in log order, and by which events; a dry run has none.

    `kept` counts the decisions, rules, constraints and pinned events that were named and stayed.
    """

    taken: tuple[Event, ...]
    kept: int
    receipts: tuple[Receipt, ...]


def forget_many(
    context: PlaneContext,
    given: dict[str, Any],
    reason: str,
    *,
    dry_run: bool,
    progress: Progress | None,
) -> Forgotten:
    """Archive the events in force that match; see `Plane.forget_many`."""
    check_texts(reason=reason)
    context.check_open()
    now = given.pop("now", None)
    pick = Pick.of(context.clock() if now is None else timestamp(now, where="now"), **given)
    if not pick.narrows:
        raise InputError("expected a tag, words, a time or a project, found none")
    if not dry_run:
        context.take_in_waiting()
    text = text_of(context.log)
    for left in range(_TRIES, -1, -1):
        with context.lock:
            folds = context.caught_up()
            read = folds.memories.position
            found = [
                event
                for event in _told(context, progress)
                if pick.names(event)
                and not context.is_elsewhere(event.ns)
                and folds.memories.archived(event) is None
                and pick.says(event, text)
            ]
            taken = [event for event in found if not pick.keeps(event, folds.memories)]
            kept = len(found) - len(taken)
            if dry_run or not taken:
                return Forgotten(tuple(taken), kept, ())
            named = {event.id for event in taken}
            quoting = summaries_of(context.log, folds, taken, undo=False)
        ids = [*(event.id for event in taken), *(one for one in quoting if one not in named)]
        draft = context.drafting(internal=True)
        drafts = [draft(row, "") for row in forget_rows(ids, reason)]
        try:
            done = context.append(drafts, expected_seq=read.seq if read and left else None)
        except ConflictError:
            if not left:
                raise
            continue
        receipts = (Receipt(one, context.durability, context.log.line) for one in done)
        return Forgotten(tuple(taken), kept, tuple(receipts))
    raise AssertionError("the last try returns or raises")


def _told(context: PlaneContext, progress: Progress | None) -> Iterator[Event]:
    head = context.log.head().seq
    for line in context.log.read():
        if progress is not None and line.event.seq % _TOLD_EVERY == 0:
            progress(line.event.seq, head)
        yield line.event


def _is_usual(kind: str) -> bool:
    return kind in _USUAL or kind.startswith("custom:")


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORDS.findall(text.casefold()))


def _since(now: str, since: str | datetime) -> str:
    """The time from which on events are meant: a time, or an age before now."""
    if isinstance(since, str) and _AGE.fullmatch(since) is not None:
        return _moment_before(now, since)
    return time_bound(since, where="since")


def _moment_before(now: str, older_than: str | timedelta) -> str:
    """The time before which events are old enough."""
    if isinstance(older_than, str):
        match = _AGE.fullmatch(older_than)
        if match is None:
            raise unexpected("a number and s, m, h, d or w (90d)", older_than, "older_than")
        older_than = timedelta(seconds=int(match[1]) * _SECONDS[match[2]])
    if not isinstance(older_than, timedelta) or older_than < timedelta(0):
        raise unexpected("an age", older_than, "older_than")
    try:
        return timestamp(datetime.fromisoformat(now) - older_than)
    except OverflowError:
        raise InputError("is longer than time goes back", where="older_than") from None


class Lookup(Protocol):
    """Looks up one event, or the value of a key; see `Plane`."""

    def event(self, id: str | int, /) -> Event: ...  # noqa: A002 - the field's name

    def get(self, key: str, ns: str, /) -> Event | None: ...


def pin_row(
    plane: Lookup,
    id: str | int | None,  # noqa: A002
    key: str | None,
    ns: str,
    *,
    undo: bool,
) -> dict[str, Any]:
    """Return the event that pins, or with `undo` takes the pin back; raises where nothing is named.

    A key means the value that it has now: its next value is not pinned.
    """
    again = {"data": {"undo": True}} if undo else {}
    return {"kind": "pin", "refs": [_named(plane, id, key, ns).id], **again}


def touch_row(plane: Lookup, id: str | int | None, key: str | None, ns: str) -> dict[str, Any]:  # noqa: A002
    """Return the event that touches; named as a pin names it."""
    return {"kind": "touch", "refs": [_named(plane, id, key, ns).id]}


def _named(plane: Lookup, id: str | int | None, key: str | None, ns: str) -> Event:  # noqa: A002
    if id is not None and key is None:
        return plane.event(id)
    if key is not None and id is None:
        value = plane.get(key, ns)
        if value is None:
            raise NotFoundError(f"no value under {quoted_value(key)} in {ns}")
        return value
    raise InputError("expected exactly one of id and key")


# Which memories have faded below a line, and the events that archive them.
#
# Only kinds that fade are taken, and of them no constraint and nothing that is pinned: a decision
# or a rule is never evicted. What is taken is archived as by `forget`, and comes back by
# `unforget`.
_EVICT_TRIES: Final = 5  # before somebody else writes
_ALL: Final = 1 << 62


class Evicted(NamedTuple):
    """A memory whose faded importance is below the threshold, and that importance (0 to 1000)."""

    event: Event
    importance: int


class Eviction(NamedTuple):
    """What was archived, in log order, and by which events; a dry run has none."""

    taken: tuple[Evicted, ...]
    receipts: tuple[Receipt, ...]


def evict(
    context: PlaneContext,
    below: float,
    *,
    ns: str | None,
    kind: str | None,
    now: Any,
    dry_run: bool,
    progress: Progress | None,
) -> Eviction:
    """Archive memories faded below the threshold. Raises InputError, ScopeError."""
    line = _line(below)
    if kind is not None and kind not in FADING_KINDS:
        known = ", ".join(FADING_KINDS)
        raise InputError(f"expected one of {known}; found {quoted_value(kind)}", where="kind")
    reader = context.reader("private", now, ns=ns)
    if not dry_run:
        context.take_in_waiting()
    for left in range(_EVICT_TRIES, -1, -1):
        with context.lock:
            folds = context.caught_up()
            read = folds.memories.position
            taken = tuple(_faded(folds, reader, line, ns, kind, progress))
        if dry_run or not taken:
            return Eviction(taken, ())
        try:
            # At the head that was read: nothing is archived that was touched meanwhile.
            return Eviction(taken, _write(context, taken, read.seq if read and left else None))
        except ConflictError:
            if not left:
                raise
    raise AssertionError("the last try returns or raises")


def _line(below: float) -> int:
    """An importance, as events have it: 0 to 1000, or a float from 0 to 1."""
    if below is None:
        raise InputError("expected an importance, found nothing", where="below")
    try:
        said = normalise({"importance": below}).get("importance", IMPORTANCE_DEFAULT)
    except InputError as error:
        raise InputError(str(error).removeprefix("importance: "), where="below") from None
    return int(said)


def _faded(
    folds: Folds,
    reader: EventAccess,
    line: int,
    ns: str | None,
    kind: str | None,
    progress: Progress | None,
) -> Iterator[Evicted]:
    memories, head = folds.memories, folds.log.head().seq
    one = None if ns is None or is_pattern(ns) else ns
    # Of a hundred thousand values most were replaced: one look at all keys instead of one at each.
    in_force = {row.seq for row in memories.keys(ns=one, limit=_ALL)}
    for each in folds.log.read():
        event = each.event
        if progress is not None and event.seq % _TOLD_EVERY == 0:
            progress(event.seq, head)
        if (
            event.kind not in FADING_KINDS
            or kind not in (None, event.kind)
            or not (ns is None or within(event.ns, (ns,)))
            or not LASTING.isdisjoint(event.markers)
            or reader.faded(event) >= line  # a touch or a pin could only raise it
            or not reader.in_time(event)
            or not reader.may_read(event)
            or memories.pinned(event)
        ):
            continue
        if event.key is None:
            gone = memories.archived(event) is not None
        else:
            gone = event.seq not in in_force
        left = line if gone else reader.faded(event, memories.touched(event))
        if left < line:
            yield Evicted(reader.emit(event), left)


def _write(
    context: PlaneContext, taken: tuple[Evicted, ...], expected_seq: int | None
) -> tuple[Receipt, ...]:
    ids = [one.event.id for one in taken]
    draft = context.drafting(internal=True)
    drafts = [
        draft(_row(ids[at : at + _IDS_AT_ONCE]), "") for at in range(0, len(ids), _IDS_AT_ONCE)
    ]
    done = context.append(drafts, expected_seq=expected_seq)
    return tuple(Receipt(one, context.durability, context.log.line) for one in done)


def _row(ids: list[str]) -> dict[str, Any]:
    return {"kind": "forget", "data": {"forget": {"ids": ids}, "reason": EVICTED}}


# A statement changed, and the last statement or forget taken back. The log only grows.
#
# An update records the statement anew, with what changes; without a key the old one is forgotten by
# the same append, and the new one names what was (`data.updates`, ids). What `undo` writes names
# the events that it takes back (`data.undoes`, ids), so that the next one goes further back. A
# value that had been replaced is recorded anew (`data.restores`, its id).


class UpdateFields(TypedDict, total=False):
    """What an update may change, as a record says it (`EventFields`)."""

    text: str
    importance: float
    tags: Iterable[str]
    markers: Iterable[str]
    sensitivity: str
    valid_from: str | datetime
    valid_until: str | datetime


CHANGING: Final = tuple(UpdateFields.__annotations__)
_KEPT: Final = ("kind", "ns", "task", "actor", "role", "key", *CHANGING)
# What memplane writes into data of an event about that event itself.
_ITS_OWN: Final = word_set("""
    redactions replaced marked body recalled origin updates undoes restores confirms
""")
CONFIRMED: Final = "confirmed"  # why a forget was written, in its data
_CHANGE_TRIES: Final = 5  # while others write to the plane
_LOOKED_AT: Final = 10_000  # lines, for what is to be taken back
_UNDONE: Final = "undo"


class Undone(NamedTuple):
    """What was undone: the events, newest first, and the events that did it; a dry run has none.

    `restored` is the value that holds again where the event had replaced one.
    """

    events: tuple[Event, ...]
    restored: Event | None
    receipts: tuple[Receipt, ...]


def update_statement(
    context: PlaneContext, named: int | str, changes: Mapping[str, Any]
) -> Receipt:
    """Record a statement in force anew, with what changes; see `Plane.update`."""
    for name in changes:
        if name not in CHANGING:
            raise InputError(f"cannot be changed; expected {', '.join(CHANGING)}", where=name)
    if not changes:
        raise InputError(f"expected a change: {', '.join(CHANGING)}; found none")
    return _record_anew(context, named, changes, _states)


def name_decision(context: PlaneContext, named: int | str, key: str) -> Receipt:
    """Record a decision in force anew under a key, so that a later one can replace it.

    Also one that a user said with `Decision: ...` at the beginning of a line.
    """
    if not isinstance(key, str) or not key:
        raise InputError("expected a name, found nothing", where="key")
    return _record_anew(context, named, {"kind": "decision", "key": key}, states_decision)


def confirm_statement(
    context: PlaneContext,
    named: int | str,
    *,
    channel: str,
    agent: str | None,
    relayed: Mapping[str, Any] | None = None,
) -> Receipt:
    """Record a statement in force anew as a user's; see `PlaneWork.confirm`.

    `relayed`: fields of the event where an agent says that a user confirmed it; where one asks and
    nothing else is said, its name, and an id that tells.
    """
    if relayed is None and agent is not None:
        relayed = {"id": f"{VOUCHED}{ulid(context.clock())}", "actor": agent}
    reader = context.reader(channel, agent=agent, policies=context.watched.policies_or_last())

    def unconfirmed(event: Event) -> None:
        if not reader.may_read(event):
            raise NotFoundError(f"no event {quoted_value(named)}")
        if not reader.may_write(event.ns):
            raise reader.unwritable(event.ns, event.key)
        if reader.out_of_time(event) == "expired":
            raise InputError(f"event {event.seq} has expired: {event.valid_until}")
        relays = relayed is not None or relayed_by(event.id) is None
        if event.said_by == "user" and relays:
            raise InputError(f"event {event.seq} is a user's statement already: it stays as it is")

    changes = {"role": "user", "actor": None, "id": None, **(relayed or {})}
    return _record_anew(context, named, changes, _states, unconfirmed, CONFIRMED)


def _record_anew(
    context: PlaneContext,
    named: int | str,
    changes: Mapping[str, Any],
    fits: Callable[[Event], bool],
    check: Callable[[Event], None] | None = None,
    reason: str = "",
) -> Receipt:
    """Record a statement again with `changes`; `check` raises where it may not be.

    `reason` is `CONFIRMED` or nothing: the event then says what it confirms, and is no longer
    derived of others.
    """
    context.take_in_waiting()
    for left in range(_CHANGE_TRIES, -1, -1):
        with context.lock:
            folds = context.caught_up()
            event = _statement(context, folds, named, fits, check)
            quoting = summaries_of(context.log, folds, [event], undo=False)
            read = folds.memories.position
        gone = [] if event.key is not None else [event.id, *quoting]
        row = _anew(context, event, changes)
        more: dict[str, Any] = {"updates": gone} if gone else {}
        if reason:
            row["data"].pop("derived", None)
            more["confirms"] = event.id
        draft = context.drafting(internal=True)
        # As any caller's: what it says is redacted, counted and looked through for markers.
        said = context.drafting()({**row, "data": {**row["data"], **more}}, "")
        forgets = forget_rows(gone, f"{reason or 'updated'} by {said.id}")
        for one in forgets:
            one["data"] |= {"reason": reason} if reason else {}
        drafts = [*(draft(one, "") for one in forgets), said]
        try:
            done = context.append(drafts, expected_seq=read.seq if read and left else None)
        except ConflictError as error:
            if error.id or not left:
                raise
            continue
        return Receipt(done[-1], context.durability, context.log.line)
    raise AssertionError("the last try returns or raises")


def _statement(
    context: PlaneContext,
    folds: Folds,
    named: int | str,
    fits: Callable[[Event], bool],
    check: Callable[[Event], None] | None,
) -> Event:
    """The statement that is to change: one that is in force."""
    if isinstance(named, bool) or not isinstance(named, int | str):
        raise unexpected("an id or a seq", named, "id")
    line = context.log.line(named) if isinstance(named, int) else context.log.find(named)
    if line is None:
        raise NotFoundError(f"no event {quoted_value(named)}")
    event = line.event
    if check is not None:
        check(event)
    if not fits(event):
        what = "statement" if fits is _states else "decision"
        raise InputError(f"event {event.seq} is no {what} but a {event.kind}: it stays as it is")
    gone = folds.memories.archived(event)
    if gone is not None:
        raise InputError(_gone_words(context, event, *gone))
    return event


def _gone_words(context: PlaneContext, event: Event, how: str, by_seq: int) -> str:
    """Say what an event is no longer in force for; of one that was confirmed, by which."""
    by = confirmation_of(context, event, by_seq)
    if by is not None:
        return f"event {event.seq} was confirmed already, by event {by.seq}"
    return f"event {event.seq} is no longer in force: {how} by event {by_seq}"


def confirmation_of(context: PlaneContext, event: Event, by_seq: int) -> Event | None:
    """Return the event that confirms one which event `by_seq` archived; None for another reason."""
    line = context.log.line(by_seq)
    by = None if line is None else line.event
    if by is not None and by.kind == "forget" and by.data.get("reason") == CONFIRMED:
        line = context.log.find(by.text.rpartition(" ")[2])
        by = None if line is None else line.event
    return by if by is not None and by.data.get("confirms") == event.id else None


def _states(event: Event) -> bool:
    stated = event.kind in TYPED_KINDS or event.kind.startswith("custom:")
    return stated and not is_extract(event)


def _anew(context: PlaneContext, event: Event, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row that records the event anew with the changed fields.

    Who says it stays: what an agent relayed gets an id that tells, as it had.
    """
    row = {name: getattr(event, name) for name in _KEPT}
    row |= {"text": context.log.text(event), "tags": list(event.tags)}
    # Markers that were found in the text are looked for again; those that were given stay.
    found = event.data.get("marked") or ()
    row["markers"] = [one for one in event.markers if one not in found]
    row["refs"] = [event.id, *(ref for ref in event.refs if ref != event.id)][:REFS_MAX]
    row["data"] = {name: value for name, value in event.data.items() if name not in _ITS_OWN}
    by = relayed_by(event.id)
    if by is not None:
        row["id"] = f"{by}:{ulid(context.clock())}"
    row |= changes
    return {name: value for name, value in row.items() if value not in (None, [])}


def undo_statement(context: PlaneContext, *, dry_run: bool) -> Undone:
    """Undo the last statement or forget; see `Plane.undo`."""
    context.check_open()
    if not dry_run:
        context.take_in_waiting()
    for left in range(_CHANGE_TRIES, -1, -1):
        with context.lock:
            folds = context.caught_up()
            read = folds.memories.position
            events, copies = _last(context)
            if events[0].kind == "forget":
                rows, restored = _reversed(events), None
            else:
                rows, restored = _withdrawn(context, folds, events, copies)
        if dry_run:
            return Undone(tuple(events), restored, ())
        try:
            done = _append(context, rows, read.seq if read and left else None)
        except ConflictError:
            if not left:
                raise
            continue
        receipts = (Receipt(one, context.durability, context.log.line) for one in done)
        return Undone(tuple(events), restored, tuple(receipts))
    raise AssertionError("the last try returns or raises")


def _spaces(context: PlaneContext, event: Event) -> list[str]:
    """The namespaces of a statement, or of what a forget names by key and id."""
    forget = forget_of(event) if event.kind == "forget" else None
    if forget is None:
        return [event.ns]
    if forget.key is not None:
        return [forget.ns]
    lines = (context.log.find(id_) for id_ in sorted(forget.ids))
    return [line.event.ns for line in lines if line is not None]


def _append(
    context: PlaneContext, rows: Sequence[Mapping[str, Any]], expected_seq: int | None
) -> list[Appended]:
    draft = context.drafting(internal=True)
    return context.append([draft(row, "") for row in rows], expected_seq=expected_seq)


def _last(context: PlaneContext) -> tuple[list[Event], list[str]]:
    """The newest statement or forget that was not taken back, with the events of its append.

    And the ids of what `undo` recorded in its place since, which says it again.
    """
    done: set[str] = set()
    restored: dict[str, str] = {}  # by what it says again, the newest
    head = context.log.head().seq
    for seq in range(head, max(0, head - _LOOKED_AT), -1):
        line = context.log.line(seq)
        event = None if line is None else line.event
        if event is None or (event.kind != "forget" and not _states(event)):
            continue
        if any(map(context.is_elsewhere, _spaces(context, event))):
            continue  # said in another project
        if "undoes" in event.data:
            done.update(_texts(event.data["undoes"]))
            again = event.data.get("restores")
            if isinstance(again, str) and event.id not in done:
                restored.setdefault(again, event.id)
        elif event.id not in done:
            copies = [restored[event.id]] if event.id in restored else []
            return [event, *_beside(context, event)], copies
    raise NotFoundError("no statement and no forget that could be taken back")


def _beside(context: PlaneContext, event: Event) -> list[Event]:
    """The forgets of the same append, newest first: of summaries, of what an update replaced."""
    found = []
    updates = frozenset(_texts(event.data.get("updates")))
    for seq in range(event.seq - 1, 0, -1):
        line = context.log.line(seq)
        if line is None or line.event.kind != "forget":
            break
        one = line.event
        if event.kind == "forget":
            same = one.rec == event.rec and one.text == event.text
            same = same and bool(one.data.get("undo")) == bool(event.data.get("undo"))
        else:
            named = one.data.get("forget")
            ids = _texts(named.get("ids")) if isinstance(named, dict) else []
            same = bool(ids) and updates.issuperset(ids)
        if not same or "undoes" in one.data:
            break
        found.append(one)
    return found


def _reversed(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return the rows that undo forgets, and redo those that had been undone."""
    rows = []
    for event in events:
        again = {} if event.data.get("undo") else {"undo": True}
        data = {"forget": event.data.get("forget"), **again, "undoes": [event.id]}
        rows.append({"kind": "forget", "text": _UNDONE, "data": data})
    return rows


def _withdrawn(
    context: PlaneContext, folds: Folds, events: Sequence[Event], copies: list[str]
) -> tuple[list[dict[str, Any]], Event | None]:
    """Return the rows that forget a statement and restore the value that it had superseded."""
    event, beside = events[0], events[1:]
    quoting = summaries_of(context.log, folds, [event], undo=False)
    rows = forget_rows([event.id, *copies, *quoting], _UNDONE)
    for row in rows:
        row["data"]["undoes"] = [event.id]
    rows += _reversed(beside)
    before = _before(context, folds, event)
    if before is not None:
        row = _anew(context, before, {})
        row["data"] = {**row.get("data", {}), "undoes": [event.id], "restores": _first(before)}
        rows.append(row)
    return rows, before


def _before(context: PlaneContext, folds: Folds, event: Event) -> Event | None:
    """Return the value of its key that the event superseded."""
    if event.key is None:
        return None
    found = [
        row.seq
        for row in folds.memories.history(event.ns, event.key)
        if row.reason == "superseded" and row.by_seq == event.seq
    ]
    line = context.log.line(found[-1]) if found else None
    return None if line is None else line.event


def _first(event: Event) -> str:
    """Return the id of the statement that an event restates, or its own."""
    said = event.data.get("restores")
    return said if isinstance(said, str) else event.id


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


# Writes on behalf of an agent: only into namespaces that it may write, and over no hidden value.
#
# An agent writes into any namespace but those of other agents. A write to a key whose value in
# force it may not see is refused with the error for another agent's namespace, which discloses
# nothing of the value but that it exists. The alternatives are worse: replacing the value would
# lose what its owner never gave up, and storing another beside it would leave two values in force
# under one key. Probing keys in this way leaves an event in the log for each key that was free.
_GUARDED_TRIES: Final = 50  # while others write to the plane


def record_as(
    context: PlaneContext, row: Mapping[str, Any], *, channel: str, agent: str
) -> Receipt:
    """Record an event for an agent that reads on a channel.

    A value that replaces another is at least as sensitive. Raises ScopeError for what is not the
    agent's to write, LockError where others write without a pause, and what `Plane.record` raises.
    """
    row = context.placed(row)
    ns, key = row.get("ns") or GLOBAL, row.get("key")
    draft = context.drafting()
    draft(row, "")  # a mistake in what was given is named before anything else
    reader = _reader(context, channel, agent)
    if not reader.may_write(ns):
        raise reader.unwritable(ns, key)
    if key is None:
        return Receipt(context.append([draft(row, "")])[0], context.durability, context.log.line)
    for _ in range(_GUARDED_TRIES):
        with context.lock:
            memories = context.caught_up().memories
            read, value = memories.position, memories.current(ns, key)
        if not reader.may_replace(value):
            raise reader.unwritable(ns, key)
        kept = {} if value is None else at_least(value.sensitivity, row)
        try:
            done = context.append(
                [draft({**row, **kept}, "")], expected_seq=read.seq if read is not None else 0
            )
        except ConflictError as error:
            if error.id:  # the id is taken
                raise
            continue
        return Receipt(done[0], context.durability, context.log.line)
    raise LockError("others write to this plane without a pause; try again", holder=None)


def forget_as(
    context: PlaneContext,
    named: dict[str, str | None],
    ns: str,
    reason: str,
    *,
    channel: str,
    agent: str,
) -> Receipt:
    """Forget an event (id) or the value of a key for an agent that reads on a channel.

    Raises ScopeError for another agent's namespace, NotFoundError for what the agent may not see.
    """
    reader = _reader(context, channel, agent)
    if named.get("id") is not None:
        line = context.log.find(str(named["id"]))
        if line is None or not reader.may_read(line.event):
            raise NotFoundError(f"no event {quoted_value(named['id'])}")
        ns = line.event.ns
    else:
        ns = context.key_space(named.get("key"), ns)
    if not reader.may_write(ns):
        raise reader.unwritable(ns, named.get("key"))
    return forget(context, named, ns, reason, undo=False, reader=reader)


def _reader(context: PlaneContext, channel: str, agent: str) -> EventAccess:
    # As recording does it: a broken policy stops no write, the last good one judges it.
    return context.reader(channel, agent=agent, policies=context.watched.policies_or_last())
