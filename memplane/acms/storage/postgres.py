"""`PostgresBackend`: rows in a schema of a PostgreSQL database. Needs the extra `postgres`.

Vectors are searched by pgvector where the database has it, else by numpy over all of them: the
answers are the same. The address may hold a password, so no message repeats it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from memplane.acms.storage.backend import RowBackend, StoredRow, StoredVector, Table
from memplane.errors import ConfigurationError, FormatError, MemplaneError, MissingExtraError
from memplane.intake.redact import quoted_value
from memplane.lazy import late

if TYPE_CHECKING:
    import asyncpg  # type: ignore[import-untyped]
else:
    asyncpg = late("asyncpg")

VERSION: Final = 1  # of the tables
_TIES: Final = 64  # more than k are taken from pgvector: equal scores are ordered here
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
