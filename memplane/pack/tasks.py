"""task_state: the active task in a paragraph, each other open one in a line."""

from __future__ import annotations

from typing import Final

from memplane.pack.block import Entry
from memplane.pack.digest import PARAGRAPH_TOKENS_MAX, Digest, Sight, is_seen, paragraph, short
from memplane.pack.layout import PARTS, Sheet
from memplane.pack.request import Materials, Request
from memplane.projections.item import Item
from memplane.projections.task_table import EventQuote, TaskRecord
from memplane.recall.suppress import Scope

__all__ = ["place_tasks"]

_PART: Final = next(part for part in PARTS if part.name == "tasks")

_OTHERS_MAX: Final = 20


def place_tasks(sheet: Sheet, materials: Materials, request: Request, scope: Scope) -> None:
    """The request's task first, else the active one of its session; then the others, newest first.

    A request that names its task sees no other.
    """
    table = materials.tasks
    mine = request.task or table.active_for(request.session)
    task = None if mine is None else table.get(mine)
    sight = Sight(scope.hides, sheet.printer, sheet.seqs)
    if task is not None:
        _place_paragraph(sheet, task, sight)
    if request.task is not None:
        return
    others = [other for other in table.open() if other.id != mine and is_seen(other, sight)]
    for other in others[:_OTHERS_MAX]:
        digest = short(other, sight, max(0, sheet.room(_PART)))
        if digest is not None:
            _put(sheet, digest)
        elif other.goal is not None and sight.sees(other.goal):
            _omit(sheet, other.goal)


def _place_paragraph(sheet: Sheet, task: TaskRecord, sight: Sight) -> None:
    room = min(sheet.room(_PART), PARAGRAPH_TOKENS_MAX)
    digest = paragraph(task, sight, room, active=True)
    if digest is None:
        if task.goal is not None and sight.sees(task.goal):
            _omit(sheet, task.goal)
        return
    _put(sheet, digest)
    for quote in digest.left:
        _omit(sheet, quote)


def _put(sheet: Sheet, digest: Digest) -> None:
    sheet.put(
        _PART,
        Entry(
            _PART.section,
            _PART.place,
            digest.text,
            digest.tokens,
            0,
            digest.events,
            digest.parts,
            "projection:tasks",
            _PART.area,
        ),
    )
    for seq in digest.whole:
        sheet.seqs.add(seq)
        sheet.whole.add(seq)
        sheet.omitted.pop(seq, None)


def _omit(sheet: Sheet, quote: EventQuote) -> None:
    item = Item({**quote.row(), "text": quote.text})
    tokens = sheet.counter.count(quote.text)
    sheet.omit(item, _PART.section, tokens, "budget", 0, max(1, tokens - sheet.room(_PART)))
