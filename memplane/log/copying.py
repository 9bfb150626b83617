"""The log as bytes, piece by piece, for whoever carries it elsewhere: nothing is parsed or lost.

Read without the lock, up to one head: writers go on meanwhile.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from memplane.log.format import Run, runs, until
from memplane.log.segments import read_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memplane.log.segments import Segments
    from memplane.ports import Head

__all__ = ["Begun", "Damaged", "Lines", "Piece", "pieces"]

# A line that is being overwritten by a purge, or a write that is being taken back, is whole soon.
_LOOKS: Final = 4
_PAUSE_SECONDS: Final = 0.01


class Begun(NamedTuple):
    """A segment file begins here."""

    number: int


class Lines(NamedTuple):
    """Lines that chain without a break; `data` is theirs alone."""

    data: bytes
    run: Run


class Damaged(NamedTuple):
    """Bytes of a segment that no reader believes; none where a part of the log is missing."""

    data: bytes


Piece: TypeAlias = Begun | Lines | Damaged


def pieces(segments: Segments, head: Head) -> Iterator[Piece]:
    """Everything up to a head, in order; what lies behind the end of a sealed segment is left out.

    Holds one segment in memory. Between two `Lines` of a segment there is a `Damaged`.
    """
    seq, h, torn = 0, segments.genesis, False
    numbers = [each for each in segments.numbers(fresh=True) if each <= head.segment]
    for number, following in zip(numbers, [*numbers[1:], None], strict=False):
        header = segments.header(number)
        if not head.seq:  # nothing believed: a line that is here now came later
            if header is None:
                yield from (Begun(number), Damaged(read_file(segments.path(number))))
            continue
        if header is not None:
            if (header.prev_seq, header.prev_h) != (seq, h) and not torn:
                yield Damaged(b"")  # a segment is missing, or the one before has lost its end
            seq, h = header.prev_seq, header.prev_h
        yield Begun(number)
        for piece in _segment(segments, number, following, seq, h, head):
            yield piece
            torn = isinstance(piece, Damaged)
            if isinstance(piece, Lines):
                seq, h = piece.run.last, piece.run.h


def _segment(
    segments: Segments, number: int, following: int | None, seq: int, h: bytes, head: Head
) -> list[Piece]:  # fmt: skip
    """The pieces of one file, read again where something in it does not verify."""
    bound: int | None = head.seq
    if following is not None:
        header = segments.header(following)
        bound = None if header is None else header.prev_seq
    for look in range(_LOOKS):
        if look:
            time.sleep(_PAUSE_SECONDS)
        data = read_file(segments.path(number))
        found = _split(data, seq, h, bound)
        if not any(isinstance(piece, Damaged) for piece in found):
            break
    return found


def _split(data: bytes, seq: int, h: bytes, bound: int | None) -> list[Piece]:
    found: list[Piece] = []
    at = 0
    for each in runs(data, 0, seq, h):
        run = each if bound is None else until(each, bound)
        if not run.starts:
            continue
        if run.start > at or run.first > seq + 1:
            found.append(Damaged(data[at : run.start]))
        found.append(Lines(data[run.start : run.end], _moved(run, data)))
        at, seq = run.end, run.last
    if (bound is None and at < len(data)) or (bound is not None and seq < bound):
        found.append(Damaged(data[at:]))
    return found


def _moved(run: Run, data: bytes) -> Run:
    """The run as it stands in its own bytes. One that was cut still said the hash of its end."""
    starts = [start - run.start for start in run.starts]
    erased = frozenset(start - run.start for start in run.erased)
    return run._replace(
        start=0, end=run.end - run.start, starts=starts, h=data[run.end - 19 : run.end - 3],
        erased=erased.intersection(starts),
    )  # fmt: skip
