"""BM25 in the Lucene form, the part that needs no arrays.

    idf(t)   = ln(1 + (N - df + 1/2) / (df + 1/2)) = ln(2N + 2) - ln(2df + 1)
    score(d) = sum of weight idf(t) tf (k1 + 1) / (tf + k1 (1 - b + b length / average))

N, df and the average count every document below the limit, hidden ones too. Terms are
added in rising order, one after the other, in f64 with + - * / alone; the two logarithms
are rounded from decimals. So `lexical` and `reader` compute the same bits on every CPU.
"""

from __future__ import annotations

from decimal import Context
from functools import lru_cache
from typing import Final, NamedTuple

__all__ = ["BM25", "SCALE", "Weights", "idf", "ln"]

SCALE: Final = 1 << 20  # a lexical score of 1.0 as an integer
_LOG: Final = Context(prec=20)


class BM25(NamedTuple):
    """The two constants."""

    k1: float = 0.9
    b: float = 0.4


class Weights(NamedTuple):
    """What a bigram, a prefix and a related word count beside a word."""

    bigrams: float = 0.7
    prefixes: float = 0.2
    related: float = 1.0


@lru_cache(maxsize=100_000)
def ln(number: int) -> float:
    """Return the natural logarithm, correctly rounded to 20 digits and then to a float."""
    return float(_LOG.ln(_LOG.create_decimal(number)))


def idf(documents: int, having: int) -> float:
    """Return how rare a term is that `having` of the documents have; never below 0."""
    return ln(2 * documents + 2) - ln(2 * having + 1)
