"""The characters that each part of a regular expression takes, as bits over a small alphabet.

The alphabet holds ASCII, some of each kind beyond it, and every character that the pattern names
with its neighbours: two parts share a bit where they share a character.
"""

from __future__ import annotations

import re
from typing import Any, Final

__all__ = ["Alphabet"]

# What an example is best written with comes first.
_SAMPLE: Final = "abcxyzABCXYZ0123456789-_.,:;=/ "
_BEYOND: Final = "\x85\xa0\xe9\xc9\xdf\u017f\u4e2d\u0416\u0436\u0663\xb2\u2003\u2028\U0001f600"
_LAST: Final = 0x10FFFF
_IGNORE_CASE: Final = int(re.IGNORECASE)
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
