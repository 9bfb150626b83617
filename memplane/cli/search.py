"""`memplane search`: the events that answer a query, the best first."""

from typing import Annotated, Any, TypeAlias

import typer

from memplane.cli.app import command
from memplane.cli.exits import FINE, NO
from memplane.cli.fields import Time, number
from memplane.cli.options import AtLeast, Channel, Home, Json, WithoutTag
from memplane.cli.output import DAMAGED, fields_of, one_line, put, say, say_damage, without
from memplane.cli.progress import Bar
from memplane.intake.redact import masked
from memplane.plane import SearchHit
from memplane.wiring import open_plane

__all__ = ["search"]

_Texts: TypeAlias = list[str] | None
# A passage has about 40 tokens; a single sentence may have more.
_WIDTH = 300


def _only(metavar: str, what: str) -> Any:
    return typer.Option(metavar=metavar, help=f"Only {what}; repeatable.")


@command("search", example='search "why SQLite" --kind decision')
def search(
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
        say(without(part, "the search went by words alone"))
    put([_fields(hit) for hit in hits], "\n".join(map(_words, hits)), as_json=as_json)
    if hits:
        return FINE
    say(_nothing(query, channel, filters))
    return NO


def _fields(hit: SearchHit) -> dict[str, Any]:
    event = fields_of(hit.event)
    del event["text"]  # the passage stands for it
    return {
        "score": hit.score, "text": hit.text, "whole": hit.whole, "stale": hit.stale,
        "handle": hit.handle, "parts": hit.parts, "event": event,
    }  # fmt: skip


def _words(hit: SearchHit) -> str:
    event = hit.event
    tool = event.data.get("tool")
    about = [event.kind, tool or event.role, event.actor, event.key, event.session]
    named = one_line(" ".join(dict.fromkeys(str(one) for one in about if one)), 60)
    more = "" if hit.whole else " …"
    stale = "  stale" if hit.stale else ""
    return (
        f"{hit.score:>5}  {event.ts[:10]}  {one_line(event.id, 60)}  {named}{stale}\n"
        f"       {one_line(hit.text, _WIDTH)}{more} {hit.handle}"
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
    asked, named = one_line(masked(query), 60), masked(named)
    return f"nothing found for `{asked}` on channel {channel}{named}; try {fewer}"
