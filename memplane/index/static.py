"""WordPiece tokens of a text, and the static table of vectors for them: the default embedder.

Tokens are those of BERT's lower-casing tokenizer (WordPiece: Schuster and Nakajima 2012), also for
the full model in `adapters.minilm`. The vector of a text is the sum of its tokens' rows in
`data/static.i8`, in integers, so it is the same on every machine.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from memplane.errors import InputError
from memplane.index.vectors import LARGEST, Buffer, Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

__all__ = [
    "MAGIC",
    "WORD_LETTERS_MAX",
    "StaticTable",
    "WordPiece",
    "encode_static_table",
    "plain_words",
]


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


def plain_words(text: str) -> list[str]:
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


# The default embedder: a vector of signed bytes for each piece of a word, looked up and added.
#
# `data/static.i8` holds the table; `tools/build_static.py` writes it. In this order:
#
# - `MAGIC`,
# - a line of JSON, padded with spaces so that what follows begins at a multiple of 64: `model`,
#   `source` (SHA-256 of the weights that it was distilled from), `dimension`, `pieces`,
#   `words` (so many of them, the first, are whole words of three letters or more and no stop
#   words), `vocabulary` (its bytes), `sha256` of all that follows,
# - the vocabulary: the pieces, common ones first, a newline behind each,
# - padding of newlines to a multiple of 64, then two bytes of weight for each piece, the least
#   first; stop words and marks weigh nothing,
# - padding of zeros to a multiple of 64, then for each piece `dimension` signed bytes, the
#   largest of which is 127.
#
# The vector of a text is the sum of its pieces' bytes times their weights, scaled so that the
# largest component is 127: integers throughout, hence the same on every machine.
MAGIC: Final = b"memplane static 1\n"
_ALIGNED: Final = 64


class StaticTable:
    """An `Embedder` over the bytes of the table, which may be a mapped file."""

    def __init__(self, data: Buffer) -> None:
        """Read the header; the vocabulary is read when it is first asked."""
        view = memoryview(data)
        end = bytes(view[:1_024]).find(b"\n", len(MAGIC)) + 1
        if bytes(view[: len(MAGIC)]) != MAGIC or not end:
            raise InputError("this is no static table of format 1", where="table")
        header = json.loads(bytes(view[len(MAGIC) : end]))
        self.dimension: int = header["dimension"]
        self.name: str = f"{header['model']}/{header['sha256'][:16]}"
        self.sha256: str = header["sha256"]
        self.words: int = header["words"]
        self._body = view[end:]
        count, letters = header["pieces"], header["vocabulary"]
        weights = _aligned(letters)
        rows = _aligned(weights + 2 * count)
        if len(self._body) != rows + count * self.dimension:
            expected = end + rows + count * self.dimension
            found = f"expected {expected} bytes, found {len(view)}"
            raise InputError(f"the static table is not whole: {found}", where="table")
        self._letters = self._body[:letters]
        self._weights = np.frombuffer(self._body, "<u2", count, weights).astype(np.int64)
        self._rows = np.frombuffer(self._body, np.int8, offset=rows).reshape(count, self.dimension)
        self._pieces: WordPiece | None = None

    def verify(self) -> bool:
        """Whether the bytes are those that were built; it reads all of them."""
        return hashlib.sha256(self._body).hexdigest() == self.sha256

    def vocabulary(self) -> list[str]:
        """The pieces in the order of their numbers."""
        return str(self._letters, "utf-8").split("\n")[:-1]

    def rows(self) -> Rows:
        """The vector of each piece alone."""
        return self._rows

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        return [row.tobytes() for row in self.vectors([plain_words(text) for text in texts])]

    def vectors(self, texts: Sequence[Sequence[str]]) -> Rows:
        """One row for each list of lower-case words; zeros where none of them has a weight."""
        split = self._splitter()
        numbers = [list(chain.from_iterable(map(split.pieces, text))) for text in texts]
        counts = np.array([len(one) for one in numbers], np.int64)
        pieces = np.fromiter(chain.from_iterable(numbers), np.int64, int(counts.sum()))
        sums = np.zeros((len(texts), self.dimension), np.int64)
        if len(pieces):
            weighted = self._rows[pieces] * self._weights[pieces, None]
            filled = counts > 0
            starts = (np.cumsum(counts) - counts)[filled]
            sums[filled] = np.add.reduceat(weighted, starts, axis=0)
        return _scaled(sums)

    def _splitter(self) -> WordPiece:
        if self._pieces is None:
            pieces = self.vocabulary()
            self._pieces = WordPiece(dict(zip(pieces, range(len(pieces)), strict=True)))
        return self._pieces


def encode_static_table(
    model: str,
    source: str,
    pieces: Sequence[str],
    words: int,
    weights: NDArray[np.uint16],
    rows: Rows,
) -> bytes:
    """The bytes of a table; the same values give the same bytes."""
    assert len(pieces) == len(weights) == len(rows)
    letters = "".join(f"{piece}\n" for piece in pieces).encode()
    body = bytearray(letters)
    body += b"\n" * (_aligned(len(body)) - len(body))
    body += weights.astype("<u2").tobytes()
    body += bytes(_aligned(len(body)) - len(body))
    body += rows.tobytes()
    header = {
        "model": model,
        "source": source,
        "dimension": rows.shape[1],
        "pieces": len(pieces),
        "words": words,
        "vocabulary": len(letters),
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    line = json.dumps(header, separators=(",", ":")).encode()
    size = len(MAGIC) + len(line) + 1
    return MAGIC + line + b" " * (_aligned(size) - size) + b"\n" + bytes(body)


def _scaled(sums: NDArray[np.int64]) -> Rows:
    """The largest component becomes 127; halves are rounded up."""
    peak = np.maximum(np.abs(sums).max(axis=1, initial=0, keepdims=True), 1)
    signed: Rows = ((2 * LARGEST * sums + peak) // (2 * peak)).astype(np.int8)
    return signed


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED
