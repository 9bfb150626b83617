"""Record the rows of a hook in the log, or in the spool where the lock is held for too long.

The intake is that of `Plane.record`, without an open plane: what only folds and packs need is not
imported. Tokens are left uncounted; the first fold of a full process counts them.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from memplane import nofollow
from memplane.clock import ulid
from memplane.context.watched_files import watched
from memplane.errors import CorruptError, InputError, LockError, MemplaneError
from memplane.harness import remembered
from memplane.hook.payload import completed
from memplane.importers.decided import plan_proposed
from memplane.importers.rows import HOOK_TAG, name, short_text
from memplane.intake import Intake, Marker, Redactor, same
from memplane.intake.check import with_permitted_actor
from memplane.log import FileLog

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memplane.event import Draft, Event
    from memplane.home import Home
    from memplane.hook.payload import HookPayload
    from memplane.importers.rows import Row
    from memplane.plane import Plane
    from memplane.policy import Policies
    from memplane.ports import Clock


class HookLog:
    """The log of a plane, for rows that must not wait. `faults` gathers what was refused, in words.

    Raises HomeError where nothing may be written.
    """

    def __init__(self, home: Home, clock: Clock, overrides: Mapping[str, str]) -> None:
        keep = partial(bool, not home.read_only)
        self.policies: Policies = watched(home, keep, overrides).policies_or_last()
        privacy = self.policies.privacy
        self._intake = Intake(
            Redactor(privacy.redact_patterns, None),
            privacy.never_store_kinds,
            Marker(self.policies.scoring.markers),
        )
        self._clock = clock
        self._log = FileLog(
            home.folder,
            home.plane_id,
            clock=clock,
            same=self._same,
            lock_wait_ms_max=self.policies.plane.hooks.wait_ms,
            read_only=home.read_only,
            brief=True,
            outbox=home.shared is not None,
        )
        self.faults: list[str] = []
        self._ns: str | None = None
        self._entry: tuple[Mapping[str, Any], ...] = ()

    def enter(self, ns: str | None, rows: Sequence[Mapping[str, Any]]) -> None:
        """Record into a namespace from now on; `rows` go before the first event there."""
        self._ns, self._entry = ns, tuple(rows)

    def record(self, rows: Sequence[Row]) -> None:
        """Append the rows, or leave them to the spool; what cannot be taken is a fault, no error.

        They go in one piece; where one of them is refused, one by one.
        """
        never = self.policies.privacy.never_store_kinds  # as the owner wants it: no fault
        wanted = [row for row in rows if row["kind"] not in never]
        drafts = [draft for row in wanted if (draft := self._draft(row)) is not None]
        if not drafts:
            return
        entry, self._entry = self._entry, ()
        drafts = [*(self._own(row) for row in entry), *drafts]
        try:
            self._put(drafts)
        except InputError:
            raise
        except MemplaneError as error:
            if len(drafts) == 1:
                self.faults.append(str(error))
                return
            for draft in drafts:
                try:
                    self._put([draft])
                except MemplaneError as again:
                    self.faults.append(str(again))

    def mark(self, said: HookPayload) -> Sequence[Row]:
        """The rows that say that a session ended or went on, named by what the log has last."""
        return marked_rows(self._log, said)

    def complete(self, agent: str, said: HookPayload) -> Sequence[Row]:
        """The rows, with what they come to by what the log has of the session last."""
        if said.change is None and not said.replies:
            return said.rows  # nearly always
        log, events = self._log, []
        look = _LOOK_MAX if said.change is not None else _LOOK_FOR_REPLY
        with suppress(MemplaneError, OSError):  # whoever appends says what is wrong
            for line in log.read(max(log.head().seq - look, 0)):
                event = line.event
                if event.session == said.session and event.kind in ("message", "task"):
                    events.append(event._replace(text=log.text(event)))
        return completed(agent, said, map(remembered, events))

    def close(self) -> None:
        """Let go of the files."""
        with suppress(MemplaneError, OSError):
            self._log.close()

    def _put(self, drafts: list[Draft]) -> None:
        try:
            self._log.append(drafts)
        except LockError:
            self._log.spool(drafts)
        except CorruptError as error:
            # Beside the log it waits until that is repaired.
            self._log.waiting.put(drafts, self._clock())
            self.faults.append(str(error))

    def _draft(self, row: Row) -> Draft | None:
        try:
            row = with_permitted_actor(row)
            if self._ns is not None:
                row = {**row, "ns": self._ns}
            return self._intake.prepare(self._named(row), id=ulid(self._clock()))
        except InputError as error:
            self.faults.append(str(error))
            return None

    def _own(self, row: Mapping[str, Any]) -> Draft:
        return self._intake.prepare(row, id=ulid(self._clock()), internal=True)

    def _named(self, row: Row) -> Row:
        """The row without what the policy masks in its identifiers; an id like that is left out."""
        redactor = self._intake.redactor
        changed: Row = {
            field: redactor.name(row[field])
            for field in ("session", "actor")
            if field in row and redactor.in_name(row[field])
        }
        if "id" in row and redactor.in_name(row["id"]):
            changed["id"] = None
        return {**row, **changed} if changed else row

    def _same(self, event: Event, draft: Draft) -> bool:
        log = self._log
        return same(
            event,
            draft,
            self._intake.redactor,
            lambda: log.text(event),
            lambda: log.recalled(event),
        )


# Ends and continuations of a session, with ids made of the event before them.
#
# Clients report them without a number: the same payload means the same end given twice (by two
# installs, or again), or another end of a session that went on in between. The last event that the
# log has of the session distinguishes the two.

_LOOK_FOR_REPLY: Final = 200  # lines: what is answered was said just before, other sessions aside
_LOOK_MAX: Final = 1_000  # lines; who has been silent for longer is named by the very last one


def marked_rows(log: FileLog, said: HookPayload) -> Sequence[Row]:
    """The rows of a Told that `marks`; none where the log has the same from the same time."""
    [row] = said.rows
    with suppress(MemplaneError, OSError):  # whoever appends says what is wrong
        last = _last(log, said.session)
        if last is None:
            return said.rows
        status = last.data.get("status") if last.kind == "session" else None
        if last.session == said.session and status == row["data"]["status"]:
            return ()
        before = hashlib.sha256(last.id.encode()).hexdigest()[:16]
        return [{**row, "id": name(*said.marks, before)}]
    return said.rows


def _last(log: FileLog, session: str) -> Event | None:
    """The newest event of a session, but for what memplane itself says of it; else the newest."""
    found = newest = None
    for line in log.read(max(log.head().seq - _LOOK_MAX, 0)):
        newest = line.event
        if newest.session == session and newest.data.get("extract") is not True:
            found = newest
    return found or newest


# What Codex keeps from its hooks: a turn that ends with a plan ends without a last message there.

_TAIL_BYTES: Final = 256 * 1024  # of a transcript; the plan stands at its end


def with_proposed_plan(agent: str, said: Mapping[str, Any]) -> Mapping[str, Any]:
    """The payload of a stop, with the plan that Codex's transcript has of that turn as last words.

    The same where the payload has words, or the transcript no plan.
    """
    turn, path = short_text(said, "turn_id"), short_text(said, "transcript_path")
    silent = said.get("hook_event_name") == "Stop" and not said.get("last_assistant_message")
    if agent != "codex" or not silent or not turn or not path:
        return said
    for line in reversed(_tail(path)):
        if b"<proposed_plan>" in line and turn.encode() in line:
            with suppress(ValueError, RecursionError, KeyError, TypeError):
                item = json.loads(line)["payload"]
                text = "".join(part["text"] for part in item["content"])
                if item["role"] == "assistant" and plan_proposed(text):
                    return {**said, "last_assistant_message": text}
    return said


def _tail(path: str) -> list[bytes]:
    """The last lines of a file; none of what is no regular file."""
    try:
        fd = nofollow.open_file(path)
    except (OSError, MemplaneError, ValueError):
        return []
    try:
        size = os.fstat(fd).st_size
        return nofollow.pread(fd, _TAIL_BYTES, max(size - _TAIL_BYTES, 0)).splitlines()
    except OSError:
        return []
    finally:
        os.close(fd)


def catch_up_plane(plane: Plane) -> None:
    """Sum up the sessions that are over; bring projections and index up to the log, keep them.

    Agents run it (`memplane hook --catch-up`) when they have stopped, in the background where they
    can, so that the next answer finds what was recorded. If another process is doing it already,
    this one leaves it to that process; the hook's timer ends it like any other.
    """
    plane.upkeep.index()  # first: who runs this may end it after a second
    plane.work.sessions.sum_up(HOOK_TAG)
    plane.pack("", budget=1_000)
    with plane.context.lock:
        plane.context.save_all()
    plane.upkeep.index()
    plane.flush()
