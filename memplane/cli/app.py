"""The commands as typer has them: it takes what is not asked plainly, and writes help and errors.

Made of what `memplane.cli.commands` has declared. Only a process that needs it imports this module:
typer costs it as much as five bare Pythons.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, Final, get_args, get_origin

import typer
from typer.core import TyperGroup

from memplane.cli.commands import (
    COMMANDS,
    FINE,
    GROUPS,
    SECTIONS,
    STOPPED,
    Argument,
    Declared,
    EndedError,
    Option,
    Project,
    WrongUseError,
    tell_declared,
    with_project,
)
from memplane.errors import InputError

# Typer brings its own copy of click since 0.26 and used the package before: this is either.
_UsageError: Final[Any] = typer.BadParameter.__base__


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
_GROUP_APPS: Final = {
    name: typer.Typer(help=said, invoke_without_command=name == "projects", **_GROUP)
    for name, said in GROUPS.items()
}
for _name, _group in _GROUP_APPS.items():
    app.add_typer(_group, name=_name)


def _register(declared: Declared) -> None:
    """Make a command of typer of what was declared."""
    epilog = f"\b\nExample:\n  memplane {declared.example}"
    group = _GROUP_APPS.get(declared.group, app)
    if declared.name:
        group.command(declared.name, epilog=epilog)(typed(_in_project(declared.function)))
    else:
        group.callback(epilog=epilog)(without_command(declared.function))


def typed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with typer's own words for its arguments and options."""
    given = inspect.signature(function, eval_str=True)

    @wraps(function)
    def called(*words: Any, **named: Any) -> Any:
        return function(*words, **named)

    parameters = [
        one.replace(annotation=_typed(one.annotation)) for one in given.parameters.values()
    ]
    return _signed(called, given.replace(parameters=parameters))


def _typed(annotation: Any) -> Any:
    if get_origin(annotation) is not Annotated:
        return annotation
    kind, declared = get_args(annotation)
    makers: dict[type, Any] = {Option: typer.Option, Argument: typer.Argument}
    make = makers.get(type(declared))
    if make is None:
        return annotation
    return Annotated[kind, make(*declared.names, **declared.more)]


def without_command(function: Callable[..., Any]) -> Callable[..., Any]:
    """A group's function, called where none of its commands is named."""
    given = inspect.signature(typed(function))

    @wraps(function)
    def called(context: typer.Context, **named: Any) -> Any:
        if context.invoked_subcommand is None:
            return function(**named)
        if named.get("show_version"):
            raise InputError("expected --version alone", where="--version")
        return None

    context = inspect.Parameter(
        "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
    )
    return _signed(called, given.replace(parameters=[context, *given.parameters.values()]))


def _in_project(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with an option that names the project of the caller, where it takes a home."""
    called = with_project(function)
    given = inspect.signature(function, eval_str=True)
    if called is function:
        return function
    option = inspect.Parameter(
        "project", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Project
    )
    parameters = list(given.parameters.values())
    at = next(place for place, one in enumerate(parameters) if one.name == "home")
    return _signed(called, given.replace(parameters=[*parameters[:at], option, *parameters[at:]]))


def _signed(called: Callable[..., Any], asks: inspect.Signature) -> Callable[..., Any]:
    called.__signature__ = asks  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in asks.parameters.values()}
    called.__annotations__["return"] = asks.return_annotation
    return called


def answer(argv: list[str]) -> int:
    """Run the command; WrongUseError where typer refuses the words, else what that raises."""
    try:
        found = typer.main.get_command(app).main(argv, prog_name="memplane", standalone_mode=False)
    except _UsageError as error:
        context = error.ctx
        where = context.command_path if context is not None else "memplane"
        raise WrongUseError(f"{error.format_message()} (see `{where} --help`)") from error
    except typer.Abort:
        raise EndedError(STOPPED) from None
    return found if isinstance(found, int) else FINE


tell_declared(_register)
