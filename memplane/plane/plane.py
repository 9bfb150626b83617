"""Plane, what a program opens. Each method says what it promises; other rooms do the work.

Upkeep stands here; what packs stands in `packer`, what writes in `recording`, what reads single
events in `answers`.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from memplane.errors import InputError
from memplane.event import GLOBAL
from memplane.intake import timestamp
from memplane.plane.compare import differing
from memplane.plane.finding import finder_of
from memplane.plane.packer import Packer
from memplane.plane.prefixes import seq_by
from memplane.plane.recording import Recording

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime, timedelta

    from memplane.plane.artifacts import PlaneArtifacts
    from memplane.plane.audit import AuditReport
    from memplane.plane.checking import PlaneReport
    from memplane.plane.exporting import ExportReport
    from memplane.plane.keeping import Due
    from memplane.plane.merging import MergeReport
    from memplane.plane.purging import PurgeReport
    from memplane.plane.sessions import Sessions
    from memplane.policy.check import Checked
    from memplane.policy.files import Row

__all__ = ["Plane"]


class Plane(Packer, Recording):
    """A memory plane: record what happened, pack what an agent needs.

    Threads may share one. Any number of processes may have the same plane open. Use it as a
    context manager or call `close()`; what was acknowledged is safe either way.
    """

    # --- where it stands ---

    def at(self, when: int | str | datetime) -> Plane:
        """The plane as it was, read only: the log up to a seq, or to what was recorded by a time.

        Policies and views are today's; the clock stands where the last event was recorded.
        """
        seq = when if isinstance(when, int) else seq_by(self._log, timestamp(when))
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
        self._engine.advance(seq)

    def _as_of(self, seq: int, files: Mapping[str, bytes] | None) -> Plane:
        line = self._log.line(seq) if seq else None
        moment = line.event.rec if line is not None else self._engine.clock()
        return Plane(
            self._engine.home, clock=lambda: moment, make_counter=self._engine.make_counter,
            durability=self.durability, log=self._log, as_of=seq, detector=self._engine.detector,
            overrides=self._engine.watched.overrides, files=files,
            make_embedder=self._engine.make_embedder, embedder=self._engine.embedder,
        )  # fmt: skip

    # --- upkeep ---

    @property
    def sessions(self) -> Sessions:
        """The sessions: begin, mark and end them, list them, show one."""
        from memplane.plane.sessions import Sessions  # noqa: PLC0415 - a pack does without

        return Sessions(self._engine)

    @property
    def artifacts(self) -> PlaneArtifacts:
        """Files beside the log: add, list, show, export, approve and revoke them."""
        from memplane.plane.artifacts import PlaneArtifacts  # noqa: PLC0415 - a pack does without

        return PlaneArtifacts(self._engine)

    def policy_values(self) -> list[Row]:
        """Every value in force, with where it comes from; raises PolicyError."""
        return self._engine.watched.rows()

    def check_policies(self) -> Checked:
        """Every mistake in the policies, and what is likely not meant; raises nothing."""
        return self._engine.watched.checked()

    def held_files(self) -> list[str]:
        """The policies and views that count as they were trusted, not as they are; sorted.

        Only of a plane that was found by looking upward; `memplane policy accept` takes them.
        """
        with self._engine.lock:
            return self._engine.watched.held()

    def audit(
        self, *, limit: int | None = None, progress: Callable[[int, int], None] | None = None
    ) -> AuditReport:
        """What today's rules find in all that is stored, and what a purge would take; no secret.

        At most `limit` findings (1,000).
        """
        from memplane.plane.audit import FINDINGS_MAX, audit  # noqa: PLC0415 - a pack does without

        most = FINDINGS_MAX if limit is None else limit
        return audit(self._engine, limit=most, progress=progress)

    def purge(
        self, *ids: int | str, key: str | None = None, session: str | None = None,
        source: str | None = None, archived: Sequence[str] = (), ns: str | None = None,
        tag: str | Iterable[str] | None = None, older_than: str | timedelta | None = None,
        kind: str | Iterable[str] | None = None, decisions: bool = False, reason: str = "",
        cascade: bool = False, summaries: bool = False, dry_run: bool = False,
        now: str | datetime | None = None, progress: Callable[[int, int], None] | None = None,
    ) -> PurgeReport:  # fmt: skip
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
        from memplane.plane.picking import Pick  # noqa: PLC0415 - a pack does without
        from memplane.plane.purging import purge  # noqa: PLC0415 - likewise

        named = {"ids": ids, "key": key, "session": session, "source": source, "archived": archived}
        pick = Pick.of(
            self._engine.clock() if now is None else timestamp(now, where="now"), tag=tag,
            older_than=older_than, kind=kind, ns=None if key else ns, decisions=decisions,
        )  # fmt: skip
        return purge(
            self._engine, named, ns or GLOBAL, pick, reason, cascade=cascade,
            summaries=summaries, dry_run=dry_run, progress=progress,
        )  # fmt: skip

    def due(self, *, now: str | datetime | None = None) -> Due:
        """What `keep` of plane.yaml lets go of by now: tool results of old sessions.

        Nothing is over where the policy keeps all, which is the default. Reads the log.
        """
        from memplane.plane.keeping import due_of  # noqa: PLC0415 - a pack does without

        with self._engine.lock:
            moment = self._engine.clock() if now is None else timestamp(now, where="now")
            return due_of(self._engine, moment)

    def purge_due(
        self, *, dry_run: bool = False, now: str | datetime | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> PurgeReport | None:  # fmt: skip
        """Erase what `due` names, as `purge` does; None where nothing is over."""
        due = self.due(now=now)
        if not due.seqs:
            return None
        reason = f"keep of plane.yaml: {due}"
        return self.purge(*due.seqs, reason=reason, dry_run=dry_run, progress=progress)

    def index(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Bring the search index up to the log; return the last seq that it has looked at.

        The first search or deep pack does it too; who has just recorded much may do it before.
        """
        with self._engine.lock:
            indexed = finder_of(self._engine).index(self._engine.watched.policies(), progress)
            if self._engine.keeps:
                indexed.save()
            return indexed.seq

    def embed(
        self, limit: int | None = None, progress: Callable[[int, int], None] | None = None
    ) -> int:
        """Make the vectors that are missing, at most `limit`, in log order; return how many.

        Only here, never while something is recorded or packed. What is done is kept, however it
        ends; searches and packs use what there is. Raises InputError where no embedder is named,
        MissingExtraError where it is not installed, LockError while another process embeds.
        """
        from memplane.plane.embedding import embed  # noqa: PLC0415 - whoever packs alone does without

        return embed(self._engine, limit, progress)

    def rebuild(self, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Throw the projections away and fold the log again; returns the events folded.

        So too the index, if there is one; `progress` is told where that is much: done, in all.
        Raises LockError where another process has them, WriteError where they cannot be kept.
        """
        from memplane.plane.rebuilding import rebuild  # noqa: PLC0415 - a pack does without

        with self._engine.lock:
            return rebuild(self._engine, progress)

    def verify(
        self,
        progress: Callable[[int, int], None] | None = None,
        *,
        processes: int = 1,
        deep: bool = False,
    ) -> PlaneReport:
        """Check every byte of the log, its bodies, and what was made from it; writes nothing.

        `progress` is told done and total, of all parts; `processes` scan the segments. `deep`: of
        caches also the parsed policies. Never raises for what is damaged.
        """
        from memplane.plane import checking  # noqa: PLC0415 - a pack does without

        engine = self._engine
        report = checking.of_log(engine, progress, processes)
        with engine.lock:
            return checking.verify(engine, report, progress, deep=deep)

    def differing(self) -> list[str]:
        """Files that say something else than the log; reads, never writes.

        By their names below `projections/`; `index/manifest.json` stands for the index. What
        memplane would not believe anyway (torn, stale, of another version) is none of them: it is
        made again when it is needed. Raises PolicyError.
        """
        with self._engine.lock:
            policies = self._engine.watched.policies()
            found = differing(self._engine, policies)
            index = ["index/manifest.json"] if finder_of(self._engine).differs(policies) else []
            return [*found, *index]

    def export(
        self, to: str | os.PathLike[str] | IO[bytes], *, replace: bool = False,
        ns: str | Iterable[str] | None = None, kind: str | Iterable[str] | None = None,
        session: str | Iterable[str] | None = None, since: str | datetime | None = None,
        until: str | datetime | None = None, redact: bool = False, secret: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> ExportReport:  # fmt: skip
        """Write all of the plane, as of one head, to a file or an open one, for `memplane.restore`.

        The whole of it is a backup: the log byte by byte, with what is secret, and the texts and
        files beside it; no policies and views. With a filter, or `redact`, it is a part: events as
        the owner sees them, redacted under today's policies; no files, nothing forgotten, and what
        is `secret` only if asked for. Writers go on meanwhile. Raises InputError for a file that
        is there (unless `replace`), WriteError, PlaneError where purges do not let it end.
        """
        from memplane.plane.choosing import Asked  # noqa: PLC0415 - a pack does without
        from memplane.plane.exporting import export_plane  # noqa: PLC0415 - likewise

        asked = Asked.of(
            ns=ns, kind=kind, session=session, since=since, until=until, redact=redact,
            secret=secret,
        )  # fmt: skip
        return export_plane(self._engine, to, asked, replace=replace, progress=progress)

    def merge(
        self, export: IO[bytes], name: str, progress: Callable[[int, int], None] | None = None
    ) -> MergeReport:  # fmt: skip
        """Record the events of an export (`name` stands in errors) with ids and origin, once.

        `memplane.restore` does it, and more: it checks the whole file before anything is recorded.
        """
        from memplane.plane.merging import merge  # noqa: PLC0415 - likewise

        return merge(self._engine, export, name, progress)

    def flush(self) -> None:
        """Make everything recorded here survive a power cut, whatever the durability."""
        self._engine.check_open()
        self._log.flush()
