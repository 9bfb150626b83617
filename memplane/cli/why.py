"""`memplane why`: what became of an event in a pack."""

from typing import Annotated

import typer

from memplane.cli.app import command
from memplane.cli.options import Home, Json
from memplane.cli.output import put, say
from memplane.cli.progress import Bar
from memplane.cli.replay import SavedReport
from memplane.explain.smallest import FITS_MAX
from memplane.explain.why import why
from memplane.plane import reports
from memplane.wiring import open_plane

__all__ = ["why_event"]


@command("why", example="why last 2 --smallest")
def why_event(
    report: SavedReport,
    asked: Annotated[
        str,
        typer.Argument(
            metavar="EVENT|ENTRY",
            help="An event's id or number, or entry:N for the events of the Nth entry.",
        ),
    ],
    *,
    smallest: Annotated[
        bool,
        typer.Option(
            "--smallest",
            help="Find the smallest budget above the pack's own at which it comes in.",
        ),
    ] = False,
    fits: Annotated[
        int, typer.Option("--fits", metavar="N", min=1, help="With at most so many packs.")
    ] = FITS_MAX,
    channel: Annotated[
        str | None,
        typer.Option(
            "--channel",
            metavar="NAME",
            help="Who asks: without it, who asked for the pack. private is told all.",
        ),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option("--agent", metavar="ID", help="The agent that asks; without it, as above."),
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Tell what became of an event in a saved pack, step by step: from the log to place or reason.

    The pack is made again under what its report names, so the reasons are its own. An event that
    who asks may not see is answered like one that does not exist.
    """
    with open_plane(home) as plane, Bar("packing") as bar:
        saved = reports.find(plane.home, report)
        found = why(
            plane, saved, asked, channel=channel, agent=agent, smallest=smallest, fits=fits,
            progress=bar,
        )  # fmt: skip
    put(found.as_json(), "\n".join(found.lines()), as_json=as_json)
    if found.note:
        say(found.note)
