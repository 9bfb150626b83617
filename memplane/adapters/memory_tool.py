"""Anthropic's memory tool over a plane: its six commands, and the tool for its SDK.

`MemoryFiles` answers the commands without the SDK; `memory_tool` is given to
`client.beta.messages.run_tools(tools=[...])`.

A file is the value of a key: its path, such as `/memories/notes.md`. Each command that changes
something is recorded as one write: a new version of a file is an event that supersedes the one
before it, and an event forgets what is deleted or moved away. So history, packs, search, forget and
purge treat the files like everything else. A folder exists while it contains something; a folder
that has become empty without being deleted is a key that ends in a slash.

The tool reads what its channel and agent may see; for it a hidden value, or one that is out of
time, does not exist. An edited file keeps its kind, its sensitivity and its validity, and names the
version before it; a file that is moved also keeps its author and role.

Answers and errors are worded as in the SDK's own implementation. It differs where it must: secrets
are masked, and the answer says so; a path that leaves `/memories`, even if it returns there, is
refused; sizes are bounded; a folder is listed with a size of 4K.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import (
    ConflictError,
    InputError,
    LockError,
    MemplaneError,
    MissingExtraError,
    SecurityError,
)
from memplane.event import GLOBAL, TYPED_KINDS, inherited
from memplane.intake import namespace, with_permitted_actor
from memplane.intake.redact import quoted_value, unexpected
from memplane.lazy import NamedTuple
from memplane.work.changes import summaries_quoting

if TYPE_CHECKING:
    from memplane.context.event_access import EventAccess
    from memplane.context.folds import Folds
    from memplane.plane.plane import Plane
    from memplane.ports import Line
    from memplane.projections.in_force import KeyValueRow
    from memplane.projections.memories import Memories

COMMANDS: Final = ("view", "create", "str_replace", "insert", "delete", "rename")
_TRIES: Final = 50  # while others write to the plane
_AGENTS: Final = "/agent/"
_IDS_AT_ONCE: Final = 200  # of an event that forgets
_MASKED: Final = "What looks like a secret, or cannot be stored, was masked in it."


class MemoryFiles:
    """The files below `/memories` in one namespace of a plane. Threads and processes may share it.

    They are those that `channel` may see, and `agent`: by default the one whose namespace `ns` is.
    What is written is of the given session, task and actor, if any. A command raises InputError
    for what cannot be done, with the words for the model, ScopeError for a namespace that is not
    the agent's and for a path whose value the channel may not see, PolicyError, and the plane's
    errors as `record` does.
    """

    def __init__(
        self,
        plane: Plane,
        *,
        ns: str = GLOBAL,
        session: str | None = None,
        task: str | None = None,
        actor: str | None = None,
        channel: str = "agent",
        agent: str | None = None,
    ) -> None:
        namespace(ns)
        if agent is None and ns.startswith(_AGENTS):
            agent = ns.removeprefix(_AGENTS)
        self._channel, self._agent = channel, agent
        self._context = plane.context
        self._ns = ns
        said = {"session": session, "task": task, "actor": actor}
        self._frame = {name: value for name, value in said.items() if value is not None}

    def run(self, command: Mapping[str, Any]) -> str:
        """Carry out a command as the model gives it: `{"command": "view", "path": …}`."""
        name = command.get("command")
        if name not in COMMANDS:
            raise InputError(f"Unknown command: {quoted_value(name)}; known: {', '.join(COMMANDS)}")
        given = {field: value for field, value in command.items() if field != "command"}
        method = getattr(self, name)
        known = inspect.signature(method).parameters
        missing = [field for field, one in known.items() if one.default is one.empty]
        if any(field not in given for field in missing):
            raise InputError(f"`{name}` needs {', '.join(missing)}")
        answer: str = method(**{field: given[field] for field in known if field in given})
        return answer

    def view(self, path: str, view_range: list[int] | None = None) -> str:
        """A file with its lines numbered, or of a folder what lies in it, two levels deep."""
        return self._do("view", lambda tree: view(tree, path, view_range))

    def create(self, path: str, file_text: str) -> str:
        """Make a file with this text; the folders above it come with it."""
        return self._do("create", lambda tree: create_file(tree, path, file_text))

    def str_replace(self, path: str, old_str: str, new_str: str = "") -> str:
        """Replace a text that stands in a file once."""
        return self._do("str_replace", lambda tree: str_replace(tree, path, old_str, new_str))

    def insert(self, path: str, insert_line: int, insert_text: str) -> str:
        """Insert a text behind a line; 0: before the first."""
        return self._do("insert", lambda tree: insert_lines(tree, path, insert_line, insert_text))

    def delete(self, path: str) -> str:
        """Forget a file, or a folder with all that lies in it."""
        return self._do("delete", lambda tree: delete(tree, path))

    def rename(self, old_path: str, new_path: str) -> str:
        """Move a file or a folder to a path where nothing is."""
        return self._do("rename", lambda tree: rename_file(tree, old_path, new_path))

    def clear(self) -> str:
        """Forget everything."""
        return self._do("clear", clear_files)

    def _do(self, name: str, decide: Callable[[Tree], Done]) -> str:
        """Decide by the files as they are, and write only if they still are so."""
        context = self._context
        if name != "view":
            context.take_in_waiting()
        for _ in range(_TRIES):
            with context.lock:
                folds = context.caught_up()
                read = folds.memories.position
                tree = self._tree(folds)
                done = decide(tree)
                writes = tree.writable(done)
                gone = self._with_quotes(folds, done.gone)
            drafts = [
                *(context.drafting()(self._row(name, one), "") for one in writes),
                *(context.drafting(internal=True)(row, "") for row in _forgets(name, gone)),
            ]
            try:
                if drafts:
                    context.append(drafts, expected_seq=read.seq if read is not None else 0)
            except ConflictError:
                continue
            if done.refused:
                raise InputError(done.answer)
            kept = zip(drafts, writes, strict=False)
            masked = any(draft.text != one.text for draft, one in kept)
            return f"{done.answer}\n{_MASKED}" if masked else done.answer
        raise LockError("others write to this plane without a pause; try again", holder=None)

    def _tree(self, folds: Folds) -> Tree:
        """The files as the channel may see them now; ScopeError where the namespace is closed."""
        reader = self._context.reader(self._channel, agent=self._agent, ns=self._ns)
        return Tree(folds.memories, self._ns, reader, self._text)

    def _row(self, name: str, one: Write) -> dict[str, Any]:
        row: dict[str, Any] = {
            "kind": "fact",
            "role": "assistant",
            "ns": self._ns,
            "key": one.key,
            "text": one.text,
            "data": {"tool": "memory", "command": name},
            **self._frame,
        }
        kept = inherited(one.sources)
        if one.is_folder:  # its name is known from what lay in it; that has no end
            return row | {name: kept[name] for name in ("sensitivity", "refs") if name in kept}
        for source in one.sources:
            event = self._line(source).event
            row |= {"kind": event.kind, "importance": event.importance, "tags": list(event.tags)}
            if event.role == "tool":
                row["role"] = event.role
            if one.moved:
                said = {"role": event.role, "actor": event.actor, "markers": list(event.markers)}
                row = with_permitted_actor(row | said)
        return row | kept

    def _with_quotes(self, folds: Folds, ids: tuple[str, ...]) -> list[str]:
        """The events that go, and the summaries of sessions that quote them."""
        log = self._context.log
        quoting = (summaries_quoting(log, folds, "id", one, self._ns, undo=False) for one in ids)
        return list(dict.fromkeys([*ids, *chain.from_iterable(quoting)]))

    def _text(self, row: KeyValueRow) -> str:
        redact = self._context.redact(self._context.watched.policies_or_last())
        return redact(self._context.log.text(self._line(row).event))

    def _line(self, row: KeyValueRow) -> Line:
        line = self._context.log.line(row.seq)
        if line is None:
            raise InputError(f"The file {row.key} can no longer be read.")
        return line


def _forgets(name: str, ids: list[str]) -> Iterator[dict[str, Any]]:
    for at in range(0, len(ids), _IDS_AT_ONCE):
        some = ids[at : at + _IDS_AT_ONCE]
        reason = f"{name} by the memory tool"
        yield {"kind": "forget", "text": reason, "data": {"forget": {"ids": some}}}


# What each command of the memory tool comes to, in the files as they are at one head of the log.
#
# Nothing is written here: a command gives its answer, and what is to be written and forgotten.

ROOT: Final = "/memories"
FILE_BYTES_MAX: Final = 4 * 1024 * 1024
FOLDER_FILES_MAX: Final = 10_000  # that one command lists, deletes or moves
PATH_MAX: Final = 256
LINES_MAX: Final = 999_999
_WIDTH: Final = len(str(LINES_MAX))
_FOLDER_BYTES: Final = 4096
_EMPTY: Final = "An empty folder"
_FILE_KINDS: Final = frozenset((*TYPED_KINDS, "message", "tool_call", "tool_result"))
_ROWS_AT_ONCE: Final = 256


class Write(NamedTuple):
    """A new version of a file, or an empty folder.

    `sources` are the values that it is made from: the file before an edit, the file that `moved`,
    or what lay in a folder that has become empty.
    """

    key: str
    text: str
    sources: tuple[KeyValueRow, ...] = ()
    moved: bool = False

    @property
    def is_folder(self) -> bool:
        return self.key.endswith("/")


class Done(NamedTuple):
    """What a command comes to; a refusal may have made folders, too."""

    answer: str
    writes: tuple[Write, ...] = ()
    gone: tuple[str, ...] = ()  # ids of the events that are forgotten
    refused: bool = False


class Tree:
    """The files of a namespace that a reader may see, as of one head of the log.

    What it may not see, or what is out of time, is not there: no answer depends on it. It is not
    written over either, see `writable`.
    """

    def __init__(
        self, memories: Memories, ns: str, reader: EventAccess, read: Callable[[KeyValueRow], str]
    ) -> None:
        self._memories, self._ns, self._reader, self.read = memories, ns, reader, read

    def file(self, path: str) -> KeyValueRow | None:
        """The file at a path."""
        row = None if path == ROOT else self._memories.current(self._ns, path)
        return row if row is not None and self._is_seen(row) else None

    def is_folder(self, path: str) -> bool:
        return path == ROOT or next(self._rows(f"{path}/"), None) is not None

    def is_there(self, path: str) -> bool:
        return self.file(path) is not None or self.is_folder(path)

    def below(self, path: str) -> list[KeyValueRow]:
        """Everything in a folder, however deep, itself where it is marked as empty."""
        most = FOLDER_FILES_MAX
        rows = list(islice(self._rows(f"{path}/"), most + 1))
        if len(rows) > most:
            raise InputError(f"The folder {path} holds more than {most} files.")
        return rows

    def file_above(self, path: str) -> str | None:
        """The file that stands where a path needs a folder."""
        return next((one for one in _above(path) if self.file(one) is not None), None)

    def folder_for(self, path: str) -> tuple[Write, ...]:
        """What makes the folder of a path."""
        parent = path.rpartition("/")[0]
        return () if self.is_folder(parent) else (Write(f"{parent}/", _EMPTY),)

    def left_by(self, gone: list[KeyValueRow], path: str) -> tuple[Write, ...]:
        """What keeps the folder of a path once all else in it is gone."""
        parent = path.rpartition("/")[0]
        if parent == ROOT:
            return ()
        seqs = {row.seq for row in gone}
        stays = any(row.seq not in seqs for row in self._rows(f"{parent}/"))
        return () if stays else (Write(f"{parent}/", _EMPTY, tuple(gone)),)

    def writable(self, done: Done) -> tuple[Write, ...]:
        """The writes, without marks of empty folders that may not be set.

        Raises ScopeError for a file whose path has a value that the reader may not see (see
        `memplane.work.changes`), and for every change in another agent's namespace.
        """
        if (done.writes or done.gone) and not self._reader.may_write(self._ns):
            raise self._reader.unwritable(self._ns, None)
        allowed = []
        for one in done.writes:
            value = self._memories.current(self._ns, one.key)
            if value is None or (_is_file(value) and self._reader.may_replace(value)):
                allowed.append(one)
            elif not one.is_folder:
                raise self._reader.unwritable(self._ns, one.key)
        return tuple(allowed)

    def _rows(self, prefix: str) -> Iterator[KeyValueRow]:
        """What can be seen below a prefix, in the order of keys."""
        after: tuple[str, str] | None = None
        while True:
            rows = self._memories.keys(prefix, self._ns, limit=_ROWS_AT_ONCE, after=after)
            yield from filter(self._is_seen, rows)
            if len(rows) < _ROWS_AT_ONCE:
                return
            after = rows[-1].ns, rows[-1].key

    def _is_seen(self, row: KeyValueRow) -> bool:
        return _is_file(row) and self._reader.shows_row(row) and self._reader.in_time(row)


def _is_file(row: KeyValueRow) -> bool:
    """Whether a value is a text that can be written again; a task or an artifact is none."""
    return row.kind in _FILE_KINDS


# --- the commands: what each comes to in a tree ---


def view(tree: Tree, given: str, span: list[int] | None) -> Done:
    """A file with numbered lines, or what lies in a folder."""
    path = _resolved(given)
    row = tree.file(path)
    if row is not None:
        return Done(_numbered(tree.read(row), given, span))
    if not tree.is_folder(path):
        raise InputError(f"The path {given} does not exist. Please provide a valid path.")
    told = f"Here're the files and directories up to 2 levels deep in {given}, "
    lines = [f"{told}excluding hidden items:", f"{_size(_FOLDER_BYTES)}\t{given}"]
    lines += (f"{size}\t{given}/{name}" for size, name in _listed(tree, path))
    return Done("\n".join(lines))


def create_file(tree: Tree, given: str, text: str) -> Done:
    """A new file."""
    path = _resolved(given)
    if (above := tree.file_above(path)) is not None:
        raise InputError(f"The path {given} lies below {above}, which is a file")
    if tree.is_there(path):
        raise InputError(f"File {given} already exists")
    return Done(f"File created successfully at: {given}", (Write(path, _checked(text, given)),))


def str_replace(tree: Tree, given: str, old: str, new: str) -> Done:
    """A file with one text in place of another, which stands in it once."""
    row, text = _content(tree, given)
    found = text.count(_string(old, "old_str"))
    if not found:
        raise InputError(
            f"No replacement was performed, old_str `{old}` did not appear verbatim in {given}."
        )
    if found > 1:
        places = ", ".join(map(str, _lines_with(text, old)))
        raise InputError(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
            f"{places}. Please ensure it is unique"
        )
    changed = text[: text.find(old)].count("\n")
    text = _checked(text.replace(old, _string(new, "new_str")), given)
    lines = text.split("\n")
    first, last = max(0, changed - 2), min(len(lines), changed + 3)
    told = "The memory file has been edited. Here is the snippet showing the change "
    snippet = "\n".join(_with_numbers(lines[first:last], first + 1))
    return Done(f"{told}(with line numbers):\n{snippet}", (Write(row.key, text, (row,)),))


def insert_lines(tree: Tree, given: str, at: int, text: str) -> Done:
    """A file with more lines."""
    row, before = _content(tree, given)
    lines = before.split("\n")
    if not lines[-1]:
        lines.pop()
    if not isinstance(at, int) or isinstance(at, bool) or not 0 <= at <= len(lines):
        raise InputError(
            f"Invalid `insert_line` parameter: {at}. "
            f"It should be within the range [0, {len(lines)}]."
        )
    lines.insert(at, _string(text, "insert_text").rstrip("\n"))
    after = "\n".join(lines)
    after = _checked(after if after.endswith("\n") else f"{after}\n", given)
    return Done(f"The file {given} has been edited.", (Write(row.key, after, (row,)),))


def delete(tree: Tree, given: str) -> Done:
    """A file or a folder less."""
    path = _resolved(given)
    if path == ROOT:
        raise InputError(f"Cannot delete the {ROOT} directory itself")
    row = tree.file(path)
    rows = [row] if row is not None else tree.below(path)
    if not rows:
        raise InputError(f"The path {given} does not exist")
    gone = tuple(one.id for one in rows)
    return Done(f"Successfully deleted {given}", tree.left_by(rows, path), gone)


def rename_file(tree: Tree, old_given: str, new_given: str) -> Done:
    """A file or a folder at another path; its folder is made even where nothing moves."""
    old, new = _resolved(old_given), _resolved(new_given)
    if old == ROOT:
        raise InputError(f"Cannot rename the {ROOT} directory itself")
    if tree.is_there(new):
        raise InputError(f"The destination {new_given} already exists")
    if (above := tree.file_above(new)) is not None:
        raise InputError(f"The path {new_given} lies below {above}, which is a file")
    row = tree.file(old)
    rows = [row] if row is not None else tree.below(old)
    if not rows:
        # The folder that was to take it is made all the same.
        made = tree.folder_for(new)
        return Done(f"The path {old_given} does not exist", made, refused=True)
    if new.startswith(f"{old}/"):
        made = tree.folder_for(new)
        return Done(f"Cannot move {old_given} into itself", made, refused=True)
    moved = [Write(f"{new}{one.key[len(old) :]}", tree.read(one), (one,), True) for one in rows]
    for one in moved:
        _checked_path(one.key)
    left = tree.left_by(rows, old)
    if any(one.key.startswith(keep.key) for one in moved for keep in left):
        left = ()
    gone = tuple(one.id for one in rows)
    return Done(f"Successfully renamed {old_given} to {new_given}", (*moved, *left), gone)


def clear_files(tree: Tree) -> Done:
    """No file left."""
    return Done("All memory cleared", gone=tuple(row.id for row in tree.below(ROOT)))


# --- paths, texts, listings ---


def _resolved(given: str) -> str:
    """The path without dots and doubled slashes; SecurityError where it leads out of the root."""
    if not _string(given, "path").startswith(ROOT):
        raise InputError(f"Path must start with {ROOT}, got: {given}")
    parts: list[str] = []
    for part in given[len(ROOT) :].split("/"):
        if part == "..":
            if not parts:
                raise SecurityError(f"Path {given} would escape {ROOT} directory")
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return _checked_path("/".join([ROOT, *parts]))


def _checked_path(path: str) -> str:
    if len(path) >= PATH_MAX or not path.isprintable():
        raise InputError(
            f"Path {quoted_value(path)} cannot be stored; it should have at most {PATH_MAX - 1} "
            "characters, none of them a control character"
        )
    return path


def _string(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise unexpected("a string", value, field)
    return value


def _checked(text: str, given: str) -> str:
    size = len(_string(text, "file_text").encode("utf-8", "surrogatepass"))
    if size > FILE_BYTES_MAX:
        raise InputError(
            f"File {given} would take {size} bytes; it should take at most {FILE_BYTES_MAX}"
        )
    return text


def _content(tree: Tree, given: str) -> tuple[KeyValueRow, str]:
    path = _resolved(given)
    row = tree.file(path)
    if row is None:
        if tree.is_folder(path):
            raise InputError(f"The path {given} is not a file.")
        raise InputError(f"The path {given} does not exist. Please provide a valid path.")
    return row, tree.read(row)


def _above(path: str) -> Iterator[str]:
    """The folders that a path needs, below the root."""
    parts = path.split("/")
    return ("/".join(parts[:end]) for end in range(3, len(parts)))


def _listed(tree: Tree, path: str) -> list[tuple[str, str]]:
    """Size and name of what lies in a folder, two levels deep, the hidden left out."""
    found: dict[tuple[str, ...], KeyValueRow | None] = {}
    for row in tree.below(path):
        parts = row.key[len(path) + 1 :].split("/")
        folders = parts[:-1]
        for depth in range(1, min(len(folders), 2) + 1):
            found[tuple(folders[:depth])] = None
        if parts[-1] and len(parts) <= 2:
            found[tuple(parts)] = row
    shown_ = sorted(one for one in found if not any(name.startswith(".") for name in one))
    lines = []
    for one in shown_:
        row_of = found[one]
        if row_of is None:
            lines.append((_size(_FOLDER_BYTES), f"{'/'.join(one)}/"))
        else:
            lines.append((_size(len(tree.read(row_of).encode())), "/".join(one)))
    return lines


def _size(count: int) -> str:
    """A size in bytes as the tool shows it."""
    if count == 0:
        return "0B"
    power = min((count.bit_length() - 1) // 10, 3)
    size = count / 1024**power
    unit = "BKMG"[power]
    return f"{int(size)}{unit}" if size == int(size) else f"{size:.1f}{unit}"


def _numbered(text: str, given: str, span: Any) -> str:
    lines = text.split("\n")
    if len(lines) > LINES_MAX:
        raise InputError(f"File {given} exceeds maximum line limit of {LINES_MAX:,} lines.")
    first = 0
    if isinstance(span, list) and len(span) == 2:
        if not all(isinstance(one, int) for one in span):
            raise unexpected("two numbers", span, "view_range")
        first = max(1, span[0]) - 1
        lines = lines[first : len(lines) if span[1] == -1 else span[1]]
    shown_ = "\n".join(_with_numbers(lines, first + 1))
    return f"Here's the content of {given} with line numbers:\n{shown_}"


def _with_numbers(lines: list[str], first: int) -> list[str]:
    return [f"{number:>{_WIDTH}}\t{line}" for number, line in enumerate(lines, first)]


def _lines_with(text: str, old: str) -> Iterator[int]:
    at = text.find(old)
    while at != -1:
        yield text[:at].count("\n") + 1
        at = text.find(old, at + 1)


def memory_tool(plane: Plane, *, cache_control: Any = None, **place: str) -> Any:
    """A `BetaAbstractMemoryTool` of the anthropic SDK that keeps its files in the plane.

    `place`: ns (whose files they are, `/global` by default), session, task, actor, and for whom the
    tool reads: channel (`agent` by default), agent. What cannot be done reaches the model as the
    SDK's `ToolError`.
    """
    tools = _sdk()
    files = MemoryFiles(plane, **place)

    def carry_out(_: Any, command: Any) -> str:
        return _carried_out(files.run, command, tools.ToolError)

    def clear(_: Any) -> str:
        return files.clear()

    methods = {
        **dict.fromkeys(("call", "execute", *COMMANDS), carry_out),
        "clear_all_memory": clear,
    }
    return type("PlaneMemoryTool", (tools.BetaAbstractMemoryTool,), methods)(
        cache_control=cache_control
    )


def async_memory_tool(plane: Plane, *, cache_control: Any = None, **place: str) -> Any:
    """The same for the asynchronous client; commands run in another thread."""
    tools = _sdk()
    files = MemoryFiles(plane, **place)

    async def carry_out(_: Any, command: Any) -> str:
        return await asyncio.to_thread(_carried_out, files.run, command, tools.ToolError)

    async def clear(_: Any) -> str:
        return await asyncio.to_thread(files.clear)

    methods = {
        **dict.fromkeys(("call", "execute", *COMMANDS), carry_out),
        "clear_all_memory": clear,
    }
    return type("AsyncPlaneMemoryTool", (tools.BetaAsyncAbstractMemoryTool,), methods)(
        cache_control=cache_control
    )


def _carried_out(
    run: Callable[[Mapping[str, Any]], str], command: Any, refusal: Callable[[str], Exception]
) -> str:
    given = command if isinstance(command, Mapping) else command.to_dict()
    try:
        return run(given)
    except MemplaneError as error:
        raise refusal(str(error)) from error


def _sdk() -> Any:
    try:
        return import_module("anthropic.tools")
    except ImportError as error:
        raise MissingExtraError("the memory tool", "anthropic") from error
