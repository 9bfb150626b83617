"""Answers within their tokens: as many rows, or as much of a text, as fit, and a word on the rest.

What counts is the JSON of the structured answer, in the plane's own counter: that is what a client
puts before its model. The same in words is never more than that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from memplane.errors import InputError
from memplane.ports import TokenCounter
from memplane.projections.window import one_line
from memplane.tokens import cut

__all__ = ["Answer", "Cap", "clipped"]

_TRIES_MAX: Final = 24


class Answer(NamedTuple):
    """What a tool gives back: the same in words, and as JSON that fits its schema."""

    words: str
    data: dict[str, Any]


class Cap(NamedTuple):
    """At most so many tokens."""

    counter: TokenCounter
    most: int

    def holds(self, data: dict[str, Any]) -> bool:
        """Whether the JSON of an answer keeps to it."""
        return self.counter.count(_json(data)) <= self.most

    def rows(
        self, rows: Sequence[Any], make: Callable[[int], dict[str, Any]]
    ) -> dict[str, Any]:  # fmt: skip
        """The answer with the most rows that fits; `make` builds the one with the first n.

        Raises InputError where even none is too much.
        """
        count, left = 0, self.most - self.counter.count(_json(make(0)))
        if left < 0:
            raise self._too_little()
        # The sum of what rows cost alone is close to what they cost together, not the same.
        for row in rows:
            left -= self.counter.count(_json(row)) + 1
            if left < 0:
                break
            count += 1
        return next(data for data in map(make, range(count, -1, -1)) if self.holds(data))

    def text(self, make: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
        """The answer whose text fits; `make` builds the one whose text has at most n tokens.

        Written as JSON a text takes more tokens than it has, how many more depends on the text: so
        it is asked for again, shorter by what was too much. Raises InputError where none fits.
        """
        budget = self.most
        for _ in range(_TRIES_MAX):
            data = make(budget)
            size = self.counter.count(_json(data))
            if size <= self.most:
                return data
            if budget == 1:
                break
            budget = max(1, min(budget - 8, budget * self.most // size - 8))
        raise self._too_little()

    def words(self, text: str) -> str:
        """The beginning of an answer in words."""
        return cut(self.counter, text, self.most)

    def _too_little(self) -> InputError:
        return InputError(f"{self.most} do not hold this answer; ask for more", where="max_tokens")


def clipped(text: str, most: int) -> str:
    """The text on one line of at most so many characters."""
    line = one_line(text[: most * 4])
    whole = len(line) <= most and len(text) <= most * 4
    return line if whole else line[: most - 1] + "…"


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
