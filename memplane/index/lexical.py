"""BM25 over words, content bigrams and prefixes in arrays, as of any document; see `bm25`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np

from memplane.index.bm25 import BM25, SCALE, Weights, idf
from memplane.index.segment import Array
from memplane.index.terms import Query

__all__ = ["BM25", "Block", "Matches", "Weights", "best", "idf", "match", "whole"]


class Matches(NamedTuple):
    """Documents that hold a term of the query, rising, and their scores by kind of term.

    `coverage`: the share of the idf of the query's words that the document holds.
    """

    docs: Array  # i32
    words: Array  # f64, as all that follow
    bigrams: Array
    prefixes: Array
    related: Array
    coverage: Array


class Block(Protocol):
    """Neighbouring documents with their postings: a segment, or the live ones."""

    @property
    def first(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def columns(self) -> Mapping[str, Array]: ...
    @property
    def totals(self) -> tuple[int, ...]: ...
    def find(self, wanted: Array) -> list[tuple[int, Array, Array]]:
        """Return (place in `wanted`, docs, times) of each wanted term that occurs here."""
        ...

    def text(self, place: int) -> str:
        """Return the text of a document, numbered within the block."""
        ...


_LENGTHS: Final = ("words", "bigrams", "prefixes", "words")  # of the fields of a query


class _Slice(NamedTuple):
    """The postings of one term of the query in one block."""

    place: int
    first: int
    docs: Array
    times: Array


class _Scored(NamedTuple):
    """What each posting adds: its document (numbered in the index), and the term's idf."""

    docs: Array
    scores: Array
    rarity: Array


_NOTHING: Final = _Scored(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))


def _gather(blocks: Sequence[Block], wanted: Array, limit: int) -> list[_Slice]:
    """Give the postings below the limit, block by block, in the order of `wanted`."""
    found: list[_Slice] = []
    for block in blocks:
        first = block.first
        for place, docs, times in block.find(wanted):
            if first + block.size > limit:
                end = int(np.searchsorted(docs, limit - first))
                if end:
                    found.append(_Slice(place, first, docs[:end], times[:end]))
            else:
                found.append(_Slice(place, first, docs, times))
    return found


def length_total(blocks: Sequence[Block], kind: int, limit: int) -> int:
    """Return the sum of the lengths of the documents below the limit."""
    total = 0
    for block in blocks:
        if block.first + block.size <= limit:
            total += block.totals[kind]
        else:
            part = block.columns[_LENGTHS[kind]][: limit - block.first]
            total += int(part.sum(dtype=np.int64))
    return total


class _Norms:
    """How much the length of a document weighs down its terms: k1 (1 - b + b length / average)."""

    def __init__(self, blocks: Sequence[Block], kind: int, limit: int, bm25: BM25) -> None:
        self.bm25 = bm25
        self._lengths = np.concatenate([block.columns[_LENGTHS[kind]] for block in blocks])
        self._average = length_total(blocks, kind % 3, limit) / limit

    def of(self, docs: Array) -> Array:
        """Return the weight of each document, the same bits as computed one by one."""
        k1, b = self.bm25
        lengths = self._lengths[docs]
        table = k1 * ((1.0 - b) + b * (np.arange(int(lengths.max()) + 1) / self._average))
        found: Array = table[lengths]
        return found


def _score(
    slices: Sequence[_Slice], weights: Sequence[float], rare: Sequence[float], norms: _Norms
) -> _Scored:
    """Give what the postings of one field of the query add, in the order given."""
    if not slices:
        return _NOTHING
    places = [part.place for part in slices]
    counts = np.array([len(part.docs) for part in slices])
    firsts = np.array([part.first for part in slices])
    docs = np.concatenate([part.docs for part in slices]).astype(np.int64)
    docs += np.repeat(firsts, counts)
    times = np.concatenate([part.times for part in slices]).astype(np.float64)
    rarity = np.array([rare[place] for place in places])
    strength = np.array([weights[place] * rare[place] for place in places])
    gain = np.repeat(strength, counts) * (times * (norms.bm25.k1 + 1.0))
    times += norms.of(docs)
    gain /= times
    return _Scored(docs, gain, np.repeat(rarity, counts))


def match(
    blocks: Sequence[Block],
    query: Query,
    limit: int,
    hidden: Array | None = None,
    bm25: BM25 = BM25(),  # noqa: B008 - immutable
) -> Matches:
    """Return the documents below the limit that hold a term of the query.

    `hidden` says of each document whether it may not be seen: such a one is no match, and
    counts in the statistics all the same.
    """
    terms = [term for field in query for term, _ in field]
    weights = [weight for field in query for _, weight in field]
    slices = _gather(blocks, np.array(terms, np.uint64), limit) if limit else []
    having = [0] * len(terms)
    for part in slices:
        having[part.place] += len(part.docs)
    rare = [idf(limit, df) for df in having]
    parts: list[_Scored] = []
    start = 0
    for kind, field in enumerate(query):
        end = start + len(field)
        own = [part for part in slices if start <= part.place < end]
        parts.append(
            _score(own, weights, rare, _Norms(blocks, kind, limit, bm25)) if own else _NOTHING
        )
        start = end
    mass = 0.0
    for value in rare[: len(query.words)]:
        mass += value
    return _matches(parts, limit, hidden, mass)


def _matches(parts: Sequence[_Scored], limit: int, hidden: Array | None, mass: float) -> Matches:
    seen = np.zeros(limit, bool)
    for part in parts:
        seen[part.docs] = True
    if hidden is not None:
        seen &= ~hidden[:limit]
    docs = np.flatnonzero(seen)
    dense = 2 * sum(len(part.docs) for part in parts) > limit
    if not dense:
        # One slot more takes what hidden documents would have got.
        slots = np.full(limit, len(docs), np.int32)
        slots[docs] = np.arange(len(docs), dtype=np.int32)

    # bincount adds in the order given, one by one: a document's terms rise within its block.
    def added(where: Array, what: Array) -> Array:
        if not len(where):
            return np.zeros(len(docs))
        if dense:
            return np.bincount(where, what, limit)[docs]
        return np.bincount(slots[where], what, len(docs) + 1)[: len(docs)]

    words, bigrams, prefixes, related = (added(part.docs, part.scores) for part in parts)
    coverage = added(parts[0].docs, parts[0].rarity)
    if mass > 0.0:
        coverage /= mass
    return Matches(docs.astype(np.int32), words, bigrams, prefixes, related, coverage)


def whole(matches: Matches, weights: Weights) -> Array:
    """Return one lexical score a match, in 2**-20, rounded half to even."""
    total = matches.words + weights.bigrams * matches.bigrams
    total = total + weights.prefixes * matches.prefixes
    total = total + weights.related * matches.related
    return np.rint(total * SCALE).astype(np.int64)


def best(scores: Array, k: int) -> Array:
    """Return the places of the k highest scores, highest first; of equal ones the later first.

    Exact: whatever reaches the k-th score takes part in the ties.
    """
    count = len(scores)
    if k <= 0 or not count:
        return np.zeros(0, np.int64)
    places = np.arange(count)
    if k < count:
        bar = np.partition(scores, count - k)[count - k]
        places = np.flatnonzero(scores >= bar)
    order = np.lexsort((-places, -scores[places]))
    picked: Array = places[order][:k]
    return picked
