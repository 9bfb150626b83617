"""One segment in arrays: made by `build`, `merge` and `live`, or mapped from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplane.index import layout
from memplane.index.terms import KINDS

__all__ = ["Array", "Pieces", "Postings", "Segment", "decode", "encode"]

Array = NDArray[Any]
LENGTHS: Final = KINDS[:3]  # labels have no length
TIMES_MAX: Final = 255
SHORT_MAX: Final = (1 << 16) - 1


class Postings(NamedTuple):
    """Terms of all kinds, sorted: the postings of terms[i] are starts[i] to starts[i + 1]."""

    terms: Array
    starts: Array
    docs: Array  # numbered within the segment
    times: Array

    def runs(self, wanted: Array) -> tuple[list[int], list[int], list[int]]:
        """Return which of the wanted terms occur here, and where the postings of each lie."""
        terms, starts = self.terms, self.starts
        if not len(terms):
            return [], [], []
        places = terms.searchsorted(wanted)
        hits = (terms.take(places, mode="clip") == wanted).nonzero()[0]
        found = places[hits]
        return hits.tolist(), starts[found].tolist(), starts[found + 1].tolist()

    def find(self, wanted: Array) -> list[tuple[int, Array, Array]]:
        """Return (place in `wanted`, docs, times) of each wanted term that occurs here."""
        return [
            (place, self.docs[start:end], self.times[start:end])
            for place, start, end in zip(*self.runs(wanted), strict=True)
        ]

    def counts(self, wanted: Array) -> Array:
        """Return how many documents hold each of the terms."""
        if not len(self.terms):
            return np.zeros(len(wanted), np.int64)
        places = np.searchsorted(self.terms, wanted)
        places[places == len(self.terms)] = 0
        sizes = self.starts[places + 1].astype(np.int64) - self.starts[places]
        found: Array = np.where(self.terms[places] == wanted, sizes, 0)
        return found


class Pieces(NamedTuple):
    """Bytes of each document, one after another: those of i are data[starts[i]:starts[i + 1]]."""

    starts: Array
    data: bytes | memoryview

    @classmethod
    def of(cls, pieces: Sequence[bytes]) -> Pieces:
        """Lay pieces side by side."""
        return cls.laid(b"".join(pieces), np.fromiter(map(len, pieces), np.int64, len(pieces)))

    @classmethod
    def laid(cls, data: bytes, lengths: Array) -> Pieces:
        """Pieces of these lengths that lie side by side already."""
        starts = np.zeros(len(lengths) + 1, np.uint32)
        np.cumsum(lengths, out=starts[1:])
        return cls(starts, data)

    def of_document(self, place: int) -> bytes:
        """Return the bytes of a document."""
        start, end = self.starts[place : place + 2].tolist()
        return bytes(self.data[start:end])


class Segment(NamedTuple):
    """Documents `first` to `first + size`, and what they hold."""

    first: int
    size: int
    postings: Postings
    columns: Mapping[str, Array]
    texts: Pieces
    kept: Pieces
    totals: tuple[int, ...]

    def find(self, wanted: Array) -> list[tuple[int, Array, Array]]:
        """Return (place in `wanted`, docs, times) of each wanted term that occurs here."""
        return self.postings.find(wanted)

    def counts(self, wanted: Array) -> Array:
        """Return how many documents hold each of the terms."""
        return self.postings.counts(wanted)

    def text(self, place: int) -> str:
        """Return the text of a document, numbered within the segment."""
        return self.texts.of_document(place).decode("utf-8", "surrogatepass")


def totals(columns: Mapping[str, Array]) -> tuple[int, ...]:
    """Return the sums of the lengths, as integers."""
    return tuple(int(columns[name].sum(dtype=np.int64)) for name in LENGTHS)


def encode(segment: Segment, level: int, mark: int) -> bytes:
    """Return the file of a segment."""
    header = layout.Header(
        level,
        segment.first // layout.CAPACITIES[level],
        mark,
        segment.size,
        len(segment.texts.data),
        len(segment.postings.terms),
        len(segment.postings.docs),
        segment.totals,
        len(segment.kept.data),
    )
    places, size = layout.sections(header)
    arrays: dict[str, Array] = {}
    for name, pieces in (("text", segment.texts), ("kept", segment.kept)):
        arrays[f"{name}.starts"] = pieces.starts
        arrays[name] = np.frombuffer(pieces.data, np.uint8)
    arrays.update(segment.columns)
    arrays.update(segment.postings._asdict())
    data = np.zeros(size, np.uint8)
    for section in places.values():
        view = data[section.offset :].view(np.uint8)
        bytes_ = np.ascontiguousarray(arrays[section.name], "<" + section.code).view(np.uint8)
        view[: len(bytes_)] = bytes_
    body = layout.digest(data[layout.HEADER_BYTES :].data)
    return layout.render(header._replace(body=body)) + data[layout.HEADER_BYTES :].tobytes()


def decode(data: layout.Buffer, header: layout.Header, first: int) -> Segment:
    """Return the arrays of a file; they are views, nothing is copied or read ahead."""
    places, _ = layout.sections(header)

    def array(name: str) -> Array:
        section = places[name]
        return np.frombuffer(data, "<" + section.code, section.length, section.offset)

    postings = Postings(*map(array, Postings._fields))
    columns = {name: array(name) for name, _ in layout.COLUMNS}
    texts, kept = (
        Pieces(array(f"{name}.starts"), memoryview(data)[start : start + places[name].length])
        for name, start in (("text", places["text"].offset), ("kept", places["kept"].offset))
    )
    return Segment(first, header.documents, postings, columns, texts, kept, header.totals)
