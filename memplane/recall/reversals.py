"""Decisions that were made of what people answered, and that a later answer turned round.

Such a decision has no key by which a later one could replace it. Structure says which it is of: the
same question was answered again; another plan was accepted in its session, or one of the same
heading; "no, ..." was said to what it is about, in its session. The later one then holds, for who
sees both: nothing is written, so that a decision whose reversal is forgotten holds again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from memplane.event import Event
from memplane.lazy import NamedTuple
from memplane.projections.item import Item
from memplane.projections.reports import meaning_words
from memplane.projections.task_table import EventQuote

# The tags by which an importer or a hook says how it found a decision.
_ANSWERS: Final = frozenset(("answer", "numbered", "pick"))
_PLAN: Final = "plan"
_CORRECTION: Final = "correction"
_RULES: Final = _ANSWERS | {_PLAN, _CORRECTION, "agreed", "refusal"}
_JOINTS: Final = (" \u2192 ", ' "')  # between a question and its answer
_STEM: Final = 5
_QUESTION_WORDS: Final = 3  # words of meaning of a question that may be asked again elsewhere
_SHARED: Final = 3  # words of meaning that a correction has of what it corrects
_READ_MAX: Final = 200


class DerivedDecision(NamedTuple):
    """A decision without a key that was made of turns. `rule`: how it was found."""

    seq: int
    session: str | None
    rule: str
    text: str

    @property
    def question(self) -> str:
        """The question that it answers, or the heading of its plan; "" where it names none."""
        if self.rule == _PLAN:
            return self.text.removeprefix("Plan: ").partition(": ")[0]
        if self.rule not in _ANSWERS:
            return ""
        found = (self.text.partition(joint)[0] for joint in _JOINTS if joint in self.text)
        return next((one for one in found if one), "")


def derived(event: Event | Item | EventQuote) -> DerivedDecision | None:
    """The decision as it is compared here; None for one with a key, or that was stated as such."""
    tags = event.more if isinstance(event, EventQuote) else event.tags
    rule = next((tag for tag in tags if tag in _RULES), "")
    if event.kind != "decision" or event.role != "user" or event.key is not None or not rule:
        return None
    return DerivedDecision(event.seq, event.session, rule, event.text)


def reversed_by(decisions: Iterable[DerivedDecision | None]) -> dict[int, int]:
    """Which decisions do not hold any more: seq -> that of the later one that turned it round.

    `decisions` in log order; of None nothing is said. Compares the newest 200.
    """
    rows = [one for one in decisions if one is not None][-_READ_MAX:]
    words = {one.seq: _stems(one.text) for one in rows}
    asked = {one.seq: _stems(one.question) for one in rows}
    found: dict[int, int] = {}
    for at, later in enumerate(rows):
        before = [one for one in rows[:at] if one.seq not in found]
        if later.rule == _CORRECTION:
            own = [
                one
                for one in before
                if one.session == later.session
                and len(words[one.seq] & words[later.seq]) >= _SHARED
            ]
            before = own[-1:]
        else:
            before = [
                one for one in before if _is_same(one, later, asked[one.seq], asked[later.seq])
            ]
        found.update((one.seq, later.seq) for one in before)
    return found


def _is_same(
    one: DerivedDecision, later: DerivedDecision, words: frozenset[str], others: frozenset[str]
) -> bool:
    """Whether two answer the same question, or are plans for the same."""
    together = one.session is not None and one.session == later.session
    if _PLAN in (later.rule, one.rule):
        return one.rule == later.rule and (together or (bool(words) and words == others))
    if not words or words != others:
        return False
    return len(words) >= _QUESTION_WORDS or (together and one.question == later.question)


def _stems(text: str) -> frozenset[str]:
    return frozenset(word[:_STEM] for word in meaning_words(text))
