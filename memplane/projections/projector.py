"""What a projection is: a named, versioned fold over the log.

The law that every projector keeps: fold the log in any number of pieces, dumping
and loading the state between them, and the bytes of the last dump are the same.
So a checkpoint and the lines behind it always equal a rebuild.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol, TypeVar

from memplane.ports import Head, Line

__all__ = ["Projector", "Replayable", "State", "Stretch", "canonical", "fold"]

State = TypeVar("State")
_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_USUAL: Final = frozenset(("message", "tool_call", "tool_result"))  # nine of ten events


class Projector(Protocol[State]):
    """A named fold: the same lines give the same state on any machine.

    Raise `version` whenever `apply` or the form of the state changes; checkpoints
    of another version are discarded and the log is replayed. `apply` reads no
    clock, no file and no environment, and never raises for what a line says.
    One with a frozenset `kinds_read` does nothing for events without a key of other kinds.
    """

    name: str
    version: int

    def initial(self) -> State:
        """Return the state before the first line."""
        ...

    def apply(self, state: State, line: Line) -> None:
        """Fold one line into the state, in place. Lines come once each, in log order."""
        ...

    def dump(self, state: State) -> bytes:
        """Return the state as canonical JSON: the same state, the same bytes."""
        ...

    def load(self, data: bytes) -> State:
        """Return the state that was dumped; other bytes: ValueError, TypeError or LookupError."""
        ...


class Replayable(Protocol):
    """What a fold needs of a log: to read on from a place, and to know it is still the same."""

    def head(self) -> Head:
        """Where the log ends now; opens no file when nothing was appended."""
        ...

    def matches(self, position: Head) -> bool:
        """Whether the log still holds this hash right before this byte of this segment."""
        ...

    def read(self, after: int = 0, upto: int | None = None) -> Iterator[Line]:
        """Yield the verified lines with after < seq <= upto, in order."""
        ...

    def read_from(self, position: Head) -> Iterator[Line]:
        """Yield the verified lines behind a position that matches."""
        ...


class Stretch(list[Line]):
    """Lines that many projectors fold: those that most of them pass over are told apart once."""

    __slots__ = ("_rare",)

    def __init__(self, lines: Iterator[Line] | Sequence[Line]) -> None:
        super().__init__(lines)
        self._rare: list[Line] | None = None

    @property
    def rare(self) -> list[Line]:
        """Those with a key, and those that are neither a message nor a tool's."""
        if self._rare is None:
            self._rare = [
                line for line in self if line.event.kind not in _USUAL or line.event.key is not None
            ]
        return self._rare


def fold(projector: Projector[State], state: State, lines: Sequence[Line]) -> None:
    """Apply the lines in order; what the projector would do nothing for is not shown to it."""
    apply = projector.apply
    read: frozenset[str] | None = getattr(projector, "kinds_read", None)
    if read is None:
        for line in lines:
            apply(state, line)
        return
    shown = lines.rare if isinstance(lines, Stretch) and read.isdisjoint(_USUAL) else lines
    for line in shown:
        event = line.event
        if event.key is not None or event.kind in read:
            apply(state, line)


def canonical(value: Any) -> bytes:
    """JSON without spaces, in the order given, as UTF-8.

    A lone surrogate survives the way out and back: intake replaces them, but a
    projection must not fail on a log that something else wrote.
    """
    return _ENCODE(value).encode("utf-8", "surrogatepass")
