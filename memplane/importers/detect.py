"""Which source a file is from, by its first lines."""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.errors import InputError
from memplane.importers import claude_code, jsonl
from memplane.importers.lines import files_below, parse, read_lines

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

__all__ = ["FIRST_LINES", "Look", "detect", "look"]

FIRST_LINES: Final = 20
_FILES: Final = 20
_TRANSCRIPT: Final = frozenset({"sessionId", "uuid", "leafUuid", "messageId"})
_ROW: Final = frozenset({"conversation_id", "event_id", "kind", "text"})


class Look(NamedTuple):
    """What the first lines show. `json_lines`: there is a record, or nothing that is none.

    `found` is how the first line begins that is none.
    """

    source: str | None
    json_lines: bool
    found: str


def detect(path: str | os.PathLike[str]) -> str | None:
    """`jsonl`, `claude-code`, or None where the first lines fit neither.

    Of a folder: the source of the first of its files that has one.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no such file or folder", where="path")
    try:
        if path.is_dir():
            looks = (look(file).source for file in files_below(path)[:_FILES])
            return next(filter(None, looks), None)
        return look(path).source if path.is_file() else None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}", where="path") from error


def look(path: Path) -> Look:
    """Look at the first 20 lines that are not blank."""
    records: list[dict[str, Any]] = []
    junk: list[bytes] = []
    with closing(read_lines(path)) as lines:
        said = (line for line in lines if line.body.strip() or line.fault)
        for line in islice(said, FIRST_LINES):
            parsed = parse(line.body)
            records += parsed.records
            # The writer of a transcript may be in the middle of its first record.
            begun = not line.whole and line.body.lstrip().startswith(b"{")
            if not parsed.records and not begun:
                junk.append(line.body[:40] or line.fault.encode())
    found = junk[0].decode("utf-8", "replace") if junk else ""
    return Look(next(_sources(records), None), bool(records) or not junk, found)


def _sources(records: Iterable[dict[str, Any]]) -> Iterator[str]:
    for record in records:
        if isinstance(record.get("type"), str) and not _TRANSCRIPT.isdisjoint(record):
            yield claude_code.SOURCE
        elif not _ROW.isdisjoint(record):
            yield jsonl.SOURCE
