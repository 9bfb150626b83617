"""Reflection: facts that a model makes of closed episodes, in the background.

What is to be done follows from the log: a closed episode without an event of kind `episode` that
says `reflected`, or `failed` three times. So a crash loses nothing and repeats nothing that was
stored, and a budget of calls holds over restarts. The model is given what the channel `agent` may
see: nothing of high or secret sensitivity. A fact names the turns that say it (`refs`), has the
highest sensitivity of them, and goes where they go (`data.derived`). Whatever fails is noted, and
costs neither a turn nor a recall.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from memplane.acms.storage.plane import fact_of
from memplane.errors import ConfigurationError, ConflictError, MemplaneError, ProviderError
from memplane.event import SENSITIVITIES
from memplane.intake.redact import quoted_value
from memplane.lazy import NamedTuple
from memplane.observe import hashed
from memplane.providers import fact_id
from memplane.work.episodes import (
    Episode,
    Fact,
    PlaneEpisodes,
    Turn,
    episodes_of,
    turn_of,
)

if TYPE_CHECKING:
    from memplane.acms.runner import PlaneRunner
    from memplane.context.context import PlaneContext
    from memplane.event import Event
    from memplane.policy.scoring import EpisodeRules
    from memplane.providers import AsyncReflector

_LOG: Final = logging.getLogger("memplane.acms")
ATTEMPTS_MAX: Final = 3
_CHANNEL: Final = "agent"  # what a model may read
_EPISODES: Final = 100  # the newest of a session; older ones are left
_FACT_CHARACTERS: Final = 2_000
_SECONDS: Final = 120.0  # that one call may take, where the reflector does not say it
_TRIES: Final = 5  # to write before somebody else does
_ID_CHARACTERS: Final = 120


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
    """The oldest closed episode of a session that is to be read; None where there is none.

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
    """The rows of facts; one that names no turn of the episode, or says nothing, is none."""
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
