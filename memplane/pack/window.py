"""Areas C, D and F: the session's own log around its prompt, and what was stated before that.

The window's start (the anchor) moves in steps, so that most packs of a session share it: its
place follows from prefix sums kept with each turn, never from an earlier pack. A turn that is
marked as stale is so as of the session's epoch: see `staleness` in `pack`.

C shows decisions, rules, preferences, facts under a key, pins and marked turns that lie before the
anchor: they hold on when the turns around them have left the window. Its content changes when the
anchor moves and when a correction removes one. The tail shows what has no room there, and what
other sessions state behind the anchor.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from memplane.pack.head import enters_head, is_by_model
from memplane.pack.layout import PARTS, Sheet, Window, entry_of
from memplane.pack.request import Materials, PackContext, StatedEvent
from memplane.policy import SectionBudget
from memplane.projections.hotset import NO_TURNS, SESSION_RING, SessionRing, is_stated
from memplane.projections.item import Item
from memplane.recall.suppress import Scope
from memplane.tokens import cut

_BY_NAME = {part.name: part for part in PARTS}
_QUARTER_STEPS_FROM: Final = 8000
_PIN_MAX: Final = 400
# Windows of fewer tokens show shorter turns (tiers of the window form), not fewer of them.
_FULL_FORMS_FROM: Final = 800
_THIRD_FORMS_FROM: Final = 240
_RANKS: Final = {"rule": 1, "preference": 2, "decision": 3, "fact": 4}
_TURN: Final = 5
_TIER: Final = 1
_WIDE_FROM: Final = 2000


def _tier(tokens: int) -> int:
    if tokens >= _FULL_FORMS_FROM:
        return 0
    return 1 if tokens >= _THIRD_FORMS_FROM else 2


def place_window(sheet: Sheet, context: PackContext, _: SectionBudget) -> None:
    """Place C, D and F in the room of recent_window, and note the window on the sheet."""
    stated = _room_of_stated(sheet, context)
    window = sheet.window = _lay(sheet, context, stated)
    _place_before_anchor(sheet, context, stated)
    log, now = _BY_NAME["log"], _BY_NAME["now"]
    for item in window.before:
        sheet.offer(log, item, tier=window.tier)
    if window.pinned is not None and window.pinned.seq not in sheet.seqs:
        _place_pin(sheet, window.pinned, window.pin_tokens)
    for item in window.after:
        sheet.offer(now, item, tier=window.tier)


def _lay(sheet: Sheet, context: PackContext, stated: int) -> Window:
    """Choose the turns of the window within the room of recent_window, less C and the pin.

    `stated` are the tokens that C may spend of it. A steady window starts at a step; one that is
    not takes as many of the newest turns as fit. Where the log is searched without a session no
    turn is cut short: evidence shows it better.
    """
    materials, ring, prompt, scope = context.materials, context.ring, context.prompt, context.scope
    room = sheet.left.get("recent_window", 0)
    headings = sum(sheet.heading_tokens(_BY_NAME[name]) for name in ("log", "now"))
    pin = min(_PIN_MAX, max(0, room - stated - headings) // 11) if prompt is not None else 0
    tokens = max(0, room - stated - headings - pin)
    tier = _tier(tokens)
    if ring is None:
        return _of_plane(sheet, materials, scope, tokens, 0 if context.searches else tier)
    if context.steady:
        turns, anchor, left = _of_session(sheet, materials, scope, ring, tokens, tier)
    else:
        newest = [turn.seq for turn in ring.ring]
        turns = _newest(sheet, materials, scope, newest, tokens, tier)
        anchor, left = turns[0].seq if turns else ring.seen + 1, 0
    if prompt is None or prompt.seq >= anchor or prompt.seq in sheet.seqs:
        at = prompt.seq if prompt is not None else turns[-1].seq + 1 if turns else 0
        before = tuple(item for item in turns if item.seq < at)
        after = tuple(item for item in turns if item.seq >= at)
        return Window(before, after, tier, anchor, None, 0, left)
    return Window((), tuple(turns), tier, anchor, prompt, pin, left)


def _of_session(
    sheet: Sheet, materials: Materials, scope: Scope, ring: SessionRing, tokens: int, tier: int
) -> tuple[list[Item], int, int]:
    """The turns from the anchor on: the first step at which everything visible fits."""
    items = materials.hotset.items
    turns = ring.ring
    cost = [_cost(sheet, items[turn.seq], scope, tier) for turn in turns]
    step = max(1, tokens // (4 if tokens >= _QUARTER_STEPS_FROM else 2))
    behind = -(-max(0, ring.spent[tier] - tokens) // step)
    events_at = 50 * -(-max(0, ring.count - SESSION_RING) // 50)
    total = sum(cost)
    start = 0
    while start < len(turns):
        turn = turns[start]
        if turn.spent[tier] >= step * behind and turn.before >= events_at:
            if total <= tokens:
                break
            behind = turn.spent[tier] // step + 1  # the next step at which less is shown
        total -= cost[start]
        start += 1
    anchor = turns[start].seq if start < len(turns) else ring.seen + 1
    shown = [items[turn.seq] for turn in turns[start:] if _shows(sheet, items[turn.seq], scope)]
    # A result is of no use without its call, which is outside the window.
    while shown and shown[0].kind == "tool_result":
        shown.pop(0)
    return shown, anchor, max(0, step * behind + tokens - ring.spent[tier])


def _of_plane(sheet: Sheet, materials: Materials, scope: Scope, tokens: int, tier: int) -> Window:
    """Without a session: the newest events of the plane that fit, in log order."""
    most = materials.policies.budgets.limits.hotset_max_events
    recent = materials.hotset.plane[-most:]
    chosen = _newest(sheet, materials, scope, recent, tokens, tier)
    return Window(tuple(chosen), (), tier, 0, None, 0, 0)


def _newest(
    sheet: Sheet, materials: Materials, scope: Scope, seqs: list[int], tokens: int, tier: int
) -> list[Item]:
    """The newest of these events that fit without a hole between them, in log order."""
    chosen: list[Item] = []
    items = materials.hotset.items
    for seq in reversed(seqs):
        item = items[seq]
        if not _shows(sheet, item, scope):
            continue
        cost = _cost(sheet, item, scope, tier)
        if cost > tokens:
            break
        tokens -= cost
        chosen.append(item)
    chosen.reverse()
    return chosen


def _shows(sheet: Sheet, item: Item, scope: Scope) -> bool:
    # Tasks and artifacts are no turns: they have places of their own. Nor is what a model made of
    # the turns that stand here.
    if item.kind in NO_TURNS or is_by_model(item) or item.seq in sheet.seqs or scope.hides(item):
        return False
    return item.kind != "summary" or not sheet.is_repeated(item.seq)


def _cost(sheet: Sheet, item: Item, scope: Scope, tier: int) -> int:
    if not _shows(sheet, item, scope):
        return 0
    return sheet.marked(_BY_NAME["log"], item).form(tier, sheet.printer)[1]


def _place_pin(sheet: Sheet, prompt: Item, tokens: int) -> None:
    part = _BY_NAME["now"]
    prompt = sheet.marked(part, prompt)
    for tier in (0, 1, 2):
        form = prompt.form(tier, sheet.printer)
        if form[1] <= min(tokens, sheet.room(part)):
            sheet.put(part, entry_of(part, prompt, form), kind=prompt.kind)
            return
    text = cut(sheet.counter, prompt.text, max(0, tokens - 24))
    form = prompt.lines_of(text, whole=False, printer=sheet.printer)
    if text and form[1] <= min(tokens, sheet.room(part)):
        sheet.put(part, entry_of(part, prompt, form), kind=prompt.kind)
    else:
        most = min(tokens, sheet.room(part))
        sheet.omit(prompt, part.section, form[1], "budget", 0, max(1, form[1] - most))


def stated_since(context: PackContext) -> tuple[StatedEvent, ...]:
    """What was stated since the session's epoch and may be shown, in log order; () without one."""
    ring, epoch = context.ring, context.epoch
    if ring is None:
        return ()
    if not ring.marked:
        epoch -= 1  # the session's first event, which states something as any other
    head = context.materials.policies.plane.head
    found: dict[int, StatedEvent] = {}
    for item, source, pin in _statements(context.materials, ring):
        lasts = is_stated(item.kind, item.role, item.key, item.markers)
        # What lasts for its pin alone counts as stated when it was pinned.
        at = item.seq if lasts and item.seq > epoch else pin
        if at <= epoch or item.seq in found or not enters_head(item, head, pinned=pin > 0):
            continue
        if not context.scope.hides(item):
            found[item.seq] = StatedEvent(item, source, at, pin, item.session == ring.id)
    return tuple(found[seq] for seq in sorted(found))


def _statements(materials: Materials, ring: SessionRing) -> Iterator[tuple[Item, str, int]]:
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


def _room_of_stated(sheet: Sheet, context: PackContext) -> int:
    """Tokens of recent_window that C may spend: a quarter in blocks from 2,000 tokens, else half.

    Where the window is not steady, no more than the entries may take.
    """
    if context.ring is None:
        return 0
    most = sheet.left.get("recent_window", 0) // (4 if context.step >= _WIDE_FROM else 2)
    if context.steady:
        return most
    need = sheet.heading_tokens(_BY_NAME["newer"]) if context.stated else 0
    for one in context.stated:
        need += one.item.form(_TIER, sheet.printer)[1]
        if need >= most:
            return most
    return need


def _place_before_anchor(sheet: Sheet, context: PackContext, room: int) -> None:
    """C: what was stated before the anchor, within its room."""
    part, anchor = _BY_NAME["newer"], sheet.window.anchor
    left = room
    before = [one for one in context.stated if one.at < anchor]
    for one in sorted(before, key=partial(_order, upto=anchor)):
        if one.item.seq in sheet.seqs:
            continue
        paid = sheet.paid.get(part.section, 0)
        most = left - sheet.heading_tokens(part)
        sheet.offer(part, one.item, tier=_TIER, source=one.source, most=most)
        left -= sheet.paid.get(part.section, 0) - paid


def place_stated(sheet: Sheet, context: PackContext, _: SectionBudget) -> None:
    """In the tail: statements without room in C, and those of others behind the anchor.

    Statements of the session itself behind the anchor are turns of its window.
    """
    part, anchor = _BY_NAME["elsewhere"], sheet.window.anchor
    for one in sorted(context.stated, key=_order):
        if one.item.seq not in sheet.seqs and (one.item.seq < anchor or not one.own):
            sheet.offer(part, one.item, tier=_TIER, source=one.source)


def _order(one: StatedEvent, *, upto: int | None = None) -> tuple[int, int]:
    """Pinned ones and constraints, rules, preferences, decisions, facts, turns; newest first.

    `upto`: pins from there on do not count yet.
    """
    pinned = one.pinned_at > 0 and (upto is None or one.pinned_at < upto)
    if pinned or "constraint" in one.item.markers:
        return 0, -one.at
    return _RANKS.get(one.item.kind, _TURN), -one.at
