"""`rebuild`: throw away what was made from the log and make it again, or say why not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from memplane import nofollow
from memplane.errors import LockError, WriteError
from memplane.index.storage import alone, holder, remove
from memplane.plane.finding import finder_of
from memplane.projections.projector import BUNDLE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memplane.plane.engine import Engine

__all__ = ["rebuild"]

_CACHES: Final = (
    "hotset.json", "decisions.json", "cards.json", "tasks.json", "plane_map.json",
    "artifacts.json", BUNDLE, "cache.sqlite",
)  # fmt: skip
# Opened for who asks for them: no pack does but, for files, that of a session without any.
_LAZY: Final = ("sessions.json", "files.json", "transcripts.sqlite")
_WAIT_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.05


def rebuild(engine: Engine, progress: Callable[[int, int], None] | None = None) -> int:
    """Throw projections and index away and make them again; return the events folded.

    Raises LockError, WriteError where it is not kept. Hold its lock.

    Where another process has one of the folders nothing is thrown away.
    """
    engine.check_open()
    if not engine.keeps:
        return _made_again(engine, progress)
    folders = [engine.home.path / name for name in ("projections", "index")]
    for folder in folders:
        _await(folder, "nothing was changed")
    folded = _made_again(engine, progress)
    if folded and not _saved(engine):
        _await(folders[0], "the projections were not kept", seconds=0)
        raise WriteError(
            f"{folders[0]}: the disk refuses what was made; it was not kept, and the next pack "
            "makes it again; make room and try again"
        )
    return folded


def _made_again(engine: Engine, progress: Callable[[int, int], None] | None) -> int:
    folder = engine.home.path / "projections"
    engine.forget_folds()
    if engine.keeps:
        for name in (*_CACHES, *_LAZY):
            remove(folder / name)
    folds = engine.caught_up()
    if engine.keeps:
        folds.save()
    finder_of(engine).rebuild(engine.watched.policies_or_last(), progress)
    return folds.log.head().seq


def _saved(engine: Engine) -> bool:
    """Whether the projections are kept: who came between has them for a moment only."""
    folds, deadline = engine.caught_up(), time.monotonic() + _WAIT_SECONDS
    while not (saved := folds.save()) and time.monotonic() < deadline:
        with alone(engine.home.path / "projections") as held:
            if held:
                break  # not for the lock's sake
        time.sleep(_PAUSE_SECONDS)
        folds.catch_up()
    return saved


def _await(folder: Path, said: str, seconds: float = _WAIT_SECONDS) -> None:
    """Wait until nobody holds the folder; LockError where somebody goes on to."""
    deadline = time.monotonic() + seconds
    while True:
        with alone(folder) as held:
            # Where it cannot be made or written there is no lock to wait for; the writing says so.
            if held or not nofollow.is_file(folder / ".lock"):
                return
        if time.monotonic() >= deadline:
            break
        time.sleep(_PAUSE_SECONDS)
    pid = holder(folder)
    who = "another process" if pid is None else f"process {pid}"
    raise LockError(
        f"{folder}/.lock: held by {who} for more than {round(seconds)} s; {said}; try again, or "
        "end that process",
        holder=pid,
    )
