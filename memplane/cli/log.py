"""`memplane log`: what happened, as a list, or as it goes on happening."""

import sys
import time
from collections.abc import Callable
from typing import Annotated, Final

import typer

from memplane.cli.app import command
from memplane.cli.options import Agent, Channel, Home, Json, OneNs, Session
from memplane.cli.output import fields_of, put, rows, say_damage
from memplane.event import Event
from memplane.plane import Plane
from memplane.wiring import open_plane

__all__ = ["log"]

_POLL_SECONDS: Final = 0.2
_FIRST_LOOK: Final = 256


@command("log", example="log --limit 5")
def log(
    *,
    limit: Annotated[
        int, typer.Option(metavar="N", min=0, help="At most so many; 0 means all.")
    ] = 20,
    after: Annotated[
        int | None,
        typer.Option(metavar="SEQ", min=0, help="The first ones behind it, not the last ones."),
    ] = None,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="Only this kind.")] = None,
    session: Session = None,
    ns: OneNs = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with what is recorded, until Ctrl-C.")
    ] = False,
    agent: Agent = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List the last events, in log order. With --follow, JSON is one event a line."""
    with open_plane(home) as plane:
        say_damage(plane)
        # Taken first: what is recorded while the list is read must not fall between the two.
        head = plane.head().seq

        def read(behind: int, most: int | None) -> list[Event]:
            found = plane.events(
                kind=kind, session=session, ns=ns, after=behind, limit=most, channel=channel,
                agent=agent,
            )  # fmt: skip
            return [event for event in found if event.seq <= head]

        events = read(after, limit or None) if after is not None else _last(read, head, limit)
        if not follow:
            put([fields_of(event) for event in events], rows(events), as_json=as_json)
            return
        _print(events, as_json=as_json)
        try:
            _follow(plane, head, kind, session, ns, channel, agent, as_json=as_json)
        except KeyboardInterrupt:
            return


def _last(read: Callable[[int, int | None], list[Event]], head: int, limit: int) -> list[Event]:
    """The last `limit` that match: looks back in growing steps, to read no more than it must."""
    if not limit:
        return read(0, None)
    step = max(_FIRST_LOOK, limit)
    while True:
        start = max(0, head - step)
        events = read(start, None)
        if len(events) >= limit or not start:
            return events[-limit:]
        step *= 4


def _follow(
    plane: Plane, seen: int, kind: str | None, session: str | None, ns: str | None, channel: str,
    agent: str | None, *, as_json: bool,
) -> None:  # fmt: skip
    while True:
        head = plane.head().seq
        if head > seen:
            found = plane.events(
                kind=kind, session=session, ns=ns, after=seen, channel=channel, agent=agent
            )
            new = [event for event in found if event.seq <= head]
            _print(new, as_json=as_json)
            seen = head
        time.sleep(_POLL_SECONDS)


def _print(events: list[Event], *, as_json: bool) -> None:
    for event in events:
        put(fields_of(event), rows([event]), as_json=as_json)
    sys.stdout.flush()
