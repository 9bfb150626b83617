"""How many tokens each section may spend: a matter of the budget and the policy alone.

A room that moved with its neighbours' leftovers would move the block's prefix with it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from memplane.errors import BudgetError
from memplane.policy import Budgets

__all__ = ["FRAMED_FROM", "STEADY_FROM", "Rooms", "budget_of", "ladder", "rooms"]

_LADDER: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
# Below this a block follows the room that is there, not a ladder: its prefix may move.
STEADY_FROM: Final = 1000
# Below this not even the begin and end line are worth their tokens.
FRAMED_FROM: Final = 200


class Rooms(NamedTuple):
    """Tokens a section: `room` is what it may spend, `cap` its max_tokens."""

    room: dict[str, int]
    cap: dict[str, int]
    share_ppm: dict[str, int]


def budget_of(asked: int | None, budgets: Budgets) -> int:
    """The tokens of the whole block: what was asked for, at most the total less the reserve.

    Raises BudgetError for a budget of 0 or less, or one that is no whole number.
    """
    most = budgets.acb_total_max_tokens - budgets.reserve_tokens
    if asked is None:
        return min(budgets.default_pack_tokens, most)
    if isinstance(asked, bool) or not isinstance(asked, int):
        raise BudgetError(f"expected a whole number of tokens, found {asked!r}", where="budget")
    if asked <= 0:
        rule = f"expected 1 token or more ({most} count of it at most)"
        raise BudgetError(f"{rule}, found {asked}", where="budget")
    return min(asked, most)


def ladder(budget: int, most: int) -> int:
    """The budget rounded down, so that 4,000 and 4,100 tokens share a layout."""
    if budget >= most:
        return most
    fitting = [step * 1000 for step in _LADDER if step * 1000 <= budget]
    return fitting[-1] if fitting else budget


def rooms(
    budgets: Budgets, holding: Collection[str], tokens: int, *, lone: bool = False,
    orient: bool = False,
) -> Rooms:  # fmt: skip
    """Divide `tokens` among the sections in `holding` by their shares; all 0 means equal parts.

    `lone`: the block is for a query without a session. `orient`: for who has to find his way.
    """
    sections = [section for section in budgets.sections if section.name in holding]
    weights = [section.weight_of(lone=lone, orient=orient) for section in sections]
    if not any(weights):
        weights = [1] * len(sections)
    total = sum(weights)
    share = {
        section.name: weight * 1_000_000 // total
        for section, weight in zip(sections, weights, strict=True)
    }
    return Rooms(
        {s.name: min(s.max_tokens, share[s.name] * tokens // 1_000_000) for s in sections},
        {s.name: s.max_tokens for s in sections},
        share,
    )
