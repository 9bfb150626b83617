"""Each store by name, on files and servers of the test's own."""

import asyncio
import importlib.util

import pytest

from memplane.acms.storage import CachedBackend, ChromaBackend, InMemoryBackend, SQLiteBackend
from memplane.acms.storage.databases import PostgresBackend
from tests.acms.storage.builders_servers import postgres_dsn
from tests.acms.storage.fakes_store import OwnStore

STORES = ("memory", "sqlite", "sqlite, batched", "cached", "own", "postgres", "pgvector", "chroma")
ON_SERVERS = frozenset(("postgres", "pgvector", "chroma"))


@pytest.fixture(params=[
    pytest.param(name, marks=[pytest.mark.servers] if name in ON_SERVERS else []) for name in STORES
])  # fmt: skip
def make(request, tmp_path):
    """Makes the store of one place; made again it finds what is there."""
    name, kept = request.param, {}
    if name in ("postgres", "pgvector"):
        dsn = postgres_dsn(extended=name == "pgvector")
        schema = f"t{abs(hash(str(tmp_path))) % 10**12}"
        return lambda: PostgresBackend(dsn, schema=schema)
    if name == "chroma":
        if importlib.util.find_spec("chromadb") is None:
            pytest.skip("chromadb is not installed")
        import chromadb

        settings = chromadb.config.Settings(anonymized_telemetry=False)
        client = chromadb.PersistentClient(str(tmp_path / "chroma"), settings=settings)
        return lambda: ChromaBackend(client)
    makers = {
        "memory": lambda: kept.setdefault("store", InMemoryBackend()),
        "sqlite": lambda: SQLiteBackend(tmp_path / "rows.sqlite"),
        "sqlite, batched": lambda: SQLiteBackend(tmp_path / "rows.sqlite", flush="batched"),
        "cached": lambda: CachedBackend(kept.setdefault("store", InMemoryBackend())),
        "own": lambda: OwnStore(tmp_path / "own.json"),
    }
    return makers[name]


@pytest.fixture
def run():
    """Runs a coroutine to its end, on a loop of its own."""
    return asyncio.run
