"""Token counters, by their names in `budgets.yaml`.

Every counter is additive over lines: a text costs the sum of its lines, newlines included.
`bound/1` is the default: never below o200k nor cl100k, and the same on every machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memplane.errors import InputError
from memplane.tokens.bound import Bound, ExactCounter, lines
from memplane.tokens.cut import clip, cut

if TYPE_CHECKING:
    from collections.abc import Callable

    from memplane.ports import TokenCounter

__all__ = ["NAMES", "clip", "cut", "make", "scaled"]

NAMES = ("bound/1", "o200k", "cl100k", "len4")

_MILLION = 1_000_000


def make(name: str, *, scale_ppm: int = _MILLION, table: Callable[[], bytes]) -> TokenCounter:
    """Make the counter of that name. `scale_ppm` multiplies each line's count, rounded up.

    `table` returns the bytes of `bound1.idx` or of `bound1.xz`; it is called at the first
    count that needs it.
    """
    if scale_ppm < 1:
        raise InputError(f"expected a scale above 0, found {scale_ppm} ppm", where="scale")
    counter: TokenCounter
    if name == "bound/1":
        counter = Bound(table)
    elif name in {"o200k", "cl100k"}:
        counter = ExactCounter(table, name=name)
    elif name == "len4":
        counter = Len4()
    else:
        known = ", ".join(f"`{one}`" for one in NAMES)
        raise InputError(f"unknown counter `{name}`; expected one of {known}", where="counter")
    return scaled(counter, scale_ppm)


def scaled(counter: TokenCounter, scale_ppm: int) -> TokenCounter:
    """A counter whose count of each line is multiplied, in millionths."""
    return counter if scale_ppm == _MILLION else Scaled(counter, scale_ppm)


class Len4:
    """A rough count without a vocabulary: a quarter of each line's characters, rounded up."""

    name = "len4"

    def count(self, text: str) -> int:
        """Sum over the lines."""
        return sum((len(line) + 3) // 4 for line in lines(text))


class Scaled:
    """Another counter's count of each line, multiplied and rounded up."""

    def __init__(self, counter: TokenCounter, scale_ppm: int) -> None:
        self.name = counter.name
        self._count = counter.count
        self._scale = scale_ppm

    def count(self, text: str) -> int:
        """Sum over the lines."""
        return sum(-(-self._count(line) * self._scale // _MILLION) for line in lines(text))
