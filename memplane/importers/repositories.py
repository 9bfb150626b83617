"""Import the commits of git repositories.

The heads that were read are remembered beside the files of other sources (`importers.resume`), so a
second import asks git only for commits that they do not reach. Where that does not work (another
selection, history that was rewritten and removed, a shallow clone that was deepened) all commits
are read, and their ids identify those that are recorded.
"""

from __future__ import annotations

import hashlib
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memplane.errors import InputError
from memplane.importers.reading import REFUSED_LISTED, FileReport, ImportReport, Refused
from memplane.importers.resume import Consumed
from memplane.importers.rows import Row
from memplane.intake.skeleton import with_permitted_actor

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Generator, Iterable

    from memplane.plane import Plane
from memplane.importers.git import SOURCE, GitCommit, GitRepository, row_of

__all__ = ["import_repositories"]

# Raise it when a commit makes another event than before.
_VERSION: Final = 1

_ROWS_AT_ONCE: Final = 512

_TEXT_AT_ONCE: Final = 8 * 1024 * 1024


def import_repositories(
    plane: Plane,
    paths: Iterable[str | os.PathLike[str]],
    *,
    progress: Callable[[int, int, int], None] | None = None,
    full: bool = False,
    max_count: int | None = None,
) -> ImportReport:
    """Record the commits that HEAD reaches, parents before children; `max_count` the newest only.

    `progress` is told commits done, commits in all and events recorded; `full` reads all of
    them again. Raises InputError, before anything is recorded, where a path is in no
    repository or there is no git.
    """
    if max_count is not None and max_count < 1:
        raise InputError(f"expected 1 or more, found {max_count}", where="max_count")
    repositories = [GitRepository(Path(path)) for path in paths]
    report = ImportReport()
    consumed = Consumed(plane)
    for repository in repositories:
        file = FileReport(str(repository.path.absolute()), SOURCE)
        report.per_file.append(file)
        _Reading(plane, report, file, progress).read(repository, consumed, max_count, full=full)
    consumed.save()
    return report


class _Reading:
    """One repository on its way into the plane."""

    def __init__(
        self,
        plane: Plane,
        report: ImportReport,
        file: FileReport,
        progress: Callable[[int, int, int], None] | None,
    ) -> None:
        self._plane, self._report, self._file, self._progress = plane, report, file, progress
        self._rows: list[Row] = []
        self._text = 0
        self._total = 0
        self._stopped_by: InputError | None = None

    def read(
        self, repository: GitRepository, consumed: Consumed, newest: int | None, *, full: bool
    ) -> None:
        """Record what is new; the head counts as read only where git could read all of it."""
        file = self._file
        if not repository.head:
            file.skip("no commits yet")
            return
        how = {"version": _VERSION, "max_count": newest, "shallow": _digest(repository.boundary)}
        heads = [] if full else consumed.heads(repository.folder, how)
        if repository.head in heads:
            file.unchanged = True
            return
        known = repository.known(heads) if heads else []
        self._take(repository, known, newest)
        error = self._stopped_by
        if error is not None:
            if not self._report.lines:
                raise error
            file.skip(str(error).removeprefix(f"{error.where}: "))
            return
        consumed.keep_heads(repository.folder, how, [*known, repository.head])

    def _take(self, repository: GitRepository, known: list[str], newest: int | None) -> None:
        with closing(self._commits(repository, known, newest)) as commits:
            for commit in commits:
                self._file.lines += 1
                row = row_of(commit, repository.branch, repository.boundary)
                if row is None:
                    self._file.skip("empty commit")
                    continue
                self._file.items += 1
                self._rows.append(row)
                self._text += len(row["text"])
                if len(self._rows) >= _ROWS_AT_ONCE or self._text >= _TEXT_AT_ONCE:
                    self._flush()
                if self._progress:
                    self._progress(self._file.lines, self._total, self._report.events)
        self._flush()

    def _commits(
        self, repository: GitRepository, known: list[str], newest: int | None
    ) -> Generator[GitCommit]:
        """The commits as far as git can read them; what stops it is kept, to be told by `read`.

        Only that: a mistake in what is made of a commit is none of the repository's.
        """
        try:
            if self._progress:
                self._total = repository.count(without=known, newest=newest)
            with closing(repository.commits(without=known, newest=newest)) as commits:
                yield from commits
        except InputError as error:
            self._stopped_by = error

    def _flush(self) -> None:
        rows, self._rows, self._text = self._rows, [], 0
        if not rows:
            return
        receipt = self._plane.record_many(map(with_permitted_actor, rows), strict=False)
        self._file.events += len(rows) - receipt.duplicates - len(receipt.refused)
        self._file.repeated += receipt.duplicates
        for refusal in sorted(receipt.refused):
            # A hash names one content: git renders it otherwise (a rename, a clone's boundary).
            if refusal.reason == "conflict":
                self._file.repeated += 1
                continue
            if refusal.reason == "purged":
                self._file.drop("purged")
                continue
            self._file.refused += 1
            if len(self._report.refused) < REFUSED_LISTED:
                message = refusal.message.removeprefix(f"rows[{refusal.index}]").lstrip(".: ")
                id_ = str(rows[refusal.index]["id"])
                self._report.refused.append(Refused(self._file.path, id_, refusal.reason, message))


def _digest(boundary: frozenset[str]) -> str:
    return hashlib.sha256(" ".join(sorted(boundary)).encode()).hexdigest() if boundary else ""
