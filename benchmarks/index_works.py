"""The rows of the index: search, adding, building, opening, and its share of memory and disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import chunks
import workload
from index_peers import FTS5, BM25s, RankBM25, Tantivy, have
from measure import Peer, Work, seconds
from place import Place
from shelf import RANK_BM25_MAX, Shelf

from memplane.index import terms
from memplane.index.reader import SavedIndexReader
from memplane.index.store import SegmentedIndex

__all__ = ["INDEX_WORKS", "LARGE_WORKS"]

_MICRO: Final = 1e6
_MILLI: Final = 1e3
_BUDGET: Final = 4_000
_BUILD_MAX: Final = 16_384  # as many as are merged twice

Make = Callable[[Place, int], Work]


def _asked(shelf: Shelf, act: Callable[[str], object], runs: int) -> Callable[[], list[float]]:
    """Time questions one by one, each another one."""
    runs = max(4, runs // 4)
    act(shelf.question())
    return lambda: [seconds(partial(act, shelf.question())) * _MILLI for _ in range(runs)]


def _engines(shelf: Shelf, runs: int) -> list[Peer]:
    if shelf.alone:
        return []
    peers = [Peer("SQLite FTS5", _asked(shelf, shelf.fts5.search, runs // 4))]
    if shelf.bm25s is not None:
        peers.append(Peer("bm25s, numpy", _asked(shelf, shelf.bm25s.search, runs)))
    if shelf.tantivy is not None:
        peers.append(Peer("tantivy", _asked(shelf, shelf.tantivy.search, runs)))
    if shelf.rank_bm25 is not None:
        size = min(shelf.size, RANK_BM25_MAX)
        name = f"rank_bm25, {size:,} chunks only"
        peers.append(Peer(name, _asked(shelf, shelf.rank_bm25.search, runs // 4)))
    return peers


def search(shelf: Shelf, runs: int) -> Work:
    """The ten best of 100,000 chunks by words alone."""
    return Work(f"search by words, {shelf.size:,} chunks", "ms",
                _asked(shelf, shelf.search, runs), aim=None if shelf.alone else 1,
                peers=_engines(shelf, runs))  # fmt: skip


def search_fused(shelf: Shelf, runs: int) -> Work:
    """With related words and neighbouring turns."""
    return Work(f"search fused, {shelf.size:,} chunks", "ms",
                _asked(shelf, shelf.fused, runs), aim=15 if shelf.alone else 3)  # fmt: skip


def read(shelf: Shelf, runs: int) -> Work:
    """By words alone, with the standard library alone."""
    return Work(f"search without numpy, {shelf.size:,} chunks", "ms",
                _asked(shelf, shelf.read, runs),
                peers=[Peer("the same with numpy", _asked(shelf, shelf.search, runs))])  # fmt: skip


def add(shelf: Shelf, runs: int) -> Work:
    """A chunk of a hundred words into an index of 100,000, found by the next search."""
    runs = max(4, runs // 4)
    texts = iter(chunks.texts(1_000_000, seed=3))

    def each(act: Callable[[str], object], runs: int = runs) -> Callable[[], list[float]]:
        return lambda: [seconds(partial(act, next(texts))) * _MICRO for _ in range(runs)]

    shelf.add(next(texts))
    peers = []
    if not shelf.alone:
        peers.append(Peer("SQLite FTS5, WAL NORMAL", each(shelf.fts5.add)))
        if shelf.tantivy is not None:
            peers.append(Peer("tantivy, with a commit", each(shelf.tantivy.add, max(2, runs // 8))))
    return Work("add a chunk of 100 words, searchable", "us", each(shelf.add), peers=peers)


def build(shelf: Shelf, _runs: int) -> Work:
    """Many chunks at once into an empty index, saved; the words were seen before."""
    size = min(shelf.size, _BUILD_MAX)
    documents = list(chunks.documents(size))
    texts = [document.text for document in documents]

    def own() -> object:
        index = SegmentedIndex(shelf.new("index"), plane="bench")
        index.add_many(documents)
        return index.save(size)

    def rate(make: Callable[[], object]) -> Callable[[], list[float]]:
        return lambda: [size / seconds(make)]

    own()
    peers = [Peer("SQLite FTS5", rate(lambda: FTS5(shelf.new("fts5"), texts).close()))]
    engines: dict[str, Callable[[Any], object]] = {
        "bm25s": lambda module: BM25s(module, texts),
        "tantivy": lambda module: Tantivy(module, shelf.new("tantivy"), texts),
        "rank_bm25": lambda module: RankBM25(module, texts),
    }
    for name, make in engines.items():
        module = have(name)
        if module is not None:
            peers.append(Peer(name, rate(partial(make, module))))
    return Work(f"bulk build of {size:,} chunks", "chunks/s", rate(own), aim=5_000,
                more_is_better=True, peers=peers)  # fmt: skip


def building(shelf: Shelf, _runs: int) -> Work:
    """How the index came about, with all merges, saved every 65,536 chunks; once."""
    size = shelf.index.count
    return Work(f"bulk build of {size:,} chunks, all merges", "chunks/s",
                lambda: [size / shelf.took], aim=5_000, more_is_better=True)  # fmt: skip


def opening(shelf: Shelf, runs: int) -> Work:
    """Open the index and ask it, modules imported."""
    runs = max(2, runs // 20)
    home = shelf.home

    def own() -> None:
        SegmentedIndex(home, plane="bench").view().hits(terms.query(shelf.question()), 10)

    def reader() -> None:
        SavedIndexReader(home, plane="bench").hits(terms.query(shelf.question()), 10)

    def peer() -> None:
        fts5 = FTS5(shelf.fts5.path)
        fts5.search(shelf.question())
        fts5.close()

    def times(act: Callable[[], object]) -> Callable[[], list[float]]:
        return lambda: [seconds(act) * _MILLI for _ in range(runs)]

    peers = [Peer("the same without numpy", times(reader))]
    if not shelf.alone:
        peers.append(Peer("SQLite FTS5", times(peer)))
    return Work(f"open + first search, {shelf.size:,} chunks", "ms", times(own), aim=50,
                peers=peers)  # fmt: skip


def disk(shelf: Shelf, _runs: int) -> Work:
    """Bytes of the index a chunk, texts inside."""
    peers = []
    if not shelf.alone:
        peers.append(Peer("SQLite FTS5, texts inside",
                          lambda: [shelf.fts5.path.stat().st_size / shelf.size]))  # fmt: skip
    return Work(f"index on disk, {shelf.size:,} chunks", "B/chunk",
                lambda: [shelf.bytes / shelf.size], peers=peers)  # fmt: skip


_MEMORY: Final = """
import pathlib, resource, sys
from memplane.index import terms
from memplane.index.store import SegmentedIndex
import numpy, snowballstemmer, chunks

def resident():
    # Not `ru_maxrss` where there is better: a child begins with its parent's.
    here = pathlib.Path("/proc/self/statm")
    if here.exists():
        return int(here.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

questions = chunks.questions(200, 2000)
terms.query(questions[0])
before = resident()
index = SegmentedIndex(pathlib.Path(sys.argv[1]), plane="bench")
view = index.view()
for question in questions:
    view.hits(terms.query(question), 10)
print(resident() - before)
"""


def memory(shelf: Shelf, _runs: int) -> Work:
    """What a process grows by that opens the index and asks 200 questions, mapped pages too."""
    command = [sys.executable, "-c", _MEMORY, str(shelf.home)]
    there = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}

    def own() -> list[float]:
        done = subprocess.run(command, check=True, text=True, capture_output=True, env=there)
        return [int(done.stdout) / shelf.size]

    return Work(f"memory of 200 searches, {shelf.size:,} chunks", "B/chunk", own)


def deep_pack(place: Place, runs: int) -> Work:
    """A pack that searches the whole log."""
    plane, session = place.big_open, place.session
    queries = _cycled()
    return Work(
        f"deep pack, warm, {place.events:,} events", "ms",
        lambda: [seconds(partial(plane.pack, next(queries), session=session, intent="deep",
                                 budget=_BUDGET)) * _MILLI for _ in range(max(8, runs // 4))],
        aim=6, judged="p95",
    )  # fmt: skip


def plane_search(place: Place, runs: int) -> Work:
    """`plane.search`, as users call it."""
    plane = place.big_open
    queries = _cycled()
    return Work(
        f"plane.search, {place.events:,} events", "ms",
        lambda: [seconds(partial(plane.search, next(queries))) * _MILLI
                 for _ in range(max(8, runs // 4))],
    )  # fmt: skip


def _cycled() -> Any:
    number = 0
    while True:
        number += 1
        # A query is not asked twice: the words around it change.
        base = workload.QUERIES[number % (len(workload.QUERIES))] or "what was decided"
        yield f"{base} {workload.text(number)[:40]}"


def _usual(make: Callable[[Shelf, int], Work]) -> Make:
    return lambda place, runs: make(place.shelf, runs)


def _large(make: Callable[[Shelf, int], Work]) -> Make:
    return lambda place, runs: make(place.large_shelf, runs)


INDEX_WORKS: Final[dict[str, Make]] = {
    "search": _usual(search),
    "search-fused": _usual(search_fused),
    "search-reader": _usual(read),
    "search-open": _usual(opening),
    "index-add": _usual(add),
    "index-build": _usual(build),
    "index-disk": _usual(disk),
    "index-memory": _usual(memory),
    "pack-deep": deep_pack,
    "plane-search": plane_search,
}
# Minutes to build: with `--large` only.
LARGE_WORKS: Final[dict[str, Make]] = {
    "large-index-build": _large(building),
    "large-search": _large(search),
    "large-search-fused": _large(search_fused),
    "large-search-reader": _large(read),
    "large-search-open": _large(opening),
    "large-index-add": _large(add),
    "large-index-disk": _large(disk),
    "large-index-memory": _large(memory),
}
