"""Score the events of the hot set for a query: keywords, tags, keys, markers, recency, fading.

All arithmetic is on integers: square roots stand in for the logarithm of the usual idf, so that
scores are the same on every machine. A score is in thousandths of the best one, boosts of markers
added. Importance fades by half-lives (the exponential forgetting curve, Ebbinghaus 1885, in the
half-life form of Settles and Meeder 2016), by the reader's clock.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import isqrt
from operator import add
from typing import Final

from memplane.errors import NotFoundError
from memplane.event import WISH_MARKER
from memplane.lazy import NamedTuple, Protocol, regex, word_set
from memplane.policy import Scoring
from memplane.ports import ONE, Candidates, Retriever
from memplane.projections.item import Item
from memplane.recall.suppress import Scope

_WORD: Final = regex(r"[^\W_]+(?:_[^\W_]+)*", re.UNICODE)
_CAMEL: Final = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_STOP: Final = word_set("""
    a an and are as at be but by can did do does for from had has have how i if in into is it its
    me my no not of on or our she he so that the their them then there they this to up us was we
    were what when where which who why will with would you your
""")
_UNIT: Final = 1000
_CHARACTERS_MAX: Final = 8000  # of a query or text that are looked at


class ScoredCandidate(NamedTuple):
    """A candidate with its score and the parts of it, all in thousandths of the best match."""

    item: Item
    score: int
    words: int
    tags: int
    key: int
    neighbours: int
    markers: int
    recency: int = 0
    coherence: int = 0


def terms(text: str) -> dict[str, int]:
    """Words of a text with their counts: lower case, identifiers also in parts, no stop words."""
    found: dict[str, int] = {}
    for word in _WORD.findall(text[:_CHARACTERS_MAX]):
        lower = word.lower()
        if lower in _STOP:
            continue
        found[lower] = found.get(lower, 0) + 1
        if "_" in word:
            parts = word.split("_")
        elif lower == word or not word.isascii():
            continue
        else:
            parts = _CAMEL.findall(word)
        if len(parts) > 1:
            for part in parts:
                small = part.lower()
                if len(small) > 1 and small not in _STOP:
                    found[small] = found.get(small, 0) + 1
    return found


def _terms_of(item: Item) -> dict[str, int]:
    if item.terms is None:
        item.terms = terms(f"{item.text} {item.key or ''} {item.actor or ''} {' '.join(item.tags)}")
    return item.terms


def score(
    query: str, pool: Sequence[Item], hidden: Sequence[bool], scoring: Scoring
) -> list[ScoredCandidate]:
    """Score the items of the pool that something matches or a neighbour lifts, in log order.

    The pool is in log order. Its statistics (how many items hold a word) count hidden items too,
    so that hiding one never reorders the others; beyond that a hidden item gives and receives
    nothing. Neighbours are the items before and after in a session.
    """
    wanted = terms(query)
    boosts = scoring.marker_boosts
    matched = _matches(wanted, pool)
    raw = [0 if mask else own for own, mask in zip(matched, hidden, strict=True)]
    lifted = _neighbours(raw, pool, scoring.neighbour)
    best = max(map(add, raw, lifted), default=0)
    lower = query.lower()
    scored = []
    for item, own, near in zip(pool, raw, lifted, strict=True):
        if not (own or near or item.tags or item.key is not None):
            continue  # most of the pool
        tags = key = marked = 0
        if item.tags and any(tag.lower() in wanted for tag in item.tags):
            tags = scoring.tag_weight
        if item.key is not None and item.key.lower() in lower:
            key = scoring.key_weight
        if not (own or near or tags or key):
            continue
        words = _UNIT * own // best if best else 0
        beside = _UNIT * near // best if best else 0
        # A marker lifts what is relevant; it makes nothing relevant by itself.
        for marker in item.markers:
            usual = 0 if marker == WISH_MARKER else boosts.get(marker.partition(":")[0], 0)
            marked += boosts.get(marker, usual)
        total = words + beside + tags + key + marked
        scored.append(ScoredCandidate(item, total, words, tags, key, beside, marked))
    return scored


def _matches(wanted: dict[str, int], pool: Sequence[Item]) -> list[int]:
    if not wanted:
        return [0] * len(pool)
    documents = [_terms_of(item) if item.terms is None else item.terms for item in pool]
    # Sets of matched terms: only counted and summed over, so their order never shows.
    matched = [wanted.keys() & document.keys() for document in documents]
    holding: dict[str, int] = {}
    for found in matched:
        for term in found:
            holding[term] = holding.get(term, 0) + 1
    square = _UNIT * _UNIT * (len(pool) + 1)
    weight = {term: isqrt(square // documents_with) for term, documents_with in holding.items()}
    # tf / (tf + 1) saturates as in BM25 with k1 = 1 and no length norm: packing divides by length.
    scores = []
    for document, found in zip(documents, matched, strict=True):
        total = 0
        for term in found:
            tf = document[term]
            total += weight[term] * tf // (tf + 1)
        scores.append(total)
    return scores


def _neighbours(raw: Sequence[int], pool: Sequence[Item], share: int) -> list[int]:
    near = [0] * len(pool)
    last: dict[str, int] = {}
    for here, item in enumerate(pool):
        if item.session is None:
            continue
        before = last.get(item.session)
        if before is not None:
            if raw[before]:
                near[here] += raw[before] * share // _UNIT
            if raw[here]:
                near[before] += raw[here] * share // _UNIT
        last[item.session] = here
    return near


# Recency and coherence: how long ago an event was, and how many other candidates its session has.
#
# Both weigh 0 unless scoring.yaml gives them a weight. They raise relevant events only, in packs
# and in searches alike.

_LIFTED_MAX: Final = 200  # of the best, whose time and session are read from the log
_PERMILLE: Final = 1_000


class Circumstances(NamedTuple):
    """Two terms of a score, in thousandths."""

    recency: int
    coherence: int

    @property
    def both(self) -> int:
        return self.recency + self.coherence


NONE = Circumstances(0, 0)


def count(scoring: Scoring) -> bool:
    """Whether the policy gives either of them a weight."""
    return bool(scoring.recency_weight or scoring.coherence_weight)


def circumstances(items: Sequence[Item], now: str, scoring: Scoring) -> list[Circumstances]:
    """Return the terms of each candidate.

    Recency: the weight, halved with each half-life between the event's time and `now`. Coherence:
    the weight times the part of the other candidates that is of the same session, of 1.
    """
    sessions = Counter(item.session for item in items if item.session is not None)
    others, half_life = max(1, len(items) - 1), {"": scoring.recency_half_life_hours}
    found = []
    for item in items:
        hours = hours_between(item.ts, now) if scoring.recency_weight else 0
        beside = sessions[item.session] - 1 if item.session is not None else 0
        found.append(
            Circumstances(
                decayed(scoring.recency_weight, "", hours, half_life),
                scoring.coherence_weight * beside // others,
            )
        )
    return found


def lifted(
    found: Candidates, above: int, retriever: Retriever[Scope, Item], now: str, scoring: Scoring
) -> tuple[Candidates, dict[int, Circumstances]]:
    """What was found, the first `above` of it with their terms on their scores; and the terms.

    No terms where they count nothing. Of an event that the log has lost they are nothing.
    """
    if not count(scoring):
        return found, {}
    seqs = found.seqs[: min(above, _LIFTED_MAX)]
    items: list[Item] = []
    for seq in seqs:
        with suppress(NotFoundError):
            items.append(retriever.item(seq))
    there = dict(zip([one.seq for one in items], circumstances(items, now, scoring), strict=True))
    terms = {seq: there.get(seq, NONE) for seq in seqs}
    return found.lifted([terms[seq].both * ONE // _PERMILLE for seq in seqs]), terms


# Fading: importance halves with time, computed when it is read.
#
# Nothing is written as time goes by. An observation, plan, summary, fact or insight (whatever the
# policy gives a half-life) loses half of its importance in that many hours since it was recorded or
# last touched, by the reader's clock; decisions, rules, constraints and what is pinned never do.

# The kinds that a policy may give a half-life.
FADING_KINDS: Final = ("fact", "observation", "plan", "summary", "preference", "insight")
# The markers of what never fades, whatever its kind.
LASTING: Final = frozenset(("constraint", "decision"))
_DAY_HOURS: Final = 24
_STEPS: Final = 64  # of a half-life
_BITS: Final = 30


def _factor(step: int) -> int:
    """2 ** (_BITS - step / 64), rounded down: a 64th root is six square roots, each exact."""
    value = 1 << (_BITS * _STEPS - step)
    for _ in range(6):
        value = isqrt(value)
    return value


_FACTORS: Final = tuple(_factor(step) for step in range(_STEPS))


class Remembered(Protocol):
    """The fields of an event that decide how it fades."""

    @property
    def ts(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def markers(self) -> tuple[str, ...]: ...
    @property
    def importance(self) -> int: ...


def decayed(importance: int, kind: str, hours: int, half_lives: Mapping[str, int]) -> int:
    """Return what is left of an importance after so many hours; all of it for other kinds.

    A whole number, rounded down; 64 steps to a half-life, so that it never rises with the hours.
    """
    half_life = half_lives.get(kind, 0)
    if half_life <= 0 or hours <= 0:
        return importance
    halved, step = divmod(hours * _STEPS // half_life, _STEPS)
    return importance * _FACTORS[step] >> _BITS >> halved


def hours_between(then: str, now: str) -> int:
    """Return the whole hours from one time of the log to a later one; 0 where it is not later."""
    if now <= then:
        return 0
    from datetime import datetime, timedelta  # noqa: PLC0415 - few packs have anything that fades

    return (datetime.fromisoformat(now) - datetime.fromisoformat(then)) // timedelta(hours=1)


def fading(half_lives: Mapping[str, int]) -> frozenset[str]:
    """Return the kinds of which an event may fade at all."""
    return frozenset(kind for kind in FADING_KINDS if half_lives.get(kind, 0) > 0)


def fades(event: Remembered, half_lives: Mapping[str, int], *, pinned: bool) -> bool:
    """Whether time takes anything from the event at all."""
    return (
        not pinned
        and half_lives.get(event.kind, 0) > 0
        and event.kind in FADING_KINDS
        and LASTING.isdisjoint(event.markers)
    )


def importance_now(
    event: Remembered,
    touched: str | None,
    *,
    pinned: bool,
    now: str,
    half_lives: Mapping[str, int],
) -> int:
    """Return the importance that an event has at a time; `touched`: when it was touched last."""
    if not fades(event, half_lives, pinned=pinned):
        return event.importance
    return decayed(event.importance, event.kind, _idle(event, touched, now), half_lives)


def is_stale(
    event: Remembered,
    touched: str | None,
    *,
    pinned: bool,
    now: str,
    half_lives: Mapping[str, int],
    after_days: int,
) -> bool:
    """Whether an event that fades was neither recorded nor touched for so many days; 0: never."""
    return (
        after_days > 0
        and fades(event, half_lives, pinned=pinned)
        and _idle(event, touched, now) >= after_days * _DAY_HOURS
    )


def _idle(event: Remembered, touched: str | None, now: str) -> int:
    return hours_between(max(event.ts, touched or ""), now)
