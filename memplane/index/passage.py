"""The best passage of a long text: what stands for a turn where the whole would crowd others out.

A passage is a run of whole sentences or lines. Sentences picked from all over a text were
measured too: they name as many events in the same tokens and say less of the answers.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Final

from memplane.index import terms

__all__ = ["passage", "sentences"]

_SENTENCE_MAX: Final = 300  # characters; a longer one is cut between words
_END: Final = re.compile(r"(?<=[.!?])[ \t]+|\s*\n\s*|(?<=[\u3002\uff01\uff1f])")


def sentences(text: str) -> list[tuple[int, int]]:
    """Return the spans of the sentences and lines of a text; together they are the text."""
    spans: list[tuple[int, int]] = []
    start = 0
    for end in (*(match.end() for match in _END.finditer(text)), len(text)):
        while end - start > _SENTENCE_MAX:
            blank = text.rfind(" ", start + _SENTENCE_MAX // 2, start + _SENTENCE_MAX)
            cut = blank + 1 if blank >= 0 else start + _SENTENCE_MAX
            spans.append((start, cut))
            start = cut
        if end > start:
            spans.append((start, end))
            start = end
    return spans


def passage(
    text: str,
    wanted: Mapping[int, int],
    limit: int,
    count: Callable[[str], int],
    vocabulary: terms.Vocabulary,
) -> tuple[int, int]:
    """Return the span of the run of sentences that holds most of `wanted` in `limit` tokens.

    `wanted` weighs terms (words and bigrams); each counts once. Of runs that hold as much the one
    of fewest tokens is taken, then the first. A text without any gives its beginning, as much as
    fits. At least one sentence, even over the limit.
    """
    spans = sentences(text)
    if not spans:
        return 0, 0
    # What the first n sentences cost.
    costs = [0, *accumulate(count(text[start:end].strip()) for start, end in spans)]
    holds = [_held(text[start:end], wanted, vocabulary) for start, end in spans]
    best = (0, 0, 0, 0)
    for first, own in enumerate(holds):
        if not own:
            continue
        held: set[int] = set()
        for last in range(first, len(spans)):
            cost = costs[last + 1] - costs[first]
            if cost > limit and last > first:
                break
            if holds[last] - held:
                held |= holds[last]
                found = (sum(wanted[term] for term in held), -cost, -first, -last)
                best = max(best, found)
    if not best[0]:
        last = max(1, bisect_right(costs, limit) - 1)
        return 0, spans[last - 1][1]
    return spans[-best[2]][0], spans[-best[3]][1]


def _held(text: str, wanted: Mapping[int, int], vocabulary: terms.Vocabulary) -> set[int]:
    found = terms.analyse(text, "", vocabulary)
    return {term for term in (*found.words, *found.bigrams) if term in wanted}
