"""What stands beside relevance in a score: how long ago it was, and what else was found there.

Both weigh nothing unless scoring.yaml says so. They lift what is relevant, and make nothing
relevant by themselves: in packs and in searches alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from memplane.errors import NotFoundError
from memplane.policy import Scoring
from memplane.projections.item import Item
from memplane.recall.decay import decayed, hours_between
from memplane.recall.retrieval import ONE, Candidates, Retriever

__all__ = ["NONE", "Circumstances", "circumstances", "count", "lifted"]

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
    found: Candidates, above: int, retriever: Retriever, now: str, scoring: Scoring
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
