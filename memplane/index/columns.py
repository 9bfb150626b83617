"""Columns of all documents side by side, and the chain of each group, for ranking.

Segments keep their columns apart; a ranking asks for thousands of scattered documents and their
neighbours, a hundred times a query. So what it needs lies here in plain arrays, filled once and
then extended as documents come in. 41 bytes a document, and 8 for each set of documents that a
channel does not see.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple, Protocol

import numpy as np

from memplane.index.segment import Array

__all__ = ["TURN_TOKENS", "Columns", "Frame", "Source"]

TURN_TOKENS: Final = 10  # what a turn counts beside its words, on the way past it

_TYPES: Final = {
    "seq": np.int64,
    "tokens": np.int32,
    "speaker": np.uint64,
    "importance": np.uint16,
    "flags": np.uint16,
    "role": np.uint8,
}
_STRIDES: Final = ("behind", "ahead")
_KEPT_MAX: Final = 16
_NONE: Final = -1


class Source(Protocol):
    """What the columns are read from: `View` answers."""

    count: int

    def take(self, column: str, docs: Array) -> Array:
        """Values of a column, a document each."""
        ...


class Frame(NamedTuple):
    """The documents below `size`. `before` and `after`: the next of the same group, -1 for none.

    `after` may name a document from `size` on: it is not there yet. `behind` and `ahead`: how far
    it is past this document, in tokens, on the way before or after: its own tokens, and ten where
    another event begins there.
    """

    size: int
    seq: Array
    tokens: Array
    speaker: Array
    importance: Array
    flags: Array
    role: Array
    before: Array
    after: Array
    behind: Array
    ahead: Array


class Columns:
    """Grows with an index; make a new one when documents were erased. One thread at a time."""

    def __init__(self) -> None:
        self._count = 0
        self._columns = {name: np.zeros(0, kind) for name, kind in _TYPES.items()}
        self._columns |= {name: np.zeros(0, np.int32) for name in _STRIDES}
        self._chains = _Chains()
        self._shown: dict[Hashable, _Chains] = {}  # of who does not see all documents

    def frame(self, source: Source) -> Frame:
        """Return the columns as of a view; later documents stay for later views."""
        if source.count > self._count:
            self._extend(source)
        end, chains = source.count, self._chains
        columns = {name: column[:end] for name, column in self._columns.items()}
        return Frame(end, **columns, before=chains.before[:end], after=chains.after[:end])

    def seen(self, frame: Frame, source: Source, unseen: Array, name: Hashable) -> Frame:
        """Return a frame of this view whose chains pass the unseen documents over.

        `name` stands for what is unseen: under the same name a document always is, or never. The
        chunks of an event are so together.
        """
        chains = self._shown.get(name)
        if chains is None:
            if len(self._shown) >= _KEPT_MAX:
                self._shown.clear()
            chains = self._shown[name] = _Chains()
        start, end = chains.count, source.count
        if end > start:
            docs = (~unseen[start:end]).nonzero()[0] + start
            chains.extend(source.take("group", docs).astype(np.uint64), docs, end)
        return frame._replace(before=chains.before[:end], after=chains.after[:end])

    def _extend(self, source: Source) -> None:
        start, end = self._count, source.count
        if end > len(self._columns["seq"]):
            self._grow(end + end // 2)
        docs = np.arange(start, end)
        for name in _TYPES:
            self._columns[name][start:end] = source.take(name, docs)
        for name in _STRIDES:
            self._columns[name][start:end] = self._columns["tokens"][start:end]
        for left, right in self._chains.extend(
            source.take("group", docs).astype(np.uint64), docs, end
        ):
            seqs = self._columns["seq"]
            turns = TURN_TOKENS * (seqs[left] != seqs[right])
            self._columns["behind"][right] += turns
            self._columns["ahead"][left] += turns
        self._count = end

    def _grow(self, size: int) -> None:
        # Frames taken before keep the old array, in which nothing changes any more.
        for name, column in self._columns.items():
            self._columns[name] = _grown(column, self._count, size, 0)


class _Chains:
    """Each document with the one before it in its group and the one after; group 0 is none."""

    def __init__(self) -> None:
        self.count = 0
        self.before = self.after = np.zeros(0, np.int32)
        self._last: dict[int, int] = {}  # the newest document of each group

    def extend(self, groups: Array, docs: Array, end: int) -> list[tuple[Array, Array]]:
        """Add documents with their groups, the new ones among those below `end`.

        Return the neighbours that were linked: those before and those after.
        """
        if end > len(self.before):
            self.before = _grown(self.before, self.count, end + end // 2, _NONE)
            self.after = _grown(self.after, self.count, end + end // 2, _NONE)
        self.count = end
        docs, groups = docs[groups > 0], groups[groups > 0]
        if not len(docs):
            return []
        order = np.argsort(groups, kind="stable")
        docs, groups = docs[order], groups[order]
        same = groups[1:] == groups[:-1]
        ends = np.append(~same, [True])
        begins = np.append([True], ~same)
        known = [self._last.get(group, _NONE) for group in groups[begins].tolist()]
        older = np.array(known, np.int64)
        self._last.update(zip(groups[ends].tolist(), docs[ends].tolist(), strict=True))
        linked = [
            (docs[:-1][same], docs[1:][same]),
            (older[older >= 0], docs[begins][older >= 0]),
        ]
        for left, right in linked:
            self.before[right] = left
            self.after[left] = right
        return linked


def _grown(column: Array, count: int, size: int, rest: int) -> Array:
    """A longer column that begins with the first values of this one."""
    larger = np.full(size, rest, column.dtype)
    larger[:count] = column[:count]
    return larger
