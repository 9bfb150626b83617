"""Purge: erase events for good, in the log and in everything that was made from them.

`due_of` finds what the `keep` of plane.yaml no longer keeps: results of tools, and only of sessions
in which nothing was recorded for the days that are kept (for the bytes that are kept: for the gap
that ends a session). Statements stay, and so does whatever a statement, an approval or a pin names,
whatever its age.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane import nofollow
from memplane.context.arguments import check_texts
from memplane.errors import HomeError, InputError, LockError, WriteError
from memplane.event import SENSITIVITIES, Event, encode
from memplane.index.storage import alone, holder
from memplane.intake import timestamp
from memplane.log.bodies import body_path
from memplane.log.writer import KEPT, clear_cache
from memplane.search.service import index_service
from memplane.upkeep.purge_plan import Progress, PurgePlan, QuotingEvent, plan_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from memplane.context.context import PlaneContext
    from memplane.event import Event
    from memplane.ports import Appended
    from memplane.upkeep.purge_effects import Already, LostBytes
    from memplane.upkeep.purge_plan import Progress
    from memplane.work.forget import Pick

__all__ = ["Due", "PurgeReport", "due_of", "purge_plane"]


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


def due_of(context: PlaneContext, now: str, progress: Progress | None = None) -> Due:
    """Return what the policy in force lets go of as of a time. Hold the plane's lock."""
    policy = context.watched.policies_or_last().plane
    if not policy.keep_days and not policy.keep_mb:
        return Due()
    sessions, named = _read(context, progress)
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
        tuple(sorted(seq for seq, _, _ in gone)),
        sum(size for _, size, _ in gone),
        len({session for _, _, session in gone}),
    )


def _read(context: PlaneContext, progress: Progress | None) -> tuple[dict[str, _Session], set[str]]:
    """The sessions with what tools gave back in them, and the ids that something else names."""
    sessions: dict[str, _Session] = {}
    named: set[str] = set()
    head = context.log.head().seq
    for line in context.log.read():
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


# Erasing for good: the log's lines, and all that memplane made of them.
_DATA_BYTES: Final = 48 * 1024  # of a purge event, whose data holds 64 KiB
_NUMBERS_BYTES: Final = 32  # seq, count of documents, commas
_LOST_AT_ONCE: Final = 4  # places of lost events, in a purge event
_LOST_IDS: Final = 16  # that it names, of each: an id has 128 characters at most
_NAMED_MAX: Final = 5  # summaries, in an error
_PAUSE_S: Final = 0.02
_LEFT: Final = (
    "what was purged is erased from the log; the next process that opens the plane for writing "
    "erases it from here too"
)


@dataclass(frozen=True, slots=True)
class PurgeReport:
    """What was erased, or would be by a dry run, and what still quotes it.

    `events` are (seq, id) in log order, `cascaded` how many of them were not named; `by` the seqs
    of the purge events. `reports` and `quarantine` count files that went as a whole. `quotes` are
    the first of `quoted`. `revived` are (seq, id) of what is in force again without them, and
    `approved` the seqs of artifacts among them that prompts may show again. `lost` are places of
    events that a repair had set aside, `already` those that were purged before.
    `repository`: the git working tree that the plane lies in, if any. `summaries` of a dry run are
    (seq, id) of generated ones that rest on the events: without a word on them nothing is purged.
    `kept` counts decisions and what else lasts that a description named and that stay.
    """

    events: tuple[tuple[int, str], ...]
    cascaded: int
    by: tuple[int, ...]
    bodies: int
    reports: int
    quarantine: int
    quotes: tuple[QuotingEvent, ...]
    quoted: int
    revived: tuple[tuple[int, str], ...]
    approved: frozenset[int]
    lost: tuple[LostBytes, ...]
    already: tuple[Already, ...]
    repository: str | None
    dry_run: bool
    summaries: tuple[tuple[int, str], ...] = ()
    kept: int = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "events": [{"seq": seq, "id": id_} for seq, id_ in self.events],
            "cascaded": self.cascaded,
            "by": list(self.by),
            "bodies": self.bodies,
            "reports": self.reports,
            "quarantine": self.quarantine,
            "quotes": [quote._asdict() for quote in self.quotes],
            "quoted": self.quoted,
            "revived": [
                {"seq": seq, "id": id_, "approved": seq in self.approved}
                for seq, id_ in self.revived
            ],
            "lost": [one.as_json() for one in self.lost],
            "already_purged": [one._asdict() for one in self.already],
            "repository": self.repository,
            "dry_run": self.dry_run,
            "summaries": [{"seq": seq, "id": id_} for seq, id_ in self.summaries],
            "kept": self.kept,
        }


def purge_plane(
    context: PlaneContext,
    named: dict[str, Any],
    ns: str,
    pick: Pick,
    reason: str,
    *,
    cascade: bool,
    summaries: bool,
    dry_run: bool,
    progress: Progress | None,
) -> PurgeReport:
    """Erase what is named everywhere below the home; see `Plane.purge`."""
    context.check_open()
    check_texts(reason=reason)
    if not context.keeps and not dry_run:
        raise HomeError(f"{context.home.path}: is read-only; nothing was purged")
    with context.lock:
        if not dry_run:  # what is torn or waits in the spool is part of the log first
            context.log.append([])
        context.caught_up()
        plan = plan_of(
            context, named, ns, pick, cascade=cascade, summaries=summaries, progress=progress
        )
        if plan.summaries and not dry_run:
            raise _resting(plan.summaries)
        taken = plan.events or plan.lost
        done = _erase(context, plan, reason) if taken and not dry_run else []
    return PurgeReport(
        tuple((event.seq, event.id) for event in plan.events),
        plan.cascaded,
        tuple(each.seq for each in done),
        len(plan.bodies),
        _count(plan, "reports/"),
        _count(plan, "log/"),
        tuple(plan.quotes),
        plan.quoted,
        plan.revived.events,
        plan.revived.approved,
        tuple(plan.lost),
        tuple(plan.already),
        _repository(context),
        dry_run,
        tuple((event.seq, event.id) for event in plan.summaries),
        plan.kept,
    )


def _resting(summaries: list[Event]) -> InputError:
    """The refusal to leave a summary that has words of what is erased, or to take it unasked."""
    named = ", ".join(f"{event.seq} {event.id}" for event in summaries[:_NAMED_MAX])
    more = f" and {len(summaries) - _NAMED_MAX} more" if len(summaries) > _NAMED_MAX else ""
    return InputError(
        f"generated summaries rest on what is to be purged: {named}{more}; nothing was purged; "
        "--summaries (summaries=True) purges them too, --cascade all that quotes it"
    )


def _count(plan: PurgePlan, folder: str) -> int:
    return sum(name.startswith(folder) for name in plan.files)


def _erase(context: PlaneContext, plan: PurgePlan, reason: str) -> list[Appended]:
    """The log first, durably; then the files; then the caches, whoever holds them now."""
    log, home = context.log, context.home.path
    bodies = [os.path.relpath(body_path(os.fspath(home), one), home) for one in plan.bodies]
    files = [*plan.files, *bodies]
    draft = context.drafting(internal=True)
    drafts = [draft(row, "") for row in _rows(context, plan, reason)]
    done = log.erase(drafts, {event.seq: event.id for event in plan.events}, files, plan.holes)
    try:
        for name in plan.look(home).reports():  # saved meanwhile
            with suppress(FileNotFoundError):
                nofollow.remove_name(home / name, home=home)
        context.forget_folds()
        _until(context, "projections", lambda: _cleared(home, "projections"))
        context.caught_up().save()
        _erase_from_index(context, done[-1].seq)
    except OSError as error:
        raise WriteError(f"{error.filename or home}: {error.strerror}; {_LEFT}") from error
    log.erased(done)
    return done


def _rows(context: PlaneContext, plan: PurgePlan, reason: str) -> list[dict[str, Any]]:
    slots = index_service(context).slots(context.watched.policies_or_last())
    rows = []
    for events in _portions(plan.events):
        said: dict[str, Any] = {
            "seqs": [event.seq for event in events],
            "ids": [event.id for event in events],
            "documents": [slots(event) for event in events],
        }
        # Their ids stand in it: it is for whoever might have seen the most hidden of them.
        hidden = max((event.sensitivity for event in events), key=SENSITIVITIES.index)
        rows.append(_row(reason, hidden, said))
    # What was lost had a sensitivity that nobody knows any more.
    for some in _some(plan.lost):
        said = {"seqs": [], "ids": [], "documents": [], "lost": [_told(one) for one in some]}
        rows.append(_row(reason, SENSITIVITIES[-1], said))
    return rows


def _row(reason: str, sensitivity: str, said: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "purge",
        "text": reason,
        "sensitivity": sensitivity,
        "data": {"purge": said},
    }


def _some(lost: list[LostBytes]) -> Iterator[list[LostBytes]]:
    for at in range(0, len(lost), _LOST_AT_ONCE):
        yield lost[at : at + _LOST_AT_ONCE]


def _told(one: LostBytes) -> dict[str, Any]:
    """What a purge event says of a place where events were lost: enough to tell a repeat."""
    said = one.as_json()
    return {**said, "ids": said["ids"][:_LOST_IDS], "files": len(one.files), "named": ""}


def _portions(events: list[Event]) -> Iterator[list[Event]]:
    """The events by what a purge event has room for."""
    portion: list[Event] = []
    size = 0
    for event in events:
        size += len(encode({"": event.id})) + _NUMBERS_BYTES
        if portion and size > _DATA_BYTES:
            yield portion
            portion, size = [], len(encode({"": event.id})) + _NUMBERS_BYTES
        portion.append(event)
    if portion:
        yield portion


def _cleared(home: Path, cache: str) -> bool:
    with alone(home / cache) as held:
        if held:
            clear_cache(os.fspath(home), cache)
        return held


def _erase_from_index(context: PlaneContext, seq: int) -> None:
    """Leave nothing in the index's folder; where others hold it for too long, LockError."""
    folder = context.home.path / "index"
    if all(name in KEPT for name in nofollow.folder_names(folder)):
        return
    policies = context.watched.policies_or_last()
    with suppress(OSError):
        if index_service(context).erased(policies, seq):
            return
    # An index of other rules, or of which another process keeps a part: made again when needed.
    index_service(context).drop()
    _until(context, "index", lambda: _cleared(context.home.path, "index"))


def _until(context: PlaneContext, name: str, tried: Callable[[], bool]) -> None:
    most = context.watched.policies_or_last().plane.lock_wait_ms_max
    deadline = time.monotonic() + most / 1000
    while not tried():
        if time.monotonic() >= deadline:
            pid = holder(context.home.path / name)
            who = "another process" if pid is None else f"process {pid}"
            raise LockError(
                f"{context.home.path / name}: held by {who} for more than {most} ms; {_LEFT}",
                holder=pid,
            )
        time.sleep(_PAUSE_S)


def _repository(context: PlaneContext) -> str | None:
    home = context.home.path.resolve()
    return next((str(one) for one in home.parents if (one / ".git").exists()), None)
