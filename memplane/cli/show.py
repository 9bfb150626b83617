"""Commands that print what a plane holds: bare `memplane`, `show`, `get`, `keys`, `log` and others.

`memplane init` is here too, since it ends by printing the new plane.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from memplane.cli import commands
from memplane.cli.commands import (
    BROKEN,
    FINE,
    Agent,
    Argument,
    Channel,
    Home,
    Json,
    Now,
    Ns,
    OneNs,
    Option,
    Session,
    command,
)
from memplane.cli.output import (
    TableColumn,
    clipped_line,
    counted,
    data,
    event_cells,
    event_json,
    event_rows,
    in_words,
    print_answer,
    print_list,
    print_text,
    recalled,
    say,
    say_aside,
    say_damage,
)
from memplane.errors import HomeError, InputError, NotFoundError, PolicyError
from memplane.event import TYPED_KINDS, Event, relations_of, source_of
from memplane.harness import HarnessSpan, harness_spans, marked_text
from memplane.home import ADDRESS_VARIABLE, HOME_NAME, nearest_home
from memplane.intake.redact import quoted_value
from memplane.lazy import late
from memplane.log import Restart
from memplane.plane import Plane, Receipt, Standing
from memplane.trust import printable
from memplane.wiring import CALLER, init, init_shared, open_plane

if TYPE_CHECKING:
    from memplane.cli import policy as cli_policy
    from memplane.context.event_access import KeyVersion
    from memplane.recall import session_digest as recall_session_digest
    from memplane.upkeep import doctor as upkeep_doctor
else:
    cli_policy = late("memplane.cli.policy")
    recall_session_digest = late("memplane.recall.session_digest")
    upkeep_doctor = late("memplane.upkeep.doctor")


_Key = Annotated[str, Argument(metavar="KEY", help="As it was recorded.")]


def named_event(
    plane: Plane, given: str, *, channel: str = "private", agent: str | None = None
) -> Event:
    """The event of an argument: a number is tried as a seq first, then as an id."""
    seq = commands.ref(given)
    if isinstance(seq, int):
        try:
            return plane.event(seq, channel=channel, agent=agent)
        except NotFoundError as error:
            with suppress(NotFoundError):
                return plane.event(given, channel=channel, agent=agent)
            raise error from None
    return plane.event(given, channel=channel, agent=agent)


@command("show", example="show 2")
def print_event(
    event_id: Annotated[str, Argument(metavar="ID|SEQ", help="An event's id or number.")],
    *,
    now: Now = None,
    agent: Agent = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Print one event whole, what became of it, and what time has left of its importance.

    It is superseded, forgotten or evicted by the event that is named, or expired by its own
    valid_until; the newer one names what it supersedes. What its client put into its text, which is
    in no block and no answer, stands between marks. The owner also sees the quoted blocks that were
    moved out of its text.
    """
    with open_plane(home) as plane:
        event = named_event(plane, event_id, channel=channel, agent=agent)
        text = plane.text(event)
        blocks = recalled(plane, event) if channel == "private" and agent is None else []
        standing = plane.work.standing(event, now=now, channel=channel, agent=agent)
    spans = harness_spans(event, text)
    fields = {**event_json(event), "text": text}
    if as_json:
        data(
            {
                **fields,
                **_harness(spans),
                **_source(event),
                **_standing(standing),
                **({"recalled": blocks} if blocks else {}),
            }
        )
        return
    lines = [f"{name:<12}{_shown(value)}" for name, value in fields.items() if name != "text"]
    lines += _source_lines(event)
    lines += _told(event, standing)
    text = marked_text(text, spans)
    print_text("\n".join([*lines, *(["", text] if text else []), *in_words(blocks)]))


@command("get", example="get db.engine")
def print_value(
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
            raise NotFoundError(f"no value under {quoted_value(key)} in {ns}")
        text = plane.text(event)
        standing = plane.work.standing(event, now=now, channel=channel, agent=agent)
    said = {"said_by": event.said_by} if event.said_by is not None else {}
    print_answer(
        {**event_json(event), "text": text, **said, **_standing(standing)}, text, as_json=as_json
    )


@command("keys", example="keys db.")
def keys(
    prefix: Annotated[str, Argument(metavar="PREFIX", help="Only keys that begin so.")] = "",
    *,
    ns: Ns = "/global",
    limit: Annotated[int, Option(metavar="N", min=1, help="At most so many.")] = 1000,
    now: Now = None,
    agent: Agent = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List the keys that have a value now."""
    with open_plane(home) as plane:
        found = plane.keys(prefix, ns, channel=channel, limit=limit, now=now, agent=agent)
    print_answer(found, "\n".join(found), as_json=as_json)
    if found.more:
        say(f"these are the first {limit}; there are more: raise --limit, or give a longer prefix")


@command("history", example="history db.engine")
def print_history(
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
        raise NotFoundError(f"no value under {quoted_value(key)} in {ns}, now or before")
    as_rows = [
        {
            **event_json(one.event),
            "reason": one.reason,
            "by_seq": one.by_seq,
            "supersedes": one.supersedes,
        }
        for one in found
    ]
    words = "\n".join(
        f"{one.event.seq:>6}  {one.event.ts[:19]}Z  {_fate(one.reason, one.by_seq):<20}  "
        f"{clipped_line(one.event.text)}"
        for one in found
    )
    print_list(as_rows, words, _HISTORY, [_value_cells(one) for one in found], as_json=as_json)


_EVENTS: Final = (
    TableColumn("seq", right=True),
    TableColumn("time", dim=True),
    TableColumn("what"),
    TableColumn("text", wraps=True),
)
_HISTORY: Final = (
    TableColumn("seq", right=True),
    TableColumn("time", dim=True),
    TableColumn("became"),
    TableColumn("value", wraps=True),
)


def _value_cells(one: KeyVersion) -> tuple[str, ...]:
    event = one.event
    at = event.ts[:16].replace("T", " ")
    return str(event.seq), at, _fate(one.reason, one.by_seq), clipped_line(event.text, 400)


@command("decisions", example="decisions")
def decisions(
    words: Annotated[
        list[str] | None,
        Argument(metavar="[name ID|SEQ KEY]", help="Give a decision a key; else list them."),
    ] = None,
    *,
    ns: OneNs = None,
    agent: Agent = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List the decisions in force, in log order, or name one.

    In force is what was recorded as a decision, and what a user said with `Decision: ...` at the
    beginning of a line. Without a key nothing replaces it; `decisions name 12 db.engine` gives one.
    What was made of an answer is turned round by a later answer to the same; such a one is named
    below the others, with the day and what turned it round.
    """
    with open_plane(home) as plane:
        if words:
            receipt = _name_decision(plane, words)
            print_answer(receipt.as_json(), f"{receipt.seq} {receipt.id}", as_json=as_json)
            return
        found = plane.work.decisions(channel=channel, ns=ns, agent=agent, reversed_too=True)
    gone = recall_session_digest.reversed_by(map(recall_session_digest.derived, found))
    by = {event.seq: event for event in found}
    held = [event for event in found if event.seq not in gone]
    told = {
        seq: (f"reversed {by[later].ts[:10]} by {later}", clipped_line(by[seq].text, 100))
        for seq, later in gone.items()
    }
    lines = "\n".join(filter(None, (event_rows(held), *map(": ".join, told.values()))))
    cells = [event_cells(event) for event in held]
    cells += [(*event_cells(by[seq])[:2], *pair) for seq, pair in told.items()]
    print_list([event_json(one) for one in held], lines, _EVENTS, cells, as_json=as_json)


def _name_decision(plane: Plane, words: list[str]) -> Receipt:
    if len(words) != 3 or words[0] != "name":
        raise InputError("expected `name ID|SEQ KEY`, or nothing", where="decisions")
    return plane.work.name_decision(commands.ref(words[1]), words[2])


def _harness(spans: list[HarnessSpan]) -> dict[str, Any]:
    """What of a text is its client's, as JSON: characters from `start` up to `end`, and what."""
    return {"harness": [span._asdict() for span in spans]} if spans else {}


def _source(event: Event) -> dict[str, Any]:
    """Where a statement is from and how it relates to others, as JSON; {} for other events."""
    if event.kind not in TYPED_KINDS:
        return {}
    source = {name: one for name, one in source_of(event)._asdict().items() if one is not None}
    related = [one._asdict() for one in relations_of(event)]
    return {
        "said_by": source.pop("said_by", None),
        **({"source": source} if source else {}),
        **({"relations": related} if related else {}),
    }


def _source_lines(event: Event) -> list[str]:
    """The same in words."""
    said = _source(event)
    source, related = said.get("source", {}), said.get("relations", [])
    by = [f"{'said by':<12}{said['said_by']}"] if said.get("said_by") else []
    return [
        *by,
        *(f"{name:<12}{_shown(one)}" for name, one in source.items() if name != "actor"),
        *(f"{one['name'].replace('_', ' '):<12} {_shown(one['id'])}" for one in related),
    ]


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
    return clipped_line(str(value), 1000)


# `memplane log`: what happened, as a list, or as it goes on happening.

# An event as JSON values, and in words.
_Show: TypeAlias = Callable[[Event], tuple[dict[str, Any], str]]

_POLL_SECONDS: Final = 0.2
_FIRST_LOOK: Final = 256


@command("log", example="log --limit 5")
def print_log(
    *,
    limit: Annotated[int, Option(metavar="N", min=0, help="At most so many; 0 means all.")] = 20,
    after: Annotated[
        int | None,
        Option(metavar="SEQ", min=0, help="The first ones behind it, not the last ones."),
    ] = None,
    kind: Annotated[str | None, Option(metavar="KIND", help="Only this kind.")] = None,
    session: Session = None,
    ns: OneNs = None,
    whole: Annotated[
        bool, Option("--whole", help="Whole texts, with what was moved out, not a line.")
    ] = False,
    follow: Annotated[
        bool, Option("--follow", help="Go on with what is recorded, until Ctrl-C.")
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
            if whole:
                return _whole(plane, event, owner=owner)
            return event_json(event), event_rows([_marked(event)])

        events = read(after, limit or None) if after is not None else _last(read, head, limit)
        if not follow:
            found = [shown(event) for event in events]
            rows = [] if whole else [event_cells(_marked(event)) for event in events]
            words = "\n".join(said for _, said in found)
            print_list([one for one, _ in found], words, _EVENTS, rows, as_json=as_json)
            return
        _print(events, shown, as_json=as_json)
        try:
            _follow(plane, head, kind, session, ns, channel, agent, shown, as_json=as_json)
        except KeyboardInterrupt:
            return


def _marked(event: Event) -> Event:
    """The event with what its client added to the text marked in it."""
    return event._replace(text=marked_text(event.text, harness_spans(event)))


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
    plane: Plane,
    seen: int,
    kind: str | None,
    session: str | None,
    ns: str | None,
    channel: str,
    agent: str | None,
    shown: _Show,
    *,
    as_json: bool,
) -> None:
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
        print_answer(*shown(event), as_json=as_json)
    sys.stdout.flush()


def _whole(plane: Plane, event: Event, *, owner: bool) -> tuple[dict[str, Any], str]:
    """An event with its whole text; for the owner with what was moved out of it."""
    text, blocks = plane.text(event), recalled(plane, event) if owner else []
    spans = harness_spans(event, text)
    fields = {**event_json(event), "text": text, **_harness(spans)}
    fields |= {"recalled": blocks} if blocks else {}
    head, text = event_rows([event._replace(text="")]), marked_text(text, spans)
    return fields, "\n".join([head, *([text] if text else []), *in_words(blocks), ""])


# `memplane` alone: where the plane is, what is in it, what a block costs; and `memplane init`.

_NOTHING_YET = 'memplane record "what happened", or memplane import PATH'


def print_status(home: str | None, project: str | None, *, as_json: bool) -> int:
    """Print what the plane holds and the next step; returns BROKEN where something is wrong."""
    if project is not None:
        CALLER.set(CALLER.get()._replace(project=project))
    try:
        with open_plane(home) as plane:
            say_damage(plane)
            found = _found(plane)
        say_aside(plane)
        print_answer(found, _words(found), as_json=as_json)
    except HomeError as error:
        error.add_note("`memplane demo` shows what it does; `memplane help` lists the commands")
        raise
    return BROKEN if found["mistakes"] or found["gaps"] or found["damage"] else FINE


@command("init", example="init")
def initialise(
    folder: Annotated[
        str | None,
        Argument(metavar="DIR", help="The folder; else --home, MEMPLANE_HOME, .memplane."),
    ] = None,
    *,
    shared: Annotated[
        str | None,
        Option("--shared", metavar="NAME", help="Begin a log of that name for many machines."),
    ] = None,
    address: Annotated[
        str,
        Option("--address", metavar="VARIABLE", help="The variable with the engine's address."),
    ] = ADDRESS_VARIABLE,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Make a plane, with policies to edit. One that is there stays as it is.

    With --shared its log is one that other machines follow as well (`memplane join NAME`); the
    address of the engine, postgresql://... or nats://..., stands in MEMPLANE_SHARED.

    Says where another plane lies above, which was used here until now, and where the folder is not
    fit for one: on a network, or copied to other machines by a cloud's client.
    """
    if folder is not None and home is not None:
        raise InputError("expected DIR or --home, found both")
    path = folder or home or os.environ.get("MEMPLANE_HOME") or None
    folder_path = Path(path or HOME_NAME).expanduser().absolute()
    there = (folder_path / "plane.json").exists()
    above = None if there else nearest_home(str(folder_path.parent))
    making = init if shared is None else partial(init_shared, name=shared, address=address)
    with making(path) as plane:
        where = str(plane.home.absolute())
        place = upkeep_doctor.filesystem(plane.home)
        unfit = None if place.status == "ok" else f"{place.found}: {place.remedy}"
        facts = {
            "home": where,
            "plane": plane.id,
            "made": not there,
            "above": above,
            "unfit": unfit,
        }
    cli_policy.say_if_untrusted(where)
    if above is not None:
        below = folder_path.parent if folder_path.name == HOME_NAME else folder_path
        say(
            f"{printable(above)} is a plane too: in {printable(str(below))} and below, commands "
            "that name none now use the new one, and elsewhere that one"
        )
    if unfit is not None:
        say(f"a poor place for a plane: {unfit}")
    if as_json:
        data(facts)
    else:
        print(f"{where}: a plane was here already" if there else f"{where}: a new plane")
        print(f"next: {_NOTHING_YET}")


def _found(plane: Plane) -> dict[str, Any]:
    head = plane.head()
    newest = plane.upkeep.hotset().newest_sessions()
    session = newest[0].id if newest else None
    found: dict[str, Any] = {
        "home": str(plane.home.absolute()),
        "plane": plane.id,
        # Each segment begins with a line about itself.
        "events": max(0, head.seq - head.segment),
        "seq": head.seq,
        "session": session,
        "pack": None,
        "shared": None,
        "mistakes": [],
        "gaps": 0,
        "waiting": plane.upkeep.waiting,
        "damage": plane.upkeep.damage,
        "restarts": [restart._asdict() for restart in plane.upkeep.restarts],
        "held": plane.upkeep.held_files(),
        "read_only": plane.read_only,
    }
    try:
        block = plane.pack("", session=session, intent="fast")  # no search: it is not shown
    except PolicyError as error:
        found["mistakes"] = [str(problem) for problem in error.problems]
    else:
        found["shared"] = block.report.get("shared")
        spent_ns = sum(block.report["timings_ns"].values())
        found["pack"] = {
            "tokens": block.tokens,
            "budget": block.report["budget"],
            "us": spent_ns // 1000,
        }
        found["gaps"] = len(block.report["gaps"])
    due = plane.upkeep.due()
    found["due"] = {"events": len(due.seqs), "bytes": due.bytes, "words": str(due)}
    found["next"] = _next(found)
    return found


def _next(found: dict[str, Any]) -> str:
    if found["mistakes"]:
        return "memplane policy check"
    if found["damage"]:
        return "memplane repair"
    if found["gaps"]:
        return "memplane verify"
    return 'memplane pack "your question"' if found["events"] else _NOTHING_YET


def _words(found: dict[str, Any]) -> str:
    cost = found["pack"]
    pack = (
        f"{cost['tokens']} of {cost['budget']} tokens, {cost['us'] / 1000:.1f} ms"
        if cost is not None
        else f"refused: {counted(len(found['mistakes']), 'mistake')} in the policies"
    )
    lines = {
        "home": found["home"] + (" (read-only)" if found["read_only"] else ""),
        "events": str(found["events"]),
        "session": found["session"] or "none yet",
        "pack": pack,
        "next": found["next"],
    }
    if found["gaps"]:
        lines["gaps"] = f"{counted(found['gaps'], 'place')} of the log that cannot be read"
    if found["damage"]:
        lines["log"] = found["damage"]
    elif found["restarts"]:
        lines["log"] = str(Restart(**found["restarts"][-1]))
    if found["held"]:
        names = ", ".join(map(printable, found["held"]))
        lines["trusted"] = f"as it was, not as it is now: {names}; memplane policy accept"
    if found["due"]["events"]:
        lines["keep"] = f"over by plane.yaml: {found['due']['words']}; memplane purge --keep"
    if (shared := found["shared"]) is not None:
        lines["shared"] = shared["fault"] or (
            f"{counted(shared['behind'], 'position')} behind" if shared["behind"] else "up to date"
        )
        if shared["waiting"]:
            lines["shared"] += f"; {counted(shared['waiting'], 'file')} in the outbox"
    elif found["waiting"]:
        lines["spool"] = f"{counted(found['waiting'], 'event')} waiting for the next writer"
    return "\n".join(f"{name:<8}  {value}" for name, value in lines.items())
