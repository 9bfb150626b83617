"""Files of other programs, replaced whole or not at all.

A file is written under another name, synced and renamed, with the mode and owner that it had; a
symbolic link stays one, its target is replaced. Just before the rename the file is read again: what
another program wrote since is never lost.

What an install did to a file besides our own entries, so that an uninstall leaves none of it.

    {"file": "/home/ann/.claude/settings.json", "part": "hooks",
     "before": SHA-256 of the file as it was, null where there was none,
     "backups": [[a copy that was made of it, its SHA-256]], "folders": [those made for it],
     "made": [["hooks"], ["hooks", "Stop"]], "inner": [[["hooks"], " "]],
     "blank": "", "joint": ""}

It lies in the user's folder of state (XDG_STATE_HOME, else ~/.local/state), a file for each
settings file: not beside the settings, which are often in git and shared, and not in a plane,
which may be moved or deleted before. So do the copies of a project's settings, for the same
reason. Where it is lost, our entries are found by what they run, and empty containers stay.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from memplane.clients import settings_text
from memplane.errors import InputError, WriteError
from memplane.home import replace_file
from memplane.trust import state_folder

__all__ = [
    "ChangedMeanwhileError",
    "SettingsRecord",
    "SettingsStore",
    "Traces",
    "back_up",
    "decode_settings",
    "put_settings",
    "read_settings",
    "refuse_unwritable",
    "take_away",
    "take_folders",
]


_BYTES_MAX = 64 << 20


class ChangedMeanwhileError(Exception):
    """The file is no longer what was read; nothing was written."""


def read_settings(path: Path) -> bytes | None:
    """The bytes of a file, None where there is none. Raises InputError, WriteError."""
    try:
        with path.open("rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputError("expected a file, found something else", where=str(path))
            data = file.read(_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        raise InputError("expected a file, found a folder", where=str(path)) from None
    except OSError as error:
        raise WriteError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > _BYTES_MAX:
        raise InputError("expected settings, found more than 64 MiB", where=str(path))
    return data


def decode_settings(data: bytes) -> str:
    """The text of a file. Raises InputError naming the place where it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line, byte = data.count(b"\n", 0, error.start) + 1, data[error.start]
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise InputError(
            f"line {line}, column {column}: expected UTF-8, found the byte 0x{byte:02x}"
        ) from None


def refuse_unwritable(path: Path) -> None:
    """Raise WriteError where a file is for reading only, or its folder is."""
    real = Path(os.path.realpath(path))
    with contextlib.suppress(OSError):
        if not real.stat().st_mode & 0o222 or not os.access(real, os.W_OK):
            raise WriteError(f"{path}: is read-only; nothing was changed")
    above = next(one for one in real.parents if one.exists())
    if not above.is_dir():
        raise WriteError(f"{above}: expected a folder, found a file; nothing was changed")
    if not os.access(above, os.W_OK | os.X_OK):
        raise WriteError(f"{above}: is read-only; nothing was changed")


def put_settings(path: Path, data: bytes, was: bytes | None, new_mode: int) -> list[str]:
    """Replace a file that holds `was` (None: there is none), and give the folders made for it.

    Raises ChangedMeanwhileError where it holds something else, WriteError where it cannot be done.
    """
    real = Path(os.path.realpath(path))
    draft = real.with_name(f".{real.name}.memplane-{os.getpid()}.tmp")
    made: list[str] = []
    try:
        made = _make(real.parent)
        _write(draft, data, real, new_mode)
        if read_settings(path) != was:
            raise ChangedMeanwhileError
        if was is None:
            try:
                os.link(draft, real)  # unlike a rename it does not go over what came meanwhile
            except FileExistsError:
                raise ChangedMeanwhileError from None
            draft.unlink()
        else:
            draft.replace(real)
        _sync(real.parent)
    except OSError as error:
        raise WriteError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
    return made


def take_away(path: Path, was: bytes, folders: tuple[str, ...]) -> None:
    """Delete a file that holds `was`, and those of the folders that then are empty."""
    if read_settings(path) != was:
        raise ChangedMeanwhileError
    try:
        Path(os.path.realpath(path)).unlink()
    except OSError as error:
        raise WriteError(f"{path}: cannot be deleted: {error.strerror}") from error
    take_folders(folders)


def take_folders(folders: tuple[str, ...]) -> None:
    """Delete those of the folders that are empty; the last one is the deepest."""
    with contextlib.suppress(OSError):
        for folder in reversed(folders):
            Path(folder).rmdir()


def back_up(path: Path, data: bytes, folder: Path) -> Path:
    """Copy a file's bytes into a folder under the first name that is free, with its mode."""
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(f"{folder}: cannot be made: {error.strerror}") from error
    for number in itertools.count(1):
        copy = folder / f"{path.name}.memplane-backup-{number}"
        try:
            descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        except OSError as error:
            raise WriteError(f"{copy}: cannot be written: {error.strerror}") from error
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 - the mode was given to os.open
                file.write(data)
                os.fchmod(file.fileno(), mode)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            copy.unlink(missing_ok=True)
            raise WriteError(f"{copy}: cannot be written: {error.strerror}") from error
        return copy
    raise AssertionError


def _make(folder: Path) -> list[str]:
    """Make a folder and those above it; give those that were made, the uppermost first."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir()
    return [str(one) for one in reversed(missing)]


def _write(draft: Path, data: bytes, like: Path, new_mode: int) -> None:
    """Write a file with the mode and owner of another, or a mode for what is new."""
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, new_mode)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - the mode was given to os.open
        file.write(data)
        with contextlib.suppress(FileNotFoundError):
            state = like.stat()
            with contextlib.suppress(PermissionError):
                os.fchown(file.fileno(), state.st_uid, state.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(state.st_mode))
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What an edit left in a text besides our entries.

    `made` are containers that were not there, `inner` what stood in those that were empty, `blank`
    the whole text where there was nothing in it, `joint` what divides a table from what was before.
    """

    made: tuple[settings_text.Path, ...] = ()
    inner: tuple[tuple[settings_text.Path, str], ...] = ()
    blank: str | None = None
    joint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsRecord:
    """What is remembered of a file: the traces in it, and what it was before."""

    file: str
    part: str
    before: str | None = None
    backups: tuple[tuple[str, str], ...] = ()
    folders: tuple[str, ...] = ()
    traces: Traces = field(default_factory=Traces)

    def with_more(self, traces: Traces) -> SettingsRecord:
        """The same after another edit: what was there before the first one stays known."""
        known = self.traces
        inner = dict(traces.inner) | dict(known.inner)
        made = dict.fromkeys((*known.made, *traces.made))
        blank = traces.blank if known.blank is None else known.blank
        more = Traces(
            made=tuple(made),
            inner=tuple(inner.items()),
            blank=blank,
            joint=known.joint or traces.joint,
        )
        return replace(self, traces=more)


class SettingsStore:
    """The records of one user."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        # Resolved: a person may have put a link anywhere in it.
        self._folder = (Path(state_folder(environment)) / "clients").resolve()

    def get(self, file: Path, part: str) -> SettingsRecord | None:
        """The record of a file, None where there is none that can be read."""
        try:
            found = json.loads(self._place(file, part).read_bytes())
            traces = found.pop("traces")
            return SettingsRecord(
                **{
                    **found,
                    "folders": tuple(found["folders"]),
                    "backups": tuple((copy, digest) for copy, digest in found["backups"]),
                },
                traces=Traces(
                    made=tuple(tuple(path) for path in traces["made"]),
                    inner=tuple((tuple(path), text) for path, text in traces["inner"]),
                    blank=traces["blank"],
                    joint=traces["joint"],
                ),
            )
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def put(self, record: SettingsRecord) -> None:
        """Keep a record; WriteError where that cannot be."""
        place = self._place(Path(record.file), record.part)
        if not replace_file(place, (json.dumps(asdict(record), indent=1) + "\n").encode()):
            raise WriteError(f"{place}: cannot be written: permission denied")

    def copies(self, file: Path, part: str) -> Path:
        """The folder for copies of a file that should not have them beside it."""
        return self._place(file, part).with_suffix("")

    def drop(self, file: Path, part: str) -> None:
        """Forget a record, and the folders that then are empty."""
        with contextlib.suppress(OSError):
            self._place(file, part).unlink()
        for folder in (self.copies(file, part), self._folder, self._folder.parent):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _place(self, file: Path, part: str) -> Path:
        name = hashlib.sha256(f"{part}\n{file}".encode(errors="surrogateescape")).hexdigest()[:24]
        return self._folder / f"{name}.json"
