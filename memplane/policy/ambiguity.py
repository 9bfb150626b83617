r"""Whether a regular expression can take exponential time, said before anybody waits for it.

Python's `re` tries every way in which a pattern can match. Where a repeat can match one text in
two ways, as in `(a+)+` or `(a|aa)*`, a text of n such pieces has 2^n ways, and a failure tries all.

In the pattern's automaton that is a loop with a step of two ways, or two different walks over one
text from a state back to itself, found in the square of the automaton. Repeats that are bounded,
but high, count as unbounded: two to the twentieth is no better. A state in which the whole pattern
has matched ends the search, so walks through one do no harm: a loop at the very end, as in
`(?:\w+[-.]?)+`, passes, unless it is a repeat of nothing but a repeat. What `(?>...)` or `++`
protects, a back reference in a loop, and a high bound in a loop of a very large pattern, may be
named though they are safe. What only takes polynomial time is for `splitting`.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from memplane.policy.automaton import UNBOUNDED, Automaton, TooLargeError, automaton_of
from memplane.policy.walks import reaching, walk

__all__ = ["TooLargeError", "ambiguous"]

_COPIES_OF_FIXED_WIDTH: Final = 64

Pair: TypeAlias = tuple[int, int]


def ambiguous(pattern: str) -> str | None:
    """Return a text that a repeat of the pattern can match in two ways, None where there is none.

    Raises TooLargeError for what cannot be decided within bounds, re.error for what is no pattern.
    """
    automaton = automaton_of(pattern, _COPIES_OF_FIXED_WIDTH)
    for loop in automaton.loops():
        text = _two_ways(automaton, loop)
        if text is not None:
            return text
    # Copies that are written out stand in no loop: two ways through each are named here.
    automaton = automaton_of(pattern)
    for loop in automaton.loops():
        text = _two_ways(automaton, loop) if automaton.length(loop) < UNBOUNDED else None
        if text is not None:
            return text
    return None


def _two_ways(automaton: Automaton, loop: list[int]) -> str | None:
    """A text that leads from a state of the loop back to it in two ways."""
    inside = set(loop)
    steps = {state: [s for s in automaton.steps[state] if s in inside] for state in loop}
    for state in loop:
        for to in steps[state]:
            if automaton.steps[state][to] > 1:
                known, _ = _pairs(automaton, steps, [(to, to)])
                return _text(automaton, walk([(to, to)], (state, state), known))
    if all(len(ahead) == 1 for ahead in steps.values()):
        return None  # one way on from everywhere
    starts = [(state, state) for state in loop]
    known, order = _pairs(automaton, steps, starts)
    returning = reaching(known, starts)
    for pair in order:
        if pair[0] != pair[1] and pair in returning:
            there = walk(starts, pair, known)
            back = walk([pair], there[0], known)
            return _text(automaton, [*there[1:], *back[1:]])
    return None


def _pairs(
    automaton: Automaton, steps: dict[int, list[int]], starts: list[Pair]
) -> tuple[dict[Pair, list[Pair]], list[Pair]]:
    """The pairs of states that one text can lead to, with their next pairs, nearest first."""
    known: dict[Pair, list[Pair]] = {}
    order = list(starts)
    waiting = set(starts)
    for one, two in order:  # grows as it goes
        ahead: dict[Pair, None] = {}
        automaton.spend(len(steps[one]) * len(steps[two]))
        for a in steps[one]:
            for b in steps[two]:
                if automaton.takes(a) & automaton.takes(b):
                    ahead[(a, b) if a <= b else (b, a)] = None
        known[one, two] = list(ahead)
        for pair in ahead:
            if pair not in waiting:
                waiting.add(pair)
                order.append(pair)
    return known, order


def _text(automaton: Automaton, pairs: list[Pair]) -> str:
    return "".join(automaton.example(automaton.takes(a) & automaton.takes(b)) for a, b in pairs)
