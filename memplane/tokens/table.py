"""`bound1.xz`: the vocabularies of o200k and cl100k, and the class and cost of each character.

`tools/build_bound1.py` writes it. Unpacked it is, in this order:

- one byte for each code point below `CHARACTERS`: bits 0-2 its class (`WHITE` .. `UNSURE`),
  bits 3-4 and 5-6 one less than its worst case in o200k and in cl100k (see `worst`),
- the tokens of o200k in rank order, joined by the byte FF,
- two bytes FF,
- the tokens of cl100k in rank order, joined by the byte FF.

The 256 single bytes, the first ranks of both, are left out: `single_bytes` gives their
order. FF is in no UTF-8 text, so no longer token has it.

The class of a character is given only where Unicode never changed it from 3.2 on
(or where it was no letter, mark or number before and is none now): two builds of a
tokenizer then agree on it. Everything else is `UNSURE`, as is everything from
`CHARACTERS` on.

What a process reads is `bound1.idx`, the same laid out for searching, so that a first count
unpacks nothing. Numbers are four
bytes, the least first; each text is preceded by its length. In this order:

- `MAGIC`, and one byte for each code point (as above),
- for o200k and then for cl100k, of all tokens but FF (which is in no UTF-8 text) in the order
  of their bytes, `GROUP` by `GROUP`: their number, their ranks, where each group begins in the
  text behind, a text of the groups' first tokens, a text of all of them. FF ends each token.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from typing import NamedTuple

__all__ = [
    "CHARACTERS",
    "GROUP",
    "LETTER",
    "LOWER",
    "MAGIC",
    "MARK",
    "NUMBER",
    "OTHER",
    "PART",
    "UNSURE",
    "UPPER",
    "WHITE",
    "BoundTable",
    "Ranks",
    "open_ranks",
    "single_bytes",
    "unpack",
]

CHARACTERS = 0x20000
WHITE, UPPER, LOWER, LETTER, MARK, NUMBER, OTHER, UNSURE = range(8)

# Characters of a long text that are taken to pieces at once: each piece is an object of its own.
PART = 1 << 16

_SEPARATOR = b"\xff"
_BEYOND = UNSURE | 3 << 3 | 3 << 5  # four bytes of UTF-8, hence four tokens at the very worst


MAGIC = b"memplane bound/1 index 1\n"
GROUP = 16  # tokens that are read at once
_END = b"\xff"
_WORD = 4
# Questions after which the whole is read, for some 50 ms: more than a pack asks, and no more
# than the first few dozen new texts do.
_MANY = 6_000


class Ranks:
    """The ranks of one encoding's tokens, like the dictionary of them, read as they are asked.

    Threads may share it; at worst two read the same group.
    """

    __slots__ = ("_asked", "_firsts", "_known", "_ranks", "_read", "_starts", "_text")

    def __init__(
        self, text: bytes, firsts: list[bytes], ranks: array[int], starts: array[int]
    ) -> None:
        self._text, self._firsts, self._ranks = text, firsts, ranks
        self._starts = [*starts, len(text)]
        self._read = bytearray(len(starts))  # a byte for each group: whether it was
        self._known: dict[bytes, int] = {}
        self._asked = 0

    def get(self, token: bytes, default: int) -> int:
        """As of a dictionary."""
        self._asked += 1
        rank = self._known.get(token)
        if rank is not None:
            return rank
        number = bisect_right(self._firsts, token) - 1
        if number < 0 or self._read[number]:
            return default
        self._take(number)
        return self._known.get(token, default)

    def __contains__(self, token: bytes) -> bool:
        return self.get(token, -1) >= 0

    def whole(self) -> dict[bytes, int] | None:
        """The dictionary itself, which is quicker, where enough was asked for to read it all."""
        return self.all() if self._asked > _MANY else None

    def all(self) -> dict[bytes, int]:
        """The dictionary itself."""
        return dict(zip(self._text[:-1].split(_END), self._ranks, strict=True))

    def _take(self, number: int) -> None:
        tokens = self._text[self._starts[number] : self._starts[number + 1] - 1].split(_END)
        ranks = self._ranks[number * GROUP : number * GROUP + len(tokens)]
        self._known.update(zip(tokens, ranks, strict=True))
        self._read[number] = 1


class BoundTable(NamedTuple):
    """`characters` as described above; `ranks` of o200k and of cl100k by token."""

    characters: bytes
    ranks: tuple[dict[bytes, int] | Ranks, dict[bytes, int] | Ranks]

    def entries(self, text: str) -> bytes:
        """Look up the byte of each character."""
        table = self.characters
        if len(text) > PART:
            spans = range(0, len(text), PART)
            return b"".join([self.entries(text[at : at + PART]) for at in spans])
        return bytes([table[code] if code < CHARACTERS else _BEYOND for code in map(ord, text)])


def single_bytes() -> list[bytes]:
    """All single bytes in rank order: the printable ones of Latin-1 before the others."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [*range(0x21), *range(0x7F, 0xA1), 0xAD]
    return [bytes((value,)) for value in printable + others]


def unpack(packed: bytes) -> BoundTable:
    """Read `bound1.idx`, in a millisecond, or the xz file, in some 150."""
    if packed.startswith(MAGIC):
        start = len(MAGIC) + CHARACTERS
        o200k, pos = open_ranks(packed, start)
        return BoundTable(packed[len(MAGIC) : start], (o200k, open_ranks(packed, pos)[0]))
    import lzma  # noqa: PLC0415 - a plane reads the other one, and starts faster without it

    blob = lzma.decompress(packed)
    first, second = blob[CHARACTERS:].split(_SEPARATOR * 2)
    return BoundTable(blob[:CHARACTERS], (_ranks(first), _ranks(second)))


def _ranks(part: bytes) -> dict[bytes, int]:
    tokens = part.split(_SEPARATOR)
    ranks = dict(zip(tokens, range(256, 256 + len(tokens)), strict=True))
    ranks.update(zip(single_bytes(), range(256), strict=True))
    return ranks


def open_ranks(data: bytes, pos: int) -> tuple[Ranks, int]:
    """The ranks that are laid out at `pos`, and the place behind them."""
    count = _read_words(data, pos, 1)[0]
    ranks = _read_words(data, pos + _WORD, count)
    pos += _WORD * (1 + count)
    groups = -(-count // GROUP)
    starts = _read_words(data, pos, groups)
    pos += _WORD * groups
    firsts, pos = _read_text(data, pos)
    text, pos = _read_text(data, pos)
    return Ranks(text, firsts[:-1].split(_END), ranks, starts), pos


def _read_text(data: bytes, pos: int) -> tuple[bytes, int]:
    start = pos + _WORD
    end = start + _read_words(data, pos, 1)[0]
    return data[start:end], end


def _read_words(data: bytes, pos: int, count: int) -> array[int]:
    numbers = array("I")
    numbers.frombytes(data[pos : pos + _WORD * count])
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
