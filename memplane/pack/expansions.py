"""The entries of the handles that a request asks to expand.

The first handle is the most important one: it takes what it needs, and where the room ends the
later ones are left out, or end early with the handle that goes on.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from memplane.pack.block import Entry, Omission
from memplane.pack.expansion_depths import NO_END, OpenedHandle, Shard, shard
from memplane.pack.handles import Handle, parse_handle
from memplane.pack.layout import PARTS, Sheet
from memplane.pack.request import Expansion, PackContext, View
from memplane.pack.task_digest import Sight
from memplane.policy import SectionBudget
from memplane.projections.window import entry_lines, plain_text, safe_name
from memplane.recall.suppress import Scope
from memplane.tokens import clip

_PART: Final = next(part for part in PARTS if part.name == "expansions")

_TRIES: Final = 4  # to leave room for the handle that goes on, whose seq has more digits or fewer


def place_expansions(sheet: Sheet, context: PackContext, _: SectionBudget) -> None:
    """What the request's handles opened, in the order asked for, each cut where the room ends."""
    scope = context.scope
    for expansion in context.materials.expansions:
        if not _needed(sheet, expansion):
            name = expansion.handle if not isinstance(expansion, View) else _view_handle(expansion)
            sheet.views_omitted.append(Omission(str(name), 0, _PART.section, 0, "limit", 0, 0))
        elif isinstance(expansion, Expansion):
            _place_event(sheet, expansion, scope)
        elif isinstance(expansion, View):
            _place_view(sheet, expansion)
        else:
            _place_shard(sheet, expansion, scope)


def _needed(sheet: Sheet, expansion: Expansion | OpenedHandle | View) -> bool:
    """Count what opening it takes; False where that passes a limit."""
    if isinstance(expansion, OpenedHandle):  # of what events said, which counts as it is placed
        return sheet.needs.left > 0
    is_file = isinstance(expansion, View) or expansion.item.kind == "artifact"
    return sheet.needs.take_text(expansion.text, own_file=is_file)


def _view_handle(view: View) -> Handle:
    return Handle("views", view.path)


def _place_event(sheet: Sheet, expansion: Expansion, scope: Scope) -> None:
    item = expansion.item
    reason = scope.hides(item)
    if reason is not None and not (expansion.lost and reason == expansion.lost):
        sheet.hidden[item.seq] = reason
        return
    if expansion.lost:
        lost = Omission(expansion.handle, item.seq, _PART.section, 0, expansion.lost, 0, 0)
        sheet.views_omitted.append(lost)
        return
    # A handle shows the rest of what is in the block in part; only a whole text is not repeated.
    # The text of an artifact's event is not the artifact's text.
    repeated = item.seq in sheet.whole and item.kind != "artifact"
    if repeated or not expansion.text.strip():
        return
    room = sheet.room(_PART)
    handle, start = parse_handle(expansion.handle), expansion.start

    def on(characters: int) -> str:
        return str(handle.behind(start + characters))

    form = sheet.marked(_PART, item).expanded(
        expansion.text, room, sheet.printer, on=on, whole=expansion.whole, ends=expansion.ends
    )
    if form is None:
        tokens = sheet.counter.count(expansion.text)
        _give_up(sheet, expansion.handle, tokens, tokens - room, item.seq)
        return
    lines, tokens, whole = form
    ids = (item.id,)
    sheet.put(
        _PART,
        Entry(
            _PART.section,
            _PART.place,
            lines,
            tokens,
            0,
            ids if whole else (),
            () if whole else ids,
            "event",
            _PART.area,
            item.seq,
        ),
    )


def _place_view(sheet: Sheet, view: View) -> None:
    """The view as quoted data: nothing in it can end the quotation."""
    count, room = sheet.counter.count, sheet.room(_PART)
    handle = _view_handle(view)
    if view.start and not view.text:
        name = str(handle.behind(view.start))
        lost = Omission(name, 0, _PART.section, 0, "past_end", 0, 0)
        sheet.views_omitted.append(lost)
        return
    head = f"view {safe_name(view.path)}"
    lines = entry_lines(head, plain_text(view.text))
    tokens = count(lines)
    if tokens > room:
        made = clip(
            sheet.counter,
            view.text,
            room,
            lambda kept: entry_lines(
                head, plain_text(kept), f"\n… {handle.behind(view.start + len(kept))}"
            ),
            around=tokens - count(view.text),
            ended=_to_line,
        )
        if made is None:
            _give_up(sheet, str(handle.behind(view.start)), tokens, tokens - room)
            return
        lines, tokens = made
    source = f"view:{view.path}@{view.sha256}"
    sheet.put(
        _PART, Entry(_PART.section, _PART.place, lines, tokens, 0, (), (), source, _PART.area)
    )


def _to_line(text: str) -> str:
    kept = text[: text.rfind("\n") + 1]
    return kept if kept.strip() else ""


def _place_shard(sheet: Sheet, opened: OpenedHandle, scope: Scope) -> None:
    sight = Sight(scope.hides, sheet.printer, sheet.whole)
    room = sheet.room(_PART)
    made, mark = _fitted(sheet, opened, sight, room)
    sheet.hidden.update(made.hidden)
    if not made.text:
        least = _least(opened, sight)
        if least:  # else there is nothing that this request may see, or all of it stands here
            _give_up(sheet, str(opened.handle), least, least - room)
        return
    if not sheet.needs.take_text(made.text):
        lost = Omission(str(opened.handle), 0, _PART.section, made.tokens, "limit", 0, 0)
        sheet.views_omitted.append(lost)
        return
    tokens = made.tokens + sheet.counter.count(mark)
    sheet.put(
        _PART,
        Entry(
            _PART.section,
            _PART.place,
            f"{made.text}{mark}",
            tokens,
            0,
            tuple(made.events),
            made.parts,
            opened.source,
            _PART.area,
        ),
    )
    if made.next is not None:
        sheet.views_omitted.append(Omission(str(made.next), 0, _PART.section, 0, "cut", 0, 0))
    for seq in made.events.values():
        sheet.seqs.add(seq)
        sheet.whole.add(seq)
        sheet.omitted.pop(seq, None)
        sheet.passed.pop(seq, None)


def _fitted(sheet: Sheet, opened: OpenedHandle, sight: Sight, room: int) -> tuple[Shard, str]:
    """What the handle opens and the line with the handle that goes on; both within the room."""
    count = sheet.counter.count
    marked, whole = partial(sheet.marked, _PART), sheet.whole
    made, spare = shard(opened, sight, room, whole=whole, marked=marked, inside=True), 0
    for _ in range(_TRIES):
        mark = "" if made.next is None else f" … {made.next}\n"
        over = made.tokens + count(mark) - room
        if over <= 0 or not made.text:
            return made, mark
        spare += max(over, count(mark) - spare)
        made = shard(opened, sight, room - spare, whole=whole, marked=marked, inside=True)
    return made, ""


def _least(opened: OpenedHandle, sight: Sight) -> int:
    """Tokens of the shortest thing to say of it; 0 where there is nothing."""
    handle = opened.handle
    shortest = opened._replace(handle=handle if handle.start else handle.going_on(0, 0))
    elsewhere = frozenset(sight.elsewhere)
    return shard(shortest, sight, NO_END, whole=elsewhere, inside=True).tokens


def _give_up(sheet: Sheet, handle: str, tokens: int, short_by: int, seq: int = 0) -> None:
    omission = Omission(handle, seq, _PART.section, tokens, "budget", 0, max(1, short_by))
    sheet.views_omitted.append(omission)
