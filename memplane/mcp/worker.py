"""The open plane and the threads that use it, so that the event loop never waits for a disk.

Two threads read and one writes, so that no search delays a record, and records keep the order in
which they arrived. A cancelled read that has not begun is dropped; one that has begun runs to its
end, and a write is carried out in any case: only its answer is dropped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, Generic, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread

from memplane.errors import MemplaneError
from memplane.home import open_home
from memplane.plane import Plane

Result = TypeVar("Result")
Tell = Callable[[int, int], None]  # done, in all

_READERS: Final = 2
_LEAVE_SECONDS: Final = 1.5  # clients wait for two at the end of the input
_TELL_EVERY_SECONDS: Final = 0.1


class _Call(Generic[Result]):
    """One piece of work: what came of it, how far it is, and whether anybody still waits."""

    def __init__(self, work: Callable[[Plane, Tell], Result], *, writes: bool) -> None:
        self.work, self.writes = work, writes
        self.news, self.finished, self.abandoned = anyio.Event(), False, False
        self.at: tuple[int, int] | None = None
        self.result: Result
        self.error: BaseException | None = None
        self._next = 0.0

    def tell(self, done: int, total: int) -> None:
        """Called in the thread, as often as the work likes."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _TELL_EVERY_SECONDS
            anyio.from_thread.run_sync(self._heard, done, total)

    def _heard(self, done: int, total: int) -> None:
        self.at = done, total
        self.news.set()

    def end(self) -> None:
        self.finished = True
        self.news.set()


class Worker:
    """Opens the plane for the first call; where that fails so does the call, until it works.

    A plane that was moved away or replaced since is opened anew, where there is one. `leave` is
    called with the plane before it is closed; where that takes longer than clients wait, the plane
    is left as it is: all that was acknowledged is in its log.
    """

    def __init__(
        self, open_plane: Callable[[], Plane], leave: Callable[[Plane], None] | None = None
    ) -> None:
        self._open, self._leave = open_plane, leave
        self._opening = threading.Lock()
        self._plane: Plane | None = None
        self._writes = 0

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Take calls; at the end wait for what has begun, and close the plane."""
        self._reading = anyio.CapacityLimiter(_READERS)
        self._writing = anyio.CapacityLimiter(1)
        try:
            async with anyio.create_task_group() as self._tasks:
                yield
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._close)

    async def run(
        self,
        work: Callable[[Plane, Tell], Result],
        *,
        writes: bool = False,
        progress: Callable[[int, int], Awaitable[None]] | None = None,
    ) -> Result:
        """Do the work in a thread and give back what it gives, or raise what it raises."""
        call = _Call(work, writes=writes)
        self._writes += writes
        self._tasks.start_soon(self._carry_out, call)
        try:
            while not call.finished:
                await call.news.wait()
                call.news = anyio.Event() if not call.finished else call.news
                if progress is not None and call.at is not None and not call.finished:
                    await progress(*call.at)
        finally:
            call.abandoned = not call.finished
        if call.error is not None:
            raise call.error
        return call.result

    @property
    def writing(self) -> bool:
        """Whether something is being written; any thread may ask."""
        return self._writes > 0

    async def _carry_out(self, call: _Call[Result]) -> None:
        limiter = self._writing if call.writes else self._reading
        try:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._work, call, limiter=limiter)
        finally:
            call.end()
            self._writes -= call.writes

    def _work(self, call: _Call[Result]) -> None:
        if call.abandoned and not call.writes:
            return
        try:
            call.result = call.work(self._opened(), call.tell)
        except BaseException as error:  # noqa: BLE001 - raised again where the call is awaited
            call.error = error

    def _opened(self) -> Plane:
        with self._opening:
            if self._plane is not None and not _is_there(self._plane):
                self._plane = None  # not closed: it would write where its folder was
            if self._plane is None:
                self._plane = self._open()
            return self._plane

    def _close(self) -> None:
        with self._opening:
            if self._plane is not None and _is_there(self._plane) and self._left(self._plane):
                self._plane.close()
            self._plane = None

    def _left(self, plane: Plane) -> bool:
        """Whether `leave` has come to its end."""
        if self._leave is None:
            return True
        leaving = threading.Thread(target=self._leave, args=(plane,), daemon=True)
        leaving.start()
        leaving.join(_LEAVE_SECONDS)
        return not leaving.is_alive()


def _is_there(plane: Plane) -> bool:
    """Whether its folder still holds this plane."""
    try:
        return open_home(plane.home).plane_id == plane.id
    except MemplaneError:
        return False
