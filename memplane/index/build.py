"""Documents to a segment, all at once: what a bulk build and every new document go through.

Words of a batch are looked up as numbers of the vocabulary's flat columns, so that the
work a word costs is one dictionary look-up and a few steps of array arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from memplane.index import layout, terms
from memplane.index.document import ROLES, Document
from memplane.index.segment import (
    LENGTHS,
    SHORT_MAX,
    TIMES_MAX,
    Array,
    Postings,
    Segment,
    totals,
)

__all__ = ["build", "columns_of", "occurrences", "ranges"]

_ROLE: Final = {role: place for place, role in enumerate(ROLES)}
_DOC_BITS: Final = 32
ROW: Final = tuple(name for name, _ in layout.COLUMNS if name not in LENGTHS)


def ranges(starts: Array, counts: Array) -> Array:
    """Return starts[0], starts[0] + 1, … (counts[0] of them), then those of starts[1], …."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    found: Array = np.arange(total) + np.repeat(starts - ends + counts, counts)
    return found


def _mix(low: Array, high: Array) -> Array:
    """Give the bigrams of words pair by pair; the same numbers as `terms.mix`."""
    x = np.minimum(low, high) * np.uint64(terms.MIX_1) + np.maximum(low, high)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(terms.MIX_2)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(terms.MIX_3)
    return x ^ (x >> np.uint64(31))


def occurrences(
    documents: Sequence[Document], vocabulary: terms.Vocabulary
) -> list[tuple[Array, Array]]:
    """Return the terms of the documents and the document of each, by kind, in order."""
    numbers: list[int] = []
    lengths: list[int] = []
    for document in documents:
        for text in (document.text, document.extra):
            found = vocabulary.numbers(terms.prepare(text))
            numbers += found
            lengths.append(len(found))
    starts = np.array(vocabulary.starts)
    picked = np.array(numbers, np.int64)
    counts = starts[picked + 1].astype(np.int64) - starts[picked]
    atoms = ranges(starts[picked].astype(np.int64), counts)
    runs = np.repeat(np.repeat(np.arange(len(lengths)), lengths), counts)

    words = np.array(vocabulary.words, np.uint64)[atoms]
    prefixes = np.array(vocabulary.prefixes, np.uint64)[atoms]
    chained = np.array(vocabulary.chained, bool)[atoms]
    chain, chain_runs = words[chained], runs[chained]
    together = chain_runs[1:] == chain_runs[:-1]
    return [
        (words, runs >> 1),
        (_mix(chain[:-1][together], chain[1:][together]), chain_runs[1:][together] >> 1),
        (prefixes[prefixes > 0], runs[prefixes > 0] >> 1),
        _labels(documents),
    ]


def _labels(documents: Sequence[Document]) -> tuple[Array, Array]:
    found: list[int] = []
    docs: list[int] = []
    for place, document in enumerate(documents):
        names = (*document.labels, document.group) if document.group else document.labels
        found += map(terms.label, names)
        docs += [place] * len(names)
    return np.array(found, np.uint64), np.array(docs, np.int64)


def postings(found: Array, docs: Array, doc_type: str) -> Postings:
    """Group occurrences by term and document."""
    distinct, places = np.unique(found, return_inverse=True)
    keys = np.sort((places.astype(np.int64) << _DOC_BITS) | docs)
    first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))[: len(keys)])
    times = np.diff(first, append=len(keys))
    kept = keys[first]
    starts = np.searchsorted(kept >> _DOC_BITS, np.arange(len(distinct) + 1))
    return Postings(
        distinct,
        starts.astype(np.uint32),
        (kept & ((1 << _DOC_BITS) - 1)).astype(doc_type),
        np.minimum(times, TIMES_MAX).astype(np.uint8),
    )


def row(document: Document) -> tuple[int, ...]:
    """Return what the columns say of a document, in the order of `ROW`; no lengths."""
    return (
        document.seq,
        document.at,
        terms.label(document.group) if document.group else 0,
        terms.label(document.speaker) if document.speaker else 0,
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


def build(
    documents: Sequence[Document], first: int, level: int, vocabulary: terms.Vocabulary
) -> Segment:
    """Return the segment of the documents, of which the first has the number `first`."""
    found = occurrences(documents, vocabulary)
    doc_type = "<u4" if layout.wide(level) else "<u2"
    numbers, docs = (np.concatenate(parts) for parts in zip(*found, strict=True))
    lengths = [np.bincount(docs, minlength=len(documents)) for _, docs in found[:3]]
    columns = columns_of(documents, lengths)
    texts = [document.text.encode("utf-8", "surrogatepass") for document in documents]
    text_starts = np.zeros(len(texts) + 1, np.uint32)
    np.cumsum([len(text) for text in texts], out=text_starts[1:])
    return Segment(
        first,
        len(documents),
        postings(numbers, docs, doc_type),
        columns,
        text_starts,
        b"".join(texts),
        totals(columns),
    )
