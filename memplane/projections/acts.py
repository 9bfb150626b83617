"""What `forget` and `pin` events said, kept so that any event can be asked about later.

Nothing is applied when an act is folded: it is filed under what it names, and read
together with the event. So rows in a cache never change, and an answer as of any seq
is a matter of where to stop. A pin names ids in `refs`; `data.undo` takes it back.
Acts mean events with a lower seq only, and the last that names an event holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from memplane.event import UPKEEP_KINDS, Event
from memplane.projections.forgetting import forget_of

__all__ = ["KEYLESS_KINDS", "Act", "Acts", "Target", "acts_of"]

# Their keys, if any, are memplane's own: they neither supersede nor are superseded.
KEYLESS_KINDS: Final = frozenset((*UPKEEP_KINDS, "session"))


class Target(NamedTuple):
    """What an upkeep event names. `form`: key, id, session, source or pin; `ns` only with key."""

    form: str
    ns: str
    value: str


class Act(NamedTuple):
    """One upkeep event's word on one target."""

    target: Target
    seq: int
    undo: bool


def acts_of(event: Event) -> list[Act]:
    """Return what a forget or pin event does; nothing for other kinds or data we do not know."""
    if event.kind == "pin":
        undo = bool(event.data.get("undo", False))
        return [Act(Target("pin", "", ref), event.seq, undo) for ref in event.refs]
    named = forget_of(event) if event.kind == "forget" else None
    if named is None:
        return []
    if named.key is not None:
        targets = [Target("key", named.ns, named.key)]
    elif named.session is not None:
        targets = [Target("session", "", named.session)]
    elif named.source is not None:
        targets = [Target("source", "", named.source)]
    else:
        targets = [Target("id", "", one) for one in sorted(named.ids)]
    return [Act(target, event.seq, named.undo) for target in targets]


class Acts:
    """Every forget and pin so far, by what they name; answers for any event of the log."""

    __slots__ = ("_by_target",)

    def __init__(self) -> None:
        self._by_target: dict[Target, list[tuple[int, bool]]] = {}

    def __iter__(self) -> Iterator[Act]:
        """Yield all acts, by target and seq."""
        for target in sorted(self._by_target):
            for seq, undo in self._by_target[target]:
                yield Act(target, seq, undo)

    def add(self, act: Act) -> None:
        """Take one more act; acts come in log order."""
        said = self._by_target.setdefault(act.target, [])
        # One event may name a thing twice.
        if not said or said[-1][0] != act.seq:
            said.append((act.seq, act.undo))

    def forgotten_by(
        self,
        seq: int,
        event_id: str,
        session: str | None,
        place: tuple[str, str] | None,
        *,
        until: int | None,
        upto: int,
    ) -> int | None:
        """Return the seq of the forget that holds for an event as of `upto`; None: not forgotten.

        `place` is its namespace and key; `until` the seq that superseded it there,
        behind which a forget of the key means another event.
        """
        if not self._by_target:
            return None
        last, undone = 0, True
        for target in _names_of(event_id, session, place):
            bound = until if target.form == "key" and until is not None else upto
            found = self._last(target, seq, min(bound, upto))
            if found is not None and found[0] > last:
                last, undone = found
        return None if undone else last

    def pinned(self, seq: int, event_id: str, *, upto: int) -> bool:
        """Whether the last pin that names the event as of `upto` was not taken back."""
        found = self._last(Target("pin", "", event_id), seq, upto) if self._by_target else None
        return found is not None and not found[1]

    def _last(self, target: Target, after: int, upto: int) -> tuple[int, bool] | None:
        for said in reversed(self._by_target.get(target, ())):
            if said[0] <= after:
                return None
            if said[0] <= upto:
                return said
        return None


def _names_of(
    event_id: str, session: str | None, place: tuple[str, str] | None
) -> Iterator[Target]:
    yield Target("id", "", event_id)
    if session is not None:
        yield Target("session", "", session)
    if place is not None:
        yield Target("key", *place)
    end = event_id.find(":")
    while end >= 0:
        yield Target("source", "", event_id[:end])
        end = event_id.find(":", end + 1)
