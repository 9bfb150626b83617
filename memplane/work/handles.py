"""Gather from projections and log what a handle names, before visibility is judged.

A pack places it among other entries, `expand` shows it alone; both compose the text from these
parts.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache
from typing import TYPE_CHECKING, Final

from memplane.artifacts.pages import material, newest
from memplane.context import materials
from memplane.context.arguments import check_text
from memplane.context.context import Requester
from memplane.context.folds import items_of_event, of_task, text_of
from memplane.errors import NotFoundError, ScopeError
from memplane.harness import remembered, typed_once
from memplane.intake.redact import quoted_value
from memplane.lazy import late
from memplane.pack.expansion_depths import (
    Member,
    OpenedHandle,
    belongs,
    says,
    session_leads,
    task_leads,
)
from memplane.pack.handles import Handle, parse_handle
from memplane.pack.request import Expansion, Request, View

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memplane.context.context import PlaneContext
    from memplane.context.folds import Folds
    from memplane.event import Event
    from memplane.policy import Policies
    from memplane.ports import Line
    from memplane.projections.item import Item
    from memplane.work import sessions, tasks
else:
    sessions = late("memplane.work.sessions")
    tasks = late("memplane.work.tasks")

__all__ = ["item_of", "line_of", "memory", "no_key", "open_handle", "session", "task", "view_of"]


_SPAN_MAX: Final = 4000  # seqs between which a session is read line by line
_KEYS_MAX: Final = 1000  # among which a name that is close to an unknown one is looked for


def open_handle(
    context: PlaneContext, folds: Folds, given: str, request: Request, policies: Policies
) -> Expansion | OpenedHandle | View:
    """What a handle of a pack's request opens; whether it may be shown is decided with the others.

    Raises InputError for what is no handle, NotFoundError.
    """
    handle = parse_handle(given)
    asker = Requester(
        context, folds, policies, request.channel, request.agent, request.now, request.as_of
    )
    if handle.form == "views":
        view = view_of(asker, handle)
        text = context.redact(policies)(view.text)
        return view._replace(text=text[handle.start :], start=handle.start)
    if handle.form == "task":
        return task(asker, handle)
    if handle.form == "session":
        return session(asker, handle)
    if handle.form == "memory":
        return _memory_in_scope(asker, handle)
    if handle.form == "artifact":
        event = newest(asker, handle.name, strict=False)
    else:
        event = line_of(asker, handle).event
    if event.kind == "artifact":
        return material(asker, event, handle)
    text, start = context.redact(policies)(text_of(context.log)(event)), handle.start
    named = handle._replace(name=str(event.seq))
    lost = "past_end" if start and start >= len(text) else ""
    return Expansion(
        str(named), item_of(asker, event), text[start:], whole=not start, lost=lost, start=start
    )


def _memory_in_scope(asker: Requester, handle: Handle) -> OpenedHandle:
    """What a key stands for; nothing where who asks may not know whether there is such a key."""
    context = asker.context
    try:
        context.reader(asker.channel, asker.now, agent=asker.agent, ns=handle.ns)
    except ScopeError:
        return OpenedHandle(handle, "projection:memories", (), _nothing, text_of(context.log), 0)
    return memory(asker, handle, history=False)


def _nothing(_start: int, _whole: bool) -> list[Member]:
    return []


def line_of(asker: Requester, handle: Handle) -> Line:
    """The line of an event, by its seq or its id; NotFoundError where the asker sees none."""
    log, seq = asker.context.log, handle.seq
    check_text(handle.name, "handle")
    reader = asker.context.reader(asker.channel, asker.now, agent=asker.agent)

    def seen(line: Line | None) -> bool:
        return line is not None and line.event.seq <= asker.as_of and reader.may_read(line.event)

    line = log.line(seq) if seq is not None else None
    if not seen(line):  # an id may be a number too
        line = log.find(handle.name)
    if line is None or not seen(line):
        if line is None:
            asker.context.look_in_vain()
        raise NotFoundError(f"no event {quoted_value(handle.name if seq is None else seq)}")
    return line


def view_of(asker: Requester, handle: Handle) -> View:
    """A view that the channel loads; NotFoundError for every other."""
    known = materials.view_paths(asker.policies, asker.channel)
    view = asker.context.watched.view(handle.name) if handle.name in known else None
    if view is None or view.lost:
        from difflib import get_close_matches  # noqa: PLC0415 - only mistakes pay for it

        close = get_close_matches(handle.name, known, 1)
        hint = f"; did you mean {close[0]}?" if close and view is None else ""
        raise NotFoundError(f"no view {quoted_value(handle.name)} on channel {asker.channel}{hint}")
    return view


def task(asker: Requester, handle: Handle) -> OpenedHandle:
    """A task with its events; NotFoundError with the closest name that the asker may know."""
    name = handle.name

    reader = tasks.TaskReader(
        asker.context, asker.folds, asker.policies, asker.channel, asker.agent
    )
    found = reader.find(name)
    if found is None or not reader.is_told(found):
        raise reader.unknown(name)
    found, active = found.seen_by(reader.sees), reader.table().active_for(None)

    def members(start: int, facts: bool) -> Iterator[Member]:
        of = of_task(asker.folds, name)
        seqs = of.facts if facts else of.every
        return _members(asker, _events(asker, seqs[bisect_left(seqs, start) :]))

    return OpenedHandle(
        handle,
        "projection:tasks",
        task_leads(found, active=active == name),
        members,
        text_of(asker.context.log),
        found.first,
        basis=found.quotes,
    )


def session(asker: Requester, handle: Handle) -> OpenedHandle:
    """A session with its events; NotFoundError with the closest name that the asker may know."""
    context, folds, policies = asker.context, asker.folds, asker.policies
    telling = sessions.Telling(context, folds, policies, asker.channel, asker.agent)
    facts = sessions.PlaneSessions(context).facts(handle.name, folds, policies, telling)

    first, last = facts.first_seq, facts.last_seq

    @cache
    def every() -> list[Member]:
        if not telling.sessions:
            return []
        if last - first < _SPAN_MAX:
            events = _events(asker, range(first, last + 1))
        else:
            events = (line.event for line in folds.log.read(first - 1, last))
        own = (event for event in events if event.session == facts.id)
        return list(_members(asker, typed_once(own)))

    def members(start: int, only: bool) -> list[Member]:
        return [one for one in every() if one.item.seq >= start and (not only or says(one.event))]

    leads = session_leads(
        facts.id, every, now=asker.now, tokens_max=policies.plane.session_summary_tokens_max
    )
    return OpenedHandle(
        handle,
        "projection:sessions",
        leads,
        members,
        text_of(context.log),
        facts.first_seq,
        basis=lambda: [one.item for one in every()],
    )


def memory(asker: Requester, handle: Handle, *, history: bool) -> OpenedHandle:
    """The value that a key has, from depth 1 on with those before it, the newest first.

    With `history` an archived value says what became of it, and is one like the others.
    """
    memories, log = asker.folds.memories, asker.context.log
    rows = memories.history(handle.ns, handle.name, upto=asker.as_of)
    reader = asker.context.reader(asker.channel, asker.now, agent=asker.agent, ns=handle.ns)
    told = {row.seq: row for row, _ in reader.rows(rows, memories)}
    rows = rows if handle.depth else rows[-1:]
    if told.keys().isdisjoint(row.seq for row in rows):
        raise no_key(asker, handle)
    found = []
    for row in (told.get(one.seq, one) for one in reversed(rows)):
        line = log.line(row.seq)
        if line is None:
            continue
        if not history or row.reason is None:
            found.append(Member(line.event, item_of(asker, line.event)))
        else:
            by = "" if row.by_seq is None else f" by #{row.by_seq}"
            item = items_of_event(line.event, asker.context.counter(asker.policies))
            found.append(Member(line.event, item, f"[{row.reason}{by}] "))

    def members(start: int, _: bool) -> list[Member]:
        # They go by their times: what came from another plane may have a higher seq and be older.
        if not start:
            return found
        seqs = [one.item.seq for one in found]
        # The one to go on with may be gone: then with those recorded before it.
        return (
            found[seqs.index(start) :]
            if start in seqs
            else [one for one in found if one.item.seq < start]
        )

    return OpenedHandle(handle, "projection:memories", (), members, text_of(log), rows[0].seq)


def item_of(asker: Requester, event: Event) -> Item:
    """The event as packing sees it, with the flags of what became of it."""
    item = items_of_event(event, asker.context.counter(asker.policies))
    item.settle(asker.folds.memories.archived(event, upto=asker.as_of))
    return item


def _members(asker: Requester, events: Iterable[Event]) -> Iterator[Member]:
    return (Member(event, item_of(asker, event)) for event in events if belongs(event))


def _events(asker: Requester, seqs: Iterable[int]) -> Iterator[Event]:
    """Yield the events one by one: who stops early reads no more of them."""
    for seq in seqs:
        line = asker.context.log.line(seq)
        if line is not None:
            yield remembered(line.event)


def no_key(asker: Requester, handle: Handle) -> NotFoundError:
    """That a key has no value here; of the keys that the asker may know, the closest."""
    memories = asker.folds.memories
    rows = memories.keys("", handle.ns, limit=_KEYS_MAX, upto=asker.as_of)
    reader = asker.context.reader(asker.channel, asker.now, agent=asker.agent)
    known = [row.key for row in rows if reader.shows_row(row)]
    from difflib import get_close_matches  # noqa: PLC0415 - likewise

    close = get_close_matches(handle.name, known, 1)
    hint = f"; did you mean {quoted_value(close[0], 160)}?" if close else ""
    return NotFoundError(f"no value of {quoted_value(handle.name, 160)} in {handle.ns}{hint}")
