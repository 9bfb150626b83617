"""`memplane show`, `get`, `keys`, `history`, `decisions`: single events and values."""

from typing import Annotated, Any

import typer

from memplane.cli.app import command
from memplane.cli.options import Channel, Home, Json, Ns, OneNs
from memplane.cli.output import data, fields_of, one_line, put, rows
from memplane.errors import NotFoundError
from memplane.event import Event
from memplane.intake.redact import shown
from memplane.plane import Plane
from memplane.wiring import open_plane

__all__ = ["decisions", "get", "history", "keys", "named", "show"]

_Key = Annotated[str, typer.Argument(metavar="KEY", help="As it was recorded.")]


def named(plane: Plane, given: str, *, channel: str = "private") -> Event:
    """The event that an argument names: a number is a seq first, and else an id like any other."""
    if given.isascii() and given.isdigit() and len(given) < 19:
        try:
            return plane.event(int(given), channel=channel)
        except NotFoundError:
            pass
    return plane.event(given, channel=channel)


@command("show", example="show 2")
def show(
    event_id: Annotated[str, typer.Argument(metavar="ID|SEQ", help="An event's id or number.")],
    *,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Print one event whole, and what became of it."""
    with open_plane(home) as plane:
        event = named(plane, event_id, channel=channel)
        text = plane.text(event)
        reason, by_seq = _became(plane, event)
    fields = {**fields_of(event), "text": text}
    if as_json:
        data({**fields, "archived": None if reason is None else {"reason": reason, "by": by_seq}})
        return
    lines = [f"{name:<12}{_shown(value)}" for name, value in fields.items() if name != "text"]
    if reason is not None:
        lines.append(f"{reason:<12}by {by_seq}")
    print("\n".join([*lines, "", text] if text else lines))


@command("get", example="get db.engine")
def get(
    key: _Key,
    *,
    ns: Ns = "/global",
    channel: Channel = "private",
    now: Annotated[
        str | None, typer.Option(metavar="TIME", help="As the clock stands then: RFC 3339.")
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Print the value that a key has now."""
    with open_plane(home) as plane:
        event = plane.get(key, ns, channel=channel, now=now)
        if event is None:
            raise NotFoundError(f"no value under {shown(key)} in {ns}")
        text = plane.text(event)
    put({**fields_of(event), "text": text}, text, as_json=as_json)


@command("keys", example="keys db.")
def keys(
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="Only keys that begin so.")] = "",
    *,
    ns: Ns = "/global",
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="At most so many.")] = 1000,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List the keys that have a value now."""
    with open_plane(home) as plane:
        found = plane.keys(prefix, ns, channel=channel, limit=limit)
    put(found, "\n".join(found), as_json=as_json)


@command("history", example="history db.engine")
def history(
    key: _Key,
    *,
    ns: Ns = "/global",
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List every value that a key had, oldest first, and what became of it."""
    with open_plane(home) as plane:
        found = plane.history(key, ns, channel=channel)
    if not found:
        raise NotFoundError(f"no value under {shown(key)} in {ns}, now or before")
    as_rows = [
        {**fields_of(one.event), "reason": one.reason, "by_seq": one.by_seq} for one in found
    ]
    words = "\n".join(
        f"{one.event.seq:>6}  {one.event.ts[:19]}Z  {_fate(one.reason, one.by_seq):<20}  "
        f"{one_line(one.event.text)}"
        for one in found
    )
    put(as_rows, words, as_json=as_json)


@command("decisions", example="decisions")
def decisions(
    *,
    ns: OneNs = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List the decisions in force, in log order."""
    with open_plane(home) as plane:
        found = plane.decisions(channel=channel, ns=ns)
    put([fields_of(event) for event in found], rows(found), as_json=as_json)


def _became(plane: Plane, event: Event) -> tuple[str | None, int | None]:
    """Why an event is out of force and by which one; (None, None) where it is in force."""
    return plane.archived(event) or (None, None)


def _fate(reason: str | None, by_seq: int | None) -> str:
    return "in force" if reason is None else f"{reason} by {by_seq}"


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(value)
    return one_line(str(value), 1000)
