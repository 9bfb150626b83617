"""The log of a plane that follows a shared log: publish, read on, derive the lines.

`FollowerLog` has the same face as `FileLog`. What it appends goes to the engine and comes back as
lines; what others published comes with it. The files are a copy that can be derived again at any
time, so they are not synced, and damage at their end is cut off and read again. One thread of the
process speaks with the engine; callers wait for it no longer than they may.

Files, beside those of a log::

    log/.shared         how far the log was derived: position and id of the last entry, the line
    log/.shared-erase   stones that the engine has not been given yet
    log/spool/          the outbox: what was recorded while the engine was not reached
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError as FutureTimeoutError
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from memplane import nofollow
from memplane.errors import (
    ConflictError,
    DivergedError,
    FormatError,
    HomeError,
    InputError,
    LockError,
    NotFoundError,
    PlaneError,
    SharedLogError,
    WriteError,
)
from memplane.event import Draft, decode, encode
from memplane.home import SharedLogWarning
from memplane.lazy import NamedTuple
from memplane.log import FileLog
from memplane.log.disk import drop
from memplane.log.format import (
    SUFFIX_BYTES,
    Opening,
    chained,
    line_id,
    opening,
    prepared,
    stated_hash,
)
from memplane.log.log import Known, Tail, same_content
from memplane.log.reader import LogReader
from memplane.log.segments import (
    Point,
    body_path,
    erased_by,
    named_bodies,
    read_segment_file,
    store_body,
)
from memplane.log.spool import AsideNote
from memplane.log.writer import (
    CACHES,
    Active,
    PendingPurge,
    Writer,
    carry_out,
    clear_cache,
)
from memplane.ports import Appended, Line, SharedEntry
from memplane.shared.derive import SEGMENT_BYTES, Derivation, DerivedLine
from memplane.shared.entries import HOLE, Piece, Published, Stone, parsed, published, stone
from memplane.upkeep.purge import FolderSearch, Quotations

if TYPE_CHECKING:
    from memplane.event import Event
    from memplane.log.recovery import Judgement
    from memplane.log.spool import Waiting
    from memplane.ports import Clock, SharedLog

Given = TypeVar("Given")

READ_AT_ONCE: Final = 1_000  # entries
_FOLLOW_EVERY_S: Final = 0.02  # one request looks at the projections several times
_NOTE_EVERY: Final = 64  # lines, between two notes that other machines compare with their own
_FILES_AT_ONCE: Final = 64  # of the outbox
_NOT_YET: Final = "was not reached yet"
_PUBLISH_AT_ONCE: Final = 400  # entries: an engine's step has its limits; NATS takes 1,000
_TRIES: Final = 50  # to read what was published


class Cursor(NamedTuple):
    """How far a log was derived: behind the entry at `position`, with its id; up to line `seq`."""

    position: int = 0
    id: str = ""
    seq: int = 0
    h: str = ""
    rec: str = ""


class SharedStatus(NamedTuple):
    """How a follower stands to its shared log.

    `position` and `seq` are how far it is, `behind` how many positions the engine was ahead when it
    was reached last, `waiting` the files in the outbox, `fault` why it cannot go on ("" where it
    can).
    """

    position: int
    seq: int
    behind: int
    waiting: int
    fault: str


class Refilled(NamedTuple):
    """What a refill did: events published again, and whether the log was derived anew."""

    published: int
    derived: bool


class FollowerWriter(Writer):
    """Writes derived lines. Nothing is stamped here, and nothing has to be durable."""

    def begun(self) -> Active | None:
        """The active segment, caught up; None where the log has no line yet. Under the lock."""
        if not self.segments.numbers(fresh=True):
            return None
        return self.catch_up(alone=False)

    def begin_derived(self, number: int, header: bytes) -> Active:
        """Make the segment with that header, and go on in it. Under the lock.

        The one before is durable first: only the newest segment is verified when a log is opened.
        """
        if self.active is not None:
            try:
                self.disk.fdatasync(self.active.fd)
            except OSError as error:
                raise WriteError(f"{self.active.path}: {error.strerror}; try again") from error
        self.disk.publish(self.segments.path(number), header)
        self.segments.numbers(fresh=True)
        self.active = self._open(number)
        self._newest = number
        return self.active

    def sync(self, active: Active, seq: int, *, alone: bool = True) -> None:
        """Nothing: the engine keeps what is acknowledged."""

    def _open(self, number: int, known: int = 0) -> Active:
        del known  # no line was durable here because somebody waited for it
        return super()._open(number)

    def _set_aside(
        self, active: Active, data: bytes, judged: Judgement, rec: str, case: str
    ) -> int:
        """Cut what does not verify: it is derived again."""
        del data, rec, case
        self.disk.ftruncate(active.fd, judged.good)
        return active.number


class FollowerLog(FileLog):
    """The log of one machine, derived from a shared one.

    `connect` reaches the engine at the first need. Reading waits at most `catch_up_ms` for it;
    what is recorded and not published within `publish_ms` goes to the outbox. `device` names this
    machine in the notes that it leaves, `about` is what the note says beside how far it is.
    """

    _make_writer = FollowerWriter

    def __init__(
        self,
        home: Path | str,
        plane_id: str,
        *,
        clock: Clock,
        connect: Callable[[], SharedLog],
        catch_up_ms: int = 100,
        publish_ms: int = 5_000,
        device: str = "",
        about: Callable[[], dict[str, Any]] = dict,
        lock_wait_ms_max: int = 5_000,
        loads: Callable[[bytes], Any] = json.loads,
        same: Callable[[Event, Draft], bool] | None = None,
        durability: Literal["sync", "os"] = "sync",
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self._connect = connect
        self._engine: SharedLog | None = None
        self._catch_up_s, self._publish_s = catch_up_ms / 1000, publish_ms / 1000
        self._device, self._about = device, about
        self._plane_id, self._like = plane_id, same or same_content
        self._segment_bytes = segment_bytes
        self._worker: ThreadPoolExecutor | None = None
        self._looking: Future[None] | None = None
        self._looked = float("-inf")
        self._checked = self._warned = False
        self._own_purges: dict[str, tuple[Sequence[str], Sequence[tuple[int, int, int]]]] = {}
        self._read_to = 0  # the last position that was read, pieces too
        self._noted = -1  # how many times so many lines there are; not known yet
        self._status = SharedStatus(0, 0, 0, 0, _NOT_YET)
        super().__init__(
            home,
            plane_id,
            clock=clock,
            durability=durability,
            lock_wait_ms_max=lock_wait_ms_max,
            loads=loads,
            same=same,
            outbox=True,
        )

    # --- what callers ask for ---

    def append(
        self, drafts: Sequence[Draft], *, expected_seq: int | None = None, wait: bool = True
    ) -> list[Appended]:
        """Publish the drafts and return when their lines are here; see `FileLog.append`.

        Where the engine is not reached they go to the outbox, and their receipts have seq 0; with
        `expected_seq` SharedLogError is raised, and nothing recorded.
        """
        for draft in drafts:
            prepared(draft)
        if not drafts:
            self._exchanged(wait=wait)
            return []
        try:
            return self._run(partial(self._publish, drafts, expected_seq), self._publish_s)
        except (SharedLogError, FormatError, LockError, WriteError) as error:
            # WriteError: perhaps published, and its line not written here. Its id makes it one.
            if expected_seq is not None:
                raise
            done = self._put_out(drafts)
            self._warn(error)
            return done

    def spool(self, drafts: Sequence[Draft]) -> list[Appended] | None:
        """Leave the drafts in the outbox, and return None; never waits."""
        self._put_out(drafts)
        return None

    def follow(self) -> None:
        """Derive what others published; waits at most `catch_up_ms`, and goes on behind that."""
        if time.monotonic() - self._looked < _FOLLOW_EVERY_S:
            return
        self._exchanged(wait=True, seconds=self._catch_up_s)
        self._looked = time.monotonic()

    def flush(self) -> None:
        """Publish what waits in the outbox, where the engine is reached."""
        if self.waiting.waits():
            self._exchanged(wait=True)

    def close(self) -> None:
        """Publish what waits, then let go of the engine and of the files."""
        try:
            # RuntimeError: the interpreter is ending, and takes no more work.
            with suppress(RuntimeError):
                self.flush()
        finally:
            self._end_worker()
            self._let_go()

    def _end_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            return
        if self._pid == os.getpid():
            with suppress(FutureTimeoutError, RuntimeError):
                worker.submit(self._disconnect).result(self._catch_up_s)
        worker.shutdown(wait=False)

    def erase(
        self,
        drafts: Sequence[Draft],
        lines: Mapping[int, str],
        files: Sequence[str],
        holes: Sequence[tuple[int, int, int]] = (),
    ) -> list[Appended]:
        """Publish purge events; every machine erases their lines, then the engine's entries go.

        Raises SharedLogError where the engine is not reached: then nothing was purged, or what was
        is erased from the engine when it is reached again.
        """
        del lines  # the events name them
        for draft in drafts:
            self._own_purges[draft.id] = (files, holes)
        return self._run(partial(self._publish, drafts, None), None)

    def erased(self, done: Sequence[Appended]) -> None:
        """Nothing is left to be finished: see `erase`."""

    def status(self) -> SharedStatus:
        """How this machine stands to the shared log, as far as it was reached lately."""
        head = self.head()
        return self._status._replace(seq=head.seq, waiting=len(self.waiting.names()))

    def shared_facts(self) -> dict[str, Any] | None:
        """What a report says of how far behind this log may be; see `SharedStatus`."""
        said = self.status()
        return {"behind": said.behind, "waiting": said.waiting, "fault": said.fault}

    def faults(self) -> list[str]:
        """What of the engine's settings may lose what it acknowledges; who disagrees with it."""
        return self._run(lambda: [*self._reached().faults(), *self._disagreeing()], None)

    def notes(self) -> dict[str, dict[str, Any]]:
        """The last note of each machine, behind one of this machine as it is now."""

        def work() -> dict[str, dict[str, Any]]:
            self._note()
            return self._read_notes()

        return self._run(work, self._publish_s)

    def exchange(self) -> None:
        """Publish the outbox and derive all there is; raises SharedLogError where that fails."""
        self._run(self._exchange, None)

    def refill(self, *, again: bool = False) -> Refilled:
        """Publish what the engine lost of this log, then derive the log from what it has.

        Where others published meanwhile, or with `again`, the log is derived from the first entry
        on, and the segments that were there go to quarantine. Nothing that is in either is lost.
        """
        return self._run(partial(self._refill, again=again), None)

    def wait(self, seconds: float) -> bool:
        """Return at the latest after so long; whether others published something since."""
        return self._run(
            lambda: self._reached().wait(self._cursor().position, seconds),
            seconds + self._publish_s,
        )

    # --- the thread that speaks with the engine ---

    def _run(self, work: Callable[[], Given], seconds: float | None) -> Given:
        """What the work returns; SharedLogError if it takes longer, while it goes on."""
        future = self._submit(work)
        try:
            return future.result(seconds)
        except FutureTimeoutError:
            raise SharedLogError(
                f"{self._home}: the shared log did not answer within {seconds} s", unsure=True
            ) from None

    def _submit(self, work: Callable[[], Given]) -> Future[Given]:
        if self._pid != os.getpid():
            self._begin_process()
        with self._starting:
            if self._worker is None:
                self._worker = ThreadPoolExecutor(1, thread_name_prefix="memplane-shared")
            return self._worker.submit(work)

    def _begin_process(self) -> None:
        """As for any log; no thread, no connection and no answer of a parent is used."""
        super()._begin_process()
        self._starting = Lock()
        self._worker = self._looking = self._engine = None

    def _exchanged(self, *, wait: bool, seconds: float | None = None) -> None:
        """Exchange with the engine, unless that is under way; a fault is a warning."""
        if self._looking is None or self._looking.done() or self._pid != os.getpid():
            self._looking = self._submit(self._exchange)
        if not wait:
            return
        try:
            self._looking.result(self._publish_s if seconds is None else seconds)
        except FutureTimeoutError:
            pass
        except (PlaneError, OSError) as error:  # what is here answers all the same
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        self._status = self._status._replace(fault=str(error))
        if not self._warned:
            self._warned = True
            warnings.warn(f"{self._home}: {error}", SharedLogWarning, stacklevel=4)

    def _reached(self) -> SharedLog:
        if self._engine is None:
            self._engine = self._connect()
        return self._engine

    def _disconnect(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            with suppress(SharedLogError):
                engine.close()

    def _exchange(self) -> None:
        self._publish_waiting()
        self._read_on()
        self._erase_at_engine()
        before, self._noted = self._noted, self._status.seq // _NOTE_EVERY
        if 0 <= before < self._noted:
            self._note()

    # --- publishing ---

    def _publish(self, drafts: Sequence[Draft], expected_seq: int | None) -> list[Appended]:
        self._publish_waiting()
        self._read_on()  # first: an engine that lost entries is not to be given others instead
        head = self.head().seq
        if expected_seq is not None and expected_seq != head:
            raise ConflictError(
                f"the log is at seq {head}, expected {expected_seq}; read on, try again",
                id="",
                seq=head,
            )
        batch = self._known.sort(drafts, head)
        fresh = [drafts[place] for place in batch.fresh]
        # Pieces without their event may come last, and no log stands behind them.
        expected = None if expected_seq is None else self._read_to
        last = self._put_in(([*published(one, self._body)] for one in fresh), expected)
        self._read_upto(last)
        self._erase_at_engine()
        return batch.receipts([self._receipt(draft) for draft in fresh], len(drafts))

    def _read_upto(self, last: int) -> None:
        """Read on until that position is taken in: an engine may give later what it has taken."""
        for _ in range(_TRIES):
            if self._cursor().position >= last:
                return
            self._read_on()
        raise SharedLogError(
            f"{self._home}: published at position {last} of the shared log, which gives it to "
            "nobody yet",
            unsure=True,
        )

    def _body(self, digest: str) -> bytes | None:
        try:
            return nofollow.read_bytes(body_path(self._home, digest), home=self._home)
        except (OSError, HomeError):
            return None

    def _receipt(self, draft: Draft) -> Appended:
        """The receipt of what was published now; ConflictError where another was earlier."""
        found = self._reader.look_up(draft.id)
        if not isinstance(found, Line):
            seq = 0 if found is None else found
            raise ConflictError(
                f"id {draft.id!r} was taken, or is that of a purged event; nothing was recorded; "
                "give the new one an id of its own",
                id=draft.id,
                seq=seq,
            )
        event = found.event
        if not self._like(event, draft):
            raise ConflictError(
                f"id {draft.id!r} is taken by another event, seq {event.seq}; nothing was "
                "recorded; give the new one an id of its own",
                id=draft.id,
                seq=event.seq,
            )
        return Appended(event.seq, event.id, event.ts, duplicate=False)

    def _publish_waiting(self) -> None:
        """Publish the outbox, oldest first: what is there twice counts once."""
        if not self.waiting.waits():
            return
        self._read_on()
        names = self.waiting.names()
        for begin in range(0, len(names), _FILES_AT_ONCE):
            found: dict[str, Waiting] = {}
            for name in names[begin : begin + _FILES_AT_ONCE]:
                try:
                    file = self.waiting.read(name)
                except OSError:
                    self.waiting.leave(name)
                    continue
                if file is None:
                    continue
                if file.fault:
                    self.waiting.leave(name)
                    continue
                found[name] = file
            self._publish_files(found)

    def _publish_files(self, files: Mapping[str, Waiting]) -> None:
        """Publish what files of the outbox hold; a file that the engine never takes stays there."""
        fresh = [
            draft
            for file in files.values()
            for draft in file.drafts
            if self._reader.look_up(draft.id) is None
        ]
        try:
            last = self._put_in([*published(draft, self._body)] for draft in fresh)
        except InputError as error:
            if len(files) > 1:
                for name, file in files.items():
                    self._publish_files({name: file})
                return
            for name in files:
                self.waiting.leave(name)
            self._warn(error)
            return
        self._read_upto(last)
        for file in files.values():
            self._take_out(file)

    def _take_out(self, file: Waiting) -> None:
        """Remove a file of the outbox; one with an event that another's id kept out is kept."""
        lines = {draft.id: self._reader.look_up(draft.id) for draft in file.drafts}
        kept_out = [one.id for one in file.drafts if not self._is_in(lines[one.id], one)]
        if not kept_out:
            self.waiting.remove(file.name)
        elif any(isinstance(line, int) for line in lines.values()):
            # The erased text must not outlive this in quarantine.
            rest = [one for one in file.drafts if not isinstance(lines[one.id], int)]
            self.waiting.put(rest, self._writer.clock())
            self.waiting.remove(file.name)
        else:
            what = f"id {kept_out[0]!r} is taken by another event"
            note = AsideNote(file.name, f"spool-{file.mark[:32]}", what)
            self.waiting.set_aside(note)
            self._warn(
                ConflictError(
                    f"{what}; what waited in the outbox is kept in log/quarantine/{note.kept}",
                    id=kept_out[0],
                    seq=0,
                )
            )

    def _is_in(self, line: Line | int | None, draft: Draft) -> bool:
        """Whether the log has what the draft says, or had it before a purge."""
        try:
            return isinstance(line, int) or (line is not None and self._like(line.event, draft))
        except NotFoundError:  # the whole text that it would be compared with is lost
            return False

    def _put_in(
        self, events: Iterable[list[tuple[str, bytes]]], expected: int | None = None
    ) -> int:
        """Publish the entries of events, as many at once as every engine takes.

        Returns the position of the last one, 0 for none. What belongs to one event goes in one
        step. Of a long batch a part may be in the log before the rest is: what then fails is
        published again, and counts once.
        """
        last, step = 0, list[tuple[str, bytes]]()
        for entries in events:
            if step and len(step) + len(entries) > _PUBLISH_AT_ONCE:
                last = max(self._reached().publish(step, expected=expected))
                expected, step = None if expected is None else last, []
            step += entries
        return max(self._reached().publish(step, expected=expected)) if step else last

    # --- an engine that lost entries ---

    def _refill(self, *, again: bool) -> Refilled:
        head = self._reached().head()
        walk = self._compared()
        others = self._ids_behind(walk.cursor.position)
        missing = (
            [line for line in self._lines_behind(walk.seq) if line[0] not in others]
            if not walk.is_whole
            else []
        )
        if walk.ended:
            self._put_moved(made for _, made in missing)
        else:  # at the very places that they had
            self._put_in((made for _, made in missing), head)
        again = again or not self._compared().is_whole
        if again:
            self._set_log_aside()
        self._read_on()
        return Refilled(len(missing), again)

    def _put_moved(self, events: Iterable[list[tuple[str, bytes]]]) -> None:
        """Publish events that come behind those of others, and then purges of the new places."""
        purges: list[Published] = []
        rest: list[list[tuple[str, bytes]]] = []
        for made in events:
            said = parsed(made[-1][1])
            if isinstance(said, Published) and said.event.kind == "purge":
                purges.append(said)
            else:
                rest.append(made)
        self._put_in(rest)
        seqs = self._seqs() if purges else {}
        self._put_in([*published(_moved(one, seqs), self._body, rec=one.rec)] for one in purges)

    def _seqs(self) -> dict[str, int]:
        """The seq of each event in the log that the engine's entries give, by its id."""
        place, seqs, after = self._beginning(), dict[str, int](), 0
        while entries := self._reached().read(after, READ_AT_ONCE):
            for entry in entries:
                one = place.take(entry, seqs.__contains__)
                if one is not None and one.line:
                    seqs[one.id] = place.end.seq
            after = entries[-1].position
        return seqs

    def _ids_behind(self, position: int) -> set[str]:
        """The ids of the events that the engine has behind a position."""
        found: set[str] = set()
        while entries := self._reached().read(position, READ_AT_ONCE):
            found.update(filter(None, map(_id_of, entries)))
            position = entries[-1].position
        return found

    def _lines_behind(self, seq: int) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
        """The entries of each line behind a seq, with its id: what the engine is to be given."""
        at = 0
        for number in self._segments.numbers(fresh=True):
            data = read_segment_file(self._segments.path(number))
            rec = ""
            for raw in data.split(b"\n")[:-1]:
                at += 1
                said = opening(raw)
                rec = rec if said is None else said.rec
                if at <= seq:
                    continue
                if said is None:
                    yield from self._stone_again(raw, rec)
                elif not raw.startswith(b'"kind":"segment"', said.rest):
                    yield said.id, list(self._entries_again(raw, said))

    def _stone_again(self, raw: bytes, rec: str) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
        id_, h = line_id(raw), stated_hash(raw)
        if id_ is not None and h is not None:
            yield id_, [(id_, stone(Stone(id_, len(raw), h.decode(), rec)))]

    def _entries_again(self, raw: bytes, said: Opening) -> Iterator[tuple[str, bytes]]:
        fields = json.loads(raw)
        event = decode(fields)
        draft = Draft(
            said.id,
            True,
            said.ts if "rec" in fields else None,
            event.kind,
            event.ns,
            event.role,
            event.session,
            event.key,
            event.text,
            raw[said.rest : -SUFFIX_BYTES],
        )
        yield from published(draft, self._body, rec=said.rec)

    def _set_log_aside(self) -> None:
        """Move the segments to quarantine: the log is derived from the first entry on."""
        with self.exclusive() as writer:
            folder = f"{self._home}/log/quarantine"
            nofollow.make_folder(folder, self._home)
            for number in self._segments.numbers(fresh=True):
                path = self._segments.path(number)
                data = read_segment_file(path)
                name = f"{number:08d}-{sha256(data).hexdigest()[:16]}"
                self._disk.replace(path, f"{folder}/{name}", self._home)
            drop(f"{self._home}/log/.shared", self._home)
            for cache in CACHES:
                clear_cache(self._home, cache)
            with suppress(FileNotFoundError):
                nofollow.remove_tree(f"{self._home}/index/ids", self._home)
            writer.finished += 1  # what was folded is folded again
            self._writer = self._make_writer(*self._settings)
            self._writer.finished = writer.finished
            self._segments.forget()
            self._tail = Tail()
            self._reader = LogReader(self._home, self._segments, self._loads, keep_caches=True)
            self._known = Known(self._reader, self._loads, self._like)

    # --- reading on ---

    def _read_on(self) -> None:
        """Derive all that the engine has by now."""
        engine = self._reached()
        while True:
            cursor = self._cursor()
            if not cursor.position and self.head().seq:
                cursor = self._found()
            entries = engine.read(max(cursor.position - 1, 0), READ_AT_ONCE)
            if cursor.position:
                if not entries or not _is_entry(entries[0], cursor):
                    cursor = self._found()
                    entries = engine.read(cursor.position - 1, READ_AT_ONCE)
                entries = entries[1:]
            entries, more = self._with_event(entries)
            if more:
                behind = engine.head() - cursor.position
                self._status = self._status._replace(behind=behind)
            if entries and not self._derive(entries, cursor):
                continue  # another process of this machine went on meanwhile
            self._read_to = entries[-1].position if entries else cursor.position
            if not more:
                break
        head = self._cursor()
        self._status = self._status._replace(
            position=head.position, seq=head.seq, behind=0, fault=""
        )

    def _with_event(self, entries: Sequence[SharedEntry]) -> tuple[list[SharedEntry], bool]:
        """What was read, up to an entry that is no piece, and whether there may be more.

        No log stands between pieces: a reading of pieces alone would be the next one as well.
        """
        found = last = [*entries]
        least = READ_AT_ONCE - 1
        while len(last) >= least and all(map(_is_piece, last)):
            last, least = self._reached().read(found[-1].position, READ_AT_ONCE), READ_AT_ONCE
            found += last
        return found, len(last) >= least

    def _derive(self, entries: Sequence[SharedEntry], begin: Cursor) -> bool:
        """Write the lines of entries that follow the cursor; False where it is another by now."""
        with self.exclusive() as writer:
            assert isinstance(writer, FollowerWriter)
            if self._cursor() != begin:
                return False
            active = writer.begun()
            if active is None:
                place = self._beginning()
            else:
                rec = max(active.rec, begin.rec if begin.seq <= active.seq else "")
                place = Derivation(
                    self._plane_id,
                    Point(active.seq, active.h, rec),
                    active.number,
                    active.end,
                    segment_bytes=self._segment_bytes,
                )
            deriving = _Deriving(self, writer, active, place, begin)
            try:
                for entry in entries:
                    deriving.take(entry)
            finally:
                deriving.put()
                self._keep_cursor(deriving.cursor)
        return True

    def _beginning(self) -> Derivation:
        return Derivation(self._plane_id, segment_bytes=self._segment_bytes)

    def known_at(self, id_: str) -> Line | int | None:
        """The line with an id; the seq of a purged one; None where the log has none."""
        return self._reader.look_up(id_)

    def put_lines(self, active: Active, lines: list[DerivedLine], rec: str) -> None:
        """Write derived lines behind the last one. Under the lock."""
        if not lines:
            return
        start, batch = active.end, [one.line for one in lines]
        data = b"".join(batch)
        self._writer.write(active, data)
        if all(one.event is not None for one in lines):
            self._tail.add(active.number, start, active.seq, active.h, batch)
        else:
            self._tail = Tail()
        if self._reader.has_table:
            self._reader.added(active.number, start, [one.id for one in lines], batch)
        active.h, active.rec, active.seq = batch[-1][-19:-3], rec, active.seq + len(lines)
        active.end = start + len(data)

    def _found(self) -> Cursor:
        """Find where this log stands in what the engine has, deriving it from the beginning.

        Raises DivergedError where the engine lacks a line of this log, or has another in its place.
        """
        walk = self._compared()
        if not walk.is_whole:
            raise DivergedError(
                f"{self._home}: the shared log has lost what it gave this machine: both agree up "
                f"to seq {walk.seq}, and this log goes up to seq {walk.head}; nothing was changed; "
                "`memplane shared refill` publishes what is missing",
                seq=walk.seq,
            )
        with self.exclusive():
            self._keep_cursor(walk.cursor)
        return walk.cursor

    def _compared(self) -> Comparison:
        walk, after = Comparison(self, self._beginning()), 0
        while not walk.ended and (entries := self._reached().read(after, READ_AT_ONCE)):
            for entry in entries:
                if not walk.see(entry):
                    break
            after = entries[-1].position
        return walk

    # --- where the log stands ---

    def _cursor(self) -> Cursor:
        """How far the log was derived; the beginning where that is not known, or not true."""
        try:
            said = json.loads(nofollow.read_bytes(f"{self._home}/log/.shared"))
            cursor = Cursor(*(said[name] for name in Cursor._fields))
            whole = all(isinstance(one, kind) for one, kind in zip(cursor, _KINDS, strict=True))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return Cursor()
        if not whole or (cursor.seq and self._stated(cursor.seq) != cursor.h):
            return Cursor()
        return cursor

    def hashes(self) -> list[bytes]:
        """The hash of each line, purged ones too, up to the first that does not verify."""
        found: list[bytes] = []
        h = self._segments.genesis
        for number in self._segments.numbers(fresh=True):
            data = read_segment_file(self._segments.path(number))
            run = chained(data, 0, len(data), len(found), h)
            ends = [*run.starts[1:], run.end]
            found += [data[end - 19 : end - 3] for end in ends if run.starts]
            h = run.h
        return found

    def _stated(self, seq: int) -> str:
        """The hash of the line with that seq; "" where there is none."""
        head = self.head()
        if head.seq == seq:
            return head.h
        line = self.line(seq) if seq < head.seq else None
        return "" if line is None else line.event.h

    def _keep_cursor(self, cursor: Cursor) -> None:
        path = f"{self._home}/log/.shared"
        new = f"{path}.{os.getpid()}.new"
        fd = nofollow.create_draft(new, home=self._home)
        try:
            os.write(fd, encode(cursor._asdict()).encode())
        finally:
            os.close(fd)
        self._disk.replace(new, path, self._home)

    # --- purges ---

    def purge(self, writer: FollowerWriter, one: DerivedLine, rec: str) -> Active:
        """Write the line of a purge event and erase what it names here. Under the lock.

        What the engine is to be given instead is noted first: the lines tell it only now. A line
        with another id than the event names stays: after a refill others' may stand there.
        """
        event = one.event
        assert event is not None
        gone = {each.seq: each.id for each in erased_by(event)}
        lines = [
            line
            for seq, id_ in gone.items()
            if (line := self._reader.line(seq)) is not None
            and line.event.id == id_
            and line.event.kind != "segment"
        ]
        stones = {
            line.event.id: Stone(
                line.event.id, line.end - line.offset - 1, line.event.h, line.event.rec
            )
            for line in lines
        }
        before, holes_left = self._to_erase()
        self._keep_to_erase({**before, **stones}, holes_left)
        files, holes = self._own_purges.pop(one.id, ((), ()))
        if not files:
            files = self._quoting([line.event for line in lines])
        there = {line.event.seq: line.event.id for line in lines}
        plan = PendingPurge((one.id,), there, tuple(files), tuple(holes))

        def put(now: Active) -> tuple[Active, list[Appended]]:
            self.put_lines(now, [one], rec)
            return now, []

        carry_out(writer, plan, put)
        writer.finish_purge()
        self._tail = Tail()
        self._reader.purges.all_of(there)
        found = writer.begun()
        assert found is not None
        return found

    def _quoting(self, events: Sequence[Event]) -> list[str]:
        """The files of this machine that hold something of the events: bodies, reports, copies."""
        named = {digest for event in events for digest in named_bodies(event.kind, event.data)}
        texts = []
        for event in events:
            try:
                texts.append(self.text(event))
            except (NotFoundError, OSError, ValueError):
                texts.append(event.text)
        home = Path(self._home)
        look = FolderSearch(home, Quotations(texts), {one.id for one in events}, (), set())
        bodies = [os.path.relpath(body_path(self._home, one), self._home) for one in sorted(named)]
        return [*look.to_remove(), *bodies]

    def again_erased(self, id_: str, positions: Sequence[int]) -> None:
        """Note entries that bring a purged event again: they give no line, and their text goes."""
        stones, holes = self._to_erase()
        # Of one whose stone is not given yet this may be the very entry of the line, read again
        # after a crash: who joins needs its stone.
        if id_ not in stones:
            self._keep_to_erase(stones, sorted({*holes, *positions}))

    def _to_erase(self) -> tuple[dict[str, Stone], list[int]]:
        """What the engine is to be given: stones by id, and positions of which nothing stays."""
        try:
            said = json.loads(nofollow.read_bytes(f"{self._home}/log/.shared-erase"))
            stones = {id_: Stone(id_, *row) for id_, row in said["stones"].items()}
            return stones, [int(one) for one in said["holes"]]
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return {}, []

    def _keep_to_erase(self, stones: Mapping[str, Stone], holes: Sequence[int]) -> None:
        path = f"{self._home}/log/.shared-erase"
        if stones or holes:
            rows = {id_: list(one[1:]) for id_, one in stones.items()}
            said = encode({"stones": rows, "holes": [*holes]})
            self._disk.publish(path, said.encode(), self._home)
        else:
            drop(path, self._home)

    def _erase_at_engine(self) -> None:
        """Give the engine the stones of what was purged here; those who join later need them."""
        stones, holes = self._to_erase()
        if holes:
            self._reached().erase(dict.fromkeys(holes, HOLE))
        if stones:
            self._put_stones(stones)
        if stones or holes:
            with self.exclusive():
                now, more = self._to_erase()
                left = {id_: one for id_, one in now.items() if id_ not in stones}
                self._keep_to_erase(left, [one for one in more if one not in holes])

    def _put_stones(self, stones: Mapping[str, Stone]) -> None:
        engine, after = self._reached(), 0
        place, known = self._beginning(), set[str]()
        rest: dict[int, bytes] = {}
        while entries := engine.read(after, READ_AT_ONCE):
            events: dict[int, bytes] = {}
            for entry in entries:
                one = place.take(entry, known.__contains__)
                if one is not None:
                    known.add(one.id)
                    if one.id in stones:
                        events[entry.position] = stone(stones[one.id])
                    continue
                # A stone gives a line: it stands only where the event gave one.
                said = parsed(entry.payload)
                of = said.of if isinstance(said, Piece) else _id_of(entry)
                if of in stones:
                    rest[entry.position] = HOLE
            engine.erase(events)
            after = entries[-1].position
        engine.erase(rest)  # last: without its pieces an event would give no line

    # --- notes ---

    def _note(self) -> None:
        """Tell the others how far this machine is, so that two logs of one engine are seen."""
        head = self.head()
        if not self._device or not head.seq:
            return
        said = {**self._about(), "seq": head.seq, "h": head.h, "position": self._cursor().position}
        self._reached().put_note(self._device, encode(said).encode())

    def _disagreeing(self) -> Iterator[str]:
        """Other machines whose log has another line than this one has at the same seq."""
        hashes = self.hashes()
        for device, note in sorted(self._read_notes().items()):
            seq, h = note.get("seq"), note.get("h")
            if device == self._device or type(seq) is not int or not 0 < seq <= len(hashes):
                continue
            if hashes[seq - 1].decode() != h:
                yield (
                    f"{device}: its log has another line at seq {seq} than this one; one of the "
                    "two is to run `memplane shared refill --again`"
                )

    def _read_notes(self) -> dict[str, dict[str, Any]]:
        found = {}
        for device, note in self._reached().notes().items():
            with suppress(ValueError):
                said = json.loads(note)
                if isinstance(said, dict):
                    found[device] = said
        return found


_KINDS: Final = (int, str, int, str, str)


def _id_of(entry: SharedEntry) -> str:
    said = parsed(entry.payload)
    if isinstance(said, Published):
        return said.draft.id
    return said.id if isinstance(said, Stone) else ""


def _moved(purge: Published, seqs: Mapping[str, int]) -> Draft:
    """The draft of a purge event, which names the lines of its ids where they are now."""
    fields = json.loads(b"{" + purge.draft.rest + b"}")
    rows = [one for one in erased_by(purge.event) if one.id in seqs]
    fields["data"]["purge"] |= {
        "seqs": [seqs[one.id] for one in rows],
        "ids": [one.id for one in rows],
        "documents": [one.documents for one in rows],
    }
    return purge.draft._replace(rest=encode(fields)[1:-1].encode())


def _is_piece(entry: SharedEntry) -> bool:
    return b'"piece":' in entry.payload[:40]


def _is_entry(entry: SharedEntry, cursor: Cursor) -> bool:
    """Whether an entry is the one that the cursor stands behind."""
    return entry.position == cursor.position and _id_of(entry) == cursor.id


class _Deriving:
    """Entries on their way to lines, under the lock."""

    def __init__(
        self,
        log: FollowerLog,
        writer: FollowerWriter,
        active: Active | None,
        place: Derivation,
        cursor: Cursor,
    ) -> None:
        self._log, self._writer, self._active, self._place = log, writer, active, place
        self._lines: list[DerivedLine] = []
        self._ids: set[str] = set()
        self._last: SharedEntry | None = None
        self._begin = cursor
        self._pieces: list[int] = []  # positions of those right before

    def take(self, entry: SharedEntry) -> None:
        """Derive what the entry adds; written by `put` at the latest."""
        one = self._place.take(entry, self._known)
        if _is_piece(entry):
            self._pieces.append(entry.position)
            return
        pieces, self._pieces = self._pieces, []
        if one is not None:
            self._add(one)
        elif isinstance(self._log.known_at(_id_of(entry)), int):
            self._log.again_erased(_id_of(entry), [*pieces, entry.position])
        self._last = entry

    def _known(self, id_: str) -> bool:
        return id_ in self._ids or self._log.known_at(id_) is not None

    def _add(self, one: DerivedLine) -> None:
        for body in one.bodies:
            store_body(self._log.home, body, self._writer.disk)
        if one.header:
            self.put()
            self._active = self._writer.begin_derived(self._place.segment, one.header)
        if not one.line:
            return
        if one.event is not None and one.event.kind == "purge":
            self.put()
            assert self._active is not None
            self._active = self._log.purge(self._writer, one, self._place.end.rec)
            return
        self._lines.append(one)
        self._ids.add(one.id)

    def put(self) -> None:
        """Write the lines that were derived."""
        lines, self._lines = self._lines, []
        self._ids.clear()
        if lines:
            assert self._active is not None
            self._log.put_lines(self._active, lines, self._place.end.rec)

    @property
    def cursor(self) -> Cursor:
        """Where the log stands now: behind the last entry that is no piece."""
        if self._last is None:
            return self._begin
        end = self._place.end
        return Cursor(self._last.position, _id_of(self._last), end.seq, end.h.decode(), end.rec)


class Comparison:
    """The entries of an engine from the first one on, beside the lines of a log.

    `place` is behind the last line that both have, `cursor` behind the last entry before another.
    `ended`: an entry gave a line that the log does not have there.
    """

    def __init__(self, log: FollowerLog, place: Derivation) -> None:
        self._log, self.place, self._hashes = log, place, log.hashes()
        self.head = len(self._hashes)
        self.cursor, self.ended = Cursor(), False
        self._last = place.end

    @property
    def is_whole(self) -> bool:
        """Whether the engine has all lines of the log."""
        return self._last.seq == self.head

    @property
    def seq(self) -> int:
        """The last line that both have."""
        return self._last.seq

    def see(self, entry: SharedEntry) -> bool:
        """Take the next entry; False where it gives a line that the log does not have."""
        one = self.place.take(entry, self._known)
        if one is not None:
            seqs = range(self._last.seq + 1, self.place.end.seq + 1)
            hashes = [line[-19:-3] for line in (one.header, one.line) if line]
            found = [self._hashes[seq - 1 : seq] for seq in seqs]
            if found != [[one] for one in hashes]:
                self.ended = True
                # A segment that was just begun, and whose first line was lost or not written yet.
                if one.header and found[0] == hashes[:1] and self.head == seqs[0]:
                    self._last = self._last._replace(seq=self.head)
                return False
        self._last = self.place.end
        if not _is_piece(entry):
            end = self.place.end
            self.cursor = Cursor(entry.position, _id_of(entry), end.seq, end.h.decode(), end.rec)
        return True

    def _known(self, id_: str) -> bool:
        found = self._log.known_at(id_)
        seq = found.event.seq if isinstance(found, Line) else found
        return seq is not None and seq <= self.place.end.seq
