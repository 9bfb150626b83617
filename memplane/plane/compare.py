"""Tells whether the projections on disk are what the log folds to."""

from __future__ import annotations

from memplane.plane.folds import Folds
from memplane.projections.cache import CACHE_NAME
from memplane.projections.catchup import Folded
from memplane.projections.files import Files
from memplane.projections.projector import State

__all__ = ["differing"]


def differing(kept: Folds, made: Folds) -> list[str]:
    """The files below `projections/` whose state is not that of a fold from the log's start.

    `kept` was opened from the files and caught up, `made` folded from nothing up to the same seq.
    """
    pairs = {
        "hotset.json": (_dumped(kept.hotset), _dumped(made.hotset)),
        "decisions.json": (_dumped(kept.decisions), _dumped(made.decisions)),
        "cards.json": (_dumped(kept.cards), _dumped(made.cards)),
        "tasks.json": (_dumped(kept.tasks), _dumped(made.tasks)),
        "plane_map.json": (_dumped(kept.plane_map), _dumped(made.plane_map)),
        "sessions.json": (_dumped(kept.sessions), _dumped(made.sessions)),
        "files.json": (Files().dump(kept.files), Files().dump(made.files)),
        CACHE_NAME: (kept.memories.dump(), made.memories.dump()),
    }
    return [name for name, (ours, fresh) in pairs.items() if ours != fresh]


def _dumped(folded: Folded[State]) -> bytes:
    return folded.projector.dump(folded.state)
