"""Cut a text to its longest beginning that fits a number of tokens, alone or as it is quoted."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import chain
from typing import TYPE_CHECKING

from memplane.tokens.bound import BLANKS

if TYPE_CHECKING:
    from collections.abc import Callable

    from memplane.ports import TokenCounter

# Behind a word, or behind a newline.
_ends = re.compile(f"(?<=\\n)|(?<=[^{BLANKS}\\r\\n])(?=[{BLANKS}\\r\\n]|\\Z)").finditer

# A finished word may cost less than its beginning, though never by more than one token has bytes.
_SWING = 128
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
        if counter.count(window) > 2 * limit + _SWING:
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
