"""Rows of several agents in one write: what `record_as` does for one row, for all that wait.

Each row is judged for its own agent, and each gets its own receipt or error. The values that rows
replace are read before the write, which holds only where the log did not grow in between.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from memplane.context.batches import each
from memplane.context.calls import Receipt
from memplane.context.watched_files import bound_to
from memplane.errors import ConflictError, LockError, MemplaneError
from memplane.event import GLOBAL, at_least
from memplane.lazy import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memplane.context.context import PlaneContext
    from memplane.event import Draft
    from memplane.ports import Appended

_TRIES: Final = 50  # while others write to the plane


class AgentRow(NamedTuple):
    """A row, the agent that it is recorded for, and the channel on which that one reads.

    `bounds`: the only namespaces that the agent may use; empty: all that it may reach.
    """

    row: Mapping[str, Any]
    channel: str
    agent: str
    bounds: tuple[str, ...] = ()


class _MovedError(Exception):
    """Others wrote between the reading of values and the write that was to replace them."""


def record_each_as(
    context: PlaneContext, rows: Sequence[AgentRow]
) -> list[Receipt | MemplaneError]:
    """Record rows with as few writes as can be; give the receipt or error of each, in their order.

    Rows of different keys and ids share one write and one sync; what replaces a value of the same
    batch comes in the next write. A row that is refused keeps no other from being stored. The
    errors are those of `record_as`.
    """
    found: dict[int, Receipt | MemplaneError] = {}
    for _ in range(_TRIES + len(rows)):
        left = [at for at in range(len(rows)) if at not in found]
        if not left:
            break
        batch = _without_clashes(left, rows)
        with suppress(_MovedError):
            done = _recorded_at_once(context, [rows[at] for at in batch])
            found.update(zip(batch, done, strict=True))
    busy = LockError("others write to this plane without a pause; try again", holder=None)
    return [found.get(at, busy) for at in range(len(rows))]


def _without_clashes(left: Sequence[int], rows: Sequence[AgentRow]) -> list[int]:
    """The rows of which no earlier one has the key or the id."""
    seen: set[tuple[str, object]] = set()
    batch = []
    for at in left:
        names = {(name, one) for name in ("id", "key") if (one := rows[at].row.get(name))}
        if seen.isdisjoint(names):
            batch.append(at)
        seen |= names
    return batch


def _recorded_at_once(
    context: PlaneContext, rows: Sequence[AgentRow]
) -> list[Receipt | MemplaneError]:
    """Record rows of different keys in one write; raises _MovedError where others were faster."""
    draft, memories, expected = context.drafting(), None, None
    if any(one.row.get("key") is not None for one in rows):
        with context.lock:
            memories = context.caught_up().memories
            expected = 0 if memories.position is None else memories.position.seq

    def make(one: Any, where: str) -> Draft:
        row = context.placed(one.row)
        ns, key = row.get("ns") or GLOBAL, row.get("key")
        made = draft(row, where)  # a mistake in what was given is named before anything else
        with bound_to(one.bounds):
            # A broken policy stops no write: the last good one judges it.
            policies = context.watched.policies_or_last()
        reader = context.reader(one.channel, agent=one.agent, policies=policies)
        if not reader.may_write(ns):
            raise reader.unwritable(ns, key)
        if key is None or memories is None:
            return made
        with context.lock:
            value = memories.current(ns, key)
        if not reader.may_replace(value):
            raise reader.unwritable(ns, key)
        return made if value is None else draft({**row, **at_least(value.sensitivity, row)}, where)

    def append(drafts: list[Draft]) -> list[Appended]:
        try:
            return context.append(drafts, expected_seq=expected)
        except ConflictError as error:
            if error.id:  # the id is taken
                raise
            raise _MovedError from None

    return [
        one
        if isinstance(one, MemplaneError)
        else Receipt(one, context.durability, context.log.line)
        for one in each(append, rows, make)
    ]
