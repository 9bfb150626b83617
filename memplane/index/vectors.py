"""Vectors of signed bytes: compared exactly, found by their sign bits first.

A vector is `dimension` bytes from -127 to 127; row n is document n. Two append-only arrays, row
by row: `rows` (the bytes) and `bits` (a bit a component, set where it is above 0, padded to 64).
A row without a component above 0 means that the document has no vector.

Similarity is the cosine in millionths, rounded down. Dot products are sums of whole numbers, and
root and division are rounded the same everywhere, so the answer is the same on every machine. A
vector has at most 133,000 components: its dot products fit 32 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "LARGEST",
    "MILLION",
    "Buffer",
    "Encoded",
    "Rows",
    "Vectors",
    "cosines",
    "encoded",
    "signed_bytes",
]

Rows = NDArray[np.int8]
Buffer = bytes | bytearray | memoryview
T = TypeVar("T", bound=np.generic)

LARGEST: Final = 127
MILLION: Final = 1_000_000
_BLOCK: Final = 4_096
_CANDIDATES_MIN: Final = 1_000
_CANDIDATES_SHARE: Final = 100


class Encoded(NamedTuple):
    """What to append for some vectors, an array each."""

    rows: bytes
    bits: bytes


def signed_bytes(components: Sequence[float] | NDArray[np.float64]) -> bytes:
    """Scale the largest component to 127 and round half to even; zeros stay zeros.

    What has been scaled so before comes back unchanged.
    """
    values = np.asarray(components, np.float64)
    assert np.isfinite(values).all(), "a vector holds a number that is not finite"
    peak = np.abs(values).max(initial=0.0)
    if peak == 0:
        return bytes(len(values))
    signed: Rows = np.rint(values / peak * LARGEST).astype(np.int8)
    return signed.tobytes()


def encoded(vectors: Sequence[bytes], dimension: int) -> Encoded:
    """Lay vectors out for appending."""
    rows = np.frombuffer(b"".join(vectors), np.int8).reshape(-1, dimension)
    return Encoded(rows.tobytes(), _sign_bits(rows).tobytes())


def cosines(rows: Rows, queries: Rows) -> NDArray[np.int64]:
    """Cosines of each row (down) with each query (across) in millionths; 0 for empty ones."""
    asked = queries.astype(np.int32)
    norms = np.einsum("ij,ij->i", asked, asked).astype(np.float64)
    found = np.empty((len(rows), len(queries)), np.int64)
    for start in range(0, len(rows), _BLOCK):
        # Whole numbers from first to last: no machine may add them in another way.
        block = rows[start : start + _BLOCK].astype(np.int32)
        dots = np.einsum("ij,kj->ik", block, asked).astype(np.float64)
        squares = np.einsum("ij,ij->i", block, block).astype(np.float64)
        scale = np.sqrt(np.maximum(squares[:, None] * norms, 1.0))
        found[start : start + _BLOCK] = np.floor(dots * MILLION / scale)
    return found


class Vectors:
    """The vectors of an index: those of its files, and those added since."""

    def __init__(
        self, dimension: int, rows: Buffer | Rows = b"", bits: Buffer | None = None
    ) -> None:
        """Over mapped files; a row that one of them lacks does not count.

        Without `bits` they are made from the rows.
        """
        self.dimension = dimension
        signed = np.frombuffer(rows, np.int8)
        count = len(signed) // dimension
        if bits is not None:
            words = _words(dimension)
            signs = np.frombuffer(bits, "<u8", len(memoryview(bits)) // 8)
            count = min(count, len(signs) // words)
        self._count = count
        self._rows = signed[: count * dimension].reshape(count, dimension)
        self._bits = (
            # A column at a time is what a search reads.
            np.asfortranarray(_sign_bits(self._rows))
            if bits is None
            else signs[: count * words].reshape(count, words)
        )
        self._empty: NDArray[np.bool_] = _are_empty(self._bits)

    def __len__(self) -> int:
        return self._count

    def append(self, vectors: Sequence[bytes]) -> None:
        """Give the next documents their vectors; they can be found at once."""
        rows = np.frombuffer(b"".join(vectors), np.int8).reshape(-1, self.dimension)
        if not len(rows):
            return
        end = self._count + len(rows)
        if end > len(self._rows):
            room = max(end, 2 * self._count, 256)
            self._rows = _grown(self._rows, self._count, room)
            self._bits = _grown(self._bits, self._count, room)
            self._empty = _grown(self._empty, self._count, room)
        self._rows[self._count : end] = rows
        self._bits[self._count : end] = bits = _sign_bits(rows)
        self._empty[self._count : end] = _are_empty(bits)
        self._count = end

    def search(
        self,
        query: bytes,
        k: int,
        *,
        upto: int | None = None,
        masked: NDArray[np.bool_] | None = None,
    ) -> list[tuple[int, int]]:
        """The k most similar documents below `upto`, and how similar; ties go to the newer.

        Only candidates are compared (`near`). A document that is masked or has no vector is none.
        """
        if k <= 0:
            return []
        candidates, similar = self.near(query, upto=upto, masked=masked)
        order = np.lexsort((-candidates, -similar))[:k]
        return [(int(candidates[i]), int(similar[i])) for i in order]

    def near(
        self, query: bytes, *, upto: int | None = None, masked: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Those that differ from the query in the fewest signs, rising, and how similar each is.

        At least 1,000 and at least a hundredth of all, as far as there are so many; none of them is
        masked or without a vector. A query without a vector is near nothing.
        """
        asked = np.frombuffer(query, np.int8).reshape(1, self.dimension)
        if not asked.any():
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        end = self._count if upto is None else min(upto, self._count)
        candidates = np.sort(self._candidates(asked, end, masked))
        return candidates, cosines(self._rows[candidates], asked)[:, 0]

    def sample(self, query: bytes, most: int, *, upto: int | None = None) -> NDArray[np.int64]:
        """How similar at most `most` documents that have a vector are, evenly spread."""
        asked = np.frombuffer(query, np.int8).reshape(1, self.dimension)
        end = self._count if upto is None else min(upto, self._count)
        there = np.flatnonzero(~self._empty[:end])
        return cosines(self._rows[there[:: -(-len(there) // most) or 1]], asked)[:, 0]

    def _candidates(
        self, asked: Rows, end: int, masked: NDArray[np.bool_] | None
    ) -> NDArray[np.int64]:
        distance = np.zeros(end, np.uint16)
        for column, bits in zip(self._bits[:end].T, _sign_bits(asked)[0], strict=True):
            distance += np.bitwise_count(column ^ bits)
        out = self._empty[:end] if masked is None else self._empty[:end] | masked[:end]
        distance[out] = self.dimension + 1
        most = max(_CANDIDATES_MIN, end // _CANDIDATES_SHARE)
        levels = np.cumsum(np.bincount(distance, minlength=self.dimension + 2)[:-1])
        edge = int(np.searchsorted(levels, most))
        near = np.flatnonzero(distance < min(edge, self.dimension + 1))
        if edge > self.dimension or len(near) >= most:
            return near
        # Of those that differ equally much, the newer ones fill what is left.
        return np.concatenate((near, np.flatnonzero(distance == edge)[len(near) - most :]))


def _words(dimension: int) -> int:
    return -(-dimension // 64)


def _grown(table: NDArray[T], used: int, room: int) -> NDArray[T]:
    wider = np.zeros((room, *table.shape[1:]), table.dtype)
    wider[:used] = table[:used]
    return wider


def _sign_bits(rows: Rows) -> NDArray[np.uint64]:
    above = rows > 0
    spare = _words(rows.shape[1]) * 64 - rows.shape[1]
    if spare:
        above = np.pad(above, ((0, 0), (0, spare)))
    return np.packbits(above, axis=1, bitorder="little").view("<u8")


def _are_empty(bits: NDArray[np.uint64]) -> NDArray[np.bool_]:
    return np.asarray(bits.max(axis=1, initial=0) == 0, np.bool_)
