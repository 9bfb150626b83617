"""A session whose rows lie in a store: a plane in memory answers, the store is the truth.

The plane is filled from the store when the session begins, and holds that session alone; recall,
markers, episodes and budgets are the plane's own. A turn goes to the store first, redacted and with
its place; when the store has it, it is appended here. So a process that is killed in between finds
the turn when it begins again, once, and a turn that the store refused is nowhere.

Seqs are kept: `Turn.seq` is the place in the plane's log, and where rows left a place free (an
episode that was closed by hand, facts) an event of no meaning takes it. So ids of episodes, which
name the seq of their first turn, are the same after a restart. Under other rules of episodes they
may not be: so no turn is stored before the store has the episode that it names.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from memplane.acms.runner import to_the_end
from memplane.acms.storage.backend import StorageBackend
from memplane.acms.storage.cached import CachedBackend
from memplane.acms.storage.plane import fact_row, turn_row
from memplane.errors import ConflictError, InputError, MemplaneError, PlaneError
from memplane.event import decode
from memplane.intake.redact import quoted_value
from memplane.lazy import NamedTuple
from memplane.work.episodes import (
    Episode,
    EpisodeStatus,
    Fact,
    PlaneEpisodes,
    Turn,
    episode_name,
    episodes_of,
    turn_of,
)

if TYPE_CHECKING:
    from memplane.acms.runner import PlaneRunner
    from memplane.log.memory import MemoryLog
    from memplane.policy.scoring import EpisodeRules
    from memplane.providers import AsyncEmbedder

_LOG: Final = logging.getLogger("memplane.acms")
_EPISODES_MAX: Final = 10_000  # of a session are read from a store
_BATCH: Final = 1_000  # turns that are put into the plane at once
_FREE_MAX: Final = 10_000  # places in a row that are kept free
_VECTORS: Final = 512  # of the texts embedded last


class _Prepared(NamedTuple):
    """A turn as it will stand in the log, and the row that gives it.

    `opens`: its episode, where the store has none of that name.
    """

    turn: Turn
    row: dict[str, Any]
    opens: Episode | None


class RememberingEmbedder:
    """The embedder of a session, which remembers the vectors that it gave last, by their text."""

    def __init__(self, inner: AsyncEmbedder) -> None:
        self.inner = inner
        said = getattr(inner, "name", None)
        self.name: str = said if isinstance(said, str) else type(inner).__name__
        self.vectors: OrderedDict[str, list[float]] = OrderedDict()
        seconds = getattr(inner, "seconds", None)
        if seconds is not None:
            self.seconds = seconds

    @property
    def dimension(self) -> int:
        return self.inner.dimension

    async def embed(self, texts: list[str]) -> list[list[float]]:
        """As the embedder's."""
        found = await self.inner.embed(texts)
        self.vectors.update(zip(texts, found, strict=False))
        while len(self.vectors) > _VECTORS:
            self.vectors.popitem(last=False)
        return found


class StoredSession:
    """One session between a store and the plane in memory that answers for it."""

    def __init__(
        self,
        store: StorageBackend,
        session: str,
        rules: EpisodeRules,
        embedder: RememberingEmbedder | None,
    ) -> None:
        self.store, self.embedder = store, embedder
        self._session, self._rules = session, rules
        self._known: set[str] = set()  # episodes that the store has
        self._closed: set[str] = set()  # those that it has as closed
        self._order = asyncio.Lock()  # a turn's place is known before the one behind it is made
        self._doubtful: _Prepared | None = None  # the store failed, and may have it all the same

    async def fill(self, runner: PlaneRunner) -> None:
        """Put what the store has of the session into the plane. Raises what the store does."""
        episodes = await self.store.get_episodes(self._session, limit=_EPISODES_MAX)
        self._check(episodes, Episode)
        turns: list[tuple[Turn, Episode]] = []
        self._known.update(one.id for one in episodes)
        for episode in reversed(episodes):
            found = await self.store.get_turns_by_episode(episode.id)
            self._check(found, Turn)
            turns += [(turn, episode) for turn in found]
            if episode.status == EpisodeStatus.CLOSED:
                self._closed.add(episode.id)
        facts = await self.store.get_facts_by_session(self._session)
        turns.sort(key=lambda one: (one[0].seq, one[0].created_at, one[0].id))
        self._check(facts, Fact)
        try:
            await runner.writing(partial(self._put, runner, turns, facts))
        except (InputError, ConflictError) as error:
            raise PlaneError(f"{self._name}: a row that cannot be recorded: {error}") from error

    @property
    def _name(self) -> str:
        return type(self.store).__name__

    def _check(self, rows: object, kind: type[Turn | Episode | Fact]) -> None:
        """Raise StorageError for rows of another kind, and for those of another session."""
        if not isinstance(rows, Sequence):
            raise PlaneError(f"{self._name}: expected a list, found {type(rows).__name__}")
        for row in rows:
            if not isinstance(row, kind):
                raise PlaneError(
                    f"{self._name}: expected a {kind.__name__}, found {type(row).__name__}"
                )
            if row.session_id != self._session:
                raise PlaneError(
                    f"{self._name}: asked for rows of {quoted_value(self._session)}, it gave one "
                    f"of {quoted_value(row.session_id)}"
                )

    def _put(
        self, runner: PlaneRunner, turns: Sequence[tuple[Turn, Episode]], facts: Sequence[Fact]
    ) -> None:
        plane, batch = runner.plane, list[dict[str, Any]]()
        for at, (turn, episode) in enumerate(turns):
            behind = turns[at + 1] if at + 1 < len(turns) else None
            last = behind is None or behind[1].id != episode.id
            batch.append({**turn_row(turn), "seq": turn.seq})
            if last or len(batch) >= _BATCH:
                self._append(runner, batch)
                batch = []
            if last and episode.status == EpisodeStatus.CLOSED:
                self._close(runner, episode, None if behind is None else behind[0])
        for fact in facts:
            plane.record(**fact_row(fact))
        # What has facts was reflected on; what gave none is asked about once more.
        for name in dict.fromkeys(fact.episode_id for fact in facts):
            data = {"status": "reflected", "episode": name, "by": "store", "attempt": 1}
            plane.context.write({"kind": "episode", "session": self._session, "data": data})

    def _append(self, runner: PlaneRunner, rows: Sequence[dict[str, Any]]) -> None:
        """Append turns, each at its seq as far as that is free."""
        context = runner.plane.context
        for row in rows:
            draft = context.drafting()({name: row[name] for name in row if name != "seq"}, "")
            log = cast("MemoryLog", context.log)
            free = row["seq"] - log.seq_of_next(draft)
            if 0 < free <= _FREE_MAX:
                nothing = {"kind": "episode", "session": self._session, "data": {"status": "kept"}}
                for _ in range(free):
                    context.write(dict(nothing))
            context.append([draft])

    def _close(self, runner: PlaneRunner, episode: Episode, behind: Turn | None) -> None:
        """Close an episode that was closed by hand: the rules have not, nor will the next turn."""
        context = runner.plane.context
        with context.lock:
            folds = context.caught_up(context.watched.policies_or_last())
            known = episodes_of(folds, self._session, self._rules)
            if known is None or known.open is None:
                return
            _, projector = folds.episodes(self._rules)
            if behind is None or not projector.lapsed(known, str(turn_row(behind)["ts"])):
                self._episodes(runner).close(self._session, episode.close_reason or "manual")

    def _episodes(self, runner: PlaneRunner) -> PlaneEpisodes:
        return PlaneEpisodes(runner.plane.context, self._rules)

    async def ingest(self, runner: PlaneRunner, row: dict[str, Any]) -> str:
        """Store one turn; return its id. Raises what a record does, and what the store does.

        Who is cancelled while others write stores nothing. Once the turn has begun it goes to its
        end all the same: the store and the plane have it both, or neither.
        """
        await self._order.acquire()
        return await to_the_end(self._ingested(runner, row))

    async def _ingested(self, runner: PlaneRunner, row: dict[str, Any]) -> str:
        try:
            await self._clear_doubt(runner)
            if "id" in row:
                row = await self._as_stored(row)
            made = await runner.writing(partial(self._prepared, runner, row))
            if isinstance(made, str):
                return made
            if made.opens is not None:
                await self.store.save_episode(made.opens)
                self._known.add(made.opens.id)
            self._doubtful = made
            await self.store.save_turn(made.turn)
            await self._record(runner, made)
            await self.episodes_closed(runner)
            return made.turn.id
        finally:
            self._order.release()

    async def _record(self, runner: PlaneRunner, made: _Prepared) -> None:
        await runner.writing(partial(runner.plane.record, **made.row))
        self._doubtful = None

    async def _clear_doubt(self, runner: PlaneRunner) -> None:
        """Append the turn whose save failed last, if the store has it: the failure came behind.

        Else the next turn would get its place, and the plane would not have it until a restart.
        """
        made = self._doubtful
        if made is None:
            return
        there = await self.store.get_turn(made.turn.id)
        if there is not None and _placed(there) == _placed(made.turn):
            await self._record(runner, made)
        self._doubtful = None

    async def settled(self, seconds: float) -> bool:
        """Wait until no turn is on its way, so long; return whether none is."""
        try:
            async with asyncio.timeout(seconds), self._order:
                return True
        except TimeoutError:
            return False

    async def _as_stored(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row at the time at which the store has it: of a call whose answer was lost."""
        there = await self.store.get_turn(row["id"])
        return row if there is None else {**row, "ts": there.created_at}

    def _prepared(self, runner: PlaneRunner, row: dict[str, Any]) -> _Prepared | str:
        """The turn that a row will be, checked and redacted; its id where it is there already."""
        context = runner.plane.context
        with context.lock:
            row = {**row, "ts": row.get("ts") or context.clock()}
            draft = context.drafting()(row, "")
            row = {**row, "id": draft.id}
            if context.log.find(draft.id) is not None:
                return context.append([draft])[0].id  # the same, or a ConflictError
            folds = context.caught_up(context.watched.policies_or_last())
            _, projector = folds.episodes(self._rules)
            known = episodes_of(folds, self._session, self._rules)
            seq = cast("MemoryLog", context.log).seq_of_next(draft)
            fields = context.loads(b"{" + draft.rest + b"}")
            event = decode({**fields, "seq": seq, "id": draft.id, "ts": draft.ts or ""})
            event = event._replace(text=draft.text)
            opened = None if known is None else known.open
            if opened is None or (known is not None and projector.lapsed(known, event.ts)):
                opened, name = None, f"{self._session}/{seq}"
            else:
                name = episode_name(self._session, opened)
            turn, opens = turn_of(event, name), None
            if name not in self._known and opened is not None:
                opens = self._episodes(runner).get(name)
            elif name not in self._known:
                opens = _opened_by(turn)
        return _Prepared(turn, row, opens)

    async def episodes_closed(self, runner: PlaneRunner) -> None:
        """Tell the store of episodes that have closed since; what fails is told with the next."""
        try:
            for episode in await runner.reading(self._newly_closed, runner):
                await self.store.save_episode(episode)
                self._closed.add(episode.id)
        except MemplaneError as error:
            _LOG.warning(
                "session %s: an episode's end is not stored yet (%s)",
                self._session,
                type(error).__name__,
            )

    def _newly_closed(self, runner: PlaneRunner) -> list[Episode]:
        newest = self._episodes(runner).list(self._session, status="closed")
        return [one for one in newest if one.id not in self._closed]

    async def embedded(self, turn: str, content: str) -> None:
        """Store the vector that the embedder gave of a turn; raises what the store does."""
        if self.embedder is None:
            return
        vector = self.embedder.vectors.get(content)
        if vector is None:  # it was embedded in parts
            vector = (await self.embedder.inner.embed([content]))[0]
        await self.store.save_embedding(turn, list(vector), {"session_id": self._session})

    async def reflected(self, facts: Sequence[Fact]) -> None:
        """Store facts that were made; what fails is made again after a restart."""
        try:
            for fact in facts:
                await self.store.save_fact(fact)
        except MemplaneError as error:
            _LOG.warning("session %s: facts not stored (%s)", self._session, type(error).__name__)


def _opened_by(turn: Turn) -> Episode:
    """The episode that begins with a turn."""
    return Episode(
        id=turn.episode_id,
        session_id=turn.session_id,
        status=EpisodeStatus.OPEN,
        turn_ids=(turn.id,),
        started_at=turn.created_at,
        token_count=turn.token_count,
    )


def _placed(turn: Turn) -> tuple[str, int, str, str]:
    """Which turn it is, and where."""
    return turn.session_id, turn.seq, str(turn.role), turn.content


class _Use:
    """A store in use: by how many sessions, and whether the last one closes it."""

    def __init__(self, store: StorageBackend) -> None:
        self.store, self.users = store, 0
        self.closes = not getattr(store, "is_open", False)
        self.order = asyncio.Lock()  # it is opened or closed by one at a time


_USED_LOCK: Final = threading.Lock()
_USED: Final[dict[int, _Use]] = {}  # by the store's `id`: its own equality means something else


def _below(store: StorageBackend) -> StorageBackend:
    """The store itself, below caches: sessions may each have a cache of their own over it."""
    while isinstance(store, CachedBackend):
        store = store.inner
    return store


def _left(use: _Use) -> None:
    with _USED_LOCK:
        use.users -= 1
        if not use.users:
            _USED.pop(id(_below(use.store)), None)


async def begin_use(store: StorageBackend) -> None:
    """Open a store for one more session; one that its owner has opened stays the owner's."""
    with _USED_LOCK:
        key = id(_below(store))
        use = _USED.get(key)
        if use is None:
            use = _USED[key] = _Use(store)
        use.users += 1
    try:
        async with use.order:
            await store.initialize()
    except BaseException:
        _left(use)
        raise


async def end_use(store: StorageBackend) -> None:
    """Close a store that was opened here, when its last session has ended."""
    use = _USED.get(id(_below(store)))
    if use is None:
        return
    try:
        async with use.order:
            if use.users == 1 and use.closes:
                await store.close()
    finally:
        _left(use)
