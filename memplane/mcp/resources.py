"""Resources that a client can attach without a tool call: decisions, tasks, report, handles."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from memplane.errors import NotFoundError
from memplane.intake.redact import masked_name
from memplane.mcp.tools import Desk, clipped, expanded
from memplane.projections.window import safe_name
from memplane.upkeep import reports

__all__ = ["RESOURCES", "TEMPLATE", "TOKENS_MAX", "Resource", "read_resource"]

TOKENS_MAX: Final = 4_000
TEMPLATE: Final = "expand://{+handle}"
_SCHEME: Final = "expand://"
_STATEMENT_CHARS: Final = 400
_MORE_TOKENS: Final = 40  # that say how many entries did not fit


class Resource(NamedTuple):
    """One resource, and what reads it: at most TOKENS_MAX tokens."""

    uri: str
    name: str
    description: str
    mime_type: str
    read: Callable[[Desk], str]


def read_resource(desk: Desk, uri: str) -> tuple[str, str]:
    """The text of a resource and its type; raises NotFoundError for one that is not there."""
    for one in RESOURCES:
        if one.uri == uri:
            return one.read(desk), one.mime_type
    if uri.startswith(_SCHEME):
        return _expanded(desk, uri), "text/plain"
    known = ", ".join(one.uri for one in RESOURCES)
    asked = clipped(masked_name(uri), 80)  # masked first: of what is cut off no rule knows the rest
    raise NotFoundError(f"no resource {asked}; there are {known} and {TEMPLATE}")


def _expanded(desk: Desk, uri: str) -> str:
    # A client that fills `{handle}` in without the plus writes a slash as %2F.
    handle = uri if "/" in uri.removeprefix(_SCHEME) else unquote(uri)
    found = expanded(desk, handle, TOKENS_MAX - 100)
    if found.next is None:
        return found.text
    return f"{found.text.rstrip()}\n[cut; goes on at {_SCHEME}{found.next.removeprefix(_SCHEME)}]\n"


def _decisions(desk: Desk) -> str:
    found = desk.plane.decisions(**desk.who)
    lines = (
        f"#{event.seq} {event.ts[:10]}{f' {safe_name(event.key)}' if event.key else ''}: "
        f"{clipped(event.text, _STATEMENT_CHARS)}\n"
        for event in reversed(found)
    )
    return _fitting(desk, lines, len(found), "older decisions; memory_search with type decision")


def _tasks(desk: Desk) -> str:
    found = desk.plane.tasks.list(session=desk.session, **desk.who)
    texts = (view.paragraph for view in found)
    return _fitting(desk, texts, len(found), "older tasks; expand://task/ID opens one")


def _fitting(desk: Desk, texts: Iterable[str], total: int, rest: str) -> str:
    """As many texts as fit, and how many more there are."""
    kept: list[str] = []
    left = TOKENS_MAX - 40
    for text in texts:
        left -= desk.counter.count(text)
        if left < 0:
            return "".join([*kept, f"[{total - len(kept)} {rest}]\n"])
        kept.append(text)
    return "".join(kept) or "none\n"


def _report(desk: Desk) -> str:
    """The newest report of this channel, without its longest lists where it does not fit whole.

    None of another agent's packs, which name what is in its namespace.
    """
    for one in reports.saved(desk.plane.home):
        agent = one.report["request"].get("agent", desk.actor)
        if (one.report["channel"], agent) == (desk.channel, desk.actor):
            return _cut_report(desk, one)
    raise NotFoundError("no report is saved yet; memory_curate saves one")


def _cut_report(desk: Desk, saved: reports.Saved) -> str:
    report, counter = {"id": saved.id, **saved.report}, desk.counter
    for cut in (dict, _counted, _without_prefix, _named):
        report = cut(report)
        text = _json(report)
        if counter.count(text) <= TOKENS_MAX:
            return text
        report["cut"] = f"all of it is reports/{saved.path.name} in the plane's folder"
    entries = report["entries"]
    left = TOKENS_MAX - counter.count(_json({**report, "entries": []})) - _MORE_TOKENS
    costs = accumulate(counter.count(_json(entry)) + 1 for entry in entries)
    report["entries"] = entries[: sum(cost <= left for cost in costs)]
    report["more_entries"] = len(entries) - len(report["entries"])
    return _json(report)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _counted(report: dict[str, Any]) -> dict[str, Any]:
    """What was left out by counts alone."""
    return {**report, "omissions": {"counts": report["omissions"]["counts"]}}


def _without_prefix(report: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in report.items() if name != "prefix"}


def _named(report: dict[str, Any]) -> dict[str, Any]:
    """Entries by where they stand, cost and are made of; the query's beginning."""
    names = ("section", "tokens", "events", "parts")
    entries = [{name: entry[name] for name in names} for entry in report["entries"]]
    query = clipped(report["request"].get("query", ""), _STATEMENT_CHARS)
    return {**report, "entries": entries, "request": {**report["request"], "query": query}}


RESOURCES: Final = (
    Resource(
        "memplane://decisions",
        "decisions",
        "The decisions in force, newest first.",
        "text/plain",
        _decisions,
    ),
    Resource("memplane://tasks", "tasks", "The open tasks, newest first.", "text/plain", _tasks),
    Resource(
        "memplane://report",
        "last report",
        "The report of the last packed block: entries, what was left out and why.",
        "application/json",
        _report,
    ),
)
