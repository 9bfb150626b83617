"""The `Index` of the ports over words alone: texts in, scores out, no ranking beyond BM25.

What `memplane eval` compares the product with, and the smallest example of the port.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from memplane.index import terms
from memplane.index.document import Document
from memplane.index.store import Index
from memplane.ports import Hit

__all__ = ["PlainIndex"]


class PlainIndex:
    """Documents in memory, each found by its text and the values of its fields."""

    def __init__(self) -> None:
        self._index = Index()

    def add(self, seq: int, text: str, fields: Mapping[str, str]) -> None:
        """Add a document behind all others; a seq that is here already is passed over."""
        extra = " ".join(fields[name] for name in sorted(fields))
        self._index.add(Document(seq, text=text, extra=extra))

    def search(self, query: str, k: int, *, upto: int, masked: frozenset[int]) -> list[Hit]:
        """Return the k best with seq <= upto, without the masked ones; ties go to the newer."""
        view = self._index.view(upto)
        hidden = np.zeros(view.count, bool)
        hidden[view.documents(masked)] = True
        return view.hits(terms.query(query), k, hidden)
