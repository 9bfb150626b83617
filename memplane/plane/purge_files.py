"""Where else below a plane's home an event's text may stand: what goes with it, what is told."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memplane import nofollow
from memplane.lazy import regex
from memplane.plane.lost import content, has_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memplane.plane.quotations import Quotations

__all__ = ["Look"]

_WRITTEN: Final = ("views", "policies", "scenarios")  # by people: told of, never touched
_FILE_BYTES_MAX: Final = 64 * 1024 * 1024
_CACHES: Final = ("projections", "index")  # made again, or rewritten, after a purge
_LEFT: Final = (".new", ".tmp")  # of a file that was being written when somebody died
_PID: Final = regex(r"\.(\d+)(?:\.\d+)?\.(?:new|tmp)$")


class Look:
    """A look at the files of a home for these texts and ids.

    `marks`: what lines say that go with them, whatever their text. `named`: the hashes of files in
    bodies/ that other events need; what they quote is told with the events.
    """

    def __init__(
        self, home: Path, quotations: Quotations, ids: set[str], marks: Iterable[str],
        named: set[str],
    ) -> None:  # fmt: skip
        self._home, self._ids, self._named = home, ids, named
        self._quotations, self._marks = quotations, tuple(marks)

    def reports(self) -> list[str]:
        """The reports that name one of the events or have a text."""
        return [
            self._name(path)
            for path in _files_in(self._home, "reports")
            if path.suffix == ".json"
            and (names(text := content(path), self._ids) or self._quotes(text))
        ]

    def to_remove(self) -> list[str]:
        """Files that go as a whole: reports, what repairs set aside, what nothing names."""
        found = self.reports()
        for path in _files_in(self._home, "log/quarantine"):
            text = content(path)
            if has_id(text, self._ids) or self._marked(text) or self._quotes(text):
                found.append(self._name(path))
        found += [self._name(path) for path in self._orphans() if self._quotes(content(path))]
        return found

    def to_tell(self) -> Iterator[tuple[str, str]]:
        """Files of people that have a text, and those into which nobody could look."""
        removed = set(self._orphans())
        for path in self._files():
            name = self._name(path)
            top = name.split("/", maxsplit=1)[0]
            aside = name.startswith("log/quarantine/")
            own = not aside and top in (*_CACHES, "log", "bodies", "reports")
            if own or path in removed:
                continue
            size = path.lstat().st_size
            if size > _FILE_BYTES_MAX:
                yield name, "unread"
            elif not aside and self._quotes(content(path)):
                yield name, "text"

    def _orphans(self) -> Iterator[Path]:
        """Snapshots and bodies that no event needs, and what a dead process left half written."""
        for path in self._files():
            name = self._name(path)
            if path.suffix in _LEFT:
                if not _is_written(path) and name.split("/")[0] not in _CACHES:
                    yield path
            elif name.startswith("bodies/") and path.parent.name + path.name not in self._named:
                yield path

    def _files(self) -> Iterator[Path]:
        return map(Path, sorted(nofollow.walk(self._home)))

    def _name(self, path: Path) -> str:
        return path.relative_to(self._home).as_posix()

    def _marked(self, text: str) -> bool:
        return any(mark in text for mark in self._marks)

    def _quotes(self, text: str) -> bool:
        return self._quotations.in_file(text)


def _is_written(path: Path) -> bool:
    """Whether the process that began the file may still be writing it."""
    match = _PID.search(path.name)
    if match is None:
        return False
    try:
        os.kill(int(match[1]), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _files_in(home: Path, folder: str) -> list[Path]:
    return [home / folder / name for name in nofollow.files(home / folder, home)]


def names(report: str, ids: set[str]) -> bool:
    """Whether a report names one of the events, wherever: as entry, omission, prompt, query."""
    try:
        said: list[Any] = [json.loads(report)]
    except (ValueError, RecursionError):
        return False
    while said:
        one = said.pop()
        if isinstance(one, str):
            if one in ids:
                return True
        elif isinstance(one, dict):
            said += one.values()
        elif isinstance(one, list):
            said += one
    return False
