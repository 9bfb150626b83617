"""Tell the source of a file by its first lines, and what below a folder can be imported."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import InputError
from memplane.importers import chat, claude_code, codex, git, jsonl, statements
from memplane.importers.git import GitRepository, is_repository
from memplane.importers.records import (
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
from memplane.lazy import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    chat.SOURCE,
    jsonl.SOURCE,
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
    notes = [path for path in files_below(folder, (".md",)) if statements.is_memory(path)]
    return sorted([*files_below(folder), *notes], key=os.fspath)


def look(path: Path) -> FirstLines:
    """Look at the first 20 lines that are not blank, or at all of a document."""
    if path.suffix.lower() == ".md":
        source = statements.CLAUDE_MEMORY if statements.is_memory(path) else None
        return FirstLines(source, False, "" if source else _first_words(path))
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
    return FirstLines(next(_sources(records), None), bool(records) or not junk, found)


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
        if codex.is_record(record):
            yield codex.SOURCE
        elif isinstance(record.get("type"), str) and not _TRANSCRIPT.isdisjoint(record):
            yield claude_code.SOURCE
        elif statements.is_graph(record):
            yield statements.MCP_MEMORY
        elif chat.is_chat(record):
            yield chat.SOURCE
        elif not _ROW.isdisjoint(record):
            yield jsonl.SOURCE
        elif chat.is_message(record):
            yield chat.SOURCE


# What agents on this machine have kept, and which of it is of the project here.
#
# Looked for, and nowhere else:
#
# * Claude Code, below `$CLAUDE_CONFIG_DIR` or `~/.claude`: `projects/<project>/`, whose name is the
#   folder with everything but letters and digits as `-`; its transcripts, its `memory/`.
# * Codex, below `$CODEX_HOME` or `~/.codex`: `sessions/` and `archived_sessions/`. The first line
#   of a rollout says which folder it is of.
# * The file of MCP's memory server: `$MEMORY_FILE_PATH`; the same variable in a server's `env` in
#   `.mcp.json`, `.cursor/mcp.json` and `.vscode/mcp.json` here, in `~/.claude.json`,
#   `~/.cursor/mcp.json` and Claude Desktop's configuration; and where npx and npm keep the server.
#
# Nothing is written, and at most `FILES_MAX` files are looked at. Of the project here is what was
# kept for this folder, or for the root of its repository.

FILES_MAX: Final = 20_000
_CONFIG_BYTES_MAX: Final = 16 * 1024 * 1024
_FIRST_LINE_BYTES: Final = 256 * 1024
_NAME_MAX: Final = 200  # of a project's folder; behind it stands a hash
_ROLLOUTS: Final = frozenset({".jsonl", ".json", ".zst"})
_CWD: Final = re.compile(rb'"cwd"\s*:\s*("(?:[^"\\]|\\.){0,4096}")')
_VARIABLE: Final = "MEMORY_FILE_PATH"
_SERVER: Final = "node_modules/@modelcontextprotocol/server-memory/dist"
_HERE_CONFIGS: Final = (".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json")
_CONFIGS: Final = (
    ".claude.json",
    ".cursor/mcp.json",
    ".config/Claude/claude_desktop_config.json",
    "Library/Application Support/Claude/claude_desktop_config.json",
)
_MODULES: Final = ("/usr/local/lib", "/usr/lib", "/opt/homebrew/lib")


class Discovered(NamedTuple):
    """Something to import: of one source, and of one project where the source has projects.

    `first` and `last`: when its files were written. `here`: it is of the project of this folder.
    `command` imports it; None for files that only `--discover` picks out of a folder of many.
    """

    source: str
    what: str
    paths: tuple[str, ...]
    files: int
    bytes: int
    first: str
    last: str
    here: bool
    command: str | None


class Discovery(NamedTuple):
    """What there is, the project here first; `complete`: the limit was not met."""

    found: list[Discovered]
    complete: bool


def discover(
    folder: Path, home: Path, environment: Mapping[str, str], *, files_max: int = FILES_MAX
) -> Discovery:
    """Look for what agents kept, as seen from a project's folder, a person's home and variables."""
    looking = _Looking(folder, home, environment, files_max)
    found = [*looking.claude(), *looking.codex(), *looking.graphs()]
    return Discovery(sorted(found, key=lambda one: not one.here), looking.left > 0)


class _Files:
    """Files that go together: how many, how large, and when they were written."""

    def __init__(self) -> None:
        self.paths: list[Path] = []
        self.bytes = 0
        self.first = self.last = ""

    def add(self, path: Path) -> None:
        try:
            stat = path.stat()
        except OSError:
            return
        day = written_at(stat).date().isoformat()
        self.first, self.last = min(self.first or day, day), max(self.last, day)
        self.bytes += stat.st_size
        self.paths.append(path)

    def told(
        self, source: str, what: str, paths: list[Path], *, here: bool, picked: bool = False
    ) -> Discovered:
        shown = " ".join(quote(str(path)) for path in paths)
        return Discovered(
            source,
            what,
            tuple(map(str, paths)),
            len(self.paths),
            self.bytes,
            self.first,
            self.last,
            here,
            None if picked else f"memplane import {source} {shown}",
        )


class _Looking:
    def __init__(
        self, folder: Path, home: Path, environment: Mapping[str, str], files_max: int
    ) -> None:
        self.left = files_max
        self._home = home
        self._environment = environment
        self._folders = _roots(folder)

    def claude(self) -> Iterator[Discovered]:
        """Transcripts and memory of Claude Code, project by project."""
        names = {re.sub(r"[^A-Za-z0-9]", "-", str(root)) for root in self._folders}
        for project in self._children(self._under("CLAUDE_CONFIG_DIR", ".claude") / "projects"):
            transcripts, notes = _Files(), _Files()
            memory = project / statements.NOTES_FOLDER
            for path in self._walk(project):
                inside = path.is_relative_to(memory)
                if path.suffix == ".jsonl" and not inside:
                    transcripts.add(path)
                elif path.suffix == ".md" and inside:
                    notes.add(path)
            here = any(_is_named(project.name, name) for name in names)
            if transcripts.paths:
                what = "transcripts of Claude Code"
                yield transcripts.told(claude_code.SOURCE, what, [project], here=here)
            if notes.paths and (memory / statements.NOTES_INDEX).is_file():
                what = "memory of Claude Code"
                yield notes.told(statements.CLAUDE_MEMORY, what, [memory], here=here)

    def codex(self) -> Iterator[Discovered]:
        """Rollouts: those of the project here, and all others."""
        place = self._under("CODEX_HOME", ".codex")
        folders = {str(root) for root in self._folders}
        for name in ("sessions", "archived_sessions"):
            ours, others = _Files(), _Files()
            for path in self._walk(place / name):
                if path.name.startswith("rollout-") and path.suffix in _ROLLOUTS:
                    (ours if _folder_of(path) in folders else others).add(path)
            what = "rollouts of Codex" + (", archived" if name.startswith("archived") else "")
            if ours.paths and others.paths:
                yield ours.told(codex.SOURCE, what, ours.paths, here=True, picked=True)
                what += ", of other projects"
                yield others.told(codex.SOURCE, what, [place / name], here=False)
            elif ours.paths or others.paths:
                all_of_it, here = (ours, True) if ours.paths else (others, False)
                yield all_of_it.told(codex.SOURCE, what, [place / name], here=here)

    def graphs(self) -> Iterator[Discovered]:
        """Files of the memory server."""
        seen: set[Path] = set()
        for path, here in self._graph_places():
            if path in seen or self.left <= 0:
                continue
            seen.add(path)
            self.left -= 1
            if not _is_graph(path):
                continue
            files = _Files()
            files.add(path)
            what = "graph of the MCP memory server"
            yield files.told(statements.MCP_MEMORY, what, [path], here=here)

    def _graph_places(self) -> Iterator[tuple[Path, bool]]:
        for root in self._folders:
            for name in _HERE_CONFIGS:
                yield from ((path, True) for path in self._named_in(root / name, root))
        if named := self._environment.get(_VARIABLE):
            yield self._expanded(named), False
        for name in _CONFIGS:
            yield from ((path, False) for path in self._named_in(self._home / name, self._home))
        modules = [Path(root) for root in _MODULES]
        cached = self._children(self._home / ".npm" / "_npx")
        for root in (*cached, *modules):
            for name in ("memory.jsonl", "memory.json"):
                yield root / _SERVER / name, False

    def _named_in(self, config: Path, folder: Path) -> list[Path]:
        """The files that the servers of a configuration write to; relative to its folder."""
        self.left -= 1
        try:
            if config.stat().st_size > _CONFIG_BYTES_MAX:
                return []
            known = json.loads(config.read_bytes())
        except (OSError, ValueError, RecursionError):
            return []
        return [folder / self._expanded(path) for path in _memory_paths(known)]

    def _expanded(self, path: str) -> Path:
        return self._home / path[2:] if path.startswith("~/") else Path(path)

    def _under(self, variable: str, name: str) -> Path:
        given = self._environment.get(variable)
        return Path(given) if given else self._home / name

    def _children(self, folder: Path) -> list[Path]:
        try:
            return sorted(path for path in folder.iterdir() if path.is_dir())
        except OSError:
            return []

    def _walk(self, folder: Path) -> Iterator[Path]:
        """The files below a folder, by path, as far as the limit goes; links are not followed."""
        for parent, folders, names in os.walk(folder):
            folders.sort()
            for name in sorted(names):
                if self.left <= 0:
                    return
                self.left -= 1
                yield Path(parent, name)


def _roots(folder: Path) -> list[Path]:
    """The folder itself and the root of its repository, as they are named and as they are."""
    folder = folder.absolute()
    named = [folder, folder.resolve()]
    for start in tuple(named):
        named += [above for above in (start, *start.parents) if (above / ".git").exists()][:1]
    return list(dict.fromkeys(named))


def _is_named(project: str, name: str) -> bool:
    return project == name or (len(name) > _NAME_MAX and project.startswith(name[:_NAME_MAX]))


def _is_graph(path: Path) -> bool:
    try:
        return path.is_file() and look(path).source == statements.MCP_MEMORY
    except (OSError, ValueError):
        return False


def _folder_of(rollout: Path) -> str | None:
    """The folder that a rollout's first line names."""
    try:
        with rollout.open("rb") as file:
            line = file.readline(_FIRST_LINE_BYTES)
    except OSError:
        return None
    for record in parse_records(line).records:
        meta = record.get("payload", record)
        folder = meta.get("cwd") if isinstance(meta, dict) else None
        return folder if isinstance(folder, str) else None
    # Instructions may make the line longer than what was read of it.
    found = _CWD.search(line)
    try:
        return str(json.loads(found[1])) if found else None
    except ValueError:
        return None


def _memory_paths(known: Any) -> Iterator[str]:
    """Every MEMORY_FILE_PATH in the `env` of a server, wherever a configuration lists servers."""
    waiting = [known]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            env = value.get("env")
            named = env.get(_VARIABLE) if isinstance(env, dict) else None
            if isinstance(named, str) and named and "\0" not in named:
                yield named
            waiting += value.values()
