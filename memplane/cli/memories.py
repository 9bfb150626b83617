"""Commands that change memories: `forget`, `pin`, `evict`, `confirm`, `update`, `undo`, `purge`.

They change what blocks may contain; only `purge` erases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from memplane.cli import commands
from memplane.cli.commands import (
    Argument,
    Decisions,
    Home,
    Json,
    Now,
    Ns,
    OfKind,
    OlderThan,
    OneNs,
    Option,
    Project,
    Reason,
    WithTag,
    Yes,
    command,
    kept_words,
    number,
)
from memplane.cli.output import (
    Bar,
    clipped_line,
    counted,
    event_json,
    event_rows,
    print_answer,
    say,
)
from memplane.cli.show import named_event
from memplane.errors import InputError
from memplane.event import GLOBAL
from memplane.plane import Plane, Receipt
from memplane.projects import EVERY
from memplane.upkeep.purge import ARCHIVED, Already, LostBytes, PurgeReport
from memplane.wiring import CALLER, open_plane
from memplane.work.changes import Forgotten

_Key = Annotated[str | None, Argument(metavar="KEY", help="The value under this key.")]
_Id = Annotated[str | None, Option("--id", metavar="ID|SEQ", help="This one event.")]
_Session = Annotated[str | None, Option(metavar="ID", help="A whole session.")]
_Source = Annotated[
    str | None, Option(metavar="PREFIX", help="All ids of an importer: claude-code.")
]
_Event = Annotated[str | None, Argument(metavar="ID|SEQ", help="A statement's id or number.")]
_Query = Annotated[str | None, Option(metavar="WORDS", help="What says every one of these words.")]
_Since = Annotated[
    str | None, Option(metavar="TIME|AGE", help="What happened since: RFC 3339, 2d, 12h.")
]
_DryRun = Annotated[bool, Option("--dry-run", help="Say what it would take; write nothing.")]
_OfKey = Annotated[
    str | None, Option("--key", metavar="KEY", help="The value that this key has now.")
]


_DESCRIBING = "--query, --tag, --since, --older-than, --project"


@command("forget", example="forget db.engine --reason outdated")
def forget_memory(
    key: _Key = None,
    *,
    ns: OneNs = None,
    event_id: _Id = None,
    session: _Session = None,
    source: _Source = None,
    query: _Query = None,
    tag: WithTag = None,
    since: _Since = None,
    older_than: OlderThan = None,
    kind: OfKind = None,
    decisions: Decisions = False,
    dry_run: _DryRun = False,
    yes: Yes = False,
    now: Now = None,
    reason: Reason = "",
    project: Project = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Take something out of all blocks and lists. The log keeps it; `undo` takes it back.

    --query, --tag, --since, --older-than and --project describe what goes, all of them together: it
    is said, and forgotten with --yes. Decisions, rules, constraints and pins stay, unless
    --decisions or their --kind is given.
    """
    if dry_run and yes:
        raise InputError("expected one of --dry-run and --yes, found both")
    words: dict[str, Any] = {"query": query, "tag": tag, "since": since, "older_than": older_than}
    more: dict[str, Any] = {"kind": kind, "decisions": decisions, "now": now}
    named = any((key, event_id, session, source))
    if project is not None:
        CALLER.set(CALLER.get()._replace(project=project))
    with open_plane(home) as plane, Bar("reading") as bar:
        described = any(words.values()) or (project not in (None, EVERY) and not named)
        if not described:
            if any(more.values()) or yes or dry_run:
                raise InputError(
                    f"--kind, --decisions, --now, --dry-run, --yes go with {_DESCRIBING}"
                )
            given = _named(plane, key, ns or GLOBAL, event_id, session, source)
            receipt = plane.forget(**given, reason=reason)
            _tell(receipt, f"forgotten: {_words(given)}", as_json=as_json)
            return
        if named:
            raise InputError(f"KEY, --id, --session, --source go with none of {_DESCRIBING}")
        done = plane.work.forget_many(
            **words,
            **more,
            ns=ns,
            project=None if project is None else plane.context.home.project,
            reason=reason,
            dry_run=not yes,
            progress=bar,
        )
    _tell_many(done, dry_run=not yes, as_json=as_json)


def _tell_many(done: Forgotten, *, dry_run: bool, as_json: bool) -> None:
    answer = {
        "dry_run": dry_run,
        "taken": [event_json(event) for event in done.taken],
        "kept": done.kept,
        "receipts": [receipt.as_json() for receipt in done.receipts],
    }
    print_answer(answer, event_rows(list(done.taken)), as_json=as_json)
    by = ", ".join(str(receipt.seq) for receipt in done.receipts)
    what = "would be forgotten: nothing was written, --yes does it" if dry_run else "forgotten"
    say(f"{counted(len(done.taken), 'event')} {what}" + (f" (event {by})" if by else ""))
    if done.kept:
        say(kept_words(done.kept))


@command("unforget", example="unforget db.engine")
def unforget(
    key: _Key = None,
    *,
    ns: Ns = "/global",
    event_id: _Id = None,
    session: _Session = None,
    source: _Source = None,
    reason: Reason = "",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Take back the forgetting of what is named, as `forget` names it."""
    with open_plane(home) as plane:
        given = _named(plane, key, ns, event_id, session, source)
        receipt = plane.unforget(**given, reason=reason)
    _tell(receipt, f"no longer forgotten: {_words(given)}", as_json=as_json)


@command("pin", example="pin 2")
def pin(
    event_id: _Event = None,
    *,
    key: _OfKey = None,
    ns: Ns = "/global",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Put a decision or card before others in blocks, from the next session on."""
    with open_plane(home) as plane:
        receipt = plane.pin(**_statement(plane, event_id, key, ns))
        event = plane.event(receipt.event.refs[0])
    _tell(receipt, f"pinned: {event.seq} {event.id}", as_json=as_json)


@command("unpin", example="unpin 2")
def unpin(
    event_id: _Event = None,
    *,
    key: _OfKey = None,
    ns: Ns = "/global",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Take a pin back."""
    with open_plane(home) as plane:
        receipt = plane.unpin(**_statement(plane, event_id, key, ns))
        event = plane.event(receipt.event.refs[0])
    _tell(receipt, f"no longer pinned: {event.seq} {event.id}", as_json=as_json)


@command("touch", example="touch 2")
def touch(
    event_id: _Event = None,
    *,
    key: _OfKey = None,
    ns: Ns = "/global",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Say that a memory still holds: its importance fades anew from now on."""
    with open_plane(home) as plane:
        receipt = plane.touch(**_statement(plane, event_id, key, ns))
        event = plane.event(receipt.event.refs[0])
    _tell(receipt, f"touched: {event.seq} {event.id}", as_json=as_json)


@command("evict", example="evict --below 0.1 --dry-run")
def evict_memories(
    *,
    below: Annotated[
        str,
        Option(metavar="N", help="What has faded below it: 0 to 1000, or 0.0 to 1.0."),
    ],
    dry_run: Annotated[
        bool, Option("--dry-run", help="Say what it would take; write nothing.")
    ] = False,
    ns: OneNs = None,
    kind: Annotated[str | None, Option(metavar="KIND", help="Only this kind.")] = None,
    now: Now = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Archive the memories that have faded below a line.

    Facts, observations, plans, summaries, insights and preferences, by what time has left of their
    importance (half_lives of scoring.yaml). Never a decision, a rule, a constraint or what is
    pinned. The log keeps them; `unforget --id` takes one back.
    """
    line = number(below, "--below")
    assert line is not None, "typer demands it"
    with open_plane(home) as plane, Bar("reading") as bar:
        done = plane.work.evict(line, dry_run=dry_run, ns=ns, kind=kind, now=now, progress=bar)
    taken = [{**event_json(one.event), "importance_now": one.importance} for one in done.taken]
    words = "\n".join(
        f"{one.event.seq:>6}  {one.importance:>4} of {one.event.importance:<4}  "
        f"{clipped_line(f'{one.event.kind} {one.event.key or one.event.ns}', 28):<28}  "
        f"{clipped_line(one.event.text)}".rstrip()
        for one in done.taken
    )
    receipts = [receipt.as_json() for receipt in done.receipts]
    print_answer({"dry_run": dry_run, "taken": taken, "receipts": receipts}, words, as_json=as_json)
    what = "would be archived" if dry_run else "archived"
    by = ", ".join(str(receipt.seq) for receipt in done.receipts)
    say(f"{counted(len(taken), 'memory', 'memories')} {what}" + (f" (event {by})" if by else ""))


def _named(
    plane: Plane,
    key: str | None,
    ns: str,
    event_id: str | None,
    session: str | None,
    source: str | None,
) -> dict[str, Any]:
    """What was named, as the library takes it."""
    one = {"key": key, "id": event_id, "session": session, "source": source}
    given: dict[str, Any] = {name: value for name, value in one.items() if value is not None}
    if len(given) != 1:
        found = ", ".join(given) or "none"
        raise InputError(
            f"expected exactly one of KEY, --id, --session and --source, found {found}"
        )
    if event_id is not None:
        given["id"] = named_event(plane, event_id).id
    if key is not None:
        given["ns"] = ns
    return given


def _statement(plane: Plane, event_id: str | None, key: str | None, ns: str) -> dict[str, Any]:
    """What to pin, as the library takes it."""
    if (event_id is None) == (key is None):
        found = "none" if key is None else "both"
        raise InputError(f"expected exactly one of ID|SEQ and --key, found {found}")
    if event_id is not None:
        return {"id": named_event(plane, event_id).id}
    return {"key": key, "ns": ns}


def _words(given: dict[str, Any]) -> str:
    return " ".join(f"{name} {value}" for name, value in given.items())


def _tell(receipt: Receipt, words: str, *, as_json: bool) -> None:
    print_answer(receipt.as_json(), f"{words} (event {receipt.seq})", as_json=as_json)


@command("confirm", example="confirm 4")
def confirm_memory(
    event: Annotated[str, Argument(metavar="ID|SEQ", help="The statement that you confirm.")],
    *,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Say that a statement of an agent, a tool or a model is right: from now on it is yours.

    It is recorded again as a user's and takes the place of the old one; blocks no longer mark it.
    `undo` takes that back.
    """
    with open_plane(home) as plane:
        receipt = plane.work.confirm(commands.ref(event))
    print_answer(receipt.as_json(), f"{receipt.seq} {receipt.id}", as_json=as_json)


# `memplane update` and `memplane undo`: a statement changed, and the last word taken back.


@command("update", example='update 4 "We moved to SQLite" --importance 0.9')
def update_memory(
    event: Annotated[str, Argument(metavar="ID|SEQ", help="The statement that changes.")],
    text: Annotated[
        str | None, Argument(metavar="[TEXT]", help="What it says now; else as before.")
    ] = None,
    *,
    tag: commands.Tags = None,
    marker: commands.Markers = None,
    importance: commands.Importance = None,
    sensitivity: commands.Sensitivity = None,
    valid_from: commands.Time = None,
    valid_until: commands.Time = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Change a statement, with or without a key, and print the seq and id of the new event.

    Fields that you do not give keep their values. The changed statement is a new event that names
    the old one; the old one is superseded, or forgotten if it has no key. `undo` takes that back.
    """
    given: dict[str, Any] = {
        "text": text,
        "tags": tag or None,
        "markers": marker or None,
        "importance": commands.number(importance),
        "sensitivity": sensitivity,
        "valid_from": valid_from,
        "valid_until": valid_until,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    with open_plane(home) as plane:
        receipt = plane.work.update(commands.ref(event), **changes)
    print_answer(receipt.as_json(), f"{receipt.seq} {receipt.id}", as_json=as_json)


@command("undo", example="undo --dry-run")
def undo_last(
    *,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Say what it would take back; write nothing.")
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Take back the last statement that was recorded, or the last forget, unforget or evict.

    A statement is forgotten, and what it had replaced holds again. Once more, it goes further back.
    The log keeps all of it; exit 1 where there is nothing to take back.
    """
    with open_plane(home) as plane:
        done = plane.work.undo(dry_run=dry_run)
    answer = {
        "dry_run": dry_run,
        "events": [event_json(event) for event in done.events],
        "restored": None if done.restored is None else event_json(done.restored),
        "receipts": [receipt.as_json() for receipt in done.receipts],
    }
    words = [("would be taken back:" if dry_run else "taken back:"), event_rows(list(done.events))]
    if done.restored is not None:
        words += ["holds again:", event_rows([done.restored])]
    print_answer(answer, "\n".join(words), as_json=as_json)


# `memplane purge`: erase for good, and say what still quotes what was erased.

_SHOWN = 20  # events, and quotes, in words


_Ids = Annotated[list[str] | None, Argument(metavar="ID|SEQ...", help="These events.")]
_PurgedKey = Annotated[str | None, Option(metavar="KEY", help="All values that this key ever had.")]
_Archived = Annotated[
    list[str] | None,
    Option(
        metavar="WHY",
        help="What is out of force: forgotten, superseded, evicted, or all; forgotten:TEXT "
        "for what `forget --reason TEXT` took. May be repeated.",
    ),
]
_Keep = Annotated[
    bool,
    Option("--keep", help="What `keep` of plane.yaml lets go of: tool results of old sessions."),
]
_Cascade = Annotated[bool, Option("--cascade", help="Erase what quotes it or rests on it, too.")]
_Summaries = Annotated[
    bool,
    Option("--summaries", help="Erase the summaries too that memplane made of sessions with it."),
]


@command("purge", example="purge 2 --dry-run")
def purge_events(
    ids: _Ids = None,
    *,
    key: _PurgedKey = None,
    ns: OneNs = None,
    session: _Session = None,
    source: _Source = None,
    archived: _Archived = None,
    tag: WithTag = None,
    older_than: OlderThan = None,
    kind: OfKind = None,
    decisions: Decisions = False,
    now: Now = None,
    keep: _Keep = False,
    reason: Reason = "",
    cascade: _Cascade = False,
    summaries: _Summaries = False,
    dry_run: _DryRun = False,
    yes: Yes = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Erase events for good, everywhere below the plane's home. Nothing takes it back.

    `forget` archives; this overwrites the events' lines in the log and drops them from
    projections, index, bodies and reports. The answer lists what still quotes them. Where generated
    summaries of sessions rest on them it refuses and names these, until --summaries or --cascade
    says that they go too. Copies elsewhere keep them: git history, backups, exports.

    --tag and --older-than describe what goes, alone or beside --archived: what would be erased is
    said, and erased with --yes. Decisions, rules, constraints and pins stay, unless --decisions.
    So too with --keep, for what plane.yaml lets go of, in all projects. Else nothing of another
    project goes, unless it is named: by its id, with --ns, or with --project NAME (* for all).
    """
    reasons = ARCHIVED if archived and "all" in archived else tuple(archived or ())
    named: dict[str, Any] = {
        "key": key,
        "session": session,
        "source": source,
        "archived": reasons,
    }
    described: dict[str, Any] = {"tag": tag, "older_than": older_than, "kind": kind}
    narrows = bool(tag or older_than)
    _check(ids, named, described, keep=keep, decisions=decisions)
    dry_run = dry_run or ((narrows or keep) and not yes)
    if keep:
        _purge_due(home, now, dry_run=dry_run, as_json=as_json)
        return
    seqs = [commands.ref(one) for one in ids or ()]
    with open_plane(home) as plane, Bar("purge") as bar:
        report = plane.upkeep.purge(
            *seqs, **named, **described, decisions=decisions, ns=ns, reason=reason, now=now,
            cascade=cascade, summaries=summaries, dry_run=dry_run, progress=bar,
        )  # fmt: skip
    _tell_purged(report, described=narrows, as_json=as_json)


def _check(
    ids: Sequence[str] | None,
    named: dict[str, Any],
    described: dict[str, Any],
    *,
    keep: bool,
    decisions: bool,
) -> None:
    """Refuse words that do not go together."""
    if keep:
        if ids or decisions or any((*named.values(), *described.values())):
            raise InputError("expected nothing beside it to be named", where="--keep")
        return
    narrows = described["tag"] or described["older_than"]
    if sum(bool(one) for one in (ids, *named.values())) != 1 and not narrows:
        raise InputError(
            "expected one of ID, --key, --session, --source and --archived, or --tag, --older-than"
        )


def _tell_purged(report: PurgeReport, *, described: bool, as_json: bool) -> None:
    print_answer(report.as_json(), _purge_words(report), as_json=as_json)
    if report.kept:
        say(kept_words(report.kept))
    if described and report.dry_run:
        say("nothing was erased: --yes does it")


def _purge_due(home: str | None, now: str | None, *, dry_run: bool, as_json: bool) -> None:
    with open_plane(home) as plane, Bar("purge") as bar:
        report = plane.upkeep.purge_due(dry_run=dry_run, now=now, progress=bar)
    if report is None:
        print_answer(None, "nothing is over by `keep` of plane.yaml", as_json=as_json)
        return
    _tell_purged(report, described=True, as_json=as_json)


def _purge_words(report: PurgeReport) -> str:
    lines = [_before(one) for one in report.already]
    if not report.events and not report.lost:
        return "\n".join(lines)
    done = "would be erased" if report.dry_run else "erased"
    lines += [f"{done}: {counted(len(report.events), 'event')}" + _by(report)]
    lines += _listed(report.events)
    lines += [f"  {_place(one)}" for one in report.lost]
    if report.summaries:
        resting = counted(
            len(report.summaries), "generated summary rests on", "generated summaries rest on"
        )
        lines.append(f"refused without --summaries or --cascade: {resting} it")
        lines += _listed(report.summaries)
    lines.append(
        f"with {counted(report.bodies, 'file')} of bodies/, {counted(report.reports, 'report')} "
        f"and {counted(report.quarantine, 'file')} of log/quarantine/"
    )
    if report.quoted:
        lines.append(f"{counted(report.quoted, 'place')} still quote or name it:")
        lines += [f"  {_quote(one)}" for one in report.quotes[:_SHOWN]]
        if report.quoted > _SHOWN:
            lines.append(f"  and {report.quoted - _SHOWN} more")
        if any(one.seq for one in report.quotes):
            lines.append("  --cascade takes the events among them too")
    if report.revived:
        again = "would be" if report.dry_run else "is"
        lines.append(f"{again} in force again: {counted(len(report.revived), 'event')}")
        for seq, id_ in report.revived[:_SHOWN]:
            shown = ": its approval holds again, prompts may show it"
            lines.append(f"  {seq} {id_}" + shown * (seq in report.approved))
        if len(report.revived) > _SHOWN:
            lines.append(f"  and {len(report.revived) - _SHOWN} more")
    git = f"the history of {report.repository}, if it was committed, " if report.repository else ""
    lines.append(f"copies elsewhere keep it: {git}backups, exports, clones")
    return "\n".join(lines)


def _listed(events: Sequence[tuple[int, str]]) -> list[str]:
    lines = [f"  {seq} {id_}" for seq, id_ in events[:_SHOWN]]
    return lines if len(events) <= _SHOWN else [*lines, f"  and {len(events) - _SHOWN} more"]


def _before(one: Already) -> str:
    named = " ".join(filter(None, (str(one.seq or ""), one.id)))
    return f"already purged: {named} by event {one.by} at {one.ts}"


def _place(one: LostBytes) -> str:
    """Where the bytes of a lost event are, or were."""
    copies = f"{counted(len(one.files), 'copy', 'copies')} in log/quarantine/"
    if not one.segment:
        return f"{one.named}: no line of the log, {copies}"
    seqs = str(one.first) if one.last <= one.first else f"{one.first} to {one.last}"
    return (
        f"{one.named}: lost before (seq {seqs}), {one.end - one.offset} bytes at byte {one.offset} "
        f"of log/{one.segment:08d}.jsonl, {copies}"
    )


def _by(report: PurgeReport) -> str:
    more = f", {report.cascaded} of them quoting what was named" if report.cascaded else ""
    by = f" (event {', '.join(map(str, report.by))})" if report.by else ""
    return more + by


def _quote(one: Any) -> str:
    told = {"text": "has its text", "refs": "rests on it", "unread": "too large to look into"}
    what = told[one.how]
    return f"{one.seq} {one.name}: {what}" if one.seq else f"{one.name}: {what}"
