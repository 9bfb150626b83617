"""`memplane replay`: yesterday's block, byte for byte."""

from typing import Annotated

import typer

from memplane.cli.app import command
from memplane.cli.exits import FINE, NO
from memplane.cli.options import Home, Json
from memplane.cli.output import data, say
from memplane.explain.replay import replay
from memplane.plane import reports
from memplane.wiring import open_plane

__all__ = ["SavedReport", "replay_report"]

SavedReport = Annotated[
    str,
    typer.Argument(
        metavar="REPORT",
        help="A file of reports/, a part of its name, or `last` for the newest one.",
    ),
]


@command("replay", example="replay last")
def replay_report(
    report: SavedReport = reports.LAST, *, home: Home = None, as_json: Json = False
) -> int:
    """Make a saved pack again and print its block; exit 1 if it is not what it was.

    Under the policies and views of then, whatever they have become, as if nothing had been recorded
    since. What cannot be found any more is named on stderr.
    """
    with open_plane(home) as plane:
        found = replay(plane, reports.find(plane.home, report))
    if as_json:
        data(found.as_json())
    elif found.block is not None and found.block.text:
        print(found.block.text, end="" if found.block.text.endswith("\n") else "\n")
    for lost in found.lost:
        say(f"lost: {lost}")
    if found.note:
        say(found.note)
    if found.same:
        say(f"the same {found.saved.report['tokens']} tokens, byte for byte")
        return FINE
    say("not made again" if found.block is None else "not the same block as then")
    return NO
