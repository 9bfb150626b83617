"""Columns of all documents side by side, and the chain of documents of each group, for ranking.

Segments keep their columns apart, but a ranking reads those of thousands of scattered documents and
their neighbours, a hundred times a query. So they are copied here into flat arrays, filled once and
extended as documents come in: 41 bytes a document, and 8 more for each set of documents that a
channel does not see. `spread` lends scores to neighbours.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

import numpy as np

from memplane.index.segment import Array
from memplane.ports import ONE

__all__ = [
    "GAP_MAX",
    "TURN_TOKENS",
    "ColumnSource",
    "Columns",
    "Frame",
    "Kernel",
    "spread_scores",
    "strengths",
]


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


class ColumnSource(Protocol):
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

    def frame(self, source: ColumnSource) -> Frame:
        """Return the columns as of a view; later documents stay for later views."""
        if source.count > self._count:
            self._extend(source)
        end, chains = source.count, self._chains
        columns = {name: column[:end] for name, column in self._columns.items()}
        return Frame(end, **columns, before=chains.before[:end], after=chains.after[:end])

    def seen(self, frame: Frame, source: ColumnSource, unseen: Array, name: Hashable) -> Frame:
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

    def _extend(self, source: ColumnSource) -> None:
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


# How far a match speaks for the turns around it: integer tables over distances in tokens.
#
# A chat needs two turns on each side, a meeting of short turns a dozen, and a long answer should
# block the view: one measure does it, the tokens that lie between.
GAP_MAX: Final = 4_095
_FAINT: Final = ONE >> 9  # less than this part of a match is not heard


class Kernel(NamedTuple):
    """`permille` of a match reaches a turn at no distance.

    `fade` tokens away it is 1/e of that; `reach` documents away it ends.
    """

    permille: int
    fade: int
    reach: int


@lru_cache(maxsize=16)
def strengths(kernel: Kernel) -> Array:
    """Return what reaches a turn at each gap from 0 on, in 2**-20; at longer gaps nothing does.

    Each step multiplies by (2 fade - 1) / (2 fade + 1), which is exp(-1 / fade) to a third of
    1 / (2 fade) ** 3, in whole numbers with 20 bits to spare.
    """
    value = (ONE * kernel.permille // 1000) << 20
    table: list[int] = []
    while len(table) <= GAP_MAX and value >> 20 >= _FAINT:
        table.append(value >> 20)
        value = value * (2 * kernel.fade - 1) // (2 * kernel.fade + 1)
    return np.array(table, np.int64)


def spread_scores(
    scores: Array, sources: Array, amounts: Array, frame: Frame, kernel: Kernel
) -> Array:
    """Add to `scores` (one a document) what each source says of the documents around it.

    Return those documents, in no order, some more than once.

    The gap to a turn is ten tokens, plus the tokens and ten of each turn that lies wholly
    between; of the chunks of an event, only those between count, and the source's own never do.
    No two sources are of one event, and an event does not speak for itself.
    """
    table = strengths(kernel)
    steps: list[tuple[Array, Array, Array]] = []
    for chain, stride in ((frame.before, frame.behind), (frame.after, frame.ahead)):
        at, said = _border(sources, chain, frame), amounts
        gap = TURN_TOKENS - stride.take(at)
        for _ in range(kernel.reach):
            gap = gap + stride.take(at)
            at = chain.take(at)
            # -1 is a large number here; `after` may lead to documents that are not there yet.
            there = (at.view(np.uint32) < frame.size) & (gap < len(table))
            if not there.all():
                kept = there.nonzero()[0]
                if not len(kept):
                    break
                at, said, gap = at.take(kept), said.take(kept), gap.take(kept)
            steps.append((at, said, gap))
    if not steps:
        return sources[:0]
    reached, all_said, gaps = map(np.concatenate, zip(*steps, strict=True))
    np.add.at(scores, reached.astype(np.intp), (table.take(gaps) * all_said) >> 20)
    return reached


def _border(sources: Array, chain: Array, frame: Frame) -> Array:
    """The last document of each source's event in the direction of the chain."""
    at: Array = sources.astype(np.int32)
    while True:
        further = chain[at]
        there = (further.view(np.uint32) < frame.size).nonzero()[0]
        inside = there[frame.seq[further[there]] == frame.seq[at[there]]]
        if not len(inside):
            return at
        at[inside] = further[inside]
