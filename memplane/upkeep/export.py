"""`Plane.export`: a backup of everything, or selected events in a form that may leave.

`memplane export --sqlite`: what a plane holds as five tables in one SQLite file.

The tables of the Memory Plane's plan, for programs that read tables (datasette, sqlite-utils, a
notebook). Events are those of a partial export: as the private channel shows them, redacted again,
without what was forgotten. Nothing reads the file back.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from typing import IO, TYPE_CHECKING, Any, Final, Protocol, Self

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
from memplane.intake.check import is_checksum, time_bound
from memplane.intake.redact import masked_data, quoted_value
from memplane.lazy import NamedTuple, late
from memplane.log.disk import Disk, drop
from memplane.log.export import Begun, Damaged, Export, ExportedLines, ExportHeader, export_pieces
from memplane.log.log import take_in_all
from memplane.log.segments import Segments, body_hash, erased_by, load_body, recalled_hashes
from memplane.projections.artifacts import COPY, facts_of
from memplane.projections.in_force import Moments, originated
from memplane.recall.suppress import within

if TYPE_CHECKING:
    import sqlite3
    from datetime import datetime

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
