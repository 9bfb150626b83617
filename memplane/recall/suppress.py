"""What a request may not see, decided before anything is scored.

A suppressed event leaves one trace only: the count of its reason among the omissions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from memplane.event import GLOBAL, TYPED_KINDS
from memplane.policy import ChannelRule

__all__ = ["Scope", "Shown", "kinds_of_views"]


class Shown(Protocol):
    """The fields of an event that decide whether it may be shown."""

    @property
    def seq(self) -> int: ...
    @property
    def id(self) -> str: ...
    @property
    def ts(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def ns(self) -> str: ...
    @property
    def sensitivity(self) -> str: ...
    @property
    def valid_from(self) -> str | None: ...
    @property
    def valid_until(self) -> str | None: ...
    @property
    def superseded(self) -> bool: ...
    @property
    def forgotten(self) -> bool: ...


def kinds_of_views(paths: Collection[str]) -> tuple[str, ...]:
    """Kinds whose view is among the paths: `views/preferences.md` is the view of `preference`."""
    words = {path.rpartition("/")[2].partition(".")[0] for path in paths}
    return tuple(kind for kind in TYPED_KINDS if kind in words or f"{kind}s" in words)


class Scope:
    """One request's view of the log: channel rule, namespaces, span of time, clock.

    Without `task` and `ns` everything is in scope but other agents' namespaces; with `task` it is
    `/global`, that task, its specs (every `/spec/*` where it names none) and the asking agent; `ns`
    names the only ones. Whatever is asked, an agent's own namespace opens to that agent alone.
    """

    def __init__(
        self, rule: ChannelRule, *, now: str, as_of: int, ns: tuple[str, ...] = (),
        task: str | None = None, specs: tuple[str, ...] = (), agent: str | None = None,
        since: str | None = None, until: str | None = None, exclude: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self.levels = frozenset((*rule.suppress_sensitivity, "secret"))
        self.kinds = frozenset(
            (*rule.suppress_kinds, *kinds_of_views(rule.suppress_views), "secret")
        )
        self.now, self.as_of = now, as_of
        self.ns, self.task, self.agent = ns, task, agent
        self.specs = tuple(f"/spec/{name}" for name in specs)
        self.since, self.until = since, until
        self.exclude = exclude
        self._judged: dict[int, str | None] = {}
        self._inside: set[str] = {GLOBAL} if not ns else set()  # namespaces known to be in scope

    def hides(self, event: Shown) -> str | None:
        """The reason why the event may not be shown, None where it may; judged once an event."""
        reason = self._judged.get(event.seq, "")
        if reason == "":
            reason = self._judged[event.seq] = self._judge(event)
        return reason

    def masks(self, events: Iterable[Shown]) -> list[bool]:
        """Whether each of the events may not be shown."""
        judged, hides = self._judged, self.hides
        return [
            judged.get(event.seq, "") is not None and hides(event) is not None for event in events
        ]

    def _judge(self, event: Shown) -> str | None:  # noqa: PLR0911 - a reason, a return
        if event.sensitivity in self.levels:
            return "sensitivity"
        if event.kind in self.kinds:
            return "kind"
        if event.ns not in self._inside and not self.reaches(event.ns):
            return "ns"
        if event.seq > self.as_of:
            return "as_of"
        if event.superseded:
            return "superseded"
        if event.forgotten:
            return "forgotten"
        if (event.valid_until is not None and event.valid_until < self.now) or (
            event.valid_from is not None and event.valid_from > self.now
        ):
            return "expired"
        if (self.since is not None and event.ts < self.since) or (
            self.until is not None and event.ts > self.until
        ):
            return "time"
        if event.id in self.exclude:
            return "excluded"
        # Last, so that a reader who may see artifacts can tell them from what is gone. Nothing
        # approves one yet.
        return "unapproved" if event.kind == "artifact" else None

    def reaches(self, ns: str) -> bool:
        """Whether a namespace is in scope."""
        if ns.startswith("/agent/") and (self.agent is None or ns != f"/agent/{self.agent}"):
            return False
        if self.ns:
            return ns in self.ns
        if self.task is None or ns == GLOBAL or ns.startswith("/agent/"):
            return True
        if ns.startswith("/spec/"):
            return not self.specs or ns in self.specs
        return ns == f"/task/{self.task}"
