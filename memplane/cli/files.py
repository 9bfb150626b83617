"""`memplane files`: what a session works on, and what it may need."""

from typing import Annotated

import typer

from memplane.cli.app import command
from memplane.cli.options import Agent, Channel, Home, Json, OneNs
from memplane.cli.output import one_line, put
from memplane.wiring import open_plane

__all__ = ["files"]


@command("files", example='files "redaction of passwords"')
def files(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What is to be done next.")] = "",
    *,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="ID", help="Its own files first, and its branch."),
    ] = None,
    branch: Annotated[
        str | None,
        typer.Option("--branch", metavar="NAME", help="The git branch; else the session's."),
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="At most so many.")] = 20,
    ns: OneNs = None,
    agent: Agent = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List files by what was touched before: for this query, session and branch, best first."""
    with open_plane(home) as plane:
        found = plane.files(
            query, session=session, branch=branch, limit=limit, channel=channel, ns=ns, agent=agent
        )
    words = "\n".join(
        f"{one.seq:>6}  {one_line(one.path, 60):<60}  {one_line(one.branch, 24):<24}  "
        f"{', '.join(one.why)}".rstrip()
        for one in found
    )
    put([one._asdict() for one in found], words, as_json=as_json)
