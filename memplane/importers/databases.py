"""Memory programs that keep a SQLite database: mem0, OpenMemory, LangGraph's store, claude-mem.

The program may be writing. So its database is copied with its journal (`-wal`, `-journal`) into a
folder of this user's alone, twice where it changed meanwhile, and the copy is opened: SQLite takes
in what the journal holds, and no lock, no byte of the original is touched. The file may be
anybody's: only real tables are read, only columns that are stored, and texts are limited. A newer
schema is read as far as the columns that are needed are there; without them the file is refused.

What the tables become:

* `history` of mem0: the text that each memory has after its last change. It does not say of whom a
  memory is; an export of `get_all` does.
* `memories` of OpenMemory: as its export. Deleted, archived and paused ones are archived here.
* `store` of LangGraph: an item that was deleted there is archived here. Checkpoints are no memory.
* `observations` and `session_summaries` of claude-mem: observations and summaries under the key
  `claude-mem/<session>/<number>`. A model made them of what agents did, so a decision among them is
  an observation with that tag. Prompts and tool calls are left out and counted: they stand in the
  transcripts. In a plane of projects they go to the one whose folder has the project's name.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import InputError
from memplane.importers.memories import (
    LANGGRAPH,
    MEM0,
    kept_about,
    langgraph_statement,
    mem0_statement,
    stored_time,
    tags_of,
    word_of,
)
from memplane.importers.rows import json_digest
from memplane.importers.statements import FileStatement, StatedFile, key_of
from memplane.lazy import NamedTuple, late

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Mapping
else:
    sqlite3 = late("sqlite3")  # some Pythons have none; only databases need it

CLAUDE_MEM: Final = "claude-mem"
ENDINGS: Final = (".db", ".sqlite", ".sqlite3")

_MAGIC: Final = b"SQLite format 3\0"
_JOURNALS: Final = ("-wal", "-journal")
_TRIES: Final = 4  # to copy a database that stands still meanwhile
_BYTES_MAX: Final = 16 * 1024 * 1024 * 1024
_TEXT_BYTES_MAX: Final = 16 * 1024 * 1024
_STEPS: Final = 10_000  # of SQLite's machine between two looks at the limit
_ROW_STEPS_MAX: Final = 5_000_000_000  # until the next row: sorting comes before the first


class _Kind(NamedTuple):
    """A table that is recognised, the columns that it must have, and what reads it."""

    source: str
    table: str
    needed: frozenset[str]
    read: Callable[[_Tables, StatedFile], Iterator[FileStatement]]
    whole: bool  # what it does not hold was deleted there


def is_database(path: Path) -> bool:
    """Tell by its first bytes."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def database_source(path: Path) -> str | None:
    """The source of a database; None where it holds no table that is known, or cannot be read."""
    if not is_database(path):
        return None
    with suppress(InputError, OSError, sqlite3.Error):
        kind = _kind_in(path)
        return kind.source if kind is not None else None
    return None


def check_database(path: Path, source: str | None = None) -> _Kind:
    """The table that a database is read by.

    Raises InputError for one without the tables and columns that are needed, of another source, or
    that is written to all the time.
    """
    try:
        kind = _kind_in(path)
    except sqlite3.Error as error:
        raise InputError(f"{path}: cannot be read as SQLite: {error}", where="paths") from error
    if kind is not None and source in (None, kind.source):
        return kind
    known = "; or ".join(
        f"{one.table} with {', '.join(sorted(one.needed))} ({one.source})"
        for one in _KINDS
        if source in (None, one.source)
    )
    raise InputError(
        f"{path}: a SQLite database; expected the table {known}; found none such", where="paths"
    )


def state_of_journals(path: Path) -> list[int]:
    """What tells whether the journals beside a database have changed since; [] without any."""
    found: list[int] = []
    for ending in _JOURNALS:
        with suppress(OSError):
            stat = Path(f"{path}{ending}").stat()
            found += [stat.st_size, stat.st_mtime_ns] if stat.st_size else []
    return found


def statements_of_database(path: Path, source: str) -> StatedFile:
    """What a database of a source states, read as it is asked for.

    It is named by its place, as a program has one of them under the same name everywhere. Raises
    InputError as `check_database`.
    """
    kind = check_database(path, source)
    origin = f"{path.name}-{json_digest(str(path))[:12]}"
    told = StatedFile(
        origin=origin,
        prefix=f"{kind.source}/",
        statements=(),
        whole=kind.whole,
        keeper=kind.source,
    )
    told.statements = _stated(path, kind, told)
    return told


def _stated(path: Path, kind: _Kind, told: StatedFile) -> Iterator[FileStatement]:
    try:
        with _opened(path) as tables:
            if kind.needed <= tables.columns.get(kind.table, frozenset()):
                yield from kind.read(tables, told)
                return
        told.whole = False
        told.skipped.append("changing file")  # its schema, meanwhile
    except (InputError, sqlite3.Error, OSError) as error:
        told.whole = False
        told.skipped.append("damaged file" if isinstance(error, sqlite3.Error) else "changing file")


def _kind_in(path: Path) -> _Kind | None:
    """Which table a database has; without journals its file alone says so, and is not copied."""
    if not state_of_journals(path):
        with closing(_connected(path, "mode=ro&immutable=1")) as connection:
            return _kind_of(_Tables(connection))
    with _opened(path) as tables:
        return _kind_of(tables)


def _kind_of(tables: _Tables) -> _Kind | None:
    for kind in _KINDS:
        if kind.needed <= tables.columns.get(kind.table, frozenset()):
            return kind
    return None


@contextmanager
def _opened(path: Path) -> Iterator[_Tables]:
    """The tables of a copy of the database, which lives as long as this is entered."""
    with tempfile.TemporaryDirectory(prefix="memplane-") as folder:
        copy = Path(folder) / "copy.db"
        _copy_still(path, copy)
        with closing(_connected(copy, "mode=rw")) as connection:
            yield _Tables(connection)


def _connected(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True)


def _copy_still(path: Path, copy: Path) -> None:
    """Copy a database and its journals as they are at one moment; InputError if there was none."""
    for _ in range(_TRIES):
        before = _stats(path)
        if sum(size for _, size, _ in before) > _BYTES_MAX:
            raise InputError(f"{path}: more than {_BYTES_MAX >> 30} GiB", where="paths")
        for ending, _, _ in before:
            shutil.copyfile(f"{path}{ending}", f"{copy}{ending}")
        if _stats(path) == before:
            return
        for ending in _JOURNALS:
            Path(f"{copy}{ending}").unlink(missing_ok=True)
    raise InputError(
        f"{path}: was written to each of {_TRIES} times that it was copied; stop its program, or "
        "import it again later",
        where="paths",
    )


def _stats(path: Path) -> list[tuple[str, int, int]]:
    found: list[tuple[str, int, int]] = []
    for ending in ("", *_JOURNALS):
        try:
            stat = Path(f"{path}{ending}").stat()
        except OSError:
            if not ending:
                raise
            continue
        if stat.st_size:
            found.append((ending, stat.st_size, stat.st_mtime_ns))
    return found


class _Tables:
    """The real tables of a database and their stored columns. Raises sqlite3.Error."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        for limit, value in (
            (sqlite3.SQLITE_LIMIT_LENGTH, _TEXT_BYTES_MAX),
            (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 100),
            (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
        ):
            connection.setlimit(limit, value)
        connection.execute("PRAGMA query_only=1")
        connection.execute("PRAGMA trusted_schema=0")
        connection.execute("PRAGMA cell_size_check=1")
        self._steps = 0
        connection.set_progress_handler(self._step, _STEPS)
        listed = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type='table' AND sql LIKE 'CREATE TABLE%' "
            "LIMIT 500"
        ).fetchall()
        self.columns = {name: self._stored(name) for (name,) in listed if isinstance(name, str)}

    def rows(self, table: str, order: str, where: str = "") -> Iterator[dict[str, Any]]:
        """The rows of a table, by a column; `where` compares columns that are there."""
        names = sorted(self.columns[table])
        listed = ", ".join(map(_quoted, names))
        condition = f" WHERE {where}" if where else ""
        cursor = self._connection.execute(
            f"SELECT {listed} FROM {_quoted(table)}{condition} ORDER BY {order}"  # noqa: S608 - quoted
        )
        for row in cursor:
            self._steps = 0
            yield dict(zip(names, row, strict=True))

    def count(self, table: str) -> int:
        """How many rows a table has, 0 where it is not there."""
        if table not in self.columns:
            return 0
        (found,) = self._connection.execute(f"SELECT count(*) FROM {_quoted(table)}").fetchone()  # noqa: S608 - quoted
        return int(found)

    def _stored(self, table: str) -> frozenset[str]:
        listed = self._connection.execute(f"PRAGMA table_xinfo({_quoted(table)})").fetchall()
        return frozenset(row[1] for row in listed if row[6] == 0)

    def _step(self) -> int:
        self._steps += _STEPS
        return int(self._steps > _ROW_STEPS_MAX)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# What each table states.


def _mem0_history(tables: _Tables, told: StatedFile) -> Iterator[FileStatement]:
    """The last text of each memory, by its last change."""
    last: str | None = None
    held: dict[str, Any] = {}
    for row in tables.rows("history", '"memory_id", coalesce("updated_at", "created_at"), rowid'):
        if last is not None and row["memory_id"] != last:
            yield from _remembered(held, told)
        last, held = row["memory_id"], row
    yield from _remembered(held, told)


def _remembered(row: Mapping[str, Any], told: StatedFile) -> Iterator[FileStatement]:
    if not row:
        return
    deleted = row.get("event") == "DELETE" or row.get("is_deleted") == 1
    yield from mem0_statement(
        {
            "id": row.get("memory_id"),
            "memory": "" if row.get("new_memory") is None else row["new_memory"],
            "updated_at": row.get("updated_at"),
            "created_at": row.get("created_at"),
            "state": "deleted" if deleted else "",
        },
        told,
    )


def _openmemory(tables: _Tables, told: StatedFile) -> Iterator[FileStatement]:
    names = {
        table: {row["id"]: word_of(row["name"]) for row in tables.rows(table, "rowid")}
        for table in ("apps", "categories")
        if {"id", "name"} <= tables.columns.get(table, frozenset())
    }
    groups: dict[Any, list[str]] = {}
    if "memory_categories" in tables.columns:
        for row in tables.rows("memory_categories", "rowid"):
            named = names.get("categories", {}).get(row.get("category_id"))
            if named:
                groups.setdefault(row.get("memory_id"), []).append(named)
    for row in tables.rows("memories", "rowid"):
        yield from mem0_statement(
            {
                **row,
                "metadata": _json_of(row.get("metadata")),
                "user_id": None,
                "app_id": names.get("apps", {}).get(row.get("app_id")),
                "categories": groups.get(row["id"], []),
            },
            told,
        )


def _langgraph(tables: _Tables, told: StatedFile) -> Iterator[FileStatement]:
    for row in tables.rows("store", "rowid"):
        yield from langgraph_statement(row, told)


_CLAUDE_MEM_TYPES: Final = ("type", "concepts")
_SUMMARY_PARTS: Final = ("request", "investigated", "learned", "completed", "next_steps", "notes")


def _claude_mem(tables: _Tables, told: StatedFile) -> Iterator[FileStatement]:
    for row in tables.rows("observations", '"id"'):
        parts = [row.get(one) for one in ("title", "subtitle", "narrative", "text")]
        facts = _list_of(row.get("facts"))
        lines = [one.strip() for one in parts if isinstance(one, str)]
        lines += [f"- {fact}" for fact in facts if isinstance(fact, str)]
        words = [row.get("type"), *_list_of(row.get("concepts"))]
        yield from _of_session(row, "", "observation", lines, words, told)
    if {"id", "memory_session_id", "created_at"} <= tables.columns.get(
        "session_summaries", frozenset()
    ):
        for row in tables.rows("session_summaries", '"id"'):
            lines = [
                f"{part.replace('_', ' ')}: {row[part].strip()}"
                for part in _SUMMARY_PARTS
                if isinstance(row.get(part), str) and row[part].strip()
            ]
            yield from _of_session(row, "s", "summary", lines, [], told)
    for table, noun in (("user_prompts", "prompt"), ("tool_uses", "tool call")):
        told.skipped += [noun] * tables.count(table)


def _of_session(
    row: Mapping[str, Any],
    letter: str,
    kind: str,
    lines: list[str],
    words: list[Any],
    told: StatedFile,
) -> Iterator[FileStatement]:
    text = "\n".join(dict.fromkeys(filter(None, lines)))
    session, number = word_of(row.get("memory_session_id")), word_of(row.get("id"))
    if not text or not session or not number:
        told.skipped.append("malformed memory" if text else "empty text")
        return
    project = word_of(row.get("project"))
    yield FileStatement(
        key_of(CLAUDE_MEM, session, f"{letter}{number}"),
        kind,
        text,
        tags_of(words),
        ts=stored_time(row.get("created_at_epoch")) or stored_time(row.get("created_at")),
        about=kept_about(
            project=project,
            session=session,
            read=_list_of(row.get("files_read")),
            modified=_list_of(row.get("files_modified")) or _list_of(row.get("files_edited")),
        ),
        project=project,
    )


def _json_of(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else None
    except (ValueError, RecursionError):
        return None


def _list_of(value: Any) -> list[Any]:
    """A list that is stored as JSON, or as names with commas between them."""
    found = _json_of(value)
    if isinstance(found, list):
        return found
    named = value.split(",") if isinstance(value, str) and found is None else []
    return [one.strip() for one in named if one.strip()]


_KINDS: Final = (
    _Kind(
        CLAUDE_MEM,
        "observations",
        frozenset({"id", "memory_session_id", "project", "type", "created_at"}),
        _claude_mem,
        whole=False,
    ),
    _Kind(LANGGRAPH, "store", frozenset({"prefix", "key", "value"}), _langgraph, whole=True),
    _Kind(
        MEM0,
        "memories",
        frozenset({"id", "content", "state", "app_id", "updated_at"}),
        _openmemory,
        whole=False,
    ),
    _Kind(
        MEM0,
        "history",
        frozenset({"memory_id", "new_memory", "event", "created_at", "updated_at"}),
        _mem0_history,
        whole=False,
    ),
)
