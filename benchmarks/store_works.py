"""The rows of stores: a turn saved, a vector found, a session's turn and recall over SQLite."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import workload
from measure import Peer, Work
from place import Place

from memplane.acms import ACMS, ACMSConfig
from memplane.acms.storage import InMemoryBackend, PlaneBackend, SQLiteBackend, StorageBackend
from memplane.wiring import init
from memplane.work.episodes import Role, Turn

__all__ = ["STORE_WORKS"]

_MILLI: Final = 1e3
_VECTORS: Final = 1_000
_DIMENSION: Final = 384
_START: Final = datetime(2026, 1, 5, tzinfo=UTC)
_QUERY: Final = "what did we decide about the parser and its tests?"

Make = Callable[[Place, int], Work]
Stores = dict[str, Callable[[], StorageBackend]]


def _stores(place: Place) -> Stores:
    """The stores that need no server, SQLite first."""

    def plane() -> StorageBackend:
        return PlaneBackend(place.closing(init(place.new("plane"), trusted=False)))

    file = place.new("store")
    return {
        "SQLite": lambda: SQLiteBackend(file.with_suffix(".sqlite")),
        "SQLite, batched": lambda: SQLiteBackend(file.with_suffix(".batched"), flush="batched"),
        "a plane": plane,
        "in memory": InMemoryBackend,
    }


def _sampled(work: Callable[[], Awaitable[list[float]]]) -> Callable[[], list[float]]:
    async def main() -> list[float]:
        return await work()

    return lambda: asyncio.run(main())


def _turn(number: int) -> Turn:
    return Turn(
        id=f"t{number}", session_id="s", episode_id=f"s/{number // 6}", role=Role.USER,
        content=workload.text(number, 120), created_at=_START + timedelta(seconds=number),
        token_count=30, seq=number,
    )  # fmt: skip


def saving(place: Place, runs: int) -> Work:
    """One turn after another, each safe when its call returns (batched: soon after)."""
    numbers = iter(range(1, 10_000_000))

    def of(make: Callable[[], StorageBackend]) -> Callable[[], list[float]]:
        async def own() -> list[float]:
            taken = []
            async with make() as store:
                await store.save_turn(_turn(next(numbers)))
                for _ in range(runs):
                    turn = _turn(next(numbers))
                    begun = time.perf_counter()
                    await store.save_turn(turn)
                    taken.append((time.perf_counter() - begun) * _MILLI)
            return taken

        return _sampled(own)

    return _beside(
        "store: a turn saved", 10.0, {name: of(make) for name, make in _stores(place).items()}
    )


def finding(place: Place, runs: int) -> Work:
    """The ten nearest of 1,000 vectors of 384 numbers."""
    chance = random.Random(1)
    count = min(_VECTORS, place.events)
    vectors = [[chance.uniform(-1, 1) for _ in range(_DIMENSION)] for _ in range(count)]

    def of(make: Callable[[], StorageBackend]) -> Callable[[], list[float]]:
        async def own() -> list[float]:
            async with make() as store:
                for at, vector in enumerate(vectors):
                    await store.save_embedding(f"v{at}", vector, {"session_id": "s"})
                taken = []
                for at in range(max(2, runs // 10)):
                    begun = time.perf_counter()
                    await store.vector_search(vectors[at % count], k=10)
                    taken.append((time.perf_counter() - begun) * _MILLI)
                return taken

        return _sampled(own)

    stores = _stores(place)
    stores.pop("SQLite")  # the batched one asks the same, and fills sooner
    return _beside(
        "store: ten of 1,000 vectors", 20.0, {name: of(make) for name, make in stores.items()}
    )


def session(place: Place, runs: int) -> Work:
    """A turn and a recall of a session over SQLite, beside one over a plane."""
    file = place.new("session").with_suffix(".sqlite")
    folder = place.new("session")

    def of(storage: Any) -> Callable[[], list[float]]:
        async def own() -> list[float]:
            taken = []
            async with ACMS("s", storage(), config=ACMSConfig(durability="sync")) as one:
                await one.recall(_QUERY)
                for number in range(max(2, runs // 4)):
                    begun = time.perf_counter()
                    await one.ingest("user", workload.text(number, 120))
                    await one.recall(_QUERY, token_budget=800)
                    taken.append((time.perf_counter() - begun) * _MILLI)
            return taken

        return _sampled(own)

    own = {"SQLite": of(lambda: SQLiteBackend(file)), "a plane, sync": of(lambda: folder)}
    return _beside("session: a turn and a recall", None, own)


def _beside(name: str, aim: float | None, samples: dict[str, Callable[[], list[float]]]) -> Work:
    (first, own), *others = samples.items()
    peers = [Peer(other, sample) for other, sample in others]
    return Work(f"{name}, {first}", "ms", own, aim=aim, peers=peers)


STORE_WORKS: Final[dict[str, Make]] = {
    "store-save": saving, "store-find": finding, "store-session": session,
}  # fmt: skip
