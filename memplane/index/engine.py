"""Other search engines behind the port `Index`, what they have in common, and their files.

`TantivyIndex` answers by words, `HNSWIndex` by vectors. An engine answers with documents and
scores; whose documents they are, who may see them and what a match is worth is not its business.
Its files lie in a folder of its own below the index's::

    engine.json     plane, variant, engine and how many documents it holds, with size and CRC-32 of
                    each of the other files; written last, and replaced in one step
    .lock           held while anything is written
    the rest        as the engine's library has it

Files of another plane, variant or version of the library, or with other bytes than the header says,
do not count: the folder is emptied, and the engine filled again from the log.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memplane import nofollow
from memplane.errors import MissingExtraError
from memplane.index import storage
from memplane.index.lexical import Matches
from memplane.index.numeric import np
from memplane.index.segment import Array
from memplane.index.vectors import MILLION, cosines
from memplane.lazy import NamedTuple, Protocol, late
from memplane.nofollow import read_bytes
from memplane.ports import ONE, Hit, Index

if TYPE_CHECKING:
    import tantivy
    import usearch
    import usearch.index as graphs

    from memplane.ports import Embedder
else:
    usearch = late("usearch")
    graphs = late("usearch.index")
    tantivy = late("tantivy")


TANTIVY: Final = "tantivy"
USEARCH: Final = "usearch"
ENGINES: Final = (TANTIVY, USEARCH)  # names in the policy, of the folders and of the extras
HEADER: Final = "engine.json"
GRAPH: Final = "graph.usearch"
FORMAT: Final = 1
# Each is raised whenever the same documents give other files.
_TANTIVY_USED: Final = 1
_USEARCH_USED: Final = 1
_MORE: Final = 64  # hits asked for beyond those wanted
_GROWTH: Final = 4
_TIES_MAX: Final = 2_000

_HEAP_BYTES: Final = 50_000_000
_WORD_BYTES: Final = 60
_TERMS_MAX: Final = 256  # of a query
_NO_FILES: Final = (".tantivy-", ".lock", HEADER)  # locks, and what is said of the files

_EXACT_BELOW: Final = 10_000
_SAMPLE_MAX: Final = 1_024
_FULL: Final = 4  # standard deviations that earn 2**20
_CONNECTIVITY: Final = 16  # M of the paper
_EXPANSION_ADD: Final = 64  # efConstruction
_EXPANSION_SEARCH: Final = 128  # ef, at least; so many as are wanted where that is more


class EngineKind(NamedTuple):
    """Whose documents a folder holds; `variant` names all that decides which a log gives.

    `engine`: the library, its version and how it is used.
    """

    plane: str
    variant: str
    engine: str


class EngineHeader(NamedTuple):
    """The first `documents` of an index are in the files.

    The index went up to event `seq` then, of whose place in the log `mark` is the caller's word,
    and `erased` was its; `files` has the size and CRC-32 of each.
    """

    plane: str
    variant: str
    engine: str
    documents: int = 0
    seq: int = 0
    mark: str = ""
    erased: int = 0
    files: dict[str, list[int]] = {}  # noqa: RUF012 - read only

    @property
    def kind(self) -> EngineKind:
        """Whose they are."""
        return EngineKind(*self[:3])


class KeptIndex(Index, Protocol):
    """An engine that can leave what it holds in a folder."""

    def write(self, folder: Path) -> list[str]:
        """Write all that was added; return the names of the files. Raises OSError, ValueError."""


def require_tantivy() -> str:
    """Return what headers call the engine: version and format; raises MissingExtraError."""
    try:
        return f"{tantivy.tantivy.__version__} {_TANTIVY_USED}"
    except ImportError:
        raise MissingExtraError("`index.engine: tantivy`", TANTIVY) from None


class TantivyIndex:
    """BM25 by the library Tantivy: an `Index` in a folder, or in memory alone (no folder).

    One thread at a time. Words are what stands between characters that are neither letters nor
    digits, in small letters, without accents and English endings; English words without content are
    left out. So a text in a script without blanks is found by whole runs of letters alone.

    What was added is found after a commit, which the next search makes: in a folder some 50 ms.
    Statistics are those of all documents there are, later and masked ones too. A folder has to be
    entered by nobody else, and to hold an index of this version or nothing.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Open what is in the folder; raises MissingExtraError, ValueError, OSError."""
        require_tantivy()
        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("seq", stored=False, indexed=False, fast=True)
        builder.add_text_field("text", stored=False, tokenizer_name="memplane", index_option="freq")
        self._schema = builder.build()
        self._analyser = _analyser()
        self._index = (
            tantivy.Index(self._schema)
            if folder is None
            else tantivy.Index(self._schema, path=str(folder))
        )
        self._index.register_tokenizer("memplane", self._analyser)
        self._added: list[tuple[int, str]] = []

    def add(self, seq: int, text: str, fields: Mapping[str, str]) -> None:
        said = " ".join((text, *(fields[name] for name in sorted(fields))))
        self._added.append((seq, said))

    def search(self, query: str, k: int, *, upto: int, masked: frozenset[int]) -> list[Hit]:
        self._commit()
        words = list(dict.fromkeys(self._analyser.analyze(query)))[:_TERMS_MAX]
        if not words:
            return []
        asked = tantivy.Query.boolean_query(
            [
                (
                    tantivy.Occur.Should,
                    tantivy.Query.term_query(self._schema, "text", word, "freq"),
                )
                for word in words
            ]
        )
        searcher = self._index.searcher()

        def ask(most: int) -> tuple[Array, Array]:
            found = searcher.search(asked, most, count=False).hits
            seqs = searcher.fast_field_values("seq", [place for _, place in found])
            scores = np.array([score for score, _ in found], np.float64)
            return np.array(seqs, np.int64), np.rint(scores * ONE).astype(np.int64)

        return best_hits(ask, k, upto=upto, masked=masked, total=searcher.num_docs)

    def write(self, folder: Path) -> list[str]:
        self._commit()
        return [name for name in nofollow.folder_names(folder) if not name.startswith(_NO_FILES)]

    def _commit(self) -> None:
        if not self._added:
            return
        # One thread, so that the same documents give the same segments.
        writer = self._index.writer(_HEAP_BYTES, 1)
        for seq, said in self._added:
            document = tantivy.Document()
            document.add_integer("seq", seq)
            document.add_text("text", said)
            writer.add_document(document)
        writer.commit()
        writer.garbage_collect_files()
        writer.wait_merging_threads()
        self._index.reload()
        self._added = []


def _analyser() -> tantivy.TextAnalyzer:
    every = (
        tantivy.Filter.remove_long(_WORD_BYTES),
        tantivy.Filter.lowercase(),
        tantivy.Filter.ascii_fold(),
        tantivy.Filter.stopword("english"),
        tantivy.Filter.stemmer("english"),
    )
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    for one in every:
        builder = builder.filter(one)
    return builder.build()


def require_usearch(embedder: str) -> str:
    """Return what headers call the engine: version and vectors; raises MissingExtraError."""
    try:
        version = usearch.__version__
    except ImportError:
        raise MissingExtraError("`index.engine: usearch`", USEARCH) from None
    return f"{version} {_USEARCH_USED} {embedder}"


class HNSWIndex:
    """An `Index` by the cosine of vectors, in memory, with the library usearch.

    The graph is a hierarchical navigable small world (Malkov and Yashunin 2018): beyond 10,000
    documents what is found is approximate, and depends on the order and the sessions in which
    documents were added. Below that all vectors are compared, which takes a millisecond. One thread
    at a time.

    Texts are embedded at the next search, fields are not. A document without a vector is not found.
    """

    def __init__(self, embedder: Embedder, *, exact_below: int = _EXACT_BELOW) -> None:
        """Begin without documents; raises MissingExtraError.

        Of fewer than `exact_below` documents all are compared.
        """
        require_usearch(embedder.name)
        self._exact_below = exact_below
        self._embedder = embedder
        self._graph = graphs.Index(
            ndim=embedder.dimension,
            metric="cos",
            dtype="i8",
            connectivity=_CONNECTIVITY,
            expansion_add=_EXPANSION_ADD,
            expansion_search=_EXPANSION_SEARCH,
        )
        self._texts: list[tuple[int, str]] = []
        self._seqs = np.zeros(0, np.uint64)  # of those with a vector, rising
        self._sample: Array | None = None  # of their vectors, until one is added

    def load(self, folder: Path) -> None:
        """Take up what `write` left; raises OSError, ValueError."""
        try:
            self._graph.load(read_bytes(folder / GRAPH))
        except RuntimeError as error:
            raise ValueError(f"{folder / GRAPH}: {error}") from error
        if self._graph.ndim != self._embedder.dimension:
            raise ValueError(f"{folder / GRAPH}: vectors of {self._graph.ndim} components")
        self._seqs, self._sample = np.sort(np.array(self._graph.keys[:], np.uint64)), None

    def write(self, folder: Path) -> list[str]:
        self._embed()
        storage.replace_bytes(folder / GRAPH, self._graph.save() or b"", sync=True)
        return [GRAPH]

    def add(self, seq: int, text: str, fields: Mapping[str, str]) -> None:
        del fields
        if text.strip():
            self._texts.append((seq, text))

    def add_vectors(self, seqs: Sequence[int], vectors: Sequence[bytes]) -> None:
        """Add documents by their vectors, each of `dimension` signed bytes; zeros for none."""
        rows = np.frombuffer(b"".join(vectors), np.int8).reshape(-1, self._embedder.dimension)
        there = rows.any(axis=1)
        if there.any():
            keys = np.array(seqs, np.uint64)[there]
            self._graph.add(keys, rows[there], threads=1)  # several would make another graph
            self._seqs, self._sample = np.concatenate((self._seqs, keys)), None

    def search(self, query: str, k: int, *, upto: int, masked: frozenset[int]) -> list[Hit]:
        if not query.strip():
            return []
        return self.nearest(self._embedder.embed([query])[0], k, upto=upto, masked=masked)

    def nearest(self, vector: bytes, k: int, *, upto: int, masked: frozenset[int]) -> list[Hit]:
        """As `search`, by the vector of a query.

        Of the documents that are more similar to it than the mean. A score is by how many standard
        deviations, four of them 2**20; where all are equally similar, the cosine in 2**-20.
        """
        self._embed()
        asked = np.frombuffer(vector, np.int8)
        total = len(self._graph)
        if not total or not asked.any():
            return []
        mean, spread = self._usual(vector)

        def ask(most: int) -> tuple[Array, Array]:
            exact = total < self._exact_below
            found = self._graph.search(asked, most, threads=1, exact=exact)
            millionths = np.rint((1.0 - found.distances.astype(np.float64)) * MILLION) - mean
            return found.keys.astype(np.int64), np.rint(millionths * (ONE / spread)).astype(
                np.int64
            )

        every = best_hits(ask, k, upto=upto, masked=masked, total=total)
        return [hit for hit in every if hit.score > 0]

    def _usual(self, vector: bytes) -> tuple[int, int]:
        """The mean of the cosines with a query, and four of their standard deviations: millionths.

        Of at most 1,024 documents, spread evenly; 0 and a million where they are all alike.
        """
        if self._sample is None:
            step = -(-len(self._seqs) // _SAMPLE_MAX)
            rows: Any = self._graph.get(self._seqs[::step], dtype="i8")
            self._sample = np.vstack(rows)
        found = cosines(self._sample, np.frombuffer(vector, np.int8).reshape(1, -1))
        count, total = found.size, int(found.sum())
        spread = isqrt(count * int((found * found).sum()) - total * total) // count
        return (total // count, spread * _FULL) if spread else (0, MILLION)

    def _embed(self) -> None:
        if self._texts:
            seqs, texts = zip(*self._texts, strict=True)
            self._texts = []
            self.add_vectors(seqs, self._embedder.embed(texts))


def read_header(folder: Path) -> EngineHeader | None:
    """Return what is said of the files; None where nothing is."""
    fields = storage.signed_fields(folder / HEADER)
    if fields is None or fields.pop("format", None) != FORMAT:
        return None
    try:
        header = EngineHeader(**fields)  # type: ignore[arg-type]
    except TypeError:
        return None
    return header if isinstance(header.files, dict) else None


def has_its_files(folder: Path, header: EngineHeader) -> bool:
    """Whether the files have the bytes that were written."""
    try:
        return all(_sum(folder / name) == said for name, said in header.files.items())
    except (OSError, ValueError):
        return False


def write_header(folder: Path, header: EngineHeader, names: Sequence[str]) -> EngineHeader:
    """Let these files count from now on, and remove all others; hold the folder's lock.

    The sums of files that `header` names already are taken from there, unless their size changed
    or they are replaced by each write (`.json`).
    """
    known = header.files
    files = {}
    for name in sorted(names):
        said = known.get(name)
        fixed = said is not None and not name.endswith(".json")
        size = (folder / name).lstat().st_size
        files[name] = said if fixed and said and said[0] == size else _sum(folder / name)
    made = header._replace(files=files)
    storage.replace_bytes(folder / HEADER, storage.signed({"format": FORMAT} | made._asdict()))
    return made


def remove_strays(folder: Path, header: EngineHeader | None) -> None:
    """Remove what the header does not name; hold the folder's lock. Raises OSError."""
    counted = {".lock"} if header is None else {".lock", HEADER, *header.files}
    for name in nofollow.folder_names(folder):
        if name not in counted:
            try:
                nofollow.remove_name(folder / name)
            except IsADirectoryError:
                nofollow.remove_tree(folder / name)


def discard_engines(index: Path, erased: int | None = None) -> bool:
    """Empty the engines' folders in that of an index; return whether nothing of them is left.

    With `erased`, that of the index now, those that are behind fewer purges, or are not whole.
    """
    left = False
    for name in ENGINES:
        folder = index / name
        if not nofollow.folder_names(folder):
            continue
        with storage.alone(folder) as held:
            header = read_header(folder)
            if erased is not None and header is not None and header.erased >= erased:
                continue
            try:
                if held:
                    remove_strays(folder, None)
                left = left or not held
            except OSError:
                left = True
    return not left


def _sum(path: Path) -> list[int]:
    with nofollow.open_regular(path) as file:
        data = nofollow.map_file(file) if path.lstat().st_size else b""
        return [len(data), zlib.crc32(data)]


def best_hits(
    ask: Callable[[int], tuple[Array, Array]],
    k: int,
    *,
    upto: int,
    masked: Collection[int],
    total: int,
) -> list[Hit]:
    """Return the k best of what an engine finds, without what is later or masked.

    For engines that know no masks: `ask` gives the seqs and scores of its so many best of `total`
    documents, and is asked for more until enough of them may be shown. Ties go to the newer, also
    where what is left out ties with the last, up to 2,000 hits.
    """
    wanted, gone = k + _MORE, np.array(sorted(masked), np.int64)
    while k > 0 and total > 0:
        seqs, scores = ask(min(wanted, total))
        seen = (seqs <= upto) & ~np.isin(seqs, gone)
        whole = len(seqs) < wanted or wanted >= total
        seqs, scores = seqs[seen], scores[seen]
        order = np.lexsort((-seqs, -scores))
        enough = len(order) >= k and wanted * _GROWTH > _TIES_MAX
        if whole or enough or (len(order) > k and scores[order[k]] < scores[order[k - 1]]):
            best = order[:k]
            return list(map(Hit, seqs[best].tolist(), scores[best].tolist()))
        wanted *= _GROWTH
    return []


def engine_matches(hits: Sequence[Hit], hidden: Array) -> Matches:
    """Return an engine's documents as matches, whose words earn what the engine gave them.

    All count as having all words. What is hidden is none, whatever the engine answered.
    """
    pairs = sorted((hit.seq, hit.score) for hit in hits if 0 <= hit.seq < len(hidden))
    docs = np.array([doc for doc, _ in pairs], np.int32)
    scores = np.array([score for _, score in pairs], np.float64)
    seen = ~hidden[docs]
    docs = docs[seen]
    return Matches(docs, scores[seen], np.ones(len(docs)))
