"""`repair`: make the log writable again, and report what was lost."""

# Paths are strings here: pathlib costs more than the append it would serve.
# ruff: noqa: PTH119
from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from memplane import nofollow
from memplane.errors import CorruptError, WriteError
from memplane.lazy import NamedTuple
from memplane.log.disk import drop
from memplane.log.log import FileLog
from memplane.log.segments import (
    Segments,
    keep_aside,
    read_segment_file,
    repair_draft,
    stray,
    stray_draft,
    watermark_of,
)
from memplane.log.spool import spooled
from memplane.log.verifying import (
    EndEvidence,
    Trouble,
    ended_draft,
    lost_end,
    named_segments,
    scan_log,
    tells,
)
from memplane.log.writer import CACHES, blank_bytes, clear_cache, overwrite

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from memplane.event import Draft, Event
    from memplane.log.disk import Disk
    from memplane.log.segments import Point
    from memplane.log.verifying import LogScan
    from memplane.log.writer import Writer
    from memplane.ports import Clock

# What is no segment may have any size: beyond this it is moved as it is.
_COPIED_MAX: Final = 64 * 1024 * 1024


class RepairStep(NamedTuple):
    """One thing that a repair would do: the file, the bytes that it is about, and what happens."""

    file: str
    offset: int
    bytes: int
    what: str


class RepairReport(NamedTuple):
    """The `repair` events that this repair wrote; none if there was nothing to do.

    `steps` is what it found to do, and all there is of a dry run.
    """

    events: tuple[Event, ...]
    steps: tuple[RepairStep, ...] = ()


def repair_log(
    home: Path,
    plane_id: str,
    *,
    clock: Clock,
    salvage: bool = False,
    dry_run: bool = False,
    disk: Disk | None = None,
    witnesses: Sequence[EndEvidence] = (),
) -> RepairReport:
    """Quarantine what was never acknowledged; with `salvage`, record which seqs are lost.

    Damaged bytes of durable lines are copied to quarantine and stay where they are: a sealed
    segment never changes. A file with the name of a segment that is not one goes to quarantine
    whole. Where `witnesses` (or names of the log's own files) show that there were lines behind the
    end, their loss is recorded. A `dry_run` writes nothing. Raises CorruptError where only
    `salvage` helps. A second run finds nothing to do, also after one that was interrupted.
    """
    root = os.fspath(home)
    segments = Segments(f"{root}/log", plane_id)
    told = [*named_segments(segments), *witnesses]
    waiting = [each.name for each in spooled(root, plane_id)]
    if not segments.numbers() and not segments.strays and not waiting and not told:
        return RepairReport(())  # nothing was ever recorded, and a repair is no reason to begin
    if dry_run:
        found = scan_log(root, segments, json.loads)
        return RepairReport((), _steps(found, waiting, lost_end(found, told), salvage=salvage))
    log = FileLog(home, plane_id, clock=clock, disk=disk)
    with log:
        before = {line.event.id for line in log.read() if line.event.kind == "repair"}
        with log.exclusive() as writer:
            found = scan_log(root, Segments(f"{root}/log", plane_id), json.loads)
            lost = lost_end(found, told)
            steps = _steps(found, waiting, lost, salvage=salvage)
            bad = [each for each in found.troubles if each.case == "corrupt"]
            if (bad or found.strays) and not salvage:
                raise _refusal(writer.segments, bad[0]) if bad else stray(found.segments)
            if found.unfinished:  # without a note, of a copy say
                bad += _erase(writer, found, salvage=salvage)
            if bad or found.unfinished:
                _clear(root)
            if bad or found.strays:
                _salvage(writer, found)
            end, said = found.last._replace(rec=found.last.rec or clock()), False
            if lost and not writer.segments.numbers(fresh=True):
                writer.leave(0, end, [ended_draft(lost, end)], 1)
                said = True
            _drop_markers(writer, found)
            writer.anew, writer.restart = bool(lost), True
        log.append([])
        if lost:
            if not said:
                log.append([ended_draft(lost, end)])
            _clear(root)  # only now: it was they who told
        done = [line.event for line in log.read() if line.event.kind == "repair"]
    return RepairReport(tuple(event for event in done if event.id not in before), steps)


def _erase(writer: Writer, found: LogScan, *, salvage: bool) -> list[Trouble]:
    """Finish what purges began; what is too damaged to become a tombstone is blanked, and lost."""
    segments, disk, lost = writer.segments, writer.disk, []
    for one in found.unfinished:
        try:
            overwrite(segments, disk, {one.seq: one.id})
        except CorruptError as error:
            gaps = found.begun[one.seq]
            what = f"seq {one.seq} was to be erased, and its line does not verify"
            lost += [Trouble(gap, "corrupt", what) for gap in gaps]
            if not gaps or not salvage:
                raise _refusal(segments, lost[0]) if lost else error from None
            blank_bytes(segments, disk, [gap[:3] for gap in gaps])
    found.troubles += lost
    return lost


def _clear(home: str) -> None:
    """Remove caches that may contain lost lines: a checkpoint cannot show that it does."""
    for folder in CACHES:
        clear_cache(home, folder)


def _steps(
    found: LogScan, waiting: Sequence[str], lost: Sequence[EndEvidence], *, salvage: bool
) -> tuple[RepairStep, ...]:
    """What a repair of what was found does, in the order in which it does it."""
    name = found.segments.path
    steps = []
    for what_number, what in sorted(found.strays.items()):
        does = "moved to log/quarantine" if salvage else "left: only --salvage moves it"
        file = os.path.basename(name(what_number))
        steps.append(RepairStep(file, 0, _size(name(what_number)), f"{what}: {does}"))
    for gap, case, what in found.troubles:
        if case == "corrupt":
            does = "copied to log/quarantine, told as lost" if salvage else "only with --salvage"
        else:
            does = "set aside in log/quarantine; the log goes on in a new segment"
        file = os.path.basename(name(gap.segment))
        steps.append(RepairStep(file, gap.offset, gap.end - gap.offset, f"{what}: {does}"))
    if os.path.lexists(found.segments.purging_path):
        steps.append(RepairStep(".purging", 0, 0, "a purge was interrupted: finished"))
    steps += [
        RepairStep("", 0, 0, f"event {one.by} erased seq {one.seq}, which stands: erased")
        for one in found.unfinished
    ]
    steps += [RepairStep(f"spool/{one}", 0, 0, "waits in the spool: taken in") for one in waiting]
    steps += [RepairStep(one.file, 0, 0, f"{tells(one, found)}: recorded as lost") for one in lost]
    return tuple(steps)


def _salvage(writer: Writer, found: LogScan) -> None:
    """Copy all damage to quarantine; begin a segment with a repair event behind the last line."""
    segments, disk = writer.segments, writer.disk
    last = found.last._replace(rec=max(found.last.rec, writer.clock()))
    drafts = []
    try:
        gaps = [each.gap for each in found.troubles if each.case != "scattered"]
        if any(each.case == "scattered" for each in found.troubles):
            gaps += found.scattered  # the lines between them stay where they are
        for number, offset, end, _, _ in gaps:
            data = read_segment_file(segments.path(number))[offset:end]
            kept = keep_aside(segments, disk, number, offset, data) if data else ""
            drafts.append(repair_draft("salvaged", number, offset, len(data), kept, last))
        moves, told = _set_aside(writer, found.strays, last)
        # Behind all that has a number: no stray is written over.
        new = max([found.newest, *found.strays]) + 1
        writer.leave(found.newest, last, drafts + told, new)
        for source, target in moves:
            if target:
                disk.replace(source, target, segments.home)
            else:
                nofollow.remove_name(source)
        if moves:
            disk.sync_directory(f"{segments.folder}/quarantine", segments.home)
            disk.sync_directory(segments.folder)
    except OSError as error:
        raise WriteError(
            f"{segments.folder}: {error.strerror}; the repair is not finished: run it again"
        ) from error


def _set_aside(
    writer: Writer, strays: dict[int, str], last: Point
) -> tuple[list[tuple[str, str]], list[Draft]]:
    """Copy what is no segment to quarantine, where it has bytes; what is left to do, and to say.

    The copy is durable before the event that names it, the file goes after both: at each step it
    is in one place at least. A directory, a pipe, a huge file is not copied but renamed at the end.
    """
    segments, disk = writer.segments, writer.disk
    folder = f"{segments.folder}/quarantine"
    moves: list[tuple[str, str]] = []
    drafts = []
    for number, what in sorted(strays.items()):
        path, name = segments.path(number), os.path.basename(segments.path(number))
        if nofollow.is_file(path) and _size(path) <= _COPIED_MAX:
            data = read_segment_file(path)
            kept, target = keep_aside(segments, disk, number, 0, data), ""
            size = len(data)
        else:
            home = segments.home
            nofollow.make_folder(folder, home)
            taken = set(nofollow.folder_names(folder, home))
            kept = next(n for n in (f"{name}.{k}" for k in range(len(taken) + 1)) if n not in taken)
            target, size = f"{folder}/{kept}", _size(path)
        moves.append((path, target))
        drafts.append(stray_draft(name, what, size, kept, last))
    return moves, drafts


def _drop_markers(writer: Writer, found: LogScan) -> None:
    """Remove the markers of failed syncs of segments that are no longer written to.

    The marker of a lost segment stays until the loss is recorded.
    """
    segments = writer.segments
    newest = max(segments.numbers(fresh=True), default=0)
    for name in nofollow.folder_names(segments.folder):
        number = name.removesuffix(".broken")
        if number in (name, f"{newest:08d}") or not number.isdecimal():
            continue
        recorded = max(newest, found.ended.segment + 1)
        if int(number) < recorded or not watermark_of(segments, int(number)):
            drop(f"{segments.folder}/{name}")


def _size(path: str) -> int:
    with suppress(OSError):
        return os.lstat(path).st_size if nofollow.is_file(path) else 0
    return 0


def _refusal(segments: Segments, trouble: Trouble) -> CorruptError:
    path = segments.path(trouble.gap.segment)
    return CorruptError(
        f"{path}: byte {trouble.gap.offset}: {trouble.what}; "
        "`memplane repair --salvage` keeps all that verifies, records the gap and goes on",
        segment=os.path.basename(path),
        offset=trouble.gap.offset,
        seq=trouble.gap.first - 1,
    )
