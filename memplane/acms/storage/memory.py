"""`InMemoryBackend`: rows in dictionaries, for tests and for what need not be kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from memplane.acms.storage.backend import TABLES, RowBackend, StoredRow, StoredVector, Table


class InMemoryBackend(RowBackend):
    """Rows that live as long as the object, also closed: opened again, they are there."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[Table, dict[str, StoredRow]] = {table: {} for table in TABLES}
        self._kept: dict[str, StoredVector] = {}

    async def _start(self) -> None:
        pass

    async def _stop(self) -> None:
        pass

    async def _put(self, table: Table, row: StoredRow, over: str | None) -> str | None:
        there = self._rows[table].get(row.id)
        if there is None or there.body == over:
            self._rows[table][row.id] = row
            return None
        return there.body

    async def _get(self, table: Table, id_: str) -> str | None:
        there = self._rows[table].get(id_)
        return None if there is None else there.body

    async def _list(
        self, table: Table, column: Literal["session", "episode"], value: str, status: str | None
    ) -> list[StoredRow]:
        return [
            row
            for row in self._rows[table].values()
            if getattr(row, column) == value and status in (None, row.status)
        ]

    async def _put_vector(self, row: StoredVector) -> StoredVector | None:
        there = self._kept.setdefault(row.id, row)
        return None if there is row else there

    async def _vectors(
        self, vector: bytes, k: int, wanted: Mapping[str, Any]
    ) -> Iterable[StoredVector]:
        del vector, k, wanted
        return list(self._kept.values())

    def _failed(self, error: Exception) -> str | None:
        del error
        return None
