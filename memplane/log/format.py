"""Bytes of a line: stamping, chaining, checking. The format is the package's docstring."""

from __future__ import annotations

import json
import re
from binascii import hexlify
from hashlib import sha256
from typing import Final, NamedTuple

from memplane.errors import InputError
from memplane.event import Draft, encode

__all__ = [
    "FORMAT",
    "SUFFIX_BYTES",
    "Opening",
    "Run",
    "chained",
    "genesis",
    "link",
    "opening",
    "own_draft",
    "prepared",
    "runs",
    "stamp",
    "stated",
    "ulid",
    "until",
]

FORMAT: Final = 1
SUFFIX_BYTES: Final = 24  # without the newline
OPENING: Final = re.compile(
    rb'\{"seq":(\d+),(?:"dur":(\d+),)?"id":("(?:[^"\\]|\\.)*"),"ts":"([^"]*)"(?:,"rec":"([^"]*)")?,'
)
CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class Opening(NamedTuple):
    """What a line says before its kind. `rest` is where `"kind"` begins."""

    seq: int
    dur: int
    id: str
    ts: str
    rec: str
    rest: int


class Run(NamedTuple):
    """Lines that chain without a break: bytes start..end of the data, seqs first..last.

    `starts` are the lines' first bytes, `h` the last line's hash, `dur` the highest one stated.
    """

    start: int
    end: int
    first: int
    last: int
    h: bytes
    dur: int
    starts: list[int]


def genesis(plane_id: str) -> bytes:
    """The hash that the first line of a plane chains from."""
    return sha256(plane_id.encode()).hexdigest()[:16].encode()


def link(h: bytes, body: bytes) -> bytes:
    """The hash of a line with this body behind a line with this hash."""
    return sha256(h + body).hexdigest()[:16].encode()


def stated(raw: bytes) -> bytes | None:
    """The hash that a line (without newline) claims, if it ends as a line must."""
    if len(raw) > SUFFIX_BYTES and raw[-24:-18] == b',"h":"' and raw[-2:] == b'"}':
        return raw[-18:-2]
    return None


def opening(raw: bytes) -> Opening | None:
    """Read a line's first fields without parsing the rest; None where they are not as written."""
    match = OPENING.match(raw)
    if match is None:
        return None
    seq, dur, quoted, ts, rec = match.groups()
    id_ = quoted[1:-1].decode("utf-8", "replace")
    if "\\" in id_:
        try:
            id_ = json.loads(quoted)
        except ValueError:  # a damaged line
            return None
    when = ts.decode("ascii", "replace")
    recorded = when if rec is None else rec.decode("ascii", "replace")
    return Opening(int(seq), int(dur or 0), id_, when, recorded, match.end())


def prepared(draft: Draft) -> str:
    """Check what the log itself depends on and return the line's `"id":"..."`."""
    rest, ts = draft.rest, draft.ts
    if not rest.startswith(b'"kind":"') or b"\n" in rest:
        raise InputError('a draft\'s rest is one line that begins with `"kind":"`', where="rest")
    if ts is not None and (len(ts) != 27 or ts[26] != "Z" or '"' in ts or "\\" in ts):
        raise InputError(f"expected `YYYY-MM-DDTHH:MM:SS.ffffffZ`, found {ts!r}", where="ts")
    if not draft.id:
        raise InputError("an id has at least one character", where="id")
    if '"' in draft.id or "\\" in draft.id or not draft.id.isprintable():
        return encode({"id": draft.id})[1:-1]
    return f'"id":"{draft.id}"'


def stamp(
    seq: int, dur: int, quoted_id: str, ts: str | None, rec: str, rest: bytes, h: bytes
) -> tuple[bytes, bytes]:
    """One line, newline included, and its hash."""
    known = f'"dur":{dur},' if dur else ""
    times = f'"ts":"{rec}"' if ts is None else f'"ts":"{ts}","rec":"{rec}"'
    body = f'{{"seq":{seq},{known}{quoted_id},{times},'.encode() + rest
    digest = sha256(h + body).hexdigest()[:16].encode()
    return b'%b,"h":"%b"}\n' % (body, digest), digest


def chained(data: bytes, pos: int, size: int, seq: int, h: bytes) -> Run:
    """The longest run of lines from `pos` on that follow (seq, h) without a break."""
    start, first, dur = pos, seq + 1, 0
    starts: list[int] = []
    find, begins, keep, hashed = data.find, data.startswith, starts.append, sha256
    known = b"\n"  # most lines say what the one before them said
    while pos < size:
        end = find(b"\n", pos, size)
        prefix = b'{"seq":%d,' % (seq + 1)
        if end < 0 or not begins(prefix, pos):
            break
        digest = hexlify(hashed(h + data[pos : end - 24]).digest()[:8])
        if data[end - 24 : end] != b',"h":"%b"}' % digest:
            break
        at = pos + len(prefix)
        if not begins(known, at) and begins(b'"dur":', at):
            stop = find(b",", at) + 1
            known, dur = data[at:stop], max(dur, int(data[at + 6 : stop - 1]))
        keep(pos)
        seq, h, pos = seq + 1, digest, end + 1
    return Run(start, pos, first, seq, h, dur, starts)


def runs(data: bytes, pos: int, seq: int, h: bytes) -> list[Run]:
    """Every believed run from `pos` to the last newline; what lies between two of them is bad.

    The first run follows (seq, h) and may be empty; each later one begins with a
    line that chains from the line before it, whatever that line holds.
    """
    size = data.rfind(b"\n", pos) + 1
    found = [chained(data, pos, size, seq, h)]
    while (last := found[-1]).end < size:
        again = _believed_again(data, last.end, size, last.last, last.h)
        if again is None:
            break
        found.append(chained(data, again[0], size, again[1], again[2]))
    return found


def _believed_again(
    data: bytes, pos: int, size: int, seq: int, h: bytes
) -> tuple[int, int, bytes] | None:
    """The first line behind a bad one that verifies locally: its place, the seq and h before it."""
    before = [h]
    while pos < size:
        end = data.find(b"\n", pos, size)
        raw = data[pos:end]
        read = opening(raw)
        said = stated(raw)
        if said is not None and read is not None and read.seq > seq:
            for candidate in before:
                if link(candidate, raw[:-SUFFIX_BYTES]) == said:
                    return pos, read.seq - 1, candidate
        # If only the suffix was hit, the next line chains from what it should have said.
        before = [link(candidate, raw[:-SUFFIX_BYTES]) for candidate in before[:1]]
        if said is not None:
            before.append(said)
        pos = end + 1
    return None


def until(run: Run, bound: int) -> Run:
    """The part of a run up to a seq."""
    if run.last <= bound:
        return run
    count = max(bound - run.first + 1, 0)
    starts = run.starts[:count]
    end = run.starts[count]
    # Its last hash is what the successor states; nobody chains from it here.
    return run._replace(starts=starts, end=end if starts else run.start, last=bound)


def ulid(ts: str, *parts: bytes) -> str:
    """A ULID of that time whose other 80 bits follow from the parts, without chance."""
    from datetime import datetime  # noqa: PLC0415 - a process that only appends never needs it

    moment = int(datetime.fromisoformat(ts).timestamp() * 1000)
    number = (moment << 80) | int.from_bytes(sha256(b"\0".join(parts)).digest()[:10], "big")
    return "".join(CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5))


def own_draft(kind: str, data: dict[str, object], id_: str) -> Draft:
    """An event that the log writes about itself."""
    rest = encode({"kind": kind, "data": data})[1:-1].encode()
    return Draft(id_, False, None, kind, "/global", None, None, None, "", rest)
