"""`plane.sessions`: start, checkpoint, end and list sessions, and what one reader may see of them.

Figures, and the session's own name, are shown to a reader who may see one of its events; for the
plane's owner an event in an agent's namespace counts, as it does when it is read by its id. Every
other name carries the events that it is from, and so does the summary: names from `/agent/*` are
shown to that agent alone.
"""

from __future__ import annotations

from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.clock import ulid
from memplane.context.context import NO_END
from memplane.context.folds import items_of_event
from memplane.errors import InputError, NotFoundError
from memplane.intake.redact import quoted_value
from memplane.projections.sessions import SessionFacts, session_facts
from memplane.recall.session_summary import EVENTS_MIN
from memplane.recall.suppress import Scope
from memplane.work.session_end import (
    REASONS,
    Ended,
    NameEnd,
    bounds_of,
    end_all,
    minutes_before,
    session_row,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from memplane.context.context import PlaneContext
    from memplane.context.folds import Folds
    from memplane.context.receipts import Receipt
    from memplane.event import Event
    from memplane.policy import Policies
    from memplane.projections.sessions import Named, Origin, SessionFacts

__all__ = ["Ended", "PlaneSessions", "Session", "Started", "Telling"]


class Telling:
    """One reader's view of the sessions, at the clock's time. Hold the plane's lock."""

    def __init__(
        self,
        context: PlaneContext,
        folds: Folds,
        policies: Policies,
        channel: str,
        agent: str | None,
    ) -> None:
        self._emit = context.reader(channel).emit  # refuses a channel that nobody knows
        self._redact = context.redact(policies)
        self._counter = context.counter(policies)
        self._log, self._archived = context.log, folds.memories.archived
        as_of = NO_END if context.as_of is None else context.as_of
        self._scope = Scope.of(policies, channel, now=context.clock(), as_of=as_of, agent=agent)
        self._told: dict[int, Event | None] = {}

    @property
    def sessions(self) -> bool:
        """Whether there are sessions at all for the channel."""
        return "session" not in self._scope.kinds

    def sees(self, facts: SessionFacts) -> bool:
        """Whether the reader may see something of what happened in the session."""
        return self.sessions and any(
            self._passes(origin) and (self._scope.owner or self._scope.reaches(origin[2]))
            for origin in facts.origins
        )

    def event(self, seq: int) -> Event | None:
        """The event if it is in force and the reader may see it, as it leaves the plane."""
        event = self._event(seq) if seq else None
        return None if event is None else self._emit(event)

    def name(self, name: str | None, seq: int) -> str | None:
        """The name if the event that it is of may be seen."""
        told = name is not None and seq and self._event(seq) is not None
        return self._redact(name) if name is not None and told else None

    def names(self, facts: SessionFacts, names: Named) -> tuple[str, ...]:
        """The names that the reader may see, the last touched first."""
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
    """What is known of a session.

    `status`: open, idle (open, and silent for longer than the policy's gap) or ended, for `reason`:
    explicit, importer, gap, abandoned. `events` counts by kind. `files` and `tasks` name the ones
    touched last, newest first; `more`: there are others. `partial`: it is older than what was
    counted; `get` gives the whole. Figures are of all its events; agent, reason, files, tasks,
    branch, folder and summary are told where the reader may see an event that they are of.
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


_SUMMED_AT_ONCE: Final = 32
_Found = list[Session]
_Done = list[Ended]


class PlaneSessions:
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
    ) -> Started:
        """Begin a session, or go on with one; without a name it gets one.

        Other sessions of the same agent (none is one too) that are open and were silent for longer
        than the policy's gap are ended and summed up. Another agent's is never touched.
        """
        context = self._context
        _texts(session=session, agent=agent, branch=branch, cwd=cwd)
        named = ulid(context.clock()) if session is None else session
        row = session_row(named, "start", "Session started", branch=branch, cwd=cwd)
        row |= {} if agent is None else {"actor": agent}
        context.drafting()(row, "")  # a mistake in what was given ends nothing

        def left(folds: Folds) -> Sequence[SessionFacts]:
            idle = self._idle(folds, policies)
            return [facts for facts in idle if facts.agent == agent and facts.id != named]

        with context.lock:
            policies = context.watched.policies_or_last()
            ended = end_all(context, policies, left, "gap")
            (receipt,) = write(context, [row])
        return Started(named, receipt, tuple(ended))

    def checkpoint(self, session: str, text: str = "") -> Receipt:
        """Mark a point in a session: the head of its blocks is chosen again from here on.

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

    def end(self, session: str, *, summary: bool = True) -> Ended:
        """End a session and sum it up; one that has ended stays as it is, and nothing is written.

        Raises NotFoundError where nothing happened in a session of that name.
        """
        context = self._context
        _texts(session=session, none=False)

        def still_open(folds: Folds) -> Sequence[SessionFacts]:
            facts = self.facts(session, folds, policies)
            return () if facts.ended else (facts,)

        with context.lock:
            policies = context.watched.policies_or_last()
            ended = end_all(context, policies, still_open, "explicit", summary=summary)
            if ended:
                return ended[0]
            facts = self.facts(session, context.caught_up(policies), policies)
        return Ended(session, facts.reason, already=True)

    def end_idle(self, *, summary: bool = True) -> _Done:
        """End every session, of any agent, that was silent for longer than the policy's gap."""
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
        """Sum up sessions of a client that tells of them as they go, by events with this tag.

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
        self, *, agent: str | None = None, only_open: bool = False, channel: str = "private"
    ) -> _Found:
        """The newest 200 sessions, the one with the latest event last; forgotten ones not.

        `agent`: only this one's, as it sees them; `only_open`: only those that have not ended.
        """
        context = self._context
        _texts(agent=agent)
        with context.lock:
            policies = context.watched.policies()
            folds = context.caught_up(policies)
            telling = Telling(context, folds, policies, channel, agent)
            now, gap = context.clock(), policies.plane.session_gap_minutes
            return [
                _shown(facts, telling, now, gap)
                for facts in sorted(folds.sessions.state.sessions.values(), key=_latest)
                if not facts.forgotten
                and telling.sees(facts)
                and (agent is None or telling.name(facts.agent, facts.agent_seq) == agent)
                and not (only_open and facts.ended)
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
            telling = Telling(context, folds, policies, channel, agent)
            facts = self.facts(session, folds, policies, telling)
            found = _shown(facts, telling, context.clock(), policies.plane.session_gap_minutes)
            return found._replace(summary=telling.event(facts.summary))

    def facts(
        self, session: str, folds: Folds, policies: Policies, telling: Telling | None = None
    ) -> SessionFacts:
        """The session's figures; of one that the projection let go of, folded from the log.

        NotFoundError where there is none, or none that `telling` sees, with the closest name that
        it, or else the owner, may be told. Hold the plane's lock.
        """
        state = folds.sessions.state
        facts = state.sessions.get(session)
        # Where nothing was let go of, what is not there never was.
        if (facts is None and state.gone) or (facts is not None and facts.partial):
            counter = self._context.counter(policies)
            facts = session_facts(folds.log, state, [session], counter).get(session, facts)
        if facts is None or (telling is not None and not telling.sees(facts)):
            telling = telling or Telling(self._context, folds, policies, "private", None)
            known = sorted(
                one.id for one in state.sessions.values() if not one.forgotten and telling.sees(one)
            )
            close = [one for one in get_close_matches(session, known, 1) if one != session]
            hint = f"; did you mean {close[0]}?" if close else ""
            raise NotFoundError(f"no session {quoted_value(session)}{hint}")
        return facts

    def _unsummed(self, facts: SessionFacts) -> bool:
        """Whether a session that its client ended has enough for a summary, and none of it all."""
        if facts.reason in REASONS or facts.summary > facts.ended:
            return False
        if facts.events - facts.kinds.get("session", 0) < EVENTS_MIN:
            return False
        made = self._context.log.line(facts.summary) if facts.summary else None
        return made is None or made.event.rec <= facts.last_rec

    def _tells(self, facts: SessionFacts, tag: str) -> bool:
        """Whether the client tells of the session: by what began it, or by what ended it."""
        lines = [self._context.log.line(seq) for seq in (facts.first_seq, facts.ended) if seq]
        return any(line is not None and tag in line.event.tags for line in lines)

    def _idle(self, folds: Folds, policies: Policies) -> Sequence[SessionFacts]:
        """The open sessions in which nothing was recorded for longer than the gap."""
        before = minutes_before(self._context.clock(), policies.plane.session_gap_minutes)
        every = folds.sessions.state.sessions.values()
        return [facts for facts in every if not facts.ended and facts.last_rec < before]


def _texts(*, none: bool = True, **given: object) -> None:
    """Refuse what is no text; None where it may not be left out."""
    for name, value in given.items():
        if not (isinstance(value, str) or (none and value is None)):
            raise InputError(f"expected a text, found {quoted_value(value)}", where=name)


def _latest(facts: SessionFacts) -> int:
    return facts.last_seq


def _shown(facts: SessionFacts, telling: Telling, now: str, gap: int) -> Session:
    silent = facts.last_rec < minutes_before(now, gap)
    kinds = facts.kinds
    files, tasks = telling.names(facts, facts.files), telling.names(facts, facts.tasks)
    more = facts.more or len(files) < len(facts.files) or len(tasks) < len(facts.tasks)
    return Session(
        facts.id,
        telling.name(facts.agent, facts.agent_seq),
        "ended" if facts.ended else "idle" if silent else "open",
        telling.name(facts.reason, facts.ended),
        facts.first_ts,
        facts.last_ts,
        dict(kinds),
        facts.prompts,
        kinds.get("tool_call", 0),
        facts.errors,
        kinds.get("decision", 0),
        facts.tokens,
        files,
        tasks,
        more,
        telling.name(facts.branch, facts.branch_seq),
        telling.name(facts.cwd, facts.cwd_seq),
        facts.partial,
    )
