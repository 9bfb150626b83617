"""Stems of English words: Snowball English (Porter 2001), and a table for the commonest words.

The stemmer takes 30 to 80 us a word, half of what recording cost in a plane that is searched. The
table and the rule of `ENDINGS` spare it for three words of four, and give what it gives.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from memplane.errors import HomeError
from memplane.lazy import module_alone, regex


@lru_cache(maxsize=1)
def _english() -> Any:
    # Not `snowballstemmer.stemmer`: that takes PyStemmer where it is installed, with its own rules.
    # English without the stemmers of thirty languages that the package imports: a tenth of what a
    # hook costs.
    return module_alone("snowballstemmer", "english_stemmer").EnglishStemmer


def snowball(word: str) -> str:
    """Return what Snowball English makes of a lower-case word, in some 80 us."""
    # One for each word: it holds the word that it works on, and planes of two threads stem at once.
    found: str = _english()().stemWord(word)
    return found


# All endings that a step of Snowball English begins at: a word with none of them is its own stem.
ENDINGS: Final = (
    *("s", "e", "l", "y", "ed", "ing", "ic", "er", "ion", "ism", "ant", "ent", "iti", "li"),
    *("nci", "ogi", "ator", "ogist", "'"),
)


# A word of letters and digits that has an `e` behind it, and nothing but that: the last step alone
# may take it. A digit stands before the beginnings of words that have rules of their own; a `y` may
# be a vowel or none.
_NUMBERED: Final = regex(r"(?=[a-z]{0,3}\d)[0-9a-xz]{2,}e")
_BEFORE_E: Final = ("at", "iv", "iz", "anc", "enc", "abl", "ibl")  # which earlier steps end with
_VOWEL_AND_MORE: Final = regex(r"[aeiou][^aeiou]")
_SHORT: Final = regex(r"(?:^|[^aeiou])[aeiou][^aeiouwx]\Z|^[aeiou][wx]\Z")


def numbered_stem(word: str) -> str | None:
    """Return the stem of a word such as `4f708e`; None where other rules may have to be asked.

    Many hashes end so, and each is a word that was never there before.
    """
    if _NUMBERED.fullmatch(word) is None:
        return None
    bare = word[:-1]
    if bare.endswith(_BEFORE_E):
        return None
    first = _VOWEL_AND_MORE.search(word)
    if first is None:
        return word
    second = _VOWEL_AND_MORE.search(word, first.end())
    # In the second region an `e` goes, in the first one behind no short syllable.
    if second is not None and second.end() < len(word):
        return bare
    return bare if first.end() < len(word) and _SHORT.search(bare) is None else word


class StemTable:
    """The Snowball stems of the commonest words with one of `ENDINGS`, in some 2 us a word.

    `text`: words in rising order, a blank before each, some dozens a line. Behind a word stand how
    many of its last letters go, as one digit, and what comes in their place: ` happily1i`.
    `tools/build_stems.py` writes it.
    """

    __slots__ = ("_lines",)

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()

    def stem(self, word: str) -> str | None:
        """Return the stem of a word; None where the table does not have it."""
        # A colon comes behind the digits and before the letters: longer words lie behind it.
        line = self._lines[bisect_right(self._lines, f" {word}:") - 1]
        at = line.find(f" {word}") + len(word) + 1
        gone = line[at : at + 1]
        if at <= len(word) or not gone.isdecimal():
            return None
        end = line.find(" ", at)
        added = line[at + 1 : end if end >= 0 else None]
        return word[: len(word) - int(gone)] + added


@lru_cache(maxsize=1)
def shipped_stems() -> StemTable:
    """Return the table of stems that memplane ships, read once."""
    path = Path(__file__).parent / "data" / "stems-en.txt"
    try:
        return StemTable(path.read_bytes().decode("ascii"))  # `open` would import its codec
    except OSError as error:
        raise HomeError(
            f"memplane was installed without index/data/{path.name}; install it again"
        ) from error
