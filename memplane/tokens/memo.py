"""Costs that were worked out once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Memo"]

_FULL = 100_000  # texts
_FULL_CHARACTERS = 1 << 20
_MEMORABLE = 128  # characters; longer texts seldom come twice


class Memo(dict[str, int]):
    """What `cost` says of a text, remembered until there are too many; then it starts anew.

    Results never depend on what is remembered, and threads may share it.
    """

    def __init__(self, cost: Callable[[str], int]) -> None:
        super().__init__()
        self._cost = cost
        self._characters = 0

    def __missing__(self, text: str) -> int:
        cost = self._cost(text)
        size = len(text)
        if size <= _MEMORABLE:
            if len(self) >= _FULL or self._characters >= _FULL_CHARACTERS:
                self.clear()
                self._characters = 0
            self[text] = cost
            self._characters += size
        return cost
