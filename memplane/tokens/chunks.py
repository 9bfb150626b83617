"""Where a text can be cut so that every part becomes the same tokens alone as in its place.

Both encodings first split a text into pretokens, which no token crosses. Both always split
before a blank that follows a non-blank, and give all blanks of a run but the last a
pretoken of their own. So a word with the blank before it is a chunk, and all differences
between the two (contractions, capitals, marks, digits, punctuation) lie inside chunks.
Only newlines join: a run of punctuation reads on over them, in o200k over slashes too.

Python's `re` knows no Unicode classes, and its idea of a blank differs. Characters beyond
ASCII are therefore replaced by a stand-in for their class before a pattern sees them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from memplane.lazy import regex
from memplane.tokens.table import (
    LETTER,
    LOWER,
    MARK,
    NUMBER,
    OTHER,
    PART,
    UNSURE,
    UPPER,
    WHITE,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "BLANKS",
    "CL100K",
    "O200K",
    "PLAIN",
    "UNSURE_CHARACTER",
    "chunks",
    "lines",
    "parts",
    "stand_ins",
    "without_surrogates",
]

BLANKS = (
    "\t\x0b\x0c \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
)
BLANKS += "\u2028\u2029\u202f\u205f\u3000"  # what Unicode calls white space, without CR and LF
_WORD = f"[^{BLANKS}\\r\\n]"

# A word with the blank before it and the newline behind it; the blanks before that; blanks
# that end a line; a newline. Blanks at the end of the text are left over.
chunks = re.compile(
    f"[{BLANKS}]?{_WORD}+[\\r\\n]?|[{BLANKS}]+(?=[{BLANKS}]{_WORD})|[{BLANKS}]+[\\r\\n]|[\\r\\n]"
).findall

# Behind one of these no chunk goes on: the last character of a word before a blank, a newline.
_BORDER = re.compile(f"{_WORD}(?=[{BLANKS}])|[\\r\\n]")
# Between the two of them no pretoken of either encoding goes on.
_WORD_END = re.compile(f"{_WORD}(?=[{BLANKS}])")

# One pretoken in both encodings, and the bulk of new text.
PLAIN = regex(r" ?[A-Za-z]?[a-z]+").fullmatch

_STANDS_FOR = {
    WHITE: "\x80", UPPER: "\x81", LOWER: "\x82", LETTER: "\x83",
    MARK: "\x84", NUMBER: "\x85", OTHER: "\x86", UNSURE: "\x87",
}  # fmt: skip
UNSURE_CHARACTER = _STANDS_FOR[UNSURE]
_STAND_IN = [_STANDS_FOR[entry & 7] for entry in range(256)]

_L = r"A-Za-z\x81-\x83"
_N = r"0-9\x85"
_S = r"\t-\r \x80"
_CAPITAL = r"[A-Z\x81\x83\x84]"
_SMALL = r"[a-z\x82-\x84]"
# Under the encodings' (?i) long s is an s too; the table calls it unsure.
_CONTRACTION = r"'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"

CL100K = regex(
    rf"{_CONTRACTION}"
    rf"|[^\r\n{_L}{_N}]?[{_L}]+"
    rf"|[{_N}]{{1,3}}"
    rf"| ?[^{_S}{_L}{_N}]+[\r\n]*"
    rf"|[{_S}]*[\r\n]+"
    rf"|[{_S}]+(?![^{_S}])|[{_S}]+"
)

O200K = regex(
    rf"[^\r\n{_L}{_N}]?{_CAPITAL}*{_SMALL}+(?:{_CONTRACTION})?"
    rf"|[^\r\n{_L}{_N}]?{_CAPITAL}+{_SMALL}*(?:{_CONTRACTION})?"
    rf"|[{_N}]{{1,3}}"
    rf"| ?[^{_S}{_L}{_N}]+[\r\n/]*"
    rf"|[{_S}]*[\r\n]+"
    rf"|[{_S}]+(?![^{_S}])|[{_S}]+"
)

_surrogates = re.compile("[\ud800-\udfff]")


def parts(text: str, size: int, *, within_line: bool = False) -> Iterator[str]:
    """Yield a text in parts of about `size` characters whose chunks are those of the whole.

    `within_line`: in parts of a line that an encoding counts alone as it does in the line. A word
    is never cut: one that is longer makes a part longer.
    """
    start, border = 0, _WORD_END if within_line else _BORDER
    while len(text) - start > size:
        found = border.search(text, start + size - 1)
        if found is None or found.end() == len(text):
            break
        yield text[start : found.end()]
        start = found.end()
    yield text[start:] if start else text


def stand_ins(text: str, entries: bytes) -> str:
    """Replace each character beyond ASCII by the stand-in of its class."""
    if len(text) > PART:
        spans = [(at, at + PART) for at in range(0, len(text), PART)]
        return "".join([stand_ins(text[at:end], entries[at:end]) for at, end in spans])
    return "".join(
        [
            char if char < "\x80" else _STAND_IN[entry]
            for char, entry in zip(text, entries, strict=True)
        ]
    )


def without_surrogates(text: str) -> str:
    """Replace what UTF-8 cannot carry by U+FFFD."""
    return text if text.isascii() else _surrogates.sub("\ufffd", text)


def lines(text: str) -> Iterator[str]:
    """Yield the lines with their newlines; nothing but LF ends one."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end
