"""Write to the active segment under the log's lock: append and sync lines, overwrite purged ones.

`Active` is the segment as this process has verified it; `Writer` appends; `Plan` and the functions
behind it erase lines in place, in steps that the next writer can finish after a crash.
"""

# ruff: noqa: PTH119, PTH120

from __future__ import annotations

import json
import os
import time
from _thread import allocate_lock
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from memplane import nofollow
from memplane.errors import CorruptError, HomeError, StrangeFileError, WriteError
from memplane.event import encode
from memplane.lazy import NamedTuple, late, regex
from memplane.log.disk import Descriptor, Disk, SharedSync, drop
from memplane.log.segments import (
    ERASED,
    RESTARTED,
    SUFFIX_BYTES,
    Judgement,
    Point,
    Run,
    Segments,
    chain_hash,
    chained,
    corrupt,
    erased_id,
    headless,
    judge,
    keep_aside,
    last_rec,
    make_segment,
    marker,
    opening,
    read_fd,
    read_segment_file,
    repair_draft,
    repeats,
    runs,
    stated_hash,
    stray,
    tombstone,
    until,
    watermark_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from memplane.event import Draft
    from memplane.log import verifying
    from memplane.ports import Appended, Clock
else:
    verifying = late("memplane.log.verifying")

# Most lines and the hash before them lie within this much of the end.
_LOOK_BYTES: Final = 4096
# And what was written since the last sync within this much.
_UNSYNCED_BYTES: Final = 64 * 1024


class Active:
    """The segment that is appended to, as this process last saw it under the lock.

    `synced` is the highest seq known to be durable, by this process's syncs or by
    the `dur` of a line; 0 also means that the file's name may not be durable yet.
    """

    def __init__(self, segments: Segments, number: int, descriptor: Descriptor) -> None:
        found = os.fstat(descriptor.fd)
        self.number, self.descriptor, self.fd = number, descriptor, descriptor.fd
        self.path, self.next_path = segments.path(number), segments.path(number + 1)
        self.broken_path = segments.broken_path(number)
        self.device, self.inode = found.st_dev, found.st_ino
        self.begin = self.end = 0  # behind the header; behind the last line
        self.seq = self.synced = 0
        self.h = b""
        self.rec = ""
        self.failed = False
        self.sync_mutex = allocate_lock()

    def take(self, data: bytes, base: int, run: Run) -> None:
        """Go to the end of a run of the file's bytes that begin at `base`."""
        self.seq, self.h = run.last, run.h
        self.rec = last_rec(data, run) or self.rec
        self.synced = max(self.synced, run.dur)
        self.end = base + run.end

    def follow(self, size: int) -> bool:
        """Move to byte `size`, the end of what others appended; False where it does not verify.

        Of a large part only the last line is read. Its writer had verified the end of the file
        under the lock, and so had each writer before, back to the line that this process knows. So
        only the end can be torn, and the `dur` of the last line is the highest.
        """
        if size <= self.end:
            return size == self.end
        return (size - self.end > _LOOK_BYTES and self._jump(size)) or self._read_on()

    def trust(self) -> bool:
        """Move to the end, without reading what was durable; False where the end does not verify.

        All lines up to the last line's `dur` were verified and synced when that line was written,
        so a crash cannot have torn them, and a reader verifies each line anyway. From there to the
        end all is verified.
        """
        size = os.fstat(self.fd).st_size
        offset = max(size - _UNSYNCED_BYTES, 0)
        data = nofollow.pread(self.fd, size - offset, offset)
        said = opening(data[data.rfind(b"\n", 0, -1) + 1 : -1])
        if said is None or not said.dur or len(data) != size - offset:
            return False
        start = data.find(b'\n{"seq":%d,' % said.dur) + 1
        if start <= SUFFIX_BYTES:
            return False
        run = chained(data, start, len(data), said.dur - 1, data[start - 19 : start - 3])
        if run.end != len(data):
            return False
        self.take(data, offset, run)
        return True

    def _jump(self, size: int) -> bool:
        data = nofollow.pread(self.fd, _LOOK_BYTES, size - _LOOK_BYTES)
        start = data.rfind(b"\n", 0, -1) + 1
        raw = data[start:-1]
        said = opening(raw)
        if (
            said is None  # also where it was purged: reading on knows what to make of it
            or said.seq <= self.seq
            or start <= SUFFIX_BYTES
            or len(data) != _LOOK_BYTES
            or chain_hash(data[start - 19 : start - 3], raw[:-SUFFIX_BYTES]) != stated_hash(raw)
            or not data.endswith(b"\n")
        ):
            return False
        self.seq, self.h, self.rec = said.seq, raw[-18:-2], said.rec
        self.synced = max(self.synced, said.dur)
        self.end = size
        return True

    def _read_on(self) -> bool:
        data = read_fd(self.fd, self.end)
        run = chained(data, 0, len(data), self.seq, self.h)
        if run.end != len(data):
            return False
        self.take(data, self.end, run)
        return True


def successor(active: Active, segments: Segments) -> Active | None:
    """The segment in which others went on, at its end; None where a look at both does not do.

    As in `follow`: who began it had verified the end of the one before, and so on.
    """
    new = _open_active(segments, active.number + 1)
    if new is None or os.access(new.next_path, os.F_OK) or os.access(new.broken_path, os.F_OK):
        return None
    data = nofollow.pread(new.fd, _LOOK_BYTES, 0)
    header = segments.parse_header(new.number, data)
    if header is None or header.prev_seq < active.seq:
        return None
    end = os.fstat(active.fd).st_size
    if nofollow.pread(active.fd, 19, max(end - 19, 0)) != header.prev_h + b'"}\n':
        return None
    # Whether its name is durable only a line in it can say: `synced` is what it states.
    new.take(data, 0, chained(data, 0, header.end, header.prev_seq, header.prev_h))
    new.begin, size = header.end, os.fstat(new.fd).st_size
    return new if new.end == header.end and new.follow(size) else None


def _open_active(segments: Segments, number: int) -> Active | None:
    try:
        fd = nofollow.open_file(segments.path(number), os.O_RDWR | os.O_APPEND)
    except OSError:
        return None
    descriptor = Descriptor(fd)
    # One with several names is to be copied first: see `Writer`.
    return Active(segments, number, descriptor) if os.fstat(fd).st_nlink == 1 else None


# Appending: what happens under the lock, and the sync behind it.

# Paths are strings here: pathlib costs more than the append it would serve.


class Writer:
    """The one way into the log. All but `sync` and `mark_broken` runs under the log's lock."""

    def __init__(
        self, segments: Segments, disk: Disk, clock: Clock, segment_bytes_max: int, brief: bool
    ) -> None:
        self.segments, self.disk, self.clock = segments, disk, clock
        self.shared = SharedSync(f"{segments.folder}/.sync")
        self.segment_bytes_max, self._brief = segment_bytes_max, brief
        self.active: Active | None = None
        self.last_sync = float("-inf")
        self._newest = 0
        self.finished = 0  # interrupted purges of other processes
        self.anew = False  # a repair records that the log is lost, and begins it again
        self.restart = False  # a repair may replace a segment that lost its first line
        self._synced, self._sure = 0, True

    def catch_up(self, *, alone: bool) -> Active:
        """Verify what others appended, repair what is torn, and return the active segment.

        `alone`: nobody else has held the lock since the last call.
        """
        active = self.active
        if active is not None:
            if alone and self._sure and not active.failed:
                # Only a stranger can have touched the file; cut, grown or replaced, it shows.
                found = os.fstat(active.fd)
                if found.st_size == active.end and found.st_nlink == 1:
                    return active
            now = stat_or_none(active.path)
            if (
                now is not None
                and now.st_ino == active.inode
                and now.st_dev == active.device
                and now.st_nlink == 1
                and not active.failed
                and not os.access(active.broken_path, os.F_OK)
            ):
                if os.access(active.next_path, os.F_OK):
                    new = successor(active, self.segments)
                    if new is not None:
                        self.active, self._newest = new, new.number
                        return new
                elif active.follow(now.st_size):
                    return active
            self._synced = active.synced
        self._sure = False  # until all went well: what is sealed halfway has a successor
        self.active = self._load(active)
        self._newest, self._sure = self.active.number, True
        return self.active

    def room(self, active: Active, size: int) -> Active:
        """The active segment, or a new one if `size` bytes more would overfill it."""
        if active.end > active.begin and active.end + size > self.segment_bytes_max:
            self.sync(active, active.seq)
            self._sure = False  # likewise
            self._begin(active.number + 1, Point(active.seq, active.h, active.rec), [])
            self.active = active = self._made(active.number + 1)
            self._newest, self._sure = active.number, True
        return active

    def write(self, active: Active, batch: bytes) -> None:
        """Put the batch behind the last line, whole or not at all."""
        try:
            written = self.disk.write(active.fd, batch)
        except OSError as error:
            self._take_back(active)
            raise WriteError(f"{active.path}: {error.strerror}; nothing was recorded") from error
        if written != len(batch):
            self._take_back(active)
            raise WriteError(
                f"{active.path}: the disk took {written} of {len(batch)} bytes; "
                "nothing was recorded; make room and try again"
            )

    def sync(self, active: Active, seq: int, *, alone: bool = True) -> None:
        """Make everything up to `seq` durable, by one sync for all threads that wait for one.

        Unless this process is `alone`, by one for all processes.
        """
        if active.synced >= seq and not active.failed:
            return
        with active.sync_mutex:
            if active.synced >= seq:
                return
            # A thread that appends meanwhile moves the end last.
            covers, end = active.seq if alone else seq, active.end
            if active.failed:
                raise self._not_durable(active, "an earlier sync failed")
            try:
                if alone:
                    self._sync_file(active)
                else:
                    self.shared.sync(active.fd, end, lambda: self._sync_file(active))
            except OSError as error:
                raise self._not_durable(active, str(error.strerror)) from error
            if not alone and os.access(active.broken_path, os.F_OK):
                # What that sync was for may hold these lines, and no later one brings them back.
                active.failed = True
                raise self._not_durable(active, "a sync of another process failed")
            active.synced = max(active.synced, covers)
            self.last_sync = time.monotonic()

    def _sync_file(self, active: Active) -> None:
        try:
            self.disk.fdatasync(active.fd)
            if not active.synced:
                self.disk.sync_directory(self.segments.folder)
        except OSError:
            # The kernel may call the lost pages clean now: a second sync proves nothing.
            active.failed = True
            self.mark_broken(active)
            raise

    def mark_broken(self, active: Active) -> None:
        """Mark the segment so that no process appends to it again. Needs no lock to be safe."""
        note = marker(self.segments, active.number, active.synced)
        try:
            self.disk.publish(active.broken_path, note)
        except OSError:
            return  # this process remembers; another one's sync reports the same failure

    def leave(self, number: int, last: Point, drafts: list[Draft], new: int) -> None:
        """End segment `number` (0: there is none) after its last verified line.

        The drafts begin the next one, which gets the number `new`.
        """
        if number:
            descriptor = Descriptor(nofollow.open_file(self.segments.path(number), os.O_RDWR))
            self.disk.fdatasync(descriptor.fd)
        self._begin(new, last, drafts)
        self.active = None

    def make_folder(self) -> None:
        """Make the log's directory; durable under its name before the first segment is."""
        folder = self.segments.folder
        try:
            nofollow.make_folder(folder)
        except StrangeFileError:
            raise
        except OSError as error:
            raise HomeError(f"{folder}: {error.strerror}; a log needs to write there") from error

    def _not_durable(self, active: Active, why: str) -> WriteError:
        return WriteError(
            f"{active.path}: {why}; durable up to seq {active.synced}, not acknowledged behind it; "
            "the next append checks the segment and goes on in a new one"
        )

    def _take_back(self, active: Active) -> None:
        try:
            self.disk.ftruncate(active.fd, active.end)
        except OSError:
            # What stays behind the last line is torn; the next append finds and removes it.
            self.active = None

    def finish_purge(self) -> None:
        """Finish a purge that was interrupted, if there is one."""
        if not os.access(self.segments.purging_path, os.F_OK):
            return

        home = self.segments.home
        self.finished += finish(home, self.segments, self.disk)

    def _load(self, before: Active | None) -> Active:
        """Open the newest segment and verify it whole; repair it if that is what it takes."""
        numbers = self.segments.numbers(fresh=True)
        if numbers:
            self.finish_purge()
        newest = numbers[-1] if numbers else 0
        if self.segments.strays:
            raise stray(self.segments)
        if newest < self._newest:
            raise HomeError(
                f"{self.segments.folder}: segment {self._newest} is gone; "
                "if a copy was restored on purpose, open the plane again"
            )
        if not numbers:
            self._check_never_begun()
            self._begin(1, Point(0, self.segments.genesis, ""), [])
            return self._made(1)
        number = newest
        failed = before is not None and before.failed and before.number == number
        if failed or os.access(self.segments.broken_path(number), os.F_OK):
            known = before.synced if before is not None and failed else 0
            return self._leave_broken(number, known)
        fresh = before is None or before.number != number
        return self._open(number, 0 if fresh else self._synced)

    def _open(self, number: int, known: int = 0) -> Active:
        path = self.segments.path(number)
        descriptor = self._for_appending(path)
        active = Active(self.segments, number, descriptor)
        if self._brief and not known and self._trusted(active):
            return active
        data = read_fd(active.fd)
        header = self.segments.parse_header(number, data)
        if header is None:
            prev = self._end_before(number)
        else:
            prev = Point(header.prev_seq, header.prev_h, "")
            active.begin = header.end
            self._check_previous(number, prev)
        believed = runs(data, 0, prev.seq, prev.h)
        judged = judge(data, believed, known)
        if judged.case == "corrupt":
            raise corrupt(path, judged)
        if judged.case == "whole" and judged.good:
            active.take(data, 0, believed[0])
            self._settle(active)
            return active
        if not judged.good:
            self._check_restart(number, judged.last)
        rec = last_rec(data, believed[0]) or prev.rec
        return self._made(
            self._set_aside(active, data, judged, rec, judged.case if judged.good else RESTARTED)
        )

    def _check_restart(self, number: int, last: int) -> None:
        """Raise CorruptError for a segment without a valid first line, unless a repair asks.

        A segment gets its name with that line durable in it, so acknowledged lines are lost.
        """
        if number == self.segments.numbers()[0]:
            self._check_never_begun()
        if not self.restart:
            raise headless(self.segments, number, last)

    def _check_never_begun(self) -> None:
        """Before the log begins: raise CorruptError where projections were folded from one."""
        if not self.anew:
            verifying.check_never_begun(self.segments)

    def _trusted(self, active: Active) -> bool:
        """Go to the end of the segment without a look at what was durable; False where torn."""
        header = self.segments.header(active.number)
        if header is None:
            return False
        self._check_previous(active.number, Point(header.prev_seq, header.prev_h, ""))
        if not active.trust():
            return False
        active.begin = header.end
        self._settle(active)
        return True

    def _settle(self, active: Active) -> None:
        """Sync what others left, so that `dur` moves even where every writer writes one line.

        Without it a log of one-shot writers could never tell damage from a torn tail.
        """
        if active.synced < active.seq:
            self.active = active
            self.sync(active, active.seq)

    def _made(self, number: int) -> Active:
        """Open a segment that this process has just made durable."""
        active = self._open(number)
        active.synced = active.seq
        return active

    def _set_aside(
        self, active: Active, data: bytes, judged: Judgement, rec: str, case: str
    ) -> int:
        """Take what does not verify out of the log; the number of the segment to go on in.

        The order makes each step safe to be the last one: copied, then the new
        segment (which ends the old one where it was good), then the cut.
        """
        disk, number, good = self.disk, active.number, judged.good
        last = Point(judged.last, judged.h, max(rec, self.clock()))
        bad = data[good:]
        drafts = []
        try:
            if bad or not good or case == "broken":  # an empty segment has lost its header
                kept = keep_aside(self.segments, disk, number, good, bad) if bad else ""
                drafts = [repair_draft(case, number, good, len(bad), kept, last)]
                drafts += repeats(data, judged.later)
            if good:
                disk.fdatasync(active.fd)
            # Without one good line the file is replaced: there is nothing in it to follow.
            self._begin(number + 1 if good else number, last, drafts)
        except OSError as error:
            raise WriteError(
                f"{active.path}: damaged behind seq {judged.last}, and the repair failed: "
                f"{error.strerror}; nothing was changed or recorded; make room and try again"
            ) from error
        if good and bad:
            # The new segment says where this one ends; what stays behind is not read.
            with suppress(OSError):
                disk.ftruncate(active.fd, good)
                disk.fdatasync(active.fd)
        return number + 1 if good else number

    def _leave_broken(self, number: int, known: int) -> Active:
        """After a failed sync: keep what verifies in a fresh file, go on in a new segment."""
        path = self.segments.path(number)
        data = read_segment_file(path)
        header = self.segments.parse_header(number, data)
        prev = self._end_before(number)
        if header is not None:
            prev = Point(header.prev_seq, header.prev_h, "")
        believed = runs(data, 0, prev.seq, prev.h)
        judged = judge(data, believed, max(known, watermark_of(self.segments, number)))
        if judged.case == "corrupt":
            raise corrupt(path, judged)
        try:
            # The pages that verified may exist in memory alone; a new file gets them to the disk.
            # All of them: what is cut later goes to quarantine first.
            self.disk.publish(path, data)
        except OSError as error:
            raise WriteError(
                f"{path}: a sync failed, and so did saving what verifies: {error.strerror}; "
                "nothing was recorded"
            ) from error
        if not judged.good:
            self._check_restart(number, judged.last)
        descriptor = self._for_appending(path)
        active = Active(self.segments, number, descriptor)
        rec = last_rec(data, believed[0]) or prev.rec
        made = self._set_aside(active, data, judged, rec, "broken" if judged.good else RESTARTED)
        drop(self.segments.broken_path(number))
        return self._made(made)

    def _for_appending(self, path: str) -> Descriptor:
        """Open a segment; one that has other names too (a backup of hard links) is copied first."""
        flags = os.O_RDWR | os.O_APPEND
        try:
            descriptor = Descriptor(nofollow.open_file(path, flags))
            if os.fstat(descriptor.fd).st_nlink > 1:
                self.disk.publish(path, read_fd(descriptor.fd))
                descriptor = Descriptor(nofollow.open_file(path, flags))
        except OSError as error:
            raise WriteError(f"{path}: {error.strerror}; nothing was recorded") from error
        return descriptor

    def _begin(self, number: int, prev: Point, drafts: list[Draft]) -> None:
        folder = self.segments.folder
        try:
            if number == 1:
                # Not when it is made: whoever made it may not have come to this.
                self.disk.sync_directory(os.path.dirname(folder))
            make_segment(self.segments, self.disk, number, prev, self.clock(), drafts)
        except OSError as error:
            self.active = None
            raise WriteError(
                f"{self.segments.path(number)}: {error.strerror}; nothing was recorded"
            ) from error

    def _check_previous(self, number: int, prev: Point) -> None:
        """A sealed segment must end with the line that its successor follows."""
        before = [each for each in self.segments.numbers() if each < number]
        if not before:
            if prev.seq:
                path = self.segments.path(number - 1)
                raise CorruptError(
                    f"{path}: missing; seq 1 to {prev.seq} were in it and before; restore it "
                    "from a copy, or let `memplane repair --salvage` record the gap",
                    segment=os.path.basename(path),
                    offset=0,
                    seq=0,
                )
            return
        path = self.segments.path(before[-1])
        with nofollow.open_regular(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 19, 0))
            if file.read() == prev.h + b'"}\n':
                return
        if self._end_before(number, prev.seq).h != prev.h:
            end = self._end_before(number)
            judged = Judgement("corrupt", os.lstat(path).st_size, end.seq, end.h, prev.seq, ())
            raise corrupt(path, judged)

    def _end_before(self, number: int, upto: int | None = None) -> Point:
        """The last believed line (with a seq up to `upto`) of the segments before this one."""
        for each in reversed([each for each in self.segments.numbers() if each < number]):
            header = self.segments.header(each)
            data = read_segment_file(self.segments.path(each))
            prev_seq, prev_h = (0, b"") if header is None else (header.prev_seq, header.prev_h)
            if header is None and each == self.segments.numbers()[0]:
                prev_h = self.segments.genesis
            last: Point | None = None
            for run in runs(data, 0, prev_seq, prev_h):
                for row, seq in enumerate(range(run.first, run.last + 1)):
                    if upto is None or seq <= upto:
                        start = run.starts[row]
                        raw = data[start : data.index(b"\n", start)]
                        last = Point(seq, raw[-18:-2], last_rec(raw + b"\n", _one(run, raw)))
            if last is not None:
                return last
        return Point(0, self.segments.genesis, "")


def stat_or_none(path: str) -> os.stat_result | None:
    """What the path names now, if anything."""
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def _one(run: Run, raw: bytes) -> Run:
    return run._replace(start=0, end=len(raw) + 1, starts=[0])


# Erasing lines in place, so that a purge that dies at any step is finished by the next writer.
#
# The steps, all under the log's lock: a note of what is to go (`log/.purging`), durable; the purge
# events, durable; the lines overwritten, durable. What quotes them outside the log comes next, and
# the note goes last. A note whose events are not in the log is of a purge that never happened.

CACHES: Final = ("projections", "index")
_SHA256: Final = regex(rb'"sha256":"([0-9a-f]{64})"')
KEPT: Final = (".lock", "ids")  # locks, and hashes of ids: no text


class PendingPurge(NamedTuple):
    """A purge under way: the ids of its events, the erased lines, and files that go with them.

    `files` are paths below the plane's home, `holes` bytes of segments that are no lines and quote
    what is erased: segment, first byte, end.
    """

    events: tuple[str, ...]
    lines: Mapping[int, str]  # seq -> id
    files: tuple[str, ...]
    holes: tuple[tuple[int, int, int], ...] = ()


def write_note(segments: Segments, disk: Disk, plan: PendingPurge) -> None:
    """Make the plan durable."""
    said = {
        "plane": segments.plane_id,
        "pid": os.getpid(),
        "events": list(plan.events),
        "seqs": list(plan.lines),
        "ids": list(plan.lines.values()),
        "files": list(plan.files),
        "holes": [list(hole) for hole in plan.holes],
    }
    disk.publish(segments.purging_path, encode(said).encode())


def read_note(segments: Segments) -> PendingPurge | None:
    """The plan of a purge that was not finished; None where it is missing or incomplete."""
    try:
        said = json.loads(read_segment_file(segments.purging_path))
        if said["plane"] != segments.plane_id:
            return None
        lines = dict(zip(map(int, said["seqs"]), map(str, said["ids"]), strict=True))
        holes = tuple((int(number), int(start), int(end)) for number, start, end in said["holes"])
        return PendingPurge(
            tuple(map(str, said["events"])), lines, tuple(map(str, said["files"])), holes
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def remove_note(home: str, segments: Segments, disk: Disk, plan: PendingPurge | None) -> None:
    """Forget the plan: all of it is done. What it removed stays so behind a power cut.

    A note that a power cut brings back has the purge finished once more.
    """
    names = () if plan is None else plan.files
    folders = {os.path.dirname(path) for name in names if (path := _below(home, name))}
    folders |= {f"{home}/{name}" for name in CACHES}
    for folder in sorted(folders):
        with suppress(FileNotFoundError, StrangeFileError):
            disk.sync_directory(folder, home)
    _drop_note(segments, disk)


def _drop_note(segments: Segments, disk: Disk) -> None:
    drop(segments.purging_path)
    with suppress(OSError):
        disk.sync_directory(segments.folder)


def overwrite(segments: Segments, disk: Disk, lines: Mapping[int, str]) -> int:
    """Put tombstones in the places of these lines, durably; return how many were not there yet.

    A place is known by its seq, which an interrupted overwriting leaves as it is. Raises
    CorruptError where the line is not to be found.
    """
    left, done = dict(lines), 0
    for number in reversed(segments.numbers(fresh=True)):
        header = segments.header(number)
        first = 0 if header is None else header.prev_seq
        here = {seq: id_ for seq, id_ in left.items() if seq > first}
        if here:
            done += _overwrite_in(segments.path(number), disk, here, left)
    if left:
        seq = min(left)
        raise CorruptError(
            f"{segments.folder}: seq {seq} was to be erased and is not there; "
            "`memplane verify` says what is damaged",
            segment="",
            offset=0,
            seq=seq,
        )
    return done


def carry_out(
    writer: Writer, plan: PendingPurge, append: Callable[[Active], tuple[Active, list[Appended]]]
) -> list[Appended]:
    """Do what is the log's part: note, events by `append`, lines, holes and files. Locked."""
    segments, disk = writer.segments, writer.disk
    writer.finish_purge()  # one that died, or is not done yet
    active = writer.catch_up(alone=False)
    try:
        write_note(segments, disk, plan)
    except OSError as error:
        drop(segments.purging_path)
        raise WriteError(
            f"{segments.purging_path}: {error.strerror}; nothing was purged; make room and try "
            "again"
        ) from error
    active, receipts = append(active)  # perhaps in a new segment
    writer.sync(active, active.seq)
    try:
        overwrite(segments, disk, plan.lines)
        blank_bytes(segments, disk, plan.holes)
        _remove_files(segments.home, segments, plan.files)
    except OSError as error:
        raise _unfinished(segments, error) from error
    return receipts


def settle_purge(writer: Writer, events: tuple[str, ...]) -> None:
    """Nothing quotes any more what these purge events erased: their note goes. Locked."""
    segments = writer.segments
    note = read_note(segments)
    if note is None or note.events == events:
        try:
            remove_note(segments.home, segments, writer.disk, note)
        except OSError as error:
            raise _unfinished(segments, error) from error


def _unfinished(segments: Segments, error: OSError) -> WriteError:
    return WriteError(
        f"{error.filename or segments.folder}: {error.strerror}; a purge is not finished; the next "
        "process that opens the plane for writing goes on with it"
    )


def finish(home: str, segments: Segments, disk: Disk) -> bool:
    """Finish the purge that a note tells of; whether there was one. Under the log's lock.

    What quotes the erased lines goes as a whole: projections and index are caches.
    """
    if not os.path.lexists(segments.purging_path):
        return False
    plan = read_note(segments)
    if plan is not None and all(_is_there(segments, id_) for id_ in plan.events):
        try:
            overwrite(segments, disk, plan.lines)
            blank_bytes(segments, disk, plan.holes)
            _remove_files(home, segments, plan.files)
            for folder in CACHES:
                clear_cache(home, folder)
            remove_note(home, segments, disk, plan)
        except OSError as error:
            raise _unfinished(segments, error) from error
    else:  # nothing of it was done
        _drop_note(segments, disk)
    return True


def clear_cache(home: str, cache: str) -> None:
    """Remove what a cache's folder of the home holds, but for locks and hashes."""
    folder = f"{home}/{cache}"
    try:
        names = nofollow.folder_names(folder, home)
    except StrangeFileError:
        return
    for name in names:
        if name not in KEPT:
            with suppress(FileNotFoundError):
                try:
                    nofollow.remove_name(f"{folder}/{name}", home=home)
                except (IsADirectoryError, PermissionError):  # as systems call it
                    nofollow.remove_tree(f"{folder}/{name}", home)


def _remove_files(home: str, segments: Segments, names: Sequence[str]) -> None:
    """Remove files below the home, but for bodies that a line of the log names by now."""
    bodies = {name: "".join(name.split("/")[-2:]) for name in names if name.startswith("bodies/")}
    needed = _named(segments, {digest.encode() for digest in bodies.values()}) if bodies else set()
    for name in names:
        path = _below(home, name)
        if path and bodies.get(name, "").encode() not in needed:
            with suppress(FileNotFoundError):
                nofollow.remove_name(path, home=home)


def _below(home: str, name: str) -> str:
    """The path of a file below the home; "" for a name that leads elsewhere: it is not ours."""
    path = os.path.normpath(f"{home}/{name}")
    return path if path.startswith(f"{home}/") else ""


def _named(segments: Segments, digests: set[bytes]) -> set[bytes]:
    """Those of the hashes by which lines name a file of theirs; an approval names another's."""
    found: set[bytes] = set()
    for number in segments.numbers(fresh=True):
        data = read_segment_file(segments.path(number))
        for match in _SHA256.finditer(data):
            if match[1] in digests and match[1] not in found:
                start = data.rfind(b"\n", 0, match.start()) + 1
                if b'"kind":"approval"' not in data[start : match.start()]:
                    found.add(match[1])
    return found


def _overwrite_in(path: str, disk: Disk, here: Mapping[int, str], left: dict[int, str]) -> int:
    """Overwrite the lines of one segment; those that were found are taken off `left`."""
    data = read_segment_file(path)
    nofollow.separate(path)
    fd = nofollow.open_file(path, os.O_RDWR)  # not O_APPEND: it would write at the end
    done = 0
    try:
        for seq, id_ in here.items():
            at = _place_of(data, seq)
            end = data.find(b"\n", at)
            if not at or end < 0:
                continue
            old, h = data[at:end], data[at - 19 : at - 3]
            if len(old) <= SUFFIX_BYTES or stated_hash(old) is None:
                continue
            said = _opened(seq)
            new = tombstone(said + old[len(said) :], id_, h)
            if new != old:
                put_over(disk, fd, at, old, new)
                done += 1
            del left[seq]
        disk.fdatasync(fd)
    finally:
        os.close(fd)
    return done


def _place_of(data: bytes, seq: int) -> int:
    """Where the line with that seq begins; where its own beginning is damaged, its neighbours tell.

    0 where it is not to be found.
    """
    at = data.find(b'\n{"seq":%d,' % seq) + 1
    if not at:
        before = data.find(b'\n{"seq":%d,' % (seq - 1)) + 1 or data.startswith(_opened(seq - 1))
        at = data.find(b"\n", before) + 1 if before else 0
        end = data.find(b"\n", at) + 1
        if not end or (end < len(data) and not data.startswith(_opened(seq + 1), end)):
            return 0
    return at


def _opened(seq: int) -> bytes:
    return b'{"seq":%d,' % seq


def _is_there(segments: Segments, id_: str) -> bool:
    """Whether the newest segments hold a whole purge event of that id."""
    said: Any = encode({"id": id_})[1:-1].encode()
    for number in reversed(segments.numbers(fresh=True)):
        data = read_segment_file(segments.path(number))
        at = data.rfind(said)
        end = data.find(b"\n", at)
        if at >= 0 and end >= 0:
            start = data.rfind(b"\n", 0, at) + 1
            raw, h = data[start:end], data[start - 19 : start - 3]
            if b'"kind":"purge"' in raw and chain_hash(h, raw[:-SUFFIX_BYTES]) == stated_hash(raw):
                return True
    return False


# Blank the bytes of segments that are not lines; hashes that later lines chain from stay.

_SEQ: Final = regex(rb'\{"seq":(\d+),')


def blank_bytes(segments: Segments, disk: Disk, holes: Sequence[tuple[int, int, int]]) -> None:
    """Leave nothing but spaces in bytes of segments that are no lines of the log, durably.

    What has become a line since is left alone. What later lines need to be believed stays: where
    lines end, and the hashes they state; where a line chains from what the one before it should
    have stated, that is put there first, durably.
    """
    by_segment: dict[int, list[tuple[int, int]]] = {}
    for number, start, end in holes:
        by_segment.setdefault(number, []).append((start, end))
    for number, regions in by_segment.items():
        try:
            data = read_segment_file(segments.path(number))
            nofollow.separate(segments.path(number))
            fd = nofollow.open_file(segments.path(number), os.O_RDWR)
        except FileNotFoundError:  # a segment that a salvage has moved away
            continue
        try:
            gaps = list(_no_lines(segments, number, data))
            for gap in gaps:
                said = _should_state(data, gap)
                if said is not None:
                    at = gap.end - 1 - SUFFIX_BYTES
                    put_over(disk, fd, at, data[at : gap.end - 1], b',"h":"%b"}' % said)
            disk.fdatasync(fd)
            data = read_segment_file(segments.path(number))
            for start, end in regions:
                for gap in gaps:
                    at, behind = max(start, gap.start), min(end, gap.end)
                    if at < behind:
                        for line in data[at:behind].split(b"\n"):
                            put_over(disk, fd, at, line, _blanked(line))
                            at += len(line) + 1
            disk.fdatasync(fd)
        finally:
            os.close(fd)


def _blanked(line: bytes) -> bytes:
    if ERASED.fullmatch(line) is not None:
        return line
    return line[-SUFFIX_BYTES:].rjust(len(line)) if stated_hash(line) else b" " * len(line)


class _Gap(NamedTuple):
    """Bytes of a segment in which no line of the log stands, and the hash of the line before."""

    start: int
    end: int
    h: bytes


def _no_lines(segments: Segments, number: int, data: bytes) -> Iterator[_Gap]:
    following = segments.after(number)
    after = None if following is None else segments.header(following)
    (seq, h), at = _followed(segments, number), 0
    for each in runs(data, 0, seq, h):
        run = each if after is None else until(each, after.prev_seq)
        if run.starts:
            if run.start > at:
                yield _Gap(at, run.start, h)
            at, h = run.end, run.h
    if at < len(data):
        yield _Gap(at, len(data), h)


def _followed(segments: Segments, number: int) -> tuple[int, bytes]:
    """The line that a segment follows: as its header says, or as the one before it ends."""
    header = segments.header(number)
    if header is not None:
        return header.prev_seq, header.prev_h
    before = [each for each in segments.numbers() if each < number]
    if not before:
        return 0, segments.genesis
    last = runs(read_segment_file(segments.path(before[-1])), 0, *_followed(segments, before[-1]))[
        -1
    ]
    return last.last, last.h


def _should_state(data: bytes, gap: _Gap) -> bytes | None:
    """What the last line of a gap has to state for the next one to chain; None where it does."""
    end = data.find(b"\n", gap.end)
    if end < 0 or data[gap.end - 1 : gap.end] != b"\n":
        return None
    h = gap.h
    *_, last = lines = data[gap.start : gap.end - 1].split(b"\n")
    for line in lines:
        h = chain_hash(h, line[:-SUFFIX_BYTES])
    behind = data[gap.end : end]
    if len(last) <= SUFFIX_BYTES or stated_hash(last) == h:
        return None
    chains = chain_hash(h, behind[:-SUFFIX_BYTES]) == stated_hash(behind)
    return h if chains or _erased_behind(behind, h) else None


def _erased_behind(raw: bytes, h: bytes) -> bool:
    match = _SEQ.match(raw)
    return match is not None and erased_id(raw, int(match[1]) - 1, h) is not None


def put_over(disk: Disk, fd: int, at: int, old: bytes, new: bytes) -> None:
    """Write `new` over the bytes `old` at `at`, as many: from the first that differs to the last.

    What stays as it is, is not written. A power cut may leave anything where bytes are written, but
    the seq and the hash of a line, by which an interrupted overwriting is gone on with, stay.
    """
    start = next((n for n, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1]), -1)
    if start < 0:
        return
    end = len(new)
    while old[end - 1] == new[end - 1]:
        end -= 1
    new, at = new[start:end], at + start
    while new:
        written = disk.overwrite(fd, new, at)
        new, at = new[written:], at + written
