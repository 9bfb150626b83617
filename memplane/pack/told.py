"""What is told of a task or session as a whole, before its events: a line, then a paragraph.

A session's is made of its events at the moment of asking, of those that the reader may see, so that
nothing that was forgotten or replaced meanwhile lives on in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from memplane.pack.digest import Digest, Sight, paragraph, sentence, short
from memplane.pack.shards import Lead, Member
from memplane.projections.task_table import Task
from memplane.projections.tasks import task_of
from memplane.projections.window import named, one_line
from memplane.recall.extract import extract, readable

__all__ = ["session_leads", "task_leads"]

_NO_END: Final = 2**63
_TASKS_MAX: Final = 8
_MARK_TOKENS: Final = 2  # of the dash before a line, at most


def task_leads(task: Task, *, active: bool) -> tuple[Lead, ...]:
    """A sentence or two about a task; the paragraph that goes on behind them."""

    def line(sight: Sight, room: int) -> Digest | None:
        return short(task, sight, room) or short(task, sight, _NO_END)

    def rest(sight: Sight, room: int) -> Digest | None:
        told, goal = short(task, sight, _NO_END), task.goal
        headed = told is None or goal is None or goal.id not in told.events
        return paragraph(task, sight, room, active=active, headed=headed)

    return line, rest


def session_leads(
    name: str, members: Callable[[], Sequence[Member]], *, now: str, tokens_max: int
) -> tuple[Lead, ...]:
    """When a session was and what was asked first; a summary of it, and the tasks it names."""

    def line(sight: Sight, _: int) -> Digest | None:
        seen = _seen(members(), sight)
        return _line(name, seen, sight) if seen else None

    def rest(sight: Sight, room: int) -> Digest | None:
        seen = _seen(members(), sight)
        lines, refs = _summary(seen, sight, min(room, tokens_max), now)
        lines = [line for line in lines if line != _said_already(seen, sight)]
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
    """The session's line; what it says it is about has its event among the ids."""
    days = sorted((seen[0].item.ts[:10], *(one.item.ts[:10] for one in seen)))
    span = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
    count = "1 event" if len(seen) == 1 else f"{len(seen)} events"
    label = sight.printer.redact(f"session {named(name)} ({span}, {count})")
    about = _about(seen)
    events, parts, whole = (), (), ()  # type: tuple[str, ...], tuple[str, ...], tuple[int, ...]
    said = ""
    if about is not None:
        words, entire = sentence(about.event.text, sight.printer)
        said = f": {words}"
        if entire and about.item.whole and about.item.seq not in sight.elsewhere:
            events, whole = (about.event.id,), (about.item.seq,)
        else:
            parts = (about.event.id,)
    text = f"{label}{said}\n"
    return Digest(text, sight.printer.counter.count(text), events, parts, whole, ())


def _about(seen: list[Member]) -> Member | None:
    """What was asked first; else what was said first by anybody but a tool."""
    said = [one for one in seen if one.event.text.strip() and one.event.role != "tool"]
    asked = [one for one in said if one.event.kind == "message" and one.event.role == "user"]
    plain = [one for one in asked if "command" not in one.event.tags]
    return next(iter((*plain, *asked, *said)), None)


def _said_already(seen: list[Member], sight: Sight) -> str:
    """The line of the summary that says no more than the session's first line does."""
    about = _about(seen)
    if about is None or not sentence(about.event.text, sight.printer)[1]:
        return ""
    return f"- Asked first: {one_line(about.event.text)}\n"


def _summary(seen: list[Member], sight: Sight, room: int, now: str) -> tuple[list[str], list[str]]:
    """The lines of a summary, and the ids of what it is made of."""
    counter = sight.printer.counter
    events = [one.event for one in seen if readable(one.event, now)]
    most = room
    while most > 0:
        made = extract(events, counter=counter, tokens_max=most, redact=sight.printer.redact)
        if made is None:
            break
        lines = [f"- {one_line(line)}\n" for line in made.text.split("\n")]
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
    return (f"- Tasks: {', '.join(found)}\n" if found else ""), list(found.values())
