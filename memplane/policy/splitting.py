r"""Whether repeats in a row can share one text in so many ways that a failure takes minutes.

`.*a.*b` tries every place where its first repeat can end, and from each the rest of the text: the
square of its length, and the search begins at every character. Each further repeat that can take
the same text multiplies that by the length again: `\s*\s*\s*\s*x` on 600 blanks takes minutes.

In the automaton a loop hands on to a later one where some text leads from a state of the first back
to it, from there to a state of the second, and from that one back to it. The ways along a chain of
such loops multiply; those of a bounded repeat, as in `.{0,40}`, are no more than its lengths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from memplane.policy.automaton import UNBOUNDED, Automaton, TooLargeError, automaton_of
from memplane.policy.walks import components, reaching, walk

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["WAYS_MAX", "TooLargeError", "shared"]

# More than two repeats without a bound give, and a short one beside.
WAYS_MAX: Final = 16 * UNBOUNDED

Pair: TypeAlias = tuple[int, int]
Triple: TypeAlias = tuple[int, int, int]


def shared(pattern: str) -> str | None:
    """Return a text of which a row can be shared in too many ways, None where there is none.

    Raises TooLargeError for what cannot be decided within bounds, re.error for what is no pattern.
    """
    return _Chains(automaton_of(pattern)).longest()


class _Chain(NamedTuple):
    """Loops that hand on: `all` multiplies their lengths, `most` is the longest of them.

    One of them takes what the others leave, so that it adds no ways. `before` are the ways of
    loops that end where this chain begins.
    """

    before: int
    all: int
    most: int

    @property
    def ways(self) -> int:
        return self.before * self.all // self.most


class _Chains:
    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._steps = {state: list(steps) for state, steps in enumerate(automaton.steps)}
        self._loops = automaton.loops()

    def longest(self) -> str | None:
        """The text of the loop at which the ways become too many."""
        lengths = [self._automaton.length(loop) for loop in self._loops]
        best = [_Chain(1, length, length) for length in lengths]
        for later, loop in enumerate(self._loops):
            before = reaching(self._steps, loop)
            for earlier in range(later):
                chain, length = best[earlier], lengths[later]
                if self._loops[earlier][0] not in before:
                    continue
                on = _Chain(chain.before, chain.all * length, max(chain.most, length))
                if on.ways > best[later].ways:
                    text = self._handed_on(self._loops[earlier], loop, before)
                    if text is not None and on.ways > WAYS_MAX:
                        return text
                    new = on if text is not None else _Chain(chain.ways, length, length)
                    best[later] = max(best[later], new, key=lambda one: one.ways)
        return None

    def _handed_on(self, one: list[int], two: list[int], before: set[int]) -> str | None:
        """A text that stays in the first loop, goes on to the second, and stays in that one."""
        both = self._together(one, two)
        if not both:
            return None
        known = self._triples(both, before)
        # With a way back from each end to its beginning, who goes all the way goes in a circle.
        circles = {
            (p, b, q): [*ahead, (p, p, q)] if b == q else ahead
            for (p, b, q), ahead in known.items()
        }
        for circle in components(circles):
            inside = set(circle)
            for p, b, q in sorted(circle):
                if b == p and (p, q, q) in inside:
                    found = walk([(p, p, q)], (p, q, q), known)
                    if found:
                        return self._text(found[1:])
        return None

    def _together(self, one: Iterable[int], two: Iterable[int]) -> set[Pair]:
        """The pairs of states, one of each loop, to which one text can lead back."""
        ahead: dict[Pair, list[Pair]] = {(p, q): [] for p in one for q in two}
        self._automaton.spend(len(ahead))
        for p, q in ahead:
            next_p, next_q = self._steps[p], self._steps[q]
            self._automaton.spend(len(next_p) * len(next_q))
            ahead[p, q] = [
                (a, b) for a in next_p for b in next_q if (a, b) in ahead and self._takes(a, b)
            ]
        return {pair for group in components(ahead) for pair in group}

    def _triples(self, both: set[Pair], before: set[int]) -> dict[Triple, list[Triple]]:
        """Where one text leads from (p, p, q): round both loops, and from the one to the other."""
        known: dict[Triple, list[Triple]] = {}
        order: list[Triple] = [(p, p, q) for p, q in sorted(both)]
        waiting = set(order)
        for p, b, q in order:  # grows as it goes
            self._automaton.spend(len(self._steps[p]) * len(self._steps[q]))
            known[p, b, q] = ahead = []
            for a in self._steps[p]:
                for c in self._steps[q]:
                    if (a, c) in both and self._takes(a, c):
                        ahead += [
                            (a, to, c)
                            for to in self._steps[b]
                            if to in before and self._takes(a, to, c)
                        ]
            self._automaton.spend(len(ahead))
            for triple in ahead:
                if triple not in waiting:
                    waiting.add(triple)
                    order.append(triple)
        return known

    def _takes(self, *states: int) -> int:
        mask = -1
        for state in states:
            mask &= self._automaton.takes(state)
        return mask

    def _text(self, triples: list[Triple]) -> str:
        return "".join(self._automaton.example(self._takes(*triple)) for triple in triples)
