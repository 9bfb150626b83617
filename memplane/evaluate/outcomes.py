"""What became of one labelled question: in a block, and in a ranking."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from memplane.index import terms
from memplane.lazy import NamedTuple
from memplane.pack.render import Rendered, parse_block

if TYPE_CHECKING:
    from memplane.evaluate.dataset import LabelledQuestion
    from memplane.pack.block import Block
    from memplane.plane import Plane

PLACES: Final = 5  # of a figure
PRODUCT: Final = "memplane"  # the system that is measured, beside the baselines


class QuestionOutcome(NamedTuple):
    """One question, answered by one system within one budget.

    `evidence` is how many events it needs, `whole` how many of them the block holds whole,
    `touched` how many whole or in part, `words` the sum of the parts of their informative words
    that it holds, `missing` the events that are not touched. `ns` is the time of the pack; None
    where the system is a baseline, which has none.
    """

    conversation: str
    question: str
    category: str
    system: str
    budget: int
    evidence: int
    whole: int
    words: float
    touched: int
    tokens: int
    ns: int | None
    missing: tuple[str, ...]

    def share(self, column: str) -> float:
        """The part of the evidence that was found, by `whole`, `words` or `touched`."""
        found: float = getattr(self, column)
        return found / self.evidence


class RankedQuestion(NamedTuple):
    """One question, answered by one ranking: the ranks (from 1) at which evidence stands."""

    conversation: str
    question: str
    category: str
    system: str
    evidence: int
    ranks: tuple[int, ...]
    ns: int

    def recall(self, k: int) -> float:
        """The part of the evidence among the first k."""
        return sum(rank <= k for rank in self.ranks) / self.evidence


class EvidenceHeld(NamedTuple):
    """How much of the evidence of a question a block holds: see `QuestionOutcome`."""

    whole: int
    words: float
    touched: int
    missing: tuple[str, ...]


def found_in(
    evidence: Mapping[str, str | None], block: Block | Rendered, words: EvidenceWords
) -> EvidenceHeld:
    """Look evidence (event id -> id in the plane, None: not there) up in the entries of a block.

    Always whole <= words <= touched: an event that stands there whole counts 1 in each; of one that
    stands there in part the informative words count that its own entries hold.
    """
    whole: set[str] = set()
    said: dict[str, list[str]] = {}
    for entry, parsed in zip(block.entries, parse_block(block.text).entries, strict=True):
        whole.update(entry.events)
        for event in entry.parts:
            said.setdefault(event, []).append(parsed.said)
    in_whole = [event for event, at in evidence.items() if at in whole]
    in_part = [at for at in evidence.values() if at in said and at not in whole]
    shares = [words.share(at, said[at]) for at in in_part if at is not None]
    missing = tuple(event for event, at in evidence.items() if at not in said and at not in whole)
    held = len(in_whole) + sum(shares)
    return EvidenceHeld(len(in_whole), held, len(in_whole) + len(in_part), missing)


def question_outcome(
    question: LabelledQuestion,
    system: str,
    budget: int,
    found: EvidenceHeld,
    tokens: int,
    ns: int | None,
) -> QuestionOutcome:
    """The outcome of a question whose evidence was `found` in a block of so many tokens."""
    return QuestionOutcome(
        question.conversation,
        question.id,
        question.category,
        system,
        budget,
        len(question.evidence),
        found.whole,
        round(found.words, PLACES),
        found.touched,
        tokens,
        ns,
        found.missing,
    )


class EvidenceWords:
    """The informative words of a plane's events: what they say, without how it is put.

    These are the distinct words of the text as the index compares them: stems, without stop words
    and single letters, numbers too. None is weighed by how rare it is: with such weights the
    figures differ by a tenth of a point, and would depend on what else a plane holds.
    """

    def __init__(self, plane: Plane, channel: str) -> None:
        self._plane, self._channel = plane, channel
        self._vocabulary = terms.TermVocabulary()
        self._known: dict[str, frozenset[int]] = {}

    def share(self, event: str, said: Iterable[str]) -> float:
        """The part of an event's words that stand in what entries say of it; 0 of none."""
        words = self._known.get(event)
        if words is None:
            found = self._plane.event(event, channel=self._channel)
            words = self._known[event] = self._of(self._plane.text(found))
        there = words & frozenset().union(*map(self._of, said))
        return len(there) / len(words) if words else 0.0

    def _of(self, text: str) -> frozenset[int]:
        return frozenset().union(*terms.Sentences(text, self._vocabulary).words)
