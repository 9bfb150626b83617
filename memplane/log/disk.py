"""The system calls that can lose data, in one place, so that tests can make each of them fail.

Also the lock of the log.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident
from weakref import WeakSet

from memplane import nofollow
from memplane.errors import HomeError, LockError, StrangeFileError, WriteError

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


def _let_go() -> None:
    """In a forked child: a lock that its parent held would live on with the child otherwise."""
    for lock in list(_ALL):
        lock.close()


_ALL: WeakSet[LogLock] = WeakSet()
os.register_at_fork(after_in_child=_let_go)
