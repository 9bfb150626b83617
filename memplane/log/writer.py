"""Appending: what happens under the lock, and the sync behind it."""

# Paths are strings here: pathlib costs more than the append it would serve.
# ruff: noqa: PTH119, PTH120
from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from memplane import nofollow
from memplane.errors import CorruptError, HomeError, StrangeFileError, WriteError
from memplane.log.active import Active, successor
from memplane.log.disk import Descriptor, Disk, drop
from memplane.log.format import Run, runs
from memplane.log.recovery import (
    RESTARTED,
    Judgement,
    corrupt,
    headless,
    judge,
    keep_aside,
    last_rec,
    marked,
    marker,
    repair_draft,
    repeats,
    stray,
)
from memplane.log.segments import Point, Segments, make_segment, read_fd, read_file

if TYPE_CHECKING:
    from memplane.event import Draft
    from memplane.ports import Clock

__all__ = ["Active", "Writer"]


class Writer:
    """The one way into the log. All but `sync` and `mark_broken` runs under the log's lock."""

    def __init__(
        self, segments: Segments, disk: Disk, clock: Clock, segment_bytes_max: int, brief: bool
    ) -> None:
        self.segments, self.disk, self.clock = segments, disk, clock
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

    def sync(self, active: Active, seq: int) -> None:
        """Make everything up to `seq` durable, by one sync for all threads that wait for one."""
        if active.synced >= seq and not active.failed:
            return
        with active.sync_mutex:
            if active.synced >= seq:
                return
            covers = active.seq
            if active.failed:
                raise self._not_durable(active, "an earlier sync failed")
            try:
                self.disk.fdatasync(active.fd)
                if not active.synced:
                    self.disk.sync_directory(self.segments.folder)
            except OSError as error:
                # The kernel may call the lost pages clean now: a second sync proves nothing.
                active.failed = True
                self.mark_broken(active)
                raise self._not_durable(active, str(error.strerror)) from error
            active.synced = max(active.synced, covers)
            self.last_sync = time.monotonic()

    def mark_broken(self, active: Active) -> None:
        """Tell all processes that nobody may append to this segment. Needs no lock to be safe."""
        note = marker(self.segments, active.number, active.synced)
        try:
            self.disk.publish(active.broken_path, note)
        except OSError:
            return  # this process remembers; another one's sync reports the same failure

    def leave(self, number: int, last: Point, drafts: list[Draft], new: int) -> None:
        """End segment `number` (0: there is none) after its last believed line.

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
        from memplane.log.erase import finish  # noqa: PLC0415 - few processes meet one

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
        self._set_aside(active, data, judged, rec, judged.case if judged.good else RESTARTED)
        return self._made(number + 1 if judged.good else number)

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
        from memplane.log.beyond import check_never_begun  # noqa: PLC0415 - once a log

        if not self.anew:
            check_never_begun(self.segments)

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
    ) -> None:
        """Take what does not verify out of the log and go on in a new segment.

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
            try:
                disk.ftruncate(active.fd, good)
                disk.fdatasync(active.fd)
            except OSError:
                return  # the new segment says where this one ends; what stays behind is not read

    def _leave_broken(self, number: int, known: int) -> Active:
        """After a failed sync: keep what verifies in a fresh file, go on in a new segment."""
        path = self.segments.path(number)
        data = read_file(path)
        header = self.segments.parse_header(number, data)
        prev = self._end_before(number)
        if header is not None:
            prev = Point(header.prev_seq, header.prev_h, "")
        believed = runs(data, 0, prev.seq, prev.h)
        judged = judge(data, believed, max(known, marked(self.segments, number)))
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
        self._set_aside(active, data, judged, rec, "broken" if judged.good else RESTARTED)
        drop(self.segments.broken_path(number))
        return self._made(number + 1 if judged.good else number)

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
        with nofollow.opened(path) as file:
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
            data = read_file(self.segments.path(each))
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
