"""How far a match speaks for the turns around it: integer tables over distances in tokens.

A chat needs two turns on each side, a meeting of short turns a dozen, and a long answer should
block the view: one measure does it, the tokens that lie between.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from memplane.index.columns import TURN_TOKENS, Frame
from memplane.index.segment import Array

__all__ = ["GAP_MAX", "ONE", "Kernel", "spread", "strengths"]

ONE: Final = 1 << 20
GAP_MAX: Final = 4_095
_FAINT: Final = ONE >> 9  # less than this part of a match is not heard


class Kernel(NamedTuple):
    """`permille` of a match reaches a turn at no distance.

    `fade` tokens away it is 1/e of that; `reach` documents away it ends.
    """

    permille: int
    fade: int
    reach: int


@lru_cache(maxsize=16)
def strengths(kernel: Kernel) -> Array:
    """Return what reaches a turn at each gap from 0 on, in 2**-20; at longer gaps nothing does.

    Each step multiplies by (2 fade - 1) / (2 fade + 1), which is exp(-1 / fade) to a third of
    1 / (2 fade) ** 3, in whole numbers with 20 bits to spare.
    """
    value = (ONE * kernel.permille // 1000) << 20
    table: list[int] = []
    while len(table) <= GAP_MAX and value >> 20 >= _FAINT:
        table.append(value >> 20)
        value = value * (2 * kernel.fade - 1) // (2 * kernel.fade + 1)
    return np.array(table, np.int64)


def spread(scores: Array, sources: Array, amounts: Array, frame: Frame, kernel: Kernel) -> Array:
    """Add to `scores` (one a document) what each source says of the documents around it.

    Return those documents, in no order, some more than once.

    The gap to a turn is ten tokens, plus the tokens and ten of each turn that lies wholly
    between; of the chunks of an event, only those between count, and the source's own never do.
    No two sources are of one event, and an event does not speak for itself.
    """
    table = strengths(kernel)
    steps: list[tuple[Array, Array, Array]] = []
    for chain, stride in ((frame.before, frame.behind), (frame.after, frame.ahead)):
        at, said = _border(sources, chain, frame), amounts
        gap = TURN_TOKENS - stride.take(at)
        for _ in range(kernel.reach):
            gap = gap + stride.take(at)
            at = chain.take(at)
            # -1 is a large number here; `after` may lead to documents that are not there yet.
            there = (at.view(np.uint32) < frame.size) & (gap < len(table))
            if not there.all():
                kept = there.nonzero()[0]
                if not len(kept):
                    break
                at, said, gap = at.take(kept), said.take(kept), gap.take(kept)
            steps.append((at, said, gap))
    if not steps:
        return sources[:0]
    reached, all_said, gaps = map(np.concatenate, zip(*steps, strict=True))
    np.add.at(scores, reached.astype(np.intp), (table.take(gaps) * all_said) >> 20)
    return reached


def _border(sources: Array, chain: Array, frame: Frame) -> Array:
    """The last document of each source's event in the direction of the chain."""
    at: Array = sources.astype(np.int32)
    while True:
        further = chain[at]
        there = (further.view(np.uint32) < frame.size).nonzero()[0]
        inside = there[frame.seq[further[there]] == frame.seq[at[there]]]
        if not len(inside):
            return at
        at[inside] = further[inside]
