"""Erasing for good: the log's lines, and all that memplane made of them."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from memplane import nofollow
from memplane.errors import HomeError, InputError, LockError, WriteError
from memplane.event import SENSITIVITIES, Event, encode
from memplane.index.storage import alone, holder
from memplane.log.bodies import body_path
from memplane.log.writer import KEPT, clear
from memplane.plane.finding import finder_of
from memplane.plane.given import check_texts
from memplane.plane.purge_plan import Plan, Progress, Quote, plan_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from memplane.plane.engine import Engine
    from memplane.plane.lost import Already, Lost
    from memplane.plane.picking import Pick
    from memplane.ports import Appended

__all__ = ["PurgeReport", "purge"]

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
    quotes: tuple[Quote, ...]
    quoted: int
    revived: tuple[tuple[int, str], ...]
    approved: frozenset[int]
    lost: tuple[Lost, ...]
    already: tuple[Already, ...]
    repository: str | None
    dry_run: bool
    summaries: tuple[tuple[int, str], ...] = ()
    kept: int = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "events": [{"seq": seq, "id": id_} for seq, id_ in self.events],
            "cascaded": self.cascaded, "by": list(self.by), "bodies": self.bodies,
            "reports": self.reports, "quarantine": self.quarantine,
            "quotes": [quote._asdict() for quote in self.quotes], "quoted": self.quoted,
            "revived": [
                {"seq": seq, "id": id_, "approved": seq in self.approved}
                for seq, id_ in self.revived
            ],
            "lost": [one.as_json() for one in self.lost],
            "already_purged": [one._asdict() for one in self.already],
            "repository": self.repository, "dry_run": self.dry_run,
            "summaries": [{"seq": seq, "id": id_} for seq, id_ in self.summaries],
            "kept": self.kept,
        }  # fmt: skip


def purge(
    engine: Engine, named: dict[str, Any], ns: str, pick: Pick, reason: str, *, cascade: bool,
    summaries: bool, dry_run: bool, progress: Progress | None,
) -> PurgeReport:  # fmt: skip
    """Erase what is named everywhere below the home; see `Plane.purge`."""
    engine.check_open()
    check_texts(reason=reason)
    if not engine.keeps and not dry_run:
        raise HomeError(f"{engine.home.path}: is read-only; nothing was purged")
    with engine.lock:
        if not dry_run:  # what is torn or waits in the spool is part of the log first
            engine.log.append([])
        engine.caught_up()
        plan = plan_of(
            engine, named, ns, pick, cascade=cascade, summaries=summaries, progress=progress
        )
        if plan.summaries and not dry_run:
            raise _resting(plan.summaries)
        taken = plan.events or plan.lost
        done = _erase(engine, plan, reason) if taken and not dry_run else []
    return PurgeReport(
        tuple((event.seq, event.id) for event in plan.events), plan.cascaded,
        tuple(each.seq for each in done), len(plan.bodies), _count(plan, "reports/"),
        _count(plan, "log/"), tuple(plan.quotes), plan.quoted, plan.revived.events,
        plan.revived.approved, tuple(plan.lost), tuple(plan.already), _repository(engine), dry_run,
        tuple((event.seq, event.id) for event in plan.summaries), plan.kept,
    )  # fmt: skip


def _resting(summaries: list[Event]) -> InputError:
    """The refusal to leave a summary that has words of what is erased, or to take it unasked."""
    named = ", ".join(f"{event.seq} {event.id}" for event in summaries[:_NAMED_MAX])
    more = f" and {len(summaries) - _NAMED_MAX} more" if len(summaries) > _NAMED_MAX else ""
    return InputError(
        f"generated summaries rest on what is to be purged: {named}{more}; nothing was purged; "
        "--summaries (summaries=True) purges them too, --cascade all that quotes it"
    )


def _count(plan: Plan, folder: str) -> int:
    return sum(name.startswith(folder) for name in plan.files)


def _erase(engine: Engine, plan: Plan, reason: str) -> list[Appended]:
    """The log first, durably; then the files; then the caches, whoever holds them now."""
    log, home = engine.log, engine.home.path
    bodies = [os.path.relpath(body_path(os.fspath(home), one), home) for one in plan.bodies]
    files = [*plan.files, *bodies]
    draft = engine.drafting(internal=True)
    drafts = [draft(row, "") for row in _rows(engine, plan, reason)]
    done = log.erase(drafts, {event.seq: event.id for event in plan.events}, files, plan.holes)
    try:
        for name in plan.look(home).reports():  # saved meanwhile
            with suppress(FileNotFoundError):
                nofollow.remove(home / name, home=home)
        engine.forget_folds()
        _until(engine, "projections", lambda: _cleared(home, "projections"))
        engine.caught_up().save()
        _erase_from_index(engine, done[-1].seq)
    except OSError as error:
        raise WriteError(f"{error.filename or home}: {error.strerror}; {_LEFT}") from error
    log.erased(done)
    return done


def _rows(engine: Engine, plan: Plan, reason: str) -> list[dict[str, Any]]:
    slots = finder_of(engine).slots(engine.watched.policies_or_last())
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
        "kind": "purge", "text": reason, "sensitivity": sensitivity, "data": {"purge": said},
    }  # fmt: skip


def _some(lost: list[Lost]) -> Iterator[list[Lost]]:
    for at in range(0, len(lost), _LOST_AT_ONCE):
        yield lost[at : at + _LOST_AT_ONCE]


def _told(one: Lost) -> dict[str, Any]:
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
            clear(os.fspath(home), cache)
        return held


def _erase_from_index(engine: Engine, seq: int) -> None:
    """Leave nothing in the index's folder; where others hold it for too long, LockError."""
    folder = engine.home.path / "index"
    if all(name in KEPT for name in nofollow.names(folder)):
        return
    policies = engine.watched.policies_or_last()
    with suppress(OSError):
        if finder_of(engine).erased(policies, seq):
            return
    # An index of other rules, or of which another process keeps a part: made again when needed.
    finder_of(engine).drop()
    _until(engine, "index", lambda: _cleared(engine.home.path, "index"))


def _until(engine: Engine, name: str, tried: Callable[[], bool]) -> None:
    most = engine.watched.policies_or_last().plane.lock_wait_ms_max
    deadline = time.monotonic() + most / 1000
    while not tried():
        if time.monotonic() >= deadline:
            pid = holder(engine.home.path / name)
            who = "another process" if pid is None else f"process {pid}"
            raise LockError(
                f"{engine.home.path / name}: held by {who} for more than {most} ms; {_LEFT}",
                holder=pid,
            )
        time.sleep(_PAUSE_S)


def _repository(engine: Engine) -> str | None:
    home = engine.home.path.resolve()
    return next((str(one) for one in home.parents if (one / ".git").exists()), None)
