"""Token counters of others: any object with `count(text) -> int` stands where memplane's own do.

Costs of a block are sums over its lines, and a counter need not know that: it is asked line by
line, and each line once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from memplane.errors import InputError, ProviderError
from memplane.tokens.bound import lines

if TYPE_CHECKING:
    from collections.abc import Callable

_LINES_KEPT = 16_384


@runtime_checkable
class CountsTokens(Protocol):
    """What a counter must have; a `name` too, where reports should not call it by its class."""

    def count(self, text: str) -> int: ...


class HeuristicTokenCounter:
    """A quarter of the characters. Too low by more than half for Korean and Chinese."""

    name = "heuristic"

    def count(self, text: str) -> int:
        return len(text) // 4


class PluggedCounter:
    """A counter of others, line by line. Raises InputError for a count that is none."""

    def __init__(self, inner: CountsTokens) -> None:
        self.name = name_of_counter(inner)
        self._line = lru_cache(_LINES_KEPT)(checked_count(inner))

    def count(self, text: str) -> int:
        """Sum over the lines."""
        return sum(map(self._line, lines(text)))


class WholeCounter:
    """A counter of others that is asked for whole texts, for what is no block of lines."""

    def __init__(self, inner: CountsTokens) -> None:
        self.name = name_of_counter(inner)
        self.count = checked_count(inner)


def name_of_counter(inner: CountsTokens) -> str:
    """The name by which reports call a counter: its own, or its class's."""
    name = getattr(inner, "name", None)
    return name if isinstance(name, str) and name else type(inner).__name__


def checked_count(inner: CountsTokens) -> Callable[[str], int]:
    """The count of a counter; it raises InputError where that is no whole number from 0.

    And ProviderError where the counter itself fails.
    """
    if not callable(getattr(inner, "count", None)):
        raise InputError(
            f"expected a counter with `count(text)`, found {type(inner).__name__}", where="counter"
        )

    def count(text: str) -> int:
        try:
            found = inner.count(text)
        except Exception as error:
            name = name_of_counter(inner)
            raise ProviderError(
                f"the counter {name} failed ({type(error).__name__}: {error})",
                provider=name,
                cause=error,
            ) from error
        if isinstance(found, bool) or not isinstance(found, int) or found < 0:
            raise InputError(
                f"{name_of_counter(inner)}: expected a whole number from 0, found {found!r}",
                where="counter",
            )
        return found

    return count
