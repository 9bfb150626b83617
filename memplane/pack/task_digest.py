"""Summaries of a task: a line of one or two sentences, or a paragraph within a room of tokens.

Both are composed from what the reader may see, after suppression: what is hidden, forgotten or
replaced leaves no word, and the ids are those of the events that are quoted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from memplane.lazy import NamedTuple, regex, word_table
from memplane.projections.item import Printer
from memplane.projections.task_table import (
    CLOSED,
    SHOWN,
    TEXT_CHARS_MAX,
    EventQuote,
    Form,
    Place,
    TaskRecord,
)
from memplane.projections.window import handle, one_line, own_end, safe_name
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
_MARK: Final = " …"
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
        line = _line(at, one, most, sight.printer)
        if line is not None and line.tokens > free:
            line = _line(at, one, free, sight.printer) if free >= _LEAST_TOKENS else None
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
    line = _line(-1, said, most, sight.printer)
    if line is not None:
        return line
    text = f"{sight.printer.redact(label)}:{_MARK}\n"
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
    return f"{kept}{_MARK}", False


def _line(at: int, said: _Said, most: int, printer: Printer) -> _Line | None:
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
    tail = f"{_MARK} {handle(quote.seq)}"
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
