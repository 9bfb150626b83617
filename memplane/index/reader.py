"""Search the files of an index with the standard library alone, for brief processes such as hooks.

Returns the events and integer scores that `IndexView.hits` gives over the saved index, because both
use the formulas of `bm25` in the same order (a law in `tests/ports/test_retriever.py`). Documents
that cannot be among the best are left out (MaxScore: Turtle and Flood 1995, "Query Evaluation:
Strategies and Optimizations"). Documents that were added but not saved are not found. Needs a
little-endian machine; on another one nothing is found.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterator, Sequence
from heapq import heappush, heapreplace
from itertools import accumulate, compress
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from memplane import kernel
from memplane.index import storage
from memplane.index.bm25 import BM25, Weights, combined, idf, length_norm, term_gain
from memplane.index.terms import KINDS, Query, exact_term
from memplane.lazy import NamedTuple
from memplane.ports import ONE, Hit

FIELDS: Final = (*KINDS[:3], KINDS[0])  # whose lengths each field of a query goes by
_NEAR: Final = 256

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
_SUMMED_MAX: Final = 200_000  # postings that the kernel adds in the time of a few thousand here
_SLICE: Final = 5  # numbers of a slice: see `lexical.PostingSums`


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
        gain: float = term_gain(self.strength, times, length_norm(0, self.average, bm25), bm25)
        return self.share * gain


class _Gains(dict[tuple[int, int], float]):
    """What a document gets from a term by how often it holds it and by its length, roughly.

    That is `term_gain` with fewer operations, but not to the last bit. Lengths recur.
    """

    def __init__(self, term: Term, bm25: BM25) -> None:
        k1, b = bm25
        self._gain = term.share * term.strength * (k1 + 1.0)
        self._base, self._slope = k1 * (1.0 - b), k1 * b / term.average

    def __missing__(self, said: tuple[int, int]) -> float:
        times, length = said
        value = self[said] = self._gain * times / (times + self._base + self._slope * length)
        return value


class _Search:
    def __init__(
        self,
        terms: Sequence[Term],
        firsts: Sequence[int],
        bm25: BM25,
        weights: Weights,
        seq_of: Callable[[int], int],
        hidden: Container[int],
    ) -> None:
        self.terms, self.firsts, self.bm25, self.weights = terms, firsts, bm25, weights
        self.seq_of, self.hidden = seq_of, hidden
        self.parts: dict[int, float] = {}  # what the terms taken so far give a document, roughly
        self.known: dict[int, int] = {}  # exact scores

    def take(self, term: Term) -> None:
        """Read all postings of a term."""
        parts, get = self.parts, self.parts.get
        gains = _Gains(term, self.bm25)
        for first, docs, times, lengths in term.slices.values():
            # A list: each look into a view makes a number anew by its format.
            numbers = docs.tolist()
            said = zip(bytes(times), map(lengths.__getitem__, numbers), strict=True)
            values = map(gains.__getitem__, said)
            numbers = [first + doc for doc in numbers] if first else numbers
            if not parts:
                parts.update(zip(numbers, values, strict=True))
                continue
            for number, value in zip(numbers, values, strict=True):
                parts[number] = get(number, 0.0) + value

    def look_up(self, term: Term) -> None:
        """Read the postings of a term that belong to documents found already."""
        parts = self.parts
        gains = _Gains(term, self.bm25)
        numbers = sorted(parts)
        ends = [bisect_left(numbers, first) for first in (*self.firsts[1:], numbers[-1] + 1)]
        start = 0
        for file, end in enumerate(ends):
            part = term.slices.get(file)
            if part is not None and start < end:
                first, docs, times, lengths = part
                here = [number - first for number in numbers[start:end]]
                if len(here) * _BISECTS > len(docs):
                    inside = set(here)
                    both = [(at, doc) for at, doc in enumerate(docs.tolist()) if doc in inside]
                else:
                    both = [(part.where(first + doc), doc) for doc in here]
                for at, doc in both:
                    if at >= 0:
                        parts[first + doc] += gains[times[at], lengths[doc]]
            start = end

    def exact(self, doc: int) -> int:
        """Return the score of a document by the formulas of `bm25`."""
        score = self.known.get(doc)
        if score is None:
            score = self.known[doc] = self._exact(doc)
        return score

    def _exact(self, doc: int) -> int:
        bm25 = self.bm25
        file = bisect_left(self.firsts, doc + 1) - 1
        sums = [0.0] * len(FIELDS)
        for term in self.terms:
            part = term.slices.get(file)
            at = -1 if part is None else part.where(doc)
            if part is not None and at >= 0:
                norm = length_norm(part.lengths[doc - part.first], term.average, bm25)
                sums[term.field] += term_gain(term.strength, part.times[at], norm, bm25)
        found: int = round(combined(tuple(sums), self.weights))
        return found

    def bar(self, k: int) -> int | None:
        """Return a score that k events reach; None where fewer than k are found."""
        wanted = 2 * k
        while True:
            low = sorted(self.parts.values(), reverse=True)[:wanted][-1]
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
        low = (bar - 1) / ONE - rest
        self.parts = {doc: part for doc, part in self.parts.items() if part >= low}

    def scored(self, k: int, rest: float) -> dict[int, int]:
        """Return the events that may be among the k best, by their best document."""
        events: dict[int, int] = {}
        heap: list[int] = []
        for doc, part in sorted(self.parts.items(), key=lambda item: -item[1]):
            if len(heap) == k and (part + rest) * ONE + 1 < heap[0]:
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
    bm25: BM25,
    weights: Weights,
    seq_of: Callable[[int], int],
    hidden: Container[int],
) -> list[tuple[int, int]]:
    """Return (seq, score) of the k best events that are not hidden; ties go to the newer.

    `terms` in the order in which they are added up, none with a negative weight; `firsts` is the
    first document of each file.
    """
    search = _Search(terms, firsts, bm25, weights, seq_of, hidden)
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
            if bar is not None and rests[place] * ONE + 1 < bar:
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


class Sums(NamedTuple):
    """The documents that hold a word of a query, rising, and what each earns, in 2**-20.

    `highest` takes a number of documents. It returns what at least so many earn, and the places of
    all that earn as much, as bytes of i32.
    """

    docs: memoryview
    words: memoryview[float]
    highest: Callable[[int], tuple[float, bytearray]]

    def best(
        self, k: int, *, seq_of: Callable[[int], int], hidden: Container[int]
    ) -> list[tuple[int, int]]:
        """Return what `best_events` does."""
        wanted = 2 * k
        while True:
            low, places = self.highest(wanted)
            events: dict[int, float] = {}
            for at in memoryview(places).cast("i"):
                seq = seq_of(self.docs[at])
                if seq not in hidden:
                    events[seq] = max(events.get(seq, 0.0), self.words[at])
            if low <= 0.0 or sum(one >= low for one in events.values()) >= k:
                break
            wanted *= 4
        scored = ((seq, round(one)) for seq, one in events.items())
        return sorted(scored, key=lambda event: (-event[1], -event[0]))[:k]


# The files of the index, mapped.
class _File:
    """One mapped segment, its arrays as views."""

    def __init__(self, header: storage.SegmentFileHeader, data: memoryview, first: int) -> None:
        self.first, self.size, self.totals = first, header.documents, header.totals
        self._places, _ = storage.sections(header)
        self._whole = data
        self.keep: bytes | None = None  # of each document whether it counts; None: all do
        self._arrays: dict[str, memoryview] = {}

    def array(self, name: str) -> memoryview:
        if name not in self._arrays:
            section = self._places[name]
            end = section.offset + section.length * storage.WIDTH[section.code]
            part = self._whole[section.offset : end].cast("B")
            self._arrays[name] = part.cast(section.code)  # type: ignore[call-overload]
        return self._arrays[name]

    def run(self, term: int, limit: int) -> tuple[int, int]:
        """Where the postings of a term below the limit begin and end."""
        at = _place(self.array("terms"), term)
        if at < 0:
            return 0, 0
        start, end = self.array("starts")[at : at + 2]
        if self.first + self.size > limit:
            end = bisect_left(self.array("docs"), limit - self.first, start, end)
        return start, end

    def block(self) -> tuple[Any, ...]:
        """The file as the kernel's `PostingSums` takes it."""
        lengths = (self.array(kind) for kind in KINDS[:3])
        return self.first, self.size, self.array("docs"), self.array("times"), *lengths

    def slice(self, term: int, kind: str, limit: int) -> Slice | None:
        """The postings of a term below the limit; None where it has none."""
        start, end = self.run(term, limit)
        if start == end:
            return None
        times, own = self.array("times")[start:end], self.array("docs")[start:end]
        if self.keep is not None:
            counts = bytes(map(self.keep.__getitem__, own))
            own = memoryview(array("I", compress(own, counts)))
            times = memoryview(array("B", compress(times, counts)))
            if not own:
                return None
        return Slice(self.first, own, times, self.array(kind))

    def set_apart(self, bit: int, terms: Sequence[int]) -> None:
        """Let documents with a flag, the bit from 8 on, not count, but those with a term."""
        flags = bytes(self.array("flags").cast("B"))[1::2]  # little-endian: the higher byte
        high = 1 << (bit - 8)
        keep = bytearray(flags.translate(bytes(0 if one & high else 1 for one in range(256))))
        self.keep = None
        if 0 not in keep:
            return
        for term in terms:
            found = self.slice(term, KINDS[0], self.first + self.size)
            for doc in found.docs if found is not None else ():
                keep[doc] = 1
        self.keep = bytes(keep) if 0 in keep else None


def _place(known: memoryview, term: int) -> int:
    """Where a term stands; -1 where it does not.

    Terms are spread evenly, so their number says where they stand but for a few hundred places:
    two pages of a file are read, where halving would touch a dozen.
    """
    count = len(known)
    if not count:
        return -1
    at = min(term * count >> 64, count - 1)
    at = min(max(at + ((term - known[at]) * count >> 64), 0), count - 1)
    low, high = max(at - _NEAR, 0), min(at + _NEAR, count)
    if known[low] > term:
        low = 0
    if known[high - 1] < term:
        high = count
    at = bisect_left(known, term, low, high)
    return at if at < count and known[at] == term else -1


class DocumentMarks(NamedTuple):
    """What is known of a document without reading its event: see `index.terms.Document`.

    `role`: its place in `ROLES`; `group`: the term of its session and namespace, 0 for none.
    """

    seq: int
    role: int
    flags: int
    group: int


class SavedIndexReader:
    """The saved index of a plane, as it was when this was opened.

    `keeps`: what had to be looked at to find it whole may be written down beside it.
    """

    def __init__(
        self, folder: Path, *, plane: str = "", variant: str = "", keeps: bool = False
    ) -> None:
        loaded = storage.load_segments(folder, plane, variant)
        if keeps:
            storage.keep_stamps(folder, loaded)
        files = loaded.segments if sys.byteorder == "little" else ()
        self.seq, self.mark = loaded.manifest.seq, loaded.manifest.mark
        self.complete = loaded.complete and len(files) == len(loaded.segments)
        self._files: list[_File] = []
        first = 0
        for header, data in files:
            self._files.append(_File(header, data, first))
            first += header.documents
        self.count = first
        self._firsts = [file.first for file in self._files]

    def below(self, upto: int | None) -> int:
        """Return how many documents are of events up to a seq; all of them for None."""
        if upto is None:
            return self.count
        for file in reversed(self._files):
            seqs = file.array("seq")
            if seqs[0] <= upto:
                return file.first + bisect_right(seqs, upto)
        return 0

    def set_apart(self, bit: int, labels: Sequence[str]) -> None:
        """Let documents with a flag be as if they were not there, but those with a label."""
        terms = [exact_term(label) for label in labels]
        for file in self._files:
            file.set_apart(bit, terms)

    def there(self, limit: int) -> int:
        """Return how many of the documents below the limit count."""
        gone = 0
        for file in self._files:
            if file.keep is not None and file.first < limit:
                gone += file.keep[: limit - file.first].count(0)
        return limit - gone

    def _length_total(self, number: int, limit: int) -> int:
        total = 0
        for file in self._files:
            if file.keep is not None:
                lengths = file.array(KINDS[number])[: max(limit - file.first, 0)]
                total += sum(compress(lengths, file.keep))
            elif file.first + file.size <= limit:
                total += file.totals[number]
            elif file.first < limit:
                total += sum(file.array(KINDS[number])[: limit - file.first])
        return total

    def _terms(self, query: Query, shares: Sequence[float], limit: int) -> Iterator[Term]:
        there = self.there(limit)
        if not there:
            return
        for field, (terms, share) in enumerate(zip(query, shares, strict=True)):
            kind = FIELDS[field]
            average = self._length_total(KINDS.index(kind), limit) / there
            for term, weight in terms:
                found = (file.slice(term, kind, limit) for file in self._files)
                slices = {at: part for at, part in enumerate(found) if part is not None}
                if slices:
                    count = sum(len(part.docs) for part in slices.values())
                    strength = weight * idf(there, count)
                    yield Term(field, strength, share, average, slices, count)

    def hits(
        self,
        query: Query,
        k: int,
        upto: int | None = None,
        hidden: Container[int] = (),
        bm25: BM25 = BM25(),  # noqa: B008 - immutable
        weights: Weights = Weights(),  # noqa: B008 - immutable
    ) -> list[Hit]:
        """Return the k best events that are not hidden; ties go to the newer."""
        limit = self.below(upto)
        if not limit or k < 1:
            return []
        if (summed := self._summed(query, limit, bm25, weights)) is not None:
            best = summed.best(k, seq_of=self._seq, hidden=hidden)
            return [Hit(seq, score) for seq, score in best]
        shares = (1.0, *weights)
        found = best_events(
            list(self._terms(query, shares, limit)),
            k,
            firsts=self._firsts,
            bm25=bm25,
            weights=weights,
            seq_of=self._seq,
            hidden=hidden,
        )
        return [Hit(seq, score) for seq, score in found]

    def _summed(self, query: Query, limit: int, bm25: BM25, weights: Weights) -> Sums | None:
        """Every document that holds a word of the query, and what it earns; by the kernel alone.

        None where there is no kernel, where the query has more than words, and where reading all
        postings takes longer than to find out which need not be read.
        """
        if kernel.BUILT is None or any(query[1:]):
            return None
        slices, total = array("q"), 0
        for at, file in enumerate(self._files):
            for place, (term, _) in enumerate(query.words):
                begin, end = file.run(term, limit)
                total += end - begin
                if begin < end:
                    slices.extend((at, 0, place, begin, end))
        if total > _SUMMED_MAX or limit > _SUMMED_MAX:
            return None
        blocks = tuple(file.block() for file in self._files)
        sums = kernel.BUILT.PostingSums(blocks, slices, limit, None, self._apart(limit))
        having = [0] * len(query.words)
        for place, count in zip(
            slices[2::_SLICE], memoryview(sums.counts()).cast("q"), strict=True
        ):
            having[place] += count
        there = self.there(limit)
        rare = array("d", [idf(there, count) for count in having])
        strength = array(
            "d", [weight * one for (_, weight), one in zip(query.words, rare, strict=True)]
        )
        average = self._length_total(0, limit) / there if there else 1.0
        averages = (average, 1.0, 1.0, 1.0)
        docs, words, _ = sums.of(strength, rare, averages, tuple(bm25), tuple(weights))
        return Sums(
            memoryview(docs).cast("i"),
            memoryview(words).cast("d"),
            lambda wanted: sums.highest(words, wanted),
        )

    def _apart(self, limit: int) -> bytes | None:
        """A byte for each document, of those that do not count; None where all do."""
        if all(file.keep is None for file in self._files):
            return None
        found = (bytes(file.size) if file.keep is None else file.keep for file in self._files)
        swapped = bytes.maketrans(b"\0\1", b"\1\0")
        return b"".join(
            one if file.keep is None else one.translate(swapped)
            for file, one in zip(self._files, found, strict=True)
        )[:limit]

    def counts(self, terms: Sequence[int], upto: int | None = None) -> list[int]:
        """How many documents hold each of the terms."""
        limit = self.below(upto)
        found = [[file.slice(term, KINDS[0], limit) for file in self._files] for term in terms]
        return [sum(len(part.docs) for part in parts if part is not None) for parts in found]

    def _seq(self, doc: int) -> int:
        file = self._files[bisect_right(self._firsts, doc) - 1]
        seq: int = file.array("seq")[doc - file.first]
        return seq

    def holders(self, term: int, upto: int | None = None) -> Iterator[DocumentMarks]:
        """Yield the marks of the documents that hold a term, the newest first."""
        limit = self.below(upto)
        for file in reversed(self._files):
            part = file.slice(term, KINDS[0], limit)
            if part is not None:
                for doc in reversed(part.docs):
                    yield self._marks(file, doc)

    def first_seq(self, term: int) -> int | None:
        """Return the seq of the oldest document that holds a term; None where none does."""
        for file in self._files:
            part = file.slice(term, KINDS[0], self.count)
            if part is not None:
                seq: int = file.array("seq")[part.docs[0]]
                return seq
        return None

    def documents(self, role: int, upto: int | None = None) -> Iterator[DocumentMarks]:
        """Yield the marks of the documents of a role, the newest first."""
        limit = self.below(upto)
        for file in reversed(self._files):
            roles = bytes(file.array("role")[: max(limit - file.first, 0)])
            doc = roles.rfind(role)
            while doc >= 0:
                if file.keep is None or file.keep[doc]:
                    yield self._marks(file, doc)
                doc = roles.rfind(role, 0, doc)

    def marks(self, seq: int) -> DocumentMarks | None:
        """Return the marks of an event's first document; None where it has none."""
        for file in reversed(self._files):
            seqs = file.array("seq")
            if len(seqs) and seqs[0] <= seq:
                doc = bisect_left(seqs, seq)
                return self._marks(file, doc) if doc < len(seqs) and seqs[doc] == seq else None
        return None

    def _marks(self, file: _File, doc: int) -> DocumentMarks:
        return DocumentMarks(
            file.array("seq")[doc],
            file.array("role")[doc],
            file.array("flags")[doc],
            file.array("group")[doc],
        )

    def text(self, seq: int) -> str:
        """Return the text of an event as far as it is indexed, its documents one after another.

        Raises PlaneError where a file of the index was changed since its sum was checked.
        """
        parts: list[str] = []
        for file in self._files:
            seqs, starts = file.array("seq"), file.array("text.starts")
            for doc in range(bisect_left(seqs, seq), bisect_right(seqs, seq)):
                data = bytes(file.array("text")[starts[doc] : starts[doc + 1]])
                parts.append(storage.stored_text(data))
        return "".join(parts)
