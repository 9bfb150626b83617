"""`memplane inspect`: the memory as a page, in a file or served live on loopback; `memplane demo`.

The demo is a plane with a sample session, three questions that it answers, and a page to look at.
The sample is two days of work on hop, a URL shortener that does not exist: a Claude Code transcript
of 168 lines, and 17 statements. It ships with memplane, so nothing is fetched. All that the demo
leaves is one folder, which it names; no trust is stored for it, as its commands name it.
"""

from __future__ import annotations

import json
import os
import tempfile
import textwrap
import webbrowser
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Final

from memplane.cli.commands import FINE, STOPPED, command
from memplane.cli.maintenance import plane_checks
from memplane.cli.options import Bound, Home, Json, Now, Option
from memplane.cli.output import Bar, counted, data, driven, print_answer, say, say_damage
from memplane.clock import clock
from memplane.errors import InputError, NotFoundError
from memplane.home import asset
from memplane.importers import import_paths
from memplane.inspect import LiveServer, PageRequest, compose, document, write_page
from memplane.intake import timestamp
from memplane.lazy import NamedTuple
from memplane.pack.block import Block
from memplane.plane import Plane
from memplane.recall.suppress import OWNER
from memplane.upkeep import reports
from memplane.upkeep.reports import Saved, read_report
from memplane.wiring import init, open_plane

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


# The demo.

FOLDER: Final = "memplane-demo"
PAGE: Final = "page.html"
SAMPLES: Final = "scenarios/data"
SESSION: Final = "sample-session.jsonl"
DECISIONS: Final = "sample-decisions.jsonl"
VIEWS: Final = {
    "identity.md": """\
You work with Mira on hop, a URL shortener: Python, Starlette, SQLite, one server behind Caddy.
""",
    "rules.project.md": """\
- Plan before code. Tests pass before a commit.
- Nobody edits hop.db by hand, not even for a moment.
- Nothing about visitors is stored.
""",
}
_FIRST_ID: Final = "hop:decision:1"  # of the sample: a plane that has it is a demo's
_WIDTH: Final = 100
_PAGE_TOKENS: Final = 2_000  # of the pack that the page shows


class Question(NamedTuple):
    """What is asked, for which channel, in how many tokens, and what to look for in the answer."""

    query: str
    channel: str
    budget: int
    look: str


QUESTIONS: Final = (
    Question("what are we working on?", "agent", 700,
             "the active task with its plan, the decisions in force, what the last session left"),
    Question("why do redirects use 302 and not 301?", "agent", 500,
             "the decision in force and the turns behind it; the replaced 301 is no decision here"),
    Question("what was lost in the outage?", "public", 500,
             "the three links; for anybody, so no preference of Mira's and nothing sensitive"),
)  # fmt: skip


_PAGE_QUERIES: Final = ("how are expired links deleted?", QUESTIONS[1].query)


@command("demo", example="demo")
def run_demo(
    *,
    open_it: Annotated[bool, Option("--open", help="Open the page in the browser.")] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Make a plane with a sample session, ask it three questions, and write a page to look at.

    The plane is ./memplane-demo, or --home, and the page lies in it; nothing else is left behind,
    and nothing is fetched. A second run adds nothing.
    """
    folder = Path(home or FOLDER).expanduser()
    _check(folder)
    with init(folder, trusted=False) as plane:
        recorded = fill(plane)
        asks = PageRequest(channel="agent", report=_pack_of_session(plane))
        asked = [(one, _ask(plane, one)) for one in QUESTIONS]
        events = plane.head().seq
        page = write_page(folder / PAGE, document(compose(plane, asks)))
    if open_it:
        webbrowser.open(page.as_uri())
    if as_json:
        told = [
            {**one._asdict(), "tokens": block.tokens, "text": block.text} for one, block in asked
        ]
        where = str(folder.absolute())
        data({"home": where, "page": str(page), "recorded": recorded, "questions": told})
        return
    print(f"{folder}: {counted(events, 'event')} of two days of work on a URL shortener")
    for number, (one, block) in enumerate(asked, 1):
        print(f"\n{number}. {one.query}\n")
        print(_block_words(block))
        print(_wrapped(f"{_cost(block)}. Look for {one.look}."))
    print(f"\nTo look at: {folder / PAGE}, in a browser (`memplane demo --open`).")
    print(f"\n{_next_words(folder)}")


def fill(plane: Plane) -> int:
    """Record the sample in a plane, and write its views; returns how many events are new."""
    before = plane.head().seq
    write_views(plane)
    with tempfile.TemporaryDirectory(prefix="memplane-") as scratch:
        transcript = Path(scratch) / SESSION
        transcript.write_bytes(asset(f"{SAMPLES}/{SESSION}"))
        import_paths(plane, "claude-code", [transcript])
    rows = asset(f"{SAMPLES}/{DECISIONS}").decode().splitlines()
    plane.record_many([json.loads(row) for row in rows])
    open_sample_task(plane)
    with Bar("indexing") as bar:
        plane.upkeep.index(bar)
    return plane.head().seq - before


def write_views(plane: Plane) -> None:
    """Write the sample's views, where they are not there yet."""
    for name, text in VIEWS.items():
        view = plane.home / "views" / name
        if not view.exists():
            view.write_text(text)


def open_sample_task(plane: Plane) -> None:
    """Open the task that the sample's last session left, unless there is one."""
    if not plane.work.tasks.list(all=True):
        plane.work.tasks.open(
            "metrics",
            "Count redirects without storing anything about visitors",
            plan=("agree on what is counted", "one table, one row a day", "a page"),
        )
        plane.work.tasks.update("metrics", done=[1], doing=[2])


def _check(folder: Path) -> None:
    """Refuse a folder that holds anything but an earlier demo."""
    if not folder.exists() or not os.listdir(folder):  # noqa: PTH208 - names are enough
        return
    if (folder / "plane.json").exists():
        with init(folder, trusted=False) as plane:
            try:
                plane.event(_FIRST_ID)
            except NotFoundError:
                pass
            else:
                return
    raise InputError(f"{folder}: holds other things; name another folder", where="--home")


def _ask(plane: Plane, one: Question) -> Block:
    return plane.pack(one.query, budget=one.budget, channel=one.channel, save_report=True)


def _pack_of_session(plane: Plane) -> Saved:
    """The second of two packs of the sample's last session: the page shows what both share."""
    session = plane.work.sessions.list(channel="agent")[-1].id
    for query in _PAGE_QUERIES:
        block = plane.pack(
            query, budget=_PAGE_TOKENS, channel="agent", session=session, save_report=True
        )
    return read_report(block.report_path)


def _block_words(block: Block) -> str:
    """The block as a model gets it, set in."""
    lines = []
    for line in driven(block.text).splitlines():
        pieces = textwrap.wrap(line, _WIDTH - 4, subsequent_indent=" ", break_on_hyphens=False)
        lines += [f"  | {piece}".rstrip() for piece in pieces or [""]]
    return "\n".join(lines)


def _cost(block: Block) -> str:
    sources = {event for entry in block.entries for event in (*entry.events, *entry.parts)}
    left = sum(block.report["omissions"]["counts"].values())
    return (
        f"{block.tokens} of {block.report['budget']} tokens, from {counted(len(sources), 'event')}"
        f"; {left} left out"
    )


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")


def _next_words(folder: Path) -> str:
    where = quote(str(folder))
    rows: dict[str, Any] = {
        f'memplane search "sudo" --home {where}': "the best hits, with scores",
        f"memplane why last hop:decision:4 --home {where}": "why it is not in that block",
        f"memplane history redirect.status --home {where}": "the values that a key had",
        "memplane import --discover": "your own sessions",
        f"rm -r {where}": "takes away all that this left",
    }
    widest = max(map(len, rows))
    return "Next\n" + "\n".join(f"  {one:<{widest}}  # {said}" for one, said in rows.items())
