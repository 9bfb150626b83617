"""The system map: how much of each kind a memory holds, and the names under which things are filed.

Each name keeps witnesses, events that said it, by origin, so that a reader who may see none of them
does not get the name; each count keeps where it passed its steps, so the map can be composed as of
any seq.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from json.encoder import encode_basestring
from typing import Any, Final

from memplane.event import GLOBAL, TYPED_KINDS, UPKEEP_KINDS, Event, is_derived, is_extract
from memplane.harness import TURN_TAGS
from memplane.lazy import NamedTuple
from memplane.ports import Line
from memplane.projections.groups import Grouped, Groups, Sees, share_of
from memplane.projections.in_force import forget_of
from memplane.projections.projector import canonical
from memplane.projections.tasks import CLOSED, status_of, task_of

# The names that are kept, and how many of each sort. `keys`: the word before the first dot.
SORTS: Final = {"tasks": 40, "keys": 40, "tags": 24, "namespaces": 40, "tools": 24}
_ROW_BYTES: Final = 100

# 0, 1, 2, 3, 5, 10, 20, 30, 50, 100 and so on.
STEPS: Final[tuple[int, ...]] = (
    0,
    *(step * 10**power for power in range(19) for step in (1, 2, 3, 5)),
)


class NameSource(NamedTuple):
    """An event that said a name."""

    seq: int
    id: str
    ts: str
    session: str | None
    key: str | None
    forgotten: bool = False


class Cell:
    """What of a name comes from one origin. `first`: the seq from which on it may be told.

    `live` are the sessions of the witnesses that are not forgotten: what each event is asked.
    """

    __slots__ = ("first", "kind", "live", "ns", "sensitivity", "witnesses")

    def __init__(self, origin: tuple[str, str, str], first: int) -> None:
        self.kind, self.sensitivity, self.ns = origin
        self.first = first
        self.witnesses: list[NameSource] = []
        self.live: list[str | None] = []

    def settle(self) -> None:
        """Bring `live` up to the witnesses."""
        self.live = [one.session for one in self.witnesses if not one.forgotten]


class Name:
    """One name. `turns`: of a task, the seqs at which it was closed and opened again by turns."""

    __slots__ = ("cells", "last", "turns")

    def __init__(self, last: int) -> None:
        self.cells: dict[tuple[str, str, str], Cell] = {}
        self.last = last
        self.turns: list[int] = []

    def is_open(self, upto: int) -> bool:
        """Whether a task was open as of a seq."""
        return bisect_right(self.turns, upto) % 2 == 0


class MapState:
    """The fold's state. Read it, never write it, outside `PlaneMap`."""

    __slots__ = (
        "by_key",
        "bytes",
        "counts",
        "known",
        "names",
        "seen",
        "sessions",
        "shed_seq",
        "tried",
    )

    def __init__(self) -> None:
        # Seqs at which a count reached each step; the count comes first.
        self.counts: dict[tuple[str, str], list[int]] = {}
        self.sessions: list[int] = [0]
        self.seen: dict[str, str] = {}  # hashes of sessions, the latest last, with their ids
        self.known: set[str] = set()  # ids of these, as far as they were met; asked only
        self.names: dict[str, dict[str, Name]] = {sort: {} for sort in SORTS}
        self.tried: dict[str, dict[str, int]] = {sort: {} for sort in SORTS}  # how often said
        self.by_key: dict[tuple[str, str], list[Cell]] = {}  # witnesses that have a key
        self.shed_seq = 0
        self.bytes = 0

    def count(self, kind: str, levels: frozenset[str], upto: int) -> int:
        """At least so many events of a kind, but those of these sensitivities, as of a seq."""
        return sum(
            _reached(row, upto)
            for (of, sensitivity), row in self.counts.items()
            if of == kind and sensitivity not in levels
        )

    def session_count(self, upto: int) -> int:
        """At least so many sessions as of a seq."""
        return _reached(self.sessions, upto)

    def hold(self, cell: Cell, witness: NameSource) -> None:
        """Add a witness to a name."""
        cell.witnesses.append(witness)
        self.bytes += _size(witness)
        if witness.key is not None:
            self.by_key.setdefault((cell.ns, witness.key), []).append(cell)

    def let_go(self, cell: Cell, witness: NameSource) -> None:
        """Take a witness away."""
        cell.witnesses.remove(witness)
        self.bytes -= _size(witness)
        if witness.key is not None:
            place = (cell.ns, witness.key)
            cells = self.by_key[place]
            cells.remove(cell)
            if not cells:
                del self.by_key[place]


def joined_maps(states: Sequence[MapState]) -> MapState:
    """What the maps of several groups are for who sees them all: read, never folded on."""
    if len(states) == 1:
        return states[0]
    both = MapState()
    for one in states:
        for origin, row in one.counts.items():
            both.counts[origin] = row
        both.shed_seq = max(both.shed_seq, one.shed_seq)
        for sort, names in one.names.items():
            for name, told in names.items():
                both.names[sort][name] = _named(both.names[sort].get(name), told)
    # A session may be of several groups: there are at least so many as one of them has.
    reached = max((len(one.sessions) for one in states), default=1)
    both.sessions = [0] + [
        min(one.sessions[at] for one in states if at < len(one.sessions))
        for at in range(1, reached)
    ]
    return both


def _named(before: Name | None, told: Name) -> Name:
    """One name as two groups say it: who said it first also knows how often it was closed since."""
    if before is None:
        return told
    both = Name(max(before.last, told.last))
    both.cells = {**before.cells, **told.cells}
    both.turns = min(before, told, key=_first).turns
    return both


def _first(told: Name) -> int:
    return min((cell.first for cell in told.cells.values()), default=told.last)


def _reached(row: list[int], upto: int) -> int:
    return STEPS[bisect_right(row, upto, lo=1) - 1]


def _size(witness: NameSource) -> int:
    return _ROW_BYTES + _bytes(f"{witness.id}{witness.session}{witness.key}")


def cell_size(cell: Cell) -> int:
    """Bytes of an origin in the file, at most, without its witnesses."""
    return _ROW_BYTES + _bytes(cell.ns)


def name_size(name: str) -> int:
    """Bytes of a name in the file, at most, without its origins."""
    return 2 * _ROW_BYTES + _bytes(name)


def _bytes(text: str) -> int:
    quoted = encode_basestring(text)
    return len(quoted) if quoted.isascii() else len(quoted.encode("utf-8", "surrogatepass"))


# What is in this memory: how much of each kind, and the names under which things are filed.
#
# All of it can be told as of any earlier seq, so the head of a session's blocks stays the same: of
# a name is kept where it was first said, of a count where it passed 1, 2, 3, 5, 10, 20, 30, 50 and
# so on. A name stands with witnesses, events that said it, by origin (kind, sensitivity,
# namespace): who may see none of them is not told the name. Counts are told to whoever may see the
# kind.
#
# Bounds, in each group of events that are open to the same readers (`groups`): so many names of
# each sort, `ORIGINS_MAX` origins of a name, two witnesses of an origin, `bytes_max` of JSON. Where
# a sort has no place left, a name must be said `SAYINGS` times to take that of the one that was
# said longest ago (of tasks, a closed one before others); so names that occur once, such as hashes
# as tags, move nothing. `shed_seq` is the event at which one last went.

SAYINGS: Final = 3
TRIED: Final = 24  # names of a sort that wait for a place
SESSIONS_SEEN: Final = 256  # one that comes back after so many others counts again
ORIGINS_MAX: Final = 16
TURNS_MAX: Final = 6  # of a task, from open to closed or back
NAME_MAX: Final = 80  # characters
BYTES_MAX: Final = 448 * 1024
_UNKEPT: Final = frozenset((*UPKEEP_KINDS, "secret"))
_TYPED: Final = frozenset(TYPED_KINDS)


class PlaneMap:
    """The projector of one group. What has another group comes as a secret."""

    name = "plane_map"
    version = 4
    kinds_asked = frozenset(("secret", "summary"))  # `keeps` is true of all others

    def __init__(self, *, names_max: int | None = None, bytes_max: int = BYTES_MAX) -> None:
        self.most = {sort: min(most, names_max or most) for sort, most in SORTS.items()}
        self.bytes_max = bytes_max

    def initial(self) -> MapState:
        return MapState()

    def apply(self, state: MapState, line: Line) -> None:  # noqa: C901, PLR0912 - a kind, a branch
        # Every event of the log passes here.
        event = line.event
        seq, kind, ns, key, session = event.seq, event.kind, event.ns, event.key, event.session
        sensitivity = event.sensitivity
        if kind in _UNKEPT:
            if kind == "forget":
                _forget(state, event)
            elif key is not None and kind == "secret":
                _supersede(state, event)
            return
        if key is not None and kind != "session":
            _supersede(state, event)
        if sensitivity == "secret" or (kind == "summary" and is_extract(event)):
            if kind == "task":  # hidden or not, it closes the task for everyone
                _turn(state, event)
            return
        if ns == GLOBAL or not ns.startswith("/agent/"):
            if kind != "session":
                row = state.counts.get((kind, sensitivity))
                if row is None:
                    row = state.counts[kind, sensitivity] = [0]
                _add(row, seq)
            if session is not None and session not in state.known:
                _meet(state, session, seq)
        if kind == "session":
            return
        # There are many of tasks, and tasks have a line of their own.
        if ns == GLOBAL or not ns.startswith("/task/"):
            self._say(state, "namespaces", ns, event)
        if kind == "tool_call":
            self._say(state, "tools", event.data.get("tool"), event)
        elif kind == "task":
            self._say(state, "tasks", task_of(event), event)
            _turn(state, event)
        elif key is not None and kind in _TYPED:
            prefix, dot, _ = key.partition(".")
            self._say(state, "keys", prefix if dot else None, event)
        for tag in () if is_derived(event) else event.tags:
            if tag not in TURN_TAGS:
                self._say(state, "tags", tag, event)

    def keeps(self, event: Event) -> bool:
        """Whether the event may say a name or be counted: all that is no summary of others."""
        return not (event.kind == "secret" or (event.kind == "summary" and is_extract(event)))

    def dump(self, state: MapState) -> bytes:
        return canonical(self.fields(state))

    def fields(self, state: MapState) -> dict[str, Any]:
        """The state as JSON values."""
        return {
            "shed": state.shed_seq,
            "counts": [[*origin, *row] for origin, row in state.counts.items()],
            "sessions": state.sessions,
            "seen": list(state.seen),
            "tried": [list(tried.items()) for tried in state.tried.values()],
            "names": [
                [
                    sort,
                    name,
                    told.last,
                    told.turns,
                    [
                        [*origin, cell.first, *map(_source_row, cell.witnesses)]
                        for origin, cell in told.cells.items()
                    ],
                ]
                for sort, names in state.names.items()
                for name, told in names.items()
            ],
        }

    def load(self, data: bytes) -> MapState:
        return self.of(json.loads(data))

    def of(self, fields: dict[str, Any]) -> MapState:
        """The state that `fields` gave."""
        state = MapState()
        state.shed_seq = fields["shed"]
        state.counts = {(kind, level): row for kind, level, *row in fields["counts"]}
        state.sessions = fields["sessions"]
        state.seen = dict.fromkeys(fields["seen"], "")
        for tried, rows in zip(state.tried.values(), fields["tried"], strict=True):
            tried.update(rows)
        for sort, name, last, turns, cells in fields["names"]:
            told = state.names[sort][name] = Name(last)
            told.turns = turns
            state.bytes += name_size(name)
            for kind, level, ns, first, *witnesses in cells:
                origin = (kind, level, ns)
                cell = told.cells[origin] = Cell(origin, first)
                state.bytes += cell_size(cell)
                for row in witnesses:
                    source = NameSource(*row)
                    state.hold(cell, source._replace(forgotten=bool(source.forgotten)))
                cell.settle()
        return state

    def _say(self, state: MapState, sort: str, name: object, event: Event) -> None:
        """Note that the event says the name, if it is one."""
        if not isinstance(name, str):
            return
        names = state.names[sort]
        told = names.get(name)
        if told is None:
            if not name or len(name) > NAME_MAX or self._waits(state, sort, name):
                return
            told = names[name] = Name(event.seq)
            state.bytes += name_size(name)
        told.last = event.seq
        cell = told.cells.get((event.kind, event.sensitivity, event.ns))
        if cell is not None and cell.live and (len(cell.live) > 1 or cell.live[0] == event.session):
            return  # most events
        _witness(state, told, event)
        if len(names) > self.most[sort]:
            _shed(state, event.seq, sort)
        while state.bytes > self.bytes_max and _shed(state, event.seq):
            pass

    def _waits(self, state: MapState, sort: str, name: str) -> bool:
        """Whether a new name has to be said again before it takes another's place."""
        if sort == "tasks" or len(state.names[sort]) < self.most[sort]:
            return False
        tried = state.tried[sort]
        said = tried.pop(name, 0) + 1
        if said < SAYINGS:
            tried[name] = said
            if len(tried) > TRIED:
                del tried[next(iter(tried))]
        return said < SAYINGS


class MapsState(Groups[MapState]):
    """The maps of all groups."""

    __slots__ = ()

    def seen(self, sees: Sees | None = None) -> MapState:
        """The map of a reader; None: of all groups. What he does not see shapes nothing of it."""
        return joined_maps(self.among(sees))


class PlaneMaps(Grouped[MapState]):
    """The projector of the maps of all groups."""

    states = MapsState

    def __init__(self, *, only: Sees | None = None) -> None:
        super().__init__(lambda group: PlaneMap(bytes_max=share_of(group, BYTES_MAX)), only=only)


def _meet(state: MapState, session: str, seq: int) -> None:
    """Count a session that is not known, or not any more."""
    hashed = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    seen = state.seen
    if hashed not in seen:
        _add(state.sessions, seq)
    seen[hashed] = session
    state.known.add(session)
    if len(seen) > SESSIONS_SEEN:
        state.known.discard(seen.pop(next(iter(seen))))


def _add(row: list[int], seq: int) -> None:
    row[0] += 1
    if row[0] == STEPS[len(row)]:
        row.append(seq)


def _turn(state: MapState, event: Event) -> None:
    """Note that the event closes its task, or opens it again."""
    told = state.names["tasks"].get(task_of(event) or "")
    status = status_of(event)
    if told is None or status is None or (status in CLOSED) == (len(told.turns) % 2 == 1):
        return
    told.turns.append(event.seq)
    if len(told.turns) > TURNS_MAX:
        # What lies before is told as if it had been open from the first on.
        state.shed_seq = event.seq
        del told.turns[:2]


def _witness(state: MapState, told: Name, event: Event) -> None:
    """Take the event as a witness of the name, whose origin has none of its session, or no two."""
    origin = (event.kind, event.sensitivity, event.ns)
    cell = told.cells.get(origin)
    if cell is None:
        if len(told.cells) == ORIGINS_MAX:
            return
        cell = told.cells[origin] = Cell(origin, event.seq)
        state.bytes += cell_size(cell)
    # What has a time to begin or to end is no witness: the name would come and go with the clock.
    if event.valid_from is not None or event.valid_until is not None:
        return
    if not cell.live:
        cell.first = event.seq
    for one in [one for one in cell.witnesses if one.forgotten]:
        state.let_go(cell, one)
    said = NameSource(event.seq, event.id, event.ts, event.session, event.key)
    state.hold(cell, said)
    cell.settle()


def _source_row(one: NameSource) -> list[Any]:
    return [one.seq, one.id, one.ts, one.session, one.key, int(one.forgotten)]


def _supersede(state: MapState, event: Event) -> None:
    """What is replaced is no witness; its successor of the same origin stands in for it."""
    assert event.key is not None
    for cell in list(state.by_key.get((event.ns, event.key), ())):
        for old in [one for one in cell.witnesses if one.key == event.key]:
            at = cell.witnesses.index(old)
            state.let_go(cell, old)
            same = (event.kind, event.sensitivity) == (cell.kind, cell.sensitivity)
            timed = event.valid_from is not None or event.valid_until is not None
            if same and not timed and not old.forgotten:
                said = NameSource(event.seq, event.id, event.ts, event.session, event.key)
                state.hold(cell, said)
                cell.witnesses.insert(at, cell.witnesses.pop())
        cell.settle()


def _forget(state: MapState, event: Event) -> None:
    forget = forget_of(event)
    if forget is None:
        return
    for cell in _cells(state):
        cell.witnesses = [
            one._replace(forgotten=not forget.undo)
            if forget.names(one.id, one.session, (cell.ns, one.key))
            else one
            for one in cell.witnesses
        ]
        cell.settle()


def _cells(state: MapState) -> Iterator[Cell]:
    for names in state.names.values():
        for told in names.values():
            yield from told.cells.values()


def _shed(state: MapState, seq: int, sort: str | None = None) -> bool:
    """Drop the name of the sort, or of all, that was said longest ago; not the last one."""
    found = [
        (told.is_open(seq), told.last, of, name)
        for of, names in state.names.items()
        if sort in (None, of)
        for name, told in names.items()
        if name != GLOBAL
    ]
    if len(found) < 2:
        return False
    _, _, of, name = min(found)
    told = state.names[of].pop(name)
    state.shed_seq = seq
    for cell in told.cells.values():
        for one in list(cell.witnesses):
            state.let_go(cell, one)
        state.bytes -= cell_size(cell)
    state.bytes -= name_size(name)
    return True
