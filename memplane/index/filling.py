"""The order of `packing` for a few events, in plain Python, for processes that answer once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import floor, sqrt
from typing import Any, Final, NamedTuple

__all__ = ["FINE", "MOST_TOKENS", "SIXTEENTHS", "STEP_COLUMNS", "FillingParameters", "steps_of_few"]

SIXTEENTHS: Final = 16
FINE: Final = 1 << 10
MOST_TOKENS: Final = 1 << 30

STEP_COLUMNS: Final = ("score", "tokens", "importance", "seq")


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


def steps_of_few(
    columns: Sequence[Any], which: Sequence[int], budget: int, packing: FillingParameters
) -> Iterator[tuple[int, bool]]:
    """What `packing.steps_of` gives for these columns: the same arithmetic, row by row."""
    power = packing.power_of(budget)
    shows: list[tuple[tuple[int, ...], int, bool]] = []
    grows: list[tuple[tuple[int, ...], int, bool]] = []
    for place, at in enumerate(which):
        score, tokens, importance, seq = (column[at] for column in columns)
        show, more = _values(score, tokens, power, packing)
        if show > 0:
            shows.append(((-show, -importance, -seq, tokens), place, False))
        if more > 0:
            grows.append(((-more, -importance, -seq, tokens), place, True))
    for _, place, growing in sorted(shows + grows, key=_rank):
        yield place, growing


def _rank(step: tuple[tuple[int, ...], int, bool]) -> tuple[int, ...]:
    return step[0]


def _values(score: int, tokens: int, power: int, packing: FillingParameters) -> tuple[int, int]:
    """What it is worth to show an event, and then to let it grow; see `packing`."""
    worth, whole = float(score) * FINE, float(min(tokens, MOST_TOKENS))
    base = packing.base_tokens
    if not (packing.passage_tokens and tokens > packing.whole_tokens):
        return _worth(worth, whole + base, power), 0
    shown = min(whole, float(packing.passage_mean))
    part = packing.passage_permille / 1_000 * sqrt((shown + base) / (whole + base))
    first = (shown + base) / part
    if part == 1:  # as long as its turn, and worth as much
        return _worth(worth, first, power), 0
    rest = (whole - shown) / (1 - part)
    if rest <= first:
        value = _worth(worth, whole + base, power)
        return value, value
    return _worth(worth, first, power), _worth(worth, rest, power)


def _worth(worth: float, tokens: float, sixteenths: int) -> int:
    """What so much worth comes to: worth / tokens ** (sixteenths / 16), by square roots."""
    result = tokens if sixteenths == SIXTEENTHS else 1.0
    root = tokens
    for bit in (8, 4, 2, 1):
        root = sqrt(root)
        if sixteenths & bit:
            result *= root
    return floor(worth / result)
