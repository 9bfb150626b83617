"""A plugin of pytest: LangGraph's own tests of its store in memory run over a plane instead.

`test_frameworks.py` runs them with it: `pytest -p langgraph_suite_plugin tests/test_store.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langgraph.store import memory

import memplane
from memplane.adapters.langgraph import PlaneStore
from memplane.index.vectors import signed_bytes


class TheirEmbedder:
    """The embedder that a test gives a store, as a plane asks for one."""

    name = "theirs"

    def __init__(self, index: Any) -> None:
        self._embed, self.dimension = index["embed"], index["dims"]

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        make = getattr(self._embed, "embed_documents", self._embed)
        return [signed_bytes(row) for row in make(list(texts))]


class InMemoryStore(PlaneStore):
    """Made as theirs is, over a plane in memory."""

    def __init__(self, *, index: Any = None) -> None:
        embedder = None if index is None else TheirEmbedder(index)
        self.index_config = index
        super().__init__(
            memplane.open(":memory:", embedder=embedder),
            similar=index is not None,
            fields=(index or {}).get("fields"),
        )


memory.InMemoryStore = InMemoryStore
