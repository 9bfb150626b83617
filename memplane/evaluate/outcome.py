"""What became of one question: in a block, and in a ranking."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["PRODUCT", "Outcome", "Ranked", "found_in"]

PRODUCT = "memplane"  # the system that is measured, beside the baselines


class Outcome(NamedTuple):
    """One question, answered by one system within one budget.

    `evidence` is how many events it needs, `whole` how many of them the block holds whole,
    `touched` how many whole or in part, `missing` the others. `ns` is the time of the pack; None
    where the system is a baseline, which has none.
    """

    conversation: str
    question: str
    category: str
    system: str
    budget: int
    evidence: int
    whole: int
    touched: int
    tokens: int
    ns: int | None
    missing: tuple[str, ...]

    def share(self, column: str) -> float:
        """The part of the evidence that was found, by `whole` or `touched`."""
        found: int = getattr(self, column)
        return found / self.evidence


class Ranked(NamedTuple):
    """One question, answered by one ranking: the ranks (from 1) at which evidence stands."""

    conversation: str
    question: str
    category: str
    system: str
    evidence: int
    ranks: tuple[int, ...]
    ns: int

    def recall(self, k: int) -> float:
        """The part of the evidence among the first k."""
        return sum(rank <= k for rank in self.ranks) / self.evidence


def found_in(
    evidence: dict[str, str | None], whole: set[str], parts: set[str]
) -> tuple[int, int, tuple[str, ...]]:
    """Count evidence (event id -> id in the plane, None: not there) found whole, and at all."""
    in_whole = [event for event, plane_id in evidence.items() if plane_id in whole]
    touched = [event for event, plane_id in evidence.items() if plane_id in whole | parts]
    missing = tuple(event for event in evidence if event not in touched)
    return len(in_whole), len(touched), missing
