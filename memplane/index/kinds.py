"""Kinds of things: which a text names, and which a question asks for.

"Which pets does Ana have?" shares no word with "We adopted a pup". A table says of some thousands
of nouns of which kinds they are (a pup is an animal), and by which words a question asks for a
kind. It is derived from WordNet (Miller 1995) by `tools/build_kinds.py`; there is a table a
language, and all have the same kinds.

A document keeps the kinds of its text as bits of its `traits`, and three bits beside: whether
it asks something, whether it speaks of its writer (I, we), and whether it names a time or has a
number.

The table, `data/kinds-en.bin`, is `KINDS_MAGIC`, a line of JSON, and a deflated text. The JSON has
`language`, `source`, `kinds` (their names, in the order of `THINGS`), `asked` (a regular expression
a kind), `person` and `time` (words), `words` (their number) and `sha256` of the deflated text. Each
line of the text is bits as a hexadecimal number, then words of these kinds, rising. A word with a
capital counts only with it.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import HomeError, InputError
from memplane.lazy import regex, word_table

if TYPE_CHECKING:
    import re

KINDS_MAGIC: Final = b"memplane kinds 1\n"
THINGS: Final = word_table("""
    hobby sport place food pet health book film music person job feeling family clothes study game
    thing event weather art goal charity
""")
ASKING: Final = 1 << 29  # a text with a question mark
PERSONAL: Final = 1 << 30  # a text that speaks of its writer
TIMED: Final = 1 << 31  # one that names a time or has a number
_FILES: Final = ("kinds-en.bin",)
_HEADER_MAX: Final = 16_384
_TEXT_MAX: Final = 1 << 22
_DIGIT: Final = regex(r"\d")
_PLURALS: Final = (("s", ""), ("es", ""), ("ies", "y"), ("ves", "f"))


class KindTable:
    """The kinds of words of one language, over the bytes of the file; threads may share it."""

    def __init__(self, data: bytes) -> None:
        """Raise InputError where the bytes are not whole, or of other kinds."""
        end = data[:_HEADER_MAX].find(b"\n", len(KINDS_MAGIC)) + 1
        if data[: len(KINDS_MAGIC)] != KINDS_MAGIC or not end:
            raise InputError("this is no table of kinds of format 1", where="kinds")
        header = json.loads(data[len(KINDS_MAGIC) : end])
        body = data[end:]
        if hashlib.sha256(body).hexdigest() != header["sha256"] or tuple(header["kinds"]) != THINGS:
            raise InputError("the table of kinds is not whole", where="kinds")
        self.language: str = header["language"]
        self.asked: dict[str, str] = header["asked"]
        self._words: dict[str, int] = {}
        text = zlib.decompressobj().decompress(body, _TEXT_MAX).decode()
        for line in text.splitlines():
            bits, *words = line.split(" ")
            self._words |= dict.fromkeys(words, int(bits, 16))
        for bit, name in ((PERSONAL, "person"), (TIMED, "time")):
            for word in header[name]:
                self._words[word] = self._words.get(word, 0) | bit

    def __len__(self) -> int:
        return len(self._words)

    def word(self, word: str) -> int:
        """Return the bits of a word as it stands in a text."""
        if _DIGIT.search(word) is not None:
            return TIMED
        found = 0 if word.islower() else self._words.get(word, 0)
        lower = word.lower()
        own = self._words.get(lower)
        if own is None:
            own = next(
                (
                    self._words[one]
                    for ending, rest in _PLURALS
                    if lower.endswith(ending)
                    and (one := lower[: len(lower) - len(ending)] + rest) in self._words
                ),
                0,
            )
        return found | own

    def question(self, text: str) -> int:
        """Return the bits of the kinds that a question asks for."""
        return sum(1 << at for at, pattern in enumerate(self._patterns) if pattern.search(text))

    @property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        return _compiled(tuple(self.asked[name] for name in THINGS))


@lru_cache(maxsize=8)
def _compiled(patterns: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(regex(rf"(?i)\b(?:{pattern})\b") for pattern in patterns)


@lru_cache(maxsize=1)
def tables() -> tuple[KindTable, ...]:
    """Return the tables that memplane ships, one a language, read once."""
    folder = Path(__file__).parent / "data"
    try:
        return tuple(KindTable((folder / name).read_bytes()) for name in _FILES)
    except OSError as error:
        raise HomeError(
            f"memplane was installed without index/data/{_FILES[0]}; install it again"
        ) from error


@lru_cache(maxsize=100_000)
def word_traits(word: str) -> int:
    """Return the bits of a run of word characters."""
    found = 0
    for table in tables():
        found |= table.word(word)
    return found


def asked_kinds(question: str) -> tuple[int, ...]:
    """Return the kinds that a question asks for, each as its bit, rising."""
    bits = 0
    for table in tables():
        bits |= table.question(question)
    return tuple(1 << at for at in range(len(THINGS)) if bits >> at & 1)
