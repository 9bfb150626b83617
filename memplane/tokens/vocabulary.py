"""What words, blanks and newlines cost in one of the two encodings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memplane.tokens.chunks import CL100K, O200K
from memplane.tokens.index import Ranks
from memplane.tokens.memo import Memo
from memplane.tokens.merges import closing, merged, starting
from memplane.tokens.table import PART

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from memplane.tokens.table import Table

__all__ = ["ENCODINGS", "Vocabulary"]

ENCODINGS = ("o200k", "cl100k")
_PATTERNS = (O200K, CL100K)

# A pretoken of more bytes that is no token is charged by what can begin in it: merging takes
# time by the square of the length. Part of what `bound/1` means. Scripts without blanks make
# long ones all the time, ASCII hardly ever (rules of dashes).
_LONGEST = 40
_LONGEST_ASCII = 128
_LOOKED_AHEAD = 8  # characters; no pattern looks further behind what it finds
_LONGEST_TOKEN = 256  # bytes; no token has as many


class Vocabulary:
    """The costs of one encoding. `table` holds both; `which` is a place in `ENCODINGS`."""

    def __init__(self, table: Table, which: int) -> None:
        self._table = table.ranks[which]
        self._entries = table.entries
        self._shift = 3 + 2 * which
        self._pattern = _PATTERNS[which]
        self._slashes = which == 0
        # Of a text that is one pretoken, or one up to its newline.
        self.pretokens = Memo(self._pretoken)
        self._blocks = Memo(lambda text: starting(text.encode(), self._ranks()))

    def word(self, text: str, shape: str) -> int:
        """Bound a word with the blank before it and the newline behind it, by its shape."""
        cost = self._apart(text, shape)
        if self._slashes and text[0] == "/":
            # After punctuation and a newline the slashes belong to the pretoken before.
            rest = text.lstrip("/")
            slashes = len(text) - len(rest)
            cost = max(cost, slashes + self._apart(rest, shape[slashes:]))
        return cost

    def _apart(self, text: str, shape: str) -> int:
        cost_of = self.pretokens.__getitem__
        if shape is text:
            if len(text) <= PART:
                return sum(map(cost_of, self._pattern.findall(text)))
            return sum(sum(map(cost_of, some)) for some in _pretokens(self._pattern, text))
        spans = self._pattern.finditer(shape)
        return sum(cost_of(text[span.start() : span.end()]) for span in spans)

    def _pretoken(self, text: str) -> int:
        if len(text) > _LONGEST_TOKEN:
            return self.anywhere(text)
        whole = text.encode()
        ranks = self._ranks()
        if len(whole) > 1 and text[-1] in "\r\n":
            longest = _LONGEST_ASCII if len(whole) == len(text) else _LONGEST
            if len(whole) > longest and whole not in ranks:
                return self.anywhere(text)
            # Even one that is a token could become more with what follows.
            return closing(whole[:-1], whole[-1:], ranks)
        if whole in ranks:
            return 1
        if len(whole) > (_LONGEST_ASCII if len(whole) == len(text) else _LONGEST):
            return self.anywhere(text)
        return merged(whole, ranks)

    def _ranks(self) -> dict[bytes, int] | Ranks:
        ranks = self._table
        if isinstance(ranks, Ranks):
            whole = ranks.whole()
            if whole is not None:
                ranks = self._table = whole
        return ranks

    def blanks(self, text: str) -> int:
        """Bound the blanks before a word's own, which are a pretoken of their own."""
        return self.pretokens[text] if text.isascii() else self.anywhere(text)

    def anywhere(self, text: str) -> int:
        """Bound a text, however it is split and whatever stands around it."""
        if text.isascii():
            cost_of = self._blocks.__getitem__
            starts = range(0, len(text), _LONGEST_ASCII)
            return sum(cost_of(text[at : at + _LONGEST_ASCII]) for at in starts)
        shift = self._shift
        return sum((entry >> shift & 3) + 1 for entry in self._entries(text))


def _pretokens(pattern: re.Pattern[str], text: str) -> Iterator[list[str]]:
    """Yield the pretokens of a long word, some at a time: as strings they are many times as long.

    They follow each other without a gap. What ends near the end of a window may go on behind it.
    """
    at, size = 0, PART
    while at < len(text):
        window = text[at : at + size]
        found, end = pattern.findall(window), len(window)
        if at + end < len(text):
            while found and end > len(window) - _LOOKED_AHEAD:
                end -= len(found.pop())
            if not found:  # one pretoken fills the window
                size *= 2
                continue
        yield found
        at, size = at + end, PART
