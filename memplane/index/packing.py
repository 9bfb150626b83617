"""From relevance to the order in which a block is filled: value per token, passages first.

Two steps an event. *Show*: a passage of a long turn, the whole of a short one. *Grow*: the whole
instead of the passage. A passage carries the larger part of a turn's worth in few tokens, so many
turns come in; what the best of them say beside their passage is worth more than the last passages,
so these grow. Packing passages alone names more events and says less of the answers; packing
whole turns alone says as much of the answers and leaves a sixth of the evidence out.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from memplane.index.segment import Array

__all__ = ["Packing", "Steps", "steps"]

_SIXTEENTHS: Final = 16
_FINE: Final = 1 << 10


class Packing(NamedTuple):
    """How blocks are filled.

    A turn of more than `whole_tokens` is first shown as a passage of at most `passage_tokens`
    (0: never), which is reckoned as `passage_mean` tokens and carries `passage_permille` of what
    the turn is worth. A value is worth / (tokens + base_tokens) ** (p / 16); `powers` are
    (budget, p), rising: up to that budget p, above the last `power`.
    """

    passage_tokens: int = 30
    passage_mean: int = 24
    whole_tokens: int = 40
    passage_permille: int = 600
    base_tokens: int = 20
    powers: tuple[tuple[int, int], ...] = ((1_499, 8), (2_999, 9))
    power: int = 10


class Steps(NamedTuple):
    """What to try, best first: the place among the events given, whether it grows, the value."""

    places: Array
    grows: Array
    values: Array


def steps(
    scores: Array, tokens: Array, importance: Array, seqs: Array, budget: int, packing: Packing
) -> Steps:
    """Return the steps that fill a block of `budget` tokens; one that does not fit is passed over.

    `tokens` are those of the whole events. Ties go by importance, then to the newer, then to the
    shorter. An event never grows before it is shown, and what is worth nothing is no step.
    """
    power = next((p for most, p in packing.powers if budget <= most), packing.power)
    base = packing.base_tokens
    worth = scores.astype(np.float64) * _FINE
    whole = np.minimum(tokens, 1 << 30).astype(np.float64)
    cut = np.full(len(tokens), bool(packing.passage_tokens)) & (tokens > packing.whole_tokens)
    shown = np.where(cut, np.minimum(whole, packing.passage_mean), whole)
    # The geometric mean of what it has and what it shows: long turns match more words without
    # saying more, and must not become cheap by being cut.
    length = np.sqrt((whole + base) * (shown + base))
    show: Array = np.floor(worth / _raised(length, power)).astype(np.int64)
    share = packing.passage_permille
    rest = worth * (1_000 - share) / np.float64(share)
    more: Array = np.floor(rest / _raised(whole - shown + base, power)).astype(np.int64)
    grow = np.where(cut, np.minimum(more, show - 1), 0)
    events = np.arange(len(scores))
    places = np.concatenate((events, events))
    values = np.concatenate((show, grow))
    grows = np.repeat((False, True), len(events))
    order = np.lexsort((tokens[places], -seqs[places], -importance[places], -values))
    order = order[values[order] > 0]
    return Steps(places[order], grows[order], values[order])


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
