"""What hooks have recorded of a session: its transcript says the same again, under other ids.

A hook names a call by the client's id of it, and words by the client's id of the turn. By those its
transcript is known again, also where the words were purged; else by the words themselves. Words
differ where clients tell hooks less or more than they write down: several blocks of an answer as
one text, a summary without what stands around it, a note of their own as if a person had typed it.
A hook that was not told that a call failed is no reason to leave out the answer that says so.

A fork of a session holds a copy of it under its own name. What is older there than the session
itself is looked for in all sessions.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from memplane.importers.client_texts import compaction
from memplane.importers.rows import name
from memplane.log.purges import erased_by

if TYPE_CHECKING:
    from memplane.event import Event
    from memplane.importers.rows import Row
    from memplane.plane import Plane

__all__ = ["TAG", "Hooked"]

TAG: Final = "hook"
_CALLS: Final = {"tool_call": "call", "tool_result": "result"}  # what hooks' ids say of them
_ANY: Final = ""  # in place of a session: in whichever


class Hooked:
    """Asked for rows of one import, or again and again if it is told to `look` in between.

    Reads the log when it is first asked, and then what came behind.
    """

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._upto = -1  # the seq up to which the log was read
        self._known: set[tuple[str, str, str]] = set()
        self._answers: defaultdict[str, list[str]] = defaultdict(list)  # of several lines
        self._begun: dict[str, str] = {}  # session -> when a hook says that it began, else ""
        self._purged: set[str] = set()  # ids, and without their last parts
        self.ended: dict[str, str] = {}  # session -> when its client says that it ended

    def look(self) -> None:
        """Take in what hooks have recorded since it was last read."""
        log = self._plane._engine.log  # noqa: SLF001 - every event passes here: as it stands there
        for line in log.read(max(self._upto, 0)):
            event = line.event
            self._upto = event.seq
            if event.kind == "purge":
                for one in erased_by(event):
                    self._purged |= {one.id, one.id.rpartition(":")[0]}
            elif event.session is not None:
                self._take(event, event.session)
        self._upto = max(self._upto, 0)

    def was_there(self, session: str) -> bool:
        """Whether a hook was told of the session."""
        if self._upto < 0:
            self.look()
        return session in self._begun

    def holds(self, source: str, row: Row, turn: str = "") -> bool:
        """Whether the plane has it from a hook, or had it until it was purged."""
        session, kind = row.get("session"), str(row.get("kind"))
        if not isinstance(session, str) or kind == "session" or not self.was_there(session):
            return False
        if self._was_purged(source, session, row, turn):
            return True
        copied = str(row.get("ts", "")) < self._begun[session]
        return any(self._has(one, kind, row) for one in ((session, _ANY) if copied else (session,)))

    def _has(self, session: str, kind: str, row: Row) -> bool:
        data = row.get("data")
        call = _said(data, "call")
        if kind in _CALLS and call:
            return (session, _told(kind, data), call) in self._known
        text = self._plane.redacted(str(row.get("text", "")))
        if (session, _sort(kind, row.get("role")), _digest(kind, text)) in self._known:
            return True
        whole = f"\n{text.strip()}\n"
        return row.get("role") == "assistant" and any(
            whole in answer for answer in self._answers[session]
        )

    def _was_purged(self, source: str, session: str, row: Row, turn: str) -> bool:
        """Whether a call was, or words of a turn: then none of their sort comes back."""
        kind, call = str(row.get("kind")), _said(row.get("data"), "call")
        if not self._purged:
            return False
        if kind in _CALLS and call:
            return name(source, session, _CALLS[kind], call) in self._purged
        part = "compact" if kind == "summary" else "prompt"
        part = "said" if row.get("role") == "assistant" else part
        return bool(turn) and name(source, session, part, turn) in self._purged

    def _take(self, event: Event, session: str) -> None:
        status = _said(event.data, "status") if event.kind == "session" else ""
        if status == "end":
            self.ended[session] = max(event.ts, self.ended.get(session, ""))
        if TAG not in event.tags:
            return
        self._begun.setdefault(session, "")
        if event.kind == "session":
            if status == "start":
                self._begun[session] = event.ts
            return
        call = _said(event.data, "call")
        if event.kind in _CALLS and call:
            for where in (session, _ANY):
                self._known.add((where, event.kind, call))
                self._known.add((where, _told(event.kind, event.data), call))
            return
        text = self._plane.text(event)
        sort, digest = _sort(event.kind, event.role), _digest(event.kind, text)
        self._known |= {(session, sort, digest), (_ANY, sort, digest)}
        if event.role == "assistant" and "\n" in text:
            for where in (session, _ANY):
                self._answers[where].append(f"\n{text.strip()}\n")


def _sort(kind: str, role: object) -> str:
    """Hooks are not always told which words the client wrote itself."""
    return f"{kind} assistant" if role == "assistant" else kind


def _told(kind: str, data: Any) -> str:
    return f"{kind} failed" if _said(data, "status") == "error" else kind


def _said(data: Any, field: str) -> str:
    said = data.get(field) if isinstance(data, dict) else None
    return said if isinstance(said, str) else ""


def _digest(kind: str, text: str) -> str:
    if kind == "summary":
        text = " ".join(compaction(text).split())
    return hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).hexdigest()
