"""The projections of earlier prefixes of a log: folded when asked for, the last few are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memplane.plane.folds import Folds, Prefix
from memplane.projections.hotset import without

if TYPE_CHECKING:
    from memplane.log import FileLog
    from memplane.ports import TokenCounter

__all__ = ["KEPT", "Prefixes", "seq_by"]

KEPT: Final = 4
_LOOKED_AT: Final = 1000  # lines of a gap


class Prefixes:
    """Folds by the seq up to which they go and the variant of their counter."""

    def __init__(self, log: FileLog, plane_id: str) -> None:
        self._log, self._plane_id = log, plane_id
        self._kept: dict[tuple[int, str], Folds] = {}

    def at(self, seq: int, counter: TokenCounter, variant: str) -> Folds:
        """The projections as of a seq, folded from the log's beginning."""
        folds = self._kept.get((seq, variant))
        if folds is None:
            folds = Folds(Prefix(self._log, seq), None, self._plane_id, counter, variant)
            folds.catch_up()
            self._tell_purged(folds)
            newest = list(self._kept.items())[1 - KEPT :]
            self._kept = {**dict(newest), (seq, variant): folds}
        return folds

    def advance(self, now: int, seq: int) -> None:
        """Fold those as of `now` on up to `seq`; let go of the others."""
        kept, self._kept = self._kept, {}
        for (at, variant), folds in kept.items():
            if at == now and isinstance(folds.log, Prefix):
                folds.log.advance(seq)
                folds.catch_up()
                self._tell_purged(folds)
                self._kept[seq, variant] = folds

    def _tell_purged(self, folds: Folds) -> None:
        """A line that a later event purged is missing in the prefix too, and no gap."""
        state = folds.hotset.state
        if state.gaps:
            missing = (seq for gap in state.gaps for seq in range(gap[0], gap[1] + 1)[:_LOOKED_AT])
            gone = {seq for seq in missing if self._log.purged(seq) is not None}
            state.gaps = without(state.gaps, gone)

    def clear(self) -> None:
        """Let go of all."""
        self._kept = {}


def seq_by(log: FileLog, moment: str) -> int:
    """The last seq recorded by a moment; `rec` never runs backwards, so halving finds it."""
    low, high = 0, log.head().seq
    while low < high:
        middle = (low + high + 1) // 2
        line = log.line(middle)
        if line is not None and line.event.rec > moment:
            high = middle - 1
        else:
            low = middle
    return low
