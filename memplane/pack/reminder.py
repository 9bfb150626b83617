"""Reminders: passages of earlier sessions, at a prompt where the gate opens or at a start.

At a prompt the best passages stand first, a few of them. At the start of a session the user's own
words of earlier sessions are chosen (what decides something first), and printed newest first. At a
tool one passage stands that names the file or an identifier of the failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Final

from memplane.lazy import NamedTuple, late
from memplane.pack.layout import PARTS, EntryGroup, Sheet, entry_group, entry_of, is_task_of
from memplane.pack.request import Form, LastSession, Materials, PackContext, PackQuery, Request
from memplane.policy import SectionBudget
from memplane.projections.item import Item, Printer
from memplane.projections.reports import ends_in_narration, is_report
from memplane.projections.window import plain_text
from memplane.recall.gate import (
    Passage,
    PromptAnswer,
    all_marked,
    decides,
    distinct_passages,
    is_open,
    letters_of,
    statements_of,
    tool_names,
)
from memplane.recall.suppress import Scope

if TYPE_CHECKING:
    from memplane.recall import standing as recall_standing
    from memplane.recall.standing import StandingNote
else:
    recall_standing = late("memplane.recall.standing")


# What a reminder may show: passages, and at a start what is left to do and what was decided.
SECTIONS: Final = {
    "prompt": frozenset(("retrieved_evidence",)),
    "tool": frozenset(("retrieved_evidence",)),
    "start": frozenset(("retrieved_evidence", "task_state", "relevant_decisions")),
}
TOLD: Final = "told"  # why what the session has already is left out
_PART: Final = next(part for part in PARTS if part.name == "reminder")


class Reminder(NamedTuple):
    """The passages of a reminder, in the order in which they take room.

    `answer`: at a prompt or a tool, the figures of the gate; `opens`: what it decided. `traps`: at
    a tool those that its call names.
    """

    passages: tuple[Passage, ...] = ()
    answer: PromptAnswer | None = None
    opens: bool = True
    traps: tuple[StandingNote, ...] = ()

    def as_json(self) -> dict[str, object]:
        """The decision and its figures, for the report."""
        if self.answer is None:
            return {}
        figures = self.answer.figures._asdict()
        if not figures["cosine"]:  # nobody asked for vectors
            del figures["cosine"]
        return {"opens": self.opens, **figures}


def remind(request: Request, materials: Materials, query: PackQuery, scope: Scope) -> Reminder:
    """Read the passages of the requested reminder from the source."""
    if request.remind == "start":
        return Reminder(tuple(materials.source.statements(scope)))
    if request.remind == "tool":
        line = materials.source.line(query.event) if query.event else None
        if line is None:
            return Reminder(opens=False)
        found = materials.source.at_tool(line.event, scope)
        named = tool_names(line.event)
        text = "\n".join([*named, str(line.event.data.get("command", ""))])
        traps = (
            tuple(recall_standing.named_in(materials.source.traps(scope), text)) if named else ()
        )
        return Reminder(found.passages, found, bool(found.passages or traps), traps)
    rule = materials.policies.plane.hooks.answer
    answer = materials.source.answer(query.text, scope)
    opens = is_open(answer.figures, rule)
    return Reminder(answer.passages[: rule.passages] if opens else (), answer, opens)


def said_then(sessions: Sequence[LastSession]) -> list[Passage]:
    """Messages of the sessions of a time, one of each session in turn, the newest session first.

    Within a session messages of users (decisions first) and reports of agents take turns, the
    newest first.
    """
    told: list[Iterable[Passage]] = []
    for session in sessions:
        newest = session.said[::-1]
        asked = [one for item in newest if item.role == "user" for one in _said_by_user(item)]
        asked.sort(key=lambda one: not decides(one.text))
        reported = [one for item in newest if item.role != "user" for one in _reported(item)]
        told.append(_in_turn(asked, reported))
    return distinct_passages(_in_turn(*told), letters_of)


def _said_by_user(item: Item) -> list[Passage]:
    return statements_of(item, item.text)


def _reported(item: Item) -> list[Passage]:
    """How an agent's report begins; what is no report tells of what comes next."""
    told = is_report(item.text) and not ends_in_narration(item.text)
    return statements_of(item, item.text)[:1] if told else []


def _in_turn(*lists: Iterable[Passage]) -> Iterator[Passage]:
    """The first of each, then the second of each, ..."""
    for row in zip_longest(*lists):
        yield from (one for one in row if one is not None)


def place_passages(sheet: Sheet, context: PackContext, _: SectionBudget) -> None:
    """The passages of a prompt's answer, best first."""
    for passage, form, group in list(_fitting(sheet, context)):
        _put(sheet, passage, form, group)


def place_one(sheet: Sheet, context: PackContext, _: SectionBudget) -> None:
    """The first passage that fits."""
    for passage, form, group in islice(_fitting(sheet, context), 1):
        _put(sheet, passage, form, group)


def place_statements(sheet: Sheet, context: PackContext, _: SectionBudget) -> None:
    """The user's words at a start: those that fit, the newest first.

    Words that the project's files contain are left out.
    """
    wishes = [letters_of(entry.text.lower()) for entry in sheet.placed.get("wishes", ())]

    def is_told(one: Passage) -> bool:
        """Whether the session holds it, or a wish or a task above says it."""
        said = letters_of(one.text.lower())
        return (
            all_marked(one.text, context.held_marks)
            or any(said in wish for wish in wishes)
            or is_task_of(sheet, one.text)
        )

    kept = [one for one in context.passages if not is_told(one)]
    sheet.omit_all((one.item for one in context.passages if is_told(one)), _PART.section, TOLD)
    chosen: list[tuple[Passage, Form, EntryGroup]] = []
    shown: dict[int, dict[int, str]] = {}  # the letters of events, by where their passages begin

    def is_repeated(one: Passage) -> bool:
        """Whether an event that was chosen before says it, as a decision does that quotes it."""
        said = letters_of(one.text.lower())
        events = (parts for seq, parts in shown.items() if seq != one.item.seq)
        return any(said in "".join(parts[at] for at in sorted(parts)) for parts in events)

    for row in _fitting(sheet, context._replace(passages=tuple(kept)), is_repeated):
        chosen.append(row)
        passage = row[0]
        letters = letters_of(passage.text.lower())
        shown.setdefault(passage.item.seq, {})[passage.start] = letters
    for passage, form, group in sorted(chosen, key=lambda one: (-one[0].item.seq, one[0].start)):
        _put(sheet, passage, form, group)


def leave_told(
    sheet: Sheet, context: PackContext, items: Iterable[Item], section: str
) -> tuple[Item, ...]:
    """Omit the events whose whole text is in the project's files; return the others."""
    kept: list[Item] = []
    for item in items:
        if not all_marked(item.text, context.held_marks):
            kept.append(item)
        elif context.scope.hides(item) is None:
            sheet.omit_all((item,), section, TOLD)
    return tuple(kept)


def _fitting(
    sheet: Sheet, context: PackContext, is_told: Callable[[Passage], bool] | None = None
) -> Iterator[tuple[Passage, Form, EntryGroup]]:
    """Those that fit the section's room one after the other, each with its lines.

    `is_told` is asked of each when those before it have their places.
    """
    left, dated = sheet.room(_PART), set[EntryGroup]()
    for passage in context.passages:
        item = passage.item
        if item.seq in sheet.seqs:
            continue
        if is_told is not None and is_told(passage):
            sheet.omit_all((item,), _PART.section, TOLD)
            continue
        form, group = _form(passage, sheet.printer), entry_group(item)
        cost = form[1] + (0 if group in dated else sheet.date_tokens(_PART, group))
        if cost > left:
            sheet.omit(item, _PART.section, form[1], "budget", passage.score, cost - left)
        elif not sheet.needs.take_text(form[0]):
            sheet.omit(item, _PART.section, form[1], "limit", passage.score)
        else:
            left -= cost
            dated.add(group)
            yield passage, form, group


def _put(sheet: Sheet, passage: Passage, form: Form, group: EntryGroup) -> None:
    entry = entry_of(_PART, passage.item, form, passage.score * 1000 >> 20)
    sheet.put(_PART, entry, group, kind=passage.item.kind)


def _form(passage: Passage, printer: Printer) -> Form:
    item = passage.item
    item.finish(printer.counter)
    if passage.whole:
        return item.lines_of(plain_text(passage.text), whole=True, printer=printer)
    return item.passage(passage.text, printer)
