"""`memplane export`, `restore`, `sync` and `import`: files of planes, and other sources."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import IO, Annotated, Any, Final, TypeAlias, cast

from memplane.cli.commands import FINE, NO, Argument, EndedError, Home, Json, Option, command
from memplane.cli.output import Bar, clipped_line, counted, print_answer, say
from memplane.errors import InputError, MemplaneError, WriteError
from memplane.importers import SOURCES, FoundSource, ImportReport, find_sources, git, import_paths
from memplane.importers.discovery import FILES_MAX, Discovered, discover, usual_places
from memplane.importers.run import Source
from memplane.projects import EVERY
from memplane.shared.device_file import DeviceReport, SyncReport
from memplane.trust import printable, shell_word
from memplane.upkeep.doctor import filesystem
from memplane.upkeep.export import ExportReport, LedgerReport, TablesReport
from memplane.upkeep.restore import RestoreReport
from memplane.wiring import find_plane, open_plane, restore as restore_plane

_STREAM: Final = "-"
_AGAIN: Final = "that stays, and the same command goes on from there"


_Spaces: TypeAlias = Annotated[
    list[str] | None, Option("--ns", metavar="NS", help="Only this namespace; or more.")
]
_Kinds: TypeAlias = Annotated[
    list[str] | None, Option("--kind", metavar="KIND", help="Only this kind; or more.")
]
_Sessions: TypeAlias = Annotated[
    list[str] | None, Option("--session", metavar="ID", help="Only this session; or more.")
]
_Since: TypeAlias = Annotated[
    str | None, Option("--since", metavar="TIME", help="Only from then on: RFC 3339, or a day.")
]
_Until: TypeAlias = Annotated[
    str | None, Option("--until", metavar="TIME", help="Only until then: RFC 3339, or a day.")
]


_Redact: TypeAlias = Annotated[
    bool,
    Option(
        "--redact",
        help="As events may leave the plane by today's policies, not as they are stored.",
    ),
]
_Secret: TypeAlias = Annotated[
    bool, Option("--secret", help="Of a part, also what is of sensitivity secret.")
]
_Replace: TypeAlias = Annotated[
    bool, Option("--replace", help="Replace what is there by that name.")
]
_Sqlite: TypeAlias = Annotated[
    bool,
    Option("--sqlite", help="Tables to be read, as SQLite: redacted, and not for restore."),
]
_Ledger: TypeAlias = Annotated[
    bool,
    Option(
        "--ledger",
        help="The memories that hold, into a GitHub ledger: PATH is a checkout of its branch.",
    ),
]


@command("export", example="export ~/plane.jsonl")
def export_to_file(
    path: Annotated[
        str, Argument(metavar="[PATH|-]", help="The file to write; - is stdout.")
    ] = _STREAM,
    *,
    ns: _Spaces = None,
    kind: _Kinds = None,
    session: _Sessions = None,
    since: _Since = None,
    until: _Until = None,
    redact: _Redact = False,
    secret: _Secret = False,
    replace: _Replace = False,
    sqlite: _Sqlite = False,
    ledger: _Ledger = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Write the plane to a file that `restore` takes back: a backup, or a part of its events.

    Without options it is all of the log, byte by byte, with every text and file beside it, secret
    ones too; policies and views are yours, and not in it. With a filter or --redact it is events
    as the private channel shows them, redacted again, without files and what was forgotten. With
    --sqlite these are five tables: events, tasks, atoms, artifacts, task_digests. With --ledger
    it is memories as channel public sees them, without preferences and rules; a second time what
    has changed, and what no longer holds is deleted there.
    """
    _check_export(
        path, sqlite=sqlite, ledger=ledger, as_json=as_json, other=replace or secret or redact
    )
    asked: dict[str, Any] = {
        "replace": replace,
        "ns": ns or None,
        "kind": kind or None,
        "session": session or None,
        "since": since,
        "until": until,
        "secret": secret,
    }
    target = _Stream() if path == _STREAM else nullcontext(path)
    with open_plane(home) as plane, Bar("export") as bar, target as to:
        if ledger:
            del asked["replace"], asked["secret"]  # neither was given
            written = plane.upkeep.export_ledger(path, progress=bar, **asked)
            print_answer(written.as_json(), _ledger_words(written), as_json=as_json)
            return
        if sqlite:
            tables = plane.upkeep.export_tables(path, progress=bar, **asked)
            print_answer(tables.as_json(), _tables_words(tables), as_json=as_json)
            return
        report = plane.upkeep.export(to, redact=redact, progress=bar, **asked)
    _tell_export(report, path, as_json=as_json)


def _check_export(path: str, *, sqlite: bool, ledger: bool, as_json: bool, other: bool) -> None:
    """Raise InputError for options that do not go together."""
    if sqlite and ledger:
        raise InputError("expected --sqlite or --ledger, found both")
    if ledger and (path == _STREAM or other):
        raise InputError(
            "a ledger is a folder, is added to, and has nothing secret: name a folder, without "
            "--replace, --secret and --redact",
            where="--ledger",
        )
    if sqlite and path == _STREAM:
        raise InputError("a SQLite file cannot be stdout; name a file", where="--sqlite")
    if path == _STREAM and as_json:
        raise InputError("stdout has the export; name a file", where="--json")


def _tell_export(report: ExportReport, path: str, *, as_json: bool) -> None:
    words = _exported(report)
    print_answer(report.as_json(), "" if path == _STREAM else words, as_json=as_json)
    if path == _STREAM:
        say(words)
    if report.whole:
        say("it holds everything, also what is secret: keep it as you keep the plane")
    if report.damaged or report.lost:
        say("the plane was not whole, nor is the export: `memplane verify` says what is wrong")


def _tables_words(report: TablesReport) -> str:
    rows = ", ".join(f"{count} {name}" for name, count in report.rows.items())
    held = sum(report.withheld.values())
    more = f"\nwithheld  {counted(held, 'event')}" if held else ""
    return f"exported  {rows}, as of seq {report.seq}, to {report.path}{more}"


def _ledger_words(report: LedgerReport) -> str:
    files = counted(report.files, "new file")
    words = f"{report.put} put, {report.deleted} deleted, {report.unchanged} unchanged, in {files}"
    lines = [f"exported  {words} of {report.path}"]
    if report.withheld:
        reasons = ", ".join(f"{name} {count}" for name, count in report.withheld.items())
        lines.append(f"withheld  {reasons}")
    return "\n".join(lines)


class _Stream:
    """Stdout for an export; raises WriteError where it does not take all of it.

    A reader that went away has what it wants, and raises BrokenPipeError as everywhere.
    """

    def __enter__(self) -> IO[bytes]:
        return sys.stdout.buffer

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                sys.stdout.buffer.flush()
        except OSError as refused:
            error = refused
        if isinstance(error, BrokenPipeError):
            raise error
        if isinstance(error, OSError):
            raise WriteError(
                f"stdout: {error.strerror}; what was written has no last line, `memplane restore` "
                "refuses it; export again, or into a file"
            ) from error


@command("restore", example="restore ~/plane.jsonl --into ~/copy")
def restore_from_file(
    path: Annotated[str, Argument(metavar="EXPORT", help="What `export` wrote; - is stdin.")],
    *,
    home: Annotated[
        str | None,
        Option(
            "--into",
            "--home",
            metavar="DIR",
            help="The plane's folder, which need not be there; else MEMPLANE_HOME, else .memplane "
            "here or above, else a new one here.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Bring an export back, once every byte of it was checked.

    In a folder without a plane, or a plane that holds nothing, it becomes the plane that was
    exported: same id, seqs and bytes. A plane with events takes its events in, each once, and
    says where they are from; so does any plane with a part. A value that is older than the one
    here becomes history, and a forget hides what it meant there.
    """
    with Bar("restore") as bar:
        if path != _STREAM:
            report = restore_plane(path, home, progress=bar)
        else:
            with tempfile.TemporaryFile() as kept:
                shutil.copyfileobj(sys.stdin.buffer, kept)
                report = restore_plane(kept, home, name="stdin", progress=bar)
    with suppress(MemplaneError, OSError), open_plane(report.home) as plane:
        # Hooks search what is saved: without it they would meet prompts by silence.
        plane.upkeep.index()
    print_answer(report.as_json(), _restored(report), as_json=as_json)
    place = filesystem(Path(report.home))
    if place.status != "ok":
        say(f"a poor place for a plane: {place.found}: {place.remedy}")
    merged = report.merged
    if merged is not None and merged.still_here:
        named = ", ".join(clipped_line(id_, 40) for id_ in merged.still_here[:5])
        say(
            f"{counted(len(merged.still_here), 'event')} purged there are still in this plane: "
            f"{named}; `memplane purge` erases them here too"
        )


def _exported(report: ExportReport) -> str:
    what = counted(
        report.events,
        "line of the log" if report.whole else "event",
        "lines of the log" if report.whole else "",
    )
    lines = [
        f"exported  {what}, {counted(report.bodies, 'body', 'bodies')}, as of seq "
        f"{report.seq}" + ("" if report.path is None else f", to {report.path}")
    ]
    if report.withheld:
        reasons = ", ".join(f"{name} {count}" for name, count in report.withheld.items())
        lines.append(f"withheld  {reasons}")
    if report.damaged:
        lines.append(f"damaged   {counted(report.damaged, 'region')} of the log")
    if report.lost:
        lines.append(f"lost      {counted(report.lost, 'body', 'bodies')}")
    return "\n".join(lines)


def _restored(report: RestoreReport) -> str:
    (opened, end), merged = report.checked, report.merged
    if merged is None:
        what = counted(end.events, "line of the log", "lines of the log")
        lines = [f"restored  {report.home}: {what}, up to seq {opened.seq}"]
        if end.bodies:
            lines.append(f"bodies    {end.bodies}")
        if end.damaged or end.lost:
            lines.append(
                f"damaged   {counted(end.damaged, 'region')} of the log, "
                f"{counted(end.lost, 'body', 'bodies')} lost, as they were when it was exported"
            )
        return "\n".join(lines)
    kept = f", kept {counted(merged.kept, 'newer value')}" if merged.kept else ""
    lines = [
        f"recorded  {counted(merged.recorded, 'event')} from plane {clipped_line(opened.plane, 40)}"
        + kept
    ]
    if merged.repeated:
        lines.append(f"repeated  {merged.repeated} that were there already")
    if merged.purged:
        lines.append(f"purged    {merged.purged} that were erased there")
    if merged.refusals:
        lines.append(f"refused   {merged.refusals}:")
        lines += [
            f"  seq {one.seq}: {one.id}: {one.reason}: {clipped_line(one.message, 200)}"
            for one in merged.refused
        ]
        unlisted = merged.refusals - len(merged.refused)
        lines += [f"  and {unlisted} more"] if unlisted else []
    return "\n".join(lines)


# `memplane sync`: what planes share through a folder.


_Shared: TypeAlias = Annotated[
    list[str] | None,
    Option(
        "--project",
        metavar="NAME",
        help="Share this project, or namespace, from now on; repeatable; '*': all.",
    ),
]
_Accept: TypeAlias = Annotated[
    str | None,
    Option("--accept", metavar="DEVICE", help="Its events count from now on: a person's."),
]
_Refuse: TypeAlias = Annotated[
    str | None,
    Option("--refuse", metavar="DEVICE", help="Its events count no longer; what came stays."),
]
_DeviceName: TypeAlias = Annotated[
    str | None,
    Option(
        "--name",
        metavar="NAME",
        help="With --accept: what it is called here. Else, the first time, this device's name.",
    ),
]
_Preferences: TypeAlias = Annotated[
    bool | None,
    Option("--preferences/--no-preferences", help="Share preferences too, from now on."),
]


@command("sync", example="sync ~/Shared/memory")
def sync_with_folder(
    folder: Annotated[
        str, Argument(metavar="FOLDER", help="A folder that git, Syncthing or a share carries.")
    ],
    *,
    project: _Shared = None,
    accept: _Accept = None,
    mine: Annotated[
        bool, Option("--mine", help="With --accept: it is a device of your own.")
    ] = False,
    refuse: _Refuse = None,
    name: _DeviceName = None,
    preferences: _Preferences = None,
    git: Annotated[
        bool, Option("--git", help="The folder is a clone: pull before, commit and push behind.")
    ] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Say what would be sent, and what waits; change nothing.")
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> int:
    """Share memory with other machines, or a team, through a folder; no server.

    Each device writes one file there, and reads those of the devices that it accepted: --accept
    --mine a device of your own, --accept alone another person's, whose statements are shown as that
    person's and never as your rules or preferences. Who may write the folder may write as any of
    them. What is an agent's own, of high sensitivity or a file never leaves, preferences only if
    you say so; the rest leaves as an export does. Exit code 1: a file was refused.
    """
    asked: dict[str, Any] = {
        "projects": project or (),
        "preferences": preferences,
        "accept": accept,
        "mine": mine,
        "refuse": refuse,
        "name": name,
        "git": git,
        "dry_run": dry_run,
    }
    # Of the user's own plane the folder's choice counts, not the project that one works in.
    every = EVERY if find_plane(home).parted else None
    with open_plane(home, project=every) as plane, Bar("sync", _AGAIN) as bar:
        report = plane.upkeep.sync(folder, progress=bar, **asked)
    if not dry_run and any(one.taken for one in report.devices):
        with suppress(MemplaneError, OSError), open_plane(home, project=every) as plane:
            plane.upkeep.index()
    print_answer(report.as_json(), _synced(report), as_json=as_json)
    return NO if report.refused else FINE


def _synced(report: SyncReport) -> str:
    shared = "all" if report.spaces == ("*",) else ", ".join(map(printable, report.spaces))
    would = "would send" if report.dry_run else "sent"
    lines = [
        f"{'device':<11}{report.device}  {report.name}, sharing {shared}"
        + (", and preferences" if report.preferences else ""),
        f"{would:<11}{counted(report.sent, 'event')}"
        + (f", erased {report.erased} lines" if report.erased else ""),
    ]
    if report.withheld:
        reasons = ", ".join(f"{name} {count}" for name, count in report.withheld.items())
        lines.append(f"{'withheld':<11}{reasons}")
    lines += [_device_line(one, report) for one in report.devices]
    if report.more:
        lines.append(f"{'more':<11}waits for the next sync")
    if report.git:
        lines.append(f"{'git':<11}{report.git}")
    return "\n".join(lines)


def _device_line(one: DeviceReport, report: SyncReport) -> str:
    who = f"{one.device}  {printable(one.name)}" + (", yours" if one.mine else "")
    if one.status == "refused":
        return f"{'refused':<11}{who}: {printable(one.why)[:300]}"
    if one.status == "waiting":
        if one.why:
            return f"{'waiting':<11}{who}: {one.why}"
        span = f", {one.first} to {one.last}" if one.events else ""
        return (
            f"{'waiting':<11}{who}: {counted(one.events, 'event')}{span}; "
            f"`memplane sync {shell_word(report.folder)} --accept {one.device}` takes them in"
        )
    if report.dry_run:
        return f"{'would take':<11}{who}: {counted(one.events, 'event')} at most"
    said = [f"{one.taken} taken"]
    for count, word in (
        (one.repeated, "here already"),
        (one.left, "left"),
        (one.refusals, "not accepted by the policies here"),
        (one.purged, "purged"),
    ):
        said += [f"{count} {word}"] if count else []
    return f"{'from':<11}{who}: {', '.join(said)}"


# `memplane import`: transcripts, JSON lines and commits become events.


_What: TypeAlias = Annotated[
    list[str] | None,
    Argument(
        metavar="[SOURCE] PATH",
        help="Files or folders, behind their source where that is not to be found out "
        "(claude-code, claude-memory, codex, chat, mcp-memory, jsonl, mem0, langgraph, "
        "claude-mem, basic-memory, ledger); "
        "or git and a repository, the one here if none is named.",
    ),
]
_Reasoning: TypeAlias = Annotated[
    bool, Option("--reasoning", help="Take the model's thinking too.")
]
_Full: TypeAlias = Annotated[bool, Option("--full", help="Read again what was read before.")]
_MaxCount: TypeAlias = Annotated[
    int | None, Option("--max-count", metavar="N", min=1, help="The newest N commits.")
]
_Detect: TypeAlias = Annotated[
    bool, Option("--detect", help="Say what there is to import, and by which command; no more.")
]
_Discover: TypeAlias = Annotated[
    bool,
    Option(
        "--discover",
        help="Look for what agents and memory programs on this machine have kept, and ask which "
        "to import.",
    ),
]
_Yes: TypeAlias = Annotated[
    bool, Option("--yes", help="With --discover: take what is of this project.")
]
_DryRun: TypeAlias = Annotated[
    bool,
    Option(
        "--dry-run",
        help="Say what would be recorded, or with --discover what there is; write nothing.",
    ),
]
_ToNs: TypeAlias = Annotated[
    str | None,
    Option(
        "--ns",
        metavar="NS",
        help="Record it there, where it names no namespace itself: /global, /project/NAME, "
        "/spec/NAME, /task/ID or /agent/ID.",
    ),
]
_ToProject: TypeAlias = Annotated[
    str | None,
    Option(
        "--project",
        metavar="NAME",
        help="Of your own plane: record it in this project, not in those of its folders; '*': in "
        "those.",
    ),
]


@command("import", example="import claude-code ~/.claude/projects --dry-run")
def import_files(
    what: _What = None,
    *,
    reasoning: _Reasoning = False,
    full: _Full = False,
    max_count: _MaxCount = None,
    detect: _Detect = False,
    discover: _Discover = False,
    yes: _Yes = False,
    dry_run: _DryRun = False,
    ns: _ToNs = None,
    project: _ToProject = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Record what files hold. A second run records nothing twice; refused rows are listed.

    With --dry-run what is new is counted by kind and namespace, and the first events are shown as
    they would be stored.
    """
    if detect:
        found = [one for path in what or usual_places(*_here()) for one in find_sources(path)]
        print_answer([one._asdict() for one in found], _table(found), as_json=as_json)
        return
    if ns is not None and project is not None:
        raise InputError("expected --ns or --project, found both")
    parts = _parts(what or [], discover=discover, yes=yes, dry_run=dry_run, as_json=as_json)
    asked: dict[str, Any] = {"reasoning": reasoning, "full": full, "max_count": max_count}
    report = ImportReport()
    opened = open_plane(home, project=project, read_only=dry_run)
    with opened as plane, Bar("import", _AGAIN) as bar:
        place = plane.context.home.project if project is not None else ns
        for source, paths in parts:
            done = import_paths(
                plane, source, paths, progress=bar, ns=place, dry_run=dry_run, **asked
            )
            report.add(done)
        if report.events and not dry_run:
            with Bar("indexing", "every event is recorded") as indexing:
                plane.upkeep.index(indexing)
    print_answer(report.as_json(), _words(report), as_json=as_json)


def _parts(
    what: list[str], *, discover: bool, yes: bool, dry_run: bool, as_json: bool
) -> list[tuple[Source | None, list[str]]]:
    """What is to be imported: what was named, or what was found and chosen."""
    if not discover:
        if yes:
            raise InputError("--yes goes with --discover")
        return [_split(what)]
    if what:
        raise InputError(f"--discover looks by itself; found {what[0]!r}")
    chosen = choose(yes=yes, dry_run=dry_run, as_json=as_json)
    if isinstance(chosen, int):
        raise EndedError(chosen)
    return [(cast("Source", one.source), list(one.paths)) for one in chosen]


def _split(what: list[str]) -> tuple[Source | None, list[str]]:
    if not what:
        raise InputError("expected [SOURCE] PATH, found none; --detect says what there is here")
    first, rest = what[0], what[1:]
    # A file may have a source's name; alone, it is meant as a path if it is one.
    if first not in SOURCES or (not rest and Path(first).exists()):
        return None, what
    if not rest and first == git.SOURCE:
        rest = ["."]
    if not rest:
        raise InputError(f"expected PATH behind {first}, found none")
    return cast("Source", first), rest


def _table(found: list[FoundSource]) -> str:
    """What there is, a line each, with the command behind it."""
    lines = []
    for one in found:
        noun = "commit" if one.source == git.SOURCE else "file"
        items = "commits" if one.items is None else counted(one.items, noun)
        said = one.command or "of no source that is known"
        lines.append(f"{clipped_line(one.path)}: {one.source or 'unknown'}, {items}: {said}")
    return "\n".join(lines) or "nothing here that memplane imports"


def _words(report: ImportReport) -> str:
    files = counted(report.files, "file")
    if any(file.source == git.SOURCE for file in report.per_file):
        files = "1 repository" if report.files == 1 else f"{report.files} repositories"
    if report.unchanged:
        files += f" ({report.unchanged} without news)"
    would = report.would
    done = "recorded " if would is None else "would record "
    lines = [f"{done} {counted(report.events, 'event')} from {files}"]
    if would is not None:
        told = would.as_json()
        for name in ("kinds", "namespaces"):
            counts = ", ".join(f"{clipped_line(one)} {count}" for one, count in told[name].items())
            lines += [f"{name:<13} {counts}"] if counts else []
        lines += [f"  {_would_line(one)}" for one in would.first]
        unlisted = report.events - len(would.first)
        lines += [f"  and {unlisted} more"] if unlisted else []
    if report.repeated:
        lines.append(f"repeated  {report.repeated} that were there already")
    if report.ended:
        lines.append(f"ended     {counted(report.ended, 'session')}")
    if report.archived:
        lines.append(f"archived  {report.archived} that their file states no more")
    if report.skipped:
        reasons = ", ".join(
            f"{clipped_line(name)} {count}" for name, count in report.skipped.items()
        )
        lines.append(f"skipped   {sum(report.skipped.values())}: {reasons}")
    if report.refusals:
        lines.append(f"refused   {report.refusals}:")
        lines += [
            f"  {clipped_line(row.file)}: {row.id}: {row.reason}: {clipped_line(row.message, 200)}"
            for row in report.refused
        ]
        unlisted = report.refusals - len(report.refused)
        lines += [f"  and {unlisted} more"] if unlisted else []
    return "\n".join(lines)


def _would_line(event: Mapping[str, str]) -> str:
    """An event of a dry run on one line: kind, key or namespace, text."""
    named = " ".join(event[one] for one in ("kind", "ns", "key") if one in event)
    return clipped_line(f"{named}: {event.get('text', '')}", 200)


# `memplane import --discover`: what agents on this machine have kept, and which of it to take.

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def _here() -> tuple[Path, Path, Mapping[str, str]]:
    return Path.cwd(), Path.home(), os.environ


def choose(*, yes: bool, dry_run: bool, as_json: bool) -> list[Discovered] | int:
    """The sources to import, or the exit code where there are none.

    With `yes` those of the project in this folder; on a terminal those that a person chooses.
    Otherwise the sources are only listed, and the code is NO unless it is a dry run.
    """
    discovery = discover(*_here())
    found = discovery.found
    if not discovery.complete:
        say(f"looked at {FILES_MAX} files and stopped; there may be more: name folders yourself")
    here = [one for one in found if one.here]
    asks = not (yes or dry_run or as_json) and sys.stdin.isatty() and sys.stderr.isatty()
    if yes and not dry_run:
        if not here:
            say("nothing is of this project; without --yes, --discover says what else there is")
            return NO
        return here
    print_answer([_as_json(one) for one in found], _found_table(found), as_json=as_json)
    if not found or dry_run:
        return FINE if dry_run else NO
    if not asks:
        hint = "--yes takes what is of this project" if here else "nothing is of this project"
        say(f"nothing was imported; {hint}")
        return NO
    return _asked(found, input) or NO


def _asked(found: list[Discovered], ask: Callable[[str], str]) -> list[Discovered]:
    """What a person chooses; nothing where that is the answer."""
    here = [number for number, one in enumerate(found, 1) if one.here]
    usual = ",".join(map(str, here)) or "none"
    while True:
        print(
            f"Import which? numbers, all or none [{usual}]: ", end="", file=sys.stderr, flush=True
        )
        try:
            answer = ask("").strip() or usual
        except EOFError:
            return []
        if answer == "none":
            return []
        try:
            return found if answer == "all" else _numbered(found, answer)
        except InputError as error:
            say(str(error))


def _numbered(found: list[Discovered], answer: str) -> list[Discovered]:
    numbers = answer.replace(",", " ").split()
    if not all(one.isdecimal() and 1 <= int(one[:9]) <= len(found) for one in numbers):
        raise InputError(f"expected numbers from 1 to {len(found)}, all or none; found {answer!r}")
    return [found[number - 1] for number in dict.fromkeys(map(int, numbers))]


def _found_table(found: list[Discovered]) -> str:
    """What there is, two lines each: what, of whom, how much, from when to when; the command."""
    lines: list[str] = []
    for number, one in enumerate(found, 1):
        days = one.first if one.first == one.last else f"{one.first} to {one.last}"
        here = ", of this project" if one.here else ""
        files = counted(one.files, "file")
        lines.append(f"{number:>3}  {one.what}{here}: {files}, {_size(one.bytes)}, {days}")
        lines.append(f"     {clipped_line(one.command or 'memplane import --discover --yes', 400)}")
    return "\n".join(lines) or "no agent has kept anything here that memplane imports"


def _size(size: int) -> str:
    unit = 0
    while size >= 10_000 and unit < len(_UNITS) - 1:
        size, unit = size // 1000, unit + 1
    return f"{size} {_UNITS[unit]}"


def _as_json(one: Discovered) -> dict[str, object]:
    return {**one._asdict(), "paths": list(one.paths)}
