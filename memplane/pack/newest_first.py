"""Evidence about the same fact is printed first, the newest before the older.

A reader must not take an old value for the current one. The rest follows in log order.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from memplane.event import TYPED_KINDS
from memplane.lazy import NamedTuple, regex
from memplane.pack.layout import BlockPart, EntryGroup, Sheet
from memplane.ports import Retriever
from memplane.projections.item import Item
from memplane.recall.suppress import Scope

_FIRST: Final = 1
_OTHER: Final = 2


class FirstGroups(NamedTuple):
    """By seq, the groups of the events that are printed before the others; what that costs."""

    groups: dict[int, EntryGroup]
    tokens: int


NONE_FIRST: Final = FirstGroups({}, 0)


class ChosenEvent(NamedTuple):
    """An event to show: its best document, and the place in the block."""

    doc: int
    item: Item
    group: EntryGroup


def newest_first(
    sheet: Sheet,
    part: BlockPart,
    chosen: Sequence[ChosenEvent],
    retriever: Retriever[Scope, Item],
    wanted: Mapping[int, int],
    room: int,
) -> FirstGroups:
    """Which of the events are printed before the others.

    `chosen` comes best first; of user turns and typed memories the first `LOOKED_AT_MAX`
    are looked at. The date lines that this adds cost at most `room` tokens: days for which that is
    not enough stay in log order.
    """
    spoken = [one for one in chosen if one.item.role == "user" or one.item.kind in TYPED_KINDS]
    told = [
        ValueMention(one.item.seq, retriever.words(one.doc), valued=True)
        for one in spoken[:LOOKED_AT_MAX]
        if says_a_value(one.item.text)
    ]
    matter = on_one_matter(wanted.keys(), told)
    if not matter:
        return NONE_FIRST
    staying = {one.group for one in chosen if one.item.seq not in matter}
    groups: dict[EntryGroup, list[int]] = {}  # those with the best evidence first
    for one in chosen:
        if one.item.seq in matter:
            groups.setdefault(one.group, []).append(one.item.seq)
    says_more = max(_says_more(sheet, part, group) for group in groups)
    taken: list[tuple[int, EntryGroup, list[int]]] = []
    left = room
    for group, seqs in groups.items():
        # Where others of the day are printed later, its date line comes twice; one is longer.
        again = sheet.date_tokens(part, group) if group in staying else 0
        more = 0 if taken else says_more
        if again + more <= left:
            left -= again + more
            taken.append((max(seqs), group, seqs))
    taken.sort(reverse=True)
    moved: dict[int, EntryGroup] = {}
    for _, group, seqs in taken:
        moved.update(dict.fromkeys(seqs, group._replace(order=_OTHER if moved else _FIRST)))
    return FirstGroups(moved, room - left) if len(moved) > 1 else NONE_FIRST


def _says_more(sheet: Sheet, part: BlockPart, group: EntryGroup) -> int:
    plain = sheet.date_tokens(part, group)
    return max(0, sheet.date_tokens(part, group._replace(order=_FIRST)) - plain)


# Turns about the same fact, so that the newest value comes first.
#
# Without a model: two turns are about the same fact where they share words of the query and words
# beside it, and each states a value - a number, a negation, a change. Of two such turns the later
# one holds, whichever matches the query better (in BEAM the newer of two statements comes later in
# the log in 116 of 117 pairs, and first by words in half of them).

LOOKED_AT_MAX: Final = 12  # the turns that answer best; all pairs of them are compared

_ASKED_WORDS: Final = 2  # words of the query that both say; all, where the query has fewer
_SHARED_WORDS: Final = 3  # words that both say, those of the query among them;
_SHORT_WORDS: Final = 2  # or half of the words of the shorter one, if that is not less than this
_VALUE_CHARACTERS: Final = 8_000
_VALUE: Final = regex(
    r"\d"
    r"|\b(?:never|not|no longer|cannot|without|instead|actually|now|new|newly|recently)\b"
    r"|n['\u2019]t\b"
    r"|\b(?:updat|chang|mov|reschedul|switch|increas|decreas|reduc|improv|adjust|extend|replac"
    r"|rais|lower|drop|grow)(?:e|es|ed|s|ing)?\b",
    re.IGNORECASE,
)


class ValueMention(NamedTuple):
    """A user turn or a memory: its seq, its words (term numbers), whether it states a value."""

    seq: int
    words: Collection[int]
    valued: bool


def says_a_value(text: str) -> bool:
    """Whether a text states a value that may change: a number, a negation, a change."""
    return _VALUE.search(text[:_VALUE_CHARACTERS]) is not None


def on_one_matter(asked: Collection[int], told: Sequence[ValueMention]) -> frozenset[int]:
    """The seqs of turns that state the same fact as another one: none, or at least two.

    `asked` are the term numbers of the query. Compares the first `LOOKED_AT_MAX` turns.
    """
    query = frozenset(asked)
    least = min(_ASKED_WORDS, len(query))
    turns = [(one.seq, frozenset(one.words)) for one in told[:LOOKED_AT_MAX] if one.valued]
    found: set[int] = set()
    for at, (seq, words) in enumerate(turns):
        for other, others in turns[:at]:
            both = words & others
            half = max(_SHORT_WORDS, min(len(words), len(others)) // 2)
            if len(both) >= min(_SHARED_WORDS, half) and len(both & query) >= least:
                found |= {seq, other}
    return frozenset(found)
