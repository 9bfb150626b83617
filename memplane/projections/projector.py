"""The projector: a named, versioned fold over the log, and the file of its checkpoint.

The law that every projector keeps: fold the log in any number of pieces, dumping
and loading the state between them, and the bytes of the last dump are the same.
So a checkpoint and the lines behind it always equal a rebuild.

The checkpoint file of a bounded projection, `projections/<name>.json`.

One JSON object in UTF-8, its fields always in this order, no spaces, and a newline
behind it::

    {"projector":"decisions","version":1,"plane":"01J…","variant":"","segment":2,
     "offset":81920,"seq":412,"h":"9f86d081884c7d65","state":{…},"checksum":"<32 hex>"}

    projector, version   the fold that made the state; another version is discarded
    plane                the id of the plane, so that a copied file is not believed
    variant              what else the state depends on (the name of a counter); "" for nothing
    segment, offset      the byte behind the last folded line
    seq, h               that line's number and chain hash: the log must still hold h there
    active               in hotset.json: ids of the active tasks and of the decisions in force as
                         of that line, for people who open the file; the reader ignores them
    state                what the projector dumped
    checksum             first 32 hex of SHA-256 over the bytes before `,"checksum":`

A string never holds `,"state":` (its quotes would be escaped), so the header can be
read without parsing the state. The file is replaced by rename, mode 0600, and never
synced: it is a cache, and a torn, zeroed, foreign, stale or too new one is recognised by the
checksum and by the log, dropped silently, and rebuilt. `projections/.lock` is held
while anything below `projections/` is written; a process that finds it held skips the write.

`projections/checkpoints.bin` holds copies of those that a pack needs beside hotset.json: a line
of JSON, `{"plane":"01J…","files":{"cards.json":[<bytes>,<time in ns>],…}}`, and behind it the
bytes of these files in this order. A copy stands for its file while that has this size and time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from memplane import nofollow
from memplane.index.storage import alone, replace_bytes
from memplane.ports import Line, Position

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = [
    "BUNDLE",
    "FILE_BYTES_MAX",
    "Bundle",
    "Checkpoint",
    "Projector",
    "Replayable",
    "State",
    "Stretch",
    "alone",
    "canonical",
    "encode_checkpoint",
    "fold",
    "parse_checkpoint",
    "read_checkpoint",
    "replace_bytes",
]


State = TypeVar("State")
_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_USUAL: Final = frozenset(("message", "tool_call", "tool_result"))  # nine of ten events


class Projector(Protocol[State]):
    """A named fold: the same lines give the same state on any machine.

    Raise `version` whenever `apply` or the form of the state changes; checkpoints
    of another version are discarded and the log is replayed. `apply` reads no
    clock, no file and no environment, and never raises for what a line says.
    One with a frozenset `kinds_read` does nothing for events without a key of other kinds.
    """

    name: str
    version: int

    def initial(self) -> State:
        """Return the state before the first line."""
        ...

    def apply(self, state: State, line: Line) -> None:
        """Fold one line into the state, in place. Lines come once each, in log order."""
        ...

    def dump(self, state: State) -> bytes:
        """Return the state as canonical JSON: the same state, the same bytes."""
        ...

    def load(self, data: bytes) -> State:
        """Return the state that was dumped; other bytes: ValueError, TypeError or LookupError."""
        ...


class Replayable(Protocol):
    """What a fold needs of a log: to read on from a place, and to know it is still the same."""

    def head(self) -> Position:
        """Where the log ends now; opens no file when nothing was appended."""
        ...

    def matches(self, position: Position) -> bool:
        """Whether the log still holds this hash right before this byte of this segment."""
        ...

    def read(self, after: int = 0, upto: int | None = None) -> Iterator[Line]:
        """Yield the verified lines with after < seq <= upto, in order."""
        ...

    def read_from(self, position: Position) -> Iterator[Line]:
        """Yield the verified lines behind a position that matches."""
        ...


class Stretch(list[Line]):
    """Lines that many projectors fold: those that most of them pass over are told apart once."""

    __slots__ = ("_rare",)

    def __init__(self, lines: Iterator[Line] | Sequence[Line]) -> None:
        super().__init__(lines)
        self._rare: list[Line] | None = None

    @property
    def rare(self) -> list[Line]:
        """Those with a key, and those that are neither a message nor a tool's."""
        if self._rare is None:
            self._rare = [
                line for line in self if line.event.kind not in _USUAL or line.event.key is not None
            ]
        return self._rare


def fold(projector: Projector[State], state: State, lines: Sequence[Line]) -> None:
    """Apply the lines in order; what the projector would do nothing for is not shown to it."""
    apply = projector.apply
    read: frozenset[str] | None = getattr(projector, "kinds_read", None)
    if read is None:
        for line in lines:
            apply(state, line)
        return
    shown = lines.rare if isinstance(lines, Stretch) and read.isdisjoint(_USUAL) else lines
    for line in shown:
        event = line.event
        if event.key is not None or event.kind in read:
            apply(state, line)


def canonical(value: Any) -> bytes:
    """JSON without spaces, in the order given, as UTF-8.

    A lone surrogate survives the way out and back: intake replaces them, but a
    projection must not fail on a log that something else wrote.
    """
    return _ENCODE(value).encode("utf-8", "surrogatepass")


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
    position: Position
    state: bytes

    def same_fold(self, other: Checkpoint) -> bool:
        """Whether both come from the same fold of the same plane, whatever their places."""
        return self[:4] == other[:4]


def encode_checkpoint(
    checkpoint: Checkpoint, active: Mapping[str, list[str]] | None = None
) -> bytes:
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


def parse_checkpoint(data: bytes) -> Checkpoint | None:
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
    return Checkpoint(projector, version, plane, variant, Position(seq, h, segment, offset), state)


def read_checkpoint(path: Path) -> Checkpoint | None:
    """Return the checkpoint in the file; None for a missing, unreadable or harmed one."""
    try:
        data = nofollow.read_bytes(path, FILE_BYTES_MAX + 1)
    except OSError:
        return None
    return parse_checkpoint(data) if len(data) <= FILE_BYTES_MAX else None


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
        copy = parse_checkpoint(known[1]) if known is not None and known[0] == seen else None
        if copy is not None:
            return copy
        self.missed = self.missed or seen is not None
        return read_checkpoint(path)

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
                data = nofollow.read_bytes(folder / name, FILE_BYTES_MAX)
                if len(data) == seen[0]:
                    copies[name] = seen, data
        if copies != (self._copies if self._copies is not None else self._load()):
            header = {
                "plane": self._plane,
                "files": {name: seen for name, (seen, _) in copies.items()},
            }
            every = (data for _, data in copies.values())
            replace_bytes(folder / BUNDLE, b"".join((canonical(header), b"\n", *every)))
        self._copies, self.missed = copies, False

    def _load(self) -> dict[str, tuple[list[int], bytes]]:
        found: dict[str, tuple[list[int], bytes]] = {}
        try:
            if self._folder is None:
                return found
            data = nofollow.read_bytes(self._folder / BUNDLE, FILE_BYTES_MAX)
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
