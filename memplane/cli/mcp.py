"""`memplane mcp`: the plane as tools of an MCP client."""

import gc
from functools import partial
from typing import Annotated

import typer

from memplane.cli.app import command
from memplane.cli.options import Home, Json
from memplane.errors import HomeError, MissingExtraError
from memplane.plane import Plane
from memplane.plane.ulids import ulid
from memplane.wiring import clock, find_home, init, make_counter, open_plane

__all__ = ["mcp"]


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
            metavar="ID", help="The session of what is stored and packed; else a new one."
        ),
    ] = None,
    make: Annotated[
        bool, typer.Option("--init", help="Make the plane where there is none yet.")
    ] = False,
    home: Home = None,
    as_json: Json = False,  # noqa: ARG001 - every command takes it; errors at the start are JSON
) -> None:
    """Serve one MCP client over stdin and stdout, until its end closes or SIGTERM.

    Tools memory_store, _get, _search, _curate, _forget and _list_keys; resources for decisions,
    tasks, the last report and handles. Needs the extra `mcp`. The plane is opened at the first call
    of a tool. Any number of servers may serve the same plane.
    """
    gc.disable()  # the SDK makes 10,000 things to keep and none to collect: a fifth of its import
    try:
        from memplane.mcp.server import Serving  # noqa: PLC0415 - the SDK takes half a second
        from memplane.mcp.stdio import serve  # noqa: PLC0415 - likewise
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("memplane"):
            raise
        raise MissingExtraError("`memplane mcp`", "mcp") from None
    finally:
        gc.enable()
    gc.freeze()
    opened = partial(_opened, home, read_only=read_only, make=make)
    serve(Serving(opened, make_counter, channel, session or f"mcp-{ulid(clock())}", read_only))


def _opened(home: str | None, *, read_only: bool, make: bool) -> Plane:
    if make and not read_only:
        return _there_or_made(home)
    return open_plane(home, read_only=read_only)


def _there_or_made(home: str | None) -> Plane:
    try:
        folder = find_home(home)
    except HomeError:
        return init()
    return init(folder)
