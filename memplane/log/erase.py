"""Erasing lines in place, so that a purge that dies at any step is finished by the next writer.

The steps, all under the log's lock: a note of what is to go (`log/.purging`), durable; the purge
events, durable; the lines overwritten, durable. What quotes them outside the log comes next, and
the note goes last. A note whose events are not in the log is of a purge that never happened.
"""

# Paths are strings here, as everywhere in the log.
# ruff: noqa: PTH120
from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane import nofollow
from memplane.errors import CorruptError, StrangeFileError, WriteError
from memplane.event import encode
from memplane.lazy import regex
from memplane.log.blanking import blank, put_over
from memplane.log.disk import drop
from memplane.log.format import SUFFIX_BYTES, link, stated, tombstone
from memplane.log.segments import read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from memplane.log.active import Active
    from memplane.log.disk import Disk
    from memplane.log.segments import Segments
    from memplane.log.writer import Writer
    from memplane.ports import Appended

__all__ = [
    "CACHES",
    "KEPT",
    "Plan",
    "clear",
    "finish",
    "overwrite",
    "read_note",
    "remove_note",
    "write_note",
]

CACHES: Final = ("projections", "index")
_SHA256: Final = regex(rb'"sha256":"([0-9a-f]{64})"')
KEPT: Final = (".lock", "ids")  # locks, and hashes of ids: no text


class Plan(NamedTuple):
    """A purge under way: the ids of its events, the erased lines, and files that go with them.

    `files` are paths below the plane's home, `holes` bytes of segments that are no lines and quote
    what is erased: segment, first byte, end.
    """

    events: tuple[str, ...]
    lines: Mapping[int, str]  # seq -> id
    files: tuple[str, ...]
    holes: tuple[tuple[int, int, int], ...] = ()


def write_note(segments: Segments, disk: Disk, plan: Plan) -> None:
    """Make the plan durable."""
    said = {
        "plane": segments.plane_id,
        "pid": os.getpid(),
        "events": list(plan.events),
        "seqs": list(plan.lines),
        "ids": list(plan.lines.values()),
        "files": list(plan.files),
        "holes": [list(hole) for hole in plan.holes],
    }
    disk.publish(segments.purging_path, encode(said).encode())


def read_note(segments: Segments) -> Plan | None:
    """The plan of a purge that was not finished; None where there is none, or it is not whole."""
    try:
        said = json.loads(read_file(segments.purging_path))
        if said["plane"] != segments.plane_id:
            return None
        lines = dict(zip(map(int, said["seqs"]), map(str, said["ids"]), strict=True))
        holes = tuple((int(number), int(start), int(end)) for number, start, end in said["holes"])
        return Plan(tuple(map(str, said["events"])), lines, tuple(map(str, said["files"])), holes)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def remove_note(home: str, segments: Segments, disk: Disk, plan: Plan | None) -> None:
    """Forget the plan: all of it is done. What it removed stays so behind a power cut.

    A note that a power cut brings back has the purge finished once more.
    """
    names = () if plan is None else plan.files
    folders = {os.path.dirname(path) for name in names if (path := _below(home, name))}
    folders |= {f"{home}/{name}" for name in CACHES}
    for folder in sorted(folders):
        with suppress(FileNotFoundError, StrangeFileError):
            disk.sync_directory(folder, home)
    _drop_note(segments, disk)


def _drop_note(segments: Segments, disk: Disk) -> None:
    drop(segments.purging_path)
    with suppress(OSError):
        disk.sync_directory(segments.folder)


def overwrite(segments: Segments, disk: Disk, lines: Mapping[int, str]) -> int:
    """Put tombstones in the places of these lines, durably; return how many were not there yet.

    A place is known by its seq, which an interrupted overwriting leaves as it is. Raises
    CorruptError where the line is not to be found.
    """
    left, done = dict(lines), 0
    for number in reversed(segments.numbers(fresh=True)):
        header = segments.header(number)
        first = 0 if header is None else header.prev_seq
        here = {seq: id_ for seq, id_ in left.items() if seq > first}
        if here:
            done += _overwrite_in(segments.path(number), disk, here, left)
    if left:
        seq = min(left)
        raise CorruptError(
            f"{segments.folder}: seq {seq} was to be erased and is not there; "
            "`memplane verify` says what is damaged",
            segment="", offset=0, seq=seq,
        )  # fmt: skip
    return done


def carry_out(
    writer: Writer, plan: Plan, append: Callable[[Active], tuple[Active, list[Appended]]]
) -> list[Appended]:
    """Do what is the log's part: note, events by `append`, lines, holes and files. Locked."""
    segments, disk = writer.segments, writer.disk
    writer.finish_purge()  # one that died, or is not done yet
    active = writer.catch_up(alone=False)
    try:
        write_note(segments, disk, plan)
    except OSError as error:
        drop(segments.purging_path)
        raise WriteError(
            f"{segments.purging_path}: {error.strerror}; nothing was purged; make room and try "
            "again"
        ) from error
    active, receipts = append(active)  # perhaps in a new segment
    writer.sync(active, active.seq)
    try:
        overwrite(segments, disk, plan.lines)
        blank(segments, disk, plan.holes)
        _remove_files(segments.home, segments, plan.files)
    except OSError as error:
        raise _unfinished(segments, error) from error
    return receipts


def settle(writer: Writer, events: tuple[str, ...]) -> None:
    """Nothing quotes any more what these purge events erased: their note goes. Locked."""
    segments = writer.segments
    note = read_note(segments)
    if note is None or note.events == events:
        try:
            remove_note(segments.home, segments, writer.disk, note)
        except OSError as error:
            raise _unfinished(segments, error) from error


def _unfinished(segments: Segments, error: OSError) -> WriteError:
    return WriteError(
        f"{error.filename or segments.folder}: {error.strerror}; a purge is not finished; the next "
        "process that opens the plane for writing goes on with it"
    )


def finish(home: str, segments: Segments, disk: Disk) -> bool:
    """Finish the purge that a note tells of; whether there was one. Under the log's lock.

    What quotes the erased lines goes as a whole: projections and index are caches.
    """
    if not os.path.lexists(segments.purging_path):
        return False
    plan = read_note(segments)
    if plan is not None and all(_is_there(segments, id_) for id_ in plan.events):
        try:
            overwrite(segments, disk, plan.lines)
            blank(segments, disk, plan.holes)
            _remove_files(home, segments, plan.files)
            for folder in CACHES:
                clear(home, folder)
            remove_note(home, segments, disk, plan)
        except OSError as error:
            raise _unfinished(segments, error) from error
    else:  # nothing of it was done
        _drop_note(segments, disk)
    return True


def clear(home: str, cache: str) -> None:
    """Remove what a cache's folder of the home holds, but for locks and hashes."""
    folder = f"{home}/{cache}"
    try:
        names = nofollow.names(folder, home)
    except StrangeFileError:
        return
    for name in names:
        if name not in KEPT:
            with suppress(FileNotFoundError):
                try:
                    nofollow.remove(f"{folder}/{name}", home=home)
                except (IsADirectoryError, PermissionError):  # as systems call it
                    nofollow.remove_tree(f"{folder}/{name}", home)


def _remove_files(home: str, segments: Segments, names: Sequence[str]) -> None:
    """Remove files below the home, but for bodies that a line of the log names by now."""
    bodies = {name: "".join(name.split("/")[-2:]) for name in names if name.startswith("bodies/")}
    needed = _named(segments, {digest.encode() for digest in bodies.values()}) if bodies else set()
    for name in names:
        path = _below(home, name)
        if path and bodies.get(name, "").encode() not in needed:
            with suppress(FileNotFoundError):
                nofollow.remove(path, home=home)


def _below(home: str, name: str) -> str:
    """The path of a file below the home; "" for a name that leads elsewhere: it is not ours."""
    path = os.path.normpath(f"{home}/{name}")
    return path if path.startswith(f"{home}/") else ""


def _named(segments: Segments, digests: set[bytes]) -> set[bytes]:
    """Those of the hashes by which lines name a file of theirs; an approval names another's."""
    found: set[bytes] = set()
    for number in segments.numbers(fresh=True):
        data = read_file(segments.path(number))
        for match in _SHA256.finditer(data):
            if match[1] in digests and match[1] not in found:
                start = data.rfind(b"\n", 0, match.start()) + 1
                if b'"kind":"approval"' not in data[start : match.start()]:
                    found.add(match[1])
    return found


def _overwrite_in(path: str, disk: Disk, here: Mapping[int, str], left: dict[int, str]) -> int:
    """Overwrite the lines of one segment; those that were found are taken off `left`."""
    data = read_file(path)
    nofollow.separate(path)
    fd = nofollow.open_file(path, os.O_RDWR)  # not O_APPEND: it would write at the end
    done = 0
    try:
        for seq, id_ in here.items():
            at = _place_of(data, seq)
            end = data.find(b"\n", at)
            if not at or end < 0:
                continue
            old, h = data[at:end], data[at - 19 : at - 3]
            if len(old) <= SUFFIX_BYTES or stated(old) is None:
                continue
            said = _opened(seq)
            new = tombstone(said + old[len(said) :], id_, h)
            if new != old:
                put_over(disk, fd, at, new)
                done += 1
            del left[seq]
        disk.fdatasync(fd)
    finally:
        os.close(fd)
    return done


def _place_of(data: bytes, seq: int) -> int:
    """Where the line with that seq begins; where its own beginning is damaged, its neighbours tell.

    0 where it is not to be found.
    """
    at = data.find(b'\n{"seq":%d,' % seq) + 1
    if not at:
        before = data.find(b'\n{"seq":%d,' % (seq - 1)) + 1 or data.startswith(_opened(seq - 1))
        at = data.find(b"\n", before) + 1 if before else 0
        end = data.find(b"\n", at) + 1
        if not end or (end < len(data) and not data.startswith(_opened(seq + 1), end)):
            return 0
    return at


def _opened(seq: int) -> bytes:
    return b'{"seq":%d,' % seq


def _is_there(segments: Segments, id_: str) -> bool:
    """Whether the newest segments hold a whole purge event of that id."""
    said: Any = encode({"id": id_})[1:-1].encode()
    for number in reversed(segments.numbers(fresh=True)):
        data = read_file(segments.path(number))
        at = data.rfind(said)
        end = data.find(b"\n", at)
        if at >= 0 and end >= 0:
            start = data.rfind(b"\n", 0, at) + 1
            raw, h = data[start:end], data[start - 19 : start - 3]
            if b'"kind":"purge"' in raw and link(h, raw[:-SUFFIX_BYTES]) == stated(raw):
                return True
    return False
