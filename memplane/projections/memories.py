"""Values by key, now and as of any seq: the cache file, and in memory what was folded since.

Rows up to a base come from the file, later ones from memory. A file that replaced the opened one
has those rows too, so both together are the fold of one prefix of the log, whatever other processes
write meanwhile. Where the file fails, is locked or is lost, its rows are folded again from the log
into memory, without an effect on answers.

**The file** of the unbounded projections is `projections/cache.sqlite` (stdlib sqlite3)::

    checkpoint   projector, version, plane, segment, offset, seq, h: a row for each projector
    memories     one record for each keyed event, by (ns, key, seq)
    acts         forgets and pins, by (form, ns, value, seq)
    touches      when an event was touched, by (id, seq)

A file is never changed: rows are added to a copy, which replaces it by rename, so that a reader
continues with what it has open, and a copy of the file always has one consistent state. The file is
identified by its content, wherever it lies: bytes 60-63 and 68-71 of a database are the
application's own (`user_version`, `application_id`) and hold the first 64 bits of SHA-256 over the
file with zeros in their place. A file with another sum (cut, patched together, damaged), of another
plane or of another version is made again. It is not synced: what a power cut leaves does not have
its sum. Writers hold the lock of the folder (`memplane.index.storage.alone`); readers need no lock.

`projections/cache.acts` is a checkpoint with the acts and the sum of the file that it was written
beside. While that file has this sum, a process opens it when a value or a touch is first asked for:
most hooks ask for none, and then import no sqlite3.

A Python may have been built without the module `sqlite3`: then there is no such file, every use of
one is `Broken` (`absent`), and its readers fold the log into memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import itertools
import json
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from memplane import nofollow
from memplane.event import Event
from memplane.index.storage import alone, rename_over, replace_bytes
from memplane.ports import Line, Position
from memplane.projections.in_force import (
    ORIGIN,
    Act,
    Archived,
    Chains,
    KeyValueRow,
    MemoryChains,
    Named,
    Rows,
    Target,
    TouchAct,
    forget_of,
    is_foreign,
    place_of,
    settle_values,
)
from memplane.projections.projector import (
    Checkpoint,
    Replayable,
    Stretch,
    canonical,
    catch_up,
    encode_checkpoint,
    fold,
    overtaken,
    read_checkpoint,
    uncollected,
)

if TYPE_CHECKING:
    import sqlite3


CACHE_NAME: Final = "cache.sqlite"
ACTS_NAME: Final = "cache.acts"
_ACTS_BYTES_MAX: Final = 256 * 1024
_WAIT_S: Final = 0.2  # a commit takes milliseconds; who holds the file longer is not one of us
_PROJECTOR: Final = "memories"
_COLUMNS: Final = (
    "ns, key, seq, id, kind, role, session, task, sensitivity, valid_from, valid_until,"
    ' importance, segment, "offset", "end", time, turn, late'
)
_SCHEMA: Final = f"""
CREATE TABLE checkpoint (projector TEXT PRIMARY KEY, version INTEGER, plane TEXT,
    segment INTEGER, "offset" INTEGER, seq INTEGER, h TEXT) WITHOUT ROWID;
CREATE TABLE memories ({_COLUMNS}, PRIMARY KEY (ns, key, seq)) WITHOUT ROWID;
CREATE TABLE acts (form, ns, value, seq, undo, evicted, time, turn, id,
    PRIMARY KEY (form, ns, value, seq)) WITHOUT ROWID;
CREATE TABLE touches (id, seq, ts, PRIMARY KEY (id, seq)) WITHOUT ROWID;
"""
_CHAIN: Final = f"SELECT {_COLUMNS} FROM memories WHERE ns=? AND key=? AND seq<=? ORDER BY seq"  # noqa: S608 - our own names
# A row for each key that had several values: its seqs, below 0 what was superseded on arrival.
_REPLACED: Final = (
    "SELECT group_concat(CASE WHEN late THEN -seq ELSE seq END) FROM memories WHERE seq<=?"
    " GROUP BY ns, key HAVING count(*)>1 OR max(late)"
)
_NEWEST: Final = f"{_CHAIN.replace('ORDER', 'AND NOT late ORDER')} DESC LIMIT 1"
# From key to key by one step in the index each: how many values a key had does not matter.
_PAGE: Final = f"""
WITH RECURSIVE named(name) AS (
    SELECT min(key) FROM memories WHERE ns=?1 AND key>=?2
    UNION ALL
    SELECT (SELECT min(key) FROM memories WHERE ns=?1 AND key>name)
    FROM named WHERE name IS NOT NULL LIMIT ?4)
SELECT {_COLUMNS}, name FROM named LEFT JOIN memories ON ns=?1 AND key=name
    AND seq=(SELECT max(seq) FROM memories WHERE ns=?1 AND key=name AND seq<=?3 AND NOT late)
WHERE name IS NOT NULL
"""  # noqa: S608
_ALL: Final = f"SELECT {_COLUMNS} FROM memories WHERE seq<=? ORDER BY ns, key, seq"  # noqa: S608


class Broken(Exception):  # noqa: N818 - what it says of a file
    """A file cannot be used; `harmed` where it is the file's own fault, not that of the moment.

    `absent`: there is no sqlite to use one with. `outdated`: another version of memplane made it.
    """

    def __init__(
        self, what: object, *, harmed: bool = False, absent: bool = False, outdated: bool = False
    ) -> None:
        super().__init__(str(what))
        self.harmed, self.absent, self.outdated = harmed, absent, outdated


# Beside a database sqlite reads and writes these, wherever a link by that name leads.
_BESIDE: Final = ("", "-journal", "-wal", "-shm")
_MODES: Final = {"ro": "mode=ro", "kept": "mode=ro&immutable=1", "rw": "mode=rw"}
_SUM: Final = (slice(60, 64), slice(68, 72))  # where a file has its sum
_HEADER_BYTES: Final = 100
_CHUNK: Final = 1 << 20
_HARMED: Final = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_CONSTRAINT", "SQLITE_ERROR")


class Database:
    """A database of sqlite below a plane, opened in its folder and through no link.

    sqlite takes names, not descriptors: it gets the folder's by the name that the system has for
    it, where it has one, once the file and those beside it were looked at. `mode` is `ro`, `kept`
    to read one that nobody writes any more, without locks, or `rw` to write, for which the file may
    have no other name. Without a path it lies in memory. Every method may raise `Broken`; so does
    opening where there is no sqlite.
    """

    def __init__(self, path: Path | None, mode: str = "rw") -> None:
        try:
            import sqlite3  # noqa: PLC0415 - most hooks go without
        except ImportError as error:
            raise Broken(error, absent=True) from None
        self._error = sqlite3.Error
        self._folder = -1
        try:
            name = ":memory:"
            if path is not None:
                self._folder = nofollow.enter(path.parent)
                for ending in _BESIDE:
                    _check(path.with_name(f"{path.name}{ending}"), mode, needed=not ending)
                name = f"{_reached(self._folder, path).as_uri()}?{_MODES[mode]}"
            # One thread at a time is the caller's promise, not always the same thread.
            self._path = path
            with self._counted(opens=True):
                self._connection = sqlite3.connect(
                    name,
                    uri=path is not None,
                    timeout=_WAIT_S,
                    isolation_level=None,
                    check_same_thread=False,
                )
        except BaseException as error:
            self._let_go()
            if isinstance(error, OSError | sqlite3.Error):
                raise Broken(error) from error
            raise

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """Run a statement; all rows that it gives."""
        try:
            with self._counted():
                return self._connection.execute(statement, values).fetchall()
        except self._error as error:
            raise _broken(error) from error

    def many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement for each row."""
        try:
            self._connection.executemany(statement, rows)
        except self._error as error:
            raise _broken(error) from error

    def script(self, statements: str) -> None:
        """Run several statements."""
        try:
            self._connection.executescript(statements)
        except self._error as error:
            raise _broken(error) from error

    def copy_to(self, other: Database) -> None:
        """Make the other one hold what this one does."""
        try:
            self._connection.backup(other._connection)
        except self._error as error:
            raise _broken(error) from error

    def close(self) -> None:
        """Close the file."""
        try:
            self._connection.close()
        except self._error as error:
            raise _broken(error) from error
        finally:
            self._let_go()

    def _counted(self, *, opens: bool = False) -> AbstractContextManager[None]:
        if self._path is None:
            return contextlib.nullcontext()
        return nofollow.reading_elsewhere(self._path, opens=opens)

    def _let_go(self) -> None:
        folder, self._folder = self._folder, -1
        if folder >= 0:
            os.close(folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _check(path: Path, mode: str, *, needed: bool) -> None:
    """Raise `Broken` where the name is not that of a file that may be opened so."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        if needed:
            raise
        return
    if not nofollow.is_file(path):
        raise Broken(f"{path}: is {nofollow.kind_of(found.st_mode)}", harmed=True)
    if mode == "rw" and found.st_nlink > 1:
        raise Broken(f"{path}: has other names", harmed=True)


def _reached(folder: int, path: Path) -> Path:
    """The file by the name that the system has for the open folder, by its own where none."""
    place = Path(f"/proc/self/fd/{folder}")
    with contextlib.suppress(OSError):
        if os.path.samestat(place.stat(), os.fstat(folder)):
            return place / path.name
    return path.absolute()


def _broken(error: sqlite3.Error) -> Broken:
    return Broken(error, harmed=getattr(error, "sqlite_errorname", "").startswith(_HARMED))


class Cache:
    """A cache file, for reading. Every method may raise `Broken`."""

    def __init__(
        self,
        path: Path,
        *,
        version: int,
        plane: str,
        summed: bool = False,
        position: Position | None = None,
        believed: Callable[[Position], bool] | None = None,
    ) -> None:
        """Open the file; `Broken` when it is missing, harmed, foreign or of another version.

        `summed`: the caller has just written it, and its sum. With a `position`, up to which the
        file is known to go, it is opened when something is first asked of it; another file in its
        place must go further, and stand at a line that is `believed`.
        """
        self._path, self._of, self._believed = path, (version, plane), believed
        self._open: Database | None = None
        self.position = self._opened(summed=summed) if position is None else position

    @property
    def _database(self) -> Database:
        if self._open is None:
            known, found = self.position, self._opened()
            if found != known and not (
                found.seq > known.seq and self._believed is not None and self._believed(found)
            ):
                raise Broken(f"{self._path}: is another file")
        assert self._open is not None
        return self._open

    def _opened(self, *, summed: bool = False) -> Position:
        """Open the file; the line up to which it goes."""
        if not (summed or _is_whole(self._path)):
            raise Broken(f"{self._path}: has not its sum", harmed=True)
        self._open = database = Database(self._path, "kept")
        try:
            return self._position(*self._of)
        except BaseException:
            self._open = None
            database.close()
            raise

    def newest(self, ns: str, key: str, upto: int) -> KeyValueRow | None:
        """Return the record of a key's value as of `upto`, forgotten or not."""
        found = self._database.rows(_NEWEST, (ns, key, upto))
        return KeyValueRow(*found[0]) if found else None

    def chain(self, ns: str, key: str, upto: int) -> list[KeyValueRow]:
        """Return the records of a key, oldest first, as of `upto`."""
        return [KeyValueRow(*row) for row in self._database.rows(_CHAIN, (ns, key, upto))]

    def page(self, ns: str, start: str, prefix: str, upto: int, size: int) -> Iterator[KeyValueRow]:
        """Yield the record of each key's value in the namespace from `start` on, in order."""
        while True:
            # Fetched whole: an open cursor would hold the file against its writers.
            found = self._database.rows(_PAGE, (ns, start, upto, size))
            for *row, name in found:
                if not name.startswith(prefix):
                    return
                record = KeyValueRow(*row)
                if record.key is not None:  # else it had no value as of then
                    yield record
            if len(found) < size:
                return
            start = found[-1][-1] + "\0"  # the least string above it

    def namespaces(self) -> list[str]:
        """Return every namespace with a record, in order."""
        found: list[str] = []
        # One step in the index for each; DISTINCT would read every row.
        step = "SELECT min(ns) FROM memories WHERE ns>?"
        while (ns := self._one(step, (found[-1] if found else "",))[0]) is not None:
            found.append(ns)
        return found

    def acts(self, upto: int) -> list[Act]:
        """Return what forgets and pins said as of `upto`, by target and seq."""
        rows = self._database.rows(
            "SELECT form, ns, value, seq, undo, evicted, time, turn, id FROM acts WHERE seq<=?"
            " ORDER BY form, ns, value, seq",
            (upto,),
        )
        return [
            Act(Target(form, ns, value), seq, bool(undo), bool(evicted), *moment)
            for form, ns, value, seq, undo, evicted, *moment in rows
        ]

    def touched(self, id: str, upto: int) -> TouchAct | None:  # noqa: A002 - the field's name
        """Return the last touch of an event as of `upto`."""
        found = self._database.rows(
            "SELECT id, seq, ts FROM touches WHERE id=? AND seq<=? ORDER BY seq DESC LIMIT 1",
            (id, upto),
        )
        return TouchAct._make(found[0]) if found else None

    def touches(self, upto: int) -> list[TouchAct]:
        """Return all touches as of `upto`, by (id, seq)."""
        rows = self._database.rows(
            "SELECT id, seq, ts FROM touches WHERE seq<=? ORDER BY id, seq", (upto,)
        )
        return [TouchAct._make(row) for row in rows]

    def records(self, upto: int) -> list[KeyValueRow]:
        """Return all records as of `upto`, by (ns, key, seq)."""
        return [KeyValueRow(*row) for row in self._database.rows(_ALL, (upto,))]

    def replaced(self, upto: int) -> list[tuple[int, int]]:
        """Return (by, seq) for every record that a later one of its key follows as of `upto`.

        One that was superseded on arrival is so from its own seq on.
        """
        rows = self._database.rows(_REPLACED, (upto,))
        pairs: list[tuple[int, int]] = []
        for (listed,) in rows:
            seqs = sorted(map(int, listed.split(",")))
            late = bisect_left(seqs, 0)
            pairs += [(-seq, -seq) for seq in seqs[:late]]
            pairs += zip(seqs[late + 1 :], seqs[late:], strict=False)
        return pairs

    def close(self) -> None:
        """Close the file."""
        if self._open is not None:
            self._open.close()

    def _position(self, version: int, plane: str) -> Position:
        made = self._database.rows(
            "SELECT version FROM checkpoint WHERE projector=? AND plane=?", (_PROJECTOR, plane)
        )
        if made and made != [(version,)]:
            raise Broken("of another version", outdated=True)
        seq, h, segment, offset = self._one(
            'SELECT seq, h, segment, "offset" FROM checkpoint'
            " WHERE projector=? AND version=? AND plane=?",
            (_PROJECTOR, version, plane),
        )
        if not all(type(n) is int for n in (seq, segment, offset)) or type(h) is not str:
            raise Broken("checkpoint")
        return Position(seq, h, segment, offset)

    def _one(self, query: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        found: list[tuple[Any, ...]] = self._database.rows(query, values)
        if not found:
            raise Broken("nothing found")
        return found[0]


def create_cache(path: Path, position: Position, rows: Rows, *, version: int, plane: str) -> None:
    """Put a new file in the path's place at once; `Broken` or OSError leaves what was there."""
    with _draft(path) as draft:
        os.close(nofollow.create_draft(draft))
        with _written(draft) as database:
            database.script(f"BEGIN;{_SCHEMA}")  # one commit, not one a table
            _insert(database, rows)
            row = (_PROJECTOR, version, plane, *_of_head(position))
            database.rows("INSERT INTO checkpoint VALUES (?,?,?,?,?,?,?)", row)
            database.rows("COMMIT")


def extend(path: Path, position: Position, rows: Rows) -> None:
    """Put a copy with more rows and a later checkpoint in its place; see `create`."""
    with _draft(path) as draft:
        with (
            nofollow.open_regular(path) as old,
            os.fdopen(nofollow.create_draft(draft), "wb") as new,
        ):
            while part := old.read(_CHUNK):
                new.write(part)
        with _written(draft) as database:
            database.rows("BEGIN IMMEDIATE")
            _insert(database, rows)
            database.rows(
                'UPDATE checkpoint SET segment=?, "offset"=?, seq=?, h=? WHERE projector=?',
                (*_of_head(position), _PROJECTOR),
            )
            database.rows("COMMIT")


@contextlib.contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """A name for a file that is written in the block, summed behind it and then put in place."""
    draft = path.with_name(f"{path.name}.tmp")
    try:
        yield draft
        put_sum(draft)
        # What an earlier release left beside the file would be played back into the new one.
        for ending in _BESIDE[1:]:
            with contextlib.suppress(FileNotFoundError):
                nofollow.remove_name(path.with_name(f"{path.name}{ending}"))
        rename_over(draft, path)
    finally:
        with contextlib.suppress(OSError):
            nofollow.remove_name(draft)


@contextlib.contextmanager
def _written(draft: Path) -> Iterator[Database]:
    """The draft as a database that needs no journal: one that fails is thrown away."""
    with Database(draft, "rw") as database:
        database.rows("PRAGMA journal_mode=OFF")
        database.rows("PRAGMA synchronous=OFF")
        yield database


def _is_whole(path: Path) -> bool:
    """Whether the file has the sum that it states; `Broken` where it cannot be read."""
    try:
        stated, found = _sums(path)
    except OSError as error:
        raise Broken(error) from error
    return stated == found


def has_its_sum(path: Path) -> bool:
    """Whether the file is there and has the sum that it states."""
    with contextlib.suppress(Broken):
        return _is_whole(path)
    return False


def put_sum(path: Path) -> None:
    """Let a file state the sum that it has."""
    _, found = _sums(path)
    descriptor = nofollow.open_file(path, os.O_RDWR)
    try:
        for at, part in zip(_SUM, (found[:4], found[4:]), strict=True):
            os.pwrite(descriptor, part, at.start)
    finally:
        os.close(descriptor)


def _is_act(act: Act, upto: int) -> bool:
    """Whether an act that was read has the types of one, and stands where it may."""
    texts = (*act.target, act.time, act.id)
    numbers = type(act.seq) is int and type(act.turn) is int and 0 < act.seq <= upto
    return numbers and all(type(text) is str for text in texts)


def stated_sum(path: Path) -> bytes:
    """The sum that a file states. OSError where there is no file of its own."""
    with nofollow.open_regular(path) as file:
        header = file.read(_HEADER_BYTES)
    return b"".join(header[at] for at in _SUM)


def _sums(path: Path) -> tuple[bytes, bytes]:
    """The sum that a file states, and the one that it has."""
    with nofollow.open_regular(path) as file:
        header = bytearray(file.read(_HEADER_BYTES))
        stated = b"".join(header[at] for at in _SUM)
        for at in _SUM:
            header[at] = bytes(at.stop - at.start)
        found = hashlib.sha256(header)
        while part := file.read(_CHUNK):
            found.update(part)
    return stated, found.digest()[: len(stated)]


def position_of(path: Path, plane: str) -> Position | None:
    """The line that the file says it stands behind; None for one that is harmed or another's."""
    with contextlib.suppress(Broken), Database(path, "kept") as database:
        for row in database.rows(
            'SELECT seq, h, segment, "offset" FROM checkpoint WHERE plane=?', (plane,)
        ):
            if [type(value) for value in row] == [int, str, int, int]:
                return Position(*row)
    return None


def _of_head(position: Position) -> tuple[int, int, int, str]:
    """A position as the columns segment, offset, seq, h."""
    return position.segment, position.offset, position.seq, position.h


def _insert(database: Database, rows: Rows) -> None:
    marks = ",".join("?" * 18)
    database.many(f"INSERT INTO memories VALUES ({marks})", (row.stored for row in rows.records))  # noqa: S608
    acts = (
        (*act.target, act.seq, int(act.undo), int(act.evicted), act.time, act.turn, act.id)
        for act in rows.acts
    )
    database.many("INSERT INTO acts VALUES (?,?,?,?,?,?,?,?,?)", acts)
    database.many("INSERT INTO touches VALUES (?,?,?)", rows.touches)


Answer = TypeVar("Answer")
_PAGE_ROWS: Final = 256
_PAGE_MORE: Final = 8
_FRESH_MAX: Final = 1_000
_BEHIND_ALL: Final = 2**63
_FOLD = MemoryChains()


class Memories:
    """Every event with a key, by namespace and key: the current value and the chain behind it.

    Upkeep kinds and sessions have no part in it. A forgotten current value does not
    bring its predecessor back; a later event with the key is current again. Each
    answer can be had as of an earlier seq (`upto`). Expiry is the reader's business.
    One thread at a time; `folder` None keeps everything in memory.
    """

    leads = True  # folds each batch before projections that call `arriving`

    def __init__(
        self,
        log: Replayable,
        folder: Path | None,
        *,
        plane: str,
        reads: Callable[[Path], Checkpoint | None] = read_checkpoint,
    ) -> None:
        self._reads = reads
        self.unsaved = 0
        self._log, self._plane = log, plane
        self._path = folder / CACHE_NAME if folder is not None else None
        self._chains = Chains()  # records behind the base, and all acts
        self._cache: Cache | None = None
        self._base: Position | None = None
        self._last: Line | None = None
        self._pid = os.getpid()
        self._asked: tuple[Sequence[Line], Sequence[Line]] = ((), ())
        self.outdated = False  # whether another version of memplane made the file
        self.resets = 0  # how often all was folded anew: who followed begins again, too
        self._replaced: list[tuple[int, int]] | None = None  # until somebody asks
        self._fresh: list[tuple[str, str, int]] = []  # what was folded since: ns, key, seq
        self._open()

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
            if self._cache is not None:
                self._fetch(lines)
            fold(_FOLD, self._chains, lines)
        except BaseException:
            self.reset()
            raise
        self._last = lines[-1]
        self.unsaved += len(lines)
        if self._replaced is not None:
            events = (line.event for line in lines)
            self._fresh += [
                (one.ns, one.key or "", one.seq) for one in events if place_of(one) is not None
            ]
            if len(self._fresh) > _FRESH_MAX:
                self._take_fresh()

    def _fetch(self, lines: Sequence[Line]) -> None:
        """Look up the values that the lines' keys have in the file: what comes is held to them."""
        chains = self._chains
        for line in lines:
            event = line.event
            place = place_of(event)
            if place is not None and chains.last(*place) is None:
                found = self._read(partial(self._newest, *place, self._bound(None)))
                if self._chains is not chains:  # the file failed: all is in memory now
                    return
                if found is not None:
                    chains.filed[place] = found

    def reset(self) -> None:
        """Go back to before the first line."""
        self._forget_file()
        self._chains = Chains()
        self._base = self._last = None
        self.unsaved = 0
        self._replaced, self._fresh = None, []
        self.resets += 1

    def current(self, ns: str, key: str, *, upto: int | None = None) -> KeyValueRow | None:
        """Return the value in force; None where there is none or it was forgotten."""
        bound = self._bound(upto)
        record = self._read(partial(self._newest, ns, key, bound))
        return None if record is None else self._in_force(record, bound)

    def history(self, ns: str, key: str, *, upto: int | None = None) -> list[KeyValueRow]:
        """Return every value the key had, oldest first, each with what became of it.

        What came from another plane stands where it belongs by its time, whenever it came.
        """
        bound = self._bound(upto)
        return settle_values(self._chain(ns, key, bound), self._chains.acts, bound)

    def keys(
        self,
        prefix: str = "",
        ns: str | None = None,
        *,
        limit: int = 100,
        after: tuple[str, str] | None = None,
        upto: int | None = None,
    ) -> list[KeyValueRow]:
        """Return the values in force in (ns, key) order, by their UTF-8 bytes, at most `limit`.

        Only keys that begin with `prefix`, of one namespace or of all, and behind
        `after`: the (ns, key) of the last row of the page before.
        """
        bound = self._bound(upto)

        def page() -> list[KeyValueRow]:
            # A few more than asked for, as some may be archived.
            size = min(_PAGE_ROWS, max(limit, 0) + _PAGE_MORE)
            newest = self._newest_of(prefix, ns, after, bound, size)
            rows = (self._in_force(one, bound) for one in newest)
            kept = (row for row in rows if row is not None)
            return list(itertools.islice(kept, max(limit, 0)))

        return self._read(page)

    def archived(self, event: Event, *, upto: int | None = None) -> Archived | None:
        """Return why an event, keyed or not, is out of force as of a seq; None: it is in force."""
        bound = self._bound(upto)
        place, until, by = self._superseded(event, bound)
        acts = self._chains.acts
        gone = acts.gone_by(event.seq, event.id, event.session, place, until=until, upto=bound)
        return gone or (None if by is None else Archived("superseded", by))

    def superseded(self, event: Event, *, upto: int | None = None) -> int | None:
        """Return the seq of the value that took an event's place, also of one that is forgotten."""
        return self._superseded(event, self._bound(upto))[2]

    def before(self, event: Event) -> int | None:
        """Return the seq of the value that an event took the place of; None where there is none."""
        return self.took_place_of(event) if place_of(event) is not None else None

    def took_place_of(self, value: KeyValueRow | Event) -> int | None:
        """`before` of a keyed value, by its event or its row."""
        ns, key, seq = value.ns, value.key or "", value.seq
        if (isinstance(value, KeyValueRow) or is_foreign(value)) and self._late(ns, key, seq):
            return None
        return self._read(partial(self._before, ns, key, seq))

    def touched(self, event: Named, *, upto: int | None = None) -> str | None:
        """Return when an event was touched last, keyed or not; None where it never was."""
        bound = self._bound(upto)

        def last() -> TouchAct | None:
            touch = self._chains.touched(event.id, bound)
            if touch is None and self._cache is not None:
                touch = self._cache.touched(event.id, self._filed(bound))
            return touch

        touch = self._read(last)
        return touch.ts if touch is not None and touch.seq > event.seq else None

    def pinned(self, event: Named, *, upto: int | None = None) -> bool:
        """Return whether the event is pinned, keyed or not."""
        return self._chains.acts.pinned(event.seq, event.id, upto=self._bound(upto))

    def pins(self, after: int, *, upto: int | None = None) -> list[tuple[str, int]]:
        """Return (id, seq of the pin) of what was pinned after a seq and still is, newest first."""
        return self._chains.acts.pins(after, self._bound(upto))

    def replaced(self, after: int = 0) -> list[tuple[int, int]]:
        """Return (by, seq) for every value that its key's next one, by > after, took the place of.

        In the order of `by`, which is a value's own seq where it was superseded on arrival. Asking
        again costs what was folded meanwhile.
        """
        if self._replaced is None:
            self._replaced, self._fresh = self._read(self._all_replaced), []
        return self._take_fresh()[bisect_right(self._replaced, (after, _BEHIND_ALL)) :]

    def forgets(self, after: int = 0) -> list[Act]:
        """Return the acts of forgets with seq > `after`, in log order."""
        acts = (act for act in self._chains.acts if act.seq > after and act.target.form != "pin")
        return sorted(acts, key=lambda act: (act.seq, act.target))

    def _all_replaced(self) -> list[tuple[int, int]]:
        filed = self._filed(self._bound(None))
        with uncollected(filed):
            pairs = self._cache.replaced(filed) if self._cache is not None else []
        for record in self._chains.since(0):
            if record.late:
                pairs.append((record.seq, record.seq))
                continue
            older = self._before(record.ns, record.key, record.seq)
            if older is not None:
                pairs.append((record.seq, older))
        return sorted(pairs)

    def _take_fresh(self) -> list[tuple[int, int]]:
        assert self._replaced is not None
        fresh, self._fresh = self._fresh, []
        for ns, key, seq in fresh:
            if self._late(ns, key, seq):
                self._replaced.append((seq, seq))
                continue
            older = self._read(partial(self._before, ns, key, seq))
            if older is not None:
                self._replaced.append((seq, older))
        return self._replaced

    def _before(self, ns: str, key: str, seq: int) -> int | None:
        """The value that the key had before a seq."""
        record = self._newest(ns, key, seq - 1)
        return None if record is None else record.seq

    def _newest(self, ns: str, key: str, bound: int) -> KeyValueRow | None:
        """The record of the key's value as of a seq. Within `_read`."""
        record = self._chains.newest(ns, key, bound)
        if record is None and self._cache is not None:
            record = self._cache.newest(ns, key, self._filed(bound))
        return record

    def _chain(self, ns: str, key: str, bound: int) -> list[KeyValueRow]:
        """All records of a key as of a seq, in the order of the log."""

        def chain() -> list[KeyValueRow]:
            filed = (
                self._cache.chain(ns, key, self._filed(bound)) if self._cache is not None else []
            )
            return [*filed, *self._chains.chain(ns, key, bound)]

        return self._read(chain)

    def _late(self, ns: str, key: str, seq: int) -> int:
        """The seq of the value that superseded another on arrival; 0 where none did."""
        chain = self._chain(ns, key, self._bound(seq))
        return next((one.late for one in reversed(chain) if one.seq == seq), 0)

    def _late_by(self, event: Event) -> int:
        """`_late` of a keyed event; only what is from another plane can be late."""
        return self._late(event.ns, event.key or "", event.seq) if is_foreign(event) else 0

    def _superseded(
        self, event: Event, bound: int
    ) -> tuple[tuple[str, str] | None, int | None, int | None]:
        """The place of an event, the seq from which on it is superseded there, and by which."""
        place = place_of(event)
        if place is None:
            return None, None, None
        if late := self._late_by(event):
            return place, event.seq, late
        later = (one.seq for one in self._chain(*place, bound) if not one.late)
        by = next((seq for seq in later if seq > event.seq), None)
        return place, by, by

    def arriving(self, lines: Sequence[Line]) -> Sequence[Line]:
        """Return the lines as projections fold them that keep only what is in force.

        An event from another plane that is older than the one in force here is blanked: of a value
        only its seq is left, of a forget or pin the ids on which it is the latest act. Lines that
        were not folded here yet are folded first.
        """
        if lines is not self._asked[0]:  # all projections ask about the same stretch in turn
            self._asked = lines, self._taken(lines)
        return self._asked[1]

    def _taken(self, lines: Sequence[Line]) -> Sequence[Line]:
        if not any(ORIGIN in line.event.data and is_foreign(line.event) for line in lines):
            return lines
        position = self.position
        if position is None or position.seq < lines[-1].event.seq:
            self.catch_up()
        return Stretch([self._arriving(line) for line in lines])

    def _arriving(self, line: Line) -> Line:
        event = line.event
        if not is_foreign(event):
            return line
        left: Event | None = event
        if place_of(event) is not None:
            left = None if self._late_by(event) else event
        elif event.kind == "pin":
            refs = tuple(ref for ref in event.refs if self._prevails(event, ref))
            left = event._replace(refs=refs) if refs else None
        elif event.kind == "forget" and (forget := forget_of(event)) is not None and forget.ids:
            ids = [one for one in sorted(forget.ids) if self._prevails(event, one)]
            data = {**event.data, "forget": {"ids": ids}}
            left = event._replace(data=data) if ids else None
        return line._replace(event=_blank(event) if left is None else left)

    def _prevails(self, act: Event, id_: str) -> bool:
        """Whether a forget or a pin is the last word on the event of an id, as of its own seq."""
        acts, seq = self._chains.acts, act.seq
        if seq not in acts.late:
            return True
        if act.kind == "pin":
            last = acts.last_pin(0, id_, upto=seq)
        else:
            event = self._find(id_)
            if event is None:
                return True
            last = self._last_word(event, seq)
        return last is None or last.seq == seq

    def prevails(self, act: Act, event: Event) -> bool:
        """Whether an act was the latest one on the event, by moment, when it was recorded."""
        if act.seq not in self._chains.acts.late:
            return True
        last = self._last_word(event, act.seq)
        return last is None or last.seq == act.seq

    def _last_word(self, event: Event, upto: int) -> Act | None:
        place, until, _ = self._superseded(event, upto)
        return self._chains.acts.last_on(
            event.seq, event.id, event.session, place, until=until, upto=upto
        )

    def _find(self, id_: str) -> Event | None:
        """The event of an id; where the log cannot look it up, it is read."""
        find = getattr(self._log, "find", None)
        if find is not None:
            line = find(id_)
        else:
            line = next((line for line in self._log.read() if line.event.id == id_), None)
        return None if line is None else line.event

    def dump(self) -> bytes:
        """Return all that was folded as canonical JSON, the same however it came together."""

        def whole() -> Rows:
            records, acts, touches = self._chains.rows()
            if self._cache is not None:
                filed = self._filed(self._bound(None))
                records += self._cache.records(filed)
                touches += self._cache.touches(filed)
            records.sort(key=lambda record: (record.ns, record.key, record.seq))
            return Rows(records, acts, sorted(touches))

        return self._read(whole).dump()

    def save(self) -> bool:
        """Bring the file up to the position; return whether it holds it.

        False, and nothing else, when another process is saving, the home is
        read-only or the disk is full.
        """
        position = self.position
        if self._path is None or position is None:
            return False
        if not self.unsaved:
            return True
        with alone(self._path.parent) as held:
            if not held or overtaken(self._log, position):
                return False
            try:
                return self._save(self._path, position)
            except Broken as error:
                if error.absent:  # there is nothing to keep it in, and nothing is missing
                    self.unsaved = 0
                return error.absent
            except (OSError, ValueError, OverflowError):  # a text or number that SQLite cannot hold
                return False

    def close(self) -> None:
        """Close the file; what was not saved is folded again next time."""
        self._forget_file()

    def _save(self, path: Path, position: Position) -> bool:
        there = self._usable(path)
        behind = there is not None and there.position.seq < position.seq
        if there is not None and behind and overtaken(self._log, there.position):
            there.close()  # of before a purge, which has not removed it yet, or put back since
            there = None
        try:
            if self._base is not None and (there is None or there.position.seq < self._base.seq):
                self._refold()  # the file that held our rows is no longer the one that is read
            if there is None:
                self._create(path, position)
            elif there.position.seq < position.seq:
                self._extend(path, position, there)
        finally:
            if there is not None:
                there.close()
        kept = Cache(path, version=_FOLD.version, plane=self._plane, summed=True)
        self._adopt(kept, position)
        with contextlib.suppress(OSError):  # else the file is opened by each process
            self._keep_acts(path, position)
        return True

    def _create(self, path: Path, position: Position) -> None:
        create_cache(path, position, self._chains.rows(), version=_FOLD.version, plane=self._plane)

    def _extend(self, path: Path, position: Position, there: Cache) -> None:
        try:
            extend(path, position, self._chains.rows(there.position.seq))
        except Broken as found:
            if not found.harmed:
                raise
            there.close()
            self._refold()
            self._create(path, position)

    def _open(self) -> None:
        if self._path is None:
            return
        kept = self._kept(self._path)
        cache = self._usable(self._path) if kept is None else kept[0]
        if cache is None:
            return
        try:
            acts = cache.acts(cache.position.seq) if kept is None else kept[1]
            for act in sorted(acts, key=lambda act: act.seq):
                self._chains.acts.add(act)
        except Broken:
            cache.close()
            self._chains = Chains()
        else:
            self._cache, self._base = cache, cache.position
            if kept is None:  # what lies there may be of another time: the next save replaces it
                self.unsaved = max(self.unsaved, 1)

    def _kept(self, path: Path) -> tuple[Cache, list[Act]] | None:
        """The file, not opened yet, and its acts, where these are kept beside it."""
        kept = self._reads(path.with_name(ACTS_NAME))
        of = (_PROJECTOR, _FOLD.version, self._plane)
        if kept is None or (kept.projector, kept.version, kept.plane) != of:
            return None
        try:
            said = json.loads(kept.state)
            acts = [
                Act(Target(form, ns, value), seq, bool(undo), bool(evicted), *moment)
                for form, ns, value, seq, undo, evicted, *moment in said["acts"]
            ]
            same = said["sum"] == stated_sum(path).hex() and all(
                _is_act(act, kept.position.seq) for act in acts
            )
        except (OSError, ValueError, TypeError, LookupError, RecursionError):
            return None
        if not same or not self._log.matches(kept.position):
            return None
        return Cache(
            path,
            version=_FOLD.version,
            plane=self._plane,
            position=kept.position,
            believed=self._log.matches,
        ), acts

    def _keep_acts(self, path: Path, position: Position) -> None:
        """Write beside the file what is asked of it in every process; nothing of too much."""
        acts = [
            (*act.target, act.seq, act.undo, act.evicted, act.time, act.turn, act.id)
            for act in self._chains.acts
        ]
        state = canonical({"sum": stated_sum(path).hex(), "acts": acts})
        kept = Checkpoint(_PROJECTOR, _FOLD.version, self._plane, "", position, state)
        data = encode_checkpoint(kept)
        if len(data) <= _ACTS_BYTES_MAX:
            replace_bytes(path.with_name(ACTS_NAME), data)

    def _usable(self, path: Path) -> Cache | None:
        """Open the file if it is whole, of this fold and on this log."""
        try:
            cache = Cache(path, version=_FOLD.version, plane=self._plane)
        except (Broken, OSError, ValueError) as error:
            self.outdated = getattr(error, "outdated", False)
            return None
        if self._log.matches(cache.position):
            return cache
        cache.close()
        return None

    def _adopt(self, cache: Cache, position: Position) -> None:
        """Read the rows up to the position from this file from now on."""
        acts = self._chains.acts
        self._forget_file()
        self._chains = Chains()
        self._chains.acts = acts
        self._cache, self._base, self._last, self.unsaved = cache, position, None, 0

    def _refold(self) -> None:
        """Fold the same prefix again, from the log into memory, and leave the file alone."""
        seq = self._bound(None)
        unsaved_last = self._last
        self._forget_file()
        self._chains = Chains()
        last = unsaved_last
        for line in self._log.read(0, seq):
            _FOLD.apply(self._chains, line)
            last = line
        self._base, self._last = None, last
        self.unsaved = max(self.unsaved, seq)  # so that the next save replaces the file

    def _read(self, answer: Callable[[], Answer]) -> Answer:
        if self._cache is not None and self._pid != os.getpid():
            self._refold()  # a connection must not be used on the other side of a fork
        try:
            return answer()
        except (Broken, ValueError):
            self._refold()
            return answer()

    def _newest_of(
        self, prefix: str, ns: str | None, after: tuple[str, str] | None, bound: int, size: int
    ) -> Iterator[KeyValueRow]:
        cache = self._cache
        spaces = (
            {ns}
            if ns is not None
            else {*self._chains.records, *(cache.namespaces() if cache else ())}
        )
        for space in sorted(spaces):
            if after is not None and space < after[0]:
                continue
            start = prefix
            if after is not None and space == after[0]:
                start = max(prefix, f"{after[1]}\0")
            ours = self._chains.page(space, start, prefix, bound)
            filed: Iterator[KeyValueRow] = iter(())
            if cache is not None:
                filed = cache.page(space, start, prefix, self._filed(bound), size)
            both = heapq.merge(ours, filed, key=lambda record: record.key)
            # Ours comes first where both have the key, and it is the newer.
            for _, same in itertools.groupby(both, key=lambda record: record.key):
                yield next(same)

    def _in_force(self, record: KeyValueRow, bound: int) -> KeyValueRow | None:
        row = settle_values([record], self._chains.acts, bound)[0]
        return row if row.reason is None else None

    def _bound(self, upto: int | None) -> int:
        position = self.position
        seq = 0 if position is None else position.seq
        return seq if upto is None else min(seq, upto)

    def _filed(self, bound: int) -> int:
        return 0 if self._base is None else min(self._base.seq, bound)

    def _forget_file(self) -> None:
        cache, self._cache = self._cache, None
        self._pid = os.getpid()
        if cache is not None:
            with contextlib.suppress(Broken):
                cache.close()


def _blank(event: Event) -> Event:
    """An event that says nothing: a line of the log, of a kind that no projection reads."""
    return Event(event.seq, event.id, event.ts, event.rec, kind="repair", h=event.h)
