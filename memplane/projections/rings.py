"""The hotset's state: rings of sequence numbers over one table of items."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from memplane.event import Event
from memplane.projections.item import Item
from memplane.projections.touches import FileTable

__all__ = ["SESSION_RING", "HotsetState", "SessionRing", "Turn", "is_stated"]

SESSION_RING: Final = 100
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

    `stated` has the seqs of what it stated since the epoch, each with the seq of the pin that holds
    it (0: none); `shed` is the newest of them that a bound drove out.
    """

    __slots__ = (
        "count", "epoch", "id", "lost", "prompts", "ring", "seen", "shed", "spent", "stated",
        "stated_bytes",
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

    @property
    def partial(self) -> bool:
        """Whether events that belong here are gone: the ring was dropped, or cut for room."""
        return self.lost or len(self.ring) < min(self.count, SESSION_RING)


class HotsetState:
    """The fold's state. Read it, never write it, outside `Hotset`.

    Most events leave every ring before anybody looks: an item is made of one when it is asked for.
    """

    __slots__ = (
        "by_key", "bytes", "files", "fresh", "gaps", "gone", "head", "holds", "made", "plane",
        "sessions", "tools", "topics",
    )  # fmt: skip

    def __init__(self) -> None:
        self.made: dict[int, Item] = {}
        self.fresh: dict[int, tuple[Event, int, int]] = {}  # event, tokens, size
        self.holds: dict[int, int] = {}  # item -> number of rings and tables that hold it
        self.bytes = 0
        self.plane: list[int] = []
        self.sessions: dict[str, SessionRing] = {}
        self.tools: dict[str, tuple[int, int]] = {}  # name -> seq of last call, seq of last error
        self.files: dict[str, FileTable] = {}  # by session; "" for touches outside of any
        self.topics: dict[str, dict[str, int]] = {}  # by session: tag -> how often, last used last
        self.by_key: dict[tuple[str, str], list[int]] = {}
        # Dropped sessions: epoch, count, spent, and whether something stated went with them. One
        # that goes on does so where it stood.
        self.gone: dict[str, tuple[int, int, tuple[int, ...], bool]] = {}
        self.head = 0
        self.gaps: list[tuple[int, int]] = []  # seqs first..last that the log could not give

    @property
    def items(self) -> dict[int, Item]:
        """Every item by its seq; what is fresh is made now."""
        if self.fresh:
            made = self.made
            for seq, fresh in self.fresh.items():
                made[seq] = Item.of(*fresh)
            self.fresh = {}
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
        both.topics = {**self.topics, **other.topics}
        both.sessions = {**self.sessions, **other.sessions}
        both.tools = self.tools
        both.files = {**self.files, **other.files}
        return both

    def newest_sessions(self) -> list[SessionRing]:
        """Sessions by their latest event, newest first."""
        return sorted(self.sessions.values(), key=lambda ring: -ring.seen)
