"""`memplane inspect`: the memory as a page, in a file or served live on loopback."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated, Final

from memplane.cli.commands import FINE, STOPPED, command
from memplane.cli.maintenance import plane_checks
from memplane.cli.options import Bound, Home, Json, Now, Option
from memplane.cli.output import Bar, print_answer, say, say_damage
from memplane.clock import clock
from memplane.errors import InputError
from memplane.inspect import LiveServer, PageRequest, compose, document, write_page
from memplane.intake import timestamp
from memplane.plane import Plane
from memplane.recall.suppress import OWNER
from memplane.upkeep import reports
from memplane.wiring import open_plane

PAGE_NAME: Final = "memplane-page.html"

_Out = Annotated[
    Path,
    Option("--out", metavar="FILE", help="The file to write; an older page is replaced."),
]
_Session = Annotated[
    str | None,
    Option(metavar="ID", help="This session's events and its newest pack."),
]
_Report = Annotated[
    str | None,
    Option(
        metavar="REPORT",
        help="The pack of this report, and what its channel saw: a file of reports/, a part of its "
        "name, or `last`.",
    ),
]
_Channel = Annotated[
    str | None,
    Option(
        "--channel",
        metavar="NAME",
        help="Whose eyes the page has: agent (default), public, team, private, or one of "
        "channels.yaml.",
    ),
]
_Open = Annotated[bool, Option("--open", help="Open it in the browser.")]
_Replace = Annotated[
    bool, Option("--replace", help="Replace what is there by that name, page or not.")
]
_Live = Annotated[
    bool,
    Option("--live", help="Serve it on loopback instead, following the log, until Ctrl-C."),
]


@command("inspect", example="inspect --out page.html")
def inspect_plane(
    *,
    out: _Out = Path(PAGE_NAME),
    session: _Session = None,
    report: _Report = None,
    since: Bound = None,
    channel: _Channel = None,
    live: _Live = False,
    open_it: _Open = False,
    replace: _Replace = False,
    now: Now = None,
    home: Home = None,
    as_json: Json = False,
) -> int:
    """Write a page to look at the memory: one file, no server, no network, for one channel.

    It shows the newest pack line by line, what was left out and why, what a prompt cache can read
    of it, the timeline with a search, decisions and values, sessions, tasks, files, counts of what
    was masked and purged, and the plane's health. Texts are redacted as exports are; on channel
    agent nothing is on it that is high, secret or private.
    """
    if report is not None and channel is not None:
        raise InputError("expected --report or --channel (a report has its own), found both")
    if live and now is not None:
        raise InputError("expected --now for a page in a file, found --live")
    moment = None if now is None else timestamp(now, where="--now")
    checks = tuple(plane_checks(home, asks=not as_json))
    with open_plane(home, clock=clock if moment is None else lambda: moment) as plane:
        say_damage(plane)
        project = plane.context.home.project
        given = None if report is None else reports.find_report(plane.home, report, project)
        asked = PageRequest(channel or "agent", session, since, given, checks)
        if live:
            return _serve(plane, asked, open_it=open_it)
        with Bar("page") as bar:
            data = compose(plane, asked, bar)
        page = document(data)
        path = write_page(out, page, replace=replace)
    shown = data["facts"]["channel"]
    answer = {"path": str(path), "bytes": len(page), "channel": shown}
    print_answer(answer, f"{path}: {len(page):,} bytes, channel {shown}", as_json=as_json)
    if shown == OWNER:
        say("the page is private: it may hold what no other channel is shown")
    if open_it:
        webbrowser.open(path.as_uri())
    return FINE


def _serve(plane: Plane, asked: PageRequest, *, open_it: bool) -> int:
    """Serve the page until Ctrl-C; its address is printed once it answers."""
    with LiveServer(plane, asked) as server:
        print(server.url, flush=True)
        say("live on this machine alone, for whoever has this address; Ctrl-C ends it")
        if open_it:
            webbrowser.open(server.url)
        try:
            server.serve()
        except KeyboardInterrupt:
            say("ended; the address answers no more")
            return STOPPED
    return FINE
