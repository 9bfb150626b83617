"""What the tokens of known providers look like.

Each shape has literals of which one stands in every token of that shape. A text
is searched for shapes only where a long unbroken run holds one of them, so prose
pays a table look-up per byte and nothing more. There is no entropy rule: hashes,
uuids and tool-use ids are our daily text, and they look as random as a key.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from memplane.intake.providers import PROVIDERS
from memplane.lazy import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RUN_MIN", "SHAPES", "Shape", "suspects"]

# The shortest token of the table; a shorter unbroken run cannot hold any.
RUN_MIN: Final = 18


class Shape(NamedTuple):
    """One provider's tokens. `pattern` matches the token and nothing beside it.

    One of the literals begins every such token. One written `*literal` or `~literal` stands inside
    it; with `~` what stands before that may be of any length. Behind one written `literal{n}` come
    n letters and digits in a row, or more. `start` says what may stand before a token.
    """

    name: str
    literals: tuple[str, ...]
    pattern: str
    start: str

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where such tokens stand, from left to right."""
        whole = _compiled(self.start + self.pattern)
        kinds = {literal[0] for literal in self.literals}
        if not kinds.isdisjoint("*~"):
            # Without its start a pattern is searched for by its first characters, which is much
            # faster, but then begins anywhere: bad where it goes on for any length from there.
            if "~" in kinds or _compiled(self.pattern).search(text) is not None:
                for match in whole.finditer(text):
                    yield match.span()
            return
        # Looking only where a literal stands is ten times as fast as a search for the pattern.
        last = 0
        for start in sorted(at for word in self.literals for at in _places(text, _plain(word))):
            found = whole.match(text, start) if start >= last else None
            if found is not None:
                last = found.end()
                yield found.span()


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # On first use: compiling the whole table costs more than all else that a hook does.
    return re.compile(pattern)


def _places(text: str, literal: str) -> Iterator[int]:
    at = text.find(literal)
    while at >= 0:
        yield at
        at = text.find(literal, at + 1)


SHAPES: Final = tuple(Shape(*row) for row in PROVIDERS)

_ALNUM: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_RUN: Final = frozenset(_ALNUM + b"_-.+/=~:%@\\")
# Every byte of a run becomes `x`, so one substring search finds a run of RUN_MIN.
_MASK: Final = bytes(120 if byte in _RUN else 32 for byte in range(256))
_WORDS: Final = bytes(byte if byte in _ALNUM else 32 for byte in range(256))
_LONG: Final = b"x" * RUN_MIN
_ESCAPES: Final = regex(rb"\\[nrt]|%[0-9A-Fa-f]{2}")
_COLOURS: Final = regex(rb" [0-9]{1,2}m")  # no run holds the bracket before it


class _Literal(NamedTuple):
    """A literal at the head of a token, its first word, and the shapes that it may begin.

    `least`: how long the word is that holds the literal, or of a literal that ends between words,
    how long a word behind it is.
    """

    text: str
    word: bytes
    least: int
    shapes: tuple[int, ...]

    def begins(self, words: list[bytes]) -> bool:
        """Whether one of the words may be the head of such a token."""
        word, least = self.word, self.least
        return any(len(each) >= least and each.startswith(word) for each in words)


def _plain(literal: str) -> str:
    return literal.partition("{")[0]


def _by_literal() -> tuple[
    dict[bytes, list[_Literal]], dict[bytes, list[_Literal]], tuple[tuple[str, int], ...]
]:
    """Literals whose first word ends in them, by it; those it goes on behind, by its head; others.

    Of the second kind those in small letters must say how long the word is at least.
    """
    numbers: dict[str, list[int]] = {}
    inner: list[tuple[str, int]] = []
    for number, shape in enumerate(SHAPES):
        for literal in shape.literals:
            if literal[0] in "*~":
                inner.append((literal[1:], number))
            else:
                numbers.setdefault(literal, []).append(number)
    whole: dict[bytes, list[_Literal]] = {}
    opened: dict[bytes, list[_Literal]] = {}
    for literal, found in numbers.items():
        text, _, more = literal.partition("{")
        word = text.encode().translate(_WORDS).split()[0]
        least = int(more.removesuffix("}") or 0)
        if text.endswith(word.decode()):
            least += len(word)
            assert word < _SMALL or least >= _LONG_WORD, literal
            opened.setdefault(word[:2], []).append(_Literal(text, word, least, tuple(found)))
        else:
            whole.setdefault(word, []).append(_Literal(text, word, least, tuple(found)))
    return whole, opened, tuple(inner)


_SMALL: Final = b"a"  # capitals and digits come before it
_LONG_WORD: Final = 17
_WHOLE, _OPENED, _INNER = _by_literal()
_WHOLE_WORDS: Final = frozenset(_WHOLE)
_HEADS: Final = frozenset(_OPENED)


def suspects(encoded: bytes) -> tuple[Shape, ...]:
    """Shapes that the text (in ASCII or UTF-8) may hold, in table order; usually none."""
    runs = _long_runs(encoded)
    if not runs:
        return ()
    plain = _COLOURS.sub(b" ", runs) if b"[" in encoded or b";" in encoded else runs
    words = plain.translate(_WORDS).split()
    if b"\\" in runs or b"%" in runs:
        # Both readings: `%AB` may be an escape, or a percent sign before a token.
        words += _ESCAPES.sub(b" ", plain).translate(_WORDS).split()
    text = runs.decode("ascii")
    found = [number for literal, number in _INNER if literal in text]
    for word in _WHOLE_WORDS.intersection(words):
        for literal in _WHOLE[word]:
            if literal.text in text and literal.least <= max(map(len, words)):
                found += literal.shapes
    heads = {word[:2] for word in words if word < _SMALL or len(word) >= _LONG_WORD}
    for head in heads & _HEADS if heads else ():
        for literal in _OPENED[head]:
            if literal.text in text and literal.begins(words):
                found += literal.shapes
    return tuple([SHAPES[number] for number in sorted(set(found))]) if found else ()


def _long_runs(encoded: bytes) -> bytes:
    """The unbroken runs of RUN_MIN bytes and more, each once and with a space before it."""
    mask = encoded.translate(_MASK)
    find = mask.find
    at = find(_LONG)
    if at < 0:
        return b""
    runs = {b"": None}
    while at >= 0:
        end = find(b" ", at + RUN_MIN)
        if end < 0:
            end = len(encoded)
        runs[encoded[at:end]] = None
        at = find(_LONG, end)
    return b" ".join(runs)
