"""Neighbouring segments to one, and a segment to one with some documents blank.

Both give the bytes that building from the documents gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from memplane.index import layout
from memplane.index.build import ranges
from memplane.index.segment import Array, Pieces, Postings, Segment, totals

__all__ = ["erase", "merge"]

_STRIPE: Final = 1 << 18


def _merge_postings(parts: Sequence[Postings], offsets: Sequence[int]) -> Postings:
    # Stripe by stripe of the terms, which are spread evenly: what lies in memory beside the
    # result stays small.
    count = sum(len(part.terms) for part in parts) // _STRIPE + 1
    bounds = np.array([(number << 64) // count for number in range(1, count)], np.uint64)
    cuts = [[0, *part.terms.searchsorted(bounds).tolist(), len(part.terms)] for part in parts]
    stripes: list[Postings] = []
    base = 0
    for number in range(count):
        stripe = _stripe(
            [
                _between(part, offset, cut[number], cut[number + 1])
                for part, offset, cut in zip(parts, offsets, cuts, strict=True)
            ]
        )
        stripes.append(stripe._replace(starts=(stripe.starts + base).astype(np.uint32)))
        base += len(stripe.docs)
    found, starts, docs, times = map(np.concatenate, zip(*stripes, strict=True))
    return Postings(found, np.append(starts, np.uint32(base)), docs, times)


def _between(part: Postings, offset: int, start: int, end: int) -> Postings:
    """The terms from `start` to before `end`, documents moved up by the offset."""
    starts = part.starts[start : end + 1]
    first, last = int(starts[0]), int(starts[-1])
    docs = part.docs[first:last] + np.array(offset, part.docs.dtype)
    return Postings(part.terms[start:end], starts, docs, part.times[first:last])


def _stripe(parts: Sequence[Postings]) -> Postings:
    """One of them all; `starts` has no end."""
    terms = np.concatenate([part.terms for part in parts])
    counts = np.concatenate([np.diff(part.starts) for part in parts]).astype(np.int64)
    # Stable: of one term, the postings of earlier segments come first.
    order = np.argsort(terms, kind="stable")
    terms, sizes = terms[order], counts[order]
    picked = ranges((np.cumsum(counts) - counts)[order], sizes)
    fresh = np.ones(len(terms), bool)
    np.not_equal(terms[1:], terms[:-1], out=fresh[1:])
    docs = np.concatenate([part.docs for part in parts])[picked]
    times = np.concatenate([part.times for part in parts])[picked]
    return Postings(terms[fresh], (np.cumsum(sizes) - sizes)[fresh], docs, times)


def merge(parts: Sequence[Segment]) -> Segment:
    """Return one segment of the documents of all parts, which follow each other."""
    offsets = [part.first - parts[0].first for part in parts]
    postings = _merge_postings([part.postings for part in parts], offsets)
    columns = {
        name: np.concatenate([part.columns[name] for part in parts]) for name, _ in layout.COLUMNS
    }
    return Segment(
        parts[0].first,
        sum(part.size for part in parts),
        postings,
        columns,
        _joined([part.texts for part in parts]),
        _joined([part.kept for part in parts]),
        totals(columns),
    )


def _joined(parts: Sequence[Pieces]) -> Pieces:
    lengths = np.concatenate([np.diff(part.starts) for part in parts])
    return Pieces.laid(b"".join(part.data for part in parts), lengths)


def _emptied(pieces: Pieces, gone: Array) -> Pieces:
    lengths = np.diff(pieces.starts).astype(np.int64)
    kept = np.frombuffer(pieces.data, np.uint8)[np.repeat(~gone, lengths)]
    return Pieces.laid(kept.tobytes(), np.where(gone, 0, lengths))


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
    return Segment(
        segment.first,
        segment.size,
        _without(segment.postings, gone),
        columns,
        _emptied(segment.texts, gone),
        _emptied(segment.kept, gone),
        totals(columns),
    )
