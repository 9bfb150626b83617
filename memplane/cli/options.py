"""Options that several commands share, with the same names and help everywhere."""

from typing import Annotated, TypeAlias

import typer

__all__ = [
    "Agent",
    "AtLeast",
    "Budget",
    "Channel",
    "Decisions",
    "Home",
    "Json",
    "Now",
    "Ns",
    "OfKind",
    "OlderThan",
    "OneNs",
    "Project",
    "Reason",
    "Session",
    "WithTag",
    "WithoutTag",
    "Yes",
    "kept_words",
]

Agent: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--agent",
        metavar="ID",
        help="The agent that asks: it sees its own /agent/ID. Without it, the owner asks.",
    ),
]
Now: TypeAlias = Annotated[
    str | None, typer.Option("--now", metavar="TIME", help="As the clock stands then: RFC 3339.")
]
Home: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--home",
        metavar="DIR",
        help="The plane's folder; else MEMPLANE_HOME, else .memplane here or above, if you trust "
        "it.",
    ),
]
Project: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--project",
        metavar="NAME",
        help="Of your own plane this project, in place of the one in this folder; '*': all.",
    ),
]
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON value on stdout, for errors too.")
]
Channel: TypeAlias = Annotated[
    str,
    typer.Option(
        "--channel",
        metavar="NAME",
        help="Who asks: private, public, team, agent, or one of channels.yaml.",
    ),
]
Ns: TypeAlias = Annotated[
    str,
    typer.Option(
        "--ns",
        metavar="NS",
        help="Namespace: /global, /project/NAME, /task/ID, /spec/NAME or /agent/ID.",
    ),
]
OneNs: TypeAlias = Annotated[
    str | None,
    typer.Option("--ns", metavar="NS", help="Only this namespace, or a pattern: '/spec/*'."),
]
Session: TypeAlias = Annotated[
    str | None, typer.Option("--session", metavar="ID", help="Only this session.")
]
Budget: TypeAlias = Annotated[
    int | None, typer.Option("--budget", metavar="TOKENS", help="Tokens at most.")
]
Reason: TypeAlias = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why; kept in the log.")
]
WithoutTag: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--without-tag", metavar="WORD", help="Nothing with this tag; repeatable."),
]
AtLeast: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--importance-min", metavar="N", help="Only from this importance on: 0 to 1000, or 0.0-1.0."
    ),
]
WithTag: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="WORD", help="What has this tag; repeated: one of them."),
]
OlderThan: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--older-than", metavar="AGE", help="What happened before: 90d, 12h, 2w (s, m, h, d, w)."
    ),
]
OfKind: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--kind", metavar="KIND", help="With --tag or --older-than: only this kind; repeatable."
    ),
]
Decisions: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--decisions", help="With --tag or --older-than: decisions, rules, constraints, pins too."
    ),
]
Yes: TypeAlias = Annotated[
    bool, typer.Option("--yes", help="With --tag or --older-than (or --keep): do it.")
]


def kept_words(kept: int) -> str:
    """What is said of what was described and stays."""
    what = "1 stays that lasts" if kept == 1 else f"{kept} stay that last"
    return f"{what} (decisions, rules, constraints, pins): --decisions takes them too"
