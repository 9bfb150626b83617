"""The rows of a log of a million lines: verifying it, and opening a plane that has it.

The lines are written without a plane, many at once, which takes a minute and a half; folding them
once before anything is timed takes another.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, partial
from itertools import chain, repeat
from pathlib import Path
from typing import Final

import orjson
import workload
from measure import Peer, Work, seconds
from peers import hash_and_parse
from place import Place

import memplane
from memplane.intake import Intake, Redactor
from memplane.log import FileLog, verify_log
from memplane.wiring import clock, open_plane

__all__ = ["LARGE_LOG_WORKS"]

_ROWS: Final = 65_000  # then the same texts again
_TIMES: Final = 16  # as many lines as the big plane has events, times this
_BATCH: Final = 512
_MILLI: Final = 1e3

Make = Callable[[Place, int], Work]


@cache
def _large(place: Place) -> Path:
    """A closed plane of sixteen times the big one's events; nothing is folded yet."""
    path = place.new("large")
    with memplane.init(path, durability="os", trusted=False) as plane:
        plane_id = plane.id
    intake, rows = Intake(Redactor(())), list(workload.rows(min(_ROWS, place.events)))
    again = chain.from_iterable(repeat(rows, -(-place.events * _TIMES // len(rows))))
    with FileLog(path, plane_id, clock=clock, durability="os") as log:
        batch = []
        for number, row in enumerate(again):
            batch.append(intake.prepare({**row, "id": None}, id=f"large-{number}"))
            if len(batch) == _BATCH:
                log.append(batch)
                batch = []
        log.append(batch)
    return path


def verify_large(place: Place, _runs: int) -> Work:
    """Chain and decode of every line, by as many processes as there are processors."""
    home = _large(place)
    plane_id = orjson.loads((home / "plane.json").read_bytes())["plane"]
    check = partial(verify_log, home, plane_id, loads=orjson.loads)
    events = check(processes=os.cpu_count() or 1).events

    def own() -> list[float]:
        return [events / seconds(partial(check, processes=os.cpu_count() or 1))]

    return Work(
        f"verify, {events:,} lines", "lines/s", own, aim=300_000, more_is_better=True,
        peers=[
            Peer("by one process alone", lambda: [events / seconds(check)]),
            Peer("SHA-256 + orjson.loads of each line",
                 lambda: [events / seconds(partial(hash_and_parse, home / "log"))]),
        ],
    )  # fmt: skip


def open_large(place: Place, runs: int) -> Work:
    """Open the plane and read a key, modules imported, all folded before."""
    home = _large(place)
    with open_plane(home) as plane:
        key = plane.keys()[0]
        events = plane.head().seq

    def own() -> None:
        with open_plane(home) as plane:
            assert plane.get(key) is not None

    own()
    name = f"open + get + close, {events:,} events"
    runs = max(2, runs // 20)
    return Work(name, "ms", lambda: [seconds(own) * _MILLI for _ in range(runs)], aim=50)


LARGE_LOG_WORKS: Final[dict[str, Make]] = {
    "verify-large": verify_large,
    "open-large": open_large,
}
