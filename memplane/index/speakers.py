"""Who speaks in the documents, as of any document, and whether an assistant is among them."""

from __future__ import annotations

from typing import Final

import numpy as np

from memplane.index import terms
from memplane.index.columns import Frame
from memplane.index.document import ROLES
from memplane.index.segment import Array

__all__ = ["Speakers"]

_FEW: Final = 32
_ASSISTANT: Final = ROLES.index("assistant")


class Speakers:
    """Speakers by small numbers, in the order of their first documents. One thread at a time."""

    def __init__(self) -> None:
        self.labels: list[int] = []  # what the column `speaker` says; 0 for none
        self.firsts: list[int] = []  # the first document of each
        self._numbers: dict[int, int] = {}
        self._of_docs = np.zeros(0, np.int32)
        self._size = 0
        self._answered: int | None = None  # the first document of an assistant without a name

    def follow(self, frame: Frame) -> None:
        """Take in the documents that are new; `frame` has all there are."""
        start, end = self._size, frame.size
        if end <= start:
            return
        if end > len(self._of_docs):
            larger = np.zeros(end + end // 2, np.int32)
            larger[:start] = self._of_docs[:start]
            self._of_docs = larger
        labels = frame.speaker[start:end]
        self._number(labels, start)
        if self._answered is None:
            nameless = (labels == 0) | (labels == np.uint64(terms.label("assistant")))
            found = np.flatnonzero(nameless & (frame.role[start:end] == _ASSISTANT))
            self._answered = start + int(found[0]) if len(found) else None
        self._size = end

    def _number(self, labels: Array, start: int) -> None:
        numbers = self._of_docs[start : start + len(labels)]
        left = np.arange(len(labels))
        for _ in range(_FEW):  # a pass each is quicker than sorting all
            if not len(left):
                return
            label = labels[left[0]]
            same = labels[left] == label
            numbers[left[same]] = self._number_of(int(label), start + int(left[0]))
            left = left[~same]
        distinct, places, inverse = np.unique(labels[left], return_index=True, return_inverse=True)
        known = np.zeros(len(distinct), np.int32)
        for at in np.argsort(places).tolist():
            known[at] = self._number_of(int(distinct[at]), start + int(left[places[at]]))
        numbers[left] = known[inverse.reshape(-1)]

    def _number_of(self, label: int, doc: int) -> int:
        if label not in self._numbers:
            self._numbers[label] = len(self.labels)
            self.labels.append(label)
            self.firsts.append(doc)
        return self._numbers[label]

    def answered(self, size: int) -> bool:
        """Whether the first documents hold a word of an assistant that has no name of its own.

        Else they are people among themselves, whatever roles they were given.
        """
        return self._answered is not None and self._answered < size

    def visible(self, hidden: Array) -> list[int]:
        """Return who speaks in documents that are not hidden: who has most of them first.

        Nothing where nobody has a name.
        """
        if self.labels in ([], [0]):
            return []
        shown = self._of_docs[: len(hidden)][~hidden]
        counts = np.bincount(shown, minlength=len(self.labels))
        order = np.lexsort((np.arange(len(counts)), -counts))
        return [int(number) for number in order[: np.count_nonzero(counts)]]
