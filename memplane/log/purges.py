"""What the purge events of a log say: which lines are erased, and by which event."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.event import NO_EVENT, decode
from memplane.log.segments import Segments, read_segment_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from memplane.event import Event

__all__ = ["Erased", "Purges", "erased_by"]

_KIND = b'"kind":"purge"'


class Erased(NamedTuple):
    """A line that a purge took: its seq and id, the event that says so, its documents once.

    `documents` is how many an index held of it: their places in an index stay.
    """

    seq: int
    id: str
    by: int
    documents: int


def erased_by(event: Event) -> Iterator[Erased]:
    """What a purge event says that it erased; nothing for what is not said as it should be."""
    said = event.data.get("purge") if event.kind == "purge" else None
    if not isinstance(said, dict):
        return
    columns = [said.get(name) for name in ("seqs", "ids", "documents")]
    if not all(isinstance(column, list) for column in columns):
        return
    for seq, id_, documents in zip(*columns, strict=False):
        if type(seq) is int and type(id_) is str and type(documents) is int:
            yield Erased(seq, id_, event.seq, min(max(documents, 0), _DOCUMENTS_MAX))


# More than the largest text comes to: what a line states may be anybody's.
_DOCUMENTS_MAX: Final = 500_000


class Purges:
    """Told of the purge events that were read anyway; looks for others when it is asked."""

    def __init__(self, segments: Segments, loads: Callable[[bytes], Any]) -> None:
        self._segments, self._loads = segments, loads
        self.known: dict[int, Erased] = {}  # by seq; never falls
        self._looked: dict[int, int] = {}  # segment -> bytes
        self._stood: tuple[int, int] = (0, 0)  # the newest segment and its size at the last look
        self._since = 0  # all purges of lines behind this seq were read by then

    def note(self, event: Event) -> None:
        """Take a purge event to knowledge."""
        for one in erased_by(event):
            self.known[one.seq] = one

    def of(self, seq: int) -> Erased | None:
        """What is known of an erased line; where nothing is, the log is searched behind it."""
        if seq not in self.known:
            self._look(seq)
        return self.known.get(seq)

    def all_of(self, seqs: Iterable[int]) -> bool:
        """Whether each of these lines is erased, as the log says."""
        return all(self.of(seq) is not None for seq in seqs)

    def between(self, first: int, last: int) -> list[Erased]:
        """What is known of the erased lines first..last, in order; the span may have any width."""
        if first > last:
            return []
        self._look(first)
        wide = last - first > len(self.known)
        seqs = sorted(self.known) if wide else range(first, last + 1)
        return [self.known[seq] for seq in seqs if first <= seq <= last and seq in self.known]

    def _look(self, seq: int) -> None:
        """Read the purge events of the segments that reach behind `seq`, each byte once."""
        numbers = self._segments.numbers(fresh=True)
        if not numbers:
            return
        stands = numbers[-1], file_size(self._segments.path(numbers[-1]))
        if stands == self._stood and self._since <= seq:
            return
        self._since = seq if stands != self._stood else min(seq, self._since)
        self._stood = stands
        for number, following in zip(numbers, [*numbers[1:], None], strict=False):
            header = None if following is None else self._segments.header(following)
            if header is None or header.prev_seq >= seq:
                try:
                    data = read_segment_file(
                        self._segments.path(number), self._looked.get(number, 0)
                    )
                except FileNotFoundError:
                    continue
                end = data.rfind(b"\n") + 1
                self._read(data[:end])
                self._looked[number] = self._looked.get(number, 0) + end

    def _read(self, data: bytes) -> None:
        at = data.find(_KIND)
        while at >= 0:
            end = data.find(b"\n", at)
            start = data.rfind(b"\n", 0, at) + 1
            with suppress(*NO_EVENT):  # a damaged line says nothing
                self.note(decode(self._loads(data[start:end])))
            at = data.find(_KIND, end)


def file_size(path: str) -> int:
    """The bytes of a file, 0 where it is gone."""
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0
