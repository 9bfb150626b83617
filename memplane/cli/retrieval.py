"""Commands that retrieve: `pack`, `expand`, `search`, `files`, and what explains and serves them.

`replay` and `why` explain a block; `embed` makes the vectors that a search may use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, cast

from memplane.cli.commands import (
    FINE,
    NO,
    Agent,
    Argument,
    AtLeast,
    Bound,
    Budget,
    Channel,
    Home,
    Json,
    OneNs,
    Option,
    WithoutTag,
    command,
    number,
)
from memplane.cli.output import (
    DAMAGED,
    Bar,
    TableColumn,
    clipped_line,
    counted,
    data,
    degraded_words,
    event_json,
    print_answer,
    print_list,
    say,
    say_damage,
)
from memplane.errors import InputError, MemplaneError
from memplane.event import TYPED_KINDS
from memplane.intake.redact import masked, quoted_value, unexpected
from memplane.lazy import late
from memplane.upkeep import reports
from memplane.wiring import open_plane

if TYPE_CHECKING:
    from memplane.explain import replay as explain_replay, why as explain_why
    from memplane.explain.replay import Difference
    from memplane.pack.block import Block
    from memplane.plane import Plane, SearchHit
else:
    explain_replay = late("memplane.explain.replay")
    explain_why = late("memplane.explain.why")


_Texts: TypeAlias = list[str] | None
_Intent = Annotated[
    str, Option(metavar="NAME", help="auto, fast, deep, or orient: where the work stands.")
]
_Session = Annotated[str | None, Option(metavar="ID", help="The session that asks.")]
_Task = Annotated[str | None, Option(metavar="ID", help="Only what this task sees.")]
_Agent = Annotated[str | None, Option(metavar="ID", help="The agent that asks.")]
_Spaces = Annotated[
    _Texts,
    Option(metavar="NS", help="Only these namespaces or patterns ('/spec/*'); repeatable."),
]
_Sections = Annotated[_Texts, Option(metavar="NAME", help="Only these; repeatable.")]
_Handles = Annotated[_Texts, Option(metavar="HANDLE", help="Show it whole; repeatable.")]
_Ids = Annotated[_Texts, Option(metavar="ID", help="Leave it out; repeatable.")]
_Tags = Annotated[_Texts, Option(metavar="WORD", help="Only with this tag; repeatable.")]
_AsOf = Annotated[int | None, Option(metavar="SEQ", help="As if the log ended there.")]
_Now = Annotated[str | None, Option(metavar="TIME", help="The clock of decay and validity.")]
_Messages = Annotated[
    str | None,
    Option(metavar="PROVIDER", help="Print it as openai or anthropic take it (JSON)."),
]
_Report = Annotated[bool, Option("--report/--no-report", help="Keep the report in the plane.")]

_HeldSeq = Annotated[
    int | None,
    Option(metavar="SEQ", help="Leave out what the session said behind it: you hold that."),
]
_Cited = Annotated[bool, Option("--cited", help="Entries name their events, statements their day.")]
_Gate = Annotated[
    bool,
    Option(
        "--gate",
        help="Ask as a hook does at a prompt: passages where plane.yaml's hooks.answer speaks, "
        "else nothing; exit 1.",
    ),
]
_Wait = Annotated[
    bool, Option("--wait", help="Index the whole log first, however far it is behind.")
]
_DiffPrev = Annotated[
    bool,
    Option("--diff-prev", help="Say where the session's saved pack before this one ends."),
]


@command("pack", example='pack "which database do we use?" --budget 2000')
def print_pack(
    query: Annotated[str, Argument(metavar="QUERY", help="What the agent is asked.")] = "",
    *,
    budget: Budget = None,
    channel: Channel = "private",
    intent: _Intent = "auto",
    session: _Session = None,
    task: _Task = None,
    ns: _Spaces = None,
    agent: _Agent = None,
    section: _Sections = None,
    expand: _Handles = None,
    exclude: _Ids = None,
    held_seq: _HeldSeq = None,
    since: Bound = None,
    until: Bound = None,
    tag: _Tags = None,
    without_tag: WithoutTag = None,
    importance: AtLeast = None,
    as_of: _AsOf = None,
    now: _Now = None,
    cited: _Cited = False,
    gate: _Gate = False,
    wait: _Wait = False,
    messages: _Messages = None,
    report: _Report = True,
    diff_prev: _DiffPrev = False,
    home: Home = None,
    as_json: Json = False,
) -> int:
    """Print the block on stdout, where it can be piped, and its cost on stderr."""
    _check(messages, as_json=as_json, report=report, diff_prev=diff_prev)
    asked: dict[str, Any] = {
        "budget": budget, "channel": channel, "intent": intent, "session": session, "task": task,
        "ns": ns, "agent": agent, "sections": section, "expand": expand, "exclude": exclude,
        "held_seq": held_seq, "since": since, "until": until, "tag": tag,
        "without_tag": without_tag, "importance_min": number(importance, "--importance-min"),
        "as_of": as_of, "now": now, "cited": cited, "remind": "prompt" if gate else None,
    }  # fmt: skip
    with open_plane(home) as plane, Bar("indexing") as bar:
        say_damage(plane)
        block = plane.pack(query, save_report=report, progress=bar, wait=wait, **asked)
        difference = _held_against(plane, block) if diff_prev else None
    _print_block(block, messages, difference, as_json=as_json, diff_prev=diff_prev)
    saved = f"; report {block.report_path}" if block.report_path else "; report not saved"
    say(_cost(block) + (saved if report else ""))
    if diff_prev:
        say(_difference(difference, block))
    _remarks(block, budget)
    return NO if gate and not block.text else FINE


def _print_block(
    block: Block,
    messages: str | None,
    difference: Difference | str | None,
    *,
    as_json: bool,
    diff_prev: bool,
) -> None:
    if messages is not None:
        data(block.messages(cast("Literal['openai', 'anthropic']", messages)))
    elif as_json:
        answer = block.as_json()
        if diff_prev:
            answer["diff_prev"] = (
                difference._asdict()
                if isinstance(difference, explain_replay.Difference)
                else difference
            )
        data(answer)
    elif block.text:
        print(block.text, end="" if block.text.endswith("\n") else "\n")


_NOT_EXPANDED: Final = {
    "budget": "no room for it in the block; ask for a larger --budget, or use `memplane expand`",
    "section": "the section expansions was not asked for; add `--section expansions`",
    "limit": "budgets.yaml lets no pack read that much; see limits",
}


def _check(messages: str | None, *, as_json: bool, report: bool, diff_prev: bool) -> None:
    """Refuse options that do not go together."""
    if diff_prev and not report:
        raise InputError("expected the report to be kept, found --no-report", where="--diff-prev")
    if messages not in (None, "openai", "anthropic"):
        raise unexpected("openai or anthropic", messages, "--messages")
    if messages is not None and as_json:
        raise InputError("expected --json or --messages (which is JSON), found both")


def _remarks(block: Block, budget: int | None) -> None:
    """Say what a reader would otherwise wonder about."""
    most, asked = block.report["budget"], block.report["request"]
    if budget is not None and most < budget:
        say(f"--budget {budget} is more than budgets.yaml allows: {most} tokens at most")
    for omission in block.omissions:
        why = _NOT_EXPANDED.get(omission.reason)
        if omission.section == "expansions" and why is not None:
            say(f"{omission.id}: {why}")
    lone = asked.get("query") and "session" not in asked
    if lone and not block.report["candidates"]["found"]:
        say("nothing recorded answers the query; the block holds what it would for any other")
    for name in block.report.get("unknown", ()):
        whose = quoted_value(asked[name], 160)
        say(f"--{name} {whose}: nothing that may be seen is recorded of it; is the id right?")
    for part in block.report.get("degraded", ()):
        say(degraded_words(part, "the block was made by words alone"))
    if block.report["gaps"]:
        say(DAMAGED)


@command("expand", example="expand 'session/s1?depth=2' --budget 800")
def print_expansion(
    handle: Annotated[
        str,
        Argument(
            metavar="HANDLE",
            help="As a block shows it, with or without expand://: event/SEQ, task/ID?depth=0..3, "
            "session/ID?depth=0..3, memory/NS/KEY?depth=0..1, artifact/SHA256?page=N, views/NAME.",
        ),
    ],
    *,
    budget: Budget = 2000,
    agent: _Agent = None,
    channel: Channel = "private",
    now: _Now = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Print what a handle stands for, as far as the budget goes.

    A task or session is told in a sentence (depth 0), a paragraph (1), with its decisions and facts
    (2) or with every event (3); each depth begins with the one before. Of a memory depth 1 is the
    history. What the channel may not see is left out, and counted on stderr.
    """
    with open_plane(home) as plane:
        found = plane.expand(
            handle, 2000 if budget is None else budget, channel=channel, agent=agent, now=now
        )
    words = found.text if found.event is not None else found.text.removesuffix("\n")
    print_answer(found.as_json(), words, as_json=as_json)
    left_out = ", ".join(f"{count} {reason}" for reason, count in found.left_out.items())
    say(
        f"{found.tokens} tokens"
        + ("; stale" if found.stale else "")
        + (f"; left out: {left_out}" if left_out else "")
        + (f"; goes on at {found.next}" if found.next else "")
    )


def _cost(block: Block) -> str:
    report = block.report
    left_out = sum(report["omissions"]["counts"].values())
    spent_ms = sum(report["timings_ns"].values()) / 1e6
    empty = f" ({report['reason']})" if not block.entries and report["reason"] else ""
    return (
        f"{block.tokens} of {report['budget']} tokens{empty}, {_entries(len(block.entries))}, "
        f"{left_out} left out, {spent_ms:.1f} ms"
    )


def _held_against(plane: Plane, block: Block) -> Difference | str | None:
    """Where the session's pack before parts from this one, or why that cannot be told."""
    if block.report_path is None:
        return "the report could not be saved, so it was held against none"
    try:
        return explain_replay.first_difference(plane, block)
    except MemplaneError as error:
        return str(error)


def _difference(found: Difference | str | None, block: Block) -> str:
    """How much of the pack before stands at the start of this one, and where they part."""
    if isinstance(found, str):
        return found
    if found is None:
        return (
            "no pack of this session, budget and channel was saved before: nothing to compare with"
            if block.report["request"].get("session")
            else "only packs of a session are compared: name it with --session"
        )
    if found.cause == "same":
        return f"the same block as {found.compared_with}"
    share = block.report["prefix"]["share_ppm"] / 10_000
    place = "" if found.section is None else f" of {found.section}"
    lines = "\n".join(
        f"  {sign} {clipped_line(text)}"
        for sign, text in (("-", found.old), ("+", found.new))
        if text is not None
    )
    return (
        f"{share:.0f} % of the tokens as in {found.compared_with}; the first other line is "
        f"{found.line}{place}, because of: {found.cause}\n{lines}"
    )


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


# `memplane replay`: yesterday's block, byte for byte.

SavedReport = Annotated[
    str,
    Argument(
        metavar="REPORT",
        help="A file of reports/, a part of its name, or `last` for the newest one.",
    ),
]


@command("replay", example="replay last")
def print_replay(
    report: SavedReport = reports.LAST, *, home: Home = None, as_json: Json = False
) -> int:
    """Make a saved pack again and print its block; exit 1 if it is not what it was.

    Under the policies and views of then, whatever they have become, as if nothing had been recorded
    since. What cannot be found any more is named on stderr.
    """
    with open_plane(home) as plane:
        project = plane.context.home.project
        found = explain_replay.replay_pack(plane, reports.find_report(plane.home, report, project))
    if as_json:
        data(found.as_json())
    elif found.block is not None and found.block.text:
        print(found.block.text, end="" if found.block.text.endswith("\n") else "\n")
    for lost in found.lost:
        say(f"lost: {lost}")
    if found.note:
        say(found.note)
    if found.same:
        say(f"the same {found.saved.report['tokens']} tokens, byte for byte")
        return FINE
    say("not made again" if found.block is None else "not the same block as then")
    return NO


# `memplane why`: what became of an event in a pack.


@command("why", example="why last 2")
def why_event(
    report: SavedReport,
    asked: Annotated[
        str,
        Argument(
            metavar="EVENT|ENTRY",
            help="An event's id or number, or entry:N for the events of the Nth entry.",
        ),
    ],
    *,
    channel: Annotated[
        str | None,
        Option(
            "--channel",
            metavar="NAME",
            help="Who asks: without it, who asked for the pack. private is told all.",
        ),
    ] = None,
    agent: Annotated[
        str | None,
        Option("--agent", metavar="ID", help="The agent that asks; without it, as above."),
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Tell what became of an event in a saved pack, step by step: from the log to place or reason.

    The pack is made again under what its report names, so the reasons are its own. An event that
    who asks may not see is answered like one that does not exist.
    """
    with open_plane(home) as plane:
        saved = reports.find_report(plane.home, report, plane.context.home.project)
        found = explain_why.why(plane, saved, asked, channel=channel, agent=agent)
    print_answer(found.as_json(), "\n".join(found.lines()), as_json=as_json)
    if found.note:
        say(found.note)


# A passage has about 40 tokens; a single sentence may have more.
_WIDTH = 300


def _only(metavar: str, what: str) -> Any:
    return Option(metavar=metavar, help=f"Only {what}; repeatable.")


@command("search", example='search "why SQLite" --kind decision')
def print_hits(
    query: Annotated[str, Argument(metavar="QUERY", help="What is looked for.")],
    *,
    k: Annotated[int, Option("-k", metavar="N", help="At most so many.")] = 10,
    kind: Annotated[_Texts, _only("KIND", "this kind")] = None,
    ns: Annotated[_Texts, _only("NS", "this namespace, or those of a pattern ('/spec/*')")] = None,
    session: Annotated[_Texts, _only("ID", "this session")] = None,
    file: Annotated[_Texts, _only("PATH", "about this file: a path or its end")] = None,
    tag: Annotated[_Texts, _only("WORD", "with this tag")] = None,
    without_tag: WithoutTag = None,
    importance: AtLeast = None,
    since: Bound = None,
    until: Bound = None,
    task: Annotated[str | None, Option(metavar="ID", help="Only what this task sees.")] = None,
    agent: Annotated[str | None, Option(metavar="ID", help="The agent that asks.")] = None,
    as_of: Annotated[int | None, Option(metavar="SEQ", help="As if the log ended there.")] = None,
    now: Annotated[str | None, Option(metavar="TIME", help="The clock of validity.")] = None,
    similar: Annotated[
        bool,
        Option("--similar", help="By vectors alone: what says the like in other words."),
    ] = False,
    wait: Annotated[
        bool, Option("--wait", help="Index the whole log first, however far it is behind.")
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
        "kind": kind, "ns": ns, "session": session, "file": file, "tag": tag,
        "without_tag": without_tag, "importance_min": number(importance, "--importance-min"),
        "since": since, "until": until, "task": task, "agent": agent, "as_of": as_of,
    }  # fmt: skip
    with open_plane(home) as plane, Bar("indexing") as bar:
        say_damage(plane)
        hits = plane.search(
            query, k, channel=channel, now=now, progress=bar, similar=similar, wait=wait, **filters
        )
        damaged = bool(plane.upkeep.hotset().gaps)
    if damaged:
        say(DAMAGED)
    for part in hits.degraded:
        say(degraded_words(part, "the search went by words alone"))
    _print_hits(hits, as_json=as_json)
    if hits:
        return FINE
    say(_nothing(query, channel, filters))
    return NO


_HIT_COLUMNS: Final = (
    TableColumn("score", right=True),
    TableColumn("handle"),
    TableColumn("day", dim=True),
    TableColumn("what", dim=True),
    TableColumn("passage", wraps=True),
)


def _print_hits(hits: Sequence[SearchHit], *, as_json: bool) -> None:
    rows, words = [_cells(hit) for hit in hits], "\n".join(map(_words, hits))
    print_list([_fields(hit) for hit in hits], words, _HIT_COLUMNS, rows, as_json=as_json)


def _cells(hit: SearchHit) -> tuple[str, ...]:
    """A hit on a terminal: its passage wraps."""
    event = hit.event
    said = event.said_by if event.kind in TYPED_KINDS else event.role
    what = event.data.get("tool") or said or event.key
    named = clipped_line(f"{event.kind} {what or ''}", 24)
    passage = " ".join(hit.text.split()) + ("" if hit.whole else " …")
    stale = " (stale)" if hit.stale else ""
    return str(hit.score), hit.handle, event.ts[:10], named, passage + stale


def _fields(hit: SearchHit) -> dict[str, Any]:
    event = event_json(hit.event)
    del event["text"]  # the passage stands for it
    return {
        "score": hit.score,
        "text": hit.text,
        "whole": hit.whole,
        "stale": hit.stale,
        "said_by": hit.said_by,
        "handle": hit.handle,
        "parts": hit.parts,
        "event": event,
    }


def _words(hit: SearchHit) -> str:
    event = hit.event
    tool = event.data.get("tool")
    said = tool or (event.said_by if event.kind in TYPED_KINDS else event.role)
    about = [event.kind, said, event.actor, event.key, event.session]
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
    query: Annotated[str, Argument(metavar="QUERY", help="What is to be done next.")] = "",
    *,
    session: Annotated[
        str | None,
        Option("--session", metavar="ID", help="Its own files first, and its branch."),
    ] = None,
    branch: Annotated[
        str | None,
        Option("--branch", metavar="NAME", help="The git branch; else the session's."),
    ] = None,
    limit: Annotated[int, Option(metavar="N", min=1, max=1000, help="At most so many.")] = 20,
    ns: OneNs = None,
    agent: Agent = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List files by what was touched before: for this query, session and branch, best first."""
    with open_plane(home) as plane:
        found = plane.work.files(
            query, session=session, branch=branch, limit=limit, channel=channel, ns=ns, agent=agent
        )
    words = "\n".join(
        f"{one.seq:>6}  {clipped_line(one.path, 60):<60}  {clipped_line(one.branch, 24):<24}  "
        f"{', '.join(one.why)}".rstrip()
        for one in found
    )
    print_answer([one._asdict() for one in found], words, as_json=as_json)
    if not found:
        say("no file was touched in anything recorded here")


# `memplane embed`: vectors beside the words, made when somebody asks for them.


@command("embed", example="embed --limit 1000")
def embed_documents(
    *,
    limit: Annotated[
        int | None, Option("--limit", metavar="N", help="At most so many texts.")
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Make the vectors that search and pack use beside the words; they are kept in the plane.

    The embedder is the one that plane.yaml names (index: embedder). May be stopped at any time:
    what is done is kept, and the next run goes on from there.
    """
    with open_plane(home) as plane:
        with Bar("indexing", "what is indexed stays") as bar:
            plane.upkeep.index(bar)
        try:
            with Bar("embed") as bar:
                done = plane.upkeep.embed(limit, bar)
        except KeyboardInterrupt:
            say("stopped; what was embedded is kept, and the next run goes on from there")
            raise
    more = "; there may be more" if done == limit else ""
    print_answer({"embedded": done}, f"{counted(done, 'text')} embedded{more}", as_json=as_json)
