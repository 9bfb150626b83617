"""What an event must say as a whole, where each of its fields is fine: the schema cannot tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memplane.errors import InputError
from memplane.event import TYPED_KINDS
from memplane.intake.skeleton import skeleton
from memplane.intake.times import timestamp

__all__ = ["check_whole"]

# Events about other events: what names those, and how to come to one without writing it by hand.
_ABOUT: Final = {
    "forget": ("data.forget", "`memplane forget` or `unforget` writes one"),
    "pin": ("refs", "`memplane pin` or `unpin` writes one"),
    "touch": ("refs", "`memplane touch` writes one"),
}
# Characters: who hides more of them than that wrote something.
_UNSEEN_MAX: Final = 256


def check_whole(fields: Mapping[str, Any], kind: str, where: str = "") -> None:
    """Raise InputError for an event that says nothing. Its fields were checked one by one before.

    That is a message without text and data, where blanks and what cannot be seen are no text; a
    statement without a key whose text is that; an event about others that names none; and one that
    is valid at no time.
    """
    prefix = f"{where}." if where else ""
    if kind == "message" or kind in TYPED_KINDS:
        text, names = str(fields.get("text") or ""), fields.get("data")
        if kind != "message":
            names = names or fields.get("key") or not text
        if not names and _is_blank(text):
            raise InputError(f"a {kind} without text and data says nothing", where=f"{prefix}text")
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


def _is_blank(text: str) -> bool:
    """Whether nobody sees anything of a text."""
    return not text.strip() or (len(text) <= _UNSEEN_MAX and not skeleton(text))
