"""Vectors of signed bytes: compared exactly, found by their sign bits first.

A vector is `dimension` bytes from -127 to 127; row n is document n. Two append-only arrays, row
by row: `rows` (the bytes) and `bits` (a bit a component, set where it is above 0, padded to 64).
A row without a component above 0 means that the document has no vector.

Similarity is the cosine in millionths, rounded down. Dot products are sums of whole numbers, and
root and division are rounded the same everywhere, so the answer is the same on every machine. A
vector has at most 133,000 components: its dot products fit 32 bits.

Vectors of words: WordPiece tokens, the static table (the default embedder), related words.

Tokens are those of BERT's lower-casing tokenizer (WordPiece: Schuster and Nakajima 2012), also for
the full model in `adapters.minilm`. The vector of a text is the sum of its tokens' rows in
`data/static.i8`, in integers, so it is the same on every machine. `Neighbours` finds words whose
vectors are near those of a query's words (query expansion); `Nearest` has the answers for the
words of the table.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Container, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeVar

from memplane.errors import InputError
from memplane.index import terms
from memplane.index.numeric import NDArray, np
from memplane.lazy import NamedTuple, regex

if TYPE_CHECKING:
    from collections.abc import Iterator

Rows = NDArray[np.int8]
Buffer = bytes | bytearray | memoryview
T = TypeVar("T", bound=np.generic)

LARGEST: Final = 127
MILLION: Final = 1_000_000
_BLOCK: Final = 4_096
_CANDIDATES_MIN: Final = 1_000
_CANDIDATES_SHARE: Final = 100


class Encoded(NamedTuple):
    """What to append for some vectors, an array each."""

    rows: bytes
    bits: bytes


def signed_bytes(components: Sequence[float] | NDArray[np.float64]) -> bytes:
    """Scale the largest component to 127 and round half to even; zeros stay zeros.

    Scaling twice gives the same.
    """
    values = np.asarray(components, np.float64)
    assert np.isfinite(values).all(), "a vector holds a number that is not finite"
    peak = np.abs(values).max(initial=0.0)
    if peak == 0:
        return bytes(len(values))
    signed: Rows = np.rint(values / peak * LARGEST).astype(np.int8)
    return signed.tobytes()


def encoded(vectors: Sequence[bytes], dimension: int) -> Encoded:
    """The bytes to append for some vectors, an array each."""
    rows = np.frombuffer(b"".join(vectors), np.int8).reshape(-1, dimension)
    return Encoded(rows.tobytes(), _sign_bits(rows).tobytes())


def cosines(rows: Rows, queries: Rows) -> NDArray[np.int64]:
    """Cosines of each row (down) with each query (across) in millionths; 0 for empty ones."""
    asked = queries.astype(np.int32)
    norms = np.einsum("ij,ij->i", asked, asked).astype(np.float64)
    found = np.empty((len(rows), len(queries)), np.int64)
    for start in range(0, len(rows), _BLOCK):
        # Whole numbers from first to last: no machine may add them in another way.
        block = rows[start : start + _BLOCK].astype(np.int32)
        dots = np.einsum("ij,kj->ik", block, asked).astype(np.float64)
        squares = np.einsum("ij,ij->i", block, block).astype(np.float64)
        scale = np.sqrt(np.maximum(squares[:, None] * norms, 1.0))
        found[start : start + _BLOCK] = np.floor(dots * MILLION / scale)
    return found


class Vectors:
    """The vectors of an index: those of its files, and those added since."""

    def __init__(
        self, dimension: int, rows: Buffer | Rows = b"", bits: Buffer | None = None
    ) -> None:
        """Over mapped files; a row that one of them lacks does not count.

        Without `bits` they are made from the rows.
        """
        self.dimension = dimension
        signed = np.frombuffer(rows, np.int8)
        count = len(signed) // dimension
        if bits is not None:
            words = _words(dimension)
            signs = np.frombuffer(bits, "<u8", len(memoryview(bits)) // 8)
            count = min(count, len(signs) // words)
        self._count = count
        self._rows = signed[: count * dimension].reshape(count, dimension)
        self._bits = (
            # A column at a time is what a search reads.
            np.asfortranarray(_sign_bits(self._rows))
            if bits is None
            else signs[: count * words].reshape(count, words)
        )
        self._empty: NDArray[np.bool_] = _are_empty(self._bits)

    def __len__(self) -> int:
        return self._count

    def rows(self, docs: range) -> list[bytes]:
        """The vectors of documents side by side; zeros for none."""
        return [row.tobytes() for row in self._rows[docs.start : docs.stop]]

    def append(self, vectors: Sequence[bytes]) -> None:
        """Append the vectors of the next documents; they can be found at once."""
        rows = np.frombuffer(b"".join(vectors), np.int8).reshape(-1, self.dimension)
        if not len(rows):
            return
        end = self._count + len(rows)
        if end > len(self._rows):
            room = max(end, 2 * self._count, 256)
            self._rows = grown(self._rows, self._count, room)
            self._bits = grown(self._bits, self._count, room)
            self._empty = grown(self._empty, self._count, room)
        self._rows[self._count : end] = rows
        self._bits[self._count : end] = bits = _sign_bits(rows)
        self._empty[self._count : end] = _are_empty(bits)
        self._count = end

    def search(
        self,
        query: bytes,
        k: int,
        *,
        upto: int | None = None,
        masked: NDArray[np.bool_] | None = None,
    ) -> list[tuple[int, int]]:
        """The k most similar documents below `upto`, and how similar; ties go to the newer.

        Only candidates are compared (`near`); masked documents and those without a vector are left
        out.
        """
        if k <= 0:
            return []
        candidates, similar = self.near(query, upto=upto, masked=masked)
        order = np.lexsort((-candidates, -similar))[:k]
        return [(int(candidates[i]), int(similar[i])) for i in order]

    def near(
        self, query: bytes, *, upto: int | None = None, masked: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Documents that differ from the query in the fewest signs, rising, with similarities.

        At least 1,000 and at least a hundredth of all, as far as there are so many, without masked
        ones and those without a vector. Empty for a query without a vector.
        """
        asked = np.frombuffer(query, np.int8).reshape(1, self.dimension)
        if not asked.any():
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        end = self._count if upto is None else min(upto, self._count)
        candidates = np.sort(self._candidates(asked, end, masked))
        return candidates, cosines(self._rows[candidates], asked)[:, 0]

    def sample(self, query: bytes, most: int, *, upto: int | None = None) -> NDArray[np.int64]:
        """How similar at most `most` documents that have a vector are, evenly spread."""
        asked = np.frombuffer(query, np.int8).reshape(1, self.dimension)
        end = self._count if upto is None else min(upto, self._count)
        there = np.flatnonzero(~self._empty[:end])
        return cosines(self._rows[there[:: -(-len(there) // most) or 1]], asked)[:, 0]

    def _candidates(
        self, asked: Rows, end: int, masked: NDArray[np.bool_] | None
    ) -> NDArray[np.int64]:
        distance = np.zeros(end, np.uint16)
        for column, bits in zip(self._bits[:end].T, _sign_bits(asked)[0], strict=True):
            distance += np.bitwise_count(column ^ bits)
        out = self._empty[:end] if masked is None else self._empty[:end] | masked[:end]
        distance[out] = self.dimension + 1
        most = max(_CANDIDATES_MIN, end // _CANDIDATES_SHARE)
        levels = np.cumsum(np.bincount(distance, minlength=self.dimension + 2)[:-1])
        edge = int(np.searchsorted(levels, most))
        near = np.flatnonzero(distance < min(edge, self.dimension + 1))
        if edge > self.dimension or len(near) >= most:
            return near
        # Of those that differ equally much, the newer ones fill what is left.
        return np.concatenate((near, np.flatnonzero(distance == edge)[len(near) - most :]))


def _words(dimension: int) -> int:
    return -(-dimension // 64)


def grown(table: NDArray[T], used: int, room: int) -> NDArray[T]:
    """Return a table of `room` rows that begins with the `used` first of this one, then zeros.

    Of the room that is not written to no memory is taken: the system gives pages of zeros late.
    """
    wider = np.zeros((room, *table.shape[1:]), table.dtype)
    wider[:used] = table[:used]
    return wider


def _sign_bits(rows: Rows) -> NDArray[np.uint64]:
    above = rows > 0
    spare = _words(rows.shape[1]) * 64 - rows.shape[1]
    if spare:
        above = np.pad(above, ((0, 0), (0, spare)))
    return np.packbits(above, axis=1, bitorder="little").view("<u8")


def _are_empty(bits: NDArray[np.uint64]) -> NDArray[np.bool_]:
    return np.asarray(bits.max(axis=1, initial=0) == 0, np.bool_)


# A longer word is unknown as a whole: the limit of the tokenizer that the model was trained with.
WORD_LETTERS_MAX = 100

_ASCII_CONTROL = {code: None for code in (*range(32), 127) if chr(code) not in "\t\n\r"}
_CONTROL = ("Cc", "Cf", "Cs", "Co")
_ASCII_WORD = re.compile(r"[a-z0-9]+|[!-/:-@\[-`{-~]")
_WORDS_CACHED = 50_000
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
    """Lower case without accents, split at white space; marks and ideographs are words."""
    if text.isascii():
        return _ASCII_WORD.findall(text.translate(_ASCII_CONTROL).lower())
    spaced = "".join(map(_cleaned, text))
    plain = (c.lower() for c in unicodedata.normalize("NFD", spaced) if _category(c) != "Mn")
    return [word for part in "".join(plain).split() for word in _split_at_marks(part)]


class WordPiece:
    """Splits words greedily into the longest pieces that the vocabulary holds."""

    def __init__(self, number_of: Callable[[str], int | None], longest: int) -> None:
        """`number_of` gives the number of a piece, and None for a text that is no piece.

        No piece has more than `longest` letters. One that goes on within a word is `##piece`.
        """
        self._number_of, self._longest = number_of, longest
        self._cached: dict[str, tuple[int, ...]] = {}

    def pieces(self, word: str) -> tuple[int, ...]:
        """The numbers of a word's pieces; () when it cannot be composed of them."""
        known = self._cached.get(word)
        if known is not None:
            return known
        found: list[int] = []
        start, last = 0, len(word) if len(word) <= WORD_LETTERS_MAX else 0
        while start < last:
            mark = "##" if start else ""
            for end in range(min(last, start + self._longest), start, -1):
                number = self._number_of(mark + word[start:end])
                if number is not None:
                    found.append(number)
                    start = end
                    break
            else:
                found, last = [], 0
        if len(self._cached) >= _WORDS_CACHED:
            self._cached.clear()
        self._cached[word] = pieces = tuple(found)
        return pieces


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
# - `STATIC_MAGIC`,
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
STATIC_MAGIC: Final = b"memplane static 1\n"
_ALIGNED: Final = 64
_LOOKED_UP_MAX: Final = 100  # pieces


class StaticTable:
    """An `Embedder` over the bytes of the table, which may be a mapped file."""

    def __init__(self, data: Buffer) -> None:
        """Read the header; the vocabulary is read when it is first asked."""
        view = memoryview(data)
        end = bytes(view[:1_024]).find(b"\n", len(STATIC_MAGIC)) + 1
        if bytes(view[: len(STATIC_MAGIC)]) != STATIC_MAGIC or not end:
            raise InputError("this is no static table of format 1", where="table")
        header = json.loads(bytes(view[len(STATIC_MAGIC) : end]))
        self.dimension: int = header["dimension"]
        self.name: str = f"{header['model']}/{header['sha256'][:16]}"
        self.sha256: str = header["sha256"]
        self.words: int = header["words"]
        self._body = view[end:]
        count, letters = header["pieces"], header["vocabulary"]
        weights = aligned(letters)
        rows = aligned(weights + 2 * count)
        if len(self._body) != rows + count * self.dimension:
            expected = end + rows + count * self.dimension
            found = f"expected {expected} bytes, found {len(view)}"
            raise InputError(f"the static table is not whole: {found}", where="table")
        self._letters = b"\n" + bytes(self._body[:letters])  # a newline on both sides of each
        self._breaks: NDArray[np.int64] | None = None  # where these are
        self._weights = np.frombuffer(self._body, "<u2", count, weights).astype(np.int64)
        self._rows = np.frombuffer(self._body, np.int8, offset=rows).reshape(count, self.dimension)
        self._pieces: WordPiece | None = None
        self._numbers: dict[str, int] | None = None
        self._asked = 0

    def verify(self) -> bool:
        """Whether the bytes are those that were built; it reads all of them."""
        return hashlib.sha256(self._body).hexdigest() == self.sha256

    def vocabulary(self) -> list[str]:
        """The pieces in the order of their numbers."""
        return str(self._letters, "utf-8").split("\n")[1:-1]

    def piece(self, number: int) -> str:
        """The piece with that number."""
        begin, end = self._broken()[number : number + 2].tolist()
        return str(self._letters[begin + 1 : end], "utf-8")

    def number_of(self, piece: str) -> int | None:
        """The number of a piece; None for any other text. It takes a tenth of a millisecond."""
        said = piece.encode("utf-8", "surrogatepass")
        at = -1 if b"\n" in said else self._letters.find(b"\n%b\n" % said)
        return None if at < 0 else int(self._broken().searchsorted(at))

    def _broken(self) -> NDArray[np.int64]:
        if self._breaks is None:
            self._breaks = np.flatnonzero(np.frombuffer(self._letters, np.uint8) == ord("\n"))
        return self._breaks

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
            longest = int(np.diff(self._broken()).max(initial=1)) - 1  # in bytes, so rather more
            self._pieces = WordPiece(self._number, longest)
        return self._pieces

    def _number(self, piece: str) -> int | None:
        """As `number_of`, by a dictionary from where that costs less than to look each up."""
        if self._numbers is None:
            self._asked += 1
            if self._asked <= _LOOKED_UP_MAX:
                return self.number_of(piece)
            pieces = self.vocabulary()
            self._numbers = dict(zip(pieces, range(len(pieces)), strict=True))
        return self._numbers.get(piece)


def _scaled(sums: NDArray[np.int64]) -> Rows:
    """The largest component becomes 127; halves are rounded up."""
    peak = np.maximum(np.abs(sums).max(axis=1, initial=0, keepdims=True), 1)
    signed: Rows = ((2 * LARGEST * sums + peak) // (2 * peak)).astype(np.int8)
    return signed


def aligned(size: int) -> int:
    """Round a size up to where the next part of the table begins."""
    return -(-size // _ALIGNED) * _ALIGNED


# The words nearest to each whole word of the table, made in advance: `Nearest`.
#
# `data/near.bin` holds them; `tools/build_static.py` writes it from the table alone. In this order:
#
# - `NEAR_MAGIC`,
# - a line of JSON, padded with spaces so that what follows begins at a multiple of 64: `table` (the
#   `sha256` of the table), `near` (how many neighbours there are), `sha256` of all that follows,
# - for each whole word of the table the term of its stem, eight bytes, the least first,
# - four bytes each: where the neighbours of each word begin, and where those of the last end,
# - for each neighbour two bytes, its number in the table, then for each two more, its cosine in
#   thousandths, rounded down. Those of a word are what `Neighbours.near` finds, the nearest first,
#   without those of a stem that was there before, the word's own included.
#
# So a word of the table needs no comparison of vectors and no stemming, and gets the same answer.
NEAR_MAGIC: Final = b"memplane near 2\n"
_HEADER_MAX: Final = 8_192
_NEAR_CACHED: Final = 4_096
_TERMS_MAX: Final = 65_536


class Kin(NamedTuple):
    """A term and the cosine of its word with the one asked for, in thousandths, rounded down."""

    term: int
    permille: int


class Nearest:
    """What is nearest to a word, over the bytes of the file; threads may share it."""

    def __init__(self, data: Buffer, table: StaticTable) -> None:
        """Raise InputError where the bytes are not whole or of another table."""
        view = memoryview(data)
        end = bytes(view[:_HEADER_MAX]).find(b"\n", len(NEAR_MAGIC)) + 1
        if bytes(view[: len(NEAR_MAGIC)]) != NEAR_MAGIC or not end:
            raise InputError("these are no nearest words of format 2", where="nearest")
        header = json.loads(bytes(view[len(NEAR_MAGIC) : end]))
        body, words, count = view[end:], table.words, header["near"]
        starts = 8 * words
        numbers = starts + 4 * (words + 1)
        if header["table"] != table.sha256 or len(body) != numbers + 4 * count:
            raise InputError("the nearest words are not those of the table", where="nearest")
        self._stems = np.frombuffer(body, "<u8", words)
        self._starts = np.frombuffer(body, "<u4", words + 1, starts)
        self._numbers = np.frombuffer(body, "<u2", count, numbers)
        self._permille = np.frombuffer(body, "<u2", count, numbers + 2 * count)
        self._table, self._words = table, words
        self._sha256: str = header["sha256"]
        self._body = body
        self._places: dict[str, int | None] = {}
        self._cached: dict[str, tuple[Kin, ...]] = {}
        self._terms: dict[str, int] = {}

    def verify(self) -> bool:
        """Whether the bytes are those that were built."""
        return hashlib.sha256(self._body).hexdigest() == self._sha256

    def near(self, word: str) -> tuple[Kin, ...] | None:
        """The nearest terms of a word but its own, each once; None where the table has no word."""
        place = self._place(word)
        if place is None:
            return None
        found = self._cached.get(word)
        if found is None:
            if len(self._cached) >= _NEAR_CACHED:
                self._cached.clear()
            part = slice(int(self._starts[place]), int(self._starts[place + 1]))
            kin = zip(
                self._stems[self._numbers[part]].tolist(),
                self._permille[part].tolist(),
                strict=True,
            )
            found = self._cached[word] = tuple(map(Kin._make, kin))
        return found

    def term(self, word: str) -> int:
        """The term of a word's stem, which is looked up where the table has the word."""
        place = self._place(word)
        if place is not None:
            return int(self._stems[place])
        found = self._terms.get(word)
        if found is None:
            if len(self._terms) >= _TERMS_MAX:
                self._terms.clear()
            found = self._terms[word] = terms.whole_term(terms.stem(word))
        return found

    def _place(self, word: str) -> int | None:
        """The number of a whole word of the table; None for any other."""
        if word not in self._places:
            if len(self._places) >= _TERMS_MAX:
                self._places.clear()
            # A dictionary of all words is made in the time of some fifty such look-ups.
            number = self._table.number_of(word)
            self._places[word] = number if number is not None and number < self._words else None
        return self._places[word]


# Words that mean much the same as those of a question.
#
# The candidates are the whole words of the static table, or a list of an index's own words in the
# order in which they first occurred. Neither makes the index as of a document depend on what came
# later: the first never changes, of the second a beginning is asked.
RELATED_MAX: Final = 6
PERMILLE_MIN: Final = 300
NEAR_MAX: Final = 32  # looked up in an index before a word is left with fewer than six
LETTERS_MIN: Final = 3
_LETTERS: Final = regex(r"[^\W\d_]+")


class NearWord(NamedTuple):
    """A word and its cosine with the one asked for, in thousandths, rounded down."""

    word: str
    permille: int


class Neighbours:
    """The words near to a word, the nearest first; threads may share it."""

    def __init__(self, table: StaticTable, words: Sequence[str] | None = None) -> None:
        """Among `words`, else among the whole words of the table, read when they are needed."""
        self._table = table
        self._words: list[str] | None = None  # None: those of the table
        self._vectors: Vectors | None = None
        self._cached: dict[tuple[str, int], tuple[NearWord, ...]] = {}
        if words is not None:
            self._vectors, self._words = Vectors(table.dimension), []
            self.add(words)

    def __len__(self) -> int:
        return self._table.words if self._words is None else len(self._words)

    def _read(self) -> Vectors:
        if self._vectors is None:
            rows = self._table.rows()[: self._table.words]
            self._vectors = Vectors(self._table.dimension, rows.reshape(-1))
        return self._vectors

    def _word(self, number: int) -> str:
        return self._table.piece(number) if self._words is None else self._words[number]

    def add(self, words: Sequence[str]) -> None:
        """Put words, in lower case, behind the others."""
        self._read().append(self._table.embed(words))
        if self._words is None:
            self._words = self._table.vocabulary()[: self._table.words]
        self._words += words

    def near(self, word: str, upto: int | None = None) -> tuple[NearWord, ...]:
        """At most 32 of the first `upto` words with a cosine of .300 or more; ties: the later.

        () for a word shorter than three letters or with other signs.
        """
        end = len(self) if upto is None else upto
        found = self._cached.get((word, end))
        if found is None:
            if len(self._cached) >= _NEAR_CACHED:
                self._cached.clear()
            near: list[tuple[int, int]] = []
            if len(word) >= LETTERS_MIN and word.isalpha():
                vector = self._table.vectors([plain_words(word)])[0].tobytes()
                near = self._read().search(vector, NEAR_MAX + 1, upto=end)
            words = [
                NearWord(self._word(number), millionths * 1_000 // MILLION)
                for number, millionths in near
                if millionths * 1_000 // MILLION >= PERMILLE_MIN
            ]
            others = [one for one in words if one.word != word]
            found = self._cached[word, end] = tuple(others[:NEAR_MAX])
        return found


def expand_terms(
    near: Iterable[Iterable[Kin]], present: Container[int], own: Container[int], most: int
) -> list[tuple[int, int]]:
    """Return terms to look for beside those of a question, each with its weight in thousandths.

    `near` has what is near to each of its words. Each word adds the `most` nearest that are
    `present` and no terms of the question (`own`); a term reached from two words keeps the larger
    weight. In rising order of the term.
    """
    weights: dict[int, int] = {}
    for kin in near:
        for term, permille in _added(kin, present, own, most).items():
            weights[term] = max(permille, weights.get(term, 0))
    return sorted(weights.items())


def _added(
    kin: Iterable[Kin], present: Container[int], own: Container[int], most: int
) -> dict[int, int]:
    added: dict[int, int] = {}
    for term, permille in kin:
        if len(added) == most:
            break
        if term in present and term not in own:
            added.setdefault(term, permille)
    return added


def related(
    question: str,
    near: Callable[[str], Iterable[NearWord]],
    present: Callable[[Sequence[int]], Iterable[int]],
    kept: Nearest | None = None,
    *,
    most: int = RELATED_MAX,
    least: int = PERMILLE_MIN,
    query: terms.Query | None = None,
) -> tuple[tuple[int, float], ...]:
    """The terms to look for beside the words of a question: `Query.related`, weighted by cosine.

    `present` returns which of some terms the index has, as of what is asked. At most `most` words
    for each of the question's, none with a cosine below `least` thousandths. `kept` has what `near`
    returns of the words of the table, for which `near` is not called. `query` is `terms.query` of
    the question, if the caller has it.
    """
    own = {term for term, _ in (query or terms.query(question)).words}
    asked = dict.fromkeys(_LETTERS.findall(terms.normalise_text(question).lower()))
    term_of = _stem_term if kept is None else kept.term
    close = []
    for word in asked:
        if term_of(word) in own:
            kin = None if kept is None else kept.near(word)
            if kin is None:
                kin = tuple(Kin(term_of(other), permille) for other, permille in near(word))
            close.append([one for one in kin if one.permille >= least])
    wanted = {term for kin in close for term, _ in kin} - own
    had = set(present(sorted(wanted)))
    return tuple((term, permille / 1_000) for term, permille in expand_terms(close, had, own, most))


def _stem_term(word: str) -> int:
    return terms.whole_term(terms.stem(word))
