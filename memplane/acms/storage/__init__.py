"""Stores of rows for `ACMS`: where a session's turns, episodes, facts and vectors are kept.

    async with SQLiteBackend("notes.sqlite") as rows, ACMS("trip", rows) as session:
        await session.ingest("user", "Constraint: no flights before noon")

A store holds rows and nothing else: markers, episodes, budgets and recall are the plane's, whatever
the store. `StorageBackend` is what a store of your own implements; `RowBackend` implements it over
six primitives, and the checks of the contract with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memplane.acms.storage.backend import RowBackend, StorageBackend, VectorSearchResult
from memplane.acms.storage.memory import InMemoryBackend
from memplane.lazy import lazily

if TYPE_CHECKING:
    from memplane.acms.storage.cached import CacheConfig, CachedBackend, CacheStats
    from memplane.acms.storage.chroma import ChromaBackend
    from memplane.acms.storage.plane import PlaneBackend
    from memplane.acms.storage.postgres import PostgresBackend
    from memplane.acms.storage.sqlite import SQLiteBackend

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
        "memplane.acms.storage.cached": ("CacheConfig", "CacheStats", "CachedBackend"),
        "memplane.acms.storage.chroma": ("ChromaBackend",),
        "memplane.acms.storage.plane": ("PlaneBackend",),
        "memplane.acms.storage.postgres": ("PostgresBackend",),
        "memplane.acms.storage.sqlite": ("SQLiteBackend",),
    },
)
