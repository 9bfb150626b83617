"""The hotset's state: rings of sequence numbers over one table of items.

There is one for each group of events (`groups`), and one that a request sees: of the groups that
are open to it, turn by turn what a fold of their events alone would have.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from memplane.event import GLOBAL, Event
from memplane.projections.item import Item
from memplane.projections.touches import FileTable

__all__ = [
    "PLANE_RING", "PROMPTS", "SESSION_RING", "TOOLS", "TOPICS", "HotsetState", "SessionRing",
    "Turn", "is_standing", "is_stated", "together",
]  # fmt: skip

PLANE_RING: Final = 400
SESSION_RING: Final = 100
PROMPTS: Final = 4
TOOLS: Final = 16
TOPICS: Final = 8  # of a session: the tags that it used last
_STATEMENTS: Final = frozenset(("decision", "rule", "preference"))
_LASTING: Final = frozenset(("constraint", "goal", "decision"))
_SPEAKERS: Final = frozenset(("user", "assistant"))
_TOOLS: Final = frozenset(("tool_call", "tool_result"))


def is_stated(
    kind: str, role: str | None, key: str | None, markers: Collection[str]
) -> bool:  # fmt: skip
    """Whether an event holds on when the turns around it have left the window.

    Decisions, rules, preferences and facts under a key do, and turns of user or assistant that are
    marked constraint, goal or decision; of what tools say nothing does.
    """
    if role == "tool" or kind in _TOOLS:
        return False
    if kind in _STATEMENTS or (kind == "fact" and key is not None):
        return True
    return role in _SPEAKERS and not _LASTING.isdisjoint(markers)


def is_standing(kind: str, ns: str, key: str | None) -> bool:
    """Whether a statement is one that the ledgers do not have: no decision, and not at /global."""
    return ns != GLOBAL and (kind in ("rule", "preference") or (kind == "fact" and key is not None))


class Turn(NamedTuple):
    """One event in a session's ring, with what came before it in that session.

    `before` counts events, `spent` tokens clipped to each tier of the window form. Neither is
    ever revised, so an anchor computed from them moves only when the session grows.
    """

    seq: int
    before: int
    spent: tuple[int, ...]


class SessionRing:
    """The end of one session: its last turns, prompts, epoch and totals.

    `marked`: the epoch is that of a start or checkpoint. `stated` has the seqs of what it stated
    since the epoch, each with the seq of the pin that holds it (0: none); `shed` is the newest of
    them that a bound drove out. `cut`: see `partial`.
    """

    __slots__ = (
        "count", "cut", "epoch", "id", "lost", "marked", "prompts", "ring", "seen", "shed", "spent",
        "stated", "stated_bytes",
    )  # fmt: skip

    def __init__(self, id: str, first: int) -> None:  # noqa: A002 - the field's name
        self.id = id
        self.epoch = first  # seq of the latest start or checkpoint, else of the first event
        self.seen = first  # seq of the latest event: which session is the oldest
        self.count = 0
        self.spent: tuple[int, ...] = (0, 0, 0)
        self.ring: list[Turn] = []
        self.prompts: list[int] = []
        self.stated: dict[int, int] = {}
        self.stated_bytes = 0
        self.shed = 0
        self.lost = False  # whether the ring was dropped with what was stated since the epoch
        self.marked = self.cut = False

    @property
    def partial(self) -> bool:
        """Whether events that belong here are gone: the ring was dropped, or cut for room."""
        return self.cut or self.lost or len(self.ring) < min(self.count, SESSION_RING)


class HotsetState:
    """The fold's state. Read it, never write it, outside `Hotset`.

    Most events leave every ring before anybody looks: an item is made of one when it is asked for.
    """

    __slots__ = (
        "by_key", "bytes", "files", "fresh", "gaps", "gone", "head", "holds", "made", "plane",
        "sessions", "shed", "stated", "stated_bytes", "summed", "tools", "topics",
    )  # fmt: skip

    def __init__(self) -> None:
        self.made: dict[int, Item] = {}
        self.fresh: dict[int, tuple[Event, int, int]] = {}  # event, tokens, size
        self.holds: dict[int, int] = {}  # item -> number of rings and tables that hold it
        self.bytes = 0
        self.plane: list[int] = []
        # Statements that no ledger has, whoever made them, with their sizes; and the newest of them
        # that a bound drove out.
        self.stated: dict[int, int] = {}
        self.stated_bytes = 0
        self.shed = 0
        self.sessions: dict[str, SessionRing] = {}
        self.tools: dict[str, tuple[int, int]] = {}  # name -> seq of last call, seq of last error
        self.files: dict[str, FileTable] = {}  # by session; "" for touches outside of any
        self.topics: dict[str, dict[str, int]] = {}  # by session: tag -> how often, last used last
        self.summed: dict[str, int] = {}  # session -> its newest generated summary, newest last
        self.by_key: dict[tuple[str, str], list[int]] = {}
        # Dropped sessions: epoch, count, spent, marked, and whether something stated went with
        # them. One that goes on does so where it stood.
        self.gone: dict[str, tuple[int, int, tuple[int, ...], bool, bool]] = {}
        # Of what a request sees: the log's last seq, and seqs first..last that it could not give.
        self.head = 0
        self.gaps: list[tuple[int, int]] = []

    @property
    def items(self) -> dict[int, Item]:
        """Every item by its seq; what is fresh is made now."""
        if self.fresh:
            made = self.made
            for seq, fresh in self.fresh.items():
                made[seq] = Item.of(*fresh)
            self.fresh.clear()  # in place: who sees this state alone shares it
        return self.made

    def item(self, seq: int) -> Item:
        """One item; the others may stay as they are."""
        fresh = self.fresh.pop(seq, None)
        if fresh is not None:
            self.made[seq] = Item.of(*fresh)
        return self.made[seq]

    def joined(self, other: HotsetState) -> HotsetState:
        """This hotset with another's sessions in place of its own; both stay as they are."""
        both = HotsetState()
        both.made = {**other.items, **self.items}
        both.plane, both.head, both.gaps = self.plane, self.head, self.gaps
        both.stated, both.shed = self.stated, self.shed
        both.topics = {**self.topics, **other.topics}
        both.sessions = {**self.sessions, **other.sessions}
        both.tools, both.summed = self.tools, self.summed
        both.files = {**self.files, **other.files}
        return both

    def newest_sessions(self) -> list[SessionRing]:
        """Sessions by their latest event, newest first."""
        return sorted(self.sessions.values(), key=lambda ring: -ring.seen)


def together(states: Sequence[HotsetState]) -> HotsetState:
    """What the hotsets of several groups are for who sees them all; they stay as they are.

    Of one it is that one, sharing all it holds.
    """
    both = HotsetState()
    if len(states) == 1:
        (one,) = states
        both.made, both.fresh, both.plane = one.made, one.fresh, one.plane
        both.sessions, both.gone = one.sessions, one.gone
        both.stated, both.shed = one.stated, one.shed
        both.tools, both.files, both.topics = one.tools, one.files, one.topics
        both.summed = one.summed
        return both
    tools: list[tuple[int, str, tuple[int, int]]] = []
    tables: dict[str, list[FileTable]] = {}
    for one in states:
        both.made.update(one.items)
        both.plane += one.plane
        both.stated |= one.stated
        both.shed = max(both.shed, one.shed)
        both.gone.update(one.gone)
        for id_, table in one.files.items():
            tables.setdefault(id_, []).append(table)
        tools += [(max(seqs), tool, seqs) for tool, seqs in one.tools.items()]
    both.plane = sorted(both.plane)[-PLANE_RING:]
    summed = sorted((seq, id_) for one in states for id_, seq in one.summed.items())
    both.summed = {id_: seq for seq, id_ in summed}
    for seen, tool, (call, error) in sorted(tools):
        before = both.tools.pop(tool, (0, 0)) if seen else (0, 0)
        both.tools[tool] = (max(call, before[0]), max(error, before[1]))
    both.tools = dict(list(both.tools.items())[-TOOLS:])
    both.files = {id_: FileTable.together(found) for id_, found in tables.items()}
    for id_ in dict.fromkeys(id_ for one in states for id_ in one.sessions):
        rings = [one.sessions[id_] for one in states if id_ in one.sessions]
        # Of what a group let go of with turns in it, the rest is not all that there is.
        cut = any(id_ in one.gone and one.gone[id_][1] > 0 for one in states)
        both.sessions[id_] = _ring_of(rings, both.made, cut=cut)
        both.topics.update(_topics(states, id_))
    return both


def _topics(states: Sequence[HotsetState], id_: str) -> dict[str, dict[str, int]]:
    """The tags of one session in all of these groups, by the group that it was seen in last."""
    found = [one for one in states if id_ in one.topics]
    tags: dict[str, int] = {}
    for one in sorted(found, key=lambda one: one.sessions[id_].seen):
        for tag, count in one.topics[id_].items():
            tags[tag] = tags.pop(tag, 0) + count
    return {id_: dict(list(tags.items())[-TOPICS:])} if tags else {}


def _ring_of(
    rings: Sequence[SessionRing], items: Mapping[int, Item], *, cut: bool
) -> SessionRing:  # fmt: skip
    """One session as all of these groups have it."""
    if len(rings) == 1 and not cut:
        return rings[0]
    marked = [ring.epoch for ring in rings if ring.marked]
    epoch = max(marked) if marked else min(ring.epoch for ring in rings)
    both = SessionRing(rings[0].id, epoch)
    both.marked, both.cut = bool(marked), cut or any(ring.partial for ring in rings)
    both.seen = max(ring.seen for ring in rings)
    both.count = sum(ring.count for ring in rings)
    both.spent = _sum([ring.spent for ring in rings])
    both.prompts = sorted(seq for ring in rings for seq in ring.prompts)[-PROMPTS:]
    both.ring = _turns(rings)[-SESSION_RING:]
    # A group keeps what it states until an epoch of its own: that of another may be the later one.
    since = epoch if marked else 0
    both.stated = {seq: pin for ring in rings for seq, pin in ring.stated.items() if seq > since}
    both.stated_bytes = sum(items[seq].size for seq in both.stated)
    both.shed = max((ring.shed for ring in rings if ring.shed > since), default=0)
    return both


def _turns(rings: Sequence[SessionRing]) -> list[Turn]:
    """The turns of all rings in log order, each with what came before it in any of them."""
    # Behind each turn of a ring, what its group has had: what the next one says, or the totals.
    after = [
        [*((turn.before, turn.spent) for turn in ring.ring[1:]), (ring.count, ring.spent)]
        for ring in rings
    ]
    now = [
        (ring.ring[0].before, ring.ring[0].spent) if ring.ring else (ring.count, ring.spent)
        for ring in rings
    ]
    order = [
        (turn.seq, at, row) for at, ring in enumerate(rings) for row, turn in enumerate(ring.ring)
    ]
    turns = []
    for seq, at, row in sorted(order):
        turns.append(Turn(seq, sum(map(itemgetter(0), now)), _sum([spent for _, spent in now])))
        now[at] = after[at][row]
    return turns


def _sum(spent: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*spent, strict=True)))
