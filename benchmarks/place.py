"""The planes that the rows work on, each made when a row first asks for it."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import workload
from peers import Sqlite
from shelf import Shelf

import memplane
from memplane.wiring import make_counter

__all__ = ["Place", "lines_of"]


class _Closing(Protocol):
    def close(self) -> object: ...


Closing = TypeVar("Closing", bound=_Closing)


class Place:
    """A folder of planes. `events` is the size of the big one, `chunks` that of the index.

    `memories` is how many values the plane of memories has.
    """

    def __init__(
        self, folder: Path, events: int, chunks: int, memories: int, tell: Callable[[str], None]
    ) -> None:
        self.folder, self.events, self.chunks, self._tell = folder, events, chunks, tell
        self.memories = memories
        self.built_per_second = 0.0
        self._stack = ExitStack()
        self._numbers = count(1)
        self._texts = count(1_000_000)

    def new(self, name: str) -> Path:
        """A path that nothing lies at."""
        return self.folder / f"{name}-{next(self._numbers)}"

    def closing(self, thing: Closing) -> Closing:
        """The thing, closed at the end."""
        self._stack.callback(thing.close)
        return thing

    def plane(self, durability: Literal["sync", "os"]) -> memplane.Plane:
        """An empty plane."""
        return self.closing(memplane.init(self.new("plane"), durability=durability, trusted=False))

    def warm(self, name: str) -> memplane.Plane:
        """An almost empty plane at level os, the counter's tables read. The caller closes it."""
        plane = memplane.init(self.new(name), durability="os", trusted=False)
        plane.record(**self.row())
        return plane

    def text(self) -> str:
        """600 characters that were not given before."""
        return workload.text(next(self._texts))

    def row(self) -> dict[str, Any]:
        """A new message of 600 characters."""
        return {"text": self.text(), "role": "assistant", "session": "bench"}

    @cached_property
    def big(self) -> Path:
        """A closed plane of `events` events, with its projections."""
        path = self.folder / "big"
        rows = list(workload.rows(self.events))
        self._tell(f"building a plane of {self.events:,} events")
        start = time.perf_counter()
        with memplane.init(path, durability="os", trusted=False) as plane:
            plane.record_many(rows)
            plane.upkeep.index()
            plane.pack("warm up")
        self.built_per_second = self.events / (time.perf_counter() - start)
        return path

    @cached_property
    def big_open(self) -> memplane.Plane:
        """The big plane, opened once and warm; nobody writes to it."""
        plane = self.closing(memplane.open(self.big, durability="os"))
        plane.pack("warm up")
        return plane

    @cached_property
    def session(self) -> str:
        """The newest session of the big plane."""
        line = self.big_open.event(self.big_open.head().seq)
        return line.session or ""

    @cached_property
    def big_sqlite(self) -> Sqlite:
        """The lines of the big plane in SQLite."""
        peer = self.closing(Sqlite(self.new("sqlite"), keyed=True))
        lines = [raw.decode() for raw in lines_of(self.big)]
        peer.insert_many([(json.loads(line).get("key"), line) for line in lines])
        return peer

    @cached_property
    def shelf(self) -> Shelf:
        """The index of `chunks` chunks and the engines it is held against."""
        return self.closing(Shelf(self.folder, self.chunks, self._tell))

    @cached_property
    def large_shelf(self) -> Shelf:
        """An index ten times as large, alone."""
        return self.closing(Shelf(self.folder, 10 * self.chunks, self._tell, alone=True))

    def copy(self) -> Path:
        """A copy of the big plane, to write to."""
        path = self.new("copy")
        shutil.copytree(self.big, path)
        return path

    @cached_property
    def hooked(self) -> Path:
        """A copy of the big plane as a catch-up leaves it: indexed, folded to its end."""
        path = self.copy()
        with memplane.open(path, durability="os") as plane:
            plane.upkeep.index()
            plane.upkeep.rebuild()
        return path

    @cached_property
    def counter(self) -> memplane.ports.TokenCounter:
        """The default counter, with its tables read."""
        counter = make_counter("bound/1", 1_000_000)
        counter.count(self.text())
        return counter

    def close(self) -> None:
        self._stack.close()


def lines_of(home: Path) -> Iterator[bytes]:
    """The lines of a plane's log."""
    for file in sorted((home / "log").glob("*.jsonl")):
        yield from file.read_bytes().splitlines()
