"""Which source a file is from, by its first lines, and what below a folder can be imported."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.errors import InputError
from memplane.importers import chat, claude_code, claude_memory, codex, git, jsonl, mcp_memory
from memplane.importers.documents import may_be_document, parse_array, parse_document, read_all
from memplane.importers.git import Repository, is_repository
from memplane.importers.lines import files_below, is_zstd, parse, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "FIRST_LINES",
    "Found",
    "Look",
    "detect",
    "look",
    "refuse_repository",
    "sources_of",
    "takeable",
]

FIRST_LINES: Final = 20
_FILES: Final = 20
_NO_MESSAGES: Final = b"[]"  # of a chat that has not begun
_TRANSCRIPT: Final = frozenset({"sessionId", "uuid", "leafUuid", "messageId"})
_ROW: Final = frozenset({"conversation_id", "event_id", "kind", "text"})
_LISTED: Final = (
    claude_code.SOURCE,
    claude_memory.SOURCE,
    codex.SOURCE,
    mcp_memory.SOURCE,
    chat.SOURCE,
    jsonl.SOURCE,
)


class Look(NamedTuple):
    """What the first lines show. `json_lines`: there is a record, or nothing that is none.

    `found` is how the first line begins that is none. `document`: the file is one JSON value that
    holds records, over many lines.
    """

    source: str | None
    json_lines: bool
    found: str
    document: bool = False


class Found(NamedTuple):
    """What a path holds of one source, and the command that imports it.

    `items` are files, of the source git commits (None: git cannot say). `source` None:
    files that may hold JSON and are of no source that is known; no command takes them.
    """

    path: str
    source: str | None
    items: int | None
    command: str | None


def detect(path: str | os.PathLike[str]) -> str | None:
    """The name of a source, or None where the first lines fit none.

    Of a folder: the source of the first of its files that has one.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no such file or folder", where="path")
    try:
        if path.is_dir():
            looks = (look(file).source for file in takeable(path)[:_FILES])
            return next(filter(None, looks), None)
        return look(path).source if path.is_file() else None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}", where="path") from error


def sources_of(path: str | os.PathLike[str]) -> list[Found]:
    """What could be imported from a file or folder; reads first lines and writes nothing.

    Planes below the folder are left out. InputError where there is nothing by that name.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no such file or folder", where="path")
    counts: Counter[str | None] = Counter()
    for file in _outside_planes(path, takeable(path)) if path.is_dir() else [path]:
        with suppress(OSError):
            counts[look(file).source] += 1
    found = [_found(path, source, counts[source]) for source in _LISTED if counts[source]]
    if path.is_dir() and is_repository(path):
        commits = None
        with suppress(InputError):
            commits = Repository(path).count()
        found.append(_found(path, git.SOURCE, commits))
    if counts[None]:
        found.append(Found(str(path), None, counts[None], None))
    return found


def refuse_repository(path: Path, files: list[Path]) -> None:
    """Raise InputError for a repository without a file of any source: its commits were meant."""
    if not is_repository(path):
        return
    for file in files:
        with suppress(OSError):
            if look(file).source is not None:
                return
    raise InputError(
        f"{path}: no transcripts and no events in JSON lines below it; it is a git repository: "
        f"`memplane import git {quote(str(path))}` takes its commits",
        where="paths",
    )


def _found(path: Path, source: str, items: int | None) -> Found:
    return Found(str(path), source, items, f"memplane import {source} {quote(str(path))}")


def _outside_planes(folder: Path, files: list[Path]) -> list[Path]:
    """The files that lie in no plane: its log is JSON lines too, and not to be imported."""
    planes: dict[Path, bool] = {}

    def in_plane(place: Path) -> bool:
        if place not in planes:
            inside = place != folder and in_plane(place.parent)
            planes[place] = inside or (place / "plane.json").is_file()
        return planes[place]

    return [file for file in files if not in_plane(file.parent)]


def takeable(folder: Path) -> list[Path]:
    """The files of a folder that may be of a source, by path: JSON, and memory in Markdown."""
    notes = [path for path in files_below(folder, (".md",)) if claude_memory.is_memory(path)]
    return sorted([*files_below(folder), *notes], key=os.fspath)


def look(path: Path) -> Look:
    """Look at the first 20 lines that are not blank, or at all of a document."""
    if path.suffix.lower() == ".md":
        return Look(claude_memory.SOURCE if claude_memory.is_memory(path) else None, False, "")
    if is_zstd(path):
        return Look(None, False, "zstd")
    records: list[dict[str, Any]] = []
    junk: list[bytes] = []
    with closing(read_lines(path)) as lines:
        said = (line for line in lines if line.body.strip() or line.fault)
        for line in islice(said, FIRST_LINES):
            made = parse(line.body).records or parse_array(line.body)
            if not made and not records and not junk and (whole := _document(path)):
                # Its lines may be JSON, too, and no records by themselves.
                return Look(next(_sources(whole), None), False, "", document=True)
            records += made
            # The writer of a transcript may be in the middle of its first record.
            begun = not line.whole and line.body.lstrip().startswith(b"{")
            if not made and not begun and line.body.strip() != _NO_MESSAGES:
                junk.append(line.body[:40] or line.fault.encode())
    found = junk[0].decode("utf-8", "replace") if junk else ""
    return Look(next(_sources(records), None), bool(records) or not junk, found)


def _document(path: Path) -> tuple[dict[str, Any], ...]:
    if not may_be_document(path):
        return ()
    text = read_all(path)
    return () if text is None else parse_document(text).records


def _sources(records: Iterable[dict[str, Any]]) -> Iterator[str]:
    for record in records:
        if codex.is_record(record):
            yield codex.SOURCE
        elif isinstance(record.get("type"), str) and not _TRANSCRIPT.isdisjoint(record):
            yield claude_code.SOURCE
        elif mcp_memory.is_graph(record):
            yield mcp_memory.SOURCE
        elif chat.is_chat(record):
            yield chat.SOURCE
        elif not _ROW.isdisjoint(record):
            yield jsonl.SOURCE
        elif chat.is_message(record):
            yield chat.SOURCE
