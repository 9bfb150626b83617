"""The byte format of a segment; `index/seg-<level>-<number>.bin` and `index/open.bin` hold them.

Little-endian; every section begins at a multiple of 8, zeros between. A header of 128 bytes::

    magic        8 bytes  "mpindex1"
    format       u32      1; another one is not read, the index is rebuilt
    level        u32      place in `CAPACITIES`: how many documents a full one holds
    number       u64      place among the segments of its level, from 0
    fingerprint  u64      plane, variant and analyser that the terms belong to
    documents    u32      the open segment has fewer than its level says
    kept_bytes   u32
    text_bytes   u64
    terms        u32      distinct ones, of all kinds
    postings     u32
    totals[3]    u64      sum of the lengths in words, bigrams, prefixes
    body         16 bytes first half of SHA-256 over everything behind the header
    head         16 bytes the same over the header before this field
    padding      16 bytes

then the terms as sorted u64, all kinds together; where the postings of each begin, u32,
one more than terms; the documents of the postings, u16, numbered within the segment,
rising within a term; how often the term occurs there, u8, at most 255. Then the columns of
`COLUMNS`, one value a document; where each text begins, u32, one more than documents; the
texts in UTF-8; where what is kept beside each document begins, u32, likewise; what is kept.

The bytes depend on the documents alone: the same documents give the same file, whatever
the way they came in. A file is replaced by rename and never changed, so an open map stays
whole. Full segments are synced before they count, for their sums are not checked again at
every opening. All of it is a cache: torn, flipped, foreign and older files are told by
their sums and built again.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from typing import Final, NamedTuple, TypeAlias

from memplane.index.terms import ANALYSER

__all__ = [
    "CAPACITIES",
    "COLUMNS",
    "HEADER_BYTES",
    "LEVELS",
    "LEVEL_0",
    "SHARED",
    "Buffer",
    "Header",
    "Section",
    "digest",
    "fingerprint",
    "is_whole",
    "parse",
    "render",
    "sections",
]

Buffer: TypeAlias = bytes | memoryview | mmap.mmap

FORMAT: Final = 3
# The largest is what 16 bits number, so that a posting takes three bytes; merging more would
# also hold a writer up.
CAPACITIES: Final = (256, 2_048, 16_384, 65_536)
# How many segments of a level lie in one file, one behind the other: as many as are merged to one
# of the next. So there are few files to open, and each document is written some ten times at most.
SHARED: Final = (8, 8, 4, 1)
LEVEL_0: Final = CAPACITIES[0]
LEVELS: Final = len(CAPACITIES)
HEADER_BYTES: Final = 128
_MAGIC: Final = b"mpindex1"
_FIELDS: Final = struct.Struct("<8s2I2Q2IQ2I3Q16s")
_SUM_BYTES: Final = 16

# Name and type code (struct's and numpy's letters agree for these) of each column.
COLUMNS: Final = (
    ("seq", "q"),
    ("at", "q"),
    ("group", "Q"),
    ("speaker", "Q"),
    ("name", "Q"),
    ("words", "H"),  # lengths in terms of each kind, at most 65,535
    ("bigrams", "H"),
    ("prefixes", "H"),
    ("tokens", "H"),
    ("importance", "H"),
    ("flags", "H"),
    ("part", "H"),
    ("role", "B"),  # place in document.ROLES
)
WIDTH: Final = {"B": 1, "H": 2, "I": 4, "Q": 8, "q": 8}


class Header(NamedTuple):
    """The facts that decide where everything in a segment stands."""

    level: int
    number: int
    fingerprint: int
    documents: int
    text_bytes: int
    terms: int
    postings: int
    totals: tuple[int, ...]
    kept_bytes: int = 0
    body: bytes = b""


class Section(NamedTuple):
    """Where an array stands in the file, and of what it is."""

    name: str
    offset: int
    code: str
    length: int


def sections(header: Header) -> tuple[dict[str, Section], int]:
    """Return every array of the file by name, and the length of the file."""
    shapes: list[tuple[str, str, int]] = [
        ("terms", "Q", header.terms),
        ("starts", "I", header.terms + 1),
        ("docs", "H", header.postings),
        ("times", "B", header.postings),
    ]
    shapes += [(name, code, header.documents) for name, code in COLUMNS]
    shapes += [("text.starts", "I", header.documents + 1), ("text", "B", header.text_bytes)]
    shapes += [("kept.starts", "I", header.documents + 1), ("kept", "B", header.kept_bytes)]
    found: dict[str, Section] = {}
    offset = HEADER_BYTES
    for name, code, count in shapes:
        found[name] = Section(name, offset, code, count)
        offset += (count * WIDTH[code] + 7) // 8 * 8
    return found, offset


def digest(data: Buffer) -> bytes:
    """Return the sum that a header keeps of a body."""
    return hashlib.sha256(data).digest()[:_SUM_BYTES]


def fingerprint(plane: str, variant: str) -> int:
    """Return the number of a plane and all else that its terms depend on."""
    data = f"{plane}\n{variant}\n{ANALYSER}".encode()
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "little")


def render(header: Header) -> bytes:
    """Return the first bytes of a segment."""
    data = _FIELDS.pack(
        _MAGIC,
        FORMAT,
        header.level,
        header.number,
        header.fingerprint,
        header.documents,
        header.kept_bytes,
        header.text_bytes,
        header.terms,
        header.postings,
        *header.totals,
        header.body,
    )
    return (data + digest(data)).ljust(HEADER_BYTES, b"\0")


def parse(data: bytes | memoryview, size: int) -> Header | None:
    """Return the header of a segment that lies at the beginning of `size` bytes.

    None where it is not one of ours, unharmed, or goes on behind them.
    """
    head = bytes(data[:HEADER_BYTES])
    fields = head[: _FIELDS.size]
    if len(head) < HEADER_BYTES or head[_FIELDS.size :][:_SUM_BYTES] != digest(fields):
        return None
    magic, form, level, number, mark, documents, kept, text_bytes, *rest = _FIELDS.unpack(fields)
    if magic != _MAGIC or form != FORMAT or level >= LEVELS:
        return None
    terms, postings, *totals, body = rest
    header = Header(
        level, number, mark, documents, text_bytes, terms, postings, tuple(totals), kept, body
    )
    return header if sections(header)[1] <= size else None


def is_whole(data: Buffer, header: Header) -> bool:
    """Whether the body is the one that the header was written for."""
    return digest(memoryview(data)[HEADER_BYTES:]) == header.body
