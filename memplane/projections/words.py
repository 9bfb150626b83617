"""Words of prompts and paths, in the form in which a files view compares them."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from memplane.lazy import regex

__all__ = ["words"]

_WORD: Final = regex(r"[^\W_]+")
_CAMEL: Final = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_LONGEST: Final = 24
# Longest first: "checkpoints" and "checkpointed" are about `checkpoint.go`.
_ENDINGS: Final = ("ing", "ed", "es", "s")
_SAID_ANYWHERE: Final = frozenset(
    [
        "a", "about", "all", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by",
        "can", "could", "did", "do", "does", "for", "from", "get", "had", "has", "have", "how", "i",
        "if", "in", "into", "is", "it", "its", "just", "let", "make", "me", "my", "need", "no",
        "not", "now", "of", "on", "or", "our", "please", "should", "so", "some", "that", "the",
        "their", "them", "then", "there", "these", "they", "this", "to", "up", "us", "use", "want",
        "was", "we", "were", "what", "when", "where", "which", "who", "why", "will", "with",
        "would", "you", "your",
    ]
)  # fmt: skip


def words(text: str, most: int) -> list[str]:
    """The first `most` different words: small letters, identifiers in parts, endings dropped."""
    found: dict[str, None] = {}
    for run in _WORD.findall(text):
        for word in _words_of(run):
            found[word] = None
        if len(found) >= most:
            break
    return list(found)[:most]


@lru_cache(maxsize=8192)  # prompts are made of the same words again and again
def _words_of(run: str) -> tuple[str, ...]:
    """The words of letters and digits that stand together."""
    parts = (run,) if run.islower() or not run.isascii() else _CAMEL.findall(run)
    words = (part.lower() for part in parts)
    return tuple(
        _stem(word[:_LONGEST]) for word in words if len(word) > 1 and word not in _SAID_ANYWHERE
    )


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word
