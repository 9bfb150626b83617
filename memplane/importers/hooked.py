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

from memplane.importers.client_texts import HOOK_TAG, compaction
from memplane.importers.rows import name
from memplane.intake.check import is_checksum
from memplane.log.bodies import recalled_hashes
from memplane.log.purges import erased_by
from memplane.plane.ending import minutes_before

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memplane.event import Event
    from memplane.importers.rows import Row
    from memplane.plane import Plane

__all__ = ["Hooked"]

_QUOTED: Final = b'"%b"' % HOOK_TAG.encode()
_DIGITS: Final = 8  # of a digest of words, behind the turn in the id that a hook gives them
_CALLS: Final = {"tool_call": "call", "tool_result": "result"}  # what hooks' ids say of them
_RUNNING_MINUTES: Final = 10
_ANY: Final = ""  # in place of a session: in whichever


class Hooked:
    """Asked for rows of one import, or again and again if it is told to `look` in between.

    Reads the log when it is first asked, and then what came behind.
    """

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._upto = -1  # the seq up to which the log was read
        self._known: set[tuple[str, str, str]] = set()
        # Of several lines, and the blocks that were moved out of each.
        self._answers: defaultdict[str, list[tuple[str, frozenset[str]]]] = defaultdict(list)
        self._begun: dict[str, str] = {}  # session -> when a hook says that it began, else ""
        # Ids; those of turns; of words in whichever turn; of words and calls in whichever session.
        self._purged: set[str] = set()
        self._last: dict[str, str] = {}  # session that runs -> when a hook last recorded something
        self.ended: dict[str, str] = {}  # session -> when it was said to end

    def look(self) -> None:
        """Take in what hooks have recorded since it was last read."""
        log = self._plane._engine.log  # noqa: SLF001 - every event passes here: as it stands there
        if self._upto < 0:
            head = log.head().seq
            if not log.says(_QUOTED):  # most planes have no hooks
                self._upto = head
                return
        for line in log.read(max(self._upto, 0)):
            event = line.event
            self._upto = event.seq
            if event.kind == "purge":
                for one in erased_by(event):
                    turn, _, last = one.id.rpartition(":")
                    self._purged |= {
                        one.id,
                        turn,
                        f"{turn.rpartition(':')[0]}::{last}",
                        f"::{last}",
                    }
            elif event.session is not None:
                self._take(event, event.session)
        self._upto = max(self._upto, 0)

    def was_there(self, session: str) -> bool:
        """Whether a hook was told of the session."""
        if self._upto < 0:
            self.look()
        return session in self._begun

    def running(self) -> bool:
        """Whether hooks were just told of any session."""
        if self._upto < 0:
            self.look()
        return any(last > self._since() for last in self._last.values())

    def may_be_told(self, source: str, row: Row, turn: str = "") -> bool:
        """Whether a hook may yet record it: an agent said it just now, in a session that runs."""
        if row.get("role") != "assistant" or self.holds(source, row, turn):
            return False
        last = min(self._last.get(str(row.get("session")), ""), str(row.get("ts", "")))
        return last > self._since()

    def holds(self, source: str, row: Row, turn: str = "") -> bool:
        """Whether the plane has it from a hook, or had it until it was purged."""
        session, kind = row.get("session"), str(row.get("kind"))
        if not isinstance(session, str) or kind == "session" or not self.was_there(session):
            return False
        copied = str(row.get("ts", "")) < self._begun[session]
        if self._purged and self._was_purged(source, session, row, turn, copied=copied):
            return True
        return any(self._has(one, kind, row) for one in ((session, _ANY) if copied else (session,)))

    def _since(self) -> str:
        engine = self._plane._engine  # noqa: SLF001 - as above
        return minutes_before(engine.clock(), _RUNNING_MINUTES)

    def _has(self, session: str, kind: str, row: Row) -> bool:
        data = row.get("data")
        call = _said(data, "call")
        if kind in _CALLS and call:
            return (session, _told(kind, data), call) in self._known
        engine = self._plane._engine  # noqa: SLF001 - as below
        said = engine.intake(engine.watched.policies_or_last()).said(row)
        sort = _sort(kind, row.get("role"))
        for text, recalled in {(said.text, said.recalled), said.before}:
            if (session, sort, _digest(kind, text, recalled)) in self._known:
                return True
        whole, blocks = f"\n{said.text.strip()}\n", set(said.recalled)
        return row.get("role") == "assistant" and any(
            whole in answer and blocks <= its for answer, its in self._answers.get(session, ())
        )

    def _was_purged(
        self, source: str, session: str, row: Row, turn: str, *, copied: bool
    ) -> bool:  # fmt: skip
        """Whether a call was, or words of a turn: then none of their sort comes back.

        Transcripts of older clients name no turn, copies one of their own; then these very words
        do not.
        """
        kind, call = str(row.get("kind")), _said(row.get("data"), "call")
        if kind in _CALLS and call:
            part, last = _CALLS[kind], call
            named = {name(source, session, part, call)}
        else:
            part = "compact" if kind == "summary" else "prompt"
            part = "said" if row.get("role") == "assistant" else part
            text = str(row.get("text", ""))
            last = _hash(compaction(text) if kind == "summary" else text)[:_DIGITS]
            named = {f"{name(source, session, part)}::{last}"}
            named |= {name(source, session, part, turn)} if turn else set()
        named |= {f"::{last}"} if copied else set()
        return not named.isdisjoint(self._purged)

    def _take(self, event: Event, session: str) -> None:
        status = _said(event.data, "status") if event.kind == "session" else ""
        if status == "end":  # by whomever
            self.ended[session] = max(event.ts, self.ended.get(session, ""))
            self._last.pop(session, None)
        if HOOK_TAG not in event.tags:
            return
        self._begun.setdefault(session, "")
        self._last[session] = event.rec
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
        text, recalled = self._plane.text(event), _recalled(event)
        sort, digest = _sort(event.kind, event.role), _digest(event.kind, text, recalled)
        self._known |= {(session, sort, digest), (_ANY, sort, digest)}
        if event.role == "assistant" and "\n" in text:
            self._answers[session].append((f"\n{text.strip()}\n", frozenset(recalled)))


def _sort(kind: str, role: object) -> str:
    """Hooks are not always told which words the client wrote itself."""
    return f"{kind} assistant" if role == "assistant" else kind


def _told(kind: str, data: Any) -> str:
    return f"{kind} failed" if _said(data, "status") == "error" else kind


def _said(data: Any, field: str) -> str:
    said = data.get(field) if isinstance(data, dict) else None
    return said if isinstance(said, str) else ""


def _recalled(event: Event) -> tuple[str, ...]:
    """The blocks that were moved out of the event's text: their SHA-256, or as it was earlier."""
    named = event.data.get("recalled")
    checksums = [one for one in named if is_checksum(one)] if isinstance(named, list) else []
    return tuple(recalled_hashes(event) or checksums)


def _digest(kind: str, text: str, recalled: Sequence[str]) -> str:
    digest = _hash(" ".join(compaction(text).split()) if kind == "summary" else text)
    return _hash("\n".join([digest, *recalled])) if recalled else digest


def _hash(text: str) -> str:
    return hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).hexdigest()
