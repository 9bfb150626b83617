"""Which generated summaries quote an event: what is forgotten must not live on in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memplane.projections.sessions import is_extract

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memplane.event import Event
    from memplane.log import FileLog
    from memplane.plane.folds import Folds

__all__ = ["summaries_of", "summaries_quoting"]


def summaries_quoting(
    log: FileLog, folds: Folds, field: str, value: str, ns: str, *, undo: bool
) -> list[str]:
    """Return the ids of the summaries that are to be forgotten with what is named, or to come back.

    A summary quotes events of its own session alone, so a session takes its own along by name,
    as a source does those of its importer. One comes back if nothing else that it quotes is
    forgotten.
    """
    return summaries_of(log, folds, _named(log, folds, field, value, ns, undo=undo), undo=undo)


def summaries_of(
    log: FileLog, folds: Folds, events: Iterable[Event], *, undo: bool
) -> list[str]:  # fmt: skip
    """The same for events that are at hand."""
    named: dict[str, set[str]] = {}  # by session
    for event in events:
        if event.session is not None:
            named.setdefault(event.session, set()).add(event.id)
    return [
        summary.id
        for session, ids in named.items()
        for summary in _summaries(log, folds, session, undo=undo)
        if not ids.isdisjoint(summary.refs)
        and not (undo and _quotes_more(log, folds, summary, ids))
    ]


def _named(
    log: FileLog, folds: Folds, field: str, value: str, ns: str, *, undo: bool
) -> Iterator[Event]:
    if field == "id":
        line = log.find(value)
        if line is not None:
            yield line.event
    elif field == "key":
        versions = folds.memories.history(ns, value)
        for row in versions[-1:] if undo else versions:
            line = log.line(row.seq)
            if line is not None:
                yield line.event
    elif field == "source":
        for line in log.read():
            if line.event.id.startswith(f"{value}:"):
                yield line.event


def _summaries(log: FileLog, folds: Folds, session: str, *, undo: bool) -> Iterator[Event]:
    """The session's summaries in force; of those that may come back, the newest."""
    if undo:
        facts = folds.sessions.state.sessions.get(session)
        seqs = [facts.summary] if facts is not None and facts.summary else []
    else:
        key = f"session/{session}/summary"
        seqs = [row.seq for row in folds.memories.keys(key, None) if row.key == key]
    for seq in seqs:
        line = log.line(seq)
        if line is not None and is_extract(line.event):
            yield line.event


def _quotes_more(log: FileLog, folds: Folds, summary: Event, ids: set[str]) -> bool:
    """Whether something else that the summary quotes is forgotten."""
    for ref in summary.refs:
        line = None if ref in ids else log.find(ref)
        gone = None if line is None else folds.memories.archived(line.event)
        if gone is not None and gone[0] == "forgotten":
            return True
    return False
