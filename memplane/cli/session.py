"""`memplane session start`, `checkpoint`, `end`, `list`, `show`."""

from typing import Annotated

import typer

from memplane.cli.app import command, session_app
from memplane.cli.options import Channel, Home, Json
from memplane.cli.output import counted, one_line, put
from memplane.errors import InputError
from memplane.plane.ending import Ended
from memplane.plane.sessions import Session
from memplane.wiring import open_plane

__all__ = ["checkpoint", "end", "list_sessions", "show", "start"]

_Id = Annotated[str, typer.Argument(metavar="ID", help="The session's name.")]
_Agent = Annotated[
    str | None, typer.Option(metavar="NAME", help="Whose session; without it, nobody's.")
]
_NAMES_SHOWN = 10


@command("start", example="session start fix-login --agent coder", group=session_app)
def start(
    session: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Its name; without one it gets one.")
    ] = None,
    *,
    agent: _Agent = None,
    branch: Annotated[
        str | None, typer.Option(metavar="NAME", help="The git branch that it works on.")
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Begin a session and print its name.

    Of the same agent's others, those silent for longer than plane.yaml's gap_minutes are ended.
    """
    with open_plane(home) as plane:
        started = plane.sessions.start(session, agent=agent, branch=branch)
        words = [started.session, *(_ended(one) for one in started.ended)]
    put(started.as_json(), "\n".join(words), as_json=as_json)


@command("checkpoint", example='session checkpoint s1 "tests are green"', group=session_app)
def checkpoint(
    session: _Id,
    text: Annotated[str, typer.Argument(metavar="[TEXT]", help="What there is to say.")] = "",
    *,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Mark a point in a session: the head of its blocks is chosen anew from here on."""
    with open_plane(home) as plane:
        receipt = plane.sessions.checkpoint(session, text)
    put(receipt.as_json(), f"{receipt.seq} {receipt.id}", as_json=as_json)


@command("end", example="session end s1", group=session_app)
def end(
    session: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Its name, or none with --idle.")
    ] = None,
    *,
    no_summary: Annotated[bool, typer.Option("--no-summary", help="Do not sum it up.")] = False,
    idle: Annotated[
        bool,
        typer.Option("--idle", help="All that were silent longer than plane.yaml's gap_minutes."),
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """End a session and sum it up in an event. One that has ended stays as it is."""
    if (session is not None) == idle:
        found = "both" if idle else "none"
        raise InputError(f"expected ID or --idle, found {found}")
    with open_plane(home) as plane:
        if session is None:
            many = plane.sessions.end_idle(summary=not no_summary)
            words = "\n".join(_ended(one) for one in many) or "no session is idle"
            put([one.as_json() for one in many], words, as_json=as_json)
            return
        ended = plane.sessions.end(session, summary=not no_summary)
        words = _ended(ended)
    put(ended.as_json(), words, as_json=as_json)


@command("list", example="session list --open", group=session_app)
def list_sessions(
    *,
    agent: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only this agent's sessions, as it sees them."),
    ] = None,
    only_open: Annotated[bool, typer.Option("--open", help="Only what has not ended.")] = False,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List the newest 200 sessions, the latest last: idle is open, and silent for long."""
    with open_plane(home) as plane:
        found = plane.sessions.list(agent=agent, only_open=only_open, channel=channel)
    words = "\n".join(_row(one) for one in found)
    put([one.as_json() for one in found], words, as_json=as_json)


@command("show", example="session show s1", group=session_app)
def show(
    session: _Id,
    *,
    agent: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Who reads: it alone is told what is in its namespace."),
    ] = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Print what a session came to, in figures, and its summary."""
    with open_plane(home) as plane:
        found = plane.sessions.get(session, channel=channel, agent=agent)
    put(found.as_json(), _whole(found), as_json=as_json)


def _ended(ended: Ended) -> str:
    name = one_line(ended.session)
    if ended.already:
        return f"{name} had ended already ({_reason(ended.reason)}); nothing was written"
    summary = ended.summary
    said = "no summary" if summary is None else f"summary in event {summary.seq}"
    return f"ended {name} ({_reason(ended.reason)}), {said}"


def _reason(reason: str | None) -> str:
    return one_line(reason or "no reason given")


def _row(one: Session) -> str:
    more = "+" if one.partial else ""
    events = f"{sum(one.events.values())}{more} events"
    agent = one_line(one.agent or "", 20)
    name = one_line(one.id, 60)
    return f"{one.last[:19]}Z  {one.status:<5}  {events:>12}  {agent:<10}  {name}"


def _whole(one: Session) -> str:
    status = one.status if one.reason is None else f"{one.status} ({one_line(one.reason)})"
    kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(one.events.items()))
    tools = f"{counted(one.calls, 'tool call')}, {counted(one.errors, 'error')}"
    lines = [
        ("session", one.id),
        ("agent", one.agent),
        ("branch", one.branch),
        ("folder", one.cwd),
        ("status", status),
        ("from", one.first),
        ("to", one.last),
        ("events", f"{sum(one.events.values())}: {kinds}"),
        ("prompts", str(one.prompts)),
        ("tools", tools),
        ("decisions", str(one.decisions)),
        ("tokens", str(one.tokens)),
        ("files", _named(one.files, more=one.more)),
        ("tasks", _named(one.tasks, more=False)),
    ]
    shown = [f"{name:<12}{one_line(value, 1000)}" for name, value in lines if value]
    return "\n".join([*shown, "", one.summary.text] if one.summary else shown)


def _named(names: tuple[str, ...], *, more: bool) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN])
    return f"{shown}, and others" if more or len(names) > _NAMES_SHOWN else shown
