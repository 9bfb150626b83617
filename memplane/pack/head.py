"""Areas A and B: views, and the cards and decisions in force as of the session's epoch.

Nothing here looks at the query or at anything younger than the epoch, except to leave out what
was corrected: that is what keeps the head of a session's blocks the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

from memplane.pack.block import Entry, Omission
from memplane.pack.layout import DECISIONS, PARTS, Part, Sheet, own_part
from memplane.pack.request import Materials, View
from memplane.policy import Budgets
from memplane.projections.item import Item
from memplane.projections.window import shown_view
from memplane.recall.cards import is_card, merged
from memplane.recall.suppress import Scope
from memplane.tokens import cut

__all__ = [
    "omit_left", "omit_lost", "place_cards", "place_decisions", "place_views", "section_of_view",
]  # fmt: skip

_BY_NAME = {part.name: part for part in PARTS}
_STANDARD = {"preferences": "identity"}
_VIEW_MIN = 8
# Only these parts are made of views; a view of another section stands in the tail.
_VIEW_PARTS = ("identity", "rules")


def section_of_view(path: str, budgets: Budgets) -> str | None:
    """The section that shows a view: the one that names it, else the word before the first dot."""
    for section in budgets.sections:
        if path in section.views:
            return section.name
    word = path.rpartition("/")[2].partition(".")[0]
    name = _STANDARD.get(word, word)
    return name if budgets.section(name) is not None else None


def place_views(sheet: Sheet, materials: Materials, sections: frozenset[str]) -> None:
    """Place each view in its section, cut at a line where the section's room ends."""
    for view in materials.views:
        name = section_of_view(view.path, materials.policies.budgets)
        if name in sections and not view.lost:
            part = _BY_NAME[name] if name in _VIEW_PARTS else own_part(name)
            _place_view(sheet, materials, view, part)


def omit_lost(sheet: Sheet, materials: Materials, shown: frozenset[str]) -> None:
    """Note the views that no section will show: lost ones, and those of other sections."""
    for view in materials.views:
        name = section_of_view(view.path, materials.policies.budgets)
        if view.lost or name not in shown:
            reason = view.lost or "section"
            sheet.views_omitted.append(Omission(view.path, 0, name or "", 0, reason, 0, 0))


def _place_view(sheet: Sheet, materials: Materials, view: View, part: Part) -> None:
    room = sheet.room(part)
    if room < _VIEW_MIN or not view.text.strip():
        if view.text.strip():
            sheet.views_omitted.append(
                Omission(view.path, 0, part.section, 0, "budget", 0, _VIEW_MIN - room)
            )
        return
    memo_key = (f"{view.path}@{view.sha256}", room, sheet.printer.stamp)
    made = materials.memo.get(memo_key)
    if made is None:
        own = part.name not in _VIEW_PARTS
        made = materials.memo[memo_key] = _view_form(sheet, view, room, own=own)
    lines, tokens, whole = made
    if not lines:
        sheet.views_omitted.append(Omission(view.path, 0, part.section, 0, "budget", 0, 1))
        return
    if not whole:
        sheet.views_omitted.append(Omission(view.path, 0, part.section, tokens, "cut", 0, 0))
    source = f"view:{view.path}@{view.sha256}"
    sheet.put(part, Entry(part.section, part.place, lines, tokens, 0, (), (), source, part.area))


def _view_form(sheet: Sheet, view: View, room: int, *, own: bool) -> tuple[str, int, bool]:
    count = sheet.counter.count
    whole = shown_view(sheet.printer.redact(view.text), beside_events=own)
    tokens = count(whole)
    if tokens <= room:
        return whole, tokens, True
    note = f" … expand://{view.path}\n"
    kept = cut(sheet.counter, whole, max(0, room - count(note)))
    kept = kept[: kept.rfind("\n") + 1]
    lines = kept + note
    tokens = count(lines)
    return (lines, tokens, False) if kept and tokens <= room else ("", 0, False)


def place_cards(sheet: Sheet, materials: Materials, scope: Scope, epoch: int) -> None:
    """The most important cards as of the epoch, pinned ones first; at most `cards_max`.

    Importance as it was recorded: one that fades with the clock would move the head.
    """
    cards = (c for c in materials.cards if is_card(c) or _pinned(c, materials, epoch))
    # What a tool said never enters the head.
    visible = [c for c in cards if c.seq <= epoch and c.role != "tool" and not scope.hides(c)]
    visible.sort(key=lambda c: (not _pinned(c, materials, epoch), -c.importance, -c.seq))
    most = materials.policies.budgets.limits.cards_max
    _offer(sheet, "cards", merged(visible), most, "projection:cards")


def place_decisions(
    sheet: Sheet, materials: Materials, scope: Scope, epoch: int, *, part: str = "decisions"
) -> None:
    """Decisions as of the epoch: pinned ones and constraints first, then the newest that fit.

    In another `part` those that have no place in the head, at most `decisions_max` in all.
    """
    visible = [
        d for d in materials.decisions if d.seq <= epoch and d.role != "tool" and not scope.hides(d)
    ]
    visible.sort(
        key=lambda d: (
            not (_pinned(d, materials, epoch) or "constraint" in d.markers),
            -d.seq,
        )
    )
    most = materials.policies.budgets.limits.decisions_max
    if part != "decisions":
        most -= len(sheet.placed.get("decisions", ()))
    _offer(sheet, part, zip(visible, repeat(())), most, "projection:decisions")


def omit_left(sheet: Sheet, materials: Materials, scope: Scope) -> None:
    """Note the decisions that no place is kept for, where nothing else spoke of them."""
    for item in materials.left:
        if not (item.seq in sheet.seqs or item.seq in sheet.omitted or scope.hides(item)):
            sheet.omit_unread(item.seq, (item, DECISIONS, item.cost, "limit", 0, 0))


def _offer(
    sheet: Sheet, name: str, cards: Iterable[tuple[Item, tuple[Item, ...]]], most: int, source: str
) -> None:  # fmt: skip
    part, placed = _BY_NAME[name], sheet.seqs
    taken = 0
    for item, others in cards:
        if item.seq in placed:
            continue
        if taken == most:
            sheet.omit(item, part.section, item.cost, "limit")
        elif sheet.offer(part, item, source=source, others=others):
            taken += 1
        if others and item.seq not in placed:
            sheet.omit_all(others, part.section, "duplicate")


def _pinned(item: Item, materials: Materials, epoch: int) -> bool:
    """Whether the item was pinned by the epoch: a pin of today waits for the next session."""
    pin = materials.pinned.get(item.seq, 0)
    return 0 < pin <= epoch
