"""The event log without files: the lines of `FileLog`, in memory, as long as the object lives.

For tests, for what need not be kept, and for stores that keep rows elsewhere. The same drafts at
the same times give the same bytes as a `FileLog` that syncs each append and is written by one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Self

from memplane.errors import ConflictError, NotFoundError
from memplane.event import Event, decode
from memplane.lazy import NamedTuple
from memplane.log.format import (
    SUFFIX_BYTES,
    chain_hash,
    genesis,
    prepared,
    stamp_line,
    stated_hash,
    tombstone,
)
from memplane.log.log import LINE_FRAME_BYTES, SEGMENT_BYTES_MAX, Known, same_content
from memplane.log.segments import (
    Erased,
    Point,
    bodies_of,
    body_hash,
    erased_by,
    recalled_hashes,
    segment_lines,
)
from memplane.ports import Appended, Line, Position

if TYPE_CHECKING:
    from memplane.errors import CorruptError
    from memplane.event import Draft
    from memplane.log.reader import Gap
    from memplane.log.segments import Restart
    from memplane.log.spool import AsideNote
    from memplane.ports import Clock

_NAME: Final = ":memory:"


class _Place(NamedTuple):
    """Where a line is. A purged one is there no more, and has its place."""

    segment: int
    offset: int
    end: int
    purged: bool = False


class _NothingWaits:
    """Nobody else can write, so nobody waits."""

    notes: Sequence[AsideNote] = ()

    def waits(self) -> bool:
        return False

    def names(self) -> list[str]:
        return []


class MemoryLog:
    """The log of one plane in this process. Threads may append and read at once.

    `loads` parses a line (the standard library's by default), `same` decides whether a repeated id
    brings the same event. Has what an open plane asks of its log; what speaks of files is empty.
    """

    home = _NAME
    outbox = False
    finished = 0  # purges that others left interrupted
    headers_missed = False

    def __init__(
        self,
        plane_id: str,
        *,
        clock: Clock,
        loads: Callable[[bytes], Any] = json.loads,
        same: Callable[[Event, Draft], bool] | None = None,
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
    ) -> None:
        self._plane_id, self._clock, self._loads = plane_id, clock, loads
        self._most = segment_bytes_max
        self._known = Known(self, loads, same or same_content)
        self._segments: list[bytearray] = []
        self._places: list[_Place] = []  # by seq - 1
        self._ids: dict[str, int] = {}
        self._bodies: dict[str, bytes] = {}
        self._purges: dict[int, Erased] = {}
        self._head = Position(0, genesis(plane_id).decode(), 0, 0)
        self._rec = ""
        self._mutex = Lock()
        self.waiting = _NothingWaits()

    def held(self) -> AbstractContextManager[None]:
        """Nothing is to be held open."""
        return nullcontext()

    def append(
        self, drafts: Sequence[Draft], *, expected_seq: int | None = None, wait: bool = True
    ) -> list[Appended]:
        """See `memplane.ports.EventLog.append`; ConflictError too if not at `expected_seq`."""
        del wait
        quoted = [prepared(draft) for draft in drafts]
        with self._mutex:
            if expected_seq is not None and expected_seq != self._head.seq:
                raise ConflictError(
                    f"the log is at seq {self._head.seq}, expected {expected_seq}; read on, try "
                    "again",
                    id="",
                    seq=self._head.seq,
                )
            if not self._segments:
                self._begin_segment()
            batch = self._known.sort(drafts, self._head.seq)
            fresh = [drafts[at] for at in batch.fresh]
            for draft in fresh:
                self._bodies.update((sha256(one).hexdigest(), one) for one in bodies_of(draft))
            written = self._write(fresh, [quoted[at] for at in batch.fresh])
            return batch.receipts(written, len(drafts))

    def seq_of_next(self, draft: Draft) -> int:
        """The seq that a draft gets if it is appended next, alone."""
        size = LINE_FRAME_BYTES + len(prepared(draft)) + len(draft.rest)
        with self._mutex:
            begins = not self._segments or self._overfills(size)
            return self._head.seq + 1 + begins

    def _overfills(self, size: int) -> bool:
        """Whether so many bytes more begin another segment; an empty one takes any."""
        return bool(self._places[-1].offset) and self._head.offset + size > self._most

    def follow(self) -> None:
        """No other machine records here."""

    def shared_facts(self) -> dict[str, Any] | None:
        """None: it follows no shared log."""
        return None

    def spool(self, drafts: Sequence[Draft]) -> list[Appended]:
        """Append: nobody else can hold this log."""
        return self.append(drafts)

    def _begin_segment(self) -> None:
        head = self._head
        before = Point(head.seq, head.h.encode(), self._rec)
        self._rec = max(self._rec, now := self._clock())
        self._segments.append(bytearray())
        for line in segment_lines(self._plane_id, len(self._segments), before, now, ()):
            self._add(line, line[-19:-3])
            self._ids[decode(self._loads(line)).id] = self._head.seq

    def _write(self, drafts: Sequence[Draft], quoted: Sequence[str]) -> list[Appended]:
        size = LINE_FRAME_BYTES * len(drafts) + sum(map(len, quoted))
        size += sum(len(draft.rest) for draft in drafts)
        if drafts and self._overfills(size):
            self._begin_segment()
        receipts: list[Appended] = []
        durable = self._head.seq  # as of a log that syncs each append
        rec = self._rec = max(self._rec, self._clock()) if drafts else self._rec
        for draft, id_ in zip(drafts, quoted, strict=True):
            seq = self._head.seq + 1
            line, h = stamp_line(
                seq, durable, id_, draft.ts, rec, draft.rest, self._head.h.encode()
            )
            self._add(line, h)
            self._ids[draft.id] = seq
            receipts.append(Appended(seq, draft.id, draft.ts or rec, duplicate=False))
        return receipts

    def _add(self, line: bytes, h: bytes) -> None:
        segment = self._segments[-1]
        begin, number = len(segment), len(self._segments)
        segment += line
        self._places.append(_Place(number, begin, len(segment)))
        # Last: a thread that reads meanwhile goes up to here.
        self._head = Position(self._head.seq + 1, h.decode(), number, len(segment))

    def _raw(self, place: _Place) -> bytes:
        """A line without its newline."""
        return bytes(self._segments[place.segment - 1][place.offset : place.end - 1])

    def _line(self, seq: int) -> Line | None:
        place = self._places[seq - 1]
        if place.purged:
            return None
        event = decode(self._loads(self._raw(place)))
        return Line(event, place.segment, place.offset, place.end)

    def read(self, after: int = 0, upto: int | None = None) -> Iterator[Line]:
        """See `memplane.ports.EventLog.read`."""
        last = self._head.seq if upto is None else min(upto, self._head.seq)
        for seq in range(max(after, 0) + 1, last + 1):
            line = self._line(seq)
            if line is not None:
                yield line

    def read_from(self, position: Position) -> Iterator[Line]:
        """The lines behind a position that `matches`; raises NotFoundError where it does not."""
        if not self.matches(position):
            raise NotFoundError(f"{_NAME}: no such place in the log: seq {position.seq}")
        return self.read(position.seq)

    def matches(self, position: Position) -> bool:
        """Whether the log has that h at that place."""
        if not 0 < position.seq <= self._head.seq:
            return False
        place = self._places[position.seq - 1]
        stands = (place.segment, place.end) == (position.segment, position.offset)
        return stands and stated_hash(self._raw(place)) == position.h.encode()

    def head(self) -> Position:
        """See `memplane.ports.EventLog.head`."""
        return self._head

    def line(self, seq: int) -> Line | None:
        """The line with that seq."""
        return self._line(seq) if 0 < seq <= self._head.seq else None

    def line_at(self, seq: int, segment: int, offset: int, length: int) -> Line | None:
        """The line with that seq, wherever it is."""
        del segment, offset, length
        return self.line(seq)

    def line_kept(
        self, seq: int, before: bytes, raw: bytes, segment: int, offset: int
    ) -> Line | None:
        """A line (without newline) that was kept elsewhere; None where its hash does not fit it."""
        if chain_hash(before, raw[:-SUFFIX_BYTES]) != stated_hash(raw):
            return None
        event = decode(self._loads(raw))
        if event.seq != seq:
            return None
        return Line(event, segment, offset, offset + len(raw) + 1)

    def bytes_before(self, segment: int, offset: int, most: int) -> bytes:
        """The last bytes before that one, at most so many."""
        if not 0 < segment <= len(self._segments):
            return b""
        return bytes(self._segments[segment - 1][max(offset - most, 0) : offset])

    def find(self, id: str) -> Line | None:  # noqa: A002 - the field's name
        """The line with that id."""
        found = self.look_up(id)
        return found if isinstance(found, Line) else None

    def look_up(self, id_: str) -> Line | int | None:
        """The line with that id; the seq of a purged one; None where there is none."""
        seq = self._ids.get(id_)
        if seq is None:
            return None
        return self._line(seq) or seq

    def says(self, words: bytes) -> bool:
        """Whether these bytes stand anywhere in the log."""
        return any(words in one for one in self._segments)

    def text(self, event: Event) -> str:
        """The event's whole text, from its body where the line holds only the beginning."""
        digest = body_hash(event)
        return event.text if digest is None else self._body(event, digest).decode()

    def recalled(self, event: Event) -> list[str | None]:
        """The blocks that were moved out of the event's text, in order; None for a lost one."""
        found = (self._bodies.get(digest) for digest in recalled_hashes(event))
        return [None if one is None else one.decode() for one in found]

    def _body(self, event: Event, digest: str) -> bytes:
        body = self._bodies.get(digest)
        if body is None:
            raise NotFoundError(f"{_NAME}: the text of event {event.seq} was purged")
        return body

    def erase(
        self,
        drafts: Sequence[Draft],
        lines: Mapping[int, str],
        files: Sequence[str],
        holes: Sequence[tuple[int, int, int]] = (),
    ) -> list[Appended]:
        """Append purge events, then overwrite the lines (seq -> id) that they name.

        Of `files` those that are bodies are dropped.
        """
        del holes
        quoted = [prepared(draft) for draft in drafts]
        with self._mutex:
            receipts = self._write(drafts, quoted)
            for receipt in receipts:
                line = self._line(receipt.seq)
                assert line is not None
                self._purges.update((one.seq, one) for one in erased_by(line.event))
            for seq, id_ in lines.items():
                self._overwrite(seq, id_)
            for path in files:
                parts = path.rsplit("/", 2)
                self._bodies.pop("".join(parts[-2:]), None)
        return receipts

    def _overwrite(self, seq: int, id_: str) -> None:
        place = self._places[seq - 1]
        before = self._places[seq - 2] if seq > 1 else None
        h = genesis(self._plane_id) if before is None else stated_hash(self._raw(before))
        assert h is not None
        gone = tombstone(self._raw(place), id_, h)
        self._segments[place.segment - 1][place.offset : place.end - 1] = gone
        self._places[seq - 1] = place._replace(purged=True)

    def erased(self, done: Sequence[Appended]) -> None:
        """Nothing is left to be finished."""

    def purged(self, seq: int) -> Erased | None:
        """What is known of a purged line; None where none was purged."""
        return self._purges.get(seq)

    def purged_between(self, first: int, last: int) -> list[Erased]:
        """What is known of the purged lines first..last, in order."""
        return [self._purges[seq] for seq in sorted(self._purges) if first <= seq <= last]

    def purged_as(self, named: int | str) -> Erased | None:
        """What is known of a purged line, by its seq or id; None where none was purged."""
        found = self.look_up(named) if isinstance(named, str) else named
        return self._purges.get(found) if isinstance(found, int) else None

    def headless(self) -> CorruptError | None:
        """None: nothing can be lost."""
        return None

    def headers_to_keep(self) -> tuple[str, bytes] | None:
        """None: there are no files."""
        return None

    def restarts(self) -> list[Restart]:
        """None: nothing was repaired."""
        return []

    def gaps(self) -> tuple[Gap, ...]:
        """None: nothing can be damaged."""
        return ()

    def flush(self) -> None:
        """Nothing is to be made durable."""

    def close(self) -> None:
        """Nothing is to be let go of; what is in it stays."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
