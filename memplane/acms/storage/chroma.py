"""`ChromaBackend`: rows and vectors in four collections of a Chroma client. Needs extra `chroma`.

Chroma has no step that stores where nothing is: between processes that put the same id at once the
first one stays, and the other is not told. Its nearest neighbours are approximate where there are
many; they are ranked here.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeVar

import numpy as np

from memplane.acms.storage.backend import TABLES, RowBackend, StoredRow, StoredVector, Table
from memplane.errors import ConfigurationError, MissingExtraError
from memplane.intake.redact import quoted_value

Made = TypeVar("Made")

_PREFIX: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")
_TIES: Final = 64  # more than k are taken: equal scores are ordered here
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
