"""Areas A and B: views, and the cards and decisions in force as of the session's epoch.

Nothing here looks at the query or at anything younger than the epoch, except to leave out what
was corrected: that is what keeps the head of a session's blocks the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import Final, NamedTuple

from memplane.event import GLOBAL
from memplane.pack.block import Entry, Omission
from memplane.pack.ground import Ground, StatedEvent
from memplane.pack.layout import PARTS, BlockPart, Sheet, own_part
from memplane.pack.request import Materials, View
from memplane.pack.window import Window
from memplane.policy import Budgets
from memplane.projections.hotset import SessionRing, is_stated
from memplane.projections.item import Item
from memplane.projections.system_map import Cell, MapState, Name, NameSource
from memplane.projections.window import entry_lines, one_line, shown_view
from memplane.recall.cards import is_card, merge_cards
from memplane.recall.suppress import Scope
from memplane.tokens import cut

__all__ = [
    "omit_lost",
    "place_cards",
    "place_decisions",
    "place_map",
    "place_newer",
    "place_others",
    "place_views",
    "room_of",
    "section_of_view",
    "stated_since",
]


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


def _place_view(sheet: Sheet, materials: Materials, view: View, part: BlockPart) -> None:
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
    _offer(sheet, "cards", merge_cards(visible), most, "projection:cards")


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


def _offer(
    sheet: Sheet, name: str, cards: Iterable[tuple[Item, tuple[Item, ...]]], most: int, source: str
) -> None:
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


# system_map: what is in this memory, in a few fixed lines, for who has just come.
#
# As of the session's epoch, like all of area B: no line changes within a session unless something
# was corrected. A name is shown to who may see an event that said it.

_PART: Final = next(part for part in PARTS if part.name == "map")
# What is counted, in the order of the line, and how many and one of it are called.
_COUNTED: Final = {
    "decision": "decisions",
    "fact": "facts",
    "rule": "rules",
    "preference": "preferences",
    "insight": "insights",
    "plan": "plans",
    "observation": "observations",
    "summary": "summaries",
    "artifact": "artifacts",
    "message": "messages",
    "tool_call": "tool calls",
}
_LABELS: Final = {
    "tasks": "open tasks",
    "keys": "keys",
    "tags": "tags",
    "namespaces": "namespaces",
    "tools": "tools used",
}
# Tags by which importers and hooks tell kinds of turns apart: nobody gave them.
_OF_SOURCES: Final = frozenset(
    ("api-error", "command", "compact", "hook", "interrupted", "meta", "reasoning", "sidechain")
)
_NAMES_MAX: Final = 12  # of a line: those that were said first most recently
_LEAST_EVENTS: Final = 10  # a memory of fewer is seen at a glance
_EXACT_BELOW: Final = 3
_REMEMBERED: Final = 1000  # lines
_MAP_LINE: Final = -1  # in the place of a room: a file may be called like a line
_LEAST: Final = 8  # tokens of the shortest line
_SOURCE: Final = "projection:plane_map"
_AFTER: Final = "decisions"  # stands in the tail where the block is for who has just come


class _Told(NamedTuple):
    """A witness as a scope judges it."""

    seq: int
    id: str
    ts: str
    kind: str
    ns: str
    sensitivity: str
    forgotten: bool
    superseded: bool = False
    valid_from: str | None = None
    valid_until: str | None = None


def place_map(sheet: Sheet, materials: Materials, scope: Scope, upto: int) -> None:
    """The lines that fit, each with the events that stand for its names.

    Where the block is for who has just come and there is room for none, it is said what was short.
    None where tags or importance are asked for.
    """
    # A name's few witnesses say nothing of the tags and importance of the others: no map at all.
    state = materials.plane_map if scope.only is None else None
    orients = sheet.laid[_AFTER].area == "G"
    if state is None or (sheet.room(_PART) < _LEAST and not orients):
        return
    scope = scope.timeless()  # when a name was said does not matter
    least = 0  # tokens of the shortest thing that there was no room for
    counted = _counts(state, scope, upto)
    if counted:
        least = _put(sheet, materials, counted, ())
    for sort, label in _LABELS.items():
        names = _names(state, sort, scope, upto)
        if sort == "namespaces" and [name for name, _ in names] == [GLOBAL]:
            continue  # it says nothing
        while names:  # the newest stay
            said = ", ".join(f"{name}.*" if sort == "keys" else name for name, _ in names)
            ids = tuple(dict.fromkeys(id_ for _, id_ in names))
            lacking = _put(sheet, materials, f"{label}: {said}", ids)
            if not lacking:
                break
            least = min(least or lacking, lacking)
            names = names[max(1, len(names) // 3) :]
    if orients and least and _PART.name not in sheet.placed:
        short_by = max(1, least - sheet.room(_PART))
        sheet.views_omitted.append(
            Omission(_SOURCE, 0, _PART.section, least, "budget", 0, short_by)
        )


def _counts(state: MapState, scope: Scope, upto: int) -> str:
    """What was recorded, at least; nothing for who sees only some namespaces."""
    if scope.ns or scope.task is not None:
        return ""
    reached = {
        kind: state.count(kind, scope.levels, upto) for kind in _COUNTED if kind not in scope.kinds
    }
    if sum(reached.values()) < _LEAST_EVENTS:
        return ""
    told = [f"{_COUNTED[kind]} {_figure(count)}" for kind, count in reached.items() if count]
    sessions = state.session_count(upto) if "session" not in scope.kinds else 0
    if sessions:
        told.append(f"sessions {_figure(sessions)}")
    return f"recorded: {', '.join(told)}"


def _figure(count: int) -> str:
    return str(count) if count < _EXACT_BELOW else f"{count}+"


def _names(state: MapState, sort: str, scope: Scope, upto: int) -> list[tuple[str, str]]:
    """Names in the order of their first saying, each with the id of a witness."""
    found = []
    for name, told in state.names[sort].items():
        if sort == "tasks" and not told.is_open(upto):
            continue
        if sort == "namespaces" and not scope.reaches(name):
            continue
        if sort == "tags" and name in _OF_SOURCES:
            continue
        seen = _visible(told, scope, upto)
        if seen is not None:
            found.append((*seen, one_line(name)))
    found.sort()
    return [(name, id_) for _, id_, name in found[-_NAMES_MAX:]]


def _visible(told: Name, scope: Scope, upto: int) -> tuple[int, str] | None:
    """Since when the reader may know the name, and by which event; None: he may not."""
    found: tuple[int, str] | None = None
    for cell in told.cells.values():
        if cell.first <= upto and (found is None or cell.first < found[0]):
            for one in cell.witnesses:
                if not scope.hides(_seen(cell, one)):
                    found = (cell.first, one.id)
                    break
    return found


def _seen(cell: Cell, one: NameSource) -> _Told:
    return _Told(one.seq, one.id, one.ts, cell.kind, cell.ns, cell.sensitivity, one.forgotten)


def _put(sheet: Sheet, materials: Materials, line: str, ids: tuple[str, ...]) -> int:
    """Place a line if it fits; return the tokens of one that does not, else 0."""
    memo, printer = materials.memo, sheet.printer
    key = (line, _MAP_LINE, printer.stamp)
    known = memo.get(key)
    if known is None:
        head, _, rest = printer.redact(line).partition(": ")
        text = entry_lines(head, rest)
        if len(memo) >= _REMEMBERED:
            memo.clear()
        known = memo[key] = (text, printer.counter.count(text), True)
    text, tokens, _ = known
    if tokens > sheet.room(_PART):
        return tokens
    sheet.put(
        _PART,
        Entry(_PART.section, _PART.place, text, tokens, 0, (), ids, _SOURCE, _PART.area),
    )
    return 0


# Area C, and its part of the tail: what was stated since the session's epoch.
#
# Decisions, rules, preferences, facts under a key, pins and marked turns hold on when the turns
# around them have left the window. C shows those that lie before the anchor, so who stands in it
# changes when the anchor moves, and when a correction does away with one. The tail shows what has
# no room there, and what others state behind the anchor.

_PART_BY_NAME: Final = {part.name: part for part in PARTS}
_RANKS: Final = {"rule": 1, "preference": 2, "decision": 3, "fact": 4}
_TURN: Final = 5
_TIER: Final = 1
_WIDE_FROM: Final = 2000


def stated_since(ground: Ground) -> tuple[StatedEvent, ...]:
    """What was stated since the session's epoch and may be shown, in log order; () without one."""
    ring, epoch = ground.ring, ground.epoch
    if ring is None:
        return ()
    if not ring.marked:
        epoch -= 1  # the session's first event, which states something as any other
    found: dict[int, StatedEvent] = {}
    for item, source, pin in _known(ground.materials, ring):
        lasts = is_stated(item.kind, item.role, item.key, item.markers)
        # What lasts for its pin alone counts as stated when it was pinned.
        at = item.seq if lasts and item.seq > epoch else pin
        if at <= epoch or item.seq in found or item.role == "tool":
            continue
        if not ground.scope.hides(item):
            found[item.seq] = StatedEvent(item, source, at, pin, item.session == ring.id)
    return tuple(found[seq] for seq in sorted(found))


def _known(materials: Materials, ring: SessionRing) -> Iterator[tuple[Item, str, int]]:
    """Events that may have been stated since, with their source and the seq of their pin.

    The ledgers first: an entry has the bytes that it will have in the head.
    """
    for name, items in (("decisions", materials.decisions), ("cards", materials.cards)):
        for item in items:
            yield item, f"projection:{name}", materials.pinned.get(item.seq, 0)
    items_of = materials.hotset.items
    for seq, pin in ring.stated.items():
        yield items_of[seq], "event", pin
    pins = {item.seq: pin for item, pin in materials.pins}
    for seq in materials.hotset.stated:
        yield items_of[seq], "event", pins.get(seq, 0)
    for item, pin in materials.pins:
        yield item, "event", pin


def room_of(sheet: Sheet, ground: Ground, *, steady: bool) -> int:
    """Tokens of recent_window that C may spend: a quarter in blocks from 2,000 tokens, else half.

    Where the window is not `steady`, no more than the entries may take.
    """
    if ground.ring is None:
        return 0
    most = sheet.left.get("recent_window", 0) // (4 if ground.step >= _WIDE_FROM else 2)
    if steady:
        return most
    need = sheet.heading_tokens(_PART_BY_NAME["newer"]) if ground.stated else 0
    for one in ground.stated:
        need += one.item.form(_TIER, sheet.printer)[1]
        if need >= most:
            return most
    return need


def place_newer(sheet: Sheet, ground: Ground, window: Window, room: int) -> None:
    """C: what lies before the anchor, within its room."""
    part, anchor = _PART_BY_NAME["newer"], window.anchor
    left = room
    before = [one for one in ground.stated if one.at < anchor]
    for one in sorted(before, key=partial(_order, upto=anchor)):
        if one.item.seq in sheet.seqs:
            continue
        paid = sheet.paid.get(part.section, 0)
        most = left - sheet.heading_tokens(part)
        sheet.offer(part, one.item, tier=_TIER, source=one.source, most=most)
        left -= sheet.paid.get(part.section, 0) - paid


def place_others(sheet: Sheet, ground: Ground, window: Window) -> None:
    """In the tail what C has no room for, and what others stated behind the anchor.

    What the session itself states behind the anchor is a turn of its window.
    """
    part = _PART_BY_NAME["elsewhere"]
    for one in sorted(ground.stated, key=_order):
        if one.item.seq not in sheet.seqs and (one.item.seq < window.anchor or not one.own):
            sheet.offer(part, one.item, tier=_TIER, source=one.source)


def _order(one: StatedEvent, *, upto: int | None = None) -> tuple[int, int]:
    """Pinned ones and constraints, rules, preferences, decisions, facts, turns; newest first.

    `upto`: pins from there on do not count yet.
    """
    pinned = one.pinned_at > 0 and (upto is None or one.pinned_at < upto)
    if pinned or "constraint" in one.item.markers:
        return 0, -one.at
    return _RANKS.get(one.item.kind, _TURN), -one.at
