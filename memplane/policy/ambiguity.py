r"""Whether a regular expression can take exponential time, said before anybody waits for it.

Python's `re` tries every way in which a pattern can match. Where a repeat can match one text in
two ways, as in `(a+)+` or `(a|aa)*`, a text of n such pieces has 2^n ways, and a failure tries all.

The pattern becomes an automaton with a state for each character it takes, and a count on each step
of the ways to take it. Exponential ambiguity is then a loop with a step of two ways, or two
different walks over one text from a state back to itself, found in the square of the automaton.
Repeats that are bounded, but high, count as unbounded: two to the twentieth is no better. A state
in which the whole pattern has matched ends the search, so walks through one do no harm: a loop at
the very end, as in `(?:\w+[-.]?)+`, passes, unless it is a repeat of nothing but a repeat.
What only takes polynomial time (`.*a.*b`) passes. What `(?>...)` or `++` protects, and a high bound
in a loop of a very large pattern, may be named though it is safe.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

from memplane.policy.characters import Alphabet

__all__ = ["TooLargeError", "ambiguous"]

# Copies of a repeated part that are written out; a repeat of more counts as unbounded.
_COPIES: Final = 8
_COPIES_OF_FIXED_WIDTH: Final = 64
_STATES_MAX: Final = 1_200
_STEPS_MAX: Final = 300_000
_SEALED: Final = "sealed"

# The parser of re has no public name; a Python without it is refused when this is imported.
_parse: Final[Any] = vars(re)["_parser"].parse

Pair: TypeAlias = tuple[int, int]


class TooLargeError(Exception):
    """The pattern is larger than can be checked."""


class _Part(NamedTuple):
    """A piece of the pattern: where it can begin and end, and in how many ways it can be empty.

    `done` has the states behind which nothing of the piece can fail; `free`: its empty way cannot.
    """

    first: dict[int, int]
    last: dict[int, int]
    empty: int
    done: frozenset[int]
    free: bool = False


_NOTHING: Final = _Part({}, {}, 1, frozenset(), free=True)
_CONDITION: Final = _NOTHING._replace(free=False)


def ambiguous(pattern: str) -> str | None:
    """Return a text that a repeat of the pattern can match in two ways, None where there is none.

    Raises TooLargeError for what cannot be decided within bounds, re.error for what is no pattern.
    """
    tree = _parse(pattern)
    try:
        automaton = _Automaton(tree, _COPIES, _COPIES_OF_FIXED_WIDTH)
    except TooLargeError:
        # Nothing written out: no more states than the pattern has letters.
        automaton = _Automaton(tree, 1, 1)
    for loop in automaton.loops():
        text = automaton.two_ways(loop)
        if text is not None:
            return text
    return None


class _Automaton:
    def __init__(self, tree: Any, copies: int, copies_fixed: int) -> None:
        self._copies, self._copies_fixed = copies, copies_fixed
        self._tree = tree
        self._parts: list[tuple[str, Any, int]] = []  # what leads into each state
        self._masks: dict[int, int] = {}  # and the characters that it takes, where they matter
        self._next: list[dict[int, int]] = []
        self._steps = 0
        self._nested: set[int] = set()  # states of a repeat of nothing but a repeat
        self._search_ends_at(self._sequence(tree, tree.state.flags).done)

    # --- from the tree to states ---

    def _sequence(self, tree: Any, flags: int) -> _Part:
        self._spend(1)
        whole = _NOTHING
        for code, argument in tree:
            whole = self._then(whole, self._part(str(code), argument, flags))
        return whole

    def _part(self, code: str, argument: Any, flags: int) -> _Part:
        match code:
            case "SUBPATTERN":
                _, added, taken, tree = argument
                part = self._sequence(tree, (flags | added) & ~taken)
            case "BRANCH":
                part = self._either([self._sequence(tree, flags) for tree in argument[1]])
            case "MAX_REPEAT" | "MIN_REPEAT":
                part = self._repeat(argument, flags)
            case "ATOMIC_GROUP" | "POSSESSIVE_REPEAT":
                part = self._sealed(code, argument, flags)
            case "GROUPREF_EXISTS":
                _, then, otherwise = argument
                part = self._either(
                    [self._sequence(tree or (), flags) for tree in (then, otherwise)]
                )
            case "ASSERT" | "ASSERT_NOT":  # has loops of its own, and takes nothing
                self._search_ends_at(self._sequence(argument[1], flags).done)
                part = _CONDITION
            case "AT":
                part = _CONDITION
            case _:
                part = self._state(code, argument, flags)
        return part

    def _state(self, code: str, argument: Any, flags: int) -> _Part:
        at = len(self._parts)
        if at >= _STATES_MAX:
            raise TooLargeError
        self._parts.append((code, argument, flags))
        self._next.append({})
        return _Part({at: 1}, {at: 1}, 0, frozenset({at}))

    def _sealed(self, code: str, argument: Any, flags: int) -> _Part:
        """One state for what gives nothing back: from outside it matches in one way."""
        begin = len(self._parts)
        if code == "ATOMIC_GROUP":
            inner = self._sequence(argument, flags)
        else:
            inner = self._repeat(argument, flags)
        made = self._state(_SEALED, range(begin, len(self._parts)), flags)
        return made._replace(empty=min(1, inner.empty), free=inner.free)

    def _repeat(self, argument: Any, flags: int) -> _Part:
        least, most, tree = argument
        width = tree.getwidth()
        copies = self._copies_fixed if width[0] == width[1] else self._copies
        if most <= copies:
            whole = _NOTHING
            for _ in range(most - least):  # x(x(x)?)?: one way to take each number of copies
                whole = self._either([self._then(self._sequence(tree, flags), whole), _NOTHING])
            for _ in range(least):
                whole = self._then(self._sequence(tree, flags), whole)
            return whole
        whole = _NOTHING
        for _ in range(least - 1 if least <= copies else 0):
            whole = self._then(whole, self._sequence(tree, flags))
        whole = self._then(whole, self._looped(self._sequence(tree, flags), least))
        # Where copies that must be there are not written out, none of them ends the search.
        return whole if least <= copies else whole._replace(done=frozenset())

    def _looped(self, part: _Part, least: int) -> _Part:
        # Copies that must be there may each be the empty one: that is a choice again.
        ways = 1 + (part.empty if least > 1 else 0)
        if all(first in self._next[last] for last in part.last for first in part.first):
            self._nested.update(part.last)
        self._link(part.last, part.first, ways)
        empty = min(2, part.empty + (least == 0))
        return part._replace(empty=empty, free=part.free or least == 0)

    def _either(self, parts: list[_Part]) -> _Part:
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for part in parts:
            first.update(part.first)
            last.update(part.last)
        return _Part(
            first,
            last,
            min(2, sum(part.empty for part in parts)),
            frozenset().union(*(part.done for part in parts)),
            free=any(part.free for part in parts),
        )

    def _then(self, one: _Part, two: _Part) -> _Part:
        self._link(one.last, two.first, 1)
        first, last = dict(one.first), dict(two.last)
        if one.empty:
            first |= {state: min(2, ways * one.empty) for state, ways in two.first.items()}
        if two.empty:
            last |= {state: min(2, ways * two.empty) for state, ways in one.last.items()}
        empty = min(2, one.empty * two.empty)
        done = two.done | one.done if two.free else two.done
        return _Part(first, last, empty, done, free=one.free and two.free)

    def _link(self, ends: dict[int, int], begins: dict[int, int], ways: int) -> None:
        self._spend(len(ends) * len(begins))
        for end, out in ends.items():
            known = self._next[end]
            for begin, into in begins.items():
                known[begin] = min(2, known.get(begin, 0) + out * into * ways)

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > _STEPS_MAX:
            raise TooLargeError

    def _search_ends_at(self, done: frozenset[int]) -> None:
        """Take out the states in which a match is found: behind them nothing is tried again."""
        ends = done - self._nested
        for state, steps in enumerate(self._next):
            for to in ends & steps.keys() if state not in ends else list(steps):
                del steps[to]

    # --- from states to an answer ---

    @cached_property
    def _alphabet(self) -> Alphabet:
        return Alphabet(self._tree)

    def _takes(self, state: int) -> int:
        if state not in self._masks:
            code, argument, flags = self._parts[state]
            if code == _SEALED:
                mask = 0
                for inner in argument:
                    mask |= self._takes(inner)
            else:
                mask = self._alphabet.mask(code, argument, flags)
            self._masks[state] = mask
        return self._masks[state]

    def loops(self) -> list[list[int]]:
        """The sets of states that can all reach each other."""
        behind: list[list[int]] = [[] for _ in self._next]
        for state, steps in enumerate(self._next):
            for to in steps:
                behind[to].append(state)
        found: list[list[int]] = []
        seen: set[int] = set()
        # Backwards from the last left: what is reached and new is one set.
        for start in reversed(self._in_order_of_leaving()):
            if start not in seen:
                loop = [start]
                seen.add(start)
                for state in loop:  # grows as it goes
                    new = [one for one in behind[state] if one not in seen]
                    seen.update(new)
                    loop += new
                if len(loop) > 1 or start in self._next[start]:
                    found.append(sorted(loop))
        return found

    def _in_order_of_leaving(self) -> list[int]:
        """The states as a walk that goes deep first is done with them."""
        order: list[int] = []
        seen: set[int] = set()
        for start in range(len(self._next)):
            path = [] if start in seen else [(start, iter(self._next[start]))]
            seen.add(start)
            while path:
                state, ahead = path[-1]
                to = next((one for one in ahead if one not in seen), None)
                if to is None:
                    order.append(state)
                    path.pop()
                else:
                    seen.add(to)
                    path.append((to, iter(self._next[to])))
        return order

    def two_ways(self, loop: list[int]) -> str | None:
        """A text that leads from a state of the loop back to it in two ways."""
        inside = set(loop)
        steps = {state: [s for s in self._next[state] if s in inside] for state in loop}
        for state in loop:
            for to in steps[state]:
                if self._next[state][to] > 1:
                    back = _walk([(to, to)], (state, state), self._pairs(steps, [(to, to)])[0])
                    return self._text(back)
        if all(len(ahead) == 1 for ahead in steps.values()):
            return None  # one way on from everywhere
        known, order = self._pairs(steps, [(state, state) for state in loop])
        returning = _reversed_reach(known, [(state, state) for state in loop])
        for pair in order:
            if pair[0] != pair[1] and pair in returning:
                starts = [(state, state) for state in loop]
                there = _walk(starts, pair, known)
                back = _walk([pair], there[0], known)
                return self._text([*there[1:], *back[1:]])
        return None

    def _pairs(
        self, steps: dict[int, list[int]], starts: list[Pair]
    ) -> tuple[dict[Pair, list[Pair]], list[Pair]]:
        """The pairs of states that one text can lead to, with their next pairs, nearest first."""
        known: dict[Pair, list[Pair]] = {}
        order = list(starts)
        waiting = set(starts)
        for one, two in order:  # grows as it goes
            ahead: dict[Pair, None] = {}
            self._spend(len(steps[one]) * len(steps[two]))
            for a in steps[one]:
                for b in steps[two]:
                    if self._takes(a) & self._takes(b):
                        ahead[(a, b) if a <= b else (b, a)] = None
            known[one, two] = list(ahead)
            for pair in ahead:
                if pair not in waiting:
                    waiting.add(pair)
                    order.append(pair)
        return known, order

    def _text(self, pairs: list[Pair]) -> str:
        return "".join(self._alphabet.example(self._takes(a) & self._takes(b)) for a, b in pairs)


def _walk(starts: list[Pair], goal: Pair, steps: dict[Pair, list[Pair]]) -> list[Pair]:
    """The shortest walk from one of the starts to the goal, both included; there is one."""
    came: dict[Pair, Pair | None] = dict.fromkeys(starts)
    order = list(starts)
    for pair in order:
        if pair == goal:
            break
        for ahead in steps[pair]:
            if ahead not in came:
                came[ahead] = pair
                order.append(ahead)
    walk: list[Pair] = []
    at: Pair | None = goal
    while at is not None:
        walk.append(at)
        at = came[at]
    return walk[::-1]


def _reversed_reach(steps: dict[Pair, list[Pair]], goals: list[Pair]) -> set[Pair]:
    """The pairs from which one of the goals can be reached."""
    behind: dict[Pair, list[Pair]] = {}
    for pair, ahead in steps.items():
        for one in ahead:
            behind.setdefault(one, []).append(pair)
    order = list(goals)
    found = set(goals)
    for pair in order:
        for one in behind.get(pair, ()):
            if one not in found:
                found.add(one)
                order.append(one)
    return found
