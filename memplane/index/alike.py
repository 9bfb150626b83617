"""Events by how alike their texts are to a query as a whole: of vectors alone, no word counts."""

from __future__ import annotations

from typing import Final

import numpy as np

from memplane.index.boosts import Boosted, Exact, boosted
from memplane.index.columns import Frame
from memplane.index.kernel import ONE
from memplane.index.ranking import Ranked
from memplane.index.segment import Array
from memplane.index.vectors import MILLION

__all__ = ["alike"]

_NOTHING_NAMED: Final = Exact((), 0, (), 0, ())


def alike(docs: Array, cosines: Array, frame: Frame, hidden: Array, most: int) -> Boosted:
    """Return at most `most` events of these documents by the cosine of the one that is nearest.

    Ties go by importance, then to the newer; what is no nearer than chance is none of them.
    """
    scores = cosines * ONE // MILLION
    docs, scores = docs[scores > 0], scores[scores > 0]
    importance = frame.importance[docs].astype(np.int64)
    order = np.lexsort((-docs, -importance, -scores))
    _, firsts = np.unique(frame.seq[docs[order]], return_index=True)
    order = order[np.sort(firsts)][:most]
    docs, scores = docs[order], scores[order]
    ranked = Ranked(frame.seq[docs], scores, np.zeros(len(docs), np.int64), scores, docs)
    return boosted(ranked, _NOTHING_NAMED, frame, hidden, most)
