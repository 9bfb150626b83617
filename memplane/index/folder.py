"""A folder of caches that several processes share: who may write, and files replaced at once.

The index and the projections keep theirs in this way.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["alone", "replace"]


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
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


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
        yield held
    finally:
        os.close(descriptor)
