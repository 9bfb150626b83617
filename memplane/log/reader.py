"""Read the log without its lock: verify every line, skip damage and list it; never write.

`LinePlaces` finds lines by sequence number or id, in tables, or by searching the bytes of the
newest segment for a process that needs a few lines only; a line found so is verified by the caller.
There is one table a sealed segment, kept in a cache file, and one in memory for the newest segment.

A cache file is `magic, size of the segment (8 bytes), its last h (16), lines (8)`, then per line
its seq, offset and length (4 bytes each, the seq counted from the header's), the ids' hashes
sorted (8 each) and their lines (4 each), then SHA-256 over all of it, cut to 16 bytes. Numbers
are little endian. A file that does not match its segment or itself is made again.
"""

# Paths are strings here: pathlib costs more than the append it would serve.
# ruff: noqa: PTH120
from __future__ import annotations

import os
import sys
from _thread import allocate_lock
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeVar

from memplane import nofollow
from memplane.errors import NotFoundError, StrangeFileError
from memplane.event import NO_EVENT, decode
from memplane.lazy import NamedTuple, regex
from memplane.log.disk import drop
from memplane.log.segments import (
    SUFFIX_BYTES,
    Purges,
    Run,
    Segments,
    chain_hash,
    erased_id,
    id_field,
    line_id,
    read_segment_file,
    region_of,
    runs,
    stated_hash,
    until,
)
from memplane.ports import Line, Position

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    Believed = Callable[[int, int, int, bytes, int | None], tuple[bytes, list[Run]]]

MAGIC = b"mpids1\n\0"
FRAME_BYTES = len(MAGIC) + 8 + 16 + 8 + 8


class LinePlace(NamedTuple):
    """Where a line stands: `length` counts its newline."""

    seq: int
    offset: int
    length: int


def id_hash(id_: str) -> int:
    """64 bits of an id."""
    return int.from_bytes(sha256(id_.encode()).digest()[:8], "little")


def little(values: array[int]) -> array[int]:
    """Those values in little-endian order, on any machine; the way back is the same."""
    if sys.byteorder == "big":
        values = values[:]
        values.byteswap()
    return values


class IdTable:
    """The lines of one segment in order, and their ids; grows by what is appended."""

    __slots__ = ("end", "h", "identity", "ids", "lengths", "number", "offsets", "seq", "seqs")

    def __init__(self, number: int, identity: tuple[int, int], seq: int, h: bytes) -> None:
        self.number, self.identity = number, identity
        self.end, self.seq, self.h = 0, seq, h
        self.seqs: list[int] = []
        self.offsets: list[int] = []
        self.lengths: list[int] = []
        self.ids: dict[str, int] = {}

    def take(self, data: bytes, offset: int, run: Run) -> None:
        """Add a run of the segment's bytes that begin at `offset`."""
        ends = [*run.starts[1:], run.end]
        for row, (start, end) in enumerate(zip(run.starts, ends, strict=True), len(self.seqs)):
            id_ = line_id(data[start:end])
            if id_ is not None:
                self.ids.setdefault(id_, row)
        self.seqs.extend(range(run.first, run.last + 1))
        self.offsets.extend(start + offset for start in run.starts)
        self.lengths.extend(b - a for a, b in zip(run.starts, ends, strict=True))
        self.end, self.seq, self.h = run.end + offset, run.last, run.h

    def add(self, id_: str, length: int, h: bytes) -> None:
        """Add the line that was just written behind the last one."""
        self.seq += 1
        self.ids.setdefault(id_, len(self.seqs))
        self.seqs.append(self.seq)
        self.offsets.append(self.end)
        self.lengths.append(length)
        self.end += length
        self.h = h

    def by_seq(self, seq: int) -> LinePlace | None:
        """The line with that seq."""
        row = bisect_left(self.seqs, seq)
        if row == len(self.seqs) or self.seqs[row] != seq:
            return None
        return LinePlace(seq, self.offsets[row], self.lengths[row])

    def by_id(self, id_: str) -> tuple[LinePlace, ...]:
        """The line with that id, if there is one."""
        row = self.ids.get(id_)
        if row is None:
            return ()
        return (LinePlace(self.seqs[row], self.offsets[row], self.lengths[row]),)


class SealedIds:
    """The lines and ids of a sealed segment, in 24 bytes a line."""

    __slots__ = ("_first", "_hashes", "_lengths", "_offsets", "_rows", "_seqs")

    def __init__(self, first: int, columns: list[array[int]]) -> None:
        self._first = first
        self._seqs, self._offsets, self._lengths, self._hashes, self._rows = columns

    @classmethod
    def of(cls, table: IdTable, first: int) -> SealedIds:
        """What a whole table says, sorted."""
        order = sorted((id_hash(id_), row) for id_, row in table.ids.items())
        return cls(
            first,
            [
                array("I", [seq - first for seq in table.seqs]),
                array("I", table.offsets),
                array("I", table.lengths),
                array("Q", [hashed for hashed, _ in order]),
                array("I", [row for _, row in order]),
            ],
        )

    @property
    def hashes(self) -> Sequence[int]:
        """The hashes of all ids, sorted."""
        return self._hashes

    def by_seq(self, seq: int) -> LinePlace | None:
        """The line with that seq."""
        wanted = seq - self._first
        row = bisect_left(self._seqs, wanted) if wanted >= 0 else len(self._seqs)
        if row == len(self._seqs) or self._seqs[row] != wanted:
            return None
        return LinePlace(seq, self._offsets[row], self._lengths[row])

    def by_id(self, id_: str) -> tuple[LinePlace, ...]:
        """The lines whose id may be this one."""
        return self.by_hash(id_hash(id_))

    def by_hash(self, hashed: int) -> tuple[LinePlace, ...]:
        """The lines whose id has that hash: nearly always one or none."""
        hashes = self._hashes
        at = bisect_left(hashes, hashed)
        if at == len(hashes) or hashes[at] != hashed:
            return ()
        rows = self._rows[at : bisect_right(hashes, hashed, at)]
        return tuple(
            LinePlace(self._seqs[row] + self._first, self._offsets[row], self._lengths[row])
            for row in rows
        )

    def dump(self, size: int, h: bytes) -> bytes:
        """The cache file of a segment with that size and last hash."""
        columns = (self._seqs, self._offsets, self._lengths, self._hashes, self._rows)
        parts = [
            MAGIC,
            size.to_bytes(8, "little"),
            h,
            len(self._seqs).to_bytes(8, "little"),
            len(self._hashes).to_bytes(8, "little"),
            *(little(column).tobytes() for column in columns),
        ]
        whole = b"".join(parts)
        return whole + sha256(whole).digest()[:16]

    @classmethod
    def load(cls, whole: bytes, first: int, size: int, h: bytes) -> SealedIds | None:
        """The cache file's content, or None where it is damaged or of another segment."""
        seen = memoryview(whole)
        if len(whole) < FRAME_BYTES + 16 or sha256(seen[:-16]).digest()[:16] != whole[-16:]:
            return None
        if whole[:32] != MAGIC + size.to_bytes(8, "little") + h:
            return None
        lines = int.from_bytes(whole[32:40], "little")
        ids = int.from_bytes(whole[40:48], "little")
        columns: list[Any] = []
        at = FRAME_BYTES
        for code, count in (("I", lines), ("I", lines), ("I", lines), ("Q", ids), ("I", ids)):
            end = at + count * (8 if code == "Q" else 4)
            if sys.byteorder == "little":  # as it lies: a process for one answer asks for one line
                columns.append(seen[at:end].cast(code))  # type: ignore[call-overload]
            else:
                columns.append(little(array(code, whole[at:end])))
            at = end
        return cls(first, columns) if at == len(whole) - 16 else None


def write_cache(home: str, path: str, content: bytes) -> None:
    """Keep a cache file below the home if the disk lets us; nothing depends on it."""
    new = f"{path}.{os.getpid()}.new"
    with suppress(OSError):
        nofollow.make_folder(os.path.dirname(path), home)
        fd = nofollow.create_draft(new, home=home)
        try:
            whole = os.write(fd, content) == len(content)
        finally:
            os.close(fd)
        try:
            if whole:
                nofollow.rename_name(new, path, home=home)
        finally:
            drop(new, home)  # it has another name now, or nobody needs it


_SEQ: Final = regex(rb'\{"seq":(\d{1,19}),')


def may_hold_id(data: bytes, id_: str) -> bool:
    """Whether that id is said anywhere."""
    return id_field(id_).encode() in data


def line_of_seq(data: bytes, seq: int) -> LinePlace | None:
    """Where the line with that seq is, by halves: seqs rise. None too where a line looks odd."""
    low, high = 0, len(data)  # lines begin at both
    while low < high:
        middle = (low + high) // 2
        start = max(data.rfind(b"\n", low, middle) + 1, low)
        end = data.find(b"\n", middle) + 1
        said = _SEQ.match(data, start)
        if not end:  # torn
            high = start
        elif said is None:
            return None
        elif int(said[1]) == seq:
            return LinePlace(seq, start, end - start)
        elif int(said[1]) < seq:
            low = end
        else:
            high = start
    return None


# Positions of the lines of each segment, by seq and by id.
#
# A sealed segment has a sorted table in a cache file; the table of the newest one grows with it.


_BITS: Final = 27  # of a place in `KnownIds`: 16 MiB
_PROBES: Final = 4
# Of a log of fewer segments each one is asked for an id; of one that has so many more than what is
# known is of, what is known grows.
_ASKED_MAX: Final = 16


class KnownIds:
    """Which ids a log may have: never "no" for one that was added; rarely "perhaps" for another.

    A Bloom filter (Bloom 1970; positions by double hashing, Kirsch and Mitzenmacher 2006) of
    2 ** `bits` bits, 16 MiB as it is used, whatever the number of ids. Of other ids it says
    "perhaps" for less than one in a million at 1,000,000 ids, one in 230 at 10,000,000; who asks
    looks those up. `end` is the hash of the last line whose id was added.
    """

    def __init__(self, bits: int = _BITS) -> None:
        self._mask, self._shift = (1 << bits) - 1, bits
        self._bits = bytearray((1 << bits) + 7 >> 3)
        self.end = b""

    @classmethod
    def of(cls, hashes: Iterable[int], end: bytes) -> KnownIds:
        """Those that a log has, up to the line with hash `end`."""
        known = cls()
        for hashed in hashes:
            known.add(hashed)
        known.end = end
        return known

    def add(self, hashed: int) -> None:
        """Add the id that has this hash (`id_hash`)."""
        mask, bits, at, step = self._mask, self._bits, hashed, hashed >> self._shift | 1
        for _ in range(_PROBES):
            bits[(at & mask) >> 3] |= 1 << (at & 7)
            at += step

    def may_have(self, hashed: int) -> bool:
        """Whether an id with this hash may have been added."""
        mask, bits, at, step = self._mask, self._bits, hashed, hashed >> self._shift | 1
        for _ in range(_PROBES):
            if not bits[(at & mask) >> 3] >> (at & 7) & 1:
                return False
            at += step
        return True


# So many times a process searches the last segment's bytes, and so often it reads them for that,
# before it verifies all of it for a table: a process for one answer needs a few lines.
_SEARCHES: Final = 100
_READINGS: Final = 3


class LinePlaces:
    """The offset tables of all segments, built when first asked for; safe between threads.

    `beginning` gives the position before a segment, `believed` its verified runs of lines. A file
    may have changed on disk since, so the caller verifies the line that it fetches.
    """

    def __init__(
        self,
        segments: Segments,
        home: str,
        beginning: Callable[[int], Position | None],
        believed: Believed,
        *,
        keep_caches: bool,
    ) -> None:
        self._segments, self._home, self._keep_caches = segments, home, keep_caches
        self._folder = f"{home}/index/ids"
        self._beginning, self._believed = beginning, believed
        self._sealed: dict[int, SealedIds] = {}
        self._mutex = allocate_lock()
        self._table: IdTable | None = None
        self._searches, self._readings = _SEARCHES, _READINGS
        self._bytes: tuple[tuple[int, ...], bytes] = (), b""
        self._known: KnownIds | None = None  # of the segments up to `_covered`
        self._covered, self._asked = -1, 0

    def forget_locks(self) -> None:
        """After a fork: another thread of the parent may have held it."""
        self._mutex = allocate_lock()

    def take(self, other: LinePlaces) -> None:
        """Take over the verified tables that another reader of the same log has of its segments."""
        self._sealed.update(other._sealed)

    def by_seq(self, number: int, seq: int) -> LinePlace | None:
        """Where the segment has the line with that seq."""
        sealed = self._sealed.get(number)
        if sealed is not None:
            return sealed.by_seq(seq)
        with self._mutex:
            data = self._searched(number)
            found = None if data is None else line_of_seq(data, seq)
            return self._of(number).by_seq(seq) if found is None else found

    def by_id(self, number: int, id_: str, hashed: int) -> Sequence[LinePlace]:
        """Where the segment may have lines with that id, of that hash; the oldest first."""
        sealed = self._sealed.get(number)
        if sealed is not None:
            return sealed.by_hash(hashed)
        with self._mutex:
            data = self._searched(number)
            if data is not None and not may_hold_id(data, id_):
                return ()
            return self._of(number).by_id(id_)

    def id_hashes(self, number: int) -> Sequence[int]:
        """The hashes of all ids of a segment."""
        with self._mutex:
            table = self._of(number)
            return table.hashes if isinstance(table, SealedIds) else [*map(id_hash, table.ids)]

    def asked(self, numbers: Sequence[int], hashed: int) -> Sequence[int]:
        """Those of the segments that may have an id of that hash: all, or the newest few."""
        known, covered = self._known, self._covered  # which rises behind what it covers
        if known is None:
            return numbers
        left = numbers[bisect_right(numbers, covered) :]
        return numbers if known.may_have(hashed) else left

    def missed(self, numbers: Sequence[int], asked: int) -> None:
        """Note that so many segments were asked for an id that none has.

        Once that came to more than to gather the ids of all of them, these are gathered; what is
        erased keeps its id, and a sealed segment gets no other.
        """
        self._asked += asked
        if asked <= _ASKED_MAX or self._asked < self.entry(numbers[-1])[0]:
            return
        with self._mutex:
            known = self._known or KnownIds()
            for number in numbers[bisect_right(numbers, self._covered) : -1]:
                table = self._of(number)
                if not isinstance(table, SealedIds):
                    break
                for hashed in table.hashes:
                    known.add(hashed)
                self._covered = number
            self._known = known

    def _searched(self, number: int) -> bytes | None:
        """The bytes of the last segment while it has no table and few have asked; None else."""
        if self._table is not None or not self._searches:
            return None
        if self._segments.after(number) is not None:
            return None
        self._searches -= 1
        path = self._segments.path(number)
        found = os.lstat(path)
        key = (number, found.st_dev, found.st_ino, found.st_size)
        if self._bytes[0] != key:
            self._readings -= 1
            if self._readings < 0:
                self._searches, self._bytes = 0, ((), b"")
                return None
            self._bytes = key, read_segment_file(path)
        data = self._bytes[1]
        if not self._searches:
            self._bytes = (), b""
        return data

    @property
    def has_table(self) -> bool:
        """Whether `added` is of any use."""
        return self._table is not None

    def added(self, number: int, start: int, ids: Sequence[str], lines: list[bytes]) -> None:
        """Note what the writer appended at byte `start`: spares reading it again."""
        with self._mutex:
            table = self._table
            if table is not None and table.number == number and table.end == start:
                for id_, line in zip(ids, lines, strict=True):
                    table.add(id_, len(line), line[-19:-3])

    def sealed(self, number: int, following: int) -> None:
        """Keep the table of a segment that was just followed by another one; begin one for that.

        Without it all lines would be read again when an id is first looked for among all segments.
        """
        with self._mutex:
            table = self._table
            if table is not None and table.number == number and self._keep_caches:
                ids = SealedIds.of(table, self.entry(number)[0] + 1)
                path = f"{self._folder}/{number:08d}.ids"
                write_cache(self._home, path, ids.dump(table.end, table.h))
            self._table_of(following)

    def _of(self, number: int) -> IdTable | SealedIds:
        """Where the segment's lines are. Under the mutex."""
        following = self._segments.after(number)
        header = None if following is None else self._segments.header(following)
        if following is None or header is None:
            return self._table_of(number)
        sealed = self._sealed.get(number)
        if sealed is None:
            size = os.lstat(self._segments.path(number)).st_size
            path = f"{self._folder}/{number:08d}.ids"
            try:
                content = nofollow.read_bytes(path, home=self._home)
            except OSError:
                content = b""
            first = self.entry(number)[0] + 1
            sealed = SealedIds.load(content, first, size, header.prev_h)
            if sealed is None:
                table = self._new_table(number)
                data, believed = self._believed(number, 0, table.seq, table.h, following)
                for run in believed:
                    table.take(data, 0, run)
                sealed = SealedIds.of(table, first)
                if self._keep_caches:
                    write_cache(self._home, path, sealed.dump(size, header.prev_h))
            self._sealed[number] = sealed
        return sealed

    def _new_table(self, number: int) -> IdTable:
        found = os.lstat(self._segments.path(number))
        seq, h = self.entry(number)
        return IdTable(number, (found.st_dev, found.st_ino), seq, h)

    def entry(self, number: int) -> tuple[int, bytes]:
        """What the segment follows: as its header says, or else as the one before it ends."""
        header = self._segments.header(number)
        if header is not None:
            return header.prev_seq, header.prev_h
        beginning = self._beginning(number)
        if beginning is not None:
            return beginning.seq, beginning.h.encode()
        before = max(each for each in self._segments.numbers() if each < number)
        seq, h = self.entry(before)
        _, believed = self._believed(before, 0, seq, h, number)
        return (believed[-1].last, believed[-1].h) if believed else (seq, h)

    def _table_of(self, number: int) -> IdTable:
        """The table of a segment without a readable successor, grown to the segment's end."""
        found = os.lstat(self._segments.path(number))
        identity = (found.st_dev, found.st_ino)
        table = self._table
        if table is not None and table.number == number and table.identity == identity:
            if table.end == found.st_size:
                return table
            if table.end < found.st_size and self._grow(table):
                return table
        table = self._new_table(number)
        self._grow(table)
        self._table = table
        return table

    def _grow(self, table: IdTable) -> bool:
        """Read what was appended; False where it does not follow what the table holds."""
        base = table.end
        data, believed = self._believed(table.number, base, table.seq, table.h, None)
        follows = bool(believed) and believed[0].start == 0
        if base and data.rfind(b"\n") >= 0 and not follows:
            return False
        for run in believed:
            table.take(data, base, run)
        return True


# Reading without the lock: every line is verified, damage is skipped and listed.
#
# Nothing is written but the id caches (`LinePlaces`), and those only where the log may be written.


Found = TypeVar("Found")

_LOOK_BYTES: Final = 8192  # most lines are shorter; behind a longer one all is read
_ERASED_MAX: Final = 1000  # lines of a gap that are looked up among the purged ones


class Gap(NamedTuple):
    """A region that reading skips: bytes offset..end of the segment, seqs first..last."""

    segment: int
    offset: int
    end: int
    first: int
    last: int


class LineSpan(NamedTuple):
    """A run of believed lines; its positions count from byte `offset` of the segment."""

    segment: int
    offset: int
    data: bytes
    run: Run


class LogReader:
    """The log as it lies on disk, for any number of threads."""

    def __init__(
        self, home: str, segments: Segments, loads: Callable[[bytes], Any], *, keep_caches: bool
    ) -> None:
        self._segments, self._loads = segments, loads
        self._seen: tuple[Position, tuple[int, ...]] | None = None
        self._gaps: dict[tuple[int, int], Gap] = {}
        self._salvaged: set[tuple[int, int, int]] = set()
        self._excused = 0
        self.purges = Purges(segments, loads)
        self._places = LinePlaces(
            segments, home, self._beginning, self._believed, keep_caches=keep_caches
        )

    def forget_locks(self) -> None:
        """After a fork: another thread of the parent may have held it."""
        self._places.forget_locks()

    def take(self, other: LogReader) -> None:
        """Take over what another reader of the same log verified: where sealed lines are."""
        self._places.take(other._places)

    def read(self, after: int = 0, upto: int | None = None) -> Iterator[Line]:
        """See `memplane.ports.EventLog.read`."""
        position = self._start(after)
        if position is None:
            return
        for span in self._spans(position):
            if span.run.last <= after:
                continue
            if upto is not None and span.run.first > upto:
                return
            yield from self._lines(span, after, upto)

    def read_from(self, position: Position) -> Iterator[Line]:
        """The lines behind a position that `matches`; NotFoundError where it does not."""
        if not self.matches(position):
            raise NotFoundError(
                f"{self._segments.path(position.segment)}: byte {position.offset} does not follow "
                f"seq {position.seq} with h {position.h}: read the log from its beginning"
            )
        return self._read_on(position)

    def _read_on(self, position: Position) -> Iterator[Line]:
        if self._segments.numbers():
            for span in self._spans(position):
                yield from self._lines(span)

    def matches(self, position: Position) -> bool:
        """Whether the log still holds this hash right before this byte; reads 19 bytes.

        A reader without a head starts to look for it there.
        """
        found = self._holds(position)
        if found and self._seen is None and position.offset and self._is_line(position):
            self._seen = position, ()
        return found

    def _is_line(self, position: Position) -> bool:
        """Whether the line that ends at this byte begins with the position's seq."""
        data = self._segments.bytes_before(position.segment, position.offset, _LOOK_BYTES)
        line = data.rfind(b"\n", 0, -1) + 1
        return (line > 0 or len(data) == position.offset) and data.startswith(
            b'{"seq":%d,' % position.seq, line
        )

    def _holds(self, position: Position) -> bool:
        numbers = self._segments.numbers()
        if not numbers or position.offset == 0:
            return position == self._beginning(position.segment)
        following = self._segments.after(position.segment)
        if following is not None:
            header = self._segments.header(following)
            if header is not None and position.seq > header.prev_seq:
                return False
        said = self._segments.bytes_before(position.segment, position.offset, 19)
        return said == position.h.encode() + b'"}\n'

    def head(self) -> Position:
        """See `memplane.ports.EventLog.head`; where nothing changed, this costs one stat."""
        seen = self._seen
        if seen is not None:
            head, key = seen
            if key == self._key(head.segment) and self._segments.after(head.segment) is None:
                return head
        numbers = self._segments.numbers()
        if not numbers:
            return self._empty()
        if seen is not None and seen[0].segment == numbers[-1] and self._holds(seen[0]):
            position: Position | None = seen[0]
        else:
            position = self._beginning(numbers[-1]) or self._start(0)
        assert position is not None
        # Not what `_seen` names: another thread that began to read earlier may have put it back.
        spans = self._spans(position)
        while True:
            try:
                next(spans)
            except StopIteration as end:
                found: Position = end.value
                return found

    def line(self, seq: int) -> Line | None:
        """The line with that seq, if it is there and verifies."""
        return self._again(lambda: self._line(seq))

    def _again(self, look: Callable[[], Found]) -> Found:
        """Look once more where a segment went under our eyes."""
        try:
            return look()
        except (FileNotFoundError, StrangeFileError):
            self._segments.numbers(fresh=True)
            return look()

    def _line(self, seq: int) -> Line | None:
        for number in reversed(self._segments.numbers()):
            header = self._segments.header(number)
            if header is not None and header.prev_seq >= seq:
                continue
            place = self._places.by_seq(number, seq)
            if place is not None:
                return self._fetch(number, place)
            if header is not None:
                return None
        return None

    def line_at(self, seq: int, number: int, offset: int, length: int) -> Line | None:
        """See `FileLog.line_at`."""
        try:
            return self._fetch(number, LinePlace(seq, offset, length))
        except (FileNotFoundError, StrangeFileError):
            return self.line(seq)

    def line_kept(
        self, seq: int, before: bytes, raw: bytes, number: int, offset: int
    ) -> Line | None:
        """See `FileLog.line_kept`."""
        prefix = b'{"seq":%d,' % seq
        if raw.startswith(prefix) and chain_hash(before, raw[:-SUFFIX_BYTES]) == stated_hash(raw):
            with suppress(*NO_EVENT):
                return Line(decode(self._loads(raw)), number, offset, offset + len(raw) + 1)
        return None

    def find(self, id_: str) -> Line | None:
        """The line with that id, the oldest where there are two in one segment."""
        found = self.look_up(id_)
        return found if isinstance(found, Line) else None

    def look_up(self, id_: str) -> Line | int | None:
        """The line with that id; the seq that it had, where a purge has erased it."""
        return self._again(lambda: self._look_up(id_))

    def _look_up(self, id_: str) -> Line | int | None:
        numbers = self._segments.numbers()
        hashed = id_hash(id_)
        asked = self._places.asked(numbers, hashed)
        for number in reversed(asked):
            for each in self._places.by_id(number, id_, hashed):
                line = self._fetch(number, each)
                if line is not None and line.event.id == id_:
                    return line
                if line is None and self._erased_id(number, each) == id_:
                    return each.seq
        self._places.missed(numbers, len(asked))
        return None

    def id_hashes(self, numbers: Sequence[int]) -> Iterator[int]:
        """The hashes (`id_hash`) of all ids in segments, purged lines' too."""
        for number in numbers:
            yield from self._places.id_hashes(number)

    def gaps(self) -> tuple[Gap, ...]:
        """What reading and looking up had to skip so far, in log order."""
        return tuple(self._gaps[key] for key in sorted(self._gaps) if self._counts(self._gaps[key]))

    def damage(self) -> Gap | None:
        """A gap in a sealed segment that no salvage has recorded; it forbids appending."""
        for _ in self.read():  # the salvage's events come later in the log than what they excuse
            continue
        for gap in self.gaps():
            sealed = self._segments.after(gap.segment) is not None
            if sealed and gap[:3] not in self._salvaged:
                return gap
        self._excused = len(self._gaps)
        return None

    @property
    def suspicious(self) -> bool:
        """Whether reading met damage that `damage` has not looked into yet."""
        return len(self._gaps) != self._excused

    @property
    def has_table(self) -> bool:
        """Whether `added` is of any use."""
        return self._places.has_table

    def added(self, number: int, start: int, ids: Sequence[str], lines: list[bytes]) -> None:
        """Note what the writer appended at byte `start`: spares reading it again."""
        self._places.added(number, start, ids, lines)

    def sealed(self, number: int, following: int) -> None:
        """Note that a segment is followed by another one; see `LinePlaces.sealed`."""
        self._places.sealed(number, following)

    def _empty(self) -> Position:
        return Position(0, self._segments.genesis.decode(), 1, 0)

    def _beginning(self, number: int) -> Position | None:
        """The position before a segment's first line; None where its header is damaged."""
        numbers = self._segments.numbers()
        if not numbers or number == numbers[0]:
            empty = self._empty()
            return empty._replace(segment=number) if numbers else empty
        header = self._segments.header(number)
        return (
            None if header is None else Position(header.prev_seq, header.prev_h.decode(), number, 0)
        )

    def _start(self, after: int) -> Position | None:
        """The beginning of the segment in which `after` + 1 must be."""
        numbers = self._segments.numbers()
        for number in reversed(numbers):
            position = self._beginning(number)
            if position is not None and position.seq <= after:
                return position
        return None

    def _key(self, number: int) -> tuple[int, ...]:
        try:
            found = os.lstat(self._segments.path(number))
        except (FileNotFoundError, StrangeFileError):
            return ()
        return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)

    def _spans(self, position: Position) -> Generator[LineSpan, None, Position]:
        """Every believed run behind the position; remembers the head, and returns it."""
        seq, h, number, offset = (
            position.seq,
            position.h.encode(),
            position.segment,
            position.offset,
        )
        while True:
            following = self._segments.after(number)
            key = self._key(number)
            if offset == 0:
                header = self._segments.header(number)
                if header is not None:
                    if header.prev_seq > seq:  # the segments before the first one are gone
                        self._note(Gap(number, 0, 0, seq + 1, header.prev_seq))
                    seq, h = header.prev_seq, header.prev_h
            data, believed = self._believed(number, offset, seq, h, following)
            for run in believed:
                yield LineSpan(number, offset, data, run)
                seq, h = run.last, run.h
            if following is None:
                end = believed[-1].end if believed else 0
                whole = (*key[:2], offset + len(data), *key[3:])
                # Only what the stat before the reading described can be known by that stat.
                head = Position(seq, h.decode(), number, offset + end)
                self._seen = head, key if key == whole else ()
                return head
            header = self._segments.header(following)
            if header is not None:
                seq, h = header.prev_seq, header.prev_h
            number, offset = following, 0

    def _believed(
        self, number: int, offset: int, seq: int, h: bytes, following: int | None
    ) -> tuple[bytes, list[Run]]:
        """The segment's bytes from `offset` and the runs among them that are part of the log."""
        header = None if following is None else self._segments.header(following)
        bound = None if header is None else header.prev_seq
        for _ in range(2):  # a short write may be taken back, a line purged under our eyes
            try:
                data = read_segment_file(self._segments.path(number), offset)
                believed = runs(data, 0, seq, h)
            except (FileNotFoundError, StrangeFileError):
                data, believed = b"", []
            kept, gaps = _within(believed, seq, bound, Gap(number, offset, len(data), 0, 0))
            if not gaps and (bound is not None or not believed or _whole(believed, data)):
                break
        for gap in gaps:
            self._note(gap)
        return data, kept

    def _note(self, gap: Gap) -> None:
        """Remember damage, but for a line whose erasing was interrupted: it is known to be gone."""
        seqs = range(gap.first, gap.last + 1)
        if not 0 < len(seqs) <= _ERASED_MAX or not self.purges.all_of(seqs):
            self._gaps[gap.segment, gap.offset] = gap

    def _counts(self, gap: Gap) -> bool:
        """Whether the gap is still within the log: what a repair left behind is not."""
        following = self._segments.after(gap.segment)
        header = None if following is None else self._segments.header(following)
        return header is None or gap.first <= header.prev_seq

    def _lines(self, span: LineSpan, after: int = 0, upto: int | None = None) -> Iterator[Line]:
        """The lines of a run with after < seq <= upto; within a run no seq is missing."""
        run = span.run
        loads, data, base, number = self._loads, span.data, span.offset, span.segment
        bounds = [*run.starts, run.end]
        first = max(0, after + 1 - run.first)
        last = len(run.starts) if upto is None else min(len(run.starts), upto + 1 - run.first)
        start = bounds[first]
        erased, purges = run.erased, self.purges
        gone = purges.known
        for end in bounds[first + 1 : last + 1]:
            if erased and start in erased:
                start = end
                continue
            try:
                event = decode(loads(data[start : end - 1]))
            except NO_EVENT:  # the chain has no secret: a line that verifies may be anybody's
                seq = run.first + bisect_right(run.starts, start) - 1
                self._note(Gap(number, base + start, base + end, seq, seq))
                start = end
                continue
            if event.kind == "repair" and event.data.get("case") == "salvaged":
                self._salvaged.add(region_of(event))
            elif event.kind == "purge":
                purges.note(event)
            if gone and event.seq in gone:  # its erasing has begun
                start = end
                continue
            # The quickest way to make one: whoever folds a log goes through all of it.
            yield tuple.__new__(Line, (event, number, base + start, base + end))
            start = end

    def _raw(self, number: int, place: LinePlace) -> tuple[bytes, bytes]:
        """The hash before a line, and the line without its newline."""
        before = min(place.offset, 19)
        segments = self._segments
        fd = segments.take(number)
        try:
            data = nofollow.pread(fd, before + place.length, place.offset - before)
        finally:
            segments.release(number, fd)
        return data[:16] if before else self._places.entry(number)[1], data[before:-1]

    def _erased_id(self, number: int, place: LinePlace) -> str | None:
        h, raw = self._raw(number, place)
        return erased_id(raw, place.seq - 1, h)

    def _fetch(self, number: int, place: LinePlace) -> Line | None:
        """One line, checked against the one before; None where it was purged, or is no event."""
        h, raw = self._raw(number, place)
        line = self.line_kept(place.seq, h, raw, number, place.offset)
        if line is not None:
            return line
        if erased_id(raw, place.seq - 1, h) is not None:
            return None
        # It may follow a damaged line, or the file was replaced: then only reading on decides.
        return next(self.read(place.seq - 1, place.seq), None)


def _whole(believed: list[Run], data: bytes) -> bool:
    """Whether all up to the last newline is believed."""
    return believed[-1].end > data.rfind(b"\n")


def _within(
    believed: list[Run], seq: int, bound: int | None, place: Gap
) -> tuple[list[Run], list[Gap]]:
    """What of the runs belongs to the log (up to `bound`), and what lies between and behind them.

    `place`: the segment, the offset at which the runs' positions begin, and their bytes.
    """
    number, offset, size = place[:3]
    kept: list[Run] = []
    gaps: list[Gap] = []
    at = 0
    for each in believed:
        run = each if bound is None else until(each, bound)
        if not run.starts:
            continue
        if run.start > at or run.first > seq + 1:
            gaps.append(Gap(number, offset + at, offset + run.start, seq + 1, run.first - 1))
        kept.append(run)
        at, seq = run.end, run.last
    if bound is not None and seq < bound:
        gaps.append(Gap(number, offset + at, offset + size, seq + 1, bound))
    return kept, gaps


# Lines that are looked at again and again: the same values and answers come up request after
# request.
_LINES_KEPT: Final = 2_048
_LINE_BYTES: Final = 16_384


class LineCache:
    """The lines asked for last, at most 2,048; one of more than 16 KiB is read again each time.

    `read` returns the line with a seq, as `FileLog.line` does, or None. A line never changes once
    it is written. After a purge, or where the log may have been cut and gone on, make a new cache,
    or name what the line must be. One thread at a time.
    """

    def __init__(self, read: Callable[[int], Line | None]) -> None:
        self._read = read
        self._lines: OrderedDict[int, Line] = OrderedDict()

    def line(self, seq: int, known: tuple[str, int, int] | None = None) -> Line | None:
        """Return the line with that seq, if it is there and verifies.

        `known` is the id of its event, its segment and its offset there: a cached line that has
        others is read again.
        """
        found = self._lines.get(seq)
        if found is not None and (
            known is None or known == (found.event.id, found.segment, found.offset)
        ):
            self._lines.move_to_end(seq)
            return found
        found = self._read(seq)
        if found is not None and found.end - found.offset <= _LINE_BYTES:
            self._lines[seq] = found
            if len(self._lines) > _LINES_KEPT:
                self._lines.popitem(last=False)
        return found
