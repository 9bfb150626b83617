"""The data of a page: its views, composed from what the plane says to one channel.

Everything comes from faces that suppress before they answer (`pack`, `history`, `decisions`,
`sessions`, `tasks`, `files`, saved reports), or from the log by way of `visible`. The same log,
policies, reports and clock give the same data.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from memplane.errors import MemplaneError, NotFoundError
from memplane.inspect.blocks import block_view, left_out_view, pack_shown, prefix_view
from memplane.inspect.records import (
    files_view,
    read_events,
    sessions_view,
    tasks_view,
    timeline_view,
    values_view,
)
from memplane.inspect.upkeep import health_view, privacy_view
from memplane.inspect.visible import Visible
from memplane.intake import timestamp
from memplane.intake.redact import quoted_value
from memplane.lazy import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memplane.plane import Plane
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


def compose(plane: Plane, asked: PageRequest) -> dict[str, Any]:
    """The data of the page, as JSON values. Reads only.

    Raises InputError for an unknown channel or time, NotFoundError for a session without an event
    that may be shown, and PolicyError.
    """
    given = asked.report
    channel = asked.channel if given is None else given.report["channel"]
    since = None if asked.since is None else timestamp(asked.since, where="--since")
    visible = Visible(plane, channel)
    session = asked.session
    if session is None and given is not None:
        session = given.report["request"].get("session")
    sessions = plane.work.sessions.list(channel=channel)
    found = read_events(visible, asked.session, since)
    if asked.session is not None and not found.events:
        raise NotFoundError(
            f"no event of session {quoted_value(asked.session, 160)} for channel {channel}"
        )
    titles = {one.id: one.title for one in sessions if one.title}
    views, notices = _pack_views(visible, given, session)
    views += [
        timeline_view(visible, found, titles),
        values_view(visible, found),
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


def _pack_views(
    visible: Visible, given: Saved | None, session: str | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """The views of a pack; a pack that cannot be made leaves a notice."""
    try:
        shown = pack_shown(visible, given, session)
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
