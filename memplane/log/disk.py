"""The system calls that can lose data, in one place, so that tests can make each of them fail.

Also the lock of the log, and the syncs that its writers share.
"""

from __future__ import annotations

import fcntl
import os
import time
from _thread import get_ident
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import WeakSet

from memplane import nofollow
from memplane.errors import HomeError, LockError, StrangeFileError, WriteError

if TYPE_CHECKING:
    from collections.abc import Callable

# Paths are strings here: pathlib costs more than the append it would serve.
# ruff: noqa: PTH120


# Only there, fsync leaves the data in the drive's cache; this asks the drive too.
FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


_PIECE = 1 << 23  # bytes of a file that are copied at once; a segment is smaller


class Disk:
    """Writes, syncs, cuts and renames. Results and errors are the operating system's.

    Of a path, the folder and the name are no links; with `home`, nothing below it is.
    """

    def write(self, fd: int, data: bytes) -> int:
        """Write once; how many bytes arrived, which may be fewer than given."""
        return os.write(fd, data)

    def overwrite(self, fd: int, data: bytes, offset: int) -> int:
        """Write once at that byte, over what stands there; how many bytes arrived."""
        return os.pwrite(fd, data, offset)

    def fdatasync(self, fd: int) -> None:
        """Return when the file's data would survive a power cut."""
        if FULL_SYNC is not None:
            fcntl.fcntl(fd, FULL_SYNC)
        else:
            os.fdatasync(fd)

    def ftruncate(self, fd: int, size: int) -> None:
        """Cut the file to `size` bytes."""
        os.ftruncate(fd, size)

    def replace(self, source: str, target: str, home: str | None = None) -> None:
        """Rename, in one step, over whatever has that name."""
        nofollow.rename_name(source, target, home=home)

    def sync_directory(self, path: str, home: str | None = None) -> None:
        """Return when the names in this directory would survive a power cut."""
        nofollow.sync_folder(path, home)

    def publish(self, path: str, data: bytes, home: str | None = None) -> None:
        """Make a file with these bytes, durable under its name, or none at all."""
        new = f"{path}.{os.getpid()}.{get_ident()}.new"
        try:
            fd = nofollow.create_draft(new, home=home)
            try:
                view = memoryview(data)
                while view:
                    written = self.write(fd, bytes(view[:_PIECE]))
                    view = view[written:]
                self.fdatasync(fd)
            finally:
                os.close(fd)
            self.replace(new, path, home)
        except BaseException:
            drop(new, home)
            raise
        self.sync_directory(os.path.dirname(path), home)


class Descriptor:
    """A file descriptor that closes with its last user.

    A thread may still be syncing a segment that another thread has just left;
    closing by hand would let the number be reused under it.
    """

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # Bound here: as the interpreter ends, the names of this module may be gone already.
        close(self.fd)


def drop(path: str, home: str | None = None) -> None:
    """Remove a file that is no longer needed; a missing file and an error are ignored."""
    with suppress(OSError):
        nofollow.remove_name(path, home=home)


# The log's lock: one flock'd file that also says who holds it, and who held it last.

# Paths are strings here: pathlib costs more than the append it would serve.


# To look more often costs the holder the processor; to look less often leaves the lock idle while
# all sleep. Between eight writers this was the best of 50 us to 2 ms.
PAUSE_MIN = 0.0002
PAUSE_MAX = 0.0005
_NOW = fcntl.LOCK_EX | fcntl.LOCK_NB
_CHANCE_AT = 21  # behind the number of the process


class LogLock:
    """Exclusive among processes, held for one append, waited for no longer than `wait_ms_max`.

    flock belongs to the open file, so threads need a lock of their own and a
    forked child must open the file again.
    """

    def __init__(self, path: str, wait_ms_max: int) -> None:
        self._path, self._wait_ms_max = path, wait_ms_max
        # Nobody else writes these bytes: finding them means that nobody held the lock since.
        self._mark = b"%-*d%b\n" % (_CHANCE_AT, os.getpid(), os.urandom(8).hex().encode())
        self._fd = -1
        self._inode = self._device = 0  # of the open file
        _ALL.add(self)

    def acquire(self, *, wait: bool = True) -> bool:
        """Take the lock within the time given, or raise LockError with the holder's process.

        Returns whether nothing can have changed: no other process held the lock, or called `alert`,
        since this object released it.
        """
        while True:
            if self._fd < 0:
                self._fd = self._open()
            fd = self._fd
            try:
                fcntl.flock(fd, _NOW)
            except BlockingIOError:
                self._wait(fd, self._wait_ms_max if wait else 0)
            # Someone may have deleted or replaced the file while we held or awaited it; a lock on
            # a file without that name excludes nobody.
            try:
                found = os.lstat(self._path)
            except FileNotFoundError:
                self.close()
                continue
            if found.st_ino == self._inode and found.st_dev == self._device:
                if found.st_nlink > 1:
                    self._separate()
                break
            self.close()
        if nofollow.pread(self._fd, 64, 0) == self._mark:
            return True
        try:
            os.pwrite(self._fd, self._mark, 0)
        except OSError as error:
            self.release()
            raise WriteError(
                f"{self._path}: {error.strerror}; nothing was changed; make room and try again"
            ) from error
        return False

    def alert(self) -> None:
        """Make the next holder of the lock see that others were here; needs no lock.

        The number of the holder stays. Errors are ignored: the next `acquire` finds the change
        anyway.
        """
        with suppress(OSError):
            fd = nofollow.open_file(self._path, os.O_RDWR)
            try:
                # One with several names is replaced by its next holder, who so is not alone.
                if os.fstat(fd).st_nlink == 1:
                    os.pwrite(fd, os.urandom(8).hex().encode(), _CHANCE_AT)
            finally:
                os.close(fd)

    def release(self) -> None:
        """Let the next one in."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give up the descriptor, and with it the lock."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> int:
        try:
            fd = nofollow.open_file(self._path, os.O_RDWR | os.O_CREAT)
        except StrangeFileError:
            raise
        except OSError as error:
            raise HomeError(
                f"{self._path}: {error.strerror}; a log needs to write there"
            ) from error
        self._note(fd)
        return fd

    def _note(self, fd: int) -> None:
        found = os.fstat(fd)
        self._inode, self._device = found.st_ino, found.st_dev

    def _separate(self) -> None:
        """While it is held, put a file of our own in the place of one that has other names too.

        The others (of a backup made of hard links) keep their bytes. Who waits for the old file
        gets it, sees that it has lost the name, and opens the new one.
        """
        new = f"{self._path}.{os.getpid()}.{get_ident()}.new"
        try:
            fd = nofollow.create_draft(new)
            try:
                fcntl.flock(fd, _NOW)
                nofollow.rename_name(new, self._path)
            except BaseException:
                os.close(fd)
                drop(new)
                raise
        except OSError as error:
            self.release()
            raise WriteError(
                f"{self._path}: has several names, and cannot be replaced: {error.strerror}; "
                "nothing was changed"
            ) from error
        os.close(self._fd)
        self._fd = fd
        self._note(fd)

    def _wait(self, fd: int, wait_ms_max: int) -> None:
        deadline = time.monotonic() + wait_ms_max / 1000
        pause = PAUSE_MIN
        while True:
            if time.monotonic() >= deadline:
                holder = self._holder(fd)
                who = "another process" if holder is None else f"process {holder}"
                raise LockError(
                    f"{self._path}: held by {who} for more than {wait_ms_max} ms; "
                    "try again, or end that process",
                    holder=holder,
                )
            time.sleep(pause)
            pause = min(pause * 2, PAUSE_MAX)
            try:
                fcntl.flock(fd, _NOW)
            except BlockingIOError:
                continue
            return

    def _holder(self, fd: int) -> int | None:
        """Who wrote its number last, where that process is alive: else it is somebody else."""
        text = nofollow.pread(fd, 20, 0).strip()
        if not text.isdigit():
            return None
        try:
            os.kill(int(text), 0)
        except (ProcessLookupError, OverflowError):
            return None
        except PermissionError:
            pass
        return int(text)


# One sync for the lines of many writers ("group commit": DeWitt et al. 1984).

# Quicker syncs are not shared: to wait for another process takes longer, and the kernel merges what
# several ask for at once. Measured by the shortest of the last few, as a busy machine delays some.
_SLOW_SECONDS = 0.002
_SYNCS_TIMED = 16
_LOOKS = 8  # while a sync runs
# A process that was stopped while it syncs keeps nobody longer.
_LOOKING_SECONDS_MAX = 0.5
_MARK_BYTES = 96
_HASH_BYTES = 16
_END = b'"}\n'


class SharedSync:
    """Syncs of a segment that serve all processes whose lines were in it before they began.

    `log/.sync` is flock'd for the length of a sync and says up to where the last one made a file
    durable: `DEVICE INODE BYTE HASH`, HASH being that of the line which ends at BYTE. It was read
    before that sync began, so by the hash chain a file with this hash there had all lines up to
    there when the sync began. Whatever else the mark says (of another file, of one that was cut
    since, torn, foreign) spares nobody a sync, and neither does a lock that cannot be had. Where
    syncs are quick, each process makes its own.
    """

    def __init__(self, path: str, timer: Callable[[], float] = time.monotonic) -> None:
        self._path, self._timer = path, timer
        self._fd = -1
        self._took = [0.0] * _SYNCS_TIMED  # seconds of the last syncs
        _ALL.add(self)

    def sync(self, fd: int, end: int, sync: Callable[[], None]) -> None:
        """Return when all up to byte `end` of a segment is durable.

        By `sync`, which raises OSError, or by the sync of another process that began when this
        much was written. Where a sync fails, none is shared for that file any more.
        """
        usual = min(self._took)
        if usual < _SLOW_SECONDS or (self._fd < 0 and not self._open()):
            self._timed(sync)
            return
        found = os.fstat(fd)
        file = b"%d %d " % (found.st_dev, found.st_ino)
        deadline = self._timer() + max(_LOOKING_SECONDS_MAX, 4 * usual)
        while not self._covers(fd, file, end):
            if self._taken():
                try:
                    self._lead(fd, file, end, sync)
                finally:
                    fcntl.flock(self._fd, fcntl.LOCK_UN)
                return
            if self._timer() >= deadline:
                self._timed(sync)
                return
            time.sleep(usual / _LOOKS)

    def _timed(self, sync: Callable[[], None]) -> None:
        begun = self._timer()
        sync()
        self._took = [*self._took[1:], self._timer() - begun]

    def close(self) -> None:
        """Give up the descriptor."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _lead(self, fd: int, file: bytes, end: int, sync: Callable[[], None]) -> None:
        """Sync for all who have written by now. The lock is held."""
        if self._covers(fd, file, end):  # who held it before has done it
            return
        size = os.fstat(fd).st_size
        last = nofollow.pread(fd, _HASH_BYTES + len(_END), size - _HASH_BYTES - len(_END))
        try:
            self._timed(sync)
        except OSError:
            # What the failed sync lost, a later one of another descriptor may call durable.
            self._put(file + b"failed")
            raise
        if last.endswith(_END) and not self._mark().startswith(file + b"failed"):
            self._put(b"%b%d %b" % (file, size, last[:_HASH_BYTES]))

    def _covers(self, fd: int, file: bytes, end: int) -> bool:
        """Whether the last sync made the file durable up to byte `end`."""
        mark = self._mark()
        if not mark.startswith(file):
            return False
        size, _, h = mark[len(file) :].rstrip().partition(b" ")
        if not size.isdigit() or len(h) != _HASH_BYTES or (synced := int(size)) < end:
            return False
        at = synced - _HASH_BYTES - len(_END)
        return nofollow.pread(fd, _HASH_BYTES + len(_END), at) == h + _END

    def _mark(self) -> bytes:
        return nofollow.pread(self._fd, _MARK_BYTES, 0)

    def _put(self, mark: bytes) -> None:
        with suppress(OSError):  # then the others sync themselves
            os.pwrite(self._fd, mark.ljust(_MARK_BYTES - 1) + b"\n", 0)

    def _taken(self) -> bool:
        try:
            fcntl.flock(self._fd, _NOW)
        except BlockingIOError:
            return False
        return True

    def _open(self) -> bool:
        try:
            nofollow.separate(self._path)
            self._fd = nofollow.open_file(self._path, os.O_RDWR | os.O_CREAT)
        except OSError:
            return False
        return True


def _let_go() -> None:
    """In a forked child: a lock that its parent held would live on with the child otherwise."""
    for lock in list(_ALL):
        lock.close()


_ALL: WeakSet[LogLock | SharedSync] = WeakSet()
os.register_at_fork(after_in_child=_let_go)
