"""The rows of many writers: eight processes that append to one log, and what else they could do.

Each crowd is started once and waits; a sample is the lines that all of them wrote in a second,
from the moment when the first one began to the moment when the last one ended.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from measure import Peer, Work
from peers import Sqlite
from place import Place

import memplane

__all__ = ["CROWD_WORKS", "Crowd"]

_WRITERS: Final = 8
_CHARACTERS: Final = 600
_BATCH: Final = 16
_SCRIPT: Final = Path(__file__).with_name("writers.py")

Make = Callable[[Place, int], Work]


class Crowd:
    """Writers of one kind (see `writers`) at one path, as processes that wait to be asked."""

    def __init__(self, place: Place, kind: str) -> None:
        path = place.new(kind)
        if kind.startswith("sqlite"):
            Sqlite(path).close()
        elif kind == "record":
            memplane.init(path, trusted=False).close()
        elif kind != "raw":
            path.mkdir(mode=0o700)
        given = (kind, str(path), str(_CHARACTERS))
        self._processes = [
            subprocess.Popen(
                [sys.executable, str(_SCRIPT), *given],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            for _ in range(_WRITERS)
        ]  # fmt: skip
        place.closing(self)
        for process in self._processes:
            assert _answer(process) == "ready"
        self.rate(1)

    def rate(self, writes: int, lines: int = 1) -> float:
        """Lines a second, where each of them writes so many times, so many lines at once."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{writes} {lines}\n")
            process.stdin.flush()
        spans = [[float(one) for one in _answer(each).split()] for each in self._processes]
        took = max(end for _, end in spans) - min(begun for begun, _ in spans)
        return writes * lines * _WRITERS / took

    def close(self) -> None:
        """Let the processes end."""
        for process in self._processes:
            process.communicate()


def _answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line, "a writer has died"
    return line


@cache
def _crowd(place: Place, kind: str) -> Crowd:
    """One a kind: they write to the same file in all rows."""
    return Crowd(place, kind)


def append_crowd(place: Place, runs: int) -> Work:
    """`log.append` of one prepared line at a time, level os."""
    own, sqlite = _crowd(place, "os"), _crowd(place, "sqlite-normal")
    return Work(
        f"log.append, {_WRITERS} processes, os", "lines/s", lambda: [own.rate(runs * 10)],
        aim=100_000, more_is_better=True,
        peers=[Peer("SQLite insert, WAL NORMAL", lambda: [sqlite.rate(runs * 3)])],
    )  # fmt: skip


def append_batches(place: Place, runs: int) -> Work:
    """The same with many lines an append: what a turn of an agent with its calls comes to."""
    own, sqlite = _crowd(place, "os"), _crowd(place, "sqlite-normal")
    return Work(
        f"log.append of {_BATCH}, {_WRITERS} processes, os", "lines/s",
        lambda: [own.rate(runs * 2, _BATCH)], aim=100_000, more_is_better=True,
        peers=[
            Peer("SQLite insert, WAL NORMAL", lambda: [sqlite.rate(runs * 3)]),
            Peer(f"SQLite, {_BATCH} a transaction", lambda: [sqlite.rate(runs, _BATCH)]),
        ],
    )  # fmt: skip


def append_crowd_sync(place: Place, runs: int) -> Work:
    """`log.append` of one prepared line at a time, level sync."""
    own, raw, full = (_crowd(place, kind) for kind in ("sync", "raw", "sqlite-full"))
    return Work(
        f"log.append, {_WRITERS} processes, sync", "lines/s", lambda: [own.rate(runs)],
        more_is_better=True,
        peers=[
            Peer("write + fdatasync, no lock", lambda: [raw.rate(runs)]),
            Peer("SQLite insert, WAL FULL", lambda: [full.rate(max(2, runs // 4))]),
        ],
    )  # fmt: skip


def record_crowd(place: Place, runs: int) -> Work:
    """`plane.record` of new text, level sync, from the first event of each process on."""
    own, raw, full = (_crowd(place, kind) for kind in ("record", "raw", "sqlite-full"))
    return Work(
        f"record, {_WRITERS} processes, sync", "events/s", lambda: [own.rate(max(2, runs // 2))],
        more_is_better=True,
        peers=[
            Peer("write + fdatasync, no lock", lambda: [raw.rate(runs)]),
            Peer("SQLite insert, WAL FULL", lambda: [full.rate(max(2, runs // 4))]),
        ],
    )  # fmt: skip


CROWD_WORKS: Final[dict[str, Make]] = {
    "append-crowd": append_crowd,
    "append-batches": append_batches,
    "append-crowd-sync": append_crowd_sync,
    "record-crowd-sync": record_crowd,
}
