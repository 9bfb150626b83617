"""Columns of all documents side by side, chains of the documents of each group, and masks.

Segments keep their columns apart, but a ranking reads those of thousands of scattered documents and
their neighbours, a hundred times a query. So they are copied here into flat arrays, filled once and
extended as documents come in: 53 bytes a document, and 8 more for each set of documents that a
channel does not see. `spread_scores` lends scores to neighbours.

A `Mask` is the set of documents that a request may not see: by flags, by times of validity
(`Spans`), by later events (`Fates`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Final, Protocol

import numpy as np

from memplane.index.segment import Array
from memplane.lazy import NamedTuple
from memplane.ports import ONE

_FLAGS: Final = 1 << 16
_KEPT_MAX: Final = 16
_NEVER: Final = np.iinfo(np.int64).max


class Bits(NamedTuple):
    """A number within the flags, from the bit `low` on, and the values of it that are hidden.

    `hides` has a place for every value that the bits can hold.
    """

    low: int
    hides: tuple[bool, ...]


@lru_cache(maxsize=64)
def _table(bits: tuple[Bits, ...]) -> Array:
    values = np.arange(_FLAGS)
    hidden = np.zeros(_FLAGS, bool)
    for low, hides in bits:
        hidden |= np.array(hides)[(values >> low) & (len(hides) - 1)]
    hidden.flags.writeable = False
    return hidden


class Flagged:
    """What flags hide, kept from request to request: of a document that is there it stays."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Bits, ...], Array] = {}

    def hidden(self, flags: Array, *bits: Bits) -> Array:
        """Return for each document whether any number in its flags is a hidden one. Read only."""
        known = self._kept.get(bits, np.zeros(0, bool))
        if len(known) < len(flags):
            if len(self._kept) >= _KEPT_MAX:
                self._kept.clear()
            known = np.concatenate((known, _table(bits)[flags[len(known) :]]))
            self._kept[bits] = known
        return known


class Mask:
    """The documents below `size`, none of them hidden at first. `hidden` has one place each."""

    def __init__(self, size: int) -> None:
        self.hidden = np.zeros(size, bool)

    def add(self, hidden: Array, but: Array | None = None) -> None:
        """Hide what is hidden there, too, except for some documents."""
        hidden = hidden[: len(self.hidden)]
        if but is not None:
            hidden = hidden.copy()
            hidden[but] = False
        self.hidden |= hidden

    def documents(self, docs: Array) -> None:
        """Hide documents by number; those behind the mask's end are ignored."""
        self.hidden[docs[docs < len(self.hidden)]] = True

    def all_but(self, docs: Array) -> None:
        """Hide all documents but these."""
        others = np.ones(len(self.hidden), bool)
        others[docs] = False
        self.hidden |= others

    def after(self, seqs: Array, upto: int) -> None:
        """Hide what is later than a seq; the column of seqs rises."""
        self.hidden[int(np.searchsorted(seqs[: len(self.hidden)], upto, "right")) :] = True

    def outside(self, times: Array, since: int | None, until: int | None) -> None:
        """Hide what happened before or behind a span of time."""
        if since is not None:
            self.hidden |= times < since
        if until is not None:
            self.hidden |= times > until


class Spans:
    """The documents that hold for some time only, looked at once each."""

    def __init__(self) -> None:
        self._seen = 0
        self._rows = np.zeros((3, 0), np.int64)  # document, begin, end

    def fresh(self, flags: Array, bit: int) -> Array:
        """Return the documents with a flag that was not asked for before; `add` them all."""
        found: Array = np.flatnonzero(flags[self._seen :] & bit) + self._seen
        self._seen = len(flags)
        return found

    def add(self, docs: Array, spans: Sequence[tuple[int, int]]) -> None:
        """Say from when until when each of the documents holds, both ends included."""
        rows = np.array([docs, *zip(*spans, strict=True)], np.int64)
        self._rows = np.concatenate((self._rows, rows), axis=1)

    def out(self, moment: int) -> Array:
        """Return the documents that do not hold at a moment."""
        docs, begins, ends = self._rows
        found: Array = docs[(begins > moment) | (ends < moment)]
        return found


class Fates:
    """Which documents are out of force, as of any seq: replaced ones and forgotten ones.

    Changes are added in the order of the log, each once, after the documents that they are about.
    Not safe between threads.
    """

    def __init__(self) -> None:
        self._replaced = np.zeros(0, np.int64)  # of each document: the seq that replaced it
        self._acts: list[tuple[int, Array, bool]] = []
        self._act_seqs: list[int] = []
        self._forgotten = np.zeros(0, bool)  # after the first `_done` acts
        self._done = 0

    def replace(self, pairs: Sequence[tuple[int, int]], column: Array) -> None:
        """Let events be replaced, (by, seq) each; `column` is the seq of each document."""
        self._replaced = _padded(self._replaced, len(column), _NEVER)
        until, wanted = np.array(pairs, np.int64).reshape(-1, 2).T
        starts = np.searchsorted(column, wanted, "left")
        counts = np.searchsorted(column, wanted, "right") - starts
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        docs = np.arange(total) + np.repeat(starts - ends + counts, counts)
        self._replaced[docs] = np.repeat(until, counts)

    def forget(self, seq: int, docs: Array, column: Array, *, undo: bool) -> None:
        """Let what is older than `seq` of the documents be forgotten there, or no longer."""
        docs = docs[column[docs] < seq]
        if len(docs):
            self._acts.append((seq, docs, not undo))
            self._act_seqs.append(seq)

    def hidden(self, upto: int, size: int) -> Array:
        """Return for each of the first documents whether it is out of force as of a seq."""
        hidden = np.zeros(size, bool)
        known = self._replaced[:size]
        np.less_equal(known, upto, out=hidden[: len(known)])
        count = bisect_right(self._act_seqs, upto)
        if count:
            forgotten = self._after(count, size)[:size]
            hidden[: len(forgotten)] |= forgotten
        return hidden

    def _after(self, count: int, size: int) -> Array:
        """What is forgotten after so many acts; kept where it is not of an earlier time."""
        if count < self._done:
            state = np.zeros(size, bool)
            return _applied(state, self._acts[:count])
        acts = self._acts[self._done : count]
        # An act is applied once: to its documents behind `size`, too, which others may ask for.
        reach = max([size, *(int(docs.max()) + 1 for _, docs, _ in acts)])
        self._forgotten = _applied(_padded(self._forgotten, reach, 0), acts)
        self._done = count
        return self._forgotten


def _padded(column: Array, size: int, value: int) -> Array:
    if len(column) >= size:
        return column
    larger = np.full(size + size // 2, value, column.dtype)
    larger[: len(column)] = column
    return larger


def _applied(state: Array, acts: Sequence[tuple[int, Array, bool]]) -> Array:
    size = len(state)
    for _, docs, off in acts:
        state[docs[docs < size]] = off
    return state


TURN_TOKENS: Final = 10  # what a turn counts beside its words, on the way past it

_TYPES: Final = {
    "seq": np.int64,
    "tokens": np.int32,
    "group": np.uint64,
    "speaker": np.uint64,
    "importance": np.uint16,
    "flags": np.uint16,
    "role": np.uint8,
    "traits": np.uint32,
}
_NONE: Final = -1


class ColumnSource(Protocol):
    """What the columns are read from: `View` answers."""

    count: int

    def take(self, column: str, docs: Array) -> Array:
        """Values of a column, a document each."""
        ...


class Frame(NamedTuple):
    """The documents below `size`, and the chains of their groups.

    A chain has two nodes a document: 2 n on the way before it and 2 n + 1 on the way after. `links`
    has the next node of each, -1 for none; one from 2 `size` on is not there yet. `strides`: how
    far it is past the document, in tokens: its own, and ten where another event begins there.
    """

    size: int
    seq: Array
    tokens: Array
    group: Array
    speaker: Array
    importance: Array
    flags: Array
    role: Array
    traits: Array
    links: Array
    strides: Array


class Columns:
    """Grows with an index; make a new one when documents were erased. One thread at a time."""

    def __init__(self) -> None:
        self.count = 0  # documents that are there so far
        self._columns = {name: np.zeros(0, kind) for name, kind in _TYPES.items()}
        self._strides = np.zeros(0, np.int32)
        self._chains = _Chains()
        self._shown: dict[Hashable, _Chains] = {}  # of who does not see all documents

    def frame(self, source: ColumnSource) -> Frame:
        """Return the columns as of a view; later documents stay for later views."""
        if source.count > self.count:
            self._extend(source)
        end, chains = source.count, self._chains
        columns = {name: column[:end] for name, column in self._columns.items()}
        return Frame(
            end, **columns, links=chains.links[: 2 * end], strides=self._strides[: 2 * end]
        )

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
        return frame._replace(links=chains.links[: 2 * end])

    def _extend(self, source: ColumnSource) -> None:
        start, end = self.count, source.count
        if end > len(self._columns["seq"]):
            self._grow(end + end // 2)
        docs = np.arange(start, end)
        for name in _TYPES:
            self._columns[name][start:end] = source.take(name, docs)
        self._strides[2 * start : 2 * end] = np.repeat(self._columns["tokens"][start:end], 2)
        for left, right in self._chains.extend(
            source.take("group", docs).astype(np.uint64), docs, end
        ):
            seqs = self._columns["seq"]
            turns = TURN_TOKENS * (seqs[left] != seqs[right])
            self._strides[2 * right] += turns
            self._strides[2 * left + 1] += turns
        self.count = end

    def _grow(self, size: int) -> None:
        # Frames taken before keep the old array, in which nothing changes any more.
        for name, column in self._columns.items():
            self._columns[name] = _grown(column, self.count, size, 0)
        self._strides = _grown(self._strides, 2 * self.count, 2 * size, 0)


class _Chains:
    """Each document with the one before it in its group and the one after; group 0 is none.

    `links` is that of `Frame`.
    """

    def __init__(self) -> None:
        self.count = 0
        self.links = np.zeros(0, np.int32)
        self._last: dict[int, int] = {}  # the newest document of each group

    def extend(self, groups: Array, docs: Array, end: int) -> list[tuple[Array, Array]]:
        """Add documents with their groups, the new ones among those below `end`.

        Return the neighbours that were linked: those before and those after.
        """
        if 2 * end > len(self.links):
            self.links = _grown(self.links, 2 * self.count, 2 * (end + end // 2), _NONE)
        self.count = end
        there = groups > 0
        if not there.all():
            docs, groups = docs[there], groups[there]
        if not len(docs):
            return []
        # Most follow one of their own group: only the runs of a group are sorted.
        same = groups[1:] == groups[:-1]
        cuts = np.flatnonzero(~same)
        firsts, lasts = np.append([0], cuts + 1), np.append(cuts, [len(docs) - 1])
        order = np.argsort(groups[firsts], kind="stable")
        own = groups[firsts][order]
        firsts, lasts = docs[firsts[order]], docs[lasts[order]]
        again = own[1:] == own[:-1]
        begins, ends = np.append([True], ~again), np.append(~again, [True])
        older = np.array([self._last.get(group, _NONE) for group in own[begins].tolist()])
        self._last.update(zip(own[ends].tolist(), lasts[ends].tolist(), strict=True))
        linked = [
            (docs[:-1][same], docs[1:][same]),
            (lasts[:-1][again], firsts[1:][again]),
            (older[older >= 0], firsts[begins][older >= 0]),
        ]
        for left, right in linked:
            self.links[2 * right] = 2 * left
            self.links[2 * left + 1] = 2 * right + 1
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
    sources: Array, amounts: Array, frame: Frame, kernel: Kernel
) -> tuple[Array, Array]:
    """Return what each source says of the documents around it: documents, and an amount of each.

    They come in no order, some more than once.

    The gap to a turn is ten tokens, plus the tokens and ten of each turn that lies wholly
    between; of the chunks of an event, only those between count, and the source's own never do.
    No two sources are of one event, and an event does not speak for itself.
    """
    table, size = strengths(kernel), 2 * frame.size
    nodes, said, gaps = [np.zeros(0, np.int32)], [amounts[:0]], [np.zeros(0, np.int32)]
    at, loud = _border(sources, frame), np.concatenate((amounts, amounts))
    gap = TURN_TOKENS - frame.strides.take(at)
    for _ in range(kernel.reach):
        gap = gap + frame.strides.take(at)
        at = frame.links.take(at)
        # -1 is a large number here, and what is not there yet is too large.
        there = (at.view(np.uint32) < size) & (gap < len(table))
        if not there.all():
            kept = there.nonzero()[0]
            if not len(kept):
                break
            at, loud, gap = at.take(kept), loud.take(kept), gap.take(kept)
        nodes.append(at)
        said.append(loud)
        gaps.append(gap)
    docs = np.concatenate(nodes) >> 1
    return docs, (table.take(np.concatenate(gaps)) * np.concatenate(said)) >> 20


def behind(sources: Array, frame: Frame) -> Array:
    """The first document behind each source's event in its session; -1 where there is none."""
    at = frame.links.take(_border(sources, frame)[len(sources) :])
    found: Array = np.where(at.view(np.uint32) < 2 * frame.size, at >> 1, -1)
    return found


def _border(sources: Array, frame: Frame) -> Array:
    """The last nodes of each source's event: those before, then those after."""
    before = (2 * sources).astype(np.int32)
    at = np.concatenate((before, before + 1))
    while True:
        further = frame.links[at]
        there = (further.view(np.uint32) < 2 * frame.size).nonzero()[0]
        own, next_ = frame.seq[at[there] >> 1], frame.seq[further[there] >> 1]
        inside = there[own == next_]
        if not len(inside):
            return at
        at[inside] = further[inside]
