"""A regular expression as an automaton: a state for each character it takes, and steps between.

A step has a count of the ways to take it. Repeats that are bounded, but high, are loops as those
without a bound are. What a look ahead tries is a way that leads nowhere; a back reference takes
what its group takes. A state in which the whole pattern has matched ends the search and has no
steps, unless it is that of a repeat of nothing but a repeat.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, Final, NamedTuple

from memplane.policy.characters import Alphabet
from memplane.policy.walks import components

__all__ = ["UNBOUNDED", "Automaton", "TooLargeError", "automaton_of"]

# Copies of a repeated part that are written out; a repeat of more is a loop.
_COPIES: Final = 8
_STATES_MAX: Final = 1_200
_STEPS_MAX: Final = 300_000
_SEALED: Final = "sealed"
_IGNORE_CASE: Final = int(re.IGNORECASE)
# Texts that a repeat can be as long as, where nothing says how long.
UNBOUNDED: Final = 1_024

# The parser of re has no public name; a Python without it is refused when this is imported.
_parse: Final[Any] = vars(re)["_parser"].parse


class TooLargeError(Exception):
    """The pattern is larger than can be checked."""


def automaton_of(pattern: str, copies_fixed: int = _COPIES) -> Automaton:
    """The automaton of a pattern. `copies_fixed`: how many of a part of one length are written out.

    Raises TooLargeError for what is too large, re.error for what is no pattern.
    """
    tree = _parse(pattern)
    try:
        return Automaton(tree, _COPIES, copies_fixed)
    except TooLargeError:
        # Nothing written out: no more states than the pattern has letters.
        return Automaton(tree, 1, 1)


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


class Automaton:
    """`steps` has, for each state, the ways into each next one.

    A repeat of more than `copies` (`copies_fixed`, where one copy has one length) is a loop.
    Raises TooLargeError where states, or steps with what `spend` counts, go beyond their bounds.
    """

    def __init__(self, tree: Any, copies: int, copies_fixed: int) -> None:
        self._copies, self._copies_fixed = copies, copies_fixed
        self._tree = tree
        self._parts: list[tuple[str, Any, int]] = []  # what leads into each state
        self._masks: dict[int, int] = {}  # and the characters that it takes, where they matter
        self._groups: dict[int, tuple[Any, int]] = {}  # what a back reference takes
        self._lengths: dict[int, int] = {}
        self._apart: set[int] = set()  # states in no loop of what stands around them
        self._spent = 0
        self.steps: list[dict[int, int]] = []
        self._nested: set[int] = set()  # states of a repeat of nothing but a repeat
        self._search_ends_at(self._sequence(tree, tree.state.flags).done)

    # --- from the tree to states ---

    def _sequence(self, tree: Any, flags: int) -> _Part:
        self.spend(1)
        whole = _NOTHING
        for code, argument in tree:
            whole = self._then(whole, self._part(str(code), argument, flags))
        return whole

    def _part(self, code: str, argument: Any, flags: int) -> _Part:
        match code:
            case "SUBPATTERN":
                group, added, taken, tree = argument
                inside = (flags | added) & ~taken
                if group is not None:
                    self._groups[group] = tree, inside
                part = self._sequence(tree, inside)
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
            case "GROUPREF":
                tree, inside = self._groups.get(argument, ((), 0))
                part = self._sequence(tree, inside | flags & _IGNORE_CASE)
                part = part._replace(done=frozenset(), free=False)  # another text may stand there
            case "ASSERT" | "ASSERT_NOT":
                part = self._look(argument, flags)
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
        self.steps.append({})
        return _Part({at: 1}, {at: 1}, 0, frozenset({at}))

    def _look(self, argument: Any, flags: int) -> _Part:
        """What is tried there and left again; behind, the length is fixed and so is the time."""
        direction, tree = argument
        begin = len(self._parts)
        inner = self._sequence(tree, flags)
        self._apart.update(range(begin, len(self._parts)))
        self._search_ends_at(inner.done)
        return _CONDITION if direction < 0 else _CONDITION._replace(first=inner.first)

    def _sealed(self, code: str, argument: Any, flags: int) -> _Part:
        """One state for what gives nothing back: from outside it matches in one way."""
        begin = len(self._parts)
        if code == "ATOMIC_GROUP":
            inner = self._sequence(argument, flags)
        else:
            inner = self._repeat(argument, flags)
        inside = range(begin, len(self._parts))
        self._apart.update(inside)
        made = self._state(_SEALED, inside, flags)
        first = {**inner.first, **made.first}  # what is tried inside leads nowhere
        return made._replace(first=first, empty=min(1, inner.empty), free=inner.free)

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
        begin = len(self._parts)
        whole = self._then(whole, self._looped(self._sequence(tree, flags), least))
        length = min(UNBOUNDED, most * width[1] - least * width[0] + 1)
        for state in set(range(begin, len(self._parts))) - self._apart:
            self._lengths[state] = max(length, self._lengths.get(state, 0))
        # Where copies that must be there are not written out, none of them ends the search.
        return whole if least <= copies else whole._replace(done=frozenset())

    def _looped(self, part: _Part, least: int) -> _Part:
        # Copies that must be there may each be the empty one: that is a choice again.
        ways = 1 + (part.empty if least > 1 else 0)
        if all(first in self.steps[last] for last in part.last for first in part.first):
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
        self.spend(len(ends) * len(begins))
        for end, out in ends.items():
            known = self.steps[end]
            for begin, into in begins.items():
                known[begin] = min(2, known.get(begin, 0) + out * into * ways)

    def spend(self, steps: int) -> None:
        """Count work, so that no pattern costs more than a moment."""
        self._spent += steps
        if self._spent > _STEPS_MAX:
            raise TooLargeError

    def _search_ends_at(self, done: frozenset[int]) -> None:
        """Take out the states in which a match is found: behind them nothing is tried again."""
        ends = done - self._nested
        for state, steps in enumerate(self.steps):
            for to in ends & steps.keys() if state not in ends else list(steps):
                del steps[to]

    # --- from states to an answer ---

    @cached_property
    def _alphabet(self) -> Alphabet:
        return Alphabet(self._tree)

    def takes(self, state: int) -> int:
        """The characters that lead into a state, as bits."""
        if state not in self._masks:
            code, argument, flags = self._parts[state]
            if code == _SEALED:
                mask = 0
                for inner in argument:
                    mask |= self.takes(inner)
            else:
                mask = self._alphabet.mask(code, argument, flags)
            self._masks[state] = mask
        return self._masks[state]

    def example(self, mask: int) -> str:
        """A readable character of a mask."""
        return self._alphabet.example(mask)

    def loops(self) -> list[list[int]]:
        """The sets of states that can all reach each other; one before those that it leads to."""
        ahead = {state: list(steps) for state, steps in enumerate(self.steps)}
        return [sorted(loop) for loop in components(ahead)]

    def length(self, loop: list[int]) -> int:
        """In how many lengths a loop can match, about; `UNBOUNDED` at most."""
        return max(self._lengths.get(state, UNBOUNDED) for state in loop)
