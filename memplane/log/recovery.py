"""Recovery: judge the bytes of the active segment, and move torn ones out of the log.

`judge` says whether a segment is whole, torn, scattered or corrupt, by the watermark and the chain;
the other functions make the `repair` event and the copy in quarantine. What a power cut may leave
behind the watermark is what ALICE found file systems to leave (Pillai et al., OSDI 2014): none of
the bytes, some of them in any order, or zeros.
"""

# Paths are strings here: pathlib costs more than the append it would serve.
# ruff: noqa: PTH112, PTH119
from __future__ import annotations

import json
import os
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal

from memplane import nofollow
from memplane.errors import CorruptError
from memplane.event import NO_EVENT, Draft, Event, decode, encode
from memplane.lazy import NamedTuple
from memplane.log.format import SUFFIX_BYTES, Run, derived_ulid, opening, own_draft

if TYPE_CHECKING:
    from memplane.log.disk import Disk
    from memplane.log.segments import Point, Segments

Case = Literal["whole", "torn", "scattered", "corrupt"]
# The case of a repair event that replaced a segment without a valid first line.
RESTARTED: Final = "restarted"
_BEGINNING_BYTES: Final = 64 * 1024


class Judgement(NamedTuple):
    """`good` bytes chain from the segment's beginning and end with line `last`.

    whole: nothing else is there. torn: what follows was never acknowledged and holds
    no believed line. scattered: the same, but it does (`later`). corrupt: what
    follows, or should follow, was durable once.
    """

    case: Case
    good: int
    last: int
    h: bytes
    watermark: int
    later: tuple[Run, ...]


def judge(data: bytes, believed: list[Run], known: int) -> Judgement:
    """Judge an active segment; `known` is a seq that someone knows to have been durable."""
    first = believed[0]
    watermark = max(known, *(run.dur for run in believed))
    case: Case
    if first.last < watermark:
        case = "corrupt"
    elif len(believed) > 1:
        case = "scattered"
    else:
        # A segment appears with its header or not at all: an empty one has lost it.
        case = "whole" if data and first.end == len(data) else "torn"
    return Judgement(case, first.end, first.last, first.h, watermark, tuple(believed[1:]))


def corrupt(path: str, judged: Judgement) -> CorruptError:
    """The refusal to append behind damage."""
    return CorruptError(
        f"{path}: byte {judged.good}: no valid line follows seq {judged.last}, expected seq "
        f"{judged.last + 1}, and up to seq {judged.watermark} was durable; "
        "`memplane repair --salvage` keeps all that verifies, sets the rest aside and goes on",
        segment=os.path.basename(path),
        offset=judged.good,
        seq=judged.last,
    )


def headless(segments: Segments, number: int, last: int) -> CorruptError:
    """The refusal to append to a segment that lost its first line, which was durable."""
    path = segments.path(number)
    begins = "the log begins again" if not last else f"the log goes on behind seq {last}"
    return CorruptError(
        f"{path}: expected the segment's header in its first line, found none: what it held is "
        "lost; bring the file back from a copy, or run `memplane repair`, which moves what is left "
        f"of it to log/quarantine and records the loss; {begins}",
        segment=os.path.basename(path),
        offset=0,
        seq=last,
    )


class Restart(NamedTuple):
    """A place where a repair replaced a segment, or a whole log, of which no line was left.

    `seq` and `rec` are those of the repair event, `behind` is the last seq before the loss (0: the
    log began again), `quarantine` the file with the bytes that were left ("" for none).
    """

    seq: int
    rec: str
    behind: int
    quarantine: str

    def __str__(self) -> str:
        """One clause for `doctor` and `status`."""
        what = "started again" if not self.behind else f"went on behind seq {self.behind}"
        left = f"; what was left of it: log/quarantine/{self.quarantine}" if self.quarantine else ""
        return f"{what} on {self.rec[:10]} (repair event {self.seq}): earlier events are lost{left}"


def restarts(segments: Segments) -> list[Restart]:
    """The restarts that the log records, oldest first; reads 64 KiB of each segment at most.

    The repair event of a restart is the second line of its segment.
    """
    found = []
    for number in segments.numbers():
        header = segments.header(number)
        if header is None:
            continue
        begin = segments.beginning(number, _BEGINNING_BYTES)
        raw = begin[header.end :].partition(b"\n")[0]
        if b'"kind":"repair"' not in raw:
            continue
        try:
            event = decode(json.loads(raw))
        except NO_EVENT:
            continue
        data = event.data
        lost = data.get("case") == RESTARTED or (
            data.get("case") in ("torn", "scattered") and data.get("offset") == 0
        )
        if lost or (data.get("case") == "ended" and not data.get("last_seq")):
            left = data.get("quarantine")
            left = left if isinstance(left, str) else ""
            found.append(Restart(event.seq, event.rec or event.ts, header.prev_seq, left))
    return found


def marker(segments: Segments, number: int, synced: int) -> bytes:
    """The content of a marker of a failed sync: up to where the segment was durable before."""
    note = {"segment": number, "watermark": synced, "plane": segments.plane_id}
    return encode(note).encode()


def watermark_of(segments: Segments, number: int) -> int:
    """The watermark in such a marker; 0 where it is missing, torn or of another plane."""
    try:
        note = json.loads(nofollow.read_bytes(segments.broken_path(number), 4096))
        ours = note["plane"] == segments.plane_id and note["segment"] == number
        return int(note["watermark"]) if ours else 0
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return 0


def stray(segments: Segments) -> CorruptError:
    """The error for a file that has the name of a segment and is not one of this log."""
    number, what = min(segments.strays.items())
    path = segments.path(number)
    return CorruptError(
        f"{path}: {what}; `memplane repair --salvage` moves it to log/quarantine and goes on",
        segment=os.path.basename(path),
        offset=0,
        seq=0,
    )


def keep_aside(segments: Segments, disk: Disk, number: int, offset: int, data: bytes) -> str:
    """Copy bytes to quarantine, durably; the file's name. The same bytes get the same name."""
    home, folder = segments.home, f"{segments.folder}/quarantine"
    if not os.path.isdir(folder):
        nofollow.make_folder(folder, home)
        disk.sync_directory(segments.folder)
    name = f"{number:08d}-{offset}-{sha256(data).hexdigest()[:16]}"
    disk.publish(f"{folder}/{name}", data, home)
    return name


def repair_draft(case: str, number: int, offset: int, size: int, kept: str, last: Point) -> Draft:
    """The event that says what was taken out of the log, and where it lies now."""
    data: dict[str, object] = {
        "segment": number,
        "offset": offset,
        "bytes": size,
        "quarantine": kept,
        "case": case,
    }
    return own_draft("repair", data, derived_ulid(last.rec, last.h, b"%d-%d" % (number, offset)))


def region_of(event: Event) -> tuple[int, int, int]:
    """The region that a repair event names: segment, first byte, end; no other is accepted."""
    segment, offset, size = (event.data.get(name) for name in ("segment", "offset", "bytes"))
    if isinstance(segment, int) and isinstance(offset, int) and isinstance(size, int):
        return segment, offset, offset + size
    return -1, -1, -1


def stray_draft(name: str, what: str, size: int, kept: str, last: Point) -> Draft:
    """The event that says which file was no segment, why, and where it lies now."""
    data: dict[str, object] = {
        "segment": 0,
        "offset": 0,
        "bytes": size,
        "quarantine": kept,
        "case": "stray",
        "file": name,
        "what": what,
    }
    return own_draft("repair", data, derived_ulid(last.rec, last.h, name.encode()))


def repeats(data: bytes, later: tuple[Run, ...]) -> list[Draft]:
    """The events of those runs as drafts with the same ids and content, to append them again."""
    drafts = []
    for run in later:
        ends = [*run.starts[1:], run.end]
        for start, end in zip(run.starts, ends, strict=True):
            raw = data[start : end - 1]
            said = opening(raw)
            if said is None:  # what was purged is not said again
                continue
            rest = raw[said.rest : -SUFFIX_BYTES]
            if rest.startswith(b'"kind":"segment"'):
                continue
            drafts.append(Draft(said.id, False, said.ts, "", "", None, None, None, "", rest))
    return drafts


def last_rec(data: bytes, run: Run) -> str:
    """Return when the run's last line was recorded; "" for an empty run."""
    if not run.starts:
        return ""
    said = opening(data[run.starts[-1] : run.end - 1])
    return "" if said is None else said.rec
