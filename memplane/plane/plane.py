"""Plane, what a program opens. Each method says what it promises; other rooms do the work.

Recording, packing and upkeep stand here; what reads single events stands in `answers`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from memplane.errors import InputError
from memplane.event import GLOBAL
from memplane.home import Home
from memplane.intake import timestamp
from memplane.log import FileLog
from memplane.pack.block import Block
from memplane.plane import packing, recent
from memplane.plane.answers import Answers
from memplane.plane.asking import request_of
from memplane.plane.audit import FINDINGS_MAX, AuditReport, audit
from memplane.plane.compare import differing
from memplane.plane.engine import Engine, MakeCounter, MakeEmbedder
from memplane.plane.latest import last_sessions
from memplane.plane.opening import opened
from memplane.plane.pinning import pin_row, touch_row
from memplane.plane.tasks import PlaneTasks
from memplane.plane.writing import BulkReceipt, Receipt
from memplane.policy import Policies
from memplane.ports import Clock, Detector, Embedder, Head
from memplane.projections.hotset import HotsetState

if TYPE_CHECKING:
    from memplane.pack.pack import Laid
    from memplane.plane.artifacts import PlaneArtifacts
    from memplane.plane.evicting import Eviction
    from memplane.plane.sessions import Sessions
    from memplane.policy.check import Checked
    from memplane.policy.effective import Row

__all__ = ["Plane"]


class Plane(Answers):
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
        files: Mapping[str, bytes] | None = None,
    ) -> None:  # fmt: skip
        self.home, self.id, self.durability = home.path, home.plane_id, durability
        self.read_only = home.read_only or as_of is not None
        self._memo: dict[tuple[str, int, str], tuple[str, int, bool]] = {}
        self._engine = Engine(
            home, clock=clock, make_counter=make_counter, durability=durability, loads=loads,
            log=log, as_of=as_of, detector=detector, overrides=overrides,
            make_embedder=make_embedder, embedder=embedder, files=files,
        )  # fmt: skip
        self._log = self._engine.log

    # --- recording ---

    def record(self, text: str = "", **fields: Any) -> Receipt:
        """Store one event and acknowledge it.

        `fields` are those of the event: kind, key, session, task, role, tags, ts and so on. Raises
        InputError (nothing stored), ConflictError (the id is taken by another event), WriteError,
        LockError and CorruptError.
        """
        engine = self._engine
        appended = engine.append([engine.drafting()({"text": text, **fields}, "")])[0]
        return Receipt(appended, self.durability, self._log.line)

    def record_many(
        self, rows: Iterable[Mapping[str, Any]], batch: int = 256, *, strict: bool = True
    ) -> BulkReceipt:
        """Store many events: all are checked first, then one write and one sync a batch.

        With `strict=False`, rows that cannot be taken (invalid, or their id is another event's)
        are listed in `refused` and the others are stored; rows may then be any iterator.
        """
        if batch < 1:
            raise InputError(f"expected 1 or more, found {batch}", where="batch")
        done, refused = self._engine.recorder.many(
            rows, batch, self._engine.drafting(), strict=strict
        )
        new = [appended.seq for appended in done if not appended.duplicate]
        return BulkReceipt(
            len(new), len(done) - len(new), new[0] if new else None, new[-1] if new else None,
            self.durability, tuple(refused),
        )  # fmt: skip

    def forget(
        self, key: str | None = None, *, ns: str = GLOBAL, id: str | None = None,  # noqa: A002
        session: str | None = None, source: str | None = None, reason: str = "",
    ) -> Receipt:  # fmt: skip
        """Archive: what is named is in no block, search or listing; the log keeps it.

        Exactly one of key (with ns), id, session and source (an importer's prefix of ids). Raises
        NotFoundError where that names nothing.
        """
        named = {"key": key, "id": id, "session": session, "source": source}
        return self._engine.forget(named, ns, reason, undo=False)

    def unforget(
        self, key: str | None = None, *, ns: str = GLOBAL, id: str | None = None,  # noqa: A002
        session: str | None = None, source: str | None = None, reason: str = "",
    ) -> Receipt:  # fmt: skip
        """Take back the forgetting of what is named, as `forget` names it."""
        named = {"key": key, "id": id, "session": session, "source": source}
        return self._engine.forget(named, ns, reason, undo=True)

    def pin(
        self, id: str | int | None = None, *, key: str | None = None, ns: str = GLOBAL,  # noqa: A002
    ) -> Receipt:  # fmt: skip
        """Put a statement before others in the head of blocks, from the next session on.

        Exactly one of id (or seq) and key (with ns), which names the value that it has now.
        """
        return self._engine.write(pin_row(self, id, key, ns, undo=False))

    def unpin(
        self, id: str | int | None = None, *, key: str | None = None, ns: str = GLOBAL,  # noqa: A002
    ) -> Receipt:  # fmt: skip
        """Take a pin back; named as `pin` names it."""
        return self._engine.write(pin_row(self, id, key, ns, undo=True))

    def touch(
        self, id: str | int | None = None, *, key: str | None = None, ns: str = GLOBAL,  # noqa: A002
    ) -> Receipt:  # fmt: skip
        """Say that a memory still holds: its importance fades anew from now on.

        Exactly one of id (or seq) and key (with ns), which names the value that it has now.
        """
        return self._engine.write(touch_row(self, id, key, ns))

    def evict(
        self, below: float, *, dry_run: bool = False, ns: str | None = None,
        kind: str | None = None, now: str | datetime | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Eviction:  # fmt: skip
        """Archive the memories whose importance has faded below a line (0 to 1000, or 0.0 to 1.0).

        Facts, observations, plans, summaries, insights and preferences, of one `ns` or `kind` or of
        all, by the importance that they have now or at `now`; never a decision, a rule, a
        constraint or what is pinned. The log keeps them; `unforget` takes them back. A `dry_run`
        says what it would take and writes nothing.
        """
        from memplane.plane.evicting import evict  # noqa: PLC0415 - a pack does without

        return evict(
            self._engine, below, ns=ns, kind=kind, now=now, dry_run=dry_run, progress=progress
        )

    @property
    def tasks(self) -> PlaneTasks:
        """Open, update, block, switch, close and list tasks."""
        return PlaneTasks(self.record, self._engine)

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
                seq_by=engine.seq_by, redact=engine.redact(policies),
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
                retriever=partial(
                    engine.retriever, policies, folds, progress=progress,
                    dense_seq=request.dense_seq,
                ),
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
        seq = when if isinstance(when, int) else self._engine.seq_by(timestamp(when))
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
        """
        with self._engine.lock:
            return self._engine.rebuild(progress)

    def differing(self) -> list[str]:
        """Files that say something else than the log; reads, never writes.

        By their names below `projections/`; `index/manifest.json` stands for the index. What
        memplane would not believe anyway (torn, stale, of another version) is none of them: it is
        made again when it is needed. Raises PolicyError.
        """
        with self._engine.lock:
            policies = self._engine.watched.policies()
            kept = self._engine.caught_up(policies)
            found = differing(kept, self._engine.prefix(kept.log.head().seq, policies))
            index = ["index/manifest.json"] if self._engine.finder.differs(policies) else []
            return [*found, *index]

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
