"""`import_paths`: read files of a source into a plane, and report what became of each part.

A second run records nothing, because ids come from the source, and reads little, because
`importers.resume` remembers how far each file was read.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from memplane.errors import InputError
from memplane.importers import chat, claude_code, claude_memory, codex, git, jsonl, mcp_memory
from memplane.importers.detection import FIRST_LINES, look, refuse_repository, takeable
from memplane.importers.reading import ImportReport, Progress, Reading, source_bytes
from memplane.importers.records import files_below
from memplane.importers.repositories import import_repositories

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memplane.plane import Plane

__all__ = [
    "SOURCES",
    "Source",
    "import_paths",
]


Source = Literal["jsonl", "claude-code", "claude-memory", "codex", "chat", "mcp-memory", "git"]
_OF_FILES: Final = (
    jsonl.SOURCE,
    claude_code.SOURCE,
    claude_memory.SOURCE,
    codex.SOURCE,
    chat.SOURCE,
    mcp_memory.SOURCE,
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
    if source != claude_memory.SOURCE:
        return files_below(folder)
    notes = files_below(folder, (".md",))
    # A folder that was named is memory if it looks like it; of others those below that are.
    named = (
        folder.absolute().name == claude_memory.FOLDER or (folder / claude_memory.INDEX).is_file()
    )
    return notes if named else [path for path in notes if claude_memory.is_memory(path)]


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
    if source == claude_memory.SOURCE:
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
