"""Words of texts in the forms in which they are compared: by a files view, and with each other."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

from memplane.lazy import regex

__all__ = ["normalised", "words"]

_WORD: Final = regex(r"[^\W_]+")
_CAMEL: Final = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_LONGEST: Final = 24
# Longest first: "checkpoints" and "checkpointed" are about `checkpoint.go`.
# Characters: of a longer text stands a hash for its words, made of one part after another.
_PART: Final = 1 << 16
_BLANKS_MAX: Final = 64
_BLANK: Final = regex(r"\s")
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


def normalised(text: str) -> str:
    """What two texts must agree in to say the same: their words in small letters, a blank between.

    Where that is very long, a hash of it and as many blanks, up to 64.
    """
    if len(text) <= _PART and len(words := " ".join(text.lower().split())) <= _PART:
        return words
    digest, kept, size, blanks, at = hashlib.sha256(), [], 0, -1, 0
    while at < len(text):
        # Between words: what a letter becomes depends on those beside it.
        found = _BLANK.search(text, at + _PART)
        end = len(text) if found is None else found.end()
        part = " ".join(text[at:end].lower().split())
        at = end
        if part:
            digest.update(f" {part}".encode("utf-8", "surrogatepass"))
            size += len(part) + 1
            blanks += part.count(" ") + 1
            if size <= _PART + 1:
                kept.append(part)
    if size <= _PART + 1:
        return " ".join(kept)
    return f"\0{digest.hexdigest()}{' ' * min(blanks, _BLANKS_MAX)}"


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
