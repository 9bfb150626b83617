"""`expand`: show what a handle names, within a budget and what a channel may see.

An event or view is shown as it is; a task or session at the requested depth, where a deeper text
begins with every shallower one; a memory with its value, or with all of its values.
"""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.artifacts.pages import check_start, newest, page_of
from memplane.context.arguments import check_channel
from memplane.context.context import Requester
from memplane.context.folds import text_of
from memplane.errors import BudgetError, InputError, NotFoundError
from memplane.intake import timestamp
from memplane.intake.redact import quoted_value
from memplane.pack.expansion_depths import OpenedHandle, Shard, shard
from memplane.pack.handles import Handle, parse_handle
from memplane.pack.task_digest import Sight
from memplane.recall.suppress import WITHHELD, Scope, VisibilityFields
from memplane.tokens import cut
from memplane.work.handles import line_of, memory, no_key, session, task, view_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from memplane.context.context import PlaneContext
    from memplane.event import Event
    from memplane.projections.item import Item

__all__ = ["Expanded", "expand_handle"]


_NO_END: Final = 2**63
# What an archived value of a key is hidden for in a block, and is asked for where its history is.
_ARCHIVED: Final = frozenset(("superseded", "forgotten", "expired"))


class Expanded(NamedTuple):
    """What a handle opened. `next` continues where the budget ended, None at the end.

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
    """Open a handle. Raises InputError, NotFoundError, ScopeError; BudgetError for too little."""
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
            _NO_END if context.as_of is None else context.as_of,
        )
        if handle.form == "event":
            return _event(asker, handle, budget)
        if handle.form == "views":
            return _text(asker, handle, view_of(asker, handle).text, budget, None)
        if handle.form == "artifact":
            return _artifact(asker, newest(asker, handle.name), handle, budget)
        return _shard(asker, handle, budget)


def _event(asker: Requester, handle: Handle, budget: int) -> Expanded:
    reader = asker.context.reader(asker.channel, asker.now, agent=asker.agent)
    line = line_of(asker, handle)
    event = reader.emit(line.event)
    if event.kind == "artifact":
        return _artifact(asker, line.event, handle, budget)
    named = handle._replace(name=str(event.seq))
    return _text(asker, named, text_of(asker.context.log)(line.event), budget, event)


def _artifact(asker: Requester, event: Event, handle: Handle, budget: int) -> Expanded:
    """A page of what an artifact says, which an approval must cover."""
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
    """As much of a whole text from a character on as the budget takes."""
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
    """What the handle stands for, and what the asker may see of it."""
    seen: dict[str, Any] = {}
    if handle.form == "task":
        found = task(asker, handle)
        sees = Scope.of(
            asker.policies, asker.channel, agent=asker.agent, now=asker.now, as_of=asker.as_of
        ).sees
        table = asker.folds.tasks.state.seen_by(sees)
        seen = {"task": handle.name, "specs": table.specs_of(handle.name)}
    elif handle.form == "session":
        found = session(asker, handle)
    else:
        # Refuses a namespace that is not for who asks.
        asker.context.reader(asker.channel, asker.now, agent=asker.agent, ns=handle.ns)
        found = memory(asker, handle, history=handle.depth > 0)
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
    """That a `from` lies outside of what there is; None where it does not."""
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
    """Why a shard is empty: no room, nothing to be seen, nothing in force, or a `from` outside."""
    handle = found.handle
    name = f"{handle.form} {quoted_value(handle.name, 160)}"
    outside = _outside(found, sight)
    if outside is not None:
        return outside
    if shard(found, sight, _NO_END).text:
        return BudgetError(f"{budget} tokens hold nothing of {name}", where="budget")
    # What is withheld is not there: it is no reason either.
    why = ", ".join(sorted(frozenset(made.hidden.values()) - WITHHELD))
    if handle.form == "memory":
        if not why:
            return no_key(asker, handle)
        history = handle.going_on(1, 0)
        return NotFoundError(f"no value of {name} is in force ({why}); it was {history}")
    return NotFoundError(f"nothing of {name} is in force{f' ({why})' if why else ''}")
