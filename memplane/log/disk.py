"""The few system calls that can lose data, in one place, so that tests can make each fail."""

# Paths are strings here: pathlib costs more than the append it would serve.
# ruff: noqa: PTH102, PTH105, PTH108, PTH112, PTH120
from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from threading import get_ident

__all__ = ["Descriptor", "Disk", "drop", "make_private"]

# Only there, fsync leaves the data in the drive's cache; this asks the drive too.
FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


class Disk:
    """Writes, syncs, cuts and renames. Results and errors are the operating system's."""

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

    def replace(self, source: str, target: str) -> None:
        """Rename, in one step, over whatever has that name."""
        os.replace(source, target)

    def sync_directory(self, path: str) -> None:
        """Return when the names in this directory would survive a power cut."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def publish(self, path: str, data: bytes) -> None:
        """Make a file with these bytes, durable under its name, or none at all."""
        new = f"{path}.{os.getpid()}.{get_ident()}.new"
        try:
            fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                view = memoryview(data)
                while view:
                    written = self.write(fd, bytes(view))
                    view = view[written:]
                self.fdatasync(fd)
            finally:
                os.close(fd)
            self.replace(new, path)
        except BaseException:
            drop(new)
            raise
        self.sync_directory(os.path.dirname(path))


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


def make_private(folder: str) -> None:
    """Make a directory and those above it, for the owner alone."""
    if not os.path.isdir(folder):
        make_private(os.path.dirname(folder))
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)


def drop(path: str) -> None:
    """Remove a file that nobody needs; that it is not there, or stays, does no harm."""
    with suppress(OSError):
        os.unlink(path)
