"""Answers from the files of an index with the standard library alone, for brief processes.

The same events and the same integers as `View.hits` gives over the saved index: every
operation on floats comes in the same order. Documents that were added and not saved are
not seen. Needs a little-endian machine; another one finds nothing.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Container, Sequence
from mmap import mmap
from pathlib import Path
from typing import NamedTuple

from memplane.index import layout, storage
from memplane.index.bm25 import BM25, SCALE, Weights, idf
from memplane.index.terms import KINDS, Query
from memplane.ports import Hit

__all__ = ["Reader"]


class _File:
    """One mapped segment, its arrays as views."""

    def __init__(self, header: layout.Header, data: mmap, first: int) -> None:
        self.first, self.size, self.totals = first, header.documents, header.totals
        self._places, _ = layout.sections(header)
        self._whole = memoryview(data)

    def array(self, name: str) -> memoryview:
        section = self._places[name]
        end = section.offset + section.length * layout.WIDTH[section.code]
        return self._whole[section.offset : end].cast("B").cast(section.code)  # type: ignore[call-overload, no-any-return]


class _Posting(NamedTuple):
    """One term in one segment: its place in the query, and its documents up to the limit."""

    file: _File
    place: int
    docs: memoryview
    times: memoryview


class Reader:
    """The saved index of a plane, as it was when this was opened."""

    def __init__(self, folder: Path, *, plane: str = "", variant: str = "") -> None:
        loaded = storage.load(folder, plane, variant)
        files = loaded.files if sys.byteorder == "little" else ()
        self.seq, self.mark = loaded.manifest.seq, loaded.manifest.mark
        self.complete = loaded.complete and len(files) == len(loaded.files)
        self._files: list[_File] = []
        first = 0
        for header, data in files:
            self._files.append(_File(header, data, first))
            first += header.documents
        self.count = first

    def _below(self, upto: int | None) -> int:
        if upto is None:
            return self.count
        for file in reversed(self._files):
            seqs = file.array("seq")
            if seqs[0] <= upto:
                return file.first + bisect_right(seqs, upto)
        return 0

    def _postings(self, terms: Sequence[int], limit: int) -> list[_Posting]:
        found: list[_Posting] = []
        for file in self._files:
            if file.first >= limit:
                break
            known, starts = file.array("terms"), file.array("starts")
            docs, times = file.array("docs"), file.array("times")
            at = 0
            for place, term in enumerate(terms):
                at = bisect_left(known, term, at)
                if at == len(known) or known[at] != term:
                    continue
                start, end = starts[at], starts[at + 1]
                if file.first + file.size > limit:
                    end = bisect_left(docs, limit - file.first, start, end)
                if start < end:
                    found.append(_Posting(file, place, docs[start:end], times[start:end]))
        return found

    def _length_total(self, number: int, limit: int) -> int:
        total = 0
        for file in self._files:
            if file.first + file.size <= limit:
                total += file.totals[number]
            elif file.first < limit:
                total += sum(file.array(KINDS[number])[: limit - file.first])
        return total

    def _score(
        self, number: int, query: Sequence[tuple[int, float]], limit: int, bm25: BM25
    ) -> dict[int, float]:
        found = self._postings([term for term, _ in query], limit)
        if not found:
            return {}
        having = [0] * len(query)
        for posting in found:
            having[posting.place] += len(posting.docs)
        strength = [weight * idf(limit, df) for (_, weight), df in zip(query, having, strict=True)]
        average = self._length_total(number, limit) / limit
        k1, b = bm25
        scores: dict[int, float] = {}
        for file, place, docs, times in found:
            lengths = file.array(KINDS[number])
            for doc, tf in zip(docs, times, strict=True):
                norm = k1 * ((1.0 - b) + b * (lengths[doc] / average))
                value = strength[place] * (tf * (k1 + 1.0)) / (tf + norm)
                scores[file.first + doc] = scores.get(file.first + doc, 0.0) + value
        return scores

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
        words, bigrams, prefixes, related = (
            self._score(number, terms, limit, bm25)
            for number, terms in (
                (0, query.words),
                (1, query.bigrams),
                (2, query.prefixes),
                (0, query.related),
            )
        )
        events: dict[int, int] = {}
        docs = sorted({*words, *bigrams, *prefixes, *related})
        for doc, seq in zip(docs, self._seqs(docs), strict=True):
            total = words.get(doc, 0.0) + weights.bigrams * bigrams.get(doc, 0.0)
            total = total + weights.prefixes * prefixes.get(doc, 0.0)
            total = total + weights.related * related.get(doc, 0.0)
            if seq not in hidden:
                events[seq] = max(events.get(seq, 0), round(total * SCALE))
        ranked = sorted(events.items(), key=lambda event: (-event[1], -event[0]))
        return [Hit(seq, score) for seq, score in ranked[:k]]

    def _seqs(self, docs: Sequence[int]) -> list[int]:
        found: list[int] = []
        for file in self._files:
            seqs = file.array("seq")
            start = bisect_left(docs, file.first)
            end = bisect_left(docs, file.first + file.size)
            found += [seqs[doc - file.first] for doc in docs[start:end]]
        return found

    def text(self, seq: int) -> str:
        """Return the text of an event as far as it is indexed, its documents one after another."""
        parts: list[str] = []
        for file in self._files:
            seqs, starts = file.array("seq"), file.array("text.starts")
            for doc in range(bisect_left(seqs, seq), bisect_right(seqs, seq)):
                data = bytes(file.array("text")[starts[doc] : starts[doc + 1]])
                parts.append(data.decode("utf-8", "surrogatepass"))
        return "".join(parts)
