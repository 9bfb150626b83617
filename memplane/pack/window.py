"""Areas D and F: the session's own log around its current prompt.

The window's start (the anchor) moves in steps, so that most packs of a session share it: its
place follows from prefix sums kept with each turn, never from an earlier pack. A turn that says
that it is stale does so as of the session's epoch: see `staleness`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from memplane.pack.layout import PARTS, Sheet, entry_of
from memplane.pack.request import Materials
from memplane.projections.hotset import NO_TURNS, SESSION_RING, HotsetState, SessionRing
from memplane.projections.item import Item
from memplane.recall.suppress import Scope
from memplane.tokens import cut

__all__ = ["NO_WINDOW", "Window", "lay_window", "place_window", "prompt_of"]

_BY_NAME = {part.name: part for part in PARTS}
_QUARTER_STEPS_FROM: Final = 8000
_PIN_MAX: Final = 400
# Windows of fewer tokens show shorter turns (tiers of the window form), not fewer of them.
_FULL_FORMS_FROM: Final = 800
_THIRD_FORMS_FROM: Final = 240


class Window(NamedTuple):
    """What the window shows: turns before the prompt (D), from it on (F), and where it starts."""

    before: tuple[Item, ...]
    after: tuple[Item, ...]
    tier: int
    anchor: int  # seq of the first turn inside; 0 without a session
    pinned: Item | None  # the prompt, where it lies before the anchor
    pin_tokens: int
    next_anchor_in: int  # clipped tokens of the session until the window moves


NO_WINDOW: Final = Window((), (), 0, 0, None, 0, 0)


def prompt_of(ring: SessionRing | None, hotset: HotsetState, scope: Scope) -> Item | None:
    """The session's newest visible event with role user."""
    if ring is None:
        return None
    turns = (turn.seq for turn in reversed(ring.ring))
    for seq in (*reversed(ring.prompts), *turns):
        item = hotset.items[seq]
        if item.role == "user" and not scope.hides(item):
            return item
    return None


def _tier(tokens: int) -> int:
    if tokens >= _FULL_FORMS_FROM:
        return 0
    return 1 if tokens >= _THIRD_FORMS_FROM else 2


def lay_window(
    sheet: Sheet,
    materials: Materials,
    ring: SessionRing | None,
    prompt: Item | None,
    scope: Scope,
    *,
    stated: int,
    steady: bool,
    asked: bool = False,
) -> Window:
    """Choose the turns of the window within the room of recent_window, less C and the pin.

    `stated` are the tokens that C may spend of it.

    A steady window starts at a step; one that is not takes as many of the newest turns as fit.
    Where something is `asked` without a session none is cut short: evidence shows it better.
    """
    room = sheet.left.get("recent_window", 0)
    headings = sum(sheet.heading_tokens(_BY_NAME[name]) for name in ("log", "now"))
    pin = min(_PIN_MAX, max(0, room - stated - headings) // 11) if prompt is not None else 0
    tokens = max(0, room - stated - headings - pin)
    tier = _tier(tokens)
    if ring is None:
        return _of_plane(sheet, materials, scope, tokens, 0 if asked else tier)
    if steady:
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
    # A result whose call stands outside the window says nothing.
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
    # Tasks and artifacts are no turns: they have places of their own.
    return item.kind not in NO_TURNS and item.seq not in sheet.seqs and not scope.hides(item)


def _cost(sheet: Sheet, item: Item, scope: Scope, tier: int) -> int:
    if not _shows(sheet, item, scope):
        return 0
    return sheet.marked(_BY_NAME["log"], item).form(tier, sheet.printer)[1]


def place_window(sheet: Sheet, window: Window) -> None:
    """D and F, in log order; the pinned prompt first in F, where C does not show it already."""
    for item in window.before:
        sheet.offer(_BY_NAME["log"], item, tier=window.tier)
    if window.pinned is not None and window.pinned.seq not in sheet.seqs:
        _place_pin(sheet, window.pinned, window.pin_tokens)
    for item in window.after:
        sheet.offer(_BY_NAME["now"], item, tier=window.tier)


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
