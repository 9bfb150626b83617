"""Numbers from values: percentiles, nDCG, and standard errors by resampling. Nothing is read here.

The resampling is seeded: the same values in the same order give the same errors on any machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import log2, sqrt
from random import Random
from typing import Final

__all__ = ["RESAMPLES", "SEED", "mean_of", "ndcg", "percentile", "se_groups", "se_values"]

RESAMPLES: Final = 1000
SEED: Final = 20260105


def mean_of(values: Sequence[float]) -> float:
    """Arithmetic mean; 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def percentile(values: Sequence[int], percent: int) -> int:
    """Nearest rank: the smallest value that so many percent of the values do not pass."""
    if not values:
        return 0
    return sorted(values)[max(0, -(-percent * len(values) // 100) - 1)]


def ndcg(gains: Sequence[int], ideal: Sequence[int], k: int) -> float:
    """NDCG at k: `gains` of the documents in the order they were ranked, `ideal` of all judged.

    The gain is linear, as trec_eval has it.
    """
    best = _dcg(sorted(ideal, reverse=True)[:k])
    return _dcg(gains[:k]) / best if best else 0.0


def _dcg(gains: Sequence[int]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def se_values(values: Sequence[float]) -> float | None:
    """Bootstrap standard error of the mean, with values (questions) drawn anew; None of one."""
    if len(values) < 2:
        return None
    means = [sum(map(values.__getitem__, drawn)) / len(values) for drawn in _draws(len(values))]
    return _spread(means)


def se_groups(groups: Mapping[str, Sequence[float]]) -> float | None:
    """Bootstrap standard error of the mean over all values, with groups (conversations) drawn anew.

    It is the larger one where groups differ, and says how far another set of them would lie. None
    of a single group, which says nothing about others.
    """
    if len(groups) < 2:
        return None
    sums = [(sum(values), len(values)) for values in groups.values()]
    means = []
    for drawn in _draws(len(sums)):
        chosen = [sums[at] for at in drawn]
        means.append(sum(total for total, _ in chosen) / sum(count for _, count in chosen))
    return _spread(means)


@lru_cache(maxsize=8)
def _draws(size: int) -> list[list[int]]:
    """Draw places with replacement, the same for every column of that size: paired by question."""
    # Only `random()` itself is promised to give the same numbers in every version of Python.
    draw = Random(SEED).random  # noqa: S311 - a measurement, no secret
    return [[int(draw() * size) for _ in range(size)] for _ in range(RESAMPLES)]


def _spread(values: Sequence[float]) -> float:
    middle = mean_of(values)
    return sqrt(sum((value - middle) ** 2 for value in values) / (len(values) - 1))
