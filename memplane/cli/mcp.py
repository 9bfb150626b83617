"""`memplane mcp`: the plane as tools of an MCP client."""

import gc
import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from memplane.cli.app import command
from memplane.cli.options import Json
from memplane.cli.output import say
from memplane.errors import HomeError, MemplaneError, MissingExtraError, WriteError
from memplane.home import HOME_NAME
from memplane.hook.shown import Shown
from memplane.importers.rows import name
from memplane.plane import Plane
from memplane.plane.ulids import ulid
from memplane.trust import Located, Store, located, named, refusal
from memplane.wiring import clock, held_words, init, make_counter, open_found

__all__ = ["mcp"]

# What Claude Code tells its servers and hooks.
_SESSION: Final = "CLAUDE_CODE_SESSION_ID"
_PROJECT: Final = "CLAUDE_PROJECT_DIR"


@command("mcp", example="mcp")
def mcp(
    *,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Offer no tool that writes; open nothing to write.")
    ] = False,
    channel: Annotated[
        str,
        typer.Option(metavar="NAME", help="Who asks: agent, private, public, team, or another."),
    ] = "agent",
    session: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="The session of what is stored and packed; else that of the client (Claude Code "
            "names it), else a new one.",
        ),
    ] = None,
    make: Annotated[
        bool,
        typer.Option("--init", help="Make the plane where there is none: --home, or ~/.memplane."),
    ] = False,
    home: Annotated[
        str | None,
        typer.Option(
            "--home",
            metavar="DIR",
            help="The plane's folder; else MEMPLANE_HOME, else .memplane here or above, if you "
            "trust it, else ~/.memplane.",
        ),
    ] = None,
    as_json: Json = False,  # noqa: ARG001 - every command takes it; errors at the start are JSON
) -> None:
    """Serve one MCP client over stdin and stdout, until its end closes or SIGTERM.

    Tools memory_store, _get, _search, _curate, _forget and _list_keys; resources for decisions,
    tasks, the last report and handles. Needs the extra `mcp`. The plane is opened at the first call
    of a tool. Any number of servers may serve the same plane. A new session begins with the first
    record, its agent is the client, and it ends, with a summary, when the server does.
    """
    gc.disable()  # the SDK makes 10,000 things to keep and none to collect: a fifth of its import
    try:
        from memplane.mcp.server import Own, Serving  # noqa: PLC0415 - the SDK takes half a second
        from memplane.mcp.stdio import serve  # noqa: PLC0415 - likewise
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("memplane"):
            raise
        raise MissingExtraError("`memplane mcp`", "mcp") from None
    finally:
        gc.enable()
    gc.freeze()
    _say_what_is_passed_over(home)
    opened = partial(_opened, home, read_only=read_only, make=make)
    own = None
    if session is None and (named := os.environ.get(_SESSION)):
        theirs = name(named)
        own = Own("claude-code", theirs, lambda folder: Shown(folder, theirs).held)
    given = session or f"mcp-{ulid(clock())}"
    serve(Serving(opened, make_counter, channel, given, read_only, own, session is None))


def _opened(home: str | None, *, read_only: bool, make: bool) -> Plane:
    """The plane that the hooks of the same agent use: clients start both anywhere."""
    given, user = home or os.environ.get("MEMPLANE_HOME"), _user()
    if make and not read_only and given:
        return init(named(given))
    found = located(os.environ, _here(), user, given=home)
    if found.home is None and make and not read_only:
        return init(Path(user) / HOME_NAME)
    if found.home is None and found.passed is not None:
        raise refusal(found, os.environ)
    if found.home is None:
        raise HomeError(
            f"no plane in {_here()} or above, and no {HOME_NAME} in {user}; `memplane init` makes "
            "one for a project, `memplane install claude-code` or `memplane install codex` one for "
            "every project; it is used from then on"
        )
    plane = open_found(found.home, read_only=read_only)
    if held := plane.held_files():
        say(held_words(plane, held))
    return plane


def _say_what_is_passed_over(home: str | None) -> None:
    """Tell the person, on stderr, of a plane that is here and not trusted."""
    try:
        found = located(os.environ, _here(), _user(), given=home)
    except MemplaneError:
        return  # the first call of a tool says it
    if found.passed is not None:
        with suppress(WriteError):
            Store(os.environ).meet(found.passed)
        say(f"{refusal(found, os.environ)}; {_instead(found)}")


def _instead(found: Located) -> str:
    return "no memory is served" if found.home is None else f"{found.home.folder} is served"


def _user() -> str:
    return os.path.expanduser("~")  # noqa: PTH111 - pathlib raises where there is no user


def _here() -> str:
    """The project's folder, or the one that the client started this in; that may be gone."""
    try:
        return os.environ.get(_PROJECT) or os.getcwd()  # noqa: PTH109 - a text is what is wanted
    except OSError:
        return "/"
