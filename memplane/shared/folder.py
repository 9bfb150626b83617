"""`memplane sync FOLDER`: one memory in several planes that share a folder, without a server.

Each device writes one file in the folder (`device_file`) and reads those of the others; git,
Syncthing or a network share carries them. Planes that have read the same files have the same values
in force, in whatever order they met: events are recorded by their ids, values are ordered by the
one rule of `projections.in_force`. What this plane has seen of each file is kept in its home
(`FolderState`). A sync may be killed at any time: what was taken is there by its ids, what was
written is found in the own file, and the next sync goes on.

**Reading** (`FolderReader`). A device's events count once it was accepted. The whole file of a
device is read and checked first, then its events are recorded under their ids, with where they are
from; a second time records nothing. A refused file is named, and of it nothing is taken; the others
are. Forgets, pins and touches come after all events of all files, and what of their ids is not here
yet waits for them: a forget acts on what stands before it only. Purges come last.

**Whose it is.** What a device of another person says is recorded as that person's: the actor is
`person:NAME`, under the name that this user gave the device, and there is no role. Taken are
statements and messages alone. A rule or preference becomes a fact with a tag and without a key;
neither does any of its values take the place of a rule or preference, or of the summary of a
session here. Markers, sessions, tasks and data, by which an event is lifted or joined to work at
hand, stay behind, and importance is the usual one at most. Its forgets reach no rule or preference,
and its purges erase what came from itself alone. Who may write the folder may write as any accepted
device: files are chained, not signed.

**Writing** (`FolderWriter`). What the log has got since the last sync is appended: events of the
chosen namespaces, redacted as an export, with where they are from. What was taken from other
devices is theirs to say. Forgets, pins and touches name ids of what the folder holds, whatever they
named here: a key, a session and a source mean other events elsewhere. A value that was forgotten
before it was ever written leaves without its text, under the id `!ID`: its key and time alone, so
that an older value of another device does not come into force there. The text follows where the
forget is taken back. A purge of this plane's log is written as an entry, and the lines of what it
erased are overwritten. The forget of a key means another value once the one that it meant is
purged; it is written again for that one.

**A folder that is a git repository** (`Clone`): fetch, rebase the own commits, commit, push. The
folder is the top of a clone of its own. git runs as a list of words without a shell; hooks,
signatures, editors, pagers and file system monitors are off, and transports that run programs of an
address (`ext::`) are refused. A clone's own configuration can name programs in many ways, and it
may come with an archive: one that sets anything but where its remote is and how files are stored is
refused by the name of the key. What the user's own configuration says of credentials and SSH holds.
Attributes that a commit brings are put out of force for device files (`info/attributes`): no
conversion of line ends, no filter, no merge of two versions touches their bytes.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from memplane import nofollow
from memplane.errors import HomeError, InputError, MemplaneError, NotFoundError, WriteError
from memplane.event import GLOBAL, IMPORTANCE_DEFAULT, PERSON, TYPED_KINDS, Event, decode
from memplane.intake import NAME_MAX, TAGS_MAX, namespace, same, with_permitted_actor
from memplane.intake.redact import quoted_value
from memplane.lazy import NamedTuple, word_table
from memplane.log.disk import LogLock
from memplane.log.segments import erased_by
from memplane.projections.in_force import (
    EVICTED,
    ORIGIN,
    Forget,
    Moment,
    Moments,
    forget_of,
    originated,
    place_of,
)
from memplane.projects import PREFIX, project_named
from memplane.shared.device_file import (
    EVERYTHING,
    NAMED_MAX,
    STATE_FOLDER,
    Chosen,
    DeviceLines,
    DeviceReport,
    FilePlace,
    FolderState,
    KnownDevice,
    MetFile,
    ReadFile,
    RefusedFileError,
    SharedEvent,
    SharedPurge,
    SyncReport,
    WaitingAct,
    accept_device,
    append_lines,
    check_device_name,
    check_shared_row,
    device_of,
    device_that_said,
    erase_lines,
    file_of,
    ids_in,
    kept_state,
    mark_device,
    new_device,
    read_device,
    stat_of,
)
from memplane.trust import printable
from memplane.upkeep.export import EventSelector, ExportFilter
from memplane.upkeep.purge import purge_plane
from memplane.work.changes import Pick

if TYPE_CHECKING:
    from memplane.context.context import PlaneContext
    from memplane.event import Draft


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
        clone = Clone(place)
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


TAKEN_MAX: Final = 100_000  # events in one sync
_ROWS_AT_ONCE: Final = 256
_TEXT_AT_ONCE: Final = 8 * 1024 * 1024
ACT_KINDS: Final = ("forget", "pin", "touch")
_RULES: Final = frozenset(("rule", "preference"))
_OF_SESSIONS: Final = "session/"  # how the keys of sessions' summaries begin
_OF_PERSONS: Final = frozenset((*TYPED_KINDS, "message"))
_SAID_BY_PERSONS: Final = word_table("""
    id ts kind ns text key tags refs valid_from valid_until
""")


class _EnoughError(Exception):
    """So many events were taken that the rest, from this place on, is for the next sync."""

    def __init__(self, place: FilePlace) -> None:
        super().__init__()
        self.place = place


@dataclass(slots=True)
class _Checked:
    """One accepted device whose file was read to its end without a fault."""

    device: str
    known: KnownDevice
    found: ReadFile
    report: DeviceReport
    stat: tuple[int, ...]
    purges: list[SharedPurge] = field(default_factory=list)


class FolderReader:
    """One sync's reading of the other devices' files."""

    def __init__(
        self, context: PlaneContext, state: FolderState, folder: str, progress: Progress | None
    ) -> None:
        self._context, self._state, self._folder = context, state, folder
        self._progress = progress
        self._taken = 0
        self.more = False

    def look(self, devices: Sequence[str]) -> tuple[list[_Checked], list[DeviceReport]]:
        """Read and check the files of these devices; nothing is recorded."""
        accepted: list[_Checked] = []
        reports: list[DeviceReport] = []
        met = self._state.met
        self._state.met = {one: met[one] for one in devices if one in met}
        for device in devices:
            known = self._state.devices.get(device)
            report = DeviceReport(device, known.name if known else "", "waiting")
            reports.append(report)
            if known is not None:
                report.status, report.mine = "accepted", known.mine
            path = f"{self._folder}/{file_of(device)}"
            stat = stat_of(path)
            if known is not None and known.stat and known.stat == stat:
                continue
            if known is None and self._was_met(report, stat):
                continue
            try:
                one = self._checked(device, path, report, stat)
            except RefusedFileError as error:
                report.status, report.why = "refused", str(error)
            else:
                if known is not None:
                    accepted.append(one)
            if known is None:
                self._meet(report, stat)
        return accepted, reports

    def _meet(self, report: DeviceReport, stat: tuple[int, ...]) -> None:
        """Keep what was found in the file of a device that is not accepted."""
        found = report.status, report.name, report.why, report.events, report.first, report.last
        self._state.met[report.device] = MetFile(stat, *found)

    def _was_met(self, report: DeviceReport, stat: tuple[int, ...]) -> bool:
        """Whether a waiting file is as it was when it was read; the report then says the same."""
        met = self._state.met.get(report.device)
        if met is None or met.stat != stat or not stat:
            return False
        report.status, report.name, report.why = met.status, met.name, met.why
        report.events, report.first, report.last = met.events, met.first, met.last
        return True

    def _checked(
        self, device: str, path: str, report: DeviceReport, stat: tuple[int, ...]
    ) -> _Checked:
        known = self._state.devices.get(device)
        purges: list[SharedPurge] = []

        def check(entry: SharedEvent | SharedPurge, _: FilePlace) -> None:
            if isinstance(entry, SharedPurge):
                purges.append(entry)
            else:
                self._refuse_own(entry)

        place = known.place if known is not None else FilePlace()
        found = read_device(path, place, check=check, progress=self._progress)
        report.name = known.name if known is not None else found.header.name
        report.events, report.first, report.last = found.events, found.first, found.last
        return _Checked(device, known or KnownDevice("", mine=False), found, report, stat, purges)

    def _refuse_own(self, entry: SharedEvent) -> None:
        """Raise InputError for the id of an event of this plane's own, with other content."""
        line = self._context.log.find(entry.id)
        if line is None or device_that_said(line.event) is not None:
            return
        context, event = self._context, line.event
        draft = context.drafting()(with_permitted_actor(entry.row), "")
        redactor = context.intake(context.watched.policies_or_last()).redactor
        log = context.log
        if not same(event, draft, redactor, lambda: log.text(event), lambda: log.recalled(event)):
            raise InputError(f"{entry.id!r} is the id of another event, of this plane's own")

    def take(self, accepted: list[_Checked], save: Callable[[], None]) -> None:
        """Record what the checked files say, and erase what their purges name."""
        gone = self._gone(accepted)
        for one in accepted:
            if not self.more:
                self._take_file(one, gone, save)
        self._act(save)
        self._purge(accepted, save)

    def _gone(self, accepted: list[_Checked]) -> dict[str, set[str]]:
        """The ids that purges name, by the device whose events they are; "": of any device."""
        gone: dict[str, set[str]] = {"": set(self._state.unwanted)}
        for one in accepted:
            place = "" if one.known.mine else one.device
            gone.setdefault(place, set()).update(one.found.purged)
        return gone

    def _take_file(
        self, one: _Checked, gone: dict[str, set[str]], save: Callable[[], None]
    ) -> None:
        batch = _Batch(self._context, self._state, one)
        never = gone[""] | gone.get(one.device, set())
        path = f"{self._folder}/{file_of(one.device)}"
        count, most = 0, TAKEN_MAX - self._taken

        def take(entry: SharedEvent | SharedPurge, at: FilePlace) -> None:
            nonlocal count
            if isinstance(entry, SharedPurge):
                return
            if count == most:
                raise _EnoughError(at)
            count += 1
            if entry.id not in never:
                batch.add(entry)

        stat = one.stat
        try:
            end = read_device(path, one.known.place, check=take, progress=self._progress).end
        except _EnoughError as enough:
            self.more, end, stat = True, enough.place, ()
        except RefusedFileError as error:
            one.report.status, one.report.why = "refused", f"{error} (it changed meanwhile)"
            return
        batch.flush()
        self._taken += count
        self._state.waiting += batch.acts
        self._note_purges(one)
        # What came meanwhile was not looked for in the log: it is read again.
        one.known.place, one.known.stat = end, stat if end == one.found.end else ()
        save()

    def _note_purges(self, one: _Checked) -> None:
        """Keep which events here are to be erased, and which are not to come."""
        log, state = self._context.log, self._state
        here = []
        for id_ in dict.fromkeys(id_ for purge in one.purges for id_ in purge.ids):
            if log.find(id_) is not None:
                here.append(id_)
            elif one.known.mine and log.purged_as(id_) is None:
                state.unwanted[id_] = None
        if here:
            state.purging.setdefault(one.device, []).extend(here)

    # Forgets, pins and touches.

    def _act(self, save: Callable[[], None]) -> None:
        waiting, self._state.waiting = self._state.waiting, []
        rows: list[dict[str, Any]] = []
        for act in waiting:
            known = self._state.devices.get(act.device)
            if known is None:
                continue
            here, absent = self._parted(act, mine=known.mine)
            if here:
                rows.append(_act_row(act, here, part=act.part or bool(absent)))
            if absent:
                self._state.waiting.append(
                    WaitingAct(act.device, act.row, absent, part=act.part or bool(here))
                )
        drafting = self._context.drafting()
        self._context.recorder.many(rows, _ROWS_AT_ONCE, drafting, strict=False)
        if waiting:
            save()

    def _parted(self, act: WaitingAct, *, mine: bool) -> tuple[list[str], list[str]]:
        """The ids of an act that are here and that it may name, and those that are not here."""
        here, absent = [], []
        log, chosen = self._context.log, self._state.chosen
        for id_ in act.ids:
            line = log.find(id_)
            if line is None:
                if log.purged_as(id_) is None and id_ not in self._state.unwanted:
                    absent.append(id_)
            elif chosen.shares(line.event) and (mine or line.event.kind not in _RULES):
                here.append(id_)
        return here, absent

    # Purges.

    def _purge(self, accepted: list[_Checked], save: Callable[[], None]) -> None:
        """Erase here what purges name; again, where that was interrupted."""
        log, state = self._context.log, self._state
        if not state.purging:
            return
        reports = {one.device: one.report for one in accepted}
        erased: dict[str, None] = {}
        for device, ids in state.purging.items():
            for id_ in dict.fromkeys(ids if device in state.devices else ()):
                line = log.find(id_)
                if line is not None and self._may_purge(line.event, device):
                    erased[id_] = None
                    if device in reports:
                        reports[device].purged += 1
        if erased:
            _erase(self._context, tuple(erased))
        state.purging = {}
        save()

    def _may_purge(self, event: Event, device: str) -> bool:
        """Whether a device may erase an event: a person's, what came from itself."""
        by = device_that_said(event)
        if not self._state.devices[device].mine:
            return by == device
        return by is not None or self._state.chosen.shares(event)


def _erase(context: PlaneContext, ids: tuple[str, ...]) -> None:
    """Purge events here as they were purged on another device."""
    named = {"ids": ids, "key": None, "session": None, "source": None, "archived": ()}
    pick = Pick.of(context.clock(), tag=None, older_than=None, kind=None, ns=None, decisions=False)
    reason = "purged on another device of a shared folder"
    purge_plane(
        context,
        named,
        GLOBAL,
        pick,
        reason,
        cascade=False,
        summaries=True,
        dry_run=False,
        progress=None,
    )


class _Batch:
    """Events of one device on their way into the log."""

    def __init__(self, context: PlaneContext, state: FolderState, one: _Checked) -> None:
        self._context, self._state, self._one = context, state, one
        self._rows: list[dict[str, Any]] = []
        self._text = 0
        self.acts: list[WaitingAct] = []

    def add(self, entry: SharedEvent) -> None:
        """Take one event: to be recorded, or to act later, or to be left."""
        known, report = self._one.known, self._one.report
        row = with_permitted_actor(entry.row)
        kind = row["kind"]
        if kind in ACT_KINDS:
            ids = _ids_of(row)
            if ids and (known.mine or kind == "forget"):
                self.acts.append(WaitingAct(self._one.device, _bare_act(row, self._one), ids))
            return
        if not self._state.chosen.takes(kind, row.get("ns", GLOBAL)):
            report.left += 1
            return
        said: dict[str, Any] | None = {**row, "data": _said_by_device(row, self._one.device)}
        if not known.mine:
            if self._context.log.find(entry.id) is not None:
                report.repeated += 1
                return
            said = self._as_persons(row, f"{PERSON}{known.name}")
        if said is None:
            report.left += 1
            return
        self._rows.append(said)
        self._text += len(said.get("text", ""))
        if len(self._rows) >= _ROWS_AT_ONCE or self._text >= _TEXT_AT_ONCE:
            self.flush()

    def _as_persons(self, row: dict[str, Any], actor: str) -> dict[str, Any] | None:
        """The row as another person's, see the module; None for what no person says here."""
        kind = row["kind"]
        if kind not in _OF_PERSONS:
            return None
        said: dict[str, Any] = {name: row[name] for name in _SAID_BY_PERSONS if name in row}
        data = {ORIGIN: _said_by_device(row, self._one.device)[ORIGIN]}
        importance = row.get("importance", IMPORTANCE_DEFAULT)
        if isinstance(importance, float):
            importance = IMPORTANCE_DEFAULT
        said |= {
            "actor": actor,
            "markers": [],
            "importance": min(importance, IMPORTANCE_DEFAULT),
            "sensitivity": row.get("sensitivity", "normal"),
            "data": data,
        }
        if kind in _RULES:
            tags = [*row.get("tags", ())][: TAGS_MAX - 1]
            said |= {"kind": "fact", "tags": [*tags, f"said-as-{kind}"]}
            said.pop("key", None)
        elif "key" in said and self._is_taken(said.get("ns", GLOBAL), said["key"]):
            said.pop("key")
        if not said.get("text") and "key" not in said:
            return None
        return said

    def _is_taken(self, ns: str, key: str) -> bool:
        """Whether a key has a value that no person replaces: a rule, or of a session here."""
        with self._context.lock:
            current = self._context.caught_up().memories.current(ns, key)
        if current is None or current.kind in _RULES:
            return current is not None
        line = self._context.log.line(current.seq) if key.startswith(_OF_SESSIONS) else None
        return line is not None and device_that_said(line.event) is None

    def flush(self) -> None:
        """Record the events that wait."""
        rows, self._rows, self._text = self._rows, [], 0
        if not rows:
            return
        drafting, report = self._context.drafting(), self._one.report

        def make(row: Any, where: str) -> Draft:
            return drafting(row, where)

        try:
            done, refused = self._context.recorder.many(rows, len(rows), make, strict=False)
        except WriteError as error:
            raise WriteError(f"{error}; sync again: each event is taken in once") from error
        again = sum(appended.duplicate for appended in done)
        report.taken += len(done) - again
        report.repeated += again
        report.refusals += sum(one.reason != "purged" for one in refused)


def _said_by_device(row: dict[str, Any], device: str) -> dict[str, Any]:
    """The data of a row, with the device in whose file it stood."""
    data = row["data"]
    return {**data, ORIGIN: {**data[ORIGIN], "device": device}}


def _bare_act(row: dict[str, Any], one: _Checked) -> dict[str, Any]:
    """What is kept of a forget, pin or touch: no more than what makes it one."""
    data = {ORIGIN: _said_by_device(row, one.device)[ORIGIN]}
    data |= {name: row["data"][name] for name in ("undo", "reason") if name in row["data"]}
    kept = {"id": row["id"], "ts": row["ts"], "kind": row["kind"], "data": data}
    return kept if one.known.mine else {**kept, "actor": f"{PERSON}{one.known.name}"}


def _ids_of(row: dict[str, Any]) -> list[str]:
    """The ids that a forget, pin or touch of a file names: it names nothing else."""
    if row["kind"] != "forget":
        return [*row.get("refs", ())]
    named = forget_of(decode({"seq": 0, **row}))
    return [] if named is None else sorted(named.ids)


def _act_row(act: WaitingAct, ids: list[str], *, part: bool) -> dict[str, Any]:
    """The event of an act on those of its ids that are here; a part has an id of its own."""
    row = {**act.row}
    if part:
        row["id"] = suffixed(row["id"], "\n".join(ids))
    if row["kind"] == "forget":
        return {**row, "data": {**row["data"], "forget": {"ids": ids}}}
    return {**row, "refs": ids}


def suffixed(id_: str, what: str) -> str:
    """An id made of another one and of what tells it from its like; never longer than an id."""
    digest = sha256(what.encode()).hexdigest()[:12]
    made = f"{id_}@{digest}"
    if len(made) <= NAME_MAX:
        return made
    return f"{sha256(id_.encode()).hexdigest()[:32]}@{digest}"


SENT_MAX: Final = 100_000  # events in one sync
BLANK: Final = "!"  # how the id of a value without its text begins
_APPEND_BYTES: Final = 4 * 1024 * 1024
_FORGOTTEN: Final = "forgotten"  # why an export withholds an event


class FolderWriter:
    """One sync's writing of the own file."""

    def __init__(
        self,
        context: PlaneContext,
        state: FolderState,
        folder: str,
        others: Iterable[str],
        save: Callable[[], None] | None,
    ) -> None:
        """`save` keeps the state; None for a dry run, which writes nothing."""
        self._context, self._state, self._save = context, state, save
        self._path = f"{folder}/{file_of(state.device)}"
        self._draft = f"{folder}/.{state.device}.new"
        self._others = [f"{folder}/{file_of(one)}" for one in others]
        self._selector = EventSelector(context, ExportFilter())
        self._moments = Moments()
        self._lines = DeviceLines(state.device, state.own)
        self._waiting: list[bytes] = []
        self._size = 0
        self._ids: set[str] = set()
        self._purged: dict[str, list[str]] = {}  # by the id of the purge
        self.sent = self.erased = 0
        self.more = False
        self.withheld: dict[str, int] = {}

    def write(self, progress: Progress | None) -> None:
        """Write what is new; nothing where that is nothing of this plane's to say."""
        log, state = self._context.log, self._state
        head = log.head().seq
        if state.own.lines and not any(
            self._is_news(line.event) for line in log.read(state.seq, head)
        ):
            self._done(head)
            return
        self._ids = ids_in(self._path)
        if not self._lines.place.lines:
            self._put(self._lines.header(state.device, state.plane, state.name))
        for line in log.read(0, head):
            if progress is not None and line.event.seq % 1024 == 0:
                progress(line.event.seq, head)
            self._see(line.event, new=line.event.seq > state.seq)
            if self.sent >= SENT_MAX and line.event.seq < head:
                self.more, head = True, line.event.seq
                break
        self._write_purges()
        self._flush()
        self._done(head)

    def _done(self, head: int) -> None:
        state = self._state
        changed = (state.seq, state.own, state.writing) != (head, self._lines.place, False)
        if self._save is None:
            return
        self._erase()
        if changed:
            state.seq, state.own, state.writing = head, self._lines.place, False
            self._save()

    def _is_news(self, event: Event) -> bool:
        """Whether the own file has to be looked at for this event."""
        if device_that_said(event) is not None:
            return False
        if event.kind in (*ACT_KINDS, "purge"):
            return True
        return self._state.chosen.shares(event)

    def _see(self, event: Event, *, new: bool) -> None:
        """Take one event of the log; those written before give the times of later ones."""
        moment = self._moments.see(event)
        if not new or device_that_said(event) is not None:
            return
        if event.kind in ACT_KINDS:
            self._act(event, self._origin(event._replace(data={}), moment))
        elif event.kind == "purge":
            self._purged[event.id] = [one.id for one in erased_by(event)]
        elif self._state.chosen.shares(event):
            self._share(event, moment)

    def _origin(self, event: Event, moment: Moment | None) -> dict[str, Any]:
        return originated(event, self._state.plane, moment)

    def _share(self, event: Event, moment: Moment | None) -> None:
        """Write an event, or why it stays."""
        held = self._selector.withheld
        before = held.get(_FORGOTTEN, 0)
        row = self._selector.leaving(event)
        if row is not None:
            self._send(event.id, row, event, moment)
        elif held.get(_FORGOTTEN, 0) > before:
            self._withhold(_FORGOTTEN)
            self._blank(event, moment)
        else:
            self._withhold("hidden")

    def _withhold(self, why: str) -> None:
        self.withheld[why] = self.withheld.get(why, 0) + 1

    def _send(self, id_: str, row: dict[str, Any], event: Event, moment: Moment | None) -> None:
        """Write an event once; what no device may say stays."""
        if id_ in self._ids:
            return
        data = self._origin(event._replace(data=row.get("data", {})), moment)
        try:
            said = self._checked(with_permitted_actor({**row, "id": id_, "data": data}))
        except InputError:
            self._withhold("invalid")
            return
        self._put(self._lines.event(id_, said))
        self._ids.add(id_)
        self.sent += 1

    def _checked(self, row: dict[str, Any]) -> dict[str, Any]:
        """The fields of the file, which a reader accepts; raises InputError."""
        given = {
            name: [*value] if isinstance(value, tuple) else value
            for name, value in row.items()
            if name not in ("seq", "dur", "rec", "tokens", "h")
        }
        check_shared_row(given)
        return given

    def _blank(self, event: Event, moment: Moment | None) -> None:
        """Write the key and time of a forgotten value, without what it says."""
        place, id_ = place_of(event), f"{BLANK}{event.id}"
        if place is None or event.id in self._ids or len(id_) > NAME_MAX:
            return
        kind = "fact" if event.kind == "message" else event.kind  # no message is without a text
        row = {"ts": event.ts, "kind": kind, "ns": event.ns, "key": event.key}
        self._send(id_, row, event, moment)

    # Forgets, pins and touches.

    def _act(self, event: Event, data: dict[str, Any]) -> None:
        if event.kind != "forget":
            self._write_act(event, event.refs, data)
            return
        named = forget_of(event)
        if named is None:
            return
        if named.key is not None:
            self._forget_key(event, named, data)
            return
        self._write_act(event, self._named(event, named), data)

    def _forget_key(self, event: Event, named: Forget, data: dict[str, Any]) -> None:
        """It means the value that the key had then, and says which by its id."""
        with self._context.lock:
            memories = self._context.caught_up().memories
            rows = memories.history(named.ns, str(named.key), upto=event.seq)
        if rows:
            self._write_act(event, [rows[-1].id], data)

    def _named(self, event: Event, named: Forget) -> Iterator[str]:
        """The ids of what a forget by ids, session or source means."""
        if named.ids:
            yield from sorted(named.ids)
            return
        for line in self._context.log.read(0, event.seq - 1):
            one = line.event
            if one.kind not in ACT_KINDS and named.names(one.id, one.session):
                yield one.id

    def _write_act(self, event: Event, named: Iterable[str], data: dict[str, Any]) -> None:
        """Write an act on what the folder holds of the ids, under an id made of them."""
        undo = bool(event.data.get("undo"))
        ids = [said for one in named for said in self._as_sent(one, undo=undo)]
        for at in range(0, len(ids), NAMED_MAX):
            part = ids[at : at + NAMED_MAX]
            own = suffixed(event.id, "\n".join(part))
            if own in self._ids:
                continue
            said: dict[str, Any] = {**data}
            row: dict[str, Any] = {"id": own, "ts": event.ts, "kind": event.kind}
            if event.kind == "forget":
                said["forget"] = {"ids": part}
            else:
                row["refs"] = part
            if undo:
                said["undo"] = True
            if event.data.get("reason") == EVICTED:
                said["reason"] = EVICTED
            self._put(self._lines.event(own, {**row, "data": said}))
            self._ids.add(own)

    def _as_sent(self, id_: str, *, undo: bool) -> Iterator[str]:
        """The ids by which the folder has an event; none where it does not have it."""
        line = self._context.log.find(id_)
        if line is not None and device_that_said(line.event) is not None:
            if self._state.chosen.shares(line.event):
                yield id_
            return
        if undo and line is not None and id_ not in self._ids:
            self._send_late(line.event)
        if id_ in self._ids:
            yield id_
        if f"{BLANK}{id_}" in self._ids:
            yield f"{BLANK}{id_}"

    def _send_late(self, event: Event) -> None:
        """Write an event that was withheld while it was forgotten."""
        if not self._state.chosen.shares(event) or event.kind in ACT_KINDS:
            return
        row = EventSelector(self._context, ExportFilter()).leaving(event)
        if row is not None:
            self._send(event.id, row, event, self._moment(event))

    def _moment(self, event: Event) -> Moment | None:
        """The moment of a value, as the chain of its key has it."""
        if place_of(event) is None:
            return None
        with self._context.lock:
            rows = self._context.caught_up().memories.history(event.ns, str(event.key))
        return next((row.moment for row in rows if row.seq == event.seq), None)

    # Purges.

    def _write_purges(self) -> None:
        if not self._purged:
            return
        wanted = {id_ for ids in self._purged.values() for id_ in ids}
        elsewhere = set[str]().union(*(ids_in(path, wanted) for path in self._others))
        for purge, erased in self._purged.items():
            ids = [
                said
                for one in erased
                for said in (one, f"{BLANK}{one}")
                if said in self._ids or (said == one and one in elsewhere)
            ]
            for at in range(0, len(ids), NAMED_MAX):
                own = purge if not at else suffixed(purge, f"/{at}")
                if own not in self._ids:
                    self._put(self._lines.purge(own, ids[at : at + NAMED_MAX]))
                    self._ids.add(own)
        self._forget_anew()

    def _forget_anew(self) -> None:
        """Write the forgets of keys for the values that they mean now, where those are others."""
        moments = Moments()
        for line in self._context.log.read(0):
            event = line.event
            if event.kind != "forget":
                continue
            moment, named = moments.see(event), forget_of(event)
            if named is None or named.key is None or device_that_said(event) is not None:
                continue
            self._forget_key(event, named, self._origin(event._replace(data={}), moment))

    def _erase(self) -> None:
        """Overwrite what was purged in the own file; again, where that was interrupted."""
        gone = {
            said
            for ids in self._purged.values()
            for one in ids
            for said in (one, f"{BLANK}{one}")
            if said in self._ids
        }
        if gone:
            self.erased = erase_lines(self._path, self._draft, self._state.device, gone)

    # The file.

    def _put(self, data: bytes) -> None:
        self._waiting.append(data)
        self._size += len(data)
        if self._size >= _APPEND_BYTES:
            self._flush()

    def _flush(self) -> None:
        data = b"".join(self._waiting)
        self._waiting, self._size = [], 0
        if not data or self._save is None:
            return
        if not self._state.writing:
            self._state.writing = True
            self._save()
        append_lines(self._path, self._lines.place.bytes - len(data), data)


_TRIES: Final = 5  # of a push, when others pushed meanwhile
_SECONDS_MAX: Final = 300
_WORDS_BYTES: Final = 64 * 1024
_SAFE: Final = word_table("""
    --no-pager --no-replace-objects --no-optional-locks -c core.hooksPath=/dev/null -c
    core.fsmonitor=false -c core.editor=true -c sequence.editor=true -c commit.gpgSign=false -c
    tag.gpgSign=false -c push.gpgSign=false -c gc.auto=0 -c maintenance.auto=false -c
    protocol.ext.allow=never -c submodule.recurse=false -c fetch.recurseSubmodules=false -c
    push.recurseSubmodules=no -c core.autocrlf=false -c core.attributesFile=/dev/null -c
    rebase.autoStash=false -c rebase.updateRefs=false -c merge.autoStash=false -c
    advice.detachedHead=false
""")
# Of the environment: nothing that names another repository. How to reach a server is the user's.
_KEPT: Final = frozenset(("GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_ASKPASS"))
_PLAIN_KEYS: Final = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode"
    r"|symlinks|sharedrepository|eol|autocrlf)"
    r"|extensions\.(objectformat|refstorage)"
    r"|remote\..*\.(url|pushurl|fetch|tagopt|prune)"
    r"|branch\..*\.(remote|merge|rebase|description)"
    r"|user\.(name|email)|init\.defaultbranch|pull\.(rebase|ff)|push\.(default|autosetupremote)"
)
_ATTRIBUTES: Final = "*.jsonl -text -filter -ident -working-tree-encoding -merge -diff"


class CloneError(MemplaneError):
    """git is not there, refuses, or would run what a stranger's repository names."""


class Clone:
    """The clone whose top a shared folder is. Raises CloneError for any other folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        if not os.path.lexists(f"{folder}/.git"):
            raise CloneError(
                f"{printable(folder)}: no git repository begins here; clone one for this folder "
                "alone, or sync without --git"
            )
        settings = self._settings()
        top, attributes = self._said(
            "rev-parse", "--show-toplevel", "--git-path", "info/attributes"
        ).split("\n")
        if os.path.realpath(top) != os.path.realpath(folder):
            raise CloneError(f"{printable(folder)}: lies in a repository, and is not its top")
        self.branch = self._tried("symbolic-ref", "--quiet", "--short", "HEAD")
        if not self.branch:
            raise CloneError(f"{printable(folder)}: no branch is checked out (a detached HEAD)")
        self.remote = settings.get(f"branch.{self.branch}.remote", "origin")
        if self.remote.startswith("-") or f"remote.{self.remote}.url" not in settings:
            raise CloneError(
                f"{printable(folder)}: the branch {printable(self.branch)} has no remote; "
                "`git remote add origin ADDRESS` says where the others are"
            )
        self._put_attributes(os.path.join(folder, attributes))  # noqa: PTH118 - a text

    def _settings(self) -> dict[str, str]:
        """The clone's own configuration; raises for one that sets more than a plain one's."""
        # Reading it runs nothing; what it includes from elsewhere is not read, but refused.
        listed = self._run("config", "--local", "--no-includes", "--null", "--list")
        found = dict(one.partition("\n")[::2] for one in listed.split("\0") if one)
        for key in found:
            if _PLAIN_KEYS.fullmatch(key) is None:
                raise CloneError(
                    f"{printable(self.folder)}: its own configuration sets {printable(key)[:100]}, "
                    "which git might run or follow; nothing was done; take it out of .git/config, "
                    "or sync without --git and run git yourself"
                )
        return found

    def _put_attributes(self, path: str) -> None:
        try:
            nofollow.make_folder(os.path.dirname(path))  # noqa: PTH120 - a text
            fd = nofollow.open_file(path, os.O_RDWR | os.O_CREAT)
            with os.fdopen(fd, "r+b") as file:
                said = file.read(_WORDS_BYTES)
                if _ATTRIBUTES.encode() not in said.splitlines()[-1:]:
                    file.write(b"\n" * (not said.endswith(b"\n")) + f"{_ATTRIBUTES}\n".encode())
        except OSError as error:
            raise CloneError(f"{printable(path)}: {error.strerror}") from error

    def pull(self, device: str | None) -> None:
        """Bring what the others have pushed; own commits are put behind it."""
        if device is not None:
            self._commit(device, device)  # what an interrupted sync left
        tip = f"refs/remotes/{self.remote}/{self.branch}"
        self._run("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", self.remote)
        pushed, own = self._commit_at(tip), self._commit_at("HEAD")
        if not pushed or pushed == own:
            return
        if not own or self._is_in("HEAD", tip):
            self._run("merge", "--quiet", "--ff-only", "--no-verify-signatures", tip)
        elif not self._is_in(tip, "HEAD"):
            self._rebase(tip)

    def publish(self, device: str, name: str) -> str:
        """Commit the own file and push it; what was done, in a word."""
        self._commit(device, name)
        tip = f"refs/remotes/{self.remote}/{self.branch}"
        own = self._commit_at("HEAD")
        if not own or own == self._commit_at(tip):
            return "nothing to push"
        for left in range(_TRIES - 1, -1, -1):
            try:
                target = f"HEAD:refs/heads/{self.branch}"
                self._run("push", "--quiet", "--no-verify", "--", self.remote, target)
            except CloneError as error:
                if not left or not _was_overtaken(str(error)):
                    raise
                self.pull(None)
                continue
            return "pushed"
        raise CloneError(f"{printable(self.folder)}: others push all the time; sync again")

    def _commit(self, device: str, name: str) -> None:
        file = file_of(device)
        if not nofollow.is_file(f"{self.folder}/{file}"):
            return
        if not self._run("status", "--porcelain", "--ignored", "--", file).strip():
            return
        self._run("add", "--force", "--", file)
        identity = ("-c", f"user.name={name}", "-c", f"user.email={device}@memplane.invalid")
        self._run(
            "commit",
            "--quiet",
            "--no-verify",
            "-m",
            f"memplane: {name}",
            "--",
            file,
            before=identity,
        )

    def _rebase(self, tip: str) -> None:
        identity = ("-c", "user.name=memplane", "-c", "user.email=sync@memplane.invalid")
        try:
            self._run("rebase", "--quiet", "--no-verify", tip, before=identity)
        except CloneError:
            self._tried("rebase", "--abort")
            raise

    def _is_in(self, one: str, other: str) -> bool:
        return self._code("merge-base", "--is-ancestor", one, other) == 0

    def _commit_at(self, ref: str) -> str:
        return self._tried("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")

    def _said(self, *argv: str) -> str:
        return self._run(*argv).strip("\n")

    def _tried(self, *argv: str) -> str:
        """What git answers; nothing where it says no."""
        try:
            return self._run(*argv).strip("\n")
        except CloneError:
            return ""

    def _code(self, *argv: str) -> int:
        try:
            self._run(*argv)
        except CloneError:
            return 1
        return 0

    def _run(self, *argv: str, before: tuple[str, ...] = ()) -> str:
        """What git prints, at most 64 KiB; raises CloneError with its last words."""
        words = ["git", "-C", self.folder, *_SAFE, *before, *argv]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
            try:
                code = subprocess.run(  # noqa: S603 - a list of words, no shell
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=said,
                    check=False,
                    env=_environment(),
                    timeout=_SECONDS_MAX,
                ).returncode
            except OSError as error:
                raise CloneError(
                    f"git: the program cannot be run ({error.strerror}); install git"
                ) from error
            except subprocess.TimeoutExpired as error:
                raise CloneError(
                    f"git {argv[0]} took longer than {_SECONDS_MAX} seconds and was ended"
                ) from error
            for file in (out, said):
                file.seek(0)
            if code:
                raise CloneError(
                    f"{printable(self.folder)}: git {argv[0]}: {_reason(said.read(_WORDS_BYTES))}"
                )
            return out.read(_WORDS_BYTES).decode("utf-8", "replace")


def _environment() -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name in _KEPT
    }
    return {**kept, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_MERGE_AUTOEDIT": "no"}


def _was_overtaken(words: str) -> bool:
    """Whether a push was refused because others had pushed."""
    return any(
        one in words
        for one in (
            "[rejected]",
            "fetch first",
            "non-fast-forward",
            "cannot lock ref",
            "failed to update ref",
            "remote rejected",
        )
    )


def _reason(words: bytes) -> str:
    """Why git refused, in its own last words, inert for a terminal."""
    said = words.decode("utf-8", "replace")
    lines = [
        line.strip() for line in said.splitlines() if line.strip() and not line.startswith("hint:")
    ]
    return printable("; ".join(lines[-3:]) or "it failed, and said nothing")[:500]
