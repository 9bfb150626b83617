"""Chunks of about a hundred words and questions about them, the same on every machine.

Words are as rare and as frequent as those of real texts once stop words are gone: the n-th is
drawn in proportion to 1 / (n + 50). They are those of the static table in its own order, which
falls by frequency. The worst case for an index of words: no phrase comes twice.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

from memplane import index
from memplane.index.terms import Document
from memplane.index.vectors import StaticTable

__all__ = ["documents", "questions", "table", "texts"]

_SESSION = 160


@lru_cache(maxsize=1)
def table() -> StaticTable:
    """The static table that the package ships."""
    return StaticTable((Path(index.__file__).parent / "data" / "static.i8").read_bytes())


@lru_cache(maxsize=1)
def _words() -> tuple[list[str], list[float]]:
    words = table().vocabulary()[: table().words]
    return words, list(accumulate(1 / (place + 50) for place in range(len(words))))


def texts(count: int, seed: int = 1) -> Iterator[str]:
    """That many texts of 50 to 150 words."""
    chance = random.Random(seed)
    words, weights = _words()
    for _ in range(count):
        yield " ".join(chance.choices(words, cum_weights=weights, k=chance.randint(50, 150)))


def documents(count: int, seed: int = 1, first: int = 1) -> Iterator[Document]:
    """The texts as the index takes them, in sessions of 160."""
    for seq, text in enumerate(texts(count, seed), first):
        group, labels = f"session-{seq // _SESSION}", ("ns:/global", "kind:message")
        yield Document(seq, 0, group, "user", "user", text, "user May 2026 5 Tuesday",
                       len(text) // 5, labels=labels)  # fmt: skip


def questions(count: int, chunks: int, seed: int = 1) -> list[str]:
    """Six words of some chunk each, and two stop words."""
    chance = random.Random(seed + 1)
    source = [text.split() for text in texts(min(chunks, 2_000), seed)]
    return [" ".join(["what", *chance.sample(chance.choice(source), 6), "the"])
            for _ in range(count)]  # fmt: skip
