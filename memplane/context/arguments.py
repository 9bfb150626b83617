"""Check the arguments of a caller; InputError names the argument that is wrong.

`request_of` turns the arguments of a pack into a `Request`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import InputError
from memplane.event import IMPORTANCE_DEFAULT
from memplane.intake import Redactor, cleaned, namespace, normalise, timestamp
from memplane.intake.redact import quoted_value
from memplane.pack.request import REMINDERS, Request

if TYPE_CHECKING:
    from memplane.policy import Policies

__all__ = [
    "CHANNELS",
    "MARKS_MAX",
    "check_channel",
    "check_count",
    "check_named",
    "check_text",
    "check_texts",
    "checked_request",
    "texts_of_argument",
]


_SEQ_MAX: Final = 2**63 - 1
MARKS_MAX: Final = 400  # sentences of the project's files: they stand in the report
_MARK, _HEX = 12, frozenset("0123456789abcdef")


def check_text(value: object, where: str) -> str:
    """Return a text; raises InputError for what is none, or is none that UTF-8 can hold."""
    if not isinstance(value, str):
        raise InputError(f"expected a text, found {quoted_value(value)}", where=where)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"expected a text without half a character, found {quoted_value(value)}", where=where
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
        raise InputError(
            f"expected a whole number from {least}, found {quoted_value(value)}", where=where
        )
    return value


def check_named(value: object, where: str) -> str | int:
    """Return what names an event: its id, or its seq."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= _SEQ_MAX:
            raise InputError(f"expected a seq or an id, found {quoted_value(value)}", where=where)
        return value
    if not isinstance(value, str):
        raise InputError(f"expected a seq or an id, found {quoted_value(value)}", where=where)
    return check_text(value, where)


# A caller's arguments to a checked request.

# Known even where channels.yaml does not list them; each then loads and shows what `agent` does.
CHANNELS: Final = ("private", "public", "team", "agent")
_TIMES: Final = ("since", "until", "now")
_TAGS: Final = ("tag", "without_tag")
_LISTS: Final = ("sections", "expand", "exclude", "ns", "in_files", *_TAGS)
_SEQS: Final = ("dense_seq", "held_seq", "index_seq")
_TEXTS: Final = (
    "channel", "intent", "session", "task", "agent", "project", "query_event", "remind",
)  # fmt: skip
_KNOWN: Final = frozenset(
    (*_TIMES, *_LISTS, *_TEXTS, *_SEQS, "budget", "as_of", "cited", "importance_min")
)


def check_channel(policies: Policies, channel: str) -> str:
    """The channel, if the policies or memplane know it; InputError naming the known ones."""
    check_text(channel, "channel")
    if channel in CHANNELS or policies.channels.known(channel):
        return channel
    known = ", ".join(dict.fromkeys((*policies.channels.views, *CHANNELS)))
    raise InputError(f"unknown channel {quoted_value(channel)}; known: {known}", where="channel")


def checked_request(
    query: str,
    asked: dict[str, Any],
    policies: Policies,
    *,
    head: int,
    clock: Callable[[], str],
    seq_by: Callable[[str], int],
    redactor: Redactor,
) -> Request:
    """Check what was asked; raises InputError naming the argument.

    Secrets in it are masked, in identifiers too: a report of the pack keeps what was asked, and the
    same can be asked again.
    """
    for name in asked:
        if name not in _KNOWN:
            raise _unknown(name)
    if not isinstance(query, str):
        raise InputError(f"expected a text, found {type(query).__name__}", where="query")
    fields: dict[str, Any] = {"query": redactor.redact(cleaned(query))[0].strip()}
    for name in _TEXTS:
        value = asked.get(name)
        if value is not None:
            fields[name] = redactor.name(check_text(value, name))
    for name in _LISTS:
        fields[name] = tuple(map(redactor.name, texts_of_argument(name, asked.get(name))))
    fields |= {name: tuple(dict.fromkeys(map(str.lower, fields[name]))) for name in _TAGS}
    fields["importance_min"] = _importance(asked.get("importance_min"))
    _check_marks(fields["in_files"])
    for ns in fields["ns"]:
        namespace(ns)
    for name in _TIMES:
        value = asked.get(name)
        fields[name] = None if value is None else timestamp(value, where=name)
    fields["now"] = fields["now"] or clock()
    fields["budget"] = asked.get("budget")
    for name in _SEQS:
        fields[name] = _seq(name, asked.get(name))
    fields["cited"] = _flag("cited", asked.get("cited", False))
    fields["as_of"] = _as_of(asked.get("as_of"), head, seq_by)
    check_channel(policies, fields.get("channel", "private"))
    _check_reminder(fields.get("remind", ""))
    fields["project"] = policies.project
    return Request(**fields)


def _check_marks(given: tuple[str, ...]) -> None:
    if len(given) > MARKS_MAX:
        raise InputError(
            f"expected at most {MARKS_MAX} marks, found {len(given)}", where="in_files"
        )
    for mark in given:
        if len(mark) != _MARK or not set(mark) <= _HEX:
            raise InputError(
                f"expected {_MARK} digits of hex, found {quoted_value(mark)}", where="in_files"
            )


def _check_reminder(value: str) -> None:
    if value and value not in REMINDERS:
        known = f"{', '.join(REMINDERS[:-1])} or {REMINDERS[-1]}"
        raise InputError(f"expected {known}, found {quoted_value(value)}", where="remind")


def _unknown(name: str) -> InputError:
    from difflib import get_close_matches  # noqa: PLC0415 - only mistakes pay for it

    close = get_close_matches(name, sorted(_KNOWN), 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return InputError(f"unknown argument{hint}", where=name)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"expected true or false, found {quoted_value(value)}", where=name)
    return value


def _importance(value: Any) -> int:
    """An importance, as events have it: 0 to 1000, or a float from 0 to 1; 0 of None."""
    if value is None:
        return 0
    try:
        return int(normalise({"importance": value}).get("importance", IMPORTANCE_DEFAULT))
    except InputError as error:
        said = str(error).removeprefix("importance: ")
        raise InputError(said, where="importance_min") from None


def texts_of_argument(name: str, value: object) -> tuple[str, ...]:
    """One text or several, as a tuple; none of None."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Iterable):
        found = tuple(value)
        if all(isinstance(one, str) for one in found):
            return found
    raise InputError(f"expected a list of texts, found {quoted_value(value)}", where=name)


def _seq(name: str, value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError(f"expected a seq of 0 or more, found {quoted_value(value)}", where=name)
    return value


def _as_of(value: object, head: int, seq_by: Callable[[str], int]) -> int:
    if value is None:
        return head
    if isinstance(value, (str, datetime)):
        return min(head, seq_by(timestamp(value, where="as_of")))
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= head:
        raise InputError(
            f"expected a seq from 0 to {head}, found {quoted_value(value)}", where="as_of"
        )
    return value
