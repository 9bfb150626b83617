"""Plane, what a program opens. Each method says what it promises; other rooms do the work.

`plane.upkeep`: check, mend, embed, erase and export a plane, and read its policies.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any, Self, TypeAlias, Unpack

from memplane.context.calls import (
    Receipt,
    check_count,
    check_kind,
    check_named,
    check_text,
    check_texts,
)
from memplane.context.context import OfPlane, PlaneContext
from memplane.errors import InputError, NotFoundError
from memplane.event import GLOBAL, Event, EventFields
from memplane.intake import timestamp
from memplane.intake.redact import quoted_value
from memplane.lazy import late
from memplane.nofollow import counting
from memplane.observe import observed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memplane.context import (
        batches as context_batches,
        event_access as context_event_access,
        folds as context_folds,
    )
    from memplane.context.batches import BulkReceipt
    from memplane.context.event_access import KeyVersion
    from memplane.log.segments import Restart
    from memplane.log.spool import AsideNote
    from memplane.pack.block import Block
    from memplane.pack.pack import Laid
    from memplane.pack.request import PackFields
    from memplane.plane import packer, work as plane_work
    from memplane.policy import Policies, PolicyCheck, PolicyValue
    from memplane.ports import Position
    from memplane.projections.hotset import HotsetState
    from memplane.recall import suppress as recall_suppress
    from memplane.search import service as search_service
    from memplane.shared import folder as shared_folder
    from memplane.shared.device_file import SyncReport
    from memplane.upkeep import (
        export as upkeep_export,
        purge,
        restore,
        verify as upkeep_verify,
    )
    from memplane.upkeep.export import ExportReport, LedgerReport, TablesReport
    from memplane.upkeep.purge import Due, PurgeReport
    from memplane.upkeep.restore import MergeReport
    from memplane.upkeep.verify import AuditReport, PlaneReport
    from memplane.work import (
        changes as work_changes,
        episodes,
        handles,
        tasks as work_tasks,
    )
    from memplane.work.episodes import ContextAssembly
else:
    search_service = late("memplane.search.service")
    shared_folder = late("memplane.shared.folder")
    upkeep_export = late("memplane.upkeep.export")
    purge = late("memplane.upkeep.purge")
    restore = late("memplane.upkeep.restore")
    upkeep_verify = late("memplane.upkeep.verify")
    work_tasks = late("memplane.work.tasks")
    context_batches = late("memplane.context.batches")
    context_event_access = late("memplane.context.event_access")
    context_folds = late("memplane.context.folds")
    recall_suppress = late("memplane.recall.suppress")
    packer = late("memplane.plane.packer")
    plane_work = late("memplane.plane.work")
    work_changes = late("memplane.work.changes")
    handles = late("memplane.work.handles")
    episodes = late("memplane.work.episodes")


class PlaneUpkeep(OfPlane):
    """What keeps a plane in order; had as `plane.upkeep`."""

    def __init__(self, context: PlaneContext) -> None:
        self._context = context

    @property
    def waiting(self) -> int:
        """How many calls of `spool` wait for a writer to take them in."""
        return len(self._context.log.waiting.names())

    @property
    def set_aside(self) -> tuple[AsideNote, ...]:
        """What lay in the spool and could not be taken in; it is in log/quarantine now."""
        return tuple(self._context.log.waiting.notes)

    @property
    def damage(self) -> str:
        """Why the log takes no event: its newest segment lost its first line; "" if it did not."""
        with counting(self._context.opening):
            refusal = self._context.log.headless()
        return "" if refusal is None else str(refusal)

    @property
    def restarts(self) -> tuple[Restart, ...]:
        """The repairs after which the log, or its newest segment, was started again."""
        return tuple(self._context.log.restarts())

    def index(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Bring the search index up to the log; return the last seq that it has looked at.

        The first search or deep pack does it too; who has just recorded much may do it before.
        """
        with self._context.lock:
            indexed = search_service.index_service(self._context).index(
                self._context.watched.policies(), progress
            )
            if self._context.keeps:
                indexed.save()
            return indexed.seq

    def embed(
        self, limit: int | None = None, progress: Callable[[int, int], None] | None = None
    ) -> int:
        """Make the vectors that are missing, at most `limit`, in log order; return how many.

        Only here, never while something is recorded or packed. What is done is kept, however it
        ends; searches and packs use what there is. Raises InputError where no embedder is named,
        MissingExtraError where it is not installed, ProviderError where it fails, LockError while
        another process embeds.
        """
        return search_service.embed(self._context, limit, progress)

    def hotset(self) -> HotsetState:
        """The hotset as of now, whoever may see what. Read only."""
        with self._context.lock:
            return self._context.caught_up().hotset.state.seen()

    @property
    def policies(self) -> Policies:
        """The policies as they are now; raises PolicyError."""
        return self._context.watched.policies()

    def policy_values(self) -> list[PolicyValue]:
        """Every value in force, with where it comes from; raises PolicyError."""
        return self._context.watched.rows()

    def check_policies(self) -> PolicyCheck:
        """Every mistake in the policies, and what is likely not meant; raises nothing."""
        return self._context.watched.checked()

    def held_files(self) -> list[str]:
        """The policies and views that count as they were trusted, not as they are; sorted.

        Only of a plane that was found by looking upward; `memplane policy accept` takes them.
        """
        return self._context.held_files()

    def audit(
        self, *, limit: int | None = None, progress: Callable[[int, int], None] | None = None
    ) -> AuditReport:
        """What today's rules find in all that is stored, and what a purge would take; no secret.

        At most `limit` findings (1,000).
        """
        most = upkeep_verify.FINDINGS_MAX if limit is None else limit
        return upkeep_verify.audit(self._context, limit=most, progress=progress)

    def purge(
        self,
        *ids: int | str,
        key: str | None = None,
        session: str | None = None,
        source: str | None = None,
        archived: Sequence[str] = (),
        ns: str | None = None,
        tag: str | Iterable[str] | None = None,
        older_than: str | timedelta | None = None,
        kind: str | Iterable[str] | None = None,
        decisions: bool = False,
        reason: str = "",
        cascade: bool = False,
        summaries: bool = False,
        dry_run: bool = False,
        now: str | datetime | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> PurgeReport:
        """Erase events for good: from the log, projections, index, bodies and reports.

        Named by ids or seqs, or a key (all its values), a session, a source (the beginning of
        ids), or why they are archived (forgotten, superseded, evicted; `forgotten:TEXT` for what
        was forgotten with this reason). Or described, beside `archived` or alone, as
        `forget_many` does: by tag, age, kind and namespace, where decisions, rules, constraints
        and what is pinned stay unless `decisions` or their kind is given. The report lists what
        still quotes them; with `cascade` that goes too. Summaries that memplane made of sessions,
        and that rest on them, go with `summaries` or `cascade`; without either they are named in an
        InputError, and nothing is purged. A dry run changes nothing. Raises
        InputError, NotFoundError, HomeError where the plane is read-only, WriteError, LockError.
        """
        named = {"ids": ids, "key": key, "session": session, "source": source, "archived": archived}
        pick = work_changes.Pick.of(
            self._context.clock() if now is None else timestamp(now, where="now"),
            tag=tag,
            older_than=older_than,
            kind=kind,
            ns=None if key else ns,
            decisions=decisions,
        )
        return purge.purge_plane(
            self._context,
            named,
            self._context.key_space(key, ns or GLOBAL),
            pick,
            reason,
            cascade=cascade,
            summaries=summaries,
            dry_run=dry_run,
            progress=progress,
        )

    def due(self, *, now: str | datetime | None = None) -> Due:
        """What `keep` of plane.yaml lets go of by now: tool results of old sessions.

        Nothing is over where the policy keeps all, which is the default. Reads the log.
        """
        with self._context.lock:
            moment = self._context.clock() if now is None else timestamp(now, where="now")
            return purge.due_of(self._context, moment)

    def purge_due(
        self,
        *,
        dry_run: bool = False,
        now: str | datetime | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> PurgeReport | None:
        """Erase what `due` names, as `purge` does; None where nothing is over."""
        due = self.due(now=now)
        if not due.seqs:
            return None
        reason = f"keep of plane.yaml: {due}"
        return self.purge(*due.seqs, reason=reason, dry_run=dry_run, progress=progress)

    def rebuild(
        self, *, progress: Callable[[int, int], None] | None = None, processes: int = 1
    ) -> int:
        """Throw the projections away and fold the log again; returns the events folded.

        So too the index, if there is one: by a process beside this one where `processes` allows it
        and that is much. `progress` is told done and total, of both. Raises LockError where another
        process has them, WriteError where they cannot be kept.
        """
        with self._context.lock:
            return upkeep_verify.rebuild_caches(self._context, progress, processes)

    def verify(
        self,
        progress: Callable[[int, int], None] | None = None,
        *,
        processes: int = 1,
        deep: bool = False,
    ) -> PlaneReport:
        """Check every byte of the log, its bodies, and what was made from it; writes nothing.

        `progress` is told done and total, of all parts; `processes` work beside each other.
        Projections and index are believed by the sums that they state; `deep`: they are made again
        and compared, and so is the parsed form of the policies. Never raises for what is damaged.
        """
        context = self._context
        context.need_files("to verify it")
        report = upkeep_verify.of_log(context, progress, processes, deep=deep)
        with context.lock:
            return upkeep_verify.verify_caches(context, report, progress, processes, deep=deep)

    def differing(self) -> list[str]:
        """Files that say something else than the log; reads, never writes.

        By their names below `projections/`; `index/manifest.json` stands for the index. What
        memplane would not believe anyway (torn, stale, of another version) is none of them: it is
        made again when it is needed. Raises PolicyError.
        """
        with self._context.lock:
            policies = self._context.watched.policies()
            found = upkeep_verify.differing_caches(self._context, policies)
            index = (
                ["index/manifest.json"]
                if search_service.index_service(self._context).differs(policies)
                else []
            )
            return [*found, *index]

    def export(
        self,
        to: str | os.PathLike[str] | IO[bytes],
        *,
        replace: bool = False,
        ns: str | Iterable[str] | None = None,
        kind: str | Iterable[str] | None = None,
        session: str | Iterable[str] | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        redact: bool = False,
        secret: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> ExportReport:
        """Write all of the plane, as of one head, to a file or an open one, for `memplane.restore`.

        The whole of it is a backup: the log byte by byte, with what is secret, and the texts and
        files beside it; no policies and views. With a filter, or `redact`, it is a part: events as
        the owner sees them, redacted under today's policies; no files, nothing forgotten, and what
        is `secret` only if asked for. Writers go on meanwhile. Raises InputError for a file that
        is there (unless `replace`), WriteError, PlaneError where purges do not let it end.
        """
        asked = upkeep_export.ExportFilter.of(
            ns=ns,
            kind=kind,
            session=session,
            since=since,
            until=until,
            redact=redact,
            secret=secret,
        )
        return upkeep_export.export_plane(
            self._context, to, asked, replace=replace, progress=progress
        )

    def export_tables(
        self,
        to: str | os.PathLike[str],
        *,
        replace: bool = False,
        ns: str | Iterable[str] | None = None,
        kind: str | Iterable[str] | None = None,
        session: str | Iterable[str] | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        secret: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> TablesReport:
        """Write events, tasks, atoms, artifacts and task digests to a SQLite file, to be read.

        Events as a part of `export` has them: redacted under today's policies, nothing forgotten,
        what is `secret` only if asked for. An atom is a typed event in force; tasks are those that
        the owner sees, whatever the filter. Raises InputError for a file that is there (unless
        `replace`), WriteError.
        """
        asked = upkeep_export.ExportFilter.of(
            ns=ns, kind=kind, session=session, since=since, until=until, redact=True, secret=secret
        )
        tasks = work_tasks.PlaneTasks(self._context.write, self._context).list(all=True)
        return upkeep_export.export_tables(
            self._context, tasks, to, asked, replace=replace, progress=progress
        )

    def export_ledger(
        self,
        to: str | os.PathLike[str],
        *,
        ns: str | Iterable[str] | None = None,
        kind: str | Iterable[str] | None = None,
        session: str | Iterable[str] | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> LedgerReport:
        """Write the memories that hold to a ledger of GitHub Agentic Workflows, type `map`.

        `to` is a checkout of the ledger's branch, or an empty folder. Memories leave as channel
        public sees them, redacted; preferences and rules stay, as does what is of another person or
        from a ledger. A second export writes what has changed; without a filter it also deletes
        what no longer holds. Raises InputError for a ledger with faults, WriteError.
        """
        asked = upkeep_export.ExportFilter.of(
            ns=ns, kind=kind, session=session, since=since, until=until, redact=True, secret=False
        )
        return upkeep_export.export_to_ledger(self._context, to, asked, progress=progress)

    def sync(
        self,
        folder: str | os.PathLike[str],
        *,
        projects: Sequence[str] = (),
        preferences: bool | None = None,
        accept: str | None = None,
        mine: bool = False,
        refuse: str | None = None,
        name: str | None = None,
        git: bool = False,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> SyncReport:
        """Share events with the planes that use a folder, each by a file of its own.

        Takes in what accepted devices have written, and writes what is new here. `projects` (names
        or namespaces, `*` for all) and `preferences` say what is shared, and are kept for later
        syncs. `accept` is a device whose events count from now on: another person's, unless it is
        `mine`; `name` is its name here, without `accept` that of this device. `refuse` takes that
        back. With `git` the folder is a clone: pull before, commit and push behind. A refused file
        is named in the report, and of it nothing is taken. See `memplane.shared.folder`. Raises
        InputError, NotFoundError, HomeError, WriteError, LockError, CloneError.
        """
        asked = shared_folder.SyncRequest(
            tuple(projects), preferences, accept, mine, refuse, name, dry_run, git
        )
        return shared_folder.sync_folder_files(self._context, folder, asked, progress=progress)

    def merge(
        self, export: IO[bytes], name: str, progress: Callable[[int, int], None] | None = None
    ) -> MergeReport:
        """Record the events of an export (`name` stands in errors) with ids and origin, once.

        `memplane.restore` does it, and more: it checks the whole file before anything is recorded.
        """
        return restore.merge_export(self._context, export, name, progress)


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
            self.durability if len(new) == len(fresh) else "outbox",
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
        (no vectors of later events), index_seq (of later events what the hotset holds alone),
        engine (that plane.yaml must name), cited (entries name seqs, statements their day), now.
        Equal inputs give equal bytes. `progress` is told of a long build of the index, `watch` is
        shown how the block was laid out. Where more events than `index_behind_max` are not indexed
        yet, a pack that searches the log finds of them what the hotset holds, unless it is to
        `wait`. What a block was made without, the report says (`degraded`). Raises BudgetError,
        InputError, PolicyError, MissingExtraError; never for size.
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
    ) -> search_service.SearchHits:
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
        return search_service.search_plane(
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
        asked = episodes.RecallQuery(
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
        return episodes.recall_plane(self.context, asked)

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
        return work_changes.forget(self.context, named, ns, reason, undo=False)

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
        return work_changes.forget(self.context, named, ns, reason, undo=True)

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
    def upkeep(self) -> PlaneUpkeep:
        """Check, mend, embed, erase and export the plane; read its policies."""
        return PlaneUpkeep(self.context)

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
