"""The command tree. Command files put themselves into it with `command`."""

from collections.abc import Callable
from typing import Any, TypeVar

import typer

__all__ = ["app", "command", "policy_app"]

Function = TypeVar("Function", bound=Callable[..., Any])

# No rich: help and errors are plain text, so they look the same in a terminal, a pipe and a page.
_PLAIN: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None}

app = typer.Typer(name="memplane", **_PLAIN)
policy_app = typer.Typer(help="Policies: check them.", **_PLAIN)
app.add_typer(policy_app, name="policy")


def command(
    name: str, *, example: str, group: typer.Typer = app
) -> Callable[[Function], Function]:
    """Make a function a command. The example ends its help, and the tests run it."""
    return group.command(name, epilog=f"\b\nExample:\n  memplane {example}")
