"""The newest documents, fewer than 256, each found as soon as it is added.

To add one looks its words up, no more. Whoever asks next puts what came since into a segment
of its own, and small segments together, so that there are never more than a dozen.
"""

from __future__ import annotations

from memplane.index import terms
from memplane.index.build import Analysed, analysed, build_of
from memplane.index.document import Document
from memplane.index.merge import merge
from memplane.index.segment import Segment

__all__ = ["Live"]

_FANOUT = 4


class Live:
    """Documents `first` and on; at most 256 of them."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.documents: list[Document] = []
        self._waiting: list[Analysed] = []
        self._segments: list[Segment] = []

    @property
    def size(self) -> int:
        """How many documents there are."""
        return len(self.documents)

    def add(self, document: Document, vocabulary: terms.Vocabulary) -> None:
        """Take a document in behind the others; always with the same vocabulary."""
        self._waiting.append(analysed(document, vocabulary))
        self.documents.append(document)

    def segments(self, vocabulary: terms.Vocabulary) -> list[Segment]:
        """Return the documents in a few segments, in order."""
        if self._waiting:
            start = self.first + self.size - len(self._waiting)
            self._segments.append(build_of(self._waiting, start, vocabulary))
            self._waiting = []
            while _crowded(self._segments):
                self._segments[-_FANOUT:] = [merge(self._segments[-_FANOUT:])]
        return list(self._segments)


def _crowded(segments: list[Segment]) -> bool:
    """Whether the first of the last four has not four times as many documents as another."""
    if len(segments) < _FANOUT:
        return False
    tiers = [(segment.size.bit_length() - 1) // 2 for segment in segments[-_FANOUT:]]
    return tiers[0] <= max(tiers[1:])
