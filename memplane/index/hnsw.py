"""`HNSWIndex`: nearest vectors by a graph, with the library usearch. Needs the extra `usearch`.

Hierarchical navigable small worlds (Malkov and Yashunin 2018): approximate. What is found depends
on the order and the sessions in which documents were added.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from memplane.errors import MissingExtraError
from memplane.index import storage
from memplane.index.engine import best_hits
from memplane.index.segment import Array
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
_CONNECTIVITY: Final = 16  # M of the paper
_EXPANSION_ADD: Final = 128  # efConstruction
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

    def __init__(self, embedder: Embedder) -> None:
        """Begin without documents; raises MissingExtraError."""
        require_usearch(embedder.name)
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

    def load(self, folder: Path) -> None:
        """Take up what `write` left; raises OSError, ValueError."""
        try:
            self._graph.load(read_bytes(folder / GRAPH))
        except RuntimeError as error:
            raise ValueError(f"{folder / GRAPH}: {error}") from error
        if self._graph.ndim != self._embedder.dimension:
            raise ValueError(f"{folder / GRAPH}: vectors of {self._graph.ndim} components")

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

    def search(self, query: str, k: int, *, upto: int, masked: frozenset[int]) -> list[Hit]:
        if not query.strip():
            return []
        return self.nearest(self._embedder.embed([query])[0], k, upto=upto, masked=masked)

    def nearest(self, vector: bytes, k: int, *, upto: int, masked: frozenset[int]) -> list[Hit]:
        """As `search`, by the vector of a query; scores are cosines in 2**-20, above 0."""
        self._embed()
        asked = np.frombuffer(vector, np.int8)
        total = len(self._graph)
        if not total or not asked.any():
            return []

        def ask(most: int) -> tuple[Array, Array]:
            found = self._graph.search(asked, most, threads=1)
            scores = np.rint((1.0 - found.distances.astype(np.float64)) * ONE).astype(np.int64)
            return found.keys.astype(np.int64), scores

        every = best_hits(ask, k, upto=upto, masked=masked, total=total)
        return [hit for hit in every if hit.score > 0]

    def _embed(self) -> None:
        if self._texts:
            seqs, texts = zip(*self._texts, strict=True)
            self._texts = []
            self.add_vectors(seqs, self._embedder.embed(texts))
