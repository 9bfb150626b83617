"""Open handles: gather from projections and log what one names, and `expand` it.

A pack places it among other entries (`open_handle`), `expand` shows it alone, within a budget and
what a channel may see: an event or view as it is; a task or session at the requested depth, where a
deeper text begins with every shallower one; a memory with its value, or with all of its values.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from memplane.artifacts import check_start, material, newest, page_of
from memplane.context import materials
from memplane.context.calls import check_channel, check_text
from memplane.context.context import NO_END, Requester
from memplane.context.folds import items_of_event, of_task, text_of
from memplane.errors import BudgetError, InputError, NotFoundError, ScopeError
from memplane.harness import remembered, typed_once
from memplane.intake import timestamp
from memplane.intake.redact import quoted_value
from memplane.lazy import NamedTuple, late
from memplane.pack.block import Handle, parse_handle
from memplane.pack.expansion_depths import (
    Member,
    OpenedHandle,
    Shard,
    Sight,
    belongs,
    says,
    session_leads,
    shard,
    task_leads,
)
from memplane.pack.request import Expansion, Request, View
from memplane.projections.groups import project_space
from memplane.recall.suppress import WITHHELD, Scope, VisibilityFields
from memplane.tokens import cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

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

_SPAN_MAX: Final = 4000  # seqs between which a session is read line by line
_KEYS_MAX: Final = 1000  # among which a name that is close to an unknown one is looked for


def open_handle(
    context: PlaneContext, folds: Folds, given: str, request: Request, policies: Policies
) -> Expansion | OpenedHandle | View:
    """Open a handle of a pack's request; the pack decides visibility with its other candidates.

    `given` is the text of a handle. Raises InputError where it is none, NotFoundError where it
    names nothing that the request may know of.
    """
    handle = parse_handle(given)
    asker = Requester(
        context, folds, policies, request.channel, request.agent, request.now, request.as_of
    )
    if handle.form == "views":
        view = _view_of(asker, handle)
        text = context.redact(policies)(view.text)
        return view._replace(text=text[handle.start :], start=handle.start)
    if handle.form == "task":
        return _task(asker, handle)
    if handle.form == "session":
        return _session(asker, handle)
    if handle.form == "memory":
        return _memory_in_scope(asker, handle)
    if handle.form == "artifact":
        event = newest(asker, handle.name, strict=False)
    else:
        event = _line_of(asker, handle).event
    if event.kind == "artifact":
        return material(asker, event, handle)
    text, start = context.redact(policies)(text_of(context.log)(event)), handle.start
    named = handle._replace(name=str(event.seq))
    lost = "past_end" if start and start >= len(text) else ""
    return Expansion(
        str(named), _item_of(asker, event), text[start:], whole=not start, lost=lost, start=start
    )


def _memory_in_scope(asker: Requester, handle: Handle) -> OpenedHandle:
    """Open the values of a key; empty where the asker's namespaces do not include it."""
    context = asker.context
    try:
        context.reader(asker.channel, asker.now, agent=asker.agent, ns=handle.ns)
    except ScopeError:
        return OpenedHandle(handle, "projection:memories", (), _no_members, text_of(context.log), 0)
    return _memory(asker, handle, history=False)


def _no_members(_start: int, _whole: bool) -> list[Member]:
    return []


def _line_of(asker: Requester, handle: Handle) -> Line:
    """Return the log line of an event, by seq or id; NotFoundError if none is visible."""
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


def _view_of(asker: Requester, handle: Handle) -> View:
    """Return a view that the channel loads; NotFoundError for any other path."""
    known = materials.view_paths(asker.policies, asker.channel)
    view = asker.context.watched.view(handle.name) if handle.name in known else None
    if view is None or view.lost:
        from difflib import get_close_matches  # noqa: PLC0415 - only mistakes pay for it

        close = get_close_matches(handle.name, known, 1)
        hint = f"; did you mean {close[0]}?" if close and view is None else ""
        raise NotFoundError(f"no view {quoted_value(handle.name)} on channel {asker.channel}{hint}")
    return view


def _task(asker: Requester, handle: Handle) -> OpenedHandle:
    """Open a task with its events; NotFoundError names the closest visible one."""
    name = handle.name

    reader = tasks.TaskReader(
        asker.context, asker.folds, asker.policies, asker.channel, asker.agent
    )
    found = reader.find(name)
    if found is None or not reader.is_told(found):
        raise reader.unknown(name)
    found, active = found.seen_by(reader.sees), reader.table().active_for(None)

    def members(start: int, facts: bool) -> Iterator[Member]:
        of = of_task(asker.folds, name, project_space(found.group.space))
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


def _session(asker: Requester, handle: Handle) -> OpenedHandle:
    """Open a session with its events; NotFoundError names the closest visible id."""
    context, folds, policies = asker.context, asker.folds, asker.policies
    visible = sessions.SessionVisibility(context, folds, policies, asker.channel, asker.agent)
    facts = sessions.PlaneSessions(context).facts(handle.name, folds, policies, visible)

    first, last = facts.first_seq, facts.last_seq

    @cache
    def every() -> list[Member]:
        if not visible.sessions:
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


def _memory(asker: Requester, handle: Handle, *, history: bool) -> OpenedHandle:
    """Open the value of a key; from depth 1 on with all earlier values, the newest first.

    With `history` archived values are shown too, each with the reason and the event that did it.
    """
    memories, log = asker.folds.memories, asker.context.log
    rows = memories.history(handle.ns, handle.name, upto=asker.as_of)
    reader = asker.context.reader(asker.channel, asker.now, agent=asker.agent, ns=handle.ns)
    told = {row.seq: row for row, _ in reader.rows(rows, memories)}
    rows = rows if handle.depth else rows[-1:]
    if told.keys().isdisjoint(row.seq for row in rows):
        raise _no_key(asker, handle)
    found = []
    for row in (told.get(one.seq, one) for one in reversed(rows)):
        line = log.line(row.seq)
        if line is None:
            continue
        if not history or row.reason is None:
            found.append(Member(line.event, _item_of(asker, line.event)))
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


def _item_of(asker: Requester, event: Event) -> Item:
    """Return the item of an event with its flags `superseded` and `forgotten` set."""
    item = items_of_event(event, asker.context.counter(asker.policies))
    item.settle(asker.folds.memories.archived(event, upto=asker.as_of))
    return item


def _members(asker: Requester, events: Iterable[Event]) -> Iterator[Member]:
    return (Member(event, _item_of(asker, event)) for event in events if belongs(event))


def _events(asker: Requester, seqs: Iterable[int]) -> Iterator[Event]:
    """Yield the events one by one: who stops early reads no more of them."""
    for seq in seqs:
        line = asker.context.log.line(seq)
        if line is not None:
            yield remembered(line.event)


def _no_key(asker: Requester, handle: Handle) -> NotFoundError:
    """Return the error for a key without a value; it names the closest visible key."""
    memories = asker.folds.memories
    rows = memories.keys("", handle.ns, limit=_KEYS_MAX, upto=asker.as_of)
    reader = asker.context.reader(asker.channel, asker.now, agent=asker.agent)
    known = [row.key for row in rows if reader.shows_row(row)]
    from difflib import get_close_matches  # noqa: PLC0415 - likewise

    close = get_close_matches(handle.name, known, 1)
    hint = f"; did you mean {quoted_value(close[0], 160)}?" if close else ""
    return NotFoundError(f"no value of {quoted_value(handle.name, 160)} in {handle.ns}{hint}")


# `expand`: one handle alone, within a budget.

# What an archived value of a key is hidden for in a block, and is asked for where its history is.
_ARCHIVED: Final = frozenset(("superseded", "forgotten", "expired"))


class Expanded(NamedTuple):
    """The text behind a handle. `next` is the handle of the rest, None at the end.

    `event` is the one that an event's handle names. `events` are the ids whose whole text stands
    there, `parts` those of which a part does, `left_out` the counts of what who asks may not see,
    by reason. `stale`: that one event fades, and was left alone for longer than the policy's days;
    of the events in a shard their labels say so.
    """

    handle: str
    text: str
    tokens: int
    event: Event | None
    next: str | None
    events: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    left_out: Mapping[str, int] = MappingProxyType({})
    stale: bool = False

    def as_json(self) -> dict[str, Any]:
        event = self.event.id if self.event is not None else None
        return {**self._asdict(), "event": event, "left_out": dict(self.left_out)}


def expand_handle(
    context: PlaneContext,
    given: str,
    budget: int,
    *,
    channel: str,
    agent: str | None,
    now: str | datetime | None,
) -> Expanded:
    """Show what a handle names, in at most `budget` tokens.

    Raises InputError, NotFoundError, ScopeError, and BudgetError where nothing fits.
    """
    handle = parse_handle(given)
    if isinstance(budget, bool) or not isinstance(budget, int):
        raise BudgetError(
            f"expected a whole number of tokens, found {quoted_value(budget)}", where="budget"
        )
    if budget <= 0:
        raise BudgetError(f"expected 1 token or more, found {budget}", where="budget")
    with context.lock:
        policies = context.watched.policies()
        check_channel(policies, channel)
        asker = Requester(
            context,
            context.caught_up(policies),
            policies,
            channel,
            agent,
            context.clock() if now is None else timestamp(now, where="now"),
            NO_END if context.as_of is None else context.as_of,
        )
        if handle.form == "event":
            return _event(asker, handle, budget)
        if handle.form == "views":
            return _text(asker, handle, _view_of(asker, handle).text, budget, None)
        if handle.form == "artifact":
            return _artifact(asker, newest(asker, handle.name), handle, budget)
        return _shard(asker, handle, budget)


def _event(asker: Requester, handle: Handle, budget: int) -> Expanded:
    reader = asker.context.reader(asker.channel, asker.now, agent=asker.agent)
    line = _line_of(asker, handle)
    event = reader.emit(line.event)
    if event.kind == "artifact":
        return _artifact(asker, line.event, handle, budget)
    named = handle._replace(name=str(event.seq))
    return _text(asker, named, text_of(asker.context.log)(line.event), budget, event)


def _artifact(asker: Requester, event: Event, handle: Handle, budget: int) -> Expanded:
    """Return one page of an artifact's text, which an approval must cover."""
    facts, page = page_of(asker, event, handle, budget)
    reader = asker.context.reader(asker.channel, asker.now, agent=asker.agent)
    named = handle._replace(form="artifact", name=facts.digits)
    more = None
    if page.end is not None:
        more = str(named._replace(page=named.page + 1, start=page.end))
    tokens = asker.context.counter(asker.policies).count(page.text)
    return Expanded(str(named), page.text, tokens, reader.emit(event), more, (), (event.id,))


def _text(
    asker: Requester, handle: Handle, text: str, budget: int, event: Event | None
) -> Expanded:
    """Return the part of a text from `handle.start` (characters) on that fits the budget."""
    context, policies = asker.context, asker.policies
    counter = context.counter(policies)
    text = context.redact(policies)(text)
    check_start(handle.start, text)
    kept = cut(counter, text[handle.start :], budget)
    if text[handle.start :] and not kept:
        raise BudgetError(f"{budget} tokens hold not one character of it", where="budget")
    end = handle.start + len(kept)
    more = str(handle._replace(start=end)) if kept and end < len(text) else None
    ids = () if event is None else (event.id,)
    whole = end == len(text) and not handle.start
    reader = context.reader(asker.channel, asker.now, agent=asker.agent)
    stale = event is not None and reader.stale(event, asker.folds.memories, asker.as_of)
    return Expanded(
        str(handle),
        kept,
        counter.count(kept),
        event,
        more,
        ids if whole else (),
        () if whole else ids,
        stale=stale,
    )


def _shard(asker: Requester, handle: Handle, budget: int) -> Expanded:
    found, scope = _opened(asker, handle)

    def hides(event: VisibilityFields) -> str | None:
        reason = scope.hides(event)
        return None if reason in _ARCHIVED and handle.form == "memory" and handle.depth else reason

    sight = Sight(hides, asker.context.printer(asker.policies))
    reader = asker.context.reader(asker.channel, asker.now, agent=asker.agent)

    def marked(item: Item) -> Item:
        stale = reader.stale(item, asker.folds.memories, asker.as_of)
        return item.as_stale(sight.printer.counter) if stale else item

    made = shard(found, sight, budget, marked=marked)
    if not made.text:
        raise _nothing(asker, found, made, sight, budget)
    return Expanded(
        str(handle),
        made.text,
        made.tokens,
        None,
        None if made.next is None else str(made.next),
        tuple(made.events),
        made.parts,
        dict(sorted(Counter(made.hidden.values()).items())),
    )


def _opened(asker: Requester, handle: Handle) -> tuple[OpenedHandle, Scope]:
    """Open a handle, with the scope of what the asker may see of it."""
    seen: dict[str, Any] = {}
    if handle.form == "task":
        found = _task(asker, handle)
        sees = Scope.of(
            asker.policies, asker.channel, agent=asker.agent, now=asker.now, as_of=asker.as_of
        ).sees
        table = asker.folds.tasks.state.seen_by(sees)
        seen = {"task": handle.name, "specs": table.specs_of(handle.name)}
    elif handle.form == "session":
        found = _session(asker, handle)
    else:
        # Refuses a namespace that is not for who asks.
        asker.context.reader(asker.channel, asker.now, agent=asker.agent, ns=handle.ns)
        found = _memory(asker, handle, history=handle.depth > 0)
        seen = {"ns": (handle.ns,)}
    scope = Scope.of(
        asker.policies,
        asker.channel,
        agent=asker.agent,
        now=asker.now,
        as_of=asker.as_of,
        approvals=asker.context.approvals(asker.folds),
        **seen,
    )
    return found, scope


def _outside(found: OpenedHandle, sight: Sight) -> InputError | None:
    """Return the error for a `from` outside the handle's events; None where it is inside."""
    handle = found.handle
    if not handle.start:
        return None
    every = found.members(0, False)
    seqs = [one.item.seq for one in every if sight.hides(one.item) is None]
    name = f"{handle.form} {quoted_value(handle.name, 160)}"
    # A memory's history goes back from its newest value, everything else goes on from the first.
    if handle.form == "memory" and seqs and handle.start < min(seqs):
        said = f"the first value of {name} is event {min(seqs)}; expected that seq or more"
    elif handle.form != "memory" and seqs and handle.start > max(seqs):
        said = f"the last event of {name} is {max(seqs)}; expected that seq or less"
    else:
        return None
    return InputError(f"{said}, found {handle.start}", where="from")


def _nothing(
    asker: Requester, found: OpenedHandle, made: Shard, sight: Sight, budget: int
) -> BudgetError | InputError | NotFoundError:
    """Return why a shard is empty: no room, nothing visible, nothing in force, `from` outside."""
    handle = found.handle
    name = f"{handle.form} {quoted_value(handle.name, 160)}"
    outside = _outside(found, sight)
    if outside is not None:
        return outside
    if shard(found, sight, NO_END).text:
        return BudgetError(f"{budget} tokens hold nothing of {name}", where="budget")
    # What is withheld is not there: it is no reason either.
    why = ", ".join(sorted(frozenset(made.hidden.values()) - WITHHELD))
    if handle.form == "memory":
        if not why:
            return _no_key(asker, handle)
        history = handle.going_on(1, 0)
        return NotFoundError(f"no value of {name} is in force ({why}); it was {history}")
    return NotFoundError(f"nothing of {name} is in force{f' ({why})' if why else ''}")
