"""Group turns about the same fact, so that the newest value comes first.

Without a model: two turns are about the same fact where they share words of the query and words
beside it, and each states a value - a number, a negation, a change. Of two such turns the later one
holds, whichever matches the query better (in BEAM the newer
of two statements comes later in the log in 116 of 117 pairs, and first by words in half of them).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from memplane.lazy import regex

__all__ = ["LOOKED_AT_MAX", "ValueMention", "on_one_matter", "says_a_value"]

LOOKED_AT_MAX: Final = 12  # the turns that answer best; all pairs of them are compared

_ASKED: Final = 2  # words of the query that both say; all, where the query has fewer
_SHARED: Final = 3  # words that both say, those of the query among them;
_SHORT: Final = 2  # or half of the words of the shorter one, if that is not less than this
_CHARACTERS_MAX: Final = 8_000
_VALUE: Final = regex(
    r"\d"
    r"|\b(?:never|not|no longer|cannot|without|instead|actually|now|new|newly|recently)\b"
    r"|n['\u2019]t\b"
    r"|\b(?:updat|chang|mov|reschedul|switch|increas|decreas|reduc|improv|adjust|extend|replac"
    r"|rais|lower|drop|grow)(?:e|es|ed|s|ing)?\b",
    re.IGNORECASE,
)


class ValueMention(NamedTuple):
    """A turn of a person, or a memory: its seq, the words in it, whether it says a value."""

    seq: int
    words: Collection[int]
    valued: bool


def says_a_value(text: str) -> bool:
    """Whether a text says what may change: a number, a negation, a change."""
    return _VALUE.search(text[:_CHARACTERS_MAX]) is not None


def on_one_matter(asked: Collection[int], told: Sequence[ValueMention]) -> frozenset[int]:
    """The seqs of the turns that share their matter with another one; none, or at least two.

    `asked` are the words of the query. The first `LOOKED_AT_MAX` turns are looked at.
    """
    query = frozenset(asked)
    least = min(_ASKED, len(query))
    turns = [(one.seq, frozenset(one.words)) for one in told[:LOOKED_AT_MAX] if one.valued]
    found: set[int] = set()
    for at, (seq, words) in enumerate(turns):
        for other, others in turns[:at]:
            both = words & others
            half = max(_SHORT, min(len(words), len(others)) // 2)
            if len(both) >= min(_SHARED, half) and len(both & query) >= least:
                found |= {seq, other}
    return frozenset(found)
