"""A proof, by automata, that a regular expression is not exponential: the oracle of the check.

`memplane.policy.regex_safety` looks at forms and must refuse whatever this refuses; the patterns of
intake, which are read one by one, are held to this proof alone. `ambiguous` and `shared` return a
text by which the pattern is slow, None where there is none.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["TooLargeError", "ambiguous", "shared"]


# Whether a regular expression can take exponential time, said before anybody waits for it.
#
# Python's `re` tries every way in which a pattern can match. Where a repeat can match one text in
# two ways, as in `(a+)+` or `(a|aa)*`, a text of n such pieces has 2^n ways, and a failure tries
# all.
#
# In the pattern's automaton that is a loop with a step of two ways, or two different walks over one
# text from a state back to itself, found in the square of the automaton. Repeats that are bounded,
# but high, count as unbounded: two to the twentieth is no better. A state in which the whole
# pattern has matched ends the search, so walks through one do no harm: a loop at the very end, as
# in `(?:\w+[-.]?)+`, passes, unless it is a repeat of nothing but a repeat. What `(?>...)` or `++`
# protects, a back reference in a loop, and a high bound in a loop of a very large pattern, may be
# named though they are safe. What only takes polynomial time is for `splitting`.

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
                return _text(automaton, shortest_walk([(to, to)], (state, state), known))
    if all(len(ahead) == 1 for ahead in steps.values()):
        return None  # one way on from everywhere
    starts = [(state, state) for state in loop]
    known, order = _pairs(automaton, steps, starts)
    returning = reaching(known, starts)
    for pair in order:
        if pair[0] != pair[1] and pair in returning:
            there = shortest_walk(starts, pair, known)
            back = shortest_walk([pair], there[0], known)
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


# A regular expression as an automaton: a state for each character it takes, and steps between.
#
# A step has a count of the ways to take it. Repeats that are bounded, but high, are loops as those
# without a bound are. What a look ahead tries is a way that leads nowhere; a back reference takes
# what its group takes. A state in which the whole pattern has matched ends the search and has no
# steps, unless it is that of a repeat of nothing but a repeat.

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


# The characters that each part of a regular expression takes, as bits over a small alphabet.
#
# The alphabet holds ASCII, some of each kind beyond it, and every character that the pattern names
# with its neighbours: two parts share a bit where they share a character.

# What an example is best written with comes first.
_SAMPLE: Final = "abcxyzABCXYZ0123456789-_.,:;=/ "
_BEYOND: Final = "\x85\xa0\xe9\xc9\xdf\u017f\u4e2d\u0416\u0436\u0663\xb2\u2003\u2028\U0001f600"
_LAST: Final = 0x10FFFF
_ASCII: Final = int(re.ASCII)
_DOT_ALL: Final = int(re.DOTALL)


class Alphabet:
    """The characters that tell the parts of one pattern's tree apart."""

    def __init__(self, tree: Any) -> None:
        named = sorted(_named(tree))
        near = (chr(point) for code in named for point in (code - 1, code, code + 1) if _is(point))
        cases = [form for char in near for form in (char, char.lower(), char.upper())]
        listed = [*_SAMPLE, *map(chr, range(128)), *_BEYOND, *(c for c in cases if len(c) == 1)]
        self._characters: list[str] = list(dict.fromkeys(listed))
        self._masks: dict[tuple[str, int, int], int] = {}

    def mask(self, code: str, argument: Any, flags: int) -> int:
        """The bits of the characters that a part of one character takes."""
        # By identity where the tree has a list: the tree outlives this table.
        key = (code, argument if isinstance(argument, int) else id(argument), flags)
        if key not in self._masks:
            found = 0
            for bit, char in enumerate(self._characters):
                if _takes(code, argument, flags, char):
                    found |= 1 << bit
            self._masks[key] = found
        return self._masks[key]

    def example(self, mask: int) -> str:
        """The most readable character of a mask."""
        return self._characters[(mask & -mask).bit_length() - 1]


def _is(point: int) -> bool:
    return 0 <= point <= _LAST


def _named(tree: Any) -> set[int]:
    """The code points that a tree names: literals, and both ends of ranges."""
    found: set[int] = set()
    waiting: list[Any] = [tree]
    while waiting:
        one = waiting.pop()
        if isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], int):
            code, argument = str(one[0]), one[1]
            if code in ("LITERAL", "NOT_LITERAL"):
                found.add(argument)
                continue
            if code == "RANGE":
                found.update(argument)
                continue
        if isinstance(one, list | tuple) or hasattr(one, "getwidth"):
            waiting.extend(one)
    return found


def _takes(code: str, argument: Any, flags: int, char: str) -> bool:
    if code == "ANY":
        return char != "\n" or bool(flags & _DOT_ALL)
    if code not in ("LITERAL", "NOT_LITERAL", "IN"):
        return True  # a back reference, and whatever a later Python brings: anything
    forms = {char, char.lower(), char.upper()} if flags & _IGNORE_CASE else {char}
    if code != "IN":
        return (chr(argument) in forms) == (code == "LITERAL")
    refused = bool(argument) and str(argument[0][0]) == "NEGATE"
    found = any(_item(str(kind), value, flags, form) for kind, value in argument for form in forms)
    return found != refused


def _item(kind: str, value: Any, flags: int, char: str) -> bool:
    if kind == "LITERAL":
        return len(char) == 1 and ord(char) == value
    if kind == "RANGE":
        return len(char) == 1 and value[0] <= ord(char) <= value[1]
    if kind != "CATEGORY":
        return False
    name = str(value).removeprefix("CATEGORY_")
    plain = name.removeprefix("NOT_")
    known = {
        "DIGIT": char.isdecimal(),
        "SPACE": char.isspace(),
        "WORD": char.isalnum() or char == "_",
    }
    found = known.get(plain, False) and (char.isascii() or not flags & _ASCII)
    return found != name.startswith("NOT_")


# Whether repeats in a row can share one text in so many ways that a failure takes minutes.
#
# `.*a.*b` tries every place where its first repeat can end, and from each the rest of the text: the
# square of its length, and the search begins at every character. Each further repeat that can take
# the same text multiplies that by the length again: `\s*\s*\s*\s*x` on 600 blanks takes minutes.
#
# In the automaton a loop hands on to a later one where some text leads from a state of the first
# back to it, from there to a state of the second, and from that one back to it. The ways along a
# chain of such loops multiply; those of a bounded repeat, as in `.{0,40}`, are no more than its
# lengths.

# More than two repeats without a bound give, and a short one beside.
WAYS_MAX: Final = 16 * UNBOUNDED

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
                    found = shortest_walk([(p, p, q)], (p, q, q), known)
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


# Walks through a graph: nodes with the nodes that follow them, in an order that never varies.

Node = TypeVar("Node")


def components(steps: Mapping[Node, Sequence[Node]]) -> list[list[Node]]:
    """The sets of nodes that can all reach each other; one before those that it leads to.

    A node alone is one where it leads to itself.
    """
    behind: dict[Node, list[Node]] = {node: [] for node in steps}
    for node, ahead in steps.items():
        for to in ahead:
            behind[to].append(node)
    found: list[list[Node]] = []
    seen: set[Node] = set()
    # Backwards from the last left: what is reached and new is one set.
    for start in reversed(_in_order_of_leaving(steps)):
        if start not in seen:
            loop = [start]
            seen.add(start)
            for node in loop:  # grows as it goes
                new = list(dict.fromkeys(one for one in behind[node] if one not in seen))
                seen.update(new)
                loop += new
            if len(loop) > 1 or start in steps[start]:
                found.append(loop)
    return found


def _in_order_of_leaving(steps: Mapping[Node, Sequence[Node]]) -> list[Node]:
    """The nodes as a walk that goes deep first is done with them."""
    order: list[Node] = []
    seen: set[Node] = set()
    for start in steps:
        path = [] if start in seen else [(start, iter(steps[start]))]
        seen.add(start)
        while path:
            node, ahead = path[-1]
            for to in ahead:
                if to not in seen:
                    seen.add(to)
                    path.append((to, iter(steps[to])))
                    break
            else:
                order.append(node)
                path.pop()
    return order


def shortest_walk(
    starts: Iterable[Node], goal: Node, steps: Mapping[Node, Sequence[Node]]
) -> list[Node]:
    """The shortest walk from one of the starts to the goal, both included; [] where none leads."""
    came: dict[Node, Node | None] = dict.fromkeys(starts)
    order = list(came)
    for node in order:
        if node == goal:
            break
        for ahead in steps[node]:
            if ahead not in came:
                came[ahead] = node
                order.append(ahead)
    found: list[Node] = []
    at = goal if goal in came else None
    while at is not None:
        found.append(at)
        at = came[at]
    return found[::-1]


def reaching(steps: Mapping[Node, Sequence[Node]], goals: Iterable[Node]) -> set[Node]:
    """The nodes from which one of the goals can be reached."""
    behind: dict[Node, list[Node]] = {}
    for node, ahead in steps.items():
        for one in ahead:
            behind.setdefault(one, []).append(node)
    order = list(goals)
    found = set(order)
    for node in order:
        for one in behind.get(node, ()):
            if one not in found:
                found.add(one)
                order.append(one)
    return found
