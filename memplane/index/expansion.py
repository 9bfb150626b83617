"""Words that mean much the same as those of a question.

The candidates are the whole words of the static table, or a list of an index's own words in the
order in which they first occurred. Neither makes the index as of a document depend on what came
later: the first never changes, of the second a beginning is asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from memplane.index import terms
from memplane.index.static import StaticTable
from memplane.index.vectors import MILLION, Vectors

__all__ = ["NEAR_MAX", "PERMILLE_MIN", "RELATED_MAX", "Near", "Neighbours", "expand", "related"]

RELATED_MAX: Final = 6
PERMILLE_MIN: Final = 300
NEAR_MAX: Final = 32  # looked up in an index before a word is left with fewer than six
LETTERS_MIN: Final = 3
_CACHED_MAX: Final = 4_096
_LETTERS: Final = re.compile(r"[^\W\d_]+")


class Near(NamedTuple):
    """A word and its cosine with the one asked for, in thousandths, rounded down."""

    word: str
    permille: int


class Neighbours:
    """The words near to a word, the nearest first; threads may share it."""

    def __init__(self, table: StaticTable, words: Sequence[str] | None = None) -> None:
        """Among `words`, else among the whole words of the table."""
        self._table = table
        self._words: list[str] = []
        self._vectors = Vectors(table.dimension)
        self._cached: dict[tuple[str, int], tuple[Near, ...]] = {}
        if words is None:
            self._words = table.vocabulary()[: table.words]
            self._vectors = Vectors(table.dimension, table.rows()[: table.words].reshape(-1))
        else:
            self.add(words)

    def __len__(self) -> int:
        return len(self._words)

    def add(self, words: Sequence[str]) -> None:
        """Put words, in lower case, behind the others."""
        self._vectors.append(self._table.embed(words))
        self._words += words

    def near(self, word: str, upto: int | None = None) -> tuple[Near, ...]:
        """At most 32 of the first `upto` words with a cosine of .300 or more; ties: the later.

        Nothing is near to what is shorter than three letters or holds other signs.
        """
        end = len(self._words) if upto is None else upto
        found = self._cached.get((word, end))
        if found is None:
            if len(self._cached) >= _CACHED_MAX:
                self._cached.clear()
            found = self._cached[word, end] = tuple(self._found(word, end))[:NEAR_MAX]
        return found

    def _found(self, word: str, end: int) -> Iterable[Near]:
        if len(word) < LETTERS_MIN or not word.isalpha():
            return
        (vector,) = self._table.embed([word])
        for number, millionths in self._vectors.search(vector, NEAR_MAX + 1, upto=end):
            permille = millionths * 1_000 // MILLION
            if permille < PERMILLE_MIN:
                return
            if self._words[number] != word:
                yield Near(self._words[number], permille)


def expand(
    words: Iterable[str],
    near: Callable[[str], Iterable[Near]],
    term: Callable[[str], int | None],
    own: Collection[int] = (),
    most: int = RELATED_MAX,
) -> list[tuple[int, int]]:
    """Terms to look for beside those of a question, each with its weight in thousandths.

    `term` gives the term of a word if the index has it, and None if not. Each word adds the
    `most` nearest that the index has and that are no terms of the question (`own`); a term reached
    from two words keeps the larger weight. In rising order of the term.
    """
    weights: dict[int, int] = {}
    for word in words:
        added: set[int] = set()
        for other, permille in near(word):
            if len(added) == most:
                break
            number = term(other)
            if number is None or number in own or number in added:
                continue
            added.add(number)
            weights[number] = max(permille, weights.get(number, 0))
    return sorted(weights.items())


def related(
    question: str,
    near: Callable[[str], Iterable[Near]],
    present: Callable[[Sequence[int]], Iterable[int]],
    *,
    most: int = RELATED_MAX,
    least: int = PERMILLE_MIN,
) -> tuple[tuple[int, float], ...]:
    """What to look for beside the words of a question: `Query.related`, weighted by cosine.

    `present` says which of some terms the index has, as of what is asked; it is called once. At
    most `most` words for each of the question's, none with a cosine below `least` thousandths.
    """
    own = {term for term, _ in terms.query(question).words}
    asked = dict.fromkeys(_LETTERS.findall(terms.prepare(question).lower()))
    words = [word for word in asked if _term(word) in own]
    close = {word: [one for one in near(word) if one.permille >= least] for word in words}
    wanted = {_term(other.word) for others in close.values() for other in others} - own
    had = frozenset(present(sorted(wanted)))

    def term(word: str) -> int | None:
        number = _term(word)
        return number if number in had else None

    found = expand(words, close.__getitem__, term, own, most)
    return tuple((number, permille / 1_000) for number, permille in found)


@lru_cache(maxsize=50_000)
def _term(word: str) -> int:
    return terms.word(terms.stem(word))
