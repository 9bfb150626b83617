"""The planes behind one address: opened when they are asked for, closed when nobody asks.

At most `PLANES_MAX` are open at once, which bounds threads and descriptors; the one that was idle
for longest makes room. Each has the threads of a `PlaneRunner` (`memplane.acms.runner`), and a
bounded line of calls: who comes when it is full is told to come again.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from memplane.acms.runner import AgentRow, PlaneOpening, PlaneRunner, held, release_settled
from memplane.context.calls import Receipt
from memplane.errors import MemplaneError, NotFoundError
from memplane.lazy import NamedTuple
from memplane.plane import Plane
from memplane.serve.tokens import NAME

Made = TypeVar("Made")

PLANES_MAX: Final = 64
WAITING_MAX: Final = 128  # calls of one plane that run or wait
IDLE_S: Final = 300.0
_SWEEP_S: Final = 15.0
_SETTLE_S: Final = 10.0
ONLY: Final = "main"  # the name of the plane of `--home`


class OpenLimits(NamedTuple):
    """How many planes are open at most, and until when.

    `memory`: bytes of this process, above which no further plane is opened until idle ones are
    closed; 0: no bound.
    """

    most: int = PLANES_MAX
    idle_s: float = IDLE_S
    memory: int = 0


class BusyError(MemplaneError):
    """More is asked for at once than the server takes; the same may be asked again soon."""


class _Open:
    """An open plane, how many calls it has, and when the last one ended."""

    def __init__(self, runner: PlaneRunner, path: Path) -> None:
        self.runner = runner
        self.calls = 0
        self.left = time.monotonic()
        self._path, self._stamp = path, _stamp(path)

    def is_there(self) -> bool:
        """Whether its folder holds this plane still: none was put in its place, or moved away."""
        return self._stamp is not None and _stamp(self._path) == self._stamp


def _stamp(path: Path) -> tuple[int, ...] | None:
    """What tells the plane in a folder from another one; None where there is none."""
    try:
        found = (path / "plane.json").lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


class Planes:
    """Planes by name, in a folder, or one alone. Of one event loop."""

    def __init__(
        self,
        folder: Path | None,
        only: Path | None,
        limits: OpenLimits = OpenLimits(),  # noqa: B008 - a record, never changed
    ) -> None:
        self._folder, self._only, self._limits = folder, only, limits
        self._open: dict[str, _Open] = {}
        self._writing: set[asyncio.Task[Any]] = set()
        self._changing = asyncio.Lock()

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    def names(self) -> list[str]:
        """All that there are."""
        if self._only is not None:
            return [ONLY]
        with os.scandir(self._folder) as entries:
            return sorted(one.name for one in entries if self._path(one.name) is not None)

    def _path(self, name: str) -> Path | None:
        if self._only is not None:
            return self._only if name == ONLY else None
        if self._folder is None or not NAME.fullmatch(name):
            return None
        path = self._folder / name
        return path if not path.is_symlink() and (path / "plane.json").is_file() else None

    async def read(self, name: str, call: Callable[[Plane], Made]) -> Made:
        """What a call gives that reads; raises NotFoundError, BusyError, and what it raises."""
        async with self._using(name) as runner:
            return await runner.reading(call, runner.plane)

    async def write(self, name: str, call: Callable[[Plane], Made]) -> Made:
        """What a call gives that writes. It runs to its end even where nobody waits any more."""

        async def written() -> Made:
            async with self._using(name) as runner:
                return await runner.writing(lambda: call(runner.plane))

        return await self._to_its_end(written())

    async def record(self, name: str, row: AgentRow) -> Receipt:
        """Record a row for an agent, in one write with those that wait at the same time.

        Raises NotFoundError, BusyError, and what `record_as` does. It runs to its end as well.
        """

        async def written() -> Receipt:
            async with self._using(name) as runner:
                return await runner.commit.write(row)

        return await self._to_its_end(written())

    async def _to_its_end(self, work: Coroutine[Any, Any, Made]) -> Made:
        task = asyncio.create_task(work)
        self._writing.add(task)
        task.add_done_callback(self._written)
        return await asyncio.shield(task)

    def _written(self, task: asyncio.Task[Any]) -> None:
        self._writing.discard(task)
        if not task.cancelled():
            task.exception()  # who waited may have given up: it is then nobody's

    @asynccontextmanager
    async def _using(self, name: str) -> AsyncIterator[PlaneRunner]:
        one = self._open.get(name)
        if one is None or not one.is_there():
            one = await self._opened(name)
        if one.calls >= WAITING_MAX:
            raise BusyError("too many calls of this plane wait; try again")
        one.calls += 1
        try:
            yield one.runner
        finally:
            one.calls -= 1
            one.left = time.monotonic()

    async def _opened(self, name: str) -> _Open:
        async with self._changing:
            one = self._open.get(name)
            if one is not None and one.is_there():
                return one
            if one is not None:
                await self._close(name)
            path = await asyncio.to_thread(self._path, name)
            if path is None:
                raise NotFoundError("no such plane")
            while self._open and self._is_full():
                await self._make_room()
            one = self._open[name] = _Open(await held(PlaneOpening(path)), path)
            return one

    def _is_full(self) -> bool:
        most = self._limits.memory
        return len(self._open) >= self._limits.most or bool(most and resident() > most)

    async def _make_room(self) -> None:
        idle = [name for name, one in self._open.items() if not one.calls]
        if not idle:
            raise BusyError("too many planes are in use; try again")
        await self._close(min(idle, key=lambda name: self._open[name].left))

    async def _close(self, name: str) -> None:
        """Close a plane; one that was moved away is let go, or it would write where it was."""
        one = self._open.pop(name)
        one.runner.owned = one.is_there()
        await release_settled(one.runner, _SETTLE_S)

    async def sweep(self) -> None:
        """Close what was idle for long, until this is cancelled."""
        while True:
            await asyncio.sleep(min(_SWEEP_S, self._limits.idle_s))
            async with self._changing:
                before = time.monotonic() - self._limits.idle_s
                for name, one in list(self._open.items()):
                    if not one.calls and one.left < before:
                        await self._close(name)

    async def close(self) -> None:
        """Wait for what is being written, and close all."""
        if self._writing:
            await asyncio.wait(set(self._writing), timeout=_SETTLE_S)
        async with self._changing:
            for name in list(self._open):
                await self._close(name)


def resident() -> int:
    """Bytes of memory of this process now; the most that it had, where the system says no more."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - a line of the kernel
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return found if sys.platform == "darwin" else found * 1024
