"""Beyond relevance: exact keys and tags, and what markers add; then the final order of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from memplane.index.columns import Frame
from memplane.index.document import ROLES
from memplane.index.kernel import ONE
from memplane.index.lexical import Matches
from memplane.index.ranking import Ranked
from memplane.index.segment import Array

__all__ = ["Boosted", "Exact", "boosted", "marked_turns", "merged", "weighed"]

_SPEAKERS = [ROLES.index("user"), ROLES.index("assistant")]
_MARKED_MAX = 200


class Exact(NamedTuple):
    """Documents that a query names by key or tag, and those that bear a marker.

    Weights and boosts are thousandths of what the words of a query can earn.
    """

    keys: Sequence[Array]
    key_weight: int
    tags: Sequence[Array]
    tag_weight: int
    markers: Sequence[tuple[Array, int]]


class Boosted(NamedTuple):
    """Events, best first; the parts sum up to the score. `tokens` are those of whole events."""

    seqs: Array
    scores: Array
    words: Array
    similar: Array
    neighbours: Array
    markers: Array
    tags: Array
    keys: Array
    tokens: Array
    importance: Array
    flags: Array
    docs: Array


def weighed(
    matches: Matches, frame: Frame, bits: tuple[int, int], factors: Mapping[int, int]
) -> Matches:
    """Multiply what the words of some documents earn, by a number in their flags.

    `bits` are the lowest of its bits and how many it has; `factors`, in thousandths, go by it.
    """
    lowest, count = bits
    by = np.full(1 << count, 1_000)
    for number, factor in factors.items():
        by[number] = factor
    own = by[(frame.flags[matches.docs] >> lowest) & ((1 << count) - 1)]
    if np.all(own == 1_000):
        return matches
    scale = own / 1_000.0
    return matches._replace(
        words=matches.words * scale,
        bigrams=matches.bigrams * scale,
        prefixes=matches.prefixes * scale,
        related=matches.related * scale,
    )


def boosted(ranked: Ranked, exact: Exact, frame: Frame, hidden: Array, most: int) -> Boosted:
    """Return at most `most` events; ties go by importance, then to the newer.

    Whatever bears a name of the query is found, even if it holds none of the words looked for. A
    marker at most doubles what an event is worth without it: it makes nothing relevant by itself.
    """
    keyed, tagged = _bearing(exact.keys, frame), _bearing(exact.tags, frame)
    named = np.flatnonzero((keyed | tagged) & ~hidden)
    fresh = named[~np.isin(frame.seq[named], ranked.seqs)] if len(named) else named
    firsts = np.concatenate(([True], frame.seq[fresh][1:] != frame.seq[fresh][:-1]))
    more = fresh[firsts[: len(fresh)]]
    none = np.zeros(len(more), np.int64)
    docs = np.concatenate((ranked.docs, more))
    relevance = np.concatenate((ranked.scores, none))
    words = np.minimum(np.concatenate((ranked.own, none)), relevance)
    similar = np.minimum(np.concatenate((ranked.alike, none)), relevance - words)
    neighbours = relevance - words - similar
    seqs = frame.seq[docs]
    # All documents of an event bear the same labels.
    keys = keyed[docs] * (ONE * exact.key_weight // 1000)
    tags = tagged[docs] * (ONE * exact.tag_weight // 1000)
    lifts = np.zeros(len(docs), np.int64)
    for bearing, boost in exact.markers:
        if len(bearing):
            lifts += _bearing([bearing], frame)[docs] * (ONE * boost // 1000)
    markers = np.minimum(lifts, relevance + keys + tags)
    scores = relevance + keys + tags + markers
    importance = frame.importance[docs].astype(np.int64)
    order = np.arange(min(most, len(docs)))
    if len(named) or lifts.any():  # else they are in order
        order = np.lexsort((-seqs, -importance, -scores))[:most]
    tokens, flags = _tokens(docs, frame), frame.flags[docs]
    parts = (words, similar, neighbours, markers, tags, keys)
    columns = Boosted(seqs, scores, *parts, tokens, importance, flags, docs)
    return Boosted._make(column[order] for column in columns)


def marked_turns(
    markers: Sequence[tuple[Array, int]], frame: Frame, hidden: Array, bits: tuple[int, int],
    kind: int,
) -> list[tuple[int, int]]:  # fmt: skip
    """Return seq and tokens of the visible turns of user and assistant that bear a marker.

    `markers` are as those of `Exact`; `kind` is what a turn has in the `bits` of its flags. At most
    200: those of the greatest boost first, then the newest.
    """
    there = np.flatnonzero(_bearing([docs for docs, _ in markers], frame) & ~hidden[: frame.size])
    kinds = (frame.flags[there] >> bits[0]) & ((1 << bits[1]) - 1)
    docs = there[(kinds == kind) & np.isin(frame.role[there], _SPEAKERS)]
    docs = docs[np.diff(frame.seq[docs], prepend=-1) != 0]  # the first document of each event
    boosts = np.zeros(frame.size, np.int64)
    for bearing, boost in markers:
        boosts[bearing] = np.maximum(boosts[bearing], boost)
    best = docs[np.lexsort((-frame.seq[docs].astype(np.int64), -boosts[docs]))[:_MARKED_MAX]]
    return list(zip(frame.seq[best].tolist(), _tokens(best, frame).tolist(), strict=True))


def _tokens(docs: Array, frame: Frame) -> Array:
    """The tokens of the whole events that the documents are of."""
    found = frame.tokens[docs].astype(np.int64)
    seqs = frame.seq[docs]
    before = (docs > 0) & (frame.seq[docs - 1] == seqs)
    behind = frame.seq[np.minimum(docs + 1, frame.size - 1)] == seqs
    behind &= docs + 1 < frame.size
    parted = np.flatnonzero(before | behind)
    starts = np.searchsorted(frame.seq, seqs[parted], "left").tolist()
    ends = np.searchsorted(frame.seq, seqs[parted], "right").tolist()
    for place, start, end in zip(parted.tolist(), starts, ends, strict=True):
        found[place] = int(frame.tokens[start:end].sum(dtype=np.int64))
    return found


def _bearing(lists: Sequence[Array], frame: Frame) -> Array:
    there = np.zeros(frame.size, bool)
    for docs in lists:
        there[docs] = True
    return there


def merged(columns: Sequence[Any], rows: Sequence[Sequence[int]], most: int) -> list[Array]:
    """The columns of at most `most` events, best first, of some that are in columns and in rows.

    All have the fields of `Boosted`; `columns` may be none. Ties go by importance, then to the
    newer.
    """
    joined = [np.array(column, np.int64) for column in zip(*rows, strict=True)]
    if columns:
        pairs = zip(columns, joined, strict=True)
        joined = [np.concatenate([np.asarray(one), other]) for one, other in pairs]
    seqs, scores, importance = joined[0], joined[1], joined[9]
    order = np.lexsort((-seqs, -importance, -scores))[:most]
    return [column[order] for column in joined]
