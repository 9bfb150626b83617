"""The rows of a session's API: to ingest a turn, to recall at 10,000 turns, the loop meanwhile."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Final

import workload
from measure import Peer, Work, seconds
from memory_peers import MEMORIES, opened
from peers import Sqlite
from place import Place

import memplane
from memplane.acms import ACMS, ACMSConfig

__all__ = ["SESSION_WORKS"]

_MILLI: Final = 1e3
_TURNS: Final = 10_000
_QUICK_BELOW: Final = 1_000  # events of a quick run: the log of a session is as short
_QUERY: Final = "what did we decide about the parser and its tests?"
_TICK: Final = 0.005
_FILL: Final = 100
_FILL_SECONDS: Final = 40
_ITEMS: Final = 186  # as many as memplane recalls there

Make = Callable[[Place, int], Work]


def _session(name: str, plane: memplane.Plane) -> ACMS:
    return ACMS(name, plane, config=ACMSConfig(durability="os"))


def _filled(place: Place, turns: int) -> memplane.Plane:
    plane = memplane.init(place.new("session"), durability="os", trusted=False)
    plane.record_many(
        {"text": text, "role": "user" if n % 2 else "assistant", "session": "s"}
        for n, text in enumerate(_texts(turns))
    )
    return place.closing(plane)


def _texts(turns: int) -> list[str]:
    return [
        f"Goal: {workload.text(n, 60)}" if n % 50 == 0 else workload.text(n, 120)
        for n in range(turns)
    ]


def _turns(place: Place) -> int:
    return _TURNS if place.events >= _QUICK_BELOW else place.events


def ingest(place: Place, runs: int) -> Work:
    """One turn after another, each acknowledged: survives the process."""
    plane = place.closing(memplane.init(place.new("ingest"), durability="os", trusted=False))
    sqlite = place.closing(Sqlite(place.new("sqlite")))

    def own() -> list[float]:
        async def main() -> list[float]:
            taken = []
            async with _session("s", plane) as session:
                await session.ingest("user", "warm")
                for n in range(runs):
                    begun = time.perf_counter()
                    await session.ingest("user", workload.text(n, 120))
                    taken.append((time.perf_counter() - begun) * _MILLI)
            return taken

        return asyncio.run(main())

    def peer() -> list[float]:
        taken = []
        for n in range(runs):
            begun = time.perf_counter()
            sqlite.insert(workload.text(n, 120))
            taken.append((time.perf_counter() - begun) * _MILLI)
        return taken

    work = Work("session: ingest a turn", "ms", own, aim=1.0)
    work.peers = [
        Peer("SQLite, one insert", peer),
        Peer("the plan's limit", lambda: [5.0]),
        *(_adding(name, place, runs) for name in MEMORIES),
    ]
    return work


def _adding(name: str, place: Place, runs: int) -> Peer:
    """The same turns into another memory, one after another."""
    memory = opened(name, place.new(name))
    if memory is None:
        return Peer(name, None)
    place.closing(memory)
    memory.add("warm")

    def sample() -> list[float]:
        texts = [workload.text(n, 120) for n in range(runs)]
        return [seconds(partial(memory.add, text)) * _MILLI for text in texts]

    return Peer(memory.name, sample)


def _finding(name: str, place: Place, turns: list[str], runs: int) -> Peer:
    """The same question to another memory of as many turns; of fewer where filling takes long."""
    memory = opened(name, place.new(name))
    if memory is None:
        return Peer(name, None)
    place.closing(memory)
    filled, begun = 0, time.perf_counter()
    while filled < len(turns) and time.perf_counter() - begun < _FILL_SECONDS:
        memory.fill(turns[filled : filled + _FILL])
        filled = min(filled + _FILL, len(turns))
    ask = partial(memory.recall, _QUERY, _ITEMS)
    ask()
    told = "" if filled == len(turns) else f" ({filled:,} turns)"
    return Peer(memory.name + told, lambda: [seconds(ask) * _MILLI for _ in range(runs)])


def recall(place: Place, runs: int) -> Work:
    """A recall of 4,000 tokens from a session of 10,000 turns, warm."""
    plane = _filled(place, _turns(place))

    def own() -> list[float]:
        async def main() -> list[float]:
            taken = []
            async with _session("s", plane) as session:
                await session.recall(_QUERY)
                for _ in range(runs):
                    begun = time.perf_counter()
                    await session.recall(_QUERY)
                    taken.append((time.perf_counter() - begun) * _MILLI)
            return taken

        return asyncio.run(main())

    def floor() -> list[float]:
        taken = []
        for _ in range(runs):
            begun = time.perf_counter()
            plane.search(_QUERY, k=200, session="s")
            taken.append((time.perf_counter() - begun) * _MILLI)
        return taken

    work = Work("session: recall at 10,000 turns", "ms", own, aim=15.0)
    texts = _texts(_turns(place))
    # A memory that takes a second for an answer is asked less often.
    seldom = max(1, runs // 20)
    work.peers = [
        Peer("its search, 200 hits", floor),
        Peer("the plan's limit", lambda: [50.0]),
        *(_finding(name, place, texts, seldom) for name in MEMORIES),
    ]
    return work


def longest_wait(place: Place, runs: int) -> Work:
    """How long a ticker of 5 ms waits at most while 100 sessions ingest and recall.

    In a process of its own: a full collection of garbage walks all that a process has imported,
    and this one has imported the engines of all rows. Such a collection comes in a longer run.
    """
    plane = _filled(place, min(_turns(place), 2_000))
    home = str(plane.home)
    plane.close()

    def waits(calls: int) -> list[float]:
        argv = [sys.executable, __file__, home, str(calls)]
        done = subprocess.run(argv, check=True, capture_output=True, text=True)
        return [float(done.stdout)]

    work = Work("session: longest wait of the loop", "ms", lambda: waits(runs * 5), aim=50.0)
    work.peers = [Peer("a loop with nothing beside it", lambda: waits(0))]
    return work


async def _ticked(plane: memplane.Plane, calls: int) -> float:
    late: list[float] = []

    async def tick() -> None:
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(_TICK)
            late.append((time.perf_counter() - begun - _TICK) * _MILLI)

    ticking = asyncio.create_task(tick())
    if calls:
        await _crowd(plane, calls)
    else:
        await asyncio.sleep(1)
    ticking.cancel()
    return max(late)


async def _crowd(plane: memplane.Plane, count: int) -> None:
    """100 sessions that ingest and recall, all at once."""
    sessions = [_session(f"s{n}", plane) for n in range(100)]

    async def work(n: int) -> None:
        session = sessions[n % 100]
        if n % 3:
            await session.ingest("user", workload.text(n, 80))
        else:
            await session.recall(_QUERY, token_budget=800)

    for begin in range(0, count, 100):
        await asyncio.gather(*(work(begin + n) for n in range(100)))
    for session in sessions:
        await session.close()


SESSION_WORKS: Final[dict[str, Make]] = {
    "session-ingest": ingest,
    "session-recall": recall,
    "session-loop": longest_wait,
}


if __name__ == "__main__":
    with memplane.open(sys.argv[1], durability="os") as opened_here:
        print(asyncio.run(_ticked(opened_here, int(sys.argv[2]))))
