"""How sessions end: the summary of each, the rows that say so, and the write that stores them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.event import Event
from memplane.plane.writing import Receipt
from memplane.projections.sessions import SessionFacts, session_facts
from memplane.recall.extract import EVENTS_MIN, extract, readable
from memplane.recall.suppress import kinds_of_views

if TYPE_CHECKING:
    from memplane.plane.engine import Engine
    from memplane.plane.folds import Folds
    from memplane.policy import Policies

__all__ = ["Ended", "NameEnd", "Rows", "end_all", "marked", "minutes_before", "write"]

Rows = list[dict[str, Any]]
# The id of what is added behind a session's last event: of its name, a word and that event's id.
NameEnd = Callable[[str, str, str], str]

_SESSIONS_AT_ONCE: Final = 32  # whose events are held at once, and who end in one write


class Ended(NamedTuple):
    """What ending a session came to. `already`: it had ended before, and nothing was written."""

    session: str
    reason: str | None
    already: bool = False
    summary: Receipt | None = None

    def as_json(self) -> dict[str, Any]:
        summary = None if self.summary is None else self.summary.as_json()
        return {**self._asdict(), "summary": summary}


def marked(session: str, status: str, text: str, **data: str | None) -> dict[str, Any]:
    """The row of a `session` event; what is None is left out."""
    told = {"status": status, **{name: value for name, value in data.items() if value is not None}}
    return {"kind": "session", "session": session, "text": text, "data": told}


def minutes_before(now: str, minutes: int) -> str:
    """The time so many minutes ago, in the log's form."""
    moment = datetime.fromisoformat(now) - timedelta(minutes=minutes)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def end_all(
    engine: Engine, folds: Folds, policies: Policies, sessions: Sequence[SessionFacts],
    reason: str, *, summary: bool = True, name: NameEnd | None = None,
) -> list[Ended]:  # fmt: skip
    """End sessions, each with the summary of what happened in it. Hold the engine's lock.

    An importer's ends are dated to the last event of the session; the others are of now.
    """
    lost = [facts.id for facts in sessions if facts.partial]
    whole = session_facts(folds.log, lost, engine.counter(policies)) if lost else {}
    sessions = [whole.get(facts.id, facts) for facts in sessions]
    ended = []
    for start in range(0, len(sessions), _SESSIONS_AT_ONCE):
        group = sessions[start : start + _SESSIONS_AT_ONCE]
        sources = _sources(engine, folds, policies, group) if summary else {}
        made = []
        for facts in group:
            rows = _summed(engine, policies, facts, sources.get(facts.id, []))
            agent = {} if facts.agent is None else {"actor": facts.agent}
            rows.append({**marked(facts.id, "end", "Session ended", reason=reason), **agent})
            _identify(rows, facts, name or _name)
            if name is not None:
                rows = [{"ts": facts.last_ts, **row} for row in rows]
            made.append(rows)
        receipts = iter(write(engine, [row for rows in made for row in rows]))
        for facts, rows in zip(group, made, strict=True):
            said = {row["kind"]: next(receipts) for row in rows}
            ended.append(Ended(facts.id, reason, summary=said.get("summary")))
    return ended


def write(engine: Engine, rows: Rows) -> list[Receipt]:
    """Record events of memplane's own, all of them or none."""
    draft = engine.drafting(internal=True)
    done = engine.append([draft(row, "") for row in rows])
    return [Receipt(one, engine.durability, engine.log.line) for one in done]


def _sources(
    engine: Engine, folds: Folds, policies: Policies, sessions: Iterable[SessionFacts]
) -> dict[str, list[Event]]:
    """The events that a summary may quote, by session.

    No kind that some channel may not see: of a summary a channel knows only the sensitivity.
    """
    rules = [policies.privacy.rule(channel) for channel in policies.privacy.rules]
    views = [kind for rule in rules for kind in kinds_of_views(rule.suppress_views)]
    withheld = frozenset((*views, *(kind for rule in rules for kind in rule.suppress_kinds)))
    enough = [facts for facts in sessions if facts.events >= EVENTS_MIN]
    found: dict[str, list[Event]] = {facts.id: [] for facts in enough}
    if not enough:
        return found
    first = min(facts.first_seq for facts in enough)
    last = max(facts.last_seq for facts in enough)
    now, archived = engine.clock(), folds.memories.archived
    for line in folds.log.read(first - 1, last):
        event = line.event
        mine = None if event.session is None else found.get(event.session)
        if (
            mine is not None
            and event.kind not in withheld
            and readable(event, now)
            and archived(event) is None
        ):
            # What a tool said is not quoted, and may be a megabyte.
            mine.append(event._replace(text="") if event.kind == "tool_result" else event)
    return found


def _summed(engine: Engine, policies: Policies, facts: SessionFacts, sources: list[Event]) -> Rows:
    """The summary's row, and one that forgets the last summary if it is in another namespace."""
    made = extract(
        sources, counter=engine.counter(policies),
        tokens_max=policies.plane.session_summary_tokens_max, redact=engine.redact(policies),
    )  # fmt: skip
    if made is None:
        return []
    row = {
        "kind": "summary", "role": "system", "session": facts.id, "ns": made.ns,
        "key": f"session/{facts.id}/summary", "text": made.text, "refs": list(made.refs),
        "sensitivity": made.sensitivity, "data": {"extract": True},
    }  # fmt: skip
    last = engine.log.line(facts.summary) if facts.summary else None
    if last is None or last.event.ns == made.ns:
        return [row]
    # Of two namespaces, none supersedes the other.
    why = "A newer summary of the session is in another namespace"
    return [{"kind": "forget", "text": why, "data": {"forget": {"ids": [last.event.id]}}}, row]


def _identify(rows: Rows, facts: SessionFacts, name: NameEnd) -> None:
    """Two processes that end the same session at once write the same events, which are one."""
    for row in rows:
        if row["kind"] != "forget":
            word = "end" if row["kind"] == "session" else "summary"
            row["id"] = name(facts.id, word, facts.last_id)


def _name(session: str, word: str, last: str) -> str:
    digest = hashlib.sha256(f"{session}\n{last}".encode()).hexdigest()[:32]
    return f"session:{word}:{digest}"
