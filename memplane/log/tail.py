"""The lines that this process wrote last, so that folding them reads no file."""

from __future__ import annotations

from typing import NamedTuple

from memplane.ports import Head

__all__ = ["Kept", "Tail"]

# A reader further behind than this reads the segment: it is cheaper than keeping more.
_LINES_MAX = 256
_BYTES_MAX = 4 * 1024 * 1024


class Kept(NamedTuple):
    """One line: its first byte in the segment, the byte behind it, and its bytes."""

    start: int
    end: int
    raw: bytes


class _Chain(NamedTuple):
    """Lines without a gap behind `before`; `ends[n]` is the byte behind `lines[n]`."""

    before: Head
    lines: list[bytes]
    ends: list[int]


class Tail:
    """An unbroken run of own lines at the end of one segment. Written under the log's lock only."""

    __slots__ = ("_chain",)

    def __init__(self) -> None:
        self._chain: _Chain | None = None

    def add(self, segment: int, start: int, seq: int, h: bytes, lines: list[bytes]) -> None:
        """Keep what was just written at byte `start` behind (seq, h), if only to begin anew."""
        chain = self._chain
        if (
            chain is None
            or chain.ends[-1] != start
            or chain.before.segment != segment
            or chain.lines[-1][-19:-3] != h
            or len(chain.ends) >= _LINES_MAX
            or start - chain.before.offset > _BYTES_MAX
        ):
            chain = _Chain(Head(seq, h.decode(), segment, start), [], [])
        ends, end = chain.ends, start
        for line in lines:
            end += len(line)
            chain.lines.append(line)
            ends.append(end)  # last: a thread that reads meanwhile counts these
        # One that is full stays as it is: a thread that reads it goes on undisturbed.
        self._chain = chain

    def behind(self, position: Head) -> list[Kept] | None:
        """The lines behind a position, None where the run does not reach back to it."""
        chain = self._chain
        if chain is None:
            return None
        before, lines, ends = chain
        count, at = len(ends), position.seq - before.seq
        if not 0 <= at <= count or position != _after(chain, at):
            return None
        starts = [before.offset, *ends][at:count]
        return [
            Kept(start, end, line)
            for start, end, line in zip(starts, ends[at:count], lines[at:count], strict=True)
        ]

    def ends_at(self) -> Head | None:
        """Behind the last line of the run."""
        chain = self._chain
        return None if chain is None else _after(chain, len(chain.ends))


def _after(chain: _Chain, count: int) -> Head:
    """The position behind so many of its lines."""
    before = chain.before
    if not count:
        return before
    # The hash stands at a fixed place before the closing of each line.
    h = chain.lines[count - 1][-19:-3].decode()
    return Head(before.seq + count, h, before.segment, chain.ends[count - 1])
