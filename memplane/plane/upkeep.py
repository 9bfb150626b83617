"""`plane.upkeep`: check, mend, embed, erase and export a plane, and read its policies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import IO, TYPE_CHECKING

from memplane.context.context import OfPlane, PlaneContext
from memplane.event import GLOBAL
from memplane.intake import timestamp
from memplane.lazy import late
from memplane.nofollow import counting

if TYPE_CHECKING:
    from memplane.log.recovery import Restart
    from memplane.log.spool import AsideNote
    from memplane.policy import Policies
    from memplane.policy.files import PolicyCheck, PolicyValue
    from memplane.projections.hotset import HotsetState
    from memplane.search import service as search_service
    from memplane.shared import folder as shared_folder
    from memplane.shared.folder_state import SyncReport
    from memplane.upkeep import (
        export as upkeep_export,
        purge,
        restore,
        tables as upkeep_tables,
        verify,
        verify as upkeep_audit,
    )
    from memplane.upkeep.export import ExportReport
    from memplane.upkeep.purge import Due, PurgeReport
    from memplane.upkeep.restore import MergeReport
    from memplane.upkeep.tables import TablesReport
    from memplane.upkeep.verify import AuditReport, PlaneReport
    from memplane.work import forget as work_forget, tasks as work_tasks
else:
    search_service = late("memplane.search.service")
    shared_folder = late("memplane.shared.folder")
    upkeep_audit = late("memplane.upkeep.verify")
    upkeep_export = late("memplane.upkeep.export")
    purge = late("memplane.upkeep.purge")
    restore = late("memplane.upkeep.restore")
    verify = late("memplane.upkeep.verify")
    upkeep_tables = late("memplane.upkeep.tables")
    work_forget = late("memplane.work.forget")
    work_tasks = late("memplane.work.tasks")


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
        most = upkeep_audit.FINDINGS_MAX if limit is None else limit
        return upkeep_audit.audit(self._context, limit=most, progress=progress)

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
        pick = work_forget.Pick.of(
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
            return verify.rebuild_caches(self._context, progress, processes)

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
        report = verify.of_log(context, progress, processes, deep=deep)
        with context.lock:
            return verify.verify_caches(context, report, progress, processes, deep=deep)

    def differing(self) -> list[str]:
        """Files that say something else than the log; reads, never writes.

        By their names below `projections/`; `index/manifest.json` stands for the index. What
        memplane would not believe anyway (torn, stale, of another version) is none of them: it is
        made again when it is needed. Raises PolicyError.
        """
        with self._context.lock:
            policies = self._context.watched.policies()
            found = verify.differing_caches(self._context, policies)
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
        return upkeep_tables.export_tables(
            self._context, tasks, to, asked, replace=replace, progress=progress
        )

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
