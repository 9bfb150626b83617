"""How something is forgotten: what is named must be there, and what quotes it goes with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memplane.errors import ConflictError, InputError, NotFoundError
from memplane.intake import namespace
from memplane.intake.redact import shown
from memplane.plane.given import check_texts
from memplane.plane.quoting import summaries_quoting
from memplane.plane.writing import Receipt

if TYPE_CHECKING:
    from memplane.event import Event
    from memplane.plane.engine import Engine
    from memplane.plane.folds import Folds
    from memplane.plane.reading import Reader

__all__ = ["forget", "forget_rows"]

_IDS_AT_ONCE: Final = 200  # of an event that forgets
_TRIES: Final = 5  # before somebody else writes


def forget(
    engine: Engine, named: dict[str, str | None], ns: str, reason: str, *, undo: bool,
    reader: Reader | None = None,
) -> Receipt:  # fmt: skip
    """Record that what is named is forgotten, or no longer; it must name something.

    With a `reader` a key whose newest value it may not see has none.
    """
    engine.check_open()
    namespace(ns)
    given = [(field, value) for field, value in named.items() if value is not None]
    if len(given) != 1:
        raise InputError("expected exactly one of key, id, session and source")
    (field, value) = given[0]
    check_texts(**{field: value}, reason=reason)
    what: dict[str, Any] = {field: value}
    engine.take_in_waiting()
    if field == "key":
        with engine.lock:
            _check_key(engine.caught_up(), ns, value, reader, undo=undo)
        what["ns"] = ns
    elif field == "id":
        if engine.log.find(value) is None:
            raise NotFoundError(f"no event {shown(value)}")
        what = {"ids": [value]}
    elif not any(_is_of(line.event, field, value) for line in engine.log.read()):
        raise NotFoundError(f"no event of {field} {shown(value)}")
    for left in range(_TRIES, -1, -1):  # a session that ends meanwhile may quote what is named
        with engine.lock:
            folds = engine.caught_up()
            read = folds.memories.position
            if field == "key" and reader is not None:
                _check_key(folds, ns, value, reader, undo=undo)
            quoting = summaries_quoting(engine.log, folds, field, value, ns, undo=undo)
        rows = [_row(what, reason, undo=undo), *forget_rows(quoting, reason, undo=undo)]
        draft = engine.drafting(internal=True)
        drafts = [draft(row, "") for row in rows]
        try:
            sure = left or reader is not None
            done = engine.append(drafts, expected_seq=read.seq if read and sure else None)
            break
        except ConflictError:
            if not left:
                raise
    return Receipt(done[0], engine.durability, engine.log.line)


def _check_key(
    folds: Folds, ns: str, key: str, reader: Reader | None, *, undo: bool
) -> None:  # fmt: skip
    history = folds.memories.history(ns, key)
    gone = not history or (not undo and history[-1].reason is not None)
    if gone or (reader is not None and not reader.shows_row(history[-1])):
        raise NotFoundError(f"no value under {shown(key)} in {ns}")


def forget_rows(ids: list[str], reason: str, *, undo: bool = False) -> list[dict[str, Any]]:
    """The events that forget these ids: a key or source cannot stand beside ids in one."""
    portions = (ids[at : at + _IDS_AT_ONCE] for at in range(0, len(ids), _IDS_AT_ONCE))
    return [_row({"ids": some}, reason, undo=undo) for some in portions]


def _row(named: dict[str, Any], reason: str, *, undo: bool) -> dict[str, Any]:
    again = {"undo": True} if undo else {}
    return {"kind": "forget", "text": reason, "data": {"forget": named, **again}}


def _is_of(event: Event, field: str, value: str | None) -> bool:
    if field == "session":
        return event.session == value and event.kind != "forget"
    return event.id.startswith(f"{value}:")
