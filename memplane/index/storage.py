"""Files of the index: their byte layout, their folders, and which ones count.

A folder holds segments::

    manifest.json   the segments in order with the sums of their bodies, the open one, the place in
                    the log; decides what counts. The last file written
    seg-<level>-<number>.bin    the segments of a level from that number on that wait to be merged,
                    one behind the other; see `SHARED`
    open.bin        the open segment
    stamps.json     size, time and inode of files whose sum was checked: opened again, they are
                    believed while these stay
    .lock           held while anything is written; whoever finds it held does not write

Segments have four levels of size (`CAPACITIES`); full ones are merged into the next level, as in a
log-structured merge tree (O'Neil et al. 1996). Nothing here raises for a file that is missing,
torn, foreign or older: it does not count, and what it held is built again from the log.

The vectors of the documents lie in a folder of their own below it, where row n is document n's::

    dense.json      plane and embedder, the number of valid rows and the checksum of their bytes;
                    written last, and replaced in one step
    rows.i8         signed bytes, row behind row. Rows are added at its end; where old ones change,
                    the file is replaced, so that a reader that has it mapped keeps its version
    .lock           held by the one process that adds rows

Rows behind the valid ones are left by a process that was killed; the next one overwrites them.
Vectors of another plane, embedder or version of documents, and files that are torn or damaged, are
discarded and made again. The bytes of `rows.i8` depend on the documents and the embedder alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import json
import mmap
import os
import struct
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from memplane import nofollow
from memplane.errors import PlaneError, StrangeFileError, WriteError
from memplane.index.terms import ANALYSER
from memplane.lazy import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


Buffer: TypeAlias = bytes | memoryview | mmap.mmap
Stamps = dict[str, list[int | str]]
Mapped: TypeAlias = "tuple[SegmentFileHeader, memoryview]"

FORMAT: Final = 5
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
    ("traits", "I"),  # bits that the text has: see `segment`
    ("tokens", "H"),
    ("importance", "H"),
    ("flags", "H"),
    ("part", "H"),
    ("role", "B"),  # place in terms.ROLES
)
WIDTH: Final = {"B": 1, "H": 2, "I": 4, "Q": 8, "q": 8}

OPEN: Final = "open.bin"
_MANIFEST: Final = "manifest.json"
_STAMPS: Final = "stamps.json"
_TRIES: Final = 4  # a writer may replace the files while they are opened
_BYTES_MAX: Final = 4 * 1024 * 1024

DENSE_FOLDER: Final = "dense"  # in that of the index
STATIC_FOLDER: Final = "static"  # beside it: of the static table, for a plane without an embedder
VECTORS_FORMAT: Final = 1
VECTORS_HEADER: Final = "dense.json"
VECTORS_ROWS: Final = "rows.i8"


class SegmentFileHeader(NamedTuple):
    """The facts that decide where each array of a segment begins."""

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


class FileSection(NamedTuple):
    """An array in the file: its name, offset, type code and number of items."""

    name: str
    offset: int
    code: str
    length: int


def sections(header: SegmentFileHeader) -> tuple[dict[str, FileSection], int]:
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
    found: dict[str, FileSection] = {}
    offset = HEADER_BYTES
    for name, code, count in shapes:
        found[name] = FileSection(name, offset, code, count)
        offset += (count * WIDTH[code] + 7) // 8 * 8
    return found, offset


def body_sum(data: Buffer) -> bytes:
    """Return the sum that a header keeps of a body."""
    return hashlib.sha256(data).digest()[:_SUM_BYTES]


def fingerprint(plane: str, variant: str) -> int:
    """Return a number of the plane and all else that its terms depend on."""
    data = f"{plane}\n{variant}\n{ANALYSER}".encode()
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "little")


def encode_header(header: SegmentFileHeader) -> bytes:
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
    return (data + body_sum(data)).ljust(HEADER_BYTES, b"\0")


def parse_header(data: bytes | memoryview, size: int) -> SegmentFileHeader | None:
    """Return the header of a segment that lies at the beginning of `size` bytes.

    None where it is of another format or damaged, or names more bytes than there are.
    """
    head = bytes(data[:HEADER_BYTES])
    fields = head[: _FIELDS.size]
    if len(head) < HEADER_BYTES or head[_FIELDS.size :][:_SUM_BYTES] != body_sum(fields):
        return None
    magic, form, level, number, mark, documents, kept, text_bytes, *rest = _FIELDS.unpack(fields)
    if magic != _MAGIC or form != FORMAT or level >= LEVELS:
        return None
    terms, postings, *totals, body = rest
    header = SegmentFileHeader(
        level, number, mark, documents, text_bytes, terms, postings, tuple(totals), kept, body
    )
    return header if sections(header)[1] <= size else None


def is_whole(data: Buffer, header: SegmentFileHeader) -> bool:
    """Whether the body has the sum of the header."""
    return body_sum(memoryview(data)[HEADER_BYTES:]) == header.body


def replace_bytes(path: Path, data: bytes | memoryview, *, sync: bool = False) -> None:
    """Replace the file by the bytes in one step; after an OSError the old file is whole.

    Only for the holder of `alone`: the temporary file has one name.
    """
    draft = path.with_name(f"{path.name}.tmp")
    try:
        descriptor = nofollow.create_draft(draft)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(data)
            if sync:
                file.flush()
                os.fsync(descriptor)
        rename_over(draft, path)
    except OSError:
        with contextlib.suppress(OSError):
            nofollow.remove_name(draft)
        raise


def rename_over(draft: Path, path: Path) -> None:
    """Rename a file over another; a folder that is in the way is moved aside, not removed."""
    try:
        nofollow.rename_name(draft, path)
    except IsADirectoryError:
        aside = (path.with_name(f"{path.name}.aside{n}") for n in itertools.count())
        nofollow.rename_name(path, next(one for one in aside if not os.path.lexists(one)))
        nofollow.rename_name(draft, path)


def remove_index_file(path: Path) -> None:
    """Remove a file, or raise WriteError; a folder of that name stays."""
    try:
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            nofollow.remove_name(path)
    except OSError as error:
        raise WriteError(f"{path}: {error.strerror}; try again") from error


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[bool]:
    """Hold the folder's lock while the block runs, without waiting for it.

    Gives False when another thread or process holds it, or where the folder cannot be written (a
    read-only home): then the block must not write.
    """
    try:
        os.close(nofollow.enter(folder.parent, folder.parent))  # a plane is not made by its caches
        nofollow.make_folder(folder)
        descriptor = _lock_of(folder / ".lock")
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            held = False
        else:
            held = True
            # Of a lock that a backup shares (hard links) nothing is written. A full disk: nobody
            # learns who holds it.
            with contextlib.suppress(OSError):
                if os.fstat(descriptor).st_nlink == 1:
                    os.pwrite(descriptor, b"%-20d\n" % os.getpid(), 0)
        yield held
    finally:
        # A child that was forked meanwhile has the file too, and would go on holding the lock.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def holder(folder: Path) -> int | None:
    """The process that held the folder's lock last; None if unknown."""
    with contextlib.suppress(OSError, ValueError):
        return int(nofollow.read_bytes(folder / ".lock", 20))
    return None


class ManifestEntry(NamedTuple):
    """A segment in the manifest. `level` -1: the open one."""

    level: int
    number: int
    documents: int
    body: str  # hex of the header's sum

    @property
    def name(self) -> str:
        """The name of its file, which it shares with others of its level."""
        return name_of(self.level, self.number)


def name_of(level: int, number: int) -> str:
    """Return the name of the file for a segment."""
    if level < 0:
        return OPEN
    return f"seg-{level}-{number - number % SHARED[level]}.bin"


class Manifest(NamedTuple):
    """The segments in use and the log position up to which they go (`mark`: by the caller)."""

    plane: str
    variant: str
    seq: int = 0
    mark: str = ""
    erased: int = 0  # documents' events erased so far: never falls
    segments: tuple[ManifestEntry, ...] = ()  # in order, the open one last


class Loaded(NamedTuple):
    """The segments up to the first that is missing or harmed.

    `summed`: some of them had no stamp, as in a copy of the folder, and were read for their sums.
    """

    manifest: Manifest
    segments: tuple[Mapped, ...]
    stamps: Stamps
    summed: bool = False

    @property
    def complete(self) -> bool:
        """Whether every segment of the manifest was there."""
        return len(self.segments) == len(self.manifest.segments)


def signed(fields: Mapping[str, object]) -> bytes:
    """The bytes of a JSON file whose second line is the SHA-256 of its first, in hex."""
    body = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return f"{body}\n{hashlib.sha256(body.encode()).hexdigest()}\n".encode()


def signed_fields(path: Path) -> dict[str, object] | None:
    """The object that `signed` wrote; None where the file is unreadable or changed."""
    try:
        body, _, rest = nofollow.read_bytes(path, _BYTES_MAX).partition(b"\n")
        if rest.strip() != hashlib.sha256(body).hexdigest().encode():
            return None
        fields = json.loads(body)
    except (OSError, ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def read_manifest(folder: Path, plane: str, variant: str) -> Manifest | None:
    """Return the manifest; None where there is none of this plane and variant."""
    fields = signed_fields(folder / _MANIFEST)
    if fields is None or fields.pop("format", None) != FORMAT:
        return None
    if fields.pop("analyser", ANALYSER) != ANALYSER:
        return None
    try:
        rows = fields.pop("segments")
        manifest = Manifest(**fields, segments=tuple(ManifestEntry(*row) for row in rows))  # type: ignore[arg-type, attr-defined]
    except (TypeError, LookupError):
        return None
    good = manifest[:2] == (plane, variant) and all(map(_is_entry, manifest.segments))
    return manifest if good else None


def is_outdated(folder: Path, plane: str, versions: Callable[[str], str], variant: str) -> bool:
    """Whether another version of memplane made this plane's index, so that it is made again.

    `versions` gives the part of a variant that a version decides, and not a policy.
    """
    fields = signed_fields(folder / _MANIFEST)
    if fields is None or fields.get("plane") != plane:
        return False
    made = (fields.get("format"), fields.get("analyser", ANALYSER))
    return made != (FORMAT, ANALYSER) or versions(str(fields.get("variant"))) != versions(variant)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest: its segments are in use from now on."""
    fields = manifest._asdict() | {"segments": [list(entry) for entry in manifest.segments]}
    replace_bytes(folder / _MANIFEST, signed({"format": FORMAT, "analyser": ANALYSER} | fields))


def read_stamps(folder: Path) -> Stamps:
    """Return size and time of the files whose sums were verified."""
    fields = signed_fields(folder / _STAMPS) or {}
    return {name: value for name, value in fields.items() if isinstance(value, list)}


def write_stamps(folder: Path, stamps: Stamps) -> None:
    """Save size and time of the files whose sums were verified."""
    replace_bytes(folder / _STAMPS, signed(dict(sorted(stamps.items()))))


def keep_stamps(folder: Path, loaded: Loaded) -> None:
    """Save size and time of the files whose sums `load` computed, so that it need not again.

    Skipped where another process writes or the disk refuses.
    """
    if not loaded.summed:
        return
    manifest = loaded.manifest
    with alone(folder) as held, contextlib.suppress(OSError):
        if held and read_manifest(folder, manifest.plane, manifest.variant) == manifest:
            names = {one.name for one in manifest.segments[: len(loaded.segments)]}
            known = loaded.stamps
            write_stamps(folder, {name: known[name] for name in names if name in known})


def files_of(entries: Sequence[ManifestEntry]) -> list[tuple[str, list[ManifestEntry]]]:
    """Return the files of the segments in order, and which lie in each."""
    return [(name, list(own)) for name, own in groupby(entries, key=attrgetter("name"))]


def segments_stamp(folder: Path, entries: Sequence[ManifestEntry]) -> list[int | str]:
    """Return name, size and time of the file of these segments; empty where it is missing."""
    try:
        found = (folder / entries[0].name).lstat()
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns, found.st_ino, *(one.body for one in entries)]


def map_segments(
    folder: Path, entries: Sequence[ManifestEntry], mark: int, stamps: Stamps
) -> list[Mapped]:
    """Map the file of these segments; give them up to the first that is missing or harmed."""
    name = entries[0].name
    try:
        with nofollow.open_regular(folder / name) as file:
            whole = memoryview(nofollow.map_file(file))
    except (OSError, ValueError):
        return []
    # A stamp is trusted only with the sums it was taken with. The open segment is small and not
    # synced: its sum is always checked.
    seen = segments_stamp(folder, entries)
    believed = entries[0].level >= 0 and stamps.get(name) == seen
    found: list[Mapped] = []
    at = 0
    for entry in entries:
        header = _header(whole[at:], mark)
        if header is None or _facts(header) != (max(entry.level, 0), *entry[1:]):
            break
        end = at + sections(header)[1]
        if not believed and not is_whole(whole[at:end], header):
            break
        found.append((header, whole[at:end]))
        at = end
    if not believed:
        release_pages([whole])
    if len(found) < len(entries) or not _may_follow(whole[at:], entries[-1], mark):
        stamps.pop(name, None)
        return found[:-1] if len(found) == len(entries) else found
    stamps[name] = seen
    return found


def changed_file(error: Exception) -> PlaneError:
    """What is raised where bytes of a file say that it was changed since its sum was checked."""
    return PlaneError(
        f"files of the index do not hold together ({error}); make it again: memplane rebuild"
    )


def stored_text(data: bytes) -> str:
    """Return a text from its bytes in a segment. Raises PlaneError where they are no text."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise changed_file(error) from error


def release_pages(segments: Iterable[memoryview]) -> None:
    """Give back the memory in which mapped segments lie; they are read again where they are used.

    The system maps some 16 pages around each that is read: scattered terms make a whole segment
    resident. To map the pages of 64 KB again costs about a microsecond.
    """
    for mapping in {id(data.obj): data.obj for data in segments}.values():
        if isinstance(mapping, mmap.mmap):
            with contextlib.suppress(OSError, AttributeError):  # not every system can
                mapping.madvise(mmap.MADV_DONTNEED)


def load_segments(folder: Path, plane: str, variant: str) -> Loaded:
    """Map the segments of the manifest, up to the first missing or harmed one."""
    mark = fingerprint(plane, variant)
    loaded = Loaded(Manifest(plane, variant), (), {})
    for _ in range(_TRIES):
        manifest = read_manifest(folder, plane, variant)
        if manifest is None:
            return Loaded(Manifest(plane, variant), (), {})
        known = read_stamps(folder)
        before = dict(known)
        segments: list[Mapped] = []
        files = files_of(manifest.segments)
        for _, entries in files:
            found = map_segments(folder, entries, mark, known)
            segments += found
            if len(found) < len(entries):
                break
        summed = any(known.get(name) != before.get(name) for name, _ in files if name != OPEN)
        loaded = Loaded(manifest, tuple(segments), known, summed)
        # A file that is not the manifest's may be the next manifest's.
        if loaded.complete or read_manifest(folder, plane, variant) == manifest:
            break
    return loaded


def harmed(folder: Path, plane: str, variant: str) -> list[str]:
    """The files in the manifest whose bytes differ from what was written; ignores stamps."""
    manifest = read_manifest(folder, plane, variant)
    if manifest is None:
        return []
    mark = fingerprint(plane, variant)
    found = [
        name
        for name, entries in files_of(manifest.segments)
        if len(map_segments(folder, entries, mark, {})) < len(entries)
    ]
    # Another process may have replaced what the manifest names.
    return found if read_manifest(folder, plane, variant) == manifest else []


def remove_others(folder: Path, manifest: Manifest) -> None:
    """Remove segments that are not in the manifest; processes that mapped them keep them."""
    counted = {entry.name for entry in manifest.segments}
    for name in nofollow.folder_names(folder):
        if ".bin" in name and name not in counted:
            with contextlib.suppress(OSError):
                nofollow.remove_name(folder / name)


class VectorKind(NamedTuple):
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
    def kind(self) -> VectorKind:
        """Whose vectors they are."""
        return VectorKind(*self[:4])


class StoredVectors(NamedTuple):
    """Rows that count, as many bytes as they have."""

    header: VectorHeader
    rows: memoryview


def vectors_stamp(folder: Path) -> tuple[int, int, int] | None:
    """Return what the header looks like from outside: the same while nothing changed."""
    try:
        found = (folder / VECTORS_HEADER).lstat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def load_vectors(folder: Path, kind: VectorKind) -> StoredVectors | None:
    """Map the vectors; None where they are missing, of another kind, or damaged."""
    for _ in range(_TRIES):
        header = vectors_header(folder)
        if header is None or header.kind != kind or header.documents < 1:
            return None
        rows = _rows(folder, header)
        if rows is not None:
            return StoredVectors(header, rows)
        if vectors_header(folder) == header:  # else a writer came in between
            return None
    return None


def cleared_rows(rows: memoryview, docs: Collection[int], dimension: int) -> bytearray:
    """Return a copy of the rows in which some documents have no vector."""
    left = bytearray(rows)
    for doc in docs:
        if doc * dimension < len(left):
            left[doc * dimension : (doc + 1) * dimension] = bytes(dimension)
    return left


class VectorAdder:
    """The one who may write here, made by `adding`. Raises OSError where the disk refuses."""

    def __init__(self, folder: Path, kind: VectorKind) -> None:
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
        path, count = self._folder / VECTORS_ROWS, self.header.documents
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
            replace_bytes(path, data, sync=True)
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
        left = cleared_rows(rows, docs, self.header.dimension)
        replace_bytes(self._folder / VECTORS_ROWS, bytes(left), sync=True)
        self._put(self.header._replace(erased=erased, crc=zlib.crc32(left)))

    def _put(self, header: VectorHeader) -> None:
        fields = {"format": VECTORS_FORMAT} | header._asdict()
        replace_bytes(self._folder / VECTORS_HEADER, signed(fields))
        self.header = header


@contextlib.contextmanager
def adding_vectors(folder: Path, kind: VectorKind) -> Iterator[VectorAdder | None]:
    """Hold the folder while rows are added; None where another does, or it cannot be written."""
    with contextlib.suppress(OSError):
        nofollow.make_folder(folder.parent)
    with alone(folder) as held:
        yield VectorAdder(folder, kind) if held else None


def erase_vectors(folder: Path, docs: Collection[int], erased: int) -> None:
    """Blank the vectors of documents that were erased from the index, of any embedder.

    Where that cannot be done, the number of erased events in the header lets the next reader drop
    them.
    """
    header = vectors_header(folder)
    if header is None:
        return
    with adding_vectors(folder, header.kind) as adder, contextlib.suppress(OSError):
        if adder is not None and adder.header.documents:
            adder.erase(docs, erased)


def vectors_header(folder: Path) -> VectorHeader | None:
    """What is said of the rows that are kept there; whether they are whole, `load` finds out."""
    fields = signed_fields(folder / VECTORS_HEADER)
    if fields is None or fields.pop("format", None) != VECTORS_FORMAT:
        return None
    try:
        return VectorHeader(**fields)  # type: ignore[arg-type]
    except TypeError:
        return None


def _lock_of(path: Path) -> int:
    """Open the lock; a link or pipe in its place is removed: nothing of ours is lost with it."""
    flags = os.O_RDWR | os.O_CREAT
    try:
        return nofollow.open_file(path, flags)
    except StrangeFileError:
        nofollow.remove_name(path)
        return nofollow.open_file(path, flags)


def _is_entry(entry: ManifestEntry) -> bool:
    numbers = type(entry.level) is int and type(entry.number) is int and entry.number >= 0
    return numbers and -1 <= entry.level < LEVELS


def _header(data: memoryview, mark: int) -> SegmentFileHeader | None:
    header = parse_header(data[:HEADER_BYTES], len(data))
    return header if header is not None and header.fingerprint == mark else None


def _facts(header: SegmentFileHeader) -> tuple[int, int, int, str]:
    return header.level, header.number, header.documents, header.body.hex()


def _may_follow(data: memoryview, entry: ManifestEntry, mark: int) -> bool:
    """Whether there are no bytes behind a segment, or those of the next one.

    They are there where a writer was stopped before it wrote the manifest.
    """
    header = _header(data, mark) if len(data) else None
    return not len(data) or (
        header is not None and (header.level, header.number) == (entry.level, entry.number + 1)
    )


def _rows(folder: Path, header: VectorHeader) -> memoryview | None:
    """Map the rows that count; None where they are not what was written."""
    size = header.documents * header.dimension
    try:
        with nofollow.open_regular(folder / VECTORS_ROWS) as file:
            rows = memoryview(nofollow.map_file(file))[:size]
    except (OSError, ValueError):
        return None
    return rows if len(rows) == size and zlib.crc32(rows) == header.crc else None
