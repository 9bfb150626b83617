"""Catch projections up with the log: all of them in one pass, from their checkpoints."""

from __future__ import annotations

import gc
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final, Generic, Protocol

from memplane.errors import LockError
from memplane.log.purges import erased_by
from memplane.ports import Line, Position
from memplane.projections.projector import (
    Checkpoint,
    Projector,
    Replayable,
    State,
    Stretch,
    alone,
    encode_checkpoint,
    fold,
    read_checkpoint,
    replace_bytes,
)

__all__ = ["Folded", "Follower", "catch_up", "followers_behind", "overtaken"]


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
        ...

    def fold(self, lines: Sequence[Line]) -> None:
        """Fold the next lines. One who is interrupted begins again from nothing."""
        ...

    def reset(self) -> None:
        """Go back to before the first line."""
        ...


def catch_up(log: Replayable, followers: Sequence[Follower]) -> int:
    """Fold what is new into every follower; return the lines read.

    One pass from the follower furthest behind, each line decoded once; the others
    join when it reaches them. A follower whose position the log no longer holds (a
    torn tail was cut) starts again. Opens no file when all stand at the head.

    Where a purge comes that erased what they have folded, all of them start again: the log gives
    those lines no more.
    """
    in_vain = 0
    for _ in range(_PURGES_AT_ONCE):
        try:
            return in_vain + _catch_up(log, followers)
        except _PurgedError as found:
            in_vain += found.read
            for one in followers:
                one.reset()
    raise LockError("the log is purged faster than it can be folded; try again", holder=None)


def _catch_up(log: Replayable, followers: Sequence[Follower]) -> int:
    at = _together(followers)
    if at is not None:  # the usual case, after every event that is recorded: look once, fold
        head = log.head()
        if _stands_at(head, at):
            return 0
        if log.matches(at):
            with _uncollected(head.seq - at.seq):
                return _read_on(_batches(log.read_from(at), [at.seq]), followers)
    late = followers_behind(log, followers)
    if not late:
        return 0
    _reset_strays(log, late)
    waiting = sorted(late, key=_seq, reverse=True)
    start = waiting[-1].position
    with _uncollected(log.head().seq - _seq(waiting[-1])):
        source = log.read() if start is None else log.read_from(start)
        return _read_in(_batches(source, [_seq(one) for one in followers]), waiting)


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
            if waiting and _seq(waiting[-1]) < line.event.seq:
                _fold(Stretch(lines[begun:row]), active)
                begun = row
                while waiting and _seq(waiting[-1]) < line.event.seq:
                    one = waiting.pop()
                    active.insert(0 if _leads(one) else len(active), one)
        _fold(Stretch(lines[begun:]) if begun else lines, active)
        count += len(lines)
    return count


@contextmanager
def _uncollected(count: int) -> Iterator[None]:
    """Keep the cyclic collector from going through what a long fold makes: none of it is cyclic."""
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


def _batches(lines: Iterator[Line], stand: Sequence[int]) -> Iterator[Stretch]:
    """Lines by the dozens: each follower goes through many at a stretch.

    `stand` are the seqs at which the followers stand; the lines begin behind the lowest. Raises
    _PurgedError at a purge of a line that one of them has folded, or that was among these.
    """
    begin = after = min(stand)
    read, jumps = 0, list[tuple[range, frozenset[int]]]()  # a jump may have any width
    while batch := Stretch(islice(lines, _BATCH)):
        last = batch[-1].event.seq
        if last - after > len(batch):
            jumps.append((range(after + 1, last), frozenset(one.event.seq for one in batch)))
        for line in batch.rare if len(batch) > 1 else batch:
            if line.event.kind == "purge":
                before = [seq for seq in stand if seq < line.event.seq]
                for one in erased_by(line.event):
                    at = bisect_right(jumps, one.seq, key=_begins) - 1
                    gone = at >= 0 and one.seq in jumps[at][0] and one.seq not in jumps[at][1]
                    if one.seq <= max(before, default=0) or (begin < one.seq and not gone):
                        raise _PurgedError(read)
        yield batch
        after, read = last, read + len(batch)


def _begins(jump: tuple[range, frozenset[int]]) -> int:
    return jump[0].start


class _PurgedError(Exception):
    """What was folded has been erased since; `read` lines were folded in vain."""

    def __init__(self, read: int) -> None:
        super().__init__()
        self.read = read


def overtaken(log: Replayable, position: Position) -> bool:
    """Whether what was folded so far is not to be kept.

    A purge came behind the position, or the log no longer holds it: a repair cut what was there.
    """
    if log.head() == position:
        return False
    if not log.matches(position):
        return True
    return any(line.event.kind == "purge" for line in log.read_from(position))


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
        return self._base if line is None else line.position

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


def _seq(follower: Follower) -> int:
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
