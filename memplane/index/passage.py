"""The best passage of a long text: what stands for a turn where the whole would crowd others out.

A passage is a run of whole sentences or lines. Sentences picked from all over a text were
measured too: they name as many events in the same tokens and say less of the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from memplane.index import terms
from memplane.lazy import regex

__all__ = ["Sentences", "best_run", "passage", "sentences"]

_SENTENCE_MAX: Final = 300  # characters; a longer one is cut between words
_END: Final = regex(r"[.!?][ \t]+|\n\s*|[\u3002\uff01\uff1f]")


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


class Sentences:
    """A text cut into sentences, each with the words it holds: what no query changes.

    Keep it for the next query; what a sentence costs is counted when somebody asks.
    """

    __slots__ = ("_costs", "spans", "text", "words")

    def __init__(self, text: str, vocabulary: terms.Vocabulary) -> None:
        self.text = text
        self.spans = sentences(text)
        self.words = [_words(text[start:end], vocabulary) for start, end in self.spans]
        self._costs: list[int] = [-1] * len(self.spans)

    def cost(self, at: int, count: Callable[[str], int]) -> int:
        """What a sentence costs, without the blanks around it. Always by the same counter."""
        cost = self._costs[at]
        if cost < 0:
            start, end = self.spans[at]
            cost = self._costs[at] = count(self.text[start:end].strip())
        return cost


def passage(
    text: str,
    wanted: Mapping[int, int],
    limit: int,
    count: Callable[[str], int],
    vocabulary: terms.Vocabulary,
) -> tuple[int, int]:
    """`best_run` of a text that is asked once."""
    return best_run(Sentences(text, vocabulary), wanted, limit, count)


def best_run(
    said: Sentences, wanted: Mapping[int, int], limit: int, count: Callable[[str], int]
) -> tuple[int, int]:
    """Return the span of the run of sentences that holds most of `wanted` in `limit` tokens.

    `wanted` weighs words; each counts once. Of runs that hold as much the one of fewest tokens is
    taken, then the first. A text without any gives its beginning, as much as fits. At least one
    sentence, even over the limit.
    """
    spans = said.spans
    if not spans:
        return 0, 0
    asked = wanted.keys()
    holds = [words & asked for words in said.words]
    best = (0, 0, 0, 0)
    for first, own in enumerate(holds):
        if not own:
            continue
        held: set[int] = set()
        cost = worth = 0
        for last in range(first, len(spans)):
            cost += said.cost(last, count)
            if cost > limit and last > first:
                break
            new = holds[last] - held
            if new:
                held |= new
                worth += sum(map(wanted.__getitem__, new))  # whole numbers: in any order
                best = max(best, (worth, -cost, -first, -last))
    if not best[0]:
        last, cost = 0, said.cost(0, count)
        while last + 1 < len(spans) and (cost := cost + said.cost(last + 1, count)) <= limit:
            last += 1
        return 0, spans[last][1]
    return spans[-best[2]][0], spans[-best[3]][1]


def _words(text: str, vocabulary: terms.Vocabulary) -> frozenset[int]:
    expansions = vocabulary.expansions
    return frozenset(
        word
        for number in vocabulary.numbers(terms.prepare(text))
        for word, _, _ in expansions[number]
    )
