"""The views of what was recorded, as one channel may see it.

Timeline, decisions and values, sessions, tasks, files: each is bounded by a constant here, and what
is left off is counted. Events and texts stand on a page as exports have them (`Visible`).

Every event passes `EventSelector` (hidden, forgotten and evicted ones stay out, and what remains is
redacted by today's policy) before a view sees it. On any page but the owner's nothing is shown of
what is of sensitivity high or secret, whatever a policy says of the channel.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from memplane import nofollow
from memplane.errors import MemplaneError
from memplane.event import Event
from memplane.lazy import NamedTuple
from memplane.log.segments import erased_by
from memplane.projections.in_force import KEYLESS_KINDS
from memplane.recall.suppress import OWNER
from memplane.upkeep.export import EventSelector, ExportFilter

if TYPE_CHECKING:
    from memplane.context.event_access import KeyVersion
    from memplane.plane import Plane
    from memplane.ports import Progress
    from memplane.upkeep.reports import Saved
    from memplane.work.sessions import Session
    from memplane.work.tasks import TaskView


# Characters of one text in a list; the whole is for `memplane show`.
LINE_CHARS_MAX: Final = 600
# Characters of one entry of a block, which a budget limits already.
ENTRY_CHARS_MAX: Final = 8_000
_NAME_CHARS_MAX: Final = 200
_READ_AHEAD: Final = 4
_RULES: Final = ("privacy.yaml", "channels.yaml")
_NOT_PRIVATE: Final = ("high", "secret")


class Visible:
    """Events and texts of a plane for one channel, at the plane's clock.

    `withheld` counts the events that were asked for and stay out, by reason. Look-ups by id are
    kept: a page names the same event in many places.
    """

    def __init__(self, plane: Plane, channel: str) -> None:
        self.plane, self.channel = plane, channel
        self.now = plane.context.clock()
        self._selector = EventSelector(plane.context, ExportFilter(), channel=channel)
        self._redact = plane.context.redact(plane.upkeep.policies)
        self._known: dict[str, Event | None] = {}
        self._standing: dict[str, bool] = {}
        self._high = 0

    @property
    def private(self) -> bool:
        """Whether the page is for the owner."""
        return self.channel == OWNER

    @property
    def withheld(self) -> dict[str, int]:
        """Events that were looked at and stay out, by reason."""
        found = dict(self._selector.withheld)
        if self._high:
            found["hidden"] = found.get("hidden", 0) + self._high
        return dict(sorted(found.items()))

    def event(self, event: Event) -> Event | None:
        """The event as it may stand on the page; None where it may not."""
        if not self.private and event.sensitivity in _NOT_PRIVATE:
            self._high += 1
            return None
        return self._selector.shown(event)

    def named(self, id_: str) -> Event | None:
        """The same for an id."""
        if id_ not in self._known:
            line = self.plane.context.log.find(id_)
            self._known[id_] = None if line is None else self.event(line.event)
        return self._known[id_]

    def text(self, text: str, most: int = LINE_CHARS_MAX) -> str:
        """A text that names no event, redacted, and cut to `most` characters."""
        begin = text[: most * _READ_AHEAD]
        told = self._redact(begin)
        if len(begin) < len(text):
            told = told[:-most]  # its end may be half of a secret, which no rule finds
        return cut_to(told, most)

    def shows_all(self, ids: Iterator[str]) -> bool:
        """Whether every one of the events may stand on the page."""
        return all(self.named(id_) is not None for id_ in ids)

    def stands(self, kept: Saved | None, source: str = "") -> bool:
        """Whether a line of a pack that names no event may be shown now; None is a pack of now.

        It may where nothing was forgotten or purged since, the rules of who may see what are those
        of then, and, of a view, where the view is still the same.
        """
        if kept is None:
            return True
        if kept.id not in self._standing:
            self._standing[kept.id] = self._same_rules(kept) and not self._forgot_since(kept)
        path, _, sha256 = source.removeprefix("view:").partition("@")
        if source.startswith("view:") and not self._same_view(path, sha256):
            return False
        return self._standing[kept.id]

    def _same_rules(self, kept: Saved) -> bool:
        now, then = self.plane.upkeep.policies.hashes, kept.report["policies"]
        return all(then.get(name) == now.get(name) for name in _RULES)

    def _forgot_since(self, kept: Saved) -> bool:
        context = self.plane.context
        lines = context.log.read(kept.report["log"]["seq"], context.as_of)
        return any(line.event.kind in ("forget", "purge") for line in lines)

    def _same_view(self, path: str, sha256: str) -> bool:
        home = self.plane.home
        try:
            data = nofollow.read_bytes(home / path, home=home)
        except (OSError, ValueError):
            return False
        return hashlib.sha256(data).hexdigest() == sha256


def cut_to(text: str, most: int) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "\u2026"


def speaker_of(event: Event) -> str:
    """Who said it: the role, and the tool or actor where there is one."""
    tool = event.data.get("tool") if event.kind in ("tool_call", "tool_result") else None
    who = tool if isinstance(tool, str) else event.actor
    role = event.role or ""
    words = f"{role} {who}" if who and role and who != role else who or role
    return cut_to(words, _NAME_CHARS_MAX)


def event_fields(event: Event, most: int = LINE_CHARS_MAX) -> dict[str, Any]:
    """What each view says of an event, as JSON values."""
    fields: dict[str, Any] = {
        "seq": event.seq,
        "id": event.id,
        "ts": event.ts[:19],
        "kind": event.kind,
        "who": speaker_of(event),
        "text": cut_to(event.text, most),
        "tokens": event.tokens or 0,
    }
    if event.key is not None:
        fields |= {"key": event.key, "ns": event.ns}
    return fields


EVENTS_MAX: Final = 10_000
# Lines that are read back from the log's end: for all events, and for those of a session or time.
LINES_READ: Final = 12_000
LINES_READ_MAX: Final = 200_000
KEYS_MAX: Final = 400
VERSIONS_MAX: Final = 40
TASKS_MAX: Final = 200
FILES_MAX: Final = 200
_DIGEST_CHARS: Final = 3_000
_STEPS_MAX: Final = 60
_TOLD_EACH: Final = 500  # lines between two calls of a progress


class Found(NamedTuple):
    """The newest events of the log that may stand on the page, in log order.

    `more` were seen and left off; nothing up to seq `begin` was looked at. `purged` events were
    erased by `purges` of those lines; `masked` counts secrets by rule.
    """

    events: tuple[Event, ...]
    more: int
    begin: int
    purges: int
    purged: int
    masked: dict[str, int]


def read_events(
    visible: Visible, session: str | None, since: str | None, progress: Progress | None = None
) -> Found:
    """Read the newest `EVENTS_MAX` events of a session and time, or of all.

    `progress` is called with lines read and to read.
    """
    log, head = visible.plane.context.log, visible.plane.head().seq
    some = session is not None or since is not None
    begin = max(0, head - (LINES_READ_MAX if some else LINES_READ))
    kept: list[Event] = []
    purges = purged = 0
    masked: dict[str, int] = {}
    for line in log.read(begin, head):
        event = line.event
        if progress is not None and event.seq % _TOLD_EACH == 0:
            progress(event.seq - begin, head - begin)
        if event.kind == "purge":
            purges += 1
            purged += sum(1 for _ in erased_by(event))
        if session not in (None, event.session) or (since is not None and event.ts < since):
            continue
        shown = visible.event(event)
        if shown is not None:
            kept.append(shown)
            for rule, count in _redactions(event):
                masked[rule] = masked.get(rule, 0) + count
    more = max(0, len(kept) - EVENTS_MAX)
    by_count = dict(sorted(masked.items(), key=lambda one: (-one[1], one[0])))
    return Found(tuple(kept[more:]), more, begin, purges, purged, by_count)


def _redactions(event: Event) -> Iterator[tuple[str, int]]:
    rules = event.data.get("redactions")
    if isinstance(rules, dict):
        yield from ((rule, count) for rule, count in rules.items() if type(count) is int)


class _Names:
    """Texts that many rows share, each once: rows have their places."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._places: dict[str, int] = {}

    def place(self, name: str | None) -> int:
        """The place of a name, -1 for none."""
        if not name:
            return -1
        at = self._places.setdefault(name, len(self.all))
        if at == len(self.all):
            self.all.append(name)
        return at


def timeline_view(visible: Visible, found: Found, titles: dict[str, str]) -> dict[str, Any]:
    """Events in log order, as columns; `titles` of sessions by their name."""
    names = _Names()
    rows = [
        [
            event.seq,
            event.ts[:19],
            names.place(event.kind),
            names.place(speaker_of(event)),
            names.place(event.session),
            names.place(event.key),
            names.place(event.ns),
            event.tokens or 0,
            event.id,
            cut_to(event.text, 600),
        ]
        for event in found.events
    ]
    return {
        "id": "timeline",
        "label": "Timeline",
        "count": len(rows),
        "columns": ["seq", "ts", "kind", "who", "session", "key", "ns", "tokens", "id", "text"],
        "names": names.all,
        "titles": {name: visible.text(titles[name], 120) for name in names.all if name in titles},
        "rows": rows,
        "more": found.more,
        "begin": found.begin,
    }


def values_view(visible: Visible, found: Found, progress: Progress | None = None) -> dict[str, Any]:
    """Decisions in force, and each key with every value that it had: who replaced what when.

    `progress` is called with keys read and to read.
    """
    channel = visible.channel
    decisions = [visible.event(event) for event in visible.plane.work.decisions(channel=channel)]
    told = [event for event in decisions if event is not None]
    keys = _keys_of((*told, *found.events))
    chains = []
    for at, (ns, key) in enumerate(keys[:KEYS_MAX]):
        if progress is not None:
            progress(at, min(len(keys), KEYS_MAX))
        try:
            versions = visible.plane.history(key, ns, channel=channel)
        except MemplaneError:
            continue
        chain = _chain(visible, versions)
        if chain:
            chains.append({"key": key, "ns": ns, "versions": chain[-VERSIONS_MAX:],
                           "more": max(0, len(chain) - VERSIONS_MAX)})  # fmt: skip
    _mark_contradictions(chains)
    return {
        "id": "values",
        "label": "Values",
        "count": len(chains),
        "decisions": [event_fields(event) for event in told],
        "chains": chains,
        "more": max(0, len(keys) - KEYS_MAX),
        "contradictions": sum(1 for one in chains if one["contradicts"]),
    }


def _keys_of(events: Iterable[Event]) -> list[tuple[str, str]]:
    """Namespace and key of what has one, those that changed last first."""
    newest: dict[tuple[str, str], int] = {}
    for event in events:
        if event.key is not None and event.kind not in KEYLESS_KINDS:
            place = (event.ns, event.key)
            newest[place] = max(event.seq, newest.get(place, 0))
    return sorted(newest, key=lambda place: -newest[place])


def _chain(visible: Visible, versions: list[KeyVersion]) -> list[dict[str, Any]]:
    chain = []
    for one in versions:
        shown = visible.event(one.event) if one.reason not in ("forgotten", "evicted") else None
        if shown is not None:
            chain.append(
                event_fields(shown)
                | {"session": shown.session, "reason": one.reason, "by": one.by_seq}
                | {"supersedes": one.supersedes}
            )
    return chain


def _mark_contradictions(chains: list[dict[str, Any]]) -> None:
    """Name, with each key in force, the namespaces where it has another value in force."""
    holding: dict[str, list[tuple[str, str]]] = {}
    for one in chains:
        one["contradicts"] = []
        for version in one["versions"]:
            if version["reason"] is None:
                holding.setdefault(one["key"], []).append((one["ns"], version["text"]))
    for one in chains:
        held = holding.get(one["key"], [])
        own = {text for ns, text in held if ns == one["ns"]}
        one["contradicts"] = sorted({ns for ns, text in held if own and text not in own})


def sessions_view(visible: Visible, sessions: list[Session]) -> dict[str, Any]:
    """Sessions, the latest first: what each was about, came to and left."""
    return {
        "id": "sessions",
        "label": "Sessions",
        "count": len(sessions),
        "rows": [_session(visible, one) for one in reversed(sessions)],
    }


def _session(visible: Visible, one: Session) -> dict[str, Any]:
    return {
        "id": visible.text(one.id, 200),
        "title": visible.text(one.title, 160),
        "status": one.status,
        "reason": visible.text(one.reason or "", 80),
        "agent": visible.text(one.agent or "", 80),
        "branch": visible.text(one.branch or "", 120),
        "first": one.first[:19],
        "last": one.last[:19],
        "events": sum(one.events.values()),
        "prompts": one.prompts,
        "calls": one.calls,
        "errors": one.errors,
        "decisions": one.decisions,
        "tokens": one.tokens,
        "files": [visible.text(name, 200) for name in one.files[:20]],
        "outcome": visible.text(one.outcome),
        "left": visible.text(one.left),
        "digest": visible.text(one.digest, _DIGEST_CHARS),
    }


def tasks_view(visible: Visible) -> dict[str, Any]:
    """Tasks, open and closed: the plan, how far it is, what is left."""
    tasks = visible.plane.work.tasks.list(all=True, channel=visible.channel)
    return {
        "id": "tasks",
        "label": "Tasks",
        "count": len(tasks),
        "more": max(0, len(tasks) - TASKS_MAX),
        "rows": [_task(visible, one) for one in tasks[:TASKS_MAX]],
    }


def _task(visible: Visible, one: TaskView) -> dict[str, Any]:
    return {
        "id": visible.text(one.id, 200),
        "title": visible.text(one.title, 160),
        "status": one.status,
        "active": one.active,
        "goal": visible.text(one.goal),
        "reason": visible.text(one.reason),
        "plan": [
            {"text": visible.text(step.text, 300), "state": step.state}
            for step in one.plan[:_STEPS_MAX]
        ],
        "decisions": [visible.text(text, 300) for text in one.decisions[:20]],
        "failures": [visible.text(text, 300) for text in one.failures[:20]],
        "files": [visible.text(name, 200) for name in one.files[:20]],
        "opened": one.opened_seq,
        "created": one.created[:19],
        "updated": one.updated[:19],
    }


def files_view(visible: Visible, session: str | None) -> dict[str, Any]:
    """Files that were touched: by which event last, how often, why they are listed."""
    found = visible.plane.work.files(session=session, limit=FILES_MAX, channel=visible.channel)
    rows = []
    for one in found:
        event = visible.named(one.id)
        if event is not None:
            rows.append(
                {
                    "path": visible.text(one.path, 400),
                    "branch": visible.text(one.branch, 120),
                    "touches": one.touches,
                    "score": one.score,
                    "why": list(one.why),
                    "event": event_fields(event, 160),
                }
            )
    return {"id": "files", "label": "Files", "count": len(rows), "rows": rows}
