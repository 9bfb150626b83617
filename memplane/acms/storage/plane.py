"""`PlaneBackend`: the twelve methods of a store over a plane, for programs that speak to stores.

`ACMS` itself needs no store where it has a plane. Turns are events, episodes the fold of the log
under the plane's rules: `save_episode` checks and closes, it stores nothing. Vectors given here lie
in the plane's index folder, beside those that its own embedder makes.
"""

from __future__ import annotations

import asyncio
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from memplane import nofollow
from memplane.acms.storage.backend import (
    LIMIT,
    InMemoryBackend,
    StorageBackend,
    StoredVector,
    VectorSearchResult,
)
from memplane.errors import ConflictError, EpisodeNotFoundError, NotFoundError, PlaneError
from memplane.projections.episodes import TURNS
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
