"""The entries of a shared log, and the log that is derived from them, in files or in memory.

An entry is one line of JSON, of one of these forms (each folded here)::

    {"format":1,"plane":"01J…"}                                  the first one: whose log this is
    {"format":1,"rec":"2026-…Z","bodies":["<sha256>"],"event":{"id":"…","ts":"…","kind":"…",…}}
    {"format":1,"piece":"<sha256>","of":"<id of the event>","at":0,"data":"<base64>"}
    {"format":1,"stone":{"id":"…","bytes":412,"h":"<16 hex>","rec":"2026-…Z"}}   an erased event
    {"format":1,"stone":{}}                                                      an erased piece

`event` is the line of the log without seq, rec and h, as the publisher's memplane wrote it. `rec`
is stated where an entry is published again after the engine lost it; `bodies` where texts lie
beside the line, whose pieces (at most 256 KiB each, `at` their first byte) are the entries before.
What is not of a form is no entry of memplane's, and gives no line.

**Deriving.** `Derivation` is the log as a function of the entries: it knows a place in a derived
log, takes entries one by one, and reads and writes nothing. The same entries give the same bytes
however they are cut into readings: what a line becomes depends on the lines before it alone. The
rules are in `docs/decisions/shared-log.md`. `Applying` turns entries into lines under the lock of
the log; `Comparison` derives a log from the first entry on, beside the one that is here. `KnownIds`
keeps both from looking each id up.

Files, beside those of a log::

    log/.shared         how far the log was derived: position and id of the last entry, the line
    log/.shared-erase   stones that the engine has not been given yet
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from threading import Condition
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from memplane import nofollow
from memplane.errors import ConflictError, FormatError, InputError, NotFoundError, WriteError
from memplane.event import NO_EVENT, Draft, Event, decode, encode, encode_text
from memplane.lazy import NamedTuple, Protocol, regex, word_set
from memplane.log.disk import drop
from memplane.log.reader import KnownIds, id_hash
from memplane.log.segments import (
    SUFFIX_BYTES,
    Opening,
    Point,
    bodies_of,
    body_path,
    chained,
    draft_again,
    erased_by,
    genesis,
    id_field,
    line_id,
    named_bodies,
    prepared,
    read_segment_file,
    segment_lines,
    stamp_line,
    stated_hash,
    store_body,
    tombstone,
)
from memplane.log.writer import Active, Writer
from memplane.ports import Line, SharedEntry
from memplane.upkeep.purge import FolderSearch, Quotations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from memplane.log.disk import Disk
    from memplane.log.segments import Judgement, Segments
    from memplane.ports import Clock, SharedLog


FORMAT: Final = 1
PIECE_BYTES: Final = 256 * 1024
# What no other memplane publishes; a longer one is not even parsed.
ENTRY_BYTES_MAX: Final = 4 * 1024 * 1024
_EVENT: Final = regex(
    rb'\{"format":1,(?:"rec":"([^"\\]{27})",)?(?:"bodies":(\["[0-9a-f",]*"\]),)?'
    rb'"event":\{("id":"(?:[^"\\]|\\.)*"),(?:"ts":"([^"\\]{27})",)?("kind":"[^"]*".*)\}\}'
)
_HEX64: Final = regex(r"[0-9a-f]{64}")
_TIME: Final = regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
# What a tombstone has beside the id, for seqs of up to 13 digits; no line of an event is shorter.
_TOMBSTONE_BYTES: Final = 82
# A line has its seq, `rec` and hash besides: a stone of more erased no entry, and is not made room.
_LINE_BYTES_MAX: Final = ENTRY_BYTES_MAX + 256
_HEX16: Final = regex(r"[0-9a-f]{16}")
# Deeper than any event of memplane's; how deep Python itself parses differs between machines.
_DEPTH_MAX: Final = 64
# What a log writes about itself follows from the entries: nobody publishes it.
_OWN: Final = word_set("segment repair")


class Beginning(NamedTuple):
    """The first entry: the plane that the log is of."""

    plane: str


class Published(NamedTuple):
    """An event. `rec` is "" where the engine's time counts; `bodies` are hashes of its texts."""

    draft: Draft
    event: Event
    rec: str
    bodies: tuple[str, ...]


class Piece(NamedTuple):
    """Bytes of a body, from byte `at` on, for the event with the id `of`."""

    body: str
    of: str
    at: int
    data: bytes


class Stone(NamedTuple):
    """What stands where an event was: id, length (without newline), hash and `rec` of its line."""

    id: str
    bytes: int
    h: str
    rec: str


class Hole:
    """What stands where a piece was erased."""


Entry: TypeAlias = Beginning | Published | Piece | Stone | Hole


def beginning(plane_id: str) -> tuple[str, bytes]:
    """The id and payload of a log's first entry."""
    return f"plane-{plane_id}", encode({"format": FORMAT, "plane": plane_id}).encode()


def stone(said: Stone) -> bytes:
    """What is put in the place of an erased event."""
    return encode({"format": FORMAT, "stone": said._asdict()}).encode()


HOLE: Final = encode({"format": FORMAT, "stone": {}}).encode()
STONE: Final = HOLE[: HOLE.index(b"{}")]  # how every stone begins


def published(
    draft: Draft, body: Callable[[str], bytes | None], *, rec: str = ""
) -> Iterator[tuple[str, bytes]]:
    """Yield the ids and payloads of a draft's entries: the pieces of its bodies, then itself.

    `body` gives what already lies beside the log, by its SHA-256: the copy of an artifact.
    """
    texts = {sha256(one).hexdigest(): one for one in bodies_of(draft)}
    fields = json.loads(b"{" + draft.rest + b"}")
    for digest in named_bodies(str(fields.get("kind")), fields.get("data") or {}):
        found = None if digest in texts else body(digest)
        if found is not None:
            texts[digest] = found
    for digest, text in texts.items():
        for at in range(0, max(len(text), 1), PIECE_BYTES):
            said: dict[str, Any] = {"format": FORMAT, "piece": digest, "of": draft.id, "at": at}
            said["data"] = b64encode(text[at : at + PIECE_BYTES]).decode()
            yield f"{draft.id}/{digest[:16]}/{at}", encode(said).encode()
    known = f'"rec":"{rec}",' if rec else ""
    if texts:
        known += f'"bodies":{encode({"": list(texts)})[4:-1]},'
    ts = "" if draft.ts is None else f'"ts":"{draft.ts}",'
    begin = f'{{"format":{FORMAT},{known}"event":{{{prepared(draft)},{ts}'
    yield draft.id, b"%b%b}}" % (begin.encode(), draft.rest)


def published_again(
    raw: bytes, said: Opening | None, rec: str, body: Callable[[str], bytes | None]
) -> tuple[str, list[tuple[str, bytes]]] | None:
    """The id and the entries of a line (without newline) that an engine lost; None for no event.

    `said` is the line's opening, None for a purged one, whose `rec` is that of the line before.
    """
    if said is None:
        id_, h = line_id(raw), stated_hash(raw)
        if id_ is None or h is None:
            return None
        return id_, [(id_, stone(Stone(id_, len(raw), h.decode(), rec)))]
    if raw.startswith(b'"kind":"segment"', said.rest):
        return None
    fields = json.loads(raw)
    event = decode(fields)
    given = said.ts if "rec" in fields else None
    draft = draft_again(event, given, raw[said.rest : -SUFFIX_BYTES])
    return said.id, [*published(draft, body, rec=said.rec)]


def moved(purge: Published, seqs: Mapping[str, int]) -> Draft:
    """The draft of a purge event, which names the lines of its ids where they are now."""
    fields = json.loads(b"{" + purge.draft.rest + b"}")
    rows = [one for one in erased_by(purge.event) if one.id in seqs]
    fields["data"]["purge"] |= {
        "seqs": [seqs[one.id] for one in rows],
        "ids": [one.id for one in rows],
        "documents": [one.documents for one in rows],
    }
    return purge.draft._replace(rest=encode(fields)[1:-1].encode())


def parsed(payload: bytes) -> Entry | None:
    """What an entry says; None for what is none.

    By the standard library alone and for canonical lines alone, so that every machine decides
    alike. Raises FormatError for an entry of a newer memplane.
    """
    if len(payload) > ENTRY_BYTES_MAX:
        return None
    try:
        fields = json.loads(payload)
        format_ = fields["format"]
        if type(format_) is int and format_ > FORMAT:
            raise FormatError(
                f"the shared log has an entry of format {format_}; this memplane reads format "
                f"{FORMAT}: upgrade memplane"
            )
        if type(format_) is not int or format_ != FORMAT:
            return None
        [form] = [one for one in _FORMS if one in fields]
        return _FORMS[form](payload, fields)
    except (
        *NO_EVENT,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
        InputError,
    ):
        return None


def _beginning(payload: bytes, fields: dict[str, Any]) -> Entry | None:
    del payload
    plane = fields["plane"]
    return Beginning(plane) if isinstance(plane, str) and plane else None


def _event(payload: bytes, fields: dict[str, Any]) -> Entry | None:
    found = _EVENT.fullmatch(payload)
    said = fields["event"]
    if found is None or set(fields) - {"format", "rec", "bodies", "event"}:
        return None
    rec, _, quoted, ts, rest = found.groups()
    kept = {name: value for name, value in said.items() if name not in ("id", "ts")}
    if {"seq", "dur", "rec", "h"}.intersection(kept) or encode(kept)[1:-1].encode() != rest:
        return None  # not as memplane writes it: others may read it in another way
    event = decode({"seq": 0, "ts": "", **said})
    named = tuple(fields.get("bodies", ()))
    draft = draft_again(event, None if ts is None else event.ts, rest)
    usual = prepared(draft).encode() == quoted and all(map(_HEX64.fullmatch, named))
    times = [one.decode() for one in (rec, ts) if one is not None]
    if (
        not usual
        or not all(map(_is_time, times))
        or event.kind in _OWN
        or (event.data and _too_deep(event.data))
    ):
        return None
    return Published(draft, event, "" if rec is None else rec.decode(), named)


def _is_time(text: str) -> bool:
    """Whether a text is a time as a log states it: the header of a segment is made of one."""
    if not _TIME.fullmatch(text):
        return False
    datetime.fromisoformat(text)  # ValueError for a day that is none
    return text.isascii()


def _too_deep(data: dict[str, Any]) -> bool:
    level: list[Any] = [data]
    for _ in range(_DEPTH_MAX):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


def _piece(payload: bytes, fields: dict[str, Any]) -> Entry | None:
    del payload
    body, of, at = fields["piece"], fields["of"], fields["at"]
    data = b64decode(fields["data"], validate=True)
    if not _HEX64.fullmatch(body) or not isinstance(of, str) or type(at) is not int:
        return None
    return Piece(body, of, at, data) if at >= 0 and len(data) <= PIECE_BYTES else None


def _stone(payload: bytes, fields: dict[str, Any]) -> Entry | None:
    del payload
    said = fields["stone"]
    if said == {}:
        return Hole()
    id_, size, h, rec = said["id"], said["bytes"], said["h"], said["rec"]
    if not isinstance(id_, str) or type(size) is not int or not _HEX16.fullmatch(h):
        return None
    if not id_ or not isinstance(rec, str) or not _is_time(rec):
        return None
    fits = len(id_field(id_)) + _TOMBSTONE_BYTES <= size <= _LINE_BYTES_MAX
    return Stone(id_, size, h, rec) if fits else None


_FORMS: Final[dict[str, Callable[[bytes, dict[str, Any]], Entry | None]]] = {
    "event": _event,
    "piece": _piece,
    "stone": _stone,
    "plane": _beginning,
}


class MemorySharedLog:
    """The port `SharedLog` over a list. Threads may share one, each as a machine of its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: list[SharedEntry] = []
        self._notes: dict[str, bytes] = {}
        self._changed = Condition()

    def publish(
        self, entries: Sequence[tuple[str, bytes]], *, expected: int | None = None
    ) -> list[int]:
        """See `memplane.ports.SharedLog.publish`."""
        with self._changed:
            head = len(self._entries)
            if expected is not None and expected != head:
                raise ConflictError(
                    f"the shared log ends at position {head}, expected {expected}", id="", seq=head
                )
            now = self._clock()
            for place, (_, payload) in enumerate(entries, head + 1):
                self._entries.append(SharedEntry(place, now, payload))
            self._changed.notify_all()
            return list(range(head + 1, len(self._entries) + 1))

    def read(self, after: int, limit: int) -> list[SharedEntry]:
        """See `memplane.ports.SharedLog.read`."""
        with self._changed:
            return self._entries[max(after, 0) : max(after, 0) + limit]

    def wait(self, after: int, seconds: float) -> bool:
        """See `memplane.ports.SharedLog.wait`."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._entries) > after, seconds)

    def erase(self, stones: Mapping[int, bytes]) -> None:
        """See `memplane.ports.SharedLog.erase`."""
        with self._changed:
            for place, payload in stones.items():
                found = self._entries[place - 1]
                if not found.payload.startswith(STONE):
                    self._entries[place - 1] = found._replace(payload=payload)

    def head(self) -> int:
        """See `memplane.ports.SharedLog.head`."""
        return len(self._entries)

    def put_note(self, device: str, note: bytes) -> None:
        """See `memplane.ports.SharedLog.put_note`."""
        with self._changed:
            self._notes[device] = note

    def notes(self) -> dict[str, bytes]:
        """See `memplane.ports.SharedLog.notes`."""
        with self._changed:
            return dict(self._notes)

    def faults(self) -> list[str]:
        """See `memplane.ports.SharedLog.faults`."""
        return ["it lives in one process, and is gone with it"]

    def close(self) -> None:
        """Nothing is to be let go of; what is in it stays."""


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


# An event or a piece as memplane writes it, whose id (the first group) needs no unescaping.
_USUAL: Final = regex(
    rb'\{"format":1,(?:(?:"rec":"[^"\\]{27}",)?(?:"bodies":\["[0-9a-f",]*"\],)?"event":\{"id":'
    rb'|"piece":"[0-9a-f]{64}","of":)("[^"\\]*"),'
)
READ_AT_ONCE: Final = 1_000  # entries
_KINDS: Final = (int, str, int, str, str)  # of the fields of a Cursor


class Cursor(NamedTuple):
    """How far a log was derived: behind the entry at `position`, with its id; up to line `seq`."""

    position: int = 0
    id: str = ""
    seq: int = 0
    h: str = ""
    rec: str = ""


class DerivedLog(Protocol):
    """The log that entries are applied to, as `FollowerLog` is."""

    @property
    def home(self) -> str: ...

    def text(self, event: Event, /) -> str:
        """The whole text of an event."""

    def known_at(self, id_: str, /) -> Line | int | None:
        """The line with an id; the seq of a purged one; None where the log has none."""

    def hashes(self) -> list[bytes]:
        """The hash of each line, up to the first that does not verify."""

    def put_lines(self, active: Active, lines: list[DerivedLine], rec: str, /) -> None:
        """Write lines behind the last one."""

    def sealed(self, number: int, following: int, /) -> None:
        """Note that a segment is followed by another one."""

    def purge(self, writer: FollowerWriter, one: DerivedLine, rec: str, /) -> Active:
        """Write the line of a purge event and erase what it names."""

    def again_erased(self, id_: str, positions: Sequence[int], /) -> None:
        """Note entries that bring a purged event again."""


def add_ids(known: KnownIds, lines: DerivedLine) -> None:
    """Add the ids of what an entry gave, that of a header too."""
    if lines.header:
        known.add(id_hash(line_id(lines.header) or ""))
    if lines.line:
        known.add(id_hash(lines.id))


class FollowerWriter(Writer):
    """Writes derived lines. Nothing is stamped here, and nothing has to be durable."""

    def begun(self) -> Active | None:
        """The active segment, caught up; None where the log has no line yet. Under the lock."""
        if not self.segments.numbers(fresh=True):
            return None
        return self.catch_up(alone=False)

    def begin_derived(self, number: int, header: bytes) -> Active:
        """Make the segment with that header, and go on in it. Under the lock.

        The one before is durable first: only the newest segment is verified when a log is opened.
        """
        if self.active is not None:
            try:
                self.disk.fdatasync(self.active.fd)
            except OSError as error:
                raise WriteError(f"{self.active.path}: {error.strerror}; try again") from error
        self.disk.publish(self.segments.path(number), header)
        self.segments.numbers(fresh=True)
        self.active = self._open(number)
        self._newest = number
        return self.active

    def sync(self, active: Active, seq: int, *, alone: bool = True) -> None:
        """Nothing: the engine keeps what is acknowledged."""

    def _open(self, number: int, known: int = 0) -> Active:
        del known  # no line was durable here because somebody waited for it
        return super()._open(number)

    def _set_aside(
        self, active: Active, data: bytes, judged: Judgement, rec: str, case: str
    ) -> int:
        """Cut what does not verify: it is derived again."""
        del data, rec, case
        self.disk.ftruncate(active.fd, judged.good)
        return active.number


class Applying:
    """Entries on their way to lines, under the lock."""

    def __init__(
        self,
        log: DerivedLog,
        writer: FollowerWriter,
        active: Active | None,
        place: Derivation,
        cursor: Cursor,
        known: KnownIds | None = None,
    ) -> None:
        """`known` has the ids of all lines so far, where that is worth keeping."""
        self._log, self._writer, self._active, self._place = log, writer, active, place
        self._perhaps = known
        self._lines: list[DerivedLine] = []
        self._ids: set[str] = set()
        self._last: SharedEntry | None = None
        self._begin = cursor
        self._pieces: list[int] = []  # positions of those right before

    def take(self, entry: SharedEntry) -> None:
        """Derive what the entry adds; written by `put` at the latest."""
        one = self._place.take(entry, self._known)
        if is_piece(entry):
            self._pieces.append(entry.position)
            return
        pieces, self._pieces = self._pieces, []
        if one is not None:
            self._add(one)
        elif (id_ := id_of(entry)) and isinstance(self._log.known_at(id_), int):
            self._log.again_erased(id_, [*pieces, entry.position])
        self._last = entry

    def _known(self, id_: str) -> bool:
        if self._perhaps is not None and not self._perhaps.may_have(id_hash(id_)):
            return False
        return id_ in self._ids or self._log.known_at(id_) is not None

    def _add(self, one: DerivedLine) -> None:
        if self._perhaps is not None:
            add_ids(self._perhaps, one)
        for body in one.bodies:
            store_body(self._log.home, body, self._writer.disk)
        if one.header:
            self.put()
            before = self._active
            self._active = self._writer.begin_derived(self._place.segment, one.header)
            if before is not None:
                self._log.sealed(before.number, self._active.number)
        if not one.line:
            return
        if one.event is not None and one.event.kind == "purge":
            self.put()
            assert self._active is not None
            self._active = self._log.purge(self._writer, one, self._place.end.rec)
            return
        self._lines.append(one)
        self._ids.add(one.id)

    def put(self) -> None:
        """Write the lines that were derived."""
        lines, self._lines = self._lines, []
        self._ids.clear()
        if lines:
            assert self._active is not None
            self._log.put_lines(self._active, lines, self._place.end.rec)

    @property
    def cursor(self) -> Cursor:
        """Where the log stands now: behind the last entry that is no piece."""
        if self._last is None:
            return self._begin
        end = self._place.end
        return Cursor(self._last.position, id_of(self._last), end.seq, end.h.decode(), end.rec)


class Comparison:
    """The entries of an engine from the first one on, beside the lines of a log.

    `place` is behind the last line that both have, `cursor` behind the last entry before another.
    `ended`: an entry gave a line that the log does not have there.
    """

    def __init__(self, log: DerivedLog, place: Derivation) -> None:
        self._log, self.place, self._hashes = log, place, log.hashes()
        self._perhaps = KnownIds()
        self.head = len(self._hashes)
        self.cursor, self.ended = Cursor(), False
        self._last = place.end

    @property
    def is_whole(self) -> bool:
        """Whether the engine has all lines of the log."""
        return self._last.seq == self.head

    @property
    def seq(self) -> int:
        """The last line that both have."""
        return self._last.seq

    def see(self, entry: SharedEntry) -> bool:
        """Take the next entry; False where it gives a line that the log does not have."""
        one = self.place.take(entry, self._known)
        if one is not None:
            seqs = range(self._last.seq + 1, self.place.end.seq + 1)
            hashes = [line[-19:-3] for line in (one.header, one.line) if line]
            found = [self._hashes[seq - 1 : seq] for seq in seqs]
            if found != [[one] for one in hashes]:
                self.ended = True
                # A segment that was just begun, and whose first line was lost or not written yet.
                if one.header and found[0] == hashes[:1] and self.head == seqs[0]:
                    self._last = self._last._replace(seq=self.head)
                return False
            add_ids(self._perhaps, one)
        self._last = self.place.end
        if not is_piece(entry):
            end = self.place.end
            self.cursor = Cursor(entry.position, id_of(entry), end.seq, end.h.decode(), end.rec)
        return True

    def _known(self, id_: str) -> bool:
        if not self._perhaps.may_have(id_hash(id_)):
            return False
        found = self._log.known_at(id_)
        seq = found.event.seq if isinstance(found, Line) else found
        return seq is not None and seq <= self.place.end.seq


def read_cursor(home: str) -> Cursor:
    """What `log/.shared` says; the beginning where it says nothing that can be read."""
    try:
        said = json.loads(nofollow.read_bytes(f"{home}/log/.shared"))
        cursor = Cursor(*(said[name] for name in Cursor._fields))
        whole = all(isinstance(one, kind) for one, kind in zip(cursor, _KINDS, strict=True))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return Cursor()
    return cursor if whole else Cursor()


def write_cursor(home: str, disk: Disk, cursor: Cursor) -> None:
    """Replace `log/.shared`; not synced, as the log is not."""
    path = f"{home}/log/.shared"
    new = f"{path}.{os.getpid()}.new"
    fd = nofollow.create_draft(new, home=home)
    try:
        os.write(fd, encode(cursor._asdict()).encode())
    finally:
        os.close(fd)
    disk.replace(new, path, home)


def read_to_erase(home: str) -> tuple[dict[str, Stone], list[int]]:
    """What the engine is to be given: stones by id, and positions of which nothing stays."""
    try:
        said = json.loads(nofollow.read_bytes(f"{home}/log/.shared-erase"))
        stones = {id_: Stone(id_, *row) for id_, row in said["stones"].items()}
        return stones, [int(one) for one in said["holes"]]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}, []


def write_to_erase(
    home: str, disk: Disk, stones: Mapping[str, Stone], holes: Sequence[int]
) -> None:
    """Replace `log/.shared-erase`, durably; remove it where nothing is left."""
    path = f"{home}/log/.shared-erase"
    if stones or holes:
        rows = {id_: list(one[1:]) for id_, one in stones.items()}
        said = encode({"stones": rows, "holes": [*holes]})
        disk.publish(path, said.encode(), home)
    else:
        drop(path, home)


def line_hashes(segments: Segments) -> list[bytes]:
    """The hash of each line of a log, purged ones too, up to the first that does not verify."""
    found: list[bytes] = []
    h = segments.genesis
    for number in segments.numbers(fresh=True):
        data = read_segment_file(segments.path(number))
        run = chained(data, 0, len(data), len(found), h)
        ends = [*run.starts[1:], run.end]
        found += [data[end - 19 : end - 3] for end in ends if run.starts]
        h = run.h
    return found


def files_quoting(log: DerivedLog, events: Sequence[Event]) -> list[str]:
    """The files of this machine that hold something of the events: bodies, reports, copies."""
    named = {digest for event in events for digest in named_bodies(event.kind, event.data)}
    texts = []
    for event in events:
        try:
            texts.append(log.text(event))
        except (NotFoundError, OSError, ValueError):
            texts.append(event.text)
    look = FolderSearch(Path(log.home), Quotations(texts), {one.id for one in events}, (), set())
    bodies = [os.path.relpath(body_path(log.home, one), log.home) for one in sorted(named)]
    return [*look.to_remove(), *bodies]


class _Places:
    """Which entries of a log say something of events that are to be erased.

    `events` are those that gave the lines, by the id; `rest` has pieces and repeats. `is_plain`
    where that is certain without deriving the log: there is one entry of each event that is left,
    and nothing but its id decides whether it gave a line. Others are passed over unparsed.
    """

    def __init__(self, ids: Iterable[str], plane_id: str) -> None:
        self._ids, self._plane_id = frozenset(ids), plane_id
        self._quoted = {encode_text(one).encode() for one in self._ids}
        self._begun = False
        self._stones: set[str] = set()
        self.events: dict[str, int] = {}
        self.rest: list[int] = []
        self.is_plain = True

    def see(self, entry: SharedEntry) -> None:
        """Take the next entry."""
        found = _USUAL.match(entry.payload)
        if found is not None and found[1] not in self._quoted:
            return
        said = parsed(entry.payload)
        if isinstance(said, Beginning):
            self._begun = self._begun or said.plane == self._plane_id
        elif isinstance(said, Piece) and said.of in self._ids:
            self.rest.append(entry.position)
        elif isinstance(said, Stone) and said.id in self._ids:
            self._stones.add(said.id)
            self.is_plain = self.is_plain and said.id not in self.events
        elif isinstance(said, Published) and (id_ := said.draft.id) in self._ids:
            again = id_ in self.events or id_ in self._stones
            unsure = said.bodies or said.event.kind == "purge" or not self._begun
            self.is_plain = self.is_plain and not (again or unsure)
            self.events[id_] = entry.position


def put_stones(
    engine: SharedLog,
    stones: Mapping[str, Stone],
    plane_id: str,
    beginning: Callable[[], Derivation],
) -> None:
    """Give the engine the stones of purged events, and let nothing of their pieces stay."""
    places = _Places(stones, plane_id)
    for entries in _all_of(engine):
        for entry in entries:
            places.see(entry)
    if places.is_plain:
        engine.erase({at: stone(stones[id_]) for id_, at in places.events.items()})
        engine.erase(dict.fromkeys(places.rest, HOLE))
    else:
        _put_stones_derived(engine, stones, beginning())


def _put_stones_derived(engine: SharedLog, stones: Mapping[str, Stone], place: Derivation) -> None:
    known, rest = set[str](), dict[int, bytes]()
    for entries in _all_of(engine):
        events: dict[int, bytes] = {}
        for entry in entries:
            one = place.take(entry, known.__contains__)
            if one is not None:
                known.add(one.id)
                if one.id in stones:
                    events[entry.position] = stone(stones[one.id])
                continue
            # A stone gives a line: it stands only where the event gave one.
            said = parsed(entry.payload)
            of = said.of if isinstance(said, Piece) else id_of(entry)
            if of in stones:
                rest[entry.position] = HOLE
        engine.erase(events)
    engine.erase(rest)  # last: without its pieces an event would give no line


def _all_of(engine: SharedLog) -> Iterator[list[SharedEntry]]:
    after = 0
    while entries := engine.read(after, READ_AT_ONCE):
        yield entries
        after = entries[-1].position


def id_of(entry: SharedEntry) -> str:
    """The id of the event that an entry brings or erased; "" where it is of none."""
    said = parsed(entry.payload)
    if isinstance(said, Published):
        return said.draft.id
    return said.id if isinstance(said, Stone) else ""


def is_piece(entry: SharedEntry) -> bool:
    """Whether an entry is a piece of a body."""
    return b'"piece":' in entry.payload[:40]


def is_entry(entry: SharedEntry, cursor: Cursor) -> bool:
    """Whether an entry is the one that the cursor stands behind."""
    return entry.position == cursor.position and id_of(entry) == cursor.id
