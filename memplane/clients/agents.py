"""The agents that memplane is installed in: what they run, and where their settings lie."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

__all__ = [
    "AGENTS",
    "SERVER",
    "Agent",
    "Hook",
    "Program",
    "Scope",
    "WantedHook",
    "places",
    "words_of",
]

Scope = Literal["user", "project"]
SERVER: Final = "memplane"  # the MCP server's name


class Hook(NamedTuple):
    """One command at one event of an agent. Without a matcher it runs at every such event."""

    event: str
    timeout_s: int
    matcher: str | None = None
    catch_up: bool = False
    background: bool = False


class WantedHook(NamedTuple):
    """A hook as the agent's file has it."""

    hook: Hook
    handler: dict[str, Any]


class Program(NamedTuple):
    """The words that run memplane, and those that name its plane, if one is named."""

    words: tuple[str, ...]
    home: tuple[str, ...] = ()


class Agent(NamedTuple):
    """An agent: its hooks, and whether it runs a command by a shell or word for word."""

    name: str
    title: str
    hooks: tuple[Hook, ...]
    by_shell: bool

    def wanted(self, program: Program) -> list[WantedHook]:
        """The hooks as they are written for this program."""
        return [WantedHook(hook, self._handler(hook, program)) for hook in self.hooks]

    def server(self, program: Program) -> dict[str, Any]:
        """The MCP server as it is written for this program."""
        words = [*program.words, "mcp", *program.home]
        typed = {} if self.by_shell else {"type": "stdio"}
        return {**typed, "command": words[0], "args": words[1:]}

    def _handler(self, hook: Hook, program: Program) -> dict[str, Any]:
        last = ["--catch-up"] if hook.catch_up else []
        words = [*program.words, "hook", self.name, *last, *program.home]
        run: dict[str, Any] = {"command": words[0], "args": words[1:]}
        if self.by_shell:
            run = {"command": shlex.join(words)}
        background = {"async": True} if hook.background else {}
        return {"type": "command", **run, "timeout": hook.timeout_s, **background}

    def behind(self, handler: Any) -> list[str] | None:
        """What `memplane hook AGENT` gets besides if that is what a handler runs, else None."""
        return _behind(words_of(handler), ["hook", self.name])

    def is_server(self, entry: Any) -> bool:
        """Whether an MCP server is `memplane mcp`, by whatever way it is started."""
        return _behind(words_of(entry), ["mcp"]) is not None


def words_of(entry: Any) -> list[str]:
    """What a handler or a server runs: command and args, or the command as a shell splits it."""
    if not isinstance(entry, dict) or not isinstance(command := entry.get("command"), str):
        return []
    if isinstance(words := entry.get("args"), list):
        return [command, *(word for word in words if isinstance(word, str))]
    try:
        return shlex.split(command)
    except ValueError:  # an open quotation mark
        return command.split()


def _behind(words: Sequence[str], expected: list[str]) -> list[str] | None:
    for at, word in enumerate(words):
        name = re.split(r"[/\\]", word)[-1]
        if name in ("memplane", "memplane.exe"):
            behind = _without_home(words[at + 1 :])
            if [one for one in behind if not one.startswith("-")][: len(expected)] == expected:
                return [one for one in behind if one not in expected]
    return None


def _without_home(words: Sequence[str]) -> list[str]:
    """The words without the plane that they name, wherever that stands."""
    rest = iter(words)
    kept = []
    for word in rest:
        if word == "--home":
            next(rest, None)
        elif not word.startswith("--home="):
            kept.append(word)
    return kept


# At the end of a session Claude Code waits 1.5 s for all hooks together, Codex 3 s for each.
AGENTS: Final[Mapping[str, Agent]] = {
    "claude-code": Agent(
        "claude-code",
        "Claude Code",
        (
            Hook("SessionStart", 5),
            # What the session before it left undone: one that is run without a person ends its
            # background work with itself.
            Hook("SessionStart", 60, catch_up=True, background=True),
            Hook("UserPromptSubmit", 5),
            Hook("PostToolUse", 5, matcher="*"),
            Hook("PostToolUseFailure", 5, matcher="*"),  # Codex tells failures as it tells success
            Hook("Stop", 5),
            Hook("Stop", 60, catch_up=True, background=True),
            Hook("PostCompact", 5),
            Hook("SessionEnd", 1),
        ),
        by_shell=False,
    ),
    "codex": Agent(
        "codex",
        "Codex",
        (
            Hook("SessionStart", 5),
            Hook("UserPromptSubmit", 5),
            Hook("PostToolUse", 5, matcher="*"),
            Hook("Stop", 5),
            Hook("Stop", 10, catch_up=True),
            Hook("PostCompact", 5),
            Hook("SessionEnd", 3),
        ),
        by_shell=True,
    ),
}


def places(
    agent: str, scope: Scope, environment: Mapping[str, str], project: Path
) -> tuple[Path, Path]:
    """The files of an agent that have its hooks and its MCP servers.

    CLAUDE_CONFIG_DIR and CODEX_HOME move those of the user.
    """
    user = Path(environment.get("HOME") or Path.home())
    if agent == "codex":
        folder = project / ".codex"
        if scope == "user":
            folder = Path(environment.get("CODEX_HOME") or user / ".codex")
        return folder / "hooks.json", folder / "config.toml"
    if scope == "project":
        return project / ".claude" / "settings.json", project / ".mcp.json"
    given = environment.get("CLAUDE_CONFIG_DIR")
    folder = Path(given) if given else user / ".claude"
    older = folder / ".config.json"  # goes before the other where there is one
    servers = (folder if given else user) / ".claude.json"
    return folder / "settings.json", older if older.is_file() else servers
