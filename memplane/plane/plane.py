"""Plane, what a program opens. Each method says what it promises; other rooms do the work."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeAlias, Unpack

from memplane.context.calls import (
    Receipt,
    check_count,
    check_kind,
    check_named,
    check_text,
    check_texts,
)
from memplane.context.context import PlaneContext
from memplane.errors import InputError, NotFoundError
from memplane.event import GLOBAL, Event, EventFields
from memplane.intake import timestamp
from memplane.intake.redact import quoted_value
from memplane.lazy import late
from memplane.observe import observed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memplane.artifacts import service
    from memplane.context import (
        batches as context_batches,
        event_access as context_event_access,
        folds as context_folds,
        materials,
    )
    from memplane.context.batches import BulkReceipt
    from memplane.context.event_access import KeyVersion
    from memplane.pack.block import Block
    from memplane.pack.pack import Laid
    from memplane.pack.request import PackFields
    from memplane.plane import packer, upkeep as plane_upkeep, work as plane_work
    from memplane.ports import Position
    from memplane.recall import suppress as recall_suppress
    from memplane.search import search, service as search_service
    from memplane.upkeep import (
        export as upkeep_export,
        purge,
        restore,
        verify,
        verify as upkeep_audit,
    )
    from memplane.work import (
        changes as work_changes,
        episodes,
        forget as work_forget,
        handles,
        projects,
        recalling,
        sessions,
        tasks,
    )
    from memplane.work.episodes import ContextAssembly
else:
    context_batches = late("memplane.context.batches")
    context_event_access = late("memplane.context.event_access")
    context_folds = late("memplane.context.folds")
    recall_suppress = late("memplane.recall.suppress")
    service = late("memplane.artifacts.service")
    materials = late("memplane.context.materials")
    packer = late("memplane.plane.packer")
    plane_upkeep = late("memplane.plane.upkeep")
    plane_work = late("memplane.plane.work")
    search = late("memplane.search.search")
    search_service = late("memplane.search.service")
    upkeep_audit = late("memplane.upkeep.verify")
    upkeep_export = late("memplane.upkeep.export")
    purge = late("memplane.upkeep.purge")
    restore = late("memplane.upkeep.restore")
    verify = late("memplane.upkeep.verify")
    work_changes = late("memplane.work.changes")
    handles = late("memplane.work.handles")
    work_forget = late("memplane.work.forget")
    episodes = late("memplane.work.episodes")
    recalling = late("memplane.work.recalling")
    sessions = late("memplane.work.sessions")
    projects = late("memplane.work.projects")
    tasks = late("memplane.work.tasks")

_OneOrMore: TypeAlias = str | Iterable[str] | None
_Time: TypeAlias = str | datetime | None


# Which face has a name that stood on `Plane` itself in version 0.1.
_MOVED = {
    **dict.fromkeys(
        (
            "waiting",
            "set_aside",
            "damage",
            "restarts",
            "index",
            "embed",
            "hotset",
            "policies",
            "policy_values",
            "check_policies",
            "held_files",
            "audit",
            "purge",
            "due",
            "purge_due",
            "rebuild",
            "verify",
            "differing",
            "export",
            "merge",
        ),
        "upkeep",
    ),
    **dict.fromkeys(
        (
            "spool",
            "recalled",
            "archived",
            "standing",
            "decisions",
            "files",
            "update",
            "name_decision",
            "undo",
            "forget_many",
            "evict",
            "tasks",
            "projects",
            "sessions",
            "artifacts",
        ),
        "work",
    ),
}


class Keys(list[str]):
    """Keys in byte order; `more` says whether others follow behind the limit."""

    more: bool = False


class Plane:
    """A memory plane: record what happened, pack what an agent needs.

    Threads may share one. Any number of processes may have the same plane open. Use it as a
    context manager or call `close()`; what was acknowledged is safe either way.
    """

    def __init__(self, context: PlaneContext) -> None:
        self.context, self._log = context, context.log
        self.home, self.id = context.home.path, context.home.plane_id
        self.durability, self.read_only = context.durability, context.read_only
        self.agent = context.agent

    @cached_property
    def _packer(self) -> packer.Packer:
        return packer.Packer(self.context)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Write checkpoints where that is worth it and let go of the files."""
        with self.context.lock:
            self.context.close()

    def __repr__(self) -> str:
        """Where it is, how far its log goes, and what may be done with it."""
        if self.context.closed:
            return f"<Plane {str(self.home)!r}, closed>"
        read = ", read only" if self.read_only else ""
        agent = f", for {self.agent}" if self.agent is not None else ""
        return f"<Plane {str(self.home)!r} up to seq {self.head().seq}{read}{agent}>"

    # --- recording ---

    @observed("record", lambda stored: {"seq": stored.seq, "count": 1})
    def record(self, text: str = "", **fields: Unpack[EventFields]) -> Receipt:
        """Store one event and acknowledge it.

        `fields` are those of the event: kind, key, session, task, role, tags, ts and so on. Raises
        InputError (nothing stored), ConflictError (the id is taken by another event), WriteError,
        LockError and CorruptError.
        """
        context = self.context
        appended = context.append([context.drafting()({"text": text, **fields}, "")])[0]
        return Receipt(appended, self.durability, self._log.line)

    @observed("record", lambda stored: {"seq": stored.last_seq, "count": stored.count})
    def record_many(
        self, rows: Iterable[Mapping[str, Any]], batch: int = 256, *, strict: bool = True
    ) -> BulkReceipt:
        """Store many events: all are checked first, then one write and one sync a batch.

        With `strict=False`, rows that cannot be taken (invalid, or their id is another event's)
        are listed in `refused` and the others are stored; rows may then be any iterator.
        """
        if batch < 1:
            raise InputError(f"expected 1 or more, found {batch}", where="batch")
        done, refused = self.context.recorder.many(
            rows, batch, self.context.drafting(), strict=strict
        )
        fresh = [appended.seq for appended in done if not appended.duplicate]
        new = [seq for seq in fresh if seq]  # the others wait for the shared log
        return context_batches.BulkReceipt(
            len(fresh),
            len(done) - len(fresh),
            new[0] if new else None,
            new[-1] if new else None,
            self.durability,
            tuple(refused),
        )

    def flush(self) -> None:
        """Make everything recorded here survive a power cut, whatever the durability."""
        self.context.check_open()
        self._log.flush()

    # --- reading ---

    @observed("get", lambda found: {"seq": found.seq, "count": 1})
    def event(
        self,
        id: str | int,  # noqa: A002
        *,
        channel: str = "private",
        agent: str | None = None,
    ) -> Event:
        """One event by id or seq, whatever became of it.

        Raises NotFoundError: for one that the channel and agent may not see, as for none. That an
        event was purged is for the owner.
        """
        reader = self.context.reader(channel, agent=self.context.agent_of(agent))
        check_named(id, "id")
        line = self._log.line(id) if isinstance(id, int) else self._log.find(id)
        if (
            line is not None
            and self.context.as_of is not None
            and line.event.seq > self.context.as_of
        ):
            line = None
        if line is None:
            self.context.look_in_vain()
        if line is None and reader.is_owner and (gone := self._log.purged_as(id)) is not None:
            raise NotFoundError(f"event {quoted_value(id)} was purged by event {gone.by}")
        return reader.one(line, id)

    def text(self, event: Event) -> str:
        """The whole text of an event, also where the line holds only its beginning.

        What was said of an artifact, where that is approved; its file is opened by its handle.
        """
        if event.kind == "artifact":
            return self.context.reader("private").emit(event).text
        return self.context.redact(self.context.watched.policies_or_last())(self._log.text(event))

    def events(
        self,
        *,
        kind: str | None = None,
        session: str | None = None,
        ns: str | None = None,
        after: int = 0,
        limit: int | None = None,
        channel: str = "private",
        agent: str | None = None,
    ) -> Iterator[Event]:
        """The events that match, in log order, behind the seq `after`.

        What is in an agent's namespace stands there for that agent, and for the owner who names
        it. Raises ScopeError for a namespace that the caller may not read.
        """
        check_texts(session=session)
        check_count(after, "after")
        if limit is not None:
            check_count(limit, "limit", 1)
        if kind is not None:
            check_kind(kind)
        reader = self.context.reader(channel, agent=self.context.agent_of(agent), ns=ns)
        lines = self._log.read(after, self.context.as_of)
        return reader.events(lines, kind=kind, session=session, ns=ns, limit=limit)

    @observed("get", lambda found: {"count": int(found is not None)})
    def get(
        self,
        key: str,
        ns: str = GLOBAL,
        *,
        channel: str = "private",
        now: _Time = None,
        agent: str | None = None,
    ) -> Event | None:
        """The value that a key has; None where it has none, was archived or is out of time.

        At the clock's time, or at `now`. None too for a value that the channel and agent may not
        see. Raises ScopeError for a namespace that is not for them. In a project of the user's own
        plane its value comes before that of `/global`.
        """
        check_text(key, "key")
        ns = self.context.key_space(key, ns)
        reader = self.context.reader(channel, now, agent=self.context.agent_of(agent), ns=ns)
        with self.context.lock:
            memories = self.context.caught_up(reader.policies).memories
            row = self.context.recent.current(memories, ns, key, self.context.as_of)
            # The row decides, so that a hidden value takes no look at the log, as none does.
            if row is None or not reader.shows_row(row) or not reader.in_time(row):
                return None
            line = self.context.recent.line(row)
        return None if line is None else reader.emit(line.event)

    @observed("get", lambda found: {"count": len(found)})
    def keys(
        self,
        prefix: str = "",
        ns: str | None = GLOBAL,
        *,
        channel: str = "private",
        limit: int = 1000,
        now: _Time = None,
        agent: str | None = None,
    ) -> Keys:
        """The keys with a value, in byte order, at most `limit`; `ns` None: of all namespaces.

        `more` of the answer says whether there are others. At the clock's time, or at `now`.
        Raises ScopeError for a namespace that the caller may not read; all
        namespaces, and a pattern (`/spec/*`), stand for those that it may read. In a project of
        the user's own plane those of the project and of `/global` are one list.
        """
        project = self.context.home.project
        if ns == GLOBAL and project is not None:
            check_count(limit, "limit", 1)
            both = Keys()
            for one in (GLOBAL, project):
                found = self._keys(prefix, one, channel, limit, now, agent)
                both += found
                both.more = both.more or found.more
            both[:] = sorted(set(both), key=str.encode)
            both.more = both.more or len(both) > limit
            del both[limit:]
            return both
        return self._keys(prefix, ns, channel, limit, now, agent)

    def _keys(
        self,
        prefix: str,
        ns: str | None,
        channel: str,
        limit: int,
        now: _Time,
        agent: str | None,
    ) -> Keys:
        reader = self.context.reader(channel, now, agent=self.context.agent_of(agent), ns=ns)
        check_text(prefix, "prefix")
        check_count(limit, "limit", 1)
        found, most = Keys(), min(limit + 1, sys.maxsize)
        after: tuple[str, str] | None = None
        one = None if ns is None or recall_suppress.is_pattern(ns) else ns
        with self.context.lock:
            memories = self.context.caught_up(reader.policies).memories
            while (left := most - len(found)) > 0:
                rows = memories.keys(prefix, one, limit=left, after=after, upto=self.context.as_of)
                seen = (row for row in rows if reader.shows_row(row) and reader.in_time(row))
                found += (
                    row.key for row in seen if ns is None or recall_suppress.within(row.ns, (ns,))
                )
                if len(rows) < left:
                    break
                after = rows[-1].ns, rows[-1].key
        found.more = len(found) > limit
        del found[limit:]
        return found

    @observed("get", lambda found: {"count": len(found)})
    def history(
        self,
        key: str,
        ns: str = GLOBAL,
        *,
        channel: str = "private",
        now: _Time = None,
        agent: str | None = None,
    ) -> list[KeyVersion]:
        """Every value that a key had, oldest first, each with what became of it.

        Values that the channel and agent may not see are left out, and not named as what superseded
        another. Raises ScopeError for a namespace that is not for them.
        """
        check_text(key, "key")
        ns = self.context.key_space(key, ns)
        reader = self.context.reader(channel, now, agent=self.context.agent_of(agent), ns=ns)
        with self.context.lock:
            memories = self.context.caught_up(reader.policies).memories
            rows = reader.rows(memories.history(ns, key, upto=self.context.as_of), memories)
            lines = [self.context.recent.line(row) for row, _ in rows]
        return [
            context_event_access.KeyVersion(
                reader.emit(line.event), row.reason or reader.out_of_time(row), row.by_seq, before
            )
            for (row, before), line in zip(rows, lines, strict=True)
            if line is not None
        ]

    @observed("expand", lambda found: {"tokens": found.tokens})
    def expand(
        self,
        handle: str,
        budget: int = 2000,
        *,
        channel: str = "private",
        now: _Time = None,
        agent: str | None = None,
    ) -> handles.Expanded:
        """Open a handle, as far as the budget (tokens) goes; `next` says where it goes on.

        `event/<seq or id>` and `views/<name>` are shown whole. `task/<id>?depth=n` and
        `session/<id>?depth=n` are told in a sentence (0), a paragraph (1), with their decisions and
        facts (2) or with all their events (3): each begins with the one before.
        `memory/<ns>/<key>` is the value that a key has, with `?depth=1` its history too.

        What who asks may not see is left out and counted. Raises InputError for what is no handle,
        NotFoundError where nothing is there that the channel and agent may see, ScopeError for a
        namespace that is not for them and an artifact that nobody approved, BudgetError.
        """
        return handles.expand_handle(
            self.context,
            handle,
            budget,
            channel=channel,
            agent=self.context.agent_of(agent),
            now=now,
        )

    # --- packing and searching ---

    def pack(
        self,
        query: str = "",
        *,
        save_report: bool = False,
        progress: Callable[[int, int], None] | None = None,
        watch: Callable[[Laid], None] | None = None,
        wait: bool = False,
        **asked: Unpack[PackFields],
    ) -> Block:
        """Pack a block for the query within its budget.

        `asked`: budget (tokens), channel, intent (auto fast deep orient), session, task, ns, agent,
        sections, expand (handles), exclude (ids), held_seq (the caller holds what the session said
        behind it), query_event, since, until, tag and without_tag (events with one of these, and
        with none of those), importance_min (0 to 1000 or 0.0 to 1.0, as recorded), as_of, dense_seq
        (no vectors of later events), index_seq (of later events what the hotset holds alone), cited
        (entries name seqs, statements their day), now. Equal inputs give equal bytes. `progress` is
        told of a long build of the index, `watch` is shown how the block was laid out. Where more
        events than `index_behind_max` are not indexed yet, a pack that searches the log finds of
        them what the hotset holds, unless it is to `wait`. What a block was made without, the
        report says (`degraded`). Raises BudgetError, InputError, PolicyError; never for size.
        """
        return self._packer.pack(
            query, save_report=save_report, progress=progress, watch=watch, wait=wait, **asked
        )

    @observed("search", lambda found: {"count": len(found)})
    def search(
        self,
        query: str,
        k: int = 10,
        *,
        channel: str = "private",
        ns: _OneOrMore = None,
        kind: _OneOrMore = None,
        session: _OneOrMore = None,
        file: _OneOrMore = None,
        tag: _OneOrMore = None,
        without_tag: _OneOrMore = None,
        importance_min: float | None = None,
        since: _Time = None,
        until: _Time = None,
        task: str | None = None,
        agent: str | None = None,
        now: _Time = None,
        as_of: int | _Time = None,
        dense_seq: int | None = None,
        index_seq: int | None = None,
        similar: bool = False,
        wait: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> search.SearchHits:
        """At most `k` events that answer a query, the best first; none where nothing matches.

        What is out of force is no hit, nor what a pack with the same `task`, `agent` and times
        would not see. `ns`, `kind`, `session`, `file`, `tag` and `without_tag` take one or several;
        `file` is the path that an event names (`data.path`) or its end, name by name: `pay.py`
        stands for `src/pay.py`. `importance_min` is 0 to 1000 or 0.0 to 1.0, as recorded. Of events
        behind `dense_seq` no vectors take part. With `similar` vectors alone decide: those of the
        plane's embedder, as far as `embed` has come, else of the static table, made and kept here;
        a score is then the cosine in thousandths. `progress` is told of a long build of the index.
        Where more events than `index_behind_max` are not indexed yet, those that the hotset holds
        are found by their words, unless the search is to `wait`; behind `index_seq` always. What it
        went without is `degraded`. Raises InputError naming the argument, PolicyError, ScopeError
        for a namespace that the caller may not read; `/spec/*` stands for those that it may read.
        """
        asked: dict[str, Any] = {
            "channel": channel,
            "ns": ns,
            "kind": kind,
            "session": session,
            "file": file,
            "tag": tag,
            "without_tag": without_tag,
            "importance_min": importance_min,
            "since": since,
            "until": until,
            "task": task,
            "agent": agent,
            "now": now,
            "as_of": as_of,
            "dense_seq": dense_seq,
            "index_seq": index_seq,
        }
        return search.search_plane(
            self.context, query, k, asked, similar=similar, wait=wait, progress=progress
        )

    def recall(
        self,
        query: str,
        *,
        session: str,
        budget: int = 4000,
        profile: str = "acms-v2",
        min_relevance: float = 0.0,
        include_current_episode: bool = True,
        scope: str = "plane",
        channel: str = "private",
        agent: str | None = None,
        now: _Time = None,
    ) -> ContextAssembly:
        """What a session is given for a query: turns and facts within a budget of tokens, in order.

        `acms-v2`: the turns of the current episode first (at most 40 % of the budget), then marked
        turns of earlier episodes, then facts and what is found; `acms-v1`: all by relevance,
        recency and coherence. Weights are in `profiles` of scoring.yaml, the ends of episodes in
        `episodes` of plane.yaml. `min_relevance` (0 to 1) is asked of all but the current episode.
        `scope`: `session` for what this session said alone, or `plane`. What did not fit is among
        the omissions, with its reason. Equal inputs give equal items; writes nothing. Raises
        BudgetError for a budget below 1, InputError, PolicyError.
        """
        asked = recalling.RecallQuery(
            query,
            session,
            budget,
            profile,
            min_relevance,
            include_current_episode,
            scope,
            channel,
            agent,
            now,
        )
        return recalling.recall_plane(self.context, asked)

    # --- changing what counts ---

    def forget(
        self,
        key: str | None = None,
        *,
        ns: str = GLOBAL,
        id: str | None = None,  # noqa: A002
        session: str | None = None,
        source: str | None = None,
        reason: str = "",
    ) -> Receipt:
        """Archive: what is named is in no block, search or listing; the log keeps it.

        Exactly one of key (with ns), id, session and source (an importer's prefix of ids). Raises
        NotFoundError where that names nothing.
        """
        named = {"key": key, "id": id, "session": session, "source": source}
        ns = self.context.key_space(key, ns)
        return work_forget.forget(self.context, named, ns, reason, undo=False)

    def unforget(
        self,
        key: str | None = None,
        *,
        ns: str = GLOBAL,
        id: str | None = None,  # noqa: A002
        session: str | None = None,
        source: str | None = None,
        reason: str = "",
    ) -> Receipt:
        """Take back the forgetting of what is named, as `forget` names it."""
        named = {"key": key, "id": id, "session": session, "source": source}
        ns = self.context.key_space(key, ns)
        return work_forget.forget(self.context, named, ns, reason, undo=True)

    def pin(
        self,
        id: str | int | None = None,  # noqa: A002
        *,
        key: str | None = None,
        ns: str = GLOBAL,
    ) -> Receipt:
        """Put a statement before others in the head of blocks, from the next session on.

        Exactly one of id (or seq) and key (with ns), which names the value that it has now.
        """
        self.context.take_in_waiting()
        return self.context.write(work_changes.pin_row(self, id, key, ns, undo=False))

    def unpin(
        self,
        id: str | int | None = None,  # noqa: A002
        *,
        key: str | None = None,
        ns: str = GLOBAL,
    ) -> Receipt:
        """Take a pin back; named as `pin` names it."""
        self.context.take_in_waiting()
        return self.context.write(work_changes.pin_row(self, id, key, ns, undo=True))

    def touch(
        self,
        id: str | int | None = None,  # noqa: A002
        *,
        key: str | None = None,
        ns: str = GLOBAL,
    ) -> Receipt:
        """Say that a memory still holds: its importance fades anew from now on.

        Exactly one of id (or seq) and key (with ns), which names the value that it has now.
        """
        return self.context.write(work_changes.touch_row(self, id, key, ns))

    # --- its other faces ---

    @cached_property
    def upkeep(self) -> plane_upkeep.PlaneUpkeep:
        """Check, mend, embed, erase and export the plane; read its policies."""
        return plane_upkeep.PlaneUpkeep(self.context)

    @cached_property
    def work(self) -> plane_work.PlaneWork:
        """Tasks, sessions, artifacts, files, projects; change, evict, take back statements."""
        return plane_work.PlaneWork(self.context, self.record)

    if not TYPE_CHECKING:  # so that checkers and editors know the new names alone

        def __getattr__(self, name: str) -> Any:
            """Find what a name of earlier versions is now, and warn; gone in the next version."""
            face = _MOVED.get(name)
            if face is None:
                raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
            warnings.warn(
                f"plane.{name} is now plane.{face}.{name}", DeprecationWarning, stacklevel=2
            )
            return getattr(getattr(self, face), name)

    def session(
        self,
        id: str | None = None,  # noqa: A002
        *,
        agent: str | None = None,
        goal: str = "",
    ) -> plane_work.OpenedSession:
        """A session to work in: `with plane.session(goal="mend the parser") as session: ...`.

        It starts where the block begins (without an id it gets a new one) and ends behind it, with
        its summary; where the block raises it ends too, for the reason `error` and without one.
        """
        return plane_work.OpenedSession(self, id, agent=self.context.agent_of(agent), goal=goal)

    @property
    def episodes(self) -> episodes.PlaneEpisodes:
        """The episodes of a session, by the rules of plane.yaml: list them, get one, close one."""
        return episodes.PlaneEpisodes(self.context)

    # --- where it stands ---

    def head(self) -> Position:
        """Where the log ends now."""
        return self.context.head()

    def at(self, when: int | str | datetime) -> Plane:
        """The plane as it was, read only: the log up to a seq, or to what was recorded by a time.

        Policies and views are today's; the clock stands where the last event was recorded.
        """
        seq = when if isinstance(when, int) else context_folds.seq_by(self._log, timestamp(when))
        head = self.head().seq
        if not 0 <= seq <= head:
            raise InputError(f"expected a seq from 0 to {head}, found {seq}", where="at")
        return self._as_of(seq, None)

    def under(self, files: Mapping[str, bytes], seq: int) -> Plane:
        """The plane up to a seq, read only, under these policies and views instead of today's.

        `files` has their bytes by their path under the home (`policies/budgets.yaml`,
        `views/identity.md`); a policy that is missing is memplane's default, a view is not there.
        Nothing of it is written, nor does the environment stand before any value.
        """
        return self._as_of(seq, files)

    def advance(self, seq: int) -> None:
        """Move a plane of a prefix forward: cheaper than another `at`, which folds from the start.

        Raises InputError where this is none, or stands behind `seq` already.
        """
        self.context.advance(seq)

    def _as_of(self, seq: int, files: Mapping[str, bytes] | None) -> Plane:
        line = self._log.line(seq) if seq else None
        moment = line.event.rec if line is not None else self.context.clock()
        context = self.context
        return Plane(
            PlaneContext(
                context.home,
                clock=lambda: moment,
                make_counter=context.make_counter,
                durability=self.durability,
                log=self._log,
                as_of=seq,
                detector=context.detector,
                overrides=context.watched.overrides,
                files=files,
                make_embedder=context.make_embedder,
                embedder=context.embedder,
                agent=context.agent,
            )
        )
