"""The two ledgers of the fast path: decisions, and knowledge cards."""

from __future__ import annotations

from memplane.projections.ledger import LedgerProjector

__all__ = ["Cards", "Decisions"]


class Decisions(LedgerProjector):
    """The latest decision of each namespace and key; constraints are protected. None decays.

    A pack chooses from those that are kept, and names the 200 in force that were kept before.
    """

    name = "decisions"
    version = 5
    kinds = frozenset({"decision"})
    marker = "constraint"
    left_max = 200


class Cards(LedgerProjector):
    """Preferences, rules, insights and facts about the plane as a whole: those at `/global`.

    And short observations, which are cards where they recur; they go before all others.
    """

    name = "cards"
    version = 6
    kinds = frozenset({"preference", "rule", "insight", "fact", "observation"})
    passing = frozenset({"observation"})
    passing_chars_max = 600
    ns = "/global"
