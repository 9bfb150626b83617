"""Bytes of segments that are no lines: nothing is left in them but what later lines chain from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from memplane import nofollow
from memplane.lazy import regex
from memplane.log.format import ERASED, SUFFIX_BYTES, erased_id, link, runs, stated, until
from memplane.log.segments import read_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memplane.log.disk import Disk
    from memplane.log.segments import Segments

__all__ = ["blank", "put_over"]

_SEQ: Final = regex(rb'\{"seq":(\d+),')


def blank(segments: Segments, disk: Disk, holes: Sequence[tuple[int, int, int]]) -> None:
    """Leave nothing but spaces in bytes of segments that are no lines of the log, durably.

    What has become a line since is left alone. What later lines need to be believed stays: where
    lines end, and the hashes they state; where a line chains from what the one before it should
    have stated, that is put there first, durably.
    """
    by_segment: dict[int, list[tuple[int, int]]] = {}
    for number, start, end in holes:
        by_segment.setdefault(number, []).append((start, end))
    for number, regions in by_segment.items():
        try:
            data = read_file(segments.path(number))
            nofollow.separate(segments.path(number))
            fd = nofollow.open_file(segments.path(number), os.O_RDWR)
        except FileNotFoundError:  # a segment that a salvage has moved away
            continue
        try:
            gaps = list(_no_lines(segments, number, data))
            for gap in gaps:
                said = _should_state(data, gap)
                if said is not None:
                    put_over(disk, fd, gap.end - 1 - SUFFIX_BYTES, b',"h":"%b"}' % said)
            disk.fdatasync(fd)
            data = read_file(segments.path(number))
            for start, end in regions:
                for gap in gaps:
                    at, behind = max(start, gap.start), min(end, gap.end)
                    if at < behind:
                        lines = data[at:behind].split(b"\n")
                        put_over(disk, fd, at, b"\n".join(map(_blanked, lines)))
            disk.fdatasync(fd)
        finally:
            os.close(fd)


def _blanked(line: bytes) -> bytes:
    if ERASED.fullmatch(line) is not None:
        return line
    return line[-SUFFIX_BYTES:].rjust(len(line)) if stated(line) else b" " * len(line)


class _Gap(NamedTuple):
    """Bytes of a segment in which no line of the log stands, and the hash of the line before."""

    start: int
    end: int
    h: bytes


def _no_lines(segments: Segments, number: int, data: bytes) -> Iterator[_Gap]:
    following = segments.after(number)
    after = None if following is None else segments.header(following)
    (seq, h), at = _followed(segments, number), 0
    for each in runs(data, 0, seq, h):
        run = each if after is None else until(each, after.prev_seq)
        if run.starts:
            if run.start > at:
                yield _Gap(at, run.start, h)
            at, h = run.end, run.h
    if at < len(data):
        yield _Gap(at, len(data), h)


def _followed(segments: Segments, number: int) -> tuple[int, bytes]:
    """The line that a segment follows: as its header says, or as the one before it ends."""
    header = segments.header(number)
    if header is not None:
        return header.prev_seq, header.prev_h
    before = [each for each in segments.numbers() if each < number]
    if not before:
        return 0, segments.genesis
    last = runs(read_file(segments.path(before[-1])), 0, *_followed(segments, before[-1]))[-1]
    return last.last, last.h


def _should_state(data: bytes, gap: _Gap) -> bytes | None:
    """What the last line of a gap has to state for the next one to chain; None where it does."""
    end = data.find(b"\n", gap.end)
    if end < 0 or data[gap.end - 1 : gap.end] != b"\n":
        return None
    h = gap.h
    *_, last = lines = data[gap.start : gap.end - 1].split(b"\n")
    for line in lines:
        h = link(h, line[:-SUFFIX_BYTES])
    behind = data[gap.end : end]
    if len(last) <= SUFFIX_BYTES or stated(last) == h:
        return None
    chains = link(h, behind[:-SUFFIX_BYTES]) == stated(behind)
    return h if chains or _erased_behind(behind, h) else None


def _erased_behind(raw: bytes, h: bytes) -> bool:
    match = _SEQ.match(raw)
    return match is not None and erased_id(raw, int(match[1]) - 1, h) is not None


def put_over(disk: Disk, fd: int, at: int, new: bytes) -> None:
    """Write bytes over others, all of them."""
    while new:
        written = disk.overwrite(fd, new, at)
        new, at = new[written:], at + written
