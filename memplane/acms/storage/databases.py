"""Stores in databases of others: `SQLiteBackend`, `PostgresBackend`, `ChromaBackend`.

SQLite: rows in one file in WAL mode, synced at each commit; `PRAGMA user_version` is the version of
its tables. Needs the extra `sqlite` (aiosqlite, sqlite-vec).

PostgreSQL: rows in a schema of a database. The address may hold a password, so no message repeats
it. Needs the extra `postgres`.

Vectors are searched by sqlite-vec or pgvector where it is there, else by numpy over all of them:
the answers are the same.

Chroma: rows and vectors in four collections of a client. It has no step that stores where nothing
is: between processes that put the same id at once the first one stays, and the other is not told.
Its nearest neighbours are approximate where there are many; they are ranked here. Needs the extra
`chroma`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from memplane.acms.storage.backend import TABLES, RowBackend, StoredRow, StoredVector, Table
from memplane.errors import ConfigurationError, FormatError, MemplaneError, MissingExtraError
from memplane.index.numeric import np
from memplane.intake.redact import quoted_value
from memplane.lazy import late

if TYPE_CHECKING:
    import aiosqlite
    import asyncpg  # type: ignore[import-untyped]
    import sqlite_vec  # type: ignore[import-untyped]
else:
    asyncpg = late("asyncpg")
    aiosqlite = late("aiosqlite")
    sqlite_vec = late("sqlite_vec")


VERSION: Final = 1  # of the tables
_FLUSH_SECONDS: Final = 0.02
_TIES: Final = 64  # more than k are taken: equal scores are ordered here
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


_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_LOCK: Final = 7_305_110  # held while tables are made: two processes may begin at once
_ROWS: Final = """(id text PRIMARY KEY, session text NOT NULL, episode text NOT NULL,
  at bigint NOT NULL, status text NOT NULL, body text NOT NULL)"""


class PostgresBackend(RowBackend):
    """Rows in a database that others may use as well; any number of processes may have it open.

    `dsn`: as libpq takes it, `postgresql://user@host/database`. `schema` is made where it is not
    there. `pool_min` and `pool_max`: connections; `timeout`: seconds that one statement may take.
    """

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "acms",
        pool_min: int = 1,
        pool_max: int = 5,
        timeout: float = 30.0,
    ) -> None:
        """Check what was given; raises ConfigurationError. Connected by `initialize`."""
        super().__init__()
        if not isinstance(dsn, str) or not dsn.strip():
            raise ConfigurationError("dsn: expected an address, found none")
        if not isinstance(schema, str) or not _SCHEMA.fullmatch(schema):
            raise ConfigurationError(
                f"schema: expected small letters, digits and _, found {quoted_value(schema)}"
            )
        if not 1 <= pool_min <= pool_max:
            raise ConfigurationError(
                f"pool_min, pool_max: expected 1 <= {pool_min!r:.20} <= {pool_max!r:.20}"
            )
        self.schema = schema
        self._dsn, self._sizes, self._timeout = dsn, (pool_min, pool_max), timeout
        self._pool: asyncpg.Pool[Any] | None = None
        self._extension = False

    async def _start(self) -> None:
        try:
            asyncpg.create_pool  # noqa: B018 - an extra, imported here
        except ImportError:
            raise MissingExtraError("PostgresBackend", "postgres") from None
        low, high = self._sizes
        pool = await asyncpg.create_pool(
            self._dsn,
            min_size=low,
            max_size=high,
            timeout=self._timeout,
            command_timeout=self._timeout,
        )
        try:
            async with pool.acquire() as connection, connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
                await self._make(connection)
        except BaseException:
            pool.terminate()
            raise
        self._pool = pool

    async def _make(self, connection: Any) -> None:
        schema = self.schema
        await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        await connection.execute(f"CREATE TABLE IF NOT EXISTS {schema}.format (version integer)")
        version = await connection.fetchval(f"SELECT max(version) FROM {schema}.format")  # noqa: S608
        if version is not None and version > VERSION:
            raise FormatError(
                f"schema {schema}: its tables have version {version}, this memplane knows up to "
                f"{VERSION}; use a newer memplane, or another schema"
            )
        if version is None:
            for table in ("turns", "episodes", "facts"):
                await connection.execute(f"CREATE TABLE {schema}.{table} {_ROWS}")
            await connection.execute(f"CREATE INDEX ON {schema}.turns (episode, at)")
            await connection.execute(f"CREATE INDEX ON {schema}.episodes (session, at)")
            await connection.execute(f"CREATE INDEX ON {schema}.facts (session, at)")
            await connection.execute(
                f"CREATE TABLE {schema}.embeddings (id text PRIMARY KEY, vector bytea NOT NULL, "
                "metadata text NOT NULL)"
            )
            await connection.execute(f"INSERT INTO {schema}.format VALUES ($1)", VERSION)  # noqa: S608
        self._extension = await self._extended(connection)

    async def _extended(self, connection: Any) -> bool:
        """Whether pgvector is there; its column is filled where another process went without."""
        schema = self.schema
        there = await connection.fetchval("SELECT 1 FROM pg_extension WHERE extname = 'vector'")
        if there is None:
            return False
        await connection.execute(
            f"ALTER TABLE {schema}.embeddings ADD COLUMN IF NOT EXISTS near vector"
        )
        rows = await connection.fetch(
            f"SELECT id, vector FROM {schema}.embeddings WHERE near IS NULL"  # noqa: S608
        )
        for row in rows:
            await connection.execute(
                f"UPDATE {schema}.embeddings SET near = $2::text::vector WHERE id = $1",  # noqa: S608
                row["id"],
                _words(row["vector"]),
            )
        return True

    async def _stop(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    def _connection(self) -> Any:
        if self._pool is None:
            raise OSError("closed")
        return self._pool.acquire(timeout=self._timeout)

    async def _put(self, table: Table, row: StoredRow, over: str | None) -> str | None:
        at = f"{self.schema}.{table}"
        async with self._connection() as connection, connection.transaction():
            done = await connection.fetchval(
                f"INSERT INTO {at} VALUES ($1, $2, $3, $4, $5, $6) "  # noqa: S608 - our names
                "ON CONFLICT (id) DO NOTHING RETURNING 1",
                *row,
            )
            if done is None and over is not None:
                done = await connection.fetchval(
                    f"UPDATE {at} SET session=$2, episode=$3, at=$4, status=$5, body=$6 "  # noqa: S608
                    "WHERE id=$1 AND body=$7 RETURNING 1",
                    *row,
                    over,
                )
            if done is not None:
                return None
            there = await connection.fetchval(f"SELECT body FROM {at} WHERE id=$1", row.id)  # noqa: S608
        return None if there is None else str(there)

    async def _get(self, table: Table, id_: str) -> str | None:
        async with self._connection() as connection:
            there = await connection.fetchval(
                f"SELECT body FROM {self.schema}.{table} WHERE id=$1",  # noqa: S608
                id_,
            )
        return None if there is None else str(there)

    async def _list(
        self, table: Table, column: Literal["session", "episode"], value: str, status: str | None
    ) -> list[StoredRow]:
        ask = (
            f"SELECT id, session, episode, at, status, body FROM {self.schema}.{table} "  # noqa: S608
            f"WHERE {column}=$1 AND ($2::text IS NULL OR status=$2)"
        )
        async with self._connection() as connection:
            rows = await connection.fetch(ask, value, status)
        return [StoredRow(*row) for row in rows]

    async def _put_vector(self, row: StoredVector) -> StoredVector | None:
        at = f"{self.schema}.embeddings"
        columns, values = "id, vector, metadata", "$1, $2, $3"
        more: tuple[str, ...] = ()
        if self._extension:
            columns, values = f"{columns}, near", f"{values}, $4::text::vector"
            more = (_words(row.vector),)
        async with self._connection() as connection, connection.transaction():
            done = await connection.fetchval(
                f"INSERT INTO {at} ({columns}) VALUES ({values}) "  # noqa: S608 - our names
                "ON CONFLICT (id) DO NOTHING RETURNING 1",
                *row,
                *more,
            )
            if done is not None:
                return None
            there = await connection.fetchrow(
                f"SELECT id, vector, metadata FROM {at} WHERE id=$1",  # noqa: S608
                row.id,
            )
        return None if there is None else StoredVector(*there)

    async def _vectors(
        self, vector: bytes, k: int, wanted: Mapping[str, Any]
    ) -> Iterable[StoredVector]:
        ask = f"SELECT id, vector, metadata FROM {self.schema}.embeddings"  # noqa: S608
        asked: tuple[Any, ...] = ()
        if self._extension and not wanted and any(vector):
            # Vectors of zeros have no distance there: they come last, and are ranked here.
            ask += " ORDER BY near <=> $1::text::vector NULLS LAST, id LIMIT $2"
            asked = (_words(vector), k + _TIES)
        async with self._connection() as connection:
            rows = await connection.fetch(ask, *asked)
        return [StoredVector(*row) for row in rows]

    def _failed(self, error: Exception) -> str | None:
        if isinstance(error, MemplaneError):
            return None
        kinds = asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError
        if isinstance(error, kinds):
            return f"schema {self.schema}: {type(error).__name__}: {_said(error, self._dsn)}"
        return None


def _said(error: Exception, dsn: str) -> str:
    """An error's words without the address, which may hold a password."""
    words = str(error).replace(dsn, "...")
    secret = re.search(r"://[^/@:]*:([^@/]+)@|password=(\S+)", dsn)
    for one in secret.groups() if secret is not None else ():
        words = words.replace(one, "...") if one else words
    return words


def _words(vector: bytes) -> str:
    """A vector as pgvector reads it."""
    return f"[{','.join(map(repr, np.frombuffer(vector, '<f4').tolist()))}]"


Made = TypeVar("Made")

_PREFIX: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")
_NO_VECTOR: Final = [1.0]  # a collection of rows has one all the same


class ChromaBackend(RowBackend):
    """Rows of a client that is the caller's: `close` leaves it open.

    `client`: `chromadb.PersistentClient(path)`, `HttpClient(...)`; its calls run on a thread.
    `prefix` stands before the names of the collections.
    """

    def __init__(self, client: Any, *, prefix: str = "acms") -> None:
        """Check what was given; raises ConfigurationError, MissingExtraError."""
        super().__init__()
        if client is None:
            raise MissingExtraError("ChromaBackend", "chroma")
        if not callable(getattr(client, "get_or_create_collection", None)):
            raise ConfigurationError(
                f"client: expected a Chroma client, found {type(client).__name__}"
            )
        if not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix):
            raise ConfigurationError(
                f"prefix: expected small letters, digits, - and _, found {quoted_value(prefix)}"
            )
        self._client, self._prefix = client, prefix
        self._rows: dict[Table, Any] = {}
        self._kept: Any = None
        self._writing = asyncio.Lock()

    async def _call(self, call: Callable[[], Made]) -> Made:
        return await asyncio.to_thread(call)

    async def _start(self) -> None:
        def made() -> None:
            for table in TABLES:
                self._rows[table] = self._client.get_or_create_collection(
                    f"{self._prefix}-{table}", embedding_function=None
                )
            self._kept = self._client.get_or_create_collection(
                f"{self._prefix}-embeddings",
                embedding_function=None,
                configuration={"hnsw": {"space": "cosine"}},
            )

        self._writing = asyncio.Lock()
        await self._call(made)

    async def _stop(self) -> None:
        self._rows, self._kept = {}, None

    async def _put(self, table: Table, row: StoredRow, over: str | None) -> str | None:
        rows = self._rows[table]
        metadata = {
            "session": row.session,
            "episode": row.episode,
            "at": row.at,
            "status": row.status,
        }
        whole = {
            "ids": [row.id],
            "documents": [row.body],
            "metadatas": [metadata],
            "embeddings": [_NO_VECTOR],
        }

        def put() -> str | None:
            there = _document(rows, row.id)
            if there is not None and there == over:
                rows.update(**whole)
                return None
            if there is not None:
                return there
            rows.add(**whole)
            stored = _document(rows, row.id)  # another process may have come first
            return None if stored == row.body else stored

        async with self._writing:
            return await self._call(put)

    async def _get(self, table: Table, id_: str) -> str | None:
        return await self._call(lambda: _document(self._rows[table], id_))

    async def _list(
        self, table: Table, column: Literal["session", "episode"], value: str, status: str | None
    ) -> list[StoredRow]:
        where: dict[str, Any] = {column: value}
        if status is not None:
            where = {"$and": [where, {"status": status}]}
        found = await self._call(
            lambda: self._rows[table].get(where=where, include=["documents", "metadatas"])
        )
        return [
            StoredRow(id_, said["session"], said["episode"], said["at"], said["status"], body)
            for id_, body, said in zip(
                found["ids"], found["documents"], found["metadatas"], strict=True
            )
        ]

    async def _put_vector(self, row: StoredVector) -> StoredVector | None:
        def put() -> StoredVector | None:
            there = self._kept.get(ids=[row.id], include=["documents", "embeddings"])
            if there["ids"]:
                return _vector(row.id, there["embeddings"][0], there["documents"][0])
            numbers = np.frombuffer(row.vector, "<f4").tolist()
            self._kept.add(ids=[row.id], documents=[row.metadata], embeddings=[numbers])
            return None

        async with self._writing:
            return await self._call(put)

    async def _vectors(
        self, vector: bytes, k: int, wanted: Mapping[str, Any]
    ) -> Iterable[StoredVector]:
        include = ["documents", "embeddings"]

        def found() -> list[StoredVector]:
            count = self._kept.count()
            if not count:
                return []
            if wanted or not any(vector) or count <= k + _TIES:
                every = self._kept.get(include=include)
                rows = every["ids"], every["embeddings"], every["documents"]
            else:
                asked = [np.frombuffer(vector, "<f4").tolist()]
                near = self._kept.query(asked, n_results=k + _TIES, include=include)
                rows = near["ids"][0], near["embeddings"][0], near["documents"][0]
            return [_vector(*row) for row in zip(*rows, strict=True)]

        return await self._call(found)

    def _failed(self, error: Exception) -> str | None:
        # Its own errors have one base; those of the connection are of its HTTP library.
        module = type(error).__module__.partition(".")[0]
        if module in ("chromadb", "httpx", "httpcore") or isinstance(error, OSError | ValueError):
            return f"{self._prefix}: {type(error).__name__}: {error}"
        return None


def _document(rows: Any, id_: str) -> str | None:
    found = rows.get(ids=[id_], include=["documents"])["documents"]
    return str(found[0]) if found else None


def _vector(id_: str, numbers: Any, metadata: str) -> StoredVector:
    json.loads(metadata)  # what others have put there is no row of ours
    return StoredVector(id_, np.asarray(numbers, "<f4").tobytes(), metadata)
