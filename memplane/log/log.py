"""The event log on files: the port `EventLog`, and the few things a plane needs besides."""

# Paths are strings here: pathlib costs more than the append it would serve.
# ruff: noqa: PTH116, PTH119
from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from memplane.errors import ConflictError, CorruptError, HomeError, LockError, WriteError
from memplane.event import decode
from memplane.log.bodies import body_hash, load_body, store_body
from memplane.log.disk import Disk
from memplane.log.format import prepared, stamp
from memplane.log.lock import LogLock
from memplane.log.reader import Gap, Reader
from memplane.log.segments import Segments
from memplane.log.tail import Tail
from memplane.log.writer import Active, Writer
from memplane.ports import Appended, Head, Line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from memplane.event import Draft, Event
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
    decides whether a repeated id brings the same event.
    """

    def __init__(
        self,
        home: Path,
        plane_id: str,
        *,
        clock: Clock,
        durability: Literal["sync", "os"] = "sync",
        lock_wait_ms_max: int = 5000,
        loads: Callable[[bytes], Any] = json.loads,
        same: Callable[[Event, Draft], bool] | None = None,
        read_only: bool = False,
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
        disk: Disk | None = None,
    ) -> None:
        self._home = os.fspath(home)
        self._disk = disk or Disk()
        self._durable = durability == "sync"
        self._read_only = read_only
        self._lock_wait_ms_max = lock_wait_ms_max
        self._loads = loads
        self._same = same or self._same_content
        self._segments = Segments(f"{self._home}/log", plane_id)
        self._reader = Reader(self._home, self._segments, loads, keep_caches=not read_only)
        self._settings = (self._segments, self._disk, clock, segment_bytes_max)
        self._begin_process()

    @property
    def home(self) -> str:
        """The folder of the plane, where bodies lie too."""
        return self._home

    def append(self, drafts: Sequence[Draft], *, expected_seq: int | None = None) -> list[Appended]:
        """See `memplane.ports.EventLog.append`; ConflictError too if not at `expected_seq`."""
        quoted = [prepared(draft) for draft in drafts]
        if self._read_only:
            raise HomeError(f"{self._home}: opened for reading; open it for writing to append")
        self._store_bodies(drafts)
        alone = self._enter()
        try:
            active = self._writer.catch_up(alone=alone)
            if self._reader.suspicious:
                self._refuse_damage()
            if expected_seq is not None and expected_seq != active.seq:
                raise ConflictError(
                    f"the log is at seq {active.seq}, expected {expected_seq}; read on, try again",
                    id="",
                    seq=active.seq,
                )
            if any(draft.id_given for draft in drafts):
                active, receipts = self._write_new(active, drafts, quoted)
            else:
                active, receipts = self._write(active, drafts, quoted)
        finally:
            self._leave()
        self._settle(active, receipts)
        return receipts

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

    def find(self, id: str) -> Line | None:  # noqa: A002 - the field's name
        """The line with that id, by a cached hash."""
        return self._reader.find(id)

    def text(self, event: Event) -> str:
        """The event's whole text, from its body where the line holds only the beginning."""
        digest = body_hash(event)
        if digest is None:
            return event.text
        return load_body(self._home, event, digest).decode()

    def gaps(self) -> tuple[Gap, ...]:
        """The corrupt regions that this object's reads and look-ups had to skip so far."""
        return self._reader.gaps()

    def flush(self) -> None:
        """Make everything that was appended here survive a power cut."""
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def exclusive(self) -> Iterator[Writer]:
        """Hold the log's lock: for repairs, which must not see appends."""
        self._enter()
        try:
            yield self._writer
        finally:
            self._leave()

    def _begin_process(self) -> None:
        """Own lock, descriptors and locks among threads; those of a parent are never used."""
        self._pid = os.getpid()
        self._mutex = Lock()
        self._lock = LogLock(f"{self._home}/log/.lock", self._lock_wait_ms_max)
        self._writer = Writer(*self._settings)
        self._tail = Tail()
        self._reader.forget_locks()

    def _enter(self) -> bool:
        """Take the lock among threads, then among processes; whether nobody held it meanwhile."""
        if self._pid != os.getpid():
            self._begin_process()
        if not self._mutex.acquire(timeout=self._lock_wait_ms_max / 1000):
            raise LockError(
                f"{self._home}/log/.lock: another thread of this process held it for more than "
                f"{self._lock_wait_ms_max} ms",
                holder=self._pid,
            )
        try:
            if self._writer.active is None:
                self._writer.make_folder()
            return self._lock.acquire()
        except BaseException:
            self._mutex.release()
            raise

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

    def _store_bodies(self, drafts: Sequence[Draft]) -> None:
        for draft in drafts:
            if draft.body is not None:
                try:
                    store_body(self._home, draft.body, self._disk)
                except OSError as error:
                    raise WriteError(
                        f"{self._home}/bodies: {error.strerror}; nothing was recorded"
                    ) from error

    def _write_new(
        self, active: Active, drafts: Sequence[Draft], quoted: list[str]
    ) -> tuple[Active, list[Appended]]:
        """Write the drafts whose id is not in the log, nor earlier in the batch. Under the lock."""
        known: dict[int, Appended] = {}
        first: dict[str, int] = {}
        repeated: dict[int, int] = {}  # place in the batch -> place of the same id before it
        for place, draft in enumerate(drafts):
            if draft.id_given:
                earlier = first.setdefault(draft.id, place)
                if earlier != place:
                    repeated[place] = earlier
                elif (line := self._reader.find(draft.id)) is not None:
                    known[place] = self._judge_repeat(line.event, draft)
        fresh = [p for p in range(len(drafts)) if p not in known and p not in repeated]
        new = dict(zip(fresh, range(len(fresh)), strict=True))
        for place, earlier in repeated.items():
            if earlier in new and not self._same(
                _unstamped(drafts[earlier], self._loads), drafts[place]
            ):
                raise self._conflict(drafts[place], active.seq + 1 + new[earlier])
            if earlier in known:
                line = self._reader.find(drafts[place].id)
                assert line is not None
                known[place] = self._judge_repeat(line.event, drafts[place])
        active, written = self._write(
            active, [drafts[p] for p in fresh], [quoted[p] for p in fresh]
        )
        for place, earlier in repeated.items():
            if earlier in new:
                known[place] = written[new[earlier]]._replace(duplicate=True)
        return active, [known[p] if p in known else written[new[p]] for p in range(len(drafts))]

    def _write(
        self, active: Active, drafts: Sequence[Draft], quoted: list[str]
    ) -> tuple[Active, list[Appended]]:
        """Stamp the drafts and write them in one piece. Under the lock."""
        receipts: list[Appended] = []
        if not drafts:
            return active, receipts
        writer = self._writer
        size = LINE_FRAME_BYTES * len(drafts)
        for draft, id_ in zip(drafts, quoted, strict=True):
            size += len(draft.rest) + len(id_)
        if active.end + size > writer.segment_bytes_max:
            active = writer.room(active, size)
        lines: list[bytes] = []
        seq, h, start, dur = active.seq, active.h, active.end, active.synced
        rec = max(active.rec, writer.clock())
        for draft, id_ in zip(drafts, quoted, strict=True):
            seq += 1
            line, h = stamp(seq, dur, id_, draft.ts, rec, draft.rest, h)
            lines.append(line)
            receipts.append(Appended(seq, draft.id, draft.ts or rec, False))
        batch = b"".join(lines)
        writer.write(active, batch)
        at = Head(active.seq, active.h.decode(), active.number, start)
        for line in lines:
            # The hash stands at a fixed place before the closing of each line.
            after = Head(at.seq + 1, line[-19:-3].decode(), at.segment, at.offset + len(line))
            self._tail.add(at, after, line)
            at = after
        active.h, active.rec, active.seq = h, rec, seq
        active.end = start + len(batch)  # last: `head` reads it first
        if self._reader.has_table:
            self._reader.added(active.number, start, drafts, lines)
        return active, receipts

    def _judge_repeat(self, event: Event, draft: Draft) -> Appended:
        if not self._same(event, draft):
            raise self._conflict(draft, event.seq)
        return Appended(event.seq, event.id, event.ts, duplicate=True)

    def _conflict(self, draft: Draft, seq: int) -> ConflictError:
        return ConflictError(
            f"id {draft.id!r} is taken by another event, seq {seq}; nothing was recorded; "
            "give the new one an id of its own",
            id=draft.id,
            seq=seq,
        )

    def _same_content(self, event: Event, draft: Draft) -> bool:
        if (event.kind, event.ns, event.role, event.session, event.key) != (
            draft.kind,
            draft.ns,
            draft.role,
            draft.session,
            draft.key,
        ):
            return False
        digest = body_hash(event)
        if digest is None:
            return event.text == draft.text
        from hashlib import sha256  # noqa: PLC0415 - long texts are rare

        return sha256(draft.text.encode()).hexdigest() == digest

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
            Line(decode(self._loads(raw)), after.segment, before.offset, after.offset)
            for before, after, raw in kept
        )

    def _is_end(self, active: Active, head: Head) -> bool:
        if os.access(active.next_path, os.F_OK):
            return False
        try:
            found = os.stat(active.path)
        except FileNotFoundError:
            return False
        return found.st_size == head.offset and found.st_ino == active.inode


def _unstamped(draft: Draft, loads: Callable[[bytes], Any]) -> Event:
    """The event that a draft will be, but for what only the log can say."""
    fields = loads(b"{" + draft.rest + b"}")
    fields.update(seq=0, id=draft.id, ts=draft.ts or "")
    return decode(fields)
