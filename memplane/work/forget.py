"""Forget events by name, or by what describes them, with the summaries that quote them.

What describes: tags, words, a span of time, a project, a kind, a namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from memplane.context.calls import Receipt, check_texts, texts_of_argument
from memplane.context.folds import text_of
from memplane.errors import ConflictError, CorruptError, InputError, NotFoundError
from memplane.event import KINDS, TYPED_KINDS, UPKEEP_KINDS, Event
from memplane.intake import namespace, time_bound, timestamp
from memplane.intake.redact import quoted_value, unexpected
from memplane.lazy import NamedTuple, regex
from memplane.projections.sessions import is_derived, is_extract
from memplane.recall.score import LASTING

if TYPE_CHECKING:
    from memplane.context.context import PlaneContext
    from memplane.context.event_access import EventAccess
    from memplane.context.folds import Folds
    from memplane.log import FileLog
    from memplane.projections.memories import Memories


def summaries_quoting(
    log: FileLog, folds: Folds, field: str, value: str, ns: str, *, undo: bool
) -> list[str]:
    """Return the ids of the summaries that are to be forgotten with what is named, or to come back.

    A summary quotes events of its own session alone, so a session takes its own along by name,
    as a source does those of its importer. One comes back if nothing else that it quotes is
    forgotten.
    """
    return summaries_of(log, folds, _named(log, folds, field, value, ns, undo=undo), undo=undo)


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


def _named(
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
        rows = [_row(what, reason, undo=undo), *forget_rows(quoting, reason, undo=undo)]
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
    return [_row({"ids": some}, reason, undo=undo) for some in portions]


def _row(named: dict[str, Any], reason: str, *, undo: bool) -> dict[str, Any]:
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
_KEPT: Final = frozenset(("decision", "rule"))
_AGE: Final = regex(r"([0-9]{1,6})([smhdw])")
_WORDS: Final = regex(r"\w+")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_TOLD_EVERY: Final = 5_000  # events

Progress = Callable[[int, int], None]


class Pick(NamedTuple):
    """Which events to archive: those that match all that is given.

    One of the tags, from `since` on and before `before`, a kind, a namespace, and every one of
    `words` in the whole text. `project`: the namespace is that of a project that was named.
    """

    tags: tuple[str, ...]
    before: str | None
    kinds: tuple[str, ...]
    ns: str | None
    decisions: bool
    since: str | None = None
    words: frozenset[str] = frozenset()
    project: bool = False

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
        before = None if older_than is None else _before(now, older_than)
        from_ = None if since is None else _since(now, since)
        return cls(tags, before, kinds, ns, decisions, from_, words, project is not None)

    @property
    def narrows(self) -> bool:
        """Whether it names a tag, words, a time or a project; kind and namespace do not suffice."""
        times = self.before is not None or self.since is not None
        return bool(self.tags or self.words) or times or self.project

    def names(self, event: Event) -> bool:
        """Whether the event matches, before `says` and `keeps` are asked."""
        return (
            (event.kind in self.kinds if self.kinds else _is_usual(event.kind))
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
        lasting = event.kind in _KEPT or not LASTING.isdisjoint(event.markers)
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
        return _before(now, since)
    return time_bound(since, where="since")


def _before(now: str, older_than: str | timedelta) -> str:
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
