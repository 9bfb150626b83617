"""Words that mean much the same as those of a question.

The candidates are the whole words of the static table, or a list of an index's own words in the
order in which they first occurred. Neither makes the index as of a document depend on what came
later: the first never changes, of the second a beginning is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Final, NamedTuple

from memplane.index import terms
from memplane.index.nearest import Kin, Nearest
from memplane.index.static import StaticTable
from memplane.index.vectors import MILLION, Vectors
from memplane.lazy import regex

__all__ = ["NEAR_MAX", "PERMILLE_MIN", "RELATED_MAX", "Near", "Neighbours", "expand", "related"]

RELATED_MAX: Final = 6
PERMILLE_MIN: Final = 300
NEAR_MAX: Final = 32  # looked up in an index before a word is left with fewer than six
LETTERS_MIN: Final = 3
_CACHED_MAX: Final = 4_096
_LETTERS: Final = regex(r"[^\W\d_]+")


class Near(NamedTuple):
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
        self._cached: dict[tuple[str, int], tuple[Near, ...]] = {}
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

    def near(self, word: str, upto: int | None = None) -> tuple[Near, ...]:
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

    def _found(self, word: str, end: int) -> Iterable[Near]:
        if len(word) < LETTERS_MIN or not word.isalpha():
            return
        (vector,) = self._table.embed([word])
        for number, millionths in self._read().search(vector, NEAR_MAX + 1, upto=end):
            permille = millionths * 1_000 // MILLION
            if permille < PERMILLE_MIN:
                return
            if self._words[number] != word:
                yield Near(self._words[number], permille)


def expand(
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
    near: Callable[[str], Iterable[Near]],
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
    asked = dict.fromkeys(_LETTERS.findall(terms.prepare(question).lower()))
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
    return tuple((term, permille / 1_000) for term, permille in expand(loud, had, own, most))


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
    return terms.word(terms.stem(word))
