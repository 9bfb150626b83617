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

from memplane.errors import WriteError

__all__ = ["alone", "holder", "put", "remove", "replace"]


def replace(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Put the bytes in the file's place at once; OSError leaves the old file as it was.

    Only for the holder of `alone`: the temporary file has one name.
    """
    draft = path.with_name(f"{path.name}.tmp")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - the mode was given to os.open
            file.write(data)
            if sync:
                file.flush()
                os.fsync(descriptor)
        put(draft, path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def put(draft: Path, path: Path) -> None:
    """Rename a file over another; a folder that is in the way is moved aside, not removed."""
    try:
        draft.replace(path)
    except IsADirectoryError:
        aside = (path.with_name(f"{path.name}.aside{n}") for n in itertools.count())
        path.rename(next(one for one in aside if not os.path.lexists(one)))
        draft.replace(path)


def remove(path: Path) -> None:
    """Remove a file, or raise WriteError; a folder by that name stays, for `put` to move aside."""
    try:
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            path.unlink()
    except OSError as error:
        raise WriteError(f"{path}: {error.strerror}; try again") from error


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[bool]:
    """Hold the folder's lock while the block runs, without waiting for it.

    Gives False when another thread or process holds it, or where the folder
    cannot be written (a read-only home): then the block must not write.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
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
            with contextlib.suppress(OSError):  # a full disk: nobody learns who holds it
                os.pwrite(descriptor, b"%-20d\n" % os.getpid(), 0)
        yield held
    finally:
        # A child that was forked meanwhile has the file too, and would go on holding the lock.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def holder(folder: Path) -> int | None:
    """The process that held the folder's lock last; None where that is not known."""
    with contextlib.suppress(OSError, ValueError):
        return int((folder / ".lock").read_bytes()[:20])
    return None
