"""A log that stands still while one request is answered, whoever appends to it meanwhile."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memplane.ports import Head, Line
    from memplane.projections.projector import Replayable

__all__ = ["Standing"]


class Standing:
    """What is behind the head that `move` found does not exist until it is called again.

    So all that a request reads is one prefix of the log, also what is opened late or folded again.
    """

    def __init__(self, log: Replayable) -> None:
        self._log = log
        self._head: Head | None = None  # before the first move the log is as it is

    def move(self) -> None:
        """Go to where the log ends now."""
        self._head = self._log.head()

    @contextmanager
    def moving(self) -> Iterator[None]:
        """The log as it is now: for what is saved, which others may have saved further."""
        head, self._head = self._head, None
        try:
            yield
        finally:
            self._head = head

    def head(self) -> Head:
        return self._log.head() if self._head is None else self._head

    def matches(self, position: Head) -> bool:
        if self._head is not None and position.seq > self._head.seq:
            return False
        return self._log.matches(position)

    def read(self, after: int = 0, upto: int | None = None) -> Iterator[Line]:
        if self._head is None:
            return self._log.read(after, upto)
        return self._log.read(after, self._head.seq if upto is None else min(upto, self._head.seq))

    def read_from(self, position: Head) -> Iterator[Line]:
        lines = self._log.read_from(position)
        return lines if self._head is None else _until(lines, self._head.seq)


def _until(lines: Iterator[Line], last: int) -> Iterator[Line]:
    for line in lines:
        if line.event.seq > last:
            return
        yield line
