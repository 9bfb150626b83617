"""The few system calls that can lose data, in one place, so that tests can make each fail."""

# Paths are strings here: pathlib costs more than the append it would serve.
# ruff: noqa: PTH120
from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from threading import get_ident

from memplane import nofollow

__all__ = ["Descriptor", "Disk", "drop"]

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
        nofollow.rename(source, target, home=home)

    def sync_directory(self, path: str, home: str | None = None) -> None:
        """Return when the names in this directory would survive a power cut."""
        nofollow.sync_folder(path, home)

    def publish(self, path: str, data: bytes, home: str | None = None) -> None:
        """Make a file with these bytes, durable under its name, or none at all."""
        new = f"{path}.{os.getpid()}.{get_ident()}.new"
        try:
            fd = nofollow.create(new, home=home)
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

    def __del__(self) -> None:
        os.close(self.fd)


def drop(path: str, home: str | None = None) -> None:
    """Remove a file that nobody needs; that it is not there, or stays, does no harm."""
    with suppress(OSError):
        nofollow.remove(path, home=home)
