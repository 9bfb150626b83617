"""The search of an open plane: its index, opened at the first use and kept up, and what it answers.

`search_plane` goes from the arguments of a caller to ranked hits. What the channel may not see,
what is out of force and what the filters exclude is masked before anything is scored: it is no hit
and does not affect the scores of others. `IndexService` has the index, the vectors and the engine
of a plane; `embed` computes vectors.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from functools import partial
from itertools import islice, pairwise
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final

from memplane import nofollow
from memplane.context.calls import (
    check_kind,
    checked_request,
    degraded_parts,
    texts_of_argument,
)
from memplane.context.folds import seq_by
from memplane.errors import (
    ChangedError,
    DegradedError,
    HomeError,
    InputError,
    LockError,
    WriteError,
)
from memplane.event import Event, is_extract
from memplane.harness import is_typed_again, remembered
from memplane.home import RefoldWarning
from memplane.intake.redact import quoted_value, unexpected
from memplane.lazy import NamedTuple, late
from memplane.observe import note
from memplane.policy.records import NO_EMBEDDER, OWN_ENGINE
from memplane.ports import ONE, FoundEvent, Position
from memplane.projections.item import plain_text, short_handle
from memplane.projects import roots_of_folder
from memplane.recall.score import Circumstances, count, lifted
from memplane.recall.suppress import Filter, Scope

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from memplane.context.context import PlaneContext
    from memplane.context.event_access import EventAccess
    from memplane.context.folds import Folds
    from memplane.index import (
        engine as index_engine,
        storage,
        terms as index_terms,
    )
    from memplane.pack.request import Request
    from memplane.policy import Policies
    from memplane.ports import Progress, SearchResult
    from memplane.projections.hotset import HotsetState
    from memplane.recall import documents
    from memplane.search import engines, indexing, retriever
    from memplane.search.engines import Dense, PlaneEngine
    from memplane.search.indexing import Indexed
    from memplane.search.retriever import ItemCache, LogRetriever, SearchEngine
else:
    # Arrays, tables and stems are imported where they are used first: a process that searches
    # nothing does without.
    documents = late("memplane.recall.documents")
    storage = late("memplane.index.storage")
    index_engine = late("memplane.index.engine")
    engines = late("memplane.search.engines")
    indexing = late("memplane.search.indexing")
    retriever = late("memplane.search.retriever")
    index_terms = late("memplane.index.terms")


_STATIC: Final = "static"  # the embedder that needs no extra
_NEAREST: Final = 50  # documents of which one answers a prompt
_SAID: Final = frozenset(("message", "summary"))
HITS_MAX: Final = 1_000
PASSAGE_TOKENS: Final = 40
_TYPED_WITHIN: Final = 400  # events between a prompt and the same one, typed again
_PERMILLE: Final = 1_000
_TOGETHER: Final = 100  # hits that are read side by side
# The filters that are labels of the index, by the argument that names them.
_LABELLED: Final = ("kind", "session", "tag", "file")
_PARTS: Final = ("words", "similar", "neighbours", "markers", "tags", "key")


class SearchHit(NamedTuple):
    """One event that answers a query.

    `score` compares the hits of one search: 1000 is what an event earns that matches best of all
    and has every word of the query; factors and boosts come on top. It is the sum of `parts`:
    words (its own), neighbours (lent by the events around it), markers, tags and key, and where
    scoring.yaml gives them a weight, recency and coherence, as in packs. `text` is the passage that
    says most, in 40 tokens or one sentence, and `whole` whether that is all of the event's text;
    `event` is what this channel may see of it, without what its client put there; `stale` says that
    it fades and was left alone for longer than the policy's days.
    """

    score: int
    text: str
    event: Event
    parts: dict[str, int]
    whole: bool
    stale: bool = False

    @property
    def said_by(self) -> str | None:
        """Who says so: `user`, `agent`, `tool` or `model`; None where the event does not tell."""
        return self.event.said_by

    @property
    def handle(self) -> str:
        """What `expand` takes to show the whole event."""
        return short_handle(self.event.seq)


class SearchHits(list[SearchHit]):
    """The hits of one search, the best first. `degraded`: what they were found without, in words.

    As in a report: a failing embedder, an index that is far behind the log.
    """

    def __init__(self, hits: Iterable[SearchHit] = (), degraded: Iterable[str] = ()) -> None:
        super().__init__(hits)
        self.degraded = tuple(degraded)

    def _repr_markdown_(self) -> str:
        """How notebooks show them."""
        return "\n".join(f"1. {hit.text} *({hit.event.kind}, {hit.score})*" for hit in self)


def search_plane(
    context: PlaneContext,
    query: str,
    k: int,
    asked: dict[str, Any],
    *,
    similar: bool = False,
    wait: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> SearchHits:
    """Return at most `k` hits by relevance; ties go by importance now, then to the newer.

    `similar`: by the cosine of their vectors with that of the query instead, and nothing else.
    `wait` for the whole index, as that one does.
    """
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= HITS_MAX:
        raise unexpected(f"1 to {HITS_MAX}", k, "k")
    named = {name: asked.pop(name, None) for name in _LABELLED}
    texts = {name: texts_of_argument(name, value) for name, value in named.items()}
    about = _AskedFiles(context, texts["file"])
    texts["file"] = about.names
    only = _only(texts)
    most = HITS_MAX if about.whole else k  # of what ends with one of the names, many may be others
    if similar:
        prepare_vectors(context, progress)
    with context.lock, context.log.held():
        policies = context.watched.policies()
        folds = context.caught_up(policies)
        request = checked_request(
            query,
            context.asked(asked),
            policies,
            head=folds.log.head().seq,
            clock=context.clock,
            seq_by=partial(seq_by, context.log),
            redactor=context.intake(policies).redactor,
        )
        reader = context.reader_of(request)
        if not request.query:
            return SearchHits()
        upto, scope, without = (
            request.as_of,
            scope_of_request(context, folds, request, policies),
            list[str](),
        )
        if similar:
            most = upto if request.dense_seq is None else request.dense_seq
            wanted = IndexReach(most, wait=True, progress=progress)
            retriever = index_service(context).retriever(policies, folds, wanted)
            near = near_to(context, policies, most)
            finding = retriever.alike(
                request.query, near, upto=upto, scope=scope, most=most, only=only
            )
        else:
            wanted = IndexReach.of(request, wait=wait, progress=progress)
            retriever, finding, without = found_by_words(
                context, policies, folds, request, scope, most, only, wanted
            )
        hits = _hits(context, policies, folds, request, reader, retriever, finding, similar=similar)
        return SearchHits(islice(filter(about.has, hits), k), without)


def found_by_words(
    context: PlaneContext,
    policies: Policies,
    folds: Folds,
    request: Request,
    scope: Scope,
    most: int,
    only: Sequence[Sequence[str]],
    wanted: IndexReach,
    *,
    never: Collection[int] = (),
) -> tuple[LogRetriever, SearchResult, list[str]]:
    """What answers by words, and by vectors where the embedder does not fail; what is missing.

    `never` are seqs that are no answer.
    """
    if count(policies.scoring):  # what comes behind `most` of them may be lifted before them
        most = max(most, policies.budgets.limits.candidate_pool_max)

    def searched(wanted: IndexReach) -> tuple[LogRetriever, SearchResult, list[str]]:
        retriever = index_service(context).retriever(policies, folds, wanted)
        finding = retriever.find(
            request.query, upto=request.as_of, scope=scope, never=never, most=most, only=only
        )
        return retriever, finding, degraded_parts(request.as_of, retriever.index_seq)

    try:
        return searched(wanted)
    except DegradedError as error:
        note("degraded", {"part": error.part})
        retriever, finding, without = searched(wanted._replace(dense_seq=0))
        return retriever, finding, [error.part, *without]


def scope_of_request(
    context: PlaneContext, folds: Folds, request: Request, policies: Policies
) -> Scope:
    """What a pack with these arguments would see."""
    if request.task is not None and request.as_of != folds.log.head().seq:
        folds = context.prefix(request.as_of, policies)
    specs: tuple[str, ...] = ()
    if request.task is not None:
        sight = request.scope(policies)
        places, _ = context.places(folds, sight, policies)
        specs = places.tasks.seen_by(sight.sees).specs_of(request.task)
    return Scope.of(
        policies,
        request.channel,
        now=request.now,
        as_of=request.as_of,
        ns=request.ns,
        task=request.task,
        specs=specs,
        agent=request.agent,
        since=request.since,
        until=request.until,
        approvals=context.approvals(folds),
        only=Filter(request.tag, request.without_tag, request.importance_min),
    )


class IndexReach(NamedTuple):
    """How much of the index and of the vectors a request uses.

    Vectors of events up to `dense_seq`, where the policies name an embedder; documents of events up
    to `index_seq`. Where that is None, all there are if the index is far behind and the caller does
    not `wait` for it. `progress` is called while a long build runs. `engine`: the search engine
    that the policy must name.
    """

    dense_seq: int | None = None
    index_seq: int | None = None
    wait: bool = False
    progress: Progress | None = None
    engine: str | None = None

    @classmethod
    def of(
        cls, request: Request, *, wait: bool = False, progress: Progress | None = None
    ) -> IndexReach:
        """What a request asks for."""
        return cls(request.dense_seq, request.index_seq, wait, progress, request.engine)


class BegunIndex(NamedTuple):
    """An index without documents, to fold the log into. `filled`: the policy's engine had some."""

    indexed: Indexed
    filled: bool


class IndexService:
    """Hold the plane's lock for every call."""

    def __init__(self, context: PlaneContext) -> None:
        self._context = context
        self._indexed: Indexed | None = None
        self._of = ("", "")  # of which plane and kind of documents it is
        self.static: Dense | None = None  # vectors of a plane without an embedder
        self._seen: ItemCache | None = None
        self._dense: tuple[str, Dense] | None = None
        self._engine: tuple[tuple[str, ...], PlaneEngine] | None = None

    def index(self, policies: Policies, progress: Progress | None = None) -> Indexed:
        """The index at the head of the log, or as far as this plane reaches.

        `progress` is called where much is to be indexed.
        """
        indexed = self._opened(policies)
        indexed.catch_up(upto=self._context.as_of, progress=progress)
        return indexed

    def _opened(self, policies: Policies) -> indexing.Indexed:
        """The index as it was left: on the disk, or by the last one who asked."""
        context = self._context
        context.check_open()
        found = (context.cache_id, documents.variant_of(policies))
        if self._indexed is None or self._of != found:
            self.close()
            self._of = found
            plane = context.cache_id
            folder = None if context.home.passing else context.home.path / "index"
            self._indexed = indexing.Indexed(
                context.log, folder, plane=plane, policies=policies, keeps=context.keeps
            )
            if self._indexed.outdated:
                warnings.warn(
                    f"{context.home.folder}: another version of memplane made index/; made again "
                    f"from the {context.log.head().seq} lines of the log",
                    RefoldWarning,
                    stacklevel=2,
                )
        return self._indexed

    def _reaching(self, policies: Policies, upto: int, wanted: IndexReach) -> tuple[Indexed, int]:
        """The index for a request as of `upto`, and the last event that it may use of it."""
        if wanted.index_seq is None and (wanted.wait or self._context.as_of is not None):
            return self.index(policies, wanted.progress), upto
        indexed = self._opened(policies)
        if wanted.index_seq is None:
            return indexed, min(indexed.reached(upto, wanted.progress), upto)
        reach = min(wanted.index_seq, upto)
        indexed.catch_up(upto=reach, progress=wanted.progress)
        return indexed, reach

    def retriever(
        self,
        policies: Policies,
        folds: Folds,
        wanted: IndexReach = IndexReach(),  # noqa: B008 - immutable
    ) -> retriever.LogRetriever:
        """Search over the whole log for one request; events are as the folds have them."""
        engine = self._engine_of(policies, wanted.engine)
        upto, counter = folds.log.head().seq, self._context.counter(policies)
        memories = self._context.newest_memories(folds)
        indexed, reach = self._reaching(policies, upto, wanted)
        seen = self._seen
        if seen is None or seen.counter is not counter or seen.renewed != indexed.renewed:
            seen = self._seen = retriever.ItemCache(
                self._context.log, counter, indexed.renewed, indexed.lines.line, indexed.lines.id
            )
        indexed.lines.look()
        near = self._near(policies, indexed, wanted.dense_seq, reach)
        if reach == upto:
            return retriever.LogRetriever(
                indexed, seen, folds, memories, policies.scoring, near, engine
            )

        def hotset(scope: Scope) -> HotsetState:
            return self._context.places(folds, scope, policies)[0].hotset.seen(scope.sees)

        return retriever.BehindRetriever(
            indexed,
            seen,
            folds,
            memories,
            policies.scoring,
            near,
            engine,
            reach=reach,
            hotset=hotset,
        )

    def _engine_of(self, policies: Policies, asked: str | None) -> SearchEngine | None:
        """The engine that the policy names, None for memplane's index; InputError for another."""
        name = policies.plane.engine
        if asked is not None and asked != name:
            raise InputError(
                f"expected {quoted_value(name)}, the engine in policies/plane.yaml (index.engine), "
                f"found {quoted_value(asked)}",
                where="engine",
            )
        if name == OWN_ENGINE:
            return None
        return retriever.SearchEngine(name, partial(self._made_engine, policies))

    def _made_engine(self, policies: Policies) -> PlaneEngine:
        """The engine of this plane; raises MissingExtraError."""
        context, name = self._context, policies.plane.engine
        embedder = "" if context.embedder is None else context.embedder.name
        of = (name, *self._of, policies.plane.embedder, embedder)
        if self._engine is None or self._engine[0] != of:
            self._close_engine()
            folder = None
            if not context.home.passing and context.as_of is None:
                folder = context.home.path / "index" / name
            made: PlaneEngine
            if name == "tantivy":
                made = engines.WordEngine(folder, *self._of, keeps=context.keeps)
            else:
                dense = _alone(context, policies)
                made = engines.VectorEngine(
                    folder, *self._of, dense, keeps=context.keeps, static=dense is self.static
                )
            self._engine = of, made
        return self._engine[1]

    def _close_engine(self) -> None:
        if self._engine is not None:
            self._engine[1].save()
            self._engine = None

    def dense(self, policies: Policies) -> engines.Dense | None:
        """The vectors of the embedder that the plane was opened with, or that the policies name.

        None where there is no embedder. Raises MissingExtraError, InputError for an unknown name.
        """
        name, context = policies.plane.embedder, self._context
        if context.embedder is None and name == NO_EMBEDDER:
            return None
        if self._dense is None or self._dense[0] != name:
            self._dense = (
                name,
                engines.Dense(context, context.embedder or context.make_embedder(name), self.index),
            )
        return self._dense[1]

    def _near(
        self, policies: Policies, indexed: Indexed, most: int | None, upto: int
    ) -> engines.QueryVectors | None:
        """The vectors of a request; None where no embedder takes part."""
        context = self._context
        if context.embedder is None and policies.plane.embedder == NO_EMBEDDER:
            return None
        if not policies.scoring.retrieval.dense:
            return None

        # A model takes longer to open than most packs take: it waits until there is a vector.
        dense = None if most == 0 or engines.has_no_vectors(context) else self.dense(policies)
        if dense is None:
            return engines.QueryVectors()
        return dense.near(indexed, upto if most is None else min(most, upto))

    def follow(self, seq: int, count: int) -> None:
        """Index the last `count` events, up to `seq`, if a search was made. Writes nothing."""
        if self._indexed is not None:
            self._indexed.follow(seq, count)

    def rebuild(self, policies: Policies, progress: Progress | None = None) -> None:
        """Throw the index away, and make it again if there was one."""
        begun = self.begin_again(policies)
        if begun is not None:
            self.finish(policies, begun, progress)

    def begin_again(self, policies: Policies) -> BegunIndex | None:
        """Throw the index away; None where there was none, and so none is to be made."""
        folder = self._context.home.path / "index"
        names, there = nofollow.folder_names(folder), self.is_there()
        filled = index_engine.read_header(folder / policies.plane.engine) is not None
        self._indexed = self._seen = self._engine = None
        if self._context.keeps:
            index_engine.discard_engines(folder)
            for name in names:
                if ".bin" in name or ".json" in name:
                    with contextlib.suppress(OSError):
                        nofollow.remove_name(folder / name)
        return BegunIndex(self._opened(policies), filled) if there else None

    def finish(
        self, policies: Policies, begun: BegunIndex, progress: Progress | None = None
    ) -> None:
        """Index what was not folded into it since it was begun again, and save it."""
        begun.indexed.folded()
        indexed = self.index(policies, progress)
        indexed.save()
        if begun.filled:
            near = self._near(policies, indexed, None, indexed.seq)
            engine = self._made_engine(policies)
            engine.follow(indexed, near)
            engine.save()

    def is_there(self) -> bool:
        """Whether there is an index, in memory or in the folder."""
        names = nofollow.folder_names(self._context.home.path / "index")
        return self._indexed is not None or any(name.endswith(".bin") for name in names)

    def is_saved(self, policies: Policies) -> bool:
        """Whether the folder has all documents that there are here."""
        at = kept_upto(self._context.home.path, self._context.cache_id, policies)
        indexed = self._indexed
        return at is not None and (indexed is None or at.seq >= indexed.seq)

    def slots(self, policies: Policies) -> Callable[[Event], int]:
        """How many documents an event has in the index, whether or not there is one."""
        return indexing.slots_of(self._context.log, policies)

    def erased(self, policies: Policies, seq: int) -> bool:
        """Bring the folder behind the purge with that seq; False where that cannot be now.

        What the folder holds of vectors has to be behind it too.
        """
        indexed, home = self.index(policies), self._context.home
        indexed.save()
        at = kept_upto(home.path, self._context.cache_id, policies)
        headers = [
            storage.vectors_header(home.path / "index" / name)
            for name in (storage.DENSE_FOLDER, storage.STATIC_FOLDER)
        ]
        return (
            at is not None
            and at.seq >= seq
            and all(one is None or one.erased == indexed.erased for one in headers)
            and index_engine.discard_engines(home.path / "index", indexed.erased)
        )

    def drop(self) -> None:
        """Let go of the index without saving it."""
        self._indexed = self._seen = self._dense = self._engine = None

    def differs(self, policies: Policies, progress: Progress | None = None) -> bool:
        """Whether the index that is kept says something else than the log; none does not."""
        context = self._context
        at = kept_upto(context.home.path, context.cache_id, policies)
        return at is not None and context.log.matches(at) and self.index(policies).differs(progress)

    def close(self) -> None:
        """Save the index where that is worth it, and let go of it."""
        if self._indexed is not None:
            self._close_engine()
            self._indexed.close()
            self._indexed = self._seen = self._dense = None


def index_service(context: PlaneContext) -> IndexService:
    """The index service of an open plane. Hold the plane's lock."""
    return context.part(IndexService)


def kept_upto(home: Path, plane: str, policies: Policies) -> Position | None:
    """Return up to where an index is kept in a home; None where none is, or one of other rules."""
    manifest = storage.read_manifest(home / "index", plane, documents.variant_of(policies))
    return None if manifest is None else Position.from_mark(manifest.seq, manifest.mark)


def prepare_vectors(context: PlaneContext, progress: Progress | None) -> None:
    """Make the vectors that a search by similarity alone lacks, in a plane without an embedder.

    Those of the static table, which is quick; an embedder's wait for `embed`. Where another process
    does it or the disk refuses, what is there is searched, and so in a plane that is only read.
    """
    with context.lock:
        policies = context.watched.policies()
        found = _alone(context, policies)
    if found is index_service(context).static and context.keeps:
        with contextlib.suppress(LockError, WriteError):
            found.embed(policies, None, progress)


def near_to(context: PlaneContext, policies: Policies, upto: int) -> engines.QueryVectors:
    """The vectors for a search by similarity alone, of events up to `upto`. Hold the lock."""
    return _alone(context, policies).near(index_service(context).index(policies), upto)


def nearest_percent(
    context: PlaneContext,
    policies: Policies,
    folds: Folds,
    request: Request,
    prompt: str,
    scope: Scope,
) -> int:
    """The cosine of a prompt with the nearest text of other sessions, in per cent. Hold the lock.

    Of the 50 nearest; 0 where no text has a vector yet, or the plane no embedder. Raises
    MissingExtraError without the embedder's extra, DegradedError where it fails.
    """
    found = index_service(context).dense(policies)
    if found is None:
        return 0
    upto = request.as_of if request.dense_seq is None else min(request.dense_seq, request.as_of)
    wanted = IndexReach.of(request)
    retriever = index_service(context).retriever(policies, folds, wanted)
    near = found.near(index_service(context).index(policies), upto)
    alike = retriever.alike(prompt, near, upto=upto, scope=scope, most=_NEAREST).found
    own = request.session
    for one in alike:
        item = retriever.item(one.seq)
        if item.kind in _SAID and item.role != "tool" and (own is None or item.session != own):
            return one.score * 100 // ONE
    return 0


def vectors_upto(context: PlaneContext, policies: Policies) -> int:
    """Up to which event all texts have vectors of the plane's embedder; 0: none. Hold the lock."""
    if engines.has_no_vectors(context):
        return 0
    service = index_service(context)
    found = service.dense(policies)
    return 0 if found is None else found.near(service.index(policies), context.head().seq).seq


def embed(context: PlaneContext, limit: int | None, progress: Progress | None) -> int:
    """Compute vectors in log order, of at most `limit` documents; return how many got one.

    Whatever was stored is kept when it fails, and the next call continues there; vectors of another
    embedder or another log are made again. Raises InputError where no embedder is named,
    MissingExtraError where it is not installed, HomeError for a read-only plane, LockError while
    another process embeds.
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise unexpected("1 or more", limit, "limit")
    if not context.keeps and not context.home.passing:
        raise HomeError(f"{context.home.path}: is read-only; nothing was embedded")
    with context.lock:
        policies = context.watched.policies()
        found = index_service(context).dense(policies)
    if found is None:
        raise InputError(
            "expected the name of an embedder, as all-MiniLM-L6-v2, found none",
            where="policies/plane.yaml: index.embedder",
        )
    return found.embed(policies, limit, progress)


def _alone(context: PlaneContext, policies: Policies) -> Dense:
    """The vectors of the plane's embedder, or else of the static table."""
    found = index_service(context).dense(policies)
    if found is None:
        finder = index_service(context)
        if finder.static is None:
            finder.static = engines.Dense(
                context, context.make_embedder(_STATIC), finder.index, storage.STATIC_FOLDER
            )
        found = finder.static
    return found


def _hits(
    context: PlaneContext,
    policies: Policies,
    folds: Folds,
    request: Request,
    reader: EventAccess,
    retriever: LogRetriever,
    finding: SearchResult,
    *,
    similar: bool,
) -> Iterator[SearchHit]:
    """The hits among the events found that may be shown, best first. Hold the lock."""
    every, terms = finding.found, dict[int, Circumstances]()
    best = every[0].score if every else 0
    floor = max(1, best * policies.scoring.evidence_floor // _PERMILLE)
    if every and not similar:
        every, terms = lifted(every, every.above(floor), retriever, request.now, policies.scoring)
    says = _Passages(context, policies, retriever, finding.wanted)
    hits: list[tuple[tuple[int, int, int], SearchHit]] = []
    good = (found for found in every if found.score >= floor)
    while some := list(islice(good, _TOGETHER)):
        found_lines = ((found, retriever.line(found.seq)) for found in some)
        events = [(found, line.event) for found, line in found_lines if line is not None]
        for said, text, whole in says.of(events, reader):
            found, event = said.found, said.event
            score, parts = _scores(found, terms.get(found.seq))
            left, stale = reader.fading(event, folds.memories, request.as_of)
            stale = stale and not is_extract(event)  # what came of a session stays so
            rank = (-found.score, -left, -found.seq)
            hits.append((rank, SearchHit(score, text, said.emitted, parts, whole, stale)))
    # The retriever's ties go by the importance that was recorded; by now it may have faded.
    hits.sort(key=itemgetter(0))
    again = _typed_again(retriever, [hit.event for _, hit in hits])
    return (hit for _, hit in hits if hit.event.seq not in again)


def _typed_again(retriever: LogRetriever, events: Iterable[Event]) -> set[int]:
    """The seqs of prompts that repeat another of these, typed again behind an interruption.

    Reads backwards, up to the prompt before in the session, and no more than 400 events.
    """
    prompts: dict[tuple[str | None, str], list[Event]] = {}
    for event in events:
        if event.kind == "message" and event.role == "user":
            prompts.setdefault((event.session, event.text.strip()), []).append(event)
    found: set[int] = set()
    for same in prompts.values():
        for first, then in pairwise(sorted(same, key=attrgetter("seq"))):
            if then.seq - first.seq <= _TYPED_WITHIN:
                lines = map(retriever.line, range(then.seq, first.seq - 1, -1))
                said = (remembered(line.event) for line in lines if line is not None)
                if is_typed_again(next(said), said):
                    found.add(then.seq)
    return found


class _Said(NamedTuple):
    """An event that was found, as this channel may see it, and its whole text as it is stored."""

    found: FoundEvent
    event: Event
    emitted: Event
    text: str
    masked: str


class _Passages(NamedTuple):
    """What hits say. No passage is a part of what redaction takes out of the whole text."""

    context: PlaneContext
    policies: Policies
    retriever: LogRetriever
    wanted: Mapping[int, int]

    def of(
        self, events: Iterable[tuple[FoundEvent, Event]], reader: EventAccess
    ) -> Iterator[tuple[_Said, str, bool]]:
        """Each event with the passage that says most, and whether it is the whole text.

        A short one always is. An artifact whose copy is another one is left out. Step by step for
        all of them: what a step needs stays in the processor's cache.
        """
        stored = [(found, event, remembered(event)) for found, event in events]
        read = [
            one
            for found, event, before in stored
            if (one := self._read(found, event, before, reader.emit(before))) is not None
        ]
        long = [one for one in read if one.found.tokens > PASSAGE_TOKENS]
        as_stored = [one.found.doc for one in long if one.masked == one.text]
        passages = iter(self.retriever.passages(as_stored, self.wanted, PASSAGE_TOKENS))
        for one in read:
            text = one.masked
            if one.found.tokens > PASSAGE_TOKENS:
                text = next(passages) if one.masked == one.text else self._anew(one.masked)
            said = plain_text(text)
            yield one, said, said == plain_text(one.masked)

    def _read(self, found: FoundEvent, event: Event, stored: Event, emitted: Event) -> _Said | None:
        text, masked = stored.text, emitted.text
        if "body" in stored.data or stored.kind == "artifact":
            try:
                text = self.retriever.text(found.seq)
            except ChangedError:  # the copy of an artifact
                return None
            masked = self.context.redact(self.policies)(text)
        return _Said(found, event, emitted, text, masked)

    def _anew(self, text: str) -> str:

        count = self.context.counter(self.policies).count
        start, end = index_terms.passage(
            text, self.wanted, PASSAGE_TOKENS, count, index_terms.TermVocabulary()
        )
        return text[start:end]


def _scores(found: FoundEvent, terms: Circumstances | None) -> tuple[int, dict[str, int]]:
    """The score and its parts in thousandths; what rounding leaves over goes to the largest."""
    score = found.score * _PERMILLE // ONE
    parts = {name: getattr(found, name) * _PERMILLE // ONE for name in _PARTS}
    parts.update({} if terms is None else terms._asdict())
    parts[max(parts, key=parts.__getitem__)] += score - sum(parts.values())
    return score, parts


class _AskedFiles:
    """The files of a search: a path from the root is that file alone, any other an end of paths.

    `names` are those by which the index has them. `whole`: for some it has more than is meant.
    """

    def __init__(self, context: PlaneContext, paths: Sequence[str]) -> None:
        self._ends = [path.removeprefix("./") for path in paths if not path.startswith("/")]
        found = [tuple(_recorded_as(context, path)) for path in paths]
        self.names = tuple(name for some in found for name in some)
        self._exact = {name for some in found if some[0].startswith("/") for name in some}
        self.whole = any(len(some) > 1 for some in found)

    def has(self, hit: SearchHit) -> bool:
        """Whether a hit is about one of them."""
        path = hit.event.data.get("path")
        if not self.whole or not isinstance(path, str):
            return True
        if path in self._exact or path.removeprefix("./") in self._exact:
            return True
        return any(path == end or path.endswith(f"/{end}") for end in self._ends)


def _recorded_as(context: PlaneContext, path: str) -> Iterator[str]:
    """A path, and where it lies in a root of the plane or the project, how events name it there."""
    yield path
    if not path.startswith("/"):
        return
    home, registry = context.home, context.registry
    if registry is None:
        roots = roots_of_folder(home.folder.rpartition("/")[0])
    else:
        known, above = registry.follow(), registry.follow().above(path)
        spaces = [home.project] if home.project else [above[1]] if above else []
        roots = tuple(root for ns in spaces for root in known.roots_of(ns))
    for root in sorted(roots, key=len, reverse=True):
        if path.startswith(f"{root.rstrip('/')}/"):
            yield path[len(root.rstrip("/")) + 1 :]
            return


def _only(named: dict[str, tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Labels by groups: an event must have one of each."""
    for kind in named["kind"]:
        check_kind(kind)
    named = {**named, "tag": tuple(tag.lower() for tag in named["tag"])}
    files = tuple(map(documents.file_label, named.pop("file")))
    groups = [tuple(f"{name}:{value}" for value in values) for name, values in named.items()]
    return [group for group in (*groups, files) if group]
