"""`bound/1`: never below o200k nor cl100k, and additive over lines.

A text costs the sum of its chunks (`chunks`), a chunk the larger of its exact counts.
What is not exact, and is never too little either:

- A line that ends in punctuation: its last pretoken may read on over the newline, so it
  costs the worst that any continuation can make of it (`closing`).
- A line that begins with slashes: after punctuation o200k reads them with the newline
  before them, so it costs the larger of both readings.
- Every newline that ends no such pretoken costs 1; blanks that end a line or the text cost
  what can begin in them.
- A chunk with a character whose class is unsure, and a pretoken over 40 bytes (over 128 in
  ASCII) that is no token, cost what can begin in each part of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memplane.tokens.chunks import (
    BLANKS,
    PLAIN,
    UNSURE_CHARACTER,
    chunks,
    parts,
    stand_ins,
    without_surrogates,
)
from memplane.tokens.memo import Memo
from memplane.tokens.table import PART, Table, unpack
from memplane.tokens.vocabulary import ENCODINGS, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Bound"]


class Bound:
    """Counts by the table that `table` returns; it is read once, at the first count.

    The same text always has the same count. Threads may share a counter; at worst two of
    them read the table.
    """

    def __init__(
        self,
        table: Callable[[], bytes],
        *,
        name: str = "bound/1",
        encodings: tuple[str, ...] = ENCODINGS,
    ) -> None:
        self.name = name
        self._read = table
        self._encodings = encodings
        self._costs: _Costs | None = None

    def count(self, text: str) -> int:
        """Never below the exact counts, and the sum over the lines."""
        if not text:
            return 0
        if len(text) > PART:
            return sum(map(self._count, parts(text, PART)))
        return self._count(text)

    def _count(self, text: str) -> int:
        costs = self._costs
        if costs is None:
            costs = self._costs = _Costs(unpack(self._read()), self._encodings)
        if text[-1] not in BLANKS:
            return sum(map(costs.chunks.__getitem__, chunks(text)))
        # The pattern would look for the end of these blanks from each of them anew.
        body = text.rstrip(BLANKS)
        return sum(map(costs.chunks.__getitem__, chunks(body))) + costs.anywhere(text[len(body) :])


class _Costs:
    """What each chunk costs in the dearest of the encodings."""

    def __init__(self, table: Table, encodings: tuple[str, ...]) -> None:
        self._table = table
        self._vocabularies = [Vocabulary(table, ENCODINGS.index(name)) for name in encodings]
        self.chunks = Memo(self._chunk)

    def anywhere(self, text: str) -> int:
        """Bound a text in any context."""
        return max([one.anywhere(text) for one in self._vocabularies])

    def _chunk(self, chunk: str) -> int:
        if PLAIN(chunk):
            return max([one.pretokens[chunk] for one in self._vocabularies])
        if not chunk.strip(BLANKS):
            return max([one.blanks(chunk) for one in self._vocabularies])
        if not chunk.strip(BLANKS + "\r\n"):
            return self.anywhere(chunk)
        if chunk.isascii():
            return max([one.word(chunk, chunk) for one in self._vocabularies])
        chunk = without_surrogates(chunk)
        shape = stand_ins(chunk, self._table.entries(chunk))
        if UNSURE_CHARACTER in shape:
            return self.anywhere(chunk)
        return max([one.word(chunk, shape) for one in self._vocabularies])
