"""`CachedBackend`: rows read last from a store over a network, kept in this process.

Writes go to the store first. A turn and a vector never change, so what is kept of them is right;
of episodes only closed ones are kept, which never change either. Lists, searches and facts are
asked of the store each time, as others may have added to them. Not for files or memory, which are
caches of their own.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from memplane.acms.storage.backend import LIMIT, StorageBackend, VectorSearchResult
from memplane.errors import ConfigurationError
from memplane.work.episodes import Episode, EpisodeStatus, Fact, Turn

Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfig:
    """How much is kept. `ttl_seconds` None: until something else needs the room.

    Raises ConfigurationError that names every mistake, a line each.
    """

    enabled: bool = True
    max_turns: int = 1000
    max_episodes: int = 100
    max_embeddings: int = 1000
    ttl_seconds: int | None = None

    def __post_init__(self) -> None:
        faults = []
        if not isinstance(self.enabled, bool):
            faults.append(f"cache.enabled: expected true or false, found {self.enabled!r:.40}")
        for name in ("max_turns", "max_episodes", "max_embeddings", "ttl_seconds"):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
            if not whole and not (name == "ttl_seconds" and value is None):
                faults.append(f"cache.{name}: expected 1 or more, found {value!r:.40}")
        if faults:
            raise ConfigurationError("\n".join(faults))


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStats:
    """What a cache has done; `size`: rows in it now."""

    hits: int
    misses: int
    evictions: int
    size: int


class _Rows(Generic[Kept]):
    """The rows used last, at most so many."""

    def __init__(self, most: int, seconds: int | None, clock: Callable[[], float]) -> None:
        self._most, self._seconds, self._clock = most, seconds, clock
        self._rows: OrderedDict[str, tuple[float, Kept]] = OrderedDict()
        self.hits = self.misses = self.evictions = 0

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, id_: str) -> Kept | None:
        found = self._rows.get(id_)
        if found is not None and self._is_old(found[0]):
            del self._rows[id_]
            found = None
        if found is None:
            self.misses += 1
            return None
        self.hits += 1
        self._rows.move_to_end(id_)
        return found[1]

    def _is_old(self, since: float) -> bool:
        return self._seconds is not None and self._clock() - since >= self._seconds

    def put(self, id_: str, value: Kept) -> None:
        self._rows[id_] = self._clock(), value
        self._rows.move_to_end(id_)
        if len(self._rows) > self._most:
            self._rows.popitem(last=False)
            self.evictions += 1


class CachedBackend(StorageBackend):
    """A store behind a cache; the store is opened and closed with it. `clock` in seconds."""

    def __init__(
        self,
        inner: StorageBackend,
        config: CacheConfig | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises ConfigurationError for anything that is no store, or no CacheConfig."""
        if not isinstance(inner, StorageBackend):
            raise ConfigurationError(f"inner: expected a store, found {type(inner).__name__}")
        if config is not None and not isinstance(config, CacheConfig):
            raise ConfigurationError(
                f"config: expected a CacheConfig, found {type(config).__name__}"
            )
        self.inner, self.config, self._clock = inner, config or CacheConfig(), clock
        self._clear()

    def _clear(self) -> None:
        given, clock = self.config, self._clock
        seconds = given.ttl_seconds
        self._turns: _Rows[Turn] = _Rows(given.max_turns, seconds, clock)
        self._episodes: _Rows[Episode] = _Rows(given.max_episodes, seconds, clock)
        self._saved: _Rows[str] = _Rows(given.max_embeddings, seconds, clock)

    def stats(self) -> CacheStats:
        """What the cache has done since it was opened."""
        parts: tuple[_Rows[Any], ...] = self._turns, self._episodes, self._saved
        return CacheStats(
            hits=sum(one.hits for one in parts),
            misses=sum(one.misses for one in parts),
            evictions=sum(one.evictions for one in parts),
            size=sum(len(one) for one in parts),
        )

    @property
    def is_open(self) -> bool:
        return self.inner.is_open

    async def initialize(self) -> None:
        await self.inner.initialize()

    async def close(self) -> None:
        self._clear()
        await self.inner.close()

    async def save_turn(self, turn: Turn) -> None:
        await self.inner.save_turn(turn)
        if self.config.enabled:
            self._turns.put(turn.id, turn)

    async def get_turn(self, turn_id: str) -> Turn | None:
        if not self.config.enabled:
            return await self.inner.get_turn(turn_id)
        found = self._turns.get(turn_id)
        if found is None:
            found = await self.inner.get_turn(turn_id)
            if found is not None:
                self._turns.put(turn_id, found)
        return found

    async def get_turns_by_episode(self, episode_id: str) -> list[Turn]:
        return await self.inner.get_turns_by_episode(episode_id)

    async def save_episode(self, episode: Episode) -> None:
        await self.inner.save_episode(episode)
        if self.config.enabled and episode.status == EpisodeStatus.CLOSED:
            self._episodes.put(episode.id, episode)

    async def get_episode(self, episode_id: str) -> Episode | None:
        if not self.config.enabled:
            return await self.inner.get_episode(episode_id)
        found = self._episodes.get(episode_id)
        if found is None:
            found = await self.inner.get_episode(episode_id)
            if found is not None and found.status == EpisodeStatus.CLOSED:
                self._episodes.put(episode_id, found)
        return found

    async def get_episodes(
        self, session_id: str, *, limit: int = LIMIT, status: EpisodeStatus | str | None = None
    ) -> list[Episode]:
        return await self.inner.get_episodes(session_id, limit=limit, status=status)

    async def save_embedding(
        self,
        id: str,  # noqa: A002 - the plan's name
        embedding: list[float],
        metadata: dict[str, Any],
    ) -> None:
        """As the store's; one that was saved here before is not sent again."""
        if not self.config.enabled:
            await self.inner.save_embedding(id, embedding, metadata)
            return
        row = repr((list(embedding), metadata))
        if self._saved.get(id) != row:
            await self.inner.save_embedding(id, embedding, metadata)
            self._saved.put(id, row)

    async def vector_search(
        self,
        embedding: list[float],
        *,
        k: int = 10,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the plan's name
    ) -> list[VectorSearchResult]:
        return await self.inner.vector_search(embedding, k=k, filter=filter)

    async def save_fact(self, fact: Fact) -> None:
        await self.inner.save_fact(fact)

    async def get_facts_by_session(self, session_id: str) -> list[Fact]:
        return await self.inner.get_facts_by_session(session_id)
