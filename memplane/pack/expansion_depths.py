"""What a handle opens at each depth, and the summaries of a task or session as a whole.

A deeper text begins with the shallower one, word for word, whatever the room: first the summary
(depth 0 a sentence, depth 1 the rest of its paragraph), then decisions and facts (depth 2), then
every other event (depth 3). It ends where the room ends, with the handle that goes on. Everything
is composed of what the reader may see; the rest is counted by its reason.

A summary of a session is composed when it is asked for, from the events that the reader may see,
so that it holds nothing that was forgotten or replaced meanwhile.

The summary of a task is a line of one or two sentences, or a paragraph within a room of tokens. It
is composed after suppression: what is hidden, forgotten or replaced leaves no word, and the ids are
those of the events that are quoted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from memplane.event import TYPED_KINDS, UPKEEP_KINDS, Event, is_extract
from memplane.lazy import NamedTuple, regex, word_table
from memplane.pack.block import EVENTS_FROM, Handle
from memplane.projections.item import (
    Item,
    Printer,
    handle,
    nested,
    one_line,
    own_end,
    plain_text,
    safe_name,
)
from memplane.projections.tasks import (
    CLOSED,
    SHOWN,
    TEXT_CHARS_MAX,
    EventQuote,
    Form,
    Place,
    TaskRecord,
    task_of,
)
from memplane.recall.session_digest import extract, is_readable, title_in
from memplane.recall.suppress import NAMED, VisibilityFields
from memplane.tokens import clip

PARAGRAPH_TOKENS_MAX: Final = 400
_GOAL_TOKENS: Final = 120
_LINE_TOKENS: Final = 64
# Text that is in the block already is cut to this.
_AGAIN_TOKENS: Final = 28
_LEAST_TOKENS: Final = 16
_SENTENCE_CHARS: Final = 160
_TOOL_CHARS: Final = 40
_NO_GOAL: Final = "(no goal to show)"
_CUT_MARK: Final = " …"
_ENDS: Final = (".", "!", "?", "…", "\u3002", "\uff01", "\uff1f")
_SENTENCE: Final = regex(r"(?<=[.!?])\s|(?<=[\u3002\uff01\uff1f])")
# A paragraph fills in this order: what a reader needs most comes first, wherever it prints.
_ORDER: Final = word_table("""
    state failing doing decided next note failed todo older past made files
""")
_BY_STATE: Final = {"doing": "doing", "failed": "doing", "todo": "todo", "done": "past"}
_STANDS: Final = {"doing": "Doing", "todo": "Next,", "failed": "Failed:"}
_FORMS_MAX: Final = 64


class Sight(NamedTuple):
    """The reader: what is hidden from it, how text is printed, which seqs its block has already."""

    hides: Callable[[VisibilityFields], str | None]
    printer: Printer
    elsewhere: Collection[int] = frozenset()

    def sees(self, quote: EventQuote | None) -> bool:
        """Whether the event exists and may be shown."""
        return quote is not None and self.hides(quote) is None

    def names(self, quote: EventQuote) -> bool:
        """Whether the event may be named, even if its text may not be shown."""
        return self.hides(quote) in NAMED


class PlanStep(NamedTuple):
    """One step of a plan. `state`: todo, doing, done or failed."""

    text: str
    state: str


class NumberedStep(NamedTuple):
    """A step, and the number that its client has given to it.

    "" where it gave none: then the step is called by its place in the plan.
    """

    text: str
    state: str
    number: str = ""


class Digest(NamedTuple):
    """Lines and their tokens; ids of events that are quoted whole, and of those quoted in part.

    `whole` are the seqs of `events`, which are nowhere else in the block; `left` what the room had
    no place for.
    """

    text: str
    tokens: int
    events: tuple[str, ...]
    parts: tuple[str, ...]
    whole: tuple[int, ...]
    left: tuple[EventQuote, ...]


class _Said(NamedTuple):
    rank: str
    quotes: tuple[EventQuote, ...]
    label: str
    text: str
    most: int  # tokens


class _Line(NamedTuple):
    at: int
    text: str
    tokens: int
    whole: bool
    quotes: tuple[EventQuote, ...]


def is_seen(task: TaskRecord, sight: Sight) -> bool:
    """Whether the reader may know of the task: it sees one of its own events."""
    return any(map(sight.sees, (task.goal, task.note, task.plan, task.state)))


def plan_steps(task: TaskRecord, sight: Sight) -> list[NumberedStep]:
    """The plan as the reader may see it: hidden marks change nothing."""
    if task.plan is None or not sight.sees(task.plan):
        return []
    found = []
    for place, (text, state, *given) in enumerate(task.plan.more, 1):
        mark = task.marks.get(place)
        seen = mark is not None and sight.sees(mark)
        now = mark.more[0] if mark is not None and seen else state
        found.append(NumberedStep(text, now, *given))
    return found


def task_paragraph(
    task: TaskRecord, sight: Sight, room: int, *, active: bool, headed: bool = True
) -> Digest | None:
    """The task in lines: goal, status, plan, decisions, open failures, artifacts, files.

    Takes at most `room` tokens; the least important lines are dropped first, and a cut line has a
    mark. None where the reader sees nothing of it, or not even its name fits. `headed`: with the
    line of name and goal.
    """
    if not is_seen(task, sight):
        return None
    status = "active" if active and task.status == "open" else task.status
    lines: list[_Line] = []
    if headed:
        label = f"task {safe_name(task.id)} ({status})"
        lines.append(_head(label, task, sight, min(room, _GOAL_TOKENS)))
    free = room - sum(line.tokens for line in lines)
    if free < 0:
        return None
    said = [*_state(task, sight), *_plan(task, sight), *_history(task, sight)]
    if headed:  # behind the first line of an entry every other one is set in
        said = [one._replace(label=f" {one.label}") for one in said]
    left: list[EventQuote] = []
    for at in sorted(range(len(said)), key=lambda at: (_ORDER.index(said[at].rank), at)):
        one = said[at]
        known = any(quote.seq in sight.elsewhere for quote in one.quotes)
        most = min(one.most, _AGAIN_TOKENS) if known else one.most
        line = _said_line(at, one, most, sight.printer)
        if line is not None and line.tokens > free:
            line = _said_line(at, one, free, sight.printer) if free >= _LEAST_TOKENS else None
        if line is None:
            left += one.quotes
        else:
            lines.append(line)
            free -= line.tokens
    return _digest(sorted(lines), left, sight)


def task_sentence(
    task: TaskRecord, sight: Sight, room: int, *, label: bool = True
) -> Digest | None:
    """The task in one or two sentences: its goal, and its state.

    None where the reader sees nothing of it, or there is no room.
    """
    if not is_seen(task, sight):
        return None
    goal = _goal(task, sight)
    what, whole = (
        first_sentence(goal.text, sight.printer) if goal is not None else (_NO_GOAL, False)
    )
    name = f"task {safe_name(task.id)}" if label else ""
    second, about = _standing(task, sight)
    for tail, quote in ((second, about), ("", None)):
        words = f"{what} {tail}".rstrip()
        text = sight.printer.redact(f"{name}: ") + words if label else words
        tokens = _count(task, f"{text}\n", sight.printer)
        if tokens <= room:
            first = () if goal is None else (goal,)
            told = whole and goal is not None and goal.whole
            lines = [_Line(0, f"{text}\n", tokens, told, first)]
            if quote is not None and quote is not goal:
                lines.append(_Line(1, "", 0, False, (quote,)))
            return _digest(lines, [], sight)
    return None


def _goal(task: TaskRecord, sight: Sight) -> EventQuote | None:
    goal = task.goal
    return goal if goal is not None and goal.text and sight.sees(goal) else None


def _head(label: str, task: TaskRecord, sight: Sight, most: int) -> _Line:
    goal = _goal(task, sight)
    if goal is None:
        text = f"{sight.printer.redact(label)}: {_NO_GOAL}\n"
        return _Line(-1, text, _count(task, text, sight.printer), False, ())
    said = _Said("goal", (goal,), label, goal.text, most)
    line = _said_line(-1, said, most, sight.printer)
    if line is not None:
        return line
    text = f"{sight.printer.redact(label)}:{_CUT_MARK}\n"
    return _Line(-1, text, _count(task, text, sight.printer), False, ())


def _state(task: TaskRecord, sight: Sight) -> Iterator[_Said]:
    if task.state is not None and sight.sees(task.state) and task.state.text:
        yield _Said("state", (task.state,), f"- {task.status}", task.state.text, _LINE_TOKENS)


def _plan(task: TaskRecord, sight: Sight) -> Iterator[_Said]:
    plan, waiting = task.plan, True
    for place, step in enumerate(plan_steps(task, sight), 1):
        assert plan is not None
        rank = _BY_STATE[step.state]
        if step.state == "todo" and waiting:
            rank, waiting = "next", False
        # By this name, `task 5`, the client's own tools take the step.
        name = f"task {step.number}" if step.number else f"step {place}"
        yield _Said(rank, (plan,), f"- {step.state} {name}", step.text, _LINE_TOKENS)


def _history(task: TaskRecord, sight: Sight) -> Iterator[_Said]:
    if task.note is not None and sight.sees(task.note):
        yield _Said("note", (task.note,), "- note", task.note.text, _LINE_TOKENS)
    decisions = visible_quotes(task.decisions, "decisions", sight)
    for quote in decisions:
        rank = "decided" if quote is decisions[-1] else "older"
        yield _Said(rank, (quote,), "- decided", quote.text, _LINE_TOKENS)
    failures = visible_quotes(task.failures, "failures", sight)
    for quote in failures:
        rank = "failing" if quote is failures[-1] else "failed"
        yield _Said(rank, (quote,), _failing("- failing", quote), quote.text, _LINE_TOKENS)
    for quote in visible_artifacts(task, sight):
        said = artifact_words(quote, sight)
        if said:
            yield _Said("made", (quote,), "- artifact", said, _LINE_TOKENS)
    files = visible_quotes(task.files, "files", sight)
    if files:
        names = ", ".join(quote.path for quote in reversed(files))
        yield _Said("files", tuple(reversed(files)), "- files", names, _LINE_TOKENS)


def visible_quotes(quotes: Sequence[EventQuote], name: str, sight: Sight) -> list[EventQuote]:
    """The newest that the reader may see, in log order."""
    return [quote for quote in quotes if sight.sees(quote)][-SHOWN[name] :]


def visible_artifacts(task: TaskRecord, sight: Sight) -> list[EventQuote]:
    """The newest artifacts that the reader may know of, in log order."""
    return [one for one in task.artifacts if sight.names(one)][-SHOWN["artifacts"] :]


def artifact_words(quote: EventQuote, sight: Sight) -> str:
    """The text of an artifact's event, if it is approved, and its card.

    "" for one without a card that is not approved.
    """
    said = quote.text if sight.sees(quote) else ""
    return " ".join(" ".join((said, *quote.more)).split())


def _failing(word: str, quote: EventQuote) -> str:
    return f"{word} {safe_name(quote.tool)[:_TOOL_CHARS]}".rstrip()


def _standing(task: TaskRecord, sight: Sight) -> tuple[str, EventQuote | None]:
    """The second sentence: why the task is closed, what fails, or which step comes next."""
    printer = sight.printer
    if task.status != "open":
        word = task.status.capitalize()
        if task.state is not None and sight.sees(task.state) and task.state.text:
            return f"{word}: {first_sentence(task.state.text, printer)[0]}", task.state
        return (f"{word}.", None) if task.status in CLOSED or task.state is not None else ("", None)
    failures = visible_quotes(task.failures, "failures", sight)
    if failures:
        quote = failures[-1]
        label = printer.redact(_failing("Failing", quote))
        return f"{label}: {first_sentence(quote.text, printer)[0]}", quote
    plan = plan_steps(task, sight)
    ahead = [step for state in ("doing", "todo", "failed") for step in plan if step.state == state]
    if not ahead:
        return ("All steps done." if plan else ""), None
    number = plan.index(ahead[0]) + 1
    text = first_sentence(ahead[0].text, printer)[0]
    return f"{_STANDS[ahead[0].state]} step {number} of {len(plan)}: {text}", task.plan


def first_sentence(text: str, printer: Printer) -> tuple[str, bool]:
    """Return the first sentence, marked where it is not the whole text; and whether it is that."""
    words = one_line(printer.redact(text))
    first = _SENTENCE.split(words, maxsplit=1)[0]
    kept = first[:_SENTENCE_CHARS]
    if kept != first:
        kept = kept.rpartition(" ")[0] or kept
    if kept == words and len(text) < TEXT_CHARS_MAX:
        return (kept if kept.endswith(_ENDS) else f"{kept}."), words == one_line(text)
    return f"{kept}{_CUT_MARK}", False


def _said_line(at: int, said: _Said, most: int, printer: Printer) -> _Line | None:
    """The line within its tokens: whole, or its beginning with the handle that shows the rest."""
    quote = said.quotes[0]
    place = (said.label, said.text, most, printer.stamp)
    made = quote.forms.get(place)
    if made is None:
        made = _remember(quote, place, _made(said, quote, most, printer))
    text, tokens, whole = made
    return _Line(at, text, tokens, whole, said.quotes) if text else None


def _made(said: _Said, quote: EventQuote, most: int, printer: Printer) -> tuple[str, int, bool]:
    count = printer.counter.count
    label, words = printer.redact(said.label), own_end(one_line(printer.redact(said.text)))
    own = said.text is quote.text or said.text == quote.text
    clipped = own and not quote.whole and len(quote.text) >= TEXT_CHARS_MAX
    tail = f"{_CUT_MARK} {handle(quote.seq)}"
    line = f"{label}: {words}{tail if clipped else ''}\n" if words else f"{label}\n"
    tokens = count(line)
    if tokens <= most:
        return line, tokens, own and quote.whole and words == one_line(quote.text)
    made = clip(
        printer.counter,
        words,
        most,
        lambda kept: f"{label}: {kept}{tail}\n",
        around=count(f"{label}:{tail}\n"),
        ended=_to_sentence,
        step=2,
    )
    return ("", 0, False) if made is None else (*made, False)


def _to_sentence(text: str) -> str:
    """The text without a last sentence that is not whole, unless that takes more than half."""
    text = text.rstrip()
    ends = [match.start() for match in _SENTENCE.finditer(text)]
    return text[: ends[-1]] if ends and 2 * ends[-1] >= len(text) else text


def _count(task: TaskRecord, text: str, printer: Printer) -> int:
    """Tokens of a line, remembered with the event that the task began with."""
    holder = task.goal or task.state or task.note or task.plan
    if holder is None:
        return printer.counter.count(text)
    place = ("", text, 0, printer.stamp)
    known = holder.forms.get(place)
    if known is None:
        known = _remember(holder, place, (text, printer.counter.count(text), False))
    return known[1]


def _remember(quote: EventQuote, place: Place, made: Form) -> Form:
    """Keep a form with its quote; a block's bytes never depend on what is kept."""
    if len(quote.forms) >= _FORMS_MAX:
        quote.forms.clear()
    quote.forms[place] = made
    return made


def _digest(lines: list[_Line], left: list[EventQuote], sight: Sight) -> Digest:
    told: dict[str, tuple[int, bool]] = {}
    for line in lines:
        for quote in line.quotes:
            whole = line.whole or told.get(quote.id, (0, False))[1]
            told[quote.id] = (quote.seq, whole)
    whole_of = {id_: seq for id_, (seq, whole) in told.items() if whole}
    # An event is rendered once: one that is elsewhere in the block is only quoted here.
    events = {id_: seq for id_, seq in whole_of.items() if seq not in sight.elsewhere}
    return Digest(
        "".join(line.text for line in lines),
        sum(line.tokens for line in lines),
        tuple(events),
        tuple(id_ for id_ in told if id_ not in events),
        tuple(events.values()),
        tuple(quote for quote in left if quote.id not in told),
    )


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
