"""Area C, and its part of the tail: what was stated since the session's epoch.

Decisions, rules, preferences, facts under a key, pins and marked turns hold on when the turns
around them have left the window. C shows those that lie before the anchor, so who stands in it
changes when the anchor moves, and when a correction does away with one. The tail shows what has no
room there, and what others state behind the anchor.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from memplane.pack.ground import Ground, Statement
from memplane.pack.layout import PARTS, Sheet
from memplane.pack.request import Materials
from memplane.pack.window import Window
from memplane.projections.item import Item
from memplane.projections.rings import SessionRing, is_stated

__all__ = ["place_newer", "place_others", "room_of", "stated_since"]

_BY_NAME: Final = {part.name: part for part in PARTS}
_RANKS: Final = {"rule": 1, "preference": 2, "decision": 3, "fact": 4}
_TURN: Final = 5
_TIER: Final = 1
_WIDE_FROM: Final = 2000


def stated_since(ground: Ground) -> tuple[Statement, ...]:
    """What was stated since the session's epoch and may be shown, in log order; () without one."""
    ring, epoch = ground.ring, ground.epoch
    if ring is None:
        return ()
    if not ring.marked:
        epoch -= 1  # the session's first event, which states something as any other
    found: dict[int, Statement] = {}
    for item, source, pin in _known(ground.materials, ring):
        lasts = is_stated(item.kind, item.role, item.key, item.markers)
        # What lasts for its pin alone counts as stated when it was pinned.
        at = item.seq if lasts and item.seq > epoch else pin
        if at <= epoch or item.seq in found or item.role == "tool":
            continue
        if not ground.scope.hides(item):
            found[item.seq] = Statement(item, source, at, pin, item.session == ring.id)
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
    need = sheet.heading_tokens(_BY_NAME["newer"]) if ground.stated else 0
    for one in ground.stated:
        need += one.item.form(_TIER, sheet.printer)[1]
        if need >= most:
            return most
    return need


def place_newer(sheet: Sheet, ground: Ground, window: Window, room: int) -> None:
    """C: what lies before the anchor, within its room."""
    part, anchor = _BY_NAME["newer"], window.anchor
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
    part = _BY_NAME["elsewhere"]
    for one in sorted(ground.stated, key=_order):
        if one.item.seq not in sheet.seqs and (one.item.seq < window.anchor or not one.own):
            sheet.offer(part, one.item, tier=_TIER, source=one.source)


def _order(one: Statement, *, upto: int | None = None) -> tuple[int, int]:
    """Pinned ones and constraints, rules, preferences, decisions, facts, turns; newest first.

    `upto`: pins from there on do not count yet.
    """
    pinned = one.pinned_at > 0 and (upto is None or one.pinned_at < upto)
    if pinned or "constraint" in one.item.markers:
        return 0, -one.at
    return _RANKS.get(one.item.kind, _TURN), -one.at
