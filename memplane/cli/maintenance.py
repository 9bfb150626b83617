"""Look into a plane, check it and mend it: `verify`, `doctor`, `stats`, `inspect`, `shared`, ...

`memplane verify`, `repair`, `rebuild`, `doctor`, `stats` and `audit` check and mend a plane.
`memplane inspect` shows the memory as a page, in a file or served live on loopback. `memplane join`
and `shared` are the commands of a plane whose log many machines share.

`memplane demo` makes a plane with a sample session, three questions that it answers, and a page to
look at. The sample is two days of work on hop, a URL shortener that does not exist: a Claude Code
transcript of 168 lines, and 17 statements. It ships with memplane, so nothing is fetched. All that
the demo leaves is one folder, which it names; no trust is stored for it, as its commands name it.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson

from memplane import log as logs, nofollow
from memplane.cli.commands import (
    BROKEN,
    FINE,
    NO,
    STOPPED,
    Argument,
    Bound,
    Channel,
    Home,
    Html,
    Json,
    Now,
    Option,
    Session,
    command,
)
from memplane.cli.output import (
    Bar,
    clipped_line,
    counted,
    data,
    driven,
    print_answer,
    say,
    say_damage,
    write_figures,
)
from memplane.cli.policy import ask_once
from memplane.clock import clock
from memplane.errors import HomeError, InputError, MemplaneError, NotFoundError, UntrustedError
from memplane.event import UPKEEP_KINDS, Event, is_extract
from memplane.explain.replay import Shared, shared_by
from memplane.home import ADDRESS_VARIABLE, VERSION, asset
from memplane.importers import git, import_paths
from memplane.intake import timestamp
from memplane.intake.redact import masked
from memplane.lazy import NamedTuple, late
from memplane.log import RepairStep
from memplane.log.segments import erased_by
from memplane.pack.block import Block
from memplane.plane import Plane
from memplane.policy import variables
from memplane.projects import cache_id
from memplane.recall.suppress import OWNER
from memplane.shared.follower import FollowerLog
from memplane.trust import TrustStore, printable
from memplane.upkeep import reports
from memplane.upkeep.doctor import Check, examine_plane
from memplane.upkeep.reports import Saved, read_report, saved
from memplane.upkeep.verify import AuditReport, PlaneReport, stated_positions, witnesses
from memplane.wiring import (
    find_detector,
    find_home,
    find_plane,
    init,
    init_shared,
    make_counter,
    open_found,
    open_plane,
)

if TYPE_CHECKING:
    import webbrowser

    from memplane import inspect as inspect_room
    from memplane.cli import figures
    from memplane.evaluate import sessions as evaluate_sessions
    from memplane.hook import run as hook_run
    from memplane.inspect import PageRequest
else:
    webbrowser = late("webbrowser")
    inspect_room = late("memplane.inspect")
    evaluate_sessions = late("memplane.evaluate.sessions")
    hook_run = late("memplane.hook.run")
    figures = late("memplane.cli.figures")


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
    counts = hook_run.ShownEntries.counts(plane.home, sessions)
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


PAGE_NAME: Final = "memplane-page.html"

_Out = Annotated[
    Path,
    Option("--out", metavar="FILE", help="The file to write; an older page is replaced."),
]
_Session = Annotated[
    str | None,
    Option(metavar="ID", help="This session's events and its newest pack."),
]
_Report = Annotated[
    str | None,
    Option(
        metavar="REPORT",
        help="The pack of this report, and what its channel saw: a file of reports/, a part of its "
        "name, or `last`.",
    ),
]
_Channel = Annotated[
    str | None,
    Option(
        "--channel",
        metavar="NAME",
        help="Whose eyes the page has: agent (default), public, team, private, or one of "
        "channels.yaml.",
    ),
]
_Open = Annotated[bool, Option("--open", help="Open it in the browser.")]
_Replace = Annotated[
    bool, Option("--replace", help="Replace what is there by that name, page or not.")
]
_Live = Annotated[
    bool,
    Option("--live", help="Serve it on loopback instead, following the log, until Ctrl-C."),
]


@command("inspect", example="inspect --out page.html")
def inspect_plane(
    *,
    out: _Out = Path(PAGE_NAME),
    session: _Session = None,
    report: _Report = None,
    since: Bound = None,
    channel: _Channel = None,
    live: _Live = False,
    open_it: _Open = False,
    replace: _Replace = False,
    now: Now = None,
    home: Home = None,
    as_json: Json = False,
) -> int:
    """Write a page to look at the memory: one file, no server, no network, for one channel.

    It shows the newest pack line by line, what was left out and why, what a prompt cache can read
    of it, the timeline with a search, decisions and values, sessions, tasks, files, counts of what
    was masked and purged, and the plane's health. Texts are redacted as exports are; on channel
    agent nothing is on it that is high, secret or private.
    """
    if report is not None and channel is not None:
        raise InputError("expected --report or --channel (a report has its own), found both")
    if live and now is not None:
        raise InputError("expected --now for a page in a file, found --live")
    moment = None if now is None else timestamp(now, where="--now")
    checks = tuple(plane_checks(home, asks=not as_json))
    with open_plane(home, clock=clock if moment is None else lambda: moment) as plane:
        say_damage(plane)
        project = plane.context.home.project
        given = None if report is None else reports.find_report(plane.home, report, project)
        asked = inspect_room.PageRequest(channel or "agent", session, since, given, checks)
        if live:
            return _serve(plane, asked, open_it=open_it)
        with Bar("page") as bar:
            data = inspect_room.compose(plane, asked, bar)
        page = inspect_room.document(data)
        path = inspect_room.write_page(out, page, replace=replace)
    shown = data["facts"]["channel"]
    answer = {"path": str(path), "bytes": len(page), "channel": shown}
    print_answer(answer, f"{path}: {len(page):,} bytes, channel {shown}", as_json=as_json)
    if shown == OWNER:
        say("the page is private: it may hold what no other channel is shown")
    if open_it:
        webbrowser.open(path.as_uri())
    return FINE


def _serve(plane: Plane, asked: PageRequest, *, open_it: bool) -> int:
    """Serve the page until Ctrl-C; its address is printed once it answers."""
    with inspect_room.LiveServer(plane, asked) as server:
        print(server.url, flush=True)
        say("live on this machine alone, for whoever has this address; Ctrl-C ends it")
        if open_it:
            webbrowser.open(server.url)
        try:
            server.serve()
        except KeyboardInterrupt:
            say("ended; the address answers no more")
            return STOPPED
    return FINE


# The demo.

FOLDER: Final = "memplane-demo"
PAGE: Final = "page.html"
SAMPLES: Final = "scenarios/data"
SESSION: Final = "sample-session.jsonl"
DECISIONS: Final = "sample-decisions.jsonl"
VIEWS: Final = {
    "identity.md": """\
You work with Mira on hop, a URL shortener: Python, Starlette, SQLite, one server behind Caddy.
""",
    "rules.project.md": """\
- Plan before code. Tests pass before a commit.
- Nobody edits hop.db by hand, not even for a moment.
- Nothing about visitors is stored.
""",
}
_FIRST_ID: Final = "hop:decision:1"  # of the sample: a plane that has it is a demo's
_WIDTH: Final = 100
_PAGE_TOKENS: Final = 2_000  # of the pack that the page shows


class Question(NamedTuple):
    """What is asked, for which channel, in how many tokens, and what to look for in the answer."""

    query: str
    channel: str
    budget: int
    look: str


QUESTIONS: Final = (
    Question("what are we working on?", "agent", 700,
             "the active task with its plan, the decisions in force, what the last session left"),
    Question("why do redirects use 302 and not 301?", "agent", 500,
             "the decision in force and the turns behind it; the replaced 301 is no decision here"),
    Question("what was lost in the outage?", "public", 500,
             "the three links; for anybody, so no preference of Mira's and nothing sensitive"),
)  # fmt: skip


_PAGE_QUERIES: Final = ("how are expired links deleted?", QUESTIONS[1].query)


@command("demo", example="demo")
def run_demo(
    *,
    open_it: Annotated[bool, Option("--open", help="Open the page in the browser.")] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Make a plane with a sample session, ask it three questions, and write a page to look at.

    The plane is ./memplane-demo, or --home, and the page lies in it; nothing else is left behind,
    and nothing is fetched. A second run adds nothing.
    """
    folder = Path(home or FOLDER).expanduser()
    _check(folder)
    with init(folder, trusted=False) as plane:
        recorded = fill(plane)
        asks = inspect_room.PageRequest(channel="agent", report=_pack_of_session(plane))
        asked = [(one, _ask(plane, one)) for one in QUESTIONS]
        events = plane.head().seq
        page = inspect_room.write_page(
            folder / PAGE, inspect_room.document(inspect_room.compose(plane, asks))
        )
    if open_it:
        webbrowser.open(page.as_uri())
    if as_json:
        told = [
            {**one._asdict(), "tokens": block.tokens, "text": block.text} for one, block in asked
        ]
        where = str(folder.absolute())
        data({"home": where, "page": str(page), "recorded": recorded, "questions": told})
        return
    print(f"{folder}: {counted(events, 'event')} of two days of work on a URL shortener")
    for number, (one, block) in enumerate(asked, 1):
        print(f"\n{number}. {one.query}\n")
        print(_block_words(block))
        print(_wrapped(f"{_cost(block)}. Look for {one.look}."))
    print(f"\nTo look at: {folder / PAGE}, in a browser (`memplane demo --open`).")
    print(f"\n{_next_words(folder)}")


def fill(plane: Plane) -> int:
    """Record the sample in a plane, and write its views; returns how many events are new."""
    before = plane.head().seq
    write_views(plane)
    with tempfile.TemporaryDirectory(prefix="memplane-") as scratch:
        transcript = Path(scratch) / SESSION
        transcript.write_bytes(asset(f"{SAMPLES}/{SESSION}"))
        import_paths(plane, "claude-code", [transcript])
    rows = asset(f"{SAMPLES}/{DECISIONS}").decode().splitlines()
    plane.record_many([json.loads(row) for row in rows])
    open_sample_task(plane)
    with Bar("indexing") as bar:
        plane.upkeep.index(bar)
    return plane.head().seq - before


def write_views(plane: Plane) -> None:
    """Write the sample's views, where they are not there yet."""
    for name, text in VIEWS.items():
        view = plane.home / "views" / name
        if not view.exists():
            view.write_text(text)


def open_sample_task(plane: Plane) -> None:
    """Open the task that the sample's last session left, unless there is one."""
    if not plane.work.tasks.list(all=True):
        plane.work.tasks.open(
            "metrics",
            "Count redirects without storing anything about visitors",
            plan=("agree on what is counted", "one table, one row a day", "a page"),
        )
        plane.work.tasks.update("metrics", done=[1], doing=[2])


def _check(folder: Path) -> None:
    """Refuse a folder that holds anything but an earlier demo."""
    if not folder.exists() or not os.listdir(folder):  # noqa: PTH208 - names are enough
        return
    if (folder / "plane.json").exists():
        with init(folder, trusted=False) as plane:
            try:
                plane.event(_FIRST_ID)
            except NotFoundError:
                pass
            else:
                return
    raise InputError(f"{folder}: holds other things; name another folder", where="--home")


def _ask(plane: Plane, one: Question) -> Block:
    return plane.pack(one.query, budget=one.budget, channel=one.channel, save_report=True)


def _pack_of_session(plane: Plane) -> Saved:
    """The second of two packs of the sample's last session: the page shows what both share."""
    session = plane.work.sessions.list(channel="agent")[-1].id
    for query in _PAGE_QUERIES:
        block = plane.pack(
            query, budget=_PAGE_TOKENS, channel="agent", session=session, save_report=True
        )
    return read_report(block.report_path)


def _block_words(block: Block) -> str:
    """The block as a model gets it, set in."""
    lines = []
    for line in driven(block.text).splitlines():
        pieces = textwrap.wrap(line, _WIDTH - 4, subsequent_indent=" ", break_on_hyphens=False)
        lines += [f"  | {piece}".rstrip() for piece in pieces or [""]]
    return "\n".join(lines)


def _cost(block: Block) -> str:
    sources = {event for entry in block.entries for event in (*entry.events, *entry.parts)}
    left = sum(block.report["omissions"]["counts"].values())
    return (
        f"{block.tokens} of {block.report['budget']} tokens, from {counted(len(sources), 'event')}"
        f"; {left} left out"
    )


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")


def _next_words(folder: Path) -> str:
    where = quote(str(folder))
    rows: dict[str, Any] = {
        f'memplane search "sudo" --home {where}': "the best hits, with scores",
        f"memplane why last hop:decision:4 --home {where}": "why it is not in that block",
        f"memplane history redirect.status --home {where}": "the values that a key had",
        "memplane import --discover": "your own sessions",
        f"rm -r {where}": "takes away all that this left",
    }
    widest = max(map(len, rows))
    return "Next\n" + "\n".join(f"  {one:<{widest}}  # {said}" for one, said in rows.items())


_PAUSE_S: Final = 1.0  # after a fault
_WAIT_S: Final = 30.0  # between two looks where nobody wakes this one


@command("join", example="join --help")
def join(
    name: Annotated[str, Argument(metavar="NAME", help="The shared log, as it was begun.")],
    folder: Annotated[
        str | None, Argument(metavar="DIR", help="The folder; else --home, .memplane.")
    ] = None,
    *,
    address: Annotated[
        str,
        Option("--address", metavar="VARIABLE", help="The variable with the engine's address."),
    ] = ADDRESS_VARIABLE,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Make a plane that follows a shared log, and bring its log here.

    Begin one with `memplane init --shared NAME`. The engine's address, postgresql://... or
    nats://..., stands in MEMPLANE_SHARED. From then on every command works on the files here, and
    takes in what the other machines recorded.
    """
    with init_shared(folder or home, name, address=address, join=True) as plane:
        log = _follower(plane)
        log.exchange()
        seq, where = plane.head().seq, str(plane.home.absolute())
    print_answer(
        {"home": where, "plane": plane.id, "seq": seq},
        f"{where}: joined {name}, {counted(seq, 'line')} of its log",
        as_json=as_json,
    )


@command("status", group="shared", example="shared status --help")
def shared_status(*, home: Home = None, as_json: Json = False) -> None:
    """Say how this machine stands to the shared log, and where the others are.

    A machine whose policies or views differ is named: equal packs are promised for equal files.
    """
    with open_plane(home) as plane:
        log = _follower(plane)
        notes: dict[str, dict[str, Any]] = {}
        try:
            log.exchange()
            notes = log.notes()
        except MemplaneError as error:
            say(str(error))
        said = log.status()
        hashes = plane.context.watched.policies_or_last().hashes
    peers = [
        {
            "device": device,
            "seq": note.get("seq"),
            "behind": max(said.seq - seq, 0) if isinstance(seq := note.get("seq"), int) else None,
            "differing": _differing(note.get("files"), hashes),
        }
        for device, note in sorted(notes.items())
    ]
    lines = [
        f"seq         {said.seq}",
        f"behind      {counted(said.behind, 'position')}",
        f"outbox      {counted(said.waiting, 'file')}",
    ]
    lines += [f"fault       {said.fault}"] * bool(said.fault)
    lines += [_peer_words(peer) for peer in peers]
    print_answer({**said._asdict(), "peers": peers}, "\n".join(lines), as_json=as_json)


def _differing(theirs: object, ours: dict[str, str]) -> list[str]:
    """The files of the other machine that differ from those here."""
    if not isinstance(theirs, dict):
        return []
    names = sorted({*map(str, theirs), *ours})
    return [name for name in names if theirs.get(name) != ours.get(name)]


def _peer_words(peer: dict[str, Any]) -> str:
    behind = f", {peer['behind']} behind this one" if peer["behind"] else ""
    other = f"; differs in {', '.join(peer['differing'])}" if peer["differing"] else ""
    return printable(f"machine     {peer['device']} at seq {peer['seq']}{behind}{other}")


@command("follow", group="shared", example="shared follow --help")
def shared_follow(
    *,
    once: Annotated[bool, Option("--once", help="Exchange what there is, and end.")] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Publish the outbox and take in what others record, until Ctrl-C.

    With --once it prints how far the log goes then, and ends.
    """
    with open_plane(home) as plane:
        log = _follower(plane)
        while True:
            try:
                log.exchange()
                if once:
                    break
                say(f"at seq {plane.head().seq}")
                while not log.wait(_WAIT_S):
                    pass
            except MemplaneError as error:
                if once:
                    raise
                say(str(error))
                time.sleep(_PAUSE_S)
        seq = plane.head().seq
    print_answer({"seq": seq}, f"at seq {seq}", as_json=as_json)


@command("refill", group="shared", example="shared refill --help")
def shared_refill(
    *,
    again: Annotated[
        bool, Option("--again", help="Derive this machine's log from the first entry on.")
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Publish what the engine lost of this machine's log; mend this log from the engine's.

    Where others have published meanwhile, or with --again, the log here is derived anew, and the
    old segments go to log/quarantine. Nothing that is in either is lost.
    """
    with open_plane(home) as plane:
        done = _follower(plane).refill(again=again)
        seq = plane.head().seq
    words = f"{counted(done.published, 'event')} published again; this log goes up to seq {seq}"
    if done.derived:
        words += ", and was derived anew"
    print_answer({**done._asdict(), "seq": seq}, words, as_json=as_json)


def _follower(plane: Plane) -> FollowerLog:
    log = plane.context.log
    if not isinstance(log, FollowerLog):
        raise HomeError(
            f"{plane.home}: follows no shared log, or is read-only; begin one with "
            "`memplane init --shared NAME` in another folder"
        )
    return log
