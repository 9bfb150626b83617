"""The order in which events fill a block: by value per token, whole or as passages.

Two steps an event. *Show*: a passage of a long turn, the whole of a short one. *Grow*: the whole
instead of the passage. A step is worth what it adds for each token that it adds. Where the rest of
a turn is worth more for its tokens than its passage is, the turn comes in whole at once: its two
steps then stand one behind the other. So the best turns come whole and the next ones as passages.
Packing passages alone names more events and says less of them; packing whole turns alone leaves a
tenth of the evidence out that a block can name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from memplane.index.filling import FINE, MOST_TOKENS, SIXTEENTHS, STEP_COLUMNS, FillingParameters
from memplane.index.segment import Array

__all__ = ["STEP_COLUMNS", "FillingParameters", "Steps", "filling_steps", "steps_of"]

_TRIED: Final = 400  # steps that fill most blocks


class Steps(NamedTuple):
    """What to try, best first: the place among the events given, whether it grows, the value."""

    places: Array
    grows: Array
    values: Array


def filling_steps(
    scores: Array,
    tokens: Array,
    importance: Array,
    seqs: Array,
    budget: int,
    packing: FillingParameters,
) -> Steps:
    """Return the steps that fill a block of `budget` tokens; one that does not fit is passed over.

    `tokens` are those of the whole events, `seqs` differ. Ties go by importance, then to the newer,
    then to the shorter. An event never grows before it is shown, and what is worth nothing is no
    step.
    """
    found = _values(scores, tokens, budget, packing)
    return _ordered(found, tokens, importance, seqs)


def _values(scores: Array, tokens: Array, budget: int, packing: FillingParameters) -> Steps:
    """The steps that are worth something, in no order but that of the events."""
    power = packing.power_of(budget)
    worth = scores.astype(np.float64) * FINE
    whole = np.minimum(tokens, MOST_TOKENS).astype(np.float64)
    cut = np.full(len(tokens), bool(packing.passage_tokens)) & (tokens > packing.whole_tokens)
    shown = np.where(cut, np.minimum(whole, packing.passage_mean), whole)
    first, rest = _lengths(whole, shown, packing)
    at_once = ~cut | (rest <= first)
    first = np.where(at_once, whole + packing.base_tokens, first)
    show: Array = np.floor(worth / _raised(first, power)).astype(np.int64)
    more: Array = np.floor(worth / _raised(np.where(at_once, first, rest), power)).astype(np.int64)
    values = np.concatenate((show, np.where(cut, more, 0)))
    order = np.flatnonzero(values > 0)
    return Steps(order % len(scores), order >= len(scores), values[order])


def _ordered(found: Steps, tokens: Array, importance: Array, seqs: Array) -> Steps:
    """The steps, best first. Of an event's equal steps the first stays the first."""
    places = found.places
    order = np.lexsort((tokens[places], -seqs[places], -importance[places], -found.values))
    return Steps._make(column[order] for column in found)


def _lengths(whole: Array, shown: Array, packing: FillingParameters) -> tuple[Array, Array]:
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
    columns: Sequence[Any], which: Sequence[int], budget: int, packing: FillingParameters
) -> Iterator[tuple[int, bool]]:
    """`steps` for some rows of `STEP_COLUMNS`: places in `which`, and whether they grow.

    Most blocks are full long before the last step: those behind the best are put in order for who
    comes so far.
    """
    chosen = np.array(which, np.intp)
    scores, tokens, importance, seqs = (np.asarray(one, np.int64)[chosen] for one in columns)
    found = _values(scores, tokens, budget, packing)
    best = np.ones(len(found.values), bool)
    if len(best) > _TRIED:
        best = found.values >= np.partition(found.values, -_TRIED)[-_TRIED]
    for part in (best, ~best):
        if part.any():
            some = Steps._make(column[part] for column in found)
            some = _ordered(some, tokens, importance, seqs)
            yield from zip(some.places.tolist(), some.grows.tolist(), strict=True)


def _raised(number: Array, sixteenths: int) -> Array:
    """Return number ** (sixteenths / 16), by square roots."""
    assert 0 <= sixteenths <= SIXTEENTHS, sixteenths
    result = number if sixteenths == SIXTEENTHS else np.ones_like(number)
    root = number
    for bit in (8, 4, 2, 1):
        root = np.sqrt(root)
        if sixteenths & bit:
            result = result * root
    return result
