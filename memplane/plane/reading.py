"""Answers about single events: by id, key, handle or filter, within what a channel may see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from memplane.errors import BudgetError, InputError, NotFoundError, ScopeError
from memplane.event import Event
from memplane.intake import Redactor
from memplane.intake.redact import shown
from memplane.pack.request import View
from memplane.policy import Policies
from memplane.ports import Line, TokenCounter
from memplane.projections.window import handle
from memplane.recall.suppress import Scope
from memplane.tokens import cut

__all__ = ["Expanded", "Reader", "Version", "parse_handle"]

_HANDLE: Final = re.compile(r"(?:expand://event/|#)(\d{1,18})(?:\?from=(\d{1,12}))?")
_VIEW: Final = re.compile(r"expand://(views/[^?]+)(?:\?from=(\d{1,12}))?")


class Version(NamedTuple):
    """One value that a key had. `reason`: None while in force, else superseded or forgotten."""

    event: Event
    reason: str | None
    by_seq: int | None


class Expanded(NamedTuple):
    """What a handle opened. `next` continues where the budget ended, None at the end."""

    handle: str
    text: str
    tokens: int
    event: Event | None
    next: str | None

    def as_json(self) -> dict[str, Any]:
        event = self.event.id if self.event is not None else None
        return {**self._asdict(), "event": event}


class _Seen(NamedTuple):
    """The fields that `Scope` asks for; archived events stay readable, so neither flag is set."""

    seq: int
    id: str
    ts: str
    kind: str
    ns: str
    sensitivity: str
    valid_from: str | None
    valid_until: str | None
    superseded: bool = False
    forgotten: bool = False


def parse_handle(given: str) -> tuple[int | None, str, int]:
    """Seq of an event or path of a view, and the character to go on from; InputError otherwise."""
    event = _HANDLE.fullmatch(given)
    if event is not None:
        return int(event[1]), "", int(event[2] or 0)
    view = _VIEW.fullmatch(given)
    if view is not None:
        return None, view[1], int(view[2] or 0)
    raise InputError(
        f"expected expand://event/<seq>, #<seq> or expand://views/<name>, found {shown(given)}",
        where="handle",
    )


class Reader:
    """Reads for one channel at one time. Built per call; holds no state of its own."""

    def __init__(
        self, policies: Policies, channel: str, *, now: str, as_of: int, agent: str | None = None,
        redactor: Redactor,
    ) -> None:  # fmt: skip
        self.channel = channel
        self._scope = Scope(
            policies.privacy.rule(channel), now=now, as_of=as_of, agent=agent or None
        )
        self._all_agents = agent is None
        self._redactor = redactor

    def shows(self, event: Event) -> bool:
        """Whether the channel may see the event, in force or archived."""
        seen = _Seen(
            event.seq, event.id, event.ts, event.kind, event.ns, event.sensitivity, None, None
        )
        reason = self._scope.hides(seen)
        # Reading one event by name is no prompt: approval and namespaces are a pack's business.
        return reason in (None, "unapproved") or (reason == "ns" and self._all_agents)

    def in_time(self, event: Event) -> bool:
        """Whether the event is valid at the reader's clock."""
        now = self._scope.now
        return not (
            (event.valid_until is not None and event.valid_until < now)
            or (event.valid_from is not None and event.valid_from > now)
        )

    def emit(self, event: Event) -> Event:
        """The event as it leaves the plane: redacted by today's policy once more."""
        text = self._redact(event.text)
        data, found = self._redactor.redact_data(event.data) if event.data else (event.data, {})
        tags = tuple(self._redact(tag) for tag in event.tags)
        if text == event.text and not found and tags == event.tags:
            return event
        return event._replace(text=text, data=data, tags=tags)

    def _redact(self, text: str) -> str:
        return self._redactor.redact(text)[0]

    def one(self, line: Line | None, named: str | int, place: str = "") -> Event:
        """The event of a line; NotFoundError where there is none, ScopeError where it is hidden."""
        if line is None:
            raise NotFoundError(f"no event {shown(named)}{place}")
        if not self.shows(line.event):
            raise ScopeError(f"event {shown(named)}{place} is not for channel {self.channel}")
        return self.emit(line.event)

    def events(
        self, lines: Iterator[Line], *, kind: str | None, session: str | None, ns: str | None,
        limit: int | None,
    ) -> Iterator[Event]:  # fmt: skip
        """The visible events that match, in log order; hidden ones are passed over silently."""
        given = 0
        for line in lines:
            event = line.event
            if (
                (kind is not None and event.kind != kind)
                or (session is not None and event.session != session)
                or (ns is not None and event.ns != ns)
                or not self.shows(event)
            ):
                continue
            yield self.emit(event)
            given += 1
            if limit is not None and given >= limit:
                return

    def expand_event(
        self, event: Event, text: str, start: int, budget: int, counter: TokenCounter
    ) -> Expanded:
        """As much of the event's whole text from a character on as the budget takes."""
        text = self._redact(text)
        kept = _cut(counter, text[start:], budget)
        end = start + len(kept)
        more = f"{handle(event.seq)}?from={end}" if kept and end < len(text) else None
        here = handle(event.seq) + (f"?from={start}" if start else "")
        return Expanded(here, kept, counter.count(kept), self.emit(event), more)

    def expand_view(self, view: View, start: int, budget: int, counter: TokenCounter) -> Expanded:
        """As much of a view from a character on as the budget takes."""
        text = self._redact(view.text)
        kept = _cut(counter, text[start:], budget)
        end = start + len(kept)
        name = f"expand://{view.path}"
        more = f"{name}?from={end}" if kept and end < len(text) else None
        return Expanded(name, kept, counter.count(kept), None, more)


def _cut(counter: TokenCounter, text: str, budget: int) -> str:
    kept = cut(counter, text, budget)
    if text and not kept:
        raise BudgetError(f"{budget} tokens hold not one character of it", where="budget")
    return kept
