"""Areas A to D and F: the head of a block, and the window of the session's own log.

**A and B** are views, the map, and the cards and decisions in force as of the session's epoch. No
place function here reads the query or an event after the epoch, except to leave out what was
corrected: that keeps the head of a session's blocks the same. A view of a section that is not in
these areas stands before the entries of its section.

**C, D and F** are the session's own log around its prompt, and what was stated before that. The
window's start (the anchor) moves in steps, so that most packs of a session share it: its place
follows from prefix sums kept with each turn, never from an earlier pack. A turn that is marked as
stale is so as of the session's epoch: see `staleness` in `pack`.

C shows decisions, rules, preferences, facts under a key, pins and marked turns that lie before the
anchor: they hold on when the turns around them have left the window. Its content changes when the
anchor moves and when a correction removes one. The tail shows what has no room there, and what
other sessions state behind the anchor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import repeat
from typing import TYPE_CHECKING, Final

from memplane.event import GLOBAL, PROJECTS, relayed_by, said_by, speaker_mark
from memplane.lazy import NamedTuple, late, regex
from memplane.pack.block import Entry, Omission
from memplane.pack.layout import (
    PARTS,
    BlockPart,
    ContradictionNote,
    Sheet,
    Window,
    entry_of,
    own_part,
)
from memplane.pack.request import Materials, PackContext, StatedEvent, View
from memplane.policy import Budgets, SectionBudget
from memplane.projections.hotset import NO_TURNS, SESSION_RING, SessionRing, is_stated
from memplane.projections.in_force import VisibleFields
from memplane.projections.item import Item, entry_lines, one_line, shown_view
from memplane.projections.system_map import Cell, MapState, Name, NameSource
from memplane.recall.suppress import Scope
from memplane.tokens import clip, cut

if TYPE_CHECKING:
    from memplane.recall import session_digest as recall_session_digest
else:
    recall_session_digest = late("memplane.recall.session_digest")


_BY_NAME = {part.name: part for part in PARTS}
_STANDARD = {"preferences": "identity"}
_VIEW_MIN = 8
# Only these parts are made of views; a view of another section is placed in the tail.
_VIEW_PARTS = ("identity", "rules")


def _section_of_view(path: str, budgets: Budgets) -> str | None:
    """The section that shows a view: the one that names it, else the word before the first dot."""
    for section in budgets.sections:
        if path in section.views:
            return section.name
    word = path.rpartition("/")[2].partition(".")[0]
    name = _STANDARD.get(word, word)
    return name if budgets.section(name) is not None else None


def place_views(sheet: Sheet, context: PackContext, section: SectionBudget) -> None:
    """Place the views of a section, each cut at a line where the section's room ends."""
    materials, name = context.materials, section.name
    for view in materials.views:
        if not view.lost and _section_of_view(view.path, materials.policies.budgets) == name:
            part = _BY_NAME[name] if name in _VIEW_PARTS else own_part(name)
            _place_view(sheet, materials, view, part)


def omit_unshown_views(sheet: Sheet, materials: Materials, shown: frozenset[str]) -> None:
    """Note the views that no section will show: lost ones, and those of sections not in `shown`."""
    for view in materials.views:
        name = _section_of_view(view.path, materials.policies.budgets)
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
    own = part.name not in _VIEW_PARTS
    name, stamp = f"{view.path}@{view.sha256}", sheet.printer.stamp
    lines, tokens, whole = materials.lines.form(
        name, room, stamp, lambda: _view_form(sheet, view, room, own=own)
    )
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
    made = clip(
        sheet.counter, whole, room, lambda kept: kept + note, around=count(note), ended=_to_line
    )
    return ("", 0, False) if made is None else (*made, False)


def _to_line(text: str) -> str:
    return text[: text.rfind("\n") + 1]


def place_cards(sheet: Sheet, context: PackContext, _: SectionBudget) -> None:
    """The most important cards as of the epoch, pinned ones first; at most `cards_max`.

    By importance as recorded: importance that fades with the clock would change the head.
    """
    materials, epoch, hides = context.materials, context.epoch, context.scope.hides
    cards = (c for c in materials.cards if is_card(c) or _pinned(c, materials, epoch))
    # The output of tools never enters the head.
    head = materials.policies.plane.head
    visible = [
        c
        for c in cards
        if c.seq <= epoch
        and enters_head(c, head, pinned=_pinned(c, materials, epoch))
        and not hides(c)
    ]
    visible.sort(key=lambda c: (not _pinned(c, materials, epoch), -c.importance, -c.seq))
    most = materials.policies.budgets.limits.cards_max
    _offer(sheet, "cards", merge_cards(visible), most, "projection:cards")


def place_decisions(sheet: Sheet, context: PackContext, _: SectionBudget) -> None:
    """Decisions as of the epoch: pinned ones and constraints first, then the newest that fit.

    At most `decisions_max`.
    """
    most = context.materials.policies.budgets.limits.decisions_max
    materials, epoch = context.materials, context.epoch
    head = materials.policies.plane.head
    entering = (
        (one, same)
        for one, same in _decisions(context)
        if enters_head(one, head, pinned=_pinned(one, materials, epoch))
    )
    _offer(sheet, "decisions", entering, most, "projection:decisions")


def place_more_decisions(sheet: Sheet, context: PackContext, _: SectionBudget) -> None:
    """In the tail: decisions that have no place in the head, at most `decisions_max` in all."""
    most = context.materials.policies.budgets.limits.decisions_max
    most -= len(sheet.placed.get("decisions", ()))
    _offer(sheet, "decided", _decisions(context), most, "projection:decisions")


def enters_head(item: Item, head: str, *, pinned: bool) -> bool:
    """Whether who states something suffices for the head of a block, by the policy `head`.

    What tools print never does, what a model made of turns where it is pinned: it may be much, and
    is found where it answers. Where a user has to have confirmed it, an agent's word that one did
    is no confirmation.
    """
    if item.role == "tool":
        return False
    if head == "any":
        return pinned or not item.is_by_model
    by = said_by(item.kind, item.role, item.actor, item.id)
    return by not in ("agent", "model", "person") and relayed_by(item.id) is None


# Reasons for which an older statement is not in this block that leave it in force.
_IN_FORCE: Final = (None, "expired", "time", "excluded", "tag", "importance")


def contradictions(context: PackContext) -> dict[int, ContradictionNote]:
    """What the labels of statements say that contradict an older one, by seq, by the policy.

    Only of an older one that the reader may see and that is in force.
    """
    materials, hides = context.materials, context.scope.hides
    rule = materials.policies.plane.contradictions
    stated = {one.seq: one for one in (*materials.decisions, *materials.cards)}
    if rule == "off":
        return {}
    ask = ": ask the user" if rule == "ask" else ""
    return {
        one.seq: ContradictionNote(one.differs, f" (differs from #{one.differs}{ask})")
        for one in stated.values()
        if one.differs in stated and hides(stated[one.differs]) in _IN_FORCE
    }


def _decisions(context: PackContext) -> Iterable[tuple[Item, tuple[Item, ...]]]:
    """The visible decisions as of the epoch, pinned ones and constraints first, newest first.

    Without those that a later one of them turned round.
    """
    materials, epoch, hides = context.materials, context.epoch, context.scope.hides
    visible = [
        d for d in materials.decisions if d.seq <= epoch and d.role != "tool" and not hides(d)
    ]
    gone = recall_session_digest.reversed_by(map(recall_session_digest.derived, visible))
    visible = [d for d in visible if d.seq not in gone]
    visible.sort(
        key=lambda d: (not (_pinned(d, materials, epoch) or "constraint" in d.markers), -d.seq)
    )
    return zip(visible, repeat(()))


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


# system_map: what is in this memory, in a few fixed lines, for a reader that has just come.
#
# As of the session's epoch, like all of area B: no line changes within a session unless something
# was corrected. A name is shown to readers that may see an event that contains it.

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
# Tags by which importers and hooks tell kinds of turns apart; no user gave them.
_OF_SOURCES: Final = frozenset(
    ("api-error", "command", "compact", "hook", "interrupted", "meta", "reasoning", "sidechain")
)
_NAMES_MAX: Final = 12  # of a line: those that were said first most recently
_LEAST_EVENTS: Final = 10  # a memory of fewer is seen at a glance
_EXACT_BELOW: Final = 3
_MAP_LINE: Final = -1  # in the place of a room: a file may be called like a line
_LEAST: Final = 8  # tokens of the shortest line
_SOURCE: Final = "projection:plane_map"
_AFTER: Final = "decisions"  # stands in the tail where the block is for who has just come


def place_map(sheet: Sheet, context: PackContext, _: SectionBudget) -> None:
    """The lines that fit, each with the events that support its names.

    For a reader that has just come (orient) a map without room is omitted with the missing tokens.
    No map where tags or importance are asked for.
    """
    materials, scope, upto = context.materials, context.scope, context.epoch
    # A name keeps few of its events, and the tags and importance of the others are not known.
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
        if sort == "namespaces":
            names = [one for one in names if not one[0].startswith(PROJECTS)]
            if [name for name, _ in names] == [GLOBAL]:
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
    """The line of lower bounds of what was recorded; "" for a reader of some namespaces alone."""
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
    """Names in the order of their first mention, each with the id of an event that has it."""
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
    """The first seq with the name and the id of an event that shows it; None if all are hidden."""
    found: tuple[int, str] | None = None
    for cell in told.cells.values():
        if cell.first <= upto and (found is None or cell.first < found[0]):
            for one in cell.witnesses:
                if not scope.hides(_seen(cell, one)):
                    found = (cell.first, one.id)
                    break
    return found


def _seen(cell: Cell, one: NameSource) -> VisibleFields:
    fields = (one.seq, one.id, one.ts, cell.kind, cell.ns, cell.sensitivity)
    return VisibleFields(*fields, forgotten=one.forgotten)


def _put(sheet: Sheet, materials: Materials, line: str, ids: tuple[str, ...]) -> int:
    """Place a line if it fits; return the tokens of one that does not, else 0."""
    printer = sheet.printer

    def made() -> tuple[str, int, bool]:
        head, _, rest = printer.redact(line).partition(": ")
        text = entry_lines(head, rest)
        return text, printer.counter.count(text), True

    text, tokens, _ = materials.lines.form(line, _MAP_LINE, printer.stamp, made)
    if tokens > sheet.room(_PART):
        return tokens
    sheet.put(
        _PART, Entry(_PART.section, _PART.place, text, tokens, 0, (), ids, _SOURCE, _PART.area)
    )
    return 0


# Knowledge cards: which short statements are cards, and which of them answer a query.

_SENTENCES_MAX: Final = 3
_CHARACTERS_MAX: Final = 600
# A point inside of `v1.2` or `db.py` ends nothing; a line ends a sentence without one.
_END: Final = regex(r"[.!?][\"')\]]*(?=\s|$)|[\u3002\uff01\uff1f]|\n")
_WORD: Final = regex(r"\w")


class Card(NamedTuple):
    """Statements with the same words: the first of them, and the others."""

    item: Item
    others: tuple[Item, ...] = ()

    @property
    def recurs(self) -> bool:
        """Whether it was recorded on several occasions: in other sessions, or outside of any."""
        said = (self.item, *self.others)
        return len({one.session or one.id for one in said}) > 1


def merge_cards(items: Sequence[Item]) -> list[Card]:
    """Merge statements with the same words, kind, namespace and key into one card.

    In the order of the first of each. An observation is a card only if it recurs. An item with only
    a part of its text is never merged.
    """
    said: dict[tuple[str, ...], list[Item]] = {}
    for item in items:
        words = item.text.split() if item.whole else [item.id, ""]
        said.setdefault((item.kind, item.ns, item.key or "", *words), []).append(item)
    cards = [_merged(same) for same in said.values()]
    return [card for card in cards if card.item.kind != "observation" or card.recurs]


def _merged(same: Sequence[Item]) -> Card:
    """One card of statements with the same words; a user's is shown, where one said them."""
    unmarked = (one for one in same if not speaker_mark(one.kind, one.role, one.actor, one.id))
    shown = next(unmarked, same[0])
    return Card(shown, tuple(one for one in same if one is not shown))


def is_card(item: Item) -> bool:
    """Whether a statement is short enough for a card: whole, one to three sentences or lines."""
    return item.whole and len(item.text) <= _CHARACTERS_MAX and _is_short(item.text)


@lru_cache(maxsize=512)
def _is_short(text: str) -> bool:
    return sum(1 for part in _END.split(text) if _WORD.search(part)) <= _SENTENCES_MAX


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
    if item.kind in NO_TURNS or item.is_by_model or item.seq in sheet.seqs or scope.hides(item):
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
