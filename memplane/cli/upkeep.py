"""`memplane stats`, `verify`, `repair`, `rebuild`: how large the plane is, whether it is whole."""

import os
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from memplane import home as homes
from memplane import log as logs
from memplane.cli.app import command
from memplane.cli.exits import FINE, NO
from memplane.cli.options import Channel, Home, Json, Session
from memplane.cli.output import counted, one_line, put, say
from memplane.cli.progress import Bar
from memplane.errors import HomeError, InputError, PolicyError, Problem
from memplane.explain.prefixes import Shared, shared_by
from memplane.log import VerifyReport
from memplane.plane import Plane
from memplane.plane.reports import saved
from memplane.wiring import clock, find_home, open_plane

__all__ = ["rebuild", "repair", "stats", "verify"]


@command("stats", example="stats")
def stats(
    *,
    cache: Annotated[
        bool, typer.Option("--cache", help="What saved packs repeat, for prompt caches, instead.")
    ] = False,
    session: Session = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Count what the plane holds, by kind, and what it takes on disk.

    With --cache: of the packs in reports/, by session, how much each repeated of the one before,
    what broke the prefix, and what that costs by the prices of plane.yaml (prompt_cache).
    """
    if session is not None and not cache:
        raise InputError("expected --cache beside it", where="--session")
    with open_plane(home) as plane:
        if cache:
            prices = plane.policies.plane.cache
            shared = shared_by(saved(plane.home), prices, session=session)
            answer = [one.as_json() for one in shared]
            put(answer, _cache_words(shared), as_json=as_json)
            return
        found = _counted(plane, channel)
    disk = found["bytes"]
    kinds = ", ".join(f"{kind} {count}" for kind, count in found["kinds"].items())
    lines = [
        f"events    {found['events']}" + (f": {kinds}" if kinds else ""),
        f"sessions  {found['sessions']}",
        f"tokens    {found['tokens']}",
        f"time      {found['first'] or '-'} to {found['last'] or '-'}",
        f"decisions {found['decisions']} in force",
        "bytes     " + ", ".join(f"{name} {size}" for name, size in disk.items()),
    ]
    if found["hidden"]:
        lines.append(f"hidden    {found['hidden']} from this channel, or not readable")
    put(found, "\n".join(lines), as_json=as_json)


@command("verify", example="verify")
def verify(*, home: Home = None, as_json: Json = False) -> int:
    """Check every byte of the log, and the projections against the log; exit 1 on a finding."""
    found = homes.open_home(find_home(home))
    mistakes: tuple[Problem, ...] = ()
    with Bar("verify") as bar:
        report = logs.verify(found.path, found.plane_id, progress=bar, loads=orjson.loads)
    with open_plane(found.path, read_only=True) as plane:
        try:
            differ = plane.differing()
        except PolicyError as error:
            differ, mistakes = None, error.problems
    findings = [problem._asdict() for problem in report.problems]
    findings += [
        {"segment": name if "/" in name else f"projections/{name}", "offset": 0,
         "what": "is not what the log folds to", "remedy": "`memplane rebuild` makes it again"}
        for name in differ or ()
    ]  # fmt: skip
    answer = {
        **_report_json(report, findings, differ),
        "policy_mistakes": [str(problem) for problem in mistakes],
    }
    put(answer, _report_words(report, findings), as_json=as_json)
    if mistakes:
        say(
            f"{counted(len(mistakes), 'mistake')} in the policies, the first: "
            f"{mistakes[0]}; "
            "the projections were not compared: run `memplane policy check` first"
        )
    return NO if findings else FINE


@command("repair", example="repair")
def repair(
    *,
    salvage: Annotated[
        bool,
        typer.Option(
            "--salvage",
            help="Where acknowledged events are lost, record the gap and go on with the rest.",
        ),
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Make a damaged log writable again. What is taken out of it goes to log/quarantine first."""
    found = homes.open_home(find_home(home))
    if found.read_only:
        raise HomeError(f"{found.path}: is read-only; nothing was repaired")
    report = logs.repair(found.path, found.plane_id, clock=clock, salvage=salvage)
    done = [{"seq": event.seq, "id": event.id, **event.data} for event in report.events]
    words = "\n".join(
        f"{one['case']}: segment {one['segment']}, byte {one['offset']}: {one['bytes']} bytes set "
        f"aside{' in ' + str(one['quarantine']) if one['quarantine'] else ''} (event {one['seq']})"
        for one in done
    )
    put({"repairs": done}, words or "nothing to repair", as_json=as_json)


@command("rebuild", example="rebuild")
def rebuild(*, home: Home = None, as_json: Json = False) -> None:
    """Throw the projections away and fold the log again."""
    with open_plane(home) as plane:
        if plane.read_only:
            raise HomeError(f"{plane.home}: is read-only; nothing was rebuilt")
        with Bar("index") as bar:
            lines = plane.rebuild(progress=bar)
    put({"folded": lines}, f"{lines} lines of the log folded", as_json=as_json)


def _cache_words(shared: list[Shared]) -> str:
    """A line a session and shape: packs, shares, breaks, cost if packed a prompt or a call."""
    if not shared:
        return "no saved packs of a session: `memplane pack --session ID` saves one"
    lines = ["packs  budget  share median / p10   stable   cost P   cost T  session: breaks"]
    for one in shared:
        facts = one.as_json()["shares"]
        middle, low = (
            "-" if facts[name] is None else f"{facts[name] / 10_000:.0f} %"
            for name in ("median_ppm", "p10_ppm")
        )
        costs = [f"{one.of_fresh(reuse) / 10_000:6.0f} %" for reuse in ("prompt", "call")]
        breaks = ", ".join(f"{cause} {count}" for cause, count in one.breaks.items())
        lines.append(
            f"{one.packs:>5}  {one.budget:>6}  {middle:>12} / {low:<8} "
            f"{one.kept:>3}/{len(one.shares):<3}  "
            f"{costs[0]} {costs[1]}  {one_line(one.session, 40)}"
            + (f": {breaks}" if breaks else "")
            + (f"; {one.below_minimum} too short for the cache" if one.below_minimum else "")
        )
    lines.append(
        "cost: against sending every block anew, if nothing expires; P as if each pack came with a "
        "prompt of its own, T with a call of the model"
    )
    return "\n".join(lines)


def _counted(plane: Plane, channel: str) -> dict[str, Any]:
    head = plane.head()
    kinds: Counter[str] = Counter()
    sessions: set[str] = set()
    tokens = 0
    first, last = None, None
    with Bar("stats") as bar:
        for event in plane.events(channel=channel):
            bar(event.seq, head.seq)
            kinds[event.kind] += 1
            tokens += event.tokens or 0
            if event.session is not None:
                sessions.add(event.session)
            if event.kind != "segment":
                first = event.ts if first is None else min(first, event.ts)
                last = event.ts if last is None else max(last, event.ts)
    segments = kinds.pop("segment", 0)
    return {
        "events": kinds.total(),
        "kinds": dict(sorted(kinds.items(), key=lambda item: (-item[1], item[0]))),
        "hidden": max(0, head.seq - kinds.total() - segments),
        "segments": segments,
        "sessions": len(sessions),
        "tokens": tokens,
        "first": first,
        "last": last,
        "decisions": len(plane.decisions(channel=channel)),
        "bytes": {
            name: _size(plane.home / name)
            for name in ("log", "bodies", "projections", "index", "reports")
        },
    }


def _size(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root, name)
            total += path.stat().st_size if path.exists() else 0
    return total


def _report_json(
    report: VerifyReport, findings: list[dict[str, Any]], differ: list[str] | None
) -> dict[str, Any]:
    return {
        "ok": not findings,
        "segments": report.segments,
        "events": report.events,
        "bytes": report.bytes,
        "bodies": report.bodies,
        "head": report.head._asdict(),
        "problems": findings,
        "salvaged": [gap._asdict() for gap in report.salvaged],
        "projections_compared": differ is not None,
    }


def _report_words(report: VerifyReport, findings: list[dict[str, Any]]) -> str:
    lines = [
        f"{one['segment']}: byte {one['offset']}: {one['what']}; {one['remedy']}"
        for one in findings
    ]
    lines += [
        f"segment {gap.segment}: seq {gap.first} to {gap.last} were lost; a repair recorded that"
        for gap in report.salvaged
    ]
    count = counted(len(findings), "problem") if findings else "nothing is wrong"
    lines.append(
        f"{counted(report.segments, 'segment')}, {counted(report.events, 'line')}, "
        f"{report.bodies} bodies: {count}"
    )
    return "\n".join(lines)
