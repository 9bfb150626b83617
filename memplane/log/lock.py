"""The log's lock: one flock'd file that also says who holds it, and who held it last."""

from __future__ import annotations

import fcntl
import os
import time

from memplane.errors import HomeError, LockError, WriteError

__all__ = ["LogLock"]

PAUSE_MIN = 0.00005
PAUSE_MAX = 0.002


class LogLock:
    """Exclusive among processes, held for one append, waited for no longer than `wait_ms_max`.

    flock belongs to the open file, so threads need a lock of their own and a
    forked child must open the file again.
    """

    def __init__(self, path: str, wait_ms_max: int) -> None:
        self._path, self._wait_ms_max = path, wait_ms_max
        # Nobody else writes these bytes: finding them means that nobody held the lock since.
        self._mark = b"%-20d %b\n" % (os.getpid(), os.urandom(8).hex().encode())
        self._fd = -1

    def acquire(self) -> bool:
        """Take the lock, or raise LockError naming the process that holds it.

        True if nobody else has held it since this object did: nothing has changed.
        """
        while True:
            if self._fd < 0:
                self._fd = self._open()
            fd = self._fd
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._wait(fd)
            # Someone may have deleted the file while we held or awaited it; a lock on a file
            # without a name excludes nobody.
            if os.fstat(fd).st_nlink:
                break
            self.close()
        if os.pread(fd, 64, 0) == self._mark:
            return True
        try:
            os.pwrite(fd, self._mark, 0)
        except OSError as error:
            self.release()
            raise WriteError(f"{self._path}: {error.strerror}; nothing was recorded") from error
        return False

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
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise HomeError(
                f"{self._path}: {error.strerror}; a log needs to write there"
            ) from error

    def _wait(self, fd: int) -> None:
        deadline = time.monotonic() + self._wait_ms_max / 1000
        pause = PAUSE_MIN
        while True:
            if time.monotonic() >= deadline:
                holder = self._holder(fd)
                who = "another process" if holder is None else f"process {holder}"
                raise LockError(
                    f"{self._path}: held by {who} for more than {self._wait_ms_max} ms; "
                    "try again, or end that process",
                    holder=holder,
                )
            time.sleep(pause)
            pause = min(pause * 2, PAUSE_MAX)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            return

    def _holder(self, fd: int) -> int | None:
        text = os.pread(fd, 20, 0).strip()
        return int(text) if text.isdigit() else None
