"""`repair`: make the log writable again, and say what that cost."""

# Paths are strings here: pathlib costs more than the append it would serve.
# ruff: noqa: PTH119
from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

from memplane.errors import CorruptError, WriteError
from memplane.log.disk import Disk
from memplane.log.log import FileLog
from memplane.log.recovery import keep_aside, repair_draft
from memplane.log.segments import Segments, read_file
from memplane.log.survey import survey

if TYPE_CHECKING:
    from pathlib import Path

    from memplane.event import Event
    from memplane.log.survey import Survey, Trouble
    from memplane.log.writer import Writer
    from memplane.ports import Clock

__all__ = ["RepairReport", "repair"]


class RepairReport(NamedTuple):
    """The `repair` events that this repair wrote; none if there was nothing to do."""

    events: tuple[Event, ...]


def repair(
    home: Path,
    plane_id: str,
    *,
    clock: Clock,
    salvage: bool = False,
    lock_wait_ms_max: int = 5000,
    disk: Disk | None = None,
) -> RepairReport:
    """Set aside what was never acknowledged; with `salvage`, record what is lost of what was.

    Damaged bytes of durable lines are copied to quarantine and stay where they are:
    a sealed segment never changes. Raises CorruptError where only `salvage` helps.
    """
    root = os.fspath(home)
    if not Segments(f"{root}/log", plane_id).numbers():
        return RepairReport(())  # nothing was ever recorded, and a repair is no reason to begin
    log = FileLog(home, plane_id, clock=clock, lock_wait_ms_max=lock_wait_ms_max, disk=disk)
    with log:
        before = {line.event.id for line in log.read() if line.event.kind == "repair"}
        with log.exclusive() as writer:
            found = survey(root, Segments(f"{root}/log", plane_id), json.loads)
            bad = [each for each in found.troubles if each.case == "corrupt"]
            if bad and not salvage:
                raise _refusal(writer.segments, bad[0])
            if bad:
                _salvage(writer, found)
        log.append([])
        done = [line.event for line in log.read() if line.event.kind == "repair"]
    return RepairReport(tuple(event for event in done if event.id not in before))


def _salvage(writer: Writer, found: Survey) -> None:
    """Copy all damage to quarantine; begin a segment that says so behind the last line."""
    segments, disk = writer.segments, writer.disk
    last = found.last._replace(rec=max(found.last.rec, writer.clock()))
    drafts = []
    try:
        for number, offset, end, _, _ in (each.gap for each in found.troubles):
            data = read_file(segments.path(number))[offset:end]
            kept = keep_aside(segments, disk, number, offset, data) if data else ""
            drafts.append(repair_draft("salvaged", number, offset, len(data), kept, last))
        writer.leave(found.newest, last, drafts)
    except OSError as error:
        raise WriteError(f"{segments.folder}: {error.strerror}; nothing was changed") from error


def _refusal(segments: Segments, trouble: Trouble) -> CorruptError:
    path = segments.path(trouble.gap.segment)
    return CorruptError(
        f"{path}: byte {trouble.gap.offset}: {trouble.what}; "
        "`memplane repair --salvage` keeps all that verifies, records the gap and goes on",
        segment=os.path.basename(path),
        offset=trouble.gap.offset,
        seq=trouble.gap.first - 1,
    )
