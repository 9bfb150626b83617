"""What documents earn by being like a query as a whole, whatever their words: from vectors.

Similarity counts by how far it stands out: z is the distance of a document's cosine from the mean
of all, in units of their spread. A z of 4 earns `weight`, where the best words of all earn 1. Mean
and spread come from sums of whole numbers, over at most 1,024 documents spread evenly through the
log; like the statistics of terms they count hidden ones too.
"""

from __future__ import annotations

from math import isqrt
from typing import Final, NamedTuple

import numpy as np

from memplane.index.kernel import ONE
from memplane.index.segment import Array
from memplane.index.vectors import MILLION, Vectors

__all__ = ["Nearness", "Similar", "similar"]

FULL: Final = 4  # the z that earns the weight
_SAMPLE_MAX: Final = 1_024
_PERMILLE: Final = 1_000


class Nearness(NamedTuple):
    """Thousandths: what similarity earns, and the least z and cosine of a match without a word.

    Something stands out among documents for any query, however far it is from all of them: a text
    that no word matches must be near the query, too.
    """

    weight: int
    least: int
    cosine: int


class Similar(NamedTuple):
    """Documents that stand out, rising, and what each earns in 2**-20.

    `alone` says of each whether it is a match by similarity alone; the others earn it where a word
    of the query matches them.
    """

    docs: Array
    scores: Array
    alone: Array


def similar(
    vectors: Vectors, query: bytes, weights: Nearness, *, upto: int, hidden: Array
) -> Similar:
    """Return the documents below `upto` that are more similar to the query than the mean.

    What is hidden is none of them. Where all are equally similar, none stands out.
    """
    docs, cosines = vectors.near(query, upto=upto, masked=hidden)
    if not len(docs):
        return Similar(docs, docs, np.zeros(0, bool))
    sample = vectors.sample(query, _SAMPLE_MAX, upto=upto)
    count, total = len(sample), int(sample.sum())
    spread = isqrt(count * int((sample * sample).sum()) - total * total)
    z = _PERMILLE * (count * cosines - total) // max(1, spread)
    scores = z * weights.weight * ONE // (FULL * _PERMILLE * _PERMILLE)
    stands = (scores > 0) & bool(spread)
    alone = (z >= weights.least) & (cosines >= weights.cosine * (MILLION // _PERMILLE))
    return Similar(docs[stands], scores[stands], alone[stands])
