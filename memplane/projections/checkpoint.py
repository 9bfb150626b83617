"""The checkpoint file of a bounded projection, `projections/<name>.json`.

One JSON object in UTF-8, its fields always in this order, no spaces, and a newline
behind it::

    {"projector":"decisions","version":1,"plane":"01J…","variant":"","segment":2,
     "offset":81920,"seq":412,"h":"9f86d081884c7d65","state":{…},"checksum":"<32 hex>"}

    projector, version   the fold that made the state; another version is discarded
    plane                the id of the plane, so that a copied file is not believed
    variant              what else the state depends on (the name of a counter); "" for nothing
    segment, offset      the byte behind the last folded line
    seq, h               that line's number and chain hash: the log must still hold h there
    active               in hotset.json: ids of the active tasks and of the decisions in force as of
                         that line, for who looks into the file; what reads it passes over them
    state                what the projector dumped
    checksum             first 32 hex of SHA-256 over the bytes before `,"checksum":`

A string never holds `,"state":` (its quotes would be escaped), so the header can be
read without parsing the state. The file is replaced by rename, mode 0600, and never
synced: it is a cache, and a torn, zeroed, foreign, stale or too new one is told by the
checksum and by the log, dropped without a word, and rebuilt. `projections/.lock` is held
while anything below `projections/` is written; whoever finds it held skips the write.

`projections/checkpoints.bin` holds copies of those that a pack needs beside hotset.json: a line of
JSON, `{"plane":"01J…","files":{"cards.json":[<bytes>,<time in ns>],…}}`, and behind it the bytes of
these files in this order. A copy stands for its file while that has this size and time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from memplane import nofollow
from memplane.index.folder import alone, replace
from memplane.ports import Head
from memplane.projections.projector import canonical

__all__ = [
    "BUNDLE",
    "FILE_BYTES_MAX",
    "Bundle",
    "Checkpoint",
    "alone",
    "parse",
    "read",
    "render",
    "replace",
]

FILE_BYTES_MAX: Final = 4 * 1024 * 1024  # eight times what a projector may hold: more is not ours
BUNDLE: Final = "checkpoints.bin"
_STATE: Final = b',"state":'
_CHECKSUM: Final = b',"checksum":"'
_DIGITS: Final = 32
_TAIL_BYTES: Final = len(_CHECKSUM) + _DIGITS + len(b'"}\n')


class Checkpoint(NamedTuple):
    """A dumped state and the place in the log that it stands for."""

    projector: str
    version: int
    plane: str
    variant: str
    position: Head
    state: bytes

    def same_fold(self, other: Checkpoint) -> bool:
        """Whether both come from the same fold of the same plane, whatever their places."""
        return self[:4] == other[:4]


def render(checkpoint: Checkpoint, active: Mapping[str, list[str]] | None = None) -> bytes:
    """Return the bytes of the file; `active`: ids that it names beside the state."""
    position = checkpoint.position
    header: dict[str, Any] = {
        "projector": checkpoint.projector,
        "version": checkpoint.version,
        "plane": checkpoint.plane,
        "variant": checkpoint.variant,
        "segment": position.segment,
        "offset": position.offset,
        "seq": position.seq,
        "h": position.h,
    }
    if active is not None:
        header["active"] = active
    body = canonical(header)[:-1] + _STATE + checkpoint.state
    return body + _CHECKSUM + _sum(body) + b'"}\n'


def parse(data: bytes) -> Checkpoint | None:
    """Return what the bytes of a file say; None when they are not a whole, unharmed checkpoint."""
    body, tail = data[:-_TAIL_BYTES], data[-_TAIL_BYTES:]
    if tail != _CHECKSUM + _sum(body) + b'"}\n':
        return None
    header, found, state = body.partition(_STATE)
    if not found:
        return None
    try:
        fields = json.loads(header + b"}")
        texts = [fields[name] for name in ("projector", "plane", "variant", "h")]
        numbers = [fields[name] for name in ("version", "seq", "segment", "offset")]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    if not all(type(text) is str for text in texts) or not all(type(n) is int for n in numbers):
        return None
    projector, plane, variant, h = texts
    version, seq, segment, offset = numbers
    return Checkpoint(projector, version, plane, variant, Head(seq, h, segment, offset), state)


def read(path: Path) -> Checkpoint | None:
    """Return the checkpoint in the file; None for a missing, unreadable or harmed one."""
    try:
        data = nofollow.read(path, FILE_BYTES_MAX + 1)
    except OSError:
        return None
    return parse(data) if len(data) <= FILE_BYTES_MAX else None


class Bundle:
    """Copies of small checkpoints in one file: who lives for one answer opens that alone.

    `folder` None: there is none. `missed` says whether a file had to be opened for what its copy
    does not say, or no longer.
    """

    def __init__(self, folder: Path | None, plane: str, names: Sequence[str]) -> None:
        self._folder, self._plane, self._names = folder, plane, names
        self._copies: dict[str, tuple[list[int], bytes]] | None = None
        self.missed = False

    def read(self, path: Path) -> Checkpoint | None:
        """As the function `read`, by the copy where the file has not changed since."""
        if self._copies is None:
            self._copies = self._load()
        seen = _signature(path)
        known = self._copies.get(path.name)
        copy = parse(known[1]) if known is not None and known[0] == seen else None
        if copy is not None:
            return copy
        self.missed = self.missed or seen is not None
        return read(path)

    def keep(self) -> None:
        """Copy the files as they are; nothing where another writes or the disk refuses."""
        if self._folder is None:
            return
        with alone(self._folder) as held, contextlib.suppress(OSError):
            if held:
                self._write(self._folder)

    def _write(self, folder: Path) -> None:
        copies: dict[str, tuple[list[int], bytes]] = {}
        for name in self._names:
            seen = _signature(folder / name)
            if seen is not None and seen[0] <= FILE_BYTES_MAX:
                data = nofollow.read(folder / name, FILE_BYTES_MAX)
                if len(data) == seen[0]:
                    copies[name] = seen, data
        if copies != (self._copies if self._copies is not None else self._load()):
            header = {
                "plane": self._plane,
                "files": {name: seen for name, (seen, _) in copies.items()},
            }
            every = (data for _, data in copies.values())
            replace(folder / BUNDLE, b"".join((canonical(header), b"\n", *every)))
        self._copies, self.missed = copies, False

    def _load(self) -> dict[str, tuple[list[int], bytes]]:
        found: dict[str, tuple[list[int], bytes]] = {}
        try:
            if self._folder is None:
                return found
            data = nofollow.read(self._folder / BUNDLE, FILE_BYTES_MAX)
            at = data.index(b"\n") + 1
            said = json.loads(data[:at])
            if said["plane"] != self._plane:
                return found
            for name, (size, time) in said["files"].items():
                found[name] = [size, time], data[at : at + size]
                at += size
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
            return {}  # as if there were none: each file is opened
        return found


def _signature(path: Path) -> list[int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return [found.st_size, found.st_mtime_ns]


def _sum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:_DIGITS].encode("ascii")
