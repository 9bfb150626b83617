"""`plane.work.sessions`: start, checkpoint, end, list sessions; what one reader may see of them.

Figures, and the session's own name, are shown to a reader who may see one of its events; for the
plane's owner an event in an agent's namespace counts, as it does when it is read by its id. Every
other name carries the events that it is from, and so does the summary: names from `/agent/*` are
shown to that agent alone.

What was read to end a session holds for what is written: the write is made at the log head that was
read, or nothing is stored and everything is read again. So no summary quotes an event that was
forgotten before it.

The summary of a session by a model: sentences that turns say, each with refs to them.

The model is asked once, by the interface of reflectors, about the session's turns as one episode:
the newest within `TOKENS_MAX`, as the channel `agent` may see them. What comes back is believed as
a reflector's facts are: a sentence that names no turn of the session is dropped. Whatever fails
raises ProviderError; the caller then has the extract. Its text is quoted data to the model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from inspect import iscoroutinefunction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from memplane.clock import ulid
from memplane.context.calls import Receipt
from memplane.context.context import NO_END, OfPlane
from memplane.context.folds import items_of_event
from memplane.errors import (
    ConfigurationError,
    ConflictError,
    InputError,
    MemplaneError,
    NotFoundError,
    ProviderError,
)
from memplane.event import GLOBAL, PROJECTS, REFLECTOR, REFS_MAX, SENSITIVITIES, Event, at_least
from memplane.harness import remembered_lines, typed_once
from memplane.intake import with_permitted_actor
from memplane.intake.redact import masked, quoted_value, unexpected
from memplane.lazy import NamedTuple, Protocol
from memplane.observe import hashed, note
from memplane.projections.digests import parts_of
from memplane.projections.sessions import SessionFacts, session_facts
from memplane.recall.session_digest import (
    EVENTS_MIN,
    SessionDigest,
    extract,
    is_readable,
    one_space,
    session_digest,
)
from memplane.recall.suppress import Scope, kinds_of_views
from memplane.work.episodes import Episode, EpisodeStatus, Fact, Role, Turn, time_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from memplane.context.context import PlaneContext
    from memplane.context.folds import Folds
    from memplane.policy import Policies
    from memplane.ports import TokenCounter
    from memplane.projections.digests import SessionParts
    from memplane.projections.sessions import Named, Origin


TOKENS_MAX: Final = 4_000  # of the turns that a model is given
_SENTENCE_CHARACTERS: Final = 2_000
_SENTENCES: Final = 20
_HIDDEN: Final = frozenset(("high", "secret"))


class SessionReflector(Protocol):
    """What reads turns and gives back sentences that they say: a reflector that blocks.

    Of an asynchronous one `memplane.providers.blocking` makes one.
    """

    def reflect(self, episode: Episode, turns: Sequence[Turn]) -> Sequence[Fact]: ...


class SummarySentence(NamedTuple):
    """One sentence, and the ids of the turns that say it."""

    text: str
    sources: tuple[str, ...]


class ModelSummary(NamedTuple):
    """What a model made of a session: `by` its name, `prompt` the SHA-256 of what it was asked."""

    sentences: tuple[SummarySentence, ...]
    by: str
    prompt: str

    def held(self, sources: Sequence[Event], counter: TokenCounter, tokens_max: int) -> str:
        """The sentences all of whose turns are among `sources`, as many as fit, a line each."""
        lines = [one.text for one in self.kept(sources)]
        while lines and counter.count("\n".join(lines)) > tokens_max:
            lines.pop()
        return "\n".join(lines)

    def kept(self, sources: Sequence[Event]) -> list[SummarySentence]:
        """The sentences all of whose turns are among `sources`."""
        known = {event.id for event in sources}
        return [one for one in self.sentences if known.issuperset(one.sources)]


def check_session_reflector(given: object) -> SessionReflector:
    """Return the reflector; raise ConfigurationError for what is none, or does not block."""
    reflect = getattr(given, "reflect", None)
    if not callable(reflect) or iscoroutinefunction(reflect):
        raise ConfigurationError(
            "reflector: expected one with `reflect(episode, turns)` that blocks "
            f"(memplane.providers.blocking makes one), found {type(given).__name__}"
        )
    return cast("SessionReflector", given)


def reflector_name(reflector: object) -> str:
    """What a reflector calls itself, else its class."""
    named = getattr(reflector, "name", None)
    return named if isinstance(named, str) and named else type(reflector).__name__


def ask_summary(
    reflector: SessionReflector,
    session: str,
    events: Sequence[Event],
    redact: Callable[[str], str],
) -> ModelSummary | None:
    """Ask the model about a session's `readable_turns`; None where it says nothing.

    Raises ProviderError, of which the observer is told. The plane's lock need not be held, and
    should not be.
    """
    by = reflector_name(reflector)
    turns = [_turn(event, session, redact) for event in events]
    episode = Episode(
        id=session,
        session_id=session,
        status=EpisodeStatus.CLOSED,
        turn_ids=tuple(turn.id for turn in turns),
        started_at=turns[0].created_at,
        ended_at=turns[-1].created_at,
        token_count=sum(turn.token_count for turn in turns),
    )
    try:
        facts = _answer(reflector, episode, turns, by)
    except ProviderError:
        note("degraded", {"part": "summary"})
        raise
    known = frozenset(episode.turn_ids)
    said: dict[str, SummarySentence] = {}
    for fact in facts:
        text, ids = " ".join(fact.content.split()), tuple(dict.fromkeys(fact.source_turn_ids))
        if text and len(text) <= _SENTENCE_CHARACTERS and ids and known.issuperset(ids):
            said.setdefault(text, SummarySentence(text, ids))
    prompts = (fact.metadata.get("prompt") for fact in facts)
    prompt = next((one for one in prompts if isinstance(one, str)), "")
    if not said:
        return None
    return ModelSummary(tuple(said.values())[:_SENTENCES], by, prompt[:64])


def readable_turns(sources: Sequence[Event], counter: TokenCounter) -> list[Event]:
    """The newest messages of users and assistants within the tokens, in order."""
    found: list[Event] = []
    room = TOKENS_MAX
    for event in reversed(sources):
        spoken = event.kind == "message" and event.role in ("user", "assistant")
        if not spoken or event.sensitivity in _HIDDEN:
            continue
        room -= counter.count(event.text) if event.tokens is None else event.tokens
        if room < 0 and found:
            break
        found.append(event)
    found.reverse()
    return found


def _turn(event: Event, session: str, redact: Callable[[str], str]) -> Turn:
    return Turn(
        id=event.id,
        session_id=session,
        episode_id=session,
        role=Role(event.role) if event.role in list(Role) else Role.USER,
        content=redact(event.text),
        actor_id=event.actor,
        markers=event.markers,
        created_at=time_of(event.ts),
        token_count=event.tokens or 0,
        seq=event.seq,
    )


def _answer(
    reflector: SessionReflector, episode: Episode, turns: list[Turn], by: str
) -> list[Fact]:
    try:
        found = reflector.reflect(episode, turns)
    except MemplaneError:
        raise
    except Exception as error:
        raise ProviderError(
            f"the reflector {by} failed ({type(error).__name__}: {masked(str(error))[:200]})",
            provider=by,
            retryable=isinstance(error, ConnectionError | TimeoutError),
            cause=error,
        ) from error
    if not isinstance(found, Sequence) or not all(isinstance(one, Fact) for one in found):
        raise ProviderError("expected a list of facts, found another answer", provider=by)
    return list(found)


class SessionVisibility:
    """What one reader may see of sessions, at the plane's clock. Hold the plane's lock.

    Raises InputError for an unknown channel.
    """

    def __init__(
        self,
        context: PlaneContext,
        folds: Folds,
        policies: Policies,
        channel: str,
        agent: str | None,
    ) -> None:
        self._emit = context.reader(channel).emit
        self._redact = context.redact(policies)
        self._counter = context.counter(policies)
        self._log, self._archived = context.log, folds.memories.archived
        as_of = NO_END if context.as_of is None else context.as_of
        self._scope = Scope.of(policies, channel, now=context.clock(), as_of=as_of, agent=agent)
        self._told: dict[int, Event | None] = {}

    @property
    def sessions(self) -> bool:
        """Whether the channel may see events of kind session."""
        return "session" not in self._scope.kinds

    def sees(self, facts: SessionFacts) -> bool:
        """Whether the reader may see at least one event of the session."""
        return self.sessions and any(
            self._passes(origin)
            and (self._scope.owner or self._scope.reaches(origin[2]))
            and not self._scope.elsewhere(origin[2])
            for origin in facts.origins
        )

    def event(self, seq: int) -> Event | None:
        """Return the event, redacted, if it is in force and visible to the reader; else None."""
        event = self._event(seq) if seq else None
        return None if event is None else self._emit(event)

    def name(self, name: str | None, seq: int) -> str | None:
        """Return the name, redacted, if the event that it comes from is visible; else None."""
        told = name is not None and seq and self._event(seq) is not None
        return self._redact(name) if name is not None and told else None

    def names(self, facts: SessionFacts, names: Named) -> tuple[str, ...]:
        """Return the visible ones of a session's names, the last touched first."""
        visible = {
            number
            for origin, number in facts.origins.items()
            if self._passes(origin) and self._scope.reaches(origin[2])
        }
        return tuple(
            self._redact(name)
            for name, places in reversed(names.items())
            if any(
                number in visible and self._event(seq) is not None for number, seq in places.items()
            )
        )

    def digest(self, parts: SessionParts | None, tokens_max: int) -> SessionDigest | None:
        """Return the digest of the quotes that the reader may see; None where there are none."""
        if parts is None:
            return None
        return session_digest(
            parts,
            lambda quote: self._event(quote.seq) is not None,
            counter=self._counter,
            tokens_max=tokens_max,
            redact=self._redact,
        )

    def _passes(self, origin: Origin) -> bool:
        kind, sensitivity, _ = origin
        return kind not in self._scope.kinds and sensitivity not in self._scope.levels

    def _event(self, seq: int) -> Event | None:
        if seq not in self._told:
            line = self._log.line(seq)
            event = None if line is None else line.event
            if event is not None and (
                self._archived(event) is not None
                or self._scope.hides(items_of_event(event, self._counter))
            ):
                event = None
            self._told[seq] = event
        return self._told[seq]


# Sessions start, have checkpoints and end by events; those left open are ended at the next start.
#
# The projection has the sessions and their last events. Listing and showing write nothing.
class Session(NamedTuple):
    """A session as one reader sees it.

    `status`: open, idle (open, and silent for longer than the policy's gap) or ended, for `reason`:
    explicit, importer, gap, abandoned, error. `events` counts by kind. `files` and `tasks` name the
    ones touched last, newest first; `more`: there are others. `partial`: it is older than what was
    counted; `get` gives the whole. Figures are of all its events; agent, reason, files, tasks,
    branch, folder and summary are told where the reader may see an event that they are of. `title`,
    `outcome`, `left` and `digest` are quotes of its events, "" where there are none: see
    `memplane.recall.session_digest`; `list` has them of the newest sessions alone.
    """

    id: str
    agent: str | None
    status: str
    reason: str | None
    first: str
    last: str
    events: dict[str, int]
    prompts: int
    calls: int
    errors: int
    decisions: int
    tokens: int
    files: tuple[str, ...]
    tasks: tuple[str, ...]
    more: bool
    branch: str | None
    cwd: str | None
    partial: bool
    summary: Event | None = None
    title: str = ""
    outcome: str = ""
    left: str = ""
    digest: str = ""

    def as_json(self) -> dict[str, Any]:
        summary = self.summary
        said = None if summary is None else {"id": summary.id, "text": summary.text}
        return {**self._asdict(), "summary": said}


class Started(NamedTuple):
    """A session that began, and those of the same agent that were left open and ended with it."""

    session: str
    receipt: Receipt
    ended: tuple[Ended, ...]

    def as_json(self) -> dict[str, Any]:
        ended = [one.as_json() for one in self.ended]
        return {"session": self.session, **self.receipt.as_json(), "ended": ended}


class Ended(NamedTuple):
    """The result of ending a session. `already`: it had ended before, so nothing was written.

    `degraded`: why the summary that was asked of a model is an extract.
    """

    session: str
    reason: str | None
    already: bool = False
    summary: Receipt | None = None
    degraded: str | None = None

    def as_json(self) -> dict[str, Any]:
        summary = None if self.summary is None else self.summary.as_json()
        return {**self._asdict(), "summary": summary}


_SUMMED_AT_ONCE: Final = 32
_Found = list[Session]
_DIGEST_TOKENS: Final = 400  # of one session that is shown alone
_Done = list[Ended]


class PlaneSessions(OfPlane):
    """The sessions of an open plane."""

    def __init__(self, context: PlaneContext) -> None:
        self._context = context

    def start(
        self,
        session: str | None = None,
        *,
        agent: str | None = None,
        branch: str | None = None,
        cwd: str | None = None,
        goal: str | None = None,
    ) -> Started:
        """Start a session, or resume one; without an id it gets a new one.

        `goal`: what it is for, in words; it stands in the start event's data.

        Other sessions of the same agent (none is one too) that are open and were silent for longer
        than the policy's gap are ended and summed up. Another agent's is never touched.
        """
        context = self._context
        _texts(session=session, agent=agent, branch=branch, cwd=cwd, goal=goal)
        agent = context.agent_of(agent)
        named = ulid(context.clock()) if session is None else session
        row = session_row(named, "start", "Session started", branch=branch, cwd=cwd, goal=goal)
        row |= {} if agent is None else {"actor": agent}
        context.drafting()(row, "")  # a mistake in what was given ends nothing

        def left(folds: Folds) -> Sequence[SessionFacts]:
            idle = self._idle(folds, policies)
            return [facts for facts in idle if facts.agent == agent and facts.id != named]

        with context.lock:
            policies = context.watched.policies_or_last()
            ended = end_all(context, policies, left, "gap")
            (receipt,) = write(context, [dict(context.placed(row))])
        return Started(named, receipt, tuple(ended))

    def checkpoint(self, session: str, text: str = "") -> Receipt:
        """Record a checkpoint: the head of the session's blocks is chosen again as of here.

        Raises NotFoundError where nothing happened in a session of that name.
        """
        context = self._context
        _texts(session=session, none=False)
        _texts(text=text, none=False)
        with context.lock:
            policies = context.watched.policies_or_last()
            facts = self.facts(session, context.caught_up(policies), policies)
            row = session_row(session, "checkpoint", text or "Checkpoint")
            (receipt,) = write(context, [{**row, **bounds_of(context, facts)}])
        return receipt

    def end(
        self,
        session: str,
        *,
        summary: bool | Literal["model"] = True,
        reason: str = "explicit",
        reflector: object = None,
    ) -> Ended:
        """End a session and record its summary. Ending an ended session writes nothing.

        `summary` `model`: sentences that the `reflector` makes of its turns in one call (see
        `memplane.providers.blocking`); where there is none or it fails, the extract, and
        `Ended.degraded` says why.
        `reason`: explicit, or error where what was done in it failed. Raises NotFoundError where
        nothing happened in a session of that name, ConfigurationError for what is no reflector.
        """
        context = self._context
        _texts(session=session, none=False)
        if summary not in (True, False, "model"):
            raise InputError(
                f"expected true, false or model, found {summary!r:.60}", where="summary"
            )
        if reflector is not None:
            check_session_reflector(reflector)
        if reason not in ("explicit", "error"):
            raise InputError(f"expected explicit or error, found {reason!r:.60}", where="reason")

        def still_open(folds: Folds) -> Sequence[SessionFacts]:
            facts = self.facts(session, folds, policies)
            if facts.origins and all(context.is_elsewhere(ns) for _, _, ns in facts.origins):
                raise NotFoundError(f"no session {quoted_value(session)} in this project")
            return () if facts.ended else (facts,)

        model, degraded = None, None
        policies = context.watched.policies_or_last()
        if summary == "model":
            model, degraded = self._asked(session, reflector, still_open)
        with context.lock:
            policies = context.watched.policies_or_last()
            ended = end_all(
                context, policies, still_open, reason, summary=bool(summary), model=model
            )
            if ended:
                return ended[0]._replace(degraded=degraded)
            facts = self.facts(session, context.caught_up(policies), policies)
        return Ended(session, facts.reason, already=True)

    def _asked(
        self, session: str, reflector: object, still_open: Choose
    ) -> tuple[ModelSummary | None, str | None]:
        """What a model says of the session, or why it says nothing. Not under the lock."""
        context = self._context
        if reflector is None:
            return None, "no reflector: extractive"
        with context.lock:
            policies = context.watched.policies_or_last()
            folds = context.caught_up(policies)
            sessions = _whole(context, folds, policies, still_open(folds))
            sources = _sources(context, folds, policies, sessions).get(session, [])
        if not sources:
            return None, None  # too short to be summed up, by whomever
        redact, counter = context.redact(policies), context.counter(policies)
        readable = readable_turns(_one_place(sources), counter)
        if not readable:
            return None, "no turn that a model may read: extractive"
        try:
            by = reflector_name(reflector)
            with context.span("reflect", {"session": hashed(session), "provider": by}):
                made = ask_summary(check_session_reflector(reflector), session, readable, redact)
        except ProviderError as error:
            return None, f"{type(error).__name__} of {error.provider}: extractive"
        return made, None if made is not None else "the model said nothing: extractive"

    def end_idle(self, *, summary: bool = True) -> _Done:
        """End every session, of any agent, without an event for longer than the policy's gap."""
        context = self._context
        with context.lock:
            policies = context.watched.policies_or_last()

            def idle(folds: Folds) -> Sequence[SessionFacts]:
                return self._idle(folds, policies)

            return end_all(context, policies, idle, "abandoned", summary=summary)

    def end_imported(
        self,
        read: Collection[str],
        known: Collection[str],
        name: NameEnd,
        ended: Mapping[str, str] = MappingProxyType({}),
    ) -> _Done:
        """End sessions of an importer whose last event happened longer ago than the gap.

        `read` are those it has read from, `known` others of its files that had no news. `name`
        gives the ids of what is added. `ended` says when clients have told that sessions ended:
        what an import adds of the time before opens none of them again.
        """
        context = self._context

        def over(folds: Folds) -> Sequence[SessionFacts]:
            state = folds.sessions.state
            found = dict(state.sessions)
            if lost := [id_ for id_ in read if id_ not in found]:
                found |= session_facts(folds.log, state, lost, context.counter(policies))
            before = minutes_before(context.clock(), policies.plane.session_gap_minutes)
            done = [
                facts
                for id_ in sorted({*read, *known})
                if (facts := found.get(id_))
                and not facts.ended
                and (facts.last_ts < before or facts.last_ts <= ended.get(id_, ""))
            ]
            return sorted(done, key=lambda facts: facts.first_seq)

        with context.lock:
            policies = context.watched.policies_or_last()
            return end_all(context, policies, over, "importer", name=name)

    def sum_up(self, tag: str) -> _Done:
        """Record summaries of sessions whose client records their start and end, by `tag`.

        Those that it has ended since their last summary; and those that were silent for longer
        than the policy's gap, which end, too. The newest 32 at most: it is done again and again.
        """
        context = self._context

        def left(folds: Folds) -> Sequence[SessionFacts]:
            ended = [one for one in folds.sessions.state.sessions.values() if one.ended]
            found = [one for one in ended if self._unsummed(one)]
            found += self._idle(folds, policies)
            told = [one for one in found if not one.forgotten and self._tells(one, tag)]
            newest = sorted(told, key=_latest)[-_SUMMED_AT_ONCE:]
            return sorted(newest, key=lambda facts: facts.first_seq)

        with context.lock:
            policies = context.watched.policies_or_last()
            return end_all(context, policies, left, "abandoned")

    def list(
        self,
        *,
        agent: str | None = None,
        only_open: bool = False,
        channel: str = "private",
        since: str | None = None,
        until: str | None = None,
    ) -> _Found:
        """The newest 200 sessions, the one with the latest event last; forgotten ones not.

        `agent`: only this one's, as it sees them; `only_open`: only those that have not ended;
        `since`, `until`: only those in which something happened then, as times of events are
        written.
        """
        context = self._context
        _texts(agent=agent, since=since, until=until)
        with context.lock:
            policies = context.watched.policies()
            folds = context.caught_up(policies)
            reads = context.agent_of(agent)
            visible = SessionVisibility(context, folds, policies, channel, reads)
            now, gap = context.clock(), policies.plane.session_gap_minutes
            parts, most = folds.digests.sessions, policies.plane.session_summary_tokens_max
            return [
                _with_digest(
                    _shown(facts, visible, now, gap), visible.digest(parts.get(facts.id), most)
                )
                for facts in sorted(folds.sessions.state.sessions.values(), key=_latest)
                if not facts.forgotten
                and visible.sees(facts)
                and (agent is None or visible.name(facts.agent, facts.agent_seq) == agent)
                and not (only_open and facts.ended)
                and (since is None or facts.last_ts >= since)
                and (until is None or facts.first_ts <= until)
            ]

    def get(self, session: str, *, channel: str = "private", agent: str | None = None) -> Session:
        """One session, with its summary if it has one that the reader may see.

        `agent`: who reads; what is in its own namespace is told to it alone. Raises NotFoundError,
        also where the channel may see nothing of the session.
        """
        context = self._context
        _texts(session=session, none=False)
        _texts(agent=agent)
        with context.lock:
            policies = context.watched.policies()
            folds = context.caught_up(policies)
            reads = context.agent_of(agent)
            visible = SessionVisibility(context, folds, policies, channel, reads)
            facts = self.facts(session, folds, policies, visible)
            found = _shown(facts, visible, context.clock(), policies.plane.session_gap_minutes)
            parts = folds.digests.sessions.get(facts.id)
            if parts is None:  # let go of: folded from its events alone
                lines = remembered_lines(folds.log.read(facts.first_seq - 1, facts.last_seq))
                parts = parts_of(one.event for one in lines if one.event.session == facts.id)
            told = _with_digest(found, visible.digest(parts, _DIGEST_TOKENS))
            return told._replace(summary=visible.event(facts.summary))

    def facts(
        self,
        session: str,
        folds: Folds,
        policies: Policies,
        visible: SessionVisibility | None = None,
    ) -> SessionFacts:
        """Return a session's figures; a session that the projection dropped is folded from the log.

        NotFoundError where there is none, or none that `visible` sees, with the closest name that
        it, or else the owner, may be told. Hold the plane's lock.
        """
        state = folds.sessions.state
        facts = state.sessions.get(session)
        # Where nothing was let go of, what is not there never was.
        if (facts is None and state.gone) or (facts is not None and facts.partial):
            counter = self._context.counter(policies)
            facts = session_facts(folds.log, state, [session], counter).get(session, facts)
        if facts is None or (visible is not None and not visible.sees(facts)):
            visible = visible or SessionVisibility(self._context, folds, policies, "private", None)
            known = sorted(
                one.id for one in state.sessions.values() if not one.forgotten and visible.sees(one)
            )
            close = [one for one in get_close_matches(session, known, 1) if one != session]
            hint = f"; did you mean {close[0]}?" if close else ""
            raise NotFoundError(f"no session {quoted_value(session)}{hint}")
        return facts

    def _unsummed(self, facts: SessionFacts) -> bool:
        """Whether a session that its client ended has events enough for a summary, but none."""
        if facts.reason in REASONS or facts.summary > facts.ended:
            return False
        if facts.events - facts.kinds.get("session", 0) < EVENTS_MIN:
            return False
        made = self._context.log.line(facts.summary) if facts.summary else None
        return made is None or made.event.rec <= facts.last_rec

    def _tells(self, facts: SessionFacts, tag: str) -> bool:
        """Whether the client recorded the session's start or end itself, with this tag."""
        lines = [self._context.log.line(seq) for seq in (facts.first_seq, facts.ended) if seq]
        return any(line is not None and tag in line.event.tags for line in lines)

    def _idle(self, folds: Folds, policies: Policies) -> Sequence[SessionFacts]:
        """Return the open sessions without a recorded event for longer than the policy's gap."""
        before = minutes_before(self._context.clock(), policies.plane.session_gap_minutes)
        every = folds.sessions.state.sessions.values()
        return [facts for facts in every if not facts.ended and facts.last_rec < before]


def _texts(*, none: bool = True, **given: object) -> None:
    """Raise InputError for a value that is no text; None is accepted unless `none` is False."""
    for name, value in given.items():
        if not (isinstance(value, str) or (none and value is None)):
            raise unexpected("a text", value, name)


def _latest(facts: SessionFacts) -> int:
    return facts.last_seq


def _with_digest(session: Session, digest: SessionDigest | None) -> Session:
    """The session with what its digest says."""
    if digest is None:
        return session
    outcome, left = digest.after("Came to"), digest.after("Left")
    return session._replace(title=digest.title, outcome=outcome, left=left, digest=digest.text)


def _shown(facts: SessionFacts, visible: SessionVisibility, now: str, gap: int) -> Session:
    silent = facts.last_rec < minutes_before(now, gap)
    kinds = facts.kinds
    files, tasks = visible.names(facts, facts.files), visible.names(facts, facts.tasks)
    more = facts.more or len(files) < len(facts.files) or len(tasks) < len(facts.tasks)
    return Session(
        id=facts.id,
        agent=visible.name(facts.agent, facts.agent_seq),
        status="ended" if facts.ended else "idle" if silent else "open",
        reason=visible.name(facts.reason, facts.ended),
        first=facts.first_ts,
        last=facts.last_ts,
        events=dict(kinds),
        prompts=facts.prompts,
        calls=kinds.get("tool_call", 0),
        errors=facts.errors,
        decisions=kinds.get("decision", 0),
        tokens=facts.tokens,
        files=files,
        tasks=tasks,
        more=more,
        branch=visible.name(facts.branch, facts.branch_seq),
        cwd=visible.name(facts.cwd, facts.cwd_seq),
        partial=facts.partial,
    )


# Ending sessions: the summary of each, the rows that record the end, and their write.

# Why memplane says that a session ended; clients have words of their own.
REASONS: Final = frozenset(("explicit", "importer", "gap", "abandoned", "error"))
Rows = list[dict[str, Any]]
# The id of what is added behind a session's last event: of its name, a word and that event's id.
NameEnd = Callable[[str, str, str], str]
# The sessions to end, as the projections of now show them.
Choose = Callable[["Folds"], Sequence[SessionFacts]]

_SESSIONS_AT_ONCE: Final = 32  # whose events are held at once, and who end in one write
_ACTOR_CHARACTERS: Final = 120
_RESULT_ENDS: Final = 4_000  # characters that are read of a tool's result: its beginning, its end
_TRIES: Final = 5  # to write before somebody else does; then sessions end without a summary


def session_row(session: str, status: str, text: str, **data: str | None) -> dict[str, Any]:
    """The row of a `session` event; what is None is left out."""
    told = {"status": status, **{name: value for name, value in data.items() if value is not None}}
    return {"kind": "session", "session": session, "text": text, "data": told}


def bounds_of(context: PlaneContext, facts: SessionFacts) -> dict[str, str]:
    """Return namespace and sensitivity for events that memplane records about a session.

    Its name is for those who may see something of what happened in it. `/global`, but for one that
    is of a project, and one that happened in agents' own namespaces alone, which stays where it
    began; as sensitive as the least sensitive of its events, and `normal` at least.
    """
    ours = next((ns for _, _, ns in facts.origins if ns.startswith(PROJECTS)), None)
    if ours is not None:
        inside = [level for _, level, ns in facts.origins if ns == ours]
        least = max(min(inside, key=SENSITIVITIES.index), "normal", key=SENSITIVITIES.index)
        return {"sensitivity": least, "ns": ours}
    shared = [level for _, level, ns in facts.origins if not ns.startswith("/agent/")]
    levels = shared or [level for _, level, _ in facts.origins] or ["normal"]
    level = max(min(levels, key=SENSITIVITIES.index), "normal", key=SENSITIVITIES.index)
    line = None if shared or not facts.origins else context.log.line(facts.first_seq)
    return {"sensitivity": level, "ns": GLOBAL if line is None else line.event.ns}


def minutes_before(now: str, minutes: int) -> str:
    """Return the time `minutes` before `now`, both RFC 3339 in UTC with six decimals."""
    moment = datetime.fromisoformat(now) - timedelta(minutes=minutes)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def end_all(
    context: PlaneContext,
    policies: Policies,
    choose: Choose,
    reason: str,
    *,
    summary: bool = True,
    name: NameEnd | None = None,
    model: ModelSummary | None = None,
) -> list[Ended]:
    """End sessions, each with a summary of its events. Hold the plane's lock.

    `model`: what one made of the only session, in place of the extract.

    One that its client has ended gets its summary alone. An importer's ends are dated to the last
    event of the session; the others are of now.
    """
    ended: list[Ended] = []
    left = _TRIES
    context.take_in_waiting()
    while True:
        folds = context.caught_up(policies)
        at = folds.memories.position
        seq = at.seq if at is not None else 0
        sessions = _whole(context, folds, policies, choose(folds))
        try:
            for start in range(0, len(sessions), _SESSIONS_AT_ONCE):
                group = sessions[start : start + _SESSIONS_AT_ONCE]
                sources = _sources(context, folds, policies, group) if summary and left else {}
                made = [
                    _rows_of(
                        context, policies, facts, sources.get(facts.id, []), reason, name, model
                    )
                    for facts in group
                ]
                rows = [row for each in made for row in each]
                receipts = write(context, rows, expected_seq=seq if left else None)
                seq += len(rows)
                ended += _told(group, made, receipts, reason)
                left = _TRIES
        except ConflictError:
            if not left:
                raise
            left -= 1
        else:
            return ended


def write(context: PlaneContext, rows: Rows, *, expected_seq: int | None = None) -> list[Receipt]:
    """Append memplane's own events, all or none. Raises ConflictError as `FileLog.append` does."""
    draft = context.drafting(internal=True)
    rows = [with_permitted_actor(row) for row in rows]  # of older events
    done = context.append([draft(row, "") for row in rows], expected_seq=expected_seq)
    return [Receipt(one, context.durability, context.log.line) for one in done]


def _whole(
    context: PlaneContext, folds: Folds, policies: Policies, sessions: Sequence[SessionFacts]
) -> list[SessionFacts]:
    lost = [facts.id for facts in sessions if facts.partial]
    counter, state = context.counter(policies), folds.sessions.state
    whole = session_facts(folds.log, state, lost, counter) if lost else {}
    return [whole.get(facts.id, facts) for facts in sessions]


def _rows_of(
    context: PlaneContext,
    policies: Policies,
    facts: SessionFacts,
    sources: list[Event],
    reason: str,
    name: NameEnd | None,
    model: ModelSummary | None,
) -> Rows:
    """The rows that end a session."""
    rows = _summed(context, policies, facts, sources, model)
    if not facts.ended:
        agent = {"actor": facts.agent} if _may_be_named(context, facts) else {}
        ended = session_row(facts.id, "end", "Session ended", reason=reason)
        rows.append({**ended, **bounds_of(context, facts), **agent})
    _identify(rows, facts, name or _name)
    return rows if name is None else [{"ts": facts.last_ts, **row} for row in rows]


def _may_be_named(context: PlaneContext, facts: SessionFacts) -> bool:
    """Whether every reader may see the agent's name: the end of a session is visible to all."""
    line = context.log.line(facts.agent_seq) if facts.agent is not None else None
    return (
        line is not None
        and line.event.sensitivity in ("low", "normal")
        and not line.event.ns.startswith("/agent/")
    )


def _told(
    sessions: Sequence[SessionFacts], made: Sequence[Rows], receipts: Sequence[Receipt], reason: str
) -> Iterator[Ended]:
    each = iter(receipts)
    for facts, rows in zip(sessions, made, strict=True):
        said = {row["kind"]: next(each) for row in rows}
        yield Ended(facts.id, reason, summary=said.get("summary"))


def _sources(
    context: PlaneContext, folds: Folds, policies: Policies, sessions: Iterable[SessionFacts]
) -> dict[str, list[Event]]:
    """Return the events that a summary may quote, by session, ordered by time.

    An import may have added some behind those that a hook recorded. No kind that some channel may
    not see: of a summary a channel knows only the sensitivity.
    """
    rules = [policies.privacy.rule(channel) for channel in policies.privacy.rules]
    views = [kind for rule in rules for kind in kinds_of_views(rule.suppress_views)]
    withheld = frozenset((*views, *(kind for rule in rules for kind in rule.suppress_kinds)))
    enough = [facts for facts in sessions if facts.events >= EVENTS_MIN]
    found: dict[str, list[Event]] = {facts.id: [] for facts in enough}
    if not enough:
        return found
    first = min(facts.first_seq for facts in enough)
    last = max(facts.last_seq for facts in enough)
    now, archived = context.clock(), folds.memories.archived
    for event in typed_once(line.event for line in folds.log.read(first - 1, last)):
        mine = None if event.session is None else found.get(event.session)
        if (
            mine is not None
            and event.kind not in withheld
            and is_readable(event, now)
            and archived(event) is None
        ):
            # What a tool said is hardly quoted, and may be a megabyte.
            long = event.kind == "tool_result" and len(event.text) > 2 * _RESULT_ENDS
            ends = f"{event.text[:_RESULT_ENDS]}\n{event.text[-_RESULT_ENDS:]}" if long else ""
            mine.append(event._replace(text=ends) if long else event)
    for events in found.values():
        events.sort(key=lambda event: (event.ts, event.seq))
    return found


def _summed(
    context: PlaneContext,
    policies: Policies,
    facts: SessionFacts,
    sources: list[Event],
    model: ModelSummary | None,
) -> Rows:
    """The summary's row, and one that forgets the last summary if it is in another namespace."""
    made = extract(
        sources,
        counter=context.counter(policies),
        tokens_max=policies.plane.session_summary_tokens_max,
        redact=context.redact(policies),
    )
    if made is None:
        return []
    row = {
        "kind": "summary",
        "role": "system",
        "session": facts.id,
        "ns": made.ns,
        "key": f"session/{facts.id}/summary",
        "text": made.text,
        "refs": list(made.refs),
        "sensitivity": made.sensitivity,
        "data": {"extract": True},
    }
    if model is not None:
        row |= _of_model(model, _one_place(sources), context.counter(policies), policies)
    # Somebody may have said since, under the same key, how sensitive it is.
    value = context.caught_up(policies).memories.current(made.ns, f"session/{facts.id}/summary")
    row |= {} if value is None else at_least(value.sensitivity, row)
    last = context.log.line(facts.summary) if facts.summary else None
    if last is None or last.event.ns == made.ns:
        return [row]
    # Of two namespaces, none supersedes the other.
    why = "A newer summary of the session is in another namespace"
    return [{"kind": "forget", "text": why, "data": {"forget": {"ids": [last.event.id]}}}, row]


def _one_place(sources: Sequence[Event]) -> list[Event]:
    """The events of the namespace that the summary is in."""
    return one_space(sources)[1]


def _of_model(
    model: ModelSummary, sources: Sequence[Event], counter: TokenCounter, policies: Policies
) -> dict[str, Any]:
    """What a model's summary changes of an extract's row; nothing where its turns have gone."""
    text = model.held(sources, counter, policies.plane.session_summary_tokens_max)
    if not text:
        return {}
    lines = set(text.split("\n"))
    ids = {id_ for one in model.kept(sources) if one.text in lines for id_ in one.sources}
    cited = [event for event in sources if event.id in ids]
    return {
        "role": None,
        "actor": f"{REFLECTOR}{model.by}"[:_ACTOR_CHARACTERS],
        "text": text,
        "refs": [event.id for event in cited][:REFS_MAX],
        "sensitivity": max((one.sensitivity for one in cited), key=SENSITIVITIES.index),
        "data": {"extract": True, "by": model.by[:_ACTOR_CHARACTERS], "prompt": model.prompt},
    }


def _identify(rows: Rows, facts: SessionFacts, name: NameEnd) -> None:
    """Two processes that end the same session at once write the same events, which are one."""
    for row in rows:
        if row["kind"] != "forget":
            word = "end" if row["kind"] == "session" else "summary"
            row["id"] = name(facts.id, word, facts.last_id)


def _name(session: str, word: str, last: str) -> str:
    digest = hashlib.sha256(f"{session}\n{last}".encode()).hexdigest()[:32]
    return f"session:{word}:{digest}"
