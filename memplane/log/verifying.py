"""Walk over every byte of the log, for `verify` and `repair`, and detect a log that lost its end.

`verify_log` reads everything and writes nothing. Beside the segments it checks what can be judged
by the log alone: bodies, the spool, tables of ids. Projections and index are checked in
`memplane.upkeep.verify`. A truncated log does not show in its own bytes. `EndEvidence` is a derived
file that mentions later sequence numbers or segments than the log contains.

The result of scanning a sealed segment depends on its bytes and on the line before it, so that
`Scanners` scans them in any order in other processes. The caller takes the results in log order.
"""

# Paths are strings here: pathlib costs more than the append it would serve.
# ruff: noqa: PTH110, PTH119
from __future__ import annotations

import json
import os
import re
import sys
from bisect import bisect_left
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self

from memplane import nofollow
from memplane.errors import CorruptError, NotFoundError
from memplane.event import NO_EVENT, Event, decode
from memplane.lazy import NamedTuple, regex
from memplane.log.reader import Gap, IdTable, SealedIds
from memplane.log.segments import (
    SUFFIX,
    Case,
    Erased,
    Point,
    Run,
    SegmentHeader,
    Segments,
    body_hash,
    body_path,
    derived_ulid,
    erased_by,
    judge,
    line_id,
    load_body,
    opening,
    own_draft,
    read_fd,
    read_segment_file,
    recalled_hashes,
    region_of,
    runs,
    until,
    watermark_of,
)
from memplane.log.spool import spooled
from memplane.ports import Position

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from memplane.event import Draft

_LISTED: Final = ("tags", "markers", "refs")

_TELLING: Final = frozenset(("artifact", "purge", "repair"))

# Starting a process costs as much as scanning some of these.
_SEGMENTS_MIN: Final = 12

_PARSERS: Final = ("json", "orjson")

_CHILD: Final = """
import pickle, sys
path, tasks, parser = pickle.load(sys.stdin.buffer)
sys.path[:] = path
from memplane.log.verifying import serve_scans
serve_scans(tasks, parser, sys.stdout.buffer)
"""


class ScanTask(NamedTuple):
    """A segment to scan, and the seq and hash of the line before its first one."""

    number: int
    path: str
    seq: int
    h: bytes


class Scan(NamedTuple):
    """The verified runs behind (seq, h), and the first bytes of the lines to read a second time.

    Those are no events, name a body, or are of a kind that refers to other lines. `file` identifies
    the version of the file that was scanned.
    """

    file: tuple[int, ...]
    seq: int
    h: bytes
    believed: list[Run]
    odd: list[int]


def scan(
    data: bytes, seq: int, h: bytes, loads: Callable[[bytes], Any], file: tuple[int, ...] = ()
) -> Scan:
    """What a segment's bytes hold behind the line with that seq and hash."""
    believed = runs(data, 0, seq, h)
    odd: list[int] = []
    for run in believed:
        erased, ends = run.erased, [*run.starts[1:], run.end]
        for start, end in zip(run.starts, ends, strict=False):  # an empty run has an end alone
            if erased and start in erased:
                continue
            try:
                fields = loads(data[start : end - 1])
                if _is_odd(fields):
                    odd.append(start)
            except (ValueError, KeyError, TypeError, RecursionError):
                odd.append(start)
    return Scan(file, seq, h, believed, odd)


def _is_odd(fields: dict[str, Any]) -> bool:
    """Whether it says something of other lines or files; raises what decoding it would."""
    _ = fields["ts"], fields["seq"], fields["id"]
    for name in _LISTED:
        if name in fields:
            iter(fields[name])
    if fields["kind"] in _TELLING:
        return True
    data = fields.get("data") or ()
    return "body" in data or "recalled" in data


def identity(fd: int) -> tuple[int, ...]:
    """What changes when the file does."""
    found = os.fstat(fd)
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


class Scanners:
    """Worker processes that scan every n-th segment each; none where the log is small.

    Where a process fails, its results are None and the caller scans itself.
    """

    def __init__(
        self, tasks: Sequence[ScanTask], loads: Callable[[bytes], Any], processes: int
    ) -> None:
        self._of: dict[int, subprocess.Popen[bytes]] = {}
        self._started: list[subprocess.Popen[bytes]] = []
        # A reader may name the module whose `loads` stands for it in another process.
        parser: str = getattr(loads, "parser", "") or loads.__module__
        if processes < 2 or len(tasks) < _SEGMENTS_MIN or not sys.executable:
            return
        if parser.partition(".")[0] not in _PARSERS or not _is_parser(loads):
            return
        for each in range(processes):
            share = tasks[each::processes]
            with suppress(OSError):
                self._start(share, parser.partition(".")[0])

    def _start(self, share: Sequence[ScanTask], parser: str) -> None:
        import pickle  # noqa: PLC0415 - both cost too much where nothing is verified
        import subprocess  # noqa: PLC0415

        child = subprocess.Popen(  # noqa: S603 - this interpreter, this package
            [sys.executable, "-c", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._started.append(child)
        assert child.stdin is not None
        with suppress(OSError):  # it died at once; nobody will hear of it then
            pickle.dump((sys.path, list(share), parser), child.stdin)
        with suppress(OSError):
            child.stdin.close()
        self._of.update((task.number, child) for task in share)

    def take(self, number: int) -> Scan | None:
        """The scan of a segment, asked in the order of the tasks; None where there is none.

        Waits for the worker.
        """
        child = self._of.pop(number, None)
        if child is None:
            return None
        import pickle  # noqa: PLC0415 - as above

        assert child.stdout is not None
        try:
            told, found = pickle.load(child.stdout)  # noqa: S301 - an own child wrote it
        except (OSError, EOFError, pickle.UnpicklingError):
            told, found = 0, None
        if told != number:
            self._of = {other: by for other, by in self._of.items() if by is not child}
            return None
        return found if isinstance(found, Scan) else None

    def close(self) -> None:
        """End the processes."""
        for child in self._started:
            child.kill()
        for child in self._started:
            assert child.stdout is not None
            child.stdout.close()
            child.wait()
        self._started, self._of = [], {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _is_parser(loads: Callable[[bytes], Any]) -> bool:
    return hasattr(loads, "parser") or loads.__name__ == "loads"


def serve_scans(tasks: Sequence[ScanTask], parser: str, out: BinaryIO) -> None:
    """Scan them one by one, as a process of `Scanners`."""
    import pickle  # noqa: PLC0415 - as above

    loads = __import__(parser).loads
    for task in tasks:
        found: Scan | None = None
        with suppress(OSError):
            fd = nofollow.open_file(task.path)
            try:
                file = identity(fd)
                found = scan(read_fd(fd), task.seq, task.h, loads, file)
            finally:
                os.close(fd)
        pickle.dump((task.number, found), out)
        out.flush()


_HEX: Final = frozenset("0123456789abcdef")


class Trouble(NamedTuple):
    """One thing that is not as it should be. `case` says what can be done about it."""

    gap: Gap
    case: Case
    what: str


class LogScan:
    """What the walk found. `last` is the last believed line."""

    def __init__(self, segments: Segments, home: str, loads: Callable[[bytes], Any]) -> None:
        self.segments, self.home, self.loads = segments, home, loads
        self.troubles: list[Trouble] = []
        self.salvaged: list[Gap] = []
        self.scattered: list[Gap] = []  # what is no line behind the last sure one of the newest
        self.lost_bodies: set[str] = set()  # hashes
        # The files below bodies/ that a line names, by the segment and the byte where it does.
        self.named: dict[str, tuple[int, int]] = {}
        self.lines = self.bytes = self.bodies = self.files = self.end = self.newest = 0
        self.last = Point(0, segments.genesis, "")
        self.strays: dict[int, str] = {}  # by number, what is no segment, and why
        self.scanners: Scanners | None = None
        self.watch: Callable[[int, bytes, list[Run], SegmentHeader | None], None] | None = None
        self.erased: dict[int, Erased] = {}  # by seq, as purge events say
        self.unfinished: list[Erased] = []  # of these: what still stands there
        self.begun: dict[int, list[Gap]] = {}  # by seq, damage in the place of an erased line
        self._tombstones: dict[int, tuple[int, int, int, str | None]] = {}
        self.ended = Beyond()  # how far the log once went, as repairs have recorded
        self._repaired: set[tuple[int, int, int]] = set()

    def report(self, number: int, start: int, end: int, first: int, last: int, what: str) -> None:
        """Note damage that was durable once."""
        self.troubles.append(Trouble(Gap(number, start, end, first, last), "corrupt", what))

    def walk(self, number: int, following: int | None) -> None:
        """Check one segment against the one before and the one after it."""
        data, scanned = self._read(number)
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
        if scanned is None or (scanned.seq, scanned.h) != (seq, h):
            scanned = scan(data, seq, h, self.loads)
        believed = scanned.believed
        if self.watch is not None:
            self.watch(number, data, believed, after)
        at = self._check_runs(number, data, scanned, after)
        if following is None:
            self._check_end(number, data, believed)
        elif after is not None:
            self._check_sealed_end(number, data, at, after)
        elif at < len(data):
            last = self.last.seq
            what = f"{len(data) - at} bytes behind seq {last} do not verify"
            self.report(number, at, len(data), last + 1, last, what)
        self.end = at

    def settle(self) -> None:
        """Take what a repair has already recorded off the list."""
        for trouble in list(self.troubles):
            if trouble.gap[:3] in self._repaired:
                self.troubles.remove(trouble)
                if trouble.gap.last >= trouble.gap.first:
                    self.salvaged.append(trouble.gap)
        self._settle_purges()

    def _settle_purges(self) -> None:
        """Each erased line must be named by a purge, and each line that a purge names be erased."""
        for seq, (number, start, end, id_) in self._tombstones.items():
            one = self.erased.get(seq)
            if one is not None and one.id == id_ and one.by > seq:
                continue
            if (number, start, end) in self._repaired:  # the purge event is in a gap
                self.salvaged.append(Gap(number, start, end, seq, seq))
            else:
                self.report(number, start, end, seq, seq, f"seq {seq} is erased, but by no purge")
        lost = [trouble.gap for trouble in self.troubles if trouble.case == "corrupt"]
        told = [*self.salvaged, *lost]
        for seq, one in self.erased.items():
            begun = [gap for gap in lost if gap.first == seq == gap.last]
            self.begun[seq] = begun
            inside = any(gap.first <= seq <= gap.last for gap in told)
            if seq not in self._tombstones and (begun or not inside):
                self.unfinished.append(one)
                self.troubles = [each for each in self.troubles if each.gap not in begun]

    def _read(self, number: int) -> tuple[bytes, Scan | None]:
        """The segment's bytes, and the scan of the same bytes that somebody else made, if any."""
        scanned = self.scanners.take(number) if self.scanners is not None else None
        fd = nofollow.open_file(self.segments.path(number))
        try:
            file, data = identity(fd), read_fd(fd)
        finally:
            os.close(fd)
        return data, scanned if scanned is not None and scanned.file == file else None

    def _check_runs(
        self, number: int, data: bytes, scanned: Scan, after: SegmentHeader | None
    ) -> int:
        at, seq, odd = 0, scanned.seq, frozenset(scanned.odd)
        for each in scanned.believed:
            run = each if after is None else until(each, after.prev_seq)
            if not run.starts:
                continue
            if run.start > at or run.first > seq + 1:
                what = f"seq {seq + 1} to {run.first - 1} do not verify"
                self.report(number, at, run.start, seq + 1, run.first - 1, what)
            for start in sorted(run.erased | odd):
                if not run.start <= start < run.end:
                    continue
                raw = data[start : data.index(b"\n", start)]
                if start in run.erased:
                    line = run.first + bisect_left(run.starts, start)
                    end = start + len(raw) + 1
                    self._tombstones[line] = (number, start, end, line_id(raw))
                else:
                    self._check_line(number, start, raw)
            raw = data[run.starts[-1] : run.end - 1]
            at, seq = run.end, run.last
            said = opening(raw)
            self.last = Point(seq, raw[-18:-2], "" if said is None else said.rec)
            self.lines += len(run.starts)
        return at

    def _check_line(self, number: int, start: int, raw: bytes) -> None:
        try:
            event = decode(self.loads(raw))
        except NO_EVENT as error:
            self.report(
                number, start, start + len(raw) + 1, 0, 0, f"verifies, but is no event: {error}"
            )
            return
        if event.kind == "repair":
            self._repaired.add(region_of(event))
            self.ended = self.ended.joined(beyond_of(event))
        for one in erased_by(event):
            self.erased[one.seq] = one
        if event.kind == "artifact" and event.data.get("stored") == "copy":
            self._name(event.data.get("sha256"), number, start)
        if "body" in event.data or "recalled" in event.data:
            whole = body_hash(event)
            for digest in [*([] if whole is None else [whole]), *recalled_hashes(event)]:
                self._check_body(number, start, event, digest)

    def _check_body(self, number: int, start: int, event: Event, digest: str) -> None:
        self.bodies += 1
        if digest in self.named:  # two events may hold the same
            return
        self._name(digest, number, start)
        try:
            load_body(self.home, event, digest)
        except NotFoundError:
            self.lost_bodies.add(digest)

    def _name(self, digest: object, number: int, start: int) -> None:
        if isinstance(digest, str) and len(digest) == 64 and set(digest) <= _HEX:
            self.named.setdefault(digest, (number, start))

    def _check_end(self, number: int, data: bytes, believed: list[Run]) -> None:
        known = watermark_of(self.segments, number)
        judged = judge(data, believed, known)
        if os.path.lexists(self.segments.broken_path(number)):
            gap = Gap(number, judged.good, len(data), judged.last + 1, judged.last)
            self.troubles.append(Trouble(gap, "torn", "a sync of this segment failed"))
        if judged.case in ("torn", "scattered"):
            # The gap before a later run was noted as damage; it was never acknowledged.
            sure: list[Trouble] = []
            rest: list[Trouble] = []
            for each in self.troubles:
                inside = each.gap.segment == number and each.gap.offset >= judged.good
                (rest if inside and each.gap.end else sure).append(each)
            self.troubles, self.scattered = sure, [each.gap for each in rest]
            end = believed[-1]
            if end.end < len(data):
                self.scattered.append(Gap(number, end.end, len(data), end.last + 1, end.last))
            gap = Gap(number, judged.good, len(data), judged.last + 1, judged.last)
            what = _torn(len(data) - judged.good, judged.good, judged.last)
            self.troubles.append(Trouble(gap, judged.case, what))
        elif believed[-1].last < known:
            end = believed[-1]
            what = f"seq {end.last + 1} to {known} were durable before a sync failed, and are gone"
            self.report(number, end.end, len(data), end.last + 1, known, what)
        elif believed[-1].end < len(data):
            end = believed[-1]
            what = f"{len(data) - end.end} bytes behind seq {end.last} do not verify"
            self.report(number, end.end, len(data), end.last + 1, end.last, what)

    def _check_sealed_end(self, number: int, data: bytes, at: int, after: SegmentHeader) -> None:
        last = self.last
        if last.seq < after.prev_seq:
            what = f"ends with seq {last.seq}, its successor follows seq {after.prev_seq}"
            self.report(number, at, len(data), last.seq + 1, after.prev_seq, what)
            self.last = Point(after.prev_seq, after.prev_h, "")
        elif at < len(data):
            what = f"{len(data) - at} bytes stand behind its end"
            self.report(number, at, len(data), last.seq + 1, last.seq, what)


def _torn(size: int, good: int, last: int) -> str:
    if good:
        return f"{size} bytes behind seq {last} were never acknowledged"
    return f"{size} bytes and no header in its first line: what it held is lost"


def scan_log(
    home: str,
    segments: Segments,
    loads: Callable[[bytes], Any],
    progress: Callable[[int, int], None] | None = None,
    watch: Callable[[int, bytes, list[Run], SegmentHeader | None], None] | None = None,
    processes: int = 1,
) -> LogScan:
    """Verify all segments in order; calls `progress(done, total)` with bytes. Writes nothing.

    `watch` is called for each segment with its number, bytes, verified runs and what follows it.
    The result does not depend on the number of processes.
    """
    found = LogScan(segments, home, loads)
    found.watch = watch
    numbers = segments.numbers(fresh=True)
    found.strays = dict(segments.strays)
    total = sum(os.lstat(segments.path(each)).st_size for each in numbers)
    headers = {each: segments.header(each) for each in numbers[:-1]} if processes > 1 else {}
    tasks = [
        ScanTask(number, segments.path(number), header.prev_seq, header.prev_h)
        for number, header in headers.items()
        if header is not None
    ]
    with Scanners(tasks, loads, processes) as found.scanners:
        for number, following in zip(numbers, [*numbers[1:], None], strict=False):
            found.walk(number, following)
            if progress is not None:
                progress(found.bytes, total)
    found.settle()
    return found


# Detect a truncated log: derived files that mention later seqs or segments than the log contains.
#
# A log that was cut at the end of a line, or that lost its newest segment, still verifies. Files
# that were derived from the longer log may still exist. Files of the log are looked for here; for
# projections and reports the caller passes witnesses in.


# A table is made of a sealed segment, a copy in quarantine of one that is there.
_FOLDERS: Final = (
    ("index/ids", re.compile(r"(\d{8})\.ids")),
    ("log/quarantine", re.compile(r"(\d{8})-\d+-[0-9a-f]{16}")),
)
_MARKER: Final = regex(r"(\d{8})\.broken")
_SEGMENT: Final = regex(r"(\d{8})" + re.escape(SUFFIX))
_FILES_MAX: Final = 20
# How a projection begins that was folded from a log (`memplane.projections.projector`).
_FOLDED: Final = b'{"projector":'
_HEADER_BYTES: Final = 400


class EndEvidence(NamedTuple):
    """A file below the home that knows of a seq or of a segment; 0 for what it does not say."""

    file: str
    seq: int
    segment: int


class Beyond(NamedTuple):
    """How far the log is known to have gone, by repair events or other files: seq and segment."""

    seq: int = 0
    segment: int = 0

    def covers(self, other: EndEvidence | Beyond) -> bool:
        """Whether the other shows no later seq or segment than this."""
        return other.seq <= self.seq and other.segment <= self.segment

    def joined(self, other: EndEvidence | Beyond) -> Beyond:
        """The further of both."""
        return Beyond(max(self.seq, other.seq), max(self.segment, other.segment))


def named_segments(segments: Segments) -> list[EndEvidence]:
    """The files of the log that tell of a segment behind the last one that is there."""
    folder, home = segments.folder, segments.home
    told = {
        f"{below}/{name}": EndEvidence(f"{below}/{name}", 0, int(found[1]))
        for below, form in _FOLDERS
        for name in nofollow.file_names(f"{home}/{below}", home)
        if (found := form.fullmatch(name))
    }
    for name in nofollow.file_names(folder):
        number = int(found[1]) if (found := _MARKER.fullmatch(name)) else 0
        if number and (watermark := watermark_of(segments, number)):
            told[f"log/{name}"] = EndEvidence(f"log/{name}", watermark, number)
    # Looked for after those: a segment that is begun meanwhile is there.
    here = [
        int(found[1]) for name in nofollow.file_names(folder) if (found := _SEGMENT.fullmatch(name))
    ]
    last = max(here, default=0)
    return [one for _, one in sorted(told.items()) if one.segment > last]


def check_never_begun(segments: Segments) -> None:
    """Raise CorruptError where a log without segments is known to have had events.

    Called before a first segment is made: a projection of this plane holds seqs, which would be
    given a second time.
    """
    home = segments.home
    plane = b'"plane":"%b",' % segments.plane_id.encode()
    for name in nofollow.file_names(f"{home}/projections"):
        if not name.endswith(".json"):
            continue
        begins = _beginning(f"{home}/projections/{name}")
        if begins.startswith(_FOLDED) and plane in begins:
            raise CorruptError(
                f"{segments.folder}: holds no line, and projections/{name} was made from a log "
                "of this plane: it is lost; bring it back from a copy, or let `memplane repair` "
                "record that and begin anew",
                segment="",
                offset=0,
                seq=0,
            )


def lost_end(found: LogScan, told: Iterable[EndEvidence]) -> tuple[EndEvidence, ...]:
    """Those that know of more than the log's end, and than repairs have recorded as lost."""
    last = Beyond(found.last.seq, max([found.newest, *found.strays]))
    known = last.joined(found.ended)
    return tuple(one for one in told if not known.covers(one))


def tells(one: EndEvidence, found: LogScan) -> str:
    """What a witness knows, beside what there is."""
    if one.seq > found.last.seq:
        return f"knows of seq {one.seq}, and the log ends with seq {found.last.seq}"
    return f"knows of segment {one.segment}, and the newest is {found.newest}"


def beyond_of(event: Event) -> Beyond:
    """What a repair event of case `ended` says that there once was."""
    seq, segment = event.data.get("known_seq"), event.data.get("known_segment")
    if event.data.get("case") == "ended" and isinstance(seq, int) and isinstance(segment, int):
        return Beyond(seq, segment)
    return Beyond()


def ended_draft(witnesses: Iterable[EndEvidence], last: Point) -> Draft:
    """The event that says where the log ended, who knows of more, and of what."""
    known, files = Beyond(), []
    for one in witnesses:
        known = known.joined(one)
        files.append(one.file)
    data: dict[str, object] = {
        "segment": 0,
        "offset": 0,
        "bytes": 0,
        "quarantine": "",
        "case": "ended",
        "last_seq": last.seq,
        "known_seq": known.seq,
        "known_segment": known.segment,
        "told_by": files[:_FILES_MAX],
    }
    name = b"ended %d %d" % known
    return own_draft("repair", data, derived_ulid(last.rec, last.h, name))


def _beginning(path: str) -> bytes:
    try:
        return nofollow.read_bytes(path, _HEADER_BYTES)
    except OSError:
        return b""


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
