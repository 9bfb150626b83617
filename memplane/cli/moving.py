"""`memplane export` and `restore`: a plane, or a part of it, as one file, and back."""

import shutil
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Annotated, Final

import typer

from memplane.cli.app import command
from memplane.cli.options import Home, Json
from memplane.cli.output import counted, one_line, put, say
from memplane.cli.progress import Bar
from memplane.errors import InputError, WriteError
from memplane.plane.exporting import ExportReport
from memplane.plane.folder_checks import filesystem
from memplane.plane.restoring import RestoreReport
from memplane.wiring import open_plane
from memplane.wiring import restore as restore_plane

__all__ = ["export", "restore"]

_STREAM: Final = "-"


@command("export", example="export ~/plane.jsonl")
def export(
    path: Annotated[
        str, typer.Argument(metavar="[PATH|-]", help="The file to write; - is stdout.")
    ] = _STREAM,
    *,
    ns: Annotated[
        list[str] | None, typer.Option("--ns", metavar="NS", help="Only this namespace; or more.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", metavar="KIND", help="Only this kind; or more.")
    ] = None,
    session: Annotated[
        list[str] | None,
        typer.Option("--session", metavar="ID", help="Only this session; or more."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only from then on: RFC 3339.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Only until then: RFC 3339.")
    ] = None,
    redact: Annotated[
        bool,
        typer.Option("--redact", help="As events may leave the plane by today's policies, not as "
                     "they are stored."),
    ] = False,
    secret: Annotated[
        bool, typer.Option("--secret", help="Of a part, also what is of sensitivity secret.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace what is there by that name.")
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Write the plane to a file that `restore` takes back: a backup, or a part of its events.

    Without options it is all of the log, byte by byte, with every text and file beside it, secret
    ones too; policies and views are yours, and not in it. With a filter or --redact it is events
    as the private channel shows them, redacted again, without files and what was forgotten.
    """
    if path == _STREAM and as_json:
        raise InputError("stdout has the export; name a file", where="--json")
    target = _Stream() if path == _STREAM else nullcontext(path)
    with open_plane(home) as plane, Bar("export") as bar, target as to:
        report = plane.export(
            to, replace=replace, ns=ns or None, kind=kind or None, session=session or None,
            since=since, until=until, redact=redact, secret=secret, progress=bar,
        )  # fmt: skip
    words = _exported(report)
    put(report.as_json(), "" if path == _STREAM else words, as_json=as_json)
    if path == _STREAM:
        say(words)
    if report.whole:
        say("it holds everything, also what is secret: keep it as you keep the plane")
    if report.damaged or report.lost:
        say("the plane was not whole, nor is the export: `memplane verify` says what is wrong")


class _Stream:
    """Stdout as an export has it: where it takes less than all of that, what it took is none."""

    def __enter__(self) -> IO[bytes]:
        return sys.stdout.buffer

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                sys.stdout.buffer.flush()
        except OSError as refused:
            error = refused
        if isinstance(error, OSError):
            why = "its reader went away" if isinstance(error, BrokenPipeError) else error.strerror
            raise WriteError(
                f"stdout: {why}; what was written has no last line, `memplane restore` refuses "
                "it; export again, or into a file"
            ) from error


@command("restore", example="restore ~/plane.jsonl --into ~/copy")
def restore(
    path: Annotated[str, typer.Argument(metavar="EXPORT", help="What `export` wrote; - is stdin.")],
    *,
    home: Annotated[
        str | None,
        typer.Option(
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
    put(report.as_json(), _restored(report), as_json=as_json)
    place = filesystem(Path(report.home))
    if place.status != "ok":
        say(f"a poor place for a plane: {place.found}: {place.remedy}")
    merged = report.merged
    if merged is not None and merged.still_here:
        named = ", ".join(one_line(id_, 40) for id_ in merged.still_here[:5])
        say(
            f"{counted(len(merged.still_here), 'event')} purged there are still in this plane: "
            f"{named}; `memplane purge` erases them here too"
        )


def _exported(report: ExportReport) -> str:
    what = counted(
        report.events, "line of the log" if report.whole else "event",
        "lines of the log" if report.whole else "",
    )  # fmt: skip
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
        f"recorded  {counted(merged.recorded, 'event')} from plane {one_line(opened.plane, 40)}"
        + kept
    ]
    if merged.repeated:
        lines.append(f"repeated  {merged.repeated} that were there already")
    if merged.purged:
        lines.append(f"purged    {merged.purged} that were erased there")
    if merged.refusals:
        lines.append(f"refused   {merged.refusals}:")
        lines += [
            f"  seq {one.seq}: {one.id}: {one.reason}: {one_line(one.message, 200)}"
            for one in merged.refused
        ]
        unlisted = merged.refusals - len(merged.refused)
        lines += [f"  and {unlisted} more"] if unlisted else []
    return "\n".join(lines)
