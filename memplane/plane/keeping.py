"""What `keep` of plane.yaml says is over: tool results of old sessions. It is told before it goes.

Only what tools gave back is taken, and only of sessions in which nothing was recorded for longer
than the days that are kept (or, for the bytes that are kept, than the gap that ends a session).
What a statement, an approval or a pin names stays, whatever its age, and so does every statement.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from memplane.intake import timestamp

if TYPE_CHECKING:
    from memplane.event import Event
    from memplane.plane.engine import Engine
    from memplane.plane.purge_plan import Progress

__all__ = ["Due", "due_of"]

_TOLD_EVERY: Final = 5_000  # events
_MB: Final = 1_000_000


class Due(NamedTuple):
    """What is over: seqs of tool results in log order, their bytes, and of how many sessions."""

    seqs: tuple[int, ...] = ()
    bytes: int = 0
    sessions: int = 0

    def __str__(self) -> str:
        results = "1 tool result" if len(self.seqs) == 1 else f"{len(self.seqs)} tool results"
        sessions = "1 old session" if self.sessions == 1 else f"{self.sessions} old sessions"
        return f"{results} of {sessions}, {self.bytes} bytes"


class _Session:
    __slots__ = ("last", "results", "size")

    def __init__(self) -> None:
        self.last = ""  # when something was recorded in it
        self.results: list[tuple[int, str, int]] = []  # seq, id, bytes
        self.size = 0


def due_of(engine: Engine, now: str, progress: Progress | None = None) -> Due:
    """Return what the policy in force lets go of as of a time. Hold the engine's lock."""
    policy = engine.watched.policies_or_last().plane
    if not policy.keep_days and not policy.keep_mb:
        return Due()
    sessions, named = _read(engine, progress)
    taken: set[str] = set()
    silent = sorted(sessions, key=lambda id_: (sessions[id_].last, id_))
    if policy.keep_days:
        before = _earlier(now, timedelta(days=policy.keep_days))
        taken.update(id_ for id_ in silent if sessions[id_].last < before)
    if policy.keep_mb:
        before = _earlier(now, timedelta(minutes=policy.session_gap_minutes))
        over = sum(one.size for one in sessions.values()) - policy.keep_mb * _MB
        over -= sum(sessions[id_].size for id_ in silent if id_ in taken)
        for id_ in silent:
            if over <= 0 or sessions[id_].last >= before:
                break
            if id_ not in taken:
                taken.add(id_)
                over -= sessions[id_].size
    gone = [
        (seq, size, session)
        for session in silent
        if session in taken
        for seq, id_, size in sessions[session].results
        if id_ not in named
    ]
    return Due(
        tuple(sorted(seq for seq, _, _ in gone)), sum(size for _, size, _ in gone),
        len({session for _, _, session in gone}),
    )  # fmt: skip


def _read(engine: Engine, progress: Progress | None) -> tuple[dict[str, _Session], set[str]]:
    """The sessions with what tools gave back in them, and the ids that something else names."""
    sessions: dict[str, _Session] = {}
    named: set[str] = set()
    head = engine.log.head().seq
    for line in engine.log.read():
        event = line.event
        if progress is not None and event.seq % _TOLD_EVERY == 0:
            progress(event.seq, head)
        if event.kind not in ("tool_call", "tool_result"):
            named.update(event.refs)
        if event.session is None:
            continue
        session = sessions.setdefault(event.session, _Session())
        session.last = max(session.last, event.rec)
        if event.kind == "tool_result":
            size = line.end - line.offset + _body(event)
            session.results.append((event.seq, event.id, size))
            session.size += size
    return sessions, named


def _body(event: Event) -> int:
    """The bytes of the event's text that lie beside the log."""
    body = event.data.get("body")
    size = body.get("bytes") if isinstance(body, dict) else None
    return size if isinstance(size, int) else 0


def _earlier(now: str, span: timedelta) -> str:
    try:
        return timestamp(datetime.fromisoformat(now) - span)
    except OverflowError:
        return ""
