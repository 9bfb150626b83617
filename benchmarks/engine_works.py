"""The rows of search engines: memplane's own index, Tantivy and HNSW (usearch) in the same plane.

Each is filled from the log of one plane and asked by `plane.search`, as users call it: its
candidates, the plane's masks, ranking and passages. An engine that is not installed has no peer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import chunks
from measure import Peer, Work, seconds
from place import Place

import memplane
from memplane.index.engine import ENGINES

__all__ = ["ENGINE_WORKS"]

_MILLI: Final = 1e3
_NAMES: Final = ("own", *ENGINES)
_TOLD: Final = {"own": "own", "tantivy": "Tantivy", "usearch": "HNSW (usearch), static vectors"}

Make = Callable[[Place, int], Work]
Sample = Callable[[], list[float]]


class _Engines:
    """One plane of `place.chunks` events, opened with one engine after another."""

    def __init__(self, place: Place) -> None:
        self.home = place.folder / "engines"
        self.count = place.chunks
        self.took: dict[str, float] = {}
        self._place = place
        self._planes: dict[str, memplane.Plane] = {}
        self._questions = iter(chunks.questions(100_000, self.count))
        self._fresh = chunks.texts(1_000_000, seed=7)

    @classmethod
    def of(cls, place: Place) -> _Engines:
        """Those of a place, made once."""
        found = _MADE.get(place.folder)
        if found is None:
            found = _MADE[place.folder] = cls(place)
        return found

    def plane(self, name: str) -> memplane.Plane:
        """The plane with an engine, filled and asked once; how long that took is kept."""
        if not self.home.exists():
            with memplane.init(self.home, durability="os", trusted=False) as plane:
                plane.record_many(
                    {"text": text, "role": "user", "session": f"s{number // 160}"}
                    for number, text in enumerate(chunks.texts(self.count))
                )
                self.took["own"] = seconds(plane.upkeep.index)
        if name not in self._planes:
            chosen = {"MEMPLANE_PLANE__INDEX__ENGINE": name}
            plane = memplane.open(self.home, durability="os", environment=chosen)
            made = self._planes[name] = self._place.closing(plane)
            took = seconds(partial(made.search, self.question(), k=10))
            self.took.setdefault(name, took)
        return self._planes[name]

    def question(self) -> str:
        """A question that was not asked before."""
        return next(self._questions)

    def search(self, name: str) -> float:
        """Milliseconds of a search."""
        plane = self.plane(name)
        return seconds(partial(plane.search, self.question(), k=10)) * _MILLI

    def add(self, name: str) -> float:
        """Milliseconds of recording a text and finding it."""
        plane, text = self.plane(name), next(self._fresh)
        words = " ".join(text.split()[:6])

        def act() -> None:
            plane.record(text, role="user", session="added")
            plane.search(words, k=10)

        return seconds(act) * _MILLI

    def size(self, name: str) -> int:
        """Bytes of the own index, or of what an engine has beside it."""
        plane = self.plane(name)
        plane.upkeep.index()
        folder = self.home / "index"
        return sum(
            path.stat().st_size for path in (folder if name == "own" else folder / name).iterdir()
            if path.is_file()
        )  # fmt: skip


_MADE: Final[dict[Path, _Engines]] = {}


def _beside(work: str, unit: str, of: Callable[[str], Sample], *, more: bool = False) -> Work:
    """The own index, and the others that are installed beside it."""
    peers = [Peer(_TOLD[name], of(name)) for name in ENGINES if find_spec(name) is not None]
    return Work(work, unit, of("own"), peers=peers, more_is_better=more)


def filling(place: Place, _runs: int) -> Work:
    """All events of a log, found by the first search; of an engine beside the own index."""
    engines = _Engines.of(place)

    def of(name: str) -> Sample:
        def sample() -> list[float]:
            engines.plane(name)
            return [engines.count / engines.took[name]]

        return sample

    return _beside(f"engine filled, {engines.count:,} events", "events/s", of, more=True)


def searching(place: Place, runs: int) -> Work:
    """`plane.search` for the ten best."""
    engines, runs = _Engines.of(place), max(4, runs // 4)

    def of(name: str) -> Sample:
        return lambda: [engines.search(name) for _ in range(runs)]

    return _beside(f"engine, plane.search, {engines.count:,} events", "ms", of)


def adding(place: Place, runs: int) -> Work:
    """One event recorded, and found by the search behind it."""
    engines, runs = _Engines.of(place), max(2, runs // 20)

    def of(name: str) -> Sample:
        return lambda: [engines.add(name) for _ in range(runs)]

    return _beside(f"engine, record + search, {engines.count:,} events", "ms", of)


def size(place: Place, _runs: int) -> Work:
    """What the own index has on disk an event, texts inside; others lie beside it."""
    engines = _Engines.of(place)

    def of(name: str) -> Sample:
        return lambda: [engines.size(name) / engines.count]

    return _beside(f"engine on disk, {engines.count:,} events", "B/event", of)


ENGINE_WORKS: Final[dict[str, Make]] = {
    "engines-fill": filling,
    "engines-search": searching,
    "engines-add": adding,
    "engines-disk": size,
}
