"""Vectors of a plane's documents, and the search engine that its policy names.

No event is embedded while it is recorded or while a block is packed. Documents get their vectors on
demand (`Dense`), in log order, so all events up to some seq, `dense_seq`, have one. It is an input
of a request: the same request with the same `dense_seq` finds the same, however much was embedded
since. A query is embedded when it is asked.

An engine (`PlaneEngine`) stands in for the postings of words: it gives the documents that answer a
query, and what their words or vectors earn. Masks, the weights of the ranking, exact names and
packing are the plane's own, and so are hooks and fast packs. Only what the mask lets through
becomes a match.

Up to where an engine goes is where the index of its request goes. What it holds beyond that, as for
a request as of an earlier event, may move scores and, in a graph, what is found; a plane opened at
an earlier event, and so a replay, fills an engine of its own in memory.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from memplane import nofollow
from memplane.errors import (
    DegradedError,
    InputError,
    LockError,
    MemplaneError,
    ProviderError,
    WriteError,
)
from memplane.index import storage
from memplane.index.engine import (
    EngineHeader,
    EngineKind,
    HNSWIndex,
    TantivyIndex,
    engine_matches,
    has_its_files,
    read_header,
    remove_strays,
    require_tantivy,
    require_usearch,
    write_header,
)
from memplane.index.ranking import Nearness, Similar, similar
from memplane.index.vectors import Vectors
from memplane.intake.redact import masked, quoted_value
from memplane.lazy import NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from memplane.context.context import PlaneContext
    from memplane.index.lexical import Matches
    from memplane.index.segment import Array
    from memplane.index.store import IndexView
    from memplane.policy import Policies
    from memplane.ports import Embedder, Hit, Progress
    from memplane.search.indexing import Indexed


_EMBEDDED_AT_ONCE: Final = 32  # texts that are embedded, then kept
_QUERIES_KEPT: Final = 64
_BATCH: Final = 1_024  # documents that are embedded, then added to a graph
_TRIES, _PAUSE_S = 100, 0.02  # for the lock of the folder
_SAVED_AFTER: Final = 2_000  # documents of a graph, which is written as a whole
_SAVED_AT_CLOSE: Final = 64


class Dense:
    """The vectors of a plane's documents by the embedder that its policies name.

    Hold the plane's lock for every call but `embed`, which takes it while it reads and writes.
    """

    def __init__(
        self,
        context: PlaneContext,
        embedder: Embedder,
        index: Callable[[Policies], Indexed],
        name: str = storage.DENSE_FOLDER,
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
        with storage.adding_vectors(self._folder, kind) as adder:
            if adder is None:
                there = storage.holder(self._folder)
                who = "another process" if there is None else f"process {there}"
                raise LockError(
                    f"{self._folder}: {who} embeds here, or it cannot be written; what is done "
                    "there is kept: try again when it is through",
                    holder=there,
                )
            return self._embed_upto(adder, indexed, end, limit, progress)

    def _embed_upto(
        self,
        adder: storage.VectorAdder,
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
                docs = range(start, min(start + _EMBEDDED_AT_ONCE, end))
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

    def _mend(self, adder: storage.VectorAdder, indexed: Indexed) -> None:
        """Let the rows be those of the log and index as they are now."""
        header = adder.header
        if header.documents and not indexed.holds(header.seq, header.mark):
            adder.restart()
        if adder.header.erased != indexed.erased:
            adder.erase(_blanks(indexed, adder.header.documents), indexed.erased)

    def _load(self, indexed: Indexed) -> Vectors | None:
        """The vectors that are there, opened again where they changed."""
        # The masks are made anew whenever the documents are.
        looked = (storage.vectors_stamp(self._folder), indexed.masks)
        if self._loaded is not None and self._loaded.looked == looked:
            return self._loaded.vectors
        self._loaded = _Loaded(looked, None)
        stored = storage.load_vectors(self._folder, self._kind(indexed))
        if stored is None or not indexed.holds(stored.header.seq, stored.header.mark):
            return None
        rows, dimension = stored.rows, stored.header.dimension
        if stored.header.erased != indexed.erased:
            blanks = _blanks(indexed, stored.header.documents)
            rows = memoryview(storage.cleared_rows(rows, blanks, dimension))
        vectors = Vectors(dimension, rows)
        self._loaded = _Loaded(looked, vectors)
        return vectors

    def _kind(self, indexed: Indexed) -> storage.VectorKind:
        named = self.embedder
        return storage.VectorKind(
            self._context.cache_id, indexed.variant, named.name, named.dimension
        )


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


def has_no_vectors(context: PlaneContext) -> bool:
    """Whether this plane has no vectors of its own embedder yet."""
    return storage.vectors_stamp(_folder_of(context)) is None


class PlaneEngine(Protocol):
    """An engine over the documents of one open plane; hold the plane's lock.

    `alike`: whether it compares vectors, so that the ranking adds none of its own.
    """

    alike: bool

    def follow(self, indexed: Indexed, near: QueryVectors | None) -> None:
        """Add what the index has and the engine lacks."""

    def matches(
        self, query: str, k: int, indexed: Indexed, hidden: Array, near: QueryVectors | None
    ) -> Matches:
        """The k best documents below the length of `hidden` that are not hidden.

        What the index has and the engine lacks is added first. Raises DegradedError where an
        embedder fails.
        """

    def save(self) -> None:
        """Write what is not written yet, where that is worth it."""


class WordEngine:
    """Tantivy over texts and the words beside them. Its files are written by each commit."""

    alike = False

    def __init__(self, path: Path | None, plane: str, variant: str, *, keeps: bool) -> None:
        """Raises MissingExtraError."""
        kind = EngineKind(plane, variant, require_tantivy())
        self._folder = _Folder(path, kind, keeps=keeps)
        self._index: TantivyIndex | None = None
        self._count = 0  # documents that were looked at
        self._in_memory = path is None
        self._masks: object = None  # made anew whenever the documents are

    def follow(self, indexed: Indexed, near: QueryVectors | None) -> None:
        del near
        self._followed(indexed, indexed.view().count)

    def matches(
        self, query: str, k: int, indexed: Indexed, hidden: Array, near: QueryVectors | None
    ) -> Matches:
        del near
        index = self._followed(indexed, indexed.view().count)
        hits = index.search(query, k, upto=len(hidden) - 1, masked=_masked(hidden))
        return engine_matches(hits, hidden)

    def save(self) -> None:
        """Each commit has done it."""

    def _followed(self, indexed: Indexed, end: int) -> TantivyIndex:
        if self._masks is not indexed.masks or (self._in_memory and self._count > end):
            self._index, self._count, self._masks = None, 0, indexed.masks
            self._in_memory = self._folder.path is None
        if self._index is None and not self._in_memory:
            self._open(indexed)
        if self._index is None or self._count < end:
            if not self._in_memory and not self._written(indexed, end):
                self._in_memory, self._index, self._count = True, None, 0
            if self._in_memory:
                self._index = self._index or TantivyIndex()
                self._add(self._index, indexed, end)
        assert self._index is not None
        return self._index

    def _open(self, indexed: Indexed) -> None:
        """Read what is there, if it is whole before and after it was opened."""
        self._index, self._count = None, 0
        if self._folder.found(indexed):
            with suppress(OSError, ValueError):
                index = TantivyIndex(self._folder.path)
                if self._folder.current(indexed) == self._folder.header:
                    self._index, self._count = index, self._folder.header.documents

    def _written(self, indexed: Indexed, end: int) -> bool:
        """Add to the files what is missing; False where that cannot be now."""
        folder = self._folder
        if not folder.keeps or folder.path is None:
            return False
        for _ in range(_TRIES):
            with folder.alone() as held:
                if held and not indexed.is_stale():
                    with suppress(OSError, ValueError):
                        self._add_in_place(folder.path, indexed, end)
                        return True
                    return False
            if not storage.holder(folder.path):
                return False
            time.sleep(_PAUSE_S)
        return False

    def _add_in_place(self, path: Path, indexed: Indexed, end: int) -> None:
        if self._folder.current(indexed) != self._folder.header or self._index is None:
            self._open(indexed)  # another process was here
        remove_strays(path, None if self._index is None else self._folder.header)
        if self._index is None:
            self._folder.header = EngineHeader(*self._folder.header.kind)
            self._index, self._count = TantivyIndex(path), 0
        if self._count < end:
            try:
                self._add(self._index, indexed, end)
                self._folder.put(self._index.write(path), end, indexed)
            except BaseException:  # half of it may be in: nothing of it counts
                self._index, self._count = None, 0
                raise

    def _add(self, index: TantivyIndex, indexed: Indexed, end: int) -> None:
        view = indexed.view()
        for doc, extra in indexed.words_beside(self._count, end):
            index.add(doc, view.text(doc), {"beside": extra})
        self._count = end


class VectorEngine:
    """usearch over the vectors of the plane's embedder, else of the static table.

    Vectors of a model are those that `embed` has made; the static table's are made here.
    """

    alike = True

    def __init__(
        self,
        path: Path | None,
        plane: str,
        variant: str,
        dense: Dense,
        *,
        keeps: bool,
        static: bool,
    ) -> None:
        """Raises MissingExtraError."""
        self._dense, self._static = dense, static
        kind = EngineKind(plane, variant, require_usearch(dense.embedder.name))
        self._folder = _Folder(path, kind, keeps=keeps)
        self._index: HNSWIndex | None = None
        self._count = self._unsaved = 0
        self._masks: object = None
        self._indexed: Indexed | None = None

    def follow(self, indexed: Indexed, near: QueryVectors | None) -> None:
        self._followed(indexed, self._end(indexed, near), near)

    def matches(
        self, query: str, k: int, indexed: Indexed, hidden: Array, near: QueryVectors | None
    ) -> Matches:
        end = self._end(indexed, near)
        index = self._followed(indexed, end, near)
        upto = min(end, len(hidden)) - 1
        hits: list[Hit] = []
        if upto >= 0:
            asked = self._dense.vector(query)
            hits = index.nearest(asked, k, upto=upto, masked=_masked(hidden))
        return engine_matches(hits, hidden)

    def _end(self, indexed: Indexed, near: QueryVectors | None) -> int:
        """How many documents have a vector, or get one here."""
        end = indexed.view().count
        return end if self._static else min(end, 0 if near is None else near.documents)

    def save(self) -> None:
        if self._unsaved >= _SAVED_AT_CLOSE:
            self._save()

    def _followed(self, indexed: Indexed, end: int, near: QueryVectors | None) -> HNSWIndex:
        if self._masks is not indexed.masks or (self._folder.path is None and self._count > end):
            self._index, self._masks, self._indexed = None, indexed.masks, indexed
        if self._index is None:
            self._index = self._opened(indexed)
        for start in range(self._count, end, _BATCH):
            docs = range(start, min(start + _BATCH, end))
            self._index.add_vectors(docs, self._vectors(indexed.view(), docs, near))
            self._count = docs.stop
            self._unsaved += len(docs)
        if self._unsaved >= _SAVED_AFTER:
            self._save()
        return self._index

    def _opened(self, indexed: Indexed) -> HNSWIndex:
        self._count = self._unsaved = 0
        for _ in range(2):  # a writer may replace the files while they are opened
            if self._folder.found(indexed) and self._folder.path is not None:
                with suppress(OSError, ValueError):
                    index = HNSWIndex(self._dense.embedder)
                    index.load(self._folder.path)
                    if self._folder.current(indexed) == self._folder.header:
                        self._count = self._folder.header.documents
                        return index
        return HNSWIndex(self._dense.embedder)

    def _vectors(self, view: IndexView, docs: range, near: QueryVectors | None) -> Sequence[bytes]:
        if near is not None and not self._static:
            return near.rows(docs)
        return self._dense.made([view.text(doc) for doc in docs])

    def _save(self) -> None:
        """Write the graph, where no other process has, and none of it is purged since."""
        indexed, folder, self._unsaved = self._indexed, self._folder, 0
        if folder.path is None or self._index is None or indexed is None:
            return
        with folder.alone() as held, suppress(OSError):
            there = folder.current(indexed)
            if not held or indexed.is_stale() or (there and there.documents >= self._count):
                return
            remove_strays(folder.path, folder.header if there else None)
            folder.put(self._index.write(folder.path), self._count, indexed)


def _masked(hidden: Array) -> frozenset[int]:
    return frozenset(hidden.nonzero()[0].tolist())


class _Folder:
    """The folder of an engine, and what of it was believed last. None: in memory alone."""

    def __init__(self, path: Path | None, kind: EngineKind, *, keeps: bool) -> None:
        self.path, self._kind, self.keeps = path, kind, keeps and path is not None
        self.header = EngineHeader(*kind)

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Hold the folder's lock, without waiting; False where it is held or cannot be written."""
        if self.path is None or not self.keeps:
            yield False
            return
        with suppress(OSError):
            nofollow.make_folder(self.path.parent)
        with storage.alone(self.path) as held:
            yield held

    def current(self, indexed: Indexed) -> EngineHeader | None:
        """The header, if it is of this log, these rules and behind every purge."""
        header = None if self.path is None else read_header(self.path)
        if header is None or header.kind != self._kind or header.erased != indexed.erased:
            return None
        if not header.documents or not indexed.holds(header.seq, header.mark):
            return None
        return header

    def found(self, indexed: Indexed) -> bool:
        """Whether there are files to open; what is said of them is then in `header`."""
        header = self.current(indexed)
        whole = self.path is not None and header is not None and has_its_files(self.path, header)
        self.header = header if whole and header is not None else EngineHeader(*self._kind)
        return whole

    def put(self, names: list[str], documents: int, indexed: Indexed) -> None:
        """Let the files count; hold the lock. Raises OSError."""
        assert self.path is not None
        header = self.header._replace(
            documents=documents, seq=indexed.seq, mark=indexed.mark, erased=indexed.erased
        )
        self.header = write_header(self.path, header, names)


class _Loaded(NamedTuple):
    """What was found, and how the files and the index were when it was looked for."""

    looked: tuple[object, ...]
    vectors: Vectors | None


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WriteError(f"{folder}: {error}; what was embedded before is kept") from error


def _folder_of(context: PlaneContext) -> Path:
    return context.home.path / "index" / storage.DENSE_FOLDER


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
