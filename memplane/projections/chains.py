"""Every keyed event as a chain of values: the records behind `memories`, and their fold.

The state only grows: one record for each keyed event, one act for each forget and pin, one row for
each touched event. What is current, superseded, forgotten or evicted is computed from these rows,
as of any seq. So records in the cache file never change, and folding further only adds.

A value that came from another plane may be older than the one in force when it arrives
(`projections.order`): it is superseded on arrival, and its record names the event that supersedes
it. The records without such a name therefore rise in the order between planes, and the last of them
as of a seq is the value as of then.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from memplane.event import Event
from memplane.ports import Line
from memplane.projections.acts import Act, Acts, Target, TouchAct, acts_of, touches_of
from memplane.projections.order import KEYLESS_KINDS, Moment, moment_of
from memplane.projections.projector import canonical

__all__ = [
    "LATE",
    "Chains",
    "KeyValueRow",
    "MemoryChains",
    "Record",
    "Rows",
    "moment_in",
    "settle_values",
]

# The fields of `Row` up to `end`, as they are stored, the event's moment (time and turn), and the
# seq of the value that superseded it on arrival, 0 where none did. Plain tuples: one an event.
Record: TypeAlias = tuple[Any, ...]
SEQ, ID, SESSION, TIME, TURN, LATE = 2, 3, 6, 15, 16, 17


class KeyValueRow(NamedTuple):
    """One value that a key had, and where the event stands in the log.

    `reason` is None while it is in force, else `superseded`, `forgotten` or `evicted`
    (which outweigh superseded), and `by_seq` the event that made it so.
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
    reason: str | None
    by_seq: int | None
    pinned: bool


class Rows(NamedTuple):
    """What was folded, in the order of the canonical dump."""

    records: list[Record]
    acts: list[Act]
    touches: list[TouchAct]

    def dump(self) -> bytes:
        """Return the canonical bytes."""
        return canonical(self._asdict())


class Chains:
    """The state: records by namespace and key in log order, the acts, and the touches by id."""

    __slots__ = ("_sorted", "acts", "filed", "records", "touches")

    def __init__(self) -> None:
        self.records: dict[str, dict[str, list[Record]]] = {}
        self.acts = Acts()
        self.touches: dict[str, list[TouchAct]] = {}
        # The last values of keys whose records are elsewhere, as far as a fold needs them.
        self.filed: dict[tuple[str, str], Record] = {}
        self._sorted: dict[str, list[str]] = {}  # keys in order, where somebody asked for them

    def add(self, record: Record) -> None:
        """File one record; records come in log order."""
        ns, key = record[0], record[1]
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

    def chain(self, ns: str, key: str, upto: int) -> list[Record]:
        """Return the values of a key, oldest first, as of `upto`."""
        chain = self.records.get(ns, {}).get(key, [])
        if not chain or chain[-1][SEQ] <= upto:
            return chain
        return [record for record in chain if record[SEQ] <= upto]

    def newest(self, ns: str, key: str, upto: int) -> Record | None:
        """Return the value of a key as of `upto`, forgotten or not."""
        for record in reversed(self.records.get(ns, {}).get(key, ())):
            if record[SEQ] <= upto and not record[LATE]:
                return record
        return None

    def last(self, ns: str, key: str) -> Record | None:
        """Return the value of a key now, also where its records are elsewhere."""
        by_key = self.records.get(ns)
        chain = None if by_key is None else by_key.get(key)
        if chain is not None:
            for record in reversed(chain):
                if not record[LATE]:
                    return record
        return self.filed.get((ns, key)) if self.filed else None

    def page(self, ns: str, start: str, prefix: str, upto: int) -> Iterator[Record]:
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

    def since(self, seq: int) -> list[Record]:
        """Return the records behind a seq, in (ns, key, seq) order."""
        return [
            record
            for ns in sorted(self.records)
            for key in sorted(self.records[ns])
            for record in self.records[ns][key]
            if record[SEQ] > seq
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
        for record in sorted(map(tuple, fields["records"]), key=lambda record: int(record[SEQ])):
            state.add(record)
        acts = [Act(Target(*target), *said) for target, *said in fields["acts"]]
        for act in sorted(acts, key=lambda act: act.seq):
            state.acts.add(act)
        for touch in fields["touches"]:
            state.touch(TouchAct(*touch))
        return state


def settle_values(chain: Sequence[Record], acts: Acts, upto: int) -> list[KeyValueRow]:
    """Say of each value of one key what became of it as of `upto`: the one in force is the last.

    `chain` is in the order of the log; the answer is in that of the values' moments.
    """
    rows: list[tuple[Moment, KeyValueRow]] = []
    follower = 0  # the seq of the value that took the next one's place
    for record in reversed(chain):
        seq, late, place = record[SEQ], record[LATE], (record[0], record[1])
        # One that was superseded on arrival never was what a forget of the key means.
        until, by = (seq, late) if late else (follower, follower)
        gone = acts.gone_by(seq, record[ID], record[SESSION], place, until=until or None, upto=upto)
        reason, by_seq = gone or (("superseded", by) if by else (None, None))
        pinned = acts.pinned(seq, record[ID], upto=upto)
        row = KeyValueRow._make((*record[:TIME], reason, by_seq, pinned))
        rows.append((moment_in(record), row))
        follower = follower if late else seq
    rows.sort(key=lambda each: each[0])
    return [row for _, row in rows]


def moment_in(record: Record) -> Moment:
    """The moment of the value that the record is of."""
    return Moment(record[TIME], record[TURN], record[ID])


def _record(event: Event, key: str, line: Line, before: Record | None) -> Record:
    moment = moment_of(event, None if before is None else moment_in(before))
    late = 0 if before is None or moment > moment_in(before) else before[SEQ]
    return (
        event.ns,
        key,
        event.seq,
        event.id,
        event.kind,
        event.role,
        event.session,
        event.task,
        event.sensitivity,
        event.valid_from,
        event.valid_until,
        event.importance,
        line.segment,
        line.offset,
        line.end,
        moment.time,
        moment.turn,
        late,
    )
