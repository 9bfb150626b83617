"""Move quoted blocks out of texts: they are memory coming back, not something new.

An agent that echoes the block it was given would have it recorded, and retrieved again, in each
turn. So a block whose checksum verifies is moved out of the text into a file of its own, which the
event names in `data.recalled`. The checksum contains no secret: anybody can write such a block. So
it is moved only out of what a person or an agent says (messages of role user or assistant) and out
of results of memplane's own tools and commands. In any other event it stays where it is: in the
output of a tool, in a statement, in words of the system.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from memplane.lazy import regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "RECALLED_MAX",
    "checksums",
    "is_own_command",
    "is_own_tool",
    "moves_blocks",
    "parted",
    "without_blocks",
]

RECALLED_MAX: Final = 16  # files of one event; the last one holds all further blocks
_BEGIN: Final = "memplane:begin\n"
_MARK: Final = regex(r"(?m)^memplane:(?:begin\n|end ([0-9a-f]{16})(?:\n|\Z))")
_SPEAKERS: Final = ("user", "assistant")
_OWN_SERVER: Final = regex(r"(?:^|_)memplane$")
# Tools that run one command line, as Claude Code, Codex and chats name them.
_SHELLS: Final = frozenset(
    {
        "Bash",
        "bash",
        "shell",
        "local_shell",
        "shell_command",
        "exec_command",
        "container.exec",
    }
)
_COMMAND_MAX: Final = 1_000  # characters
# One program whose output nothing else can mix with: no pipe, chain, substitution or redirection
# but of its errors. What is harder to read than this is not taken for memplane's own.
_WORD: Final = r"""(?:[A-Za-z0-9_@%+=:,./~-]|'[^']*'|"[^"$`\\]*")"""
_OWN_COMMAND: Final = regex(
    rf"[ \t]*(?:memplane|python[0-9.]{{0,5}}[ \t]+-m[ \t]+memplane)(?:[ \t]+{_WORD}+)*"
    r"(?:[ \t]+2>(?:&1|[ \t]?/dev/null))?[ \t\n]*"
)
_PIECE: Final = 1 << 20  # characters that are encoded at once


def moves_blocks(line: Mapping[str, Any]) -> bool:
    """Whether quoted blocks are moved out of the text of an event with these fields."""
    kind = line.get("kind")
    if kind == "message":
        return line.get("role") in _SPEAKERS
    data = line.get("data")
    if kind != "tool_result" or not data:
        return False
    tool = data.get("tool")
    return isinstance(tool, str) and (
        is_own_tool(tool) or is_own_command(tool, data.get("command"))
    )


def is_own_tool(tool: str) -> bool:
    """Tell a tool of memplane's MCP server, as clients name it: `mcp__memplane__memory_search`."""
    *server, name = tool.split("__")
    return bool(name) and any(_OWN_SERVER.search(part) for part in server)


def is_own_command(tool: str, command: object) -> bool:
    """Tell a call of a shell that ran memplane and nothing else, by its command line."""
    return (
        tool in _SHELLS
        and isinstance(command, str)
        and len(command) <= _COMMAND_MAX
        and _OWN_COMMAND.fullmatch(command) is not None
    )


def parted(line: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The text of an event with these fields, and the blocks that are moved out of it, in order."""
    text = line.get("text", "")
    if _BEGIN not in text or not moves_blocks(line):
        return text, []
    return without_blocks(text)


def without_blocks(text: str) -> tuple[str, list[str]]:
    """The text without the blocks quoted in it, and these, marks included; in one pass.

    They are at most RECALLED_MAX texts: the last one is all further blocks, one behind another.
    """
    if _BEGIN not in text:
        return text, []
    found: list[str] = []
    further: list[str] = []
    kept: list[str] = []
    at, begin = 0, None
    for mark in _MARK.finditer(text):
        if mark[1] is None:
            begin = mark  # no line inside a block looks like a mark, so the nearest one opens it
        elif begin is not None:
            if _checksum(text, begin.end(), mark.start()) == mark[1]:
                block = text[begin.start() : mark.end()]
                (found if len(found) < RECALLED_MAX - 1 else further).append(block)
                kept.append(text[at : begin.start()])
                at = mark.end()
            begin = None
    if not found:
        return text, []
    kept.append(text[at:])
    return "".join(kept), [*found, "".join(further)] if further else found


def checksums(blocks: Iterable[str]) -> list[str]:
    """The checksums that the end marks of blocks state, in order."""
    return [mark[1] for block in blocks for mark in _MARK.finditer(block) if mark[1] is not None]


def _checksum(text: str, start: int, end: int) -> str:
    """The checksum of a part of the text, as a block states it."""
    digest = hashlib.sha256()
    for at in range(start, end, _PIECE):
        digest.update(text[at : min(at + _PIECE, end)].encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]
