"""Area G, the tail: the only place for what may change at any time."""

from __future__ import annotations

from typing import Final

from memplane.pack.layout import PARTS, Sheet, own_part
from memplane.pack.request import LastSession, Materials
from memplane.policy import SectionBudget
from memplane.projections.item import Item
from memplane.recall.cards import answering, is_card, merge_cards
from memplane.recall.score import importance_now
from memplane.recall.suppress import Scope

__all__ = [
    "TAIL",
    "is_own_section",
    "place_more_cards",
    "place_own",
    "place_sessions",
]

_BY_NAME = {part.name: part for part in PARTS}
TAIL: Final = ("task_state", "tool_state", "expansions", "retrieved_evidence")
_STANDARD: Final = frozenset(part.section for part in PARTS) | {"system_map"}
_OWN_MAX: Final = 50
_LEAST_CARD: Final = 6  # tokens


def is_own_section(section: SectionBudget) -> bool:
    """Whether the policy added the section: it shows views or kinds that it names."""
    return section.name not in _STANDARD and bool(section.views or section.kinds)


def place_more_cards(sheet: Sheet, materials: Materials, scope: Scope, query: str) -> None:
    """Cards that the head has no place for or does not know yet: those that answer the query.

    Without a query the most important ones, as far as importance has not faded.
    """
    part = _BY_NAME["more"]
    if sheet.room(part) < _LEAST_CARD:
        return
    scoring = materials.policies.scoring
    # All are scored, the placed ones too: how rare a word is does not depend on the head.
    cards = [card for card in materials.cards if card.role != "tool" and is_card(card)]
    if query:
        found = answering(query, cards, scope.hides, scoring)
    else:
        left = (c for c in cards if not scope.hides(c))
        found = [(_worth(card, materials, scope.now, scope.as_of), card) for card in left]
        found.sort(key=lambda one: (-one[0], -one[1].seq))
    worth = {card.seq: points for points, card in found}
    for card, others in merge_cards([card for _, card in found]):
        said, points = (card, *others), worth[card.seq] if query else 0
        if any(one.seq in sheet.seqs for one in said):
            sheet.omit_all(said, part.section, "duplicate")
        elif not sheet.offer(part, card, score=points, source="projection:cards", others=others):
            sheet.omit_all(others, part.section, "duplicate")


def _worth(card: Item, materials: Materials, now: str, upto: int) -> int:
    """What time has left of a card's importance."""
    last, pinned = (None, card.seq in materials.pinned)
    if materials.touched is not None:
        last, pinned = materials.touched(card, upto)
    half_lives = materials.policies.scoring.half_lives
    return importance_now(card, last, pinned=pinned, now=now, half_lives=half_lives)


def place_sessions(sheet: Sheet, sessions: tuple[LastSession, ...], scope: Scope) -> None:
    """What was done last: of each session its summary or last words, the newest session first."""
    part = _BY_NAME["sessions"]
    for session in sessions:
        for item in session.items:
            if item.seq not in sheet.seqs and not scope.hides(item):
                # Of a long answer the first third says enough.
                tier = 0 if item.kind == "summary" else 1
                sheet.offer(part, item, tier=tier, source="projection:sessions")


def place_own(sheet: Sheet, materials: Materials, scope: Scope, section: SectionBudget) -> None:
    """A section of the policy's own: its views, then the newest events of its kinds."""
    if not section.kinds:
        return
    part = own_part(section.name)
    pool = {item.seq: item for item in (*materials.decisions, *materials.cards)}
    pool.update(materials.hotset.items)
    taken = 0
    for seq in sorted(pool, reverse=True):
        item = pool[seq]
        if item.kind in section.kinds and seq not in sheet.seqs and not scope.hides(item):
            taken += sheet.offer(part, item)
            if taken == _OWN_MAX:
                return
