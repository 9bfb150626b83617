"""`memplane search`, `files` and `embed`: ranked events, likely files, vectors for the index."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from memplane.cli.app import FINE, NO, command
from memplane.cli.fields import Time, number
from memplane.cli.options import Agent, AtLeast, Channel, Home, Json, OneNs, WithoutTag
from memplane.cli.output import (
    DAMAGED,
    Bar,
    clipped_line,
    counted,
    degraded_words,
    event_json,
    print_answer,
    say,
    say_damage,
)
from memplane.intake.redact import masked
from memplane.plane import SearchHit
from memplane.wiring import open_plane

__all__ = ["embed_documents", "list_touched_files", "print_hits"]


_Texts: TypeAlias = list[str] | None
# A passage has about 40 tokens; a single sentence may have more.
_WIDTH = 300


def _only(metavar: str, what: str) -> Any:
    return typer.Option(metavar=metavar, help=f"Only {what}; repeatable.")


@command("search", example='search "why SQLite" --kind decision')
def print_hits(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What is looked for.")],
    *,
    k: Annotated[int, typer.Option("-k", metavar="N", help="At most so many.")] = 10,
    kind: Annotated[_Texts, _only("KIND", "this kind")] = None,
    ns: Annotated[_Texts, _only("NS", "this namespace, or those of a pattern ('/spec/*')")] = None,
    session: Annotated[_Texts, _only("ID", "this session")] = None,
    tag: Annotated[_Texts, _only("WORD", "with this tag")] = None,
    without_tag: WithoutTag = None,
    importance: AtLeast = None,
    since: Time = None,
    until: Time = None,
    task: Annotated[
        str | None, typer.Option(metavar="ID", help="Only what this task sees.")
    ] = None,
    agent: Annotated[str | None, typer.Option(metavar="ID", help="The agent that asks.")] = None,
    as_of: Annotated[
        int | None, typer.Option(metavar="SEQ", help="As if the log ended there.")
    ] = None,
    now: Annotated[str | None, typer.Option(metavar="TIME", help="The clock of validity.")] = None,
    similar: Annotated[
        bool,
        typer.Option("--similar", help="By vectors alone: what says the like in other words."),
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Index the whole log first, however far it is behind.")
    ] = False,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> int:
    """List the events that answer a query, the best first; exit 1 where there is none.

    Each with its score in thousandths, when, its id, what it is, the passage that says most, and
    the handle that `memplane expand` opens. With --similar the score is the cosine, by the
    embedder that plane.yaml names (what `memplane embed` has reached), else by the static table,
    whose vectors the first such search makes: memplane search "which pet" --similar
    """
    filters: dict[str, Any] = {
        "kind": kind, "ns": ns, "session": session, "tag": tag, "without_tag": without_tag,
        "importance_min": number(importance, "--importance-min"), "since": since, "until": until,
        "task": task, "agent": agent, "as_of": as_of,
    }  # fmt: skip
    with open_plane(home) as plane, Bar("indexing") as bar:
        say_damage(plane)
        hits = plane.search(
            query, k, channel=channel, now=now, progress=bar, similar=similar, wait=wait, **filters
        )
        damaged = bool(plane.hotset().gaps)
    if damaged:
        say(DAMAGED)
    for part in hits.degraded:
        say(degraded_words(part, "the search went by words alone"))
    print_answer([_fields(hit) for hit in hits], "\n".join(map(_words, hits)), as_json=as_json)
    if hits:
        return FINE
    say(_nothing(query, channel, filters))
    return NO


def _fields(hit: SearchHit) -> dict[str, Any]:
    event = event_json(hit.event)
    del event["text"]  # the passage stands for it
    return {
        "score": hit.score,
        "text": hit.text,
        "whole": hit.whole,
        "stale": hit.stale,
        "handle": hit.handle,
        "parts": hit.parts,
        "event": event,
    }


def _words(hit: SearchHit) -> str:
    event = hit.event
    tool = event.data.get("tool")
    about = [event.kind, tool or event.role, event.actor, event.key, event.session]
    named = clipped_line(" ".join(dict.fromkeys(str(one) for one in about if one)), 60)
    more = "" if hit.whole else " …"
    stale = "  stale" if hit.stale else ""
    return (
        f"{hit.score:>5}  {event.ts[:10]}  {clipped_line(event.id, 60)}  {named}{stale}\n"
        f"       {clipped_line(hit.text, _WIDTH)}{more} {hit.handle}"
    )


def _nothing(query: str, channel: str, filters: dict[str, Any]) -> str:
    """What was searched, and what to try."""
    given = [
        f"--{name.replace('_', '-')} {one}"
        for name, value in filters.items()
        if value is not None
        for one in (value if isinstance(value, list) else [value])
    ]
    named = f" with {' '.join(given)}" if given else ""
    fewer = "other words or fewer filters" if given else "other words"
    asked, named = clipped_line(masked(query), 60), masked(named)
    return f"nothing found for `{asked}` on channel {channel}{named}; try {fewer}"


# `memplane files`: what a session works on, and what it may need.


@command("files", example='files "redaction of passwords"')
def list_touched_files(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What is to be done next.")] = "",
    *,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="ID", help="Its own files first, and its branch."),
    ] = None,
    branch: Annotated[
        str | None,
        typer.Option("--branch", metavar="NAME", help="The git branch; else the session's."),
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="At most so many.")] = 20,
    ns: OneNs = None,
    agent: Agent = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List files by what was touched before: for this query, session and branch, best first."""
    with open_plane(home) as plane:
        found = plane.files(
            query, session=session, branch=branch, limit=limit, channel=channel, ns=ns, agent=agent
        )
    words = "\n".join(
        f"{one.seq:>6}  {clipped_line(one.path, 60):<60}  {clipped_line(one.branch, 24):<24}  "
        f"{', '.join(one.why)}".rstrip()
        for one in found
    )
    print_answer([one._asdict() for one in found], words, as_json=as_json)


# `memplane embed`: vectors beside the words, made when somebody asks for them.


@command("embed", example="embed --limit 1000")
def embed_documents(
    *,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", help="At most so many texts.")
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Make the vectors that search and pack use beside the words; they are kept in the plane.

    The embedder is the one that plane.yaml names (index: embedder). May be stopped at any time:
    what is done is kept, and the next run goes on from there.
    """
    with open_plane(home) as plane:
        with Bar("indexing") as bar:
            plane.index(bar)
        try:
            with Bar("embed") as bar:
                done = plane.embed(limit, bar)
        except KeyboardInterrupt:
            say("stopped; what was embedded is kept, and the next run goes on from there")
            raise
    more = "; there may be more" if done == limit else ""
    print_answer({"embedded": done}, f"{counted(done, 'text')} embedded{more}", as_json=as_json)
