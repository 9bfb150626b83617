"""The entries of a shared log: their bytes, and what each says; and a shared log in memory.

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
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from threading import Condition
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from memplane.errors import ConflictError, FormatError, InputError
from memplane.event import NO_EVENT, Draft, Event, decode, encode
from memplane.lazy import NamedTuple, regex, word_set
from memplane.log.format import (
    SUFFIX_BYTES,
    Opening,
    id_field,
    line_id,
    prepared,
    stated_hash,
)
from memplane.log.segments import bodies_of, erased_by, named_bodies
from memplane.ports import SharedEntry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from memplane.ports import Clock


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
    draft = Draft(
        said.id,
        True,
        said.ts if "rec" in fields else None,
        event.kind,
        event.ns,
        event.role,
        event.session,
        event.key,
        event.text,
        raw[said.rest : -SUFFIX_BYTES],
    )
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
    draft = Draft(
        event.id,
        True,
        None if ts is None else event.ts,
        event.kind,
        event.ns,
        event.role,
        event.session,
        event.key,
        event.text,
        rest,
    )
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
