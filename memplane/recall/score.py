"""How well each candidate answers a query: keywords, tags and keys over what the hotset holds.

All arithmetic is on integers: square roots stand in for the logarithm of the
usual idf, so that scores are the same on every machine. A score is in
thousandths of the best one, boosts of markers added.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isqrt
from operator import add
from typing import Final, NamedTuple

from memplane.lazy import regex
from memplane.policy import Scoring
from memplane.projections.item import Item

__all__ = ["Scored", "score", "terms"]

_WORD: Final = regex(r"[^\W_]+(?:_[^\W_]+)*", re.UNICODE)
_CAMEL: Final = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_STOP: Final = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "can",
        "did",
        "do",
        "does",
        "for",
        "from",
        "had",
        "has",
        "have",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "me",
        "my",
        "no",
        "not",
        "of",
        "on",
        "or",
        "our",
        "she",
        "he",
        "so",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "they",
        "this",
        "to",
        "up",
        "us",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
    ]
)
_UNIT: Final = 1000
_CHARACTERS_MAX: Final = 8000  # of a query or text that are looked at


class Scored(NamedTuple):
    """A candidate with its score and the parts of it, all in thousandths of the best match."""

    item: Item
    score: int
    words: int
    tags: int
    key: int
    neighbours: int
    markers: int
    recency: int = 0
    coherence: int = 0


def terms(text: str) -> dict[str, int]:
    """Words of a text with their counts: lower case, identifiers also in parts, no stop words."""
    found: dict[str, int] = {}
    for word in _WORD.findall(text[:_CHARACTERS_MAX]):
        lower = word.lower()
        if lower in _STOP:
            continue
        found[lower] = found.get(lower, 0) + 1
        if "_" in word:
            parts = word.split("_")
        elif lower == word or not word.isascii():
            continue
        else:
            parts = _CAMEL.findall(word)
        if len(parts) > 1:
            for part in parts:
                small = part.lower()
                if len(small) > 1 and small not in _STOP:
                    found[small] = found.get(small, 0) + 1
    return found


def _terms_of(item: Item) -> dict[str, int]:
    if item.terms is None:
        item.terms = terms(f"{item.text} {item.key or ''} {item.actor or ''} {' '.join(item.tags)}")
    return item.terms


def score(
    query: str, pool: Sequence[Item], hidden: Sequence[bool], scoring: Scoring
) -> list[Scored]:
    """Score the items of the pool that something matches or a neighbour lifts, in log order.

    The pool is in log order. Its statistics (how many items hold a word) count hidden items too,
    so that hiding one never reorders the others; beyond that a hidden item gives and receives
    nothing. Neighbours are the items before and after in a session.
    """
    wanted = terms(query)
    boosts = scoring.marker_boosts
    matched = _matches(wanted, pool)
    raw = [0 if mask else own for own, mask in zip(matched, hidden, strict=True)]
    lifted = _neighbours(raw, pool, scoring.neighbour)
    best = max(map(add, raw, lifted), default=0)
    lower = query.lower()
    scored = []
    for item, own, near in zip(pool, raw, lifted, strict=True):
        if not (own or near or item.tags or item.key is not None):
            continue  # most of the pool
        tags = key = marked = 0
        if item.tags and any(tag.lower() in wanted for tag in item.tags):
            tags = scoring.tag_weight
        if item.key is not None and item.key.lower() in lower:
            key = scoring.key_weight
        if not (own or near or tags or key):
            continue
        words = _UNIT * own // best if best else 0
        beside = _UNIT * near // best if best else 0
        # A marker lifts what is relevant; it makes nothing relevant by itself.
        for marker in item.markers:
            marked += boosts.get(marker, boosts.get(marker.partition(":")[0], 0))
        total = words + beside + tags + key + marked
        scored.append(Scored(item, total, words, tags, key, beside, marked))
    return scored


def _matches(wanted: dict[str, int], pool: Sequence[Item]) -> list[int]:
    if not wanted:
        return [0] * len(pool)
    documents = [_terms_of(item) if item.terms is None else item.terms for item in pool]
    # Sets of matched terms: only counted and summed over, so their order never shows.
    matched = [wanted.keys() & document.keys() for document in documents]
    holding: dict[str, int] = {}
    for found in matched:
        for term in found:
            holding[term] = holding.get(term, 0) + 1
    square = _UNIT * _UNIT * (len(pool) + 1)
    weight = {term: isqrt(square // documents_with) for term, documents_with in holding.items()}
    # tf / (tf + 1) saturates as in BM25 with k1 = 1 and no length norm: packing divides by length.
    scores = []
    for document, found in zip(documents, matched, strict=True):
        total = 0
        for term in found:
            tf = document[term]
            total += weight[term] * tf // (tf + 1)
        scores.append(total)
    return scores


def _neighbours(raw: Sequence[int], pool: Sequence[Item], share: int) -> list[int]:
    near = [0] * len(pool)
    last: dict[str, int] = {}
    for here, item in enumerate(pool):
        if item.session is None:
            continue
        before = last.get(item.session)
        if before is not None:
            if raw[before]:
                near[here] += raw[before] * share // _UNIT
            if raw[here]:
                near[before] += raw[here] * share // _UNIT
        last[item.session] = here
    return near
