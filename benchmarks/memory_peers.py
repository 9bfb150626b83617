"""Other memories of agents: texts go in, and are found again, through their own front door.

tulving, mem0 (`infer=False`: no model is asked) and langgraph's InMemoryStore. Each is given the
same small embedder, which costs next to nothing, so that the time is theirs; memplane has none
there and finds by words. One that is not installed is None.
"""

from __future__ import annotations

import hashlib
import math
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from index_peers import have

__all__ = ["MEMORIES", "MemoryPeer", "opened"]

_DIMENSION = 64
MEMORIES = ("tulving", "mem0", "langgraph")


class MemoryPeer(Protocol):
    """A memory: a text in, the texts that answer a query out."""

    name: str

    def add(self, text: str) -> None: ...

    def fill(self, texts: Sequence[str]) -> None:
        """Many texts before anything is timed, in whatever way is quickest."""
        ...

    def recall(self, query: str, count: int) -> object: ...

    def close(self) -> None: ...


def embedded(text: str) -> list[float]:
    """Words, hashed into so many places; of length 1."""
    row = [0.0] * _DIMENSION
    for word in text.lower().split():
        row[hashlib.blake2b(word.encode(), digest_size=2).digest()[0] % _DIMENSION] += 1.0
    length = math.sqrt(sum(one * one for one in row)) or 1.0
    return [one / length for one in row]


class HashedWords:
    """The embedder as tulving and mem0 ask for one."""

    dimension = _DIMENSION
    model_id = f"hashed-words-{_DIMENSION}"
    distance_metric = "cosine"
    normalizes = True
    config = None

    def embed(self, text: Any, *_: Any) -> Any:
        return embedded(text) if isinstance(text, str) else [embedded(one) for one in text]

    def embed_batch(self, texts: Sequence[str], *_: Any) -> list[list[float]]:
        return [embedded(one) for one in texts]


class Tulving:
    """SQLite and hnswlib; recall is `curate`, within 4,000 tokens."""

    name = "tulving, curate"

    def __init__(self, module: Any, path: Path) -> None:
        path.mkdir()
        self._type = module.MemoryType.OBSERVATION
        self.memory = module.Memory(path, agent_id="bench", embedding_adapter=HashedWords())

    def add(self, text: str) -> None:
        self.memory.store(text, type=self._type)

    def fill(self, texts: Sequence[str]) -> None:
        for text in texts:
            self.add(text)

    def recall(self, query: str, _: int) -> object:
        return self.memory.curate(query, token_budget=4_000)

    def close(self) -> None:
        self.memory.close()


class Mem0:
    """Qdrant on local files and SQLite, as mem0 opens them by itself."""

    name = "mem0, infer=False"

    def __init__(self, module: Any, path: Path) -> None:
        path.mkdir()
        vectors = {
            "collection_name": "bench", "path": str(path / "qdrant"), "on_disk": True,
            "embedding_model_dims": _DIMENSION,
        }  # fmt: skip
        none = {"api_key": "none"}
        self._memory = module.Memory.from_config({
            "vector_store": {"provider": "qdrant", "config": vectors},
            "embedder": {"provider": "openai", "config": none},
            "llm": {"provider": "openai", "config": none},
            "history_db_path": str(path / "history.db"),
        })  # fmt: skip
        self._memory.embedding_model = HashedWords()

    def add(self, text: str) -> None:
        self._memory.add(text, user_id="bench", infer=False)

    def fill(self, texts: Sequence[str]) -> None:
        said = [{"role": "user", "content": text} for text in texts]
        self._memory.add(said, user_id="bench", infer=False)

    def recall(self, query: str, count: int) -> object:
        return self._memory.search(query, filters={"user_id": "bench"}, top_k=count)

    def close(self) -> None:
        with suppress(AttributeError):
            self._memory.vector_store.client.close()
        with suppress(AttributeError):
            self._memory.close()


class LangGraph:
    """A dictionary and a list of vectors: it keeps nothing on disk."""

    name = "langgraph InMemoryStore"

    def __init__(self, module: Any, _: Path) -> None:
        def embed(texts: Sequence[str]) -> list[list[float]]:
            return [embedded(one) for one in texts]

        self._store = module.InMemoryStore(index={"dims": _DIMENSION, "embed": embed})
        self._count = 0

    def add(self, text: str) -> None:
        self._count += 1
        self._store.put(("bench",), str(self._count), {"text": text})

    def fill(self, texts: Sequence[str]) -> None:
        for text in texts:
            self.add(text)

    def recall(self, query: str, count: int) -> object:
        return self._store.search(("bench",), query=query, limit=count)

    def close(self) -> None:
        self._store = None


_MODULES: dict[str, tuple[str, Callable[[Any, Path], MemoryPeer]]] = {
    "tulving": ("tulving", Tulving),
    "mem0": ("mem0", Mem0),
    "langgraph": ("langgraph.store.memory", LangGraph),
}


def opened(name: str, path: Path) -> MemoryPeer | None:
    """The memory in a folder that is not there yet; None where it is not installed."""
    os.environ["MEM0_TELEMETRY"] = "False"  # it would ask a host of its own
    os.environ.setdefault("MEM0_DIR", str(path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module, make = _MODULES[name]
        found = have(module)
        return None if found is None else make(found, path)
