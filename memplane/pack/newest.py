"""Evidence on one matter stands first, the newest before the older.

A reader must not take an old value for the one that holds. The rest follows in log order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from memplane.event import TYPED_KINDS
from memplane.pack.layout import Group, Part, Sheet
from memplane.projections.item import Item
from memplane.recall.retrieval import Retriever
from memplane.recall.updates import LOOKED_AT_MAX, Told, on_one_matter, says_a_value

__all__ = ["ROOM", "Chosen", "newest_first"]

ROOM: Final = 40  # tokens kept for date lines that come twice
_FIRST: Final = 1
_OTHER: Final = 2


class Chosen(NamedTuple):
    """An event that will be shown: the document that speaks for it, and where it would stand."""

    doc: int
    item: Item
    group: Group


def newest_first(
    sheet: Sheet, part: Part, chosen: Sequence[Chosen], retriever: Retriever,
    wanted: Mapping[int, int], room: int,
) -> dict[int, Group]:  # fmt: skip
    """By seq, the groups of the events that are to stand before the others.

    `chosen` comes best first; of what people said and of typed memories the first `LOOKED_AT_MAX`
    are looked at. The date lines that this adds cost at most `room` tokens: days for which that is
    not enough stay in log order.
    """
    spoken = [one for one in chosen if one.item.role == "user" or one.item.kind in TYPED_KINDS]
    told = [
        Told(one.item.seq, retriever.words(one.doc), valued=True)
        for one in spoken[:LOOKED_AT_MAX]
        if says_a_value(one.item.text)
    ]
    matter = on_one_matter(wanted.keys(), told)
    if not matter:
        return {}
    staying = {one.group for one in chosen if one.item.seq not in matter}
    groups: dict[Group, list[int]] = {}  # those with the best evidence first
    for one in chosen:
        if one.item.seq in matter:
            groups.setdefault(one.group, []).append(one.item.seq)
    says_more = max(_says_more(sheet, part, group) for group in groups)
    taken: list[tuple[int, Group, list[int]]] = []
    for group, seqs in groups.items():
        # Where others of the day stay behind, its line comes twice; one of the lines says more.
        again = sheet.date_tokens(part, group) if group in staying else 0
        more = 0 if taken else says_more
        if again + more <= room:
            room -= again + more
            taken.append((max(seqs), group, seqs))
    taken.sort(reverse=True)
    moved: dict[int, Group] = {}
    for _, group, seqs in taken:
        moved.update(dict.fromkeys(seqs, group._replace(order=_OTHER if moved else _FIRST)))
    return moved if len(moved) > 1 else {}


def _says_more(sheet: Sheet, part: Part, group: Group) -> int:
    plain = sheet.date_tokens(part, group)
    return max(0, sheet.date_tokens(part, group._replace(order=_FIRST)) - plain)
