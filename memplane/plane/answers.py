"""The reading half of a plane: single events, values by key, statements, files, handles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, TypeAlias

from memplane.errors import InputError, NotFoundError
from memplane.event import GLOBAL, KINDS, Event
from memplane.intake import namespace
from memplane.intake.redact import shown
from memplane.log import FileLog
from memplane.plane import packing, recent
from memplane.plane.engine import Engine
from memplane.plane.reading import Expanded, Version, parse_handle
from memplane.plane.searching import SearchHit, search

__all__ = ["Answers"]

_OneOrMore: TypeAlias = str | Iterable[str] | None
_Time: TypeAlias = str | datetime | None


class Answers:
    """What a plane answers about what it holds, each time for one channel. Nothing is written."""

    _engine: Engine
    _log: FileLog

    def event(self, id: str | int, *, channel: str = "private") -> Event:  # noqa: A002
        """One event by id or seq. Raises NotFoundError, ScopeError."""
        reader = self._engine.reader(channel)
        line = self._log.line(id) if isinstance(id, int) else self._log.find(id)
        if (
            line is not None
            and self._engine.as_of is not None
            and line.event.seq > self._engine.as_of
        ):
            line = None
        return reader.one(line, id)

    def archived(self, event: Event) -> tuple[str, int] | None:
        """Why an event is out of force, `superseded` or `forgotten`, and the seq that did it."""
        with self._engine.lock:
            return self._engine.caught_up().memories.archived(event, upto=self._engine.as_of)

    def text(self, event: Event) -> str:
        """The whole text of an event, also where the line holds only its beginning."""
        return self._engine.redact(self._engine.watched.policies_or_last())(self._log.text(event))

    def events(
        self, *, kind: str | None = None, session: str | None = None, ns: str | None = None,
        after: int = 0, limit: int | None = None, channel: str = "private",
    ) -> Iterator[Event]:  # fmt: skip
        """The events that match, in log order, behind the seq `after`."""
        if kind is not None and kind not in KINDS:
            raise InputError(f"unknown kind {shown(kind)}; known: {', '.join(KINDS)}", where="kind")
        namespace(ns)
        reader = self._engine.reader(channel)
        lines = self._log.read(after, self._engine.as_of)
        return reader.events(lines, kind=kind, session=session, ns=ns, limit=limit)

    def get(
        self, key: str, ns: str = GLOBAL, *, channel: str = "private", now: str | None = None
    ) -> Event | None:
        """The value that a key has now; None where it has none, was forgotten or is out of time."""
        reader = self._engine.reader(channel, now)
        namespace(ns)
        with self._engine.lock:
            row = self._engine.caught_up().memories.current(ns, key, upto=self._engine.as_of)
        if row is None:
            return None
        event = reader.one(self._log.line(row.seq), key, f" in {ns}")
        return event if reader.in_time(event) else None

    def keys(
        self, prefix: str = "", ns: str | None = GLOBAL, *, channel: str = "private",
        limit: int = 1000,
    ) -> list[str]:  # fmt: skip
        """The keys with a value now, in byte order; `ns` None: of all namespaces."""
        reader = self._engine.reader(channel)
        namespace(ns)
        with self._engine.lock:
            memories = self._engine.caught_up().memories
            rows = memories.keys(prefix, ns, limit=limit, upto=self._engine.as_of)
            lines = [(row.key, self._log.line(row.seq)) for row in rows]
        return [
            key
            for key, line in lines
            if line is not None and reader.shows(line.event) and reader.in_time(line.event)
        ]

    def history(self, key: str, ns: str = GLOBAL, *, channel: str = "private") -> list[Version]:
        """Every value that a key had, oldest first, each with what became of it."""
        reader = self._engine.reader(channel)
        namespace(ns)
        with self._engine.lock:
            rows = self._engine.caught_up().memories.history(ns, key, upto=self._engine.as_of)
            lines = [(row, self._log.line(row.seq)) for row in rows]
        return [
            Version(reader.emit(line.event), row.reason, row.by_seq)
            for row, line in lines
            if line is not None and reader.shows(line.event)
        ]

    def decisions(self, *, channel: str = "private", ns: str | None = None) -> list[Event]:
        """The decisions in force that the ledger holds, in log order."""
        reader = self._engine.reader(channel)
        namespace(ns)
        with self._engine.lock:
            found = [s.seq for s in self._engine.caught_up().decisions.state.active()]
            lines = [self._log.line(seq) for seq in found]
        events = [line.event for line in lines if line is not None]
        return [
            reader.emit(event)
            for event in events
            if reader.shows(event) and reader.in_time(event) and ns in (None, event.ns)
        ]

    def files(
        self, query: str = "", *, session: str | None = None, branch: str | None = None,
        limit: int = 20, channel: str = "private",
    ) -> list[recent.FileView]:  # fmt: skip
        """The files that the session works on, then those that it may need: the best first.

        Without a branch, the session's. Guessed from what was touched, never from the disk.
        """
        return recent.list_files(
            self._engine, query, session=session, branch=branch, limit=limit, channel=channel
        )

    def search(
        self, query: str, k: int = 10, *, channel: str = "private", ns: _OneOrMore = None,
        kind: _OneOrMore = None, session: _OneOrMore = None, tag: _OneOrMore = None,
        since: _Time = None, until: _Time = None, task: str | None = None,
        agent: str | None = None, now: _Time = None, as_of: int | _Time = None,
        dense_seq: int | None = None, similar: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[SearchHit]:  # fmt: skip
        """At most `k` events that answer a query, the best first; none where nothing matches.

        What is out of force is no hit, nor what a pack with the same `task`, `agent` and times
        would not see. `ns`, `kind`, `session` and `tag` take one or several. Of events behind
        `dense_seq` no vectors take part. With `similar` nothing but vectors decides: those of the
        plane's embedder, as far as `embed` has come, or else of the static table, made and kept
        here; a score is then the cosine in thousandths. `progress` is told of a long build of the
        index. Raises InputError naming the argument, PolicyError.
        """
        asked: dict[str, Any] = {
            "channel": channel, "ns": ns, "kind": kind, "session": session, "tag": tag,
            "since": since, "until": until, "task": task, "agent": agent, "now": now,
            "as_of": as_of, "dense_seq": dense_seq,
        }  # fmt: skip
        return search(self._engine, query, k, asked, similar=similar, progress=progress)

    def expand(self, handle: str, budget: int = 2000, *, channel: str = "private") -> Expanded:
        """Open a handle: the whole of an event or view, as far as the budget (tokens) goes.

        Raises InputError for what is no handle, NotFoundError, ScopeError.
        """
        seq, path, start = parse_handle(handle)
        if budget <= 0:
            raise InputError(f"expected 1 token or more, found {budget}", where="budget")
        policies = self._engine.watched.policies()
        reader, counter = self._engine.reader(channel), self._engine.counter(policies)
        if seq is None:
            view = (
                self._engine.watched.view(path)
                if path in packing.view_paths(policies, channel)
                else None
            )
            if view is None or view.lost:
                raise NotFoundError(f"no view {path} on channel {channel}")
            return reader.expand_view(view, start, budget, counter)
        event = self.event(seq, channel=channel)
        line = self._log.line(seq)
        assert line is not None
        return reader.expand_event(event, self._log.text(line.event), start, budget, counter)
