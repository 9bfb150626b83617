"""The projector: a named, versioned fold over the log, its checkpoint file, and catching up.

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
import gc
import hashlib
import json
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from memplane import nofollow
from memplane.errors import LockError
from memplane.index.storage import alone, replace_bytes
from memplane.lazy import NamedTuple, Protocol
from memplane.log.segments import erased_by
from memplane.ports import Line, Position

if TYPE_CHECKING:
    from collections.abc import Mapping

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

    def apply(self, state: State, line: Line) -> None:
        """Fold one line into the state, in place. Lines come once each, in log order."""

    def dump(self, state: State) -> bytes:
        """Return the state as canonical JSON: the same state, the same bytes."""

    def load(self, data: bytes) -> State:
        """Return the state that was dumped; other bytes: ValueError, TypeError or LookupError."""


class Replayable(Protocol):
    """What a fold needs of a log: to read on from a place, and to know it is still the same."""

    def head(self) -> Position:
        """Where the log ends now; opens no file when nothing was appended."""

    def matches(self, position: Position) -> bool:
        """Whether the log still holds this hash right before this byte of this segment."""

    def read(self, after: int = 0, upto: int | None = None) -> Iterator[Line]:
        """Yield the verified lines with after < seq <= upto, in order."""

    def read_from(self, position: Position) -> Iterator[Line]:
        """Yield the verified lines behind a position that matches."""

    def may_be_purged_behind(self, position: Position) -> bool:
        """Whether a purge event may lie behind a position; False where none does, and quickly."""


class Stretch(list[Line]):
    """Lines that many projectors fold: those that most of them pass over are told apart once."""

    __slots__ = ("_rare",)

    def __init__(self, lines: Iterator[Line] | Sequence[Line]) -> None:
        super().__init__(lines)
        self._rare: list[Line] | None = None

    @property
    def rare(self) -> list[Line]:
        """Those with a key or a marker, and those that are neither a message nor a tool's."""
        if self._rare is None:
            self._rare = [
                line
                for line in self
                if line.event.kind not in _USUAL or line.event.key is not None or line.event.markers
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
        if event.key is not None or event.kind in read or event.markers:
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

    def is_whole(self) -> bool:
        """Whether all copies that stand for their files are the same bytes; True without a file."""
        if self._folder is None or not nofollow.is_file(self._folder / BUNDLE):
            return True
        copies = self._load()
        for name, (seen, data) in copies.items():
            path = self._folder / name
            if seen == _signature(path) and data != nofollow.read_bytes(path, FILE_BYTES_MAX):
                return False
        return bool(copies)

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


# Catching up: all projections in one pass over the log, from their checkpoints.

_BATCH: Final = 64
_MANY: Final = 2_000  # lines
_PURGES_AT_ONCE: Final = 100  # each while what is left by the one before is folded


# Lines as a projection is to fold them: what came from another plane too late says nothing.
Arriving = Callable[[Sequence[Line]], Sequence[Line]]


class Follower(Protocol):
    """Something folded up to a position of the log.

    One with a true `leads` folds each stretch before the others: they ask it about those lines.
    """

    @property
    def position(self) -> Position | None:
        """Behind the last folded line; None before the first."""

    def fold(self, lines: Sequence[Line]) -> None:
        """Fold the next lines. One who is interrupted begins again from nothing."""

    def reset(self) -> None:
        """Go back to before the first line."""


def catch_up(log: Replayable, followers: Sequence[Follower]) -> int:
    """Fold what is new into every follower; return the lines read.

    One pass from the follower furthest behind, each line decoded once; the others
    join when it reaches them. A follower whose position the log no longer holds (a
    torn tail was cut) starts again. Opens no file when all stand at the head.

    Where a purge comes that erased what they have folded, all of them start again: the log gives
    those lines no more. Once for all purges there are by then: a line that the log still gives,
    whatever names it, is folded.
    """
    in_vain = settled = 0
    for _ in range(_PURGES_AT_ONCE):
        try:
            return in_vain + _catch_up(log, followers, settled)
        except _PurgedError as found:
            in_vain += found.read
            settled = found.seq
            for one in followers:
                one.reset()
    raise LockError("the log is purged faster than it can be folded; try again", holder=None)


def _catch_up(log: Replayable, followers: Sequence[Follower], settled: int) -> int:
    at = _together(followers)
    if at is not None:  # the usual case, after every event that is recorded: look once, fold
        head = log.head()
        if _stands_at(head, at):
            return 0
        if log.matches(at):
            with uncollected(head.seq - at.seq):
                return _read_on(_batches(log.read_from(at), [at.seq], settled), followers)
    late = followers_behind(log, followers)
    if not late:
        return 0
    _reset_strays(log, late)
    waiting = sorted(late, key=folded_seq)[::-1]  # those at one place join as given
    start = waiting[-1].position
    with uncollected(log.head().seq - folded_seq(waiting[-1])):
        source = log.read() if start is None else log.read_from(start)
        return _read_in(_batches(source, [folded_seq(one) for one in followers], settled), waiting)


def _read_on(batches: Iterator[Stretch], followers: Sequence[Follower]) -> int:
    """Fold the lines into all of them."""
    followers = sorted(followers, key=lambda one: not _leads(one))
    count = 0
    for batch in batches:
        _fold(batch, followers)
        count += len(batch)
    return count


def _read_in(batches: Iterator[Stretch], waiting: list[Follower]) -> int:
    """Fold the lines into those who wait, the furthest behind last; each joins at its place."""
    count = 0
    active: list[Follower] = []
    for lines in batches:
        begun = 0
        for row, line in enumerate(lines if waiting else ()):
            if waiting and folded_seq(waiting[-1]) < line.event.seq:
                _fold(Stretch(lines[begun:row]), active)
                begun = row
                while waiting and folded_seq(waiting[-1]) < line.event.seq:
                    one = waiting.pop()
                    active.insert(0 if _leads(one) else len(active), one)
        _fold(Stretch(lines[begun:]) if begun else lines, active)
        count += len(lines)
    return count


@contextlib.contextmanager
def uncollected(count: int) -> Iterator[None]:
    """Keep the cyclic collector from what so many lines become: none of it is cyclic."""
    if count < _MANY or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _together(followers: Sequence[Follower]) -> Position | None:
    """The one position at which all of them stand; None where there is none."""
    first = followers[0].position
    return first if all(one.position == first for one in followers[1:]) else None


def _batches(lines: Iterator[Line], stand: Sequence[int], settled: int) -> Iterator[Stretch]:
    """Lines by the dozens: each follower goes through many at a stretch.

    `stand` are the seqs at which the followers stand; the lines begin behind the lowest. Raises
    _PurgedError at a purge behind `settled` of a line that one of them has folded, or that was
    among these; the lines behind it are read then, as the log learns of their purges by that.
    """
    begin = after = min(stand)
    read, jumps = 0, list[tuple[range, frozenset[int]]]()  # a jump may have any width
    while batch := Stretch(islice(lines, _BATCH)):
        last = batch[-1].event.seq
        if last - after > len(batch):
            jumps.append((range(after + 1, last), frozenset(one.event.seq for one in batch)))
        for line in batch.rare if len(batch) > 1 else batch:
            if line.event.kind == "purge" and line.event.seq > settled:
                before = max((seq for seq in stand if seq < line.event.seq), default=0)
                for one in erased_by(line.event):
                    at = bisect_right(jumps, one.seq, key=_begins) - 1
                    gone = at >= 0 and one.seq in jumps[at][0] and one.seq not in jumps[at][1]
                    if one.seq <= before or (begin < one.seq and not gone):
                        behind = deque((one.event.seq for one in lines), maxlen=1)
                        raise _PurgedError(read, behind[0] if behind else last)
        yield batch
        after, read = last, read + len(batch)


def _begins(jump: tuple[range, frozenset[int]]) -> int:
    return jump[0].start


class _PurgedError(Exception):
    """What was folded has been erased since; `read` lines were folded in vain, `seq` was read."""

    def __init__(self, read: int, seq: int) -> None:
        super().__init__()
        self.read, self.seq = read, seq


def overtaken(log: Replayable, position: Position) -> bool:
    """Whether what was folded so far is not to be kept.

    A purge came behind the position, or the log no longer holds it: a repair cut what was there.
    """
    if log.head() == position:
        return False
    if not log.matches(position):
        return True
    # What lies behind an older file is thousands of lines, and to decode them costs a fold.
    return log.may_be_purged_behind(position) and any(
        line.event.kind == "purge" for line in log.read_from(position)
    )


def _fold(lines: Sequence[Line], followers: Sequence[Follower]) -> None:
    if lines:
        for one in followers:
            one.fold(lines)


def _leads(follower: Follower) -> bool:
    return getattr(follower, "leads", False)


def followers_behind(log: Replayable, followers: Sequence[Follower]) -> list[Follower]:
    """Return the followers that do not stand at the head of the log."""
    head = log.head()
    return [one for one in followers if not _stands_at(head, one.position)]


class Folded(Generic[State]):
    """A bounded projection with its checkpoint file: `state` is what was folded up to `position`.

    Opens from the checkpoint where that is whole, ours and on this log, and from
    nothing otherwise; `catch_up` does the rest. `folder` None keeps it in memory.
    `unsaved` counts the lines folded since the checkpoint. `arriving` is `Memories.arriving` where
    the projection knows only what is in force, and so not what comes too late. `reads` opens the
    checkpoint that is there.
    """

    def __init__(
        self,
        projector: Projector[State],
        log: Replayable,
        folder: Path | None,
        *,
        plane: str,
        variant: str = "",
        arriving: Arriving | None = None,
        reads: Callable[[Path], Checkpoint | None] = read_checkpoint,
    ) -> None:
        self._arriving = arriving
        self.projector = projector
        self.state: State = projector.initial()
        self.unsaved = 0
        self._log = log
        self._plane, self._variant = plane, variant
        self._path = folder / f"{projector.name}.json" if folder is not None else None
        self._base: Position | None = None
        self._last: Line | None = None  # a position is made of it only when somebody asks
        self._refused: Checkpoint | None = None  # what the projector could not load
        self.outdated = False  # whether the file is this projection of another version of memplane
        self._open(reads)

    @property
    def position(self) -> Position | None:
        """Behind the last folded line; None before the first."""
        line = self._last
        return (
            self._base
            if line is None
            else Position(line.event.seq, line.event.h, line.segment, line.end)
        )

    def catch_up(self) -> int:
        """Fold what is new; return the lines read."""
        return catch_up(self._log, [self])

    def fold(self, lines: Sequence[Line]) -> None:
        """Fold the next lines. One who is interrupted begins again from nothing."""
        try:
            taken = lines if self._arriving is None else self._arriving(lines)
            fold(self.projector, self.state, taken)
        except BaseException:
            self.reset()
            raise
        self._last = lines[-1]
        self.unsaved += len(lines)

    def reset(self) -> None:
        """Go back to before the first line."""
        self.state = self.projector.initial()
        self._base = self._last = None
        self.unsaved = 0

    @property
    def is_stored(self) -> bool:
        """Whether a checkpoint of this fold, of now or of before, was read or written."""
        return self._base is not None

    def save(self, active: Mapping[str, list[str]] | None = None) -> bool:
        """Write the checkpoint; return whether one as new as this state lies on the disk.

        `active`: ids that stand in the file beside the state.

        False, and nothing else, when another process is saving, the home is
        read-only or the disk is full. A newer checkpoint on this log is kept.
        """
        position = self.position
        if self._path is None or position is None:
            return False
        if not self.unsaved:
            return True
        with alone(self._path.parent) as held:
            if not held or overtaken(self._log, position):
                return False
            mine = self._checkpoint(position)
            try:
                if not self._covered(mine):
                    replace_bytes(self._path, encode_checkpoint(mine, active))
            except OSError:
                return False
        self._base, self._last, self.unsaved = position, None, 0
        return True

    def _checkpoint(self, position: Position) -> Checkpoint:
        name, version = self.projector.name, self.projector.version
        state = self.projector.dump(self.state)
        return Checkpoint(name, version, self._plane, self._variant, position, state)

    def _covered(self, mine: Checkpoint) -> bool:
        """Whether the disk holds a checkpoint of the same fold, at least as new, on this log."""
        assert self._path is not None
        there = read_checkpoint(self._path)
        return (
            there is not None
            and there != self._refused
            and there.same_fold(mine)
            and there.position.seq >= mine.position.seq
            and self._log.matches(there.position)
        )

    def _open(self, reads: Callable[[Path], Checkpoint | None]) -> None:
        there = reads(self._path) if self._path is not None else None
        if there is None:
            return
        wanted = (self.projector.name, self.projector.version, self._plane, self._variant)
        self.outdated = (there.projector, there.plane) == (self.projector.name, self._plane) and (
            there.version != self.projector.version
        )
        if there[:4] != wanted or not self._log.matches(there.position):
            return
        try:
            self.state = self.projector.load(there.state)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            self.state = self.projector.initial()
            self._refused = there
        else:
            self._base = there.position


def folded_seq(follower: Follower) -> int:
    """Return the seq of the last line that a follower has folded; 0 before the first."""
    position = follower.position
    return 0 if position is None else position.seq


def _stands_at(head: Position, position: Position | None) -> bool:
    if position is None:
        return head.seq == 0
    # The hash stands for the whole prefix; the place may be named in two ways where segments meet.
    return (position.seq, position.h) == (head.seq, head.h)


def _reset_strays(log: Replayable, followers: Sequence[Follower]) -> None:
    known: dict[Position, bool] = {}
    for one in followers:
        position = one.position
        if position is None:
            continue
        if position not in known:
            known[position] = log.matches(position)
        if not known[position]:
            one.reset()
