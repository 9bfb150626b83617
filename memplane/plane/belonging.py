"""Which events belong to a task: those that name it, and what happened while it was active there.

To tell costs one pass over the log, remembered with the projections and carried on from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memplane.pack.expansion_depths import belongs, says
from memplane.projections.tasks import Tasks, owner_of

if TYPE_CHECKING:
    from memplane.plane.folds import Folds
    from memplane.projections.projector import Replayable

__all__ = ["OfTask", "of_task"]

_KEPT: Final = 4  # tasks that are followed at once


class OfTask:
    """The seqs of a task's events, in log order; `facts` of the decisions and facts among them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.every: list[int] = []
        self.facts: list[int] = []
        self._projector = Tasks(keep=name)
        self._state = self._projector.initial()
        self._seq = 0

    def follow(self, log: Replayable) -> OfTask:
        """Take in what the log has gained."""
        if self._seq == log.head().seq:  # to read on would look at a whole segment
            return self
        for line in log.read(self._seq):
            event = line.event
            # Asked before the event is folded: what ends a task is still of it.
            if owner_of(self._state, event) == self.name and belongs(event):
                self.every.append(event.seq)
                if says(event):
                    self.facts.append(event.seq)
            self._projector.apply(self._state, line)
            self._seq = event.seq
        return self


def of_task(folds: Folds, name: str) -> OfTask:
    """The events of a task as far as the log goes. Hold the engine's lock."""
    found = folds.of_tasks.pop(name, None) or OfTask(name)
    while len(folds.of_tasks) >= _KEPT:
        del folds.of_tasks[next(iter(folds.of_tasks))]
    folds.of_tasks[name] = found.follow(folds.log)
    return found
