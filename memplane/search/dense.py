"""Vectors of documents: embedded on demand in log order, and used as far as they reach.

No event is embedded while it is recorded or while a block is packed. Documents get their vectors in
log order, so all events up to some seq, `dense_seq`, have one. It is an input of a request: the
same request with the same `dense_seq` finds the same, however much was embedded since. A query is
embedded when it is asked.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from memplane.errors import (
    DegradedError,
    InputError,
    LockError,
    MemplaneError,
    ProviderError,
    WriteError,
)
from memplane.index import dense
from memplane.index.ranking import Nearness, Similar, similar
from memplane.index.storage import holder
from memplane.index.vectors import Vectors
from memplane.intake.redact import masked, quoted_value
from memplane.lazy import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from memplane.context.context import PlaneContext
    from memplane.index.segment import Array
    from memplane.policy import Policies
    from memplane.ports import Embedder, Progress
    from memplane.search.indexing import Indexed

_BATCH: Final = 32  # texts that are embedded, then kept
_QUERIES_KEPT: Final = 64


class _Loaded(NamedTuple):
    """What was found, and how the files and the index were when it was looked for."""

    looked: tuple[object, ...]
    vectors: Vectors | None


class QueryVectors:
    """The vectors that one request may use: those of the events up to `seq`."""

    def __init__(
        self,
        dense: Dense | None = None,
        vectors: Vectors | None = None,
        seq: int = 0,
        docs: int = 0,
    ) -> None:
        self._dense, self._vectors, self._docs = dense, vectors, docs
        self.seq = seq

    @property
    def documents(self) -> int:
        """How many documents, from the first on, may be compared."""
        return self._docs

    def rows(self, docs: range) -> list[bytes]:
        """The vectors of some of these documents."""
        return [] if self._vectors is None else self._vectors.rows(docs)

    def similar(self, query: str, hidden: Array, weights: Nearness) -> Similar | None:
        """Which of the first documents are like the query; `hidden` has a place for each of them.

        Nothing of what is hidden, nor of what came after the request's `dense_seq`.
        """
        upto = min(self._docs, len(hidden))
        if self._dense is None or self._vectors is None or not upto:
            return None
        asked = self._dense.vector(query)
        return similar(self._vectors, asked, weights, upto=upto, hidden=hidden)

    def nearest(self, query: str, hidden: Array) -> tuple[Array, Array] | None:
        """The documents nearest to the query, and their cosines in millionths; as `similar`."""
        upto = min(self._docs, len(hidden))
        if self._dense is None or self._vectors is None or not upto:
            return None
        return self._vectors.near(self._dense.vector(query), upto=upto, masked=hidden)


class Dense:
    """The vectors of a plane's documents by the embedder that its policies name.

    Hold the plane's lock for every call but `embed`, which takes it while it reads and writes.
    """

    def __init__(
        self,
        context: PlaneContext,
        embedder: Embedder,
        index: Callable[[Policies], Indexed],
        name: str = dense.FOLDER,
    ) -> None:
        self._context, self.embedder, self._index = context, embedder, index
        self._folder = context.home.path / "index" / name
        self._loaded: _Loaded | None = None
        self._queries: OrderedDict[str, bytes] = OrderedDict()

    def near(self, indexed: Indexed, upto: int) -> QueryVectors:
        """What a request may use: the vectors there are of events up to `upto`."""
        loaded = self._load(indexed)
        if loaded is None:
            return QueryVectors()
        seq = min(_reach(indexed, len(loaded)), upto)
        docs = indexed.view(seq).count if seq > 0 else 0
        # Up to a seq before the first vector is as good as none: the same request, the same name.
        return QueryVectors(self, loaded, seq, docs) if docs else QueryVectors()

    def vector(self, query: str) -> bytes:
        """Embed a query, at once where it was asked lately; DegradedError where that fails."""
        found = self._queries.get(query)
        if found is None:
            try:
                with self._context.span("embed", {"provider": self.embedder.name, "count": 1}):
                    (found,) = _vectors(self.embedder, [query])
            except Exception as error:  # somebody else's code, often at the other end of a network
                kind, name = type(error).__name__, quoted_value(self.embedder.name)
                raise DegradedError(
                    f"the embedder {name} failed ({kind}: {masked(str(error))[:200]}); without it "
                    "nothing is searched by vectors alone: mend it, or search by words",
                    f"embedder: {kind}",
                ) from error
            self._queries[query] = found
            if len(self._queries) > _QUERIES_KEPT:
                self._queries.popitem(last=False)
        return found

    def made(self, texts: Sequence[str]) -> Sequence[bytes]:
        """Embed texts of documents, for the caller to keep; ProviderError where that fails."""
        return _made(self.embedder, texts)

    def embed(self, policies: Policies, limit: int | None, progress: Progress | None) -> int:
        """See `embed`."""
        context = self._context
        with context.lock:
            indexed = self._index(policies)
            end = indexed.view().count
            kind = self._kind(indexed)
        with dense.adding(self._folder, kind) as adder:
            if adder is None:
                there = holder(self._folder)
                who = "another process" if there is None else f"process {there}"
                raise LockError(
                    f"{self._folder}: {who} embeds here, or it cannot be written; what is done "
                    "there is kept: try again when it is through",
                    holder=there,
                )
            return self._embed_upto(adder, indexed, end, limit, progress)

    def _embed_upto(
        self,
        adder: dense.Adder,
        indexed: Indexed,
        end: int,
        limit: int | None,
        progress: Progress | None,
    ) -> int:
        lock = self._context.lock
        with lock, _writing(self._folder):
            self._mend(adder, indexed)
        begin = adder.header.documents
        end = end if limit is None else min(end, begin + limit)
        while (start := adder.header.documents) < end:
            with lock:
                masks, view = indexed.masks, indexed.view()
                docs = range(start, min(start + _BATCH, end))
                texts = [view.text(doc) for doc in docs]
            said = {"provider": self.embedder.name, "count": len(texts)}
            with self._context.span("embed", said):
                vectors = _made(self.embedder, texts)
            with lock, _writing(self._folder):
                if indexed.masks is not masks:  # the documents were made anew, or some erased
                    self._mend(adder, indexed)
                    end = min(end, indexed.view().count)
                    continue
                seq = int(indexed.frame(indexed.view()).seq[docs[-1]])
                adder.add(vectors, seq, indexed.mark_behind(seq))
            if progress is not None:
                progress(adder.header.documents - begin, end - begin)
        return max(0, adder.header.documents - begin)

    def _mend(self, adder: dense.Adder, indexed: Indexed) -> None:
        """Let the rows be those of the log and index as they are now."""
        header = adder.header
        if header.documents and not indexed.holds(header.seq, header.mark):
            adder.restart()
        if adder.header.erased != indexed.erased:
            adder.erase(_blanks(indexed, adder.header.documents), indexed.erased)

    def _load(self, indexed: Indexed) -> Vectors | None:
        """The vectors that are there, opened again where they changed."""
        # The masks are made anew whenever the documents are.
        looked = (dense.vectors_stamp(self._folder), indexed.masks)
        if self._loaded is not None and self._loaded.looked == looked:
            return self._loaded.vectors
        self._loaded = _Loaded(looked, None)
        stored = dense.load_vectors(self._folder, self._kind(indexed))
        if stored is None or not indexed.holds(stored.header.seq, stored.header.mark):
            return None
        rows, dimension = stored.rows, stored.header.dimension
        if stored.header.erased != indexed.erased:
            blanks = _blanks(indexed, stored.header.documents)
            rows = memoryview(dense.cleared(rows, blanks, dimension))
        vectors = Vectors(dimension, rows)
        self._loaded = _Loaded(looked, vectors)
        return vectors

    def _kind(self, indexed: Indexed) -> dense.Kind:
        named = self.embedder
        return dense.Kind(self._context.cache_id, indexed.variant, named.name, named.dimension)


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WriteError(f"{folder}: {error}; what was embedded before is kept") from error


def has_no_vectors(context: PlaneContext) -> bool:
    """Whether this plane has no vectors of its own embedder yet."""
    return dense.vectors_stamp(_folder_of(context)) is None


def _folder_of(context: PlaneContext) -> Path:
    return context.home.path / "index" / dense.FOLDER


def _reach(indexed: Indexed, count: int) -> int:
    """The seq up to which all documents have a vector, of the first `count` ones."""
    seqs = indexed.frame(indexed.view()).seq
    count = min(count, len(seqs))
    if not count:
        return 0
    last = int(seqs[count - 1])
    # Of the last event some documents may still have none.
    return last - 1 if count < len(seqs) and int(seqs[count]) == last else last


def _blanks(indexed: Indexed, count: int) -> list[int]:
    """The documents that say nothing, as erased ones do."""
    view = indexed.view()
    return [doc for doc in range(min(count, view.count)) if not view.text(doc)]


def _made(embedder: Embedder, texts: Sequence[str]) -> Sequence[bytes]:
    """As `_vectors`; ProviderError where the embedder fails."""
    try:
        return _vectors(embedder, texts)
    except MemplaneError:
        raise
    except Exception as error:  # somebody else's code, often at the other end of a network
        kind, name = type(error).__name__, quoted_value(embedder.name)
        raise ProviderError(
            f"the embedder {name} failed ({kind}: {masked(str(error))[:200]})",
            provider=embedder.name,
            retryable=isinstance(error, ConnectionError | TimeoutError),
            cause=error,
        ) from error


def _vectors(embedder: Embedder, texts: Sequence[str]) -> Sequence[bytes]:
    """Embed texts; an empty text has no vector. Raises InputError for an invalid answer."""
    nothing = bytes(embedder.dimension)
    told = [text for text in texts if text.strip()]
    found = iter(embedder.embed(told)) if told else iter(())
    vectors = [next(found, b"") if text.strip() else nothing for text in texts]
    odd = any(len(vector) != embedder.dimension for vector in vectors)
    if odd or next(found, None) is not None:
        raise InputError(
            f"{quoted_value(embedder.name)}: expected a vector of {embedder.dimension} bytes for "
            "each of "
            f"{len(told)} texts, found others",
            where="embedder",
        )
    return vectors
