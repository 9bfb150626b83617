"""The reading half of a plane: single events, values by key, statements, files, handles."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from memplane.errors import InputError, NotFoundError
from memplane.event import GLOBAL, KINDS, Event, is_kind
from memplane.intake.redact import shown
from memplane.plane import recent
from memplane.plane.expanding import Expanded, expand
from memplane.plane.given import check_count, check_named, check_text, check_texts
from memplane.plane.reading import Standing, Version
from memplane.plane.searching import SearchHits, search
from memplane.recall.suppress import is_pattern, within

if TYPE_CHECKING:
    from memplane.log import FileLog
    from memplane.plane.engine import Engine

__all__ = ["Answers", "Keys"]

_OneOrMore: TypeAlias = str | Iterable[str] | None
_Time: TypeAlias = str | datetime | None


class Keys(list[str]):
    """Keys in byte order; `more` says whether others follow behind the limit."""

    more: bool = False


class Answers:
    """What a plane answers about what it holds, each time for one channel. Nothing is written."""

    _engine: Engine
    _log: FileLog

    def event(
        self, id: str | int, *, channel: str = "private", agent: str | None = None,  # noqa: A002
    ) -> Event:  # fmt: skip
        """One event by id or seq, whatever became of it.

        Raises NotFoundError: for one that the channel and agent may not see, as for none. That an
        event was purged is for the owner.
        """
        reader = self._engine.reader(channel, agent=agent)
        check_named(id, "id")
        line = self._log.line(id) if isinstance(id, int) else self._log.find(id)
        if (
            line is not None
            and self._engine.as_of is not None
            and line.event.seq > self._engine.as_of
        ):
            line = None
        if line is None:
            self._engine.look_in_vain()
        if line is None and reader.is_owner and (gone := self._log.purged_as(id)) is not None:
            raise NotFoundError(f"event {shown(id)} was purged by event {gone.by}")
        return reader.one(line, id)

    def archived(
        self, event: Event, *, now: _Time = None, channel: str = "private",
        agent: str | None = None,
    ) -> tuple[str, int | None] | None:  # fmt: skip
        """Why an event is out of force, and by which event (its seq); None where it is in force.

        `superseded`, `forgotten`, `evicted`; `expired` by its own `valid_until` at the clock. The
        seq is None where that event is one that the channel and agent may not see.
        """
        standing = self.standing(event, now=now, channel=channel, agent=agent)
        if standing.reason is None or standing.reason == "pending":
            return None
        return standing.reason, standing.by_seq

    def standing(
        self, event: Event, *, now: _Time = None, channel: str = "private",
        agent: str | None = None,
    ) -> Standing:  # fmt: skip
        """What became of an event, what it superseded, and what time has left of its importance.

        Other values of its key are named where the channel and agent may see them.
        """
        reader, as_of = self._engine.reader(channel, now, agent=agent), self._engine.as_of
        with self._engine.lock:
            memories = self._engine.caught_up(reader.policies).memories
            return reader.standing(event, memories, as_of)

    def text(self, event: Event) -> str:
        """The whole text of an event, also where the line holds only its beginning.

        What was said of an artifact, where that is approved; its file is opened by its handle.
        """
        if event.kind == "artifact":
            return self._engine.reader("private").emit(event).text
        return self._engine.redact(self._engine.watched.policies_or_last())(self._log.text(event))

    def recalled(self, event: Event) -> list[str | None]:
        """The quoted blocks that were moved out of an event's text, secrets masked, in order.

        For the owner: a block quotes what other events say, also those that a channel may not see.
        None stands for a block whose file is lost. Events of earlier versions kept none.
        """
        redact = self._engine.redact(self._engine.watched.policies_or_last())
        blocks = self._log.recalled(event)
        return [None if block is None else redact(block) for block in blocks]

    def events(
        self, *, kind: str | None = None, session: str | None = None, ns: str | None = None,
        after: int = 0, limit: int | None = None, channel: str = "private",
        agent: str | None = None,
    ) -> Iterator[Event]:  # fmt: skip
        """The events that match, in log order, behind the seq `after`.

        What is in an agent's namespace stands there for that agent, and for the owner who names
        it. Raises ScopeError for a namespace that is not for who asks.
        """
        check_texts(session=session)
        check_count(after, "after")
        if limit is not None:
            check_count(limit, "limit", 1)
        if kind is not None and not is_kind(kind):
            raise InputError(
                f"unknown kind {shown(kind)}; known: {', '.join(KINDS)}, custom:<name>",
                where="kind",
            )
        reader = self._engine.reader(channel, agent=agent, ns=ns)
        lines = self._log.read(after, self._engine.as_of)
        return reader.events(lines, kind=kind, session=session, ns=ns, limit=limit)

    def get(
        self, key: str, ns: str = GLOBAL, *, channel: str = "private", now: _Time = None,
        agent: str | None = None,
    ) -> Event | None:  # fmt: skip
        """The value that a key has; None where it has none, was archived or is out of time.

        At the clock's time, or at `now`. None too for a value that the channel and agent may not
        see. Raises ScopeError for a namespace that is not for them.
        """
        reader = self._engine.reader(channel, now, agent=agent, ns=ns)
        check_text(key, "key")
        with self._engine.lock:
            memories = self._engine.caught_up(reader.policies).memories
            row = self._engine.recent.current(memories, ns, key, self._engine.as_of)
            # The row decides, so that a hidden value takes no look at the log, as none does.
            if row is None or not reader.shows_row(row) or not reader.in_time(row):
                return None
            line = self._engine.recent.line(row)
        return None if line is None else reader.emit(line.event)

    def keys(
        self, prefix: str = "", ns: str | None = GLOBAL, *, channel: str = "private",
        limit: int = 1000, now: _Time = None, agent: str | None = None,
    ) -> Keys:  # fmt: skip
        """The keys with a value, in byte order, at most `limit`; `ns` None: of all namespaces.

        `more` of the answer says whether there are others. At the clock's time, or at `now`.
        Raises ScopeError for a namespace that is not for who asks; of all namespaces, and of a
        pattern (`/spec/*`), those that are.
        """
        reader = self._engine.reader(channel, now, agent=agent, ns=ns)
        check_text(prefix, "prefix")
        check_count(limit, "limit", 1)
        found, most = Keys(), min(limit + 1, sys.maxsize)
        after: tuple[str, str] | None = None
        one = None if ns is None or is_pattern(ns) else ns
        with self._engine.lock:
            memories = self._engine.caught_up(reader.policies).memories
            while (left := most - len(found)) > 0:
                rows = memories.keys(
                    prefix, one, limit=left, after=after, upto=self._engine.as_of
                )  # fmt: skip
                seen = (row for row in rows if reader.shows_row(row) and reader.in_time(row))
                found += (row.key for row in seen if ns is None or within(row.ns, (ns,)))
                if len(rows) < left:
                    break
                after = rows[-1].ns, rows[-1].key
        found.more = len(found) > limit
        del found[limit:]
        return found

    def history(
        self, key: str, ns: str = GLOBAL, *, channel: str = "private", now: _Time = None,
        agent: str | None = None,
    ) -> list[Version]:  # fmt: skip
        """Every value that a key had, oldest first, each with what became of it.

        Values that the channel and agent may not see are left out, and not named as what superseded
        another. Raises ScopeError for a namespace that is not for them.
        """
        reader = self._engine.reader(channel, now, agent=agent, ns=ns)
        check_text(key, "key")
        with self._engine.lock:
            memories = self._engine.caught_up(reader.policies).memories
            rows = reader.rows(memories.history(ns, key, upto=self._engine.as_of), memories)
            lines = [self._engine.recent.line(row) for row, _ in rows]
        return [
            Version(
                reader.emit(line.event), row.reason or reader.out_of_time(row), row.by_seq, before
            )
            for (row, before), line in zip(rows, lines, strict=True)
            if line is not None
        ]

    def decisions(
        self, *, channel: str = "private", ns: str | None = None, agent: str | None = None
    ) -> list[Event]:
        """The decisions in force that the ledger knows of, in log order: some 400 at most."""
        reader = self._engine.reader(channel, agent=agent, ns=ns)
        with self._engine.lock:
            ledger = self._engine.caught_up(reader.policies).decisions.state
            found = sorted(one.seq for one in (*ledger.active(), *ledger.left()))
            lines = [self._log.line(seq) for seq in found]
        events = [line.event for line in lines if line is not None]
        return [
            reader.emit(event)
            for event in events
            if reader.shows(event)
            and reader.in_time(event)
            and (ns is None or within(event.ns, (ns,)))
        ]

    def files(
        self, query: str = "", *, session: str | None = None, branch: str | None = None,
        limit: int = 20, channel: str = "private", ns: _OneOrMore = None,
        agent: str | None = None,
    ) -> list[recent.FileView]:  # fmt: skip
        """The files that the session works on, then those that it may need: the best first.

        Without a branch, the session's. Guessed from what was touched, never from the disk.
        Raises ScopeError for a namespace that is not for who asks.
        """
        asked: dict[str, Any] = {"channel": channel, "ns": ns, "agent": agent}
        return recent.list_files(
            self._engine, query, session=session, branch=branch, limit=limit, asked=asked
        )

    def search(
        self, query: str, k: int = 10, *, channel: str = "private", ns: _OneOrMore = None,
        kind: _OneOrMore = None, session: _OneOrMore = None, tag: _OneOrMore = None,
        without_tag: _OneOrMore = None, importance_min: float | None = None, since: _Time = None,
        until: _Time = None, task: str | None = None, agent: str | None = None, now: _Time = None,
        as_of: int | _Time = None, dense_seq: int | None = None, index_seq: int | None = None,
        similar: bool = False, wait: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> SearchHits:  # fmt: skip
        """At most `k` events that answer a query, the best first; none where nothing matches.

        What is out of force is no hit, nor what a pack with the same `task`, `agent` and times
        would not see. `ns`, `kind`, `session`, `tag` and `without_tag` take one or several;
        `importance_min` is 0 to 1000 or 0.0 to 1.0, as recorded. Of events behind `dense_seq` no
        vectors take part. With `similar` nothing but vectors decides: those of the
        plane's embedder, as far as `embed` has come, or else of the static table, made and kept
        here; a score is then the cosine in thousandths. `progress` is told of a long build of the
        index. Where more events than the policy's `index_behind_max` are not indexed yet, those of
        them that the hotset holds are found, by their words, unless the search is to `wait`; behind
        `index_seq` always. What it went without, `degraded` of the answer says. Raises InputError
        naming the argument, PolicyError, ScopeError for a namespace that is not for who asks; of a
        pattern (`/spec/*`) it searches those that are.
        """
        asked: dict[str, Any] = {
            "channel": channel, "ns": ns, "kind": kind, "session": session, "tag": tag,
            "without_tag": without_tag, "importance_min": importance_min, "since": since,
            "until": until, "task": task, "agent": agent, "now": now, "as_of": as_of,
            "dense_seq": dense_seq, "index_seq": index_seq,
        }  # fmt: skip
        return search(
            self._engine, query, k, asked, similar=similar, wait=wait, progress=progress
        )  # fmt: skip

    def expand(
        self, handle: str, budget: int = 2000, *, channel: str = "private", now: _Time = None,
        agent: str | None = None,
    ) -> Expanded:  # fmt: skip
        """Open a handle, as far as the budget (tokens) goes; `next` says where it goes on.

        `event/<seq or id>` and `views/<name>` are shown whole. `task/<id>?depth=n` and
        `session/<id>?depth=n` are told in a sentence (0), a paragraph (1), with their decisions and
        facts (2) or with all their events (3): each begins with the one before.
        `memory/<ns>/<key>` is the value that a key has, with `?depth=1` its history too.

        What who asks may not see is left out and counted. Raises InputError for what is no handle,
        NotFoundError where nothing is there that the channel and agent may see, ScopeError for a
        namespace that is not for them and an artifact that nobody approved, BudgetError.
        """
        return expand(self._engine, handle, budget, channel=channel, agent=agent, now=now)
