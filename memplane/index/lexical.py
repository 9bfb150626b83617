"""BM25 over words, content bigrams and prefixes in arrays, as of any document; see `bm25`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain, pairwise
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
    """Neighbouring documents with their postings."""

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

    def counts(self, wanted: Array) -> Array:
        """Return how many documents hold each of the terms."""
        ...

    def text(self, place: int) -> str:
        """Return the text of a document, numbered within the block."""
        ...


_LENGTHS: Final = ("words", "bigrams", "prefixes", "words")  # of the fields of a query
_ROW_MAX: Final = 128


class _Gathered(NamedTuple):
    """The postings of a query below a limit, field by field, within a field block by block.

    `docs` are numbered in the index; `ends` says where the postings of each field end. A slice
    is one term in one block: `places` names the term, `counts` how many postings it has there.
    """

    docs: Array
    times: Array
    places: Array
    counts: Array
    ends: tuple[int, ...]
    having: list[int]  # documents of each term


def _gather(blocks: Sequence[Block], query: Query, limit: int) -> _Gathered:
    wanted = np.array([term for field in query for term, _ in field], np.uint64)
    field_of = [number for number, field in enumerate(query) for _ in field]
    fields: list[list[tuple[int, int, int, Array, Array]]] = [[] for _ in query]
    having = [0] * len(wanted)
    for block in blocks:
        first = block.first
        inside = first + block.size <= limit
        for place, docs, times in block.find(wanted):
            count = len(docs) if inside else int(docs.searchsorted(limit - first))
            having[place] += count
            if not inside:
                docs, times = docs[:count], times[:count]  # noqa: PLW2901 - cut where the view ends
            fields[field_of[place]].append((place, first, count, docs, times))
    found = list(chain.from_iterable(fields))
    if not found:
        nothing = np.zeros(0, np.int64)
        return _Gathered(nothing, np.zeros(0), nothing, nothing, (0,) * len(query), having)
    places, firsts, counts, all_docs, all_times = zip(*found, strict=True)
    sizes = np.array(counts)
    docs = np.concatenate(all_docs).astype(np.int64)
    docs += np.repeat(np.array(firsts), sizes)
    times = np.concatenate(all_times).astype(np.float64)
    # How many postings each field ends at.
    up = [0, *accumulate(having)]
    ends = tuple(up[end] for end in accumulate(map(len, query)))
    return _Gathered(docs, times, np.array(places), sizes, ends, having)


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


def _norms(lengths: Array, average: float, bm25: BM25) -> Array:
    """How much the length of a document weighs its terms down: k1 (1 - b + b length / average).

    The same bits as computed one by one.
    """
    k1, b = bm25
    table = k1 * ((1.0 - b) + b * (np.arange(int(lengths.max()) + 1) / average))
    found: Array = table.take(lengths)
    return found


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
    found = _gather(blocks if limit else (), query, limit)
    rare = [idf(limit, df) for df in found.having]
    weights = [weight for field in query for _, weight in field]
    strength = np.array([weight * value for weight, value in zip(weights, rare, strict=True)])
    gain = np.repeat(strength[found.places], found.counts)
    gain *= found.times * (bm25.k1 + 1.0)
    below = found.times
    start = 0
    for kind, end in enumerate(found.ends):
        if start < end:
            lengths = np.concatenate([block.columns[_LENGTHS[kind]] for block in blocks])
            average = length_total(blocks, kind % 3, limit) / limit
            below[start:end] += _norms(lengths[found.docs[start:end]], average, bm25)
        start = end
    gain /= below
    words = sum(found.having[: len(query.words)])
    slices = int(np.searchsorted(np.cumsum(found.counts), words, "right"))
    rarity = np.repeat(np.array(rare)[found.places[:slices]], found.counts[:slices])
    mass = 0.0
    for value in rare[: len(query.words)]:
        mass += value
    return _added(found, gain, rarity, limit, hidden, mass)


def _added(
    found: _Gathered, gain: Array, rarity: Array, limit: int, hidden: Array | None, mass: float
) -> Matches:
    """Sum up what the postings add to each document that may be seen."""
    seen = np.zeros(limit, bool)
    seen[found.docs] = True
    if hidden is not None:
        seen &= ~hidden[:limit]
    docs = np.flatnonzero(seen)
    count = len(docs)
    # One slot more takes what hidden documents would have got.
    slots = np.empty(limit, np.int64) if hidden is None else np.full(limit, count)
    slots[docs] = np.arange(count)
    places = slots.take(found.docs)

    # bincount adds in the order given, one by one: a document's terms rise within its block.
    def added(start: int, what: Array) -> Array:
        if not len(what):
            return np.zeros(count)
        return np.bincount(places[start : start + len(what)], what, count + 1)[:count]

    starts = (0, *found.ends)
    words, bigrams, prefixes, related = (
        added(start, gain[start:end]) for start, end in pairwise(starts)
    )
    coverage = added(0, rarity)
    if mass > 0.0:
        coverage /= mass
    return Matches(docs.astype(np.int32), words, bigrams, prefixes, related, coverage)


def whole(matches: Matches, weights: Weights) -> Array:
    """Return one lexical score a match, in 2**-20, rounded half to even."""
    total = weights.bigrams * matches.bigrams
    total += matches.words
    total += weights.prefixes * matches.prefixes
    total += weights.related * matches.related
    total *= SCALE
    return np.rint(total, out=total).astype(np.int64)


def best(scores: Array, k: int) -> Array:
    """Return the places of the k highest scores, highest first; of equal ones the later first.

    Exact: whatever reaches the k-th score takes part in the ties.
    """
    count = len(scores)
    if k <= 0 or not count:
        return np.zeros(0, np.int64)
    places = np.arange(count)
    if k < count:
        places = np.flatnonzero(scores >= _bar(scores, k))
    order = np.lexsort((-places, -scores[places]))
    picked: Array = places[order][:k]
    return picked


def _bar(scores: Array, k: int) -> Array:
    """A score that at least k reach; not far below the k-th best."""
    row = min(len(scores) // (4 * k), _ROW_MAX)
    if row > 1:
        # The best of each row are so many different scores.
        rows = len(scores) // row
        scores = scores[: rows * row].reshape(rows, row).max(axis=1)
    bar: Array = np.partition(scores, len(scores) - k)[len(scores) - k]
    return bar
