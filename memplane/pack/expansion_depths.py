"""What a handle opens at each depth, and the summaries of a task or session as a whole.

A deeper text begins with the shallower one, word for word, whatever the room: first the summary
(depth 0 a sentence, depth 1 the rest of its paragraph), then decisions and facts (depth 2), then
every other event (depth 3). It ends where the room ends, with the handle that goes on. Everything
is composed of what the reader may see; the rest is counted by its reason.

A summary of a session is composed when it is asked for, from the events that the reader may see,
so that it holds nothing that was forgotten or replaced meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Final

from memplane.event import TYPED_KINDS, UPKEEP_KINDS, Event
from memplane.lazy import NamedTuple
from memplane.pack.handles import EVENTS_FROM, Handle
from memplane.pack.task_digest import Digest, Sight, first_sentence, task_paragraph, task_sentence
from memplane.projections.item import Item
from memplane.projections.sessions import is_extract
from memplane.projections.task_table import TaskRecord
from memplane.projections.tasks import task_of
from memplane.projections.window import nested, one_line, own_end, plain_text, safe_name
from memplane.recall.session_digest import extract, is_readable, title_in
from memplane.recall.suppress import VisibilityFields
from memplane.tokens import clip

# An event that no page can hold is cut only where there is room for so many tokens of it.
_LEAST: Final = 48
NO_END: Final = 2**63  # tokens of a room without an end
_TASKS_MAX: Final = 8
_MARK_TOKENS: Final = 2  # of the dash before a line, at most

_MARK: Final = " …\n"

_SAYING: Final = frozenset(("decision", "constraint"))  # markers that make a turn a statement

_UNTOLD: Final = frozenset((*UPKEEP_KINDS, "session", "approval", "episode", "secret"))

# A part of the summary, from the reader and the room in tokens; None where there is nothing more.
Lead = Callable[[Sight, int], Digest | None]


class Member(NamedTuple):
    """An event of what a handle names. `note` is printed before its text."""

    event: Event
    item: Item
    note: str = ""


class OpenedHandle(NamedTuple):
    """What a handle refers to, before suppression.

    `leads` compose the summary for a depth. `members` gives its events in the order in which they
    are shown: from a seq on (0: all), and all or only decisions and facts. `first` is the seq of
    the first in the log; `basis` gives the events that the leads are made of.
    """

    handle: Handle
    source: str
    leads: tuple[Lead, ...]
    members: Callable[[int, bool], Iterable[Member]]
    text: Callable[[Event], str]
    first: int
    basis: Callable[[], Iterable[VisibilityFields]] = tuple


class Shard(NamedTuple):
    """What a handle opened within a room: lines and their tokens.

    `events` are the ids and seqs of events whose whole text is there; `parts` the ids of those of
    which a part is. `next` is the handle of what comes behind the end of the room, None at the end.
    `hidden` maps seqs of events that may not be shown to the reason.
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
    """Whether an event is content of its task or session, and not upkeep, boundary or summary."""
    return event.kind not in _UNTOLD and not is_extract(event)


def says(event: Event) -> bool:
    """Whether it is a decision or a fact, and not a turn or a result."""
    marked = event.role != "tool" and not _SAYING.isdisjoint(event.markers)
    return marked or event.kind in TYPED_KINDS


def shard(
    opened: OpenedHandle,
    sight: Sight,
    room: int,
    *,
    whole: Collection[int] = frozenset(),
    marked: Callable[[Item], Item] = _unmarked,
    inside: bool = False,
) -> Shard:
    """Compose what the handle asks for; an empty text where no part of it fits the room.

    `whole` are the seqs of events whose whole text is in the block already. `marked` gives the item
    that is printed for an event: a stale one has its mark. `inside` a block the lines are one
    entry: all but the first are indented.
    """
    page = _Page(opened, sight, room, whole, marked, inside=inside)
    page.fill()
    return Shard(
        "".join(page.lines),
        page.tokens,
        page.events,
        tuple(id_ for id_ in page.parts if id_ not in page.events),
        page.next,
        page.hidden,
    )


def _rest_of(event: Event, characters: int) -> str:
    """The handle of the rest of an event, behind so many characters."""
    handle = Handle("event", str(event.seq))
    # The handle of an artifact opens its file; the text of its event is no part of that.
    return str(handle if event.kind == "artifact" else handle.behind(characters))


class _Page:
    """A shard in the making."""

    def __init__(
        self,
        opened: OpenedHandle,
        sight: Sight,
        room: int,
        whole: Collection[int],
        marked: Callable[[Item], Item],
        *,
        inside: bool,
    ) -> None:
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
        """Add the lines, the shallowest depth first, until the depth or the room is reached."""
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
                # The events begin with the first one again, facts included.
                self.next = handle.going_on(handle.depth, opened.first if deepest else stop)
                return
        if deepest:
            stop = self._events(opened.members(handle.start, False))
            if stop is not None:
                self.next = handle.going_on(handle.depth, stop)
        elif self._lacking:
            self.next = handle.going_on(EVENTS_FROM + 1, min(self._lacking))

    def _judge(self, found: Iterable[VisibilityFields]) -> None:
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
        made = None
        if not self.lines:
            made = clip(
                counter,
                digest.text.rstrip("\n"),
                self.left,
                lambda kept: f"{kept}{_MARK}",
                around=counter.count(_MARK),
            )
        if made is not None:
            self._put(*made)
            self.parts.update(dict.fromkeys((*digest.events, *digest.parts)))
        self._lacking.append(self._opened.first)
        self.left = 0

    def _set_in(self, text: str, tokens: int) -> tuple[str, int]:
        """The lines as they are printed behind the first one, and their tokens."""
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
        text = f"{member.note}{plain_text(said)}"
        lines, tokens, whole = item.lines_of(text, whole=True, printer=printer)
        lines, tokens = self._set_in(lines, tokens)
        if tokens > self.left:
            if tokens <= self._room or (self.left < _LEAST and self.lines):
                return False  # it has a page of its own to come
            emitted = printer.redact(said)
            form = item.expanded(
                emitted,
                self.left,
                printer,
                on=partial(_rest_of, event),
                whole=emitted == said,
                note=member.note,
                inside=self._inside and bool(self.lines),
            )
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


def task_leads(task: TaskRecord, *, active: bool) -> tuple[Lead, ...]:
    """The one or two sentences about a task, and the paragraph that follows them."""

    def line(sight: Sight, room: int) -> Digest | None:
        return task_sentence(task, sight, room) or task_sentence(task, sight, NO_END)

    def rest(sight: Sight, room: int) -> Digest | None:
        told, goal = task_sentence(task, sight, NO_END), task.goal
        headed = told is None or goal is None or goal.id not in told.events
        return task_paragraph(task, sight, room, active=active, headed=headed)

    return line, rest


def session_leads(
    name: str, members: Callable[[], Sequence[Member]], *, now: str, tokens_max: int
) -> tuple[Lead, ...]:
    """The time of a session and its first question; its summary and the tasks it names."""

    def line(sight: Sight, _: int) -> Digest | None:
        seen = _seen(members(), sight)
        return _line(name, seen, sight) if seen else None

    def rest(sight: Sight, room: int) -> Digest | None:
        seen = _seen(members(), sight)
        lines, refs = _summary(seen, sight, min(room, tokens_max), now)
        about = _about(seen)
        lines = [line for line in lines if about is None or not _repeats(line, about, sight)]
        count = sight.printer.counter.count
        tasks, naming = _tasks(seen, sight)
        text = "".join(lines)
        if tasks and count(text) + count(tasks) <= room:
            text, refs = f"{text}{tasks}", [*refs, *naming]
        parts = tuple(dict.fromkeys(refs))
        return Digest(text, count(text), (), parts, (), ()) if text else None

    return line, rest


def _seen(members: Sequence[Member], sight: Sight) -> list[Member]:
    return [one for one in members if sight.hides(one.item) is None]


def _line(name: str, seen: list[Member], sight: Sight) -> Digest:
    """The session's line; the event that it quotes is among the ids."""
    days = sorted((seen[0].item.ts[:10], *(one.item.ts[:10] for one in seen)))
    span = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
    count = "1 event" if len(seen) == 1 else f"{len(seen)} events"
    label = sight.printer.redact(f"session {safe_name(name)} ({span}, {count})")
    about = _about(seen)
    events, parts, whole = (), (), ()  # type: tuple[str, ...], tuple[str, ...], tuple[int, ...]
    said = ""
    if about is not None:
        words, entire = first_sentence(about.event.text, sight.printer)
        said = f": {words}"
        if entire and about.item.whole and about.item.seq not in sight.elsewhere:
            events, whole = (about.event.id,), (about.item.seq,)
        else:
            parts = (about.event.id,)
    text = f"{label}{said}\n"
    return Digest(text, sight.printer.counter.count(text), events, parts, whole, ())


def _about(seen: list[Member]) -> Member | None:
    """The first prompt; else the first text of any role but tool."""
    said = [one for one in seen if one.event.text.strip() and one.event.role != "tool"]
    asked = [one for one in said if one.event.kind == "message" and one.event.role == "user"]
    plain = [one for one in asked if "command" not in one.event.tags]
    return next(iter((*plain, *asked, *said)), None)


def _repeats(line: str, about: Member, sight: Sight) -> bool:
    """Whether a line of the summary only repeats the session's first line."""
    words, whole = first_sentence(about.event.text, sight.printer)
    title, branch = title_in(line.removeprefix("- ").rstrip())
    asked = line.removeprefix("- Asked: ").rstrip()
    return whole and ((bool(title) and not branch and title in words) or asked == words)


def _listed(words: str) -> str:
    """A line of a digest. It may be the last one, and is no mark of what was cut."""
    return f"- {own_end(one_line(words))}\n"


def _summary(seen: list[Member], sight: Sight, room: int, now: str) -> tuple[list[str], list[str]]:
    """The lines of a summary, and the ids of what it is made of."""
    counter = sight.printer.counter
    events = [one.event for one in seen if is_readable(one.event, now)]
    most = room
    while most > 0:
        made = extract(events, counter=counter, tokens_max=most, redact=sight.printer.redact)
        if made is None:
            break
        lines = [_listed(line) for line in made.text.split("\n")]
        over = counter.count("".join(lines)) - room
        if over <= 0:
            return lines, list(made.refs)
        most -= max(over, _MARK_TOKENS)
    return [], []


def _tasks(seen: list[Member], sight: Sight) -> tuple[str, list[str]]:
    """The tasks that the events name, the last one first."""
    found: dict[str, str] = {}
    for one in reversed(seen):
        name = task_of(one.event)
        if name is not None and len(found) < _TASKS_MAX:
            found.setdefault(sight.printer.redact(one_line(name)), one.event.id)
    return (_listed(f"Tasks: {', '.join(found)}") if found else ""), list(found.values())
