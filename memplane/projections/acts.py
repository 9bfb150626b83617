"""Acts on events: forget, pin and touch, filed under what they name.

Folding an act changes no event: the act is filed under what it names, and read together with the
event. So rows in a cache never change, and an answer as of any seq reads the acts up to it. A pin
names ids in `refs`; `data.undo` takes it back. A forget whose `data.reason` is `evicted` archives
as any other; only its word differs. Acts mean events with a lower seq only, and the last that names
an event holds: the last by the order between planes (`projections.order`), which in a log of one
plane is that of the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol, TypeAlias

from memplane.event import Event
from memplane.projections.forgetting import forget_of
from memplane.projections.order import Moment

__all__ = [
    "EVICTED",
    "Act",
    "Acts",
    "Named",
    "Target",
    "TouchAct",
    "acts_of",
    "touches_of",
]

EVICTED: Final = "evicted"  # why a forget was written, in its data; and the archive's word for it

_Said: TypeAlias = tuple[int, bool, bool, str, int, str]  # the fields of `Act` behind its target

_AT: Final = 3  # where its moment begins


class Target(NamedTuple):
    """What an upkeep event names. `form`: key, id, session, source or pin; `ns` only with key."""

    form: str
    ns: str
    value: str


class Act(NamedTuple):
    """One upkeep event's word on one target; the last three fields are its moment."""

    target: Target
    seq: int
    undo: bool
    evicted: bool
    time: str
    turn: int
    id: str


class Named(Protocol):
    """What tells one event from all others."""

    @property
    def seq(self) -> int: ...
    @property
    def id(self) -> str: ...


class TouchAct(NamedTuple):
    """One event that a touch named, and when: from then on its importance fades anew."""

    id: str
    seq: int
    ts: str


def touches_of(event: Event) -> list[TouchAct]:
    """Return what a touch event names; nothing for other kinds."""
    if event.kind != "touch":
        return []
    return [TouchAct(ref, event.seq, event.ts) for ref in dict.fromkeys(event.refs)]


def acts_of(event: Event, at: Moment) -> list[Act]:
    """Return what a forget or pin event does; nothing for other kinds or data we do not know."""
    if event.kind == "pin":
        undo = bool(event.data.get("undo", False))
        return [Act(Target("pin", "", ref), event.seq, undo, False, *at) for ref in event.refs]
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
    evicted = event.data.get("reason") == EVICTED
    return [Act(target, event.seq, named.undo, evicted, *at) for target in targets]


class Acts:
    """Every forget and pin so far, by what they name; answers for any event of the log."""

    __slots__ = ("_by_target", "_pinned", "late", "latest")

    def __init__(self) -> None:
        self._by_target: dict[Target, list[_Said]] = {}
        self._pinned: dict[str, Target] = {}  # what any pin named, by id
        self.latest: dict[str, Moment] = {}  # of all forgets, of all pins: by kind
        self.late: set[int] = set()  # seqs of those that came when later ones were here

    def __iter__(self) -> Iterator[Act]:
        """Yield all acts, by target and seq."""
        for target in sorted(self._by_target):
            for said in self._by_target[target]:
                yield Act(target, *said)

    def add(self, act: Act) -> None:
        """Take one more act; acts come in log order."""
        target, fields = act.target, act[1:]
        said = self._by_target.setdefault(target, [])
        if target.form == "pin":
            self._pinned[target.value] = target
        # One event may name a thing twice.
        if not said or said[-1][0] != act.seq:
            said.append(fields)
        kind, at = "pin" if target.form == "pin" else "forget", Moment(*fields[_AT:])
        latest = self.latest.get(kind)
        if latest is None or at >= latest:
            self.latest[kind] = at
        else:
            self.late.add(act.seq)

    def gone_by(
        self,
        seq: int,
        event_id: str,
        session: str | None,
        place: tuple[str, str] | None,
        *,
        until: int | None,
        upto: int,
    ) -> tuple[str, int] | None:
        """Return `forgotten` or `evicted` and the seq of the forget that holds as of `upto`.

        None where none does. `place` is its namespace and key; `until` the seq that superseded
        it there, behind which a forget of the key means another event.
        """
        last = self.last_on(seq, event_id, session, place, until=until, upto=upto)
        if last is None or last[1]:
            return None
        return EVICTED if last[2] else "forgotten", last[0]

    def last_on(
        self,
        seq: int,
        event_id: str,
        session: str | None,
        place: tuple[str, str] | None,
        *,
        until: int | None,
        upto: int,
    ) -> _Said | None:
        """Return the last word on an event as of `upto`, be it a forget or one taken back."""
        if not self._by_target:
            return None
        last: _Said | None = None
        for target in _names_of(event_id, session, place):
            bound = until if target.form == "key" and until is not None else upto
            found = self._last(target, seq, min(bound, upto))
            if found is not None and (last is None or found[_AT:] > last[_AT:]):
                last = found
        return last

    def pinned(self, seq: int, event_id: str, *, upto: int) -> bool:
        """Whether the last pin that names the event as of `upto` was not taken back."""
        found = self.last_pin(seq, event_id, upto=upto)
        return found is not None and not found[1]

    def pins(self, after: int, upto: int) -> list[tuple[str, int]]:
        """Return what pins hold that came behind a seq, with the seq of each, newest first.

        A second pin of what is pinned changes nothing.
        """
        found = []
        for id_, target in self._pinned.items():
            at = 0
            for said in sorted(self._by_target[target], key=_moment, reverse=True):
                if said[0] <= upto:
                    if said[1]:  # taken back
                        break
                    at = said[0]
            if at > after:
                found.append((id_, at))
        return sorted(found, key=lambda one: (-one[1], one[0]))

    def last_pin(self, seq: int, event_id: str, *, upto: int) -> _Said | None:
        """Return the last pin, or word that takes one back, that names the event as of `upto`."""
        return self._last(Target("pin", "", event_id), seq, upto) if self._by_target else None

    def _last(self, target: Target, after: int, upto: int) -> _Said | None:
        last: _Said | None = None
        for said in reversed(self._by_target.get(target, ())):
            if said[0] <= after:
                break
            if said[0] <= upto and (last is None or said[_AT:] > last[_AT:]):
                last = said
        return last


def _moment(said: _Said) -> tuple[object, ...]:
    return said[_AT:]


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
