"""Text to WordPiece numbers, as the lower-casing tokenizer of BERT does it.

Both the static table and the full model read their texts through this.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping

__all__ = ["WORD_LETTERS_MAX", "WordPiece", "words"]

# A longer word is unknown as a whole: the limit of the tokenizer that the model was trained with.
WORD_LETTERS_MAX = 100

_ASCII_CONTROL = {code: None for code in (*range(32), 127) if chr(code) not in "\t\n\r"}
_CONTROL = ("Cc", "Cf", "Cs", "Co")
_ASCII_WORD = re.compile(r"[a-z0-9]+|[!-/:-@\[-`{-~]")
_CACHED_MAX = 50_000
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def words(text: str) -> list[str]:
    """Lower case without accents, split at white space; marks and ideographs stand alone."""
    if text.isascii():
        return _ASCII_WORD.findall(text.translate(_ASCII_CONTROL).lower())
    spaced = "".join(map(_cleaned, text))
    plain = (c.lower() for c in unicodedata.normalize("NFD", spaced) if _category(c) != "Mn")
    return [word for part in "".join(plain).split() for word in _split_at_marks(part)]


class WordPiece:
    """Splits words greedily into the longest pieces that the vocabulary holds."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        """`numbers` of the pieces; one that goes on within a word is written `##piece`."""
        self._numbers = numbers
        self._longest = max(map(len, numbers), default=0)
        self._cached: dict[str, tuple[int, ...]] = {}

    def pieces(self, word: str) -> tuple[int, ...]:
        """The numbers of a word's pieces; none when it cannot be put together from them."""
        known = self._cached.get(word)
        if known is None:
            known = self._split(word)
            if len(self._cached) >= _CACHED_MAX:
                self._cached.clear()
            self._cached[word] = known
        return known

    def _split(self, word: str) -> tuple[int, ...]:
        whole = self._numbers.get(word)
        if whole is not None:
            return (whole,)
        if len(word) > WORD_LETTERS_MAX:
            return ()
        found: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            for end in range(min(len(word), start + self._longest), start, -1):
                number = self._numbers.get(mark + word[start:end])
                if number is not None:
                    break
            else:
                return ()
            found.append(number)
            start = end
        return tuple(found)


def _category(char: str) -> str:
    return unicodedata.category(char)


def _cleaned(char: str) -> str:
    """The character, a space for white space, nothing for a control character."""
    if char in "\t\n\r":
        return " "
    if char == "\ufffd" or _category(char) in _CONTROL:
        return ""
    if char.isspace():
        return " "
    code = ord(char)
    if code >= 0x3400 and any(low <= code <= high for low, high in _IDEOGRAPHS):
        return f" {char} "
    return char


def _split_at_marks(part: str) -> Iterator[str]:
    start = 0
    for pos, char in enumerate(part):
        if _is_mark(char):
            if start < pos:
                yield part[start:pos]
            yield char
            start = pos + 1
    if start < len(part):
        yield part[start:]


def _is_mark(char: str) -> bool:
    # All ASCII signs count, those too that Unicode calls symbols.
    return (char < "\x7f" and not char.isalnum()) or _category(char)[0] == "P"
