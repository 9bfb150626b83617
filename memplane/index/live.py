"""The newest documents, fewer than 256, each found as soon as it is added.

Answers as a segment does; the documents are kept, so that a segment can be built of them.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from memplane.index import layout, terms
from memplane.index.build import ROW, row
from memplane.index.document import Document
from memplane.index.segment import LENGTHS, SHORT_MAX, TIMES_MAX, Array, totals

__all__ = ["Live"]


class Live:
    """Documents `first` and on; at most 256 of them."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.documents: list[Document] = []
        self._places: dict[int, list[int]] = {}
        self._times: dict[int, list[int]] = {}
        self._columns = {
            name: np.zeros(layout.LEVEL_0, "<" + code) for name, code in layout.COLUMNS
        }

    @property
    def size(self) -> int:
        """How many documents there are."""
        return len(self.documents)

    @property
    def totals(self) -> tuple[int, ...]:
        """The sums of the lengths."""
        return totals(self.columns)

    @property
    def columns(self) -> dict[str, Array]:
        """The columns of the documents so far."""
        return {name: column[: self.size] for name, column in self._columns.items()}

    def add(self, document: Document, vocabulary: terms.Vocabulary) -> None:
        """Take a document in behind the others."""
        place = self.size
        found = terms.analyse(document.text, document.extra, vocabulary)
        names = (*document.labels, document.group) if document.group else document.labels
        marks = [terms.label(name) for name in names]
        places, times = self._places, self._times
        for kind, occurring in enumerate((*found, marks)):
            for term, count in Counter(occurring).items():
                if term in places:
                    places[term].append(place)
                    times[term].append(min(count, TIMES_MAX))
                else:
                    places[term] = [place]
                    times[term] = [min(count, TIMES_MAX)]
            if kind < len(LENGTHS):
                self._columns[LENGTHS[kind]][place] = min(len(occurring), SHORT_MAX)
        for name, value in zip(ROW, row(document), strict=True):
            self._columns[name][place] = value
        self.documents.append(document)

    def find(self, wanted: Array) -> list[tuple[int, Array, Array]]:
        """Return (place in `wanted`, docs, times) of each wanted term that occurs here."""
        places, times = self._places, self._times
        return [
            (i, np.array(places[term], np.uint16), np.array(times[term], np.uint8))
            for i, term in enumerate(wanted.tolist())
            if term in places
        ]

    def text(self, place: int) -> str:
        """Return the text of a document, numbered from the first one here."""
        return self.documents[place].text
