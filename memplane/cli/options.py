"""What declares options and arguments, and the options that several commands share.

Those have the same names and help everywhere. The fields of an event are among them, with the
conversion of their values.
"""

import json
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from memplane.errors import InputError
from memplane.intake.redact import unexpected


class Option:
    """Declares an option: its names (else that of the parameter), and what typer is told of it.

    `metavar` and `help` as typer has them; `min` and `max` bound a number.
    """

    def __init__(self, *names: str, **more: Any) -> None:
        self.names, self.more = names, more


class Argument(Option):
    """Declares an argument, in the order of the parameters."""


Agent: TypeAlias = Annotated[
    str | None,
    Option(
        "--agent",
        metavar="ID",
        help="The agent that asks: it sees its own /agent/ID. Without it, the owner asks.",
    ),
]
Now: TypeAlias = Annotated[
    str | None, Option("--now", metavar="TIME", help="As the clock stands then: RFC 3339.")
]
Home: TypeAlias = Annotated[
    str | None,
    Option(
        "--home",
        metavar="DIR",
        help="The plane's folder; else MEMPLANE_HOME, else .memplane here or above, if you trust "
        "it.",
    ),
]
Project: TypeAlias = Annotated[
    str | None,
    Option(
        "--project",
        metavar="NAME",
        help="Of your own plane this project, in place of the one in this folder; '*': all.",
    ),
]
Json: TypeAlias = Annotated[
    bool, Option("--json", help="Print one JSON value on stdout, for errors too.")
]
Html: TypeAlias = Annotated[
    Path | None,
    Option("--html", metavar="FILE", help="And write the figures as a page to look at."),
]
Channel: TypeAlias = Annotated[
    str,
    Option(
        "--channel",
        metavar="NAME",
        help="Who asks: private, public, team, agent, or one of channels.yaml.",
    ),
]
Ns: TypeAlias = Annotated[
    str,
    Option(
        "--ns",
        metavar="NS",
        help="Namespace: /global, /project/NAME, /task/ID, /spec/NAME or /agent/ID.",
    ),
]
OneNs: TypeAlias = Annotated[
    str | None,
    Option("--ns", metavar="NS", help="Only this namespace, or a pattern: '/spec/*'."),
]
Session: TypeAlias = Annotated[
    str | None, Option("--session", metavar="ID", help="Only this session.")
]
Budget: TypeAlias = Annotated[
    int | None, Option("--budget", metavar="TOKENS", help="Tokens at most.")
]
Reason: TypeAlias = Annotated[str, Option("--reason", metavar="TEXT", help="Why; kept in the log.")]
WithoutTag: TypeAlias = Annotated[
    list[str] | None,
    Option("--without-tag", metavar="WORD", help="Nothing with this tag; repeatable."),
]
AtLeast: TypeAlias = Annotated[
    str | None,
    Option(
        "--importance-min", metavar="N", help="Only from this importance on: 0 to 1000, or 0.0-1.0."
    ),
]
WithTag: TypeAlias = Annotated[
    list[str] | None,
    Option("--tag", metavar="WORD", help="What has this tag; repeated: one of them."),
]
OlderThan: TypeAlias = Annotated[
    str | None,
    Option(
        "--older-than", metavar="AGE", help="What happened before: 90d, 12h, 2w (s, m, h, d, w)."
    ),
]
OfKind: TypeAlias = Annotated[
    list[str] | None,
    Option("--kind", metavar="KIND", help="Of what is described: only this kind; repeatable."),
]
Decisions: TypeAlias = Annotated[
    bool,
    Option("--decisions", help="Of what is described: decisions, rules, constraints, pins too."),
]
Yes: TypeAlias = Annotated[
    bool, Option("--yes", help="Do it with what is described (or due by --keep).")
]


def kept_words(kept: int) -> str:
    """The line about events that a description matched and that were kept because they last."""
    what = "1 stays that lasts" if kept == 1 else f"{kept} stay that last"
    return f"{what} (decisions, rules, constraints, pins): --decisions takes them too"


_Text: TypeAlias = str | None
_Texts: TypeAlias = list[str] | None

Kind: TypeAlias = Annotated[
    _Text,
    Option(metavar="KIND", help="message (default), decision, fact, task, ..., or custom:<name>."),
]
Key: TypeAlias = Annotated[
    _Text,
    Option(metavar="KEY", help="A later event of this namespace and key supersedes it."),
]
EventNs: TypeAlias = Annotated[
    _Text, Option(metavar="NS", help="Namespace; else /task/TASK with --task, else /global.")
]
EventSession: TypeAlias = Annotated[_Text, Option(metavar="ID", help="The session it happened in.")]
Task: TypeAlias = Annotated[_Text, Option(metavar="ID", help="The task it belongs to.")]
Actor: TypeAlias = Annotated[_Text, Option(metavar="NAME", help="Who did or said it.")]
Role: TypeAlias = Annotated[_Text, Option(metavar="ROLE", help="user, assistant, tool or system.")]
Tags: TypeAlias = Annotated[_Texts, Option(metavar="WORD", help="May be repeated.")]
Markers: TypeAlias = Annotated[
    _Texts,
    Option(metavar="WORD", help="decision, constraint, failure, goal or custom:NAME; repeatable."),
]
Refs: TypeAlias = Annotated[
    _Texts, Option(metavar="ID|SEQ", help="Another event that it is about; repeatable.")
]
Sensitivity: TypeAlias = Annotated[
    _Text, Option(metavar="LEVEL", help="low, normal (default), high or secret.")
]
Importance: TypeAlias = Annotated[
    _Text, Option(metavar="N", help="0 to 1000 (default 500), or 0.0 to 1.0 with a point.")
]
Time: TypeAlias = Annotated[_Text, Option(metavar="TIME", help="RFC 3339, with its zone.")]
Bound: TypeAlias = Annotated[
    _Text, Option(metavar="TIME", help="RFC 3339 with its zone, or a day (UTC).")
]
Data: TypeAlias = Annotated[
    _Text, Option("--data", metavar="JSON", help="An object of anything else.")
]
Id: TypeAlias = Annotated[
    _Text,
    Option("--id", metavar="ID", help="Your own id: the same event twice is stored once."),
]


def ref(given: str) -> str | int:
    """A seq where the argument is a number, or as blocks and hits write it (`#12`); else an id."""
    seq = given.removeprefix("#")
    return int(seq) if seq.isascii() and seq.isdigit() and len(seq) < 19 else given


def number(given: str | None, where: str = "--importance") -> int | float | None:
    """An importance: a fraction of 1 if it has a point, else 0 to 1000. Raises InputError."""
    if given is None:
        return None
    try:
        return float(given) if "." in given else int(given)
    except ValueError:
        raise unexpected("0 to 1000, or 0.0 to 1.0", given, where) from None


def object_of(given: str | None) -> dict[str, Any] | None:
    """The JSON object that is the value of `--data`. Raises InputError."""
    if given is None:
        return None
    try:
        value = json.loads(given)
    except (ValueError, RecursionError) as error:
        raise InputError(f"expected a JSON object: {error}", where="--data") from error
    if not isinstance(value, dict):
        raise unexpected("a JSON object", given, "--data")
    return value
