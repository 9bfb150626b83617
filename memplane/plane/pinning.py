"""What a pin or a touch names: one statement, by id, by seq, or by the key whose value it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from memplane.errors import InputError, NotFoundError
from memplane.intake.redact import shown

if TYPE_CHECKING:
    from memplane.event import Event

__all__ = ["Lookup", "pin_row", "touch_row"]


class Lookup(Protocol):
    """What finds one event, or the value that a key has; see `Plane`."""

    def event(self, id: str | int, /) -> Event: ...  # noqa: A002 - the field's name

    def get(self, key: str, ns: str, /) -> Event | None: ...


def pin_row(
    plane: Lookup, id: str | int | None, key: str | None, ns: str, *, undo: bool  # noqa: A002
) -> dict[str, Any]:  # fmt: skip
    """Return the event that pins, or with `undo` takes the pin back; raises where nothing is named.

    A key means the value that it has now: its next value is not pinned.
    """
    again = {"data": {"undo": True}} if undo else {}
    return {"kind": "pin", "refs": [_named(plane, id, key, ns).id], **again}


def touch_row(plane: Lookup, id: str | int | None, key: str | None, ns: str) -> dict[str, Any]:  # noqa: A002
    """Return the event that touches; named as a pin names it."""
    return {"kind": "touch", "refs": [_named(plane, id, key, ns).id]}


def _named(plane: Lookup, id: str | int | None, key: str | None, ns: str) -> Event:  # noqa: A002
    if id is not None and key is None:
        return plane.event(id)
    if key is not None and id is None:
        value = plane.get(key, ns)
        if value is None:
            raise NotFoundError(f"no value under {shown(key)} in {ns}")
        return value
    raise InputError("expected exactly one of id and key")
