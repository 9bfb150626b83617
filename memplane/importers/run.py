"""`import_paths`: read the files or repositories of a source into a plane, and report on each part.

A second run records nothing, because ids come from the source, and reads little, because
`importers.records` remembers how far each file was read, and which heads of a repository. Where git
cannot go on from those (another selection, history that was rewritten and removed, a shallow clone
that was deepened) all commits are read, and their ids identify those that are recorded.

`SessionPlaces` decides of which project an imported session is. A session that the log knows stays
where it is. Of another one its folder decides, as for a hook (`memplane.projects`); a
folder that is not on this machine is taken by its words: by the known root that it lies in, else by
the folder in which the client kept the transcript, which names the root. What says so for the first
time is recorded with the first event that is new: importing what is there already writes nothing.

`detect` tells the source of a file by its first lines, `find_sources` what below a folder can be
imported.
"""

# Roots are texts.
# ruff: noqa: PTH119, PTH120
from __future__ import annotations

import hashlib
import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, Literal

from memplane.context.batches import BulkReceipt, Refusal
from memplane.errors import InputError, MemplaneError
from memplane.event import GLOBAL
from memplane.importers import claude_code, codex, git, memories, statements
from memplane.importers.claude_code import ClaudeCode
from memplane.importers.codex import Chat, Codex
from memplane.importers.git import SOURCE, GitCommit, GitRepository, is_repository, row_of
from memplane.importers.records import (
    JSONL,
    Consumed,
    Hooked,
    Jsonl,
    files_below,
    is_zstd,
    may_be_document,
    parse_array,
    parse_document,
    parse_records,
    read_all,
    read_lines,
    written_at,
)
from memplane.importers.rows import Row
from memplane.importers.statements import forget_all, gone, lost_with, statement_rows
from memplane.intake import namespace, with_permitted_actor
from memplane.intake.redact import masked
from memplane.lazy import NamedTuple
from memplane.projects import (
    PREFIX,
    UNKNOWN,
    KnownProjects,
    client_folder,
    enter_folder,
    find_root,
    inner_path,
    is_clients_folder,
    is_excluded,
    roots_of_folder,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from memplane.importers.records import SourceLine
    from memplane.importers.rows import ReadOutcome, RecordReader
    from memplane.importers.statements import StatedFile, StatedKey
    from memplane.plane import Plane


FIRST_LINES: Final = 20
_QUOTED: Final = 40  # characters of a line that is no record
_FILES: Final = 20
_NO_MESSAGES: Final = b"[]"  # of a chat that has not begun
_TRANSCRIPT: Final = frozenset({"sessionId", "uuid", "leafUuid", "messageId"})
_ROW: Final = frozenset({"conversation_id", "event_id", "kind", "text"})
_LISTED: Final = (
    claude_code.SOURCE,
    statements.CLAUDE_MEMORY,
    codex.SOURCE,
    statements.MCP_MEMORY,
    codex.CHAT,
    JSONL,
    memories.MEM0,
    memories.LANGGRAPH,
    memories.CLAUDE_MEM,
    memories.BASIC_MEMORY,
    memories.LEDGER,
)


class FirstLines(NamedTuple):
    """What the first lines of a file show.

    `json_lines`: there is a record, or only records. `found` is the beginning of the first line
    that is no record. `document`: the file is one JSON value over many lines that holds records.
    """

    source: str | None
    json_lines: bool
    found: str
    document: bool = False


class FoundSource(NamedTuple):
    """What a path holds of one source, and the command that imports it.

    `items` are files, of the source git commits (None: git cannot say). `source` None:
    files that may hold JSON and are of no source that is known; no command takes them.
    """

    path: str
    source: str | None
    items: int | None
    command: str | None


def detect(path: str | os.PathLike[str]) -> str | None:
    """The name of a source, or None where the first lines fit none.

    Of a folder: the source of the first of its files that has one.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no such file or folder", where="path")
    try:
        if path.is_dir():
            looks = (look(file).source for file in takeable(path)[:_FILES])
            return next(filter(None, looks), None)
        return look(path).source if path.is_file() else None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}", where="path") from error


def find_sources(path: str | os.PathLike[str]) -> list[FoundSource]:
    """What could be imported from a file or folder; reads first lines and writes nothing.

    Planes below the folder are left out. InputError where there is nothing by that name.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no such file or folder", where="path")
    counts: Counter[str | None] = Counter()
    for file in _outside_planes(path, takeable(path)) if path.is_dir() else [path]:
        with suppress(OSError):
            counts[look(file).source] += 1
    found = [_found(path, source, counts[source]) for source in _LISTED if counts[source]]
    if path.is_dir() and is_repository(path):
        commits = None
        with suppress(InputError):
            commits = GitRepository(path).count()
        found.append(_found(path, git.SOURCE, commits))
    if counts[None]:
        found.append(FoundSource(str(path), None, counts[None], None))
    return found


def refuse_repository(path: Path, files: list[Path]) -> None:
    """Raise InputError for a repository without a file of any source: its commits were meant."""
    if not is_repository(path):
        return
    for file in files:
        with suppress(OSError):
            if look(file).source is not None:
                return
    raise InputError(
        f"{path}: no transcripts and no events in JSON lines below it; it is a git repository: "
        f"`memplane import git {quote(str(path))}` takes its commits",
        where="paths",
    )


def _found(path: Path, source: str, items: int | None) -> FoundSource:
    return FoundSource(str(path), source, items, f"memplane import {source} {quote(str(path))}")


def _outside_planes(folder: Path, files: list[Path]) -> list[Path]:
    """The files that lie in no plane: its log is JSON lines too, and not to be imported."""
    planes: dict[Path, bool] = {}

    def in_plane(place: Path) -> bool:
        if place not in planes:
            inside = place != folder and in_plane(place.parent)
            planes[place] = inside or (place / "plane.json").is_file()
        return planes[place]

    return [file for file in files if not in_plane(file.parent)]


def takeable(folder: Path) -> list[Path]:
    """The files of a folder that may be of a source, by path: JSON, and memory in Markdown."""
    notes = [
        path
        for path in files_below(folder, (".md",))
        if statements.is_memory(path) or memories.packed_source(path)
    ]
    stores = files_below(folder, (*memories.ENDINGS, ".zip"))
    return sorted([*files_below(folder), *notes, *filter(_foreign_source, stores)], key=os.fspath)


def _foreign_source(path: Path) -> str | None:
    """The source of a database, a zip or a note of another memory program."""
    return memories.database_source(path) or memories.packed_source(path)


def look(path: Path) -> FirstLines:
    """Look at the first 20 lines that are not blank, or at all of a document."""
    if statements.is_memory(path):
        return FirstLines(statements.CLAUDE_MEMORY, False, "")
    if (foreign := _foreign_source(path)) is not None:
        return FirstLines(foreign, False, "")
    if path.suffix.lower() == ".md":
        return FirstLines(None, False, _first_words(path))
    if is_zstd(path):
        return FirstLines(None, False, "zstd")
    records: list[dict[str, Any]] = []
    junk: list[bytes] = []
    with closing(read_lines(path)) as lines:
        said = (line for line in lines if line.body.strip() or line.fault)
        for line in islice(said, FIRST_LINES):
            made = parse_records(line.body).records or parse_array(line.body)
            if not made and not records and not junk and (whole := _document(path)):
                # Its lines may be JSON, too, and no records by themselves.
                return FirstLines(next(_sources(whole), None), False, "", document=True)
            records += made
            # The writer of a transcript may be in the middle of its first record.
            begun = not line.whole and line.body.lstrip().startswith(b"{")
            if not made and not begun and line.body.strip() != _NO_MESSAGES:
                junk.append(line.body.strip() or line.fault.encode())
    found = _quoted(junk[0]) if junk else ""
    source = next(_sources(records), None) or memories.document_source(path)
    return FirstLines(source, bool(records) or not junk, found)


def _first_words(path: Path) -> str:
    with closing(read_lines(path)) as lines:
        return next((_quoted(one.body) for one in lines if one.body.strip()), "")


def _quoted(line: bytes) -> str:
    """How a line begins: 40 characters at most, whole ones."""
    text = line.strip().decode("utf-8", "replace")
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"


def _document(path: Path) -> tuple[dict[str, Any], ...]:
    if not may_be_document(path):
        return ()
    text = read_all(path)
    return () if text is None else parse_document(text).records


def _sources(records: Iterable[dict[str, Any]]) -> Iterator[str]:
    for record in records:
        found = next((source for source, is_its in _SIGNS if is_its(record)), None)
        if found is not None:
            yield found


# By what a record shows of which source it is; the first that fits.
_SIGNS: Final[tuple[tuple[str, Callable[[dict[str, Any]], bool]], ...]] = (
    (codex.SOURCE, codex.is_record),
    (
        claude_code.SOURCE,
        lambda record: isinstance(record.get("type"), str) and not _TRANSCRIPT.isdisjoint(record),
    ),
    (statements.MCP_MEMORY, statements.is_graph),
    (codex.CHAT, codex.is_chat),
    (JSONL, lambda record: not _ROW.isdisjoint(record)),
    (memories.LEDGER, memories.is_ledger_record),
    (memories.LANGGRAPH, memories.is_langgraph),
    (memories.MEM0, memories.is_mem0),
    (codex.CHAT, codex.is_message),
)


class SessionPlaces:
    """The places of one import's sessions. Of a plane that is not parted they are all its own."""

    def __init__(self, plane: Plane) -> None:
        context = plane.context
        self._context, self._registry = context, context.registry
        self._known = KnownProjects()
        if self._registry is not None:
            self._known = KnownProjects.of(self._registry.follow().fields())
        self._exclude = context.watched.policies_or_last().plane.hooks.exclude
        self._spaces: dict[str, str] = {}  # of sessions
        self._roots: dict[str, tuple[str, ...]] = {}  # of folders
        self._news: list[Row] = []

    def is_excluded(self, folder: str) -> bool:
        """Whether plane.yaml keeps what happened in a folder out."""
        return is_excluded([folder], self._exclude) if folder else False

    def roots(self, folder: str) -> tuple[str, ...]:
        """The root of a folder that is there, and its work trees; none of one that is not."""
        if folder not in self._roots:
            self._roots[folder] = roots_of_folder(folder) if find_root(folder).there else ()
        return self._roots[folder]

    def placed(self, row: Row, folder: str, file: Path) -> Row:
        """The row of a session in its project; `folder`: where that began, `file`: its transcript.

        A file in one of the usual places of work trees has the name that it has in the root.
        """
        data = row.get("data")
        path = data.get("path") if isinstance(data, dict) else None
        if isinstance(path, str) and (inner := inner_path(path)) != path:
            row = {**row, "data": {**row["data"], "path": inner}}
        session = row.get("session")
        if self._registry is None or "ns" in row or not isinstance(session, str):
            return row
        if session not in self._spaces:
            self._spaces[session] = self._space(session, folder, os.path.dirname(file))
        return {**row, "ns": self._spaces[session]}

    def of_kept(self, folder: Path) -> str | None:
        """The project of what the client keeps in its folder for one; None: the plane has none."""
        if self._registry is None:
            return None
        names = {
            client_folder(path): self._known.now(ns) for ns, path in self._known.roots.values()
        }
        return names.get(folder.parent.name, UNKNOWN)

    def of_name(self, project: str) -> str | None:
        """The one known project whose folder has that name; None: the plane has no projects."""
        if self._registry is None:
            return None
        named = {
            self._known.now(ns)
            for ns, path in self._known.roots.values()
            if os.path.basename(path) == project
        }
        return named.pop() if len(named) == 1 else UNKNOWN

    def of_root(self, folder: Path) -> str | None:
        """The project of a repository that is there; None: the plane has none."""
        if self._registry is None:
            return None
        return self._entered(os.path.realpath(folder), "") or UNKNOWN

    def settle(self) -> None:
        """Record which roots were met: something new was recorded of them."""
        news, self._news = self._news, []
        if news and self._registry is not None:
            known = self._registry.follow()
            make = self._context.drafting(internal=True)
            fresh = [make(row, "") for row in news if known.is_news(row)]
            if fresh:
                self._context.append(fresh)

    def _space(self, session: str, folder: str, kept: str) -> str:
        known = self._known
        said = known.of_session(session)
        if said is not None and said.startswith(PREFIX) and said != UNKNOWN:
            return said
        if not folder:
            return UNKNOWN
        root = folder
        if not find_root(folder).there:
            above = known.above(folder)
            if above is not None:
                return above[1]
            root = _root_by_words(folder, kept)
        return self._entered(root, kept if is_clients_folder(kept, root) else "") or UNKNOWN

    def _entered(self, root: str, kept: str) -> str:
        entered = enter_folder(self._known, root, kept=kept)
        for row in entered.rows:
            self._known.apply(row)
            self._news.append(dict(row))
        return entered.place.ns


def _root_by_words(folder: str, kept: str) -> str:
    """The folder, or the one above it for which the client named its own folder."""
    at, name = folder.rstrip("/"), os.path.basename(kept)
    while at and at != "/":
        if client_folder(at) == name:
            return at
        at = os.path.dirname(at)
    return folder


# Of the bytes, of all bytes, and events that were recorded.
Progress = Callable[[int, int, int], None]

# Raise it when a reader changes what it takes: files are then read again from their start.
_VERSION: Final = 3
_ROWS_AT_ONCE: Final = 1024
_FOLDED_FROM: Final = 500  # events: fewer the next reader folds in no time
_TEXT_AT_ONCE: Final = 8 * 1024 * 1024
_PROGRESS_BYTES: Final = 1024 * 1024


def _whole(
    read: Callable[[Path, bytes], StatedFile],
) -> Callable[[Path], StatedFile | None]:
    """Of a file that is read at once; None for a damaged or overlong one."""

    def whole(path: Path) -> StatedFile | None:
        content = read_all(path)
        return None if content is None else read(path, content)

    return whole


def _database_or(
    source: str, read: Callable[[Path], StatedFile | None] | None = None
) -> Callable[[Path], StatedFile | None]:
    """Of a program that has a database, and exports in text where there is a `read`."""

    def either(path: Path) -> StatedFile | None:
        if read is None or memories.is_database(path):
            return memories.statements_of_database(path, source)
        return read(path)

    return either


_NOT_STATED: Final = {
    "forgotten": "forgotten here",
    "doubled": "second value of a key",
    "older": "older than what is here",
    "own": "exported by this plane",
}
# Files that state what holds now, and are compared with the plane.
_STATING: Final[dict[str, Callable[[Path], StatedFile | None]]] = {
    statements.CLAUDE_MEMORY: _whole(statements.statements_of_claude),
    statements.MCP_MEMORY: _whole(statements.statements_of_mcp),
    memories.MEM0: _database_or(memories.MEM0, memories.statements_of_mem0),
    memories.LANGGRAPH: _database_or(memories.LANGGRAPH, memories.statements_of_langgraph),
    memories.CLAUDE_MEM: _database_or(memories.CLAUDE_MEM),
    memories.BASIC_MEMORY: memories.statements_of_basic_memory,
    memories.LEDGER: memories.statements_of_ledger,
}
_DATABASES: Final = (memories.MEM0, memories.LANGGRAPH, memories.CLAUDE_MEM)
# Where they are looked for in a folder, other than JSON.
_ENDINGS: Final = {
    statements.CLAUDE_MEMORY: (".md",),
    memories.BASIC_MEMORY: (".md",),
    memories.MEM0: (".json", ".json.gz", ".jsonl", ".jsonl.gz", ".zip", *memories.ENDINGS),
    memories.LANGGRAPH: (".jsonl", ".jsonl.gz", *memories.ENDINGS),
    memories.CLAUDE_MEM: memories.ENDINGS,
}

# Transcripts, whose sessions are over when they have been silent for long.
_WITH_SESSIONS: Final = {
    claude_code.SOURCE: (claude_code.claude_sessions_in, claude_code.claude_end_id),
    codex.SOURCE: (codex.codex_sessions_in, codex.codex_end_id),
}

# A record that stands in several files, with the id of the first.
_WITH_COPIES: Final = frozenset({*_WITH_SESSIONS, codex.CHAT})


class Reading:
    """The readers, what was consumed before, and the report that grows."""

    def __init__(
        self,
        plane: Plane,
        *,
        reasoning: bool,
        full: bool,
        progress: Progress | None,
        ns: str | None,
        rehearsal: Rehearsal | None,
    ) -> None:
        self.plane, self._ns, self._rehearsal = plane, ns, rehearsal
        self.report = ImportReport(would=None if rehearsal is None else rehearsal.would)
        self.total = 0
        self._consumed = Consumed(plane, fresh=full)
        self._hooked = Hooked(plane)
        self._places = places = SessionPlaces(plane)
        self._sessions: dict[str, ClaudeCode | Codex] = {
            claude_code.SOURCE: ClaudeCode(reasoning=reasoning, roots=places.roots),
            codex.SOURCE: Codex(reasoning=reasoning, roots=places.roots),
        }
        self._readers: dict[str, RecordReader] = {
            JSONL: Jsonl(),
            **self._sessions,
            codex.CHAT: Chat(reasoning=reasoning),
        }
        self._reasoning = reasoning
        self._progress = progress
        self._done = 0  # bytes of the files before this one
        self._told = 0
        self._events = 0
        self._rows: list[Row] = []
        self._waiting: dict[str, Row] = {}  # the same by id
        self._text = 0
        self._read_from: dict[str, dict[str, None]] = defaultdict(dict)  # sessions, with news
        self._known: dict[str, dict[str, None]] = defaultdict(dict)  # likewise, of other files
        self._folders: dict[Path, None] = {}  # of memory
        self._runs = False  # a session that hooks are told of
        self._unanswered: list[ReadOutcome] = []  # what was said last in it

    def file(self, path: Path, source: str | None) -> None:
        """Read one file as far as it goes and record what it holds."""
        file = FileReport(os.fspath(path), source)
        self.report.per_file.append(file)
        try:
            if is_zstd(path):
                file.skip("file compressed with zstd")
            else:
                self._file(file, path)
        except OSError:
            file.skip("unreadable file")
        self._done += source_bytes(path)
        self._tell(self._done)

    def end(self) -> None:
        """End the sessions of transcripts that are over, archive what went with its file.

        A rehearsal ends none: whether one is over, events decide that it did not record.
        """
        for source, (_, end_id) in _WITH_SESSIONS.items():
            if self._rehearsal is None and (self._read_from[source] or self._known[source]):
                ended = self.plane.work.sessions.end_imported(
                    self._read_from[source], self._known[source], end_id, self._hooked.ended
                )
                self.report.ended += len(ended)
        for folder in self._folders:
            if (folder / statements.NOTES_INDEX).is_file():
                there = {statements.origin_of(path) for path in files_below(folder, (".md",))}
                prefix = statements.memory_key_prefix(folder)
                source, stated = statements.CLAUDE_MEMORY, there.__contains__
                self._archive(source, lost_with(self.plane, source, prefix, stated, self._ns))
        if self._rehearsal is None:
            self._consumed.save()
            fold_for_readers(self.plane, self.report)

    def _archive(self, source: str, lost: Mapping[StatedKey, str]) -> None:
        self.report.archived += len(lost)
        if self._rehearsal is None:
            forget_all(self.plane, source, lost)

    def _file(self, file: FileReport, path: Path) -> None:
        before = path.stat()
        seen = None if file.source else look(path)
        if seen is not None:
            file.source = seen.source
        if file.source == memories.LEDGER and path != memories.first_shard(path.parent):
            file.unchanged = True  # the first shard stands for the ledger
            return
        if file.source == statements.CLAUDE_MEMORY:
            self._folders[statements.folder_of(path)] = None
        offset = self._consumed.offset(path, self._how(file, path))
        if offset < 0:
            file.unchanged = True
            self._meet(file, self._known, self._consumed.state(path))
            return
        if file.source in _STATING:
            self._compare(file, path, before)
            return
        seen = seen or look(path) if not offset else None
        if seen is not None and not seen.json_lines and not seen.document:
            file.skip("not JSON lines")
        elif file.source is not None:
            self._read(file, path, before, offset, document=seen is not None and seen.document)
        elif before.st_size:
            file.skip("unknown source")

    def _read(
        self, file: FileReport, path: Path, before: os.stat_result, offset: int, *, document: bool
    ) -> None:
        assert file.source is not None
        reader = self._readers[file.source]
        reader.begin(self._consumed.state(path) if offset else {}, path.name)
        end, state = offset, None
        if document:
            self._runs = False
            self._take_document(file, reader, read_all(path))
        else:
            end, state = self._take_lines(file, reader, path, offset)
            if isinstance(reader, ClaudeCode) and not self._runs:
                self._settle(file, reader.rest())
        self._flush(file)
        how, state = self._how(file, path), state or reader.state()
        self._meet(file, self._read_from, state)
        self._consumed.keep(path, how, before=before, offset=end, state=state, whole=document)

    def _take_lines(
        self, file: FileReport, reader: RecordReader, path: Path, offset: int
    ) -> tuple[int, dict[str, Any] | None]:
        """Read the lines; return where the next import continues, and its state if another one.

        While a session with hooks runs, the last message of its agent is left to the next import:
        hooks may get it later than it is written.
        """
        self._runs = file.source in _WITH_SESSIONS and self._hooked.running()
        end, before = offset, (offset, reader.state())
        for line in read_lines(path, offset):
            if self._runs and not self._unanswered:
                before = end, reader.state()
            if self._take(file, reader, line):
                end = line.end
            done = line.done
            del line  # no long line is held while its text is recorded
            self._flush_if_many(file)
            self._tell(self._done + done)
        if not self._unanswered:
            return end, None
        for _ in self._unanswered:
            file.skip("not answered yet")
        self._unanswered.clear()
        return before

    def _compare(self, file: FileReport, path: Path, before: os.stat_result) -> None:
        """Bring the plane to what the file states now."""
        assert file.source is not None
        how = self._how(file, path)
        try:
            told = _STATING[file.source](path)
        except InputError:
            file.skip("no such database" if memories.is_database(path) else "changing file")
            return
        if told is None:
            file.skip("damaged or overlong file")
            return
        ts = written_at(before).isoformat()
        ns: str | Callable[[str], str | None] | None = self._ns
        if ns is None and file.source == statements.CLAUDE_MEMORY:
            ns = self._places.of_kept(statements.folder_of(path))
        elif ns is None and file.source == memories.CLAUDE_MEM:
            ns = self._places.of_name
        for made in statement_rows(self.plane, file.source, told, ts, ns):
            if not isinstance(made, str):
                file.items += 1
                self._add(file, made)
                self._flush_if_many(file)
            elif made == "repeated":
                file.items += 1
                file.repeated += 1
            else:
                file.skip(_NOT_STATED[made])
            self._tell(self._done + told.done)
        for reason in told.skipped:
            file.skip(reason)
        self._flush(file)
        self._archive(file.source, gone(self.plane, file.source, told, self._ns))
        self._consumed.keep(path, how, before=before, offset=0, state={}, whole=True)

    def _meet(
        self, file: FileReport, sessions: dict[str, dict[str, None]], state: dict[str, Any]
    ) -> None:
        source = file.source or ""
        if source in _WITH_SESSIONS:
            sessions[source] |= dict.fromkeys(_WITH_SESSIONS[source][0](state))

    def _how(self, file: FileReport, path: Path) -> dict[str, object]:
        """Name what decides which events a file gives: read otherwise, it is read again."""
        how: dict[str, object] = {
            "version": _VERSION,
            "source": file.source,
            "reasoning": self._reasoning,
        }
        if file.source == memories.LEDGER:
            return {**how, "beside": memories.state_of_shards(path)}
        beside = memories.state_of_journals(path) if file.source in _STATING else []
        return {**how, "beside": beside} if beside else how

    def _take_document(self, file: FileReport, reader: RecordReader, text: bytes | None) -> None:
        records, broken = ((), True) if text is None else parse_document(text)
        for record in records:
            self._count(file, reader.read(record, b""))
            self._flush_if_many(file)
        if broken or not records:
            file.skip("damaged or overlong file" if text is None else "not JSON lines")

    def _take(self, file: FileReport, reader: RecordReader, line: SourceLine) -> bool:
        """Take one line; False leaves it for the import that finds it whole."""
        if line.fault == "damaged":
            file.skip("damaged file")
            return False
        file.lines += 1
        if line.fault:
            file.skip("overlong line")
            return True
        if not line.body.strip():
            file.skip("blank line")
            return True
        records, broken = parse_records(line.body)
        if not records and file.source == codex.CHAT and (records := parse_array(line.body)):
            broken = False
        if broken and not line.whole:
            file.skip("unfinished line")
            return False
        for number, record in enumerate(records):
            # Records without an id of their own are named after their bytes.
            body = line.body if len(records) == 1 else b"%b#%d" % (line.body, number)
            self._count(file, reader.read(record, body))
        if broken:
            file.skip("malformed line")
        return True

    def _count(self, file: FileReport, outcome: ReadOutcome) -> None:
        if self._runs:
            if any(row.get("role") in ("user", "tool") for row in outcome.rows):
                waited, self._unanswered = self._unanswered, []
                for one in waited:
                    self._settle(file, one)
            elif self._unanswered or any(
                self._hooked.may_be_told(file.source or "", row, outcome.turn)
                for row in outcome.rows
            ):
                self._unanswered.append(outcome)
                return
        self._settle(file, outcome)

    def _settle(self, file: FileReport, outcome: ReadOutcome) -> None:
        for reason in outcome.skipped:
            file.skip(reason)
        file.items += outcome.repeated + len(outcome.rows)
        file.repeated += outcome.repeated
        for row in outcome.rows:
            if file.source in _WITH_SESSIONS and self._hooked.holds(file.source, row, outcome.turn):
                file.repeated += 1
                continue
            if (placed := self._placed(file, row)) is not None:
                self._add(file, placed)

    def _placed(self, file: FileReport, row: Row) -> Row | None:
        """The row in the project of its session; None in a folder that plane.yaml excludes."""
        if self._ns is not None:
            row = {"ns": self._ns, **row}
        reader = self._sessions.get(file.source or "")
        if reader is None:
            return row
        folder = reader.folder_of(str(row.get("session", "")))
        if self._places.is_excluded(folder):
            file.skip("excluded folder")
            return None
        return self._places.placed(row, folder, Path(file.path))

    def _add(self, file: FileReport, row: Row) -> None:
        named = row["id"] if isinstance(row["id"], str) else ""
        waiting = self._waiting.get(named)
        if waiting == row:
            file.repeated += 1
            return
        if waiting is not None:
            # The first one of an id is recorded, so that only the second one can be a conflict.
            self._flush(file)
        self._waiting[named] = row
        self._rows.append(with_permitted_actor(row))
        self._text += len(row["text"]) if isinstance(row.get("text"), str) else 0

    def _flush_if_many(self, file: FileReport) -> None:
        if len(self._rows) >= _ROWS_AT_ONCE or self._text >= _TEXT_AT_ONCE:
            self._flush(file)

    def _flush(self, file: FileReport) -> None:
        rows, self._rows, self._text = self._rows, [], 0
        self._waiting.clear()
        if not rows:
            return
        record = (self._rehearsal or self.plane).record_many
        receipt = record(rows, strict=False)
        recorded = len(rows) - receipt.duplicates - len(receipt.refused)
        file.events += recorded
        self._events += recorded
        if recorded and self._rehearsal is None:
            self._places.settle()
        file.repeated += receipt.duplicates
        for refusal in sorted(receipt.refused):
            row = rows[refusal.index]
            if refusal.reason == "conflict" and self._is_copy(row, file.source):
                file.repeated += 1
                continue
            if refusal.reason == "purged":
                file.drop("purged")
                continue
            file.refused += 1
            if len(self.report.refused) < REFUSED_LISTED:
                shown = masked(str(row.get("id")))[:200]
                # Its place in this batch says nothing to anybody.
                message = refusal.message.removeprefix(f"rows[{refusal.index}]").lstrip(".: ")
                self.report.refused.append(Refused(file.path, shown, refusal.reason, message))

    def _is_copy(self, row: Row, source: str | None) -> bool:
        """Tell whether it is a record that stands in the file of another session too."""
        if source not in _WITH_COPIES:
            return False
        line = self.plane.context.log.find(str(row["id"]))  # of whichever project it is
        if line is None:
            return False
        event = line.event
        # In a rollout a user's words are a sub-agent's orders when a sub-agent goes on with them.
        same = event.kind == row["kind"] and (
            event.role == row.get("role") or source == codex.SOURCE
        )
        return same and event.session != row.get("session")

    def _tell(self, done: int) -> None:
        if self._progress and (done >= self._told + _PROGRESS_BYTES or done >= self.total):
            self._told = done
            self._progress(min(done, self.total), self.total, self._events)


def source_bytes(path: Path) -> int:
    """Bytes on disk; 0 if it cannot be read."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


WOULD_LISTED: Final = 10


@dataclass(slots=True)
class WouldRecord:
    """What a dry run would record: how many events of each kind and namespace, and the first."""

    kinds: Counter[str] = field(default_factory=Counter)
    spaces: Counter[str] = field(default_factory=Counter)
    first: list[dict[str, str]] = field(default_factory=list)

    def and_then(self, other: WouldRecord) -> WouldRecord:
        """Both together, at most WOULD_LISTED of the first events."""
        first = [*self.first, *other.first][:WOULD_LISTED]
        return WouldRecord(self.kinds + other.kinds, self.spaces + other.spaces, first)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON values, the commonest kinds and namespaces first."""
        kinds, spaces = dict(self.kinds.most_common()), dict(self.spaces.most_common())
        return {"kinds": kinds, "namespaces": spaces, "first": self.first}


class Rehearsal:
    """In the place of a plane while rows are recorded: it checks them and stores none.

    A row whose id the plane has is a duplicate, whatever the row says; a real import may find a
    conflict in it.
    """

    def __init__(self, plane: Plane) -> None:
        self.would = WouldRecord()
        self._log, self._draft = plane.context.log, plane.context.drafting()
        self._seen: set[str] = set()

    def record_many(self, rows: Iterable[Mapping[str, Any]], *, strict: bool) -> BulkReceipt:
        """See `Plane.record_many`."""
        assert not strict
        count, again, refused = 0, 0, list[Refusal]()
        for index, row in enumerate(rows):
            try:
                draft = self._draft(row, f"rows[{index}]")
            except InputError as error:
                named = masked(str(row.get("id")))
                refused.append(Refusal(index, named, "invalid", str(error)))
                continue
            if draft.id in self._seen or self._log.find(draft.id) is not None:
                again += 1
            elif self._log.purged_as(draft.id) is not None:
                refused.append(Refusal(index, draft.id, "purged", "its event was purged"))
            else:
                self._seen.add(draft.id)
                self._add(json.loads(b"{%b}" % draft.rest))
                count += 1
        return BulkReceipt(count, again, None, None, "none", tuple(refused))

    def _add(self, event: Mapping[str, Any]) -> None:
        ns = event.get("ns", GLOBAL)
        self.would.kinds[event["kind"]] += 1
        self.would.spaces[ns] += 1
        if len(self.would.first) < WOULD_LISTED:
            told = {"kind": event["kind"], "ns": ns, "key": event.get("key"), "text": event["text"]}
            self.would.first.append({name: one for name, one in told.items() if one})


REFUSED_LISTED: Final = 100  # of an import; all of them are counted

_REASONS_MAX: Final = 60


class Refused(NamedTuple):
    """A row that the plane did not take. `reason` is "conflict" or "invalid"."""

    file: str
    id: str
    reason: str
    message: str


@dataclass(slots=True)
class FileReport:
    """One file: each of its `items` is one of events, repeated, refused or skipped.

    A line is one item or more (a record has blocks, the first one of a session
    begins it); a file that cannot be read is one item without a line, and one that is
    read as a whole has only items.
    """

    path: str
    source: str | None
    lines: int = 0
    items: int = 0
    events: int = 0
    repeated: int = 0
    refused: int = 0
    unchanged: bool = False  # nothing new since an earlier import
    skipped: dict[str, int] = field(default_factory=dict)

    def skip(self, reason: str) -> None:
        """Count one item that made no event."""
        self.items += 1
        self.drop(reason)

    def drop(self, reason: str) -> None:
        """Count why an item, counted before, made no event."""
        if reason not in self.skipped and len(self.skipped) >= _REASONS_MAX:
            # Junk has any number of types; a report stays readable.
            reason = "other"
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


@dataclass(slots=True)
class ImportReport:
    """The whole import. `refused` lists the first 100, `refusals` counts all of them.

    `ended`: sessions that it ended, each by one or two events which no file holds.
    `archived`: memories that it archived, as their file states them no more. `would`: of a dry run,
    what the events are that it counts; nothing was recorded, ended or archived.
    """

    per_file: list[FileReport] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    ended: int = 0
    archived: int = 0
    would: WouldRecord | None = None

    def add(self, other: ImportReport) -> None:
        """Take in the report of another import that ran after this one."""
        self.per_file += other.per_file
        self.refused = [*self.refused, *other.refused][:REFUSED_LISTED]
        self.ended += other.ended
        self.archived += other.archived
        if other.would is not None:
            self.would = other.would if self.would is None else self.would.and_then(other.would)

    @property
    def files(self) -> int:
        """Files met, those without news and those that could not be read among them."""
        return len(self.per_file)

    @property
    def unchanged(self) -> int:
        """Files without news since an earlier import."""
        return sum(file.unchanged for file in self.per_file)

    @property
    def lines(self) -> int:
        """Lines read."""
        return sum(file.lines for file in self.per_file)

    @property
    def items(self) -> int:
        """Everything that lines came to: events + repeated + refusals + all skipped."""
        return sum(file.items for file in self.per_file)

    @property
    def events(self) -> int:
        """Events recorded."""
        return sum(file.events for file in self.per_file)

    @property
    def repeated(self) -> int:
        """Events that were in the plane already."""
        return sum(file.repeated for file in self.per_file)

    @property
    def refusals(self) -> int:
        """Rows that the plane did not take."""
        return sum(file.refused for file in self.per_file)

    @property
    def skipped(self) -> dict[str, int]:
        """What made no event, by reason, the commonest first."""
        counts: dict[str, int] = {}
        for file in self.per_file:
            for reason, count in file.skipped.items():
                counts[reason] = counts.get(reason, 0) + count
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        totals = ("files", "unchanged", "lines", "items", "events", "repeated", "refusals")
        return {
            **{total: getattr(self, total) for total in (*totals, "ended", "archived")},
            **({} if self.would is None else {"dry_run": self.would.as_json()}),
            "skipped": self.skipped,
            "refused": [row._asdict() for row in self.refused],
            "per_file": [asdict(file) for file in self.per_file],
        }


Source = Literal[
    "jsonl",
    "claude-code",
    "claude-memory",
    "codex",
    "chat",
    "mcp-memory",
    "mem0",
    "langgraph",
    "claude-mem",
    "basic-memory",
    "ledger",
    "git",
]
_OF_FILES: Final = (
    JSONL,
    claude_code.SOURCE,
    statements.CLAUDE_MEMORY,
    codex.SOURCE,
    codex.CHAT,
    statements.MCP_MEMORY,
    memories.MEM0,
    memories.LANGGRAPH,
    memories.CLAUDE_MEM,
    memories.BASIC_MEMORY,
    memories.LEDGER,
)
SOURCES: Final = (*_OF_FILES, git.SOURCE)


def import_paths(
    plane: Plane,
    source: Source | None,
    paths: Iterable[str | os.PathLike[str]],
    *,
    progress: Progress | None = None,
    reasoning: bool = False,
    full: bool = False,
    max_count: int | None = None,
    ns: str | None = None,
    dry_run: bool = False,
) -> ImportReport:
    """Record the contents of files, in the order of their lines; folders are read by path.

    `source` None detects it for each file. `progress` is called with bytes done, bytes in all and
    events recorded. `reasoning` takes thinking, which is left out otherwise. `full` reads files
    again that were read before. For the source git the paths are repositories, and `max_count`
    takes their newest commits only. `ns` is where everything goes that names no namespace itself,
    in place of the project of its folder; what was imported before stays where it is. `dry_run`
    only says what would be recorded (`ImportReport.would`). Faults in a file are counted in the
    report. Raises InputError,
    before anything is recorded, for a missing path or a file with no JSON that a source could have
    written.
    """
    if source is not None and source not in SOURCES:
        known = ", ".join(SOURCES)
        raise InputError(f"expected one of {known}; found {source!r}", where="source")
    namespace(ns)
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if source == git.SOURCE:
        return import_repositories(
            plane, given, progress=progress, full=full, max_count=max_count, ns=ns, dry_run=dry_run
        )
    if max_count is not None:
        raise InputError(f"counts commits: only with the source {git.SOURCE}", where="max_count")
    files = _find(given, source, Path(plane.home).resolve())
    reading = Reading(
        plane,
        reasoning=reasoning,
        full=full,
        progress=progress,
        ns=ns,
        rehearsal=Rehearsal(plane) if dry_run else None,
    )
    reading.total = sum(source_bytes(path) for path in files)
    for path in files:
        reading.file(path, source)
    reading.end()
    return reading.report


def fold_for_readers(plane: Plane, report: ImportReport) -> None:
    """Fold what was recorded and keep it: the next one to ask is a hook, which waits for nobody."""
    if report.events >= _FOLDED_FROM:
        with plane.context.lock, suppress(MemplaneError, OSError):
            plane.context.save_all()


def _find(paths: Iterable[str | os.PathLike[str]], source: Source | None, home: Path) -> list[Path]:
    """List the files to read; a folder's are without the plane's own."""
    files: dict[Path, None] = {}
    for given in paths:
        path = Path(given)
        if path.is_dir():
            found = [file.absolute() for file in _below(path, source)]
            own = [file for file in found if not file.resolve().is_relative_to(home)]
            if source is None:
                refuse_repository(path, own)
            files |= dict.fromkeys(own)
            continue
        _check_named(path, source)
        files[path.absolute()] = None
    return list(files)


def _below(folder: Path, source: Source | None) -> list[Path]:
    if source is None:
        return takeable(folder)
    if source == claude_code.SOURCE:  # what stands beside a sub-agent's transcript is none
        return [path for path in files_below(folder) if not path.name.endswith(".meta.json")]
    if source == memories.LEDGER:
        return memories.first_shards(folder)
    if source != statements.CLAUDE_MEMORY:
        endings = _ENDINGS.get(source)
        return files_below(folder, endings) if endings else files_below(folder)
    notes = files_below(folder, (".md",))
    # A folder that was named is memory if it looks like it; of others those below that are.
    named = (
        folder.absolute().name == statements.NOTES_FOLDER
        or (folder / statements.NOTES_INDEX).is_file()
    )
    return notes if named else [path for path in notes if statements.is_memory(path)]


def _check_named(path: Path, source: Source | None) -> None:
    where = "paths"
    if not path.exists():
        raise InputError(f"{path}: no such file or folder", where=where)
    if not path.is_file():
        raise InputError(f"{path}: neither a file nor a folder", where=where)
    try:
        seen = look(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}", where=where) from error
    if source in (None, *_DATABASES) and memories.is_database(path):
        memories.check_database(path, source)
        return
    if source == statements.CLAUDE_MEMORY or seen.source in _STATING:
        return
    if not seen.json_lines and not seen.document and seen.source is None:
        raise InputError(
            f"{path}: expected JSON lines, one object a line; none of the first {FIRST_LINES} "
            f"lines is one (the first begins {seen.found!r}); name a .jsonl or .jsonl.gz file, "
            "or a folder of them",
            where=where,
        )
    if source is None and seen.source is None and path.stat().st_size:
        known = ", ".join(_OF_FILES)
        raise InputError(f"{path}: of no source that is known; name it: {known}", where=where)


# Raise it when a commit makes another event than before.
_GIT_VERSION: Final = 1

_COMMITS_AT_ONCE: Final = 512


def import_repositories(
    plane: Plane,
    paths: Iterable[str | os.PathLike[str]],
    *,
    progress: Callable[[int, int, int], None] | None = None,
    full: bool = False,
    max_count: int | None = None,
    ns: str | None = None,
    dry_run: bool = False,
) -> ImportReport:
    """Record the commits that HEAD reaches, parents before children.

    `max_count`: the newest only; `ns` and `dry_run` as in `import_paths`. `progress` is called with
    commits done, commits in all and events recorded; `full` reads all of them again. Raises
    InputError, before anything is recorded, for a path in no repository or without git.
    """
    if max_count is not None and max_count < 1:
        raise InputError(f"expected 1 or more, found {max_count}", where="max_count")
    repositories = [GitRepository(Path(path)) for path in paths]
    rehearsal = Rehearsal(plane) if dry_run else None
    report = ImportReport(would=None if rehearsal is None else rehearsal.would)
    consumed = Consumed(plane)
    for repository in repositories:
        file = FileReport(str(repository.path.absolute()), SOURCE)
        report.per_file.append(file)
        reading = _Reading(plane, report, file, progress, ns, rehearsal)
        reading.read(repository, consumed, max_count, full=full)
    if rehearsal is None:
        consumed.save()
        fold_for_readers(plane, report)
    return report


class _Reading:
    """One repository on its way into the plane."""

    def __init__(
        self,
        plane: Plane,
        report: ImportReport,
        file: FileReport,
        progress: Callable[[int, int, int], None] | None,
        ns: str | None,
        rehearsal: Rehearsal | None,
    ) -> None:
        self._plane, self._report, self._file, self._progress = plane, report, file, progress
        self._asked_ns, self._rehearsal = ns, rehearsal
        self._rows: list[Row] = []
        self._text = 0
        self._total = 0
        self._stopped_by: InputError | None = None
        self._places = SessionPlaces(plane)
        self._ns: str | None = None

    def read(
        self, repository: GitRepository, consumed: Consumed, newest: int | None, *, full: bool
    ) -> None:
        """Record what is new; the head counts as read only where git could read all of it."""
        file = self._file
        if not repository.head:
            file.skip("no commits yet")
            return
        how = {
            "version": _GIT_VERSION,
            "max_count": newest,
            "shallow": _digest(repository.boundary),
        }
        heads = [] if full else consumed.heads(repository.folder, how)
        if repository.head in heads:
            file.unchanged = True
            return
        known = repository.known(heads) if heads else []
        self._ns = self._asked_ns or self._places.of_root(repository.path)
        self._take(repository, known, newest)
        error = self._stopped_by
        if error is not None:
            if not self._report.lines:
                raise error
            file.skip(str(error).removeprefix(f"{error.where}: "))
            return
        consumed.keep_heads(repository.folder, how, [*known, repository.head])

    def _take(self, repository: GitRepository, known: list[str], newest: int | None) -> None:
        with closing(self._commits(repository, known, newest)) as commits:
            for commit in commits:
                self._file.lines += 1
                row = row_of(commit, repository.branch, repository.boundary)
                if row is None:
                    self._file.skip("empty commit")
                    continue
                self._file.items += 1
                self._rows.append(row if self._ns is None else {**row, "ns": self._ns})
                self._text += len(row["text"])
                if len(self._rows) >= _COMMITS_AT_ONCE or self._text >= _TEXT_AT_ONCE:
                    self._flush()
                if self._progress:
                    self._progress(self._file.lines, self._total, self._report.events)
        self._flush()

    def _commits(
        self, repository: GitRepository, known: list[str], newest: int | None
    ) -> Generator[GitCommit]:
        """The commits as far as git can read them; what stops it is kept, to be told by `read`.

        Only that: a mistake in what is made of a commit is none of the repository's.
        """
        try:
            if self._progress:
                self._total = repository.count(without=known, newest=newest)
            with closing(repository.commits(without=known, newest=newest)) as commits:
                yield from commits
        except InputError as error:
            self._stopped_by = error

    def _flush(self) -> None:
        rows, self._rows, self._text = self._rows, [], 0
        if not rows:
            return
        record = (self._rehearsal or self._plane).record_many
        receipt = record(map(with_permitted_actor, rows), strict=False)
        recorded = len(rows) - receipt.duplicates - len(receipt.refused)
        self._file.events += recorded
        if recorded and self._rehearsal is None:
            self._places.settle()
        self._file.repeated += receipt.duplicates
        for refusal in sorted(receipt.refused):
            # A hash names one content: git renders it otherwise (a rename, a clone's boundary).
            if refusal.reason == "conflict":
                self._file.repeated += 1
                continue
            if refusal.reason == "purged":
                self._file.drop("purged")
                continue
            self._file.refused += 1
            if len(self._report.refused) < REFUSED_LISTED:
                message = refusal.message.removeprefix(f"rows[{refusal.index}]").lstrip(".: ")
                id_ = str(rows[refusal.index]["id"])
                self._report.refused.append(Refused(self._file.path, id_, refusal.reason, message))


def _digest(boundary: frozenset[str]) -> str:
    return hashlib.sha256(" ".join(sorted(boundary)).encode()).hexdigest() if boundary else ""
