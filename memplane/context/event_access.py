"""Read single events within what a channel and agent may see: by id, key, handle or filter."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from memplane.errors import NotFoundError, ScopeError
from memplane.event import UPKEEP_KINDS, Event
from memplane.intake.redact import quoted_value
from memplane.lazy import NamedTuple, Protocol
from memplane.projections.in_force import Timed, VisibleFields, out_of_time
from memplane.recall.score import Remembered, importance_now, is_stale
from memplane.recall.suppress import NAMED, Scope, is_pattern, within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from memplane.intake import Redactor
    from memplane.policy import Policies
    from memplane.ports import Line
    from memplane.projections.in_force import KeyValueRow
    from memplane.projections.memories import Memories

_AGENTS: Final = "/agent/"


class KeyVersion(NamedTuple):
    """One value of a key, what became of it, and the seq of the value before it.

    `reason`: None while it is in force; `superseded`, `forgotten` or `evicted`, by the event
    `by_seq`; `expired` by its own `valid_until`, or `pending` until its `valid_from`. A value that
    the reader may not see is named neither as the one before nor as the one that superseded it.
    """

    event: Event
    reason: str | None
    by_seq: int | None
    supersedes: int | None = None


class Standing(NamedTuple):
    """The state of an event at one time: `reason`, `by_seq`, `supersedes` of a `Version`.

    `importance` is as faded since it was recorded or `touched` last; `stale`: it fades and was not
    touched for longer than the policy's days.
    """

    reason: str | None
    by_seq: int | None
    supersedes: int | None
    importance: int
    stale: bool
    pinned: bool
    touched: str | None


class Fading(Remembered, Protocol):
    """The fields of an event that decide how it fades; it may be touched or pinned."""

    @property
    def seq(self) -> int: ...
    @property
    def id(self) -> str: ...


class EventAccess:
    """Reads for one channel at one time. Built per call; holds no state of its own."""

    def __init__(
        self,
        policies: Policies,
        channel: str,
        *,
        now: str,
        as_of: int,
        agent: str | None = None,
        ns: str | None = None,
        redactor: Redactor,
        covers: Callable[[int, str, int, str], bool],
    ) -> None:
        """Read as this reader; raises ScopeError for a namespace it may not read.

        A pattern (`/agent/*`) means those that it may read, and is never refused.
        """
        self.channel, self.policies = channel, policies
        self._covers = covers
        self._scope = Scope.of(
            policies, channel, now=now, as_of=as_of, agent=agent, ns=() if ns is None else (ns,)
        )
        self._scoring = policies.scoring
        self._redactor = redactor
        if ns is not None and not is_pattern(ns) and not self._scope.reaches(ns):
            raise ScopeError(f"namespace {quoted_value(ns)} is not for {self._who()}")

    def shows(self, event: Event) -> bool:
        """Whether the event may be in a list, in force or archived."""
        # Of what is not approved `emit` shows no text.
        return self._reason(event) in NAMED

    def shows_row(self, row: KeyValueRow) -> bool:
        """The same for a row of a key's history, without reading the log."""
        seen = VisibleFields(row.seq, row.id, "", row.kind, row.ns, row.sensitivity)
        return self._scope.hides(seen) in NAMED

    def rows(
        self, rows: Sequence[KeyValueRow], memories: Memories
    ) -> list[tuple[KeyValueRow, int | None]]:
        """The values of a key that may be shown, each with the seq of the one that it replaced.

        `rows` are all of them, oldest first. The seq of a hidden neighbour is left out.
        """
        shown = {row.seq: self.shows_row(row) for row in rows}
        # What came from another plane too late took nothing's place.
        in_turn = all(older.seq < newer.seq for older, newer in pairwise(rows))
        found: list[tuple[KeyValueRow, int | None]] = []
        for at, row in enumerate(rows):
            if not shown[row.seq]:
                continue
            before = (rows[at - 1].seq if at else None) if in_turn else memories.took_place_of(row)
            if row.reason == "superseded" and not shown.get(row.by_seq or 0):
                row = row._replace(by_seq=None)  # noqa: PLW2901 - as it is shown
            found.append((row, before if before is not None and shown.get(before) else None))
        return found

    def may_write(self, ns: str) -> bool:
        """Whether the reader may write there: not into other agents' and projects' namespaces.

        Nor into one outside of the namespaces that the caller is bound to.
        """
        bounds = self.policies.bounds
        if self._scope.elsewhere(ns) or (bounds and ns not in bounds):
            return False
        own = self._scope.owner or ns == f"{_AGENTS}{self._scope.agent}"
        return own or not ns.startswith(_AGENTS)

    def may_replace(self, value: KeyValueRow | None) -> bool:
        """Whether a value of the same key may be written: the reader may see the present one.

        A value out of time may be replaced, though it cannot be read for now.
        """
        return value is None or self.shows_row(value)

    def unwritable(self, ns: str, key: str | None) -> ScopeError:
        """The error of a refused write, equal for another's namespace and a withheld value."""
        what = "a statement" if key is None else quoted_value(key)
        return ScopeError(
            f"{what} in {quoted_value(ns, 160)} is not for {self._who()} to write; choose another "
            "place"
        )

    @property
    def is_owner(self) -> bool:
        """Whether the reader is the plane's owner."""
        return self._scope.owner

    def may_read(self, event: Event) -> bool:
        """Whether an event that is named may be read: the owner may name those of any agent."""
        reason = self._reason(event)
        if reason == "ns" and self._scope.elsewhere(event.ns):
            return False  # a number names an event, and no project
        return reason in NAMED or (reason == "ns" and self._scope.owner)

    def _reason(self, event: Event) -> str | None:
        # It names keys and ids that may be hidden here, and says nothing that a model would read.
        if event.kind in UPKEEP_KINDS and not self._scope.owner:
            return "kind"
        return self._scope.hides(
            VisibleFields(event.seq, event.id, event.ts, event.kind, event.ns, event.sensitivity)
        )

    def _who(self) -> str:
        agent = self._scope.agent
        return (
            f"channel {self.channel}"
            if agent is None
            else (f"agent {quoted_value(agent)} on channel {self.channel}")
        )

    def in_time(self, event: Timed) -> bool:
        """Whether the event is valid at the reader's clock."""
        return self.out_of_time(event) is None

    def out_of_time(self, event: Timed) -> str | None:
        """`expired` or `pending` by the reader's clock, None within the event's time."""
        return out_of_time(event, self._scope.now)

    def faded(self, event: Event, touched: str | None = None) -> int:
        """The importance of the event as faded, unless it is pinned."""
        return importance_now(
            event, touched, pinned=False, now=self._scope.now, half_lives=self._scoring.half_lives
        )

    def standing(self, event: Event, memories: Memories, upto: int | None) -> Standing:
        """The state of the event at the reader's clock."""
        gone = memories.archived(event, upto=upto)
        reason, by_seq = gone or (self.out_of_time(event), None)
        before = memories.before(event)
        if event.key is not None and (reason == "superseded" or before is not None):
            rows = self.rows(memories.history(event.ns, event.key, upto=upto), memories)
            named = {row.seq: (row.by_seq, older) for row, older in rows}
            by_seen, before = named.get(event.seq, (None, None))
            by_seq = by_seen if reason == "superseded" else by_seq
        pinned = memories.pinned(event, upto=upto)
        touched = memories.touched(event, upto=upto)
        now, half_lives = self._scope.now, self._scoring.half_lives
        left = importance_now(event, touched, pinned=pinned, now=now, half_lives=half_lives)
        stale = self._stale(event, touched, pinned=pinned)
        return Standing(reason, by_seq, before, left, stale, pinned, touched)

    def fading(self, event: Event, memories: Memories, upto: int | None) -> tuple[int, bool]:
        """The faded importance of the event, and whether it is stale."""
        if self.faded(event) == event.importance and not self._stale(event, None, pinned=False):
            return event.importance, False  # nothing that a touch or a pin could undo
        if memories.pinned(event, upto=upto):
            return event.importance, False
        touched = memories.touched(event, upto=upto)
        return self.faded(event, touched), self._stale(event, touched, pinned=False)

    def stale(self, event: Fading, memories: Memories, upto: int | None) -> bool:
        """Whether the event fades and was not touched for longer than the policy's days."""
        if not self._stale(event, None, pinned=False):
            return False
        pinned = memories.pinned(event, upto=upto)
        return self._stale(event, memories.touched(event, upto=upto), pinned=pinned)

    def _stale(self, event: Remembered, touched: str | None, *, pinned: bool) -> bool:
        return is_stale(
            event,
            touched,
            pinned=pinned,
            now=self._scope.now,
            half_lives=self._scoring.half_lives,
            after_days=self._scoring.stale_after_days,
        )

    def emit(self, event: Event, *, review: bool = False) -> Event:
        """The event as it leaves the plane: redacted by today's policy.

        An artifact's has its text where it is approved, or shown to a person for `review`.
        """
        if event.kind == "artifact" and not review and not self.approved(event):
            event = event._replace(text="")
        text = self._redact(event.text)
        data, found = self._redactor.redact_data(event.data) if event.data else (event.data, {})
        tags = tuple(self._redact(tag) for tag in event.tags)
        if text == event.text and not found and tags == event.tags:
            return event
        return event._replace(text=text, data=data, tags=tags)

    def approved(self, event: Event) -> bool:
        """Whether the text of an artifact may be shown."""
        scope = self._scope
        return self._covers(event.seq, event.id, scope.as_of, scope.now)

    def _redact(self, text: str) -> str:
        return self._redactor.emitted(text)

    def one(self, line: Line | None, named: str | int) -> Event:
        """The event of a line; raises NotFoundError where the reader may not see it."""
        if line is None or not self.may_read(line.event):
            raise NotFoundError(f"no event {quoted_value(named)}")
        return self.emit(line.event)

    def events(
        self,
        lines: Iterator[Line],
        *,
        kind: str | None,
        session: str | None,
        ns: str | None,
        limit: int | None,
    ) -> Iterator[Event]:
        """The visible events that match, in log order."""
        given = 0
        for line in lines:
            event = line.event
            if (
                (kind is not None and event.kind != kind)
                or (session is not None and event.session != session)
                or (ns is not None and not within(event.ns, (ns,)))
                or not self.shows(event)
            ):
                continue
            yield self.emit(event)
            given += 1
            if limit is not None and given >= limit:
                return
