"""The folder of an index: which files count, whether they are whole, and who writes.

::

    manifest.json   the segments in order with the sums of their bodies, the open one, the
                    place in the log; decides what counts. The last file written
    seg-*.bin, open.bin    see `layout`
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
import mmap
from collections.abc import Mapping
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
    "harmed",
    "keep_stamps",
    "load",
    "remove_others",
    "replace",
]

FORMAT: Final = 2
OPEN: Final = "open.bin"
_MANIFEST: Final = "manifest.json"
_STAMPS: Final = "stamps.json"
_TRIES: Final = 4  # a writer may replace the files while they are opened
_BYTES_MAX: Final = 4 * 1024 * 1024

Stamps = dict[str, list[int | str]]


class Entry(NamedTuple):
    """A segment that counts. `level` -1: the open one."""

    level: int
    number: int
    documents: int
    body: str  # hex of the header's sum

    @property
    def name(self) -> str:
        """The name of the file."""
        return OPEN if self.level < 0 else f"seg-{self.level}-{self.number}.bin"


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
    files: tuple[tuple[layout.Header, mmap.mmap], ...]
    stamps: Stamps
    summed: bool = False

    @property
    def complete(self) -> bool:
        """Whether every segment of the manifest was there."""
        return len(self.files) == len(self.manifest.segments)


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
    return manifest if manifest[:2] == (plane, variant) else None


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
            entries = manifest.segments[: len(loaded.files)]
            write_stamps(folder, {one.name: loaded.stamps[one.name] for one in entries})


def stamp(folder: Path, entry: Entry) -> list[int | str]:
    """Return what a file looks like from outside; empty where there is none."""
    try:
        found = (folder / entry.name).lstat()
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns, found.st_ino, entry.body]


def map_entry(
    folder: Path, entry: Entry, mark: int, stamps: Stamps
) -> tuple[layout.Header, mmap.mmap] | None:
    """Map the file of an entry; None where it is missing, harmed or another one."""
    try:
        with nofollow.opened(folder / entry.name) as file:
            data = nofollow.map_file(file)
    except (OSError, ValueError):
        return None
    header = layout.parse(data[: layout.HEADER_BYTES], len(data))
    level = max(entry.level, 0)
    if (
        header is None
        or header.fingerprint != mark
        or (header.level, header.number) != (level, entry.number)
        or (header.documents, header.body.hex()) != (entry.documents, entry.body)
    ):
        return None
    # A stamp is trusted only with the sum it was taken with.
    seen = stamp(folder, entry)
    # The open segment is small and not synced: its sum is always checked.
    if entry.level < 0 or stamps.get(entry.name) != seen:
        if not layout.is_whole(data, header):
            return None
        stamps[entry.name] = seen
    return header, data


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
        files: list[tuple[layout.Header, mmap.mmap]] = []
        for entry in manifest.segments:
            found = map_entry(folder, entry, mark, known)
            if found is None:
                break
            files.append(found)
        summed = any(
            known.get(entry.name) != before.get(entry.name)
            for entry in manifest.segments
            if entry.level >= 0
        )
        loaded = Loaded(manifest, tuple(files), known, summed)
        # A file that is not the manifest's may be the next manifest's.
        if loaded.complete or read_manifest(folder, plane, variant) == manifest:
            break
    return loaded


def harmed(folder: Path, plane: str, variant: str) -> list[str]:
    """The segments that count and are not what was written, whatever their stamps say."""
    manifest = read_manifest(folder, plane, variant)
    if manifest is None:
        return []
    mark = layout.fingerprint(plane, variant)
    found = [entry.name for entry in manifest.segments if not map_entry(folder, entry, mark, {})]
    # Another process may have replaced what the manifest names.
    return found if read_manifest(folder, plane, variant) == manifest else []


def remove_others(folder: Path, manifest: Manifest) -> None:
    """Remove segments that no longer count; whoever has one mapped keeps it."""
    counted = {entry.name for entry in manifest.segments}
    for name in nofollow.names(folder):
        if ".bin" in name and name not in counted:
            with contextlib.suppress(OSError):
                nofollow.remove(folder / name)
