"""What is in force: forgets, pins, touches and later values, as of any seq of the log.

Every projection, the index mask and every single answer asks here whether an event was forgotten or
replaced, and whether it is within its time, so all of them agree. What a reader may not see is
decided in `recall.suppress`, from the flags that are set by these rules.

**Between planes.** The order of values of a key that come from several planes is a hybrid logical
clock (Kulkarni et al. 2014). A value's time is the largest `ts` of its namespace and key in its own
plane, up to and with it. Between planes the later (time, id) is in force; inside one plane its own
order stays, so a value that is dated before the one it superseded has the time of that one and a
higher `turn`. That is a total order which every plane computes by itself, so planes that were
merged in any order, any number of times, have the same values in force. What is recorded in a plane
is later than all that the plane has by then, also of others: a correction acts at once. What comes
from another plane says so in `data.origin`::

    {"plane": "01J…", "seq": 41, "time": "2026-01-05T12:00:00.000000Z", "turn": 1}

with time and turn only where they are not its `ts` and 0. Forgets, pins, approvals and changes of
a task are ordered in the same way, among those of their kind or task.

**A forget** is an event whose `data.forget` is one of `{"key": k, "ns": ns}`, `{"ids": [..]}`,
`{"session": s}` and `{"source": prefix}` (ids that begin with `prefix:`). With `data.undo` it takes
a forget back; with `data.reason` `evicted` it archives as any other, and only its word differs. A
pin names ids in `refs`, a touch likewise. They act on events with a lower seq only; the last one
that names an event holds.

**Chains.** The fold (`MemoryChains`) only adds: one record for each keyed event, one act for each
target of a forget or pin, one row for each touched event. What is current, superseded, forgotten or
evicted is computed from these rows, as of any seq, so rows in the cache file never change. A value
from another plane may be older than the one in force when it arrives: it is superseded on arrival,
and its record names (`late`) the event that supersedes it. The records without such a name
therefore rise in the order between planes, and the last of them as of a seq is the value as of
then.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from memplane.event import GLOBAL, UPKEEP_KINDS, Event
from memplane.lazy import NamedTuple, Protocol
from memplane.ports import Line
from memplane.projections.projector import canonical

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
    return place_of(event)


def place_of(event: Event) -> Place | None:
    """The namespace and key under which the event supersedes, and is superseded; None: neither."""
    if event.key is None or event.kind in KEYLESS_KINDS:
        return None
    return event.ns, event.key


class VisibleFields(NamedTuple):
    """What a scope asks of an event, where the event itself is not at hand.

    As it stands, of one that is neither replaced nor forgotten, and holds at any time.
    """

    seq: int
    id: str
    ts: str
    kind: str
    ns: str
    sensitivity: str
    valid_from: str | None = None
    valid_until: str | None = None
    superseded: bool = False
    forgotten: bool = False


class Timed(Protocol):
    """What holds from one time until another."""

    @property
    def valid_from(self) -> str | None: ...
    @property
    def valid_until(self) -> str | None: ...


def out_of_time(event: Timed, now: str) -> str | None:
    """Return `expired` behind `valid_until`, `pending` before `valid_from`, None within.

    Both bounds are inside. `now` is a time in the form of events: RFC 3339 in UTC with six
    decimals, so that times compare as texts.
    """
    if event.valid_until is not None and event.valid_until < now:
        return "expired"
    return "pending" if event.valid_from is not None and event.valid_from > now else None


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


# Forgets: what one names, and the flag that it sets on records of earlier events.


class Forgettable(Protocol):
    """What a projection keeps of an event, as far as a forget may name it."""

    forgotten: bool

    @property
    def id(self) -> str: ...
    @property
    def session(self) -> str | None: ...
    @property
    def ns(self) -> str: ...
    @property
    def key(self) -> str | None: ...


Kept = TypeVar("Kept", bound=Forgettable)


class Forget(NamedTuple):
    """A parsed `forget` event; exactly one of key, ids, session and source is set."""

    undo: bool
    key: str | None = None
    ns: str = GLOBAL
    ids: frozenset[str] = frozenset()
    session: str | None = None
    source: str | None = None

    def names(
        self,
        id: str,  # noqa: A002 - the field's name
        session: str | None,
        place: tuple[str, str | None] | None = None,
    ) -> bool:
        """Whether it names the event of this id and session.

        `place`: its namespace and key, None where a forget by key cannot mean it. The caller
        compares seqs, and sees to it that the place is that of the value in force.
        """
        if self.key is not None:
            return place == (self.ns, self.key)
        if self.session is not None:
            return session == self.session
        if self.source is not None:
            return id.startswith(f"{self.source}:")
        return id in self.ids

    def mark(self, records: Iterable[Kept]) -> list[Kept]:
        """Flag those of the records that it names as forgotten, or not any more; return them."""
        named = [one for one in records if self.names(one.id, one.session, (one.ns, one.key))]
        for one in named:
            one.forgotten = not self.undo
        return named


def forget_of(event: Event) -> Forget | None:
    """Parse a `forget` event; None where its data names nothing (an event of a newer memplane)."""
    named = event.data.get("forget")
    if not isinstance(named, dict):
        return None
    undo = bool(event.data.get("undo", False))
    match named:
        case {"key": str(key)}:
            ns = named.get("ns", GLOBAL)
            return Forget(undo, key=key, ns=ns if isinstance(ns, str) else GLOBAL)
        case {"ids": list(ids)}:
            return Forget(undo, ids=frozenset(id_ for id_ in ids if isinstance(id_, str)))
        case {"session": str(session)}:
            return Forget(undo, session=session)
        case {"source": str(source)}:
            return Forget(undo, source=source)
        case _:
            return None


# Acts: forgets, pins and touches, filed under what they name. Folding an act changes no event: it
# is read together with the event, up to the seq as of which somebody asks.

EVICTED: Final = "evicted"  # why a forget was written, in its data; and the archive's word for it


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

    @property
    def moment(self) -> Moment:
        """By which it is ordered among forgets or among pins, also of other planes."""
        return Moment(self.time, self.turn, self.id)


class Archived(NamedTuple):
    """Why an event is out of force: `superseded`, `forgotten` or `evicted`, and by which seq."""

    reason: str
    by_seq: int


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
        self._by_target: dict[Target, list[Act]] = {}
        self._pinned: dict[str, Target] = {}  # what any pin named, by id
        self.latest: dict[str, Moment] = {}  # of all forgets, of all pins: by kind
        self.late: set[int] = set()  # seqs of those that came when later ones were here

    def __iter__(self) -> Iterator[Act]:
        """Yield all acts, by target and seq."""
        for target in sorted(self._by_target):
            yield from self._by_target[target]

    def add(self, act: Act) -> None:
        """Take one more act; acts come in log order."""
        target = act.target
        said = self._by_target.setdefault(target, [])
        if target.form == "pin":
            self._pinned[target.value] = target
        # One event may name a thing twice.
        if not said or said[-1].seq != act.seq:
            said.append(act)
        kind, at = "pin" if target.form == "pin" else "forget", act.moment
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
    ) -> Archived | None:
        """Return `forgotten` or `evicted` and the seq of the forget that holds as of `upto`.

        None where none does. `place` is its namespace and key; `until` the seq that superseded
        it there, behind which a forget of the key means another event.
        """
        last = self.last_on(seq, event_id, session, place, until=until, upto=upto)
        if last is None or last.undo:
            return None
        return Archived(EVICTED if last.evicted else "forgotten", last.seq)

    def last_on(
        self,
        seq: int,
        event_id: str,
        session: str | None,
        place: tuple[str, str] | None,
        *,
        until: int | None,
        upto: int,
    ) -> Act | None:
        """Return the last word on an event as of `upto`, be it a forget or one taken back."""
        if not self._by_target:
            return None
        last: Act | None = None
        for target in _names_of(event_id, session, place):
            bound = until if target.form == "key" and until is not None else upto
            found = self._last(target, seq, min(bound, upto))
            if found is not None and (last is None or found.moment > last.moment):
                last = found
        return last

    def pinned(self, seq: int, event_id: str, *, upto: int) -> bool:
        """Whether the last pin that names the event as of `upto` was not taken back."""
        found = self.last_pin(seq, event_id, upto=upto)
        return found is not None and not found.undo

    def pins(self, after: int, upto: int) -> list[tuple[str, int]]:
        """Return what pins hold that came behind a seq, with the seq of each, newest first.

        A second pin of what is pinned changes nothing.
        """
        found = []
        for id_, target in self._pinned.items():
            at = 0
            for said in sorted(self._by_target[target], key=_moment, reverse=True):
                if said.seq <= upto:
                    if said.undo:  # taken back
                        break
                    at = said.seq
            if at > after:
                found.append((id_, at))
        return sorted(found, key=lambda one: (-one[1], one[0]))

    def last_pin(self, seq: int, event_id: str, *, upto: int) -> Act | None:
        """Return the last pin, or word that takes one back, that names the event as of `upto`."""
        return self._last(Target("pin", "", event_id), seq, upto) if self._by_target else None

    def _last(self, target: Target, after: int, upto: int) -> Act | None:
        last: Act | None = None
        for said in reversed(self._by_target.get(target, ())):
            if said.seq <= after:
                break
            if said.seq <= upto and (last is None or said.moment > last.moment):
                last = said
        return last


def _moment(act: Act) -> Moment:
    return act.moment


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


# Chains: the values of each key in log order, and what became of each.


class KeyValueRow(NamedTuple):
    """One value that a key had, where its event stands in the log, and what became of it.

    Up to `late` it is what is stored, and never changes: `time` and `turn` are of the event's
    moment; `late` is the seq of the value that superseded it on arrival, 0 where none did. The rest
    is set by `settle_values` as of a seq: `reason` is None while the value is in force, else
    `superseded`, `forgotten` or `evicted` (which outweigh superseded), and `by_seq` the event that
    made it so.
    """

    ns: str
    key: str
    seq: int
    id: str
    kind: str
    role: str | None
    session: str | None
    task: str | None
    sensitivity: str
    valid_from: str | None
    valid_until: str | None
    importance: int
    segment: int
    offset: int
    end: int
    time: str
    turn: int
    late: int
    reason: str | None = None
    by_seq: int | None = None
    pinned: bool = False

    @property
    def moment(self) -> Moment:
        """By which it is ordered among the values of its key, also of other planes."""
        return Moment(self.time, self.turn, self.id)

    @property
    def stored(self) -> tuple[Any, ...]:
        """The columns of the cache file and of the canonical dump."""
        return self[:_STORED]


_STORED: Final = KeyValueRow._fields.index("late") + 1


class Rows(NamedTuple):
    """What was folded, in the order of the canonical dump."""

    records: list[KeyValueRow]
    acts: list[Act]
    touches: list[TouchAct]

    def dump(self) -> bytes:
        """Return the canonical bytes."""
        records = [record.stored for record in self.records]
        return canonical({"records": records, "acts": self.acts, "touches": self.touches})


class Chains:
    """The state: records by namespace and key in log order, the acts, and the touches by id."""

    __slots__ = ("_sorted", "acts", "filed", "records", "touches")

    def __init__(self) -> None:
        self.records: dict[str, dict[str, list[KeyValueRow]]] = {}
        self.acts = Acts()
        self.touches: dict[str, list[TouchAct]] = {}
        # The last values of keys whose records are elsewhere, as far as a fold needs them.
        self.filed: dict[tuple[str, str], KeyValueRow] = {}
        self._sorted: dict[str, list[str]] = {}  # keys in order, where somebody asked for them

    def add(self, record: KeyValueRow) -> None:
        """File one record; records come in log order."""
        ns, key = record.ns, record.key
        by_key = self.records.get(ns)
        if by_key is None:
            by_key = self.records[ns] = {}
        chain = by_key.get(key)
        if chain is None:
            by_key[key] = [record]
            self._sorted.pop(ns, None)
        else:
            chain.append(record)

    def touch(self, touch: TouchAct) -> None:
        """Take one more touch; touches come in log order."""
        self.touches.setdefault(touch.id, []).append(touch)

    def touched(self, id: str, upto: int) -> TouchAct | None:  # noqa: A002 - the field's name
        """Return the last touch of an event as of `upto`."""
        said = self.touches.get(id, ())
        return next((touch for touch in reversed(said) if touch.seq <= upto), None)

    def chain(self, ns: str, key: str, upto: int) -> list[KeyValueRow]:
        """Return the values of a key, oldest first, as of `upto`."""
        chain = self.records.get(ns, {}).get(key, [])
        if not chain or chain[-1].seq <= upto:
            return chain
        return [record for record in chain if record.seq <= upto]

    def newest(self, ns: str, key: str, upto: int) -> KeyValueRow | None:
        """Return the value of a key as of `upto`, forgotten or not."""
        for record in reversed(self.records.get(ns, {}).get(key, ())):
            if record.seq <= upto and not record.late:
                return record
        return None

    def last(self, ns: str, key: str) -> KeyValueRow | None:
        """Return the value of a key now, also where its records are elsewhere."""
        by_key = self.records.get(ns)
        chain = None if by_key is None else by_key.get(key)
        if chain is not None:
            for record in reversed(chain):
                if not record.late:
                    return record
        return self.filed.get((ns, key)) if self.filed else None

    def page(self, ns: str, start: str, prefix: str, upto: int) -> Iterator[KeyValueRow]:
        """Yield the value of each key of the namespace from `start` on, in order."""
        if ns not in self.records:
            return
        keys = self._sorted.get(ns)
        if keys is None:
            keys = self._sorted[ns] = sorted(self.records[ns])
        for at in range(bisect.bisect_left(keys, start), len(keys)):
            if not keys[at].startswith(prefix):
                return
            record = self.newest(ns, keys[at], upto)
            if record is not None:
                yield record

    def since(self, seq: int) -> list[KeyValueRow]:
        """Return the records behind a seq, in (ns, key, seq) order."""
        return [
            record
            for ns in sorted(self.records)
            for key in sorted(self.records[ns])
            for record in self.records[ns][key]
            if record.seq > seq
        ]

    def rows(self, after: int = 0) -> Rows:
        """Return everything behind a seq."""
        acts = [act for act in self.acts if act.seq > after]
        touches = [
            touch
            for id_ in sorted(self.touches)
            for touch in self.touches[id_]
            if touch.seq > after
        ]
        return Rows(self.since(after), acts, touches)


_ACTS: Final = ("forget", "pin")


class MemoryChains:
    """Folds the log into `Chains`."""

    name = "memories"
    version = 4
    kinds_read = frozenset(("forget", "pin", "touch"))

    def initial(self) -> Chains:
        """Return no chains."""
        return Chains()

    def apply(self, state: Chains, line: Line) -> None:
        """Add the record, the acts or the touches of one line."""
        event = line.event
        if event.kind in KEYLESS_KINDS:
            if event.kind in _ACTS:
                at = moment_of(event, state.acts.latest.get(event.kind))
                for act in acts_of(event, at):
                    state.acts.add(act)
            for touch in touches_of(event):
                state.touch(touch)
        elif event.key is not None:
            state.add(_record(event, event.key, line, state.last(event.ns, event.key)))

    def dump(self, state: Chains) -> bytes:
        """Return all records, acts and touches."""
        return state.rows().dump()

    def load(self, data: bytes) -> Chains:
        """Return the chains that were dumped."""
        fields = json.loads(data)
        state = Chains()
        for record in sorted((KeyValueRow(*row) for row in fields["records"]), key=_seq):
            state.add(record)
        acts = [Act(Target(*target), *said) for target, *said in fields["acts"]]
        for act in sorted(acts, key=_seq):
            state.acts.add(act)
        for touch in fields["touches"]:
            state.touch(TouchAct(*touch))
        return state


def settle_values(chain: Sequence[KeyValueRow], acts: Acts, upto: int) -> list[KeyValueRow]:
    """Say of each value of one key what became of it as of `upto`: the one in force is the last.

    `chain` is in the order of the log; the answer is in that of the values' moments.
    """
    rows: list[KeyValueRow] = []
    follower = 0  # the seq of the value that took the next one's place
    for record in reversed(chain):
        seq, late, place = record.seq, record.late, (record.ns, record.key)
        # One that was superseded on arrival never was what a forget of the key means.
        until, by = (seq, late) if late else (follower, follower)
        gone = acts.gone_by(seq, record.id, record.session, place, until=until or None, upto=upto)
        reason, by_seq = gone or (("superseded", by) if by else (None, None))
        pinned = acts.pinned(seq, record.id, upto=upto)
        rows.append(record._replace(reason=reason, by_seq=by_seq, pinned=pinned))
        follower = follower if late else seq
    rows.sort(key=lambda row: row.moment)
    return rows


def _seq(one: KeyValueRow | Act) -> int:
    return one.seq


def _record(event: Event, key: str, line: Line, before: KeyValueRow | None) -> KeyValueRow:
    moment = moment_of(event, None if before is None else before.moment)
    return KeyValueRow(
        ns=event.ns,
        key=key,
        seq=event.seq,
        id=event.id,
        kind=event.kind,
        role=event.role,
        session=event.session,
        task=event.task,
        sensitivity=event.sensitivity,
        valid_from=event.valid_from,
        valid_until=event.valid_until,
        importance=event.importance,
        segment=line.segment,
        offset=line.offset,
        end=line.end,
        time=moment.time,
        turn=moment.turn,
        late=0 if before is None or moment > before.moment else before.seq,
    )
