"""The segment that is appended to, as one process sees it under the log's lock."""

from __future__ import annotations

import os
from threading import Lock
from typing import TYPE_CHECKING, Final

from memplane import nofollow
from memplane.log.disk import Descriptor
from memplane.log.format import SUFFIX_BYTES, Run, chained, link, opening, stated
from memplane.log.recovery import last_rec
from memplane.log.segments import read_fd

if TYPE_CHECKING:
    from memplane.log.segments import Segments

__all__ = ["Active", "successor"]

# Most lines and the hash before them lie within this much of the end.
_LOOK_BYTES: Final = 4096
# And what was written since the last sync within this much.
_UNSYNCED_BYTES: Final = 64 * 1024


class Active:
    """The segment that is appended to, as this process last saw it under the lock.

    `synced` is the highest seq known to be durable, by this process's syncs or by
    the `dur` of a line; 0 also means that the file's name may not be durable yet.
    """

    def __init__(self, segments: Segments, number: int, descriptor: Descriptor) -> None:
        found = os.fstat(descriptor.fd)
        self.number, self.descriptor, self.fd = number, descriptor, descriptor.fd
        self.path, self.next_path = segments.path(number), segments.path(number + 1)
        self.broken_path = segments.broken_path(number)
        self.device, self.inode = found.st_dev, found.st_ino
        self.begin = self.end = 0  # behind the header; behind the last line
        self.seq = self.synced = 0
        self.h = b""
        self.rec = ""
        self.failed = False
        self.sync_mutex = Lock()

    def take(self, data: bytes, base: int, run: Run) -> None:
        """Go to the end of a run of the file's bytes that begin at `base`."""
        self.seq, self.h = run.last, run.h
        self.rec = last_rec(data, run) or self.rec
        self.synced = max(self.synced, run.dur)
        self.end = base + run.end

    def follow(self, size: int) -> bool:
        """Go to the end of what others appended, byte `size`; False where it does not verify.

        Of much, only the last line is read: whoever wrote it had verified the end of the file
        under the lock, as had everyone before, back to the line that this process knows. So
        nothing but the end can be torn, and the last line's `dur` is the highest.
        """
        if size <= self.end:
            return size == self.end
        return (size - self.end > _LOOK_BYTES and self._jump(size)) or self._read_on()

    def trust(self) -> bool:
        """Go to the end, believing what was durable; False where a look at the end does not do.

        All up to the last line's `dur` had been verified and synced when that line was written: a
        crash cannot have torn it, and whoever reads it finds what else may have happened to it.
        From there to the end all is verified.
        """
        size = os.fstat(self.fd).st_size
        offset = max(size - _UNSYNCED_BYTES, 0)
        data = nofollow.pread(self.fd, size - offset, offset)
        said = opening(data[data.rfind(b"\n", 0, -1) + 1 : -1])
        if said is None or not said.dur or len(data) != size - offset:
            return False
        start = data.find(b'\n{"seq":%d,' % said.dur) + 1
        if start <= SUFFIX_BYTES:
            return False
        run = chained(data, start, len(data), said.dur - 1, data[start - 19 : start - 3])
        if run.end != len(data):
            return False
        self.take(data, offset, run)
        return True

    def _jump(self, size: int) -> bool:
        data = nofollow.pread(self.fd, _LOOK_BYTES, size - _LOOK_BYTES)
        start = data.rfind(b"\n", 0, -1) + 1
        raw = data[start:-1]
        said = opening(raw)
        if (
            said is None  # also where it was purged: reading on knows what to make of it
            or said.seq <= self.seq
            or start <= SUFFIX_BYTES
            or len(data) != _LOOK_BYTES
            or link(data[start - 19 : start - 3], raw[:-SUFFIX_BYTES]) != stated(raw)
            or not data.endswith(b"\n")
        ):
            return False
        self.seq, self.h, self.rec = said.seq, raw[-18:-2], said.rec
        self.synced = max(self.synced, said.dur)
        self.end = size
        return True

    def _read_on(self) -> bool:
        data = read_fd(self.fd, self.end)
        run = chained(data, 0, len(data), self.seq, self.h)
        if run.end != len(data):
            return False
        self.take(data, self.end, run)
        return True


def successor(active: Active, segments: Segments) -> Active | None:
    """The segment in which others went on, at its end; None where a look at both does not do.

    As in `follow`: who began it had verified the end of the one before, and so on.
    """
    new = _opened(segments, active.number + 1)
    if new is None or os.access(new.next_path, os.F_OK) or os.access(new.broken_path, os.F_OK):
        return None
    data = nofollow.pread(new.fd, _LOOK_BYTES, 0)
    header = segments.parse_header(new.number, data)
    if header is None or header.prev_seq < active.seq:
        return None
    end = os.fstat(active.fd).st_size
    if nofollow.pread(active.fd, 19, max(end - 19, 0)) != header.prev_h + b'"}\n':
        return None
    # Whether its name is durable only a line in it can say: `synced` is what it states.
    new.take(data, 0, chained(data, 0, header.end, header.prev_seq, header.prev_h))
    new.begin, size = header.end, os.fstat(new.fd).st_size
    return new if new.end == header.end and new.follow(size) else None


def _opened(segments: Segments, number: int) -> Active | None:
    try:
        fd = nofollow.open_file(segments.path(number), os.O_RDWR | os.O_APPEND)
    except OSError:
        return None
    descriptor = Descriptor(fd)
    # One with several names is to be copied first: see `Writer`.
    return Active(segments, number, descriptor) if os.fstat(fd).st_nlink == 1 else None
