"""What the index takes and is asked: documents, passages of a text, words of a question.

`passage` picks the best run of whole sentences of a long text; `ask` finds out from English
patterns who is meant by a question and how broad it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from memplane.index import terms
from memplane.lazy import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

__all__ = [
    "INSTRUCTION",
    "PREFERENCE",
    "READ",
    "ROLES",
    "Document",
    "QuestionTraits",
    "Sentences",
    "ask",
    "best_run",
    "blank_document",
    "passage",
    "sentences",
]


ROLES: Final = ("", "user", "assistant", "tool", "system")


class Document(NamedTuple):
    """One chunk of an event. Documents come in the order of (seq, part).

    The index shows `text` and finds a document by `text` and `extra` (speaker, month,
    year, day, weekday, tool, file names). Labels are exact: whatever a request filters
    by (`ns:/global`, `kind:message`, `tag:x`); the group is found like a label.
    """

    seq: int
    part: int = 0
    group: str = ""  # neighbours are smoothed within it (session and namespace); "" has none
    role: str = ""
    speaker: str = ""
    text: str = ""
    extra: str = ""
    tokens: int = 0
    importance: int = 500  # 0..1000
    flags: int = 0  # 16 bits that the index keeps and never reads
    at: int = 0  # a time in whole units of the caller, for since and until
    labels: tuple[str, ...] = ()
    name: int = 0  # 64 bits by which the caller may look for documents; 0 is no name
    kept: bytes = b""  # what the caller keeps beside the document; the index never reads it


def blank_document(seq: int, part: int) -> Document:
    """What stays of a purged document: its slot."""
    return Document(seq, part, importance=0)


# The best passage of a long text: what stands for a turn where the whole would crowd others out.
#
# A passage is a run of whole sentences or lines. Sentences picked from all over a text were
# measured too: they name as many events in the same tokens and say less of the answers.
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

    def __init__(self, text: str, vocabulary: terms.TermVocabulary) -> None:
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
    vocabulary: terms.TermVocabulary,
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


def _words(text: str, vocabulary: terms.TermVocabulary) -> frozenset[int]:
    expansions = vocabulary.expansions
    return frozenset(
        word
        for number in vocabulary.numbers(terms.normalise_text(text))
        for word, _, _ in expansions[number]
    )


# What a question says about its answer beside its words: who is meant, how wide it is.
#
# English patterns; other languages have none of it.

# Bits of `Document.flags`: what answers questions that share no word with it.
INSTRUCTION: Final = 1
PREFERENCE: Final = 2
READ: Final = 12  # so many bits higher: read from the text, not said by the event

_WORD: Final = regex(r"\w+")
_FIRST_PERSON: Final = regex(r"\b(?:I|my|me|mine|we|our)\b", re.IGNORECASE)
_BROAD: Final = regex(
    r"\b(?:summar\w*|overview|recap|discuss\w*|talk\w* about|think (?:about|of)|opinions?|describe"
    r"|decisions?|progress\w*|develop\w* (?:over|through)|order in which|in order(?! to\b)"
    r"|walk me through(?! how (?:to|do|can|should|would)\b)|throughout|over time)\b",
    re.IGNORECASE,
)

# What was or is so, unless somebody asks what to do.
_LOOKS_UP: Final = regex(
    r"\A\W*(?:what|which|when|where|who|whose|how (?:many|much|long|often|far|old)|did|have|has|was"
    r"|were|is|are)\b"
    r"(?!.*\b(?:should|suggest|recommend|advice|advise|help|(?:can|could|would) (?:I|we|you)"
    r"|do you think|best|options?|ways?|steps?|approach\w*)\b)",
    re.IGNORECASE | re.DOTALL,
)


class QuestionTraits(NamedTuple):
    """What is asked, beside the terms.

    `speakers`: the names among those given that the question names, none where it names all of
    them. `first_person`: whoever asks asks about himself. `broad`: about a whole thread.
    `looks_up`: about what is or was so, and not for help, which a preference would shape.
    """

    speakers: tuple[str, ...] = ()
    first_person: bool = False
    broad: bool = False
    looks_up: bool = False


def ask(text: str, speakers: Collection[str] = ()) -> QuestionTraits:
    """Read a question. A speaker is named by all words of the name, in order, in any case."""
    straight = text.replace("\u2019", "'")
    words = _WORD.findall(straight.casefold())
    named = tuple(name for name in speakers if _names(words, name))
    return QuestionTraits(
        named if len(named) < len(speakers) else (),
        _FIRST_PERSON.search(straight) is not None,
        _BROAD.search(straight) is not None,
        _LOOKS_UP.match(straight) is not None,
    )


def _names(words: list[str], name: str) -> bool:
    wanted = _WORD.findall(name.casefold())
    size = len(wanted)
    return size > 0 and any(words[at : at + size] == wanted for at in range(len(words) - size + 1))
