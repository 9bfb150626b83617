"""Take content out of a plane: a backup, selected events, SQLite tables, a ledger in a repository.

`Plane.export` writes a backup of everything, or selected events in a form that may leave.

**SQLite** (`memplane export --sqlite`): what a plane holds as five tables in one file, those of the
Memory Plane's plan, for programs that read tables (datasette, sqlite-utils, a notebook). Events are
those of a partial export: as the private channel shows them, redacted again, without what was
forgotten. Nothing reads the file back.

**GitHub's ledgers** are records of agents' memory in JSON lines, in a branch of a repository.

The format is that of GitHub Agentic Workflows ("Git-backed Ledger Specification" 1.1, working
draft; as "Repository Memory Ledger Specification" 1.0 before). In `ledger/shards/<uuid>.jsonl` each
line is one record as canonical JSON::

    {"id":"ldg-<uuid>","parents":["sha256:…"],"payload":{…},"sha":"sha256:…",
     "timestamp":"2026-03-01T10:00:00.000Z","type":"ledger_append","version":1}

`sha` is the SHA-256 of the line without `sha`, `parents` are those of the records that nothing
followed when it was written, so that branches can be merged: records form a graph, and are read in
its order, those of one rank by their sha. A line that is not exactly so is named and passed over.

Canonical JSON is what JavaScript writes of an object whose members were sorted by UTF-16 code
units: names that are array indices come first, by number; a lone surrogate is escaped.

`export_to_ledger` writes the memories that hold as operations of a ledger of type `map`
(`tools: ledger: memory: {type: map}`): `put` for one that is new or changed, `delete` for one that
no longer holds. A ledger's own history keeps what was deleted, and whoever may read the repository
may read it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Self

import orjson

from memplane import nofollow
from memplane.context.artifact_files import refuse_special
from memplane.context.calls import check_text
from memplane.errors import HomeError, InputError, NotFoundError, PlaneError, WriteError
from memplane.event import (
    FIELDS,
    KINDS,
    NO_EVENT,
    TYPED_KINDS,
    UPKEEP_KINDS,
    Event,
    decode,
    encode,
    is_kind,
)
from memplane.intake import is_checksum, time_bound
from memplane.intake.redact import masked_data, quoted_value
from memplane.lazy import NamedTuple, Protocol, late
from memplane.log.disk import Disk, drop
from memplane.log.export import Begun, Damaged, Export, ExportedLines, ExportHeader, export_pieces
from memplane.log.log import take_in_all
from memplane.log.segments import Segments, body_hash, erased_by, load_body, recalled_hashes
from memplane.projections.artifacts import COPY, facts_of
from memplane.projections.in_force import Moments, originated
from memplane.recall.suppress import within

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from memplane.context.context import PlaneContext
    from memplane.context.event_access import EventAccess
    from memplane.ports import Position, Progress
else:
    sqlite3 = late("sqlite3")  # some Pythons have none; only tables need it


_OWNER: Final = "private"
_FORGOTTEN: Final = ("forgotten", "evicted")
_LEFT_OUT: Final = ("dur", "h")
_IDENTIFIERS: Final = ("id", "session", "task", "actor", "key", "ns")


class ExportFilter(NamedTuple):
    """Which events an export takes; all where nothing is set."""

    ns: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    session: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    redact: bool = False
    secret: bool = False

    @classmethod
    def of(
        cls,
        *,
        ns: str | Iterable[str] | None,
        kind: str | Iterable[str] | None,
        session: str | Iterable[str] | None,
        since: str | datetime | None,
        until: str | datetime | None,
        redact: bool,
        secret: bool,
    ) -> ExportFilter:
        """Check the arguments of a caller; raises InputError that names the argument."""
        kinds = _several(kind, "kind")
        for one in kinds:
            if not is_kind(one):
                known = ", ".join(KINDS)
                raise InputError(f"unknown kind {quoted_value(one)}; known: {known}", where="kind")
        asked = cls(
            _several(ns, "ns"),
            kinds,
            _several(session, "session"),
            None if since is None else time_bound(since, where="since"),
            None if until is None else time_bound(until, where="until", last=True),
            redact,
        )
        if secret and asked.is_everything:
            raise InputError(
                "a whole export holds what is secret anyway; give it beside what names a part",
                where="secret",
            )
        return asked._replace(secret=secret)

    @property
    def is_everything(self) -> bool:
        """Whether the filter takes every event."""
        return self == ExportFilter()

    def as_json(self) -> dict[str, Any]:
        """The fields that are set, as JSON values."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in self._asdict().items()
            if value
        }


def _several(given: str | Iterable[str] | None, where: str) -> tuple[str, ...]:
    if given is None:
        return ()
    found = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    return tuple(dict.fromkeys(check_text(one, where) for one in found))


class EventSelector:
    """Selects events as `Plane.events` shows them to a channel, and counts those it withholds.

    What was forgotten is withheld, and so are events about the log itself: in another plane a
    forget would hit what has the same key there.
    """

    def __init__(
        self, context: PlaneContext, asked: ExportFilter, *, channel: str = _OWNER
    ) -> None:
        self._context, self._asked = context, asked
        self._readers: dict[str | None, EventAccess] = {
            ns: context.reader(channel, ns=ns) for ns in (asked.ns or (None,))
        }
        policies = context.watched.policies()
        self._redactor = context.intake(policies).redactor
        with context.lock:
            self._memories = context.caught_up(policies).memories
        self._plane, self._moments = context.home.plane_id, Moments()
        self.withheld: dict[str, int] = {}
        self.lost = 0

    def row(self, event: Event) -> dict[str, Any] | None:
        """The event as a row for export; None where it was not asked for, or is withheld.

        Must be given all events in log order: the time of one depends on those before it.
        """
        moment = self._moments.see(event)
        fields = self.leaving(event)
        if fields is None:
            return None
        if moment is not None and (moment.time, moment.turn) != (event.ts, 0):
            leaving = event._replace(data=fields.get("data", {}))
            fields["data"] = originated(leaving, self._plane, moment)
        return fields

    def leaving(self, event: Event) -> dict[str, Any] | None:
        """The fields of the event as it may leave, with its whole text; None as for `row`.

        Its time among other planes is left to the caller; events may be given in any order.
        """
        reader = self._shown_to(event)
        return None if reader is None else self._fields(reader.emit(self._with_text(event)))

    def shown(self, event: Event) -> Event | None:
        """The event as it may leave, with no more text than its line holds; None as for `row`."""
        reader = self._shown_to(event)
        return None if reader is None else reader.emit(_without_blocks(event))

    def _shown_to(self, event: Event) -> EventAccess | None:
        """Who reads the event; None, and counted, where it was not asked for or is withheld."""
        reader = self._reader(event)
        if reader is None or event.kind in UPKEEP_KINDS:
            return None
        reason = self._withheld(event, reader)
        if reason is None:
            return reader
        self.withheld[reason] = self.withheld.get(reason, 0) + 1
        return None

    def _withheld(self, event: Event, reader: EventAccess) -> str | None:
        """Why an event that was asked for stays, None where it does not."""
        seen = event
        if self._asked.secret:
            if event.sensitivity == "secret":
                seen = seen._replace(sensitivity="normal")
            if event.kind == "secret":
                seen = seen._replace(kind="message")
        if not reader.shows(seen):
            return "hidden"
        gone = self._memories.archived(event)
        if gone is not None and gone[0] in _FORGOTTEN:
            return "forgotten"
        names = [getattr(event, name) for name in _IDENTIFIERS]
        names += [*event.refs, *event.markers]
        return "identifier" if any(self._redactor.in_name(one) for one in names if one) else None

    def _reader(self, event: Event) -> EventAccess | None:
        asked = self._asked
        if (asked.kind and event.kind not in asked.kind) or (
            asked.session and event.session not in asked.session
        ):
            return None
        if (asked.since is not None and event.ts < asked.since) or (
            asked.until is not None and event.ts > asked.until
        ):
            return None
        if not asked.ns:
            return self._readers[None]
        named = (ns for ns in asked.ns if within(event.ns, (ns,)))
        return self._readers.get(next(named, None))

    def _with_text(self, event: Event) -> Event:
        """The event with its whole text, where a line holds only its beginning."""
        event = _without_blocks(event)
        if "body" not in event.data:
            return event
        data = {name: value for name, value in event.data.items() if name != "body"}
        try:
            return event._replace(text=self._context.log.text(event), data=data)
        except NotFoundError:
            self.lost += 1
            return event._replace(data=data)

    def _fields(self, event: Event) -> dict[str, Any]:
        values = event._asdict()
        return {
            name: values[name]
            for name in FIELDS
            if name not in _LEFT_OUT
            and (name == "seq" or values[name] not in (None, "", (), {}))
            and values[name] != Event._field_defaults.get(name)
        }


def _without_blocks(event: Event) -> Event:
    """The event without the blocks that were moved out of its text.

    They quote what other events say, which may have to stay.
    """
    named = event.data.get("recalled")
    if not isinstance(named, list):
        return event
    data = {name: value for name, value in event.data.items() if name != "recalled"}
    checksums = [one for one in named if is_checksum(one)]
    return event._replace(data={**data, "recalled": checksums} if checksums else data)


# `Plane.export`: a backup of everything, or the events that were asked for, as one file.
#
# The format is that of `memplane.log.export`. The file is written under another name and
# renamed, so it is there whole or not at all; a stream that ends early lacks its last line.
_TRIES: Final = 5
_OWN_FOLDERS: Final = ("log", "bodies", "projections", "index", "reports")
_BODY_NAMED: Final = b'"sha256"'
_PURGE: Final = b'"kind":"purge"'


class ExportReport(NamedTuple):
    """What was exported, as of which head. `path` is None for a stream.

    `events` are the lines of the log in a whole export. `withheld` counts events that a partial one
    left out: hidden from the owner's channel, forgotten, or with an identifier in which today's
    rules find a secret. `lost` bodies were missing already, `damaged` regions of the log did not
    verify; both are in the export as such.
    """

    path: str | None
    plane: str
    seq: int
    h: str
    whole: bool
    events: int
    bodies: int
    bytes: int
    sha256: str
    damaged: int
    lost: int
    withheld: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


class _Overtaken(Exception):  # noqa: N818 - never leaves this module
    """A purge or a repair changed what was being read."""


def export_plane(
    context: PlaneContext,
    to: str | os.PathLike[str] | IO[bytes],
    asked: ExportFilter,
    *,
    replace: bool,
    progress: Progress | None,
    disk: Disk | None = None,
) -> ExportReport:
    """Export to a file, or into an open one; see `Plane.export`."""
    context.check_open()
    whole = asked.is_everything
    if whole and context.as_of is not None:
        raise HomeError(
            f"this is the plane as of seq {context.as_of}; export the plane itself, or a part of it"
        )
    if whole:
        context.need_files("to export all of it")
    if context.keeps:
        take_in_all(context.log)  # what was spooled was acknowledged too
    once = _whole if whole else _partial
    if not isinstance(to, str | os.PathLike):
        try:
            return once(context, Export(to.write), asked, None, progress)
        except _Overtaken:
            raise PlaneError(
                f"{context.home.path}: a purge or a repair came between; what was written has no "
                "last line, `memplane restore` refuses it; export again, or into a file"
            ) from None
    path = export_target(context, to, replace=replace)
    for _ in range(_TRIES):
        try:
            with _Beside(path, disk or Disk()) as file:
                return once(context, Export(file.write), asked, path, progress)
        except _Overtaken:
            continue
    raise PlaneError(
        f"{context.home.path}: a purge is not finished, or others follow each other; nothing was "
        "exported; `memplane verify` says which, and the next process that records finishes it"
    )


def export_target(context: PlaneContext, to: str | os.PathLike[str], *, replace: bool) -> str:
    """The file that an export is to write; a link at its place is replaced, not followed.

    Raises InputError for one that is there (unless `replace`), that is no regular file, or that
    lies in the plane's own folders.
    """
    folder, name = os.path.split(os.path.abspath(to))  # noqa: PTH100 - strings
    path = os.path.join(os.path.realpath(folder), name)  # noqa: PTH118 - likewise
    _refuse_own_folders(context, path)
    if not replace and os.path.lexists(path):
        raise InputError(
            f"{quoted_value(path, 300)} is there already; name another, or say to replace it",
            where="to",
        )
    refuse_special(path)
    return path


def _refuse_own_folders(context: PlaneContext, path: str) -> None:
    """Whatever lies among the files of the log or the caches is taken for one of them."""
    home = os.path.realpath(context.home.path)
    folder = os.path.realpath(os.path.dirname(path))  # noqa: PTH120 - a string
    below = os.path.relpath(folder, home).partition("/")[0]
    if below in _OWN_FOLDERS:
        raise InputError(
            f"{quoted_value(path, 300)} lies in the plane's own folder {below}/; name another",
            where="to",
        )


class _Beside:
    """A file that is written beside its name, and gets it, durable, when all went well."""

    def __init__(self, path: str, disk: Disk) -> None:
        self._path, self._new, self._disk = path, f"{path}.{os.getpid()}.new", disk
        self._fd = -1

    def __enter__(self) -> Self:
        drop_left_drafts(self._path)
        with self._refusing():
            self._fd = nofollow.create_draft(self._new)
        return self

    def write(self, data: bytes) -> None:
        """Write all bytes."""
        with self._refusing():
            rest = memoryview(data)
            while rest:
                rest = rest[self._disk.write(self._fd, bytes(rest)) :]

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        done = False
        try:
            if kind is None:
                with self._refusing():
                    self._disk.fdatasync(self._fd)
                    self._disk.replace(self._new, self._path)
                    done = True
                    self._disk.sync_directory(os.path.dirname(self._path))  # noqa: PTH120
        finally:
            os.close(self._fd)
            if not done:
                drop(self._new)

    def _refusing(self) -> _Refusing:
        return _Refusing(self._path)


def drop_left_drafts(path: str) -> None:
    """Remove the drafts of exports to this name that were killed: each holds a whole plane."""
    folder, name = os.path.split(path)
    form = re.compile(re.escape(name) + r"\.(\d{1,10})\.new")
    with suppress(OSError):
        for other in nofollow.folder_names(folder):
            found = form.fullmatch(other)
            if found is not None and not _is_alive(int(found[1])):
                drop(os.path.join(folder, other))  # noqa: PTH118 - a string


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


class _Refusing:
    """Says of a refusal of the disk where it was."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise WriteError(
                f"{self._path}: {error.strerror or error}; nothing was exported"
            ) from error


def _whole(
    context: PlaneContext,
    export: Export,
    _: ExportFilter,
    path: str | None,
    progress: Progress | None,
) -> ExportReport:
    """Everything, byte by byte."""
    log, home = context.log, os.fspath(context.home.path)
    head = log.head()
    export.begin(ExportHeader(context.home.plane_id, head.seq, head.h, whole=True))
    bodies = _Bodies(home, export)
    erased: set[int] = set()
    promised: set[int] = set()
    for piece in export_pieces(Segments(f"{home}/log", context.home.plane_id), head):
        if isinstance(piece, Begun):
            export.segment(piece.number)
        elif isinstance(piece, Damaged):
            export.damage(piece.data)
        else:
            _lines(piece, export, bodies)
            run = piece.run
            rows = {start: row for row, start in enumerate(run.starts)} if run.erased else {}
            erased.update(run.first + rows[start] for start in run.erased)
            promised.update(_erased_by(piece))
            if progress is not None:
                progress(run.last, head.seq)
    _check_still(context, head, promised - erased)
    return _report(export, path, context.home.plane_id, head, {}, whole=True)


def _lines(piece: ExportedLines, export: Export, bodies: _Bodies) -> None:
    """Write lines, the bodies that they name before them."""
    data, run = piece.data, piece.run
    ends = [*run.starts[1:], run.end]
    at = first = 0
    for row in _rows_with(piece, _BODY_NAMED):
        start = run.starts[row]
        needed = list(bodies.needed_by(data[start : ends[row] - 1]))
        if needed:
            if start > at:
                export.log_lines(data[at:start], row - first)
            at, first = start, row
            for digest in needed:
                bodies.put(digest)
    export.log_lines(data[at:], len(run.starts) - first)


def _rows_with(piece: ExportedLines, word: bytes) -> Iterator[int]:
    """The places of the lines that hold these bytes."""
    from bisect import bisect_right  # noqa: PLC0415 - a pack does without

    data, starts = piece.data, piece.run.starts
    at = data.find(word)
    while at >= 0:
        row = bisect_right(starts, at) - 1
        yield row
        at = data.find(word, starts[row + 1]) if row + 1 < len(starts) else -1


def _erased_by(piece: ExportedLines) -> Iterator[int]:
    """The seqs that the purge events among the lines say to be erased."""
    ends = [*piece.run.starts[1:], piece.run.end]
    for row in _rows_with(piece, _PURGE):
        with suppress(*NO_EVENT):
            event = decode(json.loads(piece.data[piece.run.starts[row] : ends[row]]))
            yield from [one.seq for one in erased_by(event)]


def _check_still(context: PlaneContext, head: Position, missing: set[int]) -> None:
    """Raise where what was read is no longer so, or was not yet: it must not leave the plane."""
    if missing or not context.log.matches(head):
        raise _Overtaken
    if context.log.head() != head:
        for line in context.log.read(head.seq):
            if line.event.kind == "purge":
                raise _Overtaken


class _Bodies:
    """The bodies that lines name, each once."""

    def __init__(self, home: str, export: Export) -> None:
        self._home, self._export = home, export
        self._seen: set[str] = set()
        self._events: dict[str, Event] = {}

    def needed_by(self, raw: bytes) -> Iterator[str]:
        """The hashes of bodies that a line names and that were not written yet."""
        try:
            event = decode(json.loads(raw))
        except NO_EVENT:  # a purged line, or one that is no event
            return
        named = [body_hash(event), *recalled_hashes(event)]
        facts = facts_of(event)
        if facts is not None:
            named += [facts.sha256] if facts.stored == COPY else []
            named += [facts.sidecar.sha256] if facts.sidecar is not None else []
        for digest in named:
            if digest is not None and digest not in self._seen:
                self._seen.add(digest)
                self._events[digest] = event
                yield digest

    def put(self, digest: str) -> None:
        """Write one body, or a record that it is lost."""
        try:
            body = load_body(self._home, self._events.pop(digest), digest)
        except (NotFoundError, OSError):
            self._export.body(digest, None)
        else:
            self._export.body(digest, body)


def _partial(
    context: PlaneContext,
    export: Export,
    asked: ExportFilter,
    path: str | None,
    progress: Progress | None,
) -> ExportReport:
    """The events that were asked for, as they may leave the plane today."""
    head = context.head()
    export.begin(
        ExportHeader(context.home.plane_id, head.seq, head.h, whole=False),
        masked_data(asked.as_json()),
    )
    chosen = EventSelector(context, asked)
    for line in context.log.read(0, head.seq):
        if line.event.seq % 1024 == 0 and progress is not None:
            progress(line.event.seq, head.seq)
        row = chosen.row(line.event)
        if row is not None:
            export.row(row)
    if context.as_of is None:
        _check_still(context, head, set())
    export.lost = chosen.lost
    return _report(export, path, context.home.plane_id, head, chosen.withheld, whole=False)


def _report(
    export: Export,
    path: str | None,
    plane: str,
    head: Position,
    withheld: dict[str, int],
    *,
    whole: bool,
) -> ExportReport:
    end = export.end()
    return ExportReport(
        path,
        plane,
        head.seq,
        head.h,
        whole,
        end.events,
        end.bodies,
        end.bytes,
        end.sha256,
        end.damaged,
        end.lost,
        withheld,
    )


VERSION: Final = 1  # of the tables: PRAGMA user_version
_BATCH: Final = 1_000
_TABLES: Final = """\
CREATE TABLE events (id TEXT PRIMARY KEY, task_id TEXT, kind TEXT NOT NULL,
  payload_json TEXT NOT NULL, created_at TEXT NOT NULL, seq INTEGER NOT NULL UNIQUE,
  session_id TEXT, role TEXT, text TEXT NOT NULL);
CREATE TABLE tasks (id TEXT PRIMARY KEY, title TEXT NOT NULL, status TEXT NOT NULL,
  created_at TEXT NOT NULL, updated_at TEXT NOT NULL, tags TEXT NOT NULL);
CREATE TABLE atoms (id TEXT PRIMARY KEY REFERENCES events (id), type TEXT NOT NULL, key TEXT,
  text TEXT NOT NULL, tags TEXT NOT NULL, task_id TEXT, created_at TEXT NOT NULL);
CREATE TABLE artifacts (id TEXT PRIMARY KEY REFERENCES events (id), task_id TEXT,
  path TEXT NOT NULL, mime TEXT NOT NULL, sha256 TEXT NOT NULL, created_at TEXT NOT NULL);
CREATE TABLE task_digests (task_id TEXT PRIMARY KEY REFERENCES tasks (id), short TEXT NOT NULL,
  paragraph TEXT NOT NULL, tokens INTEGER NOT NULL);
CREATE INDEX events_by_session ON events (session_id, seq);
CREATE INDEX events_by_kind ON events (kind, seq);
"""
NAMES: Final = ("events", "tasks", "atoms", "artifacts", "task_digests")


class TaskRow(Protocol):
    """What is written of a task: see `memplane.work.tasks.TaskView`."""

    @property
    def id(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def short(self) -> str: ...
    @property
    def paragraph(self) -> str: ...
    @property
    def tokens(self) -> int: ...
    @property
    def created(self) -> str: ...
    @property
    def updated(self) -> str: ...
    @property
    def tags(self) -> tuple[str, ...]: ...


class TablesReport(NamedTuple):
    """What was written, as of which seq: rows by table, and events that were withheld, by why."""

    path: str
    plane: str
    seq: int
    rows: dict[str, int]
    withheld: dict[str, int]
    lost: int

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


def export_tables(
    context: PlaneContext,
    tasks: Sequence[TaskRow],
    to: str | os.PathLike[str],
    asked: ExportFilter,
    *,
    replace: bool,
    progress: Progress | None,
) -> TablesReport:
    """Write the tables; see `PlaneUpkeep.export_tables`."""
    context.check_open()
    if "\0" in os.fsdecode(to):
        raise InputError(f"expected a file, found {quoted_value(os.fsdecode(to))}", where="to")
    path = export_target(context, to, replace=replace)
    _refuse_journals(path)
    new = f"{path}.{os.getpid()}.new"
    drop_left_drafts(path)
    try:
        os.close(nofollow.create_draft(new))
        chosen = EventSelector(context, asked)
        with closing(sqlite3.connect(new, isolation_level=None)) as file:
            file.execute("PRAGMA journal_mode=MEMORY")
            file.executescript(f"BEGIN;\n{_TABLES}PRAGMA user_version={VERSION};")
            seq = _fill(context, file, chosen, tasks, progress)
            file.execute("COMMIT")
            rows = {
                name: file.execute(f"SELECT count(*) FROM {name}").fetchone()[0]  # noqa: S608
                for name in NAMES
            }
        disk = Disk()
        disk.replace(new, path)
        disk.sync_directory(os.path.dirname(path))  # noqa: PTH120 - a string
    except (OSError, sqlite3.Error) as error:
        raise WriteError(f"{path}: {error}; nothing was exported") from error
    finally:
        with suppress(OSError):
            drop(new)
    return TablesReport(path, context.home.plane_id, seq, rows, chosen.withheld, chosen.lost)


def _refuse_journals(path: str) -> None:
    """SQLite would take what is in them for the newest pages of the file that is put there."""
    for journal in (f"{path}-wal", f"{path}-journal"):
        if os.path.lexists(journal):
            raise InputError(
                f"{quoted_value(journal, 300)} is there: a program has a database of that name "
                "open, or was killed while it had; close it there, or name another",
                where="to",
            )


def _fill(
    context: PlaneContext,
    file: sqlite3.Connection,
    chosen: EventSelector,
    tasks: Sequence[TaskRow],
    progress: Progress | None,
) -> int:
    """Write all rows; return the seq that they go up to."""
    with context.lock:
        memories = context.caught_up().memories
    head = context.log.head().seq if context.as_of is None else context.as_of
    for line in context.log.read(0, head):
        event = line.event
        row = chosen.row(event)
        if row is not None:
            in_force = memories.archived(event) is None
            for ask, values in _rows(event, row, in_force=in_force):
                file.execute(ask, values)
        if progress is not None and event.seq % _BATCH == 0:
            progress(event.seq, head)
    for task in tasks:
        file.execute(
            "INSERT INTO tasks VALUES (?,?,?,?,?,?)",
            (task.id, task.title, task.status, task.created, task.updated, _json(task.tags)),
        )
        file.execute(
            "INSERT INTO task_digests VALUES (?,?,?,?)",
            (task.id, task.short, task.paragraph, task.tokens),
        )
    return head


def _rows(
    event: Event, row: dict[str, Any], *, in_force: bool
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The rows of an event, as statements: an event, and an atom or an artifact where it is one."""
    at, task, text = row["ts"], row.get("task"), row.get("text", "")
    yield (
        "INSERT INTO events VALUES (?,?,?,?,?,?,?,?,?)",
        (
            row["id"], task, row.get("kind", event.kind), encode(row), at, event.seq,
            row.get("session"), row.get("role"), text,
        ),
    )  # fmt: skip
    if event.kind in TYPED_KINDS and in_force:
        yield (
            "INSERT INTO atoms VALUES (?,?,?,?,?,?,?)",
            (row["id"], event.kind, row.get("key"), text, _json(row.get("tags", ())), task, at),
        )
    facts = facts_of(event._replace(data=row.get("data", {}))) if in_force else None
    if facts is not None:
        path = facts.path or facts.name
        yield (
            "INSERT INTO artifacts VALUES (?,?,?,?,?,?)",
            (row["id"], task, path, facts.mime, facts.sha256, at),
        )


def _json(values: Sequence[str]) -> str:
    return json.dumps(list(values), ensure_ascii=False)


SHARDS: Final = ("ledger", "shards")
FILES_MAX: Final = 1024
_SEGMENT_BYTES: Final = 100 * 1024  # of a file that is written; GitHub's default
_SEGMENT_BYTES_MAX: Final = 10 * 1024 * 1024  # of one that is read
_LEDGER_BYTES_MAX: Final = 100 * 1024 * 1024
_RECORD_BYTES_MAX: Final = 32 * 1024
_PARENTS_MAX: Final = 64
_DEPTH_MAX: Final = 32
_TYPE_MAX: Final = 128
_INDEX_MAX: Final = 2**32 - 2  # of a JavaScript array
_UUID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_SHARD: Final = re.compile(rf"{_UUID}\.jsonl")
_ID: Final = re.compile(rf"ldg-{_UUID}")
_SHA: Final = re.compile("sha256:[0-9a-f]{64}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_INDEX: Final = re.compile("0|[1-9][0-9]{0,9}")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_FIELDS: Final = frozenset({"version", "id", "type", "timestamp", "parents", "payload", "sha"})
_NOT_SHARED: Final = frozenset({"preference", "rule"})
_CHANNEL: Final = "public"
_TYPE: Final = "ledger_append"


class LedgerRecord(NamedTuple):
    """One record; `payload` is any JSON."""

    id: str
    type: str
    timestamp: str
    parents: tuple[str, ...]
    payload: Any
    sha: str


class LedgerFault(NamedTuple):
    """What is wrong, in GitHub's words, and where; `line` 0: with the whole file."""

    code: str
    file: str
    line: int = 0


class LedgerState(NamedTuple):
    """The records in the order of the graph, and those that nothing follows, by their sha."""

    records: tuple[LedgerRecord, ...]
    heads: tuple[str, ...]
    files: int
    faults: tuple[LedgerFault, ...]


class LedgerReport(NamedTuple):
    """What was written: operations, and memories that did not leave, by reason."""

    path: str
    put: int
    deleted: int
    unchanged: int
    files: int
    withheld: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return self._asdict()


# The format.


def canonical_json(value: Any, depth: int = 0) -> str:
    """JSON as ledgers have it. Raises ValueError for what is nested deeper than 32."""
    if depth > _DEPTH_MAX:
        raise ValueError("nested deeper than 32")
    if isinstance(value, _Number):
        return value.written
    if isinstance(value, dict):
        members = (
            f"{_string(name)}:{canonical_json(value[name], depth + 1)}"
            for name in sorted(value, key=_place)
        )
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(canonical_json(one, depth + 1) for one in value) + "]"
    return _string(value) if isinstance(value, str) else json.dumps(value)


class _Number(NamedTuple):
    """A number as it is written."""

    written: str


def _place(name: str) -> tuple[int, int, bytes]:
    if _INDEX.fullmatch(name) and int(name) <= _INDEX_MAX:
        return 0, int(name), b""
    return 1, 0, name.encode("utf-16-be", "surrogatepass")


def _string(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


def _refused(word: str) -> Any:
    raise ValueError(word)


def record_of_line(line: bytes) -> LedgerRecord | str:
    """The record on a line without its newline, or what is wrong with it."""
    try:
        text = line.decode("utf-8")
        value = json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=_refused)
    except (ValueError, RecursionError):
        return "invalid-json"
    if (fault := _fault_in(value, text)) is not None:
        return fault
    try:
        payload = orjson.loads(line)["payload"]
    except ValueError:  # a lone surrogate
        payload = json.loads(text)["payload"]
    parents = tuple(value["parents"])
    return LedgerRecord(
        value["id"], value["type"], value["timestamp"], parents, payload, value["sha"]
    )


def _fault_in(value: Any, text: str) -> str | None:
    """What is wrong with a parsed line, None where it is a record."""
    if not isinstance(value, dict):
        return "invalid-envelope"
    if "version" in value and value["version"] != _Number("1"):
        return "unsupported-version"
    try:
        if not _is_envelope(value) or canonical_json(value) != text:
            return "invalid-envelope"
    except (ValueError, RecursionError):
        return "invalid-envelope"
    body = {name: one for name, one in value.items() if name != "sha"}
    return None if _sha_of(body) == value["sha"] else "invalid-sha"


def _is_envelope(value: Mapping[str, Any]) -> bool:
    kind, parents = value.get("type"), value.get("parents")
    if value.keys() != _FIELDS or not isinstance(kind, str) or not isinstance(parents, list):
        return False
    return (
        0 < len(kind) <= _TYPE_MAX
        and _is_form(_ID, value["id"])
        and _is_form(_SHA, value["sha"])
        and _is_time(value["timestamp"])
        and len(parents) <= _PARENTS_MAX
        and all(_is_form(_SHA, one) for one in parents)
        and parents == sorted(set(parents))
    )


def _is_form(form: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and form.fullmatch(value) is not None


def _is_time(value: Any) -> bool:
    if not _is_form(_TIME, value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _sha_of(value: Any) -> str:
    return f"sha256:{hashlib.sha256(canonical_json(value).encode()).hexdigest()}"


def uuid_of(digest: str) -> str:
    """A version 4 UUID made of a SHA-256 in hex, as GitHub makes one."""
    variant = f"{(int(digest[16:18], 16) & 0x3F) | 0x80:02x}"
    return "-".join(
        (digest[:8], digest[8:12], f"4{digest[13:16]}", variant + digest[18:20], digest[20:32])
    )


# Reading.


def shards_of(path: Path) -> Path | None:
    """The folder of the shards that a path names: a checkout, `ledger`, it itself, or a shard."""
    for folder in (path / SHARDS[0] / SHARDS[1], path / SHARDS[1], path, path.parent):
        if folder.parts[-2:] == SHARDS and folder.is_dir():
            return folder
    return None


def read_ledger(shards: Path) -> LedgerState:
    """The ledger in a folder of shards, at most 1,024 files and 100 MiB of it.

    Links are not followed. Raises OSError where the folder cannot be read.
    """
    names = [name for name in nofollow.folder_names(shards) if name.endswith(".jsonl")]
    faults = [LedgerFault("too-many-files", names[FILES_MAX])] if len(names) > FILES_MAX else []
    met: dict[str, LedgerRecord] = {}
    left = _LEDGER_BYTES_MAX
    for name in names[:FILES_MAX]:
        if not _SHARD.fullmatch(name):
            faults.append(LedgerFault("invalid-envelope", name))
            continue
        try:
            content = nofollow.read_bytes(shards / name, _SEGMENT_BYTES_MAX + 1)
        except OSError:  # a link, or no file
            faults.append(LedgerFault("invalid-envelope", name))
            continue
        left -= len(content)
        if len(content) > _SEGMENT_BYTES_MAX or left < 0:
            faults.append(LedgerFault("too-large", name))
            continue
        faults += _take(content, name, met)
    records = _in_order(met)
    if len(records) < len(met):
        faults.append(LedgerFault("cycle", ""))
    followed = {parent for record in records for parent in record.parents}
    heads = sorted(record.sha for record in records if record.sha not in followed)
    return LedgerState(tuple(records), tuple(heads), len(names), tuple(faults))


def _take(content: bytes, name: str, met: dict[str, LedgerRecord]) -> Iterator[LedgerFault]:
    *lines, rest = content.split(b"\n")
    if rest:
        yield LedgerFault("truncated-record", name, len(lines) + 1)
    for number, line in enumerate(lines, 1):
        made = record_of_line(line)
        if isinstance(made, str):
            yield LedgerFault(made, name, number)
        else:  # a compaction that was cut short leaves a record in two files
            met.setdefault(made.sha, made)


def _in_order(met: Mapping[str, LedgerRecord]) -> list[LedgerRecord]:
    """The records by rank and sha: a rank behind the last of its parents that are there."""
    waits = {sha: sum(parent in met for parent in record.parents) for sha, record in met.items()}
    followers: dict[str, list[str]] = defaultdict(list)
    for sha, record in met.items():
        for parent in record.parents:
            followers[parent].append(sha)
    ordered: list[LedgerRecord] = []
    ready = sorted(sha for sha, count in waits.items() if not count)
    while ready:
        ordered += (met[sha] for sha in ready)
        following: list[str] = []
        for sha in ready:
            for one in followers[sha]:
                waits[one] -= 1
                if not waits[one]:
                    following.append(one)
        ready = sorted(following)
    return ordered


# Writing.


def export_to_ledger(
    context: PlaneContext,
    to: str | os.PathLike[str],
    asked: ExportFilter,
    *,
    progress: Progress | None = None,
) -> LedgerReport:
    """Write the memories that hold to the ledger in a folder; see `PlaneUpkeep.export_ledger`."""
    context.check_open()
    top = Path(to).absolute()
    if not top.is_dir():
        raise InputError(f"{top}: expected a folder, as a checkout of the branch", where="to")
    shards = top.joinpath(*SHARDS)
    try:
        nofollow.make_folder(shards, top)
        state = read_ledger(shards)
    except OSError as error:
        raise InputError(f"{shards}: {error.strerror or error}", where="to") from error
    if state.faults:
        fault = state.faults[0]
        raise InputError(
            f"{shards / fault.file}: line {fault.line}: {fault.code}, one of "
            f"{len(state.faults)} faults; GitHub would refuse to add to such a ledger, and so does "
            "this: mend it or take it from the branch anew",
            where="to",
        )
    if len(state.heads) > _PARENTS_MAX:
        raise InputError(f"{shards}: {len(state.heads)} heads, more than 64", where="to")
    return _Writing(context, top, shards, state, asked).write(progress)


class _Writing:
    def __init__(
        self,
        context: PlaneContext,
        top: Path,
        shards: Path,
        state: LedgerState,
        asked: ExportFilter,
    ) -> None:
        self._context, self._top, self._shards, self._asked = context, top, shards, asked
        self._plane = context.home.plane_id
        self._files = state.files
        self._parents = list(state.heads)
        self._last_sha = ",".join(state.heads)
        self._there = _map_of(state.records)
        self._lines: list[bytes] = []
        self._bytes = self._made = 0
        self._withheld: dict[str, int] = {}

    def write(self, progress: Progress | None) -> LedgerReport:
        """Add what differs; the files appear whole, one after the other."""
        put = deleted = unchanged = 0
        present: set[str] = set()
        for key, value, moment in self._memories(progress):
            present.add(key)
            if self._there.get(key) == value:
                unchanged += 1
            elif self._add({"operation": "put", "key": key, "value": value}, moment):
                put += 1
            else:
                self._withhold("too long")
        if self._asked._replace(redact=False, secret=False).is_everything:
            now = self._context.clock()
            for key in sorted(self._there.keys() - present):
                value = self._there[key]
                if isinstance(value, dict) and value.get("plane") == self._plane:
                    deleted += self._add({"operation": "delete", "key": key}, now)
        self._flush()
        return LedgerReport(str(self._shards), put, deleted, unchanged, self._made, self._withheld)

    def _memories(self, progress: Progress | None) -> Iterator[tuple[str, dict[str, Any], str]]:
        """Key, value and time of each memory that holds and may leave, in log order."""
        context = self._context
        chosen = EventSelector(context, self._asked, channel=_CHANNEL)
        with context.lock:
            memories = context.caught_up().memories
        head, now = context.head().seq, context.clock()
        taken: set[str] = set()
        for line in context.log.read(0, head):
            event = line.event
            if progress is not None and event.seq % 1024 == 0:
                progress(event.seq, head)
            if event.kind not in TYPED_KINDS or memories.archived(event) is not None:
                continue
            if event.valid_until is not None and event.valid_until <= now:
                continue
            if (reason := self._stays(event)) is not None:
                self._withhold(reason)
                continue
            row = chosen.leaving(event)
            if row is None or not row.get("text", "").strip():
                continue
            key = row.get("key") or f"memplane/{row['id']}"
            if key in taken:
                key = f"{event.ns.strip('/')}#{key}"
            taken.add(key)
            yield key, self._value(event, row), event.ts
        for reason, count in chosen.withheld.items():
            self._withheld[reason] = self._withheld.get(reason, 0) + count

    def _stays(self, event: Event) -> str | None:
        """Why a memory is not for a repository, whatever its sensitivity."""
        if event.kind in _NOT_SHARED:
            return f"{event.kind} of the user's"
        if event.id.startswith("ledger:"):
            return "from a ledger"
        return "of another person" if event.said_by == "person" else None

    def _value(self, event: Event, row: Mapping[str, Any]) -> dict[str, Any]:
        said = {
            "at": event.ts,
            "by": event.said_by,
            "kind": event.kind,
            "plane": self._plane,
            "tags": list(row.get("tags", ())),
            "text": row["text"],
        }
        return {name: one for name, one in said.items() if one}

    def _withhold(self, reason: str) -> None:
        self._withheld[reason] = self._withheld.get(reason, 0) + 1

    def _add(self, payload: dict[str, Any], moment: str) -> bool:
        """Put one record behind the others; False where it would be too long."""
        named = canonical_json([self._plane, self._last_sha, payload])
        id_ = f"ldg-{uuid_of(hashlib.sha256(named.encode()).hexdigest())}"
        body = {
            "version": 1,
            "id": id_,
            "type": _TYPE,
            "timestamp": f"{moment[:23]}Z",
            "parents": self._parents,
            "payload": {**payload, "id": id_},
        }
        sha = _sha_of(body)
        line = canonical_json({**body, "sha": sha}).encode() + b"\n"
        if len(line) > _RECORD_BYTES_MAX:
            return False
        if self._bytes + len(line) > _SEGMENT_BYTES:
            self._flush()
        self._parents, self._last_sha = [sha], sha
        self._lines.append(line)
        self._bytes += len(line)
        return True

    def _flush(self) -> None:
        data, self._lines, self._bytes = b"".join(self._lines), [], 0
        if not data:
            return
        if self._files >= FILES_MAX:
            raise WriteError(f"{self._shards}: holds {FILES_MAX} files, the most of a ledger")
        name = f"{uuid_of(hashlib.sha256(data).hexdigest())}.jsonl"
        try:
            Disk().publish(str(self._shards / name), data, str(self._top))
        except OSError as error:
            raise WriteError(f"{self._shards / name}: {error.strerror or error}") from error
        self._files += 1
        self._made += 1


def _map_of(records: Iterable[LedgerRecord]) -> dict[str, Any]:
    """What a ledger of type `map` holds."""
    held: dict[str, Any] = {}
    for record in records:
        said = record.payload
        key = said.get("key") if isinstance(said, dict) else None
        if not isinstance(key, str):
            continue
        if said.get("operation") == "put":
            held[key] = said.get("value")
        elif said.get("operation") == "delete":
            held.pop(key, None)
    return held
