"""The command tree. Command files put themselves into it with `command`."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import typer
from typer.core import TyperGroup

__all__ = [
    "GROUPS",
    "ORDER",
    "app",
    "artifact_app",
    "command",
    "policy_app",
    "scenario_app",
    "session_app",
    "task_app",
]

Function = TypeVar("Function", bound=Callable[..., Any])

# As help lists them: the way of the data first, upkeep last.
ORDER: Final = (
    "init",
    "record",
    "import",
    "pack",
    "search",
    "show",
    "get",
    "keys",
    "history",
    "log",
    "replay",
    "why",
    "expand",
    "files",
    "task",
    "decisions",
    "artifact",
    "session",
    "update",
    "forget",
    "unforget",
    "undo",
    "pin",
    "unpin",
    "touch",
    "evict",
    "purge",
    "stats",
    "audit",
    "verify",
    "repair",
    "rebuild",
    "export",
    "restore",
    "doctor",
    "trust",
    "embed",
    "eval",
    "policy",
    "schema",
    "scenario",
    "mcp",
    "hook",
    "install",
    "uninstall",
)
# No rich: help and errors are plain text, so they look the same in a terminal, a pipe and a page.
_PLAIN: Final[dict[str, Any]] = {"add_completion": False, "rich_markup_mode": None}


class _InOrder(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=ORDER.index)


app = typer.Typer(name="memplane", cls=_InOrder, **_PLAIN)
policy_app = typer.Typer(help="Policies: check, show, compare and try them.", **_PLAIN)
artifact_app = typer.Typer(help="Artifacts: files, and who may show their text.", **_PLAIN)
scenario_app = typer.Typer(help="Scenarios: what a plane must do, held in CI.", **_PLAIN)
session_app = typer.Typer(help="Sessions: begin, mark, end, list and show them.", **_PLAIN)
task_app = typer.Typer(help="Tasks: open them, say how they go, switch.", **_PLAIN)
# Names with commands of their own behind them.
GROUPS: Final = {
    "artifact": artifact_app, "policy": policy_app, "scenario": scenario_app,
    "session": session_app, "task": task_app,
}  # fmt: skip
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name)


def command(name: str, *, example: str, group: typer.Typer = app) -> Callable[[Function], Function]:
    """Make a function a command. The example ends its help, and the tests run it."""
    return group.command(name, epilog=f"\b\nExample:\n  memplane {example}")
