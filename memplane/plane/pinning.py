"""What a pin names: one statement, by id, by seq, or by the key whose value it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memplane.errors import InputError, NotFoundError
from memplane.intake.redact import shown

if TYPE_CHECKING:
    from memplane.plane.plane import Plane

__all__ = ["pin_row"]


def pin_row(
    plane: Plane, id: str | int | None, key: str | None, ns: str, *, undo: bool  # noqa: A002
) -> dict[str, Any]:  # fmt: skip
    """Return the event that pins, or with `undo` takes the pin back; raises where nothing is named.

    A key means the value that it has now: its next value is not pinned.
    """
    if id is not None and key is None:
        found = plane.event(id)
    elif key is not None and id is None:
        value = plane.get(key, ns)
        if value is None:
            raise NotFoundError(f"no value under {shown(key)} in {ns}")
        found = value
    else:
        raise InputError("expected exactly one of id and key")
    return {"kind": "pin", "refs": [found.id], **({"data": {"undo": True}} if undo else {})}
