"""`ACMS`: one agent's session over a plane, asynchronous, in the words of the ACMS plan.

A session records turns and recalls what they are needed for. It is a face on the plane: a turn is
an event, an episode a fold of events, a recall `plane.recall`, so that the command line, MCP and
`memplane.open` see the same. No call blocks the event loop.

`ACMSConfig` says how a session divides, marks and recalls, and checks itself. What it says of
episodes and recall is policy: `policies` gives the text that would stand in
plane.yaml and scoring.yaml, and the session goes by the records that are built from it.

Where its rows lie in a store, a plane in memory answers and the store is the truth. The plane is
filled from the store when the session begins, and holds that session alone. A turn goes to the
store first, redacted and with its place; when the store has it, it is appended here. So a process
that is killed in between finds the turn when it begins again, once, and a turn that the store
refused is nowhere.

Seqs are kept: `Turn.seq` is the place in the plane's log, and where rows left a place free (an
episode that was closed by hand, facts) an event of no meaning takes it. So ids of episodes, which
name the seq of their first turn, are the same after a restart. Under other rules of episodes they
may not be: so no turn is stored before the store has the episode that it names.

**Reflection**: facts that a model makes of closed episodes, in the background (`Reflecting`). What
is to be done follows from the log: a closed episode without an event of kind `episode` that
says `reflected`, or `failed` three times. So a crash loses nothing and repeats nothing that was
stored, and a budget of calls holds over restarts. The model is given what the channel `agent` may
see: nothing of high or secret sensitivity. A fact names the turns that say it (`refs`), has the
highest sensitivity of them, and goes where they go (`data.derived`). Whatever fails is noted, and
costs neither a turn nor a recall.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, Literal, Self, cast

from memplane.acms import runner as runners
from memplane.acms.runner import to_the_end
from memplane.acms.storage.backend import (
    CachedBackend,
    PlaneBackend,
    StorageBackend,
    fact_of,
    fact_row,
    turn_row,
)
from memplane.context.calls import check_text
from memplane.errors import (
    ConfigurationError,
    ConflictError,
    EpisodeNotFoundError,
    HomeError,
    InputError,
    LockError,
    MemplaneError,
    PlaneError,
    ProviderError,
    SessionNotFoundError,
)
from memplane.event import MARKERS, SENSITIVITIES, decode
from memplane.intake import is_marker
from memplane.intake.redact import quoted_value
from memplane.lazy import NamedTuple
from memplane.observe import hashed
from memplane.plane import Plane
from memplane.policy.records import (
    CHAT,
    RECALL_PROFILES,
    EpisodeRules,
    RecallProfiles,
    build_episode_rules,
    build_recall_profiles,
)
from memplane.policy.regex_safety import pattern_faults
from memplane.providers import bridged, fact_id
from memplane.tokens import WholeCounter
from memplane.wiring import make_counter
from memplane.work.episodes import (
    ContextAssembly,
    ContextItem,
    Episode,
    EpisodeStatus,
    Fact,
    PlaneEpisodes,
    RecallQuery,
    RecallSettings,
    Role,
    SessionStats,
    Turn,
    episode_name,
    episodes_of,
    recall_plane,
    session_stats,
    turn_of,
)

if TYPE_CHECKING:
    from memplane.acms.runner import PlaneRunner
    from memplane.context.context import PlaneContext
    from memplane.event import Event, MarkerType
    from memplane.log.log import MemoryLog
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
class ReflectionConfig:
    """How a session's closed episodes become facts, where the session has a reflector.

    `calls_per_session` counts all that were ever made, also before a restart. `max_input_tokens`:
    of the turns of one call, the newest first. Episodes of fewer than `min_turns` are passed over.
    Raises ConfigurationError that names every mistake, a line each.
    """

    enabled: bool = True
    calls_per_session: int = 10
    max_input_tokens: int = 4_000
    max_facts: int = 10
    min_turns: int = 2

    def __post_init__(self) -> None:
        faults = []
        if not isinstance(self.enabled, bool):
            faults.append(
                f"reflection.enabled: expected true or false, found {quoted_value(self.enabled)}"
            )
        for name, least, most in (
            ("calls_per_session", 0, 1_000_000),
            ("max_input_tokens", 100, 1_000_000),
            ("max_facts", 1, 100),
            ("min_turns", 1, 1_000),
        ):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not whole or not least <= value <= most:
                expected = f"expected a whole number from {least} to {most}"
                faults.append(f"reflection.{name}: {expected}, found {quoted_value(value)}")
        if faults:
            raise ConfigurationError("\n".join(faults))


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


ATTEMPTS_MAX: Final = 3
_CHANNEL: Final = "agent"  # what a model may read
_EPISODES: Final = 100  # the newest of a session; older ones are left
_FACT_CHARACTERS: Final = 2_000
_SECONDS: Final = 120.0  # that one call may take, where the reflector does not say it
_TRIES: Final = 5  # to write before somebody else does
_ID_CHARACTERS: Final = 120


class ReflectionJob(NamedTuple):
    """An episode that a model is to read: its turns as the model may see them, and their events."""

    episode: Episode
    turns: tuple[Turn, ...]
    events: tuple[Event, ...]
    attempt: int


class ReflectionsDone:
    """What the log says was tried of a session, read once and then as far as it has grown.

    `calls` in all, `failed` of each episode, `reflected` those that are done with; `settled`: with
    so many closed episodes nothing was left to do.
    """

    def __init__(self, session: str) -> None:
        self._session, self._seq = session, 0
        self.failed: Counter[str] = Counter()
        self.reflected: set[str] = set()
        self.settled = 0

    @property
    def calls(self) -> int:
        return self.failed.total() + len(self.reflected)

    def follow(self, context: PlaneContext, first_seq: int) -> None:
        """Read what was added, the first time from `first_seq`. Hold the plane's lock."""
        after = max(self._seq, first_seq - 1)
        for line in context.log.read(after):
            event = line.event
            self._seq = event.seq
            if event.kind == "episode" and event.session == self._session:
                status, episode = event.data.get("status"), str(event.data.get("episode"))
                if status == "reflected":
                    self.reflected.add(episode)
                elif status == "failed":
                    self.failed[episode] += 1


def check_reflector(given: object) -> AsyncReflector:
    """Return the reflector; raise ConfigurationError for anything without `reflect`."""
    if not callable(getattr(given, "reflect", None)):
        raise ConfigurationError(
            f"reflector: expected one with `async reflect(episode, turns)`, found "
            f"{type(given).__name__}"
        )
    return given  # type: ignore[return-value]


class Reflecting:
    """The reflection of one session. `soon` after each turn; `finish` waits for all there is."""

    def __init__(
        self,
        reflector: AsyncReflector,
        session: str,
        rules: EpisodeRules,
        config: ReflectionConfig,
        stored: Callable[[Sequence[Fact]], Awaitable[None]] | None = None,
    ) -> None:
        self._reflector, self._session, self._told = reflector, session, stored
        self._rules, self._config = rules, config
        self._done = ReflectionsDone(session)
        self._task: asyncio.Task[int] | None = None
        self._again = False
        said = getattr(reflector, "name", None)
        self.by: str = said if isinstance(said, str) and said else type(reflector).__name__

    def soon(self, runner: PlaneRunner) -> None:
        """Reflect in the background, if it is not done already."""
        if not self._config.enabled:
            return
        if self._task is not None and not self._task.done():
            self._again = True
            return
        self._task = asyncio.create_task(self._run(runner))
        self._task.add_done_callback(_looked_at)

    async def finish(self, runner: PlaneRunner) -> int:
        """Reflect on all closed episodes that are left; return the facts that were stored.

        Raises what the plane does; a reflector that fails is noted in the log, not raised.
        """
        if self._task is not None and not self._task.done():
            await asyncio.shield(self._task)
        return await self._run(runner) if self._config.enabled else 0

    async def stop(self) -> None:
        """Give up the call that is under way; its episode stays to be done."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self, runner: PlaneRunner) -> int:
        stored = 0
        while True:
            self._again = False
            job = await runner.reading(self._next, runner)
            if job is None:
                if self._again:
                    continue
                return stored
            said = {"provider": self.by, "session": hashed(self._session)}
            try:
                with runner.plane.context.span("reflect", said):
                    facts = await self._asked(job)
            except Exception as error:  # noqa: BLE001 - somebody else's code, over a network
                await runner.writing(partial(self._failed, runner, job, error))
                _LOG.warning("session %s: not reflected (%s)", self._session, type(error).__name__)
                return stored  # the next turn tries again
            count = await runner.writing(partial(self._store, runner, job, facts))
            stored += count
            if count and self._told is not None:
                await self._told(await runner.reading(self._made, runner, job))

    async def _asked(self, job: ReflectionJob) -> list[Fact]:
        seconds = getattr(self._reflector, "seconds", None)
        limit = seconds if isinstance(seconds, int | float) else _SECONDS
        async with asyncio.timeout(limit):
            facts = await self._reflector.reflect(job.episode, list(job.turns))
        if not isinstance(facts, Sequence) or not all(isinstance(one, Fact) for one in facts):
            raise ProviderError("expected a list of facts, found another answer", provider=self.by)
        return list(facts)

    def _next(self, runner: PlaneRunner) -> ReflectionJob | None:
        context = runner.plane.context
        return next_job(context, self._session, self._rules, self._config, self._done)

    def _store(self, runner: PlaneRunner, job: ReflectionJob, facts: list[Fact]) -> int:
        rows = fact_rows(job, facts[: self._config.max_facts], self.by)
        state = self._state(job, "reflected")
        return store_reflection(runner.plane.context, job, rows, state, self._done)

    def _made(self, runner: PlaneRunner, job: ReflectionJob) -> list[Fact]:
        """The facts of an episode, as they were stored."""
        found = runner.plane.events(kind="fact", session=self._session)
        return [fact_of(event) for event in found if event.data.get("episode") == job.episode.id]

    def _failed(self, runner: PlaneRunner, job: ReflectionJob, error: Exception) -> None:
        state = self._state(job, "failed") | {"error": type(error).__name__}
        store_reflection(runner.plane.context, job, [], state, self._done)

    def _state(self, job: ReflectionJob, status: str) -> dict[str, Any]:
        return {
            "status": status,
            "episode": job.episode.id,
            "by": self.by[:_ID_CHARACTERS],
            "attempt": job.attempt,
        }


def _looked_at(task: asyncio.Task[int]) -> None:
    """What went wrong in the background is a line of the log, and nobody's error."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _LOG.warning("reflection ended (%s)", type(error).__name__)


def next_job(
    context: PlaneContext,
    session: str,
    rules: EpisodeRules,
    config: ReflectionConfig,
    done: ReflectionsDone,
) -> ReflectionJob | None:
    """The oldest closed episode of a session that is to be read, or None.

    None too where the calls of the session are used up.
    """
    with context.lock:
        folds = context.caught_up(context.watched.policies_or_last())
        known = episodes_of(folds, session, rules)
        closed = 0
        if known is not None:
            closed = known.before + sum(bool(span.reason) for span in known.spans)
        if closed == done.settled:
            return None
        episodes = PlaneEpisodes(context, rules).list(
            session, limit=_EPISODES, status="closed", channel=_CHANNEL
        )
        episodes = [one for one in episodes if len(one.turn_ids) >= config.min_turns]
        if episodes:
            done.follow(context, known.first_seq if known is not None else 1)
        for episode in episodes:
            failed = done.failed[episode.id]
            left = episode.id not in done.reflected and failed < ATTEMPTS_MAX
            if left and done.calls < config.calls_per_session:
                return _job(context, episode, config.max_input_tokens, failed + 1)
        done.settled = closed
    return None


def _job(context: PlaneContext, episode: Episode, tokens_max: int, attempt: int) -> ReflectionJob:
    reader = context.reader(_CHANNEL)
    events: list[Event] = []
    room = tokens_max
    for id_ in reversed(episode.turn_ids):
        line = context.log.find(id_)
        if line is None:
            continue
        room -= line.event.tokens or 0
        if room < 0 and events:
            break
        events.append(line.event)
    events.reverse()
    turns = tuple(turn_of(reader.emit(event), episode.id) for event in events)
    return ReflectionJob(episode, turns, tuple(events), attempt)


def fact_rows(job: ReflectionJob, facts: Sequence[Fact], by: str) -> list[dict[str, Any]]:
    """The rows of facts, without those that name no turn of the episode or have no text."""
    known = {event.id: event for event in job.events}
    rows = {}
    for fact in facts:
        sources = [known[id_] for id_ in dict.fromkeys(fact.source_turn_ids) if id_ in known]
        if not sources or not fact.content.strip() or len(fact.content) > _FACT_CHARACTERS:
            continue
        row: dict[str, Any] = {
            "id": fact_id(job.episode.id, fact.content),
            "kind": "fact",
            "text": fact.content,
            "session": job.episode.session_id,
            "ns": sources[-1].ns,
            "actor": f"reflector:{by}"[:_ID_CHARACTERS],
            "refs": [event.id for event in sources],
            "sensitivity": max((one.sensitivity for one in sources), key=SENSITIVITIES.index),
            "data": {
                "derived": True,
                "episode": job.episode.id,
                "confidence": round(float(fact.confidence), 3),
            },
        }
        prompt = fact.metadata.get("prompt")
        if isinstance(prompt, str):
            row["data"]["prompt"] = prompt[:64]
        rows[row["id"]] = row
    return list(rows.values())


def store_reflection(
    context: PlaneContext,
    job: ReflectionJob,
    rows: list[dict[str, Any]],
    state: dict[str, Any],
    done: ReflectionsDone,
) -> int:
    """Write facts and what was done, all or none; 0 where somebody else has done it meanwhile.

    A turn that went meanwhile takes its facts with it. Raises what a record does.
    """
    with context.lock:
        for _ in range(_TRIES):
            context.take_in_waiting()
            head = context.log.head().seq
            done.follow(context, job.events[0].seq)
            if job.episode.id in done.reflected:
                return 0
            left = [row for row in rows if not _any_gone(context, row["refs"])]
            mark = {"kind": "episode", "session": job.episode.session_id, "data": state}
            drafts = [
                *(context.drafting()(row, "") for row in left),
                context.drafting(internal=True)(dict(context.placed(mark)), ""),
            ]
            try:
                context.append(drafts, expected_seq=head)
            except ConflictError:
                continue
            return len(left)
    raise MemplaneError("others write all the time; the episode stays to be reflected on")


def _any_gone(context: PlaneContext, ids: Sequence[str]) -> bool:
    folds = context.caught_up(context.watched.policies_or_last())
    for id_ in ids:
        line = context.log.find(id_)
        if line is None or folds.memories.archived(line.event) is not None:
            return True
    return False
