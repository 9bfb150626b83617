"""Compare the reports of two runs of `memplane eval` on one set, question by question.

    python tools/measure_recall.py BEFORE.json AFTER.json

A line for each budget: recall before and after (whole events, in percent), the difference, its 95 %
intervals by bootstrap over questions and over conversations, and how many questions became better
and worse. The reports are those of `memplane eval --report`.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from random import Random

from memplane.evaluate import PRODUCT

RESAMPLES = 2_000
SEED = 7


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    asked = parser.parse_args()
    before, after = shares(asked.before), shares(asked.after)
    print("budget  before  after   diff  by questions      by conversations  better  worse")
    for budget in sorted({key[0] for key in before if key in after}):
        keys = [key for key in before if key[0] == budget and key in after]
        changes = [(key[1], after[key] - before[key]) for key in keys]
        print(
            f"{budget:6}  {mean([before[key] for key in keys]):6.2f} "
            f"{mean([after[key] for key in keys]):6.2f} {mean([one for _, one in changes]):+6.2f}  "
            f"{interval([[one] for _, one in changes])}  {interval(by_conversation(changes))}  "
            f"{sum(one > 0 for _, one in changes):6} {sum(one < 0 for _, one in changes):6}"
        )


def shares(path: Path) -> dict[tuple[int, str, str], float]:
    """The percent of its evidence that a question found, by budget, conversation and question."""
    rows = json.loads(path.read_text("utf-8"))["questions"]
    return {
        (row["budget"], row["conversation"], row["question"]): 100 * row["whole"] / row["evidence"]
        for row in rows
        if row["system"] == PRODUCT
    }


def by_conversation(changes: Sequence[tuple[str, float]]) -> list[list[float]]:
    """The changes of each conversation."""
    groups: defaultdict[str, list[float]] = defaultdict(list)
    for name, change in changes:
        groups[name].append(change)
    return list(groups.values())


def interval(groups: Sequence[Sequence[float]]) -> str:
    """The 95 % interval of the mean over all values, groups drawn with replacement."""
    chance = Random(SEED)
    sums = [(sum(group), len(group)) for group in groups]
    means = sorted(
        sum(total for total, _ in drawn) / sum(count for _, count in drawn)
        for drawn in (chance.choices(sums, k=len(sums)) for _ in range(RESAMPLES))
    )
    low, high = means[RESAMPLES // 40], means[-RESAMPLES // 40]
    return f"[{low:+6.2f}, {high:+6.2f}]"


def mean(values: Sequence[float]) -> float:
    """The mean; 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


if __name__ == "__main__":
    main()
