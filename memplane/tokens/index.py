"""`bound1.idx`: the vocabularies laid out for searching, so that a first count unpacks nothing.

`tools/build_bound1.py` writes it with `bound1.xz`, and both say the same. Numbers are four
bytes, the least first; each text is preceded by its length. In this order:

- `MAGIC`, and one byte for each code point (see `table`),
- for o200k and then for cl100k, of all tokens but FF (which is in no UTF-8 text) in the order
  of their bytes, `GROUP` by `GROUP`: their number, their ranks, where each group begins in the
  text behind, a text of the groups' first tokens, a text of all of them. FF ends each token.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from itertools import accumulate

__all__ = ["GROUP", "MAGIC", "Ranks", "encode_token_index", "open_ranks"]

MAGIC = b"memplane bound/1 index 1\n"
GROUP = 16

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


def encode_token_index(
    characters: bytes, vocabularies: tuple[dict[bytes, int], dict[bytes, int]]
) -> bytes:
    """Lay out the file: `open_ranks` reads its second part."""
    parts = [MAGIC, characters]
    for ranks in vocabularies:
        tokens = sorted(ranks.keys() - {_END})
        assert not any(_END in token for token in tokens)
        ends = list(accumulate(len(token) + 1 for token in tokens))
        starts = [0, *ends[GROUP - 1 : -1 : GROUP]]
        parts += [_words([len(tokens)]), _words([ranks[token] for token in tokens])]
        parts += [_words(starts), _ended(tokens[::GROUP]), _ended(tokens)]
    return b"".join(parts)


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


def _ended(tokens: list[bytes]) -> bytes:
    text = b"".join(token + _END for token in tokens)
    return _words([len(text)]) + text


def _words(numbers: list[int]) -> bytes:
    return b"".join(number.to_bytes(_WORD, "little") for number in numbers)


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
