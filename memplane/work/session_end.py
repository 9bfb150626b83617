"""End sessions: the summary of each, the rows that record the end, and their write.

What was read holds for what is written: the write is made at the log head that was read, or nothing
is stored and everything is read again. So no summary quotes an event that was forgotten before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.context.receipts import Receipt
from memplane.errors import ConflictError
from memplane.event import GLOBAL, SENSITIVITIES, Event, at_least
from memplane.harness import typed_once
from memplane.intake.skeleton import with_permitted_actor
from memplane.projections.sessions import SessionFacts, session_facts
from memplane.recall.session_summary import EVENTS_MIN, extract, is_readable
from memplane.recall.suppress import kinds_of_views

if TYPE_CHECKING:
    from memplane.context.context import PlaneContext
    from memplane.context.folds import Folds
    from memplane.policy import Policies

__all__ = [
    "REASONS",
    "Choose",
    "Ended",
    "NameEnd",
    "Rows",
    "bounds_of",
    "end_all",
    "minutes_before",
    "session_row",
    "write",
]


# Why memplane says that a session ended; clients have words of their own.
REASONS: Final = frozenset(("explicit", "importer", "gap", "abandoned"))
Rows = list[dict[str, Any]]
# The id of what is added behind a session's last event: of its name, a word and that event's id.
NameEnd = Callable[[str, str, str], str]
# The sessions to end, as the projections of now show them.
Choose = Callable[["Folds"], Sequence[SessionFacts]]

_SESSIONS_AT_ONCE: Final = 32  # whose events are held at once, and who end in one write
_TRIES: Final = 5  # to write before somebody else does; then sessions end without a summary


class Ended(NamedTuple):
    """What ending a session came to. `already`: it had ended before, and nothing was written."""

    session: str
    reason: str | None
    already: bool = False
    summary: Receipt | None = None

    def as_json(self) -> dict[str, Any]:
        summary = None if self.summary is None else self.summary.as_json()
        return {**self._asdict(), "summary": summary}


def session_row(session: str, status: str, text: str, **data: str | None) -> dict[str, Any]:
    """The row of a `session` event; what is None is left out."""
    told = {"status": status, **{name: value for name, value in data.items() if value is not None}}
    return {"kind": "session", "session": session, "text": text, "data": told}


def bounds_of(context: PlaneContext, facts: SessionFacts) -> dict[str, str]:
    """The namespace and sensitivity of what memplane says of a session itself.

    Its name is for those who may see something of what happened in it. `/global`, but for one that
    happened in agents' own namespaces alone, which stays where it began; as sensitive as the least
    sensitive of its events, and `normal` at least.
    """
    shared = [level for _, level, ns in facts.origins if not ns.startswith("/agent/")]
    levels = shared or [level for _, level, _ in facts.origins] or ["normal"]
    level = max(min(levels, key=SENSITIVITIES.index), "normal", key=SENSITIVITIES.index)
    line = None if shared or not facts.origins else context.log.line(facts.first_seq)
    return {"sensitivity": level, "ns": GLOBAL if line is None else line.event.ns}


def minutes_before(now: str, minutes: int) -> str:
    """The time so many minutes ago, in the log's form."""
    moment = datetime.fromisoformat(now) - timedelta(minutes=minutes)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def end_all(
    context: PlaneContext,
    policies: Policies,
    choose: Choose,
    reason: str,
    *,
    summary: bool = True,
    name: NameEnd | None = None,
) -> list[Ended]:
    """End sessions, each with the summary of what happened in it. Hold the plane's lock.

    One that its client has ended gets its summary alone. An importer's ends are dated to the last
    event of the session; the others are of now.
    """
    ended: list[Ended] = []
    left = _TRIES
    context.take_in_waiting()
    while True:
        folds = context.caught_up(policies)
        at = folds.memories.position
        seq = at.seq if at is not None else 0
        sessions = _whole(context, folds, policies, choose(folds))
        try:
            for start in range(0, len(sessions), _SESSIONS_AT_ONCE):
                group = sessions[start : start + _SESSIONS_AT_ONCE]
                sources = _sources(context, folds, policies, group) if summary and left else {}
                made = [
                    _rows_of(context, policies, facts, sources.get(facts.id, []), reason, name)
                    for facts in group
                ]
                rows = [row for each in made for row in each]
                receipts = write(context, rows, expected_seq=seq if left else None)
                seq += len(rows)
                ended += _told(group, made, receipts, reason)
                left = _TRIES
        except ConflictError:
            if not left:
                raise
            left -= 1
        else:
            return ended


def write(context: PlaneContext, rows: Rows, *, expected_seq: int | None = None) -> list[Receipt]:
    """Record events of memplane's own, all of them or none; ConflictError as the log's append."""
    draft = context.drafting(internal=True)
    rows = [with_permitted_actor(row) for row in rows]  # of older events
    done = context.append([draft(row, "") for row in rows], expected_seq=expected_seq)
    return [Receipt(one, context.durability, context.log.line) for one in done]


def _whole(
    context: PlaneContext, folds: Folds, policies: Policies, sessions: Sequence[SessionFacts]
) -> list[SessionFacts]:
    lost = [facts.id for facts in sessions if facts.partial]
    counter, state = context.counter(policies), folds.sessions.state
    whole = session_facts(folds.log, state, lost, counter) if lost else {}
    return [whole.get(facts.id, facts) for facts in sessions]


def _rows_of(
    context: PlaneContext,
    policies: Policies,
    facts: SessionFacts,
    sources: list[Event],
    reason: str,
    name: NameEnd | None,
) -> Rows:
    """The rows that end a session."""
    rows = _summed(context, policies, facts, sources)
    if not facts.ended:
        agent = {"actor": facts.agent} if _may_be_named(context, facts) else {}
        ended = session_row(facts.id, "end", "Session ended", reason=reason)
        rows.append({**ended, **bounds_of(context, facts), **agent})
    _identify(rows, facts, name or _name)
    return rows if name is None else [{"ts": facts.last_ts, **row} for row in rows]


def _may_be_named(context: PlaneContext, facts: SessionFacts) -> bool:
    """Whether anybody may read who the agent is: the end of a session is for all."""
    line = context.log.line(facts.agent_seq) if facts.agent is not None else None
    return (
        line is not None
        and line.event.sensitivity in ("low", "normal")
        and not line.event.ns.startswith("/agent/")
    )


def _told(
    sessions: Sequence[SessionFacts], made: Sequence[Rows], receipts: Sequence[Receipt], reason: str
) -> Iterator[Ended]:
    each = iter(receipts)
    for facts, rows in zip(sessions, made, strict=True):
        said = {row["kind"]: next(each) for row in rows}
        yield Ended(facts.id, reason, summary=said.get("summary"))


def _sources(
    context: PlaneContext, folds: Folds, policies: Policies, sessions: Iterable[SessionFacts]
) -> dict[str, list[Event]]:
    """The events that a summary may quote, by session, in the order in which they happened.

    An import may have added some behind those that a hook recorded. No kind that some channel may
    not see: of a summary a channel knows only the sensitivity.
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
    now, archived = context.clock(), folds.memories.archived
    for event in typed_once(line.event for line in folds.log.read(first - 1, last)):
        mine = None if event.session is None else found.get(event.session)
        if (
            mine is not None
            and event.kind not in withheld
            and is_readable(event, now)
            and archived(event) is None
        ):
            # What a tool said is not quoted, and may be a megabyte.
            mine.append(event._replace(text="") if event.kind == "tool_result" else event)
    for events in found.values():
        events.sort(key=lambda event: (event.ts, event.seq))
    return found


def _summed(
    context: PlaneContext, policies: Policies, facts: SessionFacts, sources: list[Event]
) -> Rows:
    """The summary's row, and one that forgets the last summary if it is in another namespace."""
    made = extract(
        sources,
        counter=context.counter(policies),
        tokens_max=policies.plane.session_summary_tokens_max,
        redact=context.redact(policies),
    )
    if made is None:
        return []
    row = {
        "kind": "summary",
        "role": "system",
        "session": facts.id,
        "ns": made.ns,
        "key": f"session/{facts.id}/summary",
        "text": made.text,
        "refs": list(made.refs),
        "sensitivity": made.sensitivity,
        "data": {"extract": True},
    }
    # Somebody may have said since, under the same key, how sensitive it is.
    value = context.caught_up(policies).memories.current(made.ns, f"session/{facts.id}/summary")
    row |= {} if value is None else at_least(value.sensitivity, row)
    last = context.log.line(facts.summary) if facts.summary else None
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
