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

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RUN_MIN", "SHAPES", "Shape", "suspects"]

# The shortest token of the table; a shorter unbroken run cannot hold any.
RUN_MIN: Final = 18


class Shape(NamedTuple):
    """One provider's tokens. `pattern` matches the token and nothing beside it.

    One of the literals begins every such token; one written `*literal` stands inside it.
    """

    name: str
    literals: tuple[str, ...]
    pattern: str

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where such tokens stand, from left to right."""
        if any(literal.startswith("*") for literal in self.literals):
            for match in _compiled(self.pattern).finditer(text):
                yield match.span()
            return
        # Looking only where a literal stands is ten times as fast as a search for the pattern.
        last, match_at = 0, _compiled(self.pattern).match
        for start in sorted(at for literal in self.literals for at in _places(text, literal)):
            found = match_at(text, start) if start >= last else None
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
_KEEP: Final = bytes(byte if byte in _RUN else 32 for byte in range(256))
_WORDS: Final = bytes(byte if byte in _ALNUM else 32 for byte in range(256))
_LONG: Final = b"x" * RUN_MIN
_ESCAPES: Final = re.compile(rb"\\[nrt]|%[0-9A-Fa-f]{2}")
_COLOURS: Final = re.compile(rb"\[[0-9;]{1,12}m")

# A literal, and the shapes that it may begin or stand in.
_Literal = tuple[bytes, tuple[int, ...]]


def _by_literal() -> tuple[dict[bytes, tuple[_Literal, ...]], tuple[_Literal, ...]]:
    """Literals at the start of a token by the head of their first word, and the others."""
    numbers: dict[str, list[int]] = {}
    for number, shape in enumerate(SHAPES):
        for literal in shape.literals:
            numbers.setdefault(literal, []).append(number)
    first: dict[bytes, list[_Literal]] = {}
    inner: list[_Literal] = []
    for literal, found in numbers.items():
        entry = literal.removeprefix("*").encode(), tuple(found)
        if literal.startswith("*"):
            inner.append(entry)
        else:
            head = entry[0].translate(_WORDS).split()[0][:2]
            first.setdefault(head, []).append(entry)
    return {head: tuple(entries) for head, entries in first.items()}, tuple(inner)


_FIRST, _INNER = _by_literal()


def suspects(encoded: bytes) -> tuple[Shape, ...]:
    """Shapes that the text (as UTF-8) may hold, in table order; usually none."""
    if _LONG not in encoded.translate(_MASK):
        return ()
    if b"\x1b" in encoded or b"1b[" in encoded:  # also quoted: \u001b
        encoded = _COLOURS.sub(b" ", encoded)
    words = encoded.translate(_KEEP).split()
    runs = b" ".join([word for word in words if len(word) >= RUN_MIN])
    plain = _ESCAPES.sub(b" ", runs) if b"\\" in runs or b"%" in runs else runs
    heads = {word[:2] for word in plain.translate(_WORDS).split()}
    found = {number for literal, numbers in _INNER if literal in runs for number in numbers}
    for head in heads & _FIRST.keys():
        for literal, numbers in _FIRST[head]:
            if literal in runs:
                found.update(numbers)
    return tuple(SHAPES[number] for number in sorted(found))
