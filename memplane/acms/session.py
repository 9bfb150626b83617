"""`ACMS`: one agent's session over a plane, asynchronous, in the words of the ACMS plan.

A session records turns and recalls what they are needed for. It is a face on the plane: a turn is
an event, an episode a fold of events, a recall `plane.recall`, so that the command line, MCP and
`memplane.open` see the same. No call blocks the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any, Final, Self

from memplane.acms import runner as runners
from memplane.acms.config import ACMSConfig, compiled
from memplane.context.calls import check_text
from memplane.errors import (
    ConfigurationError,
    EpisodeNotFoundError,
    HomeError,
    InputError,
    LockError,
    MemplaneError,
    SessionNotFoundError,
)
from memplane.intake.redact import quoted_value
from memplane.plane import Plane
from memplane.providers.bridge import bridged
from memplane.tokens.plugged import WholeCounter
from memplane.work.episodes import PlaneEpisodes, session_stats
from memplane.work.recalling import RecallQuery, RecallSettings, recall_plane
from memplane.work.turns import ContextAssembly, ContextItem, Role, SessionStats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memplane.event import MarkerType
    from memplane.ports import Embedder
    from memplane.providers import AsyncEmbedder
    from memplane.tokens.plugged import CountsTokens

_LOG: Final = logging.getLogger("memplane.acms")


class ACMS:
    """A session: ingest turns, recall what is needed, close episodes.

    `storage` is an open plane, which stays the caller's, or a folder, which becomes a plane where
    it is none and is closed with the session. `embedder` None: by words alone. Nothing is opened
    before the first call. One instance is one session; tasks may share it.
    """

    def __init__(
        self,
        session_id: str,
        storage: Plane | str | os.PathLike[str],
        embedder: AsyncEmbedder | Embedder | None = None,
        *,
        reflector: None = None,
        token_counter: CountsTokens | None = None,
        config: ACMSConfig | None = None,
    ) -> None:
        """Check what was given; raises ConfigurationError, and InputError for the session's id."""
        if not check_text(session_id, "session_id").strip():
            raise InputError("expected a name, found an empty text", where="session_id")
        if not isinstance(storage, Plane | str | os.PathLike):
            raise ConfigurationError(
                f"storage: expected a plane or a folder, found {type(storage).__name__}"
            )
        if not isinstance(storage, Plane):
            place = os.fspath(storage)
            if not place.strip() or "\0" in place:
                raise ConfigurationError(f"storage: expected a folder, found {quoted_value(place)}")
        if config is not None and not isinstance(config, ACMSConfig):
            raise ConfigurationError(
                f"config: expected an ACMSConfig, found {type(config).__name__}"
            )
        if reflector is not None:
            raise ConfigurationError("reflector: this version of memplane makes no facts by models")
        if embedder is not None and isinstance(storage, Plane):
            raise ConfigurationError(
                "embedder: expected none beside an open plane; give it to `memplane.open`"
            )
        self.session_id, self.config = session_id, config or ACMSConfig()
        self._storage, self._embedder = storage, embedder
        self._counter = None if token_counter is None else WholeCounter(token_counter)
        self._rules, self._profiles = self.config.rules(), self.config.profiles()
        self._patterns = compiled(self.config.marker_patterns or {})
        self._runner: runners.PlaneRunner | None = None
        self._opening = asyncio.Lock()
        self._closed = False
        self._embed_failures = 0

    def __repr__(self) -> str:
        where = self._storage.home if isinstance(self._storage, Plane) else self._storage
        return f"ACMS({self.session_id!r}, {os.fspath(where)!r})"

    @classmethod
    async def resume(
        cls,
        session_id: str,
        storage: Plane | str | os.PathLike[str],
        embedder: AsyncEmbedder | Embedder | None = None,
        *,
        token_counter: CountsTokens | None = None,
        config: ACMSConfig | None = None,
    ) -> Self:
        """Go on with a session. Raises SessionNotFoundError where the log has no turn of it."""
        made = cls(session_id, storage, embedder, token_counter=token_counter, config=config)
        try:
            stats = await made.get_session_stats()
        except BaseException:
            await made.close()
            raise
        if not stats.turn_count:
            await made.close()
            raise SessionNotFoundError(f"no session {quoted_value(session_id)}")
        return made

    async def __aenter__(self) -> Self:
        await self._started()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    @property
    def plane(self) -> Plane:
        """The plane, once it is open; raises HomeError before."""
        if self._runner is None:
            raise HomeError("this session is not open: await a call of it first")
        return self._runner.plane

    async def ingest(
        self,
        role: Role | str,
        content: str,
        *,
        actor_id: str | None = None,
        markers: Sequence[MarkerType | str] | None = None,
        metadata: dict[str, Any] | None = None,
        turn_id: str | None = None,
    ) -> str:
        """Store one turn and return its id: from then on it survives, and can be recalled.

        `markers` None: those that its text has are found; a list, also an empty one, stands for
        itself. `turn_id` makes a repeat after a cancelled call store nothing anew. Raises
        InputError (nothing stored), ConflictError for an id of another turn, PlaneError.
        """
        row = self._row(role, content, actor_id, markers, metadata, turn_id)
        runner = await self._started()
        receipt = await runner.commit.write(row)
        if self._embeds(runner):
            await self._embed(runner)
        return receipt.id

    def _row(
        self,
        role: Role | str,
        content: str,
        actor_id: str | None,
        markers: Sequence[MarkerType | str] | None,
        metadata: dict[str, Any] | None,
        turn_id: str | None,
    ) -> dict[str, Any]:
        try:
            said_by = Role(role)
        except ValueError:
            known = ", ".join(Role)
            raise InputError(
                f"expected one of {known}, found {quoted_value(role)}", where="role"
            ) from None
        if not check_text(content, "content"):
            raise InputError("expected a text, found an empty one", where="content")
        row: dict[str, Any] = {
            "kind": "tool_result" if said_by == Role.TOOL else "message",
            "role": str(said_by),
            "text": content,
            "session": self.session_id,
        }
        actor = actor_id
        if actor is None and said_by == Role.ASSISTANT:
            actor = self.config.agent
        if actor is not None:
            row["actor"] = actor
        if turn_id is not None:
            row["id"] = turn_id
        marked = self._markers(content, markers)
        if marked is not None:
            row["markers"] = marked
        if metadata is not None:
            if not isinstance(metadata, dict):
                raise InputError(
                    f"expected a mapping, found {quoted_value(metadata)}", where="metadata"
                )
            row["data"] = {"metadata": metadata}
        return row

    def _markers(self, content: str, given: Sequence[MarkerType | str] | None) -> list[str] | None:
        """The markers of a turn; None leaves it to the plane's own words."""
        if given is not None:
            if isinstance(given, str) or not all(isinstance(one, str) for one in given):
                raise InputError(
                    f"expected a list of markers, found {quoted_value(given)}", where="markers"
                )
            return [str(one) for one in given]
        if not self.config.auto_detect_markers:
            return []
        if self.config.marker_patterns is None:
            return None
        return [
            marker
            for marker, patterns in self._patterns.items()
            if any(one.search(content) for one in patterns)
        ]

    async def recall(
        self,
        query: str,
        *,
        token_budget: int = 4000,
        include_current_episode: bool = True,
        min_relevance: float = 0.0,
    ) -> list[ContextItem]:
        """What is needed for a query, in the order in which it is shown, within the budget.

        See `Plane.recall`. Raises BudgetError for a budget below 1, InputError.
        """
        found = await self.assemble(
            query,
            token_budget=token_budget,
            include_current_episode=include_current_episode,
            min_relevance=min_relevance,
        )
        return list(found.items)

    async def assemble(
        self,
        query: str,
        *,
        token_budget: int = 4000,
        include_current_episode: bool = True,
        min_relevance: float = 0.0,
    ) -> ContextAssembly:
        """`recall` with what was left out, and why; warnings are logged, too."""
        runner = await self._started()
        asked = RecallQuery(
            query,
            self.session_id,
            token_budget,
            self.config.profile,
            min_relevance,
            include_current_episode,
            self.config.scope,
            agent=self.config.agent,
        )
        found = await runner.reading(self._recall, runner.plane, asked)
        for warning in found.warnings:
            _LOG.warning("session %s: %s", self.session_id, warning)
        return found

    def _recall(self, plane: Plane, asked: RecallQuery) -> ContextAssembly:
        counter = self._counter or plane.context.counter(plane.upkeep.policies)
        used = RecallSettings(self._rules, self._profiles, counter)
        return recall_plane(plane.context, asked, used)

    async def close_episode(self, reason: str = "manual") -> str:
        """Close the open episode; return its id. The next turn opens another one.

        Raises EpisodeNotFoundError where none is open.
        """
        runner = await self._started()

        def close() -> str:
            episodes = PlaneEpisodes(runner.plane.context, self._rules)
            try:
                return episodes.close(self.session_id, reason)
            except SessionNotFoundError as error:
                raise EpisodeNotFoundError(
                    f"no episode of {quoted_value(self.session_id)} is open"
                ) from error

        return await runner.writing(close)

    async def get_session_stats(self) -> SessionStats:
        """Figures of the session, counted from its events."""
        runner = await self._started()
        return await runner.reading(
            session_stats, runner.plane.context, self.session_id, self._rules, self.config.agent
        )

    @property
    def embed_failures(self) -> int:
        """How often the embedder failed here; what it missed is made up for by the next turn."""
        return self._embed_failures

    async def close(self) -> None:
        """Wait for what is being written, and let go of the plane. Again: nothing.

        A plane that was opened here is closed. Waits at most `close_timeout_seconds` for others'
        writes; what was acknowledged is safe in any case.
        """
        self._closed = True
        async with self._opening:
            runner, self._runner = self._runner, None
        if runner is None:
            return
        if not await runners.let_go(runner, self.config.close_timeout_seconds):
            _LOG.warning("session %s: closed while a write was under way", self.session_id)

    async def _started(self) -> runners.PlaneRunner:
        if self._closed:
            raise HomeError("this session was closed; make another one to go on with it")
        if self._runner is not None:
            return self._runner
        async with self._opening:
            if self._runner is None:
                embedder = None
                if self._embedder is not None:
                    embedder = bridged(self._embedder, asyncio.get_running_loop())
                opening = runners.PlaneOpening(
                    self._storage,
                    self.config.durability,
                    embedder,
                    create=True,
                )
                self._runner = await runners.held(opening)
            return self._runner

    def _embeds(self, runner: runners.PlaneRunner) -> bool:
        return self.config.embed_on_ingest and runner.plane.context.embedder is not None

    async def _embed(self, runner: runners.PlaneRunner) -> None:
        """Give new texts their vectors; where that fails the turn is stored all the same."""
        try:
            await runner.embedding.caught_up()
        except LockError:
            pass  # somebody else embeds, and goes on to the end
        except MemplaneError as error:
            self._embed_failures += 1
            _LOG.warning("session %s: not embedded (%s)", self.session_id, type(error).__name__)
