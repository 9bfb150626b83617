"""Packing for an open plane; imports only what a process needs that makes one block."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack

from memplane.context.calls import checked_request, degraded_parts
from memplane.context.context import PlaneContext
from memplane.context.folds import seq_by
from memplane.context.materials import (
    PlaneSource,
    Stopwatch,
    load_views,
    run_pack,
)
from memplane.errors import DegradedError
from memplane.lazy import late, late_calls
from memplane.nofollow import Tally, counting
from memplane.observe import note
from memplane.pack.block import Block
from memplane.pack.request import FormCache
from memplane.policy import Policies
from memplane.ports import Position
from memplane.projections.hotset import HotsetState

if TYPE_CHECKING:
    from memplane.context.folds import Folds
    from memplane.pack.pack import Laid
    from memplane.pack.request import PackFields, Request
    from memplane.ports import Retriever
    from memplane.projections.item import Item
    from memplane.recall.suppress import Scope
    from memplane.search import passages as search_passages, service as search_service
    from memplane.search.service import index_service, nearest_percent
    from memplane.upkeep import reports as upkeep_reports
    from memplane.work import handles
else:
    search_passages = late("memplane.search.passages")
    search_service = late("memplane.search.service")
    index_service, nearest_percent = late_calls(
        "memplane.search.service", "index_service", "nearest_percent"
    )
    upkeep_reports = late("memplane.upkeep.reports")
    handles = late("memplane.work.handles")

_Reach = tuple[int | None, int | None, bool, Callable[[int, int], None] | None, str | None]


class Packer:
    """Packs for an open plane, and says what a prompt hook needs of it; `plain`: for a hook."""

    def __init__(self, context: PlaneContext, *, plain: bool = False) -> None:
        self.context, self.home, self.read_only = context, context.home.path, context.read_only
        self._plain = plain  # packs search the saved index without arrays
        self._lines = FormCache()

    # --- packing ---

    def pack(
        self, query: str = "", *, save_report: bool = False, wait: bool = False,
        progress: Callable[[int, int], None] | None = None,
        watch: Callable[[Laid], None] | None = None, **asked: Unpack[PackFields],
    ) -> Block:  # fmt: skip
        """Pack a block for the query within its budget.

        `asked`: budget (tokens), channel, intent (auto fast deep orient), session, task, ns, agent,
        project (the only one that is seen), sections, expand (handles), exclude (ids), held_seq
        (the caller holds the session's events behind it), query_event, since, until, tag and
        without_tag (events with one, and with none of these), importance_min (0 to 1000 or 0.0 to
        1.0), as_of, dense_seq (no vectors of later events), index_seq (of later events what the
        hotset holds), engine (that the policy must name), cited (entries name seqs, statements
        their day), remind (`prompt`: passages that the session does not hold, where the gate of
        `hooks.answer` opens; `start`: the user's words, what is left and was decided in earlier
        sessions; `tool`: a passage for the call that query_event names), held_marks
        (`gate.sentence_marks` of what need not be said), now. Equal inputs give equal bytes.
        `progress` is told of a long build of the index, `watch` is shown the layout. Where more
        than `index_behind_max` events are not indexed yet, it finds what the hotset has of them, or
        is to `wait`. `degraded` in the report: what it lacks. Raises as `Plane.pack`.
        """
        context, clock = self.context, Stopwatch()
        said: dict[str, Any] = {"channel": asked.get("channel")}
        with context.span("pack", said), context.lock, counting(Tally()) as io, context.log.held():
            policies = context.seen_from(asked)
            clock.mark("policy")
            folds = context.caught_up(policies)
            now = folds.log.head().seq
            request = checked_request(
                query, context.asked(asked), policies, head=now, clock=context.clock,
                seq_by=partial(seq_by, context.log), redactor=context.intake(policies).redactor,
            )  # fmt: skip
            clock.mark("catch_up")
            if request.as_of != now:
                folds = context.prefix(request.as_of, policies)
            scope = request.scope(policies)
            seen = context.seen(folds, scope, request.session, policies)
            views = load_views(context.watched, policies, request.channel)
            expand = request.expand
            expansions = [handles.open_handle(context, folds, h, request, policies) for h in expand]

            def made(dense_seq: int | None) -> Block:
                reached = request._replace(dense_seq=dense_seq)
                reach = dense_seq, request.index_seq, wait, progress, request.engine
                source = PlaneSource(
                    context, folds, policies, scope, request.session, seen,
                    self._search(policies, folds, *reach),
                    partial(self._passages, policies, folds, reached), request.held_seq,
                )  # fmt: skip
                return run_pack(
                    context, folds, reached, policies, seen, source, views=views,
                    expansions=expansions, lines=self._lines, clock=clock, watch=watch,
                )  # fmt: skip

            block = _made_anyhow(made, request.dense_seq, request.as_of)
            if not self._plain:  # a hook only reads
                context.keep_first()
            said |= {"tokens": block.tokens, "count": len(block.entries)}
        block.report.update(_io_counts(io, context))
        return self.save_report(block) if save_report else block

    def _search(
        self, policies: Policies, folds: Folds, *reach: *_Reach
    ) -> Callable[[], Retriever[Scope, Item]]:
        """Opens the search of a pack: of the saved index alone for a hook."""
        if self._plain:
            return partial(search_passages.HookRetriever, self.context, policies, folds)
        wanted = search_service.IndexReach(*reach)
        return partial(index_service(self.context).retriever, policies, folds, wanted)

    def _passages(
        self, policies: Policies, folds: Folds, request: Request
    ) -> search_passages.SavedPassages:
        self.context.need_files("a reminder")
        if not self._plain and self.context.keeps:
            index_service(self.context).index(policies).save()
        retriever = search_passages.HookRetriever(self.context, policies, folds)
        return search_passages.SavedPassages(
            retriever,
            policies.plane.hooks.answer,
            request,
            partial(nearest_percent, self.context, policies, folds),
        )

    def save_report(self, block: Block) -> Block:
        """Keep the report of a block in reports/, held against that of the pack before it.

        Returns the block with that report and its file; as it is on a read-only home.
        """
        context = self.context
        if not context.keeps:
            return block
        with context.lock:
            policies = context.watched.policies()
            report = upkeep_reports.finished(context, block, policies)
        where = upkeep_reports.save(
            self.home, report, context.clock(), policies.plane.reports_keep, context.watched.source
        )
        return block._replace(report=report, report_path=where)

    @property
    def policies(self) -> Policies:
        """The policies as they are now; raises PolicyError."""
        return self.context.watched.policies()

    def head(self) -> Position:
        """Where the log ends now."""
        return self.context.head()

    def lines_to_fold(self, *, digests: bool = False) -> int:
        """How many lines of the log a pack folds before it begins; `digests`: also into these."""
        with self.context.lock:
            return self.context.lines_to_fold(self.policies, digests=digests)

    def hotset(self) -> HotsetState:
        """The hotset as of now, without regard to visibility. Read only."""
        with self.context.lock:
            return self.context.caught_up().hotset.state.seen()

    def close(self) -> None:
        """Write checkpoints where that is worth it and let go of the files."""
        with self.context.lock:
            self.context.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _io_counts(tally: Tally, context: PlaneContext) -> dict[str, Any]:
    """What a pack read, what opening the plane took included, once; see `shared_facts`."""
    tally.add(context.opening)
    context.opening = Tally()
    read = {"files": len(tally.files), "bytes": tally.read, "mapped": tally.mapped}
    shared = context.log.shared_facts()
    return {"io": read} if shared is None else {"io": read, "shared": shared}


def _made_anyhow(made: Callable[[int | None], Block], dense_seq: int | None, as_of: int) -> Block:
    """The block, without vectors where the embedder fails; its report lists what it lacks."""
    try:
        block, without = made(dense_seq), list[str]()
    except DegradedError as error:
        # As if nothing were embedded: what the report names gives the same block again.
        note("degraded", {"part": error.part})
        block, without = made(0), [error.part]
    index_seq = block.report["request"].get("index_seq")
    if index_seq is not None:
        without += degraded_parts(as_of, index_seq)
    if without:
        block.report["degraded"] = without
    return block
