"""A folder of caches that several processes share: who may write, and files replaced at once.

The index and the projections keep theirs in this way.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from memplane import nofollow
from memplane.errors import StrangeFileError, WriteError

__all__ = ["alone", "holder", "put", "remove", "replace"]


def replace(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Put the bytes in the file's place at once; OSError leaves the old file as it was.

    Only for the holder of `alone`: the temporary file has one name.
    """
    draft = path.with_name(f"{path.name}.tmp")
    try:
        descriptor = nofollow.create(draft)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(data)
            if sync:
                file.flush()
                os.fsync(descriptor)
        put(draft, path)
    except OSError:
        with contextlib.suppress(OSError):
            nofollow.remove(draft)
        raise


def put(draft: Path, path: Path) -> None:
    """Rename a file over another; a folder that is in the way is moved aside, not removed."""
    try:
        nofollow.rename(draft, path)
    except IsADirectoryError:
        aside = (path.with_name(f"{path.name}.aside{n}") for n in itertools.count())
        nofollow.rename(path, next(one for one in aside if not os.path.lexists(one)))
        nofollow.rename(draft, path)


def remove(path: Path) -> None:
    """Remove a file, or raise WriteError; a folder by that name stays, for `put` to move aside."""
    try:
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            nofollow.remove(path)
    except OSError as error:
        raise WriteError(f"{path}: {error.strerror}; try again") from error


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[bool]:
    """Hold the folder's lock while the block runs, without waiting for it.

    Gives False when another thread or process holds it, or where the folder
    cannot be written (a read-only home): then the block must not write.
    """
    try:
        os.close(nofollow.enter(folder.parent, folder.parent))  # a plane is not made by its caches
        nofollow.make_folder(folder)
        descriptor = _lock_of(folder / ".lock")
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            held = False
        else:
            held = True
            # Of a lock that a backup shares (hard links) nothing is written. A full disk: nobody
            # learns who holds it.
            with contextlib.suppress(OSError):
                if os.fstat(descriptor).st_nlink == 1:
                    os.pwrite(descriptor, b"%-20d\n" % os.getpid(), 0)
        yield held
    finally:
        # A child that was forked meanwhile has the file too, and would go on holding the lock.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _lock_of(path: Path) -> int:
    """Open the lock; a link or pipe in its place is removed: nothing of ours is lost with it."""
    flags = os.O_RDWR | os.O_CREAT
    try:
        return nofollow.open_file(path, flags)
    except StrangeFileError:
        nofollow.remove(path)
        return nofollow.open_file(path, flags)


def holder(folder: Path) -> int | None:
    """The process that held the folder's lock last; None where that is not known."""
    with contextlib.suppress(OSError, ValueError):
        return int(nofollow.read(folder / ".lock", 20))
    return None
