"""The file of the unbounded projections, `projections/cache.sqlite` (stdlib sqlite3).

::

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

A Python may have been built without the module `sqlite3`: then there is no such file, every use of
one is `Broken` (`absent`), and its readers fold the log into memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from memplane import nofollow
from memplane.index.storage import rename_over
from memplane.ports import Position
from memplane.projections.in_force import Act, KeyValueRow, Rows, Target, TouchAct

if TYPE_CHECKING:
    import sqlite3

CACHE_NAME: Final = "cache.sqlite"
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
    """An open cache file, for reading. Every method may raise `Broken`."""

    def __init__(self, path: Path, *, version: int, plane: str, summed: bool = False) -> None:
        """Open the file; `Broken` when it is missing, harmed, foreign or of another version.

        `summed`: the caller has just written it, and its sum.
        """
        if not (summed or _is_whole(path)):
            raise Broken(f"{path}: has not its sum", harmed=True)
        self._database = Database(path, "kept")
        try:
            self.position = self._position(version, plane)
        except BaseException:
            self._database.close()
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
        return self._database.rows(
            "SELECT seq, older FROM (SELECT seq, lag(seq) OVER (PARTITION BY ns, key ORDER BY seq)"
            " AS older FROM memories WHERE seq<=?1 AND NOT late) WHERE older IS NOT NULL"
            " UNION ALL SELECT seq, seq FROM memories WHERE seq<=?1 AND late",
            (upto,),
        )

    def close(self) -> None:
        """Close the file."""
        self._database.close()

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
