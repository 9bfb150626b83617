"""The file of the unbounded projections, `projections/cache.sqlite` (stdlib sqlite3).

::

    checkpoint   projector, version, plane, segment, offset, seq, h, place: a row for each projector
    memories     one record for each keyed event, by (ns, key, seq)
    acts         what forgets and pins said, by (form, ns, value, seq)
    touches      when an event was touched, by (id, seq)

Rows are only ever added, in the transaction that moves the checkpoint, so a reader that
looks at rows up to a seq sees the same whatever others add meanwhile. A file that is
broken, foreign or of another version is replaced as a whole by rename: those who still
read the old one go on reading it. So is a copy, whose inodes are others (`place`): it may
hold pages of before and behind a commit that came while it was made, and nothing else
would tell. Writers hold `checkpoint.alone`; readers need nothing.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from memplane.index.folder import put
from memplane.ports import Head
from memplane.projections.acts import Act, Target, Touch
from memplane.projections.chains import Record, Rows

__all__ = ["CACHE_NAME", "Broken", "Cache", "create", "extend"]

CACHE_NAME: Final = "cache.sqlite"
Broken = sqlite3.Error  # so that the readers of a cache need not know what it is made of
_WAIT_S: Final = 0.2  # a commit takes milliseconds; who holds the file longer is not one of us
_PROJECTOR: Final = "memories"
_COLUMNS: Final = (
    "ns, key, seq, id, kind, role, session, task, sensitivity, valid_from, valid_until,"
    ' importance, segment, "offset", "end"'
)
_SCHEMA: Final = f"""
CREATE TABLE checkpoint (projector TEXT PRIMARY KEY, version INTEGER, plane TEXT,
    segment INTEGER, "offset" INTEGER, seq INTEGER, h TEXT, place TEXT) WITHOUT ROWID;
CREATE TABLE memories ({_COLUMNS}, PRIMARY KEY (ns, key, seq)) WITHOUT ROWID;
CREATE TABLE acts (form, ns, value, seq, undo, evicted,
    PRIMARY KEY (form, ns, value, seq)) WITHOUT ROWID;
CREATE TABLE touches (id, seq, ts, PRIMARY KEY (id, seq)) WITHOUT ROWID;
"""
_CHAIN: Final = f"SELECT {_COLUMNS} FROM memories WHERE ns=? AND key=? AND seq<=? ORDER BY seq"  # noqa: S608 - our own names
_NEWEST: Final = f"{_CHAIN} DESC LIMIT 1"
# From key to key by one step in the index each: how many values a key had does not matter.
_PAGE: Final = f"""
WITH RECURSIVE named(name) AS (
    SELECT min(key) FROM memories WHERE ns=?1 AND key>=?2
    UNION ALL
    SELECT (SELECT min(key) FROM memories WHERE ns=?1 AND key>name)
    FROM named WHERE name IS NOT NULL LIMIT ?4)
SELECT {_COLUMNS}, name FROM named LEFT JOIN memories ON ns=?1 AND key=name
    AND seq=(SELECT max(seq) FROM memories WHERE ns=?1 AND key=name AND seq<=?3)
WHERE name IS NOT NULL
"""  # noqa: S608
_ALL: Final = f"SELECT {_COLUMNS} FROM memories WHERE seq<=? ORDER BY ns, key, seq"  # noqa: S608


class Cache:
    """An open cache file, for reading. Every method may raise `Broken`."""

    def __init__(self, path: Path, *, version: int, plane: str) -> None:
        """Open the file; `Broken` when it is missing, harmed, foreign or of another version."""
        self._connection = _connect(path, "ro")
        try:
            self.inode, self._place = path.stat().st_ino, _place(path)
            self.position = self._position(version, plane)
        except BaseException:
            self._connection.close()
            raise

    def newest(self, ns: str, key: str, upto: int) -> Record | None:
        """Return the last record of a key as of `upto`."""
        found = self._connection.execute(_NEWEST, (ns, key, upto)).fetchall()
        return found[0] if found else None

    def chain(self, ns: str, key: str, upto: int) -> list[Record]:
        """Return the records of a key, oldest first, as of `upto`."""
        return self._connection.execute(_CHAIN, (ns, key, upto)).fetchall()

    def page(self, ns: str, start: str, prefix: str, upto: int, size: int) -> Iterator[Record]:
        """Yield the last record of each key of the namespace from `start` on, in order."""
        while True:
            # Fetched whole: an open cursor would hold the file against its writers.
            found = self._connection.execute(_PAGE, (ns, start, upto, size)).fetchall()
            for record in found:
                if not record[-1].startswith(prefix):
                    return
                if record[1] is not None:  # else it had no value as of then
                    yield record[:-1]
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
        rows = self._connection.execute(
            "SELECT form, ns, value, seq, undo, evicted FROM acts WHERE seq<=?"
            " ORDER BY form, ns, value, seq",
            (upto,),
        ).fetchall()
        return [
            Act(Target(form, ns, value), seq, bool(undo), bool(evicted))
            for form, ns, value, seq, undo, evicted in rows
        ]

    def touched(self, id: str, upto: int) -> Touch | None:  # noqa: A002 - the field's name
        """Return the last touch of an event as of `upto`."""
        found = self._connection.execute(
            "SELECT id, seq, ts FROM touches WHERE id=? AND seq<=? ORDER BY seq DESC LIMIT 1",
            (id, upto),
        ).fetchall()
        return Touch._make(found[0]) if found else None

    def touches(self, upto: int) -> list[Touch]:
        """Return all touches as of `upto`, by (id, seq)."""
        rows = self._connection.execute(
            "SELECT id, seq, ts FROM touches WHERE seq<=? ORDER BY id, seq", (upto,)
        ).fetchall()
        return [Touch._make(row) for row in rows]

    def records(self, upto: int) -> list[Record]:
        """Return all records as of `upto`, by (ns, key, seq)."""
        return self._connection.execute(_ALL, (upto,)).fetchall()

    def replaced(self, upto: int) -> list[tuple[int, int]]:
        """Return (by, seq) for every record that a later one of its key follows as of `upto`."""
        return self._connection.execute(
            "SELECT seq, older FROM (SELECT seq, lag(seq) OVER (PARTITION BY ns, key ORDER BY seq)"
            " AS older FROM memories WHERE seq<=?) WHERE older IS NOT NULL",
            (upto,),
        ).fetchall()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _position(self, version: int, plane: str) -> Head:
        seq, h, segment, offset = self._one(
            'SELECT seq, h, segment, "offset" FROM checkpoint'
            " WHERE projector=? AND version=? AND plane=? AND place=?",
            (_PROJECTOR, version, plane, self._place),
        )
        if not all(type(n) is int for n in (seq, segment, offset)) or type(h) is not str:
            raise sqlite3.DataError("checkpoint")
        return Head(seq, h, segment, offset)

    def _one(self, query: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        found: list[tuple[Any, ...]] = self._connection.execute(query, values).fetchall()
        if not found:
            raise sqlite3.DataError("nothing found")
        return found[0]


def create(path: Path, position: Head, rows: Rows, *, version: int, plane: str) -> None:
    """Put a new file in the path's place at once; `Broken` or OSError leaves what was there."""
    draft = path.with_name(f"{path.name}.tmp")
    try:
        draft.unlink(missing_ok=True)
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with contextlib.closing(_connect(draft, "rw")) as connection:
            connection.execute("PRAGMA journal_mode=OFF")  # a draft that fails is thrown away
            connection.executescript(f"BEGIN;{_SCHEMA}")  # one commit, not one a table
            _insert(connection, rows)
            row = (
                _PROJECTOR,
                version,
                plane,
                position.segment,
                position.offset,
                position.seq,
                position.h,
                _place(draft),
            )
            connection.execute("INSERT INTO checkpoint VALUES (?,?,?,?,?,?,?,?)", row)
            connection.execute("COMMIT")
        # A journal that a killed writer left would be played back into the new file.
        path.with_name(f"{path.name}-journal").unlink(missing_ok=True)
        put(draft, path)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def extend(path: Path, position: Head, rows: Rows) -> None:
    """Add rows and move the checkpoint, all or nothing; `Broken` leaves the file as it was."""
    with contextlib.closing(_connect(path, "rw")) as connection:
        connection.execute("BEGIN IMMEDIATE")
        _insert(connection, rows)
        connection.execute(
            'UPDATE checkpoint SET segment=?, "offset"=?, seq=?, h=? WHERE projector=?',
            (position.segment, position.offset, position.seq, position.h, _PROJECTOR),
        )
        connection.execute("COMMIT")


def _place(path: Path) -> str:
    """What a file and its folder have that no copy of them has; a rename keeps it."""
    return f"{path.stat().st_ino} {path.parent.stat().st_ino}"


def _insert(connection: sqlite3.Connection, rows: Rows) -> None:
    marks = ",".join("?" * 15)
    connection.executemany(f"INSERT INTO memories VALUES ({marks})", rows.records)  # noqa: S608
    acts = ((*act.target, act.seq, int(act.undo), int(act.evicted)) for act in rows.acts)
    connection.executemany("INSERT INTO acts VALUES (?,?,?,?,?,?)", acts)
    connection.executemany("INSERT INTO touches VALUES (?,?,?)", rows.touches)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    # One thread at a time is the caller's promise, not always the same thread.
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=_WAIT_S,
        isolation_level=None,
        check_same_thread=False,
    )
