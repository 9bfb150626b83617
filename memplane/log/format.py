"""The bytes of a line: numbering, hash chain, verification. The format is the package's docstring.

Each line contains a hash over itself and the hash of the line before it (linked time-stamping,
Haber and Stornetta 1991). Ids are ULIDs (https://github.com/ulid/spec).
"""

from __future__ import annotations

import json
from binascii import hexlify
from hashlib import sha256
from typing import Final

from memplane.errors import InputError
from memplane.event import Draft, encode
from memplane.lazy import NamedTuple, regex

FORMAT: Final = 1
SUFFIX_BYTES: Final = 24  # without the newline
OPENING: Final = regex(
    rb'\{"seq":(\d+),(?:"dur":(\d+),)?"id":("(?:[^"\\]|\\.)*"),"ts":"([^"]*)"(?:,"rec":"([^"]*)")?,'
)
ERASED: Final = regex(
    rb'\{"seq":(\d+),"id":("(?:[^"\\]|\\.)*"),"purged":true,"c":"([0-9a-f]{16})" *,"h":"[^"]*"\}'
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

    `starts` are the lines' first bytes, `h` the last line's hash, `dur` the highest one stated,
    `erased` those of the starts where a purge left nothing but a line's place.
    """

    start: int
    end: int
    first: int
    last: int
    h: bytes
    dur: int
    starts: list[int]
    erased: frozenset[int] = frozenset()


def genesis(plane_id: str) -> bytes:
    """The hash that the first line of a plane chains from."""
    return sha256(plane_id.encode()).hexdigest()[:16].encode()


def chain_hash(h: bytes, body: bytes) -> bytes:
    """The hash of a line with this body behind a line with this hash."""
    return sha256(h + body).hexdigest()[:16].encode()


def stated_hash(raw: bytes) -> bytes | None:
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


def tombstone(raw: bytes, id_: str, h: bytes) -> bytes:
    """What a purge puts in the place of a line (without newline) behind a line with hash `h`.

    It has the same length, seq and hash, so that the next line still chains from it. Its `c` is
    the first 16 hex digits of SHA-256(h + the line with nothing between the quotes of `c`). Only
    the seq and the last 24 bytes of `raw` are read, which stay as they are: an overwriting that
    was interrupted can be done again.
    """
    suffix = raw[-SUFFIX_BYTES:]
    seq = raw[: raw.index(b",")]
    begin = b'%b,%b,"purged":true' % (seq, encode({"id": id_})[1:-1].encode())
    end = b'"'.ljust(len(raw) - len(begin) - 16 - 6 - SUFFIX_BYTES) + suffix
    check = sha256(b'%b%b,"c":"%b' % (h, begin, end)).hexdigest()[:16].encode()
    return b'%b,"c":"%b%b' % (begin, check, end)


def erased_id(raw: bytes, seq: int, h: bytes) -> str | None:
    """The id of a purged line (without newline) behind (seq, h); None for any other line."""
    match = ERASED.fullmatch(raw) if b'"purged":true,"c":"' in raw else None
    said = stated_hash(raw)
    if match is None or said is None or int(match[1]) != seq + 1:
        return None
    if not raw.startswith(b'{"seq":%d,' % (seq + 1)):
        return None
    covered = h + raw[: match.start(3)] + raw[match.end(3) :]
    if sha256(covered).hexdigest()[:16].encode() != match[3]:
        return None
    try:
        id_ = json.loads(match[2])
    except ValueError:
        return None
    return id_ if isinstance(id_, str) else None


def line_id(raw: bytes) -> str | None:
    """The id of a line that verifies, also of a purged one."""
    read = opening(raw)
    if read is not None:
        return read.id
    match = ERASED.match(raw)
    return None if match is None else json.loads(match[2])


def prepared(draft: Draft) -> str:
    """Check what the log itself depends on and return the line's `"id":"..."`."""
    id_, rest, ts = draft.id, draft.rest, draft.ts
    if not rest.startswith(b'"kind":"') or b"\n" in rest:
        raise InputError('a draft\'s rest is one line that begins with `"kind":"`', where="rest")
    if ts is not None and (len(ts) != 27 or ts[26] != "Z" or '"' in ts or "\\" in ts):
        raise InputError(f"expected `YYYY-MM-DDTHH:MM:SS.ffffffZ`, found {ts!r}", where="ts")
    if not id_:
        raise InputError("an id has at least one character", where="id")
    return id_field(id_)


def id_field(id_: str) -> str:
    """How a line says its id."""
    if '"' in id_ or "\\" in id_ or not id_.isprintable():
        return encode({"id": id_})[1:-1]
    return f'"id":"{id_}"'


def stamp_line(
    seq: int, dur: int, quoted_id: str, ts: str | None, rec: str, rest: bytes, h: bytes
) -> tuple[bytes, bytes]:
    """One line, newline included, and its hash."""
    known = f'"dur":{dur},' if dur else ""
    times = rec if ts is None else f'{ts}","rec":"{rec}'
    body = f'{{"seq":{seq},{known}{quoted_id},"ts":"{times}",'.encode() + rest
    digest = hexlify(sha256(h + body).digest()[:8])
    return body + b',"h":"' + digest + b'"}\n', digest


def chained(data: bytes, pos: int, size: int, seq: int, h: bytes) -> Run:
    """The longest run of lines from `pos` on that follow (seq, h) without a break."""
    start, first, dur = pos, seq + 1, 0
    starts: list[int] = []
    erased: list[int] = []
    find, begins, keep, hashed = data.find, data.startswith, starts.append, sha256
    known = counted = b"\n"  # what lines say of `dur`: most say what the one before them said
    while pos < size:
        end = find(b"\n", pos, size)
        if end < 0:
            break
        if not begins(b'{"seq":%d,%b' % (seq + 1, known), pos):
            prefix = b'{"seq":%d,' % (seq + 1)
            if not begins(prefix, pos):
                break
            at = pos + len(prefix)
            known = data[at : find(b",", at) + 1] if begins(b'"dur":', at) else b""
        digest = hexlify(hashed(h + data[pos : end - 24]).digest()[:8])
        if data[end - 24 : end] != b',"h":"' + digest + b'"}':
            if erased_id(data[pos:end], seq, h) is None:
                break
            erased.append(pos)
            digest = data[end - 18 : end - 2]
        if known is not counted:
            counted, dur = known, max(dur, int(known[6:-1] or 0))
        keep(pos)
        seq, h, pos = seq + 1, digest, end + 1
    return Run(start, pos, first, seq, h, dur, starts, frozenset(erased))


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
        said = stated_hash(raw)
        if said is not None and read is not None and read.seq > seq:
            for candidate in before:
                if chain_hash(candidate, raw[:-SUFFIX_BYTES]) == said:
                    return pos, read.seq - 1, candidate
        if read is None and (match := ERASED.fullmatch(raw)) is not None and int(match[1]) > seq:
            for candidate in before:
                if erased_id(raw, int(match[1]) - 1, candidate) is not None:
                    return pos, int(match[1]) - 1, candidate
        # If only the suffix was hit, the next line chains from what it should have said.
        before = [chain_hash(candidate, raw[:-SUFFIX_BYTES]) for candidate in before[:1]]
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


def derived_ulid(ts: str, *parts: bytes) -> str:
    """A ULID of that time whose other 80 bits follow from the parts, without chance."""
    from datetime import datetime  # noqa: PLC0415 - a process that only appends never needs it

    moment = int(datetime.fromisoformat(ts).timestamp() * 1000)
    number = (moment << 80) | int.from_bytes(sha256(b"\0".join(parts)).digest()[:10], "big")
    return "".join(CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5))


def own_draft(kind: str, data: dict[str, object], id_: str) -> Draft:
    """An event that the log writes about itself."""
    rest = encode({"kind": kind, "data": data})[1:-1].encode()
    return Draft(id_, False, None, kind, "/global", None, None, None, "", rest)
