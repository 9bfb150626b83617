"""What a handle of a task, session or memory shows at each depth, within a room of tokens.

A deeper shard begins with the shallower one, word for word, whatever the room: first what is told
of the whole (depth 0 a sentence, depth 1 the rest of its paragraph), then its decisions and facts
(depth 2), then every other event (depth 3). Where the room ends it ends, and says with which handle
to go on. Everything is composed of what the reader may see; the rest is counted by its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Final, NamedTuple

from memplane.event import TYPED_KINDS, UPKEEP_KINDS, Event
from memplane.pack.digest import Digest, Sight
from memplane.pack.handles import EVENTS_FROM, Handle
from memplane.projections.item import Item
from memplane.projections.sessions import is_extract
from memplane.projections.window import nested, plain
from memplane.recall.suppress import Shown
from memplane.tokens import cut

__all__ = ["Lead", "Member", "Opened", "Shard", "belongs", "says", "shard"]

# An event that no page can hold is cut where at least so many tokens of it can stand.
_LEAST: Final = 48
_MARK: Final = " …\n"
_SAYING: Final = frozenset(("decision", "constraint"))  # markers that make a turn a statement
_UNTOLD: Final = frozenset((*UPKEEP_KINDS, "session", "approval", "episode", "secret"))

# Given who reads and the room: what is told of the whole, None where there is nothing (more).
Lead = Callable[[Sight, int], Digest | None]


class Member(NamedTuple):
    """An event that belongs to what a handle names. `note` stands before its text."""

    event: Event
    item: Item
    note: str = ""


class Opened(NamedTuple):
    """What a handle stands for, before anybody is asked whether they may see it.

    `leads` tell of the whole, by depth. `members` gives its events in the order in which they are
    shown: from a seq on (0: all of them), and all or only those that are decisions and facts.
    `first` is the seq of the first one in the log; `basis` gives what the leads are made of.
    """

    handle: Handle
    source: str
    leads: tuple[Lead, ...]
    members: Callable[[int, bool], Iterable[Member]]
    text: Callable[[Event], str]
    first: int
    basis: Callable[[], Iterable[Shown]] = tuple


class Shard(NamedTuple):
    """A shard's lines and their tokens.

    `events` are the ids whose whole text stands there, with their seqs; `parts` the ids of those of
    which a part does. `next` goes on where the room ended, None at the end. `hidden` is the reason
    by seq of what may not be shown.
    """

    text: str
    tokens: int
    events: dict[str, int]
    parts: tuple[str, ...]
    next: Handle | None
    hidden: dict[int, str]


def _unmarked(item: Item) -> Item:
    return item


def belongs(event: Event) -> bool:
    """Whether the event says something of its task or session: no upkeep, no boundary, no copy."""
    return event.kind not in _UNTOLD and not is_extract(event)


def says(event: Event) -> bool:
    """Whether it is a decision or a fact, rather than a turn or a result."""
    marked = event.role != "tool" and not _SAYING.isdisjoint(event.markers)
    return marked or event.kind in TYPED_KINDS


def shard(
    opened: Opened, sight: Sight, room: int, *, whole: Collection[int] = frozenset(),
    marked: Callable[[Item], Item] = _unmarked, inside: bool = False,
) -> Shard:  # fmt: skip
    """Compose the shard that the handle asks for; without text where the room holds none of it.

    `whole` are the seqs of events that stand whole where the shard will stand. `marked` gives what
    is printed of an event: the one whose label says that it is stale, where it is. `inside` a block
    the shard is one entry: all behind its first line is set in.
    """
    page = _Page(opened, sight, room, whole, marked, inside=inside)
    page.fill()
    return Shard(
        "".join(page.lines), page.tokens, page.events,
        tuple(id_ for id_ in page.parts if id_ not in page.events), page.next, page.hidden,
    )  # fmt: skip


def _rest_of(event: Event, characters: int) -> str:
    """The handle that goes on behind so many characters of an event."""
    handle = Handle("event", str(event.seq))
    # The handle of an artifact opens its file: what was said of it is no part of that.
    return str(handle if event.kind == "artifact" else handle.behind(characters))


class _Page:
    """A shard in the making."""

    def __init__(
        self, opened: Opened, sight: Sight, room: int, whole: Collection[int],
        marked: Callable[[Item], Item], *, inside: bool,
    ) -> None:  # fmt: skip
        self._opened, self._sight, self._room, self._whole = opened, sight, room, whole
        self._marked, self._inside = marked, inside
        self._told: set[int] = set()  # shown one by one
        self._lacking: list[int] = []  # seqs that the leads had no place for
        self.left, self.tokens = max(0, room), 0
        self.lines: list[str] = []
        self.events: dict[str, int] = {}
        self.parts: dict[str, None] = {}
        self.hidden: dict[int, str] = {}
        self.next: Handle | None = None

    def fill(self) -> None:
        """Put the lines in, the shallowest first, until the depth or the room is reached."""
        opened, handle = self._opened, self._opened.handle
        if not handle.start:
            self._judge(opened.basis())
            for lead in opened.leads[: handle.depth + 1]:
                self._lead(lead)
        if opened.leads and handle.depth < EVENTS_FROM:
            if self._lacking:
                self.next = handle.going_on(EVENTS_FROM + 1, min(self._lacking))
            return
        deepest = not opened.leads or handle.depth > EVENTS_FROM
        if opened.leads and not (deepest and handle.start):
            stop = self._events(opened.members(handle.start, True))
            if stop is not None:
                # Among the events the facts stand again: those go on from the first one.
                self.next = handle.going_on(handle.depth, opened.first if deepest else stop)
                return
        if deepest:
            stop = self._events(opened.members(handle.start, False))
            if stop is not None:
                self.next = handle.going_on(handle.depth, stop)
        elif self._lacking:
            self.next = handle.going_on(EVENTS_FROM + 1, min(self._lacking))

    def _judge(self, found: Iterable[Shown]) -> None:
        for one in found:
            reason = self._sight.hides(one)
            if reason is not None:
                self.hidden[one.seq] = reason

    def _lead(self, lead: Lead) -> None:
        digest = lead(self._sight, self.left)
        if digest is None:
            return
        text, tokens = self._set_in(digest.text, digest.tokens)
        if self.lines and tokens > self.left and digest.tokens <= self.left:
            digest = lead(self._sight, max(0, 2 * self.left - tokens))
            if digest is None:
                return
            text, tokens = self._set_in(digest.text, digest.tokens)
        if tokens > self.left:
            self._cut(digest)
            return
        self._put(text, tokens)
        self.events.update(zip(digest.events, digest.whole, strict=True))
        self.parts.update(dict.fromkeys(digest.parts))
        self._lacking += [quote.seq for quote in digest.left]

    def _cut(self, digest: Digest) -> None:
        """The beginning of a lead that is too long; nothing comes behind it."""
        counter = self._sight.printer.counter
        room = self.left - counter.count(_MARK)
        while room > 0 and not self.lines:
            kept = cut(counter, digest.text.rstrip("\n"), room).rstrip()
            text = f"{kept}{_MARK}"
            tokens = counter.count(text)
            if not kept:
                break
            if tokens <= self.left:
                self._put(text, tokens)
                self.parts.update(dict.fromkeys((*digest.events, *digest.parts)))
            room -= max(1, tokens - self.left)
        self._lacking.append(self._opened.first)
        self.left = 0

    def _set_in(self, text: str, tokens: int) -> tuple[str, int]:
        """The lines as they stand behind the first one."""
        if not (self._inside and self.lines):
            return text, tokens
        text = nested(text)
        return text, self._sight.printer.counter.count(text)

    def _put(self, text: str, tokens: int) -> None:
        self.lines.append(text)
        self.tokens += tokens
        self.left -= tokens

    def _events(self, members: Iterable[Member]) -> int | None:
        """Show each; return the seq of the first for which there is no room."""
        for member in members:
            seq = member.item.seq
            reason = self._sight.hides(member.item)
            if reason is not None:
                self.hidden[seq] = reason
            elif seq not in self._told and seq not in self._whole and not self._event(member):
                return seq
        return None

    def _event(self, member: Member) -> bool:
        event, item, printer = member.event, member.item, self._sight.printer
        said = self._opened.text(event)
        if event.id in self.events or not said.strip():  # the leads told all of it
            return True
        item = self._marked(item)
        text = f"{member.note}{plain(said)}"
        lines, tokens, whole = item.lines_of(text, whole=True, printer=printer)
        lines, tokens = self._set_in(lines, tokens)
        if tokens > self.left:
            if tokens <= self._room or (self.left < _LEAST and self.lines):
                return False  # it has a page of its own to come
            emitted = printer.redact(said)
            form = item.expanded(
                emitted, self.left, printer, on=partial(_rest_of, event), whole=emitted == said,
                note=member.note, inside=self._inside and bool(self.lines),
            )  # fmt: skip
            if form is None:
                return False
            lines, tokens, whole = form
        self._put(lines, tokens)
        self._told.add(item.seq)
        if whole:
            self.events[event.id] = item.seq
        else:
            self.parts[event.id] = None
        return True
