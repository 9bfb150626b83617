"""Areas A and B: views, the map, and the cards and decisions in force as of the session's epoch.

No place function here reads the query or an event after the epoch, except to leave out what was
corrected: that keeps the head of a session's blocks the same. A view of a section that is not in
these areas stands before the entries of its section.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING, Final

from memplane.event import GLOBAL, PROJECTS, relayed_by, said_by, speaker_mark
from memplane.lazy import NamedTuple, late, regex
from memplane.pack.block import Entry, Omission
from memplane.pack.layout import PARTS, BlockPart, ContradictionNote, Sheet, own_part
from memplane.pack.request import Materials, PackContext, View
from memplane.policy import Budgets, SectionBudget
from memplane.projections.item import Item
from memplane.projections.system_map import Cell, MapState, Name, NameSource
from memplane.projections.window import entry_lines, one_line, shown_view
from memplane.recall.suppress import Scope
from memplane.tokens import clip

if TYPE_CHECKING:
    from memplane.recall import standing as recall_standing
else:
    recall_standing = late("memplane.recall.standing")


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
        return pinned or not is_by_model(item)
    by = said_by(item.kind, item.role, item.actor, item.id)
    return by not in ("agent", "model", "person") and relayed_by(item.id) is None


def is_by_model(item: Item) -> bool:
    """Whether a model made what the item says."""
    return said_by(item.kind, item.role, item.actor, item.id) == "model"


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
    gone = recall_standing.reversed_by(map(recall_standing.derived, visible))
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


class _Told(NamedTuple):
    """An event with a name, as a scope judges it."""

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


def _seen(cell: Cell, one: NameSource) -> _Told:
    return _Told(one.seq, one.id, one.ts, cell.kind, cell.ns, cell.sensitivity, one.forgotten)


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
