"""The six commands of Anthropic's memory tool over a plane, without its SDK.

A file is the value of a key: its path, such as `/memories/notes.md`. Each command that changes
something is recorded, as one write: a new version of a file is an event that replaces the one
before it, what is deleted or moved away is forgotten by an event. So history, packs, search,
forget and purge see the files as they see anything else. A folder is there while something lies
in it; one that has become empty, but was not deleted, is a key that ends in a slash.

The tool reads as its channel and agent may: a value that they may not see, or that is out of time,
is no file. What is written from a file is of the same kind, names the version before it, and keeps
its sensitivity and its time; a file that is moved keeps who said it and as what, too.

Answers and refusals are worded as the SDK's own implementation words them. It differs from that
where it must: what looks like a secret is masked, and the answer says so; a path that climbs out
of `/memories`, even if it comes back, is refused; sizes are bounded; a folder is said to take 4K.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from memplane.adapters import memory_commands as commands
from memplane.errors import ConflictError, InputError, LockError
from memplane.event import GLOBAL, inherited
from memplane.intake import namespace
from memplane.intake.redact import shown
from memplane.intake.skeleton import with_permitted_actor
from memplane.plane.quoting import summaries_quoting

if TYPE_CHECKING:
    from memplane.plane.folds import Folds
    from memplane.plane.plane import Plane
    from memplane.ports import Line
    from memplane.projections.chains import Row

__all__ = ["COMMANDS", "MemoryFiles"]

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
        self, plane: Plane, *, ns: str = GLOBAL, session: str | None = None,
        task: str | None = None, actor: str | None = None, channel: str = "agent",
        agent: str | None = None,
    ) -> None:  # fmt: skip
        namespace(ns)
        if agent is None and ns.startswith(_AGENTS):
            agent = ns.removeprefix(_AGENTS)
        self._channel, self._agent = channel, agent
        self._engine = plane._engine  # noqa: SLF001 - decides and writes at one head of the log
        self._ns = ns
        said = {"session": session, "task": task, "actor": actor}
        self._frame = {name: value for name, value in said.items() if value is not None}

    def run(self, command: Mapping[str, Any]) -> str:
        """Carry out a command as the model gives it: `{"command": "view", "path": …}`."""
        name = command.get("command")
        if name not in COMMANDS:
            raise InputError(f"Unknown command: {shown(name)}; known: {', '.join(COMMANDS)}")
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
        return self._do("view", lambda tree: commands.view(tree, path, view_range))

    def create(self, path: str, file_text: str) -> str:
        """Make a file with this text; the folders above it come with it."""
        return self._do("create", lambda tree: commands.create(tree, path, file_text))

    def str_replace(self, path: str, old_str: str, new_str: str = "") -> str:
        """Replace a text that stands in a file once."""
        return self._do(
            "str_replace", lambda tree: commands.str_replace(tree, path, old_str, new_str)
        )

    def insert(self, path: str, insert_line: int, insert_text: str) -> str:
        """Insert a text behind a line; 0: before the first."""
        return self._do(
            "insert", lambda tree: commands.insert(tree, path, insert_line, insert_text)
        )

    def delete(self, path: str) -> str:
        """Forget a file, or a folder with all that lies in it."""
        return self._do("delete", lambda tree: commands.delete(tree, path))

    def rename(self, old_path: str, new_path: str) -> str:
        """Move a file or a folder to a path where nothing is."""
        return self._do("rename", lambda tree: commands.rename(tree, old_path, new_path))

    def clear(self) -> str:
        """Forget everything."""
        return self._do("clear", commands.clear)

    def _do(self, name: str, decide: Callable[[commands.Tree], commands.Done]) -> str:
        """Decide by the files as they are, and write only if they still are so."""
        engine = self._engine
        if name != "view":
            engine.take_in_waiting()
        for _ in range(_TRIES):
            with engine.lock:
                folds = engine.caught_up()
                read = folds.memories.position
                tree = self._tree(folds)
                done = decide(tree)
                writes = tree.writable(done)
                gone = self._with_quotes(folds, done.gone)
            drafts = [
                *(engine.drafting()(self._row(name, one), "") for one in writes),
                *(engine.drafting(internal=True)(row, "") for row in _forgets(name, gone)),
            ]
            try:
                if drafts:
                    engine.append(drafts, expected_seq=read.seq if read is not None else 0)
            except ConflictError:
                continue
            if done.refused:
                raise InputError(done.answer)
            kept = zip(drafts, writes, strict=False)
            masked = any(draft.text != one.text for draft, one in kept)
            return f"{done.answer}\n{_MASKED}" if masked else done.answer
        raise LockError("others write to this plane without a pause; try again", holder=None)

    def _tree(self, folds: Folds) -> commands.Tree:
        """The files as the channel may see them now; ScopeError where the namespace is closed."""
        reader = self._engine.reader(self._channel, agent=self._agent, ns=self._ns)
        return commands.Tree(folds.memories, self._ns, reader, self._text)

    def _row(self, name: str, one: commands.Write) -> dict[str, Any]:
        row: dict[str, Any] = {
            "kind": "fact", "role": "assistant", "ns": self._ns, "key": one.key, "text": one.text,
            "data": {"tool": "memory", "command": name}, **self._frame,
        }  # fmt: skip
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
        log = self._engine.log
        quoting = (summaries_quoting(log, folds, "id", one, self._ns, undo=False) for one in ids)
        return list(dict.fromkeys([*ids, *chain.from_iterable(quoting)]))

    def _text(self, row: Row) -> str:
        redact = self._engine.redact(self._engine.watched.policies_or_last())
        return redact(self._engine.log.text(self._line(row).event))

    def _line(self, row: Row) -> Line:
        line = self._engine.log.line(row.seq)
        if line is None:
            raise InputError(f"The file {row.key} can no longer be read.")
        return line


def _forgets(name: str, ids: list[str]) -> Iterator[dict[str, Any]]:
    for at in range(0, len(ids), _IDS_AT_ONCE):
        some = ids[at : at + _IDS_AT_ONCE]
        reason = f"{name} by the memory tool"
        yield {"kind": "forget", "text": reason, "data": {"forget": {"ids": some}}}
