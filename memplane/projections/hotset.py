"""The hot set: what a usual pack needs, in one bounded file.

For each group of events with the same visibility (`groups`): rings of sequence numbers (the last
400 events, and the last 100 of each of the 8 most recent sessions, of which one without a message
goes first) over one table of items, so that each text is kept once. Beside them: what each of those
sessions stated since its epoch (200 seqs at most); the last 100 rules, preferences and keyed facts
of any namespace but /global; topics, files touched, the last call and last error of each tool; and
the generated summaries of the 32 sessions that ended last. An event that leaves every ring leaves
the table; the log still has it. A task event is no turn: it is in the ring of all events alone, and
`tasks` has what it changed. Neither is an artifact, nor the generated summary of a session, whose
own window has what the summary quotes.

Every bound is applied event by event, never when saving, so a hot set that was saved and loaded
continues exactly like one that was not.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Self

from memplane.event import GLOBAL, PROJECTS, Event, encode, is_extract
from memplane.harness import is_interruption
from memplane.lazy import NamedTuple
from memplane.log.segments import erased_by
from memplane.ports import Line, TokenCounter
from memplane.projections.files import FileTable, touched_by
from memplane.projections.groups import Grouped, Groups, Sees, share_of
from memplane.projections.in_force import KEYLESS_KINDS, forget_of
from memplane.projections.item import Item, fields_getter, limits, row_size

# The hotset's state: rings of sequence numbers over one table of items.
#
# There is one for each group of events (`groups`), and one that a request sees: of the groups that
# are open to it, turn by turn what a fold of their events alone would have.

PLANE_RING: Final = 400
SESSION_RING: Final = 100
PROMPTS: Final = 4
TOOLS: Final = 16
TOPICS: Final = 8  # of a session: the tags that it used last
_STATEMENTS: Final = frozenset(("decision", "rule", "preference"))
_LASTING: Final = frozenset(("constraint", "goal", "decision"))
_SPEAKERS: Final = frozenset(("user", "assistant"))


def is_stated(kind: str, role: str | None, key: str | None, markers: Collection[str]) -> bool:
    """Whether an event stays relevant when the turns around it have left the window.

    Decisions, rules, preferences and facts under a key do, and turns of user or assistant that are
    marked constraint, goal or decision; of what tools say nothing does.
    """
    if role == "tool" or kind in _TOOLS:
        return False
    if kind in _STATEMENTS or (kind == "fact" and key is not None):
        return True
    return role in _SPEAKERS and not _LASTING.isdisjoint(markers)


def is_standing(kind: str, ns: str, key: str | None) -> bool:
    """Whether only the hotset keeps the statement: outside /global and projects, no decision."""
    if ns == GLOBAL or ns.startswith(PROJECTS):
        return False
    return kind in ("rule", "preference") or (kind == "fact" and key is not None)


class RingTurn(NamedTuple):
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
    them that a bound drove out. `cut`: see `partial`. `interrupted`: a person stopped the agent
    since the latest prompt; the same words again are that prompt, and no other.
    """

    __slots__ = (
        "count",
        "cut",
        "epoch",
        "id",
        "interrupted",
        "lost",
        "marked",
        "prompts",
        "ring",
        "seen",
        "shed",
        "spent",
        "stated",
        "stated_bytes",
    )

    def __init__(self, id: str, first: int) -> None:  # noqa: A002 - the field's name
        self.id = id
        self.epoch = first  # seq of the latest start or checkpoint, else of the first event
        self.seen = first  # seq of the latest event: which session is the oldest
        self.count = 0
        self.spent: tuple[int, ...] = (0, 0, 0)
        self.ring: list[RingTurn] = []
        self.prompts: list[int] = []
        self.stated: dict[int, int] = {}
        self.stated_bytes = 0
        self.shed = 0
        self.lost = False  # whether the ring was dropped with what was stated since the epoch
        self.marked = self.cut = self.interrupted = False

    @property
    def partial(self) -> bool:
        """Whether events that belong here are gone: the ring was dropped, or cut for room."""
        return self.cut or self.lost or len(self.ring) < min(self.count, SESSION_RING)


class DroppedSession(NamedTuple):
    """What is kept of a session that a bound dropped: one that is resumed continues from it.

    `lost`: statements since its epoch were dropped with it.
    """

    epoch: int
    turns: int
    spent: tuple[int, ...]
    marked: bool
    lost: bool


class HotsetState:
    """The fold's state. Read it, never write it, outside `Hotset`.

    Most events leave every ring before anybody looks: an item is made of one when it is asked for.
    """

    __slots__ = (
        "by_key",
        "bytes",
        "files",
        "fresh",
        "gaps",
        "gone",
        "head",
        "holds",
        "made",
        "plane",
        "sessions",
        "shed",
        "stated",
        "stated_bytes",
        "summed",
        "tools",
        "topics",
    )

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
        self.gone: dict[str, DroppedSession] = {}
        # Of what a request sees: the log's last seq, and seqs first..last that it could not give.
        self.head = 0
        self.gaps: list[tuple[int, int]] = []

    @property
    def items(self) -> dict[int, Item]:
        """All items by seq; items of fresh events are made now."""
        if self.fresh:
            made = self.made
            for seq, fresh in self.fresh.items():
                made[seq] = Item.of(*fresh)
            self.fresh.clear()  # in place: who sees this state alone shares it
        return self.made

    def item(self, seq: int) -> Item:
        """Return one item without making those of other fresh events."""
        fresh = self.fresh.pop(seq, None)
        if fresh is not None:
            self.made[seq] = Item.of(*fresh)
        return self.made[seq]

    def joined(self, other: HotsetState) -> HotsetState:
        """Return this hotset with another's sessions replacing its own. Changes neither."""
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


def joined_hotsets(states: Sequence[HotsetState]) -> HotsetState:
    """Join the hotsets of several groups for a reader who sees them all. Changes none.

    A single one is shared, not copied.
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
        cut = any(id_ in one.gone and one.gone[id_].turns > 0 for one in states)
        both.sessions[id_] = _ring_of(rings, both.made, cut=cut)
        both.topics.update(_joined_topics(states, id_))
    return both


def _joined_topics(states: Sequence[HotsetState], id_: str) -> dict[str, dict[str, int]]:
    """The tags of one session in all of these groups, by the group that it was seen in last."""
    found = [one for one in states if id_ in one.topics]
    tags: dict[str, int] = {}
    for one in sorted(found, key=lambda one: one.sessions[id_].seen):
        for tag, count in one.topics[id_].items():
            tags[tag] = tags.pop(tag, 0) + count
    return {id_: dict(list(tags.items())[-TOPICS:])} if tags else {}


def _ring_of(rings: Sequence[SessionRing], items: Mapping[int, Item], *, cut: bool) -> SessionRing:
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


def _turns(rings: Sequence[SessionRing]) -> list[RingTurn]:
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
        turns.append(RingTurn(seq, sum(map(itemgetter(0), now)), _sum([spent for _, spent in now])))
        now[at] = after[at][row]
    return turns


def _sum(spent: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*spent, strict=True)))


SESSIONS: Final = 8
SUMMED: Final = 32
GAPS: Final = 32
GONE: Final = 64
STATED: Final = 200
STANDING: Final = 100
STANDING_BYTES: Final = 32 * 1024
STATED_BYTES: Final = 64 * 1024  # of what one session stated: four leave room for turns
# Under pressure, what stays before sessions and the plane's older events go altogether.
SESSIONS_KEPT: Final = 4
PLANE_KEPT: Final = 200
NAME_MAX: Final = 300  # characters of a tool's name
# One group takes less than 512 KiB: items up to this, the rings and tables fit in the rest.
BYTES_MAX: Final = 416 * 1024
# Added to the tokens of a turn for its label and newline when windows are laid out.
LABEL_TOKENS: Final = 6
_FRESH_MAX: Final = 4000  # characters of a text that waits for its first reader

# In the plane's ring, and in no session's.
NO_TURNS: Final = frozenset(("task", "artifact"))
# Kinds that leave something in a table.
_TOOLS: Final = frozenset(("tool_call", "tool_result"))
_TOUCHING: Final = frozenset(("tool_call", "artifact", "message"))
# What the fold reads of every event, at once: twelve attributes would cost 4 % of all folding.
_FOLDED: Final = fields_getter(
    "seq",
    "kind",
    "ns",
    "session",
    "role",
    "text",
    "key",
    "tags",
    "markers",
    "sensitivity",
    "tokens",
    "data",
)


class Hotset:
    """The projector of one group. `counter` names the variant: another one means another fold.

    What has another group comes as a secret: it replaces, and is not kept.
    """

    name = "hotset"
    version = 12

    def __init__(self, counter: TokenCounter, *, bytes_max: int = BYTES_MAX) -> None:
        self.counter, self.bytes_max = counter, bytes_max
        self.stated_max = min(STATED_BYTES, bytes_max // 3)
        self.standing_max = min(STANDING_BYTES, bytes_max // 8)

    def initial(self) -> HotsetState:
        return HotsetState()

    def apply(self, state: HotsetState, line: Line) -> None:  # noqa: C901, PLR0912 - see below
        # Every event of the log passes here: no call that can be spared.
        event, _, start, end = line
        seq, kind, ns, session, role, text, key, tags, markers, level, tokens, data = _FOLDED(event)
        if kind in KEYLESS_KINDS:
            if kind == "forget":
                _forget(state, event)
            elif kind == "session":
                _session(state, event)
            elif kind == "pin":
                _pin(state, event, self.stated_max)
            return
        if key is not None:
            _supersede(state, ns, key)
        if level == "secret" or not text:  # stored, never loaded
            _interrupted(state, event)
            return
        if role == "user" and key is None and _asked_again(state, session, text):
            return
        if tokens is None:  # a light process wrote it
            tokens = self.counter.count(text)
        size = row_size(event, tokens, end - start)
        state.bytes += size
        state.fresh[seq] = (event, tokens, size)
        if len(text) > _FRESH_MAX:  # an item holds less of it
            state.item(seq)
        if key is not None:
            state.by_key.setdefault((ns, key), []).append(seq)
        state.holds[seq] = 1
        plane = state.plane
        plane.append(seq)
        if len(plane) > PLANE_RING:
            _release(state, plane.pop(0))
        if ns != GLOBAL and role != "tool" and is_standing(kind, ns, key):
            _stand(state, seq, size, self.standing_max)
        no_turn = kind in NO_TURNS
        if kind == "summary" and is_extract(event):
            no_turn = True
            if session is not None:
                _summed(state, session, seq)
        if session is not None and not no_turn:
            _turn(state, seq, session, kind, role, tokens)
            if tags:
                _topics(state, session, tags)
            if (markers or kind != "message") and is_stated(kind, role, key, markers):
                _state(state, state.sessions[session], seq, size, self.stated_max)
        if data:
            if kind in _TOOLS and "tool" in data:
                _tool(state, seq, kind, data)
            if kind in _TOUCHING and "path" in data:
                _file(state, event)
        if state.bytes > self.bytes_max:
            while _shrink(state) and state.bytes > self.bytes_max:
                pass

    def finish(self, state: HotsetState) -> None:
        """Bring every item into its window form: what `dump` holds, and what a block shows."""
        for item in state.items.values():
            item.finish(self.counter)

    def dump(self, state: HotsetState) -> bytes:
        return encode(self.fields(state)).encode()

    def fields(self, state: HotsetState) -> dict[str, Any]:
        """The state as JSON values."""
        self.finish(state)
        return {
            "gone": [
                [id_, one.epoch, one.turns, one.spent, int(one.marked), int(one.lost)]
                for id_, one in state.gone.items()
            ],
            "items": [item.fields() for _, item in sorted(state.items.items())],
            "plane": state.plane,
            "sessions": [
                [
                    r.id,
                    r.epoch,
                    int(r.marked),
                    r.seen,
                    r.count,
                    list(r.spent),
                    r.prompts,
                    [[t.seq, t.before, *t.spent] for t in r.ring],
                    sorted(r.stated.items()),
                    r.shed,
                    int(r.lost),
                    int(r.interrupted),
                ]
                for r in state.sessions.values()
            ],
            "tools": [[tool, *seqs] for tool, seqs in state.tools.items()],
            "files": [[id_, *table.fields()] for id_, table in state.files.items()],
            "summed": [list(pair) for pair in state.summed.items()],
            "stated": list(state.stated.items()),
            "shed": state.shed,
            "topics": [[id_, list(map(list, of.items()))] for id_, of in state.topics.items()],
        }

    def load(self, raw: bytes) -> HotsetState:
        return self.of(json.loads(raw))

    def of(self, fields: dict[str, Any]) -> HotsetState:
        """The state that `fields` gave."""
        state = HotsetState()
        state.gone = {
            id_: DroppedSession(epoch, count, tuple(spent), bool(marked), bool(lost))
            for id_, epoch, count, spent, marked, lost in fields["gone"]
        }
        for row in fields["items"]:
            item = Item(row)
            state.made[item.seq] = item
            state.holds[item.seq] = 0
            state.bytes += item.size
            if item.key is not None:
                state.by_key.setdefault((item.ns, item.key), []).append(item.seq)
        state.plane = fields["plane"]
        for id_, epoch, marked, seen, count, spent, prompts, turns, *rest in fields["sessions"]:
            ring = SessionRing(id_, epoch)
            ring.marked = bool(marked)
            ring.seen, ring.count, ring.spent, ring.prompts = seen, count, tuple(spent), prompts
            ring.ring = [RingTurn(seq, before, tuple(clipped)) for seq, before, *clipped in turns]
            stated, ring.shed, lost, interrupted = rest
            ring.stated, ring.lost, ring.interrupted = dict(stated), bool(lost), bool(interrupted)
            ring.stated_bytes = sum(state.made[seq].size for seq in ring.stated)
            state.sessions[id_] = ring
        state.tools = {tool: (call, error) for tool, call, error in fields["tools"]}
        state.files = {id_: FileTable.of(table) for id_, *table in fields["files"]}
        state.bytes += sum(table.bytes for table in state.files.values())
        state.topics = {id_: dict(rows) for id_, rows in fields["topics"]}
        state.summed = dict(fields["summed"])
        state.stated, state.shed = dict(fields["stated"]), fields["shed"]
        state.stated_bytes = sum(state.stated.values())
        _count_holds(state)
        return state


class HotsetsState(Groups[HotsetState]):
    """The hotsets of all groups, and how far the log was folded."""

    __slots__ = ("gaps", "head")

    def __init__(self) -> None:
        super().__init__()
        self.head = 0
        self.gaps: list[tuple[int, int]] = []  # seqs first..last that the log could not give

    def seen(self, sees: Sees | None = None) -> HotsetState:
        """Return the hotset for a reader (None: all groups), independent of what is hidden."""
        both = joined_hotsets(self.among(sees) or [HotsetState()])
        both.head, both.gaps = self.head, self.gaps
        return both

    def find(self, seq: int) -> Item | None:
        """Return the item of an event from any group; None where no hotset has it."""
        for one in self.groups.values():
            if seq in one.holds:
                return one.item(seq)
        return None

    def filled(self, other: Self) -> Self:
        both = super().filled(other)
        both.head, both.gaps = self.head, self.gaps
        return both


class Hotsets(Grouped[HotsetState]):
    """The projector of the file: `Hotset` for each group, and the gaps of a damaged log."""

    states = HotsetsState

    def __init__(self, counter: TokenCounter, *, only: Sees | None = None) -> None:
        super().__init__(
            lambda group: Hotset(counter, bytes_max=share_of(group, BYTES_MAX)), only=only
        )

    def apply(self, state: Groups[HotsetState], line: Line) -> None:
        if TYPE_CHECKING:
            assert isinstance(state, HotsetsState), "as `initial` makes it"
        event = line.event
        seq = event.seq
        if seq != state.head + 1:
            state.gaps = [*state.gaps, (state.head + 1, seq - 1)][-GAPS:]
        state.head = seq
        if state.gaps and event.kind == "purge":
            state.gaps = without_gaps(state.gaps, {one.seq for one in erased_by(event)})
        Grouped.apply(self, state, line)  # `super()` costs more, for each event of the log

    def fields(self, state: Groups[HotsetState]) -> dict[str, Any]:
        assert isinstance(state, HotsetsState), "as `initial` makes it"
        return {"head": state.head, "gaps": state.gaps, **super().fields(state)}

    def of(self, fields: dict[str, Any]) -> HotsetsState:
        state: HotsetsState = super().of(fields)
        state.head = fields["head"]
        state.gaps = [(first, last) for first, last in fields["gaps"]]
        return state


def without_gaps(gaps: list[tuple[int, int]], seqs: Collection[int]) -> list[tuple[int, int]]:
    """Return the gaps without the seqs that are missing because they were purged."""
    left: list[tuple[int, int]] = []
    for first, last in gaps:
        start = first
        for seq in sorted(seq for seq in seqs if first <= seq <= last):
            if seq > start:
                left.append((start, seq - 1))
            start = seq + 1
        if start <= last:
            left.append((start, last))
    return left


def _turn(state: HotsetState, seq: int, id_: str, kind: str, role: str | None, tokens: int) -> None:
    """Put the event at the end of its session's ring; the oldest of nine sessions goes."""
    ring = state.sessions.get(id_)
    if ring is None:
        ring = _ring(state, id_, seq)
    ring.seen = seq
    turns, count, spent = ring.ring, ring.count, ring.spent
    turns.append(tuple.__new__(RingTurn, (seq, count, spent)))  # the quickest way to make one
    holds = state.holds
    holds[seq] += 1
    ring.count = count + 1
    first, second, third = spent
    full, some, least = limits(kind)
    ring.spent = (
        # Not `min`: every event of the log passes here.
        first + LABEL_TOKENS + (tokens if tokens < full else full),  # noqa: FURB136
        second + LABEL_TOKENS + (tokens if tokens < some else some),  # noqa: FURB136
        third + LABEL_TOKENS + (tokens if tokens < least else least),  # noqa: FURB136
    )
    if len(turns) > SESSION_RING:
        gone = turns.pop(0).seq
        if holds[gone] > 1:  # as a rule: the plane's ring is longer
            holds[gone] -= 1
        else:
            _release(state, gone)
    if role == "user":
        ring.prompts.append(seq)
        _hold(state, seq)
        if len(ring.prompts) > PROMPTS:
            _release(state, ring.prompts.pop(0))


def _ring(state: HotsetState, id_: str, seq: int) -> SessionRing:
    ring = state.sessions.get(id_)
    if ring is None:
        if len(state.sessions) == SESSIONS:
            _drop_session(state)
        ring = state.sessions[id_] = SessionRing(id_, seq)
        before = state.gone.pop(id_, None)
        if before is not None:
            ring.epoch, ring.count, ring.spent = before.epoch, before.turns, before.spent
            ring.marked, ring.lost = before.marked, before.lost
    ring.seen = seq
    return ring


def _interrupted(state: HotsetState, event: Event) -> None:
    ring = state.sessions.get(event.session or "")
    if ring is not None and is_interruption(event):
        ring.interrupted = True


def _asked_again(state: HotsetState, session: str | None, text: str) -> bool:
    """Whether a prompt is the latest one of its session, typed again behind an interruption."""
    ring = state.sessions.get(session or "")
    if ring is None or not ring.interrupted:
        return False
    ring.interrupted = False
    return bool(ring.prompts) and state.item(ring.prompts[-1]).says(text)


def _session(state: HotsetState, event: Event) -> None:
    """A start or checkpoint is an epoch: decisions and cards of the head are chosen as of it."""
    if event.session is None:
        return
    if event.data.get("status") == "end" and event.session not in state.sessions:
        return  # what was let go of does not come back, in another's place, to be ended
    ring = _ring(state, event.session, event.seq)
    if event.data.get("status", "start") in ("start", "checkpoint"):
        ring.epoch, ring.marked = event.seq, True
        _begin_anew(state, ring)


def _state(state: HotsetState, ring: SessionRing, seq: int, size: int, most: int) -> None:
    """Keep what a session states, beyond its last turns, to 200 events and `most` bytes."""
    ring.stated[seq] = 0
    ring.stated_bytes += size
    _hold(state, seq)
    while len(ring.stated) > STATED or ring.stated_bytes > most:
        worth, gone = min((_worth(state, ring, one), one) for one in ring.stated)
        if worth:
            ring.shed = max(ring.shed, gone)
        _unstate(state, ring, gone)


def _stand(state: HotsetState, seq: int, size: int, most: int) -> None:
    """Keep a statement that no ledger has, whoever made it: 100 of them, and `most` bytes."""
    state.stated[seq] = size
    state.stated_bytes += size
    _hold(state, seq)
    while len(state.stated) > STANDING or state.stated_bytes > most:
        gone = next((one for one in state.stated if _is_out(state.item(one))), 0)
        if not gone:
            gone = next(iter(state.stated))
            state.shed = max(state.shed, gone)
        state.stated_bytes -= state.stated.pop(gone)
        _release(state, gone)


def _is_out(item: Item) -> bool:
    return item.superseded or item.forgotten


def _worth(state: HotsetState, ring: SessionRing, seq: int) -> int:
    """What is out of force goes first; what is pinned, or a constraint, last."""
    item = state.item(seq)
    if _is_out(item):
        return 0
    return 2 if ring.stated[seq] or "constraint" in item.markers else 1


def _unstate(state: HotsetState, ring: SessionRing, seq: int) -> None:
    del ring.stated[seq]
    ring.stated_bytes -= state.item(seq).size
    _release(state, seq)


def _begin_anew(state: HotsetState, ring: SessionRing) -> None:
    """At an epoch nothing has been stated since."""
    for seq in list(ring.stated):
        _unstate(state, ring, seq)
    ring.shed, ring.lost = 0, False


def _pin(state: HotsetState, event: Event, most: int) -> None:
    """What is pinned in a running session counts as stated, whatever it is."""
    refs, undo = frozenset(event.refs), event.data.get("undo", False)
    for item in [item for item in state.items.values() if item.id in refs]:
        ring = state.sessions.get(item.session or "")
        if ring is None or item.seq < ring.epoch or item.kind in NO_TURNS:
            continue
        if item.seq not in ring.stated and not undo and item.role != "tool":
            _state(state, ring, item.seq, item.size, most)
        if item.seq in ring.stated:
            # A second pin changes nothing; who is unpinned may have been stated all the same.
            ring.stated[item.seq] = 0 if undo else ring.stated[item.seq] or event.seq


def _summed(state: HotsetState, session: str, seq: int) -> None:
    """Note the newest summary of a session; of 33 sessions the one summed up first goes."""
    state.summed.pop(session, None)
    state.summed[session] = seq
    if len(state.summed) > SUMMED:
        del state.summed[next(iter(state.summed))]


def _topics(state: HotsetState, session: str, tags: tuple[str, ...]) -> None:
    topics = state.topics.setdefault(session, {})
    for tag in tags:
        topics[tag] = topics.pop(tag, 0) + 1
        if len(topics) > TOPICS:
            del topics[next(iter(topics))]


def _tool(state: HotsetState, seq: int, kind: str, data: dict[str, Any]) -> None:
    tool = data["tool"]
    if not isinstance(tool, str):
        return
    tool = tool[:NAME_MAX]
    tools = state.tools
    call, error = tools.pop(tool, (0, 0))
    if kind == "tool_call":
        call = _swap(state, call, seq)
    elif data.get("status") == "error":
        error = _swap(state, error, seq)
    tools[tool] = (call, error)
    if len(tools) > TOOLS:
        for gone in tools.pop(next(iter(tools))):
            if gone:
                _release(state, gone)


def _file(state: HotsetState, event: Event) -> None:
    touched = touched_by(event)
    if touched is None:
        return
    path, branch = touched
    table = state.files.get(event.session or "")
    if table is None:
        table = state.files[event.session or ""] = FileTable()
    before = table.bytes
    _hold(state, event.seq)
    for seq in table.touch(path, event.seq, branch):
        _release(state, seq)
    state.bytes += table.bytes - before


def _supersede(state: HotsetState, ns: str, key: str) -> None:
    """Mark what an event replaces; decided on all events, whatever a reader may see of them."""
    for seq in state.by_key.get((ns, key), ()):
        state.item(seq).superseded = True


def _forget(state: HotsetState, event: Event) -> None:
    forget = forget_of(event)
    if forget is None:
        return
    if forget.key is None:
        forget.mark(state.items.values())
    else:  # the value in force at that time: older ones are superseded, and stay so
        forget.mark(state.item(seq) for seq in state.by_key.get((forget.ns, forget.key), ()))


def _swap(state: HotsetState, old: int, new: int) -> int:
    if old:
        _release(state, old)
    _hold(state, new)
    return new


def _hold(state: HotsetState, seq: int) -> None:
    state.holds[seq] += 1


def _release(state: HotsetState, seq: int) -> None:
    left = state.holds[seq] - 1
    if left:
        state.holds[seq] = left
        return
    del state.holds[seq]
    fresh = state.fresh.pop(seq, None)
    if fresh is None:
        item = state.made.pop(seq)
        ns, key, size = item.ns, item.key, item.size
    else:
        event, _, size = fresh
        key = event.key
        ns = event.ns if key is not None else ""
    state.bytes -= size
    if key is not None:
        named = state.by_key[(ns, key)]
        named.remove(seq)
        if not named:
            del state.by_key[(ns, key)]


def _count_holds(state: HotsetState) -> None:
    for seq in (*state.plane, *state.stated):
        _hold(state, seq)
    for ring in state.sessions.values():
        for seq in (*(turn.seq for turn in ring.ring), *ring.prompts, *ring.stated):
            _hold(state, seq)
    for seqs in state.tools.values():
        for seq in seqs:
            if seq:
                _hold(state, seq)
    for table in state.files.values():
        for touch in table.touches.values():
            _hold(state, touch.seq)


def _drop_session(state: HotsetState) -> None:
    # One in which nothing was said goes first: agents open and close many of those.
    oldest = min(state.sessions.values(), key=lambda ring: (ring.count > 0, ring.seen))
    del state.sessions[oldest.id]
    state.topics.pop(oldest.id, None)
    lost = oldest.lost or bool(oldest.stated)
    state.gone[oldest.id] = DroppedSession(
        oldest.epoch, oldest.count, oldest.spent, oldest.marked, lost
    )
    if len(state.gone) > GONE:
        del state.gone[next(iter(state.gone))]
    for turn in oldest.ring:
        _release(state, turn.seq)
    for seq in (*oldest.prompts, *oldest.stated):
        _release(state, seq)
    _drop_files(state, oldest.id)


def _drop_files(state: HotsetState, id_: str) -> None:
    table = state.files.pop(id_, None)
    if table is not None:
        state.bytes -= table.bytes
        for touch in table.touches.values():
            _release(state, touch.seq)


def _shrink(state: HotsetState) -> bool:
    """Make room: old sessions and the plane's older events in turn, then tables, then turns."""
    sessions, plane = len(state.sessions), len(state.plane)
    if sessions > SESSIONS_KEPT or (sessions > 1 and plane <= PLANE_KEPT):
        _drop_session(state)
    elif plane > 1:
        _release(state, state.plane.pop(0))
    elif state.files:
        _drop_files(state, next(iter(state.files)))
    elif state.tools:
        for seq in filter(None, state.tools.pop(next(iter(state.tools)))):
            _release(state, seq)
    else:
        ring = next(iter(state.sessions.values()), None)
        if ring is None or len(ring.ring) <= 1:
            return False
        _release(state, ring.ring.pop(0).seq)
    return True
