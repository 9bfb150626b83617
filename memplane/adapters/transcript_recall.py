"""What recall gets of transcripts as they are stored: the events that an import would make of them.

Hooks may be told of the same session (the SDK's client runs those of the user's settings). What
they have recorded is left out. They hear of a call when it was answered and of an answer when it
was given, perhaps after its entry is stored: so what an agent said waits, in such a session, until
the transcript goes on behind it or the store is closed.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from memplane.importers.claude_code import SOURCE, ClaudeCode
from memplane.importers.hooked import Hooked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from memplane.adapters.transcript_index import Place
    from memplane.importers.rows import Row
    from memplane.plane.plane import Plane

__all__ = ["Recall"]

_TRANSCRIPTS_MAX: Final = 256  # of which the open calls are remembered, and what waits


class Recall:
    """Asked for each entry in the order of the transcript; `look` before those of one append."""

    def __init__(self, plane: Plane) -> None:
        self._hooked = Hooked(plane)
        self._states: OrderedDict[Place, dict[str, Any]] = OrderedDict()
        self._waiting: dict[Place, list[Row]] = {}

    def look(self) -> None:
        """Take in what hooks have recorded since."""
        self._hooked.look()

    def reader(self, place: Place) -> ClaudeCode:
        """A reader that goes on where the last one of the transcript was left; see `leave`."""
        reader = ClaudeCode()
        reader.begin(self._states.pop(place, {}))
        return reader

    def leave(self, place: Place, reader: ClaudeCode) -> list[Row]:
        """Keep what a transcript's next reader needs; the rows that can wait no longer."""
        self._states[place] = reader.state()
        if len(self._states) <= _TRANSCRIPTS_MAX:
            return []
        oldest, _ = self._states.popitem(last=False)
        return list(self._settled(oldest))

    def rows(self, place: Place, reader: ClaudeCode, entry: Mapping[str, Any]) -> Iterator[Row]:
        """The rows of an entry, and of those before it that have waited for it."""
        rows = reader.read(dict(entry), json.dumps(entry).encode()).rows
        if entry.get("type") == "user":  # the agent was answered, so hooks have heard what it said
            yield from self._settled(place)
        for row in rows:
            session = row.get("session")
            if not isinstance(session, str) or not self._hooked.was_there(session):
                yield row
            elif self._hooked.holds(SOURCE, row):
                continue
            elif row.get("role") == "assistant":
                self._waiting.setdefault(place, []).append(row)
            else:
                yield row

    def settled(self) -> list[Row]:
        """What waits of all transcripts, as far as no hook has recorded it."""
        return [row for place in list(self._waiting) for row in self._settled(place)]

    def drop(self, place: Place) -> None:
        """Forget what waits of a transcript; of a main one, of its sub-agents' too."""
        for one in list(self._waiting):
            if one[:2] == place[:2] and place.branch in ("", one.branch):
                del self._waiting[one]

    def _settled(self, place: Place) -> Iterator[Row]:
        for row in self._waiting.pop(place, ()):
            if not self._hooked.holds(SOURCE, row):
                yield row
