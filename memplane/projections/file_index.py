"""Which files a word could mean: for a guess, which must not look at every file to find them.

Made when somebody first asks, from the state alone, and kept up by the fold from then on. It is
in no checkpoint, and no answer depends on when it was made.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from memplane.projections.words import words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memplane.projections.file_rows import Episode

__all__ = ["FileIndex", "path_words"]

Entry = TypeVar("Entry")
_WORDS_OF_PATH = 40


class FileIndex:
    """Episodes by the words of their prompts, files by the words and the last part of their paths.

    The inner dicts are ordered sets: entries leave from their front.
    """

    __slots__ = ("names", "terms", "words")

    def __init__(self, episodes: Iterable[Episode], paths: Iterable[str]) -> None:
        self.terms: dict[str, dict[Episode, None]] = {}
        self.words: dict[str, dict[str, None]] = {}
        self.names: dict[str, dict[str, None]] = {}
        for episode in episodes:
            self.begin(episode)
        for path in paths:
            self.enter(path)

    def begin(self, episode: Episode) -> None:
        """File an episode under its prompt's words."""
        for term in episode.terms:
            _put(self.terms, term, episode)

    def end(self, episode: Episode) -> None:
        """Let go of an episode."""
        for term in episode.terms:
            _take(self.terms, term, episode)

    def enter(self, path: str) -> None:
        """File a path under its words and its last part."""
        for word in path_words(path):
            _put(self.words, word, path)
        _put(self.names, last_part(path), path)

    def leave(self, path: str) -> None:
        """Let go of a path."""
        for word in path_words(path):
            _take(self.words, word, path)
        _take(self.names, last_part(path), path)


@lru_cache(maxsize=4096)
def path_words(path: str) -> tuple[str, ...]:
    """The words that a path is made of."""
    return tuple(words(path, _WORDS_OF_PATH))


def last_part(path: str) -> str:
    """The name of the file, in small letters."""
    return path.replace("\\", "/").rpartition("/")[2].lower()


def _put(table: dict[str, dict[Entry, None]], name: str, entry: Entry) -> None:
    table.setdefault(name, {})[entry] = None


def _take(table: dict[str, dict[Entry, None]], name: str, entry: Entry) -> None:
    held = table[name]
    del held[entry]
    if not held:
        del table[name]
