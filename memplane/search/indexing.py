"""Keep the index up with the log, and keep the line of each event in it.

`Indexed` adds the documents of new events, erases those of purged ones, and starts again where the
log does not hold the index's position. With the lines in the index, a search in a process of its
own opens no older segment of the log for its results, but for long ones. A kept line,
little-endian::

    before     8 bytes  the hash that the line chains from
    segment    u32      where the line stands in the log: the segment,
    offset     u32      its first byte there,
    length     u32      and its bytes, newline included
    hole       u32      where the event's text was taken out, as the documents have it already;
                        NOWHERE: it was not
    rest                the line without newline and that text; nothing of a long one

A line is returned only if its hash is the one that it states, so a damaged index never shows a text
that the log does not have.

`Masks` decides which documents one request may not see: exactly those whose event `Scope.hides`.
The card of an artifact is visible as long as its event may be named (`Scope.names`).
"""

from __future__ import annotations

import contextlib
import re
import struct
from binascii import unhexlify
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memplane.artifacts import searched_text
from memplane.errors import MemplaneError, PlaneError
from memplane.event import KINDS, PROJECTS, SENSITIVITIES, encode_text
from memplane.harness import RememberedLine, remembered, remembered_lines, remembered_text
from memplane.index import engine, storage
from memplane.index.ranking import Bits, Columns, Fates, Flagged, Frame, Mask, Spans, Speakers
from memplane.index.segment import ROW, row
from memplane.index.store import IndexView, SegmentedIndex
from memplane.index.terms import Document, blank_document
from memplane.kernel import kernel_twin
from memplane.lazy import Protocol, regex
from memplane.log.reader import id_hash
from memplane.log.segments import erased_by
from memplane.observe import OBSERVED
from memplane.policy import ALL_AGENTS
from memplane.ports import Line, Position, Progress
from memplane.projections.projector import overtaken, uncollected
from memplane.recall.documents import (
    ARTIFACT,
    CARD,
    KIND_BITS,
    LIMITED,
    PROJECT_BITS,
    SENSITIVITY_BITS,
    SPACE_BITS,
    documents_of,
    kind_number,
    microseconds,
    variant_of,
    versions_of,
)
from memplane.recall.suppress import SPACES, Filter, Scope, is_pattern, namespace_class

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from memplane.event import Event
    from memplane.index.segment import Array
    from memplane.log import FileLog
    from memplane.policy import Policies
    from memplane.projections.in_force import Act
    from memplane.projections.memories import Memories


_FIELDS: Final = struct.Struct("<8s4I")
NOWHERE: Final = (1 << 32) - 1
_REST_MAX: Final = 1_024
_HASH_BYTES: Final = 16
_HASH: Final = regex(rb"[0-9a-f]{16}")
_SUFFIX_BYTES: Final = 19  # of a line and its newline, from its hash on


def raw_lines(log: FileLog, lines: Sequence[Line]) -> Iterator[tuple[bytes, bytes]]:
    """The hash before each line and its bytes without newline; empty where they are gone.

    The lines lie behind each other; each segment of them is read once.
    """
    start = 0
    while start < len(lines):
        first = lines[start]
        end = next(
            (at for at in range(start, len(lines)) if lines[at].segment != first.segment),
            len(lines),
        )
        last = lines[end - 1]
        begin = max(first.offset - _SUFFIX_BYTES, 0)
        data = log.bytes_before(first.segment, last.end, last.end - begin)
        for line in lines[start:end]:
            at = line.offset - begin
            before = data[max(at - _SUFFIX_BYTES, 0) : at][:_HASH_BYTES]
            yield before, data[at : line.end - begin - 1]
        start = end


def keeping(documents: list[Document], line: Line, before: bytes, raw: bytes) -> list[Document]:
    """The documents of an event, the first with its line and the hash of its id."""
    event, segment, offset, end = line
    if not documents or end > NOWHERE:
        return documents
    first, *others = documents
    said = first.text if not others else "".join([one.text for one in documents])
    text = said if said == event.text else None
    kept = _CODES.kept(before, raw, text, segment, offset, end - offset, _REST_MAX)
    if not kept:
        return documents
    # Its last two fields: to replace them by name costs four times as much, for every event.
    return [tuple.__new__(Document, (*first[:-2], id_hash(event.id), kept)), *others]


_TEXT: Final = b'"text":'


def _text_of(said: str) -> bytes:
    return _TEXT + encode_text(said).encode("utf-8", "surrogatepass")


# What lines are made of: a byte each that no line of JSON holds. Not deflate, of which each library
# gives other bytes. Raise `storage.FORMAT` with a change.
_PHRASES: Final = (
    b'","task":"', b'{"seq":', b',"dur":', b',"id":"', b'","ts":"20', b'","rec":"20', b'","kind":"',
    b'message","session":"', b'tool_call","session":"', b'tool_result","session":"',
    b'","session":"', b'","actor":"', b'","role":"', b'user",', b'assistant",', b'tool",',
    b',"tokens":', b',"h":"', b'"}', b".000000Z", b',"data":{"', b'"tool":"', b'"call":"',
    b'"status":"', b'"path":"', b',"tags":["', b',"markers":["', b',"refs":["', b'","ns":"/',
    b'","key":"', b',"importance":', b"decision",
)  # fmt: skip
_OF_CODES: Final = {bytes((code,)): phrase for code, phrase in enumerate(_PHRASES)}
_CODE: Final = regex(rb"([\x00-\x1f])")
# How a packed line begins: {"seq":, perhaps "dur":, "id":, and what comes behind an id.
_ID: Final = regex(rb'\x01(\d+)(?:\x02\d+)?\x03([^"\x04]+)["\x04]')


class PhraseCodes:
    """A byte for each of 32 phrases, the longest first. Its twin is in `_kernel.c`."""

    __slots__ = ("_codes", "_phrase")

    def __init__(self, phrases: tuple[bytes, ...]) -> None:
        self._codes = {phrase: bytes((code,)) for code, phrase in enumerate(phrases)}
        self._phrase = re.compile(
            b"(%s)" % b"|".join(map(re.escape, sorted(phrases, key=len)[::-1]))
        )

    def packed(self, text: bytes) -> bytes:
        """The text with a code for each phrase; of one that holds a code nothing."""
        return b"" if _CODE.search(text) else _replaced(text, self._phrase, self._codes)

    def without(self, raw: bytes, said: str | None, most: int) -> tuple[int, bytes]:
        """Where a line has a text, and the rest of it packed: nothing of one of more than `most`.

        NOWHERE, and all of the line, where no text is given or the line has it not so.
        """
        hole, rest = NOWHERE, raw
        if said is not None:
            written = _text_of(said)
            # As a rule it stands at the first of these names: to search for all of it costs more.
            found = raw.find(_TEXT)
            if found >= 0 and not raw.startswith(written, found):
                found = raw.find(written)
            if found >= 0:
                hole, rest = found, raw[:found] + raw[found + len(written) :]
        return hole, self.packed(rest) if len(rest) <= most else b""

    def kept(
        self,
        before: bytes,
        raw: bytes,
        said: str | None,
        segment: int,
        offset: int,
        length: int,
        most: int,
        /,
    ) -> bytes:
        """A kept line, of `raw` behind the hash `before`; of what is no hash nothing."""
        if not _HASH.fullmatch(before):
            return b""
        hole, rest = self.without(raw, said, most)
        return _FIELDS.pack(unhexlify(before), segment, offset, length, hole) + rest


_CODES: Final = kernel_twin(PhraseCodes)(_PHRASES)


def unpacked_line(kept: bytes) -> bytes:
    """The line without its text that a document keeps."""
    return _replaced(kept[_FIELDS.size :], _CODE, _OF_CODES)


def _replaced(text: bytes, wanted: re.Pattern[bytes], by: Mapping[bytes, bytes]) -> bytes:
    parts = wanted.split(text)
    parts[1::2] = map(by.__getitem__, parts[1::2])
    return b"".join(parts)


class KeptLines:
    """How a search looks at lines: in the index, and in the log where that is all there is.

    `view` gives all documents there are. `newest` is the log's newest segment, whose lines are read
    there: it is open anyway, and what it has lost is no answer. None where an event is missing in
    the view: a line that was purged since may still be kept. From the first `look` on it is asked
    there alone, once for each request.
    """

    def __init__(
        self, log: FileLog, view: Callable[[], IndexView], newest: Callable[[], int | None]
    ) -> None:
        self._log, self._view = log, view
        self._ask = self._newest = newest

    def look(self) -> None:
        """See which segment is the log's newest, for the request that begins."""
        seen = self._ask()
        self._newest = lambda: seen

    def line(self, seq: int) -> Line | None:
        """Return the line with that seq, if it is there and verifies."""
        newest = self._newest()
        kept = None if newest is None else self._kept(seq, newest)
        return self._log.line(seq) if kept is None else kept

    def id(self, seq: int) -> str | None:
        """Return the event's id where the kept line says it and its hash fits; else None.

        No line is read or parsed for it.
        """
        newest = self._newest()
        if newest is None:
            return None
        view = self._view()
        span = view.span(seq)
        kept = view.kept(span.start) if span else b""
        if len(kept) <= _FIELDS.size or _FIELDS.unpack_from(kept)[1] == newest:
            return None
        found = _ID.match(kept, _FIELDS.size)
        if found is None or int(found[1]) != seq:
            return None
        said = _replaced(found[2], _CODE, _OF_CODES).decode()
        return said if view.name(span.start) == id_hash(said) else None

    def find(self, id_: str) -> Line | None:
        """Return the line with that id, if the event has documents."""
        for seq in self._view().named(id_hash(id_)):
            line = self.line(seq)
            if line is not None and line.event.id == id_:
                return line
        return None

    def _kept(self, seq: int, newest: int) -> Line | None:
        view = self._view()
        span = view.span(seq)
        kept = view.kept(span.start) if span else b""
        if len(kept) < _FIELDS.size:
            return None
        before, segment, offset, length, hole = _FIELDS.unpack_from(kept)
        if len(kept) == _FIELDS.size or segment == newest:
            return self._log.line_at(seq, segment, offset, length)
        raw = unpacked_line(kept)
        if hole != NOWHERE:
            try:
                said = "".join(map(view.text, span))
            except PlaneError:  # a damaged index
                return None
            raw = raw[:hole] + _text_of(said) + raw[hole:]
        return self._log.line_kept(seq, before.hex().encode(), raw, segment, offset)


# The index of a plane, kept up with its log.
#
# `HOME/index/` is a cache like the projections: whatever is missing, torn, of another log or made
# by other rules is made again from the log. Nothing here raises for what lies in that folder, and a
# disk that refuses costs the next process some work, never this one its answer.

# Events that one who does not wait for the whole index brings it forward: a tenth of a second.
STEP: Final = 1_000
# Documents. Batches end where a segment of this size does: those are built at once.
_BATCH: Final = 16_384
# To index 64 at once costs each half of what it costs alone; a search waits for as many at most.
_FOLLOWED: Final = 64
_SAVED_AFTER: Final = 2_000
_SAVED_AT_CLOSE: Final = 64
_ANNOUNCED: Final = 2_000  # events; fewer are indexed in less than a second
_RELOADED: Final = 2_000  # events behind: another process may have indexed them
_LINES: Final = 64
_RELEASED_AFTER: Final = 32  # searches; each touches some megabytes of a million documents


class Indexed:
    """The documents of a log up to a place in it. `folder` None keeps them in memory.

    `keeps` says whether the folder may be written. One thread at a time.
    """

    def __init__(
        self, log: FileLog, folder: Path | None, *, plane: str, policies: Policies, keeps: bool
    ) -> None:
        self._log, self._folder, self._keeps = log, folder, keeps
        self._plane, self.variant = plane, variant_of(policies)
        self._searches = 0
        self._unpurged: Position | None = None  # between the documents and there is no purge
        self.renewed = 0  # how often the documents were begun anew
        # Another version of memplane made what the folder has: made again, and then saved.
        self.outdated = (
            keeps
            and folder is not None
            and storage.is_outdated(folder, plane, versions_of, self.variant)
        )
        self._result_tokens = policies.plane.tool_result_tokens
        self._behind_max = policies.budgets.limits.index_behind_max
        self._index = SegmentedIndex(folder, plane=plane, variant=self.variant, keeps=keeps)
        self._begin()

    @property
    def seq(self) -> int:
        """The last event that was looked at."""
        return 0 if self._position is None else self._position.seq

    @property
    def mark(self) -> str:
        """Name the place behind that event; see `holds`."""
        return "" if self._position is None else self._position.mark

    @property
    def erased(self) -> int:
        """How many events were erased from it so far."""
        return self._index.erased

    def holds(self, seq: int, mark: str) -> bool:
        """Whether the log has the place that `mark_behind` named."""
        place = Position.from_mark(seq, mark)
        return place is not None and self._log.matches(place)

    def mark_behind(self, seq: int) -> str:
        """Name the place behind an event of the log; "" where its line is lost."""
        line = self._log.line(seq)
        return "" if line is None else line.position.mark

    def catch_up(
        self, *, upto: int | None = None, save: bool = True, progress: Progress | None = None
    ) -> int:
        """Index what was appended since, to a seq or the end; return the events read.

        `progress` is called where there is much to do. Without `save` nothing is written.
        """
        head = self._log.head()
        if self._position is not None and self._position[:2] == head[:2]:
            return 0
        if upto is not None and upto <= self.seq and self._stands():
            return 0
        self._look_around(head)
        end = head.seq if upto is None else min(upto, head.seq)
        try:
            with uncollected(end - self.seq):
                read = self._follow(end, save=save, progress=progress)
        except BaseException:
            # Half a batch may be in: what is in the folder is whole.
            self._index.reload()
            self._begin()
            raise
        observing = OBSERVED.get()
        if observing is not None:
            observing.event("index", {"count": read})
        return read

    def reached(self, upto: int, progress: Progress | None = None) -> int:
        """Bring the index forward for one who does not wait for it; return where it stands then.

        To `upto` where no more than the policy's `index_behind_max` events are missing, else by as
        few as that, and no more than STEP. What another process has indexed is taken up first.
        """
        head = self._log.head()
        if self._position is None or self._position[:2] != head[:2]:
            self._look_around(head)
            self.catch_up(upto=self._near(upto), progress=progress)
        return self.seq

    def _near(self, upto: int) -> int:
        most = self._behind_max
        return upto if upto - self.seq <= most else min(upto, self.seq + min(most, STEP))

    def follow(self, seq: int, count: int) -> None:
        """Index what was recorded up to `seq`, where that is a batch; writes nothing.

        Less than a batch waits for the next `catch_up`, which every search begins with. Where the
        index was far behind before these `count` events came, it comes nearer by as many.
        """
        if seq - self.seq >= _FOLLOWED:
            self.catch_up(upto=max(self._near(seq), min(seq, self.seq + 2 * count)), save=False)

    def searched(self) -> None:
        """Give memory back now and then, and behind the first search: it may be the only one."""
        if self._searches % _RELEASED_AFTER == 0:
            self._index.release_pages()
        self._searches += 1

    def view(self, upto: int | None = None) -> IndexView:
        """The index as of a seq."""
        return self._index.view(upto)

    def frame(self, view: IndexView, unseen: Array | None = None, name: Hashable = None) -> Frame:
        """The columns of a view's documents; neighbours are those that are not unseen.

        See `Columns.seen`.
        """
        before = self._columns.count
        frame = self._columns.frame(view)
        if frame.size - before > _BATCH:  # every column was read
            self._index.release_pages()
        if unseen is None or not unseen[: frame.size].any():
            return frame
        return self._columns.seen(frame, view, unseen, name)

    def save(self) -> bool:
        """Bring the folder up to date; False where that cannot be, or another process does it."""
        self._unsaved = 0  # whoever was refused waits until there is more
        position = self._position
        if not self._keeps or position is None:
            self._index.settle()
            return False
        return self._index.save(position.seq, position.mark, stale=lambda: self._stale(position))

    def _stale(self, position: Position) -> bool:
        """Whether something was erased behind a position; of a line it is found out once.

        A long build saves dozens of times, and what lies behind it is most of the log.
        """
        head, looked = self._log.head(), self._unpurged
        if looked is None or looked.seq <= position.seq or not self._log.matches(looked):
            looked = position
        if not self._log.matches(position):
            return True
        if overtaken(self._log, looked):
            return True
        self._unpurged = head
        return False

    def is_stale(self) -> bool:
        """Whether something was erased that the documents still hold: none may be written."""
        return self._position is not None and self._stale(self._position)

    def words_beside(self, start: int, end: int) -> Iterator[tuple[int, str]]:
        """Give the documents from `start` to `end`, and the words beside their texts, by the log.

        Without what has no text any more, as what was purged.
        """
        view = self.view()
        if start >= min(end, view.count):
            return
        after = int(self.frame(view).seq[start]) - 1
        lines = remembered_lines(self._log.read(after, self.seq))
        for _, documents in self._with_documents(lines):
            span = view.span(documents[0].seq) if documents else range(0)
            for doc, document in zip(span, documents, strict=False):
                if start <= doc < end and view.text(doc):
                    yield doc, document.extra

    def _erase(self, seqs: Sequence[int]) -> None:
        """Leave nothing of these events but their places; in engines and vectors nothing too."""
        docs = self.view().documents(seqs).tolist()
        self._index.erase(seqs)
        self._renew()
        if self._folder is not None and self._keeps:
            for name in (storage.DENSE_FOLDER, storage.STATIC_FOLDER):
                storage.erase_vectors(self._folder / name, docs, self._index.erased)
            engine.discard_engines(self._folder, self._index.erased)

    def differs(self, progress: Progress | None = None) -> bool:
        """Whether a document is not what the log gives; reads all of the log up to here.

        `progress` is called with the seqs.
        """
        view = self.view()
        columns = [view.column(name) for name in ROW]
        start = at = 0
        for line, own in self._with_documents(remembered_lines(self._log.read(0, self.seq))):
            documents = [*self._blanks(at, line.event.seq), *own]
            at = line.event.seq
            if progress is not None:
                progress(at, self.seq)
            end = start + len(documents)
            rows = zip(*(column[start:end].tolist() for column in columns), strict=True)
            if list(rows) != [row(one) for one in documents]:
                return True
            said = ((view.text(doc), view.kept(doc)) for doc in range(start, end))
            if list(said) != [(one.text, one.kept) for one in documents]:
                return True
            start = end
        return start != view.count

    def close(self) -> None:
        """Save where that is worth it."""
        if not self._keeps:
            return
        # What the log will not give is for whoever reads it next, not for who closes.
        with contextlib.suppress(MemplaneError, OSError):
            head = self._log.head().seq
            if self._unsaved + head - self.seq >= _SAVED_AT_CLOSE:
                self.catch_up(upto=self._near(head), save=False)
        if self._unsaved >= (1 if self.outdated else _SAVED_AT_CLOSE):
            self.save()

    def _renew(self) -> None:
        """Forget what was gathered from the documents, as they were numbered."""
        self.renewed += 1
        self._known: IndexView | None = None
        self._columns, self.speakers = Columns(), Speakers()
        self.lines = KeptLines(self._log, self._all, self._newest)
        self.masks = self.new_masks()

    def _all(self) -> IndexView:
        """All documents; one view as long as none comes in."""
        known = self._known
        if known is None or known.count != self._index.count:
            known = self._known = self._index.view()
        return known

    def _newest(self) -> int | None:
        """The log's newest segment; None where an event is not looked at, which may be a purge."""
        head = self._log.head()
        at = self._position
        return head.segment if at is not None and at.seq == head.seq else None

    def new_masks(self) -> Masks:
        """Masks without any replaced or forgotten events yet."""
        return Masks(self.lines)

    def _begin(self) -> None:
        """Take up the documents that the index has, if they are this log's."""
        self._unsaved = 0
        self._batch: list[Document] = []  # of the lines up to `_last`, not in the index yet
        self._last: Line | None = None
        self._renew()
        index = self._index
        self._position = Position.from_mark(*index.reached)
        if self._position is None or not self._log.matches(self._position):
            self._position = None
            if index.count or index.seq:
                index.clear()
        elif index.seq != self._position.seq:  # not all of it was there: from here on again
            before = next(iter(self._log.read(index.seq - 1, index.seq)), None)
            self._position = None if before is None else before.position
            if self._position is None:
                index.clear()

    def _stands(self) -> bool:
        """Whether the log still holds the place up to which it was read."""
        return self._position is None or self._log.matches(self._position)

    def reset(self) -> None:
        """Begin again with no document. See `Follower`."""
        self._restart()

    def _restart(self) -> None:
        self._index.clear()
        self._position, self._unsaved = None, 0
        self._batch, self._last = [], None
        self._renew()

    def _look_around(self, head: Position) -> None:
        """Take up what others have indexed, and start again where the log is another one."""
        if head.seq - self.seq > _RELOADED:
            self._take_from_disk()
        if not self._stands():
            self._restart()

    def _take_from_disk(self) -> None:
        """Go on from what another process has saved, where that is further."""
        if self._folder is None:
            return
        kept = storage.read_manifest(self._folder, self._plane, self.variant)
        place = None if kept is None else Position.from_mark(kept.seq, kept.mark)
        if place is not None and place.seq > self.seq and self._log.matches(place):
            self._index.reload()
            self._begin()

    def _follow(self, end: int, *, save: bool, progress: Progress | None) -> int:
        start, count = self.seq, 0
        told = progress if end - start > _ANNOUNCED else None
        for lines in self._lines(end):
            self.fold(lines, save=save)
            count += len(lines)
            if told is not None:
                told(lines[-1].event.seq - start, end - start)
        if count:
            self.folded()
            if save and self._unsaved >= _SAVED_AFTER:
                self.save()
        return count

    @property
    def position(self) -> Position | None:
        """Behind the last line that was folded; None before the first. See `Follower`."""
        return self._position if self._last is None else self._last.position

    def fold(self, lines: Sequence[Line], *, save: bool = True) -> None:
        """Take in the documents of the next lines, which come as memory has them.

        Saved now and then. Those that `folded` does not put into the index yet are not found.
        """
        batch, at = self._batch, self.seq if self._last is None else self._last.event.seq
        for line, documents in self._with_documents(lines):
            event = line.event
            if event.seq > at + 1:
                batch += self._blanks(at, event.seq)
            batch += documents
            at, self._last = event.seq, line
            if event.kind == "purge":
                self.folded()
                batch = self._batch
                self._erase([one.seq for one in erased_by(event)])
        if self._index.count % _BATCH + len(batch) >= _BATCH:
            self.folded()
            if save:
                self.save()

    def folded(self) -> None:
        """Put what `fold` has gathered into the index."""
        batch, last = self._batch, self._last
        self._batch, self._last = [], None
        if last is not None:
            self._index.add_many(batch)
            self._position = last.position
            self._unsaved += len(batch)

    def _lines(self, end: int) -> Iterator[list[Line]]:
        """The lines that are not indexed yet, up to a seq, by the dozens."""
        position = self._position
        written = self._log.read(0, end) if position is None else self._log.read_from(position)
        source = remembered_lines(written)
        while lines := list(islice(source, _LINES)):
            kept = [line for line in lines if line.event.seq <= end]
            if kept:
                yield kept
            if len(kept) < len(lines):
                return

    def _blanks(self, before: int, seq: int) -> Iterator[Document]:
        """What stays of the purged events between two seqs."""
        for erased in self._log.purged_between(before + 1, seq - 1):
            yield from (blank_document(erased.seq, part) for part in range(erased.documents))

    def _with_documents(self, lines: Iterable[Line]) -> Iterator[tuple[Line, list[Document]]]:
        """Lines that come as memory has them as they are written, each with its documents."""
        source = iter(lines)
        while some := list(islice(source, _LINES)):
            for each, (before, raw) in zip(some, raw_lines(self._log, some), strict=True):
                line = each.written if isinstance(each, RememberedLine) else each
                documents = self._documents(line.event, unchanged=line is each)
                yield line, keeping(documents, line, before, raw)

    def _documents(self, event: Event, *, unchanged: bool = False) -> list[Document]:
        """The documents of an event as it is written; `unchanged`: memory has the same."""
        plain = unchanged and event.kind != "artifact" and "body" not in event.data
        text = event.text if plain else whole_text(self._log, event)
        return documents_of(event, text, self._result_tokens)


def slots_of(log: FileLog, policies: Policies) -> Callable[[Event], int]:
    """How many documents an event has: as many places stay where it is purged."""
    tokens = policies.plane.tool_result_tokens
    return lambda event: len(documents_of(event, whole_text(log, event), tokens))


def whole_text(log: FileLog, event: Event, *, lenient: bool = True) -> str:
    """The event's whole text as memory has it, of an artifact its copy's too.

    What its line holds without a body.

    Without `lenient` the copy of an artifact that is not what was added raises ChangedError.
    """
    if event.kind == "artifact":
        return searched_text(Path(log.home), event, lenient=lenient)
    if "body" not in event.data:
        return remembered(event).text
    try:
        return remembered_text(event, log.text(event))
    except (MemplaneError, OSError, ValueError):
        return remembered(event).text


_GLOBAL, _TASK, _SPEC, _AGENT = range(len(SPACES))
# An artifact, but for its card: the bits from those of the kind up to the card's.
_KINDS: Final = 1 << KIND_BITS[1]
_CARD: Final = CARD >> KIND_BITS[0]
_UNAPPROVED: Final = Bits(
    KIND_BITS[0], tuple(bits % _KINDS == ARTIFACT and not bits & _CARD for bits in range(2 * _CARD))
)
_ALWAYS: Final = -(1 << 62)
_LATER: Final = 1 << 62


class MaskLog(Protocol):
    """How masks look at the log: one line by its seq, one of those with documents by its id."""

    def line(self, seq: int) -> Line | None: ...
    def find(self, id_: str) -> Line | None: ...


class Masks:
    """Masks over one index; make a new one when its documents were renumbered or erased.

    Follows `Memories` for replaced and forgotten events, each once. Not safe between threads.
    """

    def __init__(self, lines: MaskLog) -> None:
        self._lines = lines
        self._flagged = Flagged()
        self._fates = Fates()
        self._followed: tuple[Memories, int] | None = None
        self._told = 0
        self._spans = Spans()

    def of(
        self,
        scope: Scope,
        view: IndexView,
        every: IndexView,
        frame: Frame,
        memories: Memories,
        reach: int,
    ) -> Mask:
        """Return which documents of the view the scope hides.

        `every` and `frame` have all documents, later ones too: of the events up to `reach`. Whether
        an event is in force is judged as of the scope's seq.
        """
        upto = min(scope.as_of, _LATER)
        self._tell(every, frame, memories, reach)
        mask = Mask(view.count)
        mask.add(self._flagged.hidden(frame.flags, *_levels(scope)))
        approved = view.documents(scope.approved())
        mask.add(self._flagged.hidden(frame.flags, _UNAPPROVED), approved)
        classes, reached = _spaces(scope)
        but = view.labelled(*(f"ns:{ns}" for ns in reached)) if reached else None
        mask.add(self._flagged.hidden(frame.flags, Bits(SPACE_BITS[0], classes)), but)
        strange = _strange(scope)
        if strange:
            mask.documents(view.labelled(*strange))
        apart = self.apart(scope, every, frame)
        if apart is not None:
            mask.add(apart)
        mask.after(frame.seq, upto)
        mask.add(self._fates.hidden(upto, view.count))
        self._expire(mask, scope.now, frame)
        if scope.since is not None or scope.until is not None:
            since = None if scope.since is None else microseconds(scope.since)
            until = None if scope.until is None else microseconds(scope.until)
            mask.outside(view.column("at"), since, until)
        if scope.only is not None:
            self._narrow(mask, scope.only, view, frame)
        if scope.exclude:
            mask.documents(view.documents(self._seqs(sorted(scope.exclude))))
        if scope.held is not None:
            session, held = scope.held
            docs = view.labelled(f"session:{session}")
            mask.documents(docs[frame.seq[docs] > held])
        return mask

    def apart(self, scope: Scope, every: IndexView, frame: Frame) -> Array | None:
        """Which documents are of other projects, and are left out of the statistics too.

        None where there are none, or the scope sees all projects.
        """
        if scope.project is None:
            return None
        found = self._flagged.hidden(frame.flags, Bits(PROJECT_BITS[0], (False, True)))
        named = (scope.project, *scope.ns)
        apart = found.copy()
        apart[every.labelled(*(f"ns:{ns}" for ns in named if ns.startswith(PROJECTS)))] = False
        return apart if apart.any() else None

    def _seqs(self, ids: Iterable[str]) -> list[int]:
        found = (self._lines.find(one) for one in ids)
        return [line.event.seq for line in found if line is not None]

    def unseen(self, scope: Scope, every: IndexView, frame: Frame) -> tuple[Array, Hashable]:
        """Which documents are of a sensitivity or kind that the scope never sees, and its name."""
        levels, strange = _levels(scope), _strange(scope)
        found = self._flagged.hidden(frame.flags, *levels)
        if strange:
            found = found.copy()
            found[every.labelled(*strange)] = True
        apart = self.apart(scope, every, frame)
        if apart is None:
            return found, (levels, strange)
        return found | apart, (levels, strange, scope.project, scope.ns)

    def _narrow(self, mask: Mask, only: Filter, view: IndexView, frame: Frame) -> None:
        if only.tags:
            mask.all_but(view.labelled(*(f"tag:{tag}" for tag in only.tags)))
        if only.without:
            mask.documents(view.labelled(*(f"tag:{tag}" for tag in only.without)))
        if only.least:
            mask.add(frame.importance < only.least)

    def _expire(self, mask: Mask, now: str, frame: Frame) -> None:
        fresh = self._spans.fresh(frame.flags, LIMITED)
        if len(fresh):
            self._spans.add(fresh, [self._limits(seq) for seq in frame.seq[fresh].tolist()])
        mask.documents(self._spans.out(microseconds(now)))

    def _limits(self, seq: int) -> tuple[int, int]:
        line = self._lines.line(seq)
        if line is None:  # nobody can say any more until when it held
            return _LATER, _ALWAYS
        begin, end = line.event.valid_from, line.event.valid_until
        return (
            _ALWAYS if begin is None else microseconds(begin),
            _LATER if end is None else microseconds(end),
        )

    def _tell(self, view: IndexView, frame: Frame, memories: Memories, reach: int) -> None:
        """Note which events with documents were replaced or forgotten since the last call.

        Not further than the documents go: what is noted once would miss later ones.
        """
        if self._followed is None or self._followed != (memories, memories.resets):
            self._followed = memories, memories.resets
            self._fates, self._told = Fates(), 0
        position = memories.position
        seq = 0 if position is None else min(position.seq, reach)
        if seq <= self._told:
            return
        replaced = [pair for pair in memories.replaced(self._told) if pair[0] <= seq]
        self._fates.replace(replaced, frame.seq)
        for act in memories.forgets(self._told):
            if act.seq <= seq:
                docs = self._named(act, view, memories)
                self._fates.forget(act.seq, docs, frame.seq, undo=act.undo)
        self._told = seq

    def _named(self, act: Act, view: IndexView, memories: Memories) -> Array:
        """The documents that a forget means."""
        form, ns, value = act.target
        if form == "id":
            line = self._lines.find(value)
            # A forget from another plane may be older than the last word here.
            named = line is not None and memories.prevails(act, line.event)
            return view.documents([line.event.seq] if line is not None and named else [])
        if form == "key":
            chain = memories.history(ns, value, upto=act.seq - 1)
            return view.documents([row.seq for row in chain[-1:]])
        return view.labelled(f"{form}:{value}")


def _levels(scope: Scope) -> tuple[Bits, ...]:
    levels = tuple(level in scope.levels for level in SENSITIVITIES)
    kinds = {kind_number(kind) for kind in scope.kinds if kind in KINDS}
    return (
        Bits(SENSITIVITY_BITS[0], levels),
        Bits(KIND_BITS[0], tuple(number in kinds for number in range(1 << KIND_BITS[1]))),
    )


def _strange(scope: Scope) -> tuple[str, ...]:
    """The labels of the kinds out of sight that flags do not know."""
    return tuple(f"kind:{kind}" for kind in sorted(scope.kinds) if kind not in KINDS)


def _spaces(scope: Scope) -> tuple[tuple[bool, ...], list[str]]:
    """Which classes of namespaces are out of scope, and namespaces of them that are in it."""
    hides = set() if ALL_AGENTS in scope.shared else {_AGENT}
    named: list[str] = list(scope.ns)
    if not scope.ns or ALL_AGENTS in scope.ns:
        named += scope.shared
        if scope.agent is not None:
            named.append(f"/agent/{scope.agent}")
    if scope.ns:
        closed = hides - {_AGENT} if scope.owner else hides
        asked = {namespace_class(ns) for ns in scope.ns if is_pattern(ns)}
        hides = {_GLOBAL, _TASK, _SPEC, _AGENT} - (asked - closed)
    elif scope.task is not None:
        hides.add(_TASK)
        named.append(f"/task/{scope.task}")
        if scope.specs:
            hides.add(_SPEC)
            named += scope.specs
    reached = [ns for ns in dict.fromkeys(named) if scope.reaches(ns)]
    return tuple(place in hides for place in range(len(SPACES))), reached
