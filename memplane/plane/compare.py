"""Tells whether the projections on disk are what the log folds to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memplane import nofollow
from memplane.plane.folds import Folds, Prefix
from memplane.projections.cache import CACHE_NAME
from memplane.projections.files import AllFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from memplane.plane.engine import Engine
    from memplane.policy import Policies
    from memplane.projections.catchup import Folded
    from memplane.projections.projector import State

__all__ = ["differing"]

_STEP: Final = 2_000  # lines that are held at a time
_STEPS_MAX: Final = 10_000


def differing(
    engine: Engine, policies: Policies, progress: Callable[[int, int], None] | None = None
) -> list[str]:
    """The files below `projections/` whose state is not that of a fold from the log's start.

    Those that are not believed were made anew in memory, and do not differ. Writes nothing; the
    log is read once. `progress` is told the seqs. Hold the engine's lock.
    """
    kept = engine.caught_up(policies)
    head = kept.log.head().seq
    log = Prefix(engine.log, 0)
    made = Folds(log, None, engine.home.plane_id, engine.counter(policies), kept.variant)
    # Those that nobody keeps cannot differ, and folding them costs as much as all others.
    folder = engine.home.path / "projections"
    with_sessions = kept.sessions_opened or nofollow.is_file(folder / "sessions.json")
    with_files = kept.files_opened or nofollow.is_file(folder / "files.json")
    try:
        # Opened at the start, they come along.
        _ = made.sessions if with_sessions else None, made.files if with_files else None
        step = max(_STEP, head // _STEPS_MAX)  # a damaged log may jump to any seq
        for seq in range(step, head + step, step):
            log.advance(min(seq, head))
            made.catch_up()
            if progress is not None:
                progress(min(seq, head), head)
        return _differing(kept, made, with_sessions=with_sessions, with_files=with_files)
    finally:
        made.close()


def _differing(kept: Folds, made: Folds, *, with_sessions: bool, with_files: bool) -> list[str]:
    pairs = {
        "hotset.json": (_dumped(kept.hotset), _dumped(made.hotset)),
        "decisions.json": (_dumped(kept.decisions), _dumped(made.decisions)),
        "cards.json": (_dumped(kept.cards), _dumped(made.cards)),
        "tasks.json": (_dumped(kept.tasks), _dumped(made.tasks)),
        "plane_map.json": (_dumped(kept.plane_map), _dumped(made.plane_map)),
        "artifacts.json": (_dumped(kept.artifacts), _dumped(made.artifacts)),
        CACHE_NAME: (kept.memories.dump(), made.memories.dump()),
    }
    if with_sessions:
        pairs["sessions.json"] = (_dumped(kept.sessions), _dumped(made.sessions))
    if with_files:
        pairs["files.json"] = (AllFiles().dump(kept.files), AllFiles().dump(made.files))
    return [name for name, (ours, fresh) in pairs.items() if ours != fresh]


def _dumped(folded: Folded[State]) -> bytes:
    return folded.projector.dump(folded.state)
