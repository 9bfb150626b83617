"""A statement changed, and the last statement or forget taken back. The log only grows.

An update records the statement anew, with what changes; without a key the old one is forgotten by
the same append, and the new one names what was (`data.updates`, ids). What `undo` writes names the
events that it takes back (`data.undoes`, ids), so that the next one goes further back. A value that
had been replaced is recorded anew (`data.restores`, its id).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.errors import ConflictError, InputError, NotFoundError
from memplane.event import REFS_MAX, TYPED_KINDS, Event
from memplane.intake.redact import shown
from memplane.plane.forgets import forget_rows
from memplane.plane.quoting import summaries_of
from memplane.plane.writing import Receipt
from memplane.projections.sessions import is_extract

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memplane.plane.engine import Engine
    from memplane.plane.folds import Folds
    from memplane.ports import Appended

__all__ = ["CHANGING", "Undone", "undo", "update"]

# What an update may change.
CHANGING: Final = (
    "text", "importance", "tags", "markers", "sensitivity", "valid_from", "valid_until",
)  # fmt: skip
_KEPT: Final = ("kind", "ns", "task", "actor", "role", "key", *CHANGING)
# What memplane writes into data of an event about that event itself.
_ITS_OWN: Final = frozenset((
    "redactions", "replaced", "marked", "body", "recalled", "origin", "updates", "undoes",
    "restores",
))  # fmt: skip
_TRIES: Final = 5  # while others write to the plane
_LOOKED_AT: Final = 10_000  # lines, for what is to be taken back
_UNDONE: Final = "undo"


class Undone(NamedTuple):
    """What was taken back: the events, newest first, and by which ones; none of a dry run.

    `restored` is the value that holds again where the event had replaced one.
    """

    events: tuple[Event, ...]
    restored: Event | None
    receipts: tuple[Receipt, ...]


def update(engine: Engine, named: int | str, changes: Mapping[str, Any]) -> Receipt:
    """Record a statement in force anew, with what changes; see `Plane.update`."""
    for name in changes:
        if name not in CHANGING:
            raise InputError(f"cannot be changed; expected {', '.join(CHANGING)}", where=name)
    if not changes:
        raise InputError(f"expected a change: {', '.join(CHANGING)}; found none")
    engine.take_in_waiting()
    for left in range(_TRIES, -1, -1):
        with engine.lock:
            folds = engine.caught_up()
            event = _statement(engine, folds, named)
            quoting = summaries_of(engine.log, folds, [event], undo=False)
            read = folds.memories.position
        gone = [] if event.key is not None else [event.id, *quoting]
        row = _anew(engine, event, changes)
        draft = engine.drafting(internal=True)
        # As any caller's: what it says is redacted, counted and looked through for markers.
        said = engine.drafting()(
            {**row, "data": {**row["data"], **({"updates": gone} if gone else {})}}, ""
        )
        drafts = [*(draft(one, "") for one in forget_rows(gone, f"updated by {said.id}")), said]
        try:
            done = engine.append(drafts, expected_seq=read.seq if read and left else None)
        except ConflictError as error:
            if error.id or not left:
                raise
            continue
        return Receipt(done[-1], engine.durability, engine.log.line)
    raise AssertionError("the last try returns or raises")


def _statement(engine: Engine, folds: Folds, named: int | str) -> Event:
    """The statement that is to change: one that is in force."""
    if isinstance(named, bool) or not isinstance(named, int | str):
        raise InputError(f"expected an id or a seq, found {shown(named)}", where="id")
    line = engine.log.line(named) if isinstance(named, int) else engine.log.find(named)
    if line is None:
        raise NotFoundError(f"no event {shown(named)}")
    event = line.event
    if not _states(event):
        raise InputError(f"event {event.seq} is no statement but a {event.kind}: it stays as it is")
    gone = folds.memories.archived(event)
    if gone is not None:
        raise InputError(f"event {event.seq} is no longer in force: {gone[0]} by event {gone[1]}")
    return event


def _states(event: Event) -> bool:
    stated = event.kind in TYPED_KINDS or event.kind.startswith("custom:")
    return stated and not is_extract(event)


def _anew(engine: Engine, event: Event, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The row that says the event again, with what changes."""
    row = {name: getattr(event, name) for name in _KEPT}
    row |= {"text": engine.log.text(event), "tags": list(event.tags)}
    # Markers that were found in the text are looked for again; those that were given stay.
    found = event.data.get("marked") or ()
    row["markers"] = [one for one in event.markers if one not in found]
    row["refs"] = [event.id, *(ref for ref in event.refs if ref != event.id)][:REFS_MAX]
    row["data"] = {name: value for name, value in event.data.items() if name not in _ITS_OWN}
    row |= changes
    return {name: value for name, value in row.items() if value not in (None, [])}


def undo(engine: Engine, *, dry_run: bool) -> Undone:
    """Take the last statement or forget back; see `Plane.undo`."""
    engine.check_open()
    if not dry_run:
        engine.take_in_waiting()
    for left in range(_TRIES, -1, -1):
        with engine.lock:
            folds = engine.caught_up()
            read = folds.memories.position
            events, copies = _last(engine)
            if events[0].kind == "forget":
                rows, restored = _reversed(events), None
            else:
                rows, restored = _withdrawn(engine, folds, events, copies)
        if dry_run:
            return Undone(tuple(events), restored, ())
        try:
            done = _append(engine, rows, read.seq if read and left else None)
        except ConflictError:
            if not left:
                raise
            continue
        receipts = (Receipt(one, engine.durability, engine.log.line) for one in done)
        return Undone(tuple(events), restored, tuple(receipts))
    raise AssertionError("the last try returns or raises")


def _append(
    engine: Engine, rows: Sequence[Mapping[str, Any]], expected_seq: int | None
) -> list[Appended]:
    draft = engine.drafting(internal=True)
    return engine.append([draft(row, "") for row in rows], expected_seq=expected_seq)


def _last(engine: Engine) -> tuple[list[Event], list[str]]:
    """The newest statement or forget that was not taken back, with the events of its append.

    And the ids of what `undo` recorded in its place since, which says it again.
    """
    done: set[str] = set()
    restored: dict[str, str] = {}  # by what it says again, the newest
    head = engine.log.head().seq
    for seq in range(head, max(0, head - _LOOKED_AT), -1):
        line = engine.log.line(seq)
        event = None if line is None else line.event
        if event is None or (event.kind != "forget" and not _states(event)):
            continue
        if "undoes" in event.data:
            done.update(_texts(event.data["undoes"]))
            again = event.data.get("restores")
            if isinstance(again, str) and event.id not in done:
                restored.setdefault(again, event.id)
        elif event.id not in done:
            copies = [restored[event.id]] if event.id in restored else []
            return [event, *_beside(engine, event)], copies
    raise NotFoundError("no statement and no forget that could be taken back")


def _beside(engine: Engine, event: Event) -> list[Event]:
    """The forgets of the same append, newest first: of summaries, of what an update replaced."""
    found = []
    updates = frozenset(_texts(event.data.get("updates")))
    for seq in range(event.seq - 1, 0, -1):
        line = engine.log.line(seq)
        if line is None or line.event.kind != "forget":
            break
        one = line.event
        if event.kind == "forget":
            same = one.rec == event.rec and one.text == event.text
            same = same and bool(one.data.get("undo")) == bool(event.data.get("undo"))
        else:
            named = one.data.get("forget")
            ids = _texts(named.get("ids")) if isinstance(named, dict) else []
            same = bool(ids) and updates.issuperset(ids)
        if not same or "undoes" in one.data:
            break
        found.append(one)
    return found


def _reversed(events: Sequence[Event]) -> list[dict[str, Any]]:
    """What takes forgets back, and forgets again what had been taken back."""
    rows = []
    for event in events:
        again = {} if event.data.get("undo") else {"undo": True}
        data = {"forget": event.data.get("forget"), **again, "undoes": [event.id]}
        rows.append({"kind": "forget", "text": _UNDONE, "data": data})
    return rows


def _withdrawn(
    engine: Engine, folds: Folds, events: Sequence[Event], copies: list[str]
) -> tuple[list[dict[str, Any]], Event | None]:
    """What forgets a statement, and brings back what it had replaced."""
    event, beside = events[0], events[1:]
    quoting = summaries_of(engine.log, folds, [event], undo=False)
    rows = forget_rows([event.id, *copies, *quoting], _UNDONE)
    for row in rows:
        row["data"]["undoes"] = [event.id]
    rows += _reversed(beside)
    before = _before(engine, folds, event)
    if before is not None:
        row = _anew(engine, before, {})
        row["data"] = {**row.get("data", {}), "undoes": [event.id], "restores": _first(before)}
        rows.append(row)
    return rows, before


def _before(engine: Engine, folds: Folds, event: Event) -> Event | None:
    """The value of its key that the event took the place of."""
    if event.key is None:
        return None
    found = [
        row.seq
        for row in folds.memories.history(event.ns, event.key)
        if row.reason == "superseded" and row.by_seq == event.seq
    ]
    line = engine.log.line(found[-1]) if found else None
    return None if line is None else line.event


def _first(event: Event) -> str:
    """The id of the statement that an event says again, or its own."""
    said = event.data.get("restores")
    return said if isinstance(said, str) else event.id


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
