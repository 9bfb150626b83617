"""How far each file was read, so that an import of a grown file reads what is new.

A cache, `projections/imports.json`: without it an import reads everything again
and records nothing twice. It is written by tmp and rename, and ignored when it is
broken, of another plane, or of a log that no longer holds the event it names::

    {"format": 1, "plane": id, "seq": 812, "h": "…", "files": {"/abs/path": {...}},
     "repositories": {"/abs/path/.git": {"how": {...}, "heads": ["…"]}}}

Of a repository the last heads are kept, the newest last. A file goes on at `offset`
when the first and last bytes before that are the ones that were read; what stands
behind it was not there or not a whole line then. A gzip file has no such place, and one
that is no file of lines neither: it is read whole, or not at all when size, time and
those bytes are as they were before it was read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memplane import nofollow
from memplane.errors import MemplaneError
from memplane.importers.lines import is_gzip
from memplane.intake.redact import masked_data
from memplane.lazy import regex

if TYPE_CHECKING:
    from memplane.plane import Plane

__all__ = ["Consumed"]

_FORMAT: Final = 1
_HEAD_BYTES: Final = 64 * 1024
_TAIL_BYTES: Final = 4 * 1024
_HEADS_MAX: Final = 20
_HASH: Final = regex(r"[0-9a-f]{40,64}")


class Consumed:
    """What is known of the files read into one plane."""

    def __init__(self, plane: Plane, *, fresh: bool = False) -> None:
        self._plane = plane
        self._path = Path(plane.home) / "projections" / "imports.json"
        known = self._load()
        self._files: dict[str, Any] = {} if fresh else _table(known, "files")
        self._repositories: dict[str, Any] = _table(known, "repositories")

    def offset(self, path: Path, how: dict[str, Any]) -> int:
        """Say where to go on reading; 0 for a file that is new, rewritten, or was read otherwise.

        -1: there is nothing new in it.
        """
        entry = self._files.get(os.fspath(path))
        if not isinstance(entry, dict) or entry.get("how") != how:
            return 0
        try:
            offset = int(entry["offset"])
            if offset < 0 or entry["hashes"] != _hashes(path, offset):
                return 0
            stat = path.stat()
            if is_gzip(path) or entry.get("whole") is True:
                same = [stat.st_size, stat.st_mtime_ns] == [entry["size"], entry["mtime_ns"]]
                return -1 if same else 0
        except (OSError, KeyError, TypeError, ValueError):
            return 0
        return -1 if stat.st_size == offset else offset

    def state(self, path: Path) -> dict[str, Any]:
        """Return what the reader asked to keep with this file."""
        entry = self._files.get(os.fspath(path))
        state = entry.get("state") if isinstance(entry, dict) else None
        return state if isinstance(state, dict) else {}

    def keep(
        self,
        path: Path,
        how: dict[str, Any],
        *,
        before: os.stat_result,
        offset: int,
        state: dict[str, Any],
        whole: bool = False,
    ) -> None:
        """Remember that the plane has recorded the file up to `offset`; to be saved later.

        `before` is the file's state before it was read: what came while it was read is new.
        One that was read as a `whole` has nothing to go on behind.
        """
        with contextlib.suppress(OSError):
            if whole or is_gzip(path):
                offset = before.st_size
            self._files[os.fspath(path)] = {
                "how": how,
                "size": before.st_size,
                "mtime_ns": before.st_mtime_ns,
                "hashes": _hashes(path, offset),
                "offset": offset,
                **({"whole": True} if whole else {}),
                "state": masked_data(state),  # it names calls as the file does
            }

    def heads(self, repository: Path, how: dict[str, Any]) -> list[str]:
        """The heads up to which a repository was read, if it was read like this."""
        entry = self._repositories.get(os.fspath(repository))
        if not isinstance(entry, dict) or entry.get("how") != how:
            return []
        heads = entry.get("heads")
        known = heads if isinstance(heads, list) else []
        return [each for each in known if isinstance(each, str) and _HASH.fullmatch(each)]

    def keep_heads(self, repository: Path, how: dict[str, Any], heads: list[str]) -> None:
        """Remember that the plane has recorded what these heads reach; to be saved later."""
        kept = list(dict.fromkeys(heads))[-_HEADS_MAX:]
        self._repositories[os.fspath(repository)] = {"how": how, "heads": kept}

    def save(self) -> None:
        """Write the cache; a disk that refuses costs the next import time and nothing else."""
        head = self._plane.head()
        files = {path: entry for path, entry in self._files.items() if Path(path).exists()}
        known = {path: e for path, e in self._repositories.items() if Path(path).exists()}
        whole = {"format": _FORMAT, "plane": self._plane.id, "seq": head.seq, "h": head.h}
        tmp = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
        with contextlib.suppress(OSError):
            nofollow.make_folder(self._path.parent)
            with os.fdopen(nofollow.create(tmp), "w", encoding="utf-8") as file:
                json.dump({**whole, "files": files, "repositories": known}, file)
            nofollow.rename(tmp, self._path)
            return
        with contextlib.suppress(OSError):
            nofollow.remove(tmp)

    def _load(self) -> dict[str, Any]:
        try:
            whole = json.loads(nofollow.read(self._path))
            if whole["format"] != _FORMAT or whole["plane"] != self._plane.id:
                return {}
            # The log may be an older copy of itself: then what was read is not in it.
            if self._plane.event(whole["seq"]).h != whole["h"]:
                return {}
            return dict(whole)
        except (OSError, ValueError, KeyError, TypeError, RecursionError, MemplaneError):
            return {}


def _table(known: dict[str, Any], name: str) -> dict[str, Any]:
    table = known.get(name)
    return dict(table) if isinstance(table, dict) else {}


def _hashes(path: Path, offset: int) -> list[str]:
    """Of the first 64 KiB and the last 4 KiB before the offset, in the bytes on disk."""
    with path.open("rb") as file:
        head = file.read(min(offset, _HEAD_BYTES))
        file.seek(max(0, offset - _TAIL_BYTES))
        tail = file.read(min(offset, _TAIL_BYTES))
    return [hashlib.sha256(part).hexdigest() for part in (head, tail)]
