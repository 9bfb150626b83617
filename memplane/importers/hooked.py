"""What hooks have recorded of a session: its transcript says the same again, under other ids.

A hook names a call by the client's id of it; what people and agents said has no id that both know,
so it is known again by its text. A session is looked at only if a hook says that it was there.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import MemplaneError
from memplane.importers.rows import name

if TYPE_CHECKING:
    from memplane.importers.rows import Row
    from memplane.plane import Plane

__all__ = ["ANCHORS", "TAG", "Hooked"]

TAG: Final = "hook"
# The ends of ids under which a hook records that a session began, or went on, with it.
ANCHORS: Final = ("start", "resumed")
_CALLS: Final = frozenset({"tool_call", "tool_result"})


class Hooked:
    """Asked for rows of one import. Reads the log once, if any session of it was told by a hook."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._sessions: dict[str, bool] = {}
        self._known: set[tuple[str, str, str]] | None = None

    def holds(self, source: str, row: Row) -> bool:
        """Whether the plane has it from a hook."""
        session, kind = row.get("session"), row.get("kind")
        if not isinstance(session, str) or kind == "session":
            return False
        if session not in self._sessions:
            self._sessions[session] = self._was_there(source, session)
        if not self._sessions[session]:
            return False
        if self._known is None:
            self._known = self._gathered()
        call = _call(row.get("data"))
        if kind in _CALLS and call:
            return (session, str(kind), call) in self._known
        text = self._plane.redacted(str(row.get("text", "")))
        return (session, f"{kind} {row.get('role')}", _digest(text)) in self._known

    def _was_there(self, source: str, session: str) -> bool:
        for anchor in ANCHORS:
            try:
                event = self._plane.event(name(source, session, anchor))
            except MemplaneError:
                continue
            if TAG in event.tags:
                return True
        return False

    def _gathered(self) -> set[tuple[str, str, str]]:
        found: set[tuple[str, str, str]] = set()
        for event in self._plane.events():
            if TAG not in event.tags or event.session is None:
                continue
            call = _call(event.data)
            if event.kind in _CALLS and call:
                found.add((event.session, event.kind, call))
            else:
                text = _digest(self._plane.text(event))
                found.add((event.session, f"{event.kind} {event.role}", text))
        return found


def _call(data: Any) -> str:
    call = data.get("call") if isinstance(data, dict) else None
    return call if isinstance(call, str) else ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).hexdigest()
