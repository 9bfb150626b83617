"""`memplane verify`, `repair`, `rebuild`, `doctor`, `stats` and `audit`: check and mend a plane."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson

from memplane import log as logs, nofollow
from memplane.cli.commands import BROKEN, FINE, NO, command
from memplane.cli.options import Channel, Home, Html, Json, Option, Session
from memplane.cli.output import Bar, clipped_line, counted, print_answer, say, write_figures
from memplane.cli.trust import ask_once
from memplane.clock import clock
from memplane.errors import HomeError, InputError, MemplaneError, UntrustedError
from memplane.event import UPKEEP_KINDS, Event
from memplane.explain.replay import Shared, shared_by
from memplane.home import VERSION
from memplane.importers import git
from memplane.intake.redact import masked
from memplane.lazy import late
from memplane.log import RepairStep
from memplane.log.segments import erased_by
from memplane.plane import Plane
from memplane.policy import variables
from memplane.projections.sessions import is_extract
from memplane.projects import cache_id
from memplane.shared.follower import FollowerLog
from memplane.trust import TrustStore
from memplane.upkeep.doctor import Check, examine_plane
from memplane.upkeep.reports import saved
from memplane.upkeep.verify import AuditReport, PlaneReport, stated_positions, witnesses
from memplane.wiring import (
    find_detector,
    find_home,
    find_plane,
    make_counter,
    open_found,
    open_plane,
)

if TYPE_CHECKING:
    from memplane.evaluate import sessions as evaluate_sessions
    from memplane.hook import context as hook_context
    from memplane.inspect import figures
else:
    evaluate_sessions = late("memplane.evaluate.sessions")
    hook_context = late("memplane.hook.context")
    figures = late("memplane.inspect.figures")


@command("verify", example="verify")
def verify_plane(
    *,
    deep: Annotated[
        bool,
        Option("--deep", help="Make projections and index again in memory, and compare them."),
    ] = False,
    html: Html = None,
    home: Home = None,
    as_json: Json = False,
) -> int:
    """Check every byte of the plane, and what was made from the log; exit 1 on a finding.

    Reads the log (chain, numbers, headers, tombstones), the texts and files beside it by their
    hashes, the spool; projections and index by the sums that they state, or with --deep by making
    them anew. Writes nothing. Each finding names the command that helps.
    """
    with open_plane(home, read_only=True) as plane, Bar("verify") as bar:
        report = plane.upkeep.verify(bar, processes=processors(), deep=deep)
    answer = _report_json(report)
    print_answer(answer, _report_words(report), as_json=as_json)
    write_figures(html, lambda: figures.verify_page(answer))
    if report.mistakes:
        say(
            f"{counted(len(report.mistakes), 'mistake')} in the policies, the first: "
            f"{report.mistakes[0]}; "
            "projections and index were not compared: run `memplane policy check` first"
        )
    return FINE if report.ok else NO


@command("repair", example="repair --dry-run")
def repair_plane(
    *,
    salvage: Annotated[
        bool,
        Option(
            "--salvage",
            help="Where acknowledged events are lost, record the gap and go on with the rest.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Make a damaged log writable again. What is taken out of it goes to log/quarantine first.

    Of projections and index nothing is repaired: `memplane rebuild` makes them again.
    """
    found = find_plane(home)
    if found.read_only and not dry_run:
        raise HomeError(f"{found.path}: is read-only; nothing was repaired")
    if found.shared is not None:
        raise HomeError(
            f"{found.path}: follows a shared log, from which it is derived again: run "
            "`memplane shared refill`"
        )
    told = list(witnesses(found.path, cache_id(found)))
    report = logs.repair_log(
        found.path, found.plane_id, clock=clock, salvage=salvage, dry_run=dry_run, witnesses=told
    )
    useless = [name for name, at in stated_positions(found.path, cache_id(found)) if at is None]
    if useless:
        say(f"projections/{', '.join(useless)}: torn, or of another plane; `memplane rebuild`")
    if dry_run:
        steps = [step._asdict() for step in report.steps]
        words = "\n".join(map(_step_words, report.steps)) or "nothing to repair"
        print_answer({"dry_run": True, "steps": steps}, words, as_json=as_json)
        return
    done = [{"seq": event.seq, "id": event.id, **event.data} for event in report.events]
    words = "\n".join(map(_done_words, done)) or "nothing to repair"
    print_answer({"repairs": done}, words, as_json=as_json)


@command("rebuild", example="rebuild")
def rebuild_plane(*, home: Home = None, as_json: Json = False) -> None:
    """Throw the projections away and fold the log again."""
    with open_plane(home) as plane:
        if plane.read_only:
            raise HomeError(f"{plane.home}: is read-only; nothing was rebuilt")
        with Bar("rebuild") as bar:
            lines = plane.upkeep.rebuild(progress=bar, processes=processors())
    print_answer({"folded": lines}, f"{lines} lines of the log folded", as_json=as_json)


def processors() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not of every system
        return os.cpu_count() or 1


def _step_words(step: RepairStep) -> str:
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
        "deep": report.deep,
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


# `memplane doctor`: is this plane fit to be used, and what is missing around it.

_NEEDED: Final = ("orjson", "PyYAML", "jsonschema", "typer")
# Extra, the package that it brings, what that gives.
_EXTRAS: Final = (("tokens", "rs-bpe", "the counters o200k and cl100k, and faster counting"),)
_UNUSABLE: Final = ("home", "log")


@command("doctor", example="doctor")
def doctor(*, home: Home = None, as_json: Json = False) -> int:
    """Check the plane and its surroundings; write nothing. Exit 1 on a failure, 3 if unusable."""
    checks = [*plane_checks(home, asks=not as_json), *_trusts(), *_surroundings()]
    failed = [check.name for check in checks if check.status == "fail"]
    print_answer(
        {"ok": not failed, "checks": [check._asdict() for check in checks]},
        "\n".join(map(_doctor_words, checks)),
        as_json=as_json,
    )
    if not failed:
        return FINE
    return BROKEN if any(name in _UNUSABLE for name in failed) else NO


def plane_checks(home: str | None, *, asks: bool) -> list[Check]:
    """The checks of a plane; where it is not trusted yet, a person is asked if `asks`."""
    trusted = None
    try:
        path = find_home(home)
        if path.is_dir():
            with suppress(MemplaneError):  # a check says what is wrong with it
                trusted = find_plane(home).trusted
    except UntrustedError as error:
        if asks and ask_once(error):
            return plane_checks(home, asks=False)
        return [Check("home", "fail", error.found, error.remedy)]
    except MemplaneError as error:
        return [Check("home", "fail", str(error))]
    if not path.is_dir():
        return [Check("home", "fail", f"{path}: no plane here", "make one with `memplane init`")]
    checks = examine_plane(
        path,
        clock=clock,
        make_counter=make_counter,
        loads=orjson.loads,
        overrides=variables(os.environ),
        trusted=trusted,
    )
    return [*checks, *_hooks(path / "hooks.log"), *_keep(home), *_shared(home)]


def _shared(home: str | None) -> Iterator[Check]:
    """How the plane stands to the log that it shares with others, if it does."""
    with suppress(MemplaneError):
        found = find_plane(home)
        if found.shared is None or found.read_only:
            return
        try:
            with open_found(found) as plane:
                log = plane.context.log
                assert isinstance(log, FollowerLog)
                faults = log.faults()
                said = log.status()
        except MemplaneError as error:
            yield Check("shared log", "fail", str(error), "`memplane shared status` says more")
            return
        for fault in faults:
            yield Check("shared log", "warn", fault)
        if not faults:
            yield Check("shared log", "ok", f"{found.shared.name}: followed up to seq {said.seq}")


def _keep(home: str | None) -> Iterator[Check]:
    """What retention (plane.yaml) no longer keeps; nothing is erased."""
    with suppress(MemplaneError), open_found(find_plane(home), read_only=True) as plane:
        due = plane.upkeep.due()
        if due.seqs:
            remedy = "`memplane purge --keep` shows them, and erases them with --yes"
            yield Check("keep", "warn", f"over by plane.yaml: {due}", remedy)


def _trusts() -> Iterator[Check]:
    """What of the store of trusts cannot be used."""
    for fault in TrustStore(os.environ).faults():
        yield Check("trusts", "warn", fault, "trust that plane again: `memplane trust PATH`")


def _hooks(log: Path) -> Iterator[Check]:
    """The failures of hooks, which are reported nowhere else."""
    try:
        lines = nofollow.read_bytes(log).decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return
    except OSError as error:
        yield Check("hooks", "warn", f"{log}: cannot be read: {error.strerror}")
        return
    if lines:
        count = "1 fault" if len(lines) == 1 else f"{len(lines)} faults, the last"
        remedy = f"all of them are in {log}; delete it when that is mended"
        yield Check("hooks", "warn", masked(f"{count}: {lines[-1]}"), remedy)


def _surroundings() -> Iterator[Check]:
    lost = [name for name in _NEEDED if _version(name) is None]
    found = {"memplane": VERSION, "python": platform.python_version()}
    try:
        import sqlite3  # noqa: PLC0415 - a plane is used without it, too
    except ImportError:
        found["sqlite"] = "missing"
    else:
        found["sqlite"] = sqlite3.sqlite_version
    found["system"] = platform.system()
    found |= {name: _version(name) or "missing" for name in _NEEDED}
    words = ", ".join(f"{name} {number}" for name, number in found.items())
    yield Check(
        "versions", "fail" if lost else "ok", words, f"pip install {' '.join(lost)}" if lost else ""
    )
    for extra, package, gives in _EXTRAS:
        number = _version(package)
        there = f"{package} {number}" if number else f"not installed; it gives {gives}"
        hint = "" if number else f"pip install 'memplane[{extra}]', where that is wanted"
        yield Check(f"extra {extra}", "ok", there, hint)
    number = git.git_version()
    if number is None:
        yield Check("git", "warn", "not found", "`memplane import git` needs it: install git")
    else:
        yield Check("git", "ok", number)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _doctor_words(check: Check) -> str:
    line = f"{check.status:<5} {check.name:<13} {clipped_line(check.found, 200)}"
    return f"{line}\n{'':<20}{clipped_line(check.remedy, 200)}" if check.remedy else line


# `memplane stats`: what the plane holds, what it takes on disk, what its packs repeat.


@command("stats", example="stats")
def stats(
    *,
    cache: Annotated[
        bool, Option("--cache", help="What saved packs repeat, for prompt caches, instead.")
    ] = False,
    use: Annotated[
        bool,
        Option("--use", help="What hooks have said to sessions, and how much was used."),
    ] = False,
    session: Session = None,
    html: Html = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Count what the plane holds, by kind, and what it takes on disk.

    With --cache: of the packs in reports/, by session, how much each repeated of the one before,
    what broke the prefix, and what that costs by the prices of plane.yaml (prompt_cache). With
    --use: how often hooks answered or kept silent in the last sessions, with how many tokens, and
    of the events in saved answers how many hold a rare term that their session used soon after.
    """
    if session is not None and not cache:
        raise InputError("expected --cache beside it", where="--session")
    if html is not None and not cache:
        raise InputError("expected --cache beside it", where="--html")
    with open_plane(home) as plane:
        if cache:
            prices = plane.upkeep.policies.plane.cache
            shared = shared_by(saved(plane.home), prices, session=session)
            answer = [one.as_json() for one in shared]
            print_answer(answer, _cache_words(shared), as_json=as_json)
            write_figures(html, lambda: figures.cache_page(answer))
            return
        if use:
            print_answer(*_used(plane), as_json=as_json)
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
    if found["purged"]:
        lines.append(f"purged    {found['purged']}")
    print_answer(found, "\n".join(lines), as_json=as_json)


def _used(plane: Plane) -> tuple[dict[str, Any], str]:
    """What hooks have said: counts and words; of one project where the plane is opened for it."""
    registry, project = plane.context.registry, plane.context.home.project
    sessions = None
    if registry is not None and project is not None:
        known = registry.follow()
        sessions = [one for one in known.sessions if known.of_session(one) == project]
    counts = hook_context.ShownEntries.counts(plane.home, sessions)
    shown, used = evaluate_sessions.shown_and_used(plane, (one.report for one in saved(plane.home)))
    answer = {**counts, "shown": shown, "used": used}
    share = f"{100 * used / shown:.0f} %" if shown else "-"
    words = (
        f"answers   {counts['answers']}, silences {counts['silences']}\n"
        f"tokens    {counts['tokens']}\n"
        f"shown     {counted(shown, 'event')} in saved answers; used soon after: {used} ({share})"
    )
    return answer, words


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
            f"{costs[0]} {costs[1]}  {clipped_line(one.session, 40)}"
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
    purged: set[int] = set()
    with Bar("stats") as bar:
        for event in plane.events(channel=channel):
            bar(event.seq, head.seq)
            purged.update(one.seq for one in erased_by(event))
            kinds[event.kind] += 1
            tokens += event.tokens or 0
            if event.session is not None and _begins(event):
                sessions.add(event.session)
            if event.kind != "segment":
                first = event.ts if first is None else min(first, event.ts)
                last = event.ts if last is None else max(last, event.ts)
    segments = kinds.pop("segment", 0)
    return {
        "events": kinds.total(),
        "kinds": dict(sorted(kinds.items(), key=lambda item: (-item[1], item[0]))),
        "hidden": max(0, head.seq - kinds.total() - segments - len(purged)),
        "purged": len(purged),
        "segments": segments,
        "sessions": len(sessions),
        "tokens": tokens,
        "first": first,
        "last": last,
        "decisions": len(plane.work.decisions(channel=channel)),
        "bytes": {
            name: _size(plane.home / name)
            for name in ("log", "bodies", "projections", "index", "reports")
        },
    }


def _begins(event: Event) -> bool:
    """Whether there is a session for this event, were it the only one, as `session list` has it.

    For what memplane itself says at a session's end, or about the log, there is none.
    """
    if event.kind in UPKEEP_KINDS or is_extract(event):
        return False
    return not (event.kind == "session" and event.data.get("status") == "end")


def _size(folder: Path) -> int:
    total = 0
    for path in nofollow.walk_files(folder):
        with suppress(OSError):
            total += Path(path).lstat().st_size
    return total


# `memplane audit`: which secrets older rules let by, and what a purge would take.


@command("audit", example="audit --limit 20")
def audit_plane(
    *,
    limit: Annotated[
        int, Option(metavar="N", min=0, help="List at most so many findings; all count.")
    ] = 100,
    detector: Annotated[
        str | None,
        Option(metavar="NAME", help="Ask an installed second engine too, by its name."),
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> int:
    """Look for secrets in what is stored, under today's rules; exit 1 on a finding.

    Names events, fields and rules, never a secret.
    """
    second = find_detector(detector) if detector is not None else None
    with open_plane(home, read_only=True, detector=second) as plane, Bar("audit") as bar:
        report = plane.upkeep.audit(limit=limit, progress=bar)
    print_answer(report.as_json(), _audit_words(report), as_json=as_json)
    for what in report.unread[:20]:
        say(f"not looked at: {what}")
    if not report.clean:
        return NO
    return BROKEN if report.unread else FINE


def _audit_words(report: AuditReport) -> str:
    lines = [
        f"{finding.seq:>6}  {finding.id}  {finding.field}: {finding.rule}"
        + (f" x {finding.times}" if finding.times > 1 else "")
        for finding in report.findings
    ]
    unlisted = report.total - len(report.findings)
    lines += [f"        and {unlisted} more"] if unlisted else []
    lines += [f"{found.path}: {found.rule} x {found.times}" for found in report.file_findings]
    looked = f"{counted(report.events, 'event')}, {counted(report.files, 'file')}"
    if report.clean:
        return "\n".join([*lines, f"{looked}: nothing found"])
    rules = ", ".join(f"{rule} {times}" for rule, times in report.by_rule.items())
    purge, least = report.purge, "" if report.purge.exact else "at least "
    lines.append(f"{looked}: {counted(report.secrets, 'secret')}: {rules}")
    lines.append(
        f"a purge would take {least}{counted(purge.events, 'event')}, "
        f"{purge.bodies} bodies, {purge.quotes} that quote one, {purge.refs} that refer to one "
        f"and {counted(purge.reports, 'report')}; projections would be folded again"
    )
    return "\n".join(lines)
