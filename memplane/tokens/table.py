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

What a process reads is `bound1.idx`, the same laid out for searching (see `index`).
"""

from __future__ import annotations

from typing import NamedTuple

from memplane.tokens.index import MAGIC, Ranks, open_ranks

__all__ = [
    "CHARACTERS",
    "LETTER",
    "LOWER",
    "MARK",
    "NUMBER",
    "OTHER",
    "PART",
    "UNSURE",
    "UPPER",
    "WHITE",
    "BoundTable",
    "join",
    "single_bytes",
    "unpack",
]

CHARACTERS = 0x20000
WHITE, UPPER, LOWER, LETTER, MARK, NUMBER, OTHER, UNSURE = range(8)

# Characters of a long text that are taken to pieces at once: each piece is an object of its own.
PART = 1 << 16

_SEPARATOR = b"\xff"
_BEYOND = UNSURE | 3 << 3 | 3 << 5  # four bytes of UTF-8, hence four tokens at the very worst


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


def join(characters: bytes, o200k: list[bytes], cl100k: list[bytes]) -> bytes:
    """Lay out the unpacked file. `unpack` is its inverse, behind xz."""
    assert len(characters) == CHARACTERS
    assert o200k[:256] == cl100k[:256] == single_bytes()
    parts = [_SEPARATOR.join(tokens[256:]) for tokens in (o200k, cl100k)]
    assert not any(_SEPARATOR * 2 in part for part in parts)
    return characters + (_SEPARATOR * 2).join(parts)


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
