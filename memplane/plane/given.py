"""What a caller gave: a text, a number, or what names an event; InputError for anything else."""

from __future__ import annotations

from typing import Final

from memplane.errors import InputError
from memplane.intake.redact import shown

__all__ = ["check_count", "check_named", "check_text", "check_texts"]

_SEQ_MAX: Final = 2**63 - 1


def check_text(value: object, where: str) -> str:
    """Return a text; raises InputError for what is none, or is none that UTF-8 can hold."""
    if not isinstance(value, str):
        raise InputError(f"expected a text, found {shown(value)}", where=where)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"expected a text without half a character, found {shown(value)}", where=where
        ) from None
    return value


def check_texts(**given: object) -> None:
    """Check several at once, by the names of the arguments; None was not given."""
    for where, value in given.items():
        if value is not None:
            check_text(value, where)


def check_count(value: object, where: str, least: int = 0) -> int:
    """Return a whole number of at least so many."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _SEQ_MAX:
        raise InputError(f"expected a whole number from {least}, found {shown(value)}", where=where)
    return value


def check_named(value: object, where: str) -> str | int:
    """Return what names an event: its id, or its seq."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= _SEQ_MAX:
            raise InputError(f"expected a seq or an id, found {shown(value)}", where=where)
        return value
    if not isinstance(value, str):
        raise InputError(f"expected a seq or an id, found {shown(value)}", where=where)
    return check_text(value, where)
