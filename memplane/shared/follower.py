"""The log of a plane that follows a shared log: publish, read on, derive the lines.

`FollowerLog` has the same face as `FileLog`. What it appends goes to the engine and comes back as
lines; what others published comes with it. The files are a copy that can be derived again at any
time, so they are not synced, and damage at their end is cut off and read again. One thread of the
process speaks with the engine; callers wait for it no longer than they may.
The files are listed in `memplane.shared.apply`; `log/spool/` is the outbox.

`shared_log_of` gives the engine of an address; `begin_shared_log` and `plane_of_log` begin or join.
"""

from __future__ import annotations

import json
import os
import platform
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
from memplane.event import Draft, encode
from memplane.home import SharedLogWarning
from memplane.lazy import NamedTuple, late
from memplane.log import FileLog
from memplane.log.disk import drop
from memplane.log.log import Known, Tail, same_content
from memplane.log.reader import KnownIds, LogReader
from memplane.log.segments import (
    Point,
    body_path,
    erased_by,
    opening,
    prepared,
    read_segment_file,
)
from memplane.log.spool import AsideNote
from memplane.log.writer import (
    CACHES,
    Active,
    PendingPurge,
    carry_out,
    clear_cache,
)
from memplane.ports import Appended, Line, SharedEntry
from memplane.shared.apply import (
    HOLE,
    READ_AT_ONCE,
    SEGMENT_BYTES,
    Applying,
    Beginning,
    Comparison,
    Cursor,
    Derivation,
    DerivedLine,
    FollowerWriter,
    Published,
    Stone,
    beginning,
    files_quoting,
    id_of,
    is_entry,
    is_piece,
    line_hashes,
    moved,
    parsed,
    published,
    published_again,
    put_stones,
    read_cursor,
    read_to_erase,
    write_cursor,
    write_to_erase,
)

if TYPE_CHECKING:
    from memplane.event import Event
    from memplane.home import SharedName
    from memplane.log.spool import Waiting
    from memplane.ports import Clock, SharedLog
    from memplane.shared import servers
else:
    servers = late("memplane.shared.servers")


Given = TypeVar("Given")

_FOLLOW_EVERY_S: Final = 0.02  # one request looks at the projections several times
_NOTE_EVERY: Final = 64  # lines, between two notes that other machines compare with their own
_FILES_AT_ONCE: Final = 64  # of the outbox
_NOT_YET: Final = "was not reached yet"
_PUBLISH_AT_ONCE: Final = 400  # entries: an engine's step has its limits; NATS takes 1,000
_TRIES: Final = 50  # to read what was published


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
        self._ids: KnownIds | None = None  # while many entries are applied
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
            # Where warnings are errors this is none: it is kept, and its receipt says so.
            with suppress(SharedLogWarning):
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
        if worker is not None and self._pid == os.getpid():
            with suppress(FutureTimeoutError, RuntimeError):
                worker.submit(self._disconnect).result(self._catch_up_s)
        if worker is not None:
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
        if not head:
            raise SharedLogError(
                f"{self._home}: nothing was published: the shared log is of another plane than in "
                "plane.json, or has not begun; check its name and address"
            )
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
        self._put_in([*published(moved(one, seqs), self._body, rec=one.rec)] for one in purges)

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
            found.update(filter(None, map(id_of, entries)))
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
                made = published_again(raw, said, rec, self._body)
                if made is not None:
                    yield made

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
        try:
            self._derive_all(self._reached())
        finally:
            self._ids = None

    def _derive_all(self, engine: SharedLog) -> None:
        while True:
            cursor = self._cursor()
            if not cursor.position and self.head().seq:
                cursor = self._found()
            entries = engine.read(max(cursor.position - 1, 0), READ_AT_ONCE)
            if cursor.position:
                if not entries or not is_entry(entries[0], cursor):
                    cursor = self._found()
                    entries = engine.read(cursor.position - 1, READ_AT_ONCE)
                entries = entries[1:]
            entries, more = self._with_event(entries)
            if more:
                behind = engine.head() - cursor.position
                self._status = self._status._replace(behind=behind)
                self._keep_ids(behind)
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
        while len(last) >= least and all(map(is_piece, last)):
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
            h = self._segments.genesis if active is None else active.h
            known = self._ids if self._ids is not None and self._ids.end == h else None
            self._ids = known  # another process of this machine may have gone on meanwhile
            applying = Applying(self, writer, active, place, begin, known)
            try:
                for entry in entries:
                    applying.take(entry)
            finally:
                applying.put()
                write_cursor(self._home, self._disk, applying.cursor)
            if known is not None:
                known.end = place.end.h
        return True

    def _keep_ids(self, behind: int) -> None:
        """Gather the ids of the log, where looking so many new ones up costs more than that."""
        head = self.head()  # first: another process of this machine may go on meanwhile
        numbers = self._segments.numbers(fresh=True)
        if self._ids is None and behind * len(numbers) >= head.seq:
            self._ids = KnownIds.of(self._reader.id_hashes(numbers), head.h.encode())

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

    def sealed(self, number: int, following: int) -> None:
        """Keep the table of a segment's ids while it is at hand."""
        self._reader.sealed(number, following)

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
            write_cursor(self._home, self._disk, walk.cursor)
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
        cursor = read_cursor(self._home)
        if cursor.seq and self._stated(cursor.seq) != cursor.h:
            return Cursor()
        return cursor

    def hashes(self) -> list[bytes]:
        """The hash of each line, purged ones too, up to the first that does not verify."""
        return line_hashes(self._segments)

    def _stated(self, seq: int) -> str:
        """The hash of the line with that seq; "" where there is none."""
        head = self.head()
        if head.seq == seq:
            return head.h
        line = self.line(seq) if seq < head.seq else None
        return "" if line is None else line.event.h

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
        before, holes_left = read_to_erase(self._home)
        write_to_erase(self._home, self._disk, {**before, **stones}, holes_left)
        files, holes = self._own_purges.pop(one.id, ((), ()))
        if not files:
            files = files_quoting(self, [line.event for line in lines])
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

    def again_erased(self, id_: str, positions: Sequence[int]) -> None:
        """Note entries that bring a purged event again: they give no line, and their text goes."""
        stones, holes = read_to_erase(self._home)
        # Of one whose stone is not given yet this may be the very entry of the line, read again
        # after a crash: who joins needs its stone.
        if id_ not in stones:
            write_to_erase(self._home, self._disk, stones, sorted({*holes, *positions}))

    def _erase_at_engine(self) -> None:
        """Give the engine the stones of what was purged here; those who join later need them."""
        stones, holes = read_to_erase(self._home)
        if holes:
            self._reached().erase(dict.fromkeys(holes, HOLE))
        if stones:
            put_stones(self._reached(), stones, self._plane_id, self._beginning)
        if stones or holes:
            with self.exclusive():
                now, more = read_to_erase(self._home)
                left = {id_: one for id_, one in now.items() if id_ not in stones}
                write_to_erase(
                    self._home, self._disk, left, [one for one in more if one not in holes]
                )

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


_POSTGRES: Final = ("postgresql", "postgres")
_NATS: Final = ("nats", "tls")
_LOOKED: Final = 100  # entries, in which the beginning is found: others' rubbish may come before


def shared_log_of(shared: SharedName, environment: Mapping[str, str]) -> SharedLog:
    """The engine's log; nothing is connected yet.

    Raises SharedLogError where the environment has no address, InputError for one of no engine,
    MissingExtraError. No message repeats the address: it may hold a password.
    """
    address = environment.get(shared.address, "")
    scheme = address.partition("://")[0]
    if not address:
        raise SharedLogError(
            f"{shared.address} is not set: it holds the address of the shared log "
            f"{shared.name!r}, as postgresql://host/database or nats://host"
        )
    if scheme in _POSTGRES:
        return servers.PostgresSharedLog(address, shared.name)
    if scheme in _NATS:
        return servers.NatsSharedLog(address, shared.name)
    raise InputError(
        f"expected an address that begins with postgresql:// or nats://, found {scheme!r:.20}",
        where=shared.address,
    )


def begin_shared_log(log: SharedLog, plane_id: str) -> None:
    """Publish the first entry; raises ConflictError where the log has one."""
    try:
        log.publish([beginning(plane_id)], expected=0)
    except ConflictError as error:
        raise ConflictError(
            "there is a shared log of that name; join it with `memplane join`", id="", seq=error.seq
        ) from None


def plane_of_log(log: SharedLog) -> str:
    """The plane that a shared log is of; NotFoundError where it has not begun."""
    for entry in log.read(0, _LOOKED):
        said = parsed(entry.payload)
        if isinstance(said, Beginning):
            return said.plane
    raise NotFoundError(
        "there is no shared log of that name; begin it with `memplane init --shared NAME`"
    )


def device_name(folder: str) -> str:
    """How a machine is called in its notes: its name, and the plane's folder by a hash."""
    host = "".join(c if c.isascii() and c.isalnum() else "-" for c in platform.node())[:40]
    return f"{host or 'machine'}-{sha256(os.fsencode(os.path.realpath(folder))).hexdigest()[:8]}"
