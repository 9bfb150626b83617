"""The bytes of segments that are no lines of the log: erased ones, and what damage left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memplane import nofollow
from memplane.plane.lost import has_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from memplane.plane.quotations import Quotations
    from memplane.ports import Line

__all__ = ["Holes"]

Hole = tuple[int, int, int]  # a segment, the first byte, the end


class Holes:
    """Shown all lines of the log in order, tells where in its segments none is.

    What is written meanwhile may be taken for a hole: who fills one looks again under the lock.
    """

    def __init__(self, home: Path) -> None:
        self._folder = home / "log"
        self._found: list[Hole] = []
        self._seen: set[int] = set()
        self._segment = self._end = 0

    def see(self, line: Line) -> None:
        """Take the next line to knowledge."""
        if line.segment != self._segment:
            self._close()
            self._segment, self._end = line.segment, 0
            self._seen.add(line.segment)
        if line.offset > self._end:
            self._found.append((self._segment, self._end, line.offset))
        self._end = line.end

    def with_any(
        self, ids: set[str], marks: Collection[str], quotations: Quotations
    ) -> Iterator[Hole]:
        """Those that hold a line with one of these ids or marks, or one of the texts."""
        # Behind the last line others may be writing; what is torn there was set aside before.
        for hole in (*self._found, *self._without_lines()):
            text = self._read(hole)
            if has_id(text, ids) or any(mark in text for mark in marks) or quotations.in_file(text):
                yield hole

    def _close(self) -> None:
        if self._segment:
            self._found += self._behind(self._segment, self._end)

    def _without_lines(self) -> Iterator[Hole]:
        """Segments of nothing but damage."""
        for name in nofollow.files(self._folder):
            stem = name.removesuffix(".jsonl")
            number = int(stem) if stem != name and stem.isdecimal() else 0
            if 0 < number < self._segment and number not in self._seen:
                yield from self._behind(number, 0)

    def _behind(self, number: int, start: int) -> list[Hole]:
        size = (self._folder / f"{number:08d}.jsonl").lstat().st_size
        return [(number, start, size)] if size > start else []

    def _read(self, hole: Hole) -> str:
        number, start, end = hole
        with nofollow.opened(self._folder / f"{number:08d}.jsonl") as file:
            file.seek(start)
            return file.read(end - start).decode(errors="replace")
