"""What was read by key a moment ago: it is read again and again, the same until more is folded."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from memplane.ports import Head, Line
    from memplane.projections.chains import Row
    from memplane.projections.memories import Memories

__all__ = ["Recent"]

_KEPT: Final = 2_048
_LINE_BYTES: Final = 16_384  # a longer one is read again


class Recent:
    """The values and lines asked for last, of one engine. One thread at a time.

    Values are those of one prefix of the log, which its head names. A line never changes once it is
    written; should the log be cut and go on, a row of it has another id or another place.
    """

    def __init__(self, read: Callable[[int], Line | None]) -> None:
        self._read = read
        self._lines: OrderedDict[tuple[int, str, int, int], Line] = OrderedDict()
        self._at: Head | None = None
        self._rows: dict[tuple[str, str], Row | None] = {}

    def current(self, memories: Memories, ns: str, key: str, upto: int | None) -> Row | None:
        """Return the value in force as `Memories.current` does; `upto` is always the same."""
        at = memories.position
        if at != self._at or len(self._rows) >= _KEPT:
            self._at, self._rows = at, {}
        place = ns, key
        if place not in self._rows:
            self._rows[place] = memories.current(ns, key, upto=upto)
        return self._rows[place]

    def line(self, row: Row) -> Line | None:
        """Return the line of a row, if it is there and verifies."""
        key = (row.seq, row.id, row.segment, row.offset)
        found = self._lines.get(key)
        if found is not None:
            self._lines.move_to_end(key)
            return found
        found = self._read(row.seq)
        if found is not None and found.end - found.offset <= _LINE_BYTES:
            self._lines[key] = found
            if len(self._lines) > _KEPT:
                self._lines.popitem(last=False)
        return found
