"""Finding quotations of many texts in many others, in time that grows with their bytes alone.

A quotation is known by some words within it, looked up by their hash at each word of a text; only
where they stand is the whole of it compared, character by character.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from memplane.lazy import regex

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator

__all__ = ["Quotations", "unescaped"]

_QUOTE_MIN: Final = 8  # characters; less stands in other texts by chance
_LINE_MIN: Final = 24  # of one line of several
_WORDS: Final = (8, 4, 2, 1)  # by so many words a quotation is known: the most that it has
_KEPT: Final = 1 - _WORDS[0]  # from which place, counted from the end, words may begin one
_LETTERS: Final = 8  # where it has none: a text without spaces, a token
_FEW: Final = 16  # to look for them one by one is quicker
_PREFIX: Final = 1_024  # characters by which the longer ones are told apart
_WINDOW: Final = 1 << 18  # characters of a text that are taken to pieces at once
_WORD: Final = regex(r"\w+")
_GAP: Final = regex(r"\W")
_ESCAPE: Final = regex(r'\\(u[0-9a-fA-F]{4}|["\\/bfnrt])')
_LETTER_OF: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SURROGATE: Final = regex("[\ud800-\udfff]")


class _Alike:
    """Quotations that share what they are known by, and where in each of them that stands."""

    __slots__ = ("_by_size",)

    def __init__(self) -> None:
        # (place of the words, length up to _PREFIX) -> beginning -> what begins so; None: it is all
        self._by_size: dict[tuple[int, int], dict[str, list[str] | None]] = {}

    def add(self, needle: str, at: int) -> None:
        size = min(len(needle), _PREFIX)
        same = self._by_size.setdefault((at, size), {})
        longer = same.setdefault(needle[:size], [])
        if len(needle) == size:
            same[needle] = None
        elif longer is not None:
            longer.append(needle)

    def stand(self, text: str, place: int) -> bool:
        """Whether one of them stands in the text, with what they are known by at that place."""
        for (at, size), same in self._by_size.items():
            start = place - at
            if start < 0:
                continue
            found = text[start : start + size]
            if found not in same:
                continue
            longer = same[found]
            if longer is None or any(text.startswith(one, start) for one in longer):
                return True
        return False


class Quotations:
    """Finds quotations of these texts: whole, or one of their longer lines."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._by_words: dict[int, dict[int, str | _Alike]] = {}  # how many -> hash ->
        self._others: dict[str, None] = {}  # without a word that is whole wherever they stand
        self._by_letters: dict[str, _Alike] = {}
        for needle in _needles(texts):
            self._add(needle)
        if len(self._others) > _FEW:
            for needle in self._others:
                self._by_letters.setdefault(needle[:_LETTERS], _Alike()).add(needle, 0)
        self._sizes = sorted(self._by_words)

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self._by_words or self._others)

    def in_text(self, text: str) -> bool:
        """Whether a text has one of them."""
        return self._without_words(text) or (bool(self._sizes) and self._with_words(text))

    def in_file(self, text: str) -> bool:
        """Whether a file's text has one of them, or what it is the JSON of."""
        if not self:
            return False
        return self.in_text(text) or ("\\" in text and self.in_text(unescaped(text)))

    def _add(self, needle: str) -> None:
        size, known, at = _known_by(needle)
        if not size:
            self._others[needle] = None
            return
        table = self._by_words.setdefault(size, {})
        found = table.get(known)
        if found is None:
            table[known] = needle  # most are alone: their place is looked for when it is needed
        elif found != needle:
            if isinstance(found, str):
                alike = _Alike()
                alike.add(found, _known_by(found)[2])
                table[known] = found = alike
            found.add(needle, at)

    def _without_words(self, text: str) -> bool:
        if not self._by_letters:
            return any(needle in text for needle in self._others)
        find = self._by_letters.get
        for at in range(len(text) - _LETTERS + 1):
            alike = find(text[at : at + _LETTERS])
            if alike is not None and alike.stand(text, at):
                return True
        return False

    def _with_words(self, text: str) -> bool:
        kept: list[tuple[int, str]] = []  # the last words before a window, and where they begin
        end = 0
        while end < len(text):
            begin = end
            gap = _GAP.search(text, begin + _WINDOW)
            end = len(text) if gap is None else gap.start()
            words = _WORD.findall(text, begin, end)
            near = [*(word for _, word in kept), *words]
            if any(self._may_be_in(near, size) for size in self._sizes):
                found = ((match.start(), match[0]) for match in _WORD.finditer(text, begin, end))
                if self._is_in(text, [*kept, *found]):
                    return True
            kept = [*kept, *_placed(text, begin, end, words[_KEPT:])][_KEPT:]
        return False

    def _may_be_in(self, words: list[str], size: int) -> bool:
        return any(map(self._by_words[size].__contains__, _hashes(words, size)))

    def _is_in(self, text: str, found: list[tuple[int, str]]) -> bool:
        words = [word for _, word in found]
        for size in self._sizes:
            table = self._by_words[size]
            for (start, _), known in zip(found, _hashes(words, size), strict=False):
                one = table.get(known)
                if isinstance(one, str):
                    place = start - _known_by(one)[2]
                    if place >= 0 and text.startswith(one, place):
                        return True
                elif one is not None and one.stand(text, start):
                    return True
        return False


def _needles(texts: Iterable[str]) -> Iterator[str]:
    """What tells a quotation of each: its longer lines, or all of it where it has none."""
    for text in texts:
        whole = text.strip()
        lines = [one for line in whole.splitlines() if _counts(one := line.strip())]
        if lines:
            yield from lines
        elif len(whole) >= _QUOTE_MIN:
            yield whole


def _counts(line: str) -> bool:
    return len(line) >= _LINE_MIN and _WORD.search(line) is not None


def _known_by(needle: str) -> tuple[int, int, int]:
    """By how many words it is known, their hash, and where they begin; no words: 0.

    The first and the last word may go on in a text that quotes it.
    """
    within = list(islice(_WORD.finditer(needle), _WORDS[0] + 2))[1:-1]
    for size in _WORDS:
        if len(within) >= size:
            words = tuple(match[0] for match in within[:size])
            return size, hash(words), within[0].start()
    return 0, 0, 0


def _hashes(words: list[str], size: int) -> Iterator[int]:
    """The hash of each so many words on end."""
    return map(hash, zip(*(words[at:] for at in range(size)), strict=False))


def _placed(text: str, begin: int, end: int, words: list[str]) -> list[tuple[int, str]]:
    """The last words of this part of a text, each with where it begins."""
    found: list[tuple[int, str]] = []
    for word in reversed(words):
        end = text.rindex(word, begin, end)
        found.append((end, word))
    return found[::-1]


def unescaped(text: str) -> str:
    """The text as it was before it was written as JSON."""
    made = _ESCAPE.sub(_letter, text)
    if _SURROGATE.search(made) is None:
        return made
    return made.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _letter(match: re.Match[str]) -> str:
    said = match[1]
    return chr(int(said[1:], 16)) if said[0] == "u" else _LETTER_OF.get(said, said)
