"""Tool calls as a model would read them, and the files that they touch."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from memplane.intake.recalled import is_own_command

__all__ = [
    "FILE_ARGUMENTS",
    "OWN_ANSWER",
    "OWN_CALL",
    "Call",
    "below",
    "own_command",
    "render",
    "touched",
]

# Tools whose path is a file that was worked on; a search only looks around.
FILE_ARGUMENTS: Final = {
    "Read": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "Write": "file_path",
    "NotebookEdit": "notebook_path",
    "NotebookRead": "notebook_path",
}
# Why a call of memplane's own tools makes no event, and why its result makes none.
OWN_CALL: Final = "call of memplane"
OWN_ANSWER: Final = "answer of memplane"
_PATHS: Final = frozenset({"file_path", "notebook_path", "path"})
_PATH_MAX: Final = 4096
_SHORT: Final = 200


class Call(NamedTuple):
    """A call: its tool, the file that it works on, and its command where that is memplane's own."""

    tool: str = ""
    path: str = ""
    command: str = ""

    @classmethod
    def of(cls, known: Any) -> Call | None:
        """A call from what `state` gave; None for anything else."""
        if (
            isinstance(known, list)
            and len(known) in (2, 3)
            and all(isinstance(one, str) and len(one) <= _PATH_MAX for one in known)
        ):
            return cls(*known)
        return None

    def state(self) -> list[str]:
        """The call as JSON."""
        return list(self if self.command else self[:2])


def below(path: str, folder: str) -> str:
    """Return the path relative to the folder where it lies below it, else as it is."""
    folder = folder.rstrip("/\\")
    if path == folder:
        return "."
    if folder and len(path) > len(folder) + 1 and path.startswith(folder):
        rest = path[len(folder) :]
        if rest[0] in "/\\":
            return rest[1:]
    return path


def own_command(tool: str, arguments: Any) -> str:
    """The command line of a shell that runs memplane and nothing else, "" for any other call.

    It is `data.command` of the call's result, so that intake knows what was recalled there.
    """
    for name in ("command", "cmd") if isinstance(arguments, dict) else ():
        command = arguments.get(name)
        if isinstance(command, str) and is_own_command(tool, command):
            return command.strip()
    return ""


def touched(tool: str, arguments: Any, folders: tuple[str, ...]) -> str:
    """Name the file that the call works on, below the first folder that holds it; "" for none."""
    path = arguments.get(FILE_ARGUMENTS.get(tool, "")) if isinstance(arguments, dict) else None
    if not isinstance(path, str) or len(path) > _PATH_MAX:
        return ""
    return next((short for folder in folders if (short := below(path, folder)) != path), path)


def render(tool: str, arguments: Any, folder: str) -> str:
    """Show the tool with its arguments: short ones on the first line, long ones as blocks below.

    Text stands as it is, not as JSON: a search must find a line of code by its words.
    """
    if not isinstance(arguments, dict):
        return f"{tool} {_json(arguments)}".rstrip() if arguments else tool
    head, blocks = [tool], []
    for key, value in arguments.items():
        shown = value if isinstance(value, str) else _json(value)
        if key in _PATHS:
            shown = below(shown, folder)
        if len(shown) <= _SHORT and "\n" not in shown:
            quoted = isinstance(value, str) and (not shown or " " in shown)
            head.append(f"{key}={_json(shown) if quoted else shown}")
        else:
            blocks.append(f"{key}:\n{shown}")
    return "\n".join([" ".join(head), *blocks])


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, ValueError):
        return "(too deep to show)"
