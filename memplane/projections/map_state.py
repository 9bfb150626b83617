"""The state of the map: names with their witnesses, and counts as of any seq."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import Final, NamedTuple

__all__ = [
    "SORTS", "STEPS", "Cell", "MapState", "Name", "Witness", "cell_size", "name_size", "together",
]  # fmt: skip

# The names that are kept, and how many of each sort. `keys`: the word before the first dot.
SORTS: Final = {"tasks": 40, "keys": 40, "tags": 24, "namespaces": 40, "tools": 24}
_ROW_BYTES: Final = 100

# 0, 1, 2, 3, 5, 10, 20, 30, 50, 100 and so on.
STEPS: Final[tuple[int, ...]] = (
    0,
    *(step * 10**power for power in range(19) for step in (1, 2, 3, 5)),
)


class Witness(NamedTuple):
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
        self.witnesses: list[Witness] = []
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

    def hold(self, cell: Cell, witness: Witness) -> None:
        """Add a witness to a name."""
        cell.witnesses.append(witness)
        self.bytes += _size(witness)
        if witness.key is not None:
            self.by_key.setdefault((cell.ns, witness.key), []).append(cell)

    def let_go(self, cell: Cell, witness: Witness) -> None:
        """Take a witness away."""
        cell.witnesses.remove(witness)
        self.bytes -= _size(witness)
        if witness.key is not None:
            place = (cell.ns, witness.key)
            cells = self.by_key[place]
            cells.remove(cell)
            if not cells:
                del self.by_key[place]


def together(states: Sequence[MapState]) -> MapState:
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


def _size(witness: Witness) -> int:
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
