"""`verify`: check that every byte of the log is what was written. Reads everything, writes nothing.

Beside the segments it checks what can be judged by the log alone: bodies, the spool, tables of ids.
Projections and index are checked in `memplane.upkeep.verify`.
"""

# Paths are strings here: pathlib costs more than the append it would serve.
# ruff: noqa: PTH110, PTH119
from __future__ import annotations

import json
import os
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane import nofollow
from memplane.log.bodies import body_path
from memplane.log.format import Run, until
from memplane.log.ids import IdTable, SealedIds
from memplane.log.reader import Gap
from memplane.log.segments import SegmentHeader, Segments, read_segment_file
from memplane.log.spool import spooled
from memplane.log.survey import EndEvidence, LogScan, lost_end, named_segments, scan_log, tells
from memplane.ports import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

__all__ = ["LogProblem", "VerifyReport", "hash_of", "is_interrupted", "verify_log"]

REPAIR: Final = "`memplane repair`"
SALVAGE: Final = "`memplane repair --salvage`"
REBUILD: Final = "`memplane rebuild`"
_CHUNK: Final = 1 << 20


class LogProblem(NamedTuple):
    """One problem: the file below the home, the first byte, what is there, what should be.

    `command` makes it good again; where none can, it says what to bring back.
    """

    file: str
    offset: int
    found: str
    expected: str
    command: str

    @property
    def segment(self) -> str:
        """The file's name without its folder."""
        return os.path.basename(self.file)

    def __str__(self) -> str:
        return (
            f"{self.file}: byte {self.offset}: {self.found}; expected {self.expected}; "
            f"{self.command}"
        )


class VerifyReport(NamedTuple):
    """What was checked and what was found.

    `salvaged` gaps are on record and no problems, nor are `notes`: what may be looked at. `named`
    are the SHA-256 of the files in bodies/ that the log names. `waiting` events lie in the spool.
    """

    segments: int
    events: int
    bytes: int
    bodies: int
    head: Position
    problems: tuple[LogProblem, ...]
    salvaged: tuple[Gap, ...]
    notes: tuple[str, ...] = ()
    named: frozenset[str] = frozenset()
    waiting: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify_log(
    home: Path,
    plane_id: str,
    *,
    progress: Callable[[int, int], None] | None = None,
    loads: Callable[[bytes], Any] = json.loads,
    processes: int = 1,
    witnesses: Sequence[EndEvidence] = (),
) -> VerifyReport:
    """Check chain, seqs, headers, tombstones, that each line is an event, bodies by their hash.

    The spool and the tables of ids too. Needs no lock. Lines that are being appended meanwhile
    may show as a torn tail. `witnesses` were looked for before, and know of lines that there were.
    """
    root = os.fspath(home)
    segments = Segments(f"{root}/log", plane_id)
    told = [*named_segments(segments), *witnesses]
    ids = _Ids(root, segments)
    found = scan_log(root, segments, loads, progress, ids.check, processes)
    waiting = spooled(root, plane_id)
    problems = [*_of_log(found), *_of_bodies(found), *ids.problems]
    problems += [
        LogProblem(
            one.file,
            0,
            tells(one, found),
            "no more than the log holds: it has lost its end, or is an older copy",
            f"bring that back from a copy, or {REPAIR} records it as lost",
        )
        for one in lost_end(found, told)
    ]
    problems += [
        LogProblem(
            f"log/spool/{each.name}",
            0,
            each.fault,
            "a spool file as it was written",
            f"the next append sets it aside, and so does {REPAIR}",
        )
        for each in waiting
        if each.fault
    ]
    head = Position(found.last.seq, found.last.h.decode(), max(found.newest, 1), found.end)
    return VerifyReport(
        found.files,
        found.lines,
        found.bytes,
        found.bodies,
        head,
        tuple(problems),
        tuple(found.salvaged),
        (*ids.notes, *_markers(segments)),
        frozenset(found.named),
        sum(len(each.drafts) for each in waiting),
    )


def hash_of(home: str, path: str) -> str | None:
    """The SHA-256 of a file below the home, None where none can be read; a chunk at a time."""
    digest = sha256()
    try:
        with nofollow.open_regular(path, home=home) as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError:
        return None
    return digest.hexdigest()


def _of_log(found: LogScan) -> Iterator[LogProblem]:
    def name(number: int) -> str:
        return f"log/{os.path.basename(found.segments.path(number))}"

    for number, what in sorted(found.strays.items()):
        yield LogProblem(
            name(number),
            0,
            what,
            "the segment of that number, or nothing",
            f"{SALVAGE} moves it to log/quarantine",
        )
    for gap, case, what in found.troubles:
        if case == "corrupt":
            yield LogProblem(
                name(gap.segment),
                gap.offset,
                what,
                "lines that each chain from the one before",
                f"{SALVAGE} records the gap and goes on",
            )
        elif not gap.offset:
            yield LogProblem(
                name(gap.segment),
                0,
                what,
                "the segment's header in its first line",
                f"bring the file back from a copy, or {REPAIR} records the loss",
            )
        else:
            yield LogProblem(
                name(gap.segment),
                gap.offset,
                what,
                "the end of the segment",
                f"{REPAIR} sets them aside; so does the next append",
            )
    if is_interrupted(found.segments.purging_path):
        yield LogProblem(
            "log/.purging",
            0,
            "a purge was interrupted",
            "none",
            f"{REPAIR} finishes it; so does the next process that writes",
        )
    for one in found.unfinished:
        yield LogProblem(
            "log",
            0,
            f"seq {one.seq} stands there, and event {one.by} erased it",
            "a tombstone",
            f"{REPAIR} finishes the purge",
        )


def is_interrupted(note: str) -> bool:
    """Whether a purge has left its note behind: the process that wrote it is gone."""
    try:
        pid = json.loads(read_segment_file(note)).get("pid")
    except FileNotFoundError:
        return False
    except (OSError, ValueError, AttributeError, RecursionError):
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError, TypeError):
        return True
    except PermissionError:
        return False
    return False


def _of_bodies(found: LogScan) -> Iterator[LogProblem]:
    """The files that lines name: those of texts were read by the survey, all others here."""
    for digest, (number, start) in found.named.items():
        path = body_path("", digest)
        lost = digest in found.lost_bodies
        if not lost and hash_of(found.home, body_path(found.home, digest)) == digest:
            continue
        if _is_erased(found.segments.path(number), start):
            continue  # meanwhile
        there = os.path.exists(body_path(found.home, digest))
        line = f"log/{os.path.basename(found.segments.path(number))}, byte {start}"
        yield LogProblem(
            path,
            0,
            f"{'is damaged' if there else 'is missing'}; {line} names it",
            "the bytes with that SHA-256",
            "bring it back from a copy",
        )


def _is_erased(path: str, start: int) -> bool:
    """Whether a purge has taken the line there."""
    with suppress(FileNotFoundError), nofollow.open_regular(path) as file:
        file.seek(start)
        return b'"purged":true' in file.readline(400)
    return False


def _markers(segments: Segments) -> Iterator[str]:
    """Markers of failed syncs whose segment is not the newest: harmless, a repair removes them."""
    newest = max(segments.numbers(), default=0)
    try:
        names = nofollow.folder_names(segments.folder)
    except OSError:
        return
    for name in names:
        number = name.removesuffix(".broken")
        if number not in (name, f"{newest:08d}"):
            yield f"log/{name}: tells of a segment that nobody appends to; {REPAIR} removes it"


class _Ids:
    """Compares the kept tables of ids with what the segments say."""

    def __init__(self, home: str, segments: Segments) -> None:
        self._home, self._segments = home, segments
        self.problems: list[LogProblem] = []
        self.notes: list[str] = []

    def check(
        self, number: int, data: bytes, believed: list[Run], after: SegmentHeader | None
    ) -> None:
        """Look at the table of one segment, if it has any."""
        name = f"index/ids/{number:08d}.ids"
        path = f"{self._home}/{name}"
        if after is None or not nofollow.is_file(path):
            return
        if len(believed) > 1 or believed[0].last < after.prev_seq:
            return  # the table may be from before the damage: whoever uses it checks each line
        first = believed[0].first
        try:
            whole = nofollow.read_bytes(path, home=self._home)
        except OSError as error:
            self.notes.append(f"{name}: cannot be read: {error.strerror}; it is made again")
            return
        kept = SealedIds.load(whole, first, len(data), after.prev_h)
        if kept is None:
            self.notes.append(f"{name}: torn, stale or foreign; it is made again when needed")
            return
        table = IdTable(number, (0, 0), first - 1, b"")
        for run in (until(each, after.prev_seq) for each in believed):
            if run.starts:
                table.take(data, 0, run)
        if SealedIds.of(table, first).dump(len(data), after.prev_h) != whole:
            self.problems.append(
                LogProblem(
                    name,
                    0,
                    "is not what the segment holds",
                    "its ids and their places",
                    f"{REBUILD} makes it again",
                )
            )
