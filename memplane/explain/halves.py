"""A trial of many requests in two processes: this one does the earlier half, a fork the later one.

The fork folds the log up to its last request, this process no further than to the middle. Where
none can be made, or it ends early, its half is done here.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from memplane.explain.trying import Part, Progress, part
from memplane.explain.versions import Version
from memplane.plane.reports import Saved

if TYPE_CHECKING:
    from memplane.plane import Plane

__all__ = ["halves"]


def halves(
    plane: Plane, order: Sequence[Saved], old: Version, new: Version, progress: Progress | None
) -> list[Part]:
    """Try the requests, which are in the order of the log; return both parts."""
    middle = len(order) // 2
    early, late = order[:middle], order[middle:]
    context = multiprocessing.get_context("fork")
    hears, says = context.Pipe(duplex=False)
    other = context.Process(target=_say, args=(says, plane, late, old, new), daemon=True)
    heard = _Heard(hears)
    with suppress(OSError):  # no room for another: then nobody will say anything
        other.start()
    says.close()

    def told(done: int, _: int) -> None:
        done += heard.listen()
        if progress is not None:
            progress(done, len(order))

    try:
        first = part(plane, early, old, new, told)
        while heard.part is None and heard.open:
            hears.poll(0.1)
            told(middle, middle)
    finally:
        if other.pid is not None:
            other.kill()
            other.join()
        hears.close()
    if heard.part is not None:
        return [first, heard.part]
    return [first, part(plane, late, old, new, lambda done, _: told(middle + done, 0))]


class _Heard:
    """What the other process has said so far."""

    def __init__(self, hears: Connection) -> None:
        self._hears = hears
        self._done = 0
        self.part: Part | None = None
        self.open = True

    def listen(self) -> int:
        """Take in what there is; return how many requests the other process has done."""
        try:
            while self.open and self.part is None and self._hears.poll():
                said = self._hears.recv()
                if isinstance(said, int):
                    self._done = said
                else:
                    self.part = said
        except (EOFError, OSError):
            self.open, self._done = False, 0
        return self._done


def _say(
    says: Connection, plane: Plane, order: Sequence[Saved], old: Version, new: Version
) -> None:
    """Try the requests and say so; whatever goes wrong is met again by who listens."""
    with suppress(Exception, KeyboardInterrupt), says:
        says.send(part(plane, order, old, new, lambda done, _: says.send(done)))
