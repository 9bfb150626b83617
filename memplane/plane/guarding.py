"""Writes on behalf of an agent: only into namespaces that it may write, over no hidden value.

An agent writes into any namespace but those of other agents. A key whose value in force it may not
see is refused, in the words in which another agent's namespace is: nothing is said of the value.
That some value is there can be told from the refusal. It is the price of the other promise: to take
the write and let it replace the value would lose what its owner never gave up, and to take it and
let it replace nothing would leave two values in force under one key. Who tries keys to find out
leaves an event in the log for each one that was free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memplane.errors import ConflictError, LockError, NotFoundError
from memplane.event import GLOBAL, at_least
from memplane.intake.redact import shown
from memplane.plane.forgets import forget
from memplane.plane.writing import Receipt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memplane.plane.engine import Engine
    from memplane.plane.reading import Reader

__all__ = ["forget_as", "record_as"]

_TRIES: Final = 50  # while others write to the plane


def record_as(engine: Engine, row: Mapping[str, Any], *, channel: str, agent: str) -> Receipt:
    """Record an event for an agent that reads on a channel.

    A value that replaces another is at least as sensitive. Raises ScopeError for what is not the
    agent's to write, LockError where others write without a pause, and what `Plane.record` raises.
    """
    ns, key = row.get("ns") or GLOBAL, row.get("key")
    draft = engine.drafting()
    draft(row, "")  # a mistake in what was given is named before anything else
    reader = _reader(engine, channel, agent)
    if not reader.may_write(ns):
        raise reader.unwritable(ns, key)
    if key is None:
        return Receipt(engine.append([draft(row, "")])[0], engine.durability, engine.log.line)
    for _ in range(_TRIES):
        with engine.lock:
            memories = engine.caught_up().memories
            read, value = memories.position, memories.current(ns, key)
        if not reader.may_replace(value):
            raise reader.unwritable(ns, key)
        kept = {} if value is None else at_least(value.sensitivity, row)
        try:
            done = engine.append(
                [draft({**row, **kept}, "")], expected_seq=read.seq if read is not None else 0
            )
        except ConflictError as error:
            if error.id:  # the id is taken
                raise
            continue
        return Receipt(done[0], engine.durability, engine.log.line)
    raise LockError("others write to this plane without a pause; try again", holder=None)


def forget_as(
    engine: Engine, named: dict[str, str | None], ns: str, reason: str, *, channel: str, agent: str
) -> Receipt:
    """Forget an event (id) or the value of a key for an agent that reads on a channel.

    Raises ScopeError for another agent's namespace, NotFoundError for what the agent may not see.
    """
    reader = _reader(engine, channel, agent)
    if named.get("id") is not None:
        line = engine.log.find(str(named["id"]))
        if line is None or not reader.may_read(line.event):
            raise NotFoundError(f"no event {shown(named['id'])}")
        ns = line.event.ns
    if not reader.may_write(ns):
        raise reader.unwritable(ns, named.get("key"))
    return forget(engine, named, ns, reason, undo=False, reader=reader)


def _reader(engine: Engine, channel: str, agent: str) -> Reader:
    # As recording does it: a broken policy stops no write, the last good one judges it.
    return engine.reader(channel, agent=agent, policies=engine.watched.policies_or_last())
