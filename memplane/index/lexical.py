"""Score documents by BM25 over words, content bigrams and prefixes, in arrays; formula: `bm25`.

Answers are as of any document number: later documents do not count.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise, starmap
from math import isqrt
from typing import Final, Protocol

import numpy as np

from memplane.index.bm25 import BM25, Weights, combined, idf, length_norm, term_gain
from memplane.index.segment import Array, Pieces, Postings
from memplane.index.terms import Query
from memplane.lazy import NamedTuple
from memplane.ports import ONE


class Matches(NamedTuple):
    """Documents that hold a term of the query, rising, and their scores by kind of term.

    `coverage`: the share of the idf of the query's words that the document holds. `kinds`: what it
    earns for naming something of a kind that the query asks for (`with_kinds`).
    """

    docs: Array  # i32
    words: Array  # f64, as all that follow
    bigrams: Array
    prefixes: Array
    related: Array
    coverage: Array
    kinds: Array


class PostingBlock(Protocol):
    """Neighbouring documents with their postings."""

    @property
    def first(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def columns(self) -> Mapping[str, Array]: ...
    @property
    def postings(self) -> Postings: ...
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

    @property
    def kept(self) -> Pieces: ...


_LENGTHS: Final = ("words", "bigrams", "prefixes", "words")  # of the fields of a query
_ROW_MIN: Final = 16
_ROW_MAX: Final = 128
_SAMPLED: Final = 4_096


class _Gathered(NamedTuple):
    """The postings of a query below a limit, field by field, within a field block by block.

    `docs` are numbered in the index; `ends` says where the postings of each field end. A slice
    is one term in one block: `places` names the term, `counts` how many postings it has there.
    """

    docs: Array
    times: Array
    lengths: Array  # of the documents, as the field counts them
    places: Array
    counts: Array
    ends: tuple[int, ...]
    having: list[int]  # documents of each term


class _Run(NamedTuple):
    """The postings of the terms of one field in one block."""

    block: PostingBlock
    places: list[int]
    begins: list[int]
    ends: list[int]


def _runs(blocks: Sequence[PostingBlock], query: Query, limit: int) -> Iterator[list[_Run]]:
    """Give the runs of each field, cut where the limit is."""
    wanted = np.array([term for field in query for term, _ in field], np.uint64)
    bounds = [0, *accumulate(map(len, query))]
    found = []
    for block in blocks:
        places, begins, ends = block.postings.runs(wanted)
        if block.first + block.size > limit:
            cut, docs = limit - block.first, block.postings.docs
            ends = [a + int(docs[a:b].searchsorted(cut)) for a, b in zip(begins, ends, strict=True)]
        found.append((places, begins, ends, [bisect_left(places, bound) for bound in bounds]))
    for field in range(len(query)):
        runs = []
        for block, (places, begins, ends, cuts) in zip(blocks, found, strict=True):
            part = slice(cuts[field], cuts[field + 1])
            if part.start < part.stop:
                runs.append(_Run(block, places[part], begins[part], ends[part]))
        yield runs


def _gather(blocks: Sequence[PostingBlock], query: Query, limit: int) -> _Gathered:
    fields = list(_runs(blocks, query, limit))
    runs = [run for field in fields for run in field]
    places = np.array([place for run in runs for place in run.places], np.int64)
    counts = np.array([end for run in runs for end in run.ends], np.int64)
    counts -= np.array([begin for run in runs for begin in run.begins], np.int64)
    having = np.bincount(places, counts, sum(map(len, query))).astype(np.int64)
    total = int(counts.sum())
    docs, times, lengths = np.empty(total, np.int64), np.empty(total), np.empty(total, np.uint16)
    start, all_ends = 0, []
    for kind, field in zip(_LENGTHS, fields, strict=True):
        for block, _, begins, ends in field:
            postings, cuts = block.postings, list(starmap(slice, zip(begins, ends, strict=True)))
            own = np.concatenate([postings.docs[cut] for cut in cuts])
            end = start + len(own)
            np.concatenate([postings.times[cut] for cut in cuts], out=times[start:end])
            block.columns[kind].take(own, out=lengths[start:end], mode="clip")
            np.add(own, block.first, out=docs[start:end], dtype=np.int64)
            start = end
        all_ends.append(start)
    return _Gathered(docs, times, lengths, places, counts, tuple(all_ends), having.tolist())


def _without(found: _Gathered, apart: Array) -> _Gathered:
    """The postings of the documents that are not apart."""
    keep = ~apart[found.docs]
    slices = np.repeat(np.arange(len(found.counts)), found.counts)
    counts = np.bincount(slices[keep], minlength=len(found.counts)).astype(np.int64)
    kept = [0, *np.cumsum(keep).tolist()]
    return _Gathered(
        found.docs[keep],
        found.times[keep],
        found.lengths[keep],
        found.places,
        counts,
        tuple(kept[end] for end in found.ends),
        np.bincount(found.places, counts, len(found.having)).astype(np.int64).tolist(),
    )


def length_total(
    blocks: Sequence[PostingBlock], kind: int, limit: int, apart: Array | None = None
) -> int:
    """Return the sum of the lengths of the documents below the limit that are not apart."""
    total = 0
    if apart is not None:
        for block in blocks:
            part = block.columns[_LENGTHS[kind]][: max(limit - block.first, 0)]
            own = apart[block.first : block.first + len(part)]
            total += int(part[~own].sum(dtype=np.int64))
        return total
    for block in blocks:
        if block.first + block.size <= limit:
            total += block.totals[kind]
        else:
            part = block.columns[_LENGTHS[kind]][: limit - block.first]
            total += int(part.sum(dtype=np.int64))
    return total


def _fill_norms(lengths: Array, average: float, bm25: BM25, out: Array) -> None:
    """Fill `out` with `length_norm` of each document: the same bits as computed one by one."""
    table = length_norm(np.arange(int(lengths.max()) + 1), average, bm25)
    table.take(lengths, out=out, mode="clip")


def match(
    blocks: Sequence[PostingBlock],
    query: Query,
    limit: int,
    hidden: Array | None = None,
    bm25: BM25 = BM25(),  # noqa: B008 - immutable
    apart: Array | None = None,
) -> Matches:
    """Return the documents below the limit that hold a term of the query.

    `hidden` says of each document whether it may not be seen: such a one is no match, and
    counts in the statistics all the same. Those that are `apart` are as if they were not there.
    """
    found = _gather(blocks if limit else (), query, limit)
    there = limit
    if apart is not None:
        found = _without(found, apart)
        there -= int(np.count_nonzero(apart[:limit]))
    rare = [idf(there, df) for df in found.having]
    weights = [weight for field in query for _, weight in field]
    strength = np.array([weight * value for weight, value in zip(weights, rare, strict=True)])
    norms = np.empty(len(found.times))
    start = 0
    for kind, end in enumerate(found.ends):
        if start < end:
            average = length_total(blocks, kind % 3, limit, apart) / there
            _fill_norms(found.lengths[start:end], average, bm25, norms[start:end])
        start = end
    each = np.repeat(strength[found.places], found.counts)
    gain = term_gain(each, found.times, norms, bm25)
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
    kinds = np.zeros(count)
    return Matches(docs.astype(np.int32), words, bigrams, prefixes, related, coverage, kinds)


def with_kinds(
    matches: Matches,
    traits: Array,
    asked: Sequence[int],
    weight: float,
    hidden: Array,
    apart: Array | None = None,
) -> Matches:
    """Return the matches and the documents that name something of a kind that is asked for.

    `traits` are the bits of all documents, `asked` a bit each. A document earns the idf of its
    rarest kind, times the weight. `hidden` and `apart` as for `match`.
    """
    limit, there = len(traits), len(traits)
    if apart is not None:
        apart = apart[:limit]
        there -= int(np.count_nonzero(apart))
    earned = np.zeros(limit)
    for bit in asked:
        having = (traits & np.uint32(bit)) != 0
        if apart is not None:
            having &= ~apart
        gain = weight * idf(there, int(np.count_nonzero(having)))
        np.maximum(earned, gain, out=earned, where=having)
    earned[hidden[:limit]] = 0.0
    named = earned > 0.0
    if not named.any():
        return matches
    named[matches.docs] = True
    docs = np.flatnonzero(named).astype(np.int32)
    places = docs.searchsorted(matches.docs)
    wider = np.zeros((len(matches) - 1, len(docs)))
    for row, column in zip(wider, matches[1:], strict=True):
        row[places] = column
    wider[-1] = earned[docs]
    return Matches(docs, *wider)


def whole_scores(matches: Matches, weights: Weights) -> Array:
    """Return one lexical score a match, in 2**-20, rounded half to even."""
    total = combined((matches.words, matches.bigrams, matches.prefixes, matches.related), weights)
    total += matches.kinds * ONE
    scores: Array = np.rint(total, out=total).astype(np.int64)
    return scores


def best(scores: Array, k: int) -> Array:
    """Return the places of the k highest scores, highest first; of equal ones the later first.

    Exact: all that reach the k-th score take part in the ties.
    """
    count = len(scores)
    if k <= 0 or not count:
        return np.zeros(0, np.int64)
    places = np.arange(count)
    if k < count:
        places = np.flatnonzero(scores >= reached(scores, k))
    order = np.lexsort((-places, -scores[places]))
    picked: Array = places[order][:k]
    return picked


def reached(scores: Array, k: int) -> int:
    """Return a score that at least k reach; not far below the k-th best."""
    count = len(scores)
    row = min(count // (4 * k), _ROW_MAX)
    if row >= _ROW_MIN:
        # The best of each row are so many different scores.
        scores = scores[: count // row * row].reshape(-1, row).max(axis=1)
        count = len(scores)
    elif count > 4 * _SAMPLED:
        # Every so many of them tell where the k-th stands; whether it does is counted.
        step = count // _SAMPLED
        sample = np.sort(scores[::step])
        above = k // step
        margin = 2 + 2 * isqrt(above)
        while above + margin < len(sample):
            low = int(sample[len(sample) - 1 - above - margin])
            if np.count_nonzero(scores >= low) >= k:
                return low
            margin *= 2
    return int(np.partition(scores, count - k)[count - k])
