"""`memplane log`: what happened, as a list, or as it goes on happening."""

import sys
import time
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias

import typer

from memplane.cli.app import command
from memplane.cli.options import Agent, Channel, Home, Json, OneNs, Session
from memplane.cli.output import fields_of, in_words, put, recalled, rows, say_damage
from memplane.event import Event
from memplane.plane import Plane
from memplane.wiring import open_plane

__all__ = ["log"]

# An event as JSON values, and in words.
_Show: TypeAlias = Callable[[Event], tuple[dict[str, Any], str]]

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
    whole: Annotated[
        bool,
        typer.Option("--whole", help="Whole texts, and what was moved out of them, not a line."),
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with what is recorded, until Ctrl-C.")
    ] = False,
    agent: Agent = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List the last events, in log order. With --follow, JSON is one event a line.

    With --whole each event has its whole text, and for the owner the quoted blocks that were moved
    out of it.
    """
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

        owner = channel == "private" and agent is None

        def shown(event: Event) -> tuple[dict[str, Any], str]:
            return _whole(plane, event, owner=owner) if whole else (fields_of(event), rows([event]))

        events = read(after, limit or None) if after is not None else _last(read, head, limit)
        if not follow:
            found = [shown(event) for event in events]
            put([one for one, _ in found], "\n".join(said for _, said in found), as_json=as_json)
            return
        _print(events, shown, as_json=as_json)
        try:
            _follow(plane, head, kind, session, ns, channel, agent, shown, as_json=as_json)
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
    agent: str | None, shown: _Show, *, as_json: bool,
) -> None:  # fmt: skip
    while True:
        head = plane.head().seq
        if head > seen:
            found = plane.events(
                kind=kind, session=session, ns=ns, after=seen, channel=channel, agent=agent
            )
            new = [event for event in found if event.seq <= head]
            _print(new, shown, as_json=as_json)
            seen = head
        time.sleep(_POLL_SECONDS)


def _print(events: list[Event], shown: _Show, *, as_json: bool) -> None:
    for event in events:
        put(*shown(event), as_json=as_json)
    sys.stdout.flush()


def _whole(plane: Plane, event: Event, *, owner: bool) -> tuple[dict[str, Any], str]:
    """An event with its whole text; for the owner with what was moved out of it."""
    text, blocks = plane.text(event), recalled(plane, event) if owner else []
    fields = {**fields_of(event), "text": text, **({"recalled": blocks} if blocks else {})}
    head = rows([event._replace(text="")])
    return fields, "\n".join([head, *([text] if text else []), *in_words(blocks), ""])
