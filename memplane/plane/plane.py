"""Plane, what a program opens. Each method says what it promises; other rooms do the work.

Packing and upkeep stand here; what writes stands in `recording`, what reads single events in
`answers`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import MappingProxyType, TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from memplane.errors import InputError
from memplane.home import Home
from memplane.intake import timestamp
from memplane.log import FileLog
from memplane.log.taking import take_in_all
from memplane.pack.block import Block
from memplane.plane import packing, recent
from memplane.plane.asking import request_of
from memplane.plane.audit import FINDINGS_MAX, AuditReport, audit
from memplane.plane.compare import differing
from memplane.plane.engine import Engine, MakeCounter, MakeEmbedder
from memplane.plane.latest import last_sessions
from memplane.plane.opening import opened
from memplane.plane.prefixes import seq_by
from memplane.plane.recording import Recording
from memplane.policy import Policies
from memplane.ports import Clock, Detector, Embedder, Head
from memplane.projections.hotset import HotsetState

if TYPE_CHECKING:
    from memplane.pack.pack import Laid
    from memplane.pack.request import Request
    from memplane.plane.artifacts import PlaneArtifacts
    from memplane.plane.checking import PlaneReport
    from memplane.plane.exporting import ExportReport
    from memplane.plane.folds import Folds
    from memplane.plane.merging import MergeReport
    from memplane.plane.purging import PurgeReport
    from memplane.plane.sessions import Sessions
    from memplane.policy.check import Checked
    from memplane.policy.effective import Row
    from memplane.recall.retrieval import Retriever

__all__ = ["Plane"]


class Plane(Recording):
    """A memory plane: record what happened, pack what an agent needs.

    Threads may share one. Any number of processes may have the same plane open. Use it as a
    context manager or call `close()`; what was acknowledged is safe either way.
    """

    def __init__(
        self, home: Home, *, clock: Clock, make_counter: MakeCounter, durability: str = "sync",
        loads: Callable[[bytes], Any] = json.loads, log: FileLog | None = None,
        as_of: int | None = None, detector: Detector | None = None,
        overrides: Mapping[str, str] = MappingProxyType({}),
        make_embedder: MakeEmbedder | None = None, embedder: Embedder | None = None,
        files: Mapping[str, bytes] | None = None, plain: bool = False,
    ) -> None:  # fmt: skip
        self._plain = plain  # packs search the saved index without arrays
        self.home, self.id, self.durability = home.path, home.plane_id, durability
        self.read_only = home.read_only or as_of is not None
        self._memo: dict[tuple[str, int, str], tuple[str, int, bool]] = {}
        self._engine = Engine(
            home, clock=clock, make_counter=make_counter, durability=durability, loads=loads,
            log=log, as_of=as_of, detector=detector, overrides=overrides,
            make_embedder=make_embedder, embedder=embedder, files=files,
        )  # fmt: skip
        self._log = self._engine.log
        if log is None and not self.read_only:
            take_in_all(self._log)

    # --- packing ---

    def pack(
        self, query: str = "", *, save_report: bool = False,
        progress: Callable[[int, int], None] | None = None,
        watch: Callable[[Laid], None] | None = None, **asked: Any,
    ) -> Block:  # fmt: skip
        """Pack a block for the query within its budget.

        `asked`: budget (tokens), channel, intent (auto fast deep orient), session, task, ns, agent,
        sections, expand (handles), exclude (ids), query_event, since, until, as_of, dense_seq (no
        vectors of later events), now. Equal inputs give equal bytes. `progress` is told of a long
        build of the index: a pack that searches the whole log waits for it; `watch` is shown how
        the block was laid out. Raises BudgetError, InputError, PolicyError; never for size.
        """
        engine, clock = self._engine, packing.Stopwatch()
        before = (engine.reads.files, engine.reads.bytes)
        with engine.lock:
            policies = engine.watched.policies()
            clock.mark("policy")
            folds = engine.caught_up(policies)
            head = folds.log.head()
            request = request_of(
                query, asked, policies, head=head.seq, clock=engine.clock,
                seq_by=partial(seq_by, engine.log), redact=engine.redact(policies),
            )  # fmt: skip
            clock.mark("catch_up")
            if request.as_of != head.seq:
                folds = engine.prefix(request.as_of, policies)
                head = folds.log.head()
            hotset, gap = engine.hotset(folds, request, policies)
            views = packing.load_views(engine.watched, policies, request.channel)
            expansions = [opened(engine, folds, one, request, policies) for one in request.expand]
            materials = packing.materials_of(
                policies, folds, hotset, views=views, expansions=expansions,
                memo=self._memo, gap=gap,
                files=recent.files_for(engine, folds, request, hotset, policies),
                retriever=self._searcher(policies, folds, request, progress),
                query_seq=engine.seq_of(request.query_event),
                sessions=partial(last_sessions, engine, folds, request, policies),
                approvals=engine.approvals(folds), line=engine.log.line,
            )  # fmt: skip
            printer = engine.printer(policies)
            clock.mark("read")
            block = packing.run(request, materials, printer, clock, (head.seq, head.h), laid=watch)
        block.report["io"] = {
            "files": engine.reads.files - before[0],
            "bytes": engine.reads.bytes - before[1],
        }
        return self._saved(block, policies) if save_report and not self.read_only else block

    def _searcher(
        self, policies: Policies, folds: Folds, request: Request,
        progress: Callable[[int, int], None] | None,
    ) -> Callable[[], Retriever]:  # fmt: skip
        if self._plain:
            from memplane.plane.plain import PlainRetriever  # noqa: PLC0415 - for hooks alone

            return partial(PlainRetriever, self._engine, policies, folds)
        return partial(
            self._engine.retriever, policies, folds, progress=progress,
            dense_seq=request.dense_seq,
        )  # fmt: skip

    def _saved(self, block: Block, policies: Policies) -> Block:
        """The block with its report as it lies in reports/, held against the pack before it."""
        from memplane.plane import reports  # noqa: PLC0415 - the library saves none by itself

        engine = self._engine
        with engine.lock:
            report = reports.finished(engine, block, policies)
        where = reports.save(
            self.home, report, engine.clock(), policies.plane.reports_keep, engine.watched.source
        )
        return block._replace(report=report, report_path=where)

    # --- where it stands ---

    def head(self) -> Head:
        """Where the log ends now."""
        self._engine.check_open()
        return self._log.head() if self._engine.as_of is None else self._engine.prefix_head()

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

    @property
    def policies(self) -> Policies:
        """The policies as they are now; raises PolicyError."""
        return self._engine.watched.policies()

    def policy_values(self) -> list[Row]:
        """Every value in force, with where it comes from; raises PolicyError."""
        return self._engine.watched.rows()

    def check_policies(self) -> Checked:
        """Every mistake in the policies, and what is likely not meant; raises nothing."""
        return self._engine.watched.checked()

    def hotset(self) -> HotsetState:
        """The hotset as of now. Read only."""
        with self._engine.lock:
            return self._engine.caught_up().hotset.state

    def audit(
        self, *, limit: int = FINDINGS_MAX, progress: Callable[[int, int], None] | None = None
    ) -> AuditReport:
        """What today's rules find in all that is stored, and what a purge would take; no secret."""
        return audit(self._engine, limit=limit, progress=progress)

    def purge(
        self, *ids: int | str, key: str | None = None, session: str | None = None,
        source: str | None = None, archived: Sequence[str] = (), ns: str = "/global",
        reason: str = "", cascade: bool = False, dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> PurgeReport:  # fmt: skip
        """Erase events for good: from the log, projections, index, bodies and reports.

        Named by ids or seqs, or a key (all its values), a session, a source (the beginning of
        ids), or why they are archived (forgotten, superseded, evicted). The report lists what
        still quotes them; with `cascade` that goes too. A dry run changes nothing. Raises
        InputError, NotFoundError, HomeError where the plane is read-only, WriteError, LockError.
        """
        from memplane.plane.purging import purge  # noqa: PLC0415 - a pack does without

        named = {"ids": ids, "key": key, "session": session, "source": source, "archived": archived}
        return purge(
            self._engine, named, ns, reason, cascade=cascade, dry_run=dry_run, progress=progress
        )

    def index(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Bring the search index up to the log; return the last seq that it has looked at.

        The first search or deep pack does it too; who has just recorded much may do it before.
        """
        with self._engine.lock:
            indexed = self._engine.finder.index(self._engine.watched.policies(), progress)
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
        from memplane.plane.dense import embed  # noqa: PLC0415 - whoever packs alone does without

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
        self, progress: Callable[[int, int], None] | None = None, *, processes: int = 1
    ) -> PlaneReport:
        """Check every byte of the log, its bodies, and what was made from it; writes nothing.

        `progress` is told done and total, of all parts; `processes` scan the segments. Never
        raises for what is damaged.
        """
        from memplane.plane import checking  # noqa: PLC0415 - a pack does without

        engine = self._engine
        report = checking.of_log(engine, progress, processes)
        with engine.lock:
            return checking.verify(engine, report, progress)

    def differing(self) -> list[str]:
        """Files that say something else than the log; reads, never writes.

        By their names below `projections/`; `index/manifest.json` stands for the index. What
        memplane would not believe anyway (torn, stale, of another version) is none of them: it is
        made again when it is needed. Raises PolicyError.
        """
        with self._engine.lock:
            policies = self._engine.watched.policies()
            found = differing(self._engine, policies)
            index = ["index/manifest.json"] if self._engine.finder.differs(policies) else []
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

    def close(self) -> None:
        """Write checkpoints where that is worth it and let go of the files."""
        with self._engine.lock:
            self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()
