"""The shared log in a schema of a PostgreSQL database. Needs the extra `postgres`.

The order of entries is the order of commits: a publisher holds the row of the log's head until its
transaction ends, and counts positions there. A sequence would leave gaps, and show later numbers
before earlier ones. `NOTIFY` only wakes who waits. The address may hold a password, so no message
repeats it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakSet

from memplane.errors import ConflictError, FormatError, MissingExtraError, SharedLogError
from memplane.lazy import late
from memplane.ports import SharedEntry
from memplane.shared.apply import STONE

if TYPE_CHECKING:
    import psycopg
else:
    psycopg = late("psycopg")

Given = TypeVar("Given")

VERSION: Final = 1  # of the tables
CONNECTIONS_MAX: Final = 8  # of one process to one database, but for those that wait
_CONNECT_S: Final = 3
_STATEMENT_MS: Final = 5_000
_LOCK: Final = 7_305_111  # held while tables are made: two machines may begin at once
_NOW: Final = """to_char(clock_timestamp() AT TIME ZONE 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
# Positions for one publisher, and when it took them: what it holds is locked until it commits.
_TAKE: Final = (
    "UPDATE memplane.heads SET position = position + %s "  # noqa: S608 - of constants
    "WHERE name = %s AND position = coalesce(%s, position) RETURNING position, " + _NOW
)
_TABLES: Final = """
CREATE SCHEMA IF NOT EXISTS memplane;
CREATE TABLE IF NOT EXISTS memplane.format (version integer NOT NULL);
CREATE TABLE IF NOT EXISTS memplane.heads (name text PRIMARY KEY, position bigint NOT NULL);
CREATE TABLE IF NOT EXISTS memplane.entries (name text, position bigint, at text NOT NULL,
  payload bytea NOT NULL, PRIMARY KEY (name, position));
CREATE TABLE IF NOT EXISTS memplane.notes (name text, device text, note bytea NOT NULL,
  PRIMARY KEY (name, device))
"""
# What may not be off where an acknowledged entry is to survive a power cut.
_SETTINGS: Final = ("fsync", "full_page_writes", "synchronous_commit")


class PostgresSharedLog:
    """The port `SharedLog` over a database; `address` as libpq takes it, `postgresql://host/db`.

    Any number of logs may lie in one database, by `name`.
    """

    def __init__(self, address: str, name: str) -> None:
        """Check that the driver is there; raises MissingExtraError. Connects at the first need."""
        try:
            psycopg.connect  # noqa: B018 - an extra, imported here
        except ImportError:
            raise MissingExtraError("a shared log in PostgreSQL", "postgres") from None
        self._address, self._name = address, name
        self._pool = _pool(address)

    def publish(
        self, entries: Sequence[tuple[str, bytes]], *, expected: int | None = None
    ) -> list[int]:
        """See `memplane.ports.SharedLog.publish`."""

        def work(connection: psycopg.Connection[Any]) -> list[int]:
            with connection.transaction(), connection.cursor() as cursor:
                head, now = self._taken(cursor, len(entries), expected)
                places = list(range(head - len(entries) + 1, head + 1))
                cursor.executemany(
                    "INSERT INTO memplane.entries VALUES (%s, %s, %s, %s)",
                    [
                        (self._name, place, now, payload)
                        for place, (_, payload) in zip(places, entries, strict=True)
                    ],
                )
                cursor.execute("SELECT pg_notify(%s, '')", (self._channel,))
            return places

        return self._do(work)

    def read(self, after: int, limit: int) -> list[SharedEntry]:
        """See `memplane.ports.SharedLog.read`."""

        def work(connection: psycopg.Connection[Any]) -> list[SharedEntry]:
            rows = connection.execute(
                "SELECT position, at, payload FROM memplane.entries "
                "WHERE name = %s AND position > %s ORDER BY position LIMIT %s",
                (self._name, after, limit),
                binary=True,
            ).fetchall()
            return [SharedEntry(place, at, bytes(payload)) for place, at, payload in rows]

        return self._do(work)

    def wait(self, after: int, seconds: float) -> bool:
        """See `memplane.ports.SharedLog.wait`."""

        def work(connection: psycopg.Connection[Any]) -> bool:
            connection.execute(f'LISTEN "{self._channel}"')
            deadline = time.monotonic() + seconds
            while not (found := self._head(connection) > after):
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                for _ in connection.notifies(timeout=left, stop_after=1):
                    continue
            connection.execute(f'UNLISTEN "{self._channel}"')
            return found

        return self._do(work, shared=False)

    def erase(self, stones: Mapping[int, bytes]) -> None:
        """See `memplane.ports.SharedLog.erase`.

        Old versions of the rows lie in the files until `VACUUM FULL memplane.entries`, and in the
        write-ahead log until that is recycled.
        """

        def work(connection: psycopg.Connection[Any]) -> None:
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(
                    "UPDATE memplane.entries SET payload = %s WHERE name = %s AND position = %s "
                    "AND substr(payload, 1, %s) <> %s",
                    [
                        (payload, self._name, place, len(STONE), STONE)
                        for place, payload in stones.items()
                    ],
                )

        if stones:
            self._do(work)

    def head(self) -> int:
        """See `memplane.ports.SharedLog.head`."""
        return self._do(self._head)

    def put_note(self, device: str, note: bytes) -> None:
        """See `memplane.ports.SharedLog.put_note`."""
        self._do(
            lambda connection: connection.execute(
                "INSERT INTO memplane.notes VALUES (%s, %s, %s) "
                "ON CONFLICT (name, device) DO UPDATE SET note = excluded.note",
                (self._name, device, note),
            )
        )

    def notes(self) -> dict[str, bytes]:
        """See `memplane.ports.SharedLog.notes`."""

        def work(connection: psycopg.Connection[Any]) -> dict[str, bytes]:
            rows = connection.execute(
                "SELECT device, note FROM memplane.notes WHERE name = %s ORDER BY device",
                (self._name,),
            )
            return {device: bytes(note) for device, note in rows.fetchall()}

        return self._do(work)

    def faults(self) -> list[str]:
        """See `memplane.ports.SharedLog.faults`."""

        def work(connection: psycopg.Connection[Any]) -> list[str]:
            found = []
            for name in _SETTINGS:
                [said] = connection.execute(f"SHOW {name}").fetchone() or ("",)
                if said == "off":
                    found.append(
                        f"{name} is off: a power cut may lose what was acknowledged; set it on"
                    )
            return found

        return self._do(work)

    def close(self) -> None:
        """See `memplane.ports.SharedLog.close`."""
        self._pool.users.discard(self)
        if not self._pool.users:
            self._pool.rest()

    def _taken(
        self, cursor: psycopg.Cursor[Any], count: int, expected: int | None
    ) -> tuple[int, str]:
        """Move the head on by so many positions, which are this publisher's; where it is, and when.

        The row stays locked to the end of the transaction. Raises ConflictError.
        """
        for _ in range(2):
            cursor.execute(_TAKE, (count, self._name, expected))
            row = cursor.fetchone()
            if row is not None:
                return int(row[0]), str(row[1])
            cursor.execute(
                "INSERT INTO memplane.heads VALUES (%s, 0) ON CONFLICT DO NOTHING", (self._name,)
            )
        head = self._head(cursor.connection)
        raise ConflictError(
            f"the shared log ends at position {head}, expected {expected}", id="", seq=head
        )

    @property
    def _channel(self) -> str:
        return f"memplane_{self._name}"

    def _head(self, connection: psycopg.Connection[Any]) -> int:
        row = connection.execute(
            "SELECT position FROM memplane.heads WHERE name = %s", (self._name,)
        ).fetchone()
        return 0 if row is None else int(row[0])

    def _do(
        self, work: Callable[[psycopg.Connection[Any]], Given], *, shared: bool = True
    ) -> Given:
        """The work's answer; done again where a connection of before had broken meanwhile.

        What was published and not acknowledged is published a second time, and counts once. Not
        `shared`: on a connection beside the bounded ones, which is closed afterwards.
        """
        self._pool.users.add(self)
        try:
            if not shared:
                with self._pool.beside() as connection:
                    return work(connection)
            with self._pool.connection() as (connection, kept):
                try:
                    return work(connection)
                except psycopg.Error:
                    connection.close()
                    if not kept:
                        raise
            # Those that were kept broke together, as a rule, when the server went.
            self._pool.rest()
            with self._pool.connection() as (connection, _):
                return work(connection)
        except psycopg.Error as error:
            raise _error(error) from error


class _Pool:
    """The connections of this process to one database, for all of its shared logs.

    A node of many planes would take all that a server has, 100 as it comes, if each plane had its
    own. At most CONNECTIONS_MAX are in use at once; who finds none waits for one.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self.users: WeakSet[PostgresSharedLog] = WeakSet()  # with the last one all are closed
        self._idle: list[psycopg.Connection[Any]] = []
        self._free = BoundedSemaphore(CONNECTIONS_MAX)

    @contextmanager
    def connection(self) -> Iterator[tuple[psycopg.Connection[Any], bool]]:
        """A connection for one piece of work, and whether it was made before."""
        if not self._free.acquire(timeout=_STATEMENT_MS / 1000):
            raise SharedLogError(
                f"PostgreSQL: all {CONNECTIONS_MAX} connections of this process are in use",
                unsure=False,
            )
        try:
            try:
                connection, kept = self._idle.pop(), True
            except IndexError:
                connection, kept = self._connected(), False
            try:
                yield connection, kept
            finally:
                # What was broken off may be in the middle of an answer.
                if connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
                    self._idle.append(connection)
                else:
                    connection.close()
        finally:
            self._free.release()

    @contextmanager
    def beside(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection of the caller's own, for what waits."""
        with self._connected() as connection:
            yield connection

    def rest(self) -> None:
        """Close what is idle; the next work makes a connection."""
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def _connected(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(
            self._address,
            autocommit=True,
            connect_timeout=_CONNECT_S,
            options=f"-c statement_timeout={_STATEMENT_MS} -c lock_timeout={_STATEMENT_MS}",
            tcp_user_timeout=_STATEMENT_MS,
            application_name="memplane",
        )
        try:
            _prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection


_POOLS: Final[dict[tuple[str, int], _Pool]] = {}
_MAKING: Final = Lock()


def _pool(address: str) -> _Pool:
    """That of this process: none of a parent is used, whose connections are the parent's."""
    with _MAKING:
        return _POOLS.setdefault((address, os.getpid()), _Pool(address))


def _prepare(connection: psycopg.Connection[Any]) -> None:
    """Make the tables where they are not there; FormatError for those of a newer memplane."""
    there = connection.execute("SELECT to_regclass('memplane.format')").fetchone()
    if there is None or there[0] is None:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            for statement in _TABLES.split(";"):
                connection.execute(statement)
            connection.execute(
                "INSERT INTO memplane.format SELECT %s WHERE NOT EXISTS "
                "(SELECT 1 FROM memplane.format)",
                (VERSION,),
            )
    row = connection.execute("SELECT max(version) FROM memplane.format").fetchone()
    version = VERSION if row is None or row[0] is None else int(row[0])
    if version > VERSION:
        raise FormatError(
            f"schema memplane: its tables have version {version}, this memplane knows up to "
            f"{VERSION}: upgrade memplane"
        )


def _error(error: psycopg.Error) -> SharedLogError:
    """What a driver's error comes to, in one line."""
    said = str(error).strip().partition("\n")[0] or type(error).__name__
    return SharedLogError(f"PostgreSQL: {said:.300}", unsure=True)
