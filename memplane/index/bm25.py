"""The formulas of a lexical score, each written once, for numbers and for arrays of numbers.

BM25 in the Lucene form (Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25
and Beyond")::

    idf(t)   = ln(1 + (N - df + 1/2) / (df + 1/2)) = ln(2N + 2) - ln(2df + 1)
    score(d) = sum of weight idf(t) tf (k1 + 1) / (tf + k1 (1 - b + b length / average))

N, df and the average count every document below the limit, hidden ones too. `lexical` applies the
formulas to arrays, `reader` to single numbers, and both get the same bits on every CPU: terms are
added in rising order, one after the other, in f64 with + - * / and square roots alone, and the two
logarithms are made of integers and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from memplane.lazy import NamedTuple
from memplane.ports import ONE

if TYPE_CHECKING:
    from memplane.policy.records import Retrieval

POSTING_BYTES: Final = 3  # two for the document, one for the times: see `storage`
_LOG_BITS: Final = 120  # of the fractions that a logarithm is made of
_WORTH: Final = 1_024

Number: TypeAlias = Any  # a float, or an array of f64: the operators are the same


class BM25(NamedTuple):
    """The two constants of BM25: saturation of term frequency, and of length."""

    k1: float = 0.9
    b: float = 0.4


class Weights(NamedTuple):
    """What a bigram, a prefix and a related word count beside a word."""

    bigrams: float = 0.7
    prefixes: float = 0.2
    related: float = 1.0


def policy_constants(retrieval: Retrieval) -> tuple[BM25, Weights]:
    """Return the constants that `scoring.yaml` gives in thousandths."""
    bm25 = BM25(retrieval.k1 / 1000, retrieval.b / 1000)
    shares = (retrieval.bigrams, retrieval.prefixes, retrieval.related)
    return bm25, Weights(*(share / 1000 for share in shares))


def _doubled_atanh(above: int, below: int) -> int:
    """2 artanh(above / below), in parts of 2**120: ln((below + above) / (below - above))."""
    power = (above << _LOG_BITS) // below
    square, found, at = power * power >> _LOG_BITS, 0, 1
    while power:
        found += power // at
        power, at = power * square >> _LOG_BITS, at + 2
    return 2 * found


_LN_2: Final = _doubled_atanh(1, 3)


@lru_cache(maxsize=100_000)
def ln(number: int) -> float:
    """Return the natural logarithm of 1 or more, rounded to 20 digits and then to a float.

    As `decimal` gives it, which takes four times as long, and to import a tenth of a bare Python.
    """
    twos = number.bit_length() - 1
    found = twos * _LN_2 + _doubled_atanh(number - (1 << twos), number + (1 << twos))
    digits = 20 if found < 1 << _LOG_BITS else 19 if found < 10 << _LOG_BITS else 18
    rounded = (found * 10**digits + (1 << _LOG_BITS - 1)) >> _LOG_BITS
    return float(f"{rounded}e-{digits}")


def idf(documents: int, having: int) -> float:
    """Return how rare a term is that `having` of the documents have; never below 0."""
    return ln(2 * documents + 2) - ln(2 * having + 1)


def length_norm(length: Number, average: float, bm25: BM25) -> Number:
    """Return how much the length of a document weighs its terms down."""
    k1, b = bm25
    return k1 * ((1.0 - b) + b * (length / average))


def term_gain(strength: Number, times: Number, norm: Number, bm25: BM25) -> Number:
    """Return what a term adds to a document; `strength` is its weight times its idf."""
    gain = times * (bm25.k1 + 1.0)
    gain *= strength  # in place, where these are arrays
    gain /= times + norm
    return gain


def combined(fields: tuple[Number, ...], weights: Weights) -> Number:
    """Return the lexical score of (words, bigrams, prefixes, related), not yet rounded."""
    words, bigrams, prefixes, related = fields
    total = weights.bigrams * bigrams
    total += words
    total += weights.prefixes * prefixes
    total += weights.related * related
    total *= ONE
    return total


def relevance(
    words: Number, peak: int, coverage: Number, permille: int, sqrt: Callable[[Any], Any]
) -> Number:
    """Return what a lexical score earns, in 2**-20 of the best one (`peak`), not yet rounded.

    The share of the peak to the power 5/4, which is a little sharper than the plain share. Of that
    the policy's `permille` depends on `coverage`, the share of the query's idf that is matched.
    """
    share = words / float(peak)
    share = share * sqrt(sqrt(share))
    part = permille / 1000.0
    return share * ((1.0 - part) + part * coverage) * ONE


def term_worth(weight: float, documents: int, having: int) -> int:
    """Return what a word of the query is worth in a passage, in 2**-10."""
    return int(weight * idf(documents, having) * _WORTH)
