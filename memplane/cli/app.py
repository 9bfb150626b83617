"""The command tree, and the meaning of exit codes.

Modules register their commands with `command`; `load` imports only the module of the command that
was called, so that no command waits for the imports of another.

`exit_of` follows this table of exit codes.

==== ========= =====================================================================
code name      when
==== ========= =====================================================================
0    FINE      done, or answered. A list may be empty, a block too, and an import may
               have refused rows: both report it. `log --follow` was ended with Ctrl-C.
1    NO        the answer is no: nothing by that id, key or handle (NotFoundError), a
               namespace that is not for this channel or agent (ScopeError), the id is
               another event's (ConflictError), nothing there to forget, nothing that
               `search` finds; `verify`, `policy check`,
               `audit`, `scenario run` and `doctor` found something (3, where `doctor` finds
               that the plane cannot be opened); `replay` made another block than it was
2    WRONG     wrong use: arguments, options, or what was given cannot be taken
               (InputError, BudgetError). Nothing was stored
3    BROKEN    the plane cannot be used as it is: none there, not ours, newer, locked,
               corrupt, disk refused (PlaneError, OSError), the policies have mistakes
               (PolicyError), an extra is missing (MissingExtraError), or a bug. Bare
               `memplane` too, where it shows a plane with such a fault
130  STOPPED   Ctrl-C
141  PIPE      the reader of a pipe went away before it had all, as for any command that
               SIGPIPE ends; nothing is said
==== ========= =====================================================================

Errors are words on stderr, `memplane: <message>`. With `--json` stdout has one JSON value in any
case: where there is no answer that is `{"error": {"type", "message", "exit", ...}}`, with the
error's facts beside them, and stderr says the same in words.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, Final, TypeVar

import typer
from typer.core import TyperGroup

from memplane.cli.options import Project
from memplane.errors import (
    ConflictError,
    InputError,
    NotFoundError,
    ScopeError,
)
from memplane.wiring import CALLER

Function = TypeVar("Function", bound=Callable[..., Any])

# The modules of `memplane.cli` that define each command, in the sections and the order of the help.
SECTIONS: Final = {
    "Start": {
        "init": "show",
        "demo": "demo",
        "import": "transfer",
        "install": "agents",
        "uninstall": "agents",
        "trust": "trust",
    },
    "Record": {
        "record": "record",
        "remember": "work",
        "update": "memories",
        "forget": "memories",
        "unforget": "memories",
        "undo": "memories",
        "pin": "memories",
        "unpin": "memories",
        "touch": "memories",
        "evict": "memories",
    },
    "Ask": {
        "pack": "retrieval",
        "search": "retrieval",
        "expand": "retrieval",
        "get": "show",
        "keys": "show",
        "history": "show",
        "decisions": "show",
        "files": "retrieval",
        "today": "work",
        "last": "work",
    },
    "Work": {
        "task": "work",
        "session": "work",
        "artifact": "work",
        "projects": "work",
    },
    "Look into it": {
        "inspect": "inspection",
        "log": "show",
        "show": "show",
        "why": "retrieval",
        "replay": "retrieval",
        "stats": "maintenance",
    },
    "Keep it": {
        "doctor": "maintenance",
        "verify": "maintenance",
        "repair": "maintenance",
        "rebuild": "maintenance",
        "audit": "maintenance",
        "purge": "memories",
        "export": "transfer",
        "restore": "transfer",
        "embed": "retrieval",
    },
    "Policies": {
        "policy": "policy trust",
        "scenario": "trials",
        "eval": "trials",
        "schema": "policy",
    },
    "For agents": {
        "mcp": "agents",
        "hook": "agents",
    },
    "memplane itself": {
        "help": "about",
        "version": "about",
        "where": "about",
        "completion": "about",
    },
}
COMMANDS: Final = {name: at for section in SECTIONS.values() for name, at in section.items()}

FINE: Final = 0
NO: Final = 1
WRONG: Final = 2
BROKEN: Final = 3
STOPPED: Final = 130
PIPE: Final = 141


class _WholeTexts(TyperGroup):
    """A group whose help has the whole first sentence of each command."""

    def sections(self, ctx: Any) -> dict[str, list[str]]:
        """The names of its commands by heading, in order."""
        return {"Commands": self.list_commands(ctx)}

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for heading, names in self.sections(ctx).items():
            found = [(name, self.get_command(ctx, name)) for name in names]
            rows = [(name, one.get_short_help_str(_WHOLE)) for name, one in found if one]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


class _InOrder(_WholeTexts):
    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=list(COMMANDS).index)

    def sections(self, ctx: Any) -> dict[str, list[str]]:
        there = self.list_commands(ctx)
        return {
            heading: [name for name in some if name in there] for heading, some in SECTIONS.items()
        }


_WHOLE: Final = 1000  # characters of a sentence in a list of commands: none is cut
# No rich: help and errors are plain text, so they look the same in a terminal, a pipe and a page.
_PLAIN: Final[dict[str, Any]] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"], "max_content_width": 100},
}
_GROUP: Final[dict[str, Any]] = {**_PLAIN, "cls": _WholeTexts}

app = typer.Typer(name="memplane", cls=_InOrder, **_PLAIN)
policy_app = typer.Typer(help="Policies: check, show, compare and try them.", **_GROUP)
artifact_app = typer.Typer(help="Artifacts: files, and who may show their text.", **_GROUP)
scenario_app = typer.Typer(help="Scenarios: what a plane must do, held in CI.", **_GROUP)
session_app = typer.Typer(help="Sessions: begin, mark, end, list and show them.", **_GROUP)
projects_app = typer.Typer(
    help="Projects of your own plane: list, join and assign them.",
    invoke_without_command=True,
    **_GROUP,
)
task_app = typer.Typer(help="Tasks: open them, say how they go, switch.", **_GROUP)
# Names with commands of their own behind them.
GROUPS: Final = {
    "artifact": artifact_app,
    "policy": policy_app,
    "projects": projects_app,
    "scenario": scenario_app,
    "session": session_app,
    "task": task_app,
}
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name)


def command(name: str, *, example: str, group: typer.Typer = app) -> Callable[[Function], Function]:
    """A decorator that registers a function as a command. The example ends its help; tests run it.

    A function with a parameter `home` gets an option `--project` as well: see
    `memplane.wiring.Caller`.
    """
    register = group.command(name, epilog=f"\b\nExample:\n  memplane {example}")

    def registered(function: Function) -> Function:
        register(_in_project(function))
        return function

    return registered


def _in_project(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with an option that names the project of the caller, where it takes a home."""
    given = inspect.signature(function, eval_str=True)
    if "home" not in given.parameters or "project" in given.parameters:
        return function

    @wraps(function)
    def called(*words: Any, project: str | None = None, **named: Any) -> Any:
        caller = CALLER.get()
        before = CALLER.set(caller if project is None else caller._replace(project=project))
        try:
            return function(*words, **named)
        finally:
            CALLER.reset(before)

    option = inspect.Parameter(
        "project", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Project
    )
    parameters = list(given.parameters.values())
    at = next(place for place, one in enumerate(parameters) if one.name == "home")
    asks = given.replace(parameters=[*parameters[:at], option, *parameters[at:]])
    called.__signature__ = asks  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in asks.parameters.values()}
    called.__annotations__["return"] = given.return_annotation
    return called


def load_command(word: str) -> None:
    """Import the module of a command or group; for any other word all modules, as for help."""
    for modules in [COMMANDS[word]] if word in COMMANDS else COMMANDS.values():
        for module in modules.split():
            import_module(f"memplane.cli.{module}")


def exit_of(error: BaseException) -> int:
    """The exit code for an error that ended a command."""
    if isinstance(error, InputError):
        return WRONG
    if isinstance(error, NotFoundError | ScopeError | ConflictError):
        return NO
    return BROKEN
