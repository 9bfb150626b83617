"""Sessions: begun, marked and ended by events; those left open are closed at the next start.

The projection says what there is and since when it is silent. To list or show writes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from memplane.errors import NotFoundError, ScopeError
from memplane.event import Event
from memplane.intake.redact import shown
from memplane.plane.ending import Ended, NameEnd, end_all, marked, minutes_before, write
from memplane.plane.writing import Receipt, ulid
from memplane.projections.sessions import SessionFacts, session_facts

if TYPE_CHECKING:
    from memplane.plane.engine import Engine
    from memplane.plane.folds import Folds
    from memplane.policy import Policies

__all__ = ["Ended", "Session", "Sessions", "Started"]


class Session(NamedTuple):
    """What is known of a session.

    `status`: open, idle (open, and silent for longer than the policy's gap) or ended, for `reason`:
    explicit, importer, gap, abandoned. `events` counts by kind. `files` and `tasks` name the ones
    touched last, newest first; `more`: there are others. `partial`: it is older than what was
    counted; `get` gives the whole.
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


_Found = list[Session]
_Done = list[Ended]


class Sessions:
    """The sessions of an open plane."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def start(
        self, session: str | None = None, *, agent: str | None = None, branch: str | None = None,
        cwd: str | None = None,
    ) -> Started:  # fmt: skip
        """Begin a session, or go on with one; without a name it gets one.

        Other sessions of the same agent (none is one too) that are open and were silent for longer
        than the policy's gap are ended and summed up. Another agent's is never touched.
        """
        engine = self._engine
        named = ulid(engine.clock()) if session is None else session
        row = marked(named, "start", "Session started", branch=branch, cwd=cwd)
        row |= {} if agent is None else {"actor": agent}
        engine.drafting()(row, "")  # a mistake in what was given ends nothing
        with engine.lock:
            policies = engine.watched.policies_or_last()
            folds = engine.caught_up(policies)
            idle = [
                facts
                for facts in self._idle(folds, policies)
                if facts.agent == agent and facts.id != named
            ]
            ended = end_all(engine, folds, policies, idle, "gap")
            (receipt,) = write(engine, [row])
        return Started(named, receipt, tuple(ended))

    def checkpoint(self, session: str, text: str = "") -> Receipt:
        """Mark a point in a session: the head of its blocks is chosen anew from here on.

        Raises NotFoundError where nothing happened in a session of that name.
        """
        engine = self._engine
        with engine.lock:
            policies = engine.watched.policies_or_last()
            self._one(session, engine.caught_up(policies), policies)
            (receipt,) = write(engine, [marked(session, "checkpoint", text or "Checkpoint")])
        return receipt

    def end(self, session: str, *, summary: bool = True) -> Ended:
        """End a session and sum it up; one that has ended stays as it is, and nothing is written.

        Raises NotFoundError where nothing happened in a session of that name.
        """
        engine = self._engine
        with engine.lock:
            policies = engine.watched.policies_or_last()
            folds = engine.caught_up(policies)
            facts = self._one(session, folds, policies)
            if facts.ended:
                return Ended(session, facts.reason, already=True)
            (ended,) = end_all(engine, folds, policies, [facts], "explicit", summary=summary)
        return ended

    def end_idle(self, *, summary: bool = True) -> _Done:
        """End every session, of any agent, that was silent for longer than the policy's gap."""
        engine = self._engine
        with engine.lock:
            policies = engine.watched.policies_or_last()
            folds = engine.caught_up(policies)
            idle = self._idle(folds, policies)
            return end_all(engine, folds, policies, idle, "abandoned", summary=summary)

    def end_imported(self, read: Collection[str], known: Collection[str], name: NameEnd) -> _Done:
        """End sessions of an importer whose last event happened longer ago than the gap.

        `read` are those it has read from, `known` others of its files that had no news. `name`
        gives the ids of what is added.
        """
        engine = self._engine
        with engine.lock:
            policies = engine.watched.policies_or_last()
            folds = engine.caught_up(policies)
            found = dict(folds.sessions.state.sessions)
            if lost := [id_ for id_ in read if id_ not in found]:
                found |= session_facts(folds.log, lost, engine.counter(policies))
            before = minutes_before(engine.clock(), policies.plane.session_gap_minutes)
            done = [
                facts
                for id_ in sorted({*read, *known})
                if (facts := found.get(id_)) and not facts.ended and facts.last_ts < before
            ]
            done.sort(key=lambda facts: facts.first_seq)
            return end_all(engine, folds, policies, done, "importer", name=name)

    def list(
        self, *, agent: str | None = None, only_open: bool = False, channel: str = "private"
    ) -> _Found:
        """The newest 200 sessions, the one with the latest event last; forgotten ones not.

        `agent`: only this one's; `only_open`: only those that have not ended.
        """
        engine = self._engine
        with engine.lock:
            policies = engine.watched.policies()
            hidden = self._hidden(policies, channel)
            found = list(engine.caught_up(policies).sessions.state.sessions.values())
        now, gap = engine.clock(), policies.plane.session_gap_minutes
        found.sort(key=lambda facts: facts.last_seq)
        return [
            _shown(facts, now, gap)
            for facts in found
            if not hidden
            and not facts.forgotten
            and agent in (None, facts.agent)
            and not (only_open and facts.ended)
        ]

    def get(self, session: str, *, channel: str = "private") -> Session:
        """One session, with its summary if it has one that the channel may see.

        Raises NotFoundError, and ScopeError where the channel sees no sessions.
        """
        engine = self._engine
        with engine.lock:
            policies = engine.watched.policies()
            if self._hidden(policies, channel):
                raise ScopeError(f"session {shown(session)} is not for channel {channel}")
            folds = engine.caught_up(policies)
            facts = self._one(session, folds, policies)
            summary = self._summary(facts, folds, channel)
        found = _shown(facts, engine.clock(), policies.plane.session_gap_minutes)
        return found._replace(summary=summary)

    def _summary(self, facts: SessionFacts, folds: Folds, channel: str) -> Event | None:
        reader = self._engine.reader(channel)
        line = self._engine.log.line(facts.summary) if facts.summary else None
        if line is None or not reader.shows(line.event) or folds.memories.archived(line.event):
            return None
        return reader.emit(line.event)

    def _one(self, session: str, folds: Folds, policies: Policies) -> SessionFacts:
        """The session's facts; of one that the projection let go of, folded from the log."""
        state = folds.sessions.state
        facts = state.sessions.get(session)
        if facts is not None and not facts.partial:
            return facts
        # Where nothing was let go of, what is not there never was.
        if facts is not None or state.gone:
            counter = self._engine.counter(policies)
            facts = session_facts(folds.log, [session], counter).get(session, facts)
        if facts is None:
            close = get_close_matches(session, sorted(state.sessions), 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise NotFoundError(f"no session {shown(session)}{hint}")
        return facts

    def _idle(self, folds: Folds, policies: Policies) -> Sequence[SessionFacts]:
        """The open sessions in which nothing was recorded for longer than the gap."""
        before = minutes_before(self._engine.clock(), policies.plane.session_gap_minutes)
        every = folds.sessions.state.sessions.values()
        return [facts for facts in every if not facts.ended and facts.last_rec < before]

    def _hidden(self, policies: Policies, channel: str) -> bool:
        self._engine.reader(channel)  # refuses a channel that nobody knows
        return "session" in policies.privacy.rule(channel).suppress_kinds


def _shown(facts: SessionFacts, now: str, gap: int) -> Session:
    silent = facts.last_rec < minutes_before(now, gap)
    kinds = facts.kinds
    return Session(
        facts.id, facts.agent, "ended" if facts.ended else "idle" if silent else "open",
        facts.reason, facts.first_ts, facts.last_ts, dict(kinds), facts.prompts,
        kinds.get("tool_call", 0), facts.errors, kinds.get("decision", 0), facts.tokens,
        tuple(reversed(facts.files)), tuple(reversed(facts.tasks)), facts.more, facts.branch,
        facts.cwd, facts.partial,
    )  # fmt: skip
