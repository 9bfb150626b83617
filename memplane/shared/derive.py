"""The log as a function of the entries of a shared log: which line each entry gives.

`Derivation` knows a place in a derived log and takes entries one by one; it reads and writes
nothing. The same entries give the same bytes however they are cut into readings: what a line
becomes depends on the lines before it alone. The rules are in `docs/decisions/shared-log.md`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from memplane.lazy import NamedTuple
from memplane.log.format import genesis, prepared, stamp_line, tombstone
from memplane.log.segments import Point, erased_by, segment_lines
from memplane.shared.entries import Beginning, Piece, Published, Stone, parsed

if TYPE_CHECKING:
    from collections.abc import Callable

    from memplane.event import Event
    from memplane.ports import SharedEntry
    from memplane.shared.entries import Entry

SEGMENT_BYTES: Final = 4 * 1024 * 1024  # a segment that has so many is followed by another one
# Of one event whose entry has not come; a longer body than memplane publishes is not gathered.
_PENDING_BYTES_MAX: Final = 256 * 1024 * 1024


def _next_day(at: str) -> str:
    """A time a day later: an engine's clock that went back did not go further, as a rule."""
    return f"{datetime.fromisoformat(at) + timedelta(days=1):%Y-%m-%dT%H:%M:%S.%fZ}"


class DerivedLine(NamedTuple):
    """What an entry adds to the log: a line, newline included, and what goes with it.

    `header`: the first line of a new segment, which goes before; b"" for none. `id`: of the event,
    which is None where the line is a tombstone. `bodies` are texts that lie beside the line.
    """

    header: bytes
    line: bytes
    id: str
    event: Event | None
    bodies: tuple[bytes, ...]


class Derivation:
    """A place in the log of a plane: behind the line `end`, at byte `offset` of a segment.

    Segment 0 is before the log begins; `plane_id` is None until an entry has named the plane.
    """

    def __init__(
        self,
        plane_id: str | None,
        end: Point | None = None,
        segment: int = 0,
        offset: int = 0,
        *,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.plane_id = plane_id
        self.end = end or Point(0, b"", "")
        self.segment, self.offset = segment, offset
        self._segment_bytes = segment_bytes
        # What came right before: the pieces of one event alone, so that a reading may begin
        # behind any entry that is no piece.
        self._of = ""
        self._pieces: dict[str, bytearray] = {}  # by SHA-256

    def take(self, entry: SharedEntry, known: Callable[[str], bool]) -> DerivedLine | None:
        """What the next entry adds; None where it adds nothing.

        `known` says whether the log has a line with an id, also a purged one. Raises FormatError
        for an entry of a newer memplane, and then stands where it stood.
        """
        said = parsed(entry.payload)
        if isinstance(said, Piece):
            self._gather(said)
            return None
        texts = self._gathered(said)
        if isinstance(said, Beginning):
            return self._begun(said, entry)
        if not isinstance(said, Published | Stone) or not self.segment:
            return None
        if isinstance(said, Stone):
            usual = said.rec <= entry.at or said.rec <= _next_day(entry.at)
            return self._tombstone(said) if usual and not known(said.id) else None
        bodies = tuple(texts[one] for one in said.bodies if one in texts)
        # A purge of what is not there yet would hide whatever comes.
        early = any(one.seq > self.end.seq for one in erased_by(said.event))
        if early or len(bodies) < len(said.bodies) or known(said.draft.id):
            return None
        return self._line(said, entry, bodies)

    def _line(self, said: Published, entry: SharedEntry, bodies: tuple[bytes, ...]) -> DerivedLine:
        header, rec = self._room(min(said.rec or entry.at, entry.at))
        draft, seq = said.draft, self.end.seq + 1
        line, h = stamp_line(seq, 0, prepared(draft), draft.ts, rec, draft.rest, self.end.h)
        self._add(line, h, rec)
        event = said.event._replace(seq=seq, rec=rec, ts=draft.ts or rec)
        return DerivedLine(header, line, draft.id, event, bodies)

    def _tombstone(self, said: Stone) -> DerivedLine:
        """The line in the place of one that a purge erased before this log had it."""
        header, rec = self._room(said.rec)
        raw = b'{"seq":%d,' % (self.end.seq + 1)
        suffix = b',"h":"%b"}' % said.h.encode()
        whole = raw + suffix.rjust(said.bytes - len(raw))
        line = tombstone(whole, said.id, self.end.h) + b"\n"
        self._add(line, said.h.encode(), rec)
        return DerivedLine(header, line, said.id, None, ())

    def _begun(self, said: Beginning, entry: SharedEntry) -> DerivedLine | None:
        """The first segment; only the first entry of its kind begins a log."""
        if self.segment:
            return None
        if self.plane_id is None:
            self.plane_id = said.plane
        if self.plane_id != said.plane:
            return None
        self.end = Point(0, genesis(said.plane), "")
        header = self._new_segment(entry.at)
        return DerivedLine(header, b"", "", None, ())

    def _room(self, at: str) -> tuple[bytes, str]:
        """The header of a new segment, if the next line needs one, and when it is recorded."""
        rec = max(self.end.rec, at)
        header = self._new_segment(rec) if self.offset >= self._segment_bytes else b""
        return header, rec

    def _new_segment(self, at: str) -> bytes:
        assert self.plane_id is not None
        self.segment, self.offset = self.segment + 1, 0
        [header] = segment_lines(self.plane_id, self.segment, self.end, at, ())
        self._add(header, header[-19:-3], max(self.end.rec, at))
        return header

    def _add(self, line: bytes, h: bytes, rec: str) -> None:
        self.end = Point(self.end.seq + 1, h, rec)
        self.offset += len(line)

    def _gather(self, piece: Piece) -> None:
        if piece.of != self._of:
            self._of, self._pieces = piece.of, {}
        text = self._pieces.setdefault(piece.body, bytearray())
        held = sum(map(len, self._pieces.values()))
        if len(text) == piece.at and held + len(piece.data) <= _PENDING_BYTES_MAX:
            text += piece.data

    def _gathered(self, said: Entry | None) -> dict[str, bytes]:
        """The whole bodies whose pieces came right before an entry, which are let go of."""
        of, texts = self._of, self._pieces
        self._of, self._pieces = "", {}
        if not isinstance(said, Published) or said.draft.id != of:
            return {}
        return {
            digest: bytes(text)
            for digest, text in texts.items()
            if sha256(text).hexdigest() == digest
        }
