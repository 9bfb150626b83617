"""From matches to events by relevance: factors, what neighbours say, and the best of them.

Everything is a whole number from the lexical score on: sums come out the same in any order.
In between stand only division and square roots of single values, which every CPU rounds alike.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from memplane.index import lexical
from memplane.index.columns import Frame
from memplane.index.document import ROLES
from memplane.index.kernel import ONE, Kernel, spread
from memplane.index.lexical import Matches
from memplane.index.question import PREFERENCE
from memplane.index.segment import Array

__all__ = ["Asked", "Ranked", "Ranking", "rank"]

_USER: Final = ROLES.index("user")


class Ranking(NamedTuple):
    """The weights, in thousandths where nothing else is said.

    `sources_max` matches at most speak for their neighbours, `wide_sources_max`
    where the question is broad.
    """

    lexical: lexical.Weights = lexical.Weights(related=0.4)
    coverage: int = 200
    speaker: int = 2_200
    first_person: int = 2_000
    preference: int = 1_100
    near: Kernel = Kernel(400, 180, 12)
    wide: Kernel = Kernel(500, 700, 60)
    sources_max: int = 300
    wide_sources_max: int = 300


class Asked(NamedTuple):
    """`Question` in the terms of the index: speakers as the column `speaker` numbers them."""

    speakers: tuple[int, ...] = ()
    first_person: bool = False
    broad: bool = False


class Ranked(NamedTuple):
    """Events found, best first. Scores are in 2**-20 of what the words alone could earn.

    `own` is the part of the score that the event's own words earned; the rest came from
    neighbours. `docs` is the document that speaks best for the event.
    """

    seqs: Array
    scores: Array
    own: Array
    docs: Array


def rank(
    matches: Matches,
    frame: Frame,
    asked: Asked,
    weights: Ranking,
    *,
    most: int,
    hidden: Array | None = None,
) -> Ranked:
    """Return at most `most` events by relevance; ties go by importance, then to the newer.

    `matches` and `frame` are of the same view. An event scores as its best document does. What is
    hidden is no match, speaks for no neighbour and hears none: hidden documents change nothing
    but the statistics of terms.
    """
    docs = matches.docs
    mine = np.zeros(frame.size, np.int64)
    mine[docs] = _own(matches, frame, asked, weights)
    scores = mine.copy()
    if len(docs):
        kernel = weights.wide if asked.broad else weights.near
        sources = _best_of_events(docs, mine, frame)
        limit = weights.wide_sources_max if asked.broad else weights.sources_max
        sources = sources[lexical.best(mine[sources], limit)]
        spread(scores, sources, mine[sources], frame, kernel)
    if hidden is not None:
        scores[hidden[: frame.size]] = 0
    found = np.flatnonzero(scores)
    prefers = (frame.flags[found] & PREFERENCE) != 0
    scores[found[prefers]] = scores[found[prefers]] * weights.preference // 1000
    best = _best_of_events(found, scores, frame)
    best = _highest(best, scores, frame, most)
    return Ranked(frame.seq[best], scores[best], mine[best], best)


def _own(matches: Matches, frame: Frame, asked: Asked, weights: Ranking) -> Array:
    """What each match earns by itself: 2**20 for the best words of all, times the factors."""
    words = lexical.whole(matches, weights.lexical)
    peak = int(words.max(initial=0))
    if peak == 0:
        return np.zeros(len(words), np.int64)
    # A power of 5/4: a little sharper than the plain score.
    share = words / np.float64(peak)
    share = share * np.sqrt(np.sqrt(share))
    part = np.float64(weights.coverage) / 1000.0
    share = share * ((1.0 - part) + part * matches.coverage)
    own: Array = np.rint(share * ONE).astype(np.int64)
    if asked.speakers:
        theirs = np.zeros(len(own), bool)
        for speaker in asked.speakers:
            theirs |= frame.speaker[matches.docs] == np.uint64(speaker)
        own = np.where(theirs, own * weights.speaker // 1000, own)
    if asked.first_person:
        users = frame.role[matches.docs] == _USER
        own = np.where(users, own * weights.first_person // 1000, own)
    return own


def _best_of_events(docs: Array, scores: Array, frame: Frame) -> Array:
    """The document of each event that scores best, the first of equals. `docs` rise."""
    if not len(docs):
        return docs
    seqs = frame.seq[docs]
    begins = np.concatenate(([True], seqs[1:] != seqs[:-1]))
    if begins.all():
        return docs
    starts = np.flatnonzero(begins)
    peaks = np.maximum.reduceat(scores[docs], starts)
    event = np.cumsum(begins) - 1
    high = np.flatnonzero(scores[docs] == peaks[event])
    firsts = np.concatenate(([True], event[high][1:] != event[high][:-1]))
    best: Array = docs[high[firsts]]
    return best


def _highest(docs: Array, scores: Array, frame: Frame, most: int) -> Array:
    if most < len(docs):
        bar = np.partition(scores[docs], len(docs) - most)[len(docs) - most] if most > 0 else None
        docs = docs[scores[docs] >= bar] if bar is not None else docs[:0]
    importance = frame.importance[docs].astype(np.int64)
    order = np.lexsort((-frame.seq[docs], -importance, -scores[docs]))
    highest: Array = docs[order[:most]]
    return highest
