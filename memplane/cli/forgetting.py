"""`memplane forget`, `unforget`, `pin`, `unpin`, `touch`, `evict`: what stands in blocks."""

from typing import Annotated, Any

import typer

from memplane.cli.app import command
from memplane.cli.fields import number
from memplane.cli.options import (
    Decisions,
    Home,
    Json,
    Now,
    Ns,
    OfKind,
    OlderThan,
    OneNs,
    Reason,
    WithTag,
    Yes,
    kept_words,
)
from memplane.cli.output import counted, fields_of, one_line, put, rows, say
from memplane.cli.progress import Bar
from memplane.cli.reading import named
from memplane.errors import InputError
from memplane.event import GLOBAL
from memplane.plane import Plane, Receipt
from memplane.plane.picking import Forgotten
from memplane.wiring import open_plane

__all__ = ["evict", "forget", "pin", "touch", "unforget", "unpin"]

_Key = Annotated[str | None, typer.Argument(metavar="KEY", help="The value under this key.")]
_Id = Annotated[str | None, typer.Option("--id", metavar="ID|SEQ", help="This one event.")]
_Session = Annotated[str | None, typer.Option(metavar="ID", help="A whole session.")]
_Source = Annotated[
    str | None, typer.Option(metavar="PREFIX", help="All ids of an importer: claude-code.")
]
_Event = Annotated[str | None, typer.Argument(metavar="ID|SEQ", help="A statement's id or number.")]
_OfKey = Annotated[
    str | None, typer.Option("--key", metavar="KEY", help="The value that this key has now.")
]


@command("forget", example="forget db.engine --reason outdated")
def forget(
    key: _Key = None,
    *,
    ns: OneNs = None,
    event_id: _Id = None,
    session: _Session = None,
    source: _Source = None,
    tag: WithTag = None,
    older_than: OlderThan = None,
    kind: OfKind = None,
    decisions: Decisions = False,
    yes: Yes = False,
    now: Now = None,
    reason: Reason = "",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Take something out of all blocks and lists. The log keeps it; `unforget` takes it back.

    --tag and --older-than describe what goes: it is said, and forgotten with --yes. Decisions,
    rules, constraints and pins stay, unless --decisions or their --kind is given.
    """
    described: dict[str, Any] = {
        "tag": tag, "older_than": older_than, "kind": kind, "decisions": decisions, "now": now,
    }  # fmt: skip
    with open_plane(home) as plane, Bar("reading") as bar:
        if not tag and older_than is None:
            if any(described.values()) or yes:
                raise InputError("--kind, --decisions, --now and --yes go with --tag, --older-than")
            given = _named(plane, key, ns or GLOBAL, event_id, session, source)
            receipt = plane.forget(**given, reason=reason)
            _tell(receipt, f"forgotten: {_words(given)}", as_json=as_json)
            return
        if any((key, event_id, session, source)):
            raise InputError(
                "--tag and --older-than go with none of KEY, --id, --session, --source"
            )
        done = plane.forget_many(
            **described, ns=ns, reason=reason, dry_run=not yes, progress=bar
        )  # fmt: skip
    _tell_many(done, dry_run=not yes, as_json=as_json)


def _tell_many(done: Forgotten, *, dry_run: bool, as_json: bool) -> None:
    answer = {
        "dry_run": dry_run, "taken": [fields_of(event) for event in done.taken], "kept": done.kept,
        "receipts": [receipt.as_json() for receipt in done.receipts],
    }  # fmt: skip
    put(answer, rows(list(done.taken)), as_json=as_json)
    by = ", ".join(str(receipt.seq) for receipt in done.receipts)
    what = "would be forgotten: nothing was written, --yes does it" if dry_run else "forgotten"
    say(f"{counted(len(done.taken), 'event')} {what}" + (f" (event {by})" if by else ""))
    if done.kept:
        say(kept_words(done.kept))


@command("unforget", example="unforget db.engine")
def unforget(
    key: _Key = None,
    *,
    ns: Ns = "/global",
    event_id: _Id = None,
    session: _Session = None,
    source: _Source = None,
    reason: Reason = "",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Take back the forgetting of what is named, as `forget` names it."""
    with open_plane(home) as plane:
        given = _named(plane, key, ns, event_id, session, source)
        receipt = plane.unforget(**given, reason=reason)
    _tell(receipt, f"no longer forgotten: {_words(given)}", as_json=as_json)


@command("pin", example="pin 2")
def pin(
    event_id: _Event = None,
    *,
    key: _OfKey = None,
    ns: Ns = "/global",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Put a decision or card before others in blocks, from the next session on."""
    with open_plane(home) as plane:
        receipt = plane.pin(**_statement(plane, event_id, key, ns))
        event = plane.event(receipt.event.refs[0])
    _tell(receipt, f"pinned: {event.seq} {event.id}", as_json=as_json)


@command("unpin", example="unpin 2")
def unpin(
    event_id: _Event = None,
    *,
    key: _OfKey = None,
    ns: Ns = "/global",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Take a pin back."""
    with open_plane(home) as plane:
        receipt = plane.unpin(**_statement(plane, event_id, key, ns))
        event = plane.event(receipt.event.refs[0])
    _tell(receipt, f"no longer pinned: {event.seq} {event.id}", as_json=as_json)


@command("touch", example="touch 2")
def touch(
    event_id: _Event = None,
    *,
    key: _OfKey = None,
    ns: Ns = "/global",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Say that a memory still holds: its importance fades anew from now on."""
    with open_plane(home) as plane:
        receipt = plane.touch(**_statement(plane, event_id, key, ns))
        event = plane.event(receipt.event.refs[0])
    _tell(receipt, f"touched: {event.seq} {event.id}", as_json=as_json)


@command("evict", example="evict --below 0.1 --dry-run")
def evict(
    *,
    below: Annotated[
        str,
        typer.Option(metavar="N", help="What has faded below it: 0 to 1000, or 0.0 to 1.0."),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would take; write nothing.")
    ] = False,
    ns: OneNs = None,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="Only this kind.")] = None,
    now: Now = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Archive the memories that have faded below a line.

    Facts, observations, plans, summaries, insights and preferences, by what time has left of their
    importance (half_lives of scoring.yaml). Never a decision, a rule, a constraint or what is
    pinned. The log keeps them; `unforget --id` takes one back.
    """
    line = number(below, "--below")
    assert line is not None, "typer demands it"
    with open_plane(home) as plane, Bar("reading") as bar:
        done = plane.evict(line, dry_run=dry_run, ns=ns, kind=kind, now=now, progress=bar)
    taken = [{**fields_of(one.event), "importance_now": one.importance} for one in done.taken]
    words = "\n".join(
        f"{one.event.seq:>6}  {one.importance:>4} of {one.event.importance:<4}  "
        f"{one_line(f'{one.event.kind} {one.event.key or one.event.ns}', 28):<28}  "
        f"{one_line(one.event.text)}".rstrip()
        for one in done.taken
    )
    receipts = [receipt.as_json() for receipt in done.receipts]
    put({"dry_run": dry_run, "taken": taken, "receipts": receipts}, words, as_json=as_json)
    what = "would be archived" if dry_run else "archived"
    by = ", ".join(str(receipt.seq) for receipt in done.receipts)
    say(f"{counted(len(taken), 'memory', 'memories')} {what}" + (f" (event {by})" if by else ""))


def _named(
    plane: Plane, key: str | None, ns: str, event_id: str | None, session: str | None,
    source: str | None,
) -> dict[str, Any]:  # fmt: skip
    """What was named, as the library takes it."""
    one = {"key": key, "id": event_id, "session": session, "source": source}
    given: dict[str, Any] = {name: value for name, value in one.items() if value is not None}
    if len(given) != 1:
        found = ", ".join(given) or "none"
        raise InputError(
            f"expected exactly one of KEY, --id, --session and --source, found {found}"
        )
    if event_id is not None:
        given["id"] = named(plane, event_id).id
    if key is not None:
        given["ns"] = ns
    return given


def _statement(
    plane: Plane, event_id: str | None, key: str | None, ns: str
) -> dict[str, Any]:  # fmt: skip
    """What to pin, as the library takes it."""
    if (event_id is None) == (key is None):
        found = "none" if key is None else "both"
        raise InputError(f"expected exactly one of ID|SEQ and --key, found {found}")
    if event_id is not None:
        return {"id": named(plane, event_id).id}
    return {"key": key, "ns": ns}


def _words(given: dict[str, Any]) -> str:
    return " ".join(f"{name} {value}" for name, value in given.items())


def _tell(receipt: Receipt, words: str, *, as_json: bool) -> None:
    put(receipt.as_json(), f"{words} (event {receipt.seq})", as_json=as_json)
