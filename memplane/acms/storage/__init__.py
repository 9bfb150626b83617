"""Stores of rows for `ACMS`: where a session's turns, episodes, facts and vectors are kept.

    async with SQLiteBackend("notes.sqlite") as rows, ACMS("trip", rows) as session:
        await session.ingest("user", "Constraint: no flights before noon")

A store holds rows and nothing else: markers, episodes, budgets and recall are the plane's, whatever
the store. `StorageBackend` is what a store of your own implements; `RowBackend` implements it over
six primitives, and the checks of the contract with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memplane.acms.storage.backend import (
    CacheConfig,
    CachedBackend,
    CacheStats,
    InMemoryBackend,
    RowBackend,
    StorageBackend,
    VectorSearchResult,
)
from memplane.lazy import lazily

if TYPE_CHECKING:
    from memplane.acms.storage.backend import PlaneBackend
    from memplane.acms.storage.databases import ChromaBackend, PostgresBackend, SQLiteBackend

__all__ = [
    "CacheConfig",
    "CacheStats",
    "CachedBackend",
    "ChromaBackend",
    "InMemoryBackend",
    "PlaneBackend",
    "PostgresBackend",
    "RowBackend",
    "SQLiteBackend",
    "StorageBackend",
    "VectorSearchResult",
]

__getattr__ = lazily(
    __name__,
    {
        "memplane.acms.storage.backend": ("PlaneBackend",),
        "memplane.acms.storage.databases": ("ChromaBackend", "PostgresBackend", "SQLiteBackend"),
    },
)
