"""Neighbouring segments to one, and a segment to one with some documents blank.

Both give the bytes that building from the documents gives.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from memplane.index import layout
from memplane.index.build import ranges
from memplane.index.segment import Array, Postings, Segment, totals

__all__ = ["erase", "merge"]


def _merge_postings(parts: Sequence[Postings], offsets: Sequence[int], doc_type: str) -> Postings:
    terms = np.concatenate([part.terms for part in parts])
    counts = np.concatenate([np.diff(part.starts) for part in parts]).astype(np.int64)
    # Stable: of one term, the postings of earlier segments come first.
    order = np.argsort(terms, kind="stable")
    counts_sorted, terms = counts[order], terms[order]
    docs = np.concatenate(
        [
            part.docs.astype(doc_type) + np.array(offset, doc_type)
            for part, offset in zip(parts, offsets, strict=True)
        ]
    )
    times = np.concatenate([part.times for part in parts])
    picked = ranges((np.cumsum(counts) - counts)[order], counts_sorted)
    first = np.flatnonzero(np.concatenate(([True], terms[1:] != terms[:-1]))[: len(terms)])
    ends = np.concatenate(([0], np.cumsum(counts_sorted)))
    starts = np.append(ends[first], ends[-1]).astype(np.uint32)
    return Postings(terms[first], starts, docs[picked], times[picked])


def merge(parts: Sequence[Segment], level: int) -> Segment:
    """Return one segment of the documents of all parts, which follow each other."""
    offsets = [part.first - parts[0].first for part in parts]
    doc_type = "<u4" if layout.wide(level) else "<u2"
    postings = _merge_postings([part.postings for part in parts], offsets, doc_type)
    columns = {
        name: np.concatenate([part.columns[name] for part in parts]) for name, _ in layout.COLUMNS
    }
    lengths = np.concatenate([np.diff(part.text_starts) for part in parts])
    text_starts = np.zeros(len(lengths) + 1, np.uint32)
    np.cumsum(lengths, out=text_starts[1:])
    return Segment(
        parts[0].first,
        sum(part.size for part in parts),
        postings,
        columns,
        text_starts,
        b"".join(part.texts for part in parts),
        totals(columns),
    )


def _without(part: Postings, gone: Array) -> Postings:
    kept = ~gone[part.docs]
    ends = np.concatenate(([0], np.cumsum(kept)))
    starts = ends[part.starts]
    alive = np.flatnonzero(np.diff(starts))
    return Postings(
        part.terms[alive],
        np.append(starts[alive], ends[-1]).astype(np.uint32),
        part.docs[kept],
        part.times[kept],
    )


def erase(segment: Segment, gone: Array) -> Segment:
    """Return the segment with blank documents in the slots where `gone` is true."""
    columns = {name: values.copy() for name, values in segment.columns.items()}
    for name, values in columns.items():
        if name not in {"seq", "part"}:
            values[gone] = 0
    lengths = np.diff(segment.text_starts).astype(np.int64)
    kept = np.where(gone, 0, lengths)
    picked = ranges(segment.text_starts[:-1].astype(np.int64), kept)
    text_starts = np.zeros(len(lengths) + 1, np.uint32)
    np.cumsum(kept, out=text_starts[1:])
    return Segment(
        segment.first,
        segment.size,
        _without(segment.postings, gone),
        columns,
        text_starts,
        np.frombuffer(segment.texts, np.uint8)[picked].tobytes(),
        totals(columns),
    )
