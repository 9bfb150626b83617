"""`StorageBackend`, the port of stores; `RowBackend`, its contract over six primitives; a cache.

The contract of rows, whatever the store:

- turns of an episode by (created_at, id), rising; episodes of a session newest first;
- to save the same again changes nothing; other content under an id is a StorageError, but that an
  open episode may grow and close;
- a vector search finds by the cosine: best first, ties by id, scores to six decimals; with a
  filter those whose metadata have every given key at that value; k above what is there gives what
  is there, k below 1 nothing; a vector of another dimension is a StorageError;
- any call before `initialize` or after `close` is a StorageError; `initialize` twice is fine.

`InMemoryBackend` keeps its rows in dictionaries. `CachedBackend` keeps rows read last from a store
over a network: writes go to the store first, a turn and a vector never change, and of episodes only
closed ones are kept, which never change either. Lists, searches and facts are asked of the store
each time, as others may have added to them.

`PlaneBackend` has the twelve methods of a store over a plane, for programs that speak to stores.
`ACMS` itself needs no store where it has a plane. Turns are events, episodes the fold of the log
under the plane's rules: `save_episode` checks and closes, it stores nothing. Vectors given here lie
in the plane's index folder, beside those that its own embedder makes.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import time
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Self, TypeAlias, TypeVar

from memplane import nofollow
from memplane.errors import (
    ConfigurationError,
    ConflictError,
    EpisodeNotFoundError,
    InputError,
    NotFoundError,
    PlaneError,
)
from memplane.index.numeric import np
from memplane.intake.redact import quoted_value
from memplane.lazy import NamedTuple
from memplane.projections.sessions import TURNS
from memplane.work.episodes import (
    Episode,
    EpisodeStatus,
    Fact,
    PlaneEpisodes,
    Role,
    Turn,
    time_of,
    turn_of,
)

if TYPE_CHECKING:
    from memplane.event import Event
    from memplane.plane import Plane
    from memplane.policy.records import EpisodeRules


_DECIMALS: Final = 6
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
LIMIT: Final = 100  # episodes that are given where nobody says how many


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSearchResult:
    """One vector found. `score`: 1 - the cosine distance, to six decimals; `metadata` as saved."""

    id: str
    score: float
    metadata: dict[str, Any] = field(default_factory=dict)


class StorageBackend(ABC):
    """Where the rows of sessions are kept. Every failure of a store is a StorageError.

    An async context manager: `initialize` on entering it, `close` on leaving.
    """

    _entered = False

    async def __aenter__(self) -> Self:
        await self.initialize()
        self._entered = True
        return self

    async def __aexit__(self, *error: object) -> None:
        self._entered = False
        await self.close()

    @property
    def is_open(self) -> bool:
        """Whether somebody has it open: a session leaves it to them to close it."""
        return self._entered

    @abstractmethod
    async def initialize(self) -> None:
        """Connect, and make what is not there yet. Again: nothing."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of the store; what was saved stays. Again: nothing."""

    @abstractmethod
    async def save_turn(self, turn: Turn) -> None:
        """Keep a turn; it is safe when this returns."""

    @abstractmethod
    async def get_turn(self, turn_id: str) -> Turn | None:
        """The turn with that id."""

    @abstractmethod
    async def get_turns_by_episode(self, episode_id: str) -> list[Turn]:
        """The turns of an episode, by time, then id; none of one that is unknown."""

    @abstractmethod
    async def save_episode(self, episode: Episode) -> None:
        """Keep an episode: open, with more turns, or closed."""

    @abstractmethod
    async def get_episode(self, episode_id: str) -> Episode | None:
        """The episode with that id."""

    @abstractmethod
    async def get_episodes(
        self, session_id: str, *, limit: int = LIMIT, status: EpisodeStatus | str | None = None
    ) -> list[Episode]:
        """The newest episodes of a session, newest first; `status`: only open, or closed ones."""

    @abstractmethod
    async def save_embedding(
        self,
        id: str,  # noqa: A002 - the plan's name
        embedding: list[float],
        metadata: dict[str, Any],
    ) -> None:
        """Keep the vector of what has that id. All vectors of a store have one dimension."""

    @abstractmethod
    async def vector_search(
        self,
        embedding: list[float],
        *,
        k: int = 10,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the plan's name
    ) -> list[VectorSearchResult]:
        """The k nearest vectors; `filter`: only those with these values in their metadata."""

    @abstractmethod
    async def save_fact(self, fact: Fact) -> None:
        """Keep a fact."""

    @abstractmethod
    async def get_facts_by_session(self, session_id: str) -> list[Fact]:
        """The facts of a session, by time, then id."""


Table: TypeAlias = Literal["turns", "episodes", "facts"]
TABLES: Final[tuple[Table, ...]] = ("turns", "episodes", "facts")


class StoredRow(NamedTuple):
    """A turn, an episode or a fact as a store has it. `at`: microseconds since 1970, UTC.

    `body` is the value as JSON, keys sorted; the others are for finding it. `status` is "" but for
    episodes.
    """

    id: str
    session: str
    episode: str
    at: int
    status: str
    body: str


class StoredVector(NamedTuple):
    """A vector as a store has it: float32, little endian, and metadata as JSON, keys sorted."""

    id: str
    vector: bytes
    metadata: str


class RowBackend(StorageBackend):
    """A store over six primitives, which raise whatever they raise: see `_failed`."""

    def __init__(self) -> None:
        self._open = False
        self._dimension = 0  # until a vector is known

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'open' if self._open else 'closed'})"

    # --- what a store implements ---

    @abstractmethod
    async def _start(self) -> None:
        """Connect and make tables."""

    @abstractmethod
    async def _stop(self) -> None:
        """Disconnect."""

    @abstractmethod
    async def _put(self, table: Table, row: StoredRow, over: str | None) -> str | None:
        """Store a row where none has its id, and return None; else return the body that is there.

        With `over` a row with that body is replaced, and None returned. One step: of two that put
        the same id at once, one finds the other's.
        """

    @abstractmethod
    async def _get(self, table: Table, id_: str) -> str | None:
        """The body of the row with that id."""

    @abstractmethod
    async def _list(
        self, table: Table, column: Literal["session", "episode"], value: str, status: str | None
    ) -> list[StoredRow]:
        """The rows with that value, in any order; `status`: only those of it."""

    @abstractmethod
    async def _put_vector(self, row: StoredVector) -> StoredVector | None:
        """Store a vector where none has its id, and return None; else return the one there."""

    @abstractmethod
    async def _vectors(
        self, vector: bytes, k: int, wanted: Mapping[str, Any]
    ) -> Iterable[StoredVector]:
        """Vectors among which the k nearest that are wanted are: all of them, or fewer.

        They are ranked here, so that every store gives the same answer.
        """

    @abstractmethod
    def _failed(self, error: Exception) -> str | None:
        """What to say of an error of the store's own; None for one that is not the store's."""

    @property
    def is_open(self) -> bool:
        """Whether it was initialized, and not closed since."""
        return self._open

    # --- the contract ---

    async def initialize(self) -> None:
        if not self._open:
            await self._tried(self._start())
            self._open = True

    async def close(self) -> None:
        if self._open:
            self._open = False
            await self._tried(self._stop())

    async def save_turn(self, turn: Turn) -> None:
        self._ready()
        _check(turn, Turn)
        at = _micros(turn.created_at)
        row = StoredRow(turn.id, turn.session_id, turn.episode_id, at, "", _body(turn))
        await self._put_once("turns", row)

    async def get_turn(self, turn_id: str) -> Turn | None:
        self._ready()
        body = await self._tried(self._get("turns", _text(turn_id, "turn_id")))
        return None if body is None else Turn.from_dict(json.loads(body))

    async def get_turns_by_episode(self, episode_id: str) -> list[Turn]:
        self._ready()
        _text(episode_id, "episode_id")
        rows = await self._tried(self._list("turns", "episode", episode_id, None))
        return [Turn.from_dict(json.loads(one.body)) for one in sorted(rows, key=_by_time)]

    async def save_episode(self, episode: Episode) -> None:
        self._ready()
        _check(episode, Episode)
        row = StoredRow(
            episode.id,
            episode.session_id,
            episode.id,
            _micros(episode.started_at),
            str(EpisodeStatus(episode.status)),
            _body(episode),
        )
        there = await self._tried(self._put("episodes", row, None))
        while there is not None and there != row.body:
            known = Episode.from_dict(json.loads(there))
            if known.status == EpisodeStatus.CLOSED or known.session_id != episode.session_id:
                raise PlaneError(f"{self._name}: {_taken('episode', episode.id)}")
            there = await self._tried(self._put("episodes", row, there))

    async def get_episode(self, episode_id: str) -> Episode | None:
        self._ready()
        body = await self._tried(self._get("episodes", _text(episode_id, "episode_id")))
        return None if body is None else Episode.from_dict(json.loads(body))

    async def get_episodes(
        self, session_id: str, *, limit: int = LIMIT, status: EpisodeStatus | str | None = None
    ) -> list[Episode]:
        self._ready()
        _text(session_id, "session_id")
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise InputError(f"expected 1 or more, found {quoted_value(limit)}", where="limit")
        wanted = None if status is None else str(_status(status))
        rows = await self._tried(self._list("episodes", "session", session_id, wanted))
        rows = sorted(rows, key=_by_time, reverse=True)[:limit]
        return [Episode.from_dict(json.loads(one.body)) for one in rows]

    async def save_embedding(
        self,
        id: str,  # noqa: A002 - the plan's name
        embedding: list[float],
        metadata: dict[str, Any],
    ) -> None:
        self._ready()
        _text(id, "id")
        if not isinstance(metadata, dict):
            raise InputError(
                f"expected a mapping, found {quoted_value(metadata)}", where="metadata"
            )
        row = StoredVector(id, await self._vector(embedding), _json(metadata, "metadata"))
        there = await self._tried(self._put_vector(row))
        if there is not None and there != row:
            raise PlaneError(f"{self._name}: {_taken('vector', id)}")

    async def vector_search(
        self,
        embedding: list[float],
        *,
        k: int = 10,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the plan's name
    ) -> list[VectorSearchResult]:
        self._ready()
        vector = await self._vector(embedding)
        wanted = filter or {}
        if k < 1:
            return []
        rows = list(await self._tried(self._vectors(vector, k, wanted)))
        if wanted:
            rows = [row for row in rows if holds(json.loads(row.metadata), wanted)]
        if not rows:
            return []
        scores = cosine_scores(vector, [row.vector for row in rows])
        best = nsmallest(k, range(len(rows)), key=lambda at: (-scores[at], rows[at].id))
        return [
            VectorSearchResult(
                id=rows[at].id, score=scores[at], metadata=json.loads(rows[at].metadata)
            )
            for at in best
        ]

    async def save_fact(self, fact: Fact) -> None:
        self._ready()
        _check(fact, Fact)
        at = _micros(fact.created_at)
        row = StoredRow(fact.id, fact.session_id, fact.episode_id, at, "", _body(fact))
        await self._put_once("facts", row)

    async def get_facts_by_session(self, session_id: str) -> list[Fact]:
        self._ready()
        _text(session_id, "session_id")
        rows = await self._tried(self._list("facts", "session", session_id, None))
        return [Fact.from_dict(json.loads(one.body)) for one in sorted(rows, key=_by_time)]

    # --- the same of all ---

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _ready(self) -> None:
        if not self._open:
            raise PlaneError(f"{self._name}: not open; await `initialize()` first")

    async def _put_once(self, table: Table, row: StoredRow) -> None:
        there = await self._tried(self._put(table, row, None))
        if there is not None and there != row.body:
            raise PlaneError(f"{self._name}: {_taken(table.removesuffix('s'), row.id)}")

    async def _tried(self, work: Any) -> Any:
        try:
            return await work
        except Exception as error:
            said = self._failed(error)
            if said is None:
                raise
            raise PlaneError(f"{self._name}: {said}") from error

    async def _vector(self, given: Sequence[float]) -> bytes:
        """The numbers as bytes; their dimension is that of the vectors there are."""
        vector = vector_bytes(given)
        dimension = len(vector) // 4
        if not self._dimension:
            self._dimension = await self._tried(self._known_dimension())
        if self._dimension and dimension != self._dimension:
            raise PlaneError(
                f"{self._name}: expected a vector of {self._dimension} numbers, found {dimension}"
            )
        return vector

    async def _known_dimension(self) -> int:
        """The dimension of the vectors that are kept; 0 where there is none."""
        for one in await self._vectors(b"", 1, {}):
            return len(one.vector) // 4
        return 0


def vector_bytes(given: Sequence[float]) -> bytes:
    """The numbers as float32, little endian. Raises InputError for what is no vector."""
    try:
        numbers = np.asarray(given, "<f4")
    except (TypeError, ValueError):
        numbers = np.zeros(0, "<f4")
    if numbers.ndim != 1 or not len(numbers) or not np.isfinite(numbers).all():
        raise InputError("expected a list of finite numbers", where="embedding")
    return numbers.tobytes()


def cosine_scores(vector: bytes, rows: Sequence[bytes]) -> list[float]:
    """The cosine of a vector with each row, to six decimals; 0 where one of them is all zeros."""
    wanted = np.frombuffer(vector, "<f4").astype(np.float64)
    matrix = np.frombuffer(b"".join(rows), "<f4").astype(np.float64).reshape(len(rows), -1)
    # Sums along a row do not depend on how many rows there are, as those of BLAS may.
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix)) * math.sqrt(float(wanted @ wanted))
    dots = np.einsum("ij,j->i", matrix, wanted)
    found = np.divide(dots, lengths, out=np.zeros(len(rows)), where=lengths > 0)
    return [one + 0.0 for one in np.round(found, _DECIMALS).tolist()]  # no zero has a sign


def holds(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether metadata have every given key at its value; true and 1 are two values."""
    return all(
        name in metadata
        and metadata[name] == value
        and isinstance(metadata[name], bool) == isinstance(value, bool)
        for name, value in wanted.items()
    )


def _by_time(row: StoredRow) -> tuple[int, str]:
    return row.at, row.id


def _micros(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise InputError("expected a time with its zone, found one without")
    return (moment - _EPOCH) // _MICROSECOND


def _body(value: Turn | Episode | Fact) -> str:
    return _json(value.to_dict(), "metadata")


def _json(value: object, where: str) -> str:
    try:
        text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
        text.encode()  # a lone surrogate is no text that could be stored
    except (TypeError, ValueError) as error:
        raise InputError(
            f"expected values of JSON, found another one ({error})", where=where
        ) from None
    return text


def _check(value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise InputError(f"expected a {kind.__name__}, found {type(value).__name__}")
    _text(value.id, "id")  # type: ignore[attr-defined]


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise InputError(f"expected a text, found {quoted_value(value)}", where=where)
    return value


def _status(given: EpisodeStatus | str) -> EpisodeStatus:
    try:
        return EpisodeStatus(given)
    except ValueError:
        raise InputError(
            f"expected open or closed, found {quoted_value(given)}", where="status"
        ) from None


def _taken(what: str, id_: str) -> str:
    return f"another {what} has the id {quoted_value(id_)}; nothing was saved"


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


Made = TypeVar("Made")

_FILE: Final = "index/embeddings.jsonl"
_LIMIT_MAX: Final = 10_000


class _Vectors(InMemoryBackend):
    """Vectors in memory and, one a line, in a file; a torn last line is none."""

    def __init__(self, home: str, *, keeps: bool) -> None:
        super().__init__()
        self._home, self._path, self._keeps = home, f"{home}/{_FILE}", keeps

    async def _start(self) -> None:
        if not self._keeps:
            return
        data = b""
        with suppress(FileNotFoundError):
            data = nofollow.read_bytes(self._path, home=self._home)
        for line in data[: data.rfind(b"\n") + 1].splitlines():
            with suppress(ValueError, KeyError, TypeError):
                said = json.loads(line)
                row = StoredVector(said["id"], b64decode(said["vector"]), said["metadata"])
                self._kept[row.id] = row

    async def _put_vector(self, row: StoredVector) -> StoredVector | None:
        there = await super()._put_vector(row)
        if there is None and self._keeps:
            said = row._asdict() | {"vector": b64encode(row.vector).decode()}
            line = f"\n{json.dumps(said)}\n".encode()  # behind what a crash may have torn
            await asyncio.to_thread(self._append, line)
        return there

    def _append(self, line: bytes) -> None:
        nofollow.make_folder(os.path.dirname(self._path), self._home)  # noqa: PTH120 - a string
        fd = nofollow.open_file(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, home=self._home)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)


class PlaneBackend(StorageBackend):
    """An open plane as a store; it stays the caller's.

    Ids of episodes are those of its fold under `rules`; None: those of its plane.yaml.
    """

    def __init__(self, plane: Plane, *, rules: EpisodeRules | None = None) -> None:
        self.plane, self._episodes = plane, PlaneEpisodes(plane.context, rules)
        context = plane.context
        self._near = _Vectors(context.home.folder, keeps=context.keeps)

    @property
    def is_open(self) -> bool:
        return self._near.is_open

    async def initialize(self) -> None:
        await self._call(self.plane.context.check_open)
        await self._near.initialize()

    async def close(self) -> None:
        await self._near.close()

    async def _call(self, call: Callable[[], Made]) -> Made:
        return await asyncio.to_thread(call)

    def _ready(self) -> None:
        if not self.is_open:
            raise PlaneError("PlaneBackend: not open; await `initialize()` first")

    async def save_turn(self, turn: Turn) -> None:
        self._ready()
        await self._recorded(turn_row(turn))

    async def _recorded(self, row: dict[str, Any]) -> None:
        try:
            await self._call(lambda: self.plane.record(**row))
        except ConflictError as error:
            raise PlaneError(f"PlaneBackend: {error}") from error

    async def get_turn(self, turn_id: str) -> Turn | None:
        self._ready()
        return await self._call(lambda: self._turn(turn_id))

    def _turn(self, turn_id: str) -> Turn | None:
        event = self._event(turn_id)
        if event is None or event.kind not in TURNS or event.session is None:
            return None
        for episode in self._episodes.list(event.session, limit=_LIMIT_MAX):
            if turn_id in episode.turn_ids:
                return self._whole(event, episode.id)
        return None  # forgotten

    def _event(self, id_: str) -> Event | None:
        try:
            return self.plane.event(id_)
        except NotFoundError:
            return None

    def _whole(self, event: Event, episode: str) -> Turn:
        return turn_of(event._replace(text=self.plane.text(event)), episode)

    async def get_turns_by_episode(self, episode_id: str) -> list[Turn]:
        self._ready()
        return await self._call(lambda: self._turns(episode_id))

    def _turns(self, episode_id: str) -> list[Turn]:
        episode = self._episode(episode_id)
        events = [self._event(id_) for id_ in ([] if episode is None else episode.turn_ids)]
        turns = [self._whole(event, episode_id) for event in events if event is not None]
        return sorted(turns, key=lambda one: (one.created_at, one.id))

    async def save_episode(self, episode: Episode) -> None:
        """Check that the log has this episode; close it where it is open there and closed here."""
        self._ready()
        await self._call(lambda: self._save_episode(episode))

    def _save_episode(self, episode: Episode) -> None:
        known = self._episode(episode.id)
        if known is None or known.session_id != episode.session_id:
            raise PlaneError(f"PlaneBackend: the log has no episode {episode.id!r:.80}")
        if episode.status == EpisodeStatus.CLOSED and known.status == EpisodeStatus.OPEN:
            self._episodes.close(episode.session_id, episode.close_reason or "manual")

    async def get_episode(self, episode_id: str) -> Episode | None:
        self._ready()
        return await self._call(lambda: self._episode(episode_id))

    def _episode(self, id_: str) -> Episode | None:
        try:
            return self._episodes.get(id_)
        except EpisodeNotFoundError:
            return None

    async def get_episodes(
        self, session_id: str, *, limit: int = LIMIT, status: EpisodeStatus | str | None = None
    ) -> list[Episode]:
        self._ready()
        wanted = None if status is None else str(status)
        found = await self._call(
            lambda: self._episodes.list(session_id, limit=limit, status=wanted)
        )
        return found[::-1]

    async def save_embedding(
        self,
        id: str,  # noqa: A002 - the plan's name
        embedding: list[float],
        metadata: dict[str, Any],
    ) -> None:
        await self._near.save_embedding(id, embedding, metadata)

    async def vector_search(
        self,
        embedding: list[float],
        *,
        k: int = 10,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the plan's name
    ) -> list[VectorSearchResult]:
        return await self._near.vector_search(embedding, k=k, filter=filter)

    async def save_fact(self, fact: Fact) -> None:
        self._ready()
        await self._recorded(fact_row(fact))

    async def get_facts_by_session(self, session_id: str) -> list[Fact]:
        self._ready()
        found = await self._call(lambda: list(self.plane.events(kind="fact", session=session_id)))
        facts = [fact_of(event) for event in found]
        return sorted(facts, key=lambda one: (one.created_at, one.id))


def turn_row(turn: Turn) -> dict[str, Any]:
    """A turn as a row of a plane."""
    row: dict[str, Any] = {
        "id": turn.id,
        "kind": "tool_result" if turn.role == Role.TOOL else "message",
        "role": str(turn.role),
        "text": turn.content,
        "session": turn.session_id,
        "markers": list(turn.markers),
        "ts": turn.created_at,
    }
    if turn.actor_id is not None:
        row["actor"] = turn.actor_id
    if turn.metadata:
        row["data"] = {"metadata": turn.metadata}
    return row


def fact_row(fact: Fact) -> dict[str, Any]:
    """A fact as a row of a plane."""
    data: dict[str, Any] = {"episode": fact.episode_id, "confidence": fact.confidence}
    if fact.metadata:
        data["metadata"] = fact.metadata
    return {
        "id": fact.id,
        "kind": "fact",
        "text": fact.content,
        "session": fact.session_id,
        "refs": list(fact.source_turn_ids),
        "ts": fact.created_at,
        "data": data,
    }


def fact_of(event: Event) -> Fact:
    """The fact that an event states."""
    data = event.data
    confidence = data.get("confidence")
    metadata = data.get("metadata")
    return Fact(
        id=event.id,
        session_id=event.session or "",
        episode_id=str(data.get("episode") or ""),
        content=event.text,
        source_turn_ids=event.refs,
        confidence=float(confidence) if isinstance(confidence, int | float) else 1.0,
        created_at=time_of(event.ts),
        metadata=metadata if isinstance(metadata, dict) else {},
    )
