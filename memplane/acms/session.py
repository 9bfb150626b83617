"""`ACMS`: one agent's session over a plane, asynchronous, in the words of the ACMS plan.

A session records turns and recalls what they are needed for. It is a face on the plane: a turn is
an event, an episode a fold of events, a recall `plane.recall`, so that the command line, MCP and
`memplane.open` see the same. No call blocks the event loop.

`ACMSConfig` says how a session divides, marks and recalls, and checks itself. What it says of
episodes and recall is policy: `policies` gives the text that would stand in
plane.yaml and scoring.yaml, and the session goes by the records that are built from it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, Literal, Self, cast

from memplane.acms import runner as runners
from memplane.acms.reflection import Reflecting, ReflectionConfig, check_reflector
from memplane.acms.storage.backend import StorageBackend
from memplane.acms.storage.plane import PlaneBackend
from memplane.acms.stored import RememberingEmbedder, StoredSession, begin_use, end_use
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
from memplane.event import MARKERS
from memplane.intake.check import is_marker
from memplane.intake.redact import quoted_value
from memplane.plane import Plane
from memplane.policy.regex_safety import pattern_faults
from memplane.policy.scoring import (
    CHAT,
    RECALL_PROFILES,
    EpisodeRules,
    RecallProfiles,
    build_episode_rules,
    build_recall_profiles,
)
from memplane.providers.bridge import bridged
from memplane.tokens import WholeCounter
from memplane.wiring import make_counter
from memplane.work.episodes import (
    ContextAssembly,
    ContextItem,
    PlaneEpisodes,
    Role,
    SessionStats,
    session_stats,
)
from memplane.work.recalling import RecallQuery, RecallSettings, recall_plane

if TYPE_CHECKING:
    from memplane.event import MarkerType
    from memplane.ports import Embedder
    from memplane.providers import AsyncEmbedder, AsyncReflector
    from memplane.tokens import CountsTokens


ANY_CUSTOM: Final = "custom:*"
MARKER_WEIGHTS: Final = {
    "constraint": 0.4,
    "decision": 0.3,
    "goal": 0.3,
    "failure": 0.2,
    ANY_CUSTOM: 0.2,
}
_WEIGHT_MAX: Final = 10
_CARRIED_MAX: Final = 20
_GAP_MAX: Final = 31_536_000
_TURNS_MAX: Final = 100_000
_SCOPES: Final = ("session", "plane")
_DURABILITIES: Final = ("sync", "os")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeBoundaryConfig:
    """When an episode closes; None for a rule switches it off."""

    max_turns: int | None = CHAT.max_turns
    max_time_gap_seconds: int | None = CHAT.gap_seconds
    close_on_tool_result: bool = CHAT.close_on_tool_result
    close_on_patterns: Sequence[str] = CHAT.close_on_patterns


@dataclass(frozen=True, slots=True, kw_only=True)
class ACMSConfig:
    """The settings of a session. Raises ConfigurationError that names every mistake, a line each.

    `marker_weights` by marker, `custom:*` for any of one's own. `marker_patterns`: regular
    expressions by marker, looked for at the beginning of a turn's lines in place of memplane's own
    words. `current_episode_budget_pct`: the most that the current episode takes of a recall;
    `carry_last_turns`: so many turns of the episode before count as the current one's (0 is the
    plan's, 4 keeps the thread right after a boundary). `scope`: `session` for what this session
    said alone, `plane` for all that the plane remembers. `agent`: who reads and answers, for all
    calls. `reflection`: of closed episodes, where the session has a reflector. `durability`: what
    an acknowledged turn survives, for a plane that is opened by path: `sync` a power cut, `os` the
    end of the process.
    """

    boundaries: EpisodeBoundaryConfig = field(default_factory=EpisodeBoundaryConfig)
    marker_weights: Mapping[str, float] = field(default_factory=lambda: dict(MARKER_WEIGHTS))
    auto_detect_markers: bool = True
    marker_patterns: Mapping[str, Sequence[str]] | None = None
    current_episode_budget_pct: float = 0.4
    carry_last_turns: int = 0
    profile: str = "acms-v2"
    scope: str = "session"
    agent: str | None = None
    embed_on_ingest: bool = True
    reflection: ReflectionConfig = field(default_factory=ReflectionConfig)
    durability: Literal["sync", "os"] = "sync"
    close_timeout_seconds: float = 5.0

    def __post_init__(self) -> None:
        found = [*_boundary_faults(self.boundaries), *_faults(self)]
        if found:
            raise ConfigurationError("\n".join(found))

    def policies(self) -> dict[str, bytes]:
        """What the settings are as policies: texts of plane.yaml and scoring.yaml, by their name.

        JSON, which is YAML too. `Plane.under` recalls by them what this session does.
        """
        episodes, profiles = self._documents()
        return {
            "policies/plane.yaml": _bytes({"version": 1, "episodes": episodes}),
            "policies/scoring.yaml": _bytes({"version": 1, "profiles": profiles}),
        }

    def rules(self) -> EpisodeRules:
        """The rules of episodes, as the policy's record."""
        return build_episode_rules(self._documents()[0])

    def profiles(self) -> RecallProfiles:
        """The profiles of recall, as the policy's records."""
        return build_recall_profiles(self._documents()[1])

    def _documents(self) -> tuple[dict[str, Any], dict[str, Any]]:
        ends = self.boundaries
        weights = {
            "custom" if name == ANY_CUSTOM else name: weight
            for name, weight in {**dict.fromkeys(MARKER_WEIGHTS, 0), **self.marker_weights}.items()
        }
        episodes = {
            "profile": "none",
            "max_turns": ends.max_turns or 0,
            "gap_seconds": ends.max_time_gap_seconds or 0,
            "close_on_tool_result": ends.close_on_tool_result,
            "close_on_patterns": list(ends.close_on_patterns),
        }
        profiles = {
            "acms-v2": {
                "marker_weights": weights,
                "current_episode": self.current_episode_budget_pct,
                "carry_last_turns": self.carry_last_turns,
            },
            "acms-v1": {
                "relevance": 0.6,
                "recency": 0.2,
                "recency_half_life_hours": 24,
                "coherence": 0.2,
            },
        }
        return episodes, profiles


class TiktokenCounter:
    """Tokens as OpenAI's models have them; nothing is downloaded. Needs the extra `tokens`.

    `encoding`: o200k_base or cl100k_base. Raises ConfigurationError for another one,
    MissingExtraError without the extra.
    """

    def __init__(self, encoding: str = "o200k_base") -> None:
        name = encoding.removesuffix("_base")
        if name not in ("o200k", "cl100k") or name == encoding:
            raise ConfigurationError(
                f"encoding: expected o200k_base or cl100k_base, found {quoted_value(encoding)}"
            )
        self.name = f"tiktoken:{encoding}"
        self.count: Callable[[str], int] = make_counter(name, 1_000_000).count


def compiled(patterns: Mapping[str, Sequence[str]]) -> dict[str, list[re.Pattern[str]]]:
    """The patterns of markers, for the beginning of each line, in any case."""
    return {
        marker: [re.compile(rf"^[ \t]*(?:{one})", re.IGNORECASE | re.MULTILINE) for one in some]
        for marker, some in patterns.items()
    }


def _bytes(document: dict[str, Any]) -> bytes:
    return f"{json.dumps(document, indent=2, ensure_ascii=False)}\n".encode()


def _boundary_faults(given: object) -> Iterator[str]:
    if not isinstance(given, EpisodeBoundaryConfig):
        yield f"boundaries: expected an EpisodeBoundaryConfig, found {quoted_value(given)}"
        return
    for name, most in (("max_turns", _TURNS_MAX), ("max_time_gap_seconds", _GAP_MAX)):
        value = getattr(given, name)
        if value is not None:
            yield from _whole(f"boundaries.{name}", value, 1, most)
    yield from _flag("boundaries.close_on_tool_result", given.close_on_tool_result)
    yield from _patterns("boundaries.close_on_patterns", given.close_on_patterns)


def _faults(config: ACMSConfig) -> Iterator[str]:
    yield from _weights(config.marker_weights)
    yield from _flag("auto_detect_markers", config.auto_detect_markers)
    if config.marker_patterns is not None:
        yield from _marker_patterns(config.marker_patterns)
    yield from _number("current_episode_budget_pct", config.current_episode_budget_pct, 0, 1)
    yield from _whole("carry_last_turns", config.carry_last_turns, 0, _CARRIED_MAX)
    yield from _word("profile", config.profile, RECALL_PROFILES)
    yield from _word("scope", config.scope, _SCOPES)
    if config.agent is not None and not (isinstance(config.agent, str) and config.agent):
        yield f"agent: expected a name, found {quoted_value(config.agent)}"
    yield from _flag("embed_on_ingest", config.embed_on_ingest)
    if not isinstance(config.reflection, ReflectionConfig):
        yield f"reflection: expected a ReflectionConfig, found {quoted_value(config.reflection)}"
    yield from _word("durability", config.durability, _DURABILITIES)
    yield from _number("close_timeout_seconds", config.close_timeout_seconds, 0, 3_600)


def _weights(given: object) -> Iterator[str]:
    if not isinstance(given, Mapping):
        yield f"marker_weights: expected a mapping, found {quoted_value(given)}"
        return
    for name, weight in given.items():
        if name not in MARKER_WEIGHTS:
            known = ", ".join(MARKER_WEIGHTS)
            yield f"marker_weights: expected one of {known}, found {quoted_value(name)}"
        else:
            yield from _number(f"marker_weights.{name}", weight, 0, _WEIGHT_MAX)


def _marker_patterns(given: object) -> Iterator[str]:
    if not isinstance(given, Mapping):
        yield f"marker_patterns: expected a mapping, found {quoted_value(given)}"
        return
    for name, patterns in given.items():
        if not is_marker(name):
            known = ", ".join((*MARKERS, "custom:<name>"))
            yield f"marker_patterns: expected one of {known}, found {quoted_value(name)}"
        else:
            yield from _patterns(f"marker_patterns.{name}", patterns)


def _patterns(where: str, given: object) -> Iterator[str]:
    listed = isinstance(given, Sequence) and not isinstance(given, str)
    if not listed or not all(isinstance(one, str) and one for one in given):  # type: ignore[attr-defined]
        yield f"{where}: expected a list of regular expressions, found {quoted_value(given)}"
        return
    for fault in pattern_faults((), list(given)):  # type: ignore[call-overload]
        yield f"{where}[{fault.path[-1]}]: {fault.message}"


def _whole(where: str, value: object, least: int, most: int) -> Iterator[str]:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not least <= value <= most:  # type: ignore[operator]
        said = (
            f"{least} or more"
            if isinstance(value, int) and value < least
            else (f"a whole number from {least} to {most}")
        )
        yield f"{where}: expected {said}, found {quoted_value(value)}"


def _number(where: str, value: object, least: float, most: float) -> Iterator[str]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not least <= value <= most:  # type: ignore[arg-type, operator]
        yield f"{where}: expected a number from {least} to {most}, found {quoted_value(value)}"


def _flag(where: str, value: object) -> Iterator[str]:
    if not isinstance(value, bool):
        yield f"{where}: expected true or false, found {quoted_value(value)}"


def _word(where: str, value: object, known: Sequence[str]) -> Iterator[str]:
    if value not in known:
        yield f"{where}: expected {' or '.join(known)}, found {quoted_value(value)}"


_LOG: Final = logging.getLogger("memplane.acms")


class ACMS:
    """A session: ingest turns, recall what is needed, close episodes.

    `storage` is an open plane, which stays the caller's; a folder, which becomes a plane where it
    is none and is closed with the session; or a store (`memplane.acms.storage`), which has the rows
    and is opened and closed here unless its owner has opened it. `embedder` None: by words alone.
    Nothing is opened before the first call. One instance is one session; tasks may share it.
    """

    def __init__(
        self,
        session_id: str,
        storage: Plane | StorageBackend | str | os.PathLike[str],
        embedder: AsyncEmbedder | Embedder | None = None,
        *,
        reflector: AsyncReflector | None = None,
        token_counter: CountsTokens | None = None,
        config: ACMSConfig | None = None,
    ) -> None:
        """Check what was given; raises ConfigurationError, and InputError for the session's id."""
        if not check_text(session_id, "session_id").strip():
            raise InputError("expected a name, found an empty text", where="session_id")
        if isinstance(storage, PlaneBackend):
            storage = storage.plane
        if not isinstance(storage, Plane | StorageBackend | str | os.PathLike):
            raise ConfigurationError(
                f"storage: expected a plane, a folder or a store, found {type(storage).__name__}"
            )
        if not isinstance(storage, Plane | StorageBackend):
            place = os.fspath(storage)
            if not place.strip() or "\0" in place:
                raise ConfigurationError(f"storage: expected a folder, found {quoted_value(place)}")
        if config is not None and not isinstance(config, ACMSConfig):
            raise ConfigurationError(
                f"config: expected an ACMSConfig, found {type(config).__name__}"
            )
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
        self._stored: StoredSession | None = None
        if isinstance(storage, StorageBackend):
            asked = embedder is not None and iscoroutinefunction(getattr(embedder, "embed", None))
            remembering = RememberingEmbedder(cast("AsyncEmbedder", embedder)) if asked else None
            self._stored = StoredSession(storage, session_id, self._rules, remembering)
        self._reflecting: Reflecting | None = None
        if reflector is not None:
            self._reflecting = Reflecting(
                check_reflector(reflector),
                session_id,
                self._rules,
                self.config.reflection,
                None if self._stored is None else self._stored.reflected,
            )

    def __repr__(self) -> str:
        where = self._storage
        if isinstance(where, StorageBackend):
            return f"ACMS({self.session_id!r}, {where!r})"
        folder = where.home if isinstance(where, Plane) else where
        return f"ACMS({self.session_id!r}, {os.fspath(folder)!r})"

    @classmethod
    async def resume(
        cls,
        session_id: str,
        storage: Plane | StorageBackend | str | os.PathLike[str],
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
        if self._stored is None:
            id_ = (await runner.commit.write(row)).id
        else:
            id_ = await self._stored.ingest(runner, row)
        if self._embeds(runner):
            await self._embed(runner, id_)
        if self._reflecting is not None:
            self._reflecting.soon(runner)
        return id_

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

        closed = await runner.writing(close)
        if self._stored is not None:
            await self._stored.episodes_closed(runner)
        if self._reflecting is not None:
            self._reflecting.soon(runner)
        return closed

    async def reflect(self) -> int:
        """Let the reflector read all closed episodes that it has not read; the facts stored.

        This happens by itself in the background after each turn. 0 without a reflector. What fails
        is noted in the log, and tried again with the next turn, three times in all.
        """
        runner = await self._started()
        return 0 if self._reflecting is None else await self._reflecting.finish(runner)

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
        if self._reflecting is not None:
            await self._reflecting.stop()
        seconds, stored = self.config.close_timeout_seconds, self._stored
        settled = stored is None or await stored.settled(seconds)
        if not await runners.release_settled(runner, seconds) or not settled:
            _LOG.warning("session %s: closed while a write was under way", self.session_id)
        if stored is not None:
            await end_use(stored.store)

    async def _started(self) -> runners.PlaneRunner:
        if self._closed:
            raise HomeError("this session was closed; make another one to go on with it")
        if self._runner is not None:
            return self._runner
        async with self._opening:
            if self._runner is None:
                self._runner = await self._opened()
            return self._runner

    async def _opened(self) -> runners.PlaneRunner:
        stored = self._stored
        given = self._embedder
        if stored is not None and stored.embedder is not None:
            given = stored.embedder
        embedder = None if given is None else bridged(given, asyncio.get_running_loop())
        if stored is None:
            place = cast("Plane | str | os.PathLike[str]", self._storage)
            opening = runners.PlaneOpening(place, self.config.durability, embedder, create=True)
            return await runners.held(opening)
        await begin_use(stored.store)
        try:
            runner = await runners.held_in_memory(embedder)
            try:
                await stored.fill(runner)
            except BaseException:
                await runners.release_settled(runner, 0)
                raise
        except BaseException:
            await end_use(stored.store)
            raise
        return runner

    def _content(self, plane: Plane, turn: str) -> str:
        return plane.text(plane.event(turn))

    def _embeds(self, runner: runners.PlaneRunner) -> bool:
        return self.config.embed_on_ingest and runner.plane.context.embedder is not None

    async def _embed(self, runner: runners.PlaneRunner, turn: str) -> None:
        """Give new texts their vectors; where that fails the turn is stored all the same."""
        try:
            await runner.embedding.caught_up()
            if self._stored is not None:
                content = await runner.reading(self._content, runner.plane, turn)
                await self._stored.embedded(turn, content)
        except LockError:
            pass  # somebody else embeds, and goes on to the end
        except MemplaneError as error:
            self._embed_failures += 1
            _LOG.warning("session %s: not embedded (%s)", self.session_id, type(error).__name__)
