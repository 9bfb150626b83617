"""What a plane keeps of a shared folder: its device there, what was chosen, how far each was read.

One JSON file a folder, `HOME/shared/folder-DEVICE.json`, mode 0600, kept out of git. It holds ids,
names and hashes, no text of an event. Without it a plane is a new device of the folder, and reads
every file again: events are taken in by their ids, so nothing doubles.

It counts on the machine that wrote it alone: a plane that was cloned or unpacked may bring one in
which a stranger has accepted a device, and two copies of a plane must not write one file. So the
user's state folder (`memplane.trust.state_folder`) has a mark for each device,
`folders/DEVICE.json`, with the place and inode of the plane's home; what has neither is no state of
this plane.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from memplane import nofollow
from memplane.errors import HomeError, InputError, WriteError
from memplane.event import SENSITIVITIES, Event
from memplane.home import replace_file
from memplane.lazy import NamedTuple
from memplane.projections.in_force import ORIGIN, is_foreign
from memplane.shared.device_file import (
    FilePlace,
    check_device_name,
    device_of,
    file_of,
)
from memplane.trust import state_folder

EVERYTHING: Final = "*"
STATE_FOLDER: Final = "shared"
WAITING_MAX: Final = 20_000  # ids that acts wait for, and ids that are not wanted
_FORMAT: Final = 1
_BYTES_MAX: Final = 64 * 1024 * 1024
_MARK_BYTES: Final = 64 * 1024
_AGENTS: Final = "/agent/"
# What belongs to one machine: files and what is said of them, folders, secrets, the log itself.
_STAYING: Final = frozenset(
    ("artifact", "approval", "secret", "project", "segment", "repair", "purge")
)
_SENSITIVE: Final = frozenset(SENSITIVITIES[SENSITIVITIES.index("high") :])


class Chosen(NamedTuple):
    """What is shared with a folder: the namespaces, `*` for all, and whether preferences are."""

    spaces: tuple[str, ...] = (EVERYTHING,)
    preferences: bool = False

    def takes(self, kind: str, ns: str) -> bool:
        """Whether events of a kind and namespace are shared; what is an agent's own never is."""
        if kind in _STAYING or ns.startswith(_AGENTS):
            return False
        if kind == "preference" and not self.preferences:
            return False
        return EVERYTHING in self.spaces or ns in self.spaces

    def shares(self, event: Event) -> bool:
        """Whether this event may be in the folder: never one of high sensitivity."""
        return event.sensitivity not in _SENSITIVE and self.takes(event.kind, event.ns)


def device_that_said(event: Event) -> str | None:
    """The device from whose file an event was taken in; None for one of this plane's own."""
    if not is_foreign(event):
        return None
    device = event.data[ORIGIN].get("device")
    return device if isinstance(device, str) else None


@dataclass(slots=True)
class KnownDevice:
    """An accepted device: the name it is shown under, whose it is, how far its file was read."""

    name: str
    mine: bool
    place: FilePlace = field(default_factory=FilePlace)
    stat: tuple[int, ...] = ()


class MetFile(NamedTuple):
    """What was found in the file of a device that is not accepted: see `DeviceReport`."""

    stat: tuple[int, ...]
    status: str
    name: str
    why: str
    events: int
    first: str
    last: str


@dataclass(slots=True)
class WaitingAct:
    """A forget, pin or touch of a device, with the ids that it names and that are not here yet.

    `part`: others of its ids were here, so that what was recorded of it has an id of its own.
    """

    device: str
    row: dict[str, Any]
    ids: list[str]
    part: bool = False


@dataclass(slots=True)
class FolderState:
    """What is kept of one folder. `seq`: up to which event of the log the own file was written.

    `writing`: the own file may have more lines than `own` says, as an append was not finished.
    `purging`: by device the ids that its purges named, until that is done here. `unwanted`: ids of
    events that were purged elsewhere before they came here. `met`: what was found in the files of
    devices that are not accepted, so that none is read again before it changes.
    """

    device: str
    name: str
    folder: str
    plane: str
    chosen: Chosen = field(default_factory=Chosen)
    seq: int = 0
    own: FilePlace = field(default_factory=FilePlace)
    writing: bool = False
    devices: dict[str, KnownDevice] = field(default_factory=dict)
    waiting: list[WaitingAct] = field(default_factory=list)
    purging: dict[str, list[str]] = field(default_factory=dict)
    unwanted: dict[str, None] = field(default_factory=dict)
    met: dict[str, MetFile] = field(default_factory=dict)

    def save(self, home: str) -> None:
        """Keep it, durable; raises WriteError."""
        count = sum(len(act.ids) for act in self.waiting)
        while count > WAITING_MAX:
            count -= len(self.waiting.pop(0).ids)
        while len(self.unwanted) > WAITING_MAX:
            del self.unwanted[next(iter(self.unwanted))]
        said = {"format": _FORMAT, **asdict(self), "unwanted": list(self.unwanted)}
        folder, name = f"{home}/{STATE_FOLDER}", f"folder-{self.device}.json"
        try:
            nofollow.make_folder(folder, home)
            if not nofollow.is_file(f"{folder}/.gitignore"):  # of a plane made by an older memplane
                _put(f"{folder}/.gitignore", b"*\n", home)
            _put(f"{folder}/{name}", json.dumps(said).encode(), home)
        except OSError as error:
            raise WriteError(f"{error.filename or folder}: {error.strerror}") from error


def _put(path: str, data: bytes, home: str) -> None:
    draft = f"{path}.new"
    with os.fdopen(nofollow.create_draft(draft, home=home), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    nofollow.rename_name(draft, path, home=home)
    nofollow.sync_folder(path.rpartition("/")[0], home)


def _mark_of(device: str) -> str:
    return f"{state_folder(os.environ)}/folders/{device}.json"


def is_of_this_machine(home: str, device: str) -> bool:
    """Whether this plane, on this machine, is that device."""
    try:
        said = json.loads(nofollow.read_bytes(_mark_of(device), _MARK_BYTES))
        found = Path(home).stat()
        same_folder = [found.st_dev, found.st_ino] == said["inode"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
    return bool(same_folder or said["location"] == os.path.realpath(home))


def mark_device(home: str, device: str) -> None:
    """Note that this plane, on this machine, is that device; raises WriteError."""
    path, found = Path(_mark_of(device)), Path(home).stat()
    said = {"location": os.path.realpath(home), "inode": [found.st_dev, found.st_ino]}
    with suppress(OSError, ValueError):
        if json.loads(nofollow.read_bytes(path, _MARK_BYTES)) == said:
            return
    if not replace_file(path, json.dumps(said).encode()):
        raise WriteError(f"{path}: cannot be written: permission denied; nothing was synced")


def new_device() -> str:
    """The id of a device that was never seen."""
    return secrets.token_hex(8)


def kept_state(home: str, plane: str, folder: str) -> FolderState | None:
    """What is kept of a folder, wherever it lies now; None where nothing is.

    It is found by the own file in the folder, else by the path. What is of another machine, or of
    the plane that this one is a copy of, is not looked at. Raises HomeError for a file that cannot
    be read.
    """
    found: FolderState | None = None
    for name in nofollow.file_names(f"{home}/{STATE_FOLDER}", home):
        device = device_of(f"{name.removeprefix('folder-')}l") if name[:7] == "folder-" else None
        if device is None or not is_of_this_machine(home, device):
            continue
        state = _state_in(f"{home}/{STATE_FOLDER}/{name}", home)
        if state.plane != plane:
            continue
        if nofollow.is_file(f"{folder}/{file_of(state.device)}"):
            return state
        if state.folder == folder:
            found = state
    return found


def _state_in(path: str, home: str) -> FolderState:
    try:
        return _parsed(json.loads(nofollow.read_bytes(path, _BYTES_MAX, home=home)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = error.strerror if isinstance(error, OSError) else str(error)
        raise HomeError(
            f"{path}: cannot be used ({what}); move it away, and this plane is a new device of its "
            "folder"
        ) from error


def _parsed(said: Mapping[str, Any]) -> FolderState:
    if said["format"] != _FORMAT:
        raise ValueError(f"format {said['format']!r:.40}, expected {_FORMAT}")
    spaces, preferences = said["chosen"]
    return FolderState(
        said["device"],
        said["name"],
        said["folder"],
        said["plane"],
        Chosen(tuple(map(str, spaces)), bool(preferences)),
        int(said["seq"]),
        FilePlace(*said["own"]),
        bool(said["writing"]),
        {
            device: KnownDevice(
                str(one["name"]), bool(one["mine"]), FilePlace(*one["place"]), tuple(one["stat"])
            )
            for device, one in said["devices"].items()
        },
        [WaitingAct(**one) for one in said["waiting"]],
        {str(device): [*map(str, ids)] for device, ids in said["purging"].items()},
        dict.fromkeys(said["unwanted"]),
        {device: MetFile(tuple(one[0]), *one[1:]) for device, one in said["met"].items()},
    )


def accept_device(state: FolderState, device: str, *, name: str, mine: bool) -> None:
    """Take a device's events from now on, as this person's or, with `mine`, as the user's own.

    Raises InputError where another device has the name: what two persons say would look like one's.
    """
    name = check_device_name(name, "--name")
    same = [one for one, known in state.devices.items() if known.name == name and one != device]
    if (same or name == state.name) and not mine:
        raise InputError(
            f"{name!r} is the name of another device here; name this one with --name", where="name"
        )
    before = state.devices.get(device)
    state.devices[device] = KnownDevice(name, mine, before.place if before else FilePlace())


# What a sync did.


@dataclass(slots=True)
class DeviceReport:
    """What was found in one device's file.

    `status`: accepted, waiting (nothing of it counts until it is accepted) or refused, with why.
    `events` is how many the file holds, with the first and last day of them; `taken` how many were
    recorded now, `repeated` those that were here; `left` those that this plane does not take: other
    namespaces, kinds that another person may not say here.
    """

    device: str
    name: str
    status: str
    mine: bool = False
    why: str = ""
    events: int = 0
    first: str = ""
    last: str = ""
    taken: int = 0
    repeated: int = 0
    left: int = 0
    refusals: int = 0
    purged: int = 0


@dataclass(slots=True)
class SyncReport:
    """What a sync did, or would do by a dry run.

    `sent` counts events that were written to the own file, `erased` those of which it was cleared,
    `withheld` by reason those that stay. `more`: so much is new that the next sync goes on.
    """

    folder: str
    device: str
    name: str
    spaces: tuple[str, ...]
    preferences: bool
    dry_run: bool
    sent: int = 0
    erased: int = 0
    withheld: dict[str, int] = field(default_factory=dict)
    devices: list[DeviceReport] = field(default_factory=list)
    more: bool = False
    git: str = ""

    @property
    def refused(self) -> list[DeviceReport]:
        """The files that were refused."""
        return [one for one in self.devices if one.status == "refused"]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def stat_of(path: str) -> tuple[int, ...]:
    """What changes when a file does; nothing where there is none."""
    with suppress(OSError):
        found = os.lstat(path)
        return (found.st_size, found.st_mtime_ns, found.st_ino)
    return ()
