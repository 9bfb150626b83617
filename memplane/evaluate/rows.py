"""Rows of data sets as they are read, with every mistake named by file and line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

from memplane.errors import InputError
from memplane.importers.records import parse_records, read_lines

__all__ = ["LISTED", "DataRow", "Mistakes", "checked_file", "read_label", "read_rows"]

_SHOWN: Final = 60


LISTED: Final = 20  # mistakes that are named


class DataRow(NamedTuple):
    """One object of a file, with the number of its line and the line itself."""

    line: int
    record: dict[str, Any]
    body: bytes


class Mistakes:
    """Collects what is wrong with the files of a set, so that one run names all of it."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def add(self, path: Path, line: int, key: str, message: str) -> None:
        """Note one mistake; `key` "" blames the line as a whole."""
        self._found.append(f"{path}:{line}: {f'{key}: ' if key else ''}{message}")

    def settle(self) -> None:
        """Raise InputError with the first 20 of them, if there are any."""
        if self._found:
            more = len(self._found) - LISTED
            tail = [f"and {more} more"] if more > 0 else []
            raise InputError("\n".join([*self._found[:LISTED], *tail]))


def checked_file(path: Path, where: str) -> Path:
    """Give the path back if it is a file; else InputError that names the option."""
    if not path.is_file():
        found = "it is a folder" if path.is_dir() else "no such file"
        raise InputError(f"{path}: expected a file of JSON lines; {found}", where=where)
    return path


def read_rows(path: Path, mistakes: Mistakes) -> Iterator[DataRow]:
    """Yield the objects of a .jsonl or .jsonl.gz file; blank lines are passed over."""
    with closing(read_lines(path)) as lines:
        for line in lines:
            if line.fault:
                mistakes.add(path, line.number, "", f"{line.fault}: nothing can be read here")
                continue
            if not line.body.strip():
                continue
            records, broken = parse_records(line.body)
            if broken or len(records) != 1:
                start = line.body[:_SHOWN].decode("utf-8", "replace")
                mistakes.add(path, line.number, "", f"expected one JSON object, found {start!r}")
                continue
            yield DataRow(line.number, records[0], line.body)


def read_label(row: DataRow, key: str, path: Path, mistakes: Mistakes) -> str:
    """Read an identifier, a text or a whole number; "" where it is missing, which is a mistake."""
    value = row.record.get(key)
    if type(value) is int:
        return str(value)
    if isinstance(value, str) and value:
        return value
    found = "nothing" if key not in row.record else f"{value!r:.60}"
    mistakes.add(path, row.line, key, f"expected a name, found {found}")
    return ""
