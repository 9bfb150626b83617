"""The lines that this process wrote last, so that folding them reads no file."""

from __future__ import annotations

from typing import NamedTuple

from memplane.ports import Head

__all__ = ["Kept", "Tail"]

# A reader further behind than this reads the segment: it is cheaper than keeping more.
_LINES_MAX = 1024
_BYTES_MAX = 4 * 1024 * 1024


class Kept(NamedTuple):
    """One line: where it ends, where the one before it ended, and its bytes."""

    before: Head
    after: Head
    raw: bytes


class Tail:
    """An unbroken run of own lines at the end of one segment. Written under the log's lock only."""

    __slots__ = ("_bytes", "_kept")

    def __init__(self) -> None:
        self._kept: list[Kept] = []
        self._bytes = 0

    def add(self, before: Head, after: Head, raw: bytes) -> None:
        """Keep a line that was just written; one that does not continue the run begins another."""
        kept = self._kept
        if (
            not kept
            or kept[-1].after != before
            or len(kept) >= _LINES_MAX
            or self._bytes > _BYTES_MAX
        ):
            # A new list: a thread that reads the old one goes on undisturbed.
            kept = self._kept = []
            self._bytes = 0
        kept.append(Kept(before, after, raw))
        self._bytes += len(raw)

    def behind(self, position: Head) -> list[Kept] | None:
        """The lines behind a position, None where the run does not reach back to it."""
        kept = self._kept
        if not kept:
            return None
        at = position.seq - kept[0].before.seq
        if at == len(kept):
            return [] if kept[-1].after == position else None
        return kept[at:] if 0 <= at < len(kept) and kept[at].before == position else None

    def ends_at(self) -> Head | None:
        """Behind the last line of the run."""
        kept = self._kept
        return kept[-1].after if kept else None
