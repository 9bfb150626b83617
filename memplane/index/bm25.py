"""BM25 in the Lucene form, and the search for the best events without arrays.

Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond"::

    idf(t)   = ln(1 + (N - df + 1/2) / (df + 1/2)) = ln(2N + 2) - ln(2df + 1)
    score(d) = sum of weight idf(t) tf (k1 + 1) / (tf + k1 (1 - b + b length / average))

`best_events` leaves out documents that cannot be among the best (MaxScore, Turtle and Flood 1995).

N, df and the average count every document below the limit, hidden ones too. Terms are
added in rising order, one after the other, in f64 with + - * / alone; the two logarithms
are rounded from decimals, so that `lexical` and `reader` compute the same bits on every CPU.
"""

from __future__ import annotations

from bisect import bisect_left
from decimal import Context
from functools import lru_cache
from heapq import heappush, heapreplace, nlargest
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

__all__ = ["BM25", "SCALE", "Slice", "Term", "Weights", "best_events", "idf", "ln"]


SCALE: Final = 1 << 20  # a lexical score of 1.0 as an integer
_LOG: Final = Context(prec=20)


class BM25(NamedTuple):
    """The two constants."""

    k1: float = 0.9
    b: float = 0.4


class Weights(NamedTuple):
    """What a bigram, a prefix and a related word count beside a word."""

    bigrams: float = 0.7
    prefixes: float = 0.2
    related: float = 1.0


@lru_cache(maxsize=100_000)
def ln(number: int) -> float:
    """Return the natural logarithm, correctly rounded to 20 digits and then to a float."""
    return float(_LOG.ln(_LOG.create_decimal(number)))


def idf(documents: int, having: int) -> float:
    """Return how rare a term is that `having` of the documents have; never below 0."""
    return ln(2 * documents + 2) - ln(2 * having + 1)


# The k best events of a query, without scoring every document that holds a term of it (MaxScore).
#
# Terms are taken from the one that can add most to the one that can add least. As soon as k events
# are known that score more than all terms to come could give, no further document matters, and the
# frequent words, which have nearly all postings, are looked up for the documents found alone. What
# is left is scored exactly, in the order of `bm25`. So the answer is that of scoring everything.
_COSTLY: Final = 1_000  # postings: to read fewer is quicker than to find out whether one must
_FEW: Final = 200  # documents: to score so many at once is quicker than to look for reasons not to
_BISECTS: Final = 16  # postings read in the time of one look-up
_ONES: Final = bytes([1])


class Slice(NamedTuple):
    """The postings of one term in one file: `docs` rise and are numbered from `first`."""

    first: int
    docs: memoryview
    times: memoryview
    lengths: memoryview  # of every document of the file

    def where(self, doc: int) -> int:
        """Return the place of a document; -1 where the term is not in it."""
        at = bisect_left(self.docs, doc - self.first)
        return at if at < len(self.docs) and self.docs[at] == doc - self.first else -1


class Term(NamedTuple):
    """One term of the query. `share`: what its field counts; `average`: of lengths there."""

    field: int
    strength: float
    share: float
    average: float
    slices: dict[int, Slice]  # by number of the file
    size: int  # documents that hold it

    def most(self, bm25: BM25) -> float:
        """Return what no document gets more than from this term."""
        times = 1
        for part in self.slices.values():
            # Nearly all are 1: what is more is found without a look at each.
            times = max(times, max(bytes(part.times).translate(None, _ONES), default=1))
        k1, b = bm25
        return self.share * self.strength * (times * (k1 + 1.0)) / (times + k1 * (1.0 - b))


class _Search:
    def __init__(
        self,
        terms: Sequence[Term],
        firsts: Sequence[int],
        shares: Sequence[float],
        bm25: BM25,
        seq_of: Callable[[int], int],
        hidden: Container[int],
    ) -> None:
        self.terms, self.firsts, self.shares, self.bm25 = terms, firsts, shares, bm25
        self.seq_of, self.hidden = seq_of, hidden
        self.parts: dict[int, float] = {}  # what the terms taken so far give a document, roughly
        self.known: dict[int, int] = {}  # exact scores

    def take(self, term: Term) -> None:
        """Read all postings of a term."""
        parts, get = self.parts, self.parts.get
        k1, b = self.bm25
        gain = term.share * term.strength * (k1 + 1.0)
        base, slope = k1 * (1.0 - b), k1 * b / term.average
        for first, docs, times, lengths in term.slices.values():
            for doc, tf in zip(docs, times, strict=True):
                number = first + doc
                value = gain * tf / (tf + base + slope * lengths[doc])
                parts[number] = get(number, 0.0) + value

    def look_up(self, term: Term) -> None:
        """Read the postings of a term that belong to documents found already."""
        parts = self.parts
        k1, b = self.bm25
        gain = term.share * term.strength * (k1 + 1.0)
        base, slope = k1 * (1.0 - b), k1 * b / term.average
        numbers = sorted(parts)
        ends = [bisect_left(numbers, first) for first in (*self.firsts[1:], numbers[-1] + 1)]
        start = 0
        for file, end in enumerate(ends):
            part = term.slices.get(file)
            if part is not None and start < end:
                here = numbers[start:end]
                if (end - start) * _BISECTS > len(part.docs):
                    first = part.first
                    inside = {number - first for number in here}.intersection(part.docs)
                    here = [doc + first for doc in inside]
                for number in here:
                    at = part.where(number)
                    if at >= 0:
                        tf = part.times[at]
                        length = part.lengths[number - part.first]
                        parts[number] += gain * tf / (tf + base + slope * length)
            start = end

    def exact(self, doc: int) -> int:
        """Return the score of a document, each operation as `bm25` has it."""
        score = self.known.get(doc)
        if score is None:
            score = self.known[doc] = self._exact(doc)
        return score

    def _exact(self, doc: int) -> int:
        k1, b = self.bm25
        file = bisect_left(self.firsts, doc + 1) - 1
        sums = [0.0] * len(self.shares)
        for term in self.terms:
            part = term.slices.get(file)
            at = -1 if part is None else part.where(doc)
            if part is not None and at >= 0:
                tf = part.times[at]
                norm = k1 * ((1.0 - b) + b * (part.lengths[doc - part.first] / term.average))
                sums[term.field] += term.strength * (tf * (k1 + 1.0)) / (tf + norm)
        total = 0.0
        for share, value in zip(self.shares, sums, strict=True):
            total = total + share * value
        return round(total * SCALE)

    def bar(self, k: int) -> int | None:
        """Return a score that k events reach; None where fewer than k are found."""
        wanted = 2 * k
        while True:
            low = nlargest(wanted, self.parts.values())[-1]
            top = [item for item in self.parts.items() if item[1] >= low]
            events: dict[int, int] = {}
            for doc, _ in sorted(top, key=itemgetter(1), reverse=True):
                seq = self.seq_of(doc)
                if seq not in self.hidden:
                    events.setdefault(seq, doc)
                    if len(events) == k:
                        return min(map(self.exact, events.values()))
            if wanted >= len(self.parts):
                return None
            wanted *= 8

    def keep(self, bar: int, rest: float) -> None:
        """Drop the documents that cannot reach the bar with the terms to come."""
        # One unit of the integer score is far more than rounding can make.
        low = (bar - 1) / SCALE - rest
        self.parts = {doc: part for doc, part in self.parts.items() if part >= low}

    def scored(self, k: int, rest: float) -> dict[int, int]:
        """Return the events that may be among the k best, by their best document."""
        events: dict[int, int] = {}
        heap: list[int] = []
        for doc, part in sorted(self.parts.items(), key=lambda item: -item[1]):
            if len(heap) == k and (part + rest) * SCALE + 1 < heap[0]:
                break
            seq = self.seq_of(doc)
            if seq in self.hidden:
                continue
            score = self.exact(doc)
            if seq in events:
                # The heap keeps what it had: a bar that is too low costs time, no more.
                events[seq] = max(events[seq], score)
                continue
            events[seq] = score
            if len(heap) < k:
                heappush(heap, score)
            elif score > heap[0]:
                heapreplace(heap, score)
        return events


def best_events(
    terms: Sequence[Term],
    k: int,
    *,
    firsts: Sequence[int],
    shares: Sequence[float],
    bm25: BM25,
    seq_of: Callable[[int], int],
    hidden: Container[int],
) -> list[tuple[int, int]]:
    """Return (seq, score) of the k best events that are not hidden; ties go to the newer.

    `terms` in the order in which they are added up, none with a negative weight; `firsts` is the
    first document of each file, `shares` what each field counts.
    """
    search = _Search(terms, firsts, shares, bm25, seq_of, hidden)
    bounds = [(term.most(bm25), term) for term in terms]
    bounds.sort(key=lambda bound: -bound[0])
    # What the terms from each place on can add together.
    rests = [*accumulate((most for most, _ in reversed(bounds)), initial=0.0)][::-1]
    place = 0
    bar = None
    while place < len(bounds):
        term = bounds[place][1]
        if term.size > _COSTLY and len(search.parts) >= k:
            bar = search.bar(k)
            if bar is not None and rests[place] * SCALE + 1 < bar:
                break
        search.take(term)
        place += 1
    while place < len(bounds) and bar is not None:
        search.keep(bar, rests[place])
        if len(search.parts) <= _FEW:
            break
        search.look_up(bounds[place][1])
        place += 1
        bar = search.bar(k)
    events = search.scored(k, rests[place])
    return sorted(events.items(), key=lambda event: (-event[1], -event[0]))[:k]
