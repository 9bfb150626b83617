"""`memplane import`: transcripts, JSON lines and commits become events."""

import os
from pathlib import Path
from typing import Annotated, cast

import typer

from memplane.cli.app import command
from memplane.cli.discovering import choose
from memplane.cli.options import Home, Json
from memplane.cli.output import counted, one_line, put
from memplane.cli.progress import Bar
from memplane.errors import InputError
from memplane.importers import SOURCES, Found, ImportReport, git, import_paths, sources_of
from memplane.importers.run import Source
from memplane.wiring import open_plane

__all__ = ["import_files"]


@command("import", example="import claude-code ~/.claude/projects")
def import_files(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCE] PATH",
            help="Files or folders, behind their source where that is not to be found out "
            "(claude-code, claude-memory, codex, chat, mcp-memory, jsonl); "
            "or git and a repository, the one here if none is named.",
        ),
    ] = None,
    *,
    reasoning: Annotated[
        bool, typer.Option("--reasoning", help="Take the model's thinking too.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="Read again what was read before.")] = False,
    max_count: Annotated[
        int | None, typer.Option("--max-count", metavar="N", min=1, help="The newest N commits.")
    ] = None,
    detect: Annotated[
        bool,
        typer.Option(
            "--detect", help="Say what there is to import, and by which command; no more."
        ),
    ] = False,
    discover: Annotated[
        bool,
        typer.Option(
            "--discover",
            help="Look for what agents on this machine have kept, and ask which to import.",
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="With --discover: take what is of this project.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --discover: say what there is; no more.")
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Record what files hold. A second run records nothing twice; refused rows are listed."""
    if detect:
        found = [one for path in what or _usual_places() for one in sources_of(path)]
        put([one._asdict() for one in found], _table(found), as_json=as_json)
        return
    parts = _parts(what or [], discover=discover, yes=yes, dry_run=dry_run, as_json=as_json)
    report = ImportReport()
    with open_plane(home) as plane, Bar("import") as bar:
        for source, paths in parts:
            done = import_paths(
                plane, source, paths, progress=bar, reasoning=reasoning, full=full,
                max_count=max_count,
            )  # fmt: skip
            report.add(done)
        if report.events:
            with Bar("indexing") as indexing:
                plane.index(indexing)
    put(report.as_json(), _words(report), as_json=as_json)


def _parts(
    what: list[str], *, discover: bool, yes: bool, dry_run: bool, as_json: bool
) -> list[tuple[Source | None, list[str]]]:
    """What is to be imported: what was named, or what was found and chosen."""
    if not discover:
        if yes or dry_run:
            raise InputError("--yes and --dry-run go with --discover")
        return [_split(what)]
    if what:
        raise InputError(f"--discover looks by itself; found {what[0]!r}")
    chosen = choose(yes=yes, dry_run=dry_run, as_json=as_json)
    if isinstance(chosen, int):
        raise typer.Exit(chosen)
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


def _usual_places() -> list[str]:
    """Here, and where Claude Code and Codex keep their transcripts."""
    claude = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")
    codex = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
    places = (claude / "projects", codex / "sessions")
    return [".", *(str(place) for place in places if place.is_dir())]


def _table(found: list[Found]) -> str:
    """What there is, a line each, with the command behind it."""
    lines = []
    for one in found:
        noun = "commit" if one.source == git.SOURCE else "file"
        items = "commits" if one.items is None else counted(one.items, noun)
        said = one.command or "of no source that is known"
        lines.append(f"{one_line(one.path)}: {one.source or 'unknown'}, {items}: {said}")
    return "\n".join(lines) or "nothing here that memplane imports"


def _words(report: ImportReport) -> str:
    files = counted(report.files, "file")
    if any(file.source == git.SOURCE for file in report.per_file):
        files = "1 repository" if report.files == 1 else f"{report.files} repositories"
    if report.unchanged:
        files += f" ({report.unchanged} without news)"
    lines = [f"recorded  {counted(report.events, 'event')} from {files}"]
    if report.repeated:
        lines.append(f"repeated  {report.repeated} that were there already")
    if report.ended:
        lines.append(f"ended     {counted(report.ended, 'session')}")
    if report.archived:
        lines.append(f"archived  {report.archived} that their file states no more")
    if report.skipped:
        reasons = ", ".join(f"{one_line(name)} {count}" for name, count in report.skipped.items())
        lines.append(f"skipped   {sum(report.skipped.values())}: {reasons}")
    if report.refusals:
        lines.append(f"refused   {report.refusals}:")
        lines += [
            f"  {one_line(row.file)}: {row.id}: {row.reason}: {one_line(row.message, 200)}"
            for row in report.refused
        ]
        unlisted = report.refusals - len(report.refused)
        lines += [f"  and {unlisted} more"] if unlisted else []
    return "\n".join(lines)
