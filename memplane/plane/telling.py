"""What one reader may be told of sessions: a name only where it may see an event that says it.

Figures and the session's own name are told to whoever may see one of its events; to the plane's
owner an agent's namespace counts there, as it does when one event is read by its id. Every other
name stands with the events that it is of, and so does the summary: of `/agent/*` that agent alone
is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memplane.plane.engine import NO_END
from memplane.plane.folds import items_of_event
from memplane.recall.suppress import Scope

if TYPE_CHECKING:
    from memplane.event import Event
    from memplane.plane.engine import Engine
    from memplane.plane.folds import Folds
    from memplane.policy import Policies
    from memplane.projections.sessions import Named, Origin, SessionFacts

__all__ = ["Telling"]


class Telling:
    """One reader's view of the sessions, at the clock's time. Hold the engine's lock."""

    def __init__(
        self, engine: Engine, folds: Folds, policies: Policies, channel: str, agent: str | None
    ) -> None:
        self._emit = engine.reader(channel).emit  # refuses a channel that nobody knows
        self._redact = engine.redact(policies)
        self._counter = engine.counter(policies)
        self._log, self._archived = engine.log, folds.memories.archived
        as_of = NO_END if engine.as_of is None else engine.as_of
        self._scope = Scope.of(policies, channel, now=engine.clock(), as_of=as_of, agent=agent)
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
        """Those of the names that the reader may be told, the last touched first."""
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
