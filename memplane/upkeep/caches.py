"""Compare projections and index with the log, and rebuild them."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from memplane import nofollow
from memplane.context.folds import Folds, Prefix, RememberedLog
from memplane.errors import LockError, WriteError
from memplane.index.storage import alone, holder, remove_index_file
from memplane.lazy import late
from memplane.log.survey import EndEvidence
from memplane.projections import projector
from memplane.projections.cache import CACHE_NAME, position_of
from memplane.projections.files import AllFiles
from memplane.projections.projector import BUNDLE
from memplane.search.service import index_service
from memplane.upkeep.reports import saved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from memplane.context.context import PlaneContext
    from memplane.index import storage
    from memplane.policy import Policies
    from memplane.ports import Head
    from memplane.projections.catchup import Folded
    from memplane.projections.projector import State
else:
    storage = late("memplane.index.storage")

__all__ = ["differing_caches", "rebuild_caches", "stated_positions", "witnesses"]


# In the same folder, and no projections: what importers have read, parsed policies.
_OTHERS = ("imports.json", "policy-")


def stated_positions(home: Path, plane: str) -> Iterator[tuple[str, Head | None]]:
    """Each kept projection, by its name below `projections/`, and the line it stands behind.

    None for one that is torn, not a file, or of another plane.
    """
    folder = home / "projections"
    for name in nofollow.folder_names(folder):
        if name.endswith(".json") and not name.startswith(_OTHERS):
            kept = projector.read_checkpoint(folder / name)
            yield name, kept.position if kept is not None and kept.plane == plane else None
    cache = folder / CACHE_NAME
    if os.path.lexists(cache):
        yield CACHE_NAME, position_of(cache, plane)


def witnesses(home: Path, plane: str) -> Iterator[EndEvidence]:
    """Who knows of lines of the log: projections, the index, reports of packs.

    To be asked before the log is looked at: what they know then, it must hold.
    """
    for name, at in stated_positions(home, plane):
        if at is not None:
            yield EndEvidence(f"projections/{name}", at.seq, at.segment)

    index = storage.segment_sections(home / "index" / "manifest.json") or {}
    if index.get("plane") == plane and type(seq := index.get("seq")) is int:
        yield EndEvidence("index/manifest.json", seq, 0)
    for one in saved(home):
        head = one.report["log"].get("head")
        if type(head) is int:
            yield EndEvidence(f"reports/{one.path.name}", head, 0)


# Compare the projections on disk with a new fold of the log.
_STEP: Final = 2_000  # lines that are held at a time
_STEPS_MAX: Final = 10_000


def differing_caches(
    context: PlaneContext, policies: Policies, progress: Callable[[int, int], None] | None = None
) -> list[str]:
    """The files below `projections/` whose state is not that of a fold from the log's start.

    Those that are not believed were made again in memory, and do not differ. Writes nothing; the
    log is read once. `progress` is called with the seqs. Hold the plane's lock.
    """
    kept = context.caught_up(policies)
    head = kept.log.head().seq
    log = Prefix(RememberedLog(context.log), 0)
    made = Folds(log, None, context.home.plane_id, context.counter(policies), kept.variant)
    # Those that nobody keeps cannot differ, and folding them costs as much as all others.
    folder = context.home.path / "projections"
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


# `rebuild`: delete what was made from the log and make it again, or raise why not.
_CACHES: Final = (
    "hotset.json",
    "decisions.json",
    "cards.json",
    "tasks.json",
    "plane_map.json",
    "artifacts.json",
    BUNDLE,
    "cache.sqlite",
)
# Opened for who asks for them: no pack does but, for files, that of a session without any.
_LAZY: Final = ("sessions.json", "files.json", "transcripts.sqlite")
_WAIT_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.05


def rebuild_caches(
    context: PlaneContext, progress: Callable[[int, int], None] | None = None
) -> int:
    """Throw projections and index away and make them again; return the events folded.

    Raises LockError, WriteError where it is not kept. Hold its lock.

    Where another process has one of the folders nothing is thrown away.
    """
    context.check_open()
    if not context.keeps:
        return _made_again(context, progress)
    folders = [context.home.path / name for name in ("projections", "index")]
    for folder in folders:
        _await(folder, "nothing was changed")
    folded = _made_again(context, progress)
    if folded and not _saved(context):
        _await(folders[0], "the projections were not kept", seconds=0)
        raise WriteError(
            f"{folders[0]}: the disk refuses what was made; it was not kept, and the next pack "
            "makes it again; make room and try again"
        )
    return folded


def _made_again(context: PlaneContext, progress: Callable[[int, int], None] | None) -> int:
    folder = context.home.path / "projections"
    context.forget_folds()
    if context.keeps:
        for name in (*_CACHES, *_LAZY):
            remove_index_file(folder / name)
    folds = context.caught_up()
    if context.keeps:
        folds.save()
    index_service(context).rebuild(context.watched.policies_or_last(), progress)
    return folds.log.head().seq


def _saved(context: PlaneContext) -> bool:
    """Whether the projections are kept: who came between has them for a moment only."""
    folds, deadline = context.caught_up(), time.monotonic() + _WAIT_SECONDS
    while not (saved := folds.save()) and time.monotonic() < deadline:
        with alone(context.home.path / "projections") as held:
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
