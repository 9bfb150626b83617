"""The index that the rows of search work on, and the other engines over the same chunks."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from itertools import count, cycle, islice
from pathlib import Path
from typing import Any

import chunks
from index_peers import FTS5, BM25s, RankBM25, Tantivy, have

from memplane.index import terms
from memplane.index.ranking import Columns, Ranking, RankingQuery, rank
from memplane.index.reader import SavedIndexReader
from memplane.index.store import SegmentedIndex
from memplane.index.vectors import related
from memplane.search.retriever import neighbours

__all__ = ["RANK_BM25_MAX", "Shelf"]

RANK_BM25_MAX = 10_000  # at ten times that one question takes a third of a second
_RANKED = 200
_SAVED_TOGETHER = 65_536


class Shelf:
    """An index of `size` chunks, made when a row first asks for it; `alone`: no other engines."""

    def __init__(
        self, folder: Path, size: int, tell: Callable[[str], None], *, alone: bool = False
    ) -> None:
        self.folder, self.size, self.alone, self._tell = folder, size, alone, tell
        self.took = 0.0  # seconds to build it
        self._numbers = count(size + 1)  # of what is new: seqs and paths
        self._questions = cycle(chunks.questions(1_000, size))
        self._columns = Columns()

    def new(self, name: str) -> Path:
        """A path that nothing lies at."""
        return self.folder / f"{name}-{self.size}-{next(self._numbers)}"

    def question(self) -> str:
        return next(self._questions)

    @cached_property
    def home(self) -> Path:
        """The folder of the saved index."""
        path = self.folder / f"index-{self.size}"
        index = SegmentedIndex(path, plane="bench")
        source = chunks.documents(self.size)
        while batch := list(islice(source, _SAVED_TOGETHER)):
            self._tell(f"building an index of {self.size:,} chunks: {index.count:,}")
            start = time.perf_counter()
            index.add_many(batch)
            index.save(index.count)
            self.took += time.perf_counter() - start
        return path

    @property
    def bytes(self) -> int:
        """What the folder takes on disk."""
        return sum(path.stat().st_size for path in self.home.iterdir())

    @cached_property
    def index(self) -> SegmentedIndex:
        """The index, open; rows add to it in memory and never save."""
        return SegmentedIndex(self.home, plane="bench")

    @cached_property
    def reader(self) -> SavedIndexReader:
        return SavedIndexReader(self.home, plane="bench")

    def add(self, text: str) -> None:
        """Add a chunk so that the next search finds it."""
        (document,) = chunks.documents(1, first=next(self._numbers))
        self.index.add(document._replace(text=text))
        self.index.view()

    def search(self, question: str) -> list[Any]:
        """By words alone."""
        found: list[Any] = self.index.view().hits(terms.query(question), 10)
        return found

    def read(self, question: str) -> list[Any]:
        """The same without numpy."""
        found: list[Any] = self.reader.hits(terms.query(question), 10)
        return found

    def fused(self, question: str) -> int:
        """Words, related words of the static table, and what neighbouring turns say."""
        view = self.index.view()

        def present(wanted: Any) -> list[int]:
            having = view.counts(wanted)
            return [term for term, count in zip(wanted, having, strict=True) if count]

        query = terms.query(question)
        near, kept = neighbours()
        query = query._replace(related=related(question, near.near, present, kept))
        frame = self._columns.frame(view)
        return len(rank(view.match(query), frame, RankingQuery(), Ranking(), most=_RANKED).seqs)

    def _texts(self, most: int | None = None) -> Any:
        return chunks.texts(min(self.size, most or self.size))

    @cached_property
    def fts5(self) -> FTS5:
        self._tell(f"SQLite FTS5: {self.size:,} chunks")
        return FTS5(self.folder / f"fts5-{self.size}", self._texts())

    @cached_property
    def tantivy(self) -> Tantivy | None:
        module = have("tantivy")
        self._tell(f"tantivy: {self.size:,} chunks")
        return module and Tantivy(module, self.folder / f"tantivy-{self.size}", self._texts())

    @cached_property
    def bm25s(self) -> BM25s | None:
        module = have("bm25s")
        self._tell(f"bm25s: {self.size:,} chunks")
        return module and BM25s(module, self._texts())

    @cached_property
    def rank_bm25(self) -> RankBM25 | None:
        module = have("rank_bm25")
        return module and RankBM25(module, self._texts(RANK_BM25_MAX))

    def close(self) -> None:
        if "fts5" in self.__dict__:
            self.fts5.close()
