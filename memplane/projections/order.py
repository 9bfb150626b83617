"""The order of values of a key that come from several planes: a hybrid logical clock.

A value's time is the largest `ts` of its namespace and key in its own plane, up to and with it.
Between planes the later (time, id) is in force; inside one plane its own order stays, so a value
that is dated before the one it superseded has the time of that one and a higher `turn`. Both
together are a hybrid logical clock (Kulkarni et al. 2014): a total order that every plane computes
by itself, so planes that were merged in any order, any number of times, have the same values in
force.

What is recorded in a plane is later than all that the plane has by then, also of others: a
correction acts at once. What comes from another plane says so in `data.origin`::

    {"plane": "01J…", "seq": 41, "time": "2026-01-05T12:00:00.000000Z", "turn": 1}

with time and turn only where they are not its `ts` and 0. Forgets, pins, approvals and changes of
a task are ordered in the same way, among those of their kind or task.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

from memplane.event import UPKEEP_KINDS, Event
from memplane.projections.forgetting import forget_of

__all__ = [
    "KEYLESS_KINDS",
    "ORIGIN",
    "Moment",
    "Moments",
    "is_foreign",
    "moment_of",
    "order_scope",
    "originated",
]

ORIGIN: Final = "origin"
# Their keys, if any, are memplane's own: they neither supersede nor are superseded.
KEYLESS_KINDS: Final = frozenset((*UPKEEP_KINDS, "session"))
# Each of them is a word on what it names, and the last word holds.
_WORDS: Final = frozenset(("forget", "pin", "approval"))
_TIME_CHARS: Final = len("2026-01-05T12:00:00.000000Z")
_TURNS_MAX: Final = 2**53

Place: TypeAlias = tuple[str, str]


class Moment(NamedTuple):
    """When something was said, comparable between planes. `turn` counts what has one time."""

    time: str
    turn: int
    id: str


def is_foreign(event: Event) -> bool:
    """Whether the event was recorded in another plane first."""
    origin = event.data.get(ORIGIN) if event.data else None
    return (
        isinstance(origin, dict)
        and isinstance(origin.get("plane"), str)
        and type(origin.get("seq")) is int
    )


def moment_of(event: Event, before: Moment | None) -> Moment:
    """The event's moment, after the latest moment that its place has had by then in this log."""
    if is_foreign(event):
        origin = event.data[ORIGIN]
        time, turn = origin.get("time"), origin.get("turn")
        given = isinstance(time, str) and len(time) == _TIME_CHARS and time.isascii()
        if given and type(turn) is int and 0 <= turn < _TURNS_MAX:
            return Moment(str(time), turn, event.id)
        return Moment(event.ts, 0, event.id)
    if before is None or event.ts > before.time:
        return Moment(event.ts, 0, event.id)
    return Moment(before.time, before.turn + 1, event.id)


def order_scope(event: Event) -> Place | None:
    """What the event is ordered within: its namespace and key, its task, or its kind's words."""
    if event.kind in _WORDS:
        return "", event.kind
    if event.kind == "task" and event.key is None:
        return "task", event.task if event.task is not None else event.ns.removeprefix("/task/")
    if event.key is not None and event.kind not in KEYLESS_KINDS:
        return event.ns, event.key
    return None


def originated(event: Event, plane: str, moment: Moment | None) -> dict[str, Any]:
    """The event's data for another plane: with where it is from, unless it says so already."""
    if is_foreign(event):
        return event.data
    origin: dict[str, Any] = {"plane": plane, "seq": event.seq}
    if ORIGIN in event.data:  # a caller's own word
        origin["given"] = event.data[ORIGIN]
    if moment is not None and (moment.time, moment.turn) != (event.ts, 0):
        origin |= {"time": moment.time, "turn": moment.turn}
    return {**event.data, ORIGIN: origin}


class Moments:
    """The moments of a log's events, which are shown to it in the order of that log."""

    def __init__(self) -> None:
        self._latest: dict[Place, Moment] = {}

    def see(self, event: Event) -> Moment | None:
        """Return the event's moment; None for one that is not ordered."""
        place = order_scope(event)
        if place is None:
            return None
        before = self._latest.get(place)
        moment = moment_of(event, before)
        if (before is None or moment > before) and _says_something(event):
            self._latest[place] = moment
        return moment

    def in_force(self, ns: str, key: str) -> str | None:
        """Return the id of the value that a key has now, forgotten or not."""
        found = self._latest.get((ns, key))
        return None if found is None else found.id


def _says_something(event: Event) -> bool:
    """Whether a forget or a pin names anything: one that does not leaves nothing in a fold."""
    if event.kind == "pin":
        return bool(event.refs)
    if event.kind != "forget":
        return True
    named = forget_of(event)
    return named is not None and any(
        one not in (None, frozenset())
        for one in (named.key, named.ids, named.session, named.source)
    )
