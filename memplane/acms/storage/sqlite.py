"""`SQLiteBackend`: rows in one SQLite file. Needs the extra `sqlite` (aiosqlite, sqlite-vec).

The file is in WAL mode and synced at each commit. `PRAGMA user_version` is the version of its
tables. Vectors are searched by sqlite-vec where this Python can load extensions, else by numpy over
all of them: the answers are the same.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Literal

from memplane.acms.storage.backend import RowBackend, StoredRow, StoredVector, Table
from memplane.errors import ConfigurationError, FormatError, MissingExtraError
from memplane.intake.redact import quoted_value
from memplane.lazy import late

if TYPE_CHECKING:
    import aiosqlite
    import sqlite_vec  # type: ignore[import-untyped]
else:
    aiosqlite = late("aiosqlite")
    sqlite_vec = late("sqlite_vec")

VERSION: Final = 1  # of the tables
_FLUSH_SECONDS: Final = 0.02
_TIES: Final = 64  # more than k are taken from the extension: equal scores are ordered here
_FOUND_MAX: Final = 4_000  # that the extension gives at once
_COLUMNS: Final = "id, session, episode, at, status, body"
_TABLES: Final = """\
CREATE TABLE IF NOT EXISTS turns (id TEXT PRIMARY KEY, session TEXT NOT NULL,
  episode TEXT NOT NULL, at INTEGER NOT NULL, status TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS episodes (id TEXT PRIMARY KEY, session TEXT NOT NULL,
  episode TEXT NOT NULL, at INTEGER NOT NULL, status TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS facts (id TEXT PRIMARY KEY, session TEXT NOT NULL,
  episode TEXT NOT NULL, at INTEGER NOT NULL, status TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS embeddings (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
  vector BLOB NOT NULL, metadata TEXT NOT NULL, zero INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS turns_by_episode ON turns (episode, at);
CREATE INDEX IF NOT EXISTS episodes_by_session ON episodes (session, at);
CREATE INDEX IF NOT EXISTS facts_by_session ON facts (session, at);
"""


class SQLiteBackend(RowBackend):
    """Rows in a file; any number of processes may have it open.

    `pool_size`: connections for reading. `busy_timeout`: seconds to wait for another writer.
    `flush`: `each` row is synced before its call returns; `batched`: rows of 20 ms are synced
    together behind it, so that a power cut, a kill or a full disk may take those; the call behind
    a full disk raises it. `close` flushes them. A file with tables of another program is refused.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        pool_size: int = 4,
        busy_timeout: float = 5.0,
        flush: Literal["each", "batched"] = "each",
    ) -> None:
        """Check what was given; raises ConfigurationError. The file is opened by `initialize`."""
        super().__init__()
        self.path = os.fspath(path)
        if not self.path.strip() or "\0" in self.path or self.path == ":memory:":
            raise ConfigurationError(
                f"path: expected a file, found {quoted_value(self.path)} (in memory: "
                "InMemoryBackend)"
            )
        if isinstance(pool_size, bool) or not isinstance(pool_size, int) or pool_size < 1:
            raise ConfigurationError(f"pool_size: expected 1 or more, found {pool_size!r:.40}")
        if flush not in ("each", "batched"):
            raise ConfigurationError(f"flush: expected each or batched, found {flush!r:.40}")
        self._size, self._timeout, self._batched = pool_size, busy_timeout, flush == "batched"
        self._writer: aiosqlite.Connection | None = None
        self._readers: asyncio.Queue[aiosqlite.Connection] = asyncio.Queue()
        self._writing = asyncio.Lock()
        self._flushing: asyncio.Task[None] | None = None
        self._lost: Exception | None = None  # of a flush behind a call that had returned
        self._extension = False

    # --- opening ---

    async def _start(self) -> None:
        try:
            aiosqlite.connect  # noqa: B018 - an extra, imported here
        except ImportError:
            raise MissingExtraError("SQLiteBackend", "sqlite") from None
        self._writing, self._readers = asyncio.Lock(), asyncio.Queue()
        self._writer = writer = await self._connected()
        try:
            await self._migrated(writer)
            self._extension = await _loaded(writer)
            if self._extension:
                await self._indexed(writer)
            for _ in range(0 if self._batched else self._size):
                reader = await self._connected()
                self._readers.put_nowait(reader)
                await _loaded(reader)
        except BaseException:
            await writer.rollback()
            await self._stop()
            raise

    async def _connected(self) -> aiosqlite.Connection:
        made = await aiosqlite.connect(self.path, timeout=self._timeout, isolation_level=None)
        try:
            await self._refuse_foreign(made)
            await made.execute("PRAGMA journal_mode=WAL")
            await made.execute("PRAGMA synchronous=FULL")
        except BaseException:
            await made.close()  # else its thread would keep the process from ending
            raise
        return made

    async def _refuse_foreign(self, connection: aiosqlite.Connection) -> int:
        """The version of the tables; raises FormatError for those of a newer or another program."""
        found = await _one(connection, "PRAGMA user_version")
        version = int(found[0]) if found else 0
        if version > VERSION:
            raise FormatError(
                f"{self.path}: its tables have version {version}, this memplane knows up to "
                f"{VERSION}; use a newer memplane, or another file"
            )
        asked = "SELECT 1 FROM sqlite_master"
        if version < 0 or (not version and await _one(connection, asked) is not None):
            raise FormatError(f"{self.path}: has tables of another program; use another file")
        return version

    async def _migrated(self, writer: aiosqlite.Connection) -> None:
        # In one transaction: a crash leaves the old tables, or the new ones.
        await writer.execute("BEGIN IMMEDIATE")
        if await self._refuse_foreign(writer) < VERSION:
            for table in _TABLES.split(";\n"):
                await writer.execute(table)
            await writer.execute(f"PRAGMA user_version={VERSION}")
        await writer.commit()

    async def _indexed(self, writer: aiosqlite.Connection) -> None:
        """Give the extension the vectors that a process without it has stored."""
        first = await _one(writer, "SELECT vector FROM embeddings LIMIT 1")
        if first is None:
            return
        await self._indexes(writer, len(first[0]) // 4)
        await writer.execute(
            "INSERT INTO near (rowid, vector) SELECT number, vector FROM embeddings "
            "WHERE NOT zero AND number NOT IN (SELECT rowid FROM near)"
        )

    async def _indexes(self, writer: aiosqlite.Connection, dimension: int) -> None:
        await writer.execute(
            f"CREATE VIRTUAL TABLE IF NOT EXISTS near USING vec0("
            f"vector float[{dimension}] distance_metric=cosine)"
        )

    async def _stop(self) -> None:
        writer, self._writer = self._writer, None
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        while not self._readers.empty():
            await self._readers.get_nowait().close()
        if writer is not None:
            try:
                if writer.in_transaction:
                    await writer.commit()
            finally:
                await writer.close()
        lost, self._lost = self._lost, None
        if lost is not None:
            raise lost

    # --- rows ---

    @asynccontextmanager
    async def _write(self) -> AsyncIterator[aiosqlite.Connection]:
        """The connection that writes, in a transaction: its own, or that of the batch."""
        async with self._writing:
            writer = self._writer
            if writer is None:
                raise sqlite3.ProgrammingError("closed")
            self._raise_lost()
            if self._batched:
                if not writer.in_transaction:
                    await self._begin(writer)
                    self._flushing = asyncio.create_task(self._flush())
                yield writer
                return
            await self._begin(writer)
            try:
                yield writer
                await writer.commit()
            except BaseException:
                await writer.rollback()
                raise

    async def _begin(self, writer: aiosqlite.Connection) -> None:
        try:
            await writer.execute("BEGIN IMMEDIATE")
        except asyncio.CancelledError:
            await writer.rollback()  # it may have begun: nobody else could write
            raise

    async def _flush(self) -> None:
        await asyncio.sleep(_FLUSH_SECONDS)
        async with self._writing:
            if self._writer is not None and self._writer.in_transaction:
                try:
                    await self._writer.commit()
                except sqlite3.Error as error:
                    self._lost = error

    def _raise_lost(self) -> None:
        lost, self._lost = self._lost, None
        if lost is not None:
            raise lost

    @asynccontextmanager
    async def _read(self) -> AsyncIterator[aiosqlite.Connection]:
        """A connection that reads; that of the batch, which has rows that no other one sees."""
        if self._batched:
            async with self._writing:
                if self._writer is None:
                    raise sqlite3.ProgrammingError("closed")
                self._raise_lost()
                yield self._writer
            return
        reader = await self._readers.get()
        try:
            yield reader
        finally:
            self._readers.put_nowait(reader)

    async def _put(self, table: Table, row: StoredRow, over: str | None) -> str | None:
        async with self._write() as writer:
            done = await writer.execute(
                f"INSERT INTO {table} ({_COLUMNS}) VALUES (?,?,?,?,?,?) "  # noqa: S608 - our table
                "ON CONFLICT (id) DO NOTHING",
                tuple(row),
            )
            if done.rowcount:
                return None
            if over is not None:
                done = await writer.execute(
                    f"UPDATE {table} SET session=?, episode=?, at=?, status=?, body=? "  # noqa: S608
                    "WHERE id=? AND body=?",
                    (*row[1:], row.id, over),
                )
                if done.rowcount:
                    return None
            there = await _one(writer, f"SELECT body FROM {table} WHERE id=?", row.id)  # noqa: S608
        return None if there is None else str(there[0])

    async def _get(self, table: Table, id_: str) -> str | None:
        async with self._read() as reader:
            there = await _one(reader, f"SELECT body FROM {table} WHERE id=?", id_)  # noqa: S608
        return None if there is None else str(there[0])

    async def _list(
        self, table: Table, column: Literal["session", "episode"], value: str, status: str | None
    ) -> list[StoredRow]:
        ask = f"SELECT {_COLUMNS} FROM {table} WHERE {column}=?"  # noqa: S608 - our names
        asked: list[str] = [value]
        if status is not None:
            ask += " AND status=?"
            asked.append(status)
        async with self._read() as reader:
            rows = await (await reader.execute(ask, asked)).fetchall()
        return [StoredRow(*row) for row in rows]

    # --- vectors ---

    async def _put_vector(self, row: StoredVector) -> StoredVector | None:
        zero = not any(row.vector)
        async with self._write() as writer:
            done = await writer.execute(
                "INSERT INTO embeddings (id, vector, metadata, zero) VALUES (?,?,?,?) "
                "ON CONFLICT (id) DO NOTHING",
                (*row, int(zero)),
            )
            if done.rowcount:
                if self._extension and not zero:
                    await self._indexes(writer, len(row.vector) // 4)
                    await writer.execute(
                        "INSERT INTO near (rowid, vector) VALUES (?,?)",
                        (done.lastrowid, row.vector),
                    )
                return None
            there = await _one(
                writer, "SELECT id, vector, metadata FROM embeddings WHERE id=?", row.id
            )
        return None if there is None else StoredVector(*there)

    async def _vectors(
        self, vector: bytes, k: int, wanted: Mapping[str, Any]
    ) -> Iterable[StoredVector]:
        ask, asked = "SELECT id, vector, metadata FROM embeddings", tuple[Any, ...]()
        if self._extension and not wanted and any(vector) and k + _TIES <= _FOUND_MAX:
            ask += (
                " WHERE number IN (SELECT rowid FROM near WHERE vector MATCH ? AND k = ?) "
                "OR number IN (SELECT number FROM embeddings WHERE zero ORDER BY id LIMIT ?)"
            )
            asked = (vector, k + _TIES, k)
        async with self._read() as reader:
            if (
                asked
                and await _one(reader, "SELECT 1 FROM sqlite_master WHERE name='near'") is None
            ):
                return []
            rows = await (await reader.execute(ask, asked)).fetchall()
        return [StoredVector(*row) for row in rows]

    def _failed(self, error: Exception) -> str | None:
        if isinstance(error, sqlite3.Error | OSError | ValueError):
            return f"{self.path}: {error}"
        return None


async def _one(connection: aiosqlite.Connection, ask: str, *asked: object) -> Any:
    return await (await connection.execute(ask, asked)).fetchone()


async def _loaded(connection: aiosqlite.Connection) -> bool:
    """Whether sqlite-vec was loaded: not where this Python's SQLite takes no extensions."""
    try:
        await connection.enable_load_extension(True)
        try:
            await connection.load_extension(sqlite_vec.loadable_path())
        finally:
            await connection.enable_load_extension(False)
    except (ImportError, AttributeError, sqlite3.Error, OSError):
        return False
    return True
