"""Tables from seqs and ids to lines: a cache file a sealed segment, one table in memory.

A cache file is `magic, size of the segment (8 bytes), its last h (16), lines (8)`, then per line
its seq, offset and length (4 bytes each, the seq counted from the header's), the ids' hashes
sorted (8 each) and their lines (4 each), then SHA-256 over all of it, cut to 16 bytes. Numbers
are little endian. A file that does not match its segment or itself is made again.
"""

# Paths are strings here: pathlib costs more than the append it would serve.
# ruff: noqa: PTH120
from __future__ import annotations

import os
import sys
from array import array
from bisect import bisect_left, bisect_right
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple

from memplane import nofollow
from memplane.log.disk import drop
from memplane.log.format import Run, line_id

__all__ = ["IdTable", "LinePlace", "SealedIds", "id_hash"]

MAGIC = b"mpids1\n\0"
FRAME_BYTES = len(MAGIC) + 8 + 16 + 8 + 8


class LinePlace(NamedTuple):
    """Where a line stands: `length` counts its newline."""

    seq: int
    offset: int
    length: int


def id_hash(id_: str) -> int:
    """64 bits of an id."""
    return int.from_bytes(sha256(id_.encode()).digest()[:8], "little")


def little(values: array[int]) -> array[int]:
    """Those values in little-endian order, on any machine; the way back is the same."""
    if sys.byteorder == "big":
        values = values[:]
        values.byteswap()
    return values


class IdTable:
    """The lines of one segment in order, and their ids; grows by what is appended."""

    __slots__ = ("end", "h", "identity", "ids", "lengths", "number", "offsets", "seq", "seqs")

    def __init__(self, number: int, identity: tuple[int, int], seq: int, h: bytes) -> None:
        self.number, self.identity = number, identity
        self.end, self.seq, self.h = 0, seq, h
        self.seqs: list[int] = []
        self.offsets: list[int] = []
        self.lengths: list[int] = []
        self.ids: dict[str, int] = {}

    def take(self, data: bytes, offset: int, run: Run) -> None:
        """Add a run of the segment's bytes that begin at `offset`."""
        ends = [*run.starts[1:], run.end]
        for row, (start, end) in enumerate(zip(run.starts, ends, strict=True), len(self.seqs)):
            id_ = line_id(data[start:end])
            if id_ is not None:
                self.ids.setdefault(id_, row)
        self.seqs.extend(range(run.first, run.last + 1))
        self.offsets.extend(start + offset for start in run.starts)
        self.lengths.extend(b - a for a, b in zip(run.starts, ends, strict=True))
        self.end, self.seq, self.h = run.end + offset, run.last, run.h

    def add(self, id_: str, length: int, h: bytes) -> None:
        """Add the line that was just written behind the last one."""
        self.seq += 1
        self.ids.setdefault(id_, len(self.seqs))
        self.seqs.append(self.seq)
        self.offsets.append(self.end)
        self.lengths.append(length)
        self.end += length
        self.h = h

    def by_seq(self, seq: int) -> LinePlace | None:
        """The line with that seq."""
        row = bisect_left(self.seqs, seq)
        if row == len(self.seqs) or self.seqs[row] != seq:
            return None
        return LinePlace(seq, self.offsets[row], self.lengths[row])

    def by_id(self, id_: str) -> tuple[LinePlace, ...]:
        """The line with that id, if there is one."""
        row = self.ids.get(id_)
        if row is None:
            return ()
        return (LinePlace(self.seqs[row], self.offsets[row], self.lengths[row]),)


class SealedIds:
    """The lines and ids of a sealed segment, in 24 bytes a line."""

    __slots__ = ("_first", "_hashes", "_lengths", "_offsets", "_rows", "_seqs")

    def __init__(self, first: int, columns: list[array[int]]) -> None:
        self._first = first
        self._seqs, self._offsets, self._lengths, self._hashes, self._rows = columns

    @classmethod
    def of(cls, table: IdTable, first: int) -> SealedIds:
        """What a whole table says, sorted."""
        order = sorted((id_hash(id_), row) for id_, row in table.ids.items())
        return cls(
            first,
            [
                array("I", [seq - first for seq in table.seqs]),
                array("I", table.offsets),
                array("I", table.lengths),
                array("Q", [hashed for hashed, _ in order]),
                array("I", [row for _, row in order]),
            ],
        )

    def by_seq(self, seq: int) -> LinePlace | None:
        """The line with that seq."""
        wanted = seq - self._first
        row = bisect_left(self._seqs, wanted) if wanted >= 0 else len(self._seqs)
        if row == len(self._seqs) or self._seqs[row] != wanted:
            return None
        return LinePlace(seq, self._offsets[row], self._lengths[row])

    def by_id(self, id_: str) -> tuple[LinePlace, ...]:
        """The lines whose id may be this one."""
        return self.by_hash(id_hash(id_))

    def by_hash(self, hashed: int) -> tuple[LinePlace, ...]:
        """The lines whose id has that hash: nearly always one or none."""
        hashes = self._hashes
        at = bisect_left(hashes, hashed)
        if at == len(hashes) or hashes[at] != hashed:
            return ()
        rows = self._rows[at : bisect_right(hashes, hashed, at)]
        return tuple(
            LinePlace(self._seqs[row] + self._first, self._offsets[row], self._lengths[row])
            for row in rows
        )

    def dump(self, size: int, h: bytes) -> bytes:
        """The cache file of a segment with that size and last hash."""
        columns = (self._seqs, self._offsets, self._lengths, self._hashes, self._rows)
        parts = [
            MAGIC,
            size.to_bytes(8, "little"),
            h,
            len(self._seqs).to_bytes(8, "little"),
            len(self._hashes).to_bytes(8, "little"),
            *(little(column).tobytes() for column in columns),
        ]
        whole = b"".join(parts)
        return whole + sha256(whole).digest()[:16]

    @classmethod
    def load(cls, whole: bytes, first: int, size: int, h: bytes) -> SealedIds | None:
        """The cache file's content, or None where it is damaged or of another segment."""
        if len(whole) < FRAME_BYTES + 16 or sha256(whole[:-16]).digest()[:16] != whole[-16:]:
            return None
        if whole[:32] != MAGIC + size.to_bytes(8, "little") + h:
            return None
        lines = int.from_bytes(whole[32:40], "little")
        ids = int.from_bytes(whole[40:48], "little")
        columns: list[array[int]] = []
        at = FRAME_BYTES
        for code, count in (("I", lines), ("I", lines), ("I", lines), ("Q", ids), ("I", ids)):
            column: array[int] = array(code)
            end = at + count * column.itemsize
            column.frombytes(whole[at:end])
            columns.append(little(column))
            at = end
        return cls(first, columns) if at == len(whole) - 16 else None


def write_cache(home: str, path: str, content: bytes) -> None:
    """Keep a cache file below the home if the disk lets us; nothing depends on it."""
    new = f"{path}.{os.getpid()}.new"
    with suppress(OSError):
        nofollow.make_folder(os.path.dirname(path), home)
        fd = nofollow.create_draft(new, home=home)
        try:
            whole = os.write(fd, content) == len(content)
        finally:
            os.close(fd)
        try:
            if whole:
                nofollow.rename_name(new, path, home=home)
        finally:
            drop(new, home)  # it has another name now, or nobody needs it
