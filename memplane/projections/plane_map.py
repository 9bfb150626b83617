"""What is in this memory: how much of each kind, and the names under which things are filed.

All of it can be told as of any earlier seq, so the head of a session's blocks stays the same: of a
name is kept where it was first said, of a count where it passed 1, 2, 3, 5, 10, 20, 30, 50 and so
on. A name stands with witnesses, events that said it, by origin (kind, sensitivity, namespace): who
may see none of them is not told the name. Counts are told to whoever may see the kind.

Bounds, in each group of events that are open to the same readers (`groups`): so many names of each
sort, `ORIGINS_MAX` origins of a name, two witnesses of an origin, `bytes_max` of JSON. Where a sort
has no place left, a name must be said `SAYINGS` times to take that of the one that was said longest
ago (of tasks, a closed one before others); so names that occur once, such as hashes as tags, move
nothing. `shed_seq` is the event at which one last went.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, Final

from memplane.event import GLOBAL, TYPED_KINDS, UPKEEP_KINDS, Event
from memplane.ports import Line
from memplane.projections.forgetting import Forget, forget_of
from memplane.projections.groups import Grouped, Groups, Sees, share_of
from memplane.projections.map_state import (
    SORTS,
    STEPS,
    Cell,
    MapState,
    Name,
    Witness,
    cell_size,
    name_size,
    together,
)  # fmt: skip
from memplane.projections.projector import canonical
from memplane.projections.sessions import is_extract
from memplane.projections.task_table import CLOSED
from memplane.projections.tasks import status_of, task_of

__all__ = ["PlaneMap", "PlaneMaps"]

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
    version = 3

    def __init__(self, *, names_max: int | None = None, bytes_max: int = BYTES_MAX) -> None:
        self.most = {sort: min(most, names_max or most) for sort, most in SORTS.items()}
        self.bytes_max = bytes_max

    def initial(self) -> MapState:
        return MapState()

    def apply(self, state: MapState, line: Line) -> None:  # noqa: C901, PLR0912 - a kind, a branch
        # Every event of the log passes here: taken apart once.
        event = line.event
        (
            seq, _, _, _, kind, ns, session, _, _, _, _, key, tags, _, _, sensitivity, _, _, _, _,
            _, _, _,
        ) = event  # fmt: skip
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
        for tag in tags:
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
                [sort, name, told.last, told.turns,
                 [[*origin, cell.first, *((*w[:5], int(w.forgotten)) for w in cell.witnesses)]
                  for origin, cell in told.cells.items()]]
                for sort, names in state.names.items() for name, told in names.items()
            ],
        }  # fmt: skip

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
                for seq, id_, ts, session, key, forgotten in witnesses:
                    state.hold(cell, Witness(seq, id_, ts, session, key, bool(forgotten)))
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
        return together(self.among(sees))


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
    said = Witness(event.seq, event.id, event.ts, event.session, event.key)
    state.hold(cell, said)
    cell.settle()


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
                said = Witness(event.seq, event.id, event.ts, event.session, event.key)
                state.hold(cell, said)
                cell.witnesses.insert(at, cell.witnesses.pop())
        cell.settle()


def _forget(state: MapState, event: Event) -> None:
    forget = forget_of(event)
    if forget is None:
        return
    for cell in _cells(state):
        if forget.key is None or cell.ns == forget.ns:
            cell.witnesses = [
                one._replace(forgotten=not forget.undo) if _names(forget, one) else one
                for one in cell.witnesses
            ]
            cell.settle()


def _names(forget: Forget, one: Witness) -> bool:
    return one.key == forget.key if forget.key is not None else forget.names(one.id, one.session)


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
