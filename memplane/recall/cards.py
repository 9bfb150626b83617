"""What is a knowledge card, and which of them answer a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from memplane.lazy import regex
from memplane.policy import Scoring
from memplane.projections.item import Item
from memplane.recall.score import score

__all__ = ["SENTENCES_MAX", "answering", "is_card"]

SENTENCES_MAX: Final = 3
_CHARACTERS_MAX: Final = 600
# A point inside of `v1.2` or `db.py` ends nothing; a line ends a sentence without one.
_END: Final = regex(r"[.!?][\"')\]]*(?=\s|$)|[\u3002\uff01\uff1f]|\n")
_WORD: Final = regex(r"\w")
# Of the best: what merely shares a word with the query says nothing about it.
_FLOOR: Final = 500


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
