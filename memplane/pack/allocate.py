"""How many tokens each section may spend: a matter of the budget and the policy alone.

A room that moved with its neighbours' leftovers would move the block's prefix with it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from memplane.errors import BudgetError
from memplane.policy import Budgets, Section

__all__ = ["FRAMED_FROM", "STEADY_FROM", "Rooms", "budget_of", "ladder", "rooms"]

_LADDER: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
# Below this a block follows the room that is there, not a ladder: its prefix may move.
STEADY_FROM: Final = 1000
# Below this not even the begin and end line are worth their tokens.
FRAMED_FROM: Final = 200
_PPM: Final = 1_000_000
# Half of the shares that memplane ships: what no other section takes where priorities divide.
_FLOORS: Final = {"retrieved_evidence": 160_000, "recent_window": 140_000}


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

    Where the file names no share the priorities divide them. `lone`: the block is for a query
    without a session. `orient`: for who has to find his way.
    """
    sections = [section for section in budgets.sections if section.name in holding]
    caps = {section.name: section.max_tokens for section in sections}
    if budgets.by_priority and not orient:
        room = _by_priority(sections, tokens, budgets.by_priority, lone=lone)
        return Rooms(room, caps, {name: of * _PPM // max(1, tokens) for name, of in room.items()})
    weights = [section.weight_of(lone=lone, orient=orient) for section in sections]
    if not any(weights):
        weights = [1] * len(sections)
    total = sum(weights)
    share = {
        section.name: weight * _PPM // total
        for section, weight in zip(sections, weights, strict=True)
    }
    room = {name: min(most, share[name] * tokens // _PPM) for name, most in caps.items()}
    return Rooms(room, caps, share)


def _by_priority(
    sections: Sequence[Section], tokens: int, named: Collection[str], *, lone: bool
) -> dict[str, int]:
    """By falling priority, to each at most half of what is left above the floors.

    Evidence and the recent window have floors, for their priorities are low and all others could
    take everything before them. Sections that are not `named` keep the shares of their defaults.
    """
    floors = {}
    for section in sections:
        share = _FLOORS.get(section.name, 0)
        if section.name not in named:
            share = section.weight_of(lone=lone)
        floors[section.name] = min(section.max_tokens, share * tokens // _PPM)
    left = max(0, tokens - sum(floors.values()))
    room = dict.fromkeys((section.name for section in sections), 0)
    for section in sorted(sections, key=lambda one: -one.priority):  # stable: the file's order
        floor, taken = floors[section.name], 0
        # To a question without a session the map is no answer. Expansions take from evidence.
        if section.name in named and not (lone and section.name == "system_map"):
            taken = min(section.max_tokens - floor, left // 2)
        room[section.name] = floor + (taken if section.name != "expansions" else 0)
        left -= room[section.name] - floor
    return room
