"""The order in which events fill a block: by value per token, whole or as passages.

Two steps an event. *Show*: a passage of a long turn, the whole of a short one. *Grow*: the whole
instead of the passage. A step is worth what it adds for each token that it adds. Where the rest of
a turn is worth more for its tokens than its passage is, the turn comes in whole at once: its two
steps then stand one behind the other. So the best turns come whole and the next ones as passages.
Packing passages alone names more events and says less of them; packing whole turns alone leaves a
tenth of the evidence out that a block can name.

`filling_steps` orders arrays, and `steps_of` takes lists as well, without numpy, for brief
processes. Both use the formulas below, so that they give the same steps (a law in
`tests/recall/test_candidates.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import floor, sqrt
from typing import TYPE_CHECKING, Any, Final

from memplane.lazy import NamedTuple, late

if TYPE_CHECKING:
    import numpy as np

    from memplane.index.bm25 import Number
    from memplane.index.segment import Array
else:
    np = late("numpy")

STEP_COLUMNS: Final = ("score", "tokens", "importance", "seq")
_SIXTEENTHS: Final = 16
_FINE: Final = 1 << 10
_MOST_TOKENS: Final = 1 << 30
_TRIED: Final = 400  # steps that fill most blocks


class FillingParameters(NamedTuple):
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

    def power_of(self, budget: int) -> int:
        """The p of a block of so many tokens."""
        return next((p for most, p in self.powers if budget <= most), self.power)

    def cuts(self, tokens: int) -> bool:
        """Whether a turn of so many tokens may be shown as a passage."""
        return tokens > self.whole_tokens and self.passage_tokens > 0

    def least_room(self, tokens: int, *, whole: bool) -> int:
        """With less room no part of the turn is tried; `whole`: nor all of it at once."""
        entire = tokens - self.passage_tokens
        if not self.cuts(tokens):
            return entire
        return min(self.passage_mean, entire) if whole else self.passage_mean


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


def steps_of(
    columns: Sequence[Any], which: Sequence[int], budget: int, packing: FillingParameters
) -> Iterator[tuple[int, bool]]:
    """`filling_steps` for some rows of `STEP_COLUMNS`: places in `which`, and whether they grow.

    Columns are arrays or lists, and the steps are the same.
    """
    if isinstance(columns[0], list):
        return _steps_of_lists(columns, which, budget, packing)
    return _steps_of_arrays(columns, which, budget, packing)


def _steps_of_arrays(
    columns: Sequence[Any], which: Sequence[int], budget: int, packing: FillingParameters
) -> Iterator[tuple[int, bool]]:
    """Most blocks are full long before the last step: those behind the best are ordered later."""
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


def _steps_of_lists(
    columns: Sequence[Any], which: Sequence[int], budget: int, packing: FillingParameters
) -> Iterator[tuple[int, bool]]:
    power = packing.power_of(budget)
    shows: list[tuple[tuple[int, ...], int, bool]] = []
    grows: list[tuple[tuple[int, ...], int, bool]] = []
    for place, at in enumerate(which):
        score, tokens, importance, seq = (column[at] for column in columns)
        show, more = _values_of_one(score, tokens, power, packing)
        if show > 0:
            shows.append(((-show, -importance, -seq, tokens), place, False))
        if more > 0:
            grows.append(((-more, -importance, -seq, tokens), place, True))
    for _, place, growing in sorted(shows + grows, key=_rank):
        yield place, growing


def _rank(step: tuple[tuple[int, ...], int, bool]) -> tuple[int, ...]:
    return step[0]


def _values(scores: Array, tokens: Array, budget: int, packing: FillingParameters) -> Steps:
    """The steps that are worth something, in no order but that of the events."""
    power = packing.power_of(budget)
    worth = scores.astype(np.float64) * _FINE
    whole = np.minimum(tokens, _MOST_TOKENS).astype(np.float64)
    cut = np.full(len(tokens), bool(packing.passage_tokens)) & (tokens > packing.whole_tokens)
    shown = np.where(cut, np.minimum(whole, packing.passage_mean), whole)
    part = _part(whole, shown, packing, np.sqrt)
    first, rest = _first(shown, part, packing), _rest(whole, shown, part)
    at_once = ~cut | (rest <= first)
    first = np.where(at_once, whole + packing.base_tokens, first)
    show: Array = np.floor(worth / _power(first, power, np.sqrt)).astype(np.int64)
    grown = np.where(at_once, first, rest)
    more: Array = np.floor(worth / _power(grown, power, np.sqrt)).astype(np.int64)
    values = np.concatenate((show, np.where(cut, more, 0)))
    order = np.flatnonzero(values > 0)
    return Steps(order % len(scores), order >= len(scores), values[order])


def _values_of_one(
    score: int, tokens: int, power: int, packing: FillingParameters
) -> tuple[int, int]:
    """What it is worth to show an event, and then to let it grow: `_values` of one event."""
    worth, whole = float(score) * _FINE, float(min(tokens, _MOST_TOKENS))

    def value(length: float) -> int:
        found: int = floor(worth / _power(length, power, sqrt))
        return found

    if not (packing.passage_tokens and tokens > packing.whole_tokens):
        return value(whole + packing.base_tokens), 0
    shown = min(whole, float(packing.passage_mean))
    part = _part(whole, shown, packing, sqrt)
    first = _first(shown, part, packing)
    if part == 1:  # as long as its turn, and worth as much
        return value(first), 0
    rest = _rest(whole, shown, part)
    if rest <= first:
        at_once = value(whole + packing.base_tokens)
        return at_once, at_once
    return value(first), value(rest)


def _ordered(found: Steps, tokens: Array, importance: Array, seqs: Array) -> Steps:
    """The steps, best first. Of an event's equal steps the first stays the first."""
    places = found.places
    order = np.lexsort((tokens[places], -seqs[places], -importance[places], -found.values))
    return Steps._make(column[order] for column in found)


# The formulas, for numbers and for arrays of numbers alike.


def _part(
    whole: Number, shown: Number, packing: FillingParameters, root: Callable[[Any], Any]
) -> Number:
    """The part of a turn's worth that is in its passage.

    By the geometric mean of what it has and what it shows: long turns match more words without
    saying more, and must not become cheap by being cut.
    """
    base = packing.base_tokens
    return packing.passage_permille / 1_000.0 * root((shown + base) / (whole + base))


def _first(shown: Number, part: Number, packing: FillingParameters) -> Number:
    """Tokens for all that a turn is worth, at the price of its passage."""
    return (shown + packing.base_tokens) / part


def _rest(whole: Number, shown: Number, part: Number) -> Number:
    """Tokens for all that a turn is worth, at the price of what its passage leaves out."""
    return (whole - shown) / (1.0 - part)


def _power(number: Number, sixteenths: int, root: Callable[[Any], Any]) -> Number:
    """Return number ** (sixteenths / 16), by square roots, which every CPU rounds alike."""
    assert 0 <= sixteenths <= _SIXTEENTHS, sixteenths
    result = number if sixteenths == _SIXTEENTHS else 1.0
    for bit in (8, 4, 2, 1):
        number = root(number)
        if sixteenths & bit:
            result = result * number
    return result
