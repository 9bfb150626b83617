"""Columns of all documents side by side, and the chain of each group, for ranking.

Segments keep their columns apart; a ranking asks for thousands of scattered documents and their
neighbours, a hundred times a query. So what it needs lies here in plain arrays, filled once and
then extended as documents come in. 41 bytes a document.
"""

from __future__ import annotations

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
_CHAINS: Final = ("before", "after", "behind", "ahead")
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
        self._columns |= {name: np.zeros(0, np.int32) for name in _CHAINS}
        self._last: dict[int, int] = {}  # the newest document of each group

    def frame(self, source: Source) -> Frame:
        """Return the columns as of a view; later documents stay for later views."""
        if source.count > self._count:
            self._extend(source)
        end = source.count
        return Frame(end, **{name: column[:end] for name, column in self._columns.items()})

    def _extend(self, source: Source) -> None:
        start, end = self._count, source.count
        if end > len(self._columns["seq"]):
            self._grow(end + end // 2)
        docs = np.arange(start, end)
        for name in _TYPES:
            self._columns[name][start:end] = source.take(name, docs)
        self._chain(source.take("group", docs).astype(np.uint64), docs)
        self._count = end

    def _grow(self, size: int) -> None:
        for name, column in self._columns.items():
            larger = np.zeros(size, column.dtype)
            larger[: self._count] = column[: self._count]
            # Frames taken before keep the old array, in which nothing changes any more.
            self._columns[name] = larger

    def _chain(self, groups: Array, docs: Array) -> None:
        """Link each document with the one before it in its group; group 0 is none."""
        for name in ("before", "after"):
            self._columns[name][docs] = _NONE
        for name in ("behind", "ahead"):
            self._columns[name][docs] = self._columns["tokens"][docs]
        docs, groups = docs[groups > 0], groups[groups > 0]
        if not len(docs):
            return
        order = np.argsort(groups, kind="stable")
        docs, groups = docs[order], groups[order]
        same = groups[1:] == groups[:-1]
        self._link(docs[:-1][same], docs[1:][same])
        ends = np.append(~same, [True])
        begins = np.append([True], ~same)
        known = [self._last.get(group, _NONE) for group in groups[begins].tolist()]
        older = np.array(known, np.int64)
        self._link(older[older >= 0], docs[begins][older >= 0])
        self._last.update(zip(groups[ends].tolist(), docs[ends].tolist(), strict=True))

    def _link(self, left: Array, right: Array) -> None:
        columns = self._columns
        columns["before"][right] = left
        columns["after"][left] = right
        turns = TURN_TOKENS * (columns["seq"][left] != columns["seq"][right])
        columns["behind"][right] += turns
        columns["ahead"][left] += turns
