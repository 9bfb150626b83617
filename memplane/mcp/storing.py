"""`memory_store` and `memory_forget`: what a client records."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from memplane.errors import ConflictError, InputError, NotFoundError
from memplane.event import Event
from memplane.intake import cleaned
from memplane.intake.redact import masked_name
from memplane.mcp.desk import Desk, event_named, no_value
from memplane.mcp.fitting import Answer, clipped
from memplane.plane.guarding import forget_as, record_as
from memplane.plane.writing import Receipt

__all__ = ["forget", "store"]

_AGAIN_MAX: Final = 1000  # times that the same was stored, archived and stored again
_TASK: Final = "/task/"
_ERASE: Final = "archived, not erased: only `memplane purge` erases it from the log"


def store(desk: Desk, given: dict[str, Any]) -> Answer:
    """Record one statement, unless the very same is in force already.

    Its id is made of what it says, so whoever says it again meets it, in any session and process.
    Where that one was archived since, it is said anew, and its id is made of that too.
    """
    if not cleaned(given["content"]).strip():
        raise InputError(
            "expected a statement, found only blanks or a block that memory gave; nothing was "
            "stored",
            where="content",
        )
    row = _row(desk, given)
    what = _redacted(desk, given)
    engine = desk.plane._engine  # noqa: SLF001 - it writes as the plane does, for an agent
    salt = 0
    for _ in range(_AGAIN_MAX):
        digest = hashlib.sha256(f"{what}{salt or ''}".encode()).hexdigest()[:32]
        try:
            if engine.log.find(f"mcp:{digest}") is None:
                desk.begin()
            receipt = record_as(engine, {**row, "id": f"mcp:{digest}"}, **desk.who)
            if not receipt.duplicate:
                return _stored(receipt)
            seq = receipt.seq
        except ConflictError as error:  # said in another session, or purged
            seq = error.seq
        event = _said(desk, row, seq, f"mcp:{digest}")
        if event is None:
            salt = seq
            continue
        standing = desk.plane.standing(event)  # of the log itself, whoever may see it
        if standing.reason is None:
            return _known(event)
        salt = standing.by_seq or event.seq
    return _stored(record_as(engine, row, **desk.who))


def forget(desk: Desk, given: dict[str, Any]) -> Answer:
    """Archive what is named; again is no mistake."""
    if ("id" in given) == ("key" in given):
        raise InputError("give exactly one of id and key")
    event = _named(desk, given)
    name = f"key {clipped(masked_name(given['key']), 80)}" if "key" in given else f"#{event.seq}"
    standing = desk.plane.standing(event, **desk.who)
    if standing.reason == "forgotten" and standing.by_seq is not None:
        words = f"{name} was forgotten before; {_ERASE}"
        return Answer(words, {"seq": standing.by_seq, "note": words})
    reason = f"{given.get('reason', '')} (by {desk.actor})".strip()
    what: dict[str, str | None]
    what = {"key": given["key"]} if "key" in given else {"id": event.id}
    engine = desk.plane._engine  # noqa: SLF001 - as above
    receipt = forget_as(engine, what, given["ns"], reason, **desk.who)
    words = f"{name} is forgotten; {_ERASE}"
    return Answer(words, {"seq": receipt.seq, "note": words})


def _named(desk: Desk, given: dict[str, Any]) -> Event:
    """What is to be forgotten, if the channel may see it."""
    if "id" in given:
        return event_named(desk, given["id"])
    key, ns = given["key"], given["ns"]
    event = desk.plane.get(key, ns, **desk.who)
    if event is not None:
        return event
    history = desk.plane.history(key, ns, **desk.who)
    # Of one that was superseded the value in force is hidden, so there is none.
    if not history or history[-1].reason == "superseded":
        raise no_value(given)
    return history[-1].event


def _row(desk: Desk, given: dict[str, Any]) -> dict[str, Any]:
    passed = ("key", "tags", "importance", "ns")
    named: dict[str, Any] = {name: given[name] for name in passed if name in given}
    if given["ns"].startswith(_TASK):
        named["task"] = given["ns"].removeprefix(_TASK)
    return {
        "text": given["content"], "kind": given["type"], "session": desk.session,
        "actor": desk.actor, **named,
    }  # fmt: skip


def _redacted(desk: Desk, given: dict[str, Any]) -> str:
    """What makes two statements the same, without secrets: a hash of one could be guessed at."""
    engine = desk.plane._engine  # noqa: SLF001 - what is masked before a log is the engine's
    redact = engine.redact(engine.watched.policies_or_last())
    said = [given["type"], given["ns"], given.get("key"), sorted(given.get("tags", ()))]
    return json.dumps([*said, given["importance"], redact(given["content"])])


def _said(desk: Desk, row: dict[str, Any], seq: int, id_: str) -> Event | None:
    """The event that has the id, where it says the same.

    None where it was purged, is foreign or hidden from the agent: then it is said anew.
    """
    try:
        event = desk.plane.event(seq, **desk.who)
    except NotFoundError:
        return None
    same = event.id == id_ and event.kind == row["kind"]
    return event if same and (event.ns, event.key) == (row["ns"], row.get("key")) else None


def _stored(receipt: Receipt) -> Answer:
    redacted: dict[str, int] = receipt.event.data.get("redactions", {})
    data: dict[str, Any] = {"seq": receipt.seq, "id": receipt.id, "duplicate": False}
    words = f"stored as #{receipt.seq}"
    if redacted:
        data["redacted"] = redacted
        data["note"] = f"{sum(redacted.values())} secret(s) were masked before anything was written"
        words += f"; {data['note']}"
    return Answer(words, data)


def _known(event: Event) -> Answer:
    note = f"known since {event.ts[:10]} as #{event.seq}; nothing was added"
    return Answer(note, {"seq": event.seq, "id": event.id, "duplicate": True, "note": note})
