"""`verify`: is every byte of the log what was written? Reads everything, writes nothing."""

# Paths are strings here: pathlib costs more than the append it would serve.
# ruff: noqa: PTH119
from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from memplane.log.reader import Gap
from memplane.log.segments import Segments
from memplane.log.survey import survey
from memplane.ports import Head

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["Finding", "VerifyReport", "verify"]

REPAIR = "`memplane repair` sets them aside; so does the next append"
SALVAGE = "`memplane repair --salvage` records the gap and goes on"


class Finding(NamedTuple):
    """One problem: the segment's file, the first byte, what is wrong there and what to do."""

    segment: str
    offset: int
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.segment}: byte {self.offset}: {self.what}; {self.remedy}"


class VerifyReport(NamedTuple):
    """What was checked and what was found. `salvaged` gaps are on record and no problems."""

    segments: int
    events: int
    bytes: int
    bodies: int
    head: Head
    problems: tuple[Finding, ...]
    salvaged: tuple[Gap, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(
    home: Path,
    plane_id: str,
    *,
    progress: Callable[[int, int], None] | None = None,
    loads: Callable[[bytes], Any] = json.loads,
) -> VerifyReport:
    """Check chain, seqs, headers, that each line is an event, and bodies by their hash.

    Needs no lock. Lines that are being appended meanwhile may show as a torn tail.
    """
    root = os.fspath(home)
    segments = Segments(f"{root}/log", plane_id)
    found = survey(root, segments, loads, progress)
    problems = [
        Finding(
            os.path.basename(segments.path(each.gap.segment)),
            each.gap.offset,
            each.what,
            SALVAGE if each.case == "corrupt" else REPAIR,
        )
        for each in found.troubles
    ]
    problems += [
        Finding(os.path.basename(segments.path(number)), offset, "a body is lost", what)
        for number, offset, what in found.lost_bodies
    ]
    head = Head(found.last.seq, found.last.h.decode(), max(found.newest, 1), found.end)
    return VerifyReport(
        found.files,
        found.lines,
        found.bytes,
        found.bodies,
        head,
        tuple(problems),
        tuple(found.salvaged),
    )
