"""Search the files of an index with the standard library alone, for brief processes such as hooks.

Returns the events and integer scores that `View.hits` gives over the saved index, because every
floating-point operation that ends up in a score happens in the same order. Documents that were
added but not saved are not found. Needs a little-endian machine; on another one nothing is found.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from memplane.index import storage
from memplane.index.bm25 import BM25, Slice, Term, Weights, best_events, idf
from memplane.index.terms import KINDS, Query
from memplane.ports import Hit

__all__ = ["DocumentMarks", "SavedIndexReader"]

_FIELDS: Final = (*KINDS[:3], KINDS[0])  # whose lengths each field of a query goes by
_NEAR: Final = 256


class _File:
    """One mapped segment, its arrays as views."""

    def __init__(self, header: storage.SegmentFileHeader, data: memoryview, first: int) -> None:
        self.first, self.size, self.totals = first, header.documents, header.totals
        self._places, _ = storage.sections(header)
        self._whole = data
        self._arrays: dict[str, memoryview] = {}

    def array(self, name: str) -> memoryview:
        if name not in self._arrays:
            section = self._places[name]
            end = section.offset + section.length * storage.WIDTH[section.code]
            part = self._whole[section.offset : end].cast("B")
            self._arrays[name] = part.cast(section.code)  # type: ignore[call-overload]
        return self._arrays[name]

    def slice(self, term: int, kind: str, limit: int) -> Slice | None:
        """The postings of a term below the limit; None where there are none."""
        at = _place(self.array("terms"), term)
        if at < 0:
            return None
        start, end = self.array("starts")[at : at + 2]
        docs = self.array("docs")
        if self.first + self.size > limit:
            end = bisect_left(docs, limit - self.first, start, end)
        if start == end:
            return None
        times = self.array("times")[start:end]
        return Slice(self.first, docs[start:end], times, self.array(kind))


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
    """What tells documents apart without reading their event: see `index.document.Document`.

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

    def _below(self, upto: int | None) -> int:
        if upto is None:
            return self.count
        for file in reversed(self._files):
            seqs = file.array("seq")
            if seqs[0] <= upto:
                return file.first + bisect_right(seqs, upto)
        return 0

    def _length_total(self, number: int, limit: int) -> int:
        total = 0
        for file in self._files:
            if file.first + file.size <= limit:
                total += file.totals[number]
            elif file.first < limit:
                total += sum(file.array(KINDS[number])[: limit - file.first])
        return total

    def _terms(self, query: Query, shares: Sequence[float], limit: int) -> Iterator[Term]:
        for field, (terms, share) in enumerate(zip(query, shares, strict=True)):
            kind = _FIELDS[field]
            average = self._length_total(KINDS.index(kind), limit) / limit
            for term, weight in terms:
                found = (file.slice(term, kind, limit) for file in self._files)
                slices = {at: part for at, part in enumerate(found) if part is not None}
                if slices:
                    count = sum(len(part.docs) for part in slices.values())
                    strength = weight * idf(limit, count)
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
        limit = self._below(upto)
        if not limit or k < 1:
            return []
        shares = (1.0, weights.bigrams, weights.prefixes, weights.related)
        found = best_events(
            list(self._terms(query, shares, limit)),
            k,
            firsts=self._firsts,
            shares=shares,
            bm25=bm25,
            seq_of=self._seq,
            hidden=hidden,
        )
        return [Hit(seq, score) for seq, score in found]

    def counts(self, terms: Sequence[int], upto: int | None = None) -> list[int]:
        """How many documents hold each of the terms."""
        limit = self._below(upto)
        found = [[file.slice(term, KINDS[0], limit) for file in self._files] for term in terms]
        return [sum(len(part.docs) for part in parts if part is not None) for parts in found]

    def _seq(self, doc: int) -> int:
        file = self._files[bisect_right(self._firsts, doc) - 1]
        seq: int = file.array("seq")[doc - file.first]
        return seq

    def holders(self, term: int, upto: int | None = None) -> Iterator[DocumentMarks]:
        """Yield the marks of the documents that hold a term, the newest first."""
        limit = self._below(upto)
        for file in reversed(self._files):
            part = file.slice(term, KINDS[0], limit)
            if part is not None:
                for doc in reversed(part.docs):
                    yield self._marks(file, doc)

    def documents(self, role: int, upto: int | None = None) -> Iterator[DocumentMarks]:
        """Yield the marks of the documents of a role, the newest first."""
        limit = self._below(upto)
        for file in reversed(self._files):
            roles = bytes(file.array("role")[: max(limit - file.first, 0)])
            doc = roles.rfind(role)
            while doc >= 0:
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
        """Return the text of an event as far as it is indexed, its documents one after another."""
        parts: list[str] = []
        for file in self._files:
            seqs, starts = file.array("seq"), file.array("text.starts")
            for doc in range(bisect_left(seqs, seq), bisect_right(seqs, seq)):
                data = bytes(file.array("text")[starts[doc] : starts[doc + 1]])
                parts.append(data.decode("utf-8", "surrogatepass"))
        return "".join(parts)
