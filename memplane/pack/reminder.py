"""Reminders: passages of earlier sessions, at a prompt where the gate opens or at a start.

At a prompt the best passages stand first, a few of them. At the start of a session the user's own
words of earlier sessions are chosen (what decides something first), and printed newest first. At a
tool one passage stands that names the file or an identifier of the failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from memplane.pack.layout import PARTS, EntryGroup, Sheet, entry_group, entry_of
from memplane.pack.request import Form, LastSession, Materials, PackContext, PackQuery, Request
from memplane.policy import SectionBudget
from memplane.projections.item import Item, Printer
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
)
from memplane.recall.suppress import Scope

__all__ = [
    "SECTIONS",
    "Reminder",
    "leave_told",
    "place_one",
    "place_passages",
    "place_statements",
    "remind",
    "said_then",
]

# What a reminder may show: passages, and at a start what is left to do and what was decided.
SECTIONS: Final = {
    "prompt": frozenset(("retrieved_evidence",)),
    "tool": frozenset(("retrieved_evidence",)),
    "start": frozenset(("retrieved_evidence", "task_state", "relevant_decisions")),
}
IN_FILES: Final = "in_files"  # why what the project's own files say is left out
_PART: Final = next(part for part in PARTS if part.name == "reminder")


class Reminder(NamedTuple):
    """What a request is reminded of: passages in the order in which they take the room.

    `answer`: at a prompt or a tool, the figures of the gate; `opens`: what it decided.
    """

    passages: tuple[Passage, ...] = ()
    answer: PromptAnswer | None = None
    opens: bool = True

    def as_json(self) -> dict[str, object]:
        """The decision and its figures, for the report."""
        if self.answer is None:
            return {}
        return {"opens": self.opens, **self.answer.figures._asdict()}


def remind(request: Request, materials: Materials, query: PackQuery, scope: Scope) -> Reminder:
    """Ask the source for the passages of a reminder; none where none was asked for."""
    if not request.remind:
        return Reminder()
    if request.remind == "start":
        return Reminder(tuple(materials.source.statements(scope)))
    if request.remind == "tool":
        line = materials.source.line(query.event) if query.event else None
        if line is None:
            return Reminder(opens=False)
        found = materials.source.at_tool(line.event, scope)
        return Reminder(found.passages, found, bool(found.passages))
    rule = materials.policies.plane.hooks.answer
    answer = materials.source.answer(query.text, scope)
    opens = is_open(answer.figures, rule)
    return Reminder(answer.passages[: rule.passages] if opens else (), answer, opens)


def said_then(sessions: Iterable[LastSession]) -> list[Passage]:
    """What was said in the sessions of a time: what decides something first, then the newest.

    Of users what has three content words, of agents how each of their answers begins.
    """
    found: list[Passage] = []
    for session in sessions:
        for item in session.said:
            told = statements_of(item, item.text)
            found += told if item.role == "user" else told[:1]
    found.sort(
        key=lambda one: (
            one.item.role != "user",
            one.item.role == "user" and not decides(one.text),
            -one.item.seq,
            one.start,
        )
    )
    return distinct_passages(found, letters_of)


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

    What the project's files say is left out.
    """
    kept = [one for one in context.passages if not all_marked(one.text, context.in_files)]
    told = (one.item for one in context.passages if all_marked(one.text, context.in_files))
    sheet.omit_all(told, _PART.section, IN_FILES)
    chosen = list(_fitting(sheet, context._replace(passages=tuple(kept))))
    for passage, form, group in sorted(chosen, key=lambda one: (-one[0].item.seq, one[0].start)):
        _put(sheet, passage, form, group)


def leave_told(
    sheet: Sheet, context: PackContext, items: Iterable[Item], section: str
) -> tuple[Item, ...]:
    """Omit the events whose whole text the project's files say; return the others."""
    kept: list[Item] = []
    for item in items:
        if not all_marked(item.text, context.in_files):
            kept.append(item)
        elif context.scope.hides(item) is None:
            sheet.omit_all((item,), section, IN_FILES)
    return tuple(kept)


def _fitting(sheet: Sheet, context: PackContext) -> Iterator[tuple[Passage, Form, EntryGroup]]:
    """Those that fit the section's room one after the other, each with its lines."""
    left, dated = sheet.room(_PART), set[EntryGroup]()
    for passage in context.passages:
        item = passage.item
        if item.seq in sheet.seqs:
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
