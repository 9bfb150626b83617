"""Logs to damage: quick to make, the same bytes every time, with what anybody can see of them."""

import os
import shutil
import stat

from memplane.event import Draft, encode
from memplane.log import Disk, FileLog
from memplane.log.segments import Segments

PLANE, OTHER = "demo", "other"
TIME = "2026-01-05T12:00:00.000000Z"


class QuickDisk(Disk):
    """Everything but the waiting: these tests cut no power."""

    def fdatasync(self, fd):
        os.fstat(fd)

    def sync_directory(self, path, *_):
        os.access(path, os.F_OK)


class FailingDisk(QuickDisk):
    """The k-th call that changes something ends with an error before it; where that `lasts`, all
    behind it do. Counts all calls.
    """

    def __init__(self, k, error, *, lasts=False):
        self.calls, self.k, self.error, self.lasts = 0, k, error, lasts

    def due(self):
        self.calls += 1
        if self.calls == self.k or (self.lasts and self.calls > self.k):
            raise self.error

    def write(self, fd, data):
        self.due()
        return super().write(fd, data)

    def fdatasync(self, fd):
        self.due()
        super().fdatasync(fd)

    def ftruncate(self, fd, size):
        self.due()
        super().ftruncate(fd, size)

    def replace(self, source, target, home=None):
        self.due()
        super().replace(source, target, home)

    def sync_directory(self, path, home=None):
        self.due()
        super().sync_directory(path, home)


def clock():
    return TIME


def draft(id_, text="hello"):
    rest = encode({"kind": "message", "role": "user", "session": "s", "text": text})[1:-1].encode()
    return Draft(id_, True, None, "message", "/global", "user", "s", None, text, rest)


def opened(home, plane=PLANE, **options):
    return FileLog(home, plane, clock=clock, **{"disk": QuickDisk(), **options})


def filled(home, events=24, *, plane=PLANE, durability="sync", segment_bytes_max=1500):
    """A log with these many messages, m0 and so on, in several segments; its lines."""
    options = {"durability": durability, "segment_bytes_max": segment_bytes_max}
    with opened(home, plane, **options) as log:
        for n in range(events):
            log.append([draft(f"m{n}", f"turn number {n} about heron{n}")])
        return list(log.read())


def segment(home, number):
    return home / "log" / f"{number:08d}.jsonl"


def copied(home, to):
    """The same again, pipes and dangling links too."""

    def copy(source, target):
        if stat.S_ISFIFO(os.lstat(source).st_mode):
            os.mkfifo(target)
        else:
            shutil.copy2(source, target, follow_symlinks=False)

    shutil.rmtree(to, ignore_errors=True)
    return shutil.copytree(home, to, symlinks=True, copy_function=copy)


def messages(home, plane=PLANE):
    """The ids that a reader sees, and the gaps that it lists."""
    with opened(home, plane, read_only=True) as log:
        ids = [line.event.id for line in log.read() if line.event.kind == "message"]
        return ids, log.gaps()


def quarantined(home):
    folder = home / "log" / "quarantine"
    return sorted(path.read_bytes() for path in folder.glob("*") if path.is_file())


def tree(home):
    """All that lies there: names, kinds, bytes, times."""
    found = {}
    for path in sorted(home.rglob("*")):
        state = path.lstat()
        data = path.read_bytes() if stat.S_ISREG(state.st_mode) else b""
        found[path.relative_to(home).as_posix()] = (
            stat.S_IFMT(state.st_mode),
            data,
            state.st_mtime_ns,
        )
    return found


def segments(home, plane=PLANE):
    return Segments(f"{home}/log", plane)
