"""Query expansion: related words, by the vectors of the static table and a list made in advance.

`Neighbours` finds words whose vectors are near those of a query's words; `Nearest` has the answers
for the common words.

`data/near.bin` holds them; `tools/build_static.py` writes it from the table alone. In this order:

- `MAGIC`,
- a line of JSON: `table` (the `sha256` of the table), `words` (so many of its words, the first,
  have neighbours here), `most` (how many each), `endings` (pairs: letters that come off a word, and
  what takes their place, for its stem), `sha256` of all that follows,
- a byte for each whole word of the table: the ending of its stem; 255 where it is none of them,
- for each of the first `words` words, `most` words by their numbers in the table, two bytes each,
  the least first. They are the nearest in order without those of a stem that was there before,
  the word's own included; 65,535 fills what is left where there are no more.

So most questions need no comparison of vectors and no stemming, and get the same answer.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import takewhile
from typing import Final, NamedTuple

import numpy as np

from memplane.errors import InputError
from memplane.index import terms
from memplane.index.static import StaticTable
from memplane.index.vectors import MILLION, Buffer, Vectors, cosines
from memplane.lazy import regex

__all__ = [
    "MAGIC",
    "NEAR_MAX",
    "PERMILLE_MIN",
    "RELATED_MAX",
    "Kin",
    "NearWord",
    "Nearest",
    "Neighbours",
    "encode_neighbours",
    "expand_terms",
    "related",
]


MAGIC: Final = b"memplane near 1\n"
_HEADER_MAX: Final = 8_192
_OTHER: Final = 255  # no ending of those listed
_NONE: Final = 65_535
_CACHED_MAX: Final = 4_096
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
        end = bytes(view[:_HEADER_MAX]).find(b"\n", len(MAGIC)) + 1
        if bytes(view[: len(MAGIC)]) != MAGIC or not end:
            raise InputError("these are no nearest words of format 1", where="nearest")
        header = json.loads(bytes(view[len(MAGIC) : end]))
        body = view[end:]
        expected = table.words + 2 * header["words"] * header["most"]
        if header["table"] != table.sha256 or len(body) != expected:
            raise InputError("the nearest words are not those of the table", where="nearest")
        self.most: int = header["most"]
        self._endings: list[tuple[int, str]] = [tuple(pair) for pair in header["endings"]]
        self._codes = body[: table.words]
        self._numbers = np.frombuffer(body[table.words :], "<u2").reshape(-1, self.most)
        self._table = table
        self._sha256: str = header["sha256"]
        self._body = body
        self._words: list[str] | None = None
        self._places: dict[str, int] = {}
        self._cached: dict[str, tuple[Kin, ...]] = {}
        self._terms: dict[str, int] = {}

    def verify(self) -> bool:
        """Whether the bytes are those that were built."""
        return hashlib.sha256(self._body).hexdigest() == self._sha256

    def near(self, word: str) -> tuple[Kin, ...] | None:
        """The nearest terms of a word but its own, each once; None where they are not kept here.

        Fewer than `most` are all there are.
        """
        words = self._vocabulary()
        place = self._places.get(word, len(words))
        if place >= len(self._numbers):
            return None
        found = self._cached.get(word)
        if found is None:
            if len(self._cached) >= _CACHED_MAX:
                self._cached.clear()
            found = self._cached[word] = self._found(place, words)
        return found

    def _found(self, place: int, words: Sequence[str]) -> tuple[Kin, ...]:
        numbers = self._numbers[place]
        numbers = numbers[numbers != _NONE]
        rows = self._table.rows()
        close = cosines(rows[numbers], rows[place : place + 1])[:, 0] * 1_000 // MILLION
        return tuple(
            Kin(self.term(words[number]), permille)
            for number, permille in zip(numbers.tolist(), close.tolist(), strict=True)
        )

    def term(self, word: str) -> int:
        """The term of a word's stem, which is looked up where the table has the word."""
        found = self._terms.get(word)
        if found is None:
            if len(self._terms) >= _TERMS_MAX:
                self._terms.clear()
            found = self._terms[word] = terms.whole_term(self.stem(word))
        return found

    def stem(self, word: str) -> str:
        """The stem of a word, looked up where the table has it."""
        self._vocabulary()
        number = self._places.get(word)
        return terms.stem(word) if number is None else self._stem(number, word)

    def _stem(self, number: int, word: str) -> str:
        code = self._codes[number]
        if code == _OTHER:
            return terms.stem(word)
        off, ending = self._endings[code]
        return word[: len(word) - off] + ending

    def _vocabulary(self) -> list[str]:
        if self._words is None:
            words = self._table.vocabulary()[: self._table.words]
            self._places = dict(zip(words, range(len(words)), strict=True))
            self._words = words
        return self._words


def encode_neighbours(table: StaticTable, near: Sequence[Iterable[str]], most: int) -> bytes:
    """The bytes of the file; `near` has what is near to each of the first words, in order."""
    words = table.vocabulary()[: table.words]
    pairs = [_ending(word) for word in words]
    counted = sorted(Counter(pairs).items(), key=lambda pair: (-pair[1], pair[0]))
    endings = [pair for pair, _ in counted[:_OTHER]]
    codes = {pair: code for code, pair in enumerate(endings)}
    place = {word: number for number, word in enumerate(words)}
    numbers = np.full((len(near), most), _NONE, "<u2")
    for row, (word, others) in enumerate(zip(words, near, strict=False)):
        seen = {terms.stem(word)}
        kept = []
        for other in others:
            if terms.stem(other) not in seen:
                seen.add(terms.stem(other))
                kept.append(place[other])
        numbers[row, : len(kept)] = kept[:most]
    body = bytes(codes.get(pair, _OTHER) for pair in pairs) + numbers.tobytes()
    header = {
        "table": table.sha256,
        "words": len(near),
        "most": most,
        "endings": endings,
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    return MAGIC + json.dumps(header, separators=(",", ":")).encode() + b"\n" + body


def _ending(word: str) -> tuple[int, str]:
    """How many letters come off a word for its stem, and what takes their place."""
    stem = terms.stem(word)
    kept = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(word, stem, strict=False)))
    return len(word) - kept, stem[kept:]


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
        self._words: list[str] = []
        self._vectors: Vectors | None = None
        self._cached: dict[tuple[str, int], tuple[NearWord, ...]] = {}
        if words is not None:
            self._vectors = Vectors(table.dimension)
            self.add(words)

    def __len__(self) -> int:
        self._read()
        return len(self._words)

    def _read(self) -> Vectors:
        if self._vectors is None:
            table = self._table
            self._words = table.vocabulary()[: table.words]
            self._vectors = Vectors(table.dimension, table.rows()[: table.words].reshape(-1))
        return self._vectors

    def add(self, words: Sequence[str]) -> None:
        """Put words, in lower case, behind the others."""
        self._read().append(self._table.embed(words))
        self._words += words

    def near(self, word: str, upto: int | None = None) -> tuple[NearWord, ...]:
        """At most 32 of the first `upto` words with a cosine of .300 or more; ties: the later.

        Nothing is near to what is shorter than three letters or holds other signs.
        """
        end = len(self) if upto is None else upto
        found = self._cached.get((word, end))
        if found is None:
            if len(self._cached) >= _CACHED_MAX:
                self._cached.clear()
            found = self._cached[word, end] = tuple(self._found(word, end))[:NEAR_MAX]
        return found

    def _found(self, word: str, end: int) -> Iterable[NearWord]:
        if len(word) < LETTERS_MIN or not word.isalpha():
            return
        (vector,) = self._table.embed([word])
        for number, millionths in self._read().search(vector, NEAR_MAX + 1, upto=end):
            permille = millionths * 1_000 // MILLION
            if permille < PERMILLE_MIN:
                return
            if self._words[number] != word:
                yield NearWord(self._words[number], permille)


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
    """What to look for beside the words of a question: `Query.related`, weighted by cosine.

    `present` says which of some terms the index has, as of what is asked. At most `most` words for
    each of the question's, none with a cosine below `least` thousandths. `kept` has the beginning
    of what `near` gives: where that is enough, `near` is not asked. `query` is what
    `terms.query` makes of the question, for who has it.
    """
    own = {term for term, _ in (query or terms.query(question)).words}
    asked = dict.fromkeys(_LETTERS.findall(terms.normalise_text(question).lower()))
    words = [word for word in asked if _term(word) in own]
    first = {word: None if kept is None else kept.near(word) for word in words}

    def all_of(word: str) -> list[Kin]:
        term = _term if kept is None else kept.term
        return [Kin(term(other), permille) for other, permille in near(word)]

    close = {word: all_of(word) if kin is None else kin for word, kin in first.items()}
    had = _present(close.values(), present, own, least)
    short = {
        word: all_of(word)
        for word, kin in first.items()
        if kin is not None and kept is not None and len(kin) == kept.most
        if kin[-1].permille >= least and len(_added(kin, had, own, most)) < most
    }
    if short:
        had |= _present(short.values(), present, own, least)
        close |= short
    loud = ([one for one in kin if one.permille >= least] for kin in close.values())
    return tuple((term, permille / 1_000) for term, permille in expand_terms(loud, had, own, most))


def _present(
    near: Iterable[Iterable[Kin]],
    present: Callable[[Sequence[int]], Iterable[int]],
    own: AbstractSet[int],
    least: int,
) -> set[int]:
    """Which of the terms that may be added are in the index."""
    wanted = {term for kin in near for term, permille in kin if permille >= least} - own
    return set(present(sorted(wanted)))


@lru_cache(maxsize=50_000)
def _term(word: str) -> int:
    return terms.whole_term(terms.stem(word))
