"""The index of a plane: add documents in log order, search as of any document, save and erase.

`SegmentedIndex` writes, `View` answers: matches, columns, labels, neighbours and texts by document
number.
"""

from __future__ import annotations

import copy
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import is_not
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memplane.index import lexical, storage, terms
from memplane.index.bm25 import BM25, Weights
from memplane.index.lexical import PostingBlock
from memplane.index.numeric import np
from memplane.index.segment import (
    Array,
    IndexSegment,
    Live,
    build_segment,
    decode_segment,
    encode_segment,
    erase_documents,
    merge_segments,
    word_traits,
)
from memplane.index.terms import Document, blank_document
from memplane.lazy import NamedTuple
from memplane.ports import Hit

if TYPE_CHECKING:
    from memplane.index.lexical import Matches, WordSums
    from memplane.index.terms import Query

_DOC_BITS = 32
_MANY = 1_000
_NONE = np.zeros(0, np.int64)


class IndexView:
    """The documents below `count`: those with a seq up to `upto`, all where it is None.

    Those taken out by `without` match nothing and do not count in statistics.
    """

    def __init__(self, blocks: Sequence[PostingBlock], count: int, upto: int | None = None) -> None:
        self._blocks = [block for block in blocks if block.size]
        self.count = count if upto is None else self._below(upto)
        self._blocks = [block for block in self._blocks if block.first < self.count]
        self._begins = [block.first for block in self._blocks]
        self._firsts = np.array(self._begins, np.int64)
        self._seqs: list[int] | None = None  # of the first document of each block, once asked for
        self.apart: Array | None = None  # a place for each document, true where it is left out

    def without(self, apart: Array | None) -> IndexView:
        """Return the same view, with documents as if they were not there; None: no documents."""
        if apart is None:
            return self
        view = copy.copy(self)
        view.apart = apart
        return view

    @property
    def there(self) -> int:
        """How many documents count in statistics."""
        if self.apart is None:
            return self.count
        return self.count - int(np.count_nonzero(self.apart[: self.count]))

    def _below(self, upto: int) -> int:
        for block in reversed(self._blocks):
            seqs = block.columns["seq"]
            if int(seqs[0]) <= upto:
                return block.first + int(np.searchsorted(seqs, upto, "right"))
        return 0

    def match(
        self,
        query: Query,
        hidden: Array | None = None,
        bm25: BM25 = BM25(),  # noqa: B008 - immutable
        weights: Weights = Weights(),  # noqa: B008 - immutable
    ) -> Matches:
        """Return the documents that hold a term of the query, without the hidden ones."""
        return lexical.match(self._blocks, query, self.count, hidden, bm25, weights, self.apart)

    def sums(self, query: Query, hidden: Array | None, bm25: BM25, weights: Weights) -> WordSums:
        """Return what `match` sums, for `rank_sums`."""
        return lexical.word_sums(self._blocks, query, self.count, hidden, bm25, weights, self.apart)

    def hits(
        self,
        query: Query,
        k: int,
        hidden: Array | None = None,
        bm25: BM25 = BM25(),  # noqa: B008 - immutable
        weights: Weights = Weights(),  # noqa: B008 - immutable
    ) -> list[Hit]:
        """Return the k best events by words alone; an event scores as its best document does."""
        matches = self.match(query, hidden, bm25, weights)
        if not len(matches.docs) or k < 1:
            return []
        scores = lexical.whole_scores(matches)
        wanted = 2 * k
        while True:
            places = lexical.best(scores, wanted)
            seqs = self.take("seq", matches.docs[places]).tolist()
            # Of the documents of an event the best comes first; the others add nothing.
            found = dict(zip(reversed(seqs), reversed(scores[places].tolist()), strict=True))
            if len(found) >= k or wanted >= len(scores):
                ranked = dict.fromkeys(seqs)
                return [Hit(seq, found[seq]) for seq in ranked][:k]
            wanted *= 4

    def take(self, column: str, docs: Array) -> Array:
        """Return the values of a column for these documents (`layout.COLUMNS`)."""
        if not len(docs):
            return np.zeros(0, np.int64)
        if len(docs) > _MANY and (docs[1:] - docs[:-1] == 1).all():
            return self.run(column, int(docs[0]), int(docs[-1]) + 1)
        where = np.searchsorted(self._firsts, docs, "right") - 1
        order = None
        if np.any(where[1:] < where[:-1]):
            order = np.argsort(where, kind="stable")
            docs, where = docs[order], where[order]
        bounds = np.searchsorted(where, np.arange(len(self._blocks) + 1)).tolist()
        parts = [
            block.columns[column][docs[start:end] - block.first]
            for block, start, end in zip(self._blocks, bounds, bounds[1:], strict=False)
            if start < end
        ]
        found: Array = np.concatenate(parts)
        if order is not None:
            back = np.empty_like(found)
            back[order] = found
            return back
        return found

    def column(self, name: str) -> Array:
        """Return the values of a column for all documents of the view."""
        return self.run(name, 0, self.count) if self.count else np.zeros(0, np.int64)

    def run(self, column: str, start: int, end: int) -> Array:
        """Return the values of a column for the documents from `start` to before `end`."""
        parts = [
            block.columns[column][max(start - block.first, 0) : end - block.first]
            for block in self._blocks
            if start < block.first + block.size and block.first < end
        ]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def labelled(self, *labels: str) -> Array:
        """Return the documents that bear any of the labels (a group is one), rising."""
        wanted = np.array(sorted({terms.exact_term(name) for name in labels}), np.uint64)
        docs = np.sort(self._members(wanted)[0])
        rising: Array = docs[np.flatnonzero(np.diff(docs, prepend=-1))]
        return rising

    def bearing(self, labels: Sequence[int]) -> list[Array]:
        """Return the documents that bear each of the labels (`terms.exact_term`), rising."""
        wanted = np.array(labels, np.uint64)
        parts: list[list[Array]] = [[] for _ in labels]
        for place, block, docs in self._found(wanted):
            parts[place].append(docs.astype(np.int64) + block.first)
        return [part[0] if len(part) == 1 else np.concatenate((_NONE, *part)) for part in parts]

    def _members(self, wanted: Array) -> tuple[Array, Array]:
        """Give the documents of each label term, and the place of the term in `wanted`."""
        docs, places = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for place, block, found in self._found(wanted):
            docs.append(found.astype(np.int64) + block.first)
            places.append(np.full(len(found), place))
        return np.concatenate(docs), np.concatenate(places)

    def _found(self, wanted: Array) -> Iterator[tuple[int, PostingBlock, Array]]:
        """The documents of the view that have each term, by its place in `wanted`.

        Block by block, numbered within it.
        """
        for at, place, begin, end in lexical.runs_of(self._blocks, wanted, self.count).tolist():
            block = self._blocks[at]
            yield place, block, block.postings.docs[begin:end]

    def documents(self, seqs: Iterable[int]) -> Array:
        """Return the documents of these events, rising: what a mask of events hides."""
        wanted = np.array(sorted(set(seqs)), np.int64)
        if not len(wanted):
            return _NONE
        found = [_NONE]
        for block in self._blocks:
            column = block.columns["seq"][: self.count - block.first]
            starts = np.searchsorted(column, wanted, "left")
            counts = np.searchsorted(column, wanted, "right") - starts
            ends = np.cumsum(counts)
            total = int(ends[-1]) if len(ends) else 0
            found.append(np.arange(total) + np.repeat(starts - ends + counts, counts) + block.first)
        return np.concatenate(found)

    def neighbours(self, docs: Array, reach: int) -> Array:
        """Return for each document the `reach` before and after it in its group, -1 for none.

        One row a document, `2 * reach + 1` columns, the document itself in the middle. Other
        documents may lie between them in the log; a document without a group stands alone.
        """
        groups = self.take("group", docs).astype(np.uint64)
        wanted, place = np.unique(groups[groups > 0]), np.zeros(len(docs), np.int64)
        table = np.full((len(docs), 2 * reach + 1), -1, np.int32)
        table[:, reach] = docs
        if not len(wanted):
            return table
        members, of_group = self._members(wanted)
        keys = np.sort((of_group << _DOC_BITS) | members)
        place = np.searchsorted(wanted, groups)
        rows = np.flatnonzero(groups > 0)
        own = np.searchsorted(keys, (place[rows] << _DOC_BITS) | docs[rows])
        for step in (step for step in range(-reach, reach + 1) if step):
            at = own + step
            inside = (at >= 0) & (at < len(keys))
            near = keys[np.where(inside, at, 0)]
            inside &= near >> _DOC_BITS == place[rows]
            table[rows, reach + step] = np.where(inside, near & 0xFFFFFFFF, -1)
        return table

    def text(self, doc: int) -> str:
        """Return the text of a document."""
        block = self._block_of(doc)
        return block.text(doc - block.first)

    def kept(self, doc: int) -> bytes:
        """Return the bytes that the caller keeps beside a document."""
        block = self._block_of(doc)
        return block.kept.of_document(doc - block.first)

    def name(self, doc: int) -> int:
        """Return the 64 bits by which the caller looks for a document; 0 for none."""
        block = self._block_of(doc)
        return int(block.columns["name"][doc - block.first])

    def _block_of(self, doc: int) -> PostingBlock:
        return self._blocks[bisect_right(self._begins, doc) - 1]

    def span(self, seq: int) -> range:
        """Return the documents of one event."""
        if self._seqs is None:
            self._seqs = [int(block.columns["seq"][0]) for block in self._blocks]
        # An event's documents may begin in one block and end in the next.
        upto = bisect_right(self._seqs, seq)
        at = upto - 1 if upto and self._seqs[upto - 1] < seq else bisect_left(self._seqs, seq) - 1
        start = end = 0
        for block in self._blocks[max(at, 0) : upto]:
            left, right = block.columns["seq"].searchsorted((seq, seq + 1)).tolist()
            if left < right:
                start = start if end else block.first + left
                end = block.first + right
        return range(start, min(end, self.count))

    def named(self, name: int) -> list[int]:
        """Return the seqs of the events whose documents have this name, the newest first."""
        wanted = np.uint64(name)
        found: list[int] = []
        for block in reversed(self._blocks):
            docs = (block.columns["name"] == wanted).nonzero()[0]
            found += block.columns["seq"][docs[docs < self.count - block.first]].tolist()[::-1]
        return list(dict.fromkeys(found))

    def counts(self, words: Sequence[int]) -> list[int]:
        """Return how many documents hold each word, hidden ones included; not those taken out."""
        wanted, found = np.array(words, np.uint64), [0] * len(words)
        for at, place, begin, end in lexical.runs_of(self._blocks, wanted, self.count).tolist():
            found[place] += end - begin
            if self.apart is not None:
                block = self._blocks[at]
                docs = block.postings.docs[begin:end].astype(np.int64) + block.first
                found[place] -= int(np.count_nonzero(self.apart[docs]))
        return found

    def present(self, words: Sequence[int]) -> list[int]:
        """Return which of the words a document holds, in the order given; as `counts` counts."""
        return [word for word, count in zip(words, self.counts(words), strict=True) if count]

    def having(self, word: int) -> int:
        """Return how many documents hold a word, hidden ones too."""
        return self.counts([word])[0]


# The index of a plane: takes documents in log order, answers as of any seq, keeps files.
#
# Everything happens in memory first, so that a document is found as soon as it is added and
# a process that may not write still answers; `save` brings the folder up to date. What an
# index answers, and the bytes of its files, depend on its documents alone.

# The largest segment that is built from documents at once; to merge larger ones is quicker.
_BUILD_LEVEL: Final = 1
_BATCH: Final = storage.CAPACITIES[2]
_HELD_BYTES: Final = (1 << 25) - (1 << 16)  # the most that the C library of Linux learns from


class _Sealed(NamedTuple):
    level: int
    segment: IndexSegment
    entry: storage.ManifestEntry | None  # None: not in the folder yet


def _file_of(part: _Sealed) -> str:
    level = part.level
    return storage.name_of(level, part.segment.first // storage.CAPACITIES[max(level, 0)])


class SegmentedIndex:
    """Documents of one plane, in the folder or in memory alone (no folder).

    `variant` names all that decides which documents a log gives. One thread adds, saves, erases or
    takes a view at a time; older views stay valid. `keeps`: opening it may save which files were
    verified; all else is written by `save`.
    """

    def __init__(
        self, folder: Path | None = None, *, plane: str = "", variant: str = "", keeps: bool = False
    ) -> None:
        # The C library of Linux gives memory back to the system beyond twice the largest block
        # that it ever freed. One that is never touched spares every search, which takes and
        # frees some large arrays, hundreds of page faults: a third of its time.
        np.empty(_HELD_BYTES, np.uint8)
        self._folder = folder
        self._mark = storage.fingerprint(plane, variant)
        self._plane, self._variant, self._keeps = plane, variant, keeps
        self._vocabulary = terms.TermVocabulary(word_traits)
        self.reload()

    def reload(self) -> None:
        """Drop what is in memory and open the folder again.

        Where segments are missing or harmed, `seq` is the one behind which the log must be read
        again.
        """
        self._sealed: list[_Sealed] = []
        self._merged: tuple[list[IndexSegment], IndexSegment | None] = ([], None)
        self._opened: IndexSegment | None = None
        self._stamps: storage.Stamps = {}
        self._cleared = False
        self._last = (0, -1)
        self.seq, self.mark, self.erased = 0, "", 0
        loaded = (
            storage.load_segments(self._folder, self._plane, self._variant)
            if self._folder
            else storage.Loaded(storage.Manifest("", ""), (), {})
        )
        if self._folder and self._keeps:
            storage.keep_stamps(self._folder, loaded)
        # What the folder said, also where not all of it was there: whether it is of this log.
        self.reached = (loaded.manifest.seq, loaded.manifest.mark)
        first = 0
        for entry, (header, data) in zip(loaded.manifest.segments, loaded.segments, strict=False):
            segment = decode_segment(data, header, first)
            if entry.level < 0:
                self._opened = segment
            else:
                self._sealed.append(_Sealed(entry.level, segment, entry))
            first += header.documents
            columns = segment.columns
            self._last = (int(columns["seq"][-1]), int(columns["part"][-1]))
        self._live = Live(first)
        self._stamps = loaded.stamps
        self.erased = loaded.manifest.erased
        if loaded.complete:
            self.seq, self.mark = loaded.manifest.seq, loaded.manifest.mark
        else:
            # The last event may have had more parts; those that are here are skipped when added.
            self.seq = max(self._last[0] - 1, 0)

    @property
    def count(self) -> int:
        """How many documents there are, blank ones too."""
        return self._live.first + self._live.size

    def blocks(self) -> list[IndexSegment]:
        """Return the parts that the documents lie in, in order."""
        found = [sealed.segment for sealed in self._sealed]
        if self._opened is not None:
            found.append(self._opened)
        return found + self._live.segments(self._vocabulary)

    def view(self, upto: int | None = None) -> IndexView:
        """Return the index as of a seq: what it was when it held no later documents."""
        end = len(self._sealed)
        while end and self._sealed[end - 1].level == 0:
            end -= 1
        blocks = self.blocks()
        small = len(self._sealed) + (self._opened is not None)
        return IndexView(
            [*blocks[:end], *self._together(blocks[end:small]), *blocks[small:]], self.count, upto
        )

    def _together(self, parts: list[IndexSegment]) -> list[IndexSegment]:
        """The smallest segments as one, made once: each costs a query some dozen calls."""
        if len(parts) < 2:
            return parts
        known, merged = self._merged
        if len(known) != len(parts) or any(map(is_not, known, parts)):
            merged = merge_segments(parts)
            self._merged = parts, merged
        assert merged is not None
        return [merged]

    def release_pages(self) -> None:
        """Give back the memory in which the files lie; what is asked for is read again."""
        parts = [sealed.segment for sealed in self._sealed]
        parts += [] if self._opened is None else [self._opened]
        storage.release_pages(
            data for part in parts if isinstance(data := part.texts.data, memoryview)
        )

    def add(self, document: Document) -> None:
        """Add one document; it is found at once. One that is indexed already is ignored."""
        place = (document.seq, document.part)
        if place <= self._last:
            return
        self._last = place
        self._live.add(document, self._vocabulary)
        if self._live.first + self._live.size == self._sealed_end() + storage.LEVEL_0:
            self._seal()

    def add_many(self, documents: Iterable[Document]) -> None:
        """Take documents in, quickly where there are many.

        They stay in memory until `save`, so save now and then.
        """
        source = iter(documents)
        while batch := list(islice(source, _BATCH)):
            fresh = []
            for document in batch:
                place = (document.seq, document.part)
                if place > self._last:
                    self._last = place
                    fresh.append(document)
            self._take(fresh)
            if len(batch) == _BATCH:
                self.settle()

    def _take(self, documents: list[Document]) -> None:
        while documents:
            end = self._sealed_end()
            missing = end + storage.LEVEL_0 - self.count
            if len(documents) < missing:
                for document in documents:
                    self._live.add(document, self._vocabulary)
                return
            if missing < storage.LEVEL_0:
                taken = missing
                for document in documents[:taken]:
                    self._live.add(document, self._vocabulary)
                self._seal()
            else:
                level = max(
                    level
                    for level in range(_BUILD_LEVEL + 1)
                    if level == 0
                    or (
                        len(documents) >= storage.CAPACITIES[level]
                        and end % storage.CAPACITIES[level] == 0
                    )
                )
                taken = storage.CAPACITIES[level]
                segment = build_segment(documents[:taken], end, self._vocabulary)
                self._push(level, segment)
            documents = documents[taken:]

    def _sealed_end(self) -> int:
        return self._sealed[-1].segment.first + self._sealed[-1].segment.size if self._sealed else 0

    def _newest(self) -> IndexSegment | None:
        """Give the open documents as one segment."""
        parts = [] if self._opened is None else [self._opened]
        parts += self._live.segments(self._vocabulary)
        return merge_segments(parts) if len(parts) > 1 else next(iter(parts), None)

    def _seal(self) -> None:
        segment = self._newest()
        assert segment is not None
        assert segment.size == storage.LEVEL_0
        self._push(0, segment)

    def _push(self, level: int, segment: IndexSegment) -> None:
        self._sealed.append(_Sealed(level, segment, None))
        self._opened, self._live = None, Live(segment.first + segment.size)
        if self._vocabulary.full():
            self._vocabulary = terms.TermVocabulary(word_traits)

    def clear(self) -> None:
        """Drop every document, here and with the next `save` in the folder.

        For another log than the one that the index was made from.
        """
        self._sealed, self._opened, self._live, self._stamps = [], None, Live(0), {}
        self._last = (0, -1)
        self.seq, self.mark, self.erased = 0, "", 0
        self._cleared = True

    def settle(self) -> None:
        """Merge neighbours of one level wherever they fill a segment of the next."""
        done: list[_Sealed] = []
        for sealed in self._sealed:
            done.append(sealed)
            while done[-1].level < storage.LEVELS - 1:
                level = done[-1].level + 1
                many = storage.CAPACITIES[level] // storage.CAPACITIES[level - 1]
                parts = done[-many:]
                if len(parts) < many or parts[0].level != parts[-1].level:
                    break
                done[-many:] = [
                    _Sealed(level, merge_segments([part.segment for part in parts]), None)
                ]
        self._sealed = done

    def save(self, seq: int, mark: str = "", *, stale: Callable[[], bool] | None = None) -> bool:
        """Write the folder, with the log indexed up to `seq`; return whether it was written.

        False: another process writes, has indexed more or erased more (then `reload`), or the disk
        refuses. The index in memory stays usable. `stale` is called while the folder is locked:
        whether something was erased since.
        """
        self.settle()
        self.seq, self.mark = seq, mark
        if self._folder is None:
            return False
        with storage.alone(self._folder) as held:
            if not held or (stale is not None and stale()):
                return False
            disk = storage.read_manifest(self._folder, self._plane, self._variant)
            if disk and not self._cleared and (disk.erased > self.erased or self._is_behind(disk)):
                return False
            try:
                self._write(self._folder)
            except OSError:
                return False
        return True

    def _is_behind(self, disk: storage.Manifest) -> bool:
        return disk.erased == self.erased and disk.seq > self.seq

    def _write(self, folder: Path) -> None:
        stamps: storage.Stamps = {}
        newest = self._newest()
        parts = [*self._sealed, *([] if newest is None else [_Sealed(-1, newest, None)])]
        stored: list[_Sealed] = []
        for name, shared in groupby(parts, key=_file_of):
            stored += self._stored(folder, name, list(shared), stamps)
        entries = tuple(part.entry for part in stored if part.entry is not None)
        manifest = storage.Manifest(
            self._plane, self._variant, self.seq, self.mark, self.erased, entries
        )
        if storage.read_manifest(folder, self._plane, self._variant) != manifest:
            storage.write_manifest(folder, manifest)
        if stamps != storage.read_stamps(folder):
            storage.write_stamps(folder, stamps)
        storage.remove_others(folder, manifest)
        self._opened = None if newest is None else stored.pop().segment
        self._sealed, self._live = stored, Live(self.count)
        self._stamps, self._cleared = stamps, False

    def _stored(
        self, folder: Path, name: str, parts: list[_Sealed], stamps: storage.Stamps
    ) -> list[_Sealed]:
        """Give the parts of a file as the folder has them, written where they are not there yet."""
        entries = [part.entry for part in parts if part.entry is not None]
        if len(entries) == len(parts):
            seen = storage.segments_stamp(folder, entries)
            if seen and self._stamps.get(name) == seen:
                stamps[name] = seen
                return parts
        written = [encode_segment(part.segment, max(part.level, 0), self._mark) for part in parts]
        entries, headers = [], []
        for part, data in zip(parts, written, strict=True):
            header = storage.parse_header(data, len(data))
            assert header is not None
            headers.append(header)
            body = header.body.hex()
            entries.append(storage.ManifestEntry(part.level, header.number, header.documents, body))
        seen = storage.segments_stamp(folder, entries)
        if not seen or self._stamps.get(name) != seen:
            whole = written[0] if len(written) == 1 else b"".join(written)
            storage.replace_bytes(folder / name, whole, sync=parts[0].level >= 0)
            seen = storage.segments_stamp(folder, entries)
        stamps[name] = seen
        kept = storage.map_segments(folder, entries, self._mark, stamps)
        buffers: list[storage.Buffer] = [*written]
        if len(kept) == len(parts):
            buffers = [data for _, data in kept]
        return [
            _Sealed(part.level, decode_segment(data, header, part.segment.first), entry)
            for part, data, header, entry in zip(parts, buffers, headers, entries, strict=True)
        ]

    def erase(self, seqs: Sequence[int]) -> None:
        """Put blank documents in the places of these events; `save` rewrites the files.

        Call it once for each purge of the log, in order: `erased` lets other processes see that
        theirs is out of date.
        """
        gone = np.array(sorted(set(seqs)), np.int64)
        self._sealed = [self._erased(part, gone) for part in self._sealed]
        if self._opened is not None:
            self._opened = self._erased(_Sealed(-1, self._opened, None), gone).segment
        wanted = set(seqs)
        live = Live(self._live.first)
        for document in self._live.documents:
            empty = document.seq in wanted
            kept = blank_document(document.seq, document.part) if empty else document
            live.add(kept, self._vocabulary)
        self._live = live
        self.erased += len(gone)

    @staticmethod
    def _erased(part: _Sealed, gone: Array) -> _Sealed:
        there = np.isin(part.segment.columns["seq"], gone)
        return (
            _Sealed(part.level, erase_documents(part.segment, there), None) if there.any() else part
        )
