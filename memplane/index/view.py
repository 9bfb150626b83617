"""The index as of one seq: matches, columns, labels, neighbours and texts by document number."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

import numpy as np

from memplane.index import lexical, terms
from memplane.index.bm25 import BM25, Weights
from memplane.index.lexical import Block, Matches
from memplane.index.segment import Array
from memplane.index.terms import Query
from memplane.ports import Hit

__all__ = ["View"]

_DOC_BITS = 32
_MANY = 1_000


class View:
    """The documents below `count`: those with a seq up to `upto`, all where it is None."""

    def __init__(self, blocks: Sequence[Block], count: int, upto: int | None = None) -> None:
        self._blocks = [block for block in blocks if block.size]
        self.count = count if upto is None else self._below(upto)
        self._blocks = [block for block in self._blocks if block.first < self.count]
        self._firsts = np.array([block.first for block in self._blocks], np.int64)
        self._seqs: list[int] | None = None  # of the first document of each block, once asked for

    def _below(self, upto: int) -> int:
        for block in reversed(self._blocks):
            seqs = block.columns["seq"]
            if int(seqs[0]) <= upto:
                return block.first + int(np.searchsorted(seqs, upto, "right"))
        return 0

    def match(self, query: Query, hidden: Array | None = None, bm25: BM25 = BM25()) -> Matches:  # noqa: B008 - immutable
        """Return the documents that hold a term of the query, without the hidden ones."""
        return lexical.match(self._blocks, query, self.count, hidden, bm25)

    def hits(
        self,
        query: Query,
        k: int,
        hidden: Array | None = None,
        bm25: BM25 = BM25(),  # noqa: B008 - immutable
        weights: Weights = Weights(),  # noqa: B008 - immutable
    ) -> list[Hit]:
        """Return the k best events by words alone; an event scores as its best document does."""
        matches = self.match(query, hidden, bm25)
        if not len(matches.docs) or k < 1:
            return []
        scores = lexical.whole(matches, weights)
        wanted = 2 * k
        while True:
            places = lexical.best(scores, wanted)
            seqs = self.take("seq", matches.docs[places]).tolist()
            # Of the documents of an event the best comes first; the others add nothing.
            found = dict(zip(reversed(seqs), reversed(scores[places].tolist()), strict=True))
            if len(found) >= k or wanted >= len(scores):
                ranked = dict.fromkeys(seqs)
                return [Hit(seq, found[seq]) for seq in ranked][:k]
            wanted *= 4

    def take(self, column: str, docs: Array) -> Array:
        """Return the values of a column for these documents (`layout.COLUMNS`)."""
        if not len(docs):
            return np.zeros(0, np.int64)
        if len(docs) > _MANY and (docs[1:] - docs[:-1] == 1).all():
            return self._run(column, int(docs[0]), int(docs[-1]) + 1)
        where = np.searchsorted(self._firsts, docs, "right") - 1
        order = None
        if np.any(where[1:] < where[:-1]):
            order = np.argsort(where, kind="stable")
            docs, where = docs[order], where[order]
        bounds = np.searchsorted(where, np.arange(len(self._blocks) + 1)).tolist()
        parts = [
            block.columns[column][docs[start:end] - block.first]
            for block, start, end in zip(self._blocks, bounds, bounds[1:], strict=False)
            if start < end
        ]
        found: Array = np.concatenate(parts)
        if order is not None:
            back = np.empty_like(found)
            back[order] = found
            return back
        return found

    def column(self, name: str) -> Array:
        """Return the values of a column for all documents of the view."""
        return self._run(name, 0, self.count) if self.count else np.zeros(0, np.int64)

    def _run(self, column: str, start: int, end: int) -> Array:
        """The values of documents that lie side by side."""
        parts = [
            block.columns[column][max(start - block.first, 0) : end - block.first]
            for block in self._blocks
            if start < block.first + block.size and block.first < end
        ]
        return np.concatenate(parts)

    def labelled(self, *labels: str) -> Array:
        """Return the documents that bear any of the labels (a group is one), rising."""
        wanted = np.array(sorted({terms.label(name) for name in labels}), np.uint64)
        docs = np.sort(self._members(wanted)[0])
        rising: Array = docs[np.flatnonzero(np.diff(docs, prepend=-1))]
        return rising

    def bearing(self, labels: Sequence[str]) -> list[Array]:
        """Return the documents that bear each of the labels, rising."""
        wanted = np.array([terms.label(name) for name in labels], np.uint64)
        docs, places = self._members(wanted)
        return [docs[places == place] for place in range(len(labels))]

    def _members(self, wanted: Array) -> tuple[Array, Array]:
        """Give the documents of each label term, and the place of the term in `wanted`."""
        docs, places = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for block in self._blocks:
            for place, found, _ in block.find(wanted):
                kept = found[: np.searchsorted(found, self.count - block.first)]
                docs.append(kept.astype(np.int64) + block.first)
                places.append(np.full(len(kept), place))
        return np.concatenate(docs), np.concatenate(places)

    def documents(self, seqs: Iterable[int]) -> Array:
        """Return the documents of these events, rising: what a mask of events hides."""
        wanted = np.array(sorted(set(seqs)), np.int64)
        found = [np.zeros(0, np.int64)]
        for block in self._blocks:
            column = block.columns["seq"][: self.count - block.first]
            starts = np.searchsorted(column, wanted, "left")
            counts = np.searchsorted(column, wanted, "right") - starts
            ends = np.cumsum(counts)
            total = int(ends[-1]) if len(ends) else 0
            found.append(np.arange(total) + np.repeat(starts - ends + counts, counts) + block.first)
        return np.concatenate(found)

    def neighbours(self, docs: Array, reach: int) -> Array:
        """Return for each document the `reach` before and after it in its group, -1 for none.

        One row a document, `2 * reach + 1` columns, the document itself in the middle. Other
        documents may lie between them in the log; a document without a group stands alone.
        """
        groups = self.take("group", docs).astype(np.uint64)
        wanted, place = np.unique(groups[groups > 0]), np.zeros(len(docs), np.int64)
        table = np.full((len(docs), 2 * reach + 1), -1, np.int32)
        table[:, reach] = docs
        if not len(wanted):
            return table
        members, of_group = self._members(wanted)
        keys = np.sort((of_group << _DOC_BITS) | members)
        place = np.searchsorted(wanted, groups)
        rows = np.flatnonzero(groups > 0)
        own = np.searchsorted(keys, (place[rows] << _DOC_BITS) | docs[rows])
        for step in (step for step in range(-reach, reach + 1) if step):
            at = own + step
            inside = (at >= 0) & (at < len(keys))
            near = keys[np.where(inside, at, 0)]
            inside &= near >> _DOC_BITS == place[rows]
            table[rows, reach + step] = np.where(inside, near & 0xFFFFFFFF, -1)
        return table

    def text(self, doc: int) -> str:
        """Return the text of a document."""
        block = self._blocks[int(np.searchsorted(self._firsts, doc, "right")) - 1]
        return block.text(doc - block.first)

    def kept(self, doc: int) -> bytes:
        """Return what the caller keeps beside a document."""
        block = self._blocks[int(np.searchsorted(self._firsts, doc, "right")) - 1]
        return block.kept.of_document(doc - block.first)

    def span(self, seq: int) -> range:
        """Return the documents of one event."""
        if self._seqs is None:
            self._seqs = [int(block.columns["seq"][0]) for block in self._blocks]
        # An event's documents may begin in one block and end in the next.
        at = bisect_left(self._seqs, seq)
        start = end = 0
        for block in self._blocks[max(at - 1, 0) : bisect_right(self._seqs, seq)]:
            left, right = block.columns["seq"].searchsorted((seq, seq + 1)).tolist()
            if left < right:
                start = start if end else block.first + left
                end = block.first + right
        return range(start, min(end, self.count))

    def named(self, name: int) -> list[int]:
        """Return the seqs of the events whose documents have this name, the newest first."""
        wanted = np.uint64(name)
        found: list[int] = []
        for block in reversed(self._blocks):
            docs = (block.columns["name"] == wanted).nonzero()[0]
            found += block.columns["seq"][docs[docs < self.count - block.first]].tolist()[::-1]
        return list(dict.fromkeys(found))

    def counts(self, words: Sequence[int]) -> list[int]:
        """Return how many documents hold each of the words, hidden ones too."""
        wanted = np.array(words, np.uint64)
        found = np.zeros(len(wanted), np.int64)
        for block in self._blocks:
            limit = self.count - block.first
            if limit >= block.size:
                found += block.counts(wanted)
                continue
            for place, docs, _ in block.find(wanted):
                found[place] += docs.searchsorted(limit)
        return [int(count) for count in found]

    def having(self, word: int) -> int:
        """Return how many documents hold a word, hidden ones too."""
        return self.counts([word])[0]
