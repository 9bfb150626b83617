"""`import_paths`: read the files or repositories of a source into a plane, and report on each part.

A second run records nothing, because ids come from the source, and reads little, because
`importers.resume` remembers how far each file was read, and which heads of a repository. Where git
cannot go on from those (another selection, history that was rewritten and removed, a shallow clone
that was deepened) all commits are read, and their ids identify those that are recorded.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from memplane.errors import InputError
from memplane.importers import chat, claude_code, codex, git, jsonl, statements
from memplane.importers.detection import FIRST_LINES, look, refuse_repository, takeable
from memplane.importers.git import SOURCE, GitCommit, GitRepository, row_of
from memplane.importers.reading import (
    REFUSED_LISTED,
    FileReport,
    ImportReport,
    Progress,
    Reading,
    Refused,
    SessionPlaces,
    source_bytes,
)
from memplane.importers.records import files_below
from memplane.importers.resume import Consumed
from memplane.importers.rows import Row
from memplane.intake.check import with_permitted_actor

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from memplane.plane import Plane

__all__ = [
    "SOURCES",
    "Source",
    "import_paths",
    "import_repositories",
]

Source = Literal["jsonl", "claude-code", "claude-memory", "codex", "chat", "mcp-memory", "git"]
_OF_FILES: Final = (
    jsonl.SOURCE,
    claude_code.SOURCE,
    statements.CLAUDE_MEMORY,
    codex.SOURCE,
    chat.SOURCE,
    statements.MCP_MEMORY,
)
SOURCES: Final = (*_OF_FILES, git.SOURCE)


def import_paths(
    plane: Plane,
    source: Source | None,
    paths: Iterable[str | os.PathLike[str]],
    *,
    progress: Progress | None = None,
    reasoning: bool = False,
    full: bool = False,
    max_count: int | None = None,
) -> ImportReport:
    """Record what the files hold, in the order of their lines; folders are read by path.

    `source` None finds it out for each file. `progress` is told bytes done, bytes in
    all and events recorded. `reasoning` takes thinking, which transcripts else leave
    out. `full` reads files again that were read before. Of the source git the paths are
    repositories, and `max_count` takes their newest commits only.

    Nothing that a file holds is an error: it is counted in the report. InputError,
    before anything is recorded, where a path is not there or a file named here holds
    no JSON that a source could have written.
    """
    if source is not None and source not in SOURCES:
        known = ", ".join(SOURCES)
        raise InputError(f"expected one of {known}; found {source!r}", where="source")
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if source == git.SOURCE:
        return import_repositories(plane, given, progress=progress, full=full, max_count=max_count)
    if max_count is not None:
        raise InputError(f"counts commits: only with the source {git.SOURCE}", where="max_count")
    files = _find(given, source, Path(plane.home).resolve())
    reading = Reading(plane, reasoning=reasoning, full=full, progress=progress)
    reading.total = sum(source_bytes(path) for path in files)
    for path in files:
        reading.file(path, source)
    reading.end()
    return reading.report


def _find(paths: Iterable[str | os.PathLike[str]], source: Source | None, home: Path) -> list[Path]:
    """List the files to read; a folder's are without the plane's own."""
    files: dict[Path, None] = {}
    for given in paths:
        path = Path(given)
        if path.is_dir():
            found = [file.absolute() for file in _below(path, source)]
            own = [file for file in found if not file.resolve().is_relative_to(home)]
            if source is None:
                refuse_repository(path, own)
            files |= dict.fromkeys(own)
            continue
        _check_named(path, source)
        files[path.absolute()] = None
    return list(files)


def _below(folder: Path, source: Source | None) -> list[Path]:
    if source is None:
        return takeable(folder)
    if source == claude_code.SOURCE:  # what stands beside a sub-agent's transcript is none
        return [path for path in files_below(folder) if not path.name.endswith(".meta.json")]
    if source != statements.CLAUDE_MEMORY:
        return files_below(folder)
    notes = files_below(folder, (".md",))
    # A folder that was named is memory if it looks like it; of others those below that are.
    named = (
        folder.absolute().name == statements.NOTES_FOLDER
        or (folder / statements.NOTES_INDEX).is_file()
    )
    return notes if named else [path for path in notes if statements.is_memory(path)]


def _check_named(path: Path, source: Source | None) -> None:
    where = "paths"
    if not path.exists():
        raise InputError(f"{path}: no such file or folder", where=where)
    if not path.is_file():
        raise InputError(f"{path}: neither a file nor a folder", where=where)
    try:
        seen = look(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}", where=where) from error
    if source == statements.CLAUDE_MEMORY:
        return
    if not seen.json_lines and not seen.document and seen.source is None:
        raise InputError(
            f"{path}: expected JSON lines, one object a line; none of the first {FIRST_LINES} "
            f"lines is one (the first begins {seen.found!r}); name a .jsonl or .jsonl.gz file, "
            "or a folder of them",
            where=where,
        )
    if source is None and seen.source is None and path.stat().st_size:
        known = ", ".join(_OF_FILES)
        raise InputError(f"{path}: of no source that is known; name it: {known}", where=where)


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
        self._places = SessionPlaces(plane)
        self._ns: str | None = None

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
        self._ns = self._places.of_root(repository.path)
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
                self._rows.append(row if self._ns is None else {**row, "ns": self._ns})
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
        recorded = len(rows) - receipt.duplicates - len(receipt.refused)
        self._file.events += recorded
        if recorded:
            self._places.settle()
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
