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
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from memplane import nofollow
from memplane.index.folder import alone, replace
from memplane.ports import Head
from memplane.projections.projector import canonical

__all__ = ["FILE_BYTES_MAX", "Checkpoint", "alone", "parse", "read", "render", "replace"]

FILE_BYTES_MAX: Final = 4 * 1024 * 1024  # eight times what a projector may hold: more is not ours
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


def _sum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:_DIGITS].encode("ascii")
