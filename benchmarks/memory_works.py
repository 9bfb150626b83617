"""The rows of the memories: one value by its key, keys by prefix, a pack, where there are many."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import orjson
import workload
from measure import Peer, Work, seconds
from peers import Sqlite
from place import Place, lines_of

import memplane

__all__ = ["MEMORY_WORKS"]

_MICRO: Final = 1e6
_MILLI: Final = 1e3
_PREFIXED: Final = 100  # keys that a prefix names
_VERSIONS: Final = 50  # values that a replaced key had
_KINDS: Final = ("fact", "observation", "preference", "insight")
_LATER: Final = "2027-01-01T00:00:00Z"

Make = Callable[[Place, int], Work]


def rows(memories: int) -> Iterator[dict[str, Any]]:
    """Half of them values of keys that were replaced time and again, half of them one of a key."""
    replaced = max(1, memories // (2 * _VERSIONS))
    alone = 0
    for version in range(_VERSIONS):
        for number in range(replaced):
            text = f"{workload.text(number, 80)} {version}"
            yield {"kind": "fact", "key": f"often.{number:06}", "text": text}
        for number in range(replaced):
            kind = _KINDS[alone % len(_KINDS)]
            yield {"kind": kind, "key": f"once.{alone:06}", "text": workload.text(number, 90)}
            alone += 1


class Shelf:
    """A plane of memories, opened once and warm, and its lines in SQLite by key."""

    def __init__(self, place: Place) -> None:
        home = place.new("memories")
        with memplane.init(home, durability="os", trusted=False) as plane:
            plane.record_many(rows(place.memories))
            plane.keys(limit=1)
        self.plane = place.closing(memplane.open(home, durability="os"))
        self.often = self.plane.keys("often.", limit=place.memories)
        self.once = self.plane.keys("once.", limit=place.memories)
        self.sqlite = place.closing(Sqlite(place.new("sqlite"), keyed=True))
        lines = (raw.decode() for raw in lines_of(home))
        self.sqlite.insert_many([(orjson.loads(line).get("key"), line) for line in lines])
        self._chance = random.Random(3)
        self.plane.get(self.often[0])
        self.plane.pack("warm up", intent="fast")

    def newest(self, key: str) -> Any:
        """What a table with an index on the key gives: the floor of `get`."""
        query = "SELECT line FROM events WHERE key=? ORDER BY seq DESC LIMIT 1"
        return orjson.loads(self._one(query, (key,))[0][0])

    def distinct(self, prefix: str) -> list[Any]:
        """The same for keys by prefix."""
        query = "SELECT DISTINCT key FROM events WHERE key>=? ORDER BY key LIMIT ?"
        return self._one(query, (prefix, _PREFIXED))

    def _one(self, query: str, values: tuple[Any, ...]) -> list[Any]:
        connection: sqlite3.Connection = self.sqlite.connection
        return connection.execute(query, values).fetchall()

    def timed(self, act: Callable[[str], object], keys: list[str], runs: int) -> list[float]:
        """Seconds of each of so many calls, each with another key by chance."""
        return [seconds(partial(act, self._chance.choice(keys))) for _ in range(runs)]


_SHELVES: dict[int, Shelf] = {}


def _shelf(place: Place) -> Shelf:
    """One shelf for all rows of a place."""
    if id(place) not in _SHELVES:
        _SHELVES[id(place)] = Shelf(place)
    return _SHELVES[id(place)]


def _get(place: Place, runs: int, name: str, keys: list[str], aim: float | None) -> Work:
    shelf = _shelf(place)

    def timed(act: Callable[[str], object]) -> Callable[[], list[float]]:
        return lambda: [took * _MICRO for took in shelf.timed(act, keys, runs * 5)]

    return Work(
        f"get, {name}, {place.memories:,} memories", "us", timed(shelf.plane.get), aim=aim,
        peers=[Peer("SQLite by key, parsed", timed(shelf.newest))],
    )  # fmt: skip


def get_often(place: Place, runs: int) -> Work:
    """The value of a key that was replaced 50 times, one key of many, asked again and again."""
    return _get(place, runs, "replaced 50 times", _shelf(place).often, 100)


def get_once(place: Place, runs: int) -> Work:
    """The value of a key among very many, most of them asked for the first time."""
    return _get(place, runs, "any key", _shelf(place).once, None)


def keys(place: Place, runs: int) -> Work:
    """A hundred keys by prefix, also of those that were replaced 50 times."""
    shelf = _shelf(place)
    prefixes = [f"often.{number:06}"[:-2] for number in range(0, len(shelf.often), _PREFIXED)]
    prefixes += [f"once.{number:06}"[:-2] for number in range(0, len(shelf.once), _PREFIXED)]

    def timed(act: Callable[[str], object]) -> Callable[[], list[float]]:
        return lambda: [took * _MILLI for took in shelf.timed(act, prefixes, max(8, runs // 4))]

    return Work(
        "keys by prefix, 100 rows", "ms", timed(partial(shelf.plane.keys, limit=_PREFIXED)), aim=3,
        peers=[Peer("SQLite: distinct keys", timed(shelf.distinct))],
    )  # fmt: skip


def pack(place: Place, runs: int) -> Work:
    """A fast pack over nothing but memories."""
    shelf = _shelf(place)
    queries = list(workload.QUERIES)
    act = partial(shelf.plane.pack, intent="fast", budget=4000)
    return Work(
        f"fast pack, {place.memories:,} memories", "ms",
        lambda: [took * _MILLI for took in shelf.timed(act, queries, max(8, runs // 4))],
        aim=2, judged="p95",
        peers=[Peer("SQLite: newest 200 texts joined",
                    lambda: [seconds(partial(shelf.sqlite.newest, 200, 16_000)) * _MILLI
                             for _ in range(max(8, runs // 4))])],
    )  # fmt: skip


def evict(place: Place, _runs: int) -> Work:
    """What `evict --dry-run` takes to look through all memories."""
    plane = _shelf(place).plane
    act = partial(plane.work.evict, 400, dry_run=True, now=_LATER)
    return Work(f"evict, dry run, {place.memories:,} memories", "ms",
                lambda: [seconds(act) * _MILLI])  # fmt: skip


MEMORY_WORKS: Final[dict[str, Make]] = {
    "memory-get": get_often,
    "memory-get-any": get_once,
    "memory-keys": keys,
    "memory-pack": pack,
    "memory-evict": evict,
}
