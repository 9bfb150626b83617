"""The vectors of an index's documents in a folder of their own: row n is document n's.

::

    dense.json    plane and embedder, the number of valid rows and the checksum of their bytes;
                  written last, and replaced in one step
    rows.i8       signed bytes, row behind row. Rows are added at its end; where old ones change,
                  the file is replaced, so that a reader that has it mapped keeps its version
    .lock         held by the one process that adds rows

Rows behind the valid ones are left by a process that was killed; the next one overwrites them.
Vectors of another plane, embedder or version of documents, and files that are torn or damaged, are
discarded and made again. The bytes of `rows.i8` depend on the documents and the embedder alone.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

from memplane import nofollow
from memplane.index import storage
from memplane.lazy import NamedTuple

FOLDER: Final = "dense"  # in that of the index
STATIC: Final = "static"  # beside it: of the static table, for a plane without an embedder
FORMAT: Final = 1
HEADER: Final = "dense.json"
ROWS: Final = "rows.i8"
_TRIES: Final = 4  # a writer may replace the files while they are opened


class Kind(NamedTuple):
    """Whose vectors they are; `variant` names all that decides which documents a log gives."""

    plane: str
    variant: str
    embedder: str
    dimension: int


class VectorHeader(NamedTuple):
    """The rows of the first `documents` count, whose bytes have the sum `crc`.

    The last of them is of event `seq`, of whose place in the log `mark` is the caller's word.
    `erased` is that of the index when rows were last erased with it.
    """

    plane: str
    variant: str
    embedder: str
    dimension: int
    documents: int = 0
    seq: int = 0
    mark: str = ""
    erased: int = 0
    crc: int = 0

    @property
    def kind(self) -> Kind:
        """Whose vectors they are."""
        return Kind(*self[:4])


class Stored(NamedTuple):
    """Rows that count, as many bytes as they have."""

    header: VectorHeader
    rows: memoryview


def vectors_stamp(folder: Path) -> tuple[int, int, int] | None:
    """Return what the header looks like from outside: the same while nothing changed."""
    try:
        found = (folder / HEADER).lstat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def load_vectors(folder: Path, kind: Kind) -> Stored | None:
    """Map the vectors; None where they are missing, of another kind, or damaged."""
    for _ in range(_TRIES):
        header = kept(folder)
        if header is None or header.kind != kind or header.documents < 1:
            return None
        rows = _rows(folder, header)
        if rows is not None:
            return Stored(header, rows)
        if kept(folder) == header:  # else a writer came in between
            return None
    return None


def cleared(rows: memoryview, docs: Collection[int], dimension: int) -> bytearray:
    """Return a copy of the rows in which some documents have no vector."""
    left = bytearray(rows)
    for doc in docs:
        if doc * dimension < len(left):
            left[doc * dimension : (doc + 1) * dimension] = bytes(dimension)
    return left


class Adder:
    """The one who may write here, made by `adding`. Raises OSError where the disk refuses."""

    def __init__(self, folder: Path, kind: Kind) -> None:
        self._folder = folder
        stored = load_vectors(folder, kind)
        self.header = VectorHeader(*kind) if stored is None else stored.header

    def restart(self) -> None:
        """Begin again with the first document."""
        self.header = VectorHeader(*self.header.kind)

    def add(self, vectors: Sequence[bytes], seq: int, mark: str) -> None:
        """Append the vectors of the next documents, the last of which is of event `seq`.

        What was added is durable.
        """
        data = b"".join(vectors)
        assert len(data) == len(vectors) * self.header.dimension
        path, count = self._folder / ROWS, self.header.documents
        if count:
            nofollow.separate(path)
            descriptor = nofollow.open_file(path, os.O_WRONLY)
            with open(descriptor, "wb") as file:  # noqa: PTH123 - opened without cutting it
                file.seek(count * self.header.dimension)
                file.write(data)
                file.truncate()
                file.flush()
                os.fsync(descriptor)
        else:
            storage.replace_bytes(path, data, sync=True)
        self._put(
            self.header._replace(
                documents=count + len(vectors),
                seq=seq,
                mark=mark,
                crc=zlib.crc32(data, self.header.crc),
            )
        )

    def erase(self, docs: Collection[int], erased: int) -> None:
        """Leave these documents without a vector; `erased` is that of their index now."""
        rows = _rows(self._folder, self.header) if self.header.documents else None
        if rows is None:
            self.restart()
            self.header = self.header._replace(erased=erased)
            return
        left = cleared(rows, docs, self.header.dimension)
        storage.replace_bytes(self._folder / ROWS, bytes(left), sync=True)
        self._put(self.header._replace(erased=erased, crc=zlib.crc32(left)))

    def _put(self, header: VectorHeader) -> None:
        fields = {"format": FORMAT} | header._asdict()
        storage.replace_bytes(self._folder / HEADER, storage.signed(fields))
        self.header = header


@contextlib.contextmanager
def adding(folder: Path, kind: Kind) -> Iterator[Adder | None]:
    """Hold the folder while rows are added; None where another does, or it cannot be written."""
    with contextlib.suppress(OSError):
        nofollow.make_folder(folder.parent)
    with storage.alone(folder) as held:
        yield Adder(folder, kind) if held else None


def erase_vectors(folder: Path, docs: Collection[int], erased: int) -> None:
    """Blank the vectors of documents that were erased from the index, of any embedder.

    Where that cannot be done, the number of erased events in the header lets the next reader drop
    them.
    """
    header = kept(folder)
    if header is None:
        return
    with adding(folder, header.kind) as adder, contextlib.suppress(OSError):
        if adder is not None and adder.header.documents:
            adder.erase(docs, erased)


def kept(folder: Path) -> VectorHeader | None:
    """What is said of the rows that are kept there; whether they are whole, `load` finds out."""
    fields = storage.signed_fields(folder / HEADER)
    if fields is None or fields.pop("format", None) != FORMAT:
        return None
    try:
        return VectorHeader(**fields)  # type: ignore[arg-type]
    except TypeError:
        return None


def _rows(folder: Path, header: VectorHeader) -> memoryview | None:
    """Map the rows that count; None where they are not what was written."""
    size = header.documents * header.dimension
    try:
        with nofollow.open_regular(folder / ROWS) as file:
            rows = memoryview(nofollow.map_file(file))[:size]
    except (OSError, ValueError):
        return None
    return rows if len(rows) == size and zlib.crc32(rows) == header.crc else None
