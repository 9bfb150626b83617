"""Reads files of a source into a plane, and says what became of each part of them.

A second run records nothing, because ids come from the source; it reads little,
because `consumed` knows how far each file was read.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from memplane.errors import InputError, MemplaneError
from memplane.importers import claude_code, git, jsonl
from memplane.importers.claude_code import ClaudeCode
from memplane.importers.consumed import Consumed
from memplane.importers.detect import FIRST_LINES, look, refuse_repository
from memplane.importers.jsonl import Jsonl
from memplane.importers.lines import files_below, parse, read_lines
from memplane.importers.report import REFUSED_LISTED, FileReport, ImportReport, Refused
from memplane.importers.repositories import import_repositories
from memplane.intake.redact import masked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from memplane.importers.lines import Line
    from memplane.importers.rows import Outcome, Reader, Row
    from memplane.plane import Plane

    Progress = Callable[[int, int, int], None]

__all__ = ["SOURCES", "Source", "import_paths"]

Source = Literal["jsonl", "claude-code", "git"]
_OF_FILES: Final = (jsonl.SOURCE, claude_code.SOURCE)
SOURCES: Final = (*_OF_FILES, git.SOURCE)

# Raise it when a reader changes what it takes: files are then read again from their start.
_VERSION: Final = 1
_ROWS_AT_ONCE: Final = 1024
_TEXT_AT_ONCE: Final = 8 * 1024 * 1024
_PROGRESS_BYTES: Final = 1024 * 1024


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
    no JSON lines at all.
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
    run = _Run(plane, reasoning=reasoning, full=full, progress=progress)
    run.total = sum(_size(path) for path in files)
    for path in files:
        run.file(path, source)
    run.end_sessions()
    run.consumed.save()
    return run.report


def _find(paths: Iterable[str | os.PathLike[str]], source: Source | None, home: Path) -> list[Path]:
    """List the files to read; a folder's are without the plane's own."""
    files: dict[Path, None] = {}
    for given in paths:
        path = Path(given)
        if path.is_dir():
            found = [file.absolute() for file in files_below(path)]
            own = [file for file in found if not file.resolve().is_relative_to(home)]
            if source is None:
                refuse_repository(path, own)
            files |= dict.fromkeys(own)
            continue
        _check_named(path, source)
        files[path.absolute()] = None
    return list(files)


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
    if not seen.json_lines:
        raise InputError(
            f"{path}: expected JSON lines, one object a line; none of the first {FIRST_LINES} "
            f"lines is one (the first begins {seen.found!r}); name a .jsonl or .jsonl.gz file, "
            "or a folder of them",
            where=where,
        )
    if source is None and seen.source is None and path.stat().st_size:
        known = " or ".join(_OF_FILES)
        raise InputError(f"{path}: of no source that is known; name it: {known}", where=where)


class _Run:
    """One import: the readers, what was consumed before, and the report that grows."""

    def __init__(
        self, plane: Plane, *, reasoning: bool, full: bool, progress: Progress | None
    ) -> None:
        self.plane = plane
        self.report = ImportReport()
        self.consumed = Consumed(plane, fresh=full)
        self.total = 0
        self._readers: dict[str, Reader] = {
            jsonl.SOURCE: Jsonl(),
            claude_code.SOURCE: ClaudeCode(reasoning=reasoning),
        }
        self._reasoning = reasoning
        self._progress = progress
        self._done = 0  # bytes of the files before this one
        self._told = 0
        self._events = 0
        self._rows: list[Row] = []
        self._waiting: dict[str, Row] = {}  # the same by id
        self._text = 0
        self._read_from: dict[str, None] = {}  # sessions, of files with news
        self._known: dict[str, None] = {}  # likewise, of the others

    def file(self, path: Path, source: str | None) -> None:
        """Read one file as far as it goes and record what it holds."""
        file = FileReport(os.fspath(path), source)
        self.report.per_file.append(file)
        try:
            before = path.stat()
            offset = self._begin(file, path, before.st_size)
        except OSError:
            file.skip("unreadable file")
        else:
            if offset is not None:
                self._read(file, path, before, offset)
        self._done += _size(path)
        self._tell(self._done)

    def _begin(self, file: FileReport, path: Path, size: int) -> int | None:
        """Find the source of a file and where to go on in it; None: there is nothing to read."""
        seen = None if file.source else look(path)
        if seen is not None:
            file.source = seen.source
        offset = self.consumed.offset(path, self._how(file))
        if offset < 0:
            file.unchanged = True
            self._meet(file, self._known, self.consumed.state(path))
            return None
        if not offset and not (seen or look(path)).json_lines:
            file.skip("not JSON lines")
            return None
        if file.source is None:
            if size:
                file.skip("unknown source")
            return None
        return offset

    def _read(self, file: FileReport, path: Path, before: os.stat_result, offset: int) -> None:
        assert file.source is not None
        reader = self._readers[file.source]
        reader.begin(self.consumed.state(path) if offset else {})
        end = offset
        for line in read_lines(path, offset):
            if self._take(file, reader, line):
                end = line.end
            self._tell(self._done + line.done)
        self._flush(file)
        how, state = self._how(file), reader.state()
        self._meet(file, self._read_from, state)
        self.consumed.keep(path, how, before=before, offset=end, state=state)

    def end_sessions(self) -> None:
        """End the sessions of transcripts that are over; rows of JSON lines say so themselves."""
        if self._read_from or self._known:
            sessions = self.plane.sessions
            ended = sessions.end_imported(self._read_from, self._known, claude_code.end_id)
            self.report.ended = len(ended)

    def _meet(self, file: FileReport, sessions: dict[str, None], state: dict[str, Any]) -> None:
        if file.source == claude_code.SOURCE:
            sessions |= dict.fromkeys(claude_code.sessions_in(state))

    def _how(self, file: FileReport) -> dict[str, object]:
        """Name what decides which events a file gives: read otherwise, it is read again."""
        return {"version": _VERSION, "source": file.source, "reasoning": self._reasoning}

    def _take(self, file: FileReport, reader: Reader, line: Line) -> bool:
        """Take one line; False leaves it for the import that finds it whole."""
        if line.fault == "damaged":
            file.skip("damaged file")
            return False
        file.lines += 1
        if line.fault:
            file.skip("overlong line")
            return True
        if not line.body.strip():
            file.skip("blank line")
            return True
        records, broken = parse(line.body)
        if broken and not line.whole:
            file.skip("unfinished line")
            return False
        for number, record in enumerate(records):
            # Records without an id of their own are named after their bytes.
            body = line.body if len(records) == 1 else b"%b#%d" % (line.body, number)
            self._count(file, reader.read(record, body))
        if broken:
            file.skip("malformed line")
        return True

    def _count(self, file: FileReport, outcome: Outcome) -> None:
        for reason in outcome.skipped:
            file.skip(reason)
        file.items += outcome.repeated + len(outcome.rows)
        file.repeated += outcome.repeated
        for row in outcome.rows:
            self._add(file, row)
        if len(self._rows) >= _ROWS_AT_ONCE or self._text >= _TEXT_AT_ONCE:
            self._flush(file)

    def _add(self, file: FileReport, row: Row) -> None:
        named = row["id"] if isinstance(row["id"], str) else ""
        waiting = self._waiting.get(named)
        if waiting == row:
            file.repeated += 1
            return
        if waiting is not None:
            # The first one of an id is recorded, so that only the second one can be a conflict.
            self._flush(file)
        self._waiting[named] = row
        self._rows.append(row)
        self._text += len(row["text"]) if isinstance(row.get("text"), str) else 0

    def _flush(self, file: FileReport) -> None:
        rows, self._rows, self._text = self._rows, [], 0
        self._waiting.clear()
        if not rows:
            return
        receipt = self.plane.record_many(rows, strict=False)
        recorded = len(rows) - receipt.duplicates - len(receipt.refused)
        file.events += recorded
        self._events += recorded
        file.repeated += receipt.duplicates
        for refusal in sorted(receipt.refused):
            row = rows[refusal.index]
            if refusal.reason == "conflict" and self._is_copy(row, file.source):
                file.repeated += 1
                continue
            if refusal.reason == "purged":
                file.drop("purged")
                continue
            file.refused += 1
            if len(self.report.refused) < REFUSED_LISTED:
                shown = masked(str(row.get("id")))[:200]
                # Its place in this batch says nothing to anybody.
                message = refusal.message.removeprefix(f"rows[{refusal.index}]").lstrip(".: ")
                self.report.refused.append(Refused(file.path, shown, refusal.reason, message))

    def _is_copy(self, row: Row, source: str | None) -> bool:
        """Tell whether it is a record that stands in the file of another session too."""
        if source != claude_code.SOURCE:
            return False
        try:
            event = self.plane.event(row["id"])
        except MemplaneError:
            return False
        same = (event.kind, event.role) == (row["kind"], row.get("role"))
        return same and event.session != row.get("session")

    def _tell(self, done: int) -> None:
        if self._progress and (done >= self._told + _PROGRESS_BYTES or done >= self.total):
            self._told = done
            self._progress(min(done, self.total), self.total, self._events)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
