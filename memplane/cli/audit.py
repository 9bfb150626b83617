"""`memplane audit`: which secrets older rules let by, and what a purge would take."""

from typing import Annotated

import typer

from memplane.cli.app import command
from memplane.cli.exits import BROKEN, FINE, NO
from memplane.cli.options import Home, Json
from memplane.cli.output import counted, put, say
from memplane.cli.progress import Bar
from memplane.plane.audit import AuditReport
from memplane.wiring import find_detector, open_plane

__all__ = ["audit"]


@command("audit", example="audit --limit 20")
def audit(
    *,
    limit: Annotated[
        int, typer.Option(metavar="N", min=0, help="List at most so many findings; all count.")
    ] = 100,
    detector: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Ask an installed second engine too, by its name."),
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> int:
    """Look for secrets in what is stored, under today's rules; exit 1 on a finding.

    Names events, fields and rules, never a secret.
    """
    second = find_detector(detector) if detector is not None else None
    with open_plane(home, read_only=True, detector=second) as plane, Bar("audit") as bar:
        report = plane.audit(limit=limit, progress=bar)
    put(report.as_json(), _words(report), as_json=as_json)
    for what in report.unread[:20]:
        say(f"not looked at: {what}")
    if not report.clean:
        return NO
    return BROKEN if report.unread else FINE


def _words(report: AuditReport) -> str:
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
