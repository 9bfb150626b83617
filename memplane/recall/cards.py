"""Knowledge cards: which short statements are cards, and which of them answer a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from memplane.lazy import regex
from memplane.policy import Scoring
from memplane.projections.item import Item
from memplane.recall.score import score

__all__ = ["SENTENCES_MAX", "Card", "answering", "is_card", "merge_cards"]

SENTENCES_MAX: Final = 3
_CHARACTERS_MAX: Final = 600
# A point inside of `v1.2` or `db.py` ends nothing; a line ends a sentence without one.
_END: Final = regex(r"[.!?][\"')\]]*(?=\s|$)|[\u3002\uff01\uff1f]|\n")
_WORD: Final = regex(r"\w")
# Of the best: what merely shares a word with the query says nothing about it.
_FLOOR: Final = 500


class Card(NamedTuple):
    """What one or several statements say in the same words: the first of them, and the others."""

    item: Item
    others: tuple[Item, ...] = ()

    @property
    def recurs(self) -> bool:
        """Whether it was said on several occasions: in other sessions, or outside of any."""
        said = (self.item, *self.others)
        return len({one.session or one.id for one in said}) > 1


def merge_cards(items: Sequence[Item]) -> list[Card]:
    """Put together what says the same, word for word, as the same kind and under the same key.

    In the order of the first of each. What was merely observed is a card where it recurs. Of what
    an item holds in part nobody can say that it is the same.
    """
    said: dict[tuple[str, ...], list[Item]] = {}
    for item in items:
        words = item.text.split() if item.whole else [item.id, ""]
        said.setdefault((item.kind, item.ns, item.key or "", *words), []).append(item)
    cards = [Card(first, tuple(others)) for first, *others in said.values()]
    return [card for card in cards if card.item.kind != "observation" or card.recurs]


def is_card(item: Item) -> bool:
    """Whether a statement is read at a glance: whole, and one to three sentences or lines."""
    return item.whole and len(item.text) <= _CHARACTERS_MAX and _is_short(item.text)


@lru_cache(maxsize=512)
def _is_short(text: str) -> bool:
    return sum(1 for part in _END.split(text) if _WORD.search(part)) <= SENTENCES_MAX


def answering(
    query: str, cards: Sequence[Item], hides: Callable[[Item], object], scoring: Scoring
) -> list[tuple[int, Item]]:
    """The visible cards that hold words, a tag or the key of the query, with their scores.

    The best first; of those that hold the same, the newer. Cards come in log order.
    """
    hidden = [hides(card) is not None for card in cards]
    hits = score(query, cards, hidden, scoring)
    own = [
        (hit.words + hit.tags + hit.key + hit.markers, hit.item)
        for hit, masked in ((hit, hides(hit.item) is not None) for hit in hits)
        if not masked and hit.words + hit.tags + hit.key > 0
    ]
    best = max((points for points, _ in own), default=0)
    own = [(points, card) for points, card in own if points * 1000 >= best * _FLOOR]
    own.sort(key=lambda one: (-one[0], -one[1].importance, -one[1].seq))
    return own
