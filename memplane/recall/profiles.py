"""What a recall keeps of its candidates: two profiles, in whole numbers, from values alone.

`episode_first` (acms-v2): the current episode's turns come first, unscored, up to their part of the
budget; then marked turns of earlier episodes by score; then what was found and facts by score. The
score of a past turn is its relevance and the sum of its markers' weights, without a bound, and
without its age. `blended` (acms-v1): every candidate by relevance, recency and coherence at once.

What a step leaves of the budget goes to the next step and never back. A candidate that is too large
is passed over; smaller ones behind it may still fit. Ties go to the newer.
"""

from __future__ import annotations

from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from memplane.event import CUSTOM_MARKER
from memplane.lazy import NamedTuple
from memplane.policy.document import PERMILLE, PPM
from memplane.recall.score import decayed, hours_between

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from memplane.policy.records import BlendedProfile, EpisodeFirstProfile

ITEM_TOKENS: Final = 4  # what stands around an item's content
SOURCES: Final = ("fact", "marked", "search", "current_episode")


class RecallCandidate(NamedTuple):
    """A turn or a fact that may be recalled.

    `source` is one of SOURCES; `relevance` is 0 to 1000; `episode` names the episode it is of.
    """

    seq: int
    id: str
    source: str
    relevance: int
    ts: str
    markers: tuple[str, ...] = ()
    episode: str | None = None


class RecallScore(NamedTuple):
    """A candidate's score in thousandths: the sum of its parts."""

    candidate: RecallCandidate
    parts: dict[str, int]

    @property
    def score(self) -> int:
        return sum(self.parts.values())


class KeptCandidate(NamedTuple):
    """What is in the recall, and its tokens with what stands around it."""

    scored: RecallScore
    tokens: int


class PassedOver(NamedTuple):
    """What is not. `reason`: episode_share, budget, relevance."""

    scored: RecallScore
    reason: str


class RecallChoice(NamedTuple):
    """What a recall keeps, in the order in which it is shown, and what it passed over."""

    kept: tuple[KeptCandidate, ...]
    passed: tuple[PassedOver, ...]
    warnings: tuple[str, ...]

    @property
    def tokens(self) -> int:
        """What is kept, in tokens: at most the budget."""
        return sum(one.tokens for one in self.kept)


class _Room:
    """The budget of one choice, as it is spent."""

    def __init__(self, budget: int, cost: Callable[[RecallCandidate], int]) -> None:
        self.left, self._cost = budget, cost
        self.kept: list[KeptCandidate] = []
        self.passed: list[PassedOver] = []

    def fill(self, ordered: Iterable[RecallScore], most: int, reason: str) -> int:
        """Keep what fits into `most` tokens, in this order; return how many were passed over."""
        room, over = min(most, self.left), 0
        for scored in ordered:
            # What is known to be too large is not read.
            tokens = room + 1 if room < ITEM_TOKENS else self._cost(scored.candidate) + ITEM_TOKENS
            if tokens > room:
                self.passed.append(PassedOver(scored, reason))
                over += 1
                continue
            self.kept.append(KeptCandidate(scored, tokens))
            room -= tokens
            self.left -= tokens
        return over

    def chosen(
        self, order: Callable[[KeptCandidate], tuple[int, int]], warnings: tuple[str, ...] = ()
    ) -> RecallChoice:
        return RecallChoice(tuple(sorted(self.kept, key=order)), tuple(self.passed), warnings)


def episode_first(
    profile: EpisodeFirstProfile,
    episode: Sequence[RecallCandidate],
    past: Sequence[RecallCandidate],
    *,
    budget: int,
    least: int,
    cost: Callable[[RecallCandidate], int],
) -> RecallChoice:
    """Choose by `acms-v2`. `least`: the relevance, 0 to 1000, that a past candidate must have.

    `cost` counts the tokens of a candidate's content. Facts stand first in the answer, then marked
    turns and what was found, then the current episode; each part in log order.
    """
    room = _Room(budget, cost)
    now = [RecallScore(one, {}) for one in episode]
    marked = [one for one in now if one.candidate.markers]
    rest = [one for one in now if not one.candidate.markers]
    share = budget * profile.episode_ppm // PPM
    # Where all of it fits the order changes nothing.
    before = room.left
    room.fill(_newest(marked), share, "episode_share")
    room.fill(_newest(rest), share - (before - room.left), "episode_share")
    scored = [RecallScore(one, _boosted(one, profile.marker_weights)) for one in past]
    relevant = [one for one in scored if one.candidate.relevance >= least]
    room.passed += [
        PassedOver(one, "relevance") for one in scored if one.candidate.relevance < least
    ]
    marks = [one for one in relevant if one.candidate.source == "marked"]
    over = room.fill(_best(marks), room.left, "budget")
    found = [one for one in relevant if one.candidate.source != "marked"]
    room.fill(_best(found), room.left, "budget")
    warnings = (f"marked_overflow: {over} of {len(marks)} marked turns left out",) if over else ()
    return room.chosen(_by_part, warnings)


def blended(
    profile: BlendedProfile,
    episode: Sequence[RecallCandidate],
    past: Sequence[RecallCandidate],
    *,
    budget: int,
    least: int,
    now: str,
    cost: Callable[[RecallCandidate], int],
) -> RecallChoice:
    """Choose by `acms-v1`: greedily by score, all candidates together, shown in log order.

    Recency is the weight, halved with each half-life between the turn and `now`; coherence the
    weight times the part of the candidates that are of the same episode.
    """
    room = _Room(budget, cost)
    relevant = [one for one in past if one.relevance >= least]
    every = [*episode, *relevant]
    of_episode = Counter(one.episode for one in every if one.episode is not None)
    half_life = {"": profile.half_life_hours}

    def scored(one: RecallCandidate) -> RecallScore:
        same = of_episode[one.episode] if one.episode is not None else 0
        return RecallScore(
            one,
            {
                "relevance": profile.relevance * one.relevance // PERMILLE,
                "recency": decayed(profile.recency, "", hours_between(one.ts, now), half_life),
                "coherence": profile.coherence * same // len(every),
            },
        )

    room.passed += [
        PassedOver(RecallScore(one, {}), "relevance") for one in past if one.relevance < least
    ]
    room.fill(_best(map(scored, every)), budget, "budget")
    return room.chosen(lambda one: (0, one.scored.candidate.seq))


def marker_weight(marker: str, weights: Mapping[str, int]) -> int:
    """What a marker weighs, in thousandths: by its name, or as `custom` where it is one's own."""
    known = weights.get(marker)
    if known is not None:
        return known
    return weights.get("custom", 0) if marker.startswith(CUSTOM_MARKER) else 0


def _boosted(one: RecallCandidate, weights: Mapping[str, int]) -> dict[str, int]:
    boost = 0
    if one.markers:
        boost = sum(marker_weight(marker, weights) for marker in dict.fromkeys(one.markers))
    return {"relevance": one.relevance, "markers": boost}


def _newest(scored: Sequence[RecallScore]) -> list[RecallScore]:
    return sorted(scored, key=lambda one: -one.candidate.seq)


def _best(scored: Iterable[RecallScore]) -> list[RecallScore]:
    newest = sorted(scored, key=lambda one: -one.candidate.seq)
    return sorted(newest, key=attrgetter("score"), reverse=True)  # stable: ties stay


_PARTS: Final = {"fact": 0, "marked": 1, "search": 1, "current_episode": 2}


def _by_part(one: KeptCandidate) -> tuple[int, int]:
    candidate = one.scored.candidate
    return _PARTS[candidate.source], candidate.seq
