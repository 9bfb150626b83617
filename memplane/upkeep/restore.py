"""Restore an export: whole into an empty plane, or merged into a plane that has events of its own.

A whole restore gives the same ids, seqs and bytes. A merge records the events again, under their
ids, so that a second merge records nothing. `data.origin` names the plane and the seq they are
from, and the time by which values and forgets of several planes are ordered
(`projections.in_force`):
a value older than the one in force enters history and supersedes nothing.
"""

# ruff: noqa: PTH106, PTH110, PTH112, PTH120

from __future__ import annotations

import errno
import json
import os
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Self

from memplane import home as homes, nofollow
from memplane.errors import HomeError, InputError, WriteError
from memplane.event import GLOBAL, decode
from memplane.intake import OWN_KINDS, is_checksum, with_permitted_actor
from memplane.intake.redact import masked
from memplane.lazy import NamedTuple
from memplane.log.disk import Disk, LogLock, drop
from memplane.log.export import (
    Body,
    Damage,
    End,
    ExportedEvent,
    ExportedSegment,
    ExportHeader,
    LogLines,
    read_export,
)
from memplane.log.segments import body_path, line_id, store_body
from memplane.log.writer import clear_cache
from memplane.projections.artifacts import COPY, facts_of
from memplane.projections.in_force import Moments, originated

if TYPE_CHECKING:
    from memplane.context.context import PlaneContext
    from memplane.event import Draft
    from memplane.ports import Appended, Progress

LISTED_MAX: Final = 100
_GIVEN_ANEW: Final = ("seq", "dur", "rec", "h", "tokens")
_ROWS_AT_ONCE: Final = 256
_TEXT_AT_ONCE: Final = 8 * 1024 * 1024
_NAMED: Final = ("key", "session", "source")  # what a forget names beside ids
_IDS_AT_ONCE: Final = 200  # of an event that forgets


@dataclass(frozen=True, slots=True)
class NotTaken:
    """An event that was not recorded; `seq` is that of the exported plane.

    `reason`: invalid, conflict (the id is another event's), purged (it was erased here), or lost
    (its text was lost before it was exported).
    """

    seq: int
    id: str
    reason: str
    message: str


@dataclass(slots=True)
class MergeReport:
    """What became of the events of an export that was merged into a plane.

    `skipped` are those about the log that they came from. `purged` were erased there; `still_here`
    are the ids among these, at most 100, that this plane still holds. `refused` lists at most 100.
    `kept` counts keys of which older values were recorded while the newer value here stays in
    force.
    """

    recorded: int = 0
    repeated: int = 0
    refusals: int = 0
    skipped: int = 0
    purged: int = 0
    kept: int = 0
    refused: list[NotTaken] = field(default_factory=list)
    still_here: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def merge_export(
    context: PlaneContext, file: IO[bytes], name: str, progress: Progress | None = None
) -> MergeReport:
    """Record the events of an export that `check_export` accepted."""
    merging = _Merging(context, file)
    try:
        for item in read_export(file, name, progress):
            merging.take(item)
        merging.flush()
        merging.report.kept = merging.kept()
    except WriteError as error:
        refused, recorded = str(error).partition("; ")[0], merging.report.recorded
        raise WriteError(
            f"{refused}; {recorded} events of the export were recorded; make room, and restore it "
            "again: each is taken in once"
        ) from error
    return merging.report


class _Merging:
    """One export on its way into a plane."""

    def __init__(self, context: PlaneContext, file: IO[bytes]) -> None:
        self._context, self._file = context, file
        self._plane = ""
        self._bodies: dict[str, int] = {}  # where each begins in the export
        self._rows: list[dict[str, Any]] = []
        self._seqs: list[int] = []
        self._copies: list[tuple[str, ...]] = []  # files that belong to each row
        self._recalled: dict[str, list[str]] = {}  # by id: blocks moved out of the text of a row
        self._text = 0
        # The ids of the export by what a forget may name: session or source, and its value.
        self._ids: dict[tuple[str, str], list[str]] = {}
        self._moments = Moments()  # of the plane that was exported
        self._recorded: dict[tuple[str, str], set[int]] = {}  # seqs of new values, by their key
        self.report = MergeReport()

    def take(self, item: object) -> None:
        """Take one part of the export."""
        if isinstance(item, ExportHeader):
            self._plane = item.plane
        elif isinstance(item, Body):
            self._bodies.setdefault(item.sha256, item.place)
        elif isinstance(item, ExportedEvent):
            self._add(item.fields)
        elif isinstance(item, LogLines):
            ends = [*item.run.starts[1:], item.run.end]
            for start, end in zip(item.run.starts, ends, strict=True):
                raw = item.data[start : end - 1]
                if start in item.run.erased:
                    self._purged(line_id(raw))
                else:
                    self._add(json.loads(raw))

    def flush(self) -> None:
        """Record the events that wait, with their files."""
        rows, self._rows, self._text = self._rows, [], 0
        seqs, self._seqs = self._seqs, []
        copies, self._copies = self._copies, []
        blocks, self._recalled = self._recalled, {}
        if not rows:
            return
        context, report = self._context, self.report
        drafting = context.drafting()

        def make(row: Any, where: str) -> Draft:
            return drafting(row, where, blocks.get(row["id"], ()))

        placed = self._place(rows, copies)
        done, refused = context.recorder.many(rows, len(rows), make, strict=False)
        again = sum(appended.duplicate for appended in done)
        report.recorded += len(done) - again
        report.repeated += again
        self._note(rows, done)
        for one in sorted(refused):
            # Its place in this batch means nothing to the caller.
            message = one.message.removeprefix(f"rows[{one.index}]").lstrip(".: ")
            self._refuse(seqs[one.index], rows[one.index], one.reason, message)
        gone = {one.index for one in refused}
        needed = {one for at, digests in enumerate(copies) if at not in gone for one in digests}
        for digest in placed - needed:
            drop(body_path(context.log.home, digest), context.log.home)

    def _note(self, rows: list[dict[str, Any]], done: list[Appended]) -> None:
        """Note which keys got values that this plane did not have."""
        new = {one.id: one.seq for one in done if not one.duplicate}
        for row in rows:
            if row.get("key") is not None and row["id"] in new:
                place = row.get("ns", GLOBAL), row["key"]
                self._recorded.setdefault(place, set()).add(new[row["id"]])

    def kept(self) -> int:
        """How many values stay in force though others of their keys were recorded."""
        if not self._recorded:
            return 0
        with self._context.lock:
            current = self._context.caught_up().memories.current
            found = ((current(*place), seqs) for place, seqs in self._recorded.items())
            return sum(row is not None and row.seq not in seqs for row, seqs in found)

    def _place(self, rows: list[dict[str, Any]], copies: list[tuple[str, ...]]) -> set[str]:
        """Store the files of the rows, as all bodies before their events; return the new ones.

        What was purged here does not come back with its file.
        """
        log, placed = self._context.log, set[str]()
        for row, digests in zip(rows, copies, strict=True):
            if digests and log.purged_as(str(row.get("id"))) is None:
                for digest in digests:
                    body = self._body(digest)
                    if body is not None:
                        if not nofollow.is_file(body_path(log.home, digest)):
                            placed.add(digest)
                        _store_copy(log.home, body)
        return placed

    def _add(self, fields: dict[str, Any]) -> None:
        kind, seq = fields.get("kind"), fields["seq"]
        if kind in OWN_KINDS:
            self.report.skipped += 1
            return
        row = {name: value for name, value in fields.items() if name not in _GIVEN_ANEW}
        event = decode(fields)
        moment = self._moments.see(event)
        data = dict(originated(event, self._plane, moment))
        said = data.pop("body", None)
        if said is not None:
            text = self._body(str(said.get("sha256")))
            if text is None:
                self._refuse(seq, row, "lost", "its whole text was lost before it was exported")
                return
            row["text"] = text.decode()
        self._take_recalled(row["id"], data)
        row["data"] = data
        row = with_permitted_actor(row)
        for each in self._own(row):
            self._rows.append(each)
            self._seqs.append(seq)
            self._copies.append(tuple(_files_of(fields)))
        self._text += len(row.get("text", ""))
        if len(self._rows) >= _ROWS_AT_ONCE or self._text >= _TEXT_AT_ONCE:
            self.flush()

    def _take_recalled(self, id_: str, data: dict[str, Any]) -> None:
        """Put the blocks that the event's data names beside its row; lost ones by checksum only."""
        named = data.pop("recalled", None)
        if not isinstance(named, list):
            return
        blocks, checksums = [], []
        for one in named:
            digest = one.get("sha256") if isinstance(one, dict) else None
            block = self._body(digest) if isinstance(digest, str) else None
            if block is not None:
                blocks.append(block.decode())
                self._text += len(blocks[-1])
            elif is_checksum(one):
                checksums.append(one)
        if blocks:
            self._recalled[id_] = blocks
        if checksums:
            data["recalled"] = checksums

    def _own(self, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The row; a forget names what the export has, by id: it means nothing that is here."""
        named = row["data"].get("forget")
        if row.get("kind") != "forget" or not isinstance(named, dict) or "ids" in named:
            for place in _places(row):
                self._ids.setdefault(place, []).append(row["id"])
            yield row
            return
        (name, value) = next(((n, named[n]) for n in _NAMED if n in named), ("", ""))
        if name == "key":  # it means the value that the key had there
            current = self._moments.in_force(named.get("ns", GLOBAL), value)
            ids = [] if current is None else [current]
        else:
            ids = self._ids.get((name, value), [])
        for at in range(0, len(ids), _IDS_AT_ONCE):
            part = {**row["data"], "forget": {"ids": ids[at : at + _IDS_AT_ONCE]}}
            yield {**row, "data": part} | ({"id": f"{row['id']}/{at}"} if at else {})

    def _purged(self, id_: str | None) -> None:
        report = self.report
        report.purged += 1
        if id_ is not None and len(report.still_here) < LISTED_MAX:
            self.flush()
            if self._context.log.find(id_) is not None:
                report.still_here.append(id_)

    def _refuse(self, seq: int, row: dict[str, Any], reason: str, message: str) -> None:
        self.report.refusals += 1
        if len(self.report.refused) < LISTED_MAX:
            named = masked(str(row.get("id")))[:200]
            self.report.refused.append(NotTaken(seq, named, reason, message))

    def _body(self, digest: str) -> bytes | None:
        """A body by its hash, from its place in the export; None where that had lost it."""
        place = self._bodies.get(digest)
        if place is None:
            return None
        here = self._file.tell()
        self._file.seek(place)
        parts = bytearray()
        while True:
            part = json.loads(self._file.readline())
            if part.get("body") != digest:
                raise InputError("the export changed while it was read; restore it again")
            text = part.get("utf8")
            parts += text.encode() if text is not None else b64decode(part["base64"])
            if len(parts) >= part["bytes"]:
                break
        self._file.seek(here)
        return bytes(parts)


def _places(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """By what a forget may name an event."""
    if row.get("session") is not None:
        yield "session", row["session"]
    end = row["id"].find(":")
    while end >= 0:
        yield "source", row["id"][:end]
        end = row["id"].find(":", end + 1)


def _files_of(fields: dict[str, Any]) -> Iterator[str]:
    """The hashes of the files that belong to an artifact."""
    if fields.get("kind") != "artifact":
        return
    facts = facts_of(decode(fields))
    if facts is not None:
        if facts.stored == COPY:
            yield facts.sha256
        if facts.sidecar is not None:
            yield facts.sidecar.sha256


def _store_copy(home: str, body: bytes) -> None:
    try:
        store_body(home, body, Disk())
    except OSError as error:
        raise WriteError(f"{home}/bodies: {error.strerror}; not all was recorded") from error


# A whole export put into an empty plane: the same id, seqs and chain, the same bytes.
#
# All of it is written beside, in `bodies/restoring/`, and synced. Then, under the log's lock:
# bodies get their names, plane.json the plane's id, and last of all the folder `log/`, which holds
# nothing but its lock, is replaced by the new one in a single rename. Until then the plane is as
# empty as it was, whoever looks; from then on it is whole. What an interrupted restore leaves lies
# beside and is thrown away by the next one.

# Paths are strings here, as in the log: what can fail goes through its `Disk`.


_LOCK_WAIT_MS: Final = 5000
_LOCK: Final = ".lock"
# What may lie in the folder of a log that holds nothing.
_EMPTY_FOLDERS: Final = ("quarantine", "spool")


class CheckedExport(NamedTuple):
    """What an export says of itself, after every byte of it was checked."""

    opened: ExportHeader
    end: End


class RestoreReport(NamedTuple):
    """What was restored, and where. `merged` is None for a whole restore."""

    home: str
    checked: CheckedExport
    merged: MergeReport | None

    def as_json(self) -> dict[str, Any]:
        opened, end = self.checked
        whole = self.merged is None
        said = {
            "home": self.home,
            "plane": opened.plane,
            "seq": opened.seq,
            "h": opened.h,
            "mode": "whole" if whole else "import",
            "events": end.events,
            "bodies": end.bodies,
            "damaged": end.damaged,
            "lost": end.lost,
        }
        return said if self.merged is None else {**said, **self.merged.as_json()}


def check_export(file: IO[bytes], name: str, progress: Progress | None = None) -> CheckedExport:
    """Read an export to its end. Raises InputError or FormatError, which name the line."""
    opened, end = None, None
    for item in read_export(file, name, progress):
        if isinstance(item, ExportHeader):
            opened = item
        elif isinstance(item, End):
            end = item
    assert opened is not None
    assert end is not None, "an export without its last line is refused"
    return CheckedExport(opened, end)


def has_no_events(home: Path) -> bool:
    """Whether a folder is missing, or a plane in which nothing was ever recorded."""
    if home.exists() and not home.is_dir():
        raise HomeError(f"{home}: expected a folder, found a file")
    log = home / "log"
    names = nofollow.folder_names(log)
    if any(name.endswith(".jsonl") for name in names) or nofollow.folder_names(log / "spool", home):
        return False
    for name in names:
        if name != _LOCK and (
            name not in _EMPTY_FOLDERS or nofollow.folder_names(log / name, home)
        ):
            raise HomeError(
                f"{log / name}: a log without segments, and not empty; nothing was changed; "
                "look at what this is, and move it away"
            )
    return True


def clear_left(home: Path) -> None:
    """Remove what a restore left that was killed after its last step: the plane has events."""
    left = home / "bodies" / "restoring"
    with suppress(OSError):
        nofollow.remove_tree(left, home)


def restore_whole(
    file: IO[bytes],
    name: str,
    home: Path,
    checked: CheckedExport,
    *,
    created: str,
    policies: Mapping[str, bytes],
    progress: Progress | None = None,
    disk: Disk | None = None,
) -> None:
    """Make the exported plane in a missing folder or an empty plane.

    Existing policies stay. Raises WriteError where the disk refuses, HomeError where something was
    recorded meanwhile; nothing was changed then.
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

    def __init__(self, home: str, opened: ExportHeader, disk: Disk) -> None:
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
        """Make the folders and hold the lock."""
        lock = LogLock(f"{self._log}/{_LOCK}", _LOCK_WAIT_MS)
        try:
            for folder in (self._log, f"{self._home}/bodies"):
                self._make(folder)
            try:
                lock.acquire()
            except WriteError as error:
                raise error.__cause__ or error from None
            if not has_no_events(Path(self._home)):
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
        """Write every file under a temporary name, synced, in the order of the export."""
        self._make(f"{self._beside}/log")
        segment, body = _File(self._home, self._disk), _File(self._home, self._disk)
        with segment, body:
            for item in items:
                if isinstance(item, ExportedSegment):
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
        """Rename the files; the log comes last, in one step."""
        disk = self._disk
        self._place_bodies()
        self._settle_home(created, policies)
        home, lock, new_lock = self._home, f"{self._log}/{_LOCK}", f"{self._beside}/log/{_LOCK}"
        nofollow.link(lock, new_lock, home=home)
        disk.sync_directory(f"{self._beside}/log", home)
        for name in _EMPTY_FOLDERS:
            with suppress(FileNotFoundError):
                nofollow.remove_folder(f"{self._log}/{name}", home)
        nofollow.remove_name(lock)
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
                clear_cache(self._home, folder)

    def _place_bodies(self) -> None:
        """Bodies that no event names are never read, so they may come first."""
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
            homes.create_home(home, wanted, created, policies)
        elif homes.open_home(home).plane_id != wanted:
            self._identity = nofollow.read_bytes(path)
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
        """Remove what a failed restore left behind, but not what others have put there."""
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
        """Remove what this restore has made, where no other process made the folder a plane."""
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
    return [folder / name for folder in folders for name in nofollow.folder_names(folder)]


class _File:
    """One file after the other, each written whole and synced before the next."""

    def __init__(self, home: str, disk: Disk) -> None:
        self._home, self._disk, self._fd = home, disk, -1

    @property
    def is_open(self) -> bool:
        """Whether a file is open."""
        return self._fd >= 0

    def begin(self, path: str) -> None:
        """Close the file before, and create one."""
        self.end()
        self._fd = nofollow.create_draft(path, home=self._home)

    def write(self, data: bytes) -> None:
        """Write all bytes."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._disk.write(self._fd, bytes(rest)) :]

    def end(self) -> None:
        """Sync and close the file."""
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
