"""What is in force again, or approved again, without some events: found by folding all the rest.

What a purge takes may have forgotten others, taken the place of their values, or taken approvals
back. Which of it counted is for the projections to say, with it and without.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from memplane.plane.approvals import Approvals
from memplane.plane.engine import NO_END
from memplane.projections.artifacts import Artifacts
from memplane.projections.memories import Memories

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from memplane.event import Event
    from memplane.plane.engine import Engine
    from memplane.ports import Line

__all__ = ["NOTHING", "Revived", "revived"]

_AT_ONCE: Final = 1_000
_ACTS: Final = ("forget", "approval")


class Revived(NamedTuple):
    """Seq and id of what comes back, in log order; `approved` are artifacts among them.

    Those prompts may show again, since nothing takes their approval back any more.
    """

    events: tuple[tuple[int, str], ...]
    approved: frozenset[int]


NOTHING: Final = Revived((), frozenset())


def revived(
    engine: Engine, taken: Collection[Event], own: Collection[str],
    progress: Callable[[int, int], None] | None = None,
) -> Revived:  # fmt: skip
    """What comes back without the events that are taken; `own` are kinds that nothing archives.

    `progress` is told how many seqs were folded, and of how many. Hold the engine's lock.
    """
    if not any(event.key is not None or event.kind in _ACTS for event in taken):
        return NOTHING
    seqs = {event.seq for event in taken}
    left = _Left(engine, seqs, progress)
    folds, now = engine.caught_up(), engine.clock()
    before = set(engine.approvals(folds).covered(as_of=NO_END, now=now))
    approved = {seq for seq in left.covered(now) if seq not in before}
    found = []
    for line in engine.log.read():
        event = line.event
        if event.seq in seqs or event.kind in own:
            continue
        gone = folds.memories.archived(event)
        if gone is None and event.seq not in approved:
            continue
        if left.memories.archived(event) is None:
            found.append((event.seq, event.id))
    return Revived(tuple(found), frozenset(approved.intersection(seq for seq, _ in found)))


class _Left:
    """Memories and approvals as they would be folded from the log without some lines."""

    def __init__(
        self, engine: Engine, seqs: set[int], progress: Callable[[int, int], None] | None
    ) -> None:
        self._find = engine.log.find
        self.memories = Memories(engine.log, None, plane=engine.home.plane_id)
        artifacts = Artifacts()
        self._table = artifacts.initial()
        lines = (line for line in engine.log.read() if line.event.seq not in seqs)
        head = engine.log.head().seq
        for some in _portions(lines):
            self.memories.fold(some)
            for line in some:
                if line.event.kind in artifacts.kinds_read:
                    artifacts.apply(self._table, line)
            if progress is not None:
                progress(some[-1].event.seq, head)

    def covered(self, now: str) -> tuple[int, ...]:
        """The seqs of the artifacts that would be approved."""
        approvals = Approvals(self._table, self.memories, self._find)
        return approvals.covered(as_of=NO_END, now=now)


def _portions(lines: Iterator[Line]) -> Iterator[list[Line]]:
    while some := list(islice(lines, _AT_ONCE)):
        yield some
