"""Documents to a segment, all at once: what a bulk build and every new document go through.

Words of a batch are looked up as numbers of the vocabulary's flat columns, so that the
work a word costs is one dictionary look-up and a few steps of array arithmetic.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np

from memplane.index import layout, terms
from memplane.index.document import ROLES, Document
from memplane.index.segment import (
    LENGTHS,
    SHORT_MAX,
    TIMES_MAX,
    Array,
    Pieces,
    Postings,
    Segment,
    totals,
)

__all__ = ["Analysed", "analysed", "build", "build_of", "ranges"]

_ROLE: Final = {role: place for place, role in enumerate(ROLES)}
ROW: Final = tuple(name for name, _ in layout.COLUMNS if name not in LENGTHS)


def ranges(starts: Array, counts: Array) -> Array:
    """Return starts[0], starts[0] + 1, … (counts[0] of them), then those of starts[1], …."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    found: Array = np.arange(total) + np.repeat(starts - ends + counts, counts)
    return found


def _mix(low: Array, high: Array) -> Array:
    """Give the bigrams of words pair by pair; the same numbers as `terms.mix`."""
    return np.minimum(low, high) * np.uint64(terms.MIX) + np.maximum(low, high)


class Analysed(NamedTuple):
    """A document and the numbers that a vocabulary has for its text and its extra."""

    document: Document
    text: list[int]
    extra: list[int]


def analysed(document: Document, vocabulary: terms.Vocabulary) -> Analysed:
    """Look the words of a document up."""
    return Analysed(document, vocabulary.numbers(document.text), vocabulary.numbers(document.extra))


def occurrences(
    documents: Sequence[Analysed], vocabulary: terms.Vocabulary
) -> list[tuple[Array, Array]]:
    """Return the terms of the documents and the document of each, by kind, in order."""
    found = [run for _, *runs in documents for run in runs]
    lengths = list(map(len, found))
    picked = np.fromiter(chain.from_iterable(found), np.int64, sum(lengths))
    # The columns grow with the next word: nothing may hold on to their memory.
    starts = np.frombuffer(vocabulary.starts, np.uint32)
    firsts = starts[picked].astype(np.int64)
    counts = starts[picked + 1] - firsts
    del starts
    atoms = ranges(firsts, counts)
    runs = np.repeat(np.repeat(np.arange(len(lengths)), lengths), counts)

    words, prefixes = _picked(vocabulary.words, atoms), _picked(vocabulary.prefixes, atoms)
    chained = _picked(vocabulary.chained, atoms).astype(bool)
    links, chain_runs = words[chained], runs[chained]
    together = chain_runs[1:] == chain_runs[:-1]
    return [
        (words, runs >> 1),
        (_mix(links[:-1][together], links[1:][together]), chain_runs[1:][together] >> 1),
        (prefixes[prefixes > 0], runs[prefixes > 0] >> 1),
        _labels(documents),
    ]


def _picked(column: array[int], places: Array) -> Array:
    if not len(column):
        return np.zeros(0, column.typecode)
    found: Array = np.frombuffer(column, column.typecode)[places]
    return found


def _labels(documents: Sequence[Analysed]) -> tuple[Array, Array]:
    found: list[int] = []
    docs: list[int] = []
    for place, (document, *_) in enumerate(documents):
        names = (*document.labels, document.group) if document.group else document.labels
        found += map(terms.label, names)
        docs += [place] * len(names)
    return np.array(found, np.uint64), np.array(docs, np.int64)


def postings(found: Array, docs: Array) -> Postings:
    """Group occurrences by term and document."""
    # Stable, and the documents of each kind rise: so do those of each term.
    order = np.argsort(found, kind="stable")
    found, docs = found[order], docs[order]
    fresh = np.ones(len(found), bool)
    np.not_equal(found[1:], found[:-1], out=fresh[1:])
    begins = fresh.copy()
    begins[1:] |= docs[1:] != docs[:-1]
    first = np.flatnonzero(begins)
    times = np.diff(first, append=len(found))
    starts = np.append(np.flatnonzero(fresh[first]), len(first))
    return Postings(
        found[fresh],
        starts.astype(np.uint32),
        docs[first].astype("<u2"),
        np.minimum(times, TIMES_MAX).astype(np.uint8),
    )


def row(document: Document) -> tuple[int, ...]:
    """Return what the columns say of a document, in the order of `ROW`; no lengths."""
    return (
        document.seq,
        document.at,
        terms.label(document.group) if document.group else 0,
        terms.label(document.speaker) if document.speaker else 0,
        document.name,
        min(document.tokens, SHORT_MAX),
        document.importance,
        document.flags & SHORT_MAX,
        document.part & SHORT_MAX,
        _ROLE.get(document.role, 0),
    )


def columns_of(documents: Sequence[Document], lengths: Iterable[Array]) -> dict[str, Array]:
    """Return the columns of the documents, given their lengths in words, bigrams and prefixes."""
    rows = zip(*map(row, documents), strict=True) if documents else ((),) * len(ROW)
    values: dict[str, object] = dict(zip(ROW, rows, strict=True))
    for name, length in zip(LENGTHS, lengths, strict=True):
        values[name] = np.minimum(length, SHORT_MAX)
    return {name: np.array(values[name], "<" + code) for name, code in layout.COLUMNS}


def build(documents: Iterable[Document], first: int, vocabulary: terms.Vocabulary) -> Segment:
    """Return the segment of the documents, of which the first has the number `first`."""
    return build_of([analysed(document, vocabulary) for document in documents], first, vocabulary)


def build_of(found: Sequence[Analysed], first: int, vocabulary: terms.Vocabulary) -> Segment:
    """Return the same of documents that the vocabulary has looked up."""
    documents = [one.document for one in found]
    kinds = occurrences(found, vocabulary)
    numbers, docs = (np.concatenate(parts) for parts in zip(*kinds, strict=True))
    lengths = [np.bincount(own, minlength=len(documents)) for _, own in kinds[:3]]
    columns = columns_of(documents, lengths)
    texts = [document.text.encode("utf-8", "surrogatepass") for document in documents]
    return Segment(
        first,
        len(documents),
        postings(numbers, docs),
        columns,
        Pieces.of(texts),
        Pieces.of([document.kept for document in documents]),
        totals(columns),
    )
