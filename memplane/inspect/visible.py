"""What of a plane may stand on the page of one channel: events and texts as exports have them.

Every event passes `EventSelector` (hidden, forgotten and evicted ones stay out, and what remains is
redacted by today's policy) before a view sees it. On any page but the owner's nothing is shown of
what is of sensitivity high or secret, whatever a policy says of the channel.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from memplane import nofollow
from memplane.event import Event
from memplane.recall.suppress import OWNER
from memplane.upkeep.export import EventSelector, ExportFilter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memplane.plane import Plane
    from memplane.upkeep.reports import Saved

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
