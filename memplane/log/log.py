"""The event log on files: the port `EventLog`, and the few things a plane needs besides."""

# Paths are strings here: pathlib costs more than the append it would serve.
# ruff: noqa: PTH119
from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from memplane.errors import (
    ConflictError,
    CorruptError,
    HomeError,
    LockError,
    NotFoundError,
    WriteError,
)
from memplane.event import decode
from memplane.log.bodies import (
    body_hash,
    body_text,
    keep_bodies,
    recalled_hashes,
    store_bodies,
)
from memplane.log.disk import Disk, LogLock
from memplane.log.format import prepared, stamp
from memplane.log.known import Known, same_content
from memplane.log.reader import Gap, Reader
from memplane.log.recovery import Restart, headless, restarts
from memplane.log.segments import HEADERS, Segments, read_file
from memplane.log.spool import Spool
from memplane.log.tail import Tail
from memplane.log.writer import Active, Writer
from memplane.ports import Appended, Head, Line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from memplane.event import Draft, Event
    from memplane.log.purges import Erased
    from memplane.ports import Clock

__all__ = ["SEGMENT_BYTES_MAX", "FileLog"]

SEGMENT_BYTES_MAX: Final = 4 * 1024 * 1024
SYNC_EVERY_SECONDS: Final = 1.0
# What a line has besides its id and its rest: seq, dur, two times, the suffix.
LINE_FRAME_BYTES: Final = 170


class FileLog:
    """The log of one plane; any number of these, in any number of processes and threads, may write.

    `durability` says what a receipt promises: `sync` a power cut, `os` the death of
    the process. `loads` parses a line (the standard library's by default), `same`
    decides whether a repeated id brings the same event. `brief`: of the last segment only what may
    not be durable is verified, for a process that appends once. `keeps`: tables of ids may be
    written though the log is not; by default where it may be.
    """

    def __init__(
        self, home: Path | str, plane_id: str, *, clock: Clock,
        durability: Literal["sync", "os"] = "sync", lock_wait_ms_max: int = 5000,
        loads: Callable[[bytes], Any] = json.loads,
        same: Callable[[Event, Draft], bool] | None = None, read_only: bool = False,
        brief: bool = False, segment_bytes_max: int = SEGMENT_BYTES_MAX, disk: Disk | None = None,
        keeps: bool | None = None,
    ) -> None:  # fmt: skip
        self._home = os.fspath(home)
        self._disk = disk or Disk()
        self._durable = durability == "sync"
        self._read_only = read_only
        self._lock_wait_ms_max = lock_wait_ms_max
        self._loads = loads
        self._segments = Segments(f"{self._home}/log", plane_id)
        keeps = not read_only if keeps is None else keeps
        self._reader = Reader(self._home, self._segments, loads, keep_caches=keeps)
        self._known = Known(self._reader, loads, same or same_content)
        self._settings = (self._segments, self._disk, clock, segment_bytes_max, brief)
        self.waiting = Spool(self._home, plane_id, self._disk, loads)
        self._missed = False  # held the lock without a look at the log since
        self._looks = True  # for what waits in the spool
        self._begin_process()

    @property
    def home(self) -> str:
        """The folder of the plane, where bodies lie too."""
        return self._home

    def held(self) -> AbstractContextManager[None]:
        """While one request is answered: each segment that it reads is opened once."""
        return self._segments.held()

    def append(
        self, drafts: Sequence[Draft], *, expected_seq: int | None = None, wait: bool = True
    ) -> list[Appended]:
        """See `memplane.ports.EventLog.append`; ConflictError too if not at `expected_seq`.

        What waits in the spool is taken in first, which may move the head from `expected_seq`.
        Without drafts, that is all. Without `wait`, LockError at once if somebody holds the lock.
        """
        quoted = [prepared(draft) for draft in drafts]
        if self._read_only:
            raise HomeError(f"{self._home}: opened for reading; open it for writing to append")
        bodies = self._known.unerased(drafts)
        store_bodies(self._home, bodies, self._disk)
        alone = self._enter(wait=wait) and not self._missed
        try:
            active = self._writer.catch_up(alone=alone)
            self._missed = False
            if self._reader.suspicious:
                self._refuse_damage()
            if self._looks or not drafts:
                # What was acknowledged before this comes before it. All of it, where the drafts
                # depend on what is there: they forget, or expect a head, or are none.
                every = expected_seq is not None or _forgets(drafts) or (wait and not drafts)
                active = self._take_in(active, every=every)
            if expected_seq is not None and expected_seq != active.seq:
                raise ConflictError(
                    f"the log is at seq {active.seq}, expected {expected_seq}; read on, try again",
                    id="",
                    seq=active.seq,
                )
            if bodies:
                keep_bodies(self._home, self._known.unerased(bodies), self._disk)
            if True in [draft.id_given for draft in drafts]:
                active, receipts = self._write_new(active, drafts, quoted)
            else:
                active, receipts = self._write(active, drafts, quoted)
        finally:
            self._leave()
        self._settle(active, receipts)
        return receipts

    def spool(self, drafts: Sequence[Draft]) -> list[Appended] | None:
        """Append; where the lock is held leave the drafts to its next holder, durably: then None.

        Waits for nobody.
        """
        try:
            return self.append(drafts, wait=False)
        except LockError:
            self.waiting.put(drafts, self._writer.clock())
            self._lock.alert()
            return None

    def read(self, after: int = 0, upto: int | None = None) -> Iterator[Line]:
        """See `memplane.ports.EventLog.read`; takes no lock, skips damage (see `gaps`)."""
        return self._reader.read(after, upto)

    def read_from(self, position: Head) -> Iterator[Line]:
        """The lines behind a position that `matches`; raises NotFoundError where it does not."""
        own = self._own_lines(position)
        return self._reader.read_from(position) if own is None else own

    def matches(self, position: Head) -> bool:
        """Whether the log holds this h right before this byte of that segment."""
        return self._own_lines(position) is not None or self._reader.matches(position)

    def head(self) -> Head:
        """See `memplane.ports.EventLog.head`; one stat where nothing changed."""
        active = self._writer.active
        if active is not None:
            # A thread that appends in between makes the file longer than the end read first.
            end = active.end
            head = Head(active.seq, active.h.decode(), active.number, end)
            if self._is_end(active, head):
                return head
        return self._reader.head()

    def line(self, seq: int) -> Line | None:
        """The line with that seq, by a cached offset."""
        return self._reader.line(seq)

    def line_at(self, seq: int, segment: int, offset: int, length: int) -> Line | None:
        """The line with that seq, by the place at which it was once; looked for if it is not there.

        `length` counts its newline.
        """
        return self._reader.line_at(seq, segment, offset, length)

    def line_kept(
        self, seq: int, before: bytes, raw: bytes, segment: int, offset: int
    ) -> Line | None:  # fmt: skip
        """A line (without newline) that was kept elsewhere; None where its hash does not fit it.

        `before` is the hash that it chains from. Reads nothing.
        """
        return self._reader.line_kept(seq, before, raw, segment, offset)

    def bytes_before(self, segment: int, offset: int, most: int) -> bytes:
        """The last bytes before that one, at most so many; none where the segment is missing."""
        return self._segments.bytes_before(segment, offset, most)

    def find(self, id: str) -> Line | None:  # noqa: A002 - the field's name
        """The line with that id, by a cached hash."""
        return self._reader.find(id)

    def headless(self) -> CorruptError | None:
        """The refusal that an append gives where the newest segment lost its first line."""
        number = max(self._segments.numbers(fresh=True), default=0)
        if not number or self._segments.header(number) is not None:
            return None
        return headless(self._segments, number, self.head().seq)

    @property
    def headers_missed(self) -> bool:
        """Whether a header of a sealed segment was not among those kept, so that it was read."""
        return self._segments.opened_sealed

    def headers_to_keep(self) -> tuple[str, bytes] | None:
        """A file below the home with the headers of sealed segments; None where it says so."""
        data = self._segments.headers_to_keep()
        return None if data is None else (HEADERS, data)

    def restarts(self) -> list[Restart]:
        """The repairs that replaced a lost log or segment; reads the beginning of each segment."""
        return restarts(self._segments)

    def says(self, words: bytes) -> bool:
        """Whether these bytes stand anywhere in the segments: a quick look before a long one."""
        return any(words in read_file(self._segments.path(n)) for n in self._segments.numbers())

    def text(self, event: Event) -> str:
        """The event's whole text, from its body where the line holds only the beginning."""
        digest = body_hash(event)
        if digest is None:
            return event.text
        return body_text(self._home, event, digest)

    def recalled(self, event: Event) -> list[str | None]:
        """The blocks that were moved out of the event's text, in order; None for a lost one."""
        found: list[str | None] = []
        for digest in recalled_hashes(event):
            try:
                found.append(body_text(self._home, event, digest))
            except (NotFoundError, OSError, ValueError):
                found.append(None)
        return found

    def gaps(self) -> tuple[Gap, ...]:
        """The corrupt regions that this object's reads and look-ups had to skip so far."""
        return self._reader.gaps()

    def flush(self) -> None:
        """Make everything that was appended here survive a power cut."""
        if not self._read_only and self.waiting.waits():
            from memplane.log.taking import take_in_all  # noqa: PLC0415 - likewise

            take_in_all(self)
        active = self._writer.active
        if active is not None and self._pid == os.getpid():
            self._sync(active, active.seq)

    def close(self) -> None:
        """Flush and let go of the files. The log can be used again; it opens itself."""
        try:
            self.flush()
        finally:
            self._lock.close()
            self._writer.active = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @contextmanager
    def exclusive(self) -> Iterator[Writer]:
        """Hold the log's lock: for repairs, which must not see appends."""
        # Whoever held it before may have gone on in a new segment: the next append has to look.
        self._missed = not self._enter() or self._missed
        try:
            yield self._writer
        finally:
            self._leave()

    def erase(
        self, drafts: Sequence[Draft], lines: Mapping[int, str], files: Sequence[str],
        holes: Sequence[tuple[int, int, int]] = (),
    ) -> list[Appended]:  # fmt: skip
        """Append purge events, then overwrite the lines (seq -> id) that they name; all durable.

        The note of it stays until `erased`: until what quotes them elsewhere is gone too, of
        which `files` (below the home) are a part; `holes` are bytes of segments that are no
        lines and quote them. Interrupted, it is finished by who writes next.
        Raises WriteError where the disk refuses; until the events are written, nothing changed.
        """
        from memplane.log.writer import Plan, carry_out  # noqa: PLC0415 - few processes purge

        quoted = [prepared(draft) for draft in drafts]
        if self._read_only:
            raise HomeError(f"{self._home}: opened for reading; open it for writing to purge")
        plan = Plan(tuple(draft.id for draft in drafts), lines, tuple(files), tuple(holes))
        self._enter()
        try:
            receipts = carry_out(
                self._writer, plan, lambda active: self._write(active, drafts, quoted)
            )
        finally:
            self._tail = Tail()  # it may hold what was erased
            self._leave()
        self._reader.purges.all_of(lines)
        return receipts

    def erased(self, done: Sequence[Appended]) -> None:
        """Say that nothing quotes any more what those purge events erased."""
        from memplane.log.writer import settle  # noqa: PLC0415 - likewise

        with self.exclusive() as writer:
            settle(writer, tuple(each.id for each in done))

    @property
    def finished(self) -> int:
        """How many interrupted purges this process has finished: what it read before may differ."""
        return self._writer.finished

    def purged(self, seq: int) -> Erased | None:
        """What is known of a purged line; None where none was purged."""
        return self._reader.purges.of(seq)

    def purged_between(self, first: int, last: int) -> list[Erased]:
        """What is known of the purged lines first..last, in order."""
        return self._reader.purges.between(first, last)

    def purged_as(self, named: int | str) -> Erased | None:
        """What is known of a purged line, by its seq or id; None where none was purged."""
        if isinstance(named, str):
            found = self._reader.look_up(named)
            return self.purged(found) if isinstance(found, int) else None
        return self.purged(named) if 0 < named <= self.head().seq else None

    def _begin_process(self) -> None:
        """Own lock, descriptors and locks among threads; those of a parent are never used."""
        self._pid = os.getpid()
        self._mutex = Lock()
        self._lock = LogLock(f"{self._home}/log/.lock", self._lock_wait_ms_max)
        self._writer = Writer(*self._settings)
        self._tail = Tail()
        self._reader.forget_locks()

    def _enter(self, *, wait: bool = True) -> bool:
        """Take the lock among threads, then among processes; whether nobody held it meanwhile."""
        if self._pid != os.getpid():
            self._begin_process()
        wait_ms_max = self._lock_wait_ms_max if wait else 0
        if not self._mutex.acquire(timeout=wait_ms_max / 1000):
            raise LockError(
                f"{self._home}/log/.lock: another thread of this process ({self._pid}) held it for "
                f"more than {wait_ms_max} ms; try again",
                holder=self._pid,
            )
        try:
            if self._writer.active is None:
                self._writer.make_folder()
            alone = self._lock.acquire(wait=wait)
        except BaseException:
            self._mutex.release()
            raise
        self._looks = self._looks or not alone  # who spools alerts the lock
        return alone

    def _leave(self) -> None:
        try:
            self._lock.release()
        finally:
            self._mutex.release()

    def _refuse_damage(self) -> None:
        gap = self._reader.damage()
        if gap is not None:
            path = self._segments.path(gap.segment)
            raise CorruptError(
                f"{path}: bytes {gap.offset} to {gap.end} do not verify (seq {gap.first} to "
                f"{gap.last}); `memplane repair --salvage` sets them aside and goes on",
                segment=os.path.basename(path),
                offset=gap.offset,
                seq=gap.first - 1,
            )

    def _take_in(self, active: Active, *, every: bool) -> Active:
        """Take in some of what waits in the spool, or `every` file. Under the lock."""
        self._looks = self.waiting.waits()
        names = self.waiting.names() if self._looks else []
        while names:
            from memplane.log.taking import take_in  # noqa: PLC0415 - seldom there is any

            active = take_in(
                self.waiting, self._home, self._writer, active, self._write_new,
                self._known.unerased,
            )  # fmt: skip
            # Only what lay there before: others may spool all the time. Where the disk refuses,
            # the same files stay.
            left = [name for name in self.waiting.names() if name in names]
            names = left if every and len(left) < len(names) else []
        return active

    def _write_new(
        self, active: Active, drafts: Sequence[Draft], quoted: list[str]
    ) -> tuple[Active, list[Appended]]:
        """Write the drafts whose id is not in the log, nor earlier in the batch. Under the lock."""
        batch = self._known.sort(drafts, active.seq)
        active, written = self._write(
            active, [drafts[p] for p in batch.fresh], [quoted[p] for p in batch.fresh]
        )
        return active, batch.receipts(written, len(drafts))

    def _write(
        self, active: Active, drafts: Sequence[Draft], quoted: list[str]
    ) -> tuple[Active, list[Appended]]:
        """Stamp the drafts and write them in one piece. Under the lock."""
        receipts: list[Appended] = []
        if not drafts:
            return active, receipts
        writer = self._writer
        size = LINE_FRAME_BYTES * len(drafts) + sum(map(len, quoted))
        for draft in drafts:
            size += len(draft.rest)
        if active.end + size > writer.segment_bytes_max:
            active = writer.room(active, size)
        lines: list[bytes] = []
        seq, h, start, dur = active.seq, active.h, active.end, active.synced
        rec = max(active.rec, writer.clock())
        for draft, id_ in zip(drafts, quoted, strict=True):
            given, ts = draft.id, draft.ts
            seq += 1
            line, h = stamp(seq, dur, id_, ts, rec, draft.rest, h)
            lines.append(line)
            # The quickest way to make one: this runs for every event, under the lock.
            receipts.append(tuple.__new__(Appended, (seq, given, ts or rec, False)))
        batch = lines[0] if len(lines) == 1 else b"".join(lines)
        writer.write(active, batch)
        self._tail.add(active.number, start, active.seq, active.h, lines)
        active.h, active.rec, active.seq = h, rec, seq
        active.end = start + len(batch)  # last: `head` reads it first
        if self._reader.has_table:
            self._reader.added(active.number, start, drafts, lines)
        return active, receipts

    def _settle(self, active: Active, receipts: list[Appended]) -> None:
        """Keep the receipts' promise, outside the lock so that syncs of many writers merge."""
        if self._durable:
            # A repeat of an event that nobody has synced yet is no better than a new one.
            seq = max([receipt.seq for receipt in receipts], default=0)
        elif time.monotonic() - self._writer.last_sync >= SYNC_EVERY_SECONDS:
            seq = active.seq
        else:
            return
        self._sync(active, seq)

    def _sync(self, active: Active, seq: int) -> None:
        try:
            self._writer.sync(active, seq)
        except WriteError:
            # The marker is there; holding the lock once makes everybody look for it.
            with suppress(LockError, WriteError), self.exclusive():
                pass
            raise

    def _own_lines(self, position: Head) -> Iterator[Line] | None:
        """The lines behind a position where this process wrote them all; None where it did not."""
        kept = self._tail.behind(position)
        if kept is None:
            return None
        active, end = self._writer.active, self._tail.ends_at()
        if active is None or end is None or not self._is_end(active, end):
            return None
        return (
            Line(decode(self._loads(raw)), position.segment, start, behind)
            for start, behind, raw in kept
        )

    def _is_end(self, active: Active, head: Head) -> bool:
        if os.access(active.next_path, os.F_OK):
            return False
        try:
            found = os.lstat(active.path)
        except FileNotFoundError:
            return False
        return found.st_size == head.offset and found.st_ino == active.inode


def _forgets(drafts: Sequence[Draft]) -> bool:
    return any(draft.kind == "forget" for draft in drafts)
