"""Taking in what other devices of a folder say.

First the whole file of a device is read and checked, then its events are recorded under their ids,
with where they are from. A second time records nothing. Forgets, pins and touches come after all
events of all files, and what of their ids is not here yet waits for them: a forget acts on what
stands before it only. Purges come last.

**Whose it is.** What a device of another person says is recorded as that person's: the actor is
`person:NAME`, under the name that this user gave the device, and there is no role. Taken are
statements and messages alone. A rule or preference becomes a fact with a tag and without a key;
neither does any of its values take the place of a rule or preference, or of the summary of a
session here. Markers, sessions, tasks and data, by which an event is lifted or joined to work at
hand, stay behind, and importance is the usual one at most. Its forgets reach no rule or preference,
and its purges erase what came from itself alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import InputError, WriteError
from memplane.event import GLOBAL, IMPORTANCE_DEFAULT, PERSON, TYPED_KINDS, Event, decode
from memplane.intake.check import NAME_MAX, TAGS_MAX, with_permitted_actor
from memplane.intake.prepare import same
from memplane.lazy import word_table
from memplane.projections.in_force import ORIGIN, forget_of
from memplane.shared.device_file import (
    FilePlace,
    ReadFile,
    RefusedFileError,
    SharedEvent,
    SharedPurge,
    file_of,
    read_device,
)
from memplane.shared.folder_state import (
    DeviceReport,
    FolderState,
    KnownDevice,
    MetFile,
    WaitingAct,
    device_that_said,
    stat_of,
)
from memplane.upkeep.purge import purge_plane
from memplane.work.changes import Pick

if TYPE_CHECKING:
    from memplane.context.context import PlaneContext
    from memplane.event import Draft

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

Progress = Callable[[int, int], None]


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
