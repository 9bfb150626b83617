"""`memplane sync FOLDER`: one memory in several planes that share a folder, without a server.

Each device writes one file in the folder (`device_file`) and reads those of the others; git,
Syncthing or a network share carries them. Planes that have read the same files have the same values
in force, in whatever order they met: events are recorded by their ids, values are ordered by the
one rule of `projections.in_force`.

A device's events count once it was accepted. A refused file is named, and of it nothing is taken;
the others are. What this plane has seen of each file is kept in its home (`folder_state`). A sync
may be killed at any time: what was taken is there by its ids, what was written is found in the own
file, and the next sync goes on.

Who may write the folder may write as any accepted device: files are chained, not signed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from memplane import nofollow
from memplane.errors import HomeError, InputError, NotFoundError, WriteError
from memplane.intake import namespace
from memplane.intake.redact import quoted_value
from memplane.lazy import NamedTuple
from memplane.log.disk import LogLock
from memplane.projects.entering import project_named
from memplane.projects.registry import PREFIX
from memplane.shared import clones
from memplane.shared.device_file import (
    FilePlace,
    RefusedFileError,
    append_lines,
    check_device_name,
    device_of,
    file_of,
    read_device,
)
from memplane.shared.folder_reading import FolderReader
from memplane.shared.folder_state import (
    EVERYTHING,
    STATE_FOLDER,
    Chosen,
    DeviceReport,
    FolderState,
    SyncReport,
    accept_device,
    kept_state,
    mark_device,
    new_device,
)
from memplane.shared.folder_writing import FolderWriter

if TYPE_CHECKING:
    from memplane.context.context import PlaneContext

DEVICES_MAX: Final = 1_000
_LOCK_WAIT_MS: Final = 5_000
_SHORTEST: Final = 4  # digits by which a device may be named

Progress = Callable[[int, int], None]


class SyncRequest(NamedTuple):
    """What a caller asks of a sync.

    `projects`: what to share from now on, by name or namespace, `*` for all; none for what was
    chosen before. `git`: the folder is a clone; pull before, commit and push behind.
    `accept`: a device whose events count from now on; `mine`: it is one of this user's own.
    `name`: that device's name here, without `accept` this device's own. `refuse`: a device whose
    events count no longer.
    """

    projects: tuple[str, ...] = ()
    preferences: bool | None = None
    accept: str | None = None
    mine: bool = False
    refuse: str | None = None
    name: str | None = None
    dry_run: bool = False
    git: bool = False


def sync_folder_files(
    context: PlaneContext,
    folder: str | os.PathLike[str],
    asked: SyncRequest,
    *,
    progress: Progress | None = None,
) -> SyncReport:
    """Take in what accepted devices have written to a folder, and write what is new here.

    Raises InputError, NotFoundError for a device that has no file there, HomeError where the own
    file is not what this plane wrote, CloneError of git, WriteError, LockError.
    """
    context.check_open()
    context.need_files("to share a folder")
    if context.read_only and not asked.dry_run:
        raise HomeError(f"{context.home.path}: is read-only; nothing was synced")
    place = _checked_folder(context, folder)
    with _alone(context.home.folder, dry_run=asked.dry_run):
        if not asked.git or asked.dry_run:
            return _Syncing(context, place, asked, progress).run()
        clone = clones.Clone(place)
        clone.pull(own_device(context, place))
        report = _Syncing(context, place, asked, progress).run()
        report.git = clone.publish(report.device, report.name)
        return report


def own_device(context: PlaneContext, folder: str | os.PathLike[str]) -> str | None:
    """The device that this plane is in a folder; None before its first sync."""
    place = os.path.realpath(folder)
    state = kept_state(context.home.folder, context.home.plane_id, place)
    return None if state is None else state.device


def _checked_folder(context: PlaneContext, folder: str | os.PathLike[str]) -> str:
    """The real path of the folder, which is there and no part of the plane."""
    if "\0" in os.fspath(folder):
        raise InputError("expected a folder", where="folder")
    place = os.path.realpath(os.path.expanduser(folder))  # noqa: PTH111 - a text
    if not os.path.isdir(place):  # noqa: PTH112 - likewise
        raise InputError(
            f"{quoted_value(place, 300)}: no folder here; make it, or mount it, first",
            where="folder",
        )
    home = os.path.realpath(context.home.folder)
    if place == home or place.startswith(f"{home}/"):
        raise InputError(
            f"{quoted_value(place, 300)} lies in the plane itself; name another folder",
            where="folder",
        )
    return place


@contextmanager
def _alone(home: str, *, dry_run: bool) -> Iterator[None]:
    """Hold the lock of this plane's syncs."""
    if dry_run:
        yield
        return
    folder = f"{home}/{STATE_FOLDER}"
    try:
        nofollow.make_folder(folder, home)
    except OSError as error:
        raise WriteError(f"{folder}: {error.strerror}; nothing was synced") from error
    lock = LogLock(f"{folder}/.lock", _LOCK_WAIT_MS)
    try:
        lock.acquire()
        yield
    finally:
        lock.close()


class _Syncing:
    """One sync."""

    def __init__(
        self,
        context: PlaneContext,
        folder: str,
        asked: SyncRequest,
        progress: Progress | None,
    ) -> None:
        self._context, self._folder, self._asked = context, folder, asked
        self._home, self._progress = context.home.folder, progress
        self._devices = self._found()
        self._state = self._opened()

    def run(self) -> SyncReport:
        state, asked = self._state, self._asked
        self._settle_own()
        others = [one for one in self._devices if one != state.device]
        self._answer(others)
        report = SyncReport(
            self._folder,
            state.device,
            state.name,
            state.chosen.spaces,
            state.chosen.preferences,
            asked.dry_run,
        )
        reader = FolderReader(self._context, state, self._folder, self._progress)
        accepted, report.devices = reader.look(others)
        if not asked.dry_run:
            mark_device(self._home, state.device)
            self._context.log.append([])  # a purge that was interrupted is finished by it
            self._save()
            reader.take(accepted, self._save)
        writer = FolderWriter(
            self._context,
            state,
            self._folder,
            [one.device for one in report.devices if one.status == "accepted"],
            None if asked.dry_run else self._save,
        )
        try:
            writer.write(self._progress)
        except OSError as error:
            raise WriteError(
                f"{error.filename or self._folder}: {error.strerror or error}; sync again when "
                "there is room: it goes on where it ended"
            ) from error
        report.sent, report.erased, report.withheld = writer.sent, writer.erased, writer.withheld
        report.more = reader.more or writer.more
        report.devices += self._missing(others)
        return report

    def _found(self) -> list[str]:
        """The devices that have a file in the folder, by their ids."""
        try:
            names = nofollow.folder_names(os.path.realpath(self._folder))
        except OSError as error:
            raise InputError(f"{self._folder}: {error.strerror}", where="folder") from error
        found = [device for name in names if (device := device_of(name)) is not None]
        if len(found) > DEVICES_MAX:
            raise InputError(
                f"{self._folder}: the files of {len(found)} devices, expected at most "
                f"{DEVICES_MAX}",
                where="folder",
            )
        return found

    def _opened(self) -> FolderState:
        """What is kept of the folder, with what is asked for now; a new device where nothing is."""
        asked, plane = self._asked, self._context.home.plane_id
        state = kept_state(self._home, plane, self._folder)
        own_name = None if asked.accept is not None else asked.name
        if state is None:
            name = check_device_name(own_name or _host_name(), "--name")
            spaces = _spaces(self._context, asked.projects)
            if not spaces:
                if self._context.home.parted:
                    raise InputError(
                        "say what of your own plane this folder shares: --project NAME, more than "
                        "once for several, or --project '*' for all of it",
                        where="--project",
                    )
                spaces = (EVERYTHING,)
            state = FolderState(new_device(), name, self._folder, plane)
            state.chosen = Chosen(spaces, bool(asked.preferences))
            return state
        if own_name is not None and own_name != state.name:
            raise InputError(
                f"this device is called {state.name!r} in its file, which others have read: its "
                "name stays",
                where="--name",
            )
        state.folder = self._folder
        chosen = Chosen(
            _spaces(self._context, asked.projects) or state.chosen.spaces,
            state.chosen.preferences if asked.preferences is None else asked.preferences,
        )
        if chosen != state.chosen:
            # What was left before may be wanted now: everything is looked at again.
            state.chosen, state.seq = chosen, 0
            for known in state.devices.values():
                known.place, known.stat = FilePlace(), ()
        return state

    def _save(self) -> None:
        self._state.save(self._home)

    def _settle_own(self) -> None:
        """See to it that the own file is what this plane wrote, and end an interrupted append."""
        state = self._state
        path = f"{self._folder}/{file_of(state.device)}"
        remedy = (
            "bring it back (git, or the versions that Syncthing keeps), or move "
            f"{self._home}/{STATE_FOLDER}/folder-{state.device}.json away: this plane then is a "
            "new device, which the others have to accept"
        )
        if not os.path.lexists(path):
            if state.own.lines:
                raise HomeError(f"{path}: the file that this plane wrote is gone; {remedy}")
            return
        try:
            end = read_device(path, state.own).end
        except RefusedFileError as error:
            if not state.own.lines and state.writing:
                end = FilePlace()  # its header was on its way
            else:
                raise HomeError(f"{error}: it is not what this plane wrote; {remedy}") from None
        if end != state.own and not state.writing:
            raise HomeError(
                f"{path}: has lines that this plane did not write: a copy of the plane uses the "
                f"same device, or somebody wrote as it; {remedy}"
            )
        if state.writing and not self._asked.dry_run:
            append_lines(path, end.bytes, b"")
        state.own = end

    def _answer(self, others: Iterable[str]) -> None:
        """Accept or refuse the device that is asked for."""
        asked, state = self._asked, self._state
        if asked.mine and asked.accept is None:
            raise InputError("--mine goes with --accept DEVICE", where="--mine")
        if asked.accept is not None:
            device = _named_device(asked.accept, others)
            path = f"{self._folder}/{file_of(device)}"
            name = asked.name or read_device(path).header.name
            accept_device(state, device, name=name, mine=asked.mine)
        if asked.refuse is not None:
            device = _named_device(asked.refuse, state.devices)
            del state.devices[device]
            state.waiting = [one for one in state.waiting if one.device != device]

    def _missing(self, others: Iterable[str]) -> list[DeviceReport]:
        """The accepted devices whose files are not in the folder."""
        there = set(others)
        return [
            DeviceReport(
                device,
                known.name,
                "refused" if known.place.lines else "waiting",
                known.mine,
                why="its file is not in the folder any more",
            )
            for device, known in self._state.devices.items()
            if device not in there
        ]


def _host_name() -> str:
    """What this machine is called, as far as a device's name may hold it."""
    kept = "".join(one for one in os.uname().nodename if one.isalnum() or one in "._-")
    return kept[:32] or "device"


def _spaces(context: PlaneContext, projects: Iterable[str]) -> tuple[str, ...]:
    """The namespaces of projects that are named, or that are namespaces; never an agent's own."""
    found = []
    for name in projects:
        if name == EVERYTHING:
            return (EVERYTHING,)
        if name.startswith("/"):
            namespace(name, where="--project")
            if name.startswith("/agent/"):
                raise InputError("what is an agent's own is never shared", where="--project")
            found.append(name)
        elif context.registry is not None:
            found.append(project_named(context.registry.follow(), name))
        else:
            namespace(f"{PREFIX}{name}", where="--project")
            found.append(f"{PREFIX}{name}")
    return tuple(dict.fromkeys(found))


def _named_device(given: str, devices: Iterable[str]) -> str:
    """The device that is meant by its id, or by the beginning of it."""
    found = [one for one in devices if one.startswith(given)] if len(given) >= _SHORTEST else []
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"{given!r} is how {len(found)} devices begin; give more of it")
    raise NotFoundError(f"no device {quoted_value(given)} in the folder")
