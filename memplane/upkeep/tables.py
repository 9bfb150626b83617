"""`memplane export --sqlite`: what a plane holds as five tables in one SQLite file.

The tables of the Memory Plane's plan, for programs that read tables (datasette, sqlite-utils, a
notebook). Events are those of a partial export: as the private channel shows them, redacted again,
without what was forgotten. Nothing reads the file back.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from memplane import nofollow
from memplane.errors import InputError, WriteError
from memplane.event import TYPED_KINDS, encode
from memplane.intake.redact import quoted_value
from memplane.lazy import NamedTuple
from memplane.log.disk import Disk, drop
from memplane.projections.artifacts import facts_of
from memplane.upkeep.export import (
    EventSelector,
    ExportFilter,
    Progress,
    drop_left_drafts,
    export_target,
)

if TYPE_CHECKING:
    from memplane.context.context import PlaneContext
    from memplane.event import Event

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
