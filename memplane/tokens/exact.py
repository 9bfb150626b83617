"""The counters `o200k` and `cl100k`: one encoding, counted by rs-bpe inside each line.

At the ends of a line the rules of `bound` apply, because a pretoken may extend over a newline; so
the sum over lines is never below the count of the whole text.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from memplane.errors import MissingExtraError
from memplane.tokens.bound import BLANKS, Bound, lines, text_slices, without_surrogates
from memplane.tokens.table import PART

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ExactCounter"]


class _Encoding(Protocol):
    def count(self, text: str) -> int: ...


class ExactCounter:
    """Counts one encoding; needs the extra `tokens`. The encoding is loaded at the first count."""

    def __init__(self, table: Callable[[], bytes], *, name: str) -> None:
        if find_spec("rs_bpe") is None:
            raise MissingExtraError(f"the counter `{name}`", "tokens")
        self.name = name
        self._bound = Bound(table, name=name, encodings=(name,))
        self._encoding: _Encoding | None = None

    def count(self, text: str) -> int:
        """Never below the exact count, equal to it but for line ends, additive over lines."""
        encoding = self._encoding
        if encoding is None:
            encoding = self._encoding = _load(self.name)
        text = without_surrogates(text)
        return sum(self._line(line, encoding) for line in lines(text))

    def _line(self, line: str, encoding: _Encoding) -> int:
        # Slashes and CR may belong to a pretoken of the line before.
        if line[0] in "/\r":
            return self._bound.count(line)
        body = line.rstrip(BLANKS + "\r\n")
        if body == line:
            return _within(line, encoding)
        if line == body + "\n" and body[-1:].isascii() and body[-1:].isalnum():
            return _within(body, encoding) + 1
        # The last word of the line is bounded together with what follows it. Both encodings
        # split before the blank, unless more blanks stand before that.
        at = body.rfind(" ")
        if at <= 0 or line[at - 1] in BLANKS or line[at - 1] in "\r\n":
            return self._bound.count(line)
        return _within(line[:at], encoding) + self._bound.count(line[at:])


def _within(line: str, encoding: _Encoding) -> int:
    """The count of what stands within a line, of a long one in parts."""
    if len(line) <= PART:
        return encoding.count(line)
    return sum(map(encoding.count, text_slices(line, PART, within_line=True)))


def _load(name: str) -> _Encoding:
    from rs_bpe.bpe import openai  # noqa: PLC0415 - optional, and slow to start

    loaded: _Encoding = openai.o200k_base() if name == "o200k" else openai.cl100k_base()
    return loaded
