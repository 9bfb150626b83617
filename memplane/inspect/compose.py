"""The data of a page: its views, composed from what the plane says to one channel.

Everything comes from faces that suppress before they answer (`pack`, `history`, `decisions`,
`sessions`, `tasks`, `files`, saved reports), or from the log by way of `Visible`. The same log,
policies, reports and clock give the same data.

Of the plane itself two views tell: what was kept out, and how it is. They hold counts alone where
texts would give away what was taken out: rules, reasons, bytes.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memplane import nofollow
from memplane.errors import MemplaneError, NotFoundError, PolicyError
from memplane.inspect.views import (
    Found,
    Visible,
    block_view,
    cut_to,
    files_view,
    left_out_view,
    pack_shown,
    prefix_view,
    read_events,
    sessions_view,
    tasks_view,
    timeline_view,
    values_view,
)
from memplane.intake.check import time_bound
from memplane.intake.redact import quoted_value
from memplane.lazy import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memplane.plane import Plane
    from memplane.ports import Line, Progress
    from memplane.upkeep.doctor import Check
    from memplane.upkeep.reports import Saved


DEFAULT_CHANNEL = "agent"


class PageRequest(NamedTuple):
    """What a page is to show.

    `report`: the pack of this report, and what its channel saw; else the newest pack of `channel`.
    `session` and `since` narrow the timeline and choose the pack. `checks` are those of `doctor`.
    """

    channel: str = DEFAULT_CHANNEL
    session: str | None = None
    since: str | None = None
    report: Saved | None = None
    checks: Sequence[Check] = ()


def compose(plane: Plane, asked: PageRequest, progress: Progress | None = None) -> dict[str, Any]:
    """The data of the page, as JSON values. Reads only.

    `progress` is called with thousandths done and a thousand.

    Raises InputError for an unknown channel or time, NotFoundError for a session without an event
    that may be shown, and PolicyError.
    """
    given = asked.report
    channel = asked.channel if given is None else given.report["channel"]
    since = None if asked.since is None else time_bound(asked.since, where="--since")
    visible = Visible(plane, channel)
    session = asked.session
    if session is None and given is not None:
        session = given.report["request"].get("session")
    sessions = plane.work.sessions.list(channel=channel)
    found = read_events(visible, asked.session, since, _part(progress, 0, 300))
    if asked.session is not None and not found.events:
        raise NotFoundError(
            f"no event of session {quoted_value(asked.session, 160)} for channel {channel}"
        )
    titles = {one.id: one.title for one in sessions if one.title}
    views, notices = _pack_views(visible, given, session, _part(progress, 300, 500))
    views += [
        timeline_view(visible, found, titles),
        values_view(visible, found, _part(progress, 800, 200)),
        sessions_view(visible, sessions),
        tasks_view(visible),
        files_view(visible, session),
    ]
    kinds = Counter(event.kind for event in found.events)
    health = health_view(visible, asked.checks, dict(kinds))
    views += [privacy_view(visible, found), health]
    if found.more or found.begin:
        notices.append(
            f"The timeline has the newest {len(found.events):,} events; older ones are in the log: "
            "memplane log, memplane search."
        )
    return {
        "title": f"memplane: {channel} view of {plane.id}",
        "facts": _facts(visible, asked, len(sessions)),
        "private": visible.private,
        "notices": notices,
        "views": views,
    }


def _part(progress: Progress | None, begin: int, share: int) -> Progress | None:
    """A progress for one part of the work, in thousandths of all of it."""
    if progress is None:
        return None
    return lambda done, total: progress(begin + share * done // max(1, total), 1_000)


def _pack_views(
    visible: Visible, given: Saved | None, session: str | None, progress: Progress | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """The views of a pack; a pack that cannot be made leaves a notice."""
    try:
        shown = pack_shown(visible, given, session, progress)
    except MemplaneError as error:
        return [], [f"There is no block: {visible.text(str(error))}"]
    views = [block_view(visible, shown), left_out_view(visible, shown)]
    prefix = prefix_view(visible, shown)
    return views + ([] if prefix is None else [prefix]), []


def _facts(visible: Visible, asked: PageRequest, sessions: int) -> dict[str, Any]:
    plane = visible.plane
    return {
        "plane": plane.id,
        "home": str(plane.home.absolute()) if visible.private else "",
        "channel": visible.channel,
        "now": visible.now[:19],
        "seq": plane.head().seq,
        "sessions": sessions,
        "session": asked.session,
        "since": asked.since,
        "report": None if asked.report is None else asked.report.id,
    }


# Points of the curve of growth: each is one look at a line of the log.
GROWTH_POINTS: Final = 48
VALUES_MAX: Final = 1_500
_VALUE_CHARS: Final = 300
_PARTS: Final = ("log", "bodies", "projections", "index", "reports")
# Of these files the owner alone is shown values: they list what must not be read.
_PRIVATE_FILES: Final = ("privacy.yaml",)


def privacy_view(visible: Visible, found: Found) -> dict[str, Any]:
    """Secrets that were masked, by rule; events that stay out, by reason; what was purged."""
    return {
        "id": "privacy",
        "label": "Redaction",
        "masked": list(found.masked.items()),
        "withheld": list(visible.withheld.items()),
        "purges": found.purges,
        "purged": found.purged,
        "begin": found.begin,
    }


def health_view(visible: Visible, checks: Sequence[Check], kinds: dict[str, int]) -> dict[str, Any]:
    """Sizes, growth, the state of log, projections and index, and the policy in force.

    `checks` are those of `memplane doctor`; their words name places, so they are for the owner.
    """
    plane = visible.plane
    head = plane.head()
    return {
        "id": "health",
        "label": "Health",
        "seq": head.seq,
        "segments": head.segment,
        "chain": head.h,
        "waiting": plane.upkeep.waiting,
        "read_only": plane.read_only,
        "gaps": [
            {"segment": gap.segment, "first": gap.first, "last": gap.last}
            for gap in plane.context.log.gaps()
        ],
        "sizes": [[name, folder_bytes(plane.home / name)] for name in _PARTS],
        "kinds": sorted(kinds.items(), key=lambda one: (-one[1], one[0])),
        "growth": _growth(visible, head.seq),
        "checks": [
            {
                "name": check.name,
                "status": check.status,
                "found": visible.text(check.found) if visible.private else "",
                "remedy": visible.text(check.remedy) if visible.private else "",
            }
            for check in checks
        ],
        "policies": _policies(visible),
    }


def _growth(visible: Visible, head: int) -> list[list[Any]]:
    """When the log had how many lines: points spread evenly over its seqs."""
    log = visible.plane.context.log
    wanted = sorted({1 + at * (head - 1) // (GROWTH_POINTS - 1) for at in range(GROWTH_POINTS)})
    lines: list[Line | None] = [log.line(seq) for seq in wanted if 0 < seq <= head]
    return [[line.event.rec[:19], line.event.seq] for line in lines if line is not None]


def _policies(visible: Visible) -> list[dict[str, Any]]:
    """Every value in force with its origin; of what lists secrets the values are the owner's."""
    rows: list[dict[str, Any]] = []
    with suppress(PolicyError):
        for one in visible.plane.upkeep.policy_values()[:VALUES_MAX]:
            told = visible.private or one.file not in _PRIVATE_FILES
            value = visible.text(repr(one.value), _VALUE_CHARS) if told else "\u2026"
            origin = one.origin if one.line is None else f"line {one.line}"
            rows.append(
                {
                    "file": one.file,
                    "key": cut_to(one.key, 200),
                    "value": value,
                    "origin": one.variable or origin,
                    "own": one.origin != "default",
                }
            )
    return rows


def folder_bytes(folder: Path) -> int:
    """The bytes of the files in a folder and below it."""
    total = 0
    for path in nofollow.walk_files(folder):
        with suppress(OSError):
            total += Path(path).lstat().st_size
    return total
