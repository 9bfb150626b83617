"""What a plane opens and reads, counted for the reports of its packs."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from memplane import nofollow

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from memplane.ports import Head

__all__ = ["Reads", "log_bytes"]


class Reads:
    """Files opened and bytes read so far; a pack reports the difference."""

    __slots__ = ("bytes", "files")

    def __init__(self) -> None:
        self.files = 0
        self.bytes = 0

    def whole(self, files: Iterable[Path]) -> None:
        """Note files that were opened and read whole."""
        for file in files:
            with contextlib.suppress(OSError):
                self.bytes += file.lstat().st_size
                self.files += 1

    def log(self, home: Path, before: Head | None, after: Head) -> None:
        """Note the segments that a catch-up read: at most these, own lines are still in memory."""
        if before is not None and before.segment == after.segment:  # no look at the files needed
            self.files += 1
            self.bytes += after.offset - before.offset
            return
        self.files += after.segment - (before.segment if before is not None else 1) + 1
        self.bytes += log_bytes(home, after) - (log_bytes(home, before) if before else 0)


def log_bytes(home: Path, head: Head) -> int:
    """Bytes of the log up to its head, or to the head of a prefix of it."""
    folder = home / "log"
    sealed = (folder / f"{number:08}.jsonl" for number in range(1, head.segment))
    return head.offset + sum(file.lstat().st_size for file in sealed if nofollow.is_file(file))
