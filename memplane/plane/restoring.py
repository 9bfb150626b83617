"""A whole export put into an empty plane: the same id, seqs and chain, the same bytes.

All of it is written beside, in `bodies/restoring/`, and synced. Then, under the log's lock: bodies
get their names, plane.json the plane's id, and last of all the folder `log/`, which holds nothing
but its lock, is replaced by the new one in a single rename. Until then the plane is as empty as it
was, whoever looks; from then on it is whole. What an interrupted restore leaves lies beside and is
thrown away by the next one.
"""

# Paths are strings here, as in the log: what can fail goes through its `Disk`.
# ruff: noqa: PTH106, PTH110, PTH112, PTH120
from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, Self

from memplane import home as homes
from memplane import nofollow
from memplane.errors import HomeError, InputError, WriteError
from memplane.log.bodies import body_path
from memplane.log.disk import Disk, LogLock, drop
from memplane.log.export import Body, Damage, End, LogLines, Opened, Segment, read_export
from memplane.log.writer import clear

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memplane.plane.merging import MergeReport

__all__ = ["Checked", "RestoreReport", "check_export", "clear_left", "is_empty", "restore_whole"]

_LOCK_WAIT_MS: Final = 5000
_LOCK: Final = ".lock"
# What may lie in the folder of a log that holds nothing.
_EMPTY_FOLDERS: Final = ("quarantine", "spool")

Progress = Callable[[int, int], None]


class Checked(NamedTuple):
    """What an export says of itself, once every byte of it was checked."""

    opened: Opened
    end: End


class RestoreReport(NamedTuple):
    """What was restored where. `merged` is None where the plane is now the one exported."""

    home: str
    checked: Checked
    merged: MergeReport | None

    def as_json(self) -> dict[str, Any]:
        opened, end = self.checked
        whole = self.merged is None
        said = {
            "home": self.home, "plane": opened.plane, "seq": opened.seq, "h": opened.h,
            "mode": "whole" if whole else "import", "events": end.events, "bodies": end.bodies,
            "damaged": end.damaged, "lost": end.lost,
        }  # fmt: skip
        return said if self.merged is None else {**said, **self.merged.as_json()}


def check_export(file: IO[bytes], name: str, progress: Progress | None = None) -> Checked:
    """Read an export to its end; raises InputError or FormatError, which name the line."""
    opened, end = None, None
    for item in read_export(file, name, progress):
        if isinstance(item, Opened):
            opened = item
        elif isinstance(item, End):
            end = item
    assert opened is not None
    assert end is not None, "an export without its last line is refused"
    return Checked(opened, end)


def is_empty(home: Path) -> bool:
    """Whether nothing was ever recorded there, or nothing is there at all."""
    if home.exists() and not home.is_dir():
        raise HomeError(f"{home}: expected a folder, found a file")
    log = home / "log"
    names = nofollow.names(log)
    if any(name.endswith(".jsonl") for name in names) or nofollow.names(log / "spool", home):
        return False
    for name in names:
        if name != _LOCK and (name not in _EMPTY_FOLDERS or nofollow.names(log / name, home)):
            raise HomeError(
                f"{log / name}: a log without segments, and not empty; nothing was changed; "
                "look at what this is, and move it away"
            )
    return True


def clear_left(home: Path) -> None:
    """Remove what a restore left that died behind its last step: the plane has events by now."""
    left = home / "bodies" / "restoring"
    with suppress(OSError):
        nofollow.remove_tree(left, home)


def restore_whole(
    file: IO[bytes], name: str, home: Path, checked: Checked, *, created: str,
    policies: Mapping[str, bytes], progress: Progress | None = None, disk: Disk | None = None,
) -> None:  # fmt: skip
    """Make the plane that was exported in a missing folder or an empty plane.

    Policies that are there stay. Raises WriteError where the disk refuses, HomeError where
    something was recorded meanwhile: nothing was changed then.
    """
    if (home / "plane.json").exists() and homes.open_home(home).read_only:
        raise HomeError(f"{home}: is read-only; nothing was restored")
    home = home.resolve() if home.is_symlink() else home
    restoring = _Restoring(os.fspath(home.absolute()), checked.opened, disk or Disk())
    with restoring.prepared():
        restoring.stage(read_export(file, name, progress), checked.end)
        restoring.install(created, policies)


class _Restoring:
    """One restore. `prepared` holds the lock, and undoes on a fault what was made."""

    def __init__(self, home: str, opened: Opened, disk: Disk) -> None:
        self._home, self._opened, self._disk = home, opened, disk
        self._log = f"{home}/log"
        self._beside = f"{home}/bodies/restoring"
        self._made: list[str] = []  # folders, outermost first
        self._digests: list[str] = []
        self._placed: list[str] = []
        self._names: set[Path] | None = None  # what was in the home before it was made a plane
        self._identity: bytes | None = None  # plane.json, as it was before it was replaced
        self._done = False

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Make the folders and take the lock; let go of both."""
        lock = LogLock(f"{self._log}/{_LOCK}", _LOCK_WAIT_MS)
        try:
            for folder in (self._log, f"{self._home}/bodies"):
                self._make(folder)
            try:
                lock.acquire()
            except WriteError as error:
                raise error.__cause__ or error from None
            if not is_empty(Path(self._home)):
                raise self._recorded()
            self._clear()
            yield
        except OSError as error:
            raise self._refused(error) from error
        finally:
            with suppress(OSError):
                self._clear()
            if not self._done:
                self._undo()
            lock.close()

    def stage(self, items: Iterator[Any], expected: End) -> None:
        """Write everything beside, synced, in the order of the export."""
        self._make(f"{self._beside}/log")
        segment, body = _File(self._home, self._disk), _File(self._home, self._disk)
        with segment, body:
            for item in items:
                if isinstance(item, Segment):
                    segment.begin(f"{self._beside}/log/{item.number:08d}.jsonl")
                elif isinstance(item, LogLines | Damage) and segment.is_open:
                    segment.write(item.data)
                elif isinstance(item, Body):
                    if not item.at:
                        self._digests.append(item.sha256)
                        body.begin(f"{self._beside}/{item.sha256}")
                    body.write(item.data)
                elif isinstance(item, End) and item != expected:
                    raise InputError("the export changed while it was read; nothing was changed")
            segment.end()
            body.end()
        self._disk.sync_directory(f"{self._beside}/log", self._home)

    def install(self, created: str, policies: Mapping[str, bytes]) -> None:
        """Give everything its name; the log comes last, in one step."""
        disk = self._disk
        self._place_bodies()
        self._settle_home(created, policies)
        home, lock, new_lock = self._home, f"{self._log}/{_LOCK}", f"{self._beside}/log/{_LOCK}"
        nofollow.link(lock, new_lock, home=home)
        disk.sync_directory(f"{self._beside}/log", home)
        for name in _EMPTY_FOLDERS:
            with suppress(FileNotFoundError):
                nofollow.remove_folder(f"{self._log}/{name}", home)
        nofollow.remove(lock)
        try:
            disk.replace(f"{self._beside}/log", self._log, home)
        except OSError as error:
            # Whoever waits for the lock holds the same file; it gets its name back.
            with suppress(OSError):
                nofollow.link(new_lock, lock, home=home)
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise self._recorded() from error
            raise
        self._done = True
        disk.sync_directory(self._home)
        # They are of a log that was there before: it may have been longer than this one.
        with suppress(OSError):
            for folder in ("projections", "index", "index/ids"):
                clear(self._home, folder)

    def _place_bodies(self) -> None:
        """Bodies without events are nothing to anybody, so they may come first."""
        folders: dict[str, None] = {}
        for digest in self._digests:
            path = body_path(self._home, digest)
            folder = os.path.dirname(path)
            self._make(folder)
            if not os.path.exists(path):
                self._placed.append(path)
            self._disk.replace(f"{self._beside}/{digest}", path, self._home)
            folders[folder] = None
        for folder in folders:
            self._disk.sync_directory(folder, self._home)
        if folders:
            self._disk.sync_directory(f"{self._home}/bodies/sha256")
        self._disk.sync_directory(f"{self._home}/bodies")

    def _settle_home(self, created: str, policies: Mapping[str, bytes]) -> None:
        """See to it that the folder is a plane's, of the id that was exported."""
        home, wanted = Path(self._home), self._opened.plane
        path = home / "plane.json"
        if not path.exists():
            self._names = set(_contents(home))
            homes.create(home, wanted, created, policies)
        elif homes.open_home(home).plane_id != wanted:
            self._identity = nofollow.read(path)
            facts = {**json.loads(self._identity), "plane": wanted}
            self._disk.publish(os.fspath(path), (json.dumps(facts) + "\n").encode())

    def _make(self, folder: str) -> None:
        """Make a folder and those above it; durable, once what is in it counts."""
        missing = []
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        if missing:
            nofollow.make_folder(missing[0], self._home)
            self._made += reversed(missing)
            for each in missing:
                self._disk.sync_directory(os.path.dirname(each))

    def _clear(self) -> None:
        with suppress(FileNotFoundError):
            nofollow.remove_tree(self._beside, self._home)

    def _undo(self) -> None:
        """Take back what a fault left behind, but for what somebody else has put there."""
        home = Path(self._home)
        for path in self._placed:
            drop(path, self._home)
        if self._identity is not None:
            with suppress(OSError):
                self._disk.publish(os.fspath(home / "plane.json"), self._identity)
        if self._names is not None:
            self._unmake(home, self._names)
        if self._log in self._made:
            drop(f"{self._log}/{_LOCK}")
        for folder in reversed(self._made):
            with suppress(OSError):
                os.rmdir(folder)  # those above the home too; of a link, nothing

    def _unmake(self, home: Path, before: set[Path]) -> None:
        """Remove what makes a folder a plane, where it was none and nobody else made it one."""
        with suppress(HomeError):
            if homes.open_home(home).plane_id != self._opened.plane:
                return
        found = [path for path in _contents(home) if path not in before]
        for path in found:
            if path.name in ("plane.json", ".gitignore") or path.parent != home:
                drop(os.fspath(path))
        for path in found:
            if path.parent == home:
                with suppress(OSError):
                    nofollow.remove_folder(path)

    def _refused(self, error: OSError) -> WriteError:
        said = (
            "everything is in its place, but may not survive a power cut: restore it again"
            if self._done
            else "nothing was changed; make room, and restore it again"
        )
        return WriteError(f"{error.filename or self._home}: {error.strerror}; {said}")

    def _recorded(self) -> HomeError:
        return HomeError(
            f"{self._home}: something was recorded there meanwhile; nothing was changed; "
            "restore again: it will be taken in as an import"
        )


def _contents(home: Path) -> list[Path]:
    """What lies in the home and in its policies."""
    folders = home, home / "policies"
    return [folder / name for folder in folders for name in nofollow.names(folder)]


class _File:
    """One file after the other, each written whole and synced before the next."""

    def __init__(self, home: str, disk: Disk) -> None:
        self._home, self._disk, self._fd = home, disk, -1

    @property
    def is_open(self) -> bool:
        """Whether there is a file to write to."""
        return self._fd >= 0

    def begin(self, path: str) -> None:
        """End the file before, and begin one."""
        self.end()
        self._fd = nofollow.create(path, home=self._home)

    def write(self, data: bytes) -> None:
        """Write all of it."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._disk.write(self._fd, bytes(rest)) :]

    def end(self) -> None:
        """Make it durable and let go of it."""
        if self._fd >= 0:
            self._disk.fdatasync(self._fd)
            self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._fd >= 0:
            self._close()
