"""Tells whether the projections on disk are what the log folds to."""

from __future__ import annotations

from pathlib import Path

import orjson

from memplane.log import FileLog
from memplane.plane.folds import Folds, Prefix
from memplane.policy import Policies
from memplane.projections.cache import CACHE_NAME
from memplane.wiring import clock, make_counter

__all__ = ["differing"]


def differing(home: Path, plane_id: str, policies: Policies) -> list[str]:
    """The files below `projections/` whose state, caught up, is not that of a fold from the start.

    Writes nothing. A file that memplane would not believe anyway (torn, stale, of another
    version) is no difference: it is folded again when it is needed.
    """
    counter = make_counter(policies.budgets.counter, policies.budgets.scale_ppm)
    with FileLog(home, plane_id, clock=clock, loads=orjson.loads, read_only=True) as log:
        # Both stop at the same line, whatever is recorded meanwhile.
        prefix = Prefix(log, log.head().seq)
        kept = Folds(prefix, home / "projections", plane_id, counter)
        made = Folds(prefix, None, plane_id, counter)
        try:
            kept.catch_up()
            made.catch_up()
            found = [
                f"{one.projector.name}.json"
                for one, other in (
                    (kept.hotset, made.hotset),
                    (kept.decisions, made.decisions),
                    (kept.cards, made.cards),
                )
                if one.projector.dump(one.state) != other.projector.dump(other.state)  # type: ignore[arg-type]
            ]
            if kept.memories.dump() != made.memories.dump():
                found.append(CACHE_NAME)
        finally:
            kept.close()
            made.close()
    return found
