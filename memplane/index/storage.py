"""The folder of an index: which files count, whether they are whole, and who writes.

::

    manifest.json   the segments in order with the sums of their bodies, the open one, the
                    place in the log; decides what counts. The last file written
    seg-<level>-<number>.bin    the segments of a level from that number on that wait to be
                    merged, one behind the other; see `layout`
    open.bin        the open segment
    stamps.json     size, time and inode of files whose sum was checked: opened again, they
                    are believed while these stay
    .lock           held while anything is written; whoever finds it held does not write

Nothing here raises for a file that is missing, torn, foreign or older: it does not count,
and what it held is built again from the log.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from memplane import nofollow
from memplane.index import layout
from memplane.index.folder import alone, replace

__all__ = [
    "OPEN",
    "Entry",
    "Loaded",
    "Manifest",
    "Stamps",
    "alone",
    "files_of",
    "harmed",
    "keep_stamps",
    "load",
    "name_of",
    "remove_others",
    "replace",
]

FORMAT: Final = 3
OPEN: Final = "open.bin"
_MANIFEST: Final = "manifest.json"
_STAMPS: Final = "stamps.json"
_TRIES: Final = 4  # a writer may replace the files while they are opened
_BYTES_MAX: Final = 4 * 1024 * 1024

Stamps = dict[str, list[int | str]]
Mapped = tuple[layout.Header, memoryview]


class Entry(NamedTuple):
    """A segment that counts. `level` -1: the open one."""

    level: int
    number: int
    documents: int
    body: str  # hex of the header's sum

    @property
    def name(self) -> str:
        """The name of the file that it lies in, with others of its level."""
        return name_of(self.level, self.number)


def name_of(level: int, number: int) -> str:
    """Return the name of the file for a segment."""
    if level < 0:
        return OPEN
    return f"seg-{level}-{number - number % layout.SHARED[level]}.bin"


class Manifest(NamedTuple):
    """What counts, and how far into the log it reaches. `mark`: the caller's word on the place."""

    plane: str
    variant: str
    seq: int = 0
    mark: str = ""
    erased: int = 0  # documents' events erased so far: never falls
    segments: tuple[Entry, ...] = ()  # in order, the open one last


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
    body = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return f"{body}\n{hashlib.sha256(body.encode()).hexdigest()}\n".encode()


def fields_of(path: Path) -> dict[str, object] | None:
    try:
        body, _, rest = nofollow.read(path, _BYTES_MAX).partition(b"\n")
        if rest.strip() != hashlib.sha256(body).hexdigest().encode():
            return None
        fields = json.loads(body)
    except (OSError, ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def read_manifest(folder: Path, plane: str, variant: str) -> Manifest | None:
    """Return what counts; None where nothing of this plane and variant does."""
    fields = fields_of(folder / _MANIFEST)
    if fields is None or fields.pop("format", None) != FORMAT:
        return None
    try:
        rows = fields.pop("segments")
        manifest = Manifest(**fields, segments=tuple(Entry(*row) for row in rows))  # type: ignore[arg-type, attr-defined]
    except (TypeError, LookupError):
        return None
    good = manifest[:2] == (plane, variant) and all(map(_is_entry, manifest.segments))
    return manifest if good else None


def _is_entry(entry: Entry) -> bool:
    numbers = type(entry.level) is int and type(entry.number) is int and entry.number >= 0
    return numbers and -1 <= entry.level < layout.LEVELS


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Let the segments of the manifest count from now on."""
    fields = manifest._asdict() | {"segments": [list(entry) for entry in manifest.segments]}
    replace(folder / _MANIFEST, signed({"format": FORMAT} | fields))


def read_stamps(folder: Path) -> Stamps:
    """Return the files that were found whole, as they were then."""
    fields = fields_of(folder / _STAMPS) or {}
    return {name: value for name, value in fields.items() if isinstance(value, list)}


def write_stamps(folder: Path, stamps: Stamps) -> None:
    """Remember which files were found whole."""
    replace(folder / _STAMPS, signed(dict(sorted(stamps.items()))))


def keep_stamps(folder: Path, loaded: Loaded) -> None:
    """Remember what `load` had to read for its sum, so that nobody reads it for that again.

    Where another writes, or the disk refuses, the next reader does.
    """
    if not loaded.summed:
        return
    manifest = loaded.manifest
    with alone(folder) as held, contextlib.suppress(OSError):
        if held and read_manifest(folder, manifest.plane, manifest.variant) == manifest:
            names = {one.name for one in manifest.segments[: len(loaded.segments)]}
            known = loaded.stamps
            write_stamps(folder, {name: known[name] for name in names if name in known})


def files_of(entries: Sequence[Entry]) -> list[tuple[str, list[Entry]]]:
    """Return the files of the segments in order, and which lie in each."""
    return [(name, list(own)) for name, own in groupby(entries, key=attrgetter("name"))]


def stamp(folder: Path, entries: Sequence[Entry]) -> list[int | str]:
    """Return what the file of these segments looks like from outside; empty where there is none."""
    try:
        found = (folder / entries[0].name).lstat()
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns, found.st_ino, *(one.body for one in entries)]


def map_file(folder: Path, entries: Sequence[Entry], mark: int, stamps: Stamps) -> list[Mapped]:
    """Map the file of these segments; give them up to the first that is missing or harmed."""
    name = entries[0].name
    try:
        with nofollow.opened(folder / name) as file:
            whole = memoryview(nofollow.map_file(file))
    except (OSError, ValueError):
        return []
    # A stamp is trusted only with the sums it was taken with. The open segment is small and not
    # synced: its sum is always checked.
    seen = stamp(folder, entries)
    believed = entries[0].level >= 0 and stamps.get(name) == seen
    found: list[Mapped] = []
    at = 0
    for entry in entries:
        header = _header(whole[at:], mark)
        if header is None or _facts(header) != (max(entry.level, 0), *entry[1:]):
            break
        end = at + layout.sections(header)[1]
        if not believed and not layout.is_whole(whole[at:end], header):
            break
        found.append((header, whole[at:end]))
        at = end
    if len(found) < len(entries) or not _may_follow(whole[at:], entries[-1], mark):
        stamps.pop(name, None)
        return found[:-1] if len(found) == len(entries) else found
    stamps[name] = seen
    return found


def _header(data: memoryview, mark: int) -> layout.Header | None:
    header = layout.parse(data[: layout.HEADER_BYTES], len(data))
    return header if header is not None and header.fingerprint == mark else None


def _facts(header: layout.Header) -> tuple[int, int, int, str]:
    return header.level, header.number, header.documents, header.body.hex()


def _may_follow(data: memoryview, entry: Entry, mark: int) -> bool:
    """Whether these bytes behind a segment are none, or the segment behind it.

    That is there where a writer was stopped before the manifest.
    """
    header = _header(data, mark) if len(data) else None
    return not len(data) or (
        header is not None and (header.level, header.number) == (entry.level, entry.number + 1)
    )


def load(folder: Path, plane: str, variant: str) -> Loaded:
    """Map the segments that count, up to the first missing or harmed one."""
    mark = layout.fingerprint(plane, variant)
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
            found = map_file(folder, entries, mark, known)
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
    """The files that count and are not what was written, whatever their stamps say."""
    manifest = read_manifest(folder, plane, variant)
    if manifest is None:
        return []
    mark = layout.fingerprint(plane, variant)
    found = [
        name
        for name, entries in files_of(manifest.segments)
        if len(map_file(folder, entries, mark, {})) < len(entries)
    ]
    # Another process may have replaced what the manifest names.
    return found if read_manifest(folder, plane, variant) == manifest else []


def remove_others(folder: Path, manifest: Manifest) -> None:
    """Remove segments that no longer count; whoever has one mapped keeps it."""
    counted = {entry.name for entry in manifest.segments}
    for name in nofollow.names(folder):
        if ".bin" in name and name not in counted:
            with contextlib.suppress(OSError):
                nofollow.remove(folder / name)
