"""From relevance to the order in which a block is filled: value per token, passages where they pay.

Two steps an event. *Show*: a passage of a long turn, the whole of a short one. *Grow*: the whole
instead of the passage. A step is worth what it adds for each token that it adds. Where the rest of
a turn is worth more for its tokens than its passage is, the turn comes in whole at once: its two
steps then stand one behind the other. So the best turns come whole and the next ones as passages.
Packing passages alone names more events and says less of them; packing whole turns alone leaves a
tenth of the evidence out that a block can name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from memplane.index.segment import Array

__all__ = ["Packing", "Steps", "steps", "steps_of"]

_SIXTEENTHS: Final = 16
_FINE: Final = 1 << 10


class Packing(NamedTuple):
    """How blocks are filled.

    A turn of more than `whole_tokens` may be shown as a passage of at most `passage_tokens`
    (0: never), which is reckoned as `passage_mean` tokens. One that is as long as its turn would
    carry `passage_permille` of what the turn is worth, one of a quarter of the tokens half of that,
    and so on by the square root. A value is worth / (tokens + base_tokens) ** (p / 16); `powers`
    are (budget, p), rising: up to that budget p, above the last `power`.
    """

    passage_tokens: int = 30
    passage_mean: int = 24
    whole_tokens: int = 40
    passage_permille: int = 500
    base_tokens: int = 20
    powers: tuple[tuple[int, int], ...] = ((2_999, 8),)
    power: int = 9


class Steps(NamedTuple):
    """What to try, best first: the place among the events given, whether it grows, the value."""

    places: Array
    grows: Array
    values: Array


def steps(
    scores: Array, tokens: Array, importance: Array, seqs: Array, budget: int, packing: Packing
) -> Steps:
    """Return the steps that fill a block of `budget` tokens; one that does not fit is passed over.

    `tokens` are those of the whole events, `seqs` differ. Ties go by importance, then to the newer,
    then to the shorter. An event never grows before it is shown, and what is worth nothing is no
    step.
    """
    power = next((p for most, p in packing.powers if budget <= most), packing.power)
    worth = scores.astype(np.float64) * _FINE
    whole = np.minimum(tokens, 1 << 30).astype(np.float64)
    cut = np.full(len(tokens), bool(packing.passage_tokens)) & (tokens > packing.whole_tokens)
    shown = np.where(cut, np.minimum(whole, packing.passage_mean), whole)
    first, rest = _lengths(whole, shown, packing)
    at_once = ~cut | (rest <= first)
    first = np.where(at_once, whole + packing.base_tokens, first)
    show: Array = np.floor(worth / _raised(first, power)).astype(np.int64)
    more: Array = np.floor(worth / _raised(np.where(at_once, first, rest), power)).astype(np.int64)
    grow = np.where(cut, more, 0)
    events = np.arange(len(scores))
    places = np.concatenate((events, events))
    values = np.concatenate((show, grow))
    grows = np.repeat((False, True), len(events))
    # Of an event's equal steps the first stays the first.
    order = np.lexsort((tokens[places], -seqs[places], -importance[places], -values))
    order = order[values[order] > 0]
    return Steps(places[order], grows[order], values[order])


def _lengths(whole: Array, shown: Array, packing: Packing) -> tuple[Array, Array]:
    """Tokens for all that a turn is worth, at the price of its passage and at that of its rest."""
    base = packing.base_tokens
    share = packing.passage_permille / np.float64(1_000)
    # By the geometric mean of what it has and what it shows: long turns match more words without
    # saying more, and must not become cheap by being cut.
    part = share * np.sqrt((shown + base) / (whole + base))
    first: Array = (shown + base) / part
    rest: Array = (whole - shown) / (1.0 - part)
    return first, rest


def steps_of(
    events: Sequence[tuple[int, int, int, int]], budget: int, packing: Packing
) -> list[tuple[int, bool]]:
    """`steps` for rows of (score, tokens, importance, seq): places, and whether they grow."""
    table = np.array(events, np.int64).reshape(-1, 4)
    found = steps(table[:, 0], table[:, 1], table[:, 2], table[:, 3], budget, packing)
    return list(zip(found.places.tolist(), found.grows.tolist(), strict=True))


def _raised(number: Array, sixteenths: int) -> Array:
    """Return number ** (sixteenths / 16), by square roots."""
    assert 0 <= sixteenths <= _SIXTEENTHS, sixteenths
    result = number if sixteenths == _SIXTEENTHS else np.ones_like(number)
    root = number
    for bit in (8, 4, 2, 1):
        root = np.sqrt(root)
        if sixteenths & bit:
            result = result * root
    return result
