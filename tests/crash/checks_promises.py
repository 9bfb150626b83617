"""What must hold after any fault, of a log alone and of a whole plane. Each check lists what does not.

What was acknowledged is there as it was, seqs are dense, no id is there twice, writing goes on,
and `verify` finds nothing; of a plane also that it opens and packs, and that its projections and
index are what the log folds to. Where an error stands in the way it must name the command that
helps; the check runs it.
"""

import os
from pathlib import Path
from typing import Any, NamedTuple

import memplane
from memplane.errors import CorruptError, HomeError, MemplaneError
from memplane.event import Draft, encode
from memplane.log import Disk, FileLog, repair_log, verify_log

PLANE = "demo"
AFTERWARDS = "afterwards"
SALVAGE = "memplane repair --salvage"


class QuickDisk(Disk):
    """Everything but the waiting."""

    def fdatasync(self, fd):
        os.fstat(fd)

    def sync_directory(self, path, *_):
        os.access(path, os.F_OK)


class Found(NamedTuple):
    """What a log holds after a fault: events by id, and the whole texts of those with bodies."""

    home: Path
    events: dict
    texts: dict


class Promised(NamedTuple):
    """An acknowledged event as it was read then, and its whole text."""

    event: Any
    text: str = ""

    @property
    def id(self):
        return self.event.id

    def broken(self, found):
        event = found.events.get(self.event.id)
        if event is None:
            return [f"lost: {self.event.id}, seq {self.event.seq}"]
        if event != self.event:
            return [f"changed: {self.event} is {event}"]
        if self.text and found.texts.get(event.id) != self.text:
            return [f"the whole text of {event.id} is another"]
        return []


class Waiting(NamedTuple):
    """An event that was acknowledged into the spool: the next writer gives it a seq."""

    id: str
    text: str

    def broken(self, found):
        event = found.events.get(self.id)
        if event is None:
            return [f"lost from the spool: {self.id}"]
        return [] if event.text == self.text else [f"changed in the spool: {self.id}"]


class Erased(NamedTuple):
    """An event that was purged: its text is in no file of the plane."""

    id: str
    text: bytes

    def broken(self, found):
        there = [f"purged and there: {self.id}"] if self.id in found.events else []
        return there + [
            f"erased, and in {path.relative_to(found.home)}"
            for path in sorted(found.home.rglob("*"))
            if path.is_file() and self.text in path.read_bytes()
        ]


class Written(NamedTuple):
    """A file beside the plane that was said to be whole."""

    path: str
    data: bytes
    id: str = ""

    def broken(self, found):
        path = found.home.parent / self.path
        whole = path.exists() and path.read_bytes() == self.data
        return [] if whole else [f"not as it was written: {self.path}"]


def clock():
    return "2026-01-05T12:00:00.000000Z"


def draft(id_, text="hello", body=None):
    fields = {"kind": "message", "text": text}
    if body is not None:
        from hashlib import sha256

        fields["data"] = {"body": {"sha256": sha256(body).hexdigest(), "bytes": len(body)}}
    rest = encode(fields)[1:-1].encode()
    return Draft(id_, True, None, "message", "/global", None, None, None, text, rest, body)


def broken_by_log(
    home, promised, *, plane=PLANE, damaged=False, named=None, after=AFTERWARDS, **options
):
    """What the log of this home breaks of the promises; `named` is told of each repair by name.

    `damaged`: it was, before anything was promised; then a salvage may have to record the gap.
    `after` is the id of the event that is appended then.
    """
    options = {"clock": clock, "disk": QuickDisk(), "segment_bytes_max": 900} | options
    try:
        found, seqs = _after_repair(home, plane, named, options, damaged=damaged, after=after)
        report = verify_log(home, plane)
        if damaged and report.problems:
            repair_log(home, plane, clock=clock, salvage=True, disk=options["disk"])
            report = verify_log(home, plane)
    except (MemplaneError, OSError) as error:
        return [f"cannot go on: {type(error).__name__}: {error}"]
    return [*kept(found, seqs, promised), *(f"verify: {problem}" for problem in report.problems)]


def _after_repair(home, plane, named, options, *, damaged, after):
    """What the log holds after one more append, and the seqs that are accounted for."""
    for tries in range(2):
        with FileLog(home, plane, **options) as log:
            try:
                log.append([draft(after)])
            except CorruptError as error:
                if tries or SALVAGE not in str(error):
                    raise
                if named is not None:
                    named()
            else:
                return looked(home, log, gaps=damaged)
        repair_log(home, plane, clock=clock, salvage=True, disk=options["disk"])
    raise AssertionError("two tries end in a return or a raise")


def looked(home, log, *, gaps=False):
    """What the log holds, and the seqs of its lines: events, tombstones, with `gaps` recorded ones."""
    events = [line.event for line in log.read()]
    seqs = [event.seq for event in events]
    missing = sorted(set(range(1, log.head().seq + 1)) - set(seqs))
    seqs += [seq for seq in missing if log.purged(seq) is not None]
    if gaps:
        seqs += [seq for gap in log.gaps() for seq in range(gap.first, gap.last + 1)]
    by_id = {}
    for event in events:
        by_id.setdefault(event.id, event)
    texts = {event.id: log.text(event) for event in events if "body" in event.data}
    return Found(Path(home), by_id, texts), sorted(seqs) if len(by_id) == len(events) else None


def kept(found, seqs, promised):
    """What of the promises these events break."""
    if seqs is None:
        return ["an id is there twice"]
    broken = [] if seqs == list(range(1, len(seqs) + 1)) else [f"seqs are not dense: {seqs}"]
    erased = {one.id for one in promised if isinstance(one, Erased)}
    for one in promised:
        if isinstance(one, Erased) or one.id not in erased:
            broken += one.broken(found)
    return broken


def broken_by_plane(home, promised, *, named=None):
    """What this plane breaks of the promises."""
    try:
        try:
            return _of_plane(home, promised, named)
        except HomeError as error:
            if "`memplane init`" not in str(error) or promised:
                raise
            memplane.init(home, clock=clock, environment={}).close()
            return _of_plane(home, promised, named)
    except (MemplaneError, OSError) as error:
        return [f"cannot go on: {type(error).__name__}: {error}"]


def _of_plane(home, promised, named):
    with memplane.open(home, durability="os", clock=clock, environment={}) as plane:
        plane.pack("what was decided of the database?", budget=800)
        try:
            plane.record("one more", id="one-more")
        except CorruptError as error:
            if SALVAGE not in str(error):
                raise
            if named is not None:
                named()
            repair_log(home, plane.id, clock=clock, salvage=True)
            plane.record("one more", id="one-more")
        plane.pack("what was decided of the database?", budget=800, intent="deep")
        broken = [f"differs from a rebuild: {name}" for name in plane.upkeep.differing()]
        found, seqs = looked(home, plane._log)
        plane.context.caught_up().save()
        plane.upkeep.index()
        broken += kept(found, seqs, promised)
        plane_id = plane.id
    report = verify_log(home, plane_id)
    broken += [f"verify: {problem}" for problem in report.problems]
    with memplane.open(home, clock=clock, environment={}, read_only=True) as plane:
        broken += [f"differs when opened again: {name}" for name in plane.upkeep.differing()]
    return broken
