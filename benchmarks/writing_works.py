"""Rows of writing and upkeep in CPU time: records of each kind of process, `verify`, `rebuild`.

A process that works beside its caller counts too. Each has the floor beside it: SQLite with FTS5
for what is found again, one pass of SHA-256 and orjson over the lines for what is checked.
"""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, Final

import workload
from measure import Peer, Work
from peers import hash_and_parse
from place import Place

import memplane

__all__ = ["WRITING_WORKS"]

_MICRO: Final = 1e6
_FIRST: Final = 300  # records of a process, behind some that import what they need
_WARM_UP: Final = 30
_PROCESSES: Final = 2

Make = Callable[[Place, int], Work]

_FRESH: Final = """
import sys, time
sys.path.insert(0, sys.argv[1])
import memplane, workload
seed, first, warm = map(int, sys.argv[3:])
rows = [{"text": workload.text(seed + at), "role": "user"} for at in range(first + warm)]
with memplane.open(sys.argv[2], durability="os") as plane:
    for row in rows[:warm]:
        plane.record(**row)
    begun = time.process_time()
    for row in rows[warm:]:
        plane.record(**row)
    print((time.process_time() - begun) / first)
"""


def cpu_seconds(act: Callable[[], object]) -> float:
    """How much of a processor one call takes, with the processes that it starts and ends."""

    def used() -> float:
        both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(one.ru_utime + one.ru_stime for one in both)

    begun = used()
    act()
    return used() - begun


class _FullText:
    """SQLite with FTS5, a row a commit: the floor of what is stored and found."""

    def __init__(self, place: Place) -> None:
        path = place.new("fts5")
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.execute("CREATE VIRTUAL TABLE events USING fts5(text)")
        place.closing(self._connection)

    def insert(self, texts: list[str], *, at_once: bool = False) -> None:
        if at_once:
            self._connection.execute("BEGIN")
        for text in texts:
            self._connection.execute("INSERT INTO events VALUES (?)", (text,))
        if at_once:
            self._connection.execute("COMMIT")


def _recorded(place: Place, runs: int, name: str, *, searched: bool, bulk: bool) -> Work:
    plane = place.closing(memplane.open(place.copy(), durability="os"))
    if searched:
        plane.search(workload.QUERIES[0])
    plane.record_many([place.row() for _ in range(_FIRST)])
    full_text = _FullText(place)

    def record(rows: list[dict[str, Any]]) -> None:
        if bulk:
            plane.record_many(rows)
        else:
            for row in rows:
                plane.record(**row)

    def own() -> list[float]:
        rows = [place.row() for _ in range(runs)]
        return [cpu_seconds(partial(record, rows)) / runs * _MICRO]

    def peer() -> list[float]:
        texts = [place.text() for _ in range(runs)]
        insert = partial(full_text.insert, texts, at_once=bulk)
        return [cpu_seconds(insert) / runs * _MICRO]

    return Work(name, "us CPU", own, aim=120 if searched else 110, peers=[Peer("FTS5", peer)])


def record_alone(place: Place, runs: int) -> Work:
    """Records of new text one by one, level os, by a process that only writes."""
    return _recorded(place, runs * 2, "record, os, CPU", searched=False, bulk=False)


def record_searched(place: Place, runs: int) -> Work:
    """The same in bulk by a process that has searched: what it records is indexed."""
    name = "record_many, os, searched, CPU"
    return _recorded(place, runs * 5, name, searched=True, bulk=True)


def record_fresh(place: Place, _runs: int) -> Work:
    """The first records of a new process, behind its imports."""
    home, seeds = place.copy(), count(5_000_000, 10_000)
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - a text

    def own() -> list[float]:
        done = subprocess.run(
            [sys.executable, "-c", _FRESH, here, str(home), str(next(seeds)),
             str(_FIRST), str(_WARM_UP)],
            check=True, capture_output=True, text=True,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
        )  # fmt: skip
        return [float(done.stdout) * _MICRO]

    return Work(f"record, os, first {_FIRST} of a process, CPU", "us CPU", own, aim=200)


def _kept(place: Place, name: str, act: Callable[[Any], object], aim: float | None) -> Work:
    home = place.hooked

    def own() -> list[float]:
        copy = place.new("kept")
        shutil.copytree(home, copy)
        with memplane.open(copy, durability="os") as plane:
            events = plane.head().seq
            begun = time.perf_counter()
            took = cpu_seconds(partial(act, plane))
            walls.append((time.perf_counter() - begun) / events * _MICRO)
        shutil.rmtree(copy)
        return [took / events * _MICRO]

    def floor() -> list[float]:
        log = home / "log"
        return [cpu_seconds(lambda: hash_and_parse(log)) / place.events * _MICRO]

    walls: list[float] = []
    return Work(
        name, "us CPU/event", own, aim=aim,
        peers=[
            Peer("its wall time", lambda: [walls[-1]]),
            Peer("SHA-256 + orjson.loads of each line", floor),
        ],
    )  # fmt: skip


def verify_plane(place: Place, _runs: int) -> Work:
    """All of a plane, by sums."""
    return _kept(place, "verify, CPU", lambda plane: plane.upkeep.verify(), 12)


def verify_deep(place: Place, _runs: int) -> Work:
    """All of a plane, made again."""

    def act(plane: Any) -> object:
        return plane.upkeep.verify(deep=True, processes=_PROCESSES)

    return _kept(place, "verify --deep, CPU", act, None)


def rebuild(place: Place, _runs: int) -> Work:
    """Projections and index."""

    def act(plane: Any) -> object:
        return plane.upkeep.rebuild(processes=_PROCESSES)

    return _kept(place, "rebuild, CPU", act, 55)


WRITING_WORKS: Final[dict[str, Make]] = {
    "cpu-record": record_alone,
    "cpu-record-searched": record_searched,
    "cpu-record-fresh": record_fresh,
    "cpu-verify": verify_plane,
    "cpu-verify-deep": verify_deep,
    "cpu-rebuild": rebuild,
}
