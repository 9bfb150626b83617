"""The event log, on files and in memory: append, read, find, and take in spooled events.

`FileLog` implements the port `EventLog`, and the few things a plane needs besides. `MemoryLog` has
its lines in memory, as long as the object lives. `Known` finds out which events of a batch are in
the log already, `Tail` keeps the last lines that this process wrote so that folding them reads no
file, and `take_in` moves events of the spool into the log.
"""

# Paths are strings here: pathlib costs more than the append it would serve.
# ruff: noqa: PTH119
from __future__ import annotations

import json
import os
import time
from _thread import allocate_lock
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

from memplane.errors import (
    ConflictError,
    CorruptError,
    HomeError,
    LockError,
    MemplaneError,
    NotFoundError,
    PlaneError,
    PurgedError,
    WriteError,
)
from memplane.event import Event, decode, same_place
from memplane.lazy import NamedTuple, Protocol
from memplane.log.disk import Disk, LogLock
from memplane.log.reader import Gap, LogReader
from memplane.log.segments import (
    HEADERS,
    SUFFIX_BYTES,
    Erased,
    Point,
    Restart,
    Segments,
    bodies_of,
    body_hash,
    body_text,
    chain_hash,
    erased_by,
    genesis,
    headless,
    keep_bodies,
    may_be_purge,
    own_draft,
    prepared,
    read_segment_file,
    recalled_hashes,
    restarts,
    segment_lines,
    stamp_line,
    stated_hash,
    store_bodies,
    tombstone,
)
from memplane.log.spool import FILES_MAX, AsideNote, Spool, is_ours, named_size
from memplane.log.writer import Active, PendingPurge, Writer, carry_out, settle_purge
from memplane.ports import Appended, Line, Position

if TYPE_CHECKING:
    from pathlib import Path

    from memplane.event import Draft
    from memplane.log.spool import Waiting
    from memplane.ports import Clock

    Write = Callable[[Active, Sequence[Draft], list[str]], tuple[Active, list[Appended]]]
    Unerased = Callable[[Sequence[Draft]], list[Draft]]


# A reader further behind than this reads the segment: it is cheaper than keeping more.
_LINES_MAX: Final = 256
_BYTES_MAX: Final = 4 * 1024 * 1024
SEGMENT_BYTES_MAX: Final = 4 * 1024 * 1024
SYNC_EVERY_SECONDS: Final = 1.0
# What a line has besides its id and its rest: seq, dur, two times, the suffix.
LINE_FRAME_BYTES: Final = 170
# What one append takes in for others: it holds the lock for some milliseconds longer, once.
FILES_AT_ONCE: Final = 64
BYTES_AT_ONCE: Final = 1024 * 1024
_IN_MEMORY: Final = ":memory:"


class FileLog:
    """The log of one plane; any number of these, in any number of processes and threads, may write.

    `durability` says what a receipt promises: `sync` a power cut, `os` the death of
    the process. `loads` parses a line (the standard library's by default), `same`
    decides whether a repeated id brings the same event. `brief`: of the last segment only what may
    not be durable is verified, for a process that appends once. `keeps`: tables of ids may be
    written though the log is not; by default where it may be. `outbox`: the order of events is made
    elsewhere, so that all go to the spool, and their receipts have no seq.
    """

    _make_writer: ClassVar[type[Writer]] = Writer

    def __init__(
        self,
        home: Path | str,
        plane_id: str,
        *,
        clock: Clock,
        durability: Literal["sync", "os"] = "sync",
        lock_wait_ms_max: int = 5000,
        loads: Callable[[bytes], Any] = json.loads,
        same: Callable[[Event, Draft], bool] | None = None,
        read_only: bool = False,
        brief: bool = False,
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
        disk: Disk | None = None,
        keeps: bool | None = None,
        outbox: bool = False,
    ) -> None:
        self._home, self.outbox = os.fspath(home), outbox
        self._disk = disk or Disk()
        self._durable = durability == "sync"
        self._read_only = read_only
        self._lock_wait_ms_max = lock_wait_ms_max
        self._loads = loads
        self._segments = Segments(f"{self._home}/log", plane_id)
        keeps = not read_only if keeps is None else keeps
        self._reader = LogReader(self._home, self._segments, loads, keep_caches=keeps)
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

    def take(self, other: FileLog) -> None:
        """Take over what another one of the same plane knows of its sealed segments."""
        self._reader.take(other._reader)

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
        if self.outbox:
            return self._put_out(drafts)
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
        self._settle(active, receipts, alone=alone)
        return receipts

    def _put_out(self, drafts: Sequence[Draft]) -> list[Appended]:
        """Leave the drafts durably in the outbox, which is the spool; receipts without a seq."""
        if not drafts:
            return []
        now = self._writer.clock()
        self.waiting.put(drafts, now)
        waiting = [_unstamped(draft, self._loads)._replace(ts=draft.ts or now) for draft in drafts]
        return [Appended(0, one.id, one.ts, False, one) for one in waiting]

    def follow(self) -> None:
        """Take in what other machines recorded: nothing, for a log of this machine alone."""

    def shared_facts(self) -> dict[str, Any] | None:
        """How far behind a shared log this one is; None where it follows none."""
        return None

    def spool(self, drafts: Sequence[Draft]) -> list[Appended] | None:
        """Append; where the lock is held, leave the drafts durably in the spool and return None.

        Never waits.
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

    def read_from(self, position: Position) -> Iterator[Line]:
        """The lines behind a position that `matches`; raises NotFoundError where it does not."""
        own = self._own_lines(position)
        return self._reader.read_from(position) if own is None else own

    def matches(self, position: Position) -> bool:
        """Whether the log holds this h right before this byte of that segment."""
        return self._own_lines(position) is not None or self._reader.matches(position)

    def head(self) -> Position:
        """See `memplane.ports.EventLog.head`; one stat where nothing changed."""
        active = self._writer.active
        if active is not None:
            # A thread that appends in between makes the file longer than the end read first.
            end = active.end
            head = Position(active.seq, active.h.decode(), active.number, end)
            if self._is_end(active, end):
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
    ) -> Line | None:
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
        """The path and bytes of the headers file of sealed segments; None: it is up to date."""
        data = self._segments.headers_to_keep()
        return None if data is None else (HEADERS, data)

    def restarts(self) -> list[Restart]:
        """The repairs that replaced a lost log or segment; reads the beginning of each segment."""
        return restarts(self._segments)

    def says(self, words: bytes) -> bool:
        """Whether these bytes stand anywhere in the segments: a quick look before a long one."""
        return any(
            words in read_segment_file(self._segments.path(n)) for n in self._segments.numbers()
        )

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
        if not self._read_only and not self.outbox and self.waiting.waits():
            take_in_all(self)
        active = self._writer.active
        if active is not None and self._pid == os.getpid():
            self._sync(active, active.seq)

    def close(self) -> None:
        """Flush and let go of the files. The log can be used again; it opens itself."""
        try:
            self.flush()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        self._lock.close()
        self._writer.shared.close()
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
        self,
        drafts: Sequence[Draft],
        lines: Mapping[int, str],
        files: Sequence[str],
        holes: Sequence[tuple[int, int, int]] = (),
    ) -> list[Appended]:
        """Append purge events, then overwrite the lines (seq -> id) that they name; all durable.

        The note of it stays until `erased`: until what quotes them elsewhere is gone too, of
        which `files` (below the home) are a part; `holes` are bytes of segments that are no
        lines and quote them. Interrupted, it is finished by who writes next.
        Raises WriteError where the disk refuses; until the events are written, nothing changed.
        """
        quoted = [prepared(draft) for draft in drafts]
        if self._read_only:
            raise HomeError(f"{self._home}: opened for reading; open it for writing to purge")
        plan = PendingPurge(tuple(draft.id for draft in drafts), lines, tuple(files), tuple(holes))
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
        with self.exclusive() as writer:
            settle_purge(writer, tuple(each.id for each in done))

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

    def may_be_purged_behind(self, position: Position) -> bool:
        """Whether a purge event may lie behind a position; False where none does, and quickly."""
        own = self._own_behind(position)
        if own is not None:
            return any(may_be_purge(each.raw) for each in own)
        return self._reader.purges.may_come_behind(position.segment, position.offset)

    def purged_as(self, named: int | str) -> Erased | None:
        """What is known of a purged line, by its seq or id; None where none was purged."""
        if isinstance(named, str):
            found = self._reader.look_up(named)
            return self.purged(found) if isinstance(found, int) else None
        return self.purged(named) if 0 < named <= self.head().seq else None

    def _begin_process(self) -> None:
        """Own lock, descriptors and locks among threads; those of a parent are never used."""
        self._pid = os.getpid()
        self._mutex = allocate_lock()
        self._lock = LogLock(f"{self._home}/log/.lock", self._lock_wait_ms_max)
        self._writer = self._make_writer(*self._settings)
        self._tail = Tail()
        self._reader.forget_locks()

    def _enter(self, *, wait: bool = True) -> bool:
        """Take the lock of threads, then of processes; whether nothing can have changed since."""
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
            active = take_in(
                self.waiting,
                self._home,
                self._writer,
                active,
                self._write_new,
                self._known.unerased,
            )
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
            line, h = stamp_line(seq, dur, id_, ts, rec, draft.rest, h)
            lines.append(line)
            # The quickest way to make one: this runs for every event, under the lock.
            receipts.append(tuple.__new__(Appended, (seq, given, ts or rec, False, None)))
        batch = lines[0] if len(lines) == 1 else b"".join(lines)
        writer.write(active, batch)
        self._tail.add(active.number, start, active.seq, active.h, lines)
        active.h, active.rec, active.seq = h, rec, seq
        active.end = start + len(batch)  # last: `head` reads it first
        if self._reader.has_table:
            self._reader.added(active.number, start, [one.id for one in drafts], lines)
        return active, receipts

    def _settle(self, active: Active, receipts: list[Appended], *, alone: bool) -> None:
        """Keep the receipts' promise, outside the lock so that syncs of many writers merge."""
        if self._durable:
            # A repeat of an event that nobody has synced yet is no better than a new one.
            seq = max([receipt.seq for receipt in receipts], default=0)
        elif time.monotonic() - self._writer.last_sync >= SYNC_EVERY_SECONDS:
            seq = active.seq
        else:
            return
        self._sync(active, seq, alone=alone)

    def _sync(self, active: Active, seq: int, *, alone: bool = True) -> None:
        try:
            self._writer.sync(active, seq, alone=alone)
        except WriteError:
            # The marker is there; holding the lock once makes everybody look for it.
            with suppress(LockError, WriteError), self.exclusive():
                pass
            raise

    def _own_lines(self, position: Position) -> Iterator[Line] | None:
        """The lines behind a position where this process wrote them all; None where it did not."""
        kept = self._own_behind(position)
        return None if kept is None else (self._decoded(each, position.segment) for each in kept)

    def _own_behind(self, position: Position) -> list[Kept] | None:
        """The same as they were written."""
        kept, active = self._tail.behind(position), self._writer.active
        if kept is None or active is None or active.number != position.segment:
            return None
        # The end of these very lines: another thread may have added some since.
        if not self._is_end(active, kept[-1].end if kept else position.offset):
            return None
        return kept

    def _decoded(self, kept: Kept, segment: int) -> Line:
        if not kept.read:
            event = decode(self._loads(kept.raw))
            kept.read.append(Line(event, segment, kept.start, kept.end))
        return kept.read[0]

    def _is_end(self, active: Active, end: int) -> bool:
        """Whether the log ends at that byte of the segment."""
        if os.access(active.next_path, os.F_OK):
            return False
        try:
            found = os.lstat(active.path)
        except FileNotFoundError:
            return False
        return found.st_size == end and found.st_ino == active.inode


class MemoryLog:
    """The log of one plane in this process. Threads may append and read at once.

    For tests, for what need not be kept, and for stores that keep rows elsewhere. The same drafts
    at the same times give the same bytes as a `FileLog` that syncs each append and is written by
    one.

    `loads` parses a line (the standard library's by default), `same` decides whether a repeated id
    brings the same event. Has what an open plane asks of its log; what speaks of files is empty.
    """

    home = _IN_MEMORY
    outbox = False
    finished = 0  # purges that others left interrupted
    headers_missed = False

    def __init__(
        self,
        plane_id: str,
        *,
        clock: Clock,
        loads: Callable[[bytes], Any] = json.loads,
        same: Callable[[Event, Draft], bool] | None = None,
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
    ) -> None:
        self._plane_id, self._clock, self._loads = plane_id, clock, loads
        self._most = segment_bytes_max
        self._known = Known(self, loads, same or same_content)
        self._segments: list[bytearray] = []
        self._places: list[_Place] = []  # by seq - 1
        self._ids: dict[str, int] = {}
        self._bodies: dict[str, bytes] = {}
        self._purges: dict[int, Erased] = {}
        self._head = Position(0, genesis(plane_id).decode(), 0, 0)
        self._rec = ""
        self._mutex = allocate_lock()
        self.waiting = _NothingWaits()

    def held(self) -> AbstractContextManager[None]:
        """Nothing is to be held open."""
        return nullcontext()

    def append(
        self, drafts: Sequence[Draft], *, expected_seq: int | None = None, wait: bool = True
    ) -> list[Appended]:
        """See `memplane.ports.EventLog.append`; ConflictError too if not at `expected_seq`."""
        del wait
        quoted = [prepared(draft) for draft in drafts]
        with self._mutex:
            if expected_seq is not None and expected_seq != self._head.seq:
                raise ConflictError(
                    f"the log is at seq {self._head.seq}, expected {expected_seq}; read on, try "
                    "again",
                    id="",
                    seq=self._head.seq,
                )
            if not self._segments:
                self._begin_segment()
            batch = self._known.sort(drafts, self._head.seq)
            fresh = [drafts[at] for at in batch.fresh]
            for draft in fresh:
                self._bodies.update((sha256(one).hexdigest(), one) for one in bodies_of(draft))
            written = self._write(fresh, [quoted[at] for at in batch.fresh])
            return batch.receipts(written, len(drafts))

    def seq_of_next(self, draft: Draft) -> int:
        """The seq that a draft gets if it is appended next, alone."""
        size = LINE_FRAME_BYTES + len(prepared(draft)) + len(draft.rest)
        with self._mutex:
            begins = not self._segments or self._overfills(size)
            return self._head.seq + 1 + begins

    def _overfills(self, size: int) -> bool:
        """Whether so many bytes more begin another segment; an empty one takes any."""
        return bool(self._places[-1].offset) and self._head.offset + size > self._most

    def follow(self) -> None:
        """No other machine records here."""

    def shared_facts(self) -> dict[str, Any] | None:
        """None: it follows no shared log."""
        return None

    def take(self, other: FileLog) -> None:
        """Take over nothing: this one has all its lines."""

    def spool(self, drafts: Sequence[Draft]) -> list[Appended]:
        """Append: nobody else can hold this log."""
        return self.append(drafts)

    def _begin_segment(self) -> None:
        head = self._head
        before = Point(head.seq, head.h.encode(), self._rec)
        self._rec = max(self._rec, now := self._clock())
        self._segments.append(bytearray())
        for line in segment_lines(self._plane_id, len(self._segments), before, now, ()):
            self._add(line, line[-19:-3])
            self._ids[decode(self._loads(line)).id] = self._head.seq

    def _write(self, drafts: Sequence[Draft], quoted: Sequence[str]) -> list[Appended]:
        size = LINE_FRAME_BYTES * len(drafts) + sum(map(len, quoted))
        size += sum(len(draft.rest) for draft in drafts)
        if drafts and self._overfills(size):
            self._begin_segment()
        receipts: list[Appended] = []
        durable = self._head.seq  # as of a log that syncs each append
        rec = self._rec = max(self._rec, self._clock()) if drafts else self._rec
        for draft, id_ in zip(drafts, quoted, strict=True):
            seq = self._head.seq + 1
            line, h = stamp_line(
                seq, durable, id_, draft.ts, rec, draft.rest, self._head.h.encode()
            )
            self._add(line, h)
            self._ids[draft.id] = seq
            receipts.append(Appended(seq, draft.id, draft.ts or rec, duplicate=False))
        return receipts

    def _add(self, line: bytes, h: bytes) -> None:
        segment = self._segments[-1]
        begin, number = len(segment), len(self._segments)
        segment += line
        self._places.append(_Place(number, begin, len(segment)))
        # Last: a thread that reads meanwhile goes up to here.
        self._head = Position(self._head.seq + 1, h.decode(), number, len(segment))

    def _raw(self, place: _Place) -> bytes:
        """A line without its newline."""
        return bytes(self._segments[place.segment - 1][place.offset : place.end - 1])

    def _line(self, seq: int) -> Line | None:
        place = self._places[seq - 1]
        if place.purged:
            return None
        event = decode(self._loads(self._raw(place)))
        return Line(event, place.segment, place.offset, place.end)

    def read(self, after: int = 0, upto: int | None = None) -> Iterator[Line]:
        """See `memplane.ports.EventLog.read`."""
        last = self._head.seq if upto is None else min(upto, self._head.seq)
        for seq in range(max(after, 0) + 1, last + 1):
            line = self._line(seq)
            if line is not None:
                yield line

    def read_from(self, position: Position) -> Iterator[Line]:
        """The lines behind a position that `matches`; raises NotFoundError where it does not."""
        if not self.matches(position):
            raise NotFoundError(f"{_IN_MEMORY}: no such place in the log: seq {position.seq}")
        return self.read(position.seq)

    def matches(self, position: Position) -> bool:
        """Whether the log has that h at that place."""
        if not 0 < position.seq <= self._head.seq:
            return False
        place = self._places[position.seq - 1]
        stands = (place.segment, place.end) == (position.segment, position.offset)
        return stands and stated_hash(self._raw(place)) == position.h.encode()

    def head(self) -> Position:
        """See `memplane.ports.EventLog.head`."""
        return self._head

    def line(self, seq: int) -> Line | None:
        """The line with that seq."""
        return self._line(seq) if 0 < seq <= self._head.seq else None

    def line_at(self, seq: int, segment: int, offset: int, length: int) -> Line | None:
        """The line with that seq, wherever it is."""
        del segment, offset, length
        return self.line(seq)

    def line_kept(
        self, seq: int, before: bytes, raw: bytes, segment: int, offset: int
    ) -> Line | None:
        """A line (without newline) that was kept elsewhere; None where its hash does not fit it."""
        if chain_hash(before, raw[:-SUFFIX_BYTES]) != stated_hash(raw):
            return None
        event = decode(self._loads(raw))
        if event.seq != seq:
            return None
        return Line(event, segment, offset, offset + len(raw) + 1)

    def bytes_before(self, segment: int, offset: int, most: int) -> bytes:
        """The last bytes before that one, at most so many."""
        if not 0 < segment <= len(self._segments):
            return b""
        return bytes(self._segments[segment - 1][max(offset - most, 0) : offset])

    def find(self, id: str) -> Line | None:  # noqa: A002 - the field's name
        """The line with that id."""
        found = self.look_up(id)
        return found if isinstance(found, Line) else None

    def look_up(self, id_: str) -> Line | int | None:
        """The line with that id; the seq of a purged one; None where there is none."""
        seq = self._ids.get(id_)
        if seq is None:
            return None
        return self._line(seq) or seq

    def says(self, words: bytes) -> bool:
        """Whether these bytes stand anywhere in the log."""
        return any(words in one for one in self._segments)

    def text(self, event: Event) -> str:
        """The event's whole text, from its body where the line holds only the beginning."""
        digest = body_hash(event)
        return event.text if digest is None else self._body(event, digest).decode()

    def recalled(self, event: Event) -> list[str | None]:
        """The blocks that were moved out of the event's text, in order; None for a lost one."""
        found = (self._bodies.get(digest) for digest in recalled_hashes(event))
        return [None if one is None else one.decode() for one in found]

    def _body(self, event: Event, digest: str) -> bytes:
        body = self._bodies.get(digest)
        if body is None:
            raise NotFoundError(f"{_IN_MEMORY}: the text of event {event.seq} was purged")
        return body

    def erase(
        self,
        drafts: Sequence[Draft],
        lines: Mapping[int, str],
        files: Sequence[str],
        holes: Sequence[tuple[int, int, int]] = (),
    ) -> list[Appended]:
        """Append purge events, then overwrite the lines (seq -> id) that they name.

        Of `files` those that are bodies are dropped.
        """
        del holes
        quoted = [prepared(draft) for draft in drafts]
        with self._mutex:
            receipts = self._write(drafts, quoted)
            for receipt in receipts:
                line = self._line(receipt.seq)
                assert line is not None
                self._purges.update((one.seq, one) for one in erased_by(line.event))
            for seq, id_ in lines.items():
                self._overwrite(seq, id_)
            for path in files:
                parts = path.rsplit("/", 2)
                self._bodies.pop("".join(parts[-2:]), None)
        return receipts

    def _overwrite(self, seq: int, id_: str) -> None:
        place = self._places[seq - 1]
        before = self._places[seq - 2] if seq > 1 else None
        h = genesis(self._plane_id) if before is None else stated_hash(self._raw(before))
        assert h is not None
        gone = tombstone(self._raw(place), id_, h)
        self._segments[place.segment - 1][place.offset : place.end - 1] = gone
        self._places[seq - 1] = place._replace(purged=True)

    def erased(self, done: Sequence[Appended]) -> None:
        """Nothing is left to be finished."""

    def purged(self, seq: int) -> Erased | None:
        """What is known of a purged line; None where none was purged."""
        return self._purges.get(seq)

    def purged_between(self, first: int, last: int) -> list[Erased]:
        """What is known of the purged lines first..last, in order."""
        return [self._purges[seq] for seq in sorted(self._purges) if first <= seq <= last]

    def may_be_purged_behind(self, position: Position) -> bool:
        """Whether a purge event may lie behind a position."""
        return any(line.event.kind == "purge" for line in self.read(position.seq))

    def purged_as(self, named: int | str) -> Erased | None:
        """What is known of a purged line, by its seq or id; None where none was purged."""
        found = self.look_up(named) if isinstance(named, str) else named
        return self._purges.get(found) if isinstance(found, int) else None

    def headless(self) -> CorruptError | None:
        """None: nothing can be lost."""
        return None

    def headers_to_keep(self) -> tuple[str, bytes] | None:
        """None: there are no files."""
        return None

    def restarts(self) -> list[Restart]:
        """None: nothing was repaired."""
        return []

    def gaps(self) -> tuple[Gap, ...]:
        """None: nothing can be damaged."""
        return ()

    def flush(self) -> None:
        """Nothing is to be made durable."""

    def close(self) -> None:
        """Nothing is to be let go of; what is in it stays."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def take_in(
    spool: Spool, home: str, writer: Writer, active: Active, write: Write, unerased: Unerased
) -> Active:
    """Append the oldest files of the spool; return the end of the log. Hold the log's lock.

    Append, sync, then remove; unusable files are set aside. A crash between two of these steps
    leaves a repeat, recognised by its id, so that an event is in the log once. Where the disk
    refuses, the files stay; the next append raises that error.
    """
    with suppress(WriteError):
        _take(spool, home, writer, active, write, unerased)
    return writer.catch_up(alone=False)


def take_in_all(log: FileLog) -> None:
    """Take in all that waits now, unless somebody holds the lock; raises nothing for it.

    For who opens, flushes or closes a log: what cannot be taken in has time.
    """
    if log.outbox:  # what waits there goes elsewhere first
        return
    with suppress(PlaneError, OSError):
        for _ in range(0, FILES_MAX, FILES_AT_ONCE):
            if not log.waiting.waits():
                break
            log.append([], wait=False)


class Known:
    """Looks up repeated ids; `same` decides whether one brings the same event or a conflict."""

    def __init__(
        self, reader: LooksUp, loads: Callable[[bytes], Any], same: Callable[[Event, Draft], bool]
    ) -> None:
        self._reader, self._loads, self._same = reader, loads, same

    def unerased(self, drafts: Sequence[Draft]) -> list[Draft]:
        """Those with a body, but for ids that are purged: they are refused, and leave no body."""
        return [
            draft
            for draft in drafts
            if (draft.body is not None or draft.recalled)
            and not (draft.id_given and isinstance(self._reader.look_up(draft.id), int))
        ]

    def sort(self, drafts: Sequence[Draft], seq: int) -> Sorted:
        """Which drafts are in the log (which ends at `seq`) or earlier in the batch.

        Raises ConflictError for an id of other content, PurgedError for one that was erased.
        """
        known: dict[int, Appended] = {}
        first: dict[str, int] = {}
        repeated: dict[int, int] = {}
        purged: dict[str, int] = {}
        for place, draft in enumerate(drafts):
            if draft.id_given:
                earlier = first.setdefault(draft.id, place)
                if earlier != place:
                    repeated[place] = earlier
                elif isinstance(found := self._find(draft), int):
                    purged[draft.id] = found
                elif found is not None:
                    known[place] = found
        if purged:
            raise _purged(purged)
        fresh = [p for p in range(len(drafts)) if p not in known and p not in repeated]
        new = dict(zip(fresh, range(len(fresh)), strict=True))
        for place, earlier in repeated.items():
            if earlier in known:
                found = self._find(drafts[place])
                assert isinstance(found, Appended)
                known[place] = found
            elif not self._same(_unstamped(drafts[earlier], self._loads), drafts[place]):
                raise _conflict(drafts[place], seq + 1 + new[earlier])
        return Sorted(known, fresh, repeated)

    def _find(self, draft: Draft) -> Appended | int | None:
        """The receipt of a repeat; the seq of a purged event; None for an id that is new."""
        line = self._reader.look_up(draft.id)
        if line is None or isinstance(line, int):
            return line
        event = line.event
        if not self._same(event, draft):
            raise _conflict(draft, event.seq)
        return Appended(event.seq, event.id, event.ts, duplicate=True)


class Sorted(NamedTuple):
    """A batch by places: `known` are answered, `fresh` are to be written.

    `repeated` maps the place of an id that came before in the batch to that earlier place.
    """

    known: dict[int, Appended]
    fresh: list[int]
    repeated: dict[int, int]

    def receipts(self, written: Sequence[Appended], count: int) -> list[Appended]:
        """A receipt for each of the batch, given those for `fresh`."""
        new = dict(zip(self.fresh, written, strict=True))
        for place, earlier in self.repeated.items():
            if earlier in new:
                self.known[place] = new[earlier]._replace(duplicate=True)
        return [self.known[place] if place in self.known else new[place] for place in range(count)]


class LooksUp(Protocol):
    """Finds the line with an id; the seq of a purged one; None where there is none."""

    def look_up(self, id_: str, /) -> Line | int | None: ...


def same_content(event: Event, draft: Draft) -> bool:
    """Whether a draft says what an event says: kind, ns, role, session, key, text and blocks."""
    if not same_place(event.ns, draft.ns) or (event.kind, event.role, event.session, event.key) != (
        draft.kind,
        draft.role,
        draft.session,
        draft.key,
    ):
        return False
    digest, recalled = body_hash(event), recalled_hashes(event)
    if digest is None and event.text != draft.text:
        return False
    if digest is None and not recalled and not draft.recalled:
        return True

    if recalled != [sha256(block).hexdigest() for block in draft.recalled]:
        return False
    return digest is None or sha256(draft.text.encode()).hexdigest() == digest


class Tail:
    """An unbroken run of own lines at the end of one segment. Written under the log's lock only."""

    __slots__ = ("_chain",)

    def __init__(self) -> None:
        self._chain: _Chain | None = None

    def add(self, segment: int, start: int, seq: int, h: bytes, lines: list[bytes]) -> None:
        """Keep what was just written at byte `start` behind (seq, h), if only to begin anew."""
        chain = self._chain
        if (
            chain is None
            or chain.ends[-1] != start
            or chain.before.segment != segment
            or chain.lines[-1][-19:-3] != h
            or len(chain.ends) >= _LINES_MAX
            or start - chain.before.offset > _BYTES_MAX
        ):
            chain = _Chain(Position(seq, h.decode(), segment, start), [], [], [])
        ends, end = chain.ends, start
        for line in lines:
            end += len(line)
            chain.lines.append(line)
            chain.read.append([])
            ends.append(end)  # last: a thread that reads meanwhile counts these
        # One that is full stays as it is: a thread that reads it goes on undisturbed.
        self._chain = chain

    def behind(self, position: Position) -> list[Kept] | None:
        """The lines behind a position, None where the run does not reach back to it."""
        chain = self._chain
        if chain is None:
            return None
        before, lines, ends, read = chain
        count, at = len(ends), position.seq - before.seq
        if not 0 <= at <= count or position != _after(chain, at):
            return None
        starts = [before.offset, *ends][at:count]
        return [
            Kept(*each)
            for each in zip(starts, ends[at:count], lines[at:count], read[at:count], strict=True)
        ]


class Kept(NamedTuple):
    """One line: its first byte in the segment, the byte behind it, and its bytes.

    `read`: the line as it was decoded, once somebody has: projections and index read the same ones.
    """

    start: int
    end: int
    raw: bytes
    read: list[Line]


class _Chain(NamedTuple):
    """Lines without a gap behind `before`; `ends[n]` is the byte behind `lines[n]`."""

    before: Position
    lines: list[bytes]
    ends: list[int]
    read: list[list[Line]]


def _after(chain: _Chain, count: int) -> Position:
    """The position behind so many of its lines."""
    before = chain.before
    if not count:
        return before
    # The hash stands at a fixed place before the closing of each line.
    h = chain.lines[count - 1][-19:-3].decode()
    return Position(before.seq + count, h, before.segment, chain.ends[count - 1])


def _purged(seqs: dict[str, int]) -> PurgedError:
    id_, seq = next(iter(seqs.items()))
    return PurgedError(
        f"id {id_!r} is that of a purged event, seq {seq}; nothing was recorded; "
        "to record it all the same, give it another id",
        id=id_,
        seq=seq,
        ids=tuple(seqs),
    )


def _conflict(draft: Draft, seq: int) -> ConflictError:
    return ConflictError(
        f"id {draft.id!r} is taken by another event, seq {seq}; nothing was recorded; "
        "give the new one an id of its own",
        id=draft.id,
        seq=seq,
    )


def _unstamped(draft: Draft, loads: Callable[[bytes], Any]) -> Event:
    """The event that a draft will be, but for what only the log can say."""
    fields = loads(b"{" + draft.rest + b"}")
    fields.update(seq=0, id=draft.id, ts=draft.ts or "")
    return decode(fields)


def _forgets(drafts: Sequence[Draft]) -> bool:
    return any(draft.kind == "forget" for draft in drafts)


def _take(
    spool: Spool, home: str, writer: Writer, active: Active, write: Write, unerased: Unerased
) -> None:
    good: list[Waiting] = []
    bad: list[tuple[Waiting, str]] = []
    for found in _oldest(spool):
        if found.fault:
            bad.append((found, found.fault))
        else:
            good.append(found)
    # A purged event comes back from a spool file whose removal a power cut took back: not its text.
    drafts = [draft for each in good for draft in each.drafts]
    store_bodies(home, unerased(drafts), spool.disk)
    active, refused = _written(spool, writer, active, good, write)
    bad += refused
    notes = [AsideNote(each.name, f"spool-{each.mark[:32]}", what) for each, what in bad]
    told = [_told(each, note) for (each, _), note in zip(bad, notes, strict=True)]
    active, _ = write(active, told, [prepared(draft) for draft in told])
    writer.sync(active, active.seq)
    for note in notes:
        spool.set_aside(note)
    aside = {note.name for note in notes}
    for each in good:
        if each.name not in aside:
            spool.remove(each.name)


def _oldest(spool: Spool) -> list[Waiting]:
    """What one append may take, at least one of what can be read."""
    found: list[Waiting] = []
    size = 0
    for name in spool.names()[:FILES_AT_ONCE]:
        if found and size + named_size(name) > BYTES_AT_ONCE:
            break
        try:
            waiting = spool.read(name)
        except OSError:
            spool.leave(name)
            continue
        if waiting is not None:
            found.append(waiting)
            size += waiting.bytes
    return found


def _written(
    spool: Spool, writer: Writer, active: Active, files: list[Waiting], write: Write
) -> tuple[Active, list[tuple[Waiting, str]]]:
    """Append the files' events; return those with an id that is another event's, and why."""
    drafts = [draft for each in files for draft in each.drafts]
    try:
        return write(active, drafts, [prepared(draft) for draft in drafts])[0], []
    except WriteError:
        raise
    except MemplaneError:
        pass  # nothing was written: now one by one, so that only what is at fault stays out
    refused: list[tuple[Waiting, str]] = []
    for each in files:
        purged: set[str] = set()
        fault = ""
        for draft in each.drafts:
            try:
                active, _ = write(active, [draft], [prepared(draft)])
            except PurgedError:
                purged.add(draft.id)
            except ConflictError as error:
                fault = f"id {draft.id!r} is taken by another event, seq {error.seq}"
            except NotFoundError:  # the whole text that it would be compared with is lost
                fault = f"id {draft.id!r} is taken by an event that cannot be read"
        if fault and purged:  # the erased text must not outlive this in quarantine
            rest = [draft for draft in each.drafts if draft.id not in purged]
            spool.put(rest, writer.clock())
        elif fault:
            refused.append((each, fault))
    return active, refused


def _told(each: Waiting, note: AsideNote) -> Draft:
    """The event that says what was set aside; the same for the same file, however often."""
    data: dict[str, object] = {
        "segment": 0,
        "offset": 0,
        "bytes": each.bytes,
        "quarantine": note.kept,
        "case": "spool",
        # What a stranger called it is nobody's word in a log.
        "file": each.name if is_ours(each.name) else "",
        "what": note.what,
    }
    return own_draft("repair", data, f"repair-{note.kept}")._replace(id_given=True)


class _Place(NamedTuple):
    """Where a line is. A purged one is there no more, and has its place."""

    segment: int
    offset: int
    end: int
    purged: bool = False


class _NothingWaits:
    """Nobody else can write, so nobody waits."""

    notes: Sequence[AsideNote] = ()

    def waits(self) -> bool:
        return False

    def names(self) -> list[str]:
        return []
