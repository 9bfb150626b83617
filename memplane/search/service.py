"""The index of an open plane: opened by the first search, and kept up with the log from then on."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from memplane import nofollow
from memplane.errors import HomeError, InputError, LockError, WriteError
from memplane.home import RefoldWarning
from memplane.intake.redact import quoted_value, unexpected
from memplane.lazy import NamedTuple, late
from memplane.policy.records import NO_EMBEDDER, OWN_ENGINE
from memplane.ports import ONE, Position

if TYPE_CHECKING:
    from pathlib import Path

    from memplane.context.context import PlaneContext
    from memplane.context.folds import Folds
    from memplane.event import Event
    from memplane.index import dense as index_dense, engine as index_engine, storage
    from memplane.pack.request import Request
    from memplane.policy import Policies
    from memplane.ports import Progress
    from memplane.projections.hotset import HotsetState
    from memplane.recall import documents
    from memplane.recall.suppress import Scope
    from memplane.search import dense as search_dense, engines, indexing, retriever
    from memplane.search.dense import Dense
    from memplane.search.engines import PlaneEngine
    from memplane.search.indexing import Indexed
    from memplane.search.retriever import ItemCache, SearchEngine
else:
    documents = late("memplane.recall.documents")
    storage = late("memplane.index.storage")
    index_dense = late("memplane.index.dense")
    index_engine = late("memplane.index.engine")
    search_dense = late("memplane.search.dense")
    engines = late("memplane.search.engines")
    indexing = late("memplane.search.indexing")
    retriever = late("memplane.search.retriever")

# Arrays, tables and stems are imported where they are used first: a process that searches nothing
# does without.


_NEAREST: Final = 50
_SAID: Final = frozenset(("message", "summary"))
INDEX_BEHIND: Final = "index: "  # how the line about it begins


def degraded_parts(as_of: int, index_seq: int | None) -> list[str]:
    """What an answer as of a seq lacks, where the index was used up to `index_seq` (None: all)."""
    missing = 0 if index_seq is None else max(0, as_of - index_seq)
    return [f"{INDEX_BEHIND}{missing} events behind"] if missing else []


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

    def dense(self, policies: Policies) -> search_dense.Dense | None:
        """The vectors of the embedder that the plane was opened with, or that the policies name.

        None where there is no embedder. Raises MissingExtraError, InputError for an unknown name.
        """
        name, context = policies.plane.embedder, self._context
        if context.embedder is None and name == NO_EMBEDDER:
            return None
        if self._dense is None or self._dense[0] != name:
            self._dense = (
                name,
                search_dense.Dense(
                    context, context.embedder or context.make_embedder(name), self.index
                ),
            )
        return self._dense[1]

    def _near(
        self, policies: Policies, indexed: Indexed, most: int | None, upto: int
    ) -> search_dense.QueryVectors | None:
        """The vectors of a request; None where no embedder takes part."""
        context = self._context
        if context.embedder is None and policies.plane.embedder == NO_EMBEDDER:
            return None
        if not policies.scoring.retrieval.dense:
            return None

        # A model takes longer to open than most packs take: it waits until there is a vector.
        dense = None if most == 0 or search_dense.has_no_vectors(context) else self.dense(policies)
        if dense is None:
            return search_dense.QueryVectors()
        return dense.near(indexed, upto if most is None else min(most, upto))

    def follow(self, seq: int, count: int) -> None:
        """Index the last `count` events, up to `seq`, if a search was made. Writes nothing."""
        if self._indexed is not None:
            self._indexed.follow(seq, count)

    def rebuild(self, policies: Policies, progress: Progress | None = None) -> None:
        """Throw the index away, and make it again if there was one."""
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
        if there:
            indexed = self.index(policies, progress)
            indexed.save()
            if filled:
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
            index_dense.kept(home.path / "index" / name)
            for name in (index_dense.FOLDER, index_dense.STATIC)
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


# Vectors: to embed documents (`memplane embed`), and to prepare searches by vectors alone.
_STATIC: Final = "static"  # the embedder that needs no extra


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


def near_to(context: PlaneContext, policies: Policies, upto: int) -> search_dense.QueryVectors:
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
    if search_dense.has_no_vectors(context):
        return 0
    service = index_service(context)
    found = service.dense(policies)
    return 0 if found is None else found.near(service.index(policies), context.head().seq).seq


def _alone(context: PlaneContext, policies: Policies) -> Dense:
    """The vectors of the plane's embedder, or else of the static table."""
    found = index_service(context).dense(policies)
    if found is None:
        finder = index_service(context)
        if finder.static is None:
            finder.static = search_dense.Dense(
                context, context.make_embedder(_STATIC), finder.index, index_dense.STATIC
            )
        found = finder.static
    return found


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
