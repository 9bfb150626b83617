"""What the log says of the events between two packs: why a prefix broke."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memplane.pack.report import Story
from memplane.recall.suppress import Scope

if TYPE_CHECKING:
    from memplane.event import Event
    from memplane.plane.engine import Engine

__all__ = ["story"]

_LOOKED_AT: Final = 5_000
_RING_HELD: Final = 200  # events before the prompt that a fast pack takes its evidence from

Report = dict[str, Any]


def story(engine: Engine, old: Report | None, new: Report) -> Story:
    """What the log says of the events between two packs. Asked only where a prefix broke."""
    between = _Between(engine, old, new)
    return Story(between.gone, between.corrected, between.ring)


class _Between:
    """Two reports and the log. The engine's lock is held."""

    def __init__(self, engine: Engine, old: Report | None, new: Report) -> None:
        self._engine, self._old, self._new = engine, old or {}, new

    def gone(self, id_: str) -> str | None:
        """Why an event is out of force, None where it is not."""
        line = self._engine.log.find(id_)
        if line is None:
            return "purged"
        asked = self._new["request"]
        memories = self._engine.caught_up().memories
        found = memories.archived(line.event, upto=asked.get("as_of"))
        if found is not None:
            return found[0]
        until = line.event.valid_until
        return "expired" if until is not None and until < asked["now"] else None

    def corrected(self, area: str) -> str | None:
        """The first reason that an event in between gives for a change in an area."""
        old = self._old
        first, last = old["log"]["seq"], self._new["log"]["seq"]
        shown = {id_ for one in old["entries"] for id_ in (*one["events"], *one["parts"])}
        for line in self._engine.log.read(first, min(last, first + _LOOKED_AT)):
            event = line.event
            reason = _correction(event)
            if reason is not None and (
                reason != "superseded" or self._replaced(event, shown, area)
            ):
                return reason
        return None

    def ring(self) -> bool:
        """Whether events that evidence was taken from have left the ring."""
        asked, policies = self._new["request"], self._engine.watched.policies_or_last()
        scope = Scope.of(
            policies, self._new["channel"], now=asked["now"], as_of=asked.get("as_of", 0),
            ns=tuple(asked.get("ns", ())), agent=asked.get("agent"),
        )  # fmt: skip
        held = self._engine.caught_up().hotset.state.seen(scope.sees).plane
        before = sum(1 for seq in held if seq < self._new["prefix"]["prompt_seq"])
        return before < _RING_HELD and bool(held) and held[0] > 1

    def _replaced(self, event: Event, shown: set[str], area: str) -> bool:
        """Whether the value that an event took the place of counted for what was shown there.

        Unseen it may have: as a neighbour of evidence; and as a witness of the map's names, for
        what the first value of its key said.
        """
        memories, prefix = self._engine.caught_up().memories, self._old["prefix"]
        seq = memories.before(event)
        line = None if seq is None else self._engine.log.line(seq)
        if seq is None or line is None or line.event.id in shown:
            return line is not None
        if area == "B":
            oldest = memories.history(event.ns, event.key or "")[0]
            return bool(oldest.seq <= prefix["epoch_seq"])
        return area == "E" and bool(seq <= prefix["prompt_seq"])


def _correction(event: Event) -> str | None:
    """What an event does to others that stand in blocks already."""
    if event.kind == "forget":
        return "unforgotten" if (event.data or {}).get("undo") else "forgotten"
    if event.kind in ("pin", "purge"):
        return "pin" if event.kind == "pin" else "purged"
    if event.kind == "approval":
        return "approval"
    return "superseded" if event.key is not None and event.kind != "session" else None
