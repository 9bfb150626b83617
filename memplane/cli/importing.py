"""`memplane import`: transcripts and JSON lines become events."""

from pathlib import Path
from typing import Annotated, cast

import typer

from memplane.cli.app import command
from memplane.cli.options import Home, Json
from memplane.cli.output import counted, one_line, put
from memplane.cli.progress import Bar
from memplane.errors import InputError
from memplane.importers import SOURCES, ImportReport, import_paths
from memplane.importers.run import Source
from memplane.wiring import open_plane

__all__ = ["import_files"]


@command("import", example="import claude-code ~/.claude/projects")
def import_files(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="[SOURCE] PATH",
            help="Files or folders, behind claude-code or jsonl where that is not to be found out.",
        ),
    ],
    *,
    reasoning: Annotated[
        bool, typer.Option("--reasoning", help="Take the model's thinking too.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Read files again that were read before.")
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Record what files hold. A second run records nothing twice; refused rows are listed."""
    source, paths = _split(what)
    with open_plane(home) as plane, Bar("import") as bar:
        report = import_paths(plane, source, paths, progress=bar, reasoning=reasoning, full=full)
    put(report.as_json(), _words(report), as_json=as_json)


def _split(what: list[str]) -> tuple[Source | None, list[str]]:
    first, rest = what[0], what[1:]
    # A file may have a source's name; alone, it is meant as a path if it is one.
    if first not in SOURCES or (not rest and Path(first).exists()):
        return None, what
    if not rest:
        raise InputError(f"expected PATH behind {first}, found none")
    return cast("Source", first), rest


def _words(report: ImportReport) -> str:
    files = counted(report.files, "file")
    if report.unchanged:
        files += f" ({report.unchanged} without news)"
    lines = [f"recorded  {counted(report.events, 'event')} from {files}"]
    if report.repeated:
        lines.append(f"repeated  {report.repeated} that were there already")
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
