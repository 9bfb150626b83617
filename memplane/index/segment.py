"""Segments of the index in arrays: built from documents, merged from neighbours, or mapped.

`build_segment` makes one of a batch of documents, `merge_segments` one of several that follow each
other, `erase_documents` one with some documents blank; the bytes are those that building from the
documents gives. `Live` holds the newest documents, fewer than 256, each found as soon as it is
added.

Of each document a segment keeps the kinds of things that its text names, as bits of its `traits`,
and three bits beside: whether it asks something, whether it speaks of its writer (I, we), and
whether it names a time or has a number. "Which pets does Ana have?" shares no word with "We adopted
a pup", but a table (`KindTable`) says of some thousands of nouns of which kinds they are (a pup is
an animal), and by which words a question asks for a kind (`asked_kinds`). It is derived from
WordNet (Miller 1995) by `tools/build_kinds.py`; there is a table a language, and all have the same
kinds.

The table, `data/kinds-en.bin`, is `KINDS_MAGIC`, a line of JSON, and a deflated text. The JSON has
`language`, `source`, `kinds` (their names, in the order of `THINGS`), `asked` (a regular expression
a kind), `person` and `time` (words), `words` (their number) and `sha256` of the deflated text. Each
line of the text is bits as a hexadecimal number, then words of these kinds, rising. A word with a
capital counts only with it.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import HomeError, InputError
from memplane.index import storage, terms
from memplane.index.numeric import NDArray, np
from memplane.index.terms import KINDS, ROLES, Document
from memplane.kernel import kernel_twin
from memplane.lazy import NamedTuple, regex, word_table

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable


Array = NDArray[Any]
LENGTHS: Final = KINDS[:3]  # labels have no length
TIMES_MAX: Final = 255
SHORT_MAX: Final = (1 << 16) - 1
_ROLE: Final = {role: place for place, role in enumerate(ROLES)}
_READ: Final = (*LENGTHS, "traits")  # from the text
ROW: Final = tuple(name for name, _ in storage.COLUMNS if name not in _READ)
_NUMBER_BYTES: Final = 4
_TERM_BYTES: Final = 8
_STRIPE: Final = 1 << 18
_FANOUT: Final = 4

KINDS_MAGIC: Final = b"memplane kinds 1\n"
THINGS: Final = word_table("""
    hobby sport place food pet health book film music person job feeling family clothes study game
    thing event weather art goal charity
""")
ASKING: Final = 1 << 29  # a text with a question mark
PERSONAL: Final = 1 << 30  # a text that speaks of its writer
TIMED: Final = 1 << 31  # one that names a time or has a number
_FILES: Final = ("kinds-en.bin",)
_HEADER_MAX: Final = 16_384
_TEXT_MAX: Final = 1 << 22
_DIGIT: Final = regex(r"\d")
_PLURALS: Final = (("s", ""), ("es", ""), ("ies", "y"), ("ves", "f"))


class Postings(NamedTuple):
    """Terms of all kinds, sorted: the postings of terms[i] are starts[i] to starts[i + 1]."""

    terms: Array
    starts: Array
    docs: Array  # numbered within the segment
    times: Array


class TermTables:
    """Where terms have their postings in some segments; the twin of that in the kernel.

    `tables` are the terms and starts of each, as in `Postings`.
    """

    def __init__(self, tables: tuple[tuple[Array, Array], ...], /) -> None:
        self._tables = tables

    def of(self, wanted: Array, /) -> Array:
        """Return i64 rows of (table, place in `wanted`, begin, end), of what is there, in order."""
        rows = [np.zeros((0, 4), np.int64)]
        for at, (terms_, starts) in enumerate(self._tables):
            if len(terms_):
                places = terms_.searchsorted(wanted)
                hits = (terms_.take(places, mode="clip") == wanted).nonzero()[0]
                found = places[hits]
                columns = np.full(len(hits), at), hits, starts[found], starts[found + 1]
                rows.append(np.array(columns, np.int64).T)
        return np.concatenate(rows)


class Pieces(NamedTuple):
    """Bytes of each document, one after another: those of i are data[starts[i]:starts[i + 1]]."""

    starts: Array
    data: bytes | memoryview

    @classmethod
    def of(cls, pieces: Sequence[bytes]) -> Pieces:
        """Lay pieces side by side."""
        return cls.laid(b"".join(pieces), np.fromiter(map(len, pieces), np.int64, len(pieces)))

    @classmethod
    def laid(cls, data: bytes, lengths: Array) -> Pieces:
        """Pieces of these lengths that lie side by side already."""
        starts = np.zeros(len(lengths) + 1, np.uint32)
        np.cumsum(lengths, out=starts[1:])
        return cls(starts, data)

    def of_document(self, place: int) -> bytes:
        """Return the bytes of a document."""
        start, end = self.starts[place : place + 2].tolist()
        return bytes(self.data[start:end])


class IndexSegment(NamedTuple):
    """Documents `first` to `first + size`, and what they hold."""

    first: int
    size: int
    postings: Postings
    columns: Mapping[str, Array]
    texts: Pieces
    kept: Pieces
    totals: tuple[int, ...]

    def text(self, place: int) -> str:
        """Return the text of a document, numbered within the segment; as `storage.stored_text`."""
        return storage.stored_text(self.texts.of_document(place))


def totals(columns: Mapping[str, Array]) -> tuple[int, ...]:
    """Return the sums of the lengths, as integers."""
    return tuple(int(columns[name].sum(dtype=np.int64)) for name in LENGTHS)


def encode_segment(segment: IndexSegment, level: int, mark: int) -> memoryview:
    """Return the bytes of the file of a segment."""
    header = storage.SegmentFileHeader(
        level,
        segment.first // storage.CAPACITIES[level],
        mark,
        segment.size,
        len(segment.texts.data),
        len(segment.postings.terms),
        len(segment.postings.docs),
        segment.totals,
        len(segment.kept.data),
    )
    places, size = storage.sections(header)
    arrays: dict[str, Array] = {}
    for name, pieces in (("text", segment.texts), ("kept", segment.kept)):
        arrays[f"{name}.starts"] = pieces.starts
        arrays[name] = np.frombuffer(pieces.data, np.uint8)
    arrays.update(segment.columns)
    arrays.update(segment.postings._asdict())
    data = np.zeros(size, np.uint8)
    for section in places.values():
        view = data[section.offset :].view(np.uint8)
        bytes_ = np.ascontiguousarray(arrays[section.name], "<" + section.code).view(np.uint8)
        view[: len(bytes_)] = bytes_
    body = storage.body_sum(data[storage.HEADER_BYTES :].data)
    begun = storage.encode_header(header._replace(body=body))
    data[: storage.HEADER_BYTES] = np.frombuffer(begun, np.uint8)
    return data.data


def decode_segment(
    data: storage.Buffer, header: storage.SegmentFileHeader, first: int
) -> IndexSegment:
    """Return the arrays of a file; they are views, nothing is copied or read ahead."""
    places, _ = storage.sections(header)

    def array(name: str) -> Array:
        section = places[name]
        return np.frombuffer(data, "<" + section.code, section.length, section.offset)

    postings = Postings(*map(array, Postings._fields))
    columns = {name: array(name) for name, _ in storage.COLUMNS}
    texts, kept = (
        Pieces(array(f"{name}.starts"), memoryview(data)[start : start + places[name].length])
        for name, start in (("text", places["text"].offset), ("kept", places["kept"].offset))
    )
    return IndexSegment(first, header.documents, postings, columns, texts, kept, header.totals)


def ranges(starts: Array, counts: Array) -> Array:
    """Return starts[0], starts[0] + 1, … (counts[0] of them), then those of starts[1], …."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    found: Array = np.arange(total) + np.repeat(starts - ends + counts, counts)
    return found


def _mix(low: Array, high: Array) -> Array:
    """Give the bigrams of words pair by pair; the same numbers as `terms.mix`."""
    return np.minimum(low, high) * np.uint64(terms.MIX) + np.maximum(low, high)


class Analysed(NamedTuple):
    """A document and the numbers that a vocabulary has for its text and its extra, as bytes."""

    document: Document
    text: bytes
    extra: bytes


def analysed(document: Document, vocabulary: terms.TermVocabulary) -> Analysed:
    """Look the words of a document up."""
    numbers = vocabulary.packed_numbers
    return Analysed(document, numbers(document.text), numbers(document.extra))


VocabularyColumns = tuple["array[int]", "array[int]", "array[int]", "array[int]"]


class PostingLists:
    """The postings of documents by the numbers of their words. Its twin is in `_kernel.c`.

    Words are numbers of a vocabulary's flat columns: one costs a look-up in a dictionary and a few
    steps of array arithmetic.
    """

    __slots__ = ()

    def of(
        self,
        numbers: bytes,
        lengths: bytes,
        columns: VocabularyColumns,
        labels: bytes,
        label_docs: bytes,
    ) -> tuple[tuple[bytes, bytes, bytes, bytes], bytes]:
        """The columns of `Postings`, and of each field of `LENGTHS` how many each document has.

        `numbers` (u32) are of runs of these `lengths` (u32), two of a document: its text and what
        stands beside it. `columns` are the starts, words, prefixes and chained of a vocabulary.
        `labels` (u64) are terms beside, each of its document (u32).
        """
        sizes = np.frombuffer(lengths, np.uint32)
        kinds = _occurrences(np.frombuffer(numbers, np.uint32), sizes, columns)
        kinds.append((np.frombuffer(labels, np.uint64), np.frombuffer(label_docs, np.uint32)))
        found, docs = (np.concatenate(parts) for parts in zip(*kinds, strict=True))
        counted = [np.bincount(own, minlength=len(sizes) // 2) for _, own in kinds[:3]]
        terms_, starts, places, times = (one.tobytes() for one in _grouped(found, docs))
        return (terms_, starts, places, times), np.array(counted, np.uint32).tobytes()


_LISTS: Final = kernel_twin(PostingLists)()


def _occurrences(
    numbers: Array, lengths: Array, columns: VocabularyColumns
) -> list[tuple[Array, Array]]:
    """The words, bigrams and prefixes of the runs, and the document of each, in order."""
    all_starts, all_words, all_prefixes, all_chained = columns
    picked = numbers.astype(np.int64)
    # The columns grow with the next word: nothing may hold on to their memory.
    starts = np.frombuffer(all_starts, np.uint32)
    firsts = starts[picked].astype(np.int64)
    counts = starts[picked + 1] - firsts
    del starts
    atoms = ranges(firsts, counts)
    runs = np.repeat(np.repeat(np.arange(len(lengths)), lengths), counts)

    words, prefixes = _picked(all_words, atoms), _picked(all_prefixes, atoms)
    chained = _picked(all_chained, atoms).astype(bool)
    links, chain_runs = words[chained], runs[chained]
    together = chain_runs[1:] == chain_runs[:-1]
    return [
        (words, runs >> 1),
        (_mix(links[:-1][together], links[1:][together]), chain_runs[1:][together] >> 1),
        (prefixes[prefixes > 0], runs[prefixes > 0] >> 1),
    ]


def _picked(column: array[int], places: Array) -> Array:
    if not len(column):
        return np.zeros(0, column.typecode)
    found: Array = np.frombuffer(column, column.typecode)[places]
    return found


def _labels(documents: Sequence[Analysed]) -> tuple[bytes, bytes]:
    """The terms of all labels, and the document of each."""
    found = [_label_terms(document.labels, document.group) for document, _, _ in documents]
    counts = np.fromiter(map(len, found), np.int64, len(found)) // _TERM_BYTES
    return b"".join(found), np.arange(len(found), dtype=np.uint32).repeat(counts).tobytes()


@lru_cache(maxsize=4_096)
def _label_terms(labels: tuple[str, ...], group: str) -> bytes:
    """The terms of a document's labels: those of a session share them, but for files and keys."""
    names = (*labels, group) if group else labels
    return array("Q", map(terms.exact_term, names)).tobytes()


def _grouped(found: Array, docs: Array) -> tuple[Array, Array, Array, Array]:
    """Group occurrences by term and document."""
    # Stable, and the documents of each kind rise: so do those of each term.
    order = np.argsort(found, kind="stable")
    found, docs = found[order], docs[order]
    fresh = np.ones(len(found), bool)
    np.not_equal(found[1:], found[:-1], out=fresh[1:])
    begins = fresh.copy()
    begins[1:] |= docs[1:] != docs[:-1]
    first = np.flatnonzero(begins)
    times = np.diff(first, append=len(found))
    starts = np.append(np.flatnonzero(fresh[first]), len(first))
    return (
        found[fresh],
        starts.astype(np.uint32),
        docs[first].astype(np.uint16),
        np.minimum(times, TIMES_MAX).astype(np.uint8),
    )


def _postings_of(
    documents: Sequence[Analysed], vocabulary: terms.TermVocabulary
) -> tuple[Postings, Array]:
    """The postings of documents, and their lengths in words, bigrams and prefixes."""
    runs = [run for _, *both in documents for run in both]
    columns = vocabulary.starts, vocabulary.words, vocabulary.prefixes, vocabulary.chained
    labels, label_docs = _labels(documents)
    (found, starts, docs, times), lengths = _LISTS.of(
        b"".join(runs),
        array("I", [len(run) // _NUMBER_BYTES for run in runs]).tobytes(),
        columns,
        labels,
        label_docs,
    )
    return (
        Postings(
            np.frombuffer(found, np.uint64),
            np.frombuffer(starts, np.uint32),
            np.frombuffer(docs, np.uint16),
            np.frombuffer(times, np.uint8),
        ),
        np.frombuffer(lengths, np.uint32).reshape(len(LENGTHS), len(documents)),
    )


def row(document: Document) -> tuple[int, ...]:
    """Return what the columns say of a document, in the order of `ROW`; no lengths."""
    return (
        document.seq,
        document.at,
        terms.exact_term(document.group) if document.group else 0,
        terms.exact_term(document.speaker) if document.speaker else 0,
        document.name,
        min(document.tokens, SHORT_MAX),
        document.importance,
        document.flags & SHORT_MAX,
        document.part & SHORT_MAX,
        _ROLE.get(document.role, 0),
    )


def _traits(documents: Sequence[Analysed], vocabulary: terms.TermVocabulary) -> Array:
    """Return the bits of all tokens of each text, and whether it asks something."""
    found = np.zeros(len(documents), np.uint32)
    lengths = np.fromiter((len(one.text) for one in documents), np.int64, len(documents))
    lengths //= _NUMBER_BYTES
    picked = np.frombuffer(b"".join([one.text for one in documents]), np.uint32)
    if len(picked) and len(vocabulary.traits):
        own = _picked(vocabulary.traits, picked)
        filled = lengths > 0
        starts = (np.cumsum(lengths) - lengths)[filled]
        found[filled] = np.bitwise_or.reduceat(own, starts)
    asking = np.fromiter(("?" in one.document.text for one in documents), bool, len(documents))
    found[asking] |= np.uint32(ASKING)
    return found


def _rows(documents: Sequence[Document]) -> dict[str, Any]:
    """What `row` says of each document, by column: to make the rows costs three times as much."""
    named = Document._fields
    found = zip(*documents, strict=True) if documents else ((),) * len(named)
    fields = dict(zip(named, found, strict=True))
    exact, role = terms.exact_term, _ROLE.get
    return {
        "seq": fields["seq"],
        "at": fields["at"],
        "group": [exact(one) if one else 0 for one in fields["group"]],
        "speaker": [exact(one) if one else 0 for one in fields["speaker"]],
        "name": fields["name"],
        "tokens": [min(one, SHORT_MAX) for one in fields["tokens"]],
        "importance": fields["importance"],
        "flags": [one & SHORT_MAX for one in fields["flags"]],
        "part": [one & SHORT_MAX for one in fields["part"]],
        "role": [role(one, 0) for one in fields["role"]],
    }


def columns_of(
    documents: Sequence[Document], lengths: Iterable[Array], traits: Array
) -> dict[str, Array]:
    """Return the columns of the documents, given what was read from their texts.

    Their lengths in words, bigrams and prefixes, and their traits.
    """
    values = _rows(documents)
    for name, length in zip(LENGTHS, lengths, strict=True):
        values[name] = np.minimum(length, SHORT_MAX)
    values["traits"] = traits
    return {name: np.array(values[name], "<" + code) for name, code in storage.COLUMNS}


def build_segment(
    documents: Iterable[Document], first: int, vocabulary: terms.TermVocabulary
) -> IndexSegment:
    """Return the segment of the documents, of which the first has the number `first`."""
    return build_of([analysed(document, vocabulary) for document in documents], first, vocabulary)


def build_of(
    found: Sequence[Analysed], first: int, vocabulary: terms.TermVocabulary
) -> IndexSegment:
    """Return the same of documents that the vocabulary has looked up."""
    documents = [one.document for one in found]
    postings, lengths = _postings_of(found, vocabulary)
    columns = columns_of(documents, lengths, _traits(found, vocabulary))
    texts = [document.text.encode("utf-8", "surrogatepass") for document in documents]
    return IndexSegment(
        first,
        len(documents),
        postings,
        columns,
        Pieces.of(texts),
        Pieces.of([document.kept for document in documents]),
        totals(columns),
    )


def _merge_postings(parts: Sequence[Postings], offsets: Sequence[int]) -> Postings:
    # Stripe by stripe of the terms, which are spread evenly: what lies in memory beside the
    # result stays small.
    count = sum(len(part.terms) for part in parts) // _STRIPE + 1
    bounds = np.array([(number << 64) // count for number in range(1, count)], np.uint64)
    cuts = [[0, *part.terms.searchsorted(bounds).tolist(), len(part.terms)] for part in parts]
    stripes: list[Postings] = []
    base = 0
    for number in range(count):
        stripe = _stripe(
            [
                _between(part, offset, cut[number], cut[number + 1])
                for part, offset, cut in zip(parts, offsets, cuts, strict=True)
            ]
        )
        stripes.append(stripe._replace(starts=(stripe.starts + base).astype(np.uint32)))
        base += len(stripe.docs)
    found, starts, docs, times = map(np.concatenate, zip(*stripes, strict=True))
    return Postings(found, np.append(starts, np.uint32(base)), docs, times)


def _between(part: Postings, offset: int, start: int, end: int) -> Postings:
    """The terms from `start` to before `end`, documents moved up by the offset."""
    starts = part.starts[start : end + 1]
    first, last = int(starts[0]), int(starts[-1])
    docs = part.docs[first:last] + np.array(offset, part.docs.dtype)
    return Postings(part.terms[start:end], starts, docs, part.times[first:last])


def _stripe(parts: Sequence[Postings]) -> Postings:
    """One of them all; `starts` has no end."""
    terms = np.concatenate([part.terms for part in parts])
    counts = np.concatenate([np.diff(part.starts) for part in parts]).astype(np.int64)
    # Stable: of one term, the postings of earlier segments come first.
    order = np.argsort(terms, kind="stable")
    terms, sizes = terms[order], counts[order]
    picked = ranges((np.cumsum(counts) - counts)[order], sizes)
    fresh = np.ones(len(terms), bool)
    np.not_equal(terms[1:], terms[:-1], out=fresh[1:])
    docs = np.concatenate([part.docs for part in parts])[picked]
    times = np.concatenate([part.times for part in parts])[picked]
    return Postings(terms[fresh], (np.cumsum(sizes) - sizes)[fresh], docs, times)


def merge_segments(parts: Sequence[IndexSegment]) -> IndexSegment:
    """Return one segment of the documents of all parts, which follow each other."""
    offsets = [part.first - parts[0].first for part in parts]
    postings = _merge_postings([part.postings for part in parts], offsets)
    columns = {
        name: np.concatenate([part.columns[name] for part in parts]) for name, _ in storage.COLUMNS
    }
    return IndexSegment(
        parts[0].first,
        sum(part.size for part in parts),
        postings,
        columns,
        _joined([part.texts for part in parts]),
        _joined([part.kept for part in parts]),
        totals(columns),
    )


def _joined(parts: Sequence[Pieces]) -> Pieces:
    lengths = np.concatenate([np.diff(part.starts) for part in parts])
    return Pieces.laid(b"".join(part.data for part in parts), lengths)


def _emptied(pieces: Pieces, gone: Array) -> Pieces:
    lengths = np.diff(pieces.starts).astype(np.int64)
    kept = np.frombuffer(pieces.data, np.uint8)[np.repeat(~gone, lengths)]
    return Pieces.laid(kept.tobytes(), np.where(gone, 0, lengths))


def _without(part: Postings, gone: Array) -> Postings:
    kept = ~gone[part.docs]
    ends = np.concatenate(([0], np.cumsum(kept)))
    starts = ends[part.starts]
    alive = np.flatnonzero(np.diff(starts))
    return Postings(
        part.terms[alive],
        np.append(starts[alive], ends[-1]).astype(np.uint32),
        part.docs[kept],
        part.times[kept],
    )


def erase_documents(segment: IndexSegment, gone: Array) -> IndexSegment:
    """Return the segment with blank documents in the slots where `gone` is true."""
    columns = {name: values.copy() for name, values in segment.columns.items()}
    for name, values in columns.items():
        if name not in {"seq", "part"}:
            values[gone] = 0
    return IndexSegment(
        segment.first,
        segment.size,
        _without(segment.postings, gone),
        columns,
        _emptied(segment.texts, gone),
        _emptied(segment.kept, gone),
        totals(columns),
    )


class Live:
    """Documents `first` and on; at most 256 of them.

    To add one looks its words up, no more. Whoever asks next puts what came since into a segment of
    its own, and small segments together, so that there are never more than a dozen.
    """

    def __init__(self, first: int) -> None:
        self.first = first
        self.documents: list[Document] = []
        self._waiting: list[Analysed] = []
        self._segments: list[IndexSegment] = []

    @property
    def size(self) -> int:
        """How many documents there are."""
        return len(self.documents)

    def add(self, document: Document, vocabulary: terms.TermVocabulary) -> None:
        """Take a document in behind the others; always with the same vocabulary."""
        self._waiting.append(analysed(document, vocabulary))
        self.documents.append(document)

    def segments(self, vocabulary: terms.TermVocabulary) -> list[IndexSegment]:
        """Return the documents in a few segments, in order."""
        if self._waiting:
            start = self.first + self.size - len(self._waiting)
            self._segments.append(build_of(self._waiting, start, vocabulary))
            self._waiting = []
            while _crowded(self._segments):
                self._segments[-_FANOUT:] = [merge_segments(self._segments[-_FANOUT:])]
        return list(self._segments)


def _crowded(segments: list[IndexSegment]) -> bool:
    """Whether the first of the last four has not four times as many documents as another."""
    if len(segments) < _FANOUT:
        return False
    tiers = [(segment.size.bit_length() - 1) // 2 for segment in segments[-_FANOUT:]]
    return tiers[0] <= max(tiers[1:])


class KindTable:
    """The kinds of words of one language, over the bytes of the file; threads may share it."""

    def __init__(self, data: bytes) -> None:
        """Raise InputError where the bytes are not whole, or of other kinds."""
        end = data[:_HEADER_MAX].find(b"\n", len(KINDS_MAGIC)) + 1
        if data[: len(KINDS_MAGIC)] != KINDS_MAGIC or not end:
            raise InputError("this is no table of kinds of format 1", where="kinds")
        header = json.loads(data[len(KINDS_MAGIC) : end])
        body = data[end:]
        if hashlib.sha256(body).hexdigest() != header["sha256"] or tuple(header["kinds"]) != THINGS:
            raise InputError("the table of kinds is not whole", where="kinds")
        self.language: str = header["language"]
        self.asked: dict[str, str] = header["asked"]
        self._words: dict[str, int] = {}
        text = zlib.decompressobj().decompress(body, _TEXT_MAX).decode()
        for line in text.splitlines():
            bits, *words = line.split(" ")
            self._words |= dict.fromkeys(words, int(bits, 16))
        for bit, name in ((PERSONAL, "person"), (TIMED, "time")):
            for word in header[name]:
                self._words[word] = self._words.get(word, 0) | bit

    def __len__(self) -> int:
        return len(self._words)

    def word(self, word: str) -> int:
        """Return the bits of a word as it stands in a text."""
        if _DIGIT.search(word) is not None:
            return TIMED
        found = 0 if word.islower() else self._words.get(word, 0)
        lower = word.lower()
        own = self._words.get(lower)
        if own is None:
            own = next(
                (
                    self._words[one]
                    for ending, rest in _PLURALS
                    if lower.endswith(ending)
                    and (one := lower[: len(lower) - len(ending)] + rest) in self._words
                ),
                0,
            )
        return found | own

    def question(self, text: str) -> int:
        """Return the bits of the kinds that a question asks for."""
        return sum(1 << at for at, pattern in enumerate(self._patterns) if pattern.search(text))

    @property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        return _compiled(tuple(self.asked[name] for name in THINGS))


@lru_cache(maxsize=8)
def _compiled(patterns: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(regex(rf"(?i)\b(?:{pattern})\b") for pattern in patterns)


@lru_cache(maxsize=1)
def kind_tables() -> tuple[KindTable, ...]:
    """Return the tables that memplane ships, one a language, read once."""
    folder = Path(__file__).parent / "data"
    try:
        return tuple(KindTable((folder / name).read_bytes()) for name in _FILES)
    except OSError as error:
        raise HomeError(
            f"memplane was installed without index/data/{_FILES[0]}; install it again"
        ) from error


@lru_cache(maxsize=100_000)
def word_traits(word: str) -> int:
    """Return the bits of a run of word characters."""
    found = 0
    for table in kind_tables():
        found |= table.word(word)
    return found


def asked_kinds(question: str) -> tuple[int, ...]:
    """Return the kinds that a question asks for, each as its bit, rising."""
    bits = 0
    for table in kind_tables():
        bits |= table.question(question)
    return tuple(1 << at for at in range(len(THINGS)) if bits >> at & 1)
