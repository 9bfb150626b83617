"""Token counters, and how a text is cut to a number of tokens.

Every counter is additive over lines: a text costs the sum of its lines, newlines included.
memplane's own have names in `budgets.yaml`; `bound/1` is the default: never below o200k nor cl100k,
and the same on every machine. Any other object with `count(text) -> int` stands where these do; it
need not know of lines: it is asked line by line, and each line once.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from memplane.errors import InputError, ProviderError
from memplane.tokens.bound import BLANKS, Bound, ExactCounter, lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from memplane.ports import TokenCounter


__all__ = ["NAMES", "clip", "cut", "make", "scaled"]

NAMES = ("bound/1", "o200k", "cl100k", "len4")

_MILLION = 1_000_000


def make(
    name: str, *, scale_ppm: int = _MILLION, table: Callable[[], bytes | memoryview]
) -> TokenCounter:
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


# Behind a word, or behind a newline.
_ends = re.compile(f"(?<=\\n)|(?<=[^{BLANKS}\\r\\n])(?=[{BLANKS}\\r\\n]|\\Z)").finditer

# A finished word may cost less than its beginning, though never by more than one token has bytes.
SWING = 128
_FURTHER = 16


def cut(counter: TokenCounter, text: str, limit: int) -> str:
    """Take the longest prefix of whole words or lines that counts at most `limit`.

    Where not even the first word fits, as many of its characters as do, perhaps none. Looks
    at a beginning of the text whose length depends on the limit alone.
    """
    if limit <= 0:
        return ""
    reach = 4 * limit + 64
    while reach < len(text):
        window = text[:reach]
        ends = [match.end() for match in _ends(window)]
        if ends and ends[-1] == reach and window[-1] != "\n":
            ends.pop()  # the word may go on
        # What stands in the window decides if its last word is too much, or the window by far.
        if ends and counter.count(window[: ends[-1]]) > limit:
            return _words(counter, window, ends, limit)
        if counter.count(window) > 2 * limit + SWING:
            return _words(counter, window, ends, limit)
        reach *= 2
    if counter.count(text) <= limit:
        return text
    return _words(counter, text, [match.end() for match in _ends(text)], limit)


def clip(
    counter: TokenCounter,
    text: str,
    tokens: int,
    quoted: Callable[[str], str],
    *,
    around: int,
    ended: Callable[[str], str] = str.rstrip,
    step: int = 1,
) -> tuple[str, int] | None:
    """Quote the longest beginning of a text that fits `tokens` with all that is printed around it.

    `quoted` makes of a beginning the lines that are printed: its label, the mark of what was cut,
    the handle that goes on behind it. `around` are the tokens of that, as far as they are known
    before. `ended` moves the end of a beginning back to where it may end; "" where nothing worth
    quoting is left. A beginning that turns out too long is tried again, by `step` tokens shorter at
    least. Returns the lines and their tokens; None where nothing fits.
    """
    limit = tokens - around
    while limit > 0:
        kept = ended(cut(counter, text, limit))
        if not kept:
            return None
        lines = quoted(kept)
        over = counter.count(lines) - tokens
        if over <= 0:
            return lines, tokens + over
        limit -= max(step, over)
    return None


def _words(counter: TokenCounter, text: str, ends: list[int], limit: int) -> str:
    # Whole words never make a text cheaper, so halving finds the last that fits.
    fitting = bisect_right(ends, limit, key=lambda end: counter.count(text[:end]))
    if fitting:
        return text[: ends[fitting - 1]]
    return _characters(counter, text[: ends[0]] if ends else text, limit)


def _characters(counter: TokenCounter, text: str, limit: int) -> str:
    # One more character can make a word cheaper (`unhappines`, `unhappiness`), so a few more
    # are tried behind the one that halving finds, the longest first.
    found = 0
    over = len(text) + 1
    while over - found > 1:
        middle = (found + over) // 2
        if counter.count(text[:middle]) <= limit:
            found = middle
        else:
            over = middle
    further = range(min(len(text), found + _FURTHER), found, -1)
    for size in chain(further, (found,)):
        if counter.count(text[:size]) <= limit:
            return text[:size]
    return ""


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
