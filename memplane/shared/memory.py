"""A shared log in this process, for tests and for trying what followers do without a server."""

from __future__ import annotations

from threading import Condition
from typing import TYPE_CHECKING

from memplane.errors import ConflictError
from memplane.ports import SharedEntry
from memplane.shared.entries import STONE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memplane.ports import Clock


class MemorySharedLog:
    """The port `SharedLog` over a list. Threads may share one, each as a machine of its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: list[SharedEntry] = []
        self._notes: dict[str, bytes] = {}
        self._changed = Condition()

    def publish(
        self, entries: Sequence[tuple[str, bytes]], *, expected: int | None = None
    ) -> list[int]:
        """See `memplane.ports.SharedLog.publish`."""
        with self._changed:
            head = len(self._entries)
            if expected is not None and expected != head:
                raise ConflictError(
                    f"the shared log ends at position {head}, expected {expected}", id="", seq=head
                )
            now = self._clock()
            for place, (_, payload) in enumerate(entries, head + 1):
                self._entries.append(SharedEntry(place, now, payload))
            self._changed.notify_all()
            return list(range(head + 1, len(self._entries) + 1))

    def read(self, after: int, limit: int) -> list[SharedEntry]:
        """See `memplane.ports.SharedLog.read`."""
        with self._changed:
            return self._entries[max(after, 0) : max(after, 0) + limit]

    def wait(self, after: int, seconds: float) -> bool:
        """See `memplane.ports.SharedLog.wait`."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._entries) > after, seconds)

    def erase(self, stones: Mapping[int, bytes]) -> None:
        """See `memplane.ports.SharedLog.erase`."""
        with self._changed:
            for place, payload in stones.items():
                found = self._entries[place - 1]
                if not found.payload.startswith(STONE):
                    self._entries[place - 1] = found._replace(payload=payload)

    def head(self) -> int:
        """See `memplane.ports.SharedLog.head`."""
        return len(self._entries)

    def put_note(self, device: str, note: bytes) -> None:
        """See `memplane.ports.SharedLog.put_note`."""
        with self._changed:
            self._notes[device] = note

    def notes(self) -> dict[str, bytes]:
        """See `memplane.ports.SharedLog.notes`."""
        with self._changed:
            return dict(self._notes)

    def faults(self) -> list[str]:
        """See `memplane.ports.SharedLog.faults`."""
        return ["it lives in one process, and is gone with it"]

    def close(self) -> None:
        """Nothing is to be let go of; what is in it stays."""
