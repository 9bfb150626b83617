"""`HNSWIndex`: nearest vectors by a graph, with the library usearch. Needs the extra `usearch`.

Hierarchical navigable small worlds (Malkov and Yashunin 2018): beyond 10,000 documents what is
found is approximate, and depends on the order and the sessions in which documents were added. Below
that all vectors are compared, which takes a millisecond.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memplane.errors import MissingExtraError
from memplane.index import storage
from memplane.index.engine import best_hits
from memplane.index.segment import Array
from memplane.index.vectors import MILLION, cosines
from memplane.lazy import late
from memplane.nofollow import read_bytes
from memplane.ports import ONE, Hit

if TYPE_CHECKING:
    from collections.abc import Sequence

    import usearch
    import usearch.index as graphs

    from memplane.ports import Embedder
else:
    usearch = late("usearch")
    graphs = late("usearch.index")

EXTRA: Final = "usearch"
GRAPH: Final = "graph.usearch"
_USED: Final = 1  # raised whenever the same documents give other files
_EXACT_BELOW: Final = 10_000
_SAMPLE_MAX: Final = 1_024
_FULL: Final = 4  # standard deviations that earn 2**20
_CONNECTIVITY: Final = 16  # M of the paper
_EXPANSION_ADD: Final = 64  # efConstruction
_EXPANSION_SEARCH: Final = 128  # ef, at least; so many as are wanted where that is more


def require_usearch(embedder: str) -> str:
    """Return what headers call the engine: version and vectors; raises MissingExtraError."""
    try:
        version = usearch.__version__
    except ImportError:
        raise MissingExtraError("`index.engine: usearch`", EXTRA) from None
    return f"{version} {_USED} {embedder}"


class HNSWIndex:
    """An `Index` by the cosine of vectors, in memory. One thread at a time.

    Texts are embedded at the next search, fields are not. A document without a vector is not found.
    """

    def __init__(self, embedder: Embedder, *, exact_below: int = _EXACT_BELOW) -> None:
        """Begin without documents; raises MissingExtraError.

        Of fewer than `exact_below` documents all are compared.
        """
        require_usearch(embedder.name)
        self._exact_below = exact_below
        self._embedder = embedder
        self._graph = graphs.Index(
            ndim=embedder.dimension,
            metric="cos",
            dtype="i8",
            connectivity=_CONNECTIVITY,
            expansion_add=_EXPANSION_ADD,
            expansion_search=_EXPANSION_SEARCH,
        )
        self._texts: list[tuple[int, str]] = []
        self._seqs = np.zeros(0, np.uint64)  # of those with a vector, rising
        self._sample: Array | None = None  # of their vectors, until one is added

    def load(self, folder: Path) -> None:
        """Take up what `write` left; raises OSError, ValueError."""
        try:
            self._graph.load(read_bytes(folder / GRAPH))
        except RuntimeError as error:
            raise ValueError(f"{folder / GRAPH}: {error}") from error
        if self._graph.ndim != self._embedder.dimension:
            raise ValueError(f"{folder / GRAPH}: vectors of {self._graph.ndim} components")
        self._seqs, self._sample = np.sort(np.array(self._graph.keys[:], np.uint64)), None

    def write(self, folder: Path) -> list[str]:
        self._embed()
        storage.replace_bytes(folder / GRAPH, self._graph.save() or b"", sync=True)
        return [GRAPH]

    def add(self, seq: int, text: str, fields: Mapping[str, str]) -> None:
        del fields
        if text.strip():
            self._texts.append((seq, text))

    def add_vectors(self, seqs: Sequence[int], vectors: Sequence[bytes]) -> None:
        """Add documents by their vectors, each of `dimension` signed bytes; zeros for none."""
        rows = np.frombuffer(b"".join(vectors), np.int8).reshape(-1, self._embedder.dimension)
        there = rows.any(axis=1)
        if there.any():
            keys = np.array(seqs, np.uint64)[there]
            self._graph.add(keys, rows[there], threads=1)  # several would make another graph
            self._seqs, self._sample = np.concatenate((self._seqs, keys)), None

    def search(self, query: str, k: int, *, upto: int, masked: frozenset[int]) -> list[Hit]:
        if not query.strip():
            return []
        return self.nearest(self._embedder.embed([query])[0], k, upto=upto, masked=masked)

    def nearest(self, vector: bytes, k: int, *, upto: int, masked: frozenset[int]) -> list[Hit]:
        """As `search`, by the vector of a query.

        Of the documents that are more similar to it than the mean. A score is by how many standard
        deviations, four of them 2**20; where all are equally similar, the cosine in 2**-20.
        """
        self._embed()
        asked = np.frombuffer(vector, np.int8)
        total = len(self._graph)
        if not total or not asked.any():
            return []
        mean, spread = self._usual(vector)

        def ask(most: int) -> tuple[Array, Array]:
            exact = total < self._exact_below
            found = self._graph.search(asked, most, threads=1, exact=exact)
            millionths = np.rint((1.0 - found.distances.astype(np.float64)) * MILLION) - mean
            return found.keys.astype(np.int64), np.rint(millionths * (ONE / spread)).astype(
                np.int64
            )

        every = best_hits(ask, k, upto=upto, masked=masked, total=total)
        return [hit for hit in every if hit.score > 0]

    def _usual(self, vector: bytes) -> tuple[int, int]:
        """The mean of the cosines with a query, and four of their standard deviations: millionths.

        Of at most 1,024 documents, spread evenly; 0 and a million where they are all alike.
        """
        if self._sample is None:
            step = -(-len(self._seqs) // _SAMPLE_MAX)
            rows: Any = self._graph.get(self._seqs[::step], dtype="i8")
            self._sample = np.vstack(rows)
        found = cosines(self._sample, np.frombuffer(vector, np.int8).reshape(1, -1))
        count, total = found.size, int(found.sum())
        spread = isqrt(count * int((found * found).sum()) - total * total) // count
        return (total // count, spread * _FULL) if spread else (0, MILLION)

    def _embed(self) -> None:
        if self._texts:
            seqs, texts = zip(*self._texts, strict=True)
            self._texts = []
            self.add_vectors(seqs, self._embedder.embed(texts))
