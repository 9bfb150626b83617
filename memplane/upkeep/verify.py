"""`verify` of a whole plane: the log, then everything that was made from it compared with the log.

A cache that would not be used anyway (torn, stale, of another version) is a note, not a problem: it
is made again when it is needed. Nothing is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from memplane import log as logs
from memplane import nofollow
from memplane.errors import PolicyError, Problem
from memplane.lazy import late
from memplane.log import LogProblem, VerifyReport
from memplane.log.verifying import REBUILD, hash_of
from memplane.projections.artifacts import is_digest
from memplane.search.service import index_service
from memplane.upkeep.caches import differing_caches, stated_positions, witnesses
from memplane.upkeep.reports import kept_bytes_path, saved

if TYPE_CHECKING:
    from memplane.context.context import PlaneContext
    from memplane.index import dense as index_dense
    from memplane.index import storage as index_storage
    from memplane.policy import Policies
    from memplane.recall import documents
else:
    index_dense = late("memplane.index.dense")
    index_storage = late("memplane.index.storage")
    documents = late("memplane.recall.documents")

__all__ = ["PlaneReport", "verify_caches"]


Progress = Callable[[int, int], None]

# Of a thousand: what the parts take of the time, measured on a log of a million events.
_PARTS: Final = {"log": 40, "projections": 480, "index": 480}


_OTHER_FORM: Final = LogProblem(
    "projections/policy-*.json",
    0,
    "is not what the policies say",
    "the same as if they were parsed anew",
    "delete these files; they are made again",
)


class PlaneReport(NamedTuple):
    """What `verify` found: the log's report, and the findings and notes of all parts.

    `mistakes` are those of the policies: with any, projections and index were not `compared`.
    """

    log: VerifyReport
    problems: tuple[LogProblem, ...]
    notes: tuple[str, ...]
    mistakes: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def compared(self) -> bool:
        """Whether projections and index were held against the log."""
        return not self.mistakes


def verify_caches(
    context: PlaneContext,
    report: VerifyReport,
    progress: Progress | None = None,
    *,
    deep: bool = False,
) -> PlaneReport:
    """Hold what the plane keeps against its log, of which `report` tells. Hold the plane's lock.

    `progress` is told of all parts, the log's being done. `deep`: also the parsed form of the
    policies against the policies, which is believed by its own sum otherwise.
    """
    problems, notes = [*report.problems], [*report.notes]
    home = context.home.path
    notes += _ahead(context, report)
    snapshots: set[str] = set()
    for found in _snapshots(home, snapshots):
        (problems if isinstance(found, LogProblem) else notes).append(found)  # type: ignore[arg-type]
    notes += _orphans(home, report.named | snapshots)
    try:
        policies = context.watched.policies()
    except PolicyError as error:
        return PlaneReport(report, tuple(problems), tuple(notes), error.problems)
    told = part_progress(progress, "projections")
    problems += [
        _other(f"projections/{name}") for name in differing_caches(context, policies, told)
    ]
    told = part_progress(progress, "index")
    if any(one.file.startswith("bodies/") for one in report.problems):
        notes.append("index: not compared, as texts that it holds are lost beside the log")
    else:
        found_there, more = _index(context, policies, told)
        problems += found_there
        notes += more
    if deep and context.watched.form_differs():
        problems.append(_OTHER_FORM)
    told(1, 1)
    return PlaneReport(report, tuple(problems), tuple(notes))


def of_log(
    context: PlaneContext, progress: Progress | None = None, processes: int = 1
) -> VerifyReport:
    """The log's own report, which is the first part."""
    home, told = context.home, part_progress(progress, "log")
    return logs.verify_log(
        home.path,
        home.plane_id,
        progress=told,
        loads=context.loads,
        processes=processes,
        witnesses=list(witnesses(home.path, home.plane_id)),
    )


def part_progress(progress: Progress | None, name: str) -> Progress:
    """What tells of one part as a share of the whole."""
    before = 0
    for each, weight in _PARTS.items():
        if each == name:
            break
        before += weight

    def told(done: int, total: int) -> None:
        if progress is not None:
            progress(before + _PARTS[name] * min(done, total) // max(total, 1), 1000)

    return told


def _other(file: str) -> LogProblem:
    return LogProblem(
        file,
        0,
        "is not what the log gives",
        "the same as if it were made anew",
        f"{REBUILD} makes it again",
    )


def _ahead(context: PlaneContext, report: VerifyReport) -> Iterator[str]:
    """What was made from another log, or is torn: it is not believed. See `witnesses` too."""
    for name, at in stated_positions(context.home.path, context.home.plane_id):
        if at is None:
            yield f"{name}: torn, or of another plane; it is made again when needed"
        elif at.seq <= report.head.seq and not context.log.matches(at):
            yield f"{name}: is not of this log; it is made again when needed"


def _snapshots(home: Path, named: set[str]) -> Iterator[LogProblem | str]:
    """The policies and views that saved reports name; adds their hashes to `named`."""
    missing = 0
    for one in saved(home):
        for kind in ("policies", "views"):
            for name, digest in one.report[kind].items():
                if not is_digest(digest) or digest in named:
                    continue
                named.add(digest)
                path = kept_bytes_path(home, digest)
                there = hash_of(os.fspath(home), os.fspath(path))
                if there is None:
                    missing += 1
                elif there != digest:
                    yield LogProblem(
                        os.fspath(path.relative_to(home)),
                        0,
                        f"is damaged; report {one.id} names it as {name}",
                        "the bytes with that SHA-256",
                        "bring it back from a copy, or delete it: that pack cannot be replayed",
                    )
    if missing:
        yield f"reports: {missing} policies or views that they name are not kept: no replay of them"


def _orphans(home: Path, named: frozenset[str]) -> Iterator[str]:
    """Files in bodies/ that nothing names: left by a crash before the line that would have."""
    count = size = 0
    for path in map(Path, nofollow.walk_files(home / "bodies" / "sha256")):
        if path.parent.name + path.name not in named:
            count += 1
            size += path.lstat().st_size
    if count:
        yield f"bodies: {count} files of {size} bytes that nothing names"


def _index(
    context: PlaneContext, policies: Policies, progress: Progress
) -> tuple[list[LogProblem], list[str]]:
    """The files of the index by their sums, its documents and vectors against the log."""
    folder = context.home.path / "index"
    harmed = index_storage.harmed(folder, context.home.plane_id, documents.variant_of(policies))
    problems = [
        LogProblem(
            f"index/{name}",
            0,
            "does not have its sum",
            "the bytes that were written",
            f"{REBUILD} makes it again",
        )
        for name in harmed
    ]
    if not harmed and index_service(context).differs(policies, progress):
        problems.append(_other("index/manifest.json"))
    notes = []
    for name in (index_dense.FOLDER, index_dense.STATIC):
        header = index_dense.kept(folder / name)
        if (
            header is not None
            and header.documents
            and index_dense.load_vectors(folder / name, header.kind) is None
        ):
            notes.append(f"index/{name}: vectors that are harmed; they are made again when needed")
    return problems, notes
