"""Score documents by BM25 over words, content bigrams and prefixes, in arrays; formula: `bm25`.

Answers are as of any document number: later documents do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, groupby, pairwise
from math import isqrt
from typing import Any, Final

from memplane.index.bm25 import BM25, Weights, combined, idf, length_norm, term_gain
from memplane.index.numeric import np
from memplane.index.segment import LENGTHS, Array, Pieces, Postings, TermTables
from memplane.index.storage import changed_file
from memplane.index.terms import Query
from memplane.kernel import kernel_twin
from memplane.lazy import NamedTuple, Protocol
from memplane.ports import ONE


class Matches(NamedTuple):
    """Documents that hold a term of the query, rising, and what they earn by it.

    `words`: by the terms of all fields, in 2**-20, not yet rounded. `coverage`: the share of the
    idf of the query's words that the document holds.
    """

    docs: Array  # i32
    words: Array  # f64
    coverage: Array  # f64


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
    def text(self, place: int) -> str:
        """Return the text of a document, numbered within the block."""

    @property
    def kept(self) -> Pieces: ...


_FIELDS: Final = 4  # of a query; the related words, the last, are measured by the words
_ROW_MIN: Final = 16
_ROW_MAX: Final = 128
_SAMPLED: Final = 4_096


class PostingSums:
    """What postings below a limit add up to; the twin of that in the kernel.

    `blocks` are (first document, documents, docs, times, words, bigrams, prefixes): arrays of
    u16, u8 and three of u16, the lengths. `slices` are i64 rows of (block, field, term, begin,
    end), field by field, within a field block by block: the postings of one term in one block.
    `hidden` and `apart` are as for `match`, a byte a document, or None.
    """

    def __init__(
        self,
        blocks: tuple[tuple[Any, ...], ...],
        slices: Array,
        limit: int,
        hidden: Array | None,
        apart: Array | None,
    ) -> None:
        self._limit, self._hidden = limit, hidden
        self._terms, counts = slices[:, 2], slices[:, 4] - slices[:, 3]
        total = int(counts.sum())
        docs, times, lengths = np.empty(total, np.int64), np.empty(total), np.empty(total, "u2")
        start = 0
        for (place, field), rows in groupby(slices.tolist(), lambda row: row[:2]):
            first, _, own, often, *columns = blocks[place]
            cuts = [slice(*row[3:]) for row in rows]
            found = np.concatenate([own[cut] for cut in cuts])
            end = start + len(found)
            np.concatenate([often[cut] for cut in cuts], out=times[start:end])
            columns[field % len(columns)].take(found, out=lengths[start:end], mode="clip")
            np.add(found, first, out=docs[start:end], dtype=np.int64)
            start = end
        if apart is not None:
            keep = ~apart[docs]
            docs, times, lengths = docs[keep], times[keep], lengths[keep]
            of_slice = np.repeat(np.arange(len(counts)), counts)
            counts = np.bincount(of_slice[keep], minlength=len(counts)).astype(np.int64)
        self._docs, self._times, self._lengths, self._counts = docs, times, lengths, counts
        # Where the postings of each field end.
        ends = np.concatenate(([0], counts.cumsum()))
        self._fields = ends[slices[:, 1].searchsorted(np.arange(_FIELDS + 1))].tolist()

    def counts(self) -> Array:
        """Return how many documents of each slice are not apart."""
        return self._counts

    def of(
        self,
        strength: Array,
        rare: Array,
        averages: tuple[float, ...],
        bm25: BM25,
        weights: Weights,
    ) -> tuple[Array, Array, Array]:
        """Return the documents, rising, i32, and in f64 what they earn and the sum of `rare`.

        That is what `combined` makes of the sums of each field. Of `rare` those of the words count.
        """
        each = np.repeat(self._terms, self._counts)
        norms = np.empty(len(each))
        for (start, end), average in zip(pairwise(self._fields), averages, strict=True):
            if start < end:
                _fill_norms(self._lengths[start:end], average, bm25, norms[start:end])
        gain = term_gain(strength[each], self._times, norms, bm25)
        docs, places = self._places()
        count = len(docs)

        # bincount adds in the order given, one by one: a document's terms rise within its block.
        def added(start: int, end: int, what: Array) -> Array:
            if start == end:
                return np.zeros(count)
            return np.bincount(places[start:end], what, count + 1)[:count]

        words, bigrams, prefixes, related = (
            added(start, end, gain[start:end]) for start, end in pairwise(self._fields)
        )
        earned = combined((words, bigrams, prefixes, related), weights)
        end = self._fields[1]
        return docs.astype(np.int32), earned, added(0, end, rare[each[:end]])

    def _places(self) -> tuple[Array, Array]:
        """The documents that may be seen, and the place of each posting's among them."""
        limit, hidden = self._limit, self._hidden
        seen = np.zeros(limit, bool)
        seen[self._docs] = True
        if hidden is not None:
            seen &= ~hidden[:limit]
        docs = np.flatnonzero(seen)
        # One slot more takes what hidden documents would have got.
        slots = np.full(limit, len(docs))
        slots[docs] = np.arange(len(docs))
        return docs, slots.take(self._docs)


def runs_of(blocks: Sequence[PostingBlock], wanted: Array, limit: int) -> Array:
    """Return where the terms have postings below the limit: i64 rows of (block, place, begin, end).

    By block, in each by the place of the term in `wanted` (u64): a row for each that occurs there.
    """
    tables = tuple((block.postings.terms, block.postings.starts) for block in blocks)
    rows = np.frombuffer(kernel_twin(TermTables)(tables).of(wanted), np.int64).reshape(-1, 4)
    for at in range(len(blocks) - 1, -1, -1):  # few blocks reach beyond it, the last ones
        cut, docs = limit - blocks[at].first, blocks[at].postings.docs
        if blocks[at].size <= cut:
            break
        rows = rows.copy()
        for place in np.flatnonzero(rows[:, 0] == at).tolist():
            start, end = rows[place, 2:].tolist()
            rows[place, 3] = start + docs[start:end].searchsorted(cut)
    return rows


def _slices(blocks: Sequence[PostingBlock], query: Query, limit: int) -> Array:
    """The postings of a query below the limit, as `PostingSums` takes them."""
    wanted = np.array([term for field in query for term, _ in field], np.uint64)
    found = runs_of(blocks, wanted, limit)
    fields = np.searchsorted(list(accumulate(map(len, query))), found[:, 1], "right")
    order = np.argsort(fields, kind="stable")
    return np.column_stack((found[:, 0], fields, found[:, 1:]))[order]


def length_total(
    blocks: Sequence[PostingBlock], kind: int, limit: int, apart: Array | None = None
) -> int:
    """Return the sum of the lengths of the documents below the limit that are not apart."""
    total = 0
    if apart is not None:
        for block in blocks:
            part = block.columns[LENGTHS[kind]][: max(limit - block.first, 0)]
            own = apart[block.first : block.first + len(part)]
            total += int(part[~own].sum(dtype=np.int64))
        return total
    for block in blocks:
        if block.first + block.size <= limit:
            total += block.totals[kind]
        else:
            part = block.columns[LENGTHS[kind]][: limit - block.first]
            total += int(part.sum(dtype=np.int64))
    return total


def _fill_norms(lengths: Array, average: float, bm25: BM25, out: Array) -> None:
    """Fill `out` with `length_norm` of each document: the same bits as computed one by one."""
    table = length_norm(np.arange(int(lengths.max()) + 1), average, bm25)
    table.take(lengths, out=out, mode="clip")


class WordSums(NamedTuple):
    """What holds a term of a query, about to be summed: `matches` does it.

    The fields are the arguments of `PostingSums.of`; `mass` is what all words of the query have of
    `rare`, 1 where they have nothing.
    """

    sums: PostingSums
    strength: Array  # f64
    rare: Array  # f64
    averages: tuple[float, ...]
    bm25: BM25
    weights: Weights
    mass: float

    def matches(self) -> Matches:
        """Sum all of them; raises PlaneError as `match` does."""
        with whole_files():
            parts = self.sums.of(*self[1:-1])
        docs, words, coverage = map(np.frombuffer, parts, (np.int32, np.float64, np.float64))
        return Matches(docs, words, coverage / self.mass)


def match(
    blocks: Sequence[PostingBlock],
    query: Query,
    limit: int,
    hidden: Array | None = None,
    bm25: BM25 = BM25(),  # noqa: B008 - immutable
    weights: Weights = Weights(),  # noqa: B008 - immutable
    apart: Array | None = None,
) -> Matches:
    """Return the documents below the limit that hold a term of the query.

    `hidden` says of each document whether it may not be seen: such a one is no match, and
    counts in the statistics all the same. Those that are `apart` are as if they were not there.
    Raises PlaneError where a file of the index was changed since its sum was checked.
    """
    return word_sums(blocks, query, limit, hidden, bm25, weights, apart).matches()


@contextmanager
def whole_files() -> Iterator[None]:
    """Raise PlaneError where what is read within says that a file of the index was changed.

    Files count by their sums, and by their stamps once these were checked.
    """
    try:
        yield
    except (ValueError, IndexError) as error:
        raise changed_file(error) from error


@whole_files()
def word_sums(
    blocks: Sequence[PostingBlock],
    query: Query,
    limit: int,
    hidden: Array | None,
    bm25: BM25,
    weights: Weights,
    apart: Array | None,
) -> WordSums:
    """Return what `match` sums; raises PlaneError as it does."""
    blocks = blocks if limit else ()
    slices = _slices(blocks, query, limit)
    sums = kernel_twin(PostingSums)(tuple(map(_columns, blocks)), slices, limit, hidden, apart)
    there = limit if apart is None else limit - int(np.count_nonzero(apart[:limit]))
    counts = np.frombuffer(sums.counts(), np.int64)
    terms = sum(map(len, query))
    having = np.bincount(slices[:, 2], counts, terms).astype(np.int64).tolist()
    rare = [idf(there, df) for df in having]
    each = [weight for field in query for _, weight in field]
    strength = np.array([weight * value for weight, value in zip(each, rare, strict=True)])
    averages, start = [], 0
    for kind, field in enumerate(query):
        holds = any(having[start : start + len(field)])
        start += len(field)
        total = length_total(blocks, kind % 3, limit, apart) if holds else 0
        averages.append(total / there if holds else 1.0)
    mass = 0.0
    for value in rare[: len(query.words)]:
        mass += value
    mass = mass if mass > 0.0 else 1.0
    return WordSums(sums, strength, np.array(rare), tuple(averages), bm25, weights, mass)


def _columns(block: PostingBlock) -> tuple[Any, ...]:
    """A block as `PostingSums` takes it."""
    lengths = [block.columns[kind] for kind in LENGTHS]
    return (block.first, block.size, block.postings.docs, block.postings.times, *lengths)


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
    rarest kind, times the weight, beside its words. `hidden` and `apart` as for `match`.
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
    words, coverage = earned[docs] * ONE, np.zeros(len(docs))
    words[places] += matches.words
    coverage[places] = matches.coverage
    return Matches(docs, words, coverage)


def whole_scores(matches: Matches) -> Array:
    """Return one lexical score a match, in 2**-20, rounded half to even."""
    scores: Array = np.rint(matches.words).astype(np.int64)
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
