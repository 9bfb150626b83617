"""What an event must say as a whole, where each of its fields is fine: the schema cannot tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memplane.errors import InputError
from memplane.intake.times import timestamp

__all__ = ["check_whole"]

# Events about other events: what names those, and how to come to one without writing it by hand.
_ABOUT: Final = {
    "forget": ("data.forget", "`memplane forget` or `unforget` writes one"),
    "pin": ("refs", "`memplane pin` or `unpin` writes one"),
    "touch": ("refs", "`memplane touch` writes one"),
}


def check_whole(fields: Mapping[str, Any], kind: str, where: str = "") -> None:
    """Raise InputError for an event that says nothing. Its fields were checked one by one before.

    That is a message without text and data, an event about others that names none, and one
    that is valid at no time.
    """
    prefix = f"{where}." if where else ""
    if kind == "message":
        if not fields.get("text") and not fields.get("data"):
            raise InputError("a message without text and data says nothing", where=f"{prefix}text")
    elif kind in _ABOUT:
        target, instead = _ABOUT[kind]
        named = fields.get("refs")
        if kind == "forget":
            named = (fields.get("data") or {}).get("forget")
            named = isinstance(named, Mapping) and named
        if not named:
            raise InputError(
                f"a `{kind}` event names what it is about in {target}, this one names nothing; "
                f"{instead}",
                where=f"{prefix}kind",
            )
    begin, end = fields.get("valid_from"), fields.get("valid_until")
    if begin is not None and end is not None and timestamp(begin) > timestamp(end):
        raise InputError(
            f"lies after valid_until ({timestamp(end)}): the event would be valid at no time",
            where=f"{prefix}valid_from",
        )
