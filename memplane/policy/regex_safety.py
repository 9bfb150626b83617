"""Check the regular expressions of policies: a pattern must not be able to take minutes on a text.

Python's `re` tries every way in which a pattern can match (backtracking). Two checks of the parsed
pattern bound the number of ways; both look at sets of characters only, so that they refuse some
patterns that would be harmless, and accept none that is not.

1. Under a repeat each next character decides how to go on: no two alternatives and no two parts in
   a row can begin with the same text. Otherwise n characters have 2^n ways. Such expressions are
   called deterministic (Brueggemann-Klein and Wood, One-Unambiguous Regular Languages, 1998).
2. Repeats in a row that can share characters, as in `.*a.*b`, multiply: each tries every length
   that the others leave. The start of a search counts as such a repeat, unless the pattern begins
   with what the row cannot contain, or with a word. The product must not exceed `STEPS_MAX` for
   the longest text that the pattern is tried on.

What can no longer fail (a repeat at the end of the pattern), and what gives nothing back
(`(?>...)`, `++`, look-arounds), adds no ways to what follows.
"""

from __future__ import annotations

import re
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from memplane.lazy import NamedTuple
from memplane.policy.document import Fault, Path, found_value, text_items

if TYPE_CHECKING:
    from collections.abc import Iterator

PATTERNS_MAX: Final = 100
CHARACTERS_MAX: Final = 1_000  # as the schemas say
# Characters of the longest text that a pattern is tried on: a tool's output or a prompt; what the
# pattern of a standing phrase gets to see (`intake.markers` cuts 400 to either side).
LONG_TEXT: Final = 1_000_000
SENTENCE: Final = 800
STEPS_MAX: Final = 250_000_000  # `re` does about so many simple steps a second

# A repeat of at most so many copies may be ambiguous: it is judged as if its copies were written
# out. Bounds the work of the check.
_COPIES_MAX: Final = 8
# Where a search has to find so many characters before a repeat, its starts do not count: only a
# text that repeats just this word makes it slow.
_WORD: Final = 3
_PARTS_MAX: Final = 20_000
_OPEN_MAX: Final = 300
_TEXTS_MAX: Final = 64

# The parser of re has no public name; a Python without it is refused when this is imported.
_parser: Final[Any] = vars(re)["_parser"]
_compile: Final[Any] = vars(re)["_compiler"].compile


def pattern_faults(path: Path, patterns: object) -> Iterator[Fault]:
    """Yield a fault for each pattern of a list that cannot be used; `path` is the list's place."""
    for position, pattern in text_items(patterns, PATTERNS_MAX):
        # The schema names what is empty or too long.
        why = pattern_mistake(pattern) if 0 < len(pattern) <= CHARACTERS_MAX else ""
        if why:
            expected = "expected a regular expression"
            yield Fault((*path, position), f"{expected}, found {found_value(pattern)}: {why}")


@lru_cache(maxsize=1_024)  # each session of a process checks the same few, a millisecond each time
def pattern_mistake(pattern: str, longest: int = LONG_TEXT) -> str:
    """Return why a pattern cannot be used and what to write instead, "" where it can.

    `longest`: characters of the longest text that the pattern will be tried on.
    """
    if len(pattern) > CHARACTERS_MAX:
        return f"it is longer than {CHARACTERS_MAX} characters"
    with warnings.catch_warnings():
        # A pattern that Python warns about changes its meaning in a later Python.
        warnings.simplefilter("error")
        try:
            compiled = re.compile(pattern)
        except (re.error, OverflowError, RecursionError, Warning) as error:
            return str(error)
    if compiled.search(""):
        return "it matches an empty text"
    tree = _parser.parse(pattern)
    try:
        _Check(tree, longest).run()
    except _RefusedError as error:
        return str(error)
    except RecursionError:
        return _TOO_LARGE
    return ""


_TOO_LARGE: Final = "it is too large to tell whether it can take minutes; write several patterns"


class _RefusedError(Exception):
    """The pattern has a form that is not allowed; the message says which, and what to write."""


class _Part(NamedTuple):
    """What a piece of the pattern can take. Characters are bits of one `_Alphabet`.

    first: those that it can begin with; more: those with which it can go on where it could end;
    chars: all that it can take; needs: sets of which each match has a character; least, most: its
    length in characters; sure: it can match the empty text, whatever follows.
    """

    first: int = 0
    more: int = 0
    chars: int = 0
    needs: tuple[int, ...] = ()
    least: int = 0
    most: int = 0
    sure: bool = False


_EMPTY: Final = _Part(sure=True)
_CONDITION: Final = _Part()


class _Open(NamedTuple):
    """A repeat (or another choice) behind which the rest of the pattern can still fail.

    chars, needs: a later repeat shares characters with it only where a row of both can have one
    character of each set of `needs`. apart: characters that must stand between. before: ways to
    get to the chain of sharing repeats that it is in; product, longest: of their lengths. span:
    characters that a text with all these ways has.
    """

    born: int
    chars: int
    needs: frozenset[int]
    apart: int
    before: int
    product: int
    longest: int
    span: int

    @property
    def ways(self) -> int:
        # One repeat of a chain takes what the others leave, so it adds no ways.
        return self.before * max(1, self.product // self.longest)

    def behind(self, sets: tuple[int, ...], least: int) -> _Open:
        """The same repeat behind mandatory characters."""
        if not least:
            return self
        return self._replace(
            needs=self.needs.union(sets), apart=self.apart + least, span=self.span + least
        )


class _Check:
    """One check of one parsed pattern; `run` raises _RefusedError."""

    def __init__(self, tree: Any, longest: int) -> None:
        self._tree = tree
        self._longest = longest
        self._alphabet = _Alphabet(tree)
        self._parts: dict[tuple[int, int, bool], _Part] = {}
        self._groups: dict[int, _Part] = {}
        self._keep: list[Any] = []  # trees whose identity is a key
        self._walked = 0

    def run(self) -> None:
        flags = self._tree.state.flags
        self._sequence(self._tree, flags, inside=False)
        n = self._longest
        start = _Open(0, self._alphabet.every, frozenset(), 0, 1, n, n, n)
        self._walk(list(self._tree), flags, (start,), final=True)

    # --- first pass: what each part takes; parts of a repeat must be deterministic ---

    def _sequence(self, tree: Any, flags: int, *, inside: bool) -> _Part:
        whole = _EMPTY
        for code, argument in tree or ():
            part = self._part(str(code), argument, flags, inside=inside)
            whole = self._then(whole, part, inside=inside)
        return whole

    def _then(self, one: _Part, two: _Part, *, inside: bool) -> _Part:
        shared = (one.more | (0 if one.least else one.first)) & two.first
        if inside and shared:
            raise self._exponential(
                "inside a repeat, two parts in a row can both take", shared, _SEPARATE
            )
        return _Part(
            one.first | (0 if one.least else two.first),
            two.more | (0 if two.least else one.more | two.first),
            one.chars | two.chars,
            tuple(dict.fromkeys(one.needs + two.needs)),
            one.least + two.least,
            min(one.most + two.most, self._longest),
            one.sure and two.sure,
        )

    def _part(self, code: str, argument: Any, flags: int, *, inside: bool) -> _Part:
        key = (id(argument), flags, inside)
        if code in _LEAVES or key not in self._parts:
            self._count()
            part = self._new_part(code, argument, flags, inside=inside)
            if code in _LEAVES:
                return part
            self._keep.append(argument)
            self._parts[key] = part
        return self._parts[key]

    def _new_part(self, code: str, argument: Any, flags: int, *, inside: bool) -> _Part:
        match code:
            case "SUBPATTERN":
                group, added, taken, tree = argument
                part = self._sequence(tree, (flags | added) & ~taken, inside=inside)
                if group is not None:
                    self._groups[group] = part
            case "BRANCH" | "GROUPREF_EXISTS":
                trees = argument[1] if code == "BRANCH" else argument[1:]
                part = self._either(trees, flags, inside=inside)
            case "MAX_REPEAT" | "MIN_REPEAT":
                part = self._repeat(argument, flags, inside=inside)
            case "ATOMIC_GROUP" | "POSSESSIVE_REPEAT":
                of = self._sequence if code == "ATOMIC_GROUP" else self._repeat
                part = of(argument, flags, inside=False)
                part = part._replace(first=part.chars, more=0)
            case "GROUPREF":
                part = self._reference(argument, flags)
            case "ASSERT" | "ASSERT_NOT":
                self._sequence(argument[1], flags, inside=False)
                part = _CONDITION
            case "AT":
                part = _CONDITION
            case _:
                mask = self._alphabet.mask(code, argument, flags)
                part = _Part(mask, 0, mask, (mask,), 1, 1)
        return part

    def _reference(self, group: int, flags: int) -> _Part:
        """A back reference can take whatever its group can."""
        part = self._groups.get(group, _EMPTY)._replace(sure=False)
        if not flags & re.IGNORECASE or not part.chars:
            return part
        every = self._alphabet.every
        return part._replace(first=every, chars=every, needs=())

    def _either(self, trees: Any, flags: int, *, inside: bool) -> _Part:
        parts = [self._sequence(tree, flags, inside=inside) for tree in trees]
        if inside:
            texts = [self._texts(tree, flags) for tree in trees]
            for number, one in enumerate(texts):
                for two in texts[:number]:
                    shared = _common_start(one, two)
                    if shared:
                        raise self._exponential(
                            "inside a repeat, two alternatives can begin with", shared, _DIFFERENT
                        )
        chars = _union(part.chars for part in parts)
        least = min(part.least for part in parts)
        return _Part(
            _union(part.first for part in parts),
            _union(part.more for part in parts),
            chars,
            (chars,) if least else (),
            least,
            max(part.most for part in parts),
            any(part.sure for part in parts),
        )

    def _repeat(self, argument: Any, flags: int, *, inside: bool) -> _Part:
        least, most, tree = argument
        if most <= 1:
            part = self._sequence(tree, flags, inside=inside)
            if inside and least < most and not part.least and part.chars:
                raise _RefusedError(_EMPTY_REPEAT)
        else:
            # A few copies may be ambiguous: the second pass counts their ways.
            strict = inside or most > _COPIES_MAX
            part = self._sequence(tree, flags, inside=strict)
            if strict and not part.least:
                raise _RefusedError(_EMPTY_REPEAT)
            if strict and part.more & part.first:
                raise self._exponential(
                    "a repeated part can go on or begin again with",
                    part.more & part.first,
                    _SEPARATE,
                )
        again = part.first if least < most and most > 1 else 0
        return _Part(
            part.first,
            part.more | again,
            part.chars,
            part.needs if least else (),
            part.least * min(least, self._longest),
            min(part.most * min(most, self._longest), self._longest),
            part.sure or not least,
        )

    def _texts(self, tree: Any, flags: int) -> list[_Text]:
        """The texts that a sequence can begin with, as sets of characters."""
        texts = [_Text((), whole=True)]
        for code, argument in tree or ():
            more = self._texts_of(str(code), argument, flags)
            joined: list[_Text] = []
            for text in texts:
                joined += [text.then(other) for other in more] if text.whole else [text]
            if len(joined) > _TEXTS_MAX:
                return [text._replace(whole=False) for text in texts]
            texts = joined
        return texts

    def _texts_of(self, code: str, argument: Any, flags: int) -> list[_Text]:
        if code == "SUBPATTERN":
            _, added, taken, tree = argument
            return self._texts(tree, (flags | added) & ~taken)
        if code == "BRANCH":
            return [text for tree in argument[1] for text in self._texts(tree, flags)]
        if code in ("MAX_REPEAT", "MIN_REPEAT") and argument[1] <= _COPIES_MAX:
            return self._texts_of_copies(argument, flags)
        part = self._part(code, argument, flags, inside=False)
        if part.least == part.most == 1:
            return [_Text((part.chars,), whole=True)]
        if part.least and code not in ("ATOMIC_GROUP", "POSSESSIVE_REPEAT"):
            return [_Text((part.first,), whole=False)]
        return [_Text((), whole=not part.chars)]

    def _texts_of_copies(self, argument: Any, flags: int) -> list[_Text]:
        least, most, tree = argument
        one = self._texts(tree, flags)
        found: list[_Text] = []
        texts = [_Text((), whole=True)]
        for copies in range(most + 1):
            found += texts if copies >= least else []
            texts = [text.then(more) if text.whole else text for text in texts for more in one]
            if len(texts) + len(found) > _TEXTS_MAX:
                return [_Text((), whole=False)]
        return found

    # --- second pass: repeats in a row that can share characters ---

    def _walk(
        self, items: list[Any], flags: int, opened: tuple[_Open, ...], *, final: bool
    ) -> tuple[_Open, ...]:
        """Go through a sequence; `opened` are the repeats before it, returned with its own.

        final: nothing that follows the sequence can fail.
        """
        parts = [self._part(str(code), one, flags, inside=False) for code, one in items]
        last = max((at for at, part in enumerate(parts) if not part.sure), default=-1)
        for at, (code, argument) in enumerate(items):
            self._count()
            ahead = parts[at + 1] if at + 1 < len(parts) else _CONDITION
            opened = self._pass(
                str(code), argument, flags, opened, parts[at], ahead, final=final and at >= last
            )
            if len(opened) > _OPEN_MAX:
                raise _RefusedError(_TOO_LARGE)
        return opened

    def _pass(
        self,
        code: str,
        argument: Any,
        flags: int,
        opened: tuple[_Open, ...],
        part: _Part,
        ahead: _Part,
        *,
        final: bool,
    ) -> tuple[_Open, ...]:
        match code:
            case "SUBPATTERN":
                _, added, taken, tree = argument
                return self._walk(list(tree), (flags | added) & ~taken, opened, final=final)
            case "BRANCH" | "GROUPREF_EXISTS":
                trees = argument[1] if code == "BRANCH" else argument[1:]
                return self._branch(trees, flags, opened, part, final=final)
            case "MAX_REPEAT" | "MIN_REPEAT":
                return self._loop(argument, flags, opened, part, final=final)
            case "ATOMIC_GROUP":
                self._walk(list(argument), flags, opened, final=True)
            case "POSSESSIVE_REPEAT":
                self._loop(argument, flags, opened, self._repeat(argument, flags, inside=False))
            case "ASSERT" | "ASSERT_NOT":
                if argument[0] > 0:
                    self._walk(list(argument[1]), flags, opened, final=True)
                return self._condition(self._looked_behind(code, argument, flags), opened)
            case "AT":
                return self._condition(self._edge(str(argument), flags, ahead), opened)
            case "GROUPREF" if part.least < part.most:
                opened = self._with(opened, part, part.most - part.least + 1)
        return _behind(opened, part)

    def _condition(self, mask: int | None, opened: tuple[_Open, ...]) -> tuple[_Open, ...]:
        """Behind a condition on the character before; None where it says nothing."""
        return opened if mask is None else tuple(one.behind((mask,), 1) for one in opened)

    def _looked_behind(self, code: str, argument: Any, flags: int) -> int | None:
        direction, tree = argument
        part = self._sequence(tree, flags, inside=False)
        if direction > 0 or not part.least == part.most == 1 or len(tree) != 1:
            return None
        return part.chars if code == "ASSERT" else self._alphabet.every & ~part.chars

    def _edge(self, name: str, flags: int, ahead: _Part) -> int | None:
        if name == "AT_BEGINNING" and flags & re.MULTILINE:
            return self._alphabet.of("\n", 0)
        if name in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
            return 0  # no character stands before
        words = self._alphabet.of(r"\w", flags)
        if name == "AT_BOUNDARY" and ahead.least and ahead.first & ~words == 0:
            return self._alphabet.every & ~words
        return None

    def _branch(
        self, trees: Any, flags: int, opened: tuple[_Open, ...], part: _Part, *, final: bool
    ) -> tuple[_Open, ...]:
        known = {one.born for one in opened}
        found = list(_behind(opened, part))
        texts = [self._texts(tree, flags) for tree in trees]
        both = sum(
            any(_same_text(one, two) for other in texts[:number] for one in text for two in other)
            for number, text in enumerate(texts)
        )
        if both and not final:  # the same text in several ways, whatever follows
            found = [one._replace(before=one.before * (both + 1)) for one in found]
            opened = tuple(one._replace(before=one.before * (both + 1)) for one in opened)
            if any(self._steps(one, opened) > STEPS_MAX for one in found):
                raise self._polynomial(part.chars, start=False)
        for tree in trees:
            after = self._walk(list(tree or ()), flags, opened, final=final)
            found += [one for one in after if one.born not in known]
        if final:
            return tuple(found)
        starts = sum(
            any(_common_start(text, other) for other in texts[:number])
            for number, text in enumerate(texts)
        )
        return self._with(tuple(found), part, starts + 1) if starts > both else tuple(found)

    def _loop(
        self,
        argument: Any,
        flags: int,
        opened: tuple[_Open, ...],
        part: _Part,
        *,
        final: bool = False,
    ) -> tuple[_Open, ...]:
        least, most, tree = argument
        one = self._sequence(tree, flags, inside=False)
        ambiguous = one.more & one.first or not one.least or not self._deterministic(tree, flags)
        if 1 < most <= _COPIES_MAX and ambiguous:
            for copy in range(most):
                after = self._walk(list(tree), flags, opened, final=False)
                opened = after if copy < least else _either_way(opened, after)
                if copy >= least:
                    opened = self._with(opened, one, 2)
            return opened
        final = final and (least <= 1 or one.least == one.most)
        if final:
            after = self._walk(list(tree), flags, opened, final=True)
            return after if least else _either_way(opened, after)
        if most > 1 and least < most:
            length = min(self._longest, part.most - part.least + 1)
        else:
            length = 1 + (least < most)
        entered = self._with(opened, part._replace(needs=one.needs), length)
        after = self._walk(list(tree), flags, entered, final=False)
        known = {one.born for one in entered}
        own = tuple(one for one in after if one.born not in known)
        return _behind(opened, part) + entered[len(opened) :] + own

    def _deterministic(self, tree: Any, flags: int) -> bool:
        try:
            self._sequence(tree, flags, inside=True)
        except _RefusedError:
            return False
        return True

    def _with(self, opened: tuple[_Open, ...], part: _Part, length: int) -> tuple[_Open, ...]:
        """Add a repeat that can take `length` different lengths of what `part` takes."""
        if length <= 1 or not part.chars:
            return opened
        self._walked += 1
        new = _Open(self._walked, part.chars, frozenset(part.needs), 0, 1, length, length, length)
        best, worst = new, 0
        for one in opened:
            shared = one.chars & part.chars
            row = shared and all(need & shared for need in one.needs | set(part.needs))
            if row and (one.born or one.apart < _WORD):
                made = new._replace(
                    before=one.before,
                    product=max(1, one.product // max(1, one.apart)) * length,
                    longest=max(one.longest, length),
                    span=one.span + length,
                )
            else:
                span = one.span + length if one.born else one.apart + length
                made = new._replace(before=one.ways, span=span)
            if self._steps(made, opened) > STEPS_MAX:
                raise self._polynomial(shared or part.chars, start=bool(row) and one.born == 0)
            if made.before * made.product > worst:
                best, worst = made, made.before * made.product
        return (*opened, best)

    def _steps(self, one: _Open, opened: tuple[_Open, ...]) -> int:
        """The steps of all searches of the longest text; one search where it is anchored."""
        searches = 1 if 0 in opened[0].needs else max(1, self._longest // one.span)
        return one.before * one.product * searches

    # --- what is said ---

    def _count(self) -> None:
        self._walked += 1
        if self._walked > _PARTS_MAX:
            raise _RefusedError(_TOO_LARGE)

    def _exponential(self, what: str, chars: int, instead: str) -> _RefusedError:
        shown = found_value(self._alphabet.example(chars))
        return _RefusedError(f"it can take exponential time: {what} {shown}; {instead}")

    def _polynomial(self, chars: int, *, start: bool) -> _RefusedError:
        shown = found_value(self._alphabet.example(chars))
        size = f"{self._longest:,} characters"
        if start:
            return _RefusedError(
                f"it can take minutes on a text of {size}: a search can begin anywhere in a row of"
                f" {shown} that a repeat takes; {_BEGIN}"
            )
        return _RefusedError(
            f"it can take minutes on a text of {size}: repeats can share a row of {shown}; {_BOUND}"
        )


_SEPARATE: Final = "write one repeat, or a character between that neither can take"
_DIFFERENT: Final = "write alternatives that begin differently, or one set of characters"
_EMPTY_REPEAT: Final = (
    "it can take exponential time: it repeats what can be empty; repeat what has at least one"
    " character"
)
_BOUND: Final = "write one repeat, a bound (`{0,40}`), or a character between that neither can take"
_BEGIN: Final = (
    "give the repeat a bound (`{1,64}`), or begin with what cannot stand in the row (`\\b`, `^`)"
)
_LEAVES: Final = frozenset({"LITERAL", "NOT_LITERAL", "IN", "ANY", "AT", "GROUPREF"})


def _union(masks: Iterator[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def _behind(opened: tuple[_Open, ...], part: _Part) -> tuple[_Open, ...]:
    return tuple(one.behind(part.needs, part.least) for one in opened)


def _either_way(before: tuple[_Open, ...], after: tuple[_Open, ...]) -> tuple[_Open, ...]:
    """What is open where a part may be left out: as before it, and what it opened."""
    known = {one.born for one in before}
    return (*before, *(one for one in after if one.born not in known))


class _Text(NamedTuple):
    """Sets of characters that a text begins with; `whole` where it ends there."""

    sets: tuple[int, ...]
    whole: bool

    def then(self, other: _Text) -> _Text:
        return _Text(self.sets + other.sets, other.whole)


def _common_start(texts: list[_Text], others: list[_Text]) -> int:
    """The characters with which two alternatives can begin alike, 0 where one tells them apart."""
    found = 0
    for one in texts:
        for two in others:
            if all(a & b for a, b in zip(one.sets, two.sets, strict=False)):
                both = one.sets[:1] if one.sets and not two.sets else two.sets[:1]
                found |= (both[0] if both else 1) & (one.sets[0] if one.sets else -1)
    return found


def _same_text(one: _Text, two: _Text) -> bool:
    """Whether both can be one text."""
    short, long = sorted((one, two), key=lambda text: len(text.sets))
    if short.whole and len(short.sets) < len(long.sets):
        return False
    return all(a & b for a, b in zip(one.sets, two.sets, strict=False))


# The alphabet holds ASCII, some of each kind beyond it, and every character that the pattern names
# with its neighbours: two parts share a bit where they share a character.

# What an example is best written with comes first.
_SAMPLE: Final = "abcxyzABCXYZ0123456789-_.,:;=/ "
_BEYOND: Final = "\x85\xa0\xe9\xc9\xdf\u017f\u4e2d\u0416\u0436\u0663\xb2\u2003\u2028\U0001f600"
_LAST: Final = 0x10FFFF


class _Alphabet:
    """The characters by which the parts of one pattern differ."""

    def __init__(self, tree: Any) -> None:
        near = {
            chr(c) for code in _named(tree) for c in range(code - 1, code + 2) if 0 <= c <= _LAST
        }
        cases = (form for char in sorted(near) for form in (char, char.lower(), char.upper()))
        listed = [*_SAMPLE, *map(chr, range(128)), *_BEYOND, *(c for c in cases if len(c) == 1)]
        self._characters = list(dict.fromkeys(listed))
        self._masks: dict[tuple[str, object, int], int] = {}
        self.every = (1 << len(self._characters)) - 1

    def mask(self, code: str, argument: Any, flags: int) -> int:
        """The bits of the characters that a part of one character takes, by `re` itself."""
        key = (code, argument if isinstance(argument, int) else id(argument), flags)
        if key not in self._masks:
            state = _parser.State()
            state.flags = flags
            takes = _compile(_parser.SubPattern(state, [(vars(_parser)[code], argument)])).match
            bits = (1 << bit for bit, char in enumerate(self._characters) if takes(char))
            self._masks[key] = _union(bits)
        return self._masks[key]

    def of(self, pattern: str, flags: int) -> int:
        """The bits of the characters that a pattern of one character takes."""
        takes = re.compile(pattern, flags & (re.ASCII | re.IGNORECASE)).match
        return _union(1 << bit for bit, char in enumerate(self._characters) if takes(char))

    def example(self, mask: int) -> str:
        """The most readable character of a mask."""
        return self._characters[(mask & -mask).bit_length() - 1] if mask else ""


def _named(tree: Any) -> set[int]:
    """The code points that a tree names: literals, and both ends of ranges."""
    found: set[int] = set()
    waiting: list[Any] = [tree]
    while waiting:
        one = waiting.pop()
        if isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], int):
            code, argument = str(one[0]), one[1]
            if code in ("LITERAL", "NOT_LITERAL", "RANGE"):
                found.update(argument if code == "RANGE" else (argument,))
                continue
        if isinstance(one, list | tuple) or hasattr(one, "getwidth"):
            waiting.extend(one)
    return found
