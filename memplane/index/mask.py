"""Sets of documents that a request may not see: by flags, by times of validity, by later events."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from memplane.index.segment import Array

__all__ = ["Bits", "Fates", "Flagged", "Mask", "Spans"]

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
        """Hide documents; those behind the mask's end are none of its business."""
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
        """Return the documents with a flag that nobody has asked for before; `add` them all."""
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

    What happens is told in the order of the log, each thing once, after the documents it is about
    are there. One thread at a time.
    """

    def __init__(self) -> None:
        self._replaced = np.zeros(0, np.int64)  # of each document: the seq that replaced it
        self._acts: list[tuple[int, Array, bool]] = []
        self._act_seqs: list[int] = []
        self._forgotten = np.zeros(0, bool)  # after the first `_done` acts
        self._done = 0

    def replace(self, pairs: Sequence[tuple[int, int]], column: Array) -> None:
        """Let events be replaced, (by, seq) each; `column` is the seq of each document."""
        self._replaced = _grown(self._replaced, len(column), _NEVER)
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
        self._forgotten = _applied(_grown(self._forgotten, reach, 0), acts)
        self._done = count
        return self._forgotten


def _grown(column: Array, size: int, value: int) -> Array:
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
