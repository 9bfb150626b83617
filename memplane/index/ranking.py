"""Rank events for a query: BM25 scores, similarity of vectors, neighbours, speakers and boosts.

`rank` turns scores of documents into those of events: what the texts beside a match get of its
score, who speaks, how many of the query's words are there. `boosted` adds exact keys, tags and
markers, and `alike` ranks by vectors alone. Everything is a whole number from the lexical score on:
sums come out the same in any order. In between stand only division and square roots of single
values, which every CPU rounds alike.

Vector similarity counts by how far it stands out: z is the distance of a document's cosine from the
mean of all, in standard deviations. A z of 4 earns `weight`, where the best match by words earns 1.
Mean and deviation come from sums of integers over at most 1,024 documents, spread evenly over the
log; like the statistics of terms they include hidden documents.

What a ranking reads of documents is in `Columns`. Segments keep their columns apart, but a ranking
reads those of thousands of scattered documents and their neighbours, a hundred times a query. So
they are copied into flat arrays, filled once and extended as documents come in: 53 bytes a
document, and 8 more for each set of documents that a channel does not see. A `Mask` is the set of
documents that a request may not see: by flags, by times of validity (`Spans`), by later events
(`Fates`). `spread_scores` lends scores to neighbours.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, partial
from itertools import chain
from math import isqrt, sqrt
from typing import Any, Final

from memplane.index import lexical, terms
from memplane.index.bm25 import relevance
from memplane.index.lexical import Matches, PostingSums, WordSums
from memplane.index.numeric import np
from memplane.index.segment import ASKING, PERSONAL, TIMED, Array
from memplane.index.terms import PREFERENCE, READ, ROLES
from memplane.index.vectors import MILLION, Vectors, grown
from memplane.kernel import kernel_twin
from memplane.lazy import NamedTuple, Protocol
from memplane.ports import ONE

FULL: Final = 4  # the z that earns the weight
_SAMPLE_MAX: Final = 1_024
_PERMILLE: Final = 1_000
_USER: Final = ROLES.index("user")
_ASSISTANT: Final = ROLES.index("assistant")
_SAME: Final = 1_000  # a factor that changes nothing
_SCORE_MAX: Final = (2**63 - 1) // 10_000  # what a factor of ten does not take beyond 64 bits
_SPARE: Final = 2
_OPENING_TURNS: Final = 5  # of the user, that say what a session is about
_ASKING_TOKENS: Final = 50  # a longer text says more than it asks
_PLACES: Final = 8
_EXACT: Final = 1 << 53
_OPENING_DOCUMENTS: Final = 60  # looked at on the way to the session's first
_FIRST: Final = 1_024
_BLOCK: Final = 65_536
_MARKED_MAX: Final = 200

TURN_TOKENS: Final = 10  # what a turn counts beside its words, on the way past it
_TYPES: Final = {
    "seq": np.int64,
    "tokens": np.int32,
    "group": np.uint64,
    "speaker": np.uint64,
    "importance": np.uint16,
    "flags": np.uint16,
    "role": np.uint8,
    "traits": np.uint32,
}
_NONE: Final = -1
_FLAGS: Final = 1 << 16
_KEPT_MAX: Final = 16
_NEVER: Final = np.iinfo(np.int64).max
GAP_MAX: Final = 4_095
_FAINT: Final = ONE >> 9  # less than this part of a match is not heard


class Kernel(NamedTuple):
    """How far a match speaks for the turns around it: `permille` of it at no distance.

    `fade` tokens away it is 1/e of that; `reach` documents away it ends. A chat needs two turns on
    each side, a meeting of short turns a dozen, and a long answer should block the view: one
    measure does it, the tokens that lie between.
    """

    permille: int
    fade: int
    reach: int


class Nearness(NamedTuple):
    """Thousandths: what similarity earns, and the least z and cosine of a match without a word.

    Something stands out among documents for any query, however far it is from all of them: a text
    that no word matches must be near the query, too.
    """

    weight: int
    least: int
    cosine: int


class Similar(NamedTuple):
    """Documents that stand out, rising, and what each earns in 2**-20.

    `alone` says of each whether it is a match by similarity alone; the others earn it where a word
    of the query matches them.
    """

    docs: Array
    scores: Array
    alone: Array


def similar(
    vectors: Vectors, query: bytes, weights: Nearness, *, upto: int, hidden: Array
) -> Similar:
    """Return the documents below `upto` that are more similar to the query than the mean.

    Hidden documents are left out; where all are equally similar, the result is empty.
    """
    docs, cosines = vectors.near(query, upto=upto, masked=hidden)
    if not len(docs):
        return Similar(docs, docs, np.zeros(0, bool))
    sample = vectors.sample(query, _SAMPLE_MAX, upto=upto)
    count, total = len(sample), int(sample.sum())
    spread = isqrt(count * int((sample * sample).sum()) - total * total)
    z = _PERMILLE * (count * cosines - total) // max(1, spread)
    scores = z * weights.weight * ONE // (FULL * _PERMILLE * _PERMILLE)
    stands = (scores > 0) & bool(spread)
    alone = (z >= weights.least) & (cosines >= weights.cosine * (MILLION // _PERMILLE))
    return Similar(docs[stands], scores[stands], alone[stands])


class Ranking(NamedTuple):
    """The weights, in thousandths unless it says otherwise.

    `speaker` and `first_person` multiply the score of an event's own words where the question names
    its speaker, or is about the user who asks; `speaker_heard` and `first_person_heard` multiply
    that and the share from its neighbours: the answer is in the turns of the person asked about,
    also where another one used the words. A broad question is about all speakers, so
    `speaker_heard` does not apply. At most `sources_max` matches give a share to their neighbours,
    `wide_sources_max` for a broad question. `preference` is for documents with one of the flags
    `preferring`. A document has a number in `bits` of its flags (lowest bit, number of bits): by
    that what its words earn is multiplied by one of `factors` (number, permille), and shares from
    neighbours by `faint`, if it is one of `faint_numbers`.

    Where a question names speakers and is not broad, texts that do not speak of their writer are
    multiplied by `impersonal`, those with a time or number by `timed`, and short ones that ask
    something by `asking`. What the words of a short text that asks earn is lent, times `reply`, to
    the event behind it, where another one speaks there. `session_best`, at least
    1,000, multiplies the best of each group. Where a question is about the user who asks, what an
    assistant says is multiplied by `answer`; where it is broad, one of the first few turns of the
    user in each group by `opening`: they say what the group is about.
    Where it asks for the beginning, those of the first group are multiplied by `beginning`.
    """

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
    impersonal: int = 1_000
    timed: int = 1_000
    asking: int = 1_000
    reply: int = 0
    session_best: int = 1_000
    answer: int = 1_000
    opening: int = 1_000
    beginning: int = 1_000
    bits: tuple[int, int] = (0, 0)
    factors: tuple[tuple[int, int], ...] = ()
    faint: int = 1_000
    faint_numbers: tuple[int, ...] = ()


class RankingQuery(NamedTuple):
    """`Question` in the terms of the index: speakers as the column `speaker` numbers them.

    `beginning` is the first group that may be seen, where it asks how something began, else 0.
    """

    speakers: tuple[int, ...] = ()
    first_person: bool = False
    broad: bool = False
    beginning: int = 0


class RankedEvents(NamedTuple):
    """Events found, best first. Scores are in 2**-20 of what the words alone could earn.

    `own` is the part of the score from the event's own words, `alike` from its vector; the rest
    came from neighbours. `docs` is the best document of the event.
    """

    seqs: Array
    scores: Array
    own: Array
    alike: Array
    docs: Array


# What a factor of the ranking is for: documents that pass a test, with an argument for some.
_SPEAKER, _ROLE, _FLAG, _TRAITLESS, _TRAIT, _ASKS, _OPENS, _BEGINS = range(8)


class RankingRules(NamedTuple):
    """What a question makes of the weights, in numbers and arrays alone: the kernel reads it.

    `said` and `heard` are i64 rows of (test, argument, permille), in the order in which they apply:
    to what words earn, then to the score. `shares` has a factor for each number in `bits` of the
    flags, f64, and `faint` one for what neighbours lend, i64. `strengths` is that of the kernel.
    """

    coverage: int
    said: Array
    heard: Array
    speakers: Array  # u64
    beginning: int
    bits: tuple[int, int]
    shares: Array
    faint: Array
    strengths: Array
    reach: int
    sources: int
    reply: int
    session_best: int


def rank(
    matches: Matches,
    frame: Frame,
    asked: RankingQuery,
    weights: Ranking,
    *,
    most: int,
    hidden: Array | None = None,
    similar: Similar | None = None,
) -> RankedEvents:
    """Return at most `most` events by relevance; ties go by importance, then to the newer.

    `matches` and `frame` are of the same view. The score of an event is that of its best document.
    Hidden documents change the statistics of terms alone: they match nothing and share no score.
    `similar` adds to what words match, and what stands out in it matches too.
    """
    rules = _rules(asked, weights)
    if similar is not None:
        return _ranked(matches, frame, rules, most, hidden, similar)
    return _events(kernel_twin(EventRanking)(frame, hidden).of(matches, rules, most), frame)


def rank_sums(
    sums: WordSums,
    frame: Frame,
    asked: RankingQuery,
    weights: Ranking,
    *,
    most: int,
    hidden: Array | None = None,
) -> tuple[RankedEvents, int, bool]:
    """Return what `rank` does of the matches of the sums, without making an array of them all.

    Also how many there are, and whether one of them has a word of the query.
    """
    own = kernel_twin(EventRanking)(frame, hidden)
    rules = _rules(asked, weights)
    with lexical.whole_files():
        found, count, covered = own.best(sums.sums, sums[1:-1], sums.mass, rules, most)
    return _events(found, frame), count, covered


def _events(parts: tuple[Array, Array, Array], frame: Frame) -> RankedEvents:
    docs, scores, own = map(np.frombuffer, parts, (np.int32, np.int64, np.int64))
    return RankedEvents(frame.seq[docs], scores, own, np.zeros(len(docs), np.int64), docs)


class EventRanking:
    """Ranks the events of a frame by what words match; the twin of that in the kernel.

    `hidden` has a byte for each document of the frame, or is None.
    """

    def __init__(self, frame: Frame, hidden: Array | None) -> None:
        self._frame, self._hidden = frame, hidden

    def of(self, matches: Matches, rules: RankingRules, most: int) -> tuple[Array, Array, Array]:
        """Return the best documents of the best events: i32; scores and what is own of them: i64.

        At most `most`, as `rank` orders them.
        """
        found = _ranked(matches, self._frame, rules, most, self._hidden, None)
        return found.docs.astype(np.int32), found.scores, found.own

    def best(
        self,
        sums: PostingSums,
        given: tuple[Any, ...],
        mass: float,
        rules: RankingRules,
        most: int,
        room: int = 0,
    ) -> tuple[tuple[Array, Array, Array], int, bool]:
        """Return what `of` does of the matches of `sums.of(*given)`, coverage divided by `mass`.

        Also how many matches there are, and whether one has coverage. Once it has `room` matches,
        the kernel may drop those that cannot be among the best; 0: it chooses by what is wanted.
        """
        del room  # all are kept
        docs, words, coverage = sums.of(*given)
        found = self.of(Matches(docs, words, coverage / mass), rules, most)
        return found, len(docs), bool(coverage.any())


def _rules(asked: RankingQuery, weights: Ranking) -> RankingRules:
    named = bool(asked.speakers)
    said = [(_SPEAKER, 0, weights.speaker)] * named
    said += [(_ROLE, _USER, weights.first_person)] * asked.first_person
    heard = [(_SPEAKER, 0, weights.speaker_heard)] * (named and not asked.broad)
    if asked.first_person:
        heard += [(_ROLE, _USER, weights.first_person_heard), (_ROLE, _ASSISTANT, weights.answer)]
    heard += [(_OPENS, 0, weights.opening)] * asked.broad
    heard += [(_BEGINS, 0, weights.beginning)] * bool(asked.beginning)
    heard.append((_FLAG, weights.preferring, weights.preference))
    if named and not asked.broad:  # it asks for single turns: what they said of themselves, when
        heard += [(_TRAITLESS, PERSONAL, weights.impersonal), (_TRAIT, TIMED, weights.timed)]
        heard.append((_ASKS, 0, weights.asking))
    low, count = weights.bits
    shares, faint = np.full(1 << count, _SAME), np.full(1 << count, _SAME)
    for number, factor in weights.factors:
        shares[number] = factor
    faint[list(weights.faint_numbers)] = weights.faint
    kernel = weights.wide if asked.broad else weights.near
    return RankingRules(
        weights.coverage,
        _steps(said),
        _steps(heard),
        np.array(asked.speakers, np.uint64),
        asked.beginning,
        (low, count),
        shares / 1_000.0,
        faint,
        strengths(kernel),
        kernel.reach,
        weights.wide_sources_max if asked.broad else weights.sources_max,
        weights.reply,
        weights.session_best,
    )


def _steps(rows: Sequence[tuple[int, int, int]]) -> Array:
    changing = [row for row in rows if row[2] != _SAME]
    return np.array(changing, np.int64).reshape(-1, 3)


def _ranked(
    matches: Matches,
    frame: Frame,
    rules: RankingRules,
    most: int,
    hidden: Array | None,
    similar: Similar | None,
) -> RankedEvents:
    """What `rank` returns, in arrays."""
    matches = _weighed(matches, frame, rules)
    docs, words = matches.docs, lexical.whole_scores(matches)
    own = partial(_own, matches, words, frame, rules)
    factors = _Range.of(rules)
    bar = 0
    if similar is None:
        bar = _bar(words, frame.seq, docs, max(rules.sources, most), factors)
    places = np.flatnonzero(words >= bar)
    heads, mine = docs[places], own(places)
    alike: _Sums | None = None
    if similar is not None:
        alike = _counting(similar, _Sums(heads, mine))
        heads, mine = _joined(_Sums(heads, mine), alike)
        heads, mine = heads[mine != 0], mine[mine != 0]
    lent = _lent(_Sums(heads, mine), frame, rules)
    if len(places) < len(docs):
        # What neighbours lend may lift any match; but most hear too little of them to get far.
        final = _heard(lent.of(heads) + mine, heads, frame, rules)
        least = _reached_by(heads, final, frame, most)
        kept = _raised(final, True, rules.session_best) >= least
        heads, mine = heads[kept], mine[kept]
        more_said, _ = factors.most(bar, int(words.max()))
        loud = np.flatnonzero(factors.loudest(lent.values + more_said) >= least)
        heard = _heard(lent.values[loud] + more_said, lent.docs[loud], frame, rules)
        there = _Sums(heads, np.ones(len(heads), bool)).of(lent.docs)
        there[loud[_raised(heard, True, rules.session_best) >= least]] = True
        lent = lent.where(there)
        more = docs.searchsorted(lent.docs)
        more = more[docs.take(more, mode="clip") == lent.docs]
        more = more[words[more] < bar]
        heads, mine = _joined(_Sums(heads, mine), _Sums(docs[more], own(more)))
    found, scores = _joined(_Sums(heads, mine), lent)
    there = (scores > 0) if hidden is None else (scores > 0) & ~hidden[found]
    found, scores = found[there], scores[there]
    scores = _heard(scores, found, frame, rules)
    found, scores = _topped(found, scores, frame, rules.session_best, most)
    best = _highest(found, scores, frame, most)
    return _in_parts(_Sums(found[best], scores[best]), _Sums(heads, mine), alike, frame)


class Speakers:
    """Speakers by small numbers, in the order of their first documents. One thread at a time."""

    def __init__(self) -> None:
        self.labels: list[int] = []  # what the column `speaker` says; 0 for none
        self.firsts: list[int] = []  # the first document of each
        self._known: dict[int, int] = {}
        self._of_docs = np.zeros(0, np.int32)
        self._counts: list[int] = []  # the documents of each
        self._size = 0
        self._answered: int | None = None  # the first document of an assistant without a name

    def follow(self, frame: Frame) -> None:
        """Take in the documents that are new; `frame` has all there are."""
        start, end = self._size, frame.size
        if end <= start:
            return
        if end > len(self._of_docs):
            larger = np.zeros(end + end // 2, np.int32)
            larger[:start] = self._of_docs[:start]
            self._of_docs = larger
        labels = frame.speaker[start:end]
        self._number(labels, start)
        new = np.bincount(self._of_docs[start:end], minlength=len(self.labels)).tolist()
        self._counts += [0] * (len(self.labels) - len(self._counts))
        self._counts = [own + more for own, more in zip(self._counts, new, strict=True)]
        if self._answered is None:
            nameless = (labels == 0) | (labels == np.uint64(terms.exact_term("assistant")))
            found = np.flatnonzero(nameless & (frame.role[start:end] == _ASSISTANT))
            self._answered = start + int(found[0]) if len(found) else None
        self._size = end

    def _number(self, labels: Array, start: int) -> None:
        # A few first: they teach most speakers, and of those there are only a look-up is needed.
        at = 0
        for end in (
            min(_FIRST, len(labels)),
            *range(_FIRST + _BLOCK, len(labels) + _BLOCK, _BLOCK),
        ):
            part, numbers = (
                labels[at:end],
                self._of_docs[start + at : start + min(end, len(labels))],
            )
            left = np.flatnonzero(self._looked_up(part, numbers))
            if len(left):
                order = left[np.argsort(part[left], kind="stable")]
                own = part[order]
                firsts = order[np.concatenate(([True], own[1:] != own[:-1]))]
                for first in np.sort(firsts).tolist():
                    self._known[int(part[first])] = len(self.labels)
                    self.labels.append(int(part[first]))
                    self.firsts.append(start + at + first)
                self._looked_up(part, numbers)
            at = end

    def _looked_up(self, labels: Array, numbers: Array) -> Array:
        """Fill in the numbers of the labels that are known; return which are not."""
        known = np.array(sorted(self._known), np.uint64)
        if not len(known):
            return np.ones(len(labels), bool)
        places = known.searchsorted(labels)
        own = np.array([self._known[label] for label in known.tolist()], np.int32)
        own.take(places, out=numbers, mode="clip")
        missing: Array = known.take(places, mode="clip") != labels
        return missing

    def answered(self, size: int) -> bool:
        """Whether the first documents hold a message of an assistant without a name of its own.

        Else it is a conversation between people, with any roles.
        """
        return self._answered is not None and self._answered < size

    def visible(self, hidden: Array) -> list[int]:
        """Return the speakers of documents that are not hidden, those with most documents first.

        Empty where no speaker has a name.
        """
        if self.labels in ([], [0]):
            return []
        numbers, size = self._of_docs[: len(hidden)], len(self.labels)
        if len(hidden) == self._size and 2 * np.count_nonzero(hidden) < len(hidden):
            # Few are hidden: what there is of each is counted already.
            gone = np.bincount(numbers[np.flatnonzero(hidden)], minlength=size)
            counts = np.array(self._counts, np.int64) - gone
        else:
            counts = np.bincount(numbers[~hidden], minlength=size)
        order = np.lexsort((np.arange(len(counts)), -counts))
        return [int(number) for number in order[: np.count_nonzero(counts)]]


class ExactMatches(NamedTuple):
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


def boosted(
    ranked: RankedEvents, exact: ExactMatches, frame: Frame, hidden: Array, most: int
) -> Boosted:
    """Return at most `most` events; ties go by importance, then to the newer.

    An event with a key or tag that the query names is found even without any of its words. A marker
    at most doubles the score: it makes nothing relevant by itself.
    """
    named = _any_of((*exact.keys, *exact.tags))
    named = named[~hidden[named]]
    fresh = named[~_among(frame.seq[named], ranked.seqs)] if len(named) else named
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
    keys = _bear(exact.keys, docs) * (ONE * exact.key_weight // 1000)
    tags = _bear(exact.tags, docs) * (ONE * exact.tag_weight // 1000)
    lifts = np.zeros(len(docs), np.int64)
    for bearing, boost in exact.markers:
        if len(bearing):
            lifts += _bear([bearing], docs) * (ONE * boost // 1000)
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
    markers: Sequence[tuple[Array, int]],
    frame: Frame,
    hidden: Array,
    bits: tuple[int, int],
    kind: int,
) -> list[tuple[int, int]]:
    """Return seq and tokens of the visible turns of user and assistant that bear a marker.

    `markers` are as those of `Exact`; `kind` is what a turn has in the `bits` of its flags. At most
    200: those of the greatest boost first, then the newest.
    """
    there = _any_of([docs for docs, _ in markers])
    there = there[~hidden[there]]
    kinds = (frame.flags[there] >> bits[0]) & ((1 << bits[1]) - 1)
    roles = frame.role[there]
    docs = there[(kinds == kind) & ((roles == _USER) | (roles == _ASSISTANT))]
    docs = docs[np.diff(frame.seq[docs], prepend=-1) != 0]  # the first document of each event
    boosts = np.zeros(len(docs), np.int64)
    for bearing, boost in markers:
        boosts = np.maximum(boosts, _bear([bearing], docs) * boost)
    best = docs[np.lexsort((-frame.seq[docs].astype(np.int64), -boosts))[:_MARKED_MAX]]
    return list(zip(frame.seq[best].tolist(), _tokens(best, frame).tolist(), strict=True))


def merge_columns(columns: Sequence[Any], rows: Sequence[Sequence[int]], most: int) -> list[Array]:
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


_NOTHING_NAMED: Final = ExactMatches((), 0, (), 0, ())


def alike(docs: Array, cosines: Array, frame: Frame, hidden: Array, most: int) -> Boosted:
    """Return at most `most` events of these documents by the cosine of their nearest document.

    Ties go by importance, then to the newer. Documents no nearer than chance are left out.
    """
    scores = cosines * ONE // MILLION
    docs, scores = docs[scores > 0], scores[scores > 0]
    importance = frame.importance[docs].astype(np.int64)
    order = np.lexsort((-docs, -importance, -scores))
    _, firsts = np.unique(frame.seq[docs[order]], return_index=True)
    order = order[np.sort(firsts)][:most]
    docs, scores = docs[order], scores[order]
    ranked = RankedEvents(frame.seq[docs], scores, np.zeros(len(docs), np.int64), scores, docs)
    return boosted(ranked, _NOTHING_NAMED, frame, hidden, most)


class Bits(NamedTuple):
    """A number within the flags, from the bit `low` on, and the values of it that are hidden.

    `hides` has a place for every value that the bits can hold.
    """

    low: int
    hides: tuple[bool, ...]


class Flagged:
    """What flags hide, kept from request to request: of a document that is there it stays."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Bits, ...], Array] = {}

    def hidden(self, flags: Array, *bits: Bits) -> Array:
        """Return for each document whether any number in its flags is a hidden one. Read only."""
        known = self._kept.get(bits, np.zeros(0, bool))
        if len(known) < len(flags):
            if len(self._kept) >= _KEPT_MAX:
                self._kept.clear()
            known = np.concatenate((known, _table(bits)[flags[len(known) :]]))
            self._kept[bits] = known
        return known


class Mask:
    """The documents below `size`, none of them hidden at first. `hidden` has one place each."""

    def __init__(self, size: int) -> None:
        self.hidden = np.zeros(size, bool)

    def add(self, hidden: Array, but: Array | None = None) -> None:
        """Hide what is hidden there, too, except for some documents."""
        hidden = hidden[: len(self.hidden)]
        if but is None:
            self.hidden |= hidden
        else:
            before = self.hidden[but]
            self.hidden |= hidden
            self.hidden[but] = before

    def documents(self, docs: Array) -> None:
        """Hide documents by number; those behind the mask's end are ignored."""
        self.hidden[docs[docs < len(self.hidden)]] = True

    def all_but(self, docs: Array) -> None:
        """Hide all documents but these."""
        others = np.ones(len(self.hidden), bool)
        others[docs] = False
        self.hidden |= others

    def after(self, seqs: Array, upto: int) -> None:
        """Hide what is later than a seq; the column of seqs rises."""
        self.hidden[int(np.searchsorted(seqs[: len(self.hidden)], upto, "right")) :] = True

    def outside(self, times: Array, since: int | None, until: int | None) -> None:
        """Hide what happened before or behind a span of time."""
        if since is not None:
            self.hidden |= times < since
        if until is not None:
            self.hidden |= times > until


class Spans:
    """The documents that hold for some time only, looked at once each."""

    def __init__(self) -> None:
        self._seen = 0
        self._rows = np.zeros((3, 0), np.int64)  # document, begin, end

    def fresh(self, flags: Array, bit: int) -> Array:
        """Return the documents with a flag that was not asked for before; `add` them all."""
        found: Array = np.flatnonzero(flags[self._seen :] & bit) + self._seen
        self._seen = len(flags)
        return found

    def add(self, docs: Array, spans: Sequence[tuple[int, int]]) -> None:
        """Say from when until when each of the documents holds, both ends included."""
        rows = np.array([docs, *zip(*spans, strict=True)], np.int64)
        self._rows = np.concatenate((self._rows, rows), axis=1)

    def out(self, moment: int) -> Array:
        """Return the documents that do not hold at a moment."""
        docs, begins, ends = self._rows
        found: Array = docs[(begins > moment) | (ends < moment)]
        return found


class Fates:
    """Which documents are out of force, as of any seq: replaced ones and forgotten ones.

    Changes are added in the order of the log, each once, after the documents that they are about.
    Not safe between threads.
    """

    def __init__(self) -> None:
        self._replaced = np.zeros(0, np.int64)  # of each document: the seq that replaced it
        self._gone = np.zeros(0, bool)  # of each document: whether it was ever replaced
        self._last = 0  # the seq that replaced the last of them
        self._acts: list[tuple[int, Array, bool]] = []
        self._act_seqs: list[int] = []
        self._forgotten = np.zeros(0, bool)  # after the first `_done` acts
        self._done = 0

    def replace(self, pairs: Sequence[tuple[int, int]], column: Array) -> None:
        """Let events be replaced, (by, seq) each; `column` is the seq of each document."""
        self._replaced = _padded(self._replaced, len(column), _NEVER)
        numbers = np.fromiter(chain.from_iterable(pairs), np.int64, 2 * len(pairs))
        until, wanted = numbers.reshape(-1, 2).T
        starts = np.searchsorted(column, wanted, "left")
        counts = np.searchsorted(column, wanted, "right") - starts
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        docs = np.arange(total) + np.repeat(starts - ends + counts, counts)
        self._replaced[docs] = np.repeat(until, counts)
        self._gone = _padded(self._gone, len(column), 0)
        self._gone[docs] = True
        self._last = int(until.max(initial=self._last))

    def forget(self, seq: int, docs: Array, column: Array, *, undo: bool) -> None:
        """Let what is older than `seq` of the documents be forgotten there, or no longer."""
        docs = docs[column[docs] < seq]
        if len(docs):
            self._acts.append((seq, docs, not undo))
            self._act_seqs.append(seq)

    def hidden(self, upto: int, size: int) -> Array:
        """Return for each of the first documents whether it is out of force as of a seq."""
        hidden = np.zeros(size, bool)
        if upto < self._last:
            known = self._replaced[:size]
            np.less_equal(known, upto, out=hidden[: len(known)])
        else:  # the same, without looking when each was replaced
            known = self._gone[:size]
            hidden[: len(known)] = known
        count = bisect_right(self._act_seqs, upto)
        if count:
            forgotten = self._after(count, size)[:size]
            hidden[: len(forgotten)] |= forgotten
        return hidden

    def _after(self, count: int, size: int) -> Array:
        """What is forgotten after so many acts; kept where it is not of an earlier time."""
        if count < self._done:
            state = np.zeros(size, bool)
            return _applied(state, self._acts[:count])
        acts = self._acts[self._done : count]
        # An act is applied once: to its documents behind `size`, too, which others may ask for.
        reach = max([size, *(int(docs.max()) + 1 for _, docs, _ in acts)])
        self._forgotten = _applied(_padded(self._forgotten, reach, 0), acts)
        self._done = count
        return self._forgotten


class ColumnSource(Protocol):
    """What the columns are read from: `View` answers."""

    count: int

    def take(self, column: str, docs: Array) -> Array:
        """Values of a column, a document each."""

    def run(self, column: str, start: int, end: int) -> Array:
        """Values of a column for the documents from `start` to before `end`."""


class Frame(NamedTuple):
    """The documents below `size`, and the chains of their groups.

    A chain has two nodes a document: 2 n on the way before it and 2 n + 1 on the way after. `links`
    has the next node of each, -1 for none; one from 2 `size` on is not there yet. `strides`: how
    far it is past the document, in tokens: its own, and ten where another event begins there.
    """

    size: int
    seq: Array
    tokens: Array
    group: Array
    speaker: Array
    importance: Array
    flags: Array
    role: Array
    traits: Array
    links: Array
    strides: Array


class Columns:
    """Grows with an index; make a new one when documents were erased. One thread at a time."""

    def __init__(self) -> None:
        self.count = 0  # documents that are there so far
        self._columns = {name: np.zeros(0, kind) for name, kind in _TYPES.items()}
        self._strides = np.zeros(0, np.int32)
        self._chains = _Chains()
        self._shown: dict[Hashable, _Chains] = {}  # of who does not see all documents

    def frame(self, source: ColumnSource) -> Frame:
        """Return the columns as of a view; later documents stay for later views."""
        if source.count > self.count:
            self._extend(source)
        end, chains = source.count, self._chains
        columns = {name: column[:end] for name, column in self._columns.items()}
        return Frame(
            end, **columns, links=chains.links[: 2 * end], strides=self._strides[: 2 * end]
        )

    def seen(self, frame: Frame, source: ColumnSource, unseen: Array, name: Hashable) -> Frame:
        """Return a frame of this view whose chains pass the unseen documents over.

        `name` stands for what is unseen: under the same name a document always is, or never. The
        chunks of an event are so together.
        """
        chains = self._shown.get(name)
        if chains is None:
            if len(self._shown) >= _KEPT_MAX:
                self._shown.clear()
            chains = self._shown[name] = _Chains()
        start, end = chains.count, source.count
        if end > start:
            docs = (~unseen[start:end]).nonzero()[0] + start
            chains.extend(source.take("group", docs).astype(np.uint64), docs, end)
        return frame._replace(links=chains.links[: 2 * end])

    def _extend(self, source: ColumnSource) -> None:
        start, end = self.count, source.count
        if end > len(self._columns["seq"]):
            self._grow(end + end // 2)
        for name in _TYPES:
            self._columns[name][start:end] = source.run(name, start, end)
        groups = source.run("group", start, end).astype(np.uint64)
        older = self._chains.extend(groups, np.arange(start, end), end)
        self._pass(start, end, older)
        self.count = end

    def _pass(self, start: int, end: int, older: Array) -> None:
        """Fill in how far it is past the new documents, and past those that they follow."""
        links, strides = self._chains.links[: 2 * end], self._strides
        linked = TURN_TOKENS * (links[2 * start :] != _NONE)
        strides[2 * start : 2 * end] = np.repeat(self._columns["tokens"][start:end], 2) + linked
        strides[2 * older + 1] += TURN_TOKENS
        # Between documents of one event no turn ends: these lie side by side.
        seqs = self._columns["seq"]
        first = max(start - 1, 0)
        left = (seqs[first + 1 : end] == seqs[first : end - 1]).nonzero()[0] + first
        left = left[links[2 * left + 1] == 2 * left + 3]
        strides[2 * left + 1] -= TURN_TOKENS
        strides[2 * left + 2] -= TURN_TOKENS

    def _grow(self, size: int) -> None:
        # Frames taken before keep the old array, in which nothing changes any more.
        for name, column in self._columns.items():
            self._columns[name] = grown(column, self.count, size)
        self._strides = grown(self._strides, 2 * self.count, 2 * size)


@lru_cache(maxsize=16)
def strengths(kernel: Kernel) -> Array:
    """Return what reaches a turn at each gap from 0 on, in 2**-20; at longer gaps nothing does.

    Each step multiplies by (2 fade - 1) / (2 fade + 1), which is exp(-1 / fade) to a third of
    1 / (2 fade) ** 3, in whole numbers with 20 bits to spare.
    """
    value = (ONE * kernel.permille // 1000) << 20
    table: list[int] = []
    while len(table) <= GAP_MAX and value >> 20 >= _FAINT:
        table.append(value >> 20)
        value = value * (2 * kernel.fade - 1) // (2 * kernel.fade + 1)
    return np.array(table, np.int64)


def spread_scores(
    sources: Array, amounts: Array, frame: Frame, table: Array, reach: int
) -> tuple[Array, Array]:
    """Return what each source says of the documents around it: documents, and an amount of each.

    `table` is that of `strengths`, and `reach` how many documents away it ends.
    They come in no order, some more than once.

    The gap to a turn is ten tokens, plus the tokens and ten of each turn that lies wholly
    between; of the chunks of an event, only those between count, and the source's own never do.
    No two sources are of one event, and an event does not speak for itself.
    """
    size = 2 * frame.size
    nodes, said, gaps = [np.zeros(0, np.int32)], [amounts[:0]], [np.zeros(0, np.int32)]
    at, loud = _border(sources, frame), np.concatenate((amounts, amounts))
    gap = TURN_TOKENS - frame.strides.take(at)
    for _ in range(reach):
        gap = gap + frame.strides.take(at)
        at = frame.links.take(at)
        # -1 is a large number here, and what is not there yet is too large.
        there = (at.view(np.uint32) < size) & (gap < len(table))
        if not there.all():
            kept = there.nonzero()[0]
            if not len(kept):
                break
            at, loud, gap = at.take(kept), loud.take(kept), gap.take(kept)
        nodes.append(at)
        said.append(loud)
        gaps.append(gap)
    docs = np.concatenate(nodes) >> 1
    return docs, (table.take(np.concatenate(gaps)) * np.concatenate(said)) >> 20


def behind(sources: Array, frame: Frame) -> Array:
    """The first document behind each source's event in its session; -1 where there is none."""
    at = frame.links.take(_border(sources, frame)[len(sources) :])
    found: Array = np.where(at.view(np.uint32) < 2 * frame.size, at >> 1, -1)
    return found


class _Sums(NamedTuple):
    """Some documents, rising, each once, and a value of each; of all others it is 0."""

    docs: Array
    values: Array

    def of(self, wanted: Array) -> Array:
        """The values of these documents."""
        if not len(self.docs):
            return np.zeros(len(wanted), self.values.dtype)
        places = self.docs.searchsorted(wanted)
        there = self.docs.take(places, mode="clip") == wanted
        found: Array = self.values.take(places, mode="clip") * there
        return found

    def where(self, keep: Array) -> _Sums:
        """Those of the documents that are kept."""
        return _Sums(self.docs[keep], self.values[keep])


def _weighed(matches: Matches, frame: Frame, rules: RankingRules) -> Matches:
    """Multiply what the words of some documents earn, by the number in their flags."""
    if (rules.shares == 1.0).all():
        return matches
    low, count = rules.bits
    share = rules.shares[(frame.flags[matches.docs] >> low) & ((1 << count) - 1)]
    return matches._replace(words=matches.words * share)


def _lent(own: _Sums, frame: Frame, rules: RankingRules) -> _Sums:
    """What the best events lend to the documents around them, and questions to answers."""
    if not len(own.docs):
        return own
    firsts = _best_of_events(own.docs, own.values, frame)
    firsts = np.sort(firsts[lexical.best(own.values[firsts], rules.sources)])
    said = _Sums(own.docs[firsts], own.values[firsts])
    around = spread_scores(said.docs, said.values, frame, rules.strengths, rules.reach)
    lent = _Sums(*_summed(*around))
    if rules.reply:
        lent = _Sums(*_joined(lent, _replies(said, frame, rules.reply)))
    low, count = rules.bits
    factors = rules.faint[(frame.flags[lent.docs] >> low) & ((1 << count) - 1)]
    return lent._replace(values=np.minimum(lent.values, _SCORE_MAX) * factors // _SAME)


def _counting(similar: Similar, own: _Sums) -> _Sums:
    """What documents earn by their vectors: those that match without a word, or hold one."""
    counts = similar.alone | (own.of(similar.docs) > 0)
    docs, scores = similar.docs[counts], similar.scores[counts]
    return _Sums(docs.astype(np.int32), scores.astype(np.int64))


def _joined(some: _Sums, others: _Sums) -> tuple[Array, Array]:
    """The documents of both, each once and rising, with the sums of their values."""
    return _summed(*map(np.concatenate, zip(some, others, strict=True)))


def _summed(every: Array, amounts: Array) -> tuple[Array, Array]:
    """Each document once, rising, with the sum of its values."""
    if not len(every):
        return every.astype(np.int32), amounts
    low, high = int(every.min()), int(every.max())
    # By a place for each document between, where these are not many more than those there are, and
    # where a float holds any sum of them to the last bit.
    if high - low < _PLACES * len(every) and int(np.abs(amounts).max()) * len(every) < _EXACT:
        places = every - low
        there = np.bincount(places).nonzero()[0]
        sums = np.bincount(places, amounts).take(there)
        return (there + low).astype(np.int32), sums.astype(amounts.dtype)
    order = np.argsort(every, kind="stable")
    every, amounts = every[order], amounts[order]
    starts = np.flatnonzero(np.concatenate(([True], every[1:] != every[:-1])))
    return every[starts].astype(np.int32, copy=False), np.add.reduceat(amounts, starts)


def _in_parts(best: _Sums, mine: _Sums, alike: _Sums | None, frame: Frame) -> RankedEvents:
    """The events with what words and vectors earned of each score: no more than all of it."""
    docs, scores = best
    own = np.minimum(mine.of(docs), scores)
    like = np.zeros(len(docs), np.int64) if alike is None else np.minimum(alike.of(docs), own)
    return RankedEvents(frame.seq[docs], scores, own - like, like, docs)


def _reached_by(docs: Array, scores: Array, frame: Frame, most: int) -> int:
    """A score that the best documents of `most` events reach; 0 where there are fewer events."""
    seqs = frame.seq[docs]
    begins = np.flatnonzero(np.concatenate(([True], seqs[1:] != seqs[:-1])))
    if not 0 < most <= len(begins) or not len(docs):
        return 0
    return lexical.reached(np.maximum.reduceat(scores, begins), most)


class _Range(NamedTuple):
    """Factors that the words of a match are multiplied by, in thousandths, one after the other.

    `said` for what they earn by themselves, then `heard`. A match has some of them, or none.
    """

    said: tuple[int, ...]
    heard: tuple[int, ...]
    coverage: int

    @classmethod
    def of(cls, rules: RankingRules) -> _Range:
        """The factors that a request has."""
        said, heard = (tuple(steps[:, 2].tolist()) for steps in (rules.said, rules.heard))
        return cls(said, (*heard, rules.session_best), rules.coverage)

    def least(self, words: int, peak: int) -> tuple[int, int]:
        """What so much earns at least, by itself and in the end."""
        return self._ends(words, peak, 0.0, min)

    def most(self, words: int, peak: int) -> tuple[int, int]:
        """What so much earns at most, without neighbours."""
        return self._ends(words, peak, 1.0, max)

    def loudest(self, scores: Array) -> Array:
        """What scores, neighbours included, are in the end at most."""
        for factor in self.heard:
            scores = np.minimum(scores, _SCORE_MAX) * max(factor, _SAME) // _SAME
        return scores

    def _ends(
        self, words: int, peak: int, coverage: float, pick: Callable[[int, int], int]
    ) -> tuple[int, int]:
        # The steps of `_own`, rounded alike.
        earned = round(relevance(words, max(1, peak), coverage, self.coverage, sqrt))
        for factor in self.said:
            earned = min(earned, _SCORE_MAX) * pick(factor, _SAME) // _SAME
        heard = earned
        for factor in self.heard:
            heard = min(heard, _SCORE_MAX) * pick(factor, _SAME) // _SAME
        return earned, heard


def _bar(words: Array, seqs: Array, docs: Array, most: int, factors: _Range) -> int:
    """The least that words must earn for a match to count without neighbours; 0 where any may.

    `most` events have matches that earn more than any match below the bar: it is none of the best
    so many, neither by itself nor in the end. Each step from words to scores rises with both words
    and coverage, also as it is rounded, so that the ends of a range bound what lies between.
    """
    if most <= 0 or len(docs) <= _SPARE * _SPARE * most or not 0 <= factors.coverage <= _SAME:
        return 0
    peak = int(words.max())
    for wanted in (most + most // 4, _SPARE * most):  # an event may have several documents
        low = lexical.reached(words, wanted)
        found = seqs[docs[words >= low]]
        if 1 + np.count_nonzero(found[1:] != found[:-1]) >= most:
            break
    else:
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


def _own(matches: Matches, words: Array, frame: Frame, rules: RankingRules, places: Array) -> Array:
    """What some matches earn by themselves: 2**20 for the best words of all, times the factors."""
    peak = int(words.max(initial=0))
    if peak == 0:
        return np.zeros(len(places), np.int64)
    held = matches.coverage[places]
    earned = relevance(words[places], peak, held, rules.coverage, np.sqrt)
    own: Array = np.rint(earned).astype(np.int64)
    return _stepped(own, matches.docs[places], frame, rules, rules.said)


def _heard(scores: Array, docs: Array, frame: Frame, rules: RankingRules) -> Array:
    """Apply the factors that are for what neighbours lend, too."""
    return _stepped(scores, docs, frame, rules, rules.heard)


def _stepped(scores: Array, docs: Array, frame: Frame, rules: RankingRules, steps: Array) -> Array:
    for test, argument, permille in steps.tolist():
        scores = _raised(scores, _passes(test, argument, docs, frame, rules), permille)
    return scores


def _passes(test: int, argument: int, docs: Array, frame: Frame, rules: RankingRules) -> Array:
    """Which documents a factor is for."""
    found: Array
    if test == _SPEAKER:
        found = (frame.speaker[docs][:, None] == rules.speakers).any(axis=1)
    elif test == _ROLE:
        found = frame.role[docs] == argument
    elif test == _FLAG:
        found = (frame.flags[docs] & argument) != 0
    elif test == _TRAITLESS:
        found = (frame.traits[docs] & np.uint32(argument)) == 0
    elif test == _TRAIT:
        found = (frame.traits[docs] & np.uint32(argument)) != 0
    elif test == _ASKS:
        found = _asks(docs, frame)
    else:
        found = _opens(docs, frame)
        if test == _BEGINS:
            found &= frame.group[docs] == np.uint64(rules.beginning)
    return found


def _replies(said: _Sums, frame: Frame, reply: int) -> _Sums:
    """What short texts that ask something lend to what another one says right behind them."""
    said = said.where(_asks(said.docs, frame))
    next_ = behind(said.docs, frame)
    there = (next_ >= 0) & (frame.speaker[next_] != frame.speaker[said.docs])
    return _Sums(
        *_summed(next_[there], np.minimum(said.values[there], _SCORE_MAX) * reply // _SAME)
    )


def _asks(docs: Array, frame: Frame) -> Array:
    """Which documents are short and ask something."""
    asks: Array = (frame.traits[docs] & np.uint32(ASKING)) != 0
    return asks & (frame.tokens[docs] <= _ASKING_TOKENS)


def _opens(docs: Array, frame: Frame) -> Array:
    """Whether documents are among the first turns of the user in their group."""
    opens = np.zeros(len(docs), bool)
    left = np.flatnonzero((frame.role[docs] == _USER) & (frame.group[docs] != 0))
    at, turns = docs[left], np.ones(len(left), np.int64)
    for _ in range(_OPENING_DOCUMENTS):
        before = frame.links[2 * at] >> 1
        first = before < 0
        opens[left[first]] = True
        left, at, before, turns = (one[~first] for one in (left, at, before, turns))
        turns += (frame.role[before] == _USER) & (frame.seq[before] != frame.seq[at])
        near = turns <= _OPENING_TURNS
        left, at, turns = left[near], before[near], turns[near]
        if not len(left):
            break
    return opens


def _raised(scores: Array, which: Array | bool, permille: int) -> Array:
    if permille == _SAME:
        return scores
    found: Array = np.where(which, np.minimum(scores, _SCORE_MAX) * permille // 1000, scores)
    return found


def _best_of_events(docs: Array, scores: Array, frame: Frame) -> Array:
    """The places of the documents that score best of each event, the first of equals.

    `docs` rise; a score each.
    """
    if not len(docs):
        return np.zeros(0, np.int64)
    seqs = frame.seq[docs]
    begins = np.concatenate(([True], seqs[1:] != seqs[:-1]))
    if begins.all():
        return np.arange(len(docs))
    starts = np.flatnonzero(begins)
    peaks = np.maximum.reduceat(scores, starts)
    event = np.cumsum(begins) - 1
    high = np.flatnonzero(scores == peaks[event])
    firsts = np.concatenate(([True], event[high][1:] != event[high][:-1]))
    best: Array = high[firsts]
    return best


def _topped(
    docs: Array, scores: Array, frame: Frame, session_best: int, most: int
) -> tuple[Array, Array]:
    """The best document of each event and its score, after the best of each group was raised.

    Where there are more than `most`, without those that are none of the best so many anyway.
    """
    best = _best_of_events(docs, scores, frame)
    docs, scores = docs[best], scores[best]
    if session_best == _SAME or not len(docs):
        return docs, scores
    if 0 < most < len(docs):
        kept = _raised(scores, True, session_best) >= lexical.reached(scores, most)
        docs, scores = docs[kept], scores[kept]
    first = _best_of_groups(docs, scores, frame)
    scores[first] = np.minimum(scores[first], _SCORE_MAX) * session_best // _SAME
    return docs, scores


def _best_of_groups(docs: Array, scores: Array, frame: Frame) -> Array:
    """The places of the documents, rising, that score best of each group, the newest of equals."""
    groups = frame.group[docs]
    order = np.argsort(groups, kind="stable")  # runs of a session stand together already
    groups, scores = groups[order], scores[order]
    starts = np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1])))
    sizes = np.diff(starts, append=len(groups))
    peaks = np.flatnonzero(scores == np.repeat(np.maximum.reduceat(scores, starts), sizes))
    newest = peaks[peaks.searchsorted(starts + sizes) - 1]
    found: Array = order[newest[groups[newest] != 0]]
    return found


def _highest(docs: Array, scores: Array, frame: Frame, most: int) -> Array:
    """The places of the best, best first."""
    places = np.arange(len(docs))
    if most < len(docs):
        bar = np.partition(scores, len(docs) - most)[len(docs) - most] if most > 0 else None
        places = np.flatnonzero(scores >= bar) if bar is not None else places[:0]
    docs, scores = docs[places], scores[places]
    importance = frame.importance[docs].astype(np.int64)
    order = np.lexsort((-frame.seq[docs], -importance, -scores))
    highest: Array = places[order[:most]]
    return highest


def _among(some: Array, others: Array) -> Array:
    """Which of some numbers are among others. `np.isin` imports a tenth of numpy for it."""
    known = np.sort(others)
    if not len(known):
        return np.zeros(len(some), bool)
    found: Array = known.take(known.searchsorted(some), mode="clip") == some
    return found


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


def _any_of(lists: Sequence[Array]) -> Array:
    """The documents of some lists, rising, each once."""
    docs = np.sort(np.concatenate((np.zeros(0, np.int64), *lists)))
    rising: Array = docs[np.diff(docs, prepend=-1) != 0]
    return rising


def _bear(lists: Sequence[Array], docs: Array) -> Array:
    """Which of some documents are in any of the lists, which rise."""
    found = np.zeros(len(docs), bool)
    for bearing in lists:
        if len(bearing):
            found |= bearing.take(bearing.searchsorted(docs), mode="clip") == docs
    return found


@lru_cache(maxsize=64)
def _table(bits: tuple[Bits, ...]) -> Array:
    values = np.arange(_FLAGS)
    hidden = np.zeros(_FLAGS, bool)
    for low, hides in bits:
        hidden |= np.array(hides)[(values >> low) & (len(hides) - 1)]
    hidden.flags.writeable = False
    return hidden


def _padded(column: Array, size: int, value: int) -> Array:
    if len(column) >= size:
        return column
    larger = np.full(size + size // 2, value, column.dtype)
    larger[: len(column)] = column
    return larger


def _applied(state: Array, acts: Sequence[tuple[int, Array, bool]]) -> Array:
    size = len(state)
    for _, docs, off in acts:
        state[docs[docs < size]] = off
    return state


class _Chains:
    """Each document with the one before it in its group and the one after; group 0 is none.

    `links` is that of `Frame`.
    """

    def __init__(self) -> None:
        self.count = 0
        self.links = np.zeros(0, np.int32)
        self._last: dict[int, int] = {}  # the newest document of each group

    def extend(self, groups: Array, docs: Array, end: int) -> Array:
        """Add documents with their groups, the new ones among those below `end`.

        Return the documents of before that are followed by one now.
        """
        if 2 * end > len(self.links):
            self.links = grown(self.links, 2 * self.count, 2 * (end + end // 2))
        self.links[2 * self.count : 2 * end] = _NONE
        self.count = end
        there = groups > 0
        if not there.all():
            docs, groups = docs[there], groups[there]
        if not len(docs):
            return docs
        # Most follow one of their own group: only the runs of a group are sorted.
        same = groups[1:] == groups[:-1]
        cuts = np.flatnonzero(~same)
        firsts, lasts = np.append([0], cuts + 1), np.append(cuts, [len(docs) - 1])
        order = np.argsort(groups[firsts], kind="stable")
        own = groups[firsts][order]
        firsts, lasts = docs[firsts[order]], docs[lasts[order]]
        again = own[1:] == own[:-1]
        begins, ends = np.append([True], ~again), np.append(~again, [True])
        older = np.array([self._last.get(group, _NONE) for group in own[begins].tolist()])
        self._last.update(zip(own[ends].tolist(), lasts[ends].tolist(), strict=True))
        self._join_runs(docs, same)
        left = np.concatenate((lasts[:-1][again], older[older >= 0]))
        right = np.concatenate((firsts[1:][again], firsts[begins][older >= 0]))
        self.links[2 * right] = 2 * left
        self.links[2 * left + 1] = 2 * right + 1
        return older[older >= 0]

    def _join_runs(self, docs: Array, same: Array) -> None:
        """Link each document to the next one where that is of the same group."""
        start, end = 2 * int(docs[0]), 2 * int(docs[-1])
        if end - start == 2 * len(same):  # none lies between them
            before = np.arange(start, end, 2, dtype=np.int32)
            self.links[start + 2 : end + 2 : 2] = np.where(same, before, _NONE)
            self.links[start + 1 : end : 2] = np.where(same, before + 3, _NONE)
            return
        left, right = docs[:-1][same], docs[1:][same]
        self.links[2 * right] = 2 * left
        self.links[2 * left + 1] = 2 * right + 1


def _border(sources: Array, frame: Frame) -> Array:
    """The last nodes of each source's event: those before, then those after."""
    before = (2 * sources).astype(np.int32)
    at = np.concatenate((before, before + 1))
    while True:
        further = frame.links[at]
        there = (further.view(np.uint32) < 2 * frame.size).nonzero()[0]
        own, next_ = frame.seq[at[there] >> 1], frame.seq[further[there] >> 1]
        inside = there[own == next_]
        if not len(inside):
            return at
        at[inside] = further[inside]
