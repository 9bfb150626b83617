"""From matches to events by relevance: factors, what neighbours say, and the best of them.

Everything is a whole number from the lexical score on: sums come out the same in any order.
In between stand only division and square roots of single values, which every CPU rounds alike.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import sqrt
from typing import Final, NamedTuple

import numpy as np

from memplane.index import lexical
from memplane.index.columns import Frame
from memplane.index.document import ROLES
from memplane.index.kernel import ONE, Kernel, spread
from memplane.index.lexical import Matches
from memplane.index.question import PREFERENCE, READ
from memplane.index.segment import Array
from memplane.index.similar import Similar

__all__ = ["Asked", "Ranked", "Ranking", "rank"]

_USER: Final = ROLES.index("user")
_SAME: Final = 1_000  # a factor that changes nothing
_SPARE: Final = 2


class Ranking(NamedTuple):
    """The weights, in thousandths where nothing else is said.

    `speaker` and `first_person` multiply what the words of an event earn, where the question names
    its speaker or is asked by its speaker; `speaker_heard` and `first_person_heard` multiply that
    and what its neighbours lend it: the answer stands in the turns of the one who is asked about,
    whoever used the words. A broad question is about what all say: `speaker_heard` is not for it.
    `sources_max` matches at most speak for their neighbours, `wide_sources_max` where the question
    is broad. `preference` is for documents with one of the flags `preferring`.
    """

    lexical: lexical.Weights = lexical.Weights(related=0.4)
    coverage: int = 200
    speaker: int = 1_800
    speaker_heard: int = 1_500
    first_person: int = 2_000
    first_person_heard: int = 1_300
    preference: int = 1_100
    preferring: int = PREFERENCE | PREFERENCE << READ
    near: Kernel = Kernel(400, 180, 12)
    wide: Kernel = Kernel(500, 700, 60)
    sources_max: int = 600
    wide_sources_max: int = 600


class Asked(NamedTuple):
    """`Question` in the terms of the index: speakers as the column `speaker` numbers them."""

    speakers: tuple[int, ...] = ()
    first_person: bool = False
    broad: bool = False


class Ranked(NamedTuple):
    """Events found, best first. Scores are in 2**-20 of what the words alone could earn.

    `own` is the part of the score that the event's own words earned, `alike` what its similarity
    did; the rest came from neighbours. `docs` is the document that speaks best for the event.
    """

    seqs: Array
    scores: Array
    own: Array
    alike: Array
    docs: Array


def rank(
    matches: Matches,
    frame: Frame,
    asked: Asked,
    weights: Ranking,
    *,
    most: int,
    hidden: Array | None = None,
    similar: Similar | None = None,
) -> Ranked:
    """Return at most `most` events by relevance; ties go by importance, then to the newer.

    `matches` and `frame` are of the same view. An event scores as its best document does. What is
    hidden is no match, speaks for no neighbour and hears none: hidden documents change nothing
    but the statistics of terms. `similar` adds to what words match, and matches what stands out.
    """
    docs, words = matches.docs, lexical.whole(matches, weights.lexical)
    own = partial(_own, matches, words, frame, asked, weights)
    kernel = weights.wide if asked.broad else weights.near
    limit = weights.wide_sources_max if asked.broad else weights.sources_max
    mine, scores = np.zeros((2, frame.size), np.int64)
    alike = np.zeros(0 if similar is None else frame.size, np.int64)
    factors = _Range.of(asked, weights)
    bar = 0 if similar is not None else _bar(words, frame.seq, docs, max(limit, most), factors)
    places = np.flatnonzero(words >= bar)
    heads = docs[places]
    mine[heads] = own(places)
    if similar is not None:
        counts = similar.alone | (mine[similar.docs] > 0)
        alike[similar.docs[counts]] = similar.scores[counts]
        mine += alike
        heads = _numbers(mine != 0)
    lent = heads[:0]
    if len(heads):
        sources = _best_of_events(heads, mine, frame)
        sources = sources[lexical.best(mine[sources], limit)]
        lent = spread(scores, sources, mine[sources], frame, kernel)
    if len(places) < len(docs):
        # What neighbours lend may lift any match; but most hear too little of them to get far.
        final = _heard(scores[heads] + mine[heads], heads, frame, asked, weights)
        least = _reached_by(heads, final, frame, most)
        heads = heads[final >= least]
        faint, _ = factors.most(bar, int(words.max()))
        lent = lent[factors.loudest(scores.take(lent) + faint) >= least]
        lent = _either(lent, lent[:0], frame.size)
        lent = lent[_heard(scores[lent] + faint, lent, frame, asked, weights) >= least]
        more = docs.searchsorted(lent)
        more = more[docs.take(more, mode="clip") == lent]
        more = more[words[more] < bar]
        mine[docs[more]] = own(more)
    found = _either(heads, lent, frame.size)
    scores[found] += mine[found]
    found = found[scores[found] > 0]
    if hidden is not None:
        found = found[~hidden[found]]
    scores[found] = _heard(scores[found], found, frame, asked, weights)
    best = _highest(_best_of_events(found, scores, frame), scores, frame, most)
    like = np.zeros(len(best), np.int64) if similar is None else alike[best]
    return Ranked(frame.seq[best], scores[best], mine[best] - like, like, best)


def _reached_by(docs: Array, scores: Array, frame: Frame, most: int) -> int:
    """A score that the best documents of `most` events reach; 0 where there are fewer events."""
    seqs = frame.seq[docs]
    begins = np.flatnonzero(np.concatenate(([True], seqs[1:] != seqs[:-1])))
    if not 0 < most <= len(begins) or not len(docs):
        return 0
    return lexical.reached(np.maximum.reduceat(scores, begins), most)


def _either(some: Array, others: Array, size: int) -> Array:
    """The documents of two lists, each once, rising."""
    there = np.zeros(size, bool)
    there[some] = True
    there[others] = True
    return _numbers(there)


def _numbers(there: Array) -> Array:
    return np.flatnonzero(there).astype(np.int32)


class _Range(NamedTuple):
    """Factors that the words of a match are multiplied by, in thousandths, one after the other.

    `said` for what they earn by themselves, then `heard`. A match has some of them, or none.
    """

    said: tuple[int, ...]
    heard: tuple[int, ...]
    weights: Ranking

    @classmethod
    def of(cls, asked: Asked, weights: Ranking) -> _Range:
        """The factors that a request has."""
        said = [weights.speaker] * bool(asked.speakers)
        said += [weights.first_person] * asked.first_person
        heard = [weights.speaker_heard] * (bool(asked.speakers) and not asked.broad)
        heard += [weights.first_person_heard] * asked.first_person
        return cls(tuple(said), (*heard, weights.preference), weights)

    def least(self, words: int, peak: int) -> tuple[int, int]:
        """What so much earns at least, by itself and in the end."""
        return self._ends(words, peak, 0.0, min)

    def most(self, words: int, peak: int) -> tuple[int, int]:
        """What so much earns at most, without neighbours."""
        return self._ends(words, peak, 1.0, max)

    def loudest(self, scores: Array) -> Array:
        """What scores, neighbours included, are in the end at most."""
        for factor in self.heard:
            scores = scores * max(factor, _SAME) // _SAME
        return scores

    def _ends(
        self, words: int, peak: int, coverage: float, pick: Callable[[int, int], int]
    ) -> tuple[int, int]:
        # The steps of `_own`, rounded alike.
        share = words / max(1, peak)
        share = share * sqrt(sqrt(share))
        part = self.weights.coverage / 1000.0
        earned = round(share * ((1.0 - part) + part * coverage) * ONE)
        for factor in self.said:
            earned = earned * pick(factor, _SAME) // _SAME
        heard = earned
        for factor in self.heard:
            heard = heard * pick(factor, _SAME) // _SAME
        return earned, heard


def _bar(words: Array, seqs: Array, docs: Array, most: int, factors: _Range) -> int:
    """The least that words must earn for a match to count without neighbours; 0 where any may.

    `most` events have matches that earn more than any match below the bar: it is none of the best
    so many, neither by itself nor in the end. Each step from words to scores rises with both words
    and coverage, also as it is rounded, so that the ends of a range bound what lies between.
    """
    wanted = _SPARE * most
    if len(docs) <= _SPARE * wanted or not 0 <= factors.weights.coverage <= _SAME:
        return 0
    low, peak = lexical.reached(words, wanted), int(words.max())
    found = seqs[docs[words >= low]]
    if 1 + np.count_nonzero(found[1:] != found[:-1]) < most:
        return 0
    own, final = factors.least(low, peak)
    below, bar = -1, low
    while bar - below > 1:
        middle = (below + bar) // 2
        most_own, most_final = factors.most(middle, peak)
        if most_own < own and most_final < final:
            below = middle
        else:
            bar = middle
    return bar


def _own(
    matches: Matches, words: Array, frame: Frame, asked: Asked, weights: Ranking, places: Array
) -> Array:
    """What some matches earn by themselves: 2**20 for the best words of all, times the factors."""
    peak = int(words.max(initial=0))
    if peak == 0:
        return np.zeros(len(places), np.int64)
    # A power of 5/4: a little sharper than the plain score.
    share = words[places] / np.float64(peak)
    share = share * np.sqrt(np.sqrt(share))
    part = np.float64(weights.coverage) / 1000.0
    share = share * ((1.0 - part) + part * matches.coverage[places])
    own: Array = np.rint(share * ONE).astype(np.int64)
    docs = matches.docs[places]
    if asked.speakers:
        own = _raised(own, _said_by(asked.speakers, docs, frame), weights.speaker)
    if asked.first_person:
        own = _raised(own, frame.role[docs] == _USER, weights.first_person)
    return own


def _heard(scores: Array, docs: Array, frame: Frame, asked: Asked, weights: Ranking) -> Array:
    """Apply the factors that are for what neighbours lend, too."""
    if asked.speakers and not asked.broad:
        scores = _raised(scores, _said_by(asked.speakers, docs, frame), weights.speaker_heard)
    if asked.first_person:
        scores = _raised(scores, frame.role[docs] == _USER, weights.first_person_heard)
    return _raised(scores, (frame.flags[docs] & weights.preferring) != 0, weights.preference)


def _said_by(speakers: tuple[int, ...], docs: Array, frame: Frame) -> Array:
    said = frame.speaker[docs]
    found: Array = np.zeros(len(docs), bool)
    for speaker in speakers:
        found |= said == np.uint64(speaker)
    return found


def _raised(scores: Array, which: Array, permille: int) -> Array:
    if permille == _SAME:
        return scores
    found: Array = np.where(which, scores * permille // 1000, scores)
    return found


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
