"""A walk over every byte of the log: `verify` reports what it finds, `repair` acts on it."""

# Paths are strings here: pathlib costs more than the append it would serve.
# ruff: noqa: PTH110, PTH116
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.errors import NotFoundError
from memplane.event import Event, decode
from memplane.log.bodies import body_hash, load_body
from memplane.log.format import Run, opening, runs, until
from memplane.log.reader import Gap
from memplane.log.recovery import Case, judge
from memplane.log.segments import Header, Point, Segments, read_file

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Survey", "Trouble", "survey"]


_NEEDED: Final = ("ts", "seq", "id", "kind")
_LISTED: Final = ("tags", "markers", "refs")


class Trouble(NamedTuple):
    """One thing that is not as it should be. `case` says what can be done about it."""

    gap: Gap
    case: Case
    what: str


class Survey:
    """What the walk found. `last` is the last believed line."""

    def __init__(self, segments: Segments, home: str, loads: Callable[[bytes], Any]) -> None:
        self.segments, self.home, self.loads = segments, home, loads
        self.troubles: list[Trouble] = []
        self.salvaged: list[Gap] = []
        self.lost_bodies: list[tuple[int, int, str]] = []
        self.lines = self.bytes = self.bodies = self.files = self.end = self.newest = 0
        self.last = Point(0, segments.genesis, "")
        self._repaired: set[tuple[int, int]] = set()

    def report(self, number: int, start: int, end: int, first: int, last: int, what: str) -> None:
        """Note damage that was durable once."""
        self.troubles.append(Trouble(Gap(number, start, end, first, last), "corrupt", what))

    def walk(self, number: int, following: int | None) -> None:
        """Check one segment against the one before and the one after it."""
        data = read_file(self.segments.path(number))
        self.files, self.bytes, self.newest = self.files + 1, self.bytes + len(data), number
        header = self.segments.parse_header(number, data)
        after = None if following is None else self.segments.header(following)
        seq, h = self.last.seq, self.last.h
        if header is not None:
            if (header.prev_seq, header.prev_h) != (seq, h):
                where = f"follows seq {header.prev_seq} with h {header.prev_h.decode()}"
                expected = f"expected seq {seq} with h {h.decode()}"
                self.report(number, 0, 0, seq + 1, header.prev_seq, f"{where}, {expected}")
            seq, h = header.prev_seq, header.prev_h
        believed = runs(data, 0, seq, h)
        at = self._check_runs(number, data, believed, seq, after)
        if following is None:
            self._check_end(number, data, believed)
        elif after is not None:
            self._check_sealed_end(number, data, at, after)
        self.end = at

    def settle(self) -> None:
        """Take what a repair has already recorded off the list."""
        for trouble in list(self.troubles):
            if (trouble.gap.segment, trouble.gap.offset) in self._repaired:
                self.troubles.remove(trouble)
                if trouble.gap.last >= trouble.gap.first:
                    self.salvaged.append(trouble.gap)

    def _check_runs(
        self, number: int, data: bytes, believed: list[Run], seq: int, after: Header | None
    ) -> int:
        at = 0
        for each in believed:
            run = each if after is None else until(each, after.prev_seq)
            if not run.starts:
                continue
            if run.start > at or run.first > seq + 1:
                what = f"seq {seq + 1} to {run.first - 1} do not verify"
                self.report(number, at, run.start, seq + 1, run.first - 1, what)
            ends = [*run.starts[1:], run.end]
            raw = b""
            for start, end in zip(run.starts, ends, strict=True):
                raw = data[start : end - 1]
                self._check_line(number, start, raw)
            at, seq = run.end, run.last
            said = opening(raw)
            self.last = Point(seq, raw[-18:-2], "" if said is None else said.rec)
            self.lines += len(run.starts)
        return at

    def _check_line(self, number: int, start: int, raw: bytes) -> None:
        try:
            fields = self.loads(raw)
            kind = _kind(fields)
            data = fields.get("data") or {}
            event = decode(fields) if kind == "repair" or "body" in data else None
        except (ValueError, KeyError, TypeError) as error:
            self.report(
                number, start, start + len(raw) + 1, 0, 0, f"verifies, but is no event: {error}"
            )
            return
        if event is None:
            return
        if kind == "repair":
            self._repaired.add((event.data.get("segment", 0), event.data.get("offset", -1)))
        if "body" in event.data:
            self._check_body(number, start, event)

    def _check_body(self, number: int, start: int, event: Event) -> None:
        digest = body_hash(event)
        if digest is None:
            return
        self.bodies += 1
        try:
            load_body(self.home, event, digest)
        except NotFoundError as problem:
            self.lost_bodies.append((number, start, str(problem)))

    def _check_end(self, number: int, data: bytes, believed: list[Run]) -> None:
        judged = judge(data, believed, 0)
        if os.path.exists(self.segments.broken_path(number)):
            gap = Gap(number, judged.good, len(data), judged.last + 1, judged.last)
            self.troubles.append(Trouble(gap, "torn", "a sync of this segment failed"))
        if judged.case in ("torn", "scattered"):
            # The gap before a later run was noted as damage; it was never acknowledged.
            self.troubles = [
                each
                for each in self.troubles
                if each.gap.segment != number or each.gap.offset < judged.good or not each.gap.end
            ]
            gap = Gap(number, judged.good, len(data), judged.last + 1, judged.last)
            what = (
                f"{len(data) - judged.good} bytes behind seq {judged.last} were never acknowledged"
            )
            self.troubles.append(Trouble(gap, judged.case, what))
        elif believed[-1].end < len(data):
            end = believed[-1]
            what = f"{len(data) - end.end} bytes behind seq {end.last} do not verify"
            self.report(number, end.end, len(data), end.last + 1, end.last, what)

    def _check_sealed_end(self, number: int, data: bytes, at: int, after: Header) -> None:
        last = self.last
        if last.seq < after.prev_seq:
            what = f"ends with seq {last.seq}, its successor follows seq {after.prev_seq}"
            self.report(number, at, len(data), last.seq + 1, after.prev_seq, what)
            self.last = Point(after.prev_seq, after.prev_h, "")
        elif at < len(data):
            what = f"{len(data) - at} bytes stand behind its end"
            self.report(number, at, len(data), last.seq + 1, last.seq, what)


def _kind(fields: dict[str, Any]) -> str:
    """The kind of an event; raises what `decode` would, at a fraction of its cost."""
    for name in _NEEDED:
        _ = fields[name]
    for name in _LISTED:
        if name in fields:
            iter(fields[name])
    kind: str = fields["kind"]
    return kind


def survey(
    home: str,
    segments: Segments,
    loads: Callable[[bytes], Any],
    progress: Callable[[int, int], None] | None = None,
) -> Survey:
    """Walk over all segments; `progress(done, total)` is told the bytes. Writes nothing."""
    found = Survey(segments, home, loads)
    numbers = segments.numbers()
    total = sum(os.stat(segments.path(each)).st_size for each in numbers)
    for number, following in zip(numbers, [*numbers[1:], None], strict=False):
        found.walk(number, following)
        if progress is not None:
            progress(found.bytes, total)
    found.settle()
    return found
