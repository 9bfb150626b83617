"""`memplane show`, `get`, `keys`, `history`, `decisions`: single events and values."""

from contextlib import suppress
from typing import Annotated, Any

import typer

from memplane.cli.app import command
from memplane.cli.options import Agent, Channel, Home, Json, Now, Ns, OneNs
from memplane.cli.output import (
    data,
    fields_of,
    in_words,
    one_line,
    print_text,
    put,
    recalled,
    rows,
    say,
    say_damage,
)
from memplane.errors import NotFoundError
from memplane.event import Event
from memplane.intake.redact import shown
from memplane.plane import Plane, Standing
from memplane.wiring import open_plane

__all__ = ["decisions", "get", "history", "keys", "named", "show"]

_Key = Annotated[str, typer.Argument(metavar="KEY", help="As it was recorded.")]


def named(plane: Plane, given: str, *, channel: str = "private", agent: str | None = None) -> Event:
    """The event that an argument names: a number is a seq first, and else an id like any other."""
    if given.isascii() and given.isdigit() and len(given) < 19:
        try:
            return plane.event(int(given), channel=channel, agent=agent)
        except NotFoundError as error:
            with suppress(NotFoundError):
                return plane.event(given, channel=channel, agent=agent)
            raise error from None
    return plane.event(given, channel=channel, agent=agent)


@command("show", example="show 2")
def show(
    event_id: Annotated[str, typer.Argument(metavar="ID|SEQ", help="An event's id or number.")],
    *,
    now: Now = None,
    agent: Agent = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Print one event whole, what became of it, and what time has left of its importance.

    It is superseded, forgotten or evicted by the event that is named, or expired by its own
    valid_until; the newer one names what it supersedes. The owner also sees the quoted blocks that
    were moved out of its text.
    """
    with open_plane(home) as plane:
        event = named(plane, event_id, channel=channel, agent=agent)
        text = plane.text(event)
        blocks = recalled(plane, event) if channel == "private" and agent is None else []
        standing = plane.standing(event, now=now, channel=channel, agent=agent)
    fields = {**fields_of(event), "text": text}
    if as_json:
        data({**fields, **_standing(standing), **({"recalled": blocks} if blocks else {})})
        return
    lines = [f"{name:<12}{_shown(value)}" for name, value in fields.items() if name != "text"]
    lines += _told(event, standing)
    print_text("\n".join([*lines, *(["", text] if text else []), *in_words(blocks)]))


@command("get", example="get db.engine")
def get(
    key: _Key,
    *,
    ns: Ns = "/global",
    now: Now = None,
    agent: Agent = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Print the value that a key has now."""
    with open_plane(home) as plane:
        say_damage(plane)
        event = plane.get(key, ns, channel=channel, now=now, agent=agent)
        if event is None:
            raise NotFoundError(f"no value under {shown(key)} in {ns}")
        text = plane.text(event)
        standing = plane.standing(event, now=now, channel=channel, agent=agent)
    put({**fields_of(event), "text": text, **_standing(standing)}, text, as_json=as_json)


@command("keys", example="keys db.")
def keys(
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="Only keys that begin so.")] = "",
    *,
    ns: Ns = "/global",
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="At most so many.")] = 1000,
    now: Now = None,
    agent: Agent = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List the keys that have a value now."""
    with open_plane(home) as plane:
        found = plane.keys(prefix, ns, channel=channel, limit=limit, now=now, agent=agent)
    put(found, "\n".join(found), as_json=as_json)
    if found.more:
        say(f"these are the first {limit}; there are more: raise --limit, or give a longer prefix")


@command("history", example="history db.engine")
def history(
    key: _Key,
    *,
    ns: Ns = "/global",
    now: Now = None,
    agent: Agent = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List every value that a key had, oldest first, and what became of it."""
    with open_plane(home) as plane:
        found = plane.history(key, ns, channel=channel, now=now, agent=agent)
    if not found:
        raise NotFoundError(f"no value under {shown(key)} in {ns}, now or before")
    as_rows = [
        {
            **fields_of(one.event),
            "reason": one.reason,
            "by_seq": one.by_seq,
            "supersedes": one.supersedes,
        }
        for one in found
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
    agent: Agent = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List the decisions in force, in log order."""
    with open_plane(home) as plane:
        found = plane.decisions(channel=channel, ns=ns, agent=agent)
    put([fields_of(event) for event in found], rows(found), as_json=as_json)


def _standing(standing: Standing) -> dict[str, Any]:
    """How an event stands, as JSON."""
    archived = standing.reason is not None and standing.reason != "pending"
    return {
        "archived": {"reason": standing.reason, "by": standing.by_seq} if archived else None,
        "supersedes": standing.supersedes,
        "importance_now": standing.importance,
        "stale": standing.stale,
        "pinned": standing.pinned,
        "touched": standing.touched,
    }


def _told(event: Event, standing: Standing) -> list[str]:
    """The same in words: what is as usual is left out."""
    told = []
    if standing.reason is not None:
        told.append(f"{standing.reason:<12}{_by(standing.by_seq)}".rstrip())
    if standing.supersedes is not None:
        told.append(f"{'supersedes':<12}{standing.supersedes}")
    if standing.pinned:
        told.append("pinned")
    if standing.touched is not None:
        told.append(f"{'touched':<12}{standing.touched}")
    if standing.importance != event.importance:
        told.append(f"{'now':<12}{standing.importance} of {event.importance} importance")
    if standing.stale:
        told.append("stale")
    return told


def _fate(reason: str | None, by_seq: int | None) -> str:
    return "in force" if reason is None else f"{reason} {_by(by_seq)}".rstrip()


def _by(seq: int | None) -> str:
    return "" if seq is None else f"by {seq}"


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(value)
    return one_line(str(value), 1000)
