"""`memplane verify`, `repair`, `rebuild`: is the plane whole, and how it becomes so again."""

import os
from typing import Annotated, Any

import typer

from memplane import log as logs
from memplane.cli.app import command
from memplane.cli.exits import FINE, NO
from memplane.cli.options import Home, Json
from memplane.cli.output import counted, put, say
from memplane.cli.progress import Bar
from memplane.errors import HomeError
from memplane.log import Step
from memplane.plane.checking import PlaneReport
from memplane.plane.stated import stated, witnesses
from memplane.wiring import clock, find, open_plane

__all__ = ["rebuild", "repair", "verify"]


@command("verify", example="verify")
def verify(
    *,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Every cache, also the parsed form of the policies."),
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> int:
    """Check every byte of the plane, and what was made from the log; exit 1 on a finding.

    Reads the log (chain, numbers, headers, tombstones), the texts and files beside it by their
    hashes, the spool; then makes projections and index anew in memory and compares. Writes
    nothing. Each finding names the command that helps.
    """
    with open_plane(home, read_only=True) as plane, Bar("verify") as bar:
        report = plane.verify(bar, processes=os.cpu_count() or 1, deep=deep)
    put(_report_json(report), _report_words(report), as_json=as_json)
    if report.mistakes:
        say(
            f"{counted(len(report.mistakes), 'mistake')} in the policies, the first: "
            f"{report.mistakes[0]}; "
            "the projections were not compared: run `memplane policy check` first"
        )
    return FINE if report.ok else NO


@command("repair", example="repair --dry-run")
def repair(
    *,
    salvage: Annotated[
        bool,
        typer.Option(
            "--salvage",
            help="Where acknowledged events are lost, record the gap and go on with the rest.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Make a damaged log writable again. What is taken out of it goes to log/quarantine first.

    Of projections and index nothing is repaired: `memplane rebuild` makes them again.
    """
    found = find(home)
    if found.read_only and not dry_run:
        raise HomeError(f"{found.path}: is read-only; nothing was repaired")
    told = list(witnesses(found.path, found.plane_id))
    report = logs.repair(
        found.path, found.plane_id, clock=clock, salvage=salvage, dry_run=dry_run, witnesses=told
    )
    useless = [name for name, at in stated(found.path, found.plane_id) if at is None]
    if useless:
        say(f"projections/{', '.join(useless)}: torn, or of another plane; `memplane rebuild`")
    if dry_run:
        steps = [step._asdict() for step in report.steps]
        words = "\n".join(map(_step_words, report.steps)) or "nothing to repair"
        put({"dry_run": True, "steps": steps}, words, as_json=as_json)
        return
    done = [{"seq": event.seq, "id": event.id, **event.data} for event in report.events]
    words = "\n".join(map(_done_words, done)) or "nothing to repair"
    put({"repairs": done}, words, as_json=as_json)


@command("rebuild", example="rebuild")
def rebuild(*, home: Home = None, as_json: Json = False) -> None:
    """Throw the projections away and fold the log again."""
    with open_plane(home) as plane:
        if plane.read_only:
            raise HomeError(f"{plane.home}: is read-only; nothing was rebuilt")
        with Bar("index") as bar:
            lines = plane.rebuild(progress=bar)
    put({"folded": lines}, f"{lines} lines of the log folded", as_json=as_json)


def _step_words(step: Step) -> str:
    where = f", byte {step.offset}: {step.bytes} bytes" if step.bytes else ""
    return f"{step.file}{where}: {step.what}"


def _done_words(one: dict[str, Any]) -> str:
    """What a repair event says."""
    if one["case"] == "ended":
        known = f"seq {one['known_seq']}" if one["known_seq"] else f"segment {one['known_segment']}"
        return (
            f"ended: the log ended with seq {one['last_seq']}, and {one['told_by'][0]} knew of "
            f"{known}: recorded as lost (event {one['seq']})"
        )
    where = f"{one['bytes']} bytes set aside"
    if one["quarantine"]:
        where += f" in log/quarantine/{one['quarantine']}"
    if one.get("what"):
        return f"{one['case']}: {one['file']} {one['what']}: {where} (event {one['seq']})"
    if one["case"] == "restarted":
        return (
            f"restarted: segment {one['segment']} had lost its first line, and what it held is "
            f"lost: {where} (event {one['seq']})"
        )
    place = f"segment {one['segment']}, byte {one['offset']}"
    return f"{one['case']}: {place}: {where} (event {one['seq']})"


def _report_json(report: PlaneReport) -> dict[str, Any]:
    log = report.log
    return {
        "ok": report.ok,
        "segments": log.segments,
        "events": log.events,
        "bytes": log.bytes,
        "bodies": log.bodies,
        "waiting": log.waiting,
        "head": log.head._asdict(),
        "problems": [problem._asdict() for problem in report.problems],
        "salvaged": [gap._asdict() for gap in log.salvaged],
        "notes": list(report.notes),
        "projections_compared": report.compared,
        "policy_mistakes": [str(problem) for problem in report.mistakes],
    }


def _report_words(report: PlaneReport) -> str:
    log = report.log
    lines = [str(problem) for problem in report.problems]
    lines += [
        f"segment {gap.segment}: seq {gap.first} to {gap.last} were lost; a repair recorded that"
        for gap in log.salvaged
    ]
    lines += [f"note: {note}" for note in report.notes]
    count = counted(len(report.problems), "problem") if report.problems else "nothing is wrong"
    lines.append(
        f"{counted(log.segments, 'segment')}, {counted(log.events, 'line')}, "
        f"{log.bodies} bodies: {count}"
    )
    return "\n".join(lines)
