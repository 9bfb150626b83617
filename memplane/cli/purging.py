"""`memplane purge`: erase for good, and say what still quotes what was erased."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from memplane.cli.app import command
from memplane.cli.options import (
    Decisions,
    Home,
    Json,
    Now,
    OfKind,
    OlderThan,
    OneNs,
    Reason,
    WithTag,
    Yes,
    kept_words,
)
from memplane.cli.output import counted, put, say
from memplane.cli.progress import Bar
from memplane.errors import InputError
from memplane.plane.lost import Already, Lost
from memplane.plane.purge_plan import ARCHIVED
from memplane.plane.purging import PurgeReport
from memplane.wiring import open_plane

__all__ = ["purge"]

_SHOWN = 20  # events, and quotes, in words


_Ids = Annotated[list[str] | None, typer.Argument(metavar="ID|SEQ...", help="These events.")]
_OfKey = Annotated[
    str | None, typer.Option(metavar="KEY", help="All values that this key ever had.")
]
_Session = Annotated[str | None, typer.Option(metavar="ID", help="A whole session.")]
_Source = Annotated[
    str | None, typer.Option(metavar="PREFIX", help="All ids of an importer: claude-code.")
]
_Archived = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WHY",
        help="What is out of force: forgotten, superseded, evicted, or all; forgotten:TEXT "
        "for what `forget --reason TEXT` took. May be repeated.",
    ),
]
_Keep = Annotated[
    bool,
    typer.Option(
        "--keep", help="What `keep` of plane.yaml lets go of: tool results of old sessions."
    ),
]
_Cascade = Annotated[
    bool, typer.Option("--cascade", help="Erase what quotes it or rests on it, too.")
]
_Summaries = Annotated[
    bool,
    typer.Option(
        "--summaries", help="Erase the summaries too that memplane made of sessions with it."
    ),
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what it would take; write nothing.")]


@command("purge", example="purge 2 --dry-run")
def purge(
    ids: _Ids = None,
    *,
    key: _OfKey = None,
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
    So too with --keep, for what plane.yaml lets go of.
    """
    reasons = ARCHIVED if archived and "all" in archived else tuple(archived or ())
    named: dict[str, Any] = {
        "key": key, "session": session, "source": source, "archived": reasons,
    }  # fmt: skip
    described: dict[str, Any] = {"tag": tag, "older_than": older_than, "kind": kind}
    narrows = bool(tag or older_than)
    _check(ids, named, described, keep=keep, decisions=decisions)
    dry_run = dry_run or ((narrows or keep) and not yes)
    if keep:
        _purge_due(home, now, dry_run=dry_run, as_json=as_json)
        return
    seqs = [int(one) if one.isdecimal() and len(one) < 19 else one for one in ids or ()]
    with open_plane(home) as plane, Bar("purge") as bar:
        report = plane.purge(
            *seqs, **named, **described, decisions=decisions, ns=ns, reason=reason, now=now,
            cascade=cascade, summaries=summaries, dry_run=dry_run, progress=bar,
        )  # fmt: skip
    _tell(report, described=narrows, as_json=as_json)


def _check(
    ids: Sequence[str] | None, named: dict[str, Any], described: dict[str, Any], *, keep: bool,
    decisions: bool,
) -> None:  # fmt: skip
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


def _tell(report: PurgeReport, *, described: bool, as_json: bool) -> None:
    put(report.as_json(), _words(report), as_json=as_json)
    if report.kept:
        say(kept_words(report.kept))
    if described and report.dry_run:
        say("nothing was erased: --yes does it")


def _purge_due(home: str | None, now: str | None, *, dry_run: bool, as_json: bool) -> None:
    with open_plane(home) as plane, Bar("purge") as bar:
        report = plane.purge_due(dry_run=dry_run, now=now, progress=bar)
    if report is None:
        put(None, "nothing is over by `keep` of plane.yaml", as_json=as_json)
        return
    _tell(report, described=True, as_json=as_json)


def _words(report: PurgeReport) -> str:
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


def _place(one: Lost) -> str:
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
