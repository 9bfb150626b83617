"""The fields of an event as command-line options, and the conversion of their values."""

import json
from typing import Annotated, Any, TypeAlias

import typer

from memplane.errors import InputError
from memplane.intake.redact import quoted_value

__all__ = [
    "Actor",
    "Data",
    "Id",
    "Importance",
    "Key",
    "Kind",
    "Markers",
    "Ns",
    "Refs",
    "Role",
    "Sensitivity",
    "Session",
    "Tags",
    "Task",
    "Time",
    "number",
    "object_of",
    "ref",
]

_Text: TypeAlias = str | None
_Texts: TypeAlias = list[str] | None

Kind: TypeAlias = Annotated[
    _Text,
    typer.Option(
        metavar="KIND", help="message (default), decision, fact, task, ..., or custom:<name>."
    ),
]
Key: TypeAlias = Annotated[
    _Text,
    typer.Option(metavar="KEY", help="A later event of this namespace and key supersedes it."),
]
Ns: TypeAlias = Annotated[
    _Text, typer.Option(metavar="NS", help="Namespace; else /task/TASK with --task, else /global.")
]
Session: TypeAlias = Annotated[
    _Text, typer.Option(metavar="ID", help="The session it happened in.")
]
Task: TypeAlias = Annotated[_Text, typer.Option(metavar="ID", help="The task it belongs to.")]
Actor: TypeAlias = Annotated[_Text, typer.Option(metavar="NAME", help="Who did or said it.")]
Role: TypeAlias = Annotated[
    _Text, typer.Option(metavar="ROLE", help="user, assistant, tool or system.")
]
Tags: TypeAlias = Annotated[_Texts, typer.Option(metavar="WORD", help="May be repeated.")]
Markers: TypeAlias = Annotated[
    _Texts,
    typer.Option(
        metavar="WORD", help="decision, constraint, failure, goal or custom:NAME; repeatable."
    ),
]
Refs: TypeAlias = Annotated[
    _Texts, typer.Option(metavar="ID|SEQ", help="Another event that it is about; repeatable.")
]
Sensitivity: TypeAlias = Annotated[
    _Text, typer.Option(metavar="LEVEL", help="low, normal (default), high or secret.")
]
Importance: TypeAlias = Annotated[
    _Text, typer.Option(metavar="N", help="0 to 1000 (default 500), or 0.0 to 1.0 with a point.")
]
Time: TypeAlias = Annotated[_Text, typer.Option(metavar="TIME", help="RFC 3339, with its zone.")]
Data: TypeAlias = Annotated[
    _Text, typer.Option("--data", metavar="JSON", help="An object of anything else.")
]
Id: TypeAlias = Annotated[
    _Text,
    typer.Option("--id", metavar="ID", help="Your own id: the same event twice is stored once."),
]


def ref(given: str) -> str | int:
    """A number is a seq, anything else an id."""
    return int(given) if given.isascii() and given.isdigit() and len(given) < 19 else given


def number(given: str | None, where: str = "--importance") -> int | float | None:
    """An importance: with a point it is a part of 1, without one of 1000."""
    if given is None:
        return None
    try:
        return float(given) if "." in given else int(given)
    except ValueError:
        raise InputError(
            f"expected 0 to 1000, or 0.0 to 1.0, found {quoted_value(given)}", where=where
        ) from None


def object_of(given: str | None) -> dict[str, Any] | None:
    """The JSON object of `--data`."""
    if given is None:
        return None
    try:
        value = json.loads(given)
    except (ValueError, RecursionError) as error:
        raise InputError(f"expected a JSON object: {error}", where="--data") from error
    if not isinstance(value, dict):
        raise InputError(f"expected a JSON object, found {quoted_value(given)}", where="--data")
    return value
