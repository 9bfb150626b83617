"""What agents and memory programs on this machine have kept, and what is of the project here.

Looked for, and nowhere else:

* Claude Code, below `$CLAUDE_CONFIG_DIR` or `~/.claude`: `projects/<project>/`, whose name is the
  folder with everything but letters and digits as `-`; its transcripts, its `memory/`.
* Codex, below `$CODEX_HOME` or `~/.codex`: `sessions/` and `archived_sessions/`. The first line
  of a rollout says which folder it is of.
* The file of MCP's memory server: `$MEMORY_FILE_PATH`; the same variable in a server's `env` in
  `.mcp.json`, `.cursor/mcp.json` and `.vscode/mcp.json` here, in `~/.claude.json`,
  `~/.cursor/mcp.json` and Claude Desktop's configuration; and where npx and npm keep the server.
* mem0: `history.db` in `$MEM0_DIR` or `~/.mem0`. claude-mem: `claude-mem.db` in
  `$CLAUDE_MEM_DATA_DIR` or `~/.claude-mem`.
* basic-memory: `$BASIC_MEMORY_HOME` or `~/basic-memory`, and the projects that `config.json` in
  `$BASIC_MEMORY_CONFIG_DIR` or `~/.basic-memory` names.
* In the project's folder itself, not below it: databases of OpenMemory (also in `api` and
  `openmemory/api`, where its repository keeps one) and of LangGraph's store, which has no usual
  place. In its checkout and other work trees: a ledger of GitHub.

Nothing is written, and at most `FILES_MAX` files are looked at. Of memory programs no link is
followed and no file of another user is opened. Of the project here is what was kept for this
folder, or for the root of its repository.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from shlex import quote
from stat import S_ISDIR, S_ISREG
from typing import Any, Final

from memplane.errors import InputError
from memplane.importers import claude_code, codex, memories, statements
from memplane.importers.records import parse_records, written_at
from memplane.importers.run import look
from memplane.lazy import NamedTuple
from memplane.upkeep.export import SHARDS

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
_HERE_FOLDERS: Final = (".", "api", "openmemory/api")  # of databases
_WORK_TREES_MAX: Final = 64
_NAMES: Final = {
    memories.MEM0: "memories of mem0",
    memories.LANGGRAPH: "items of a LangGraph store",
    memories.CLAUDE_MEM: "observations of claude-mem",
    memories.BASIC_MEMORY: "notes of basic-memory",
    memories.LEDGER: "a ledger of GitHub",
}


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
    found = [*looking.claude(), *looking.codex(), *looking.graphs(), *looking.memories()]
    return Discovery(sorted(found, key=lambda one: not one.here), looking.left > 0)


def usual_places(folder: Path, home: Path, environment: Mapping[str, str]) -> list[str]:
    """The folder itself, and where agents and memory programs keep what is of all projects."""
    looking = _Looking(folder, home, environment, FILES_MAX)
    return [".", *map(str, looking.usual())]


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

    def memories(self) -> Iterator[Discovered]:
        """What programs keep that are a memory and no agent."""
        places = [(path, False) for path in self._kept()]
        for folder in self._folders:
            for name in _HERE_FOLDERS:
                places += ((path, True) for path in self._databases_in(folder / name))
        for path, here in dict.fromkeys(places):
            self.left -= 1
            source = _source_of(path) if self.left >= 0 and self._is_own(path, S_ISREG) else None
            if source is not None:
                yield self._told(source, path, [path], here=here)
        for folder in dict.fromkeys(self._note_folders()):
            files = (one for one in self._walk(folder) if one.suffix == ".md")
            notes = [one for one in files if self._is_own(one, S_ISREG)]
            if any(_source_of(one) == memories.BASIC_MEMORY for one in notes):
                here = any(
                    one.is_relative_to(folder) or folder.is_relative_to(one)
                    for one in self._folders
                )
                yield self._told(memories.BASIC_MEMORY, folder, notes, here=here)
        for checkout in dict.fromkeys(self._checkouts()):
            shards = [
                one for one in self._walk(checkout.joinpath(*SHARDS)) if one.suffix == ".jsonl"
            ]
            if shards:
                yield self._told(memories.LEDGER, checkout, shards, here=True)

    def _is_own(self, path: Path, is_kind: Callable[[int], bool]) -> bool:
        """Whether this user's own file or folder lies there, and no link on the way to it."""
        begins = {self._home, *self._folders}
        try:
            stat = path.lstat()
            ways = takewhile(lambda one: one not in begins, (path, *path.parents))
            linked = any(one.is_symlink() for one in ways)
        except (OSError, ValueError):
            return False
        return is_kind(stat.st_mode) and stat.st_uid == os.geteuid() and not linked

    def _told(self, source: str, place: Path, paths: list[Path], *, here: bool) -> Discovered:
        files = _Files()
        for path in paths:
            files.add(path)
        return files.told(source, _NAMES[source], [place], here=here)

    def usual(self) -> Iterator[Path]:
        """The places that are the same for every project, as far as something lies there."""
        claude, codex = ("CLAUDE_CONFIG_DIR", ".claude"), ("CODEX_HOME", ".codex")
        agents = (self._under(*claude) / "projects", self._under(*codex) / "sessions")
        yield from (folder for folder in agents if folder.is_dir())
        yield from (path for path in self._kept() if self._is_own(path, S_ISREG))
        yield from dict.fromkeys(self._note_folders())

    def _kept(self) -> tuple[Path, ...]:
        """Databases of programs that have one for all projects."""
        mem0, observed = ("MEM0_DIR", ".mem0"), ("CLAUDE_MEM_DATA_DIR", ".claude-mem")
        return self._under(*mem0) / "history.db", self._under(*observed) / "claude-mem.db"

    def _databases_in(self, folder: Path) -> list[Path]:
        try:
            return sorted(one for one in folder.iterdir() if one.suffix in memories.ENDINGS)
        except OSError:
            return []

    def _note_folders(self) -> Iterator[Path]:
        config = self._under("BASIC_MEMORY_CONFIG_DIR", ".basic-memory") / "config.json"
        projects = self._read(config).get("projects")
        named = [self._under("BASIC_MEMORY_HOME", "basic-memory")]
        for one in projects.values() if isinstance(projects, dict) else ():
            path = one.get("path") if isinstance(one, dict) else one
            if isinstance(path, str) and path and "\0" not in path:
                named.append(self._home / self._expanded(path))
        return (folder for folder in named if self._is_own(folder, S_ISDIR))

    def _checkouts(self) -> Iterator[Path]:
        """The project's folder and its repository's other work trees, where each has a ledger."""
        trees: list[Path] = []
        for folder in self._folders:
            trees.append(folder)
            for kept in self._children(folder / ".git" / "worktrees")[:_WORK_TREES_MAX]:
                with suppress(OSError, ValueError):
                    named = (kept / "gitdir").read_text(encoding="utf-8").strip()
                    trees.append(Path(named).parent)
        return (tree for tree in trees if self._is_own(tree.joinpath(*SHARDS), S_ISDIR))

    def _read(self, config: Path) -> dict[str, Any]:
        """A configuration, {} where it is not one."""
        self.left -= 1
        try:
            if config.stat().st_size > _CONFIG_BYTES_MAX:
                return {}
            known = json.loads(config.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return known if isinstance(known, dict) else {}

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
        return [folder / self._expanded(path) for path in _memory_paths(self._read(config))]

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


def _source_of(path: Path) -> str | None:
    """The source of a file of a memory program."""
    try:
        source = look(path).source
    except (OSError, ValueError, InputError):
        return None
    return source if source in _NAMES else None


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
