"""Segment files and their lines: what is written, how it is read back, which are torn.

A line holds a hash over itself and the hash of the line before it (linked time-stamping, Haber and
Stornetta 1991); the format is the package's docstring. Ids are ULIDs (https://github.com/ulid/spec).

Not part of the log are a folder, a pipe or a link with the name of a segment; a segment of another
plane; a copy of a segment, or one out of place, whose header follows a line that is not in the
segments before it. `Purges` reads from them which lines are erased, and by which event.

`judge` says whether the active segment is whole, torn, scattered or corrupt, by the watermark and
the chain; `keep_aside` copies what is torn to quarantine, and `repair_draft` is the event about it.
What a power cut may leave behind the watermark is what ALICE found file systems to leave (Pillai et
al., OSDI 2014): none of the bytes, some of them in any order, or zeros.

Texts that are not in a line are files beside the segments, named by their SHA-256 and durable
before their line is: the whole text of an event whose line would be too long (`data.body`), and
the blocks that were moved out of a text (`data.recalled`).
"""

# Paths are strings here: pathlib costs more than the append it would serve.
# ruff: noqa: PTH110, PTH112, PTH118, PTH119, PTH120
from __future__ import annotations

import json
import os
from _thread import _local
from binascii import hexlify
from codecs import getincrementaldecoder
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal

from memplane import nofollow
from memplane.errors import (
    CorruptError,
    FormatError,
    HomeError,
    InputError,
    NotFoundError,
    StrangeFileError,
    WriteError,
)
from memplane.event import NO_EVENT, Draft, Event, decode, encode
from memplane.lazy import NamedTuple, regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from memplane.log.disk import Disk


FORMAT: Final = 1
SUFFIX_BYTES: Final = 24  # without the newline
OPENING: Final = regex(
    rb'\{"seq":(\d+),(?:"dur":(\d+),)?"id":("(?:[^"\\]|\\.)*"),"ts":"([^"]*)"(?:,"rec":"([^"]*)")?,'
)
ERASED: Final = regex(
    rb'\{"seq":(\d+),"id":("(?:[^"\\]|\\.)*"),"purged":true,"c":"([0-9a-f]{16})" *,"h":"[^"]*"\}'
)
CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
SUFFIX: Final = ".jsonl"
_USUAL: Final = regex(
    rb'\{"seq":(\d+),"id":"[^"\\]*","ts":"[^"]*","kind":"segment","data":\{"format":%d,'
    rb'"plane":"([^"\\]*)","prev_seq":(\d+),"prev_h":"([0-9a-f]{16})"\},"h":"([0-9a-f]{16})"\}'
    % FORMAT
)
# An answer may need lines of any number of segments; a process has a thousand files or so.
_HELD_MAX: Final = 64
# Below the home: what `Segments.headers_to_keep` gave; a cache, as all beside it.
HEADERS: Final = "projections/segments.json"
Case = Literal["whole", "torn", "scattered", "corrupt"]
# The case of a repair event that replaced a segment without a valid first line.
RESTARTED: Final = "restarted"
_BEGINNING_BYTES: Final = 64 * 1024
_PURGE = b'"kind":"purge"'
# More than the largest text comes to: what a line states may be anybody's.
_DOCUMENTS_MAX: Final = 500_000
_PIECE: Final = 1 << 20  # bytes


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


def draft_again(event: Event, ts: str | None, rest: bytes) -> Draft:
    """The draft that a line was made of: `rest` is its bytes from `"kind"` to the hash."""
    return Draft(
        event.id,
        True,
        ts,
        event.kind,
        event.ns,
        event.role,
        event.session,
        event.key,
        event.text,
        rest,
    )


def own_draft(kind: str, data: dict[str, object], id_: str) -> Draft:
    """An event that the log writes about itself."""
    rest = encode({"kind": kind, "data": data})[1:-1].encode()
    return Draft(id_, False, None, kind, "/global", None, None, None, "", rest)


def segment_numbers(folder: str) -> tuple[list[int], dict[int, str]]:
    """The numbers of the files in a log's folder, ascending; of what is no file, what it is."""
    found: list[int] = []
    strays: dict[int, str] = {}
    try:
        fd = nofollow.enter(folder)
    except FileNotFoundError:
        return [], {}
    try:
        with os.scandir(fd) as entries:
            for entry in entries:
                name = entry.name
                if len(name) != 8 + len(SUFFIX) or not name.endswith(SUFFIX):
                    continue
                if not (name[:8].isascii() and name[:8].isdigit()):
                    continue
                if entry.is_file(follow_symlinks=False):
                    found.append(int(name[:8]))
                else:
                    what = nofollow.kind_of(entry.stat(follow_symlinks=False).st_mode)
                    strays[int(name[:8])] = f"is {what}, expected a file"
    finally:
        os.close(fd)
    return sorted(found), strays


def out_of_order(follows: Mapping[int, int | None], size: Callable[[int], int]) -> dict[int, str]:
    """Which segments do not lie behind those before them, and why; the fewest that can be blamed.

    `follows` gives by number, ascending, the seq before each segment, None where its header is
    damaged: that one is not judged. Of as many, the larger ones stay, then the earlier.
    """
    known = [(number, seq) for number, seq in follows.items() if seq is not None]
    if all(one[1] < two[1] for one, two in pairwise(known)):
        return {}
    # The best row of segments that ends with each: how many, how many bytes, the one before it.
    best: list[tuple[int, int, int]] = []
    for at, (number, seq) in enumerate(known):
        count, weight, before = 0, 0, -1
        for earlier in range(at):
            if known[earlier][1] < seq and best[earlier][:2] > (count, weight):
                count, weight, before = *best[earlier][:2], earlier
        best.append((count + 1, weight + size(number), before))
    at = max(range(len(best)), key=lambda each: (*best[each][:2], -each))
    kept: set[int] = set()
    while at >= 0:
        kept.add(known[at][0])
        at = best[at][2]
    return {
        number: f"follows seq {seq}, which is not behind the segments before it: "
        "a copy, or under the wrong name"
        for number, seq in known
        if number not in kept
    }


class Point(NamedTuple):
    """A line's seq and hash, and when it was recorded: all that the next line needs to know."""

    seq: int
    h: bytes
    rec: str


class SegmentHeader(NamedTuple):
    """The first line of a segment: what it follows, its own hash, and the byte behind it."""

    prev_seq: int
    prev_h: bytes
    h: bytes
    end: int


class Segments:
    """The segment files of one plane, by number.

    A file with the name of a segment that cannot be one (`strays`) is not part of the log: it is
    neither read nor appended to.
    """

    def __init__(self, folder: str, plane_id: str) -> None:
        self.folder, self.plane_id = folder, plane_id
        self.home = folder.rpartition("/")[0]
        self.genesis = genesis(plane_id)
        self._plane = plane_id.encode()
        self.strays: dict[int, str] = {}  # by number, why it does not count
        self._numbers: list[int] = []
        self._headers: dict[int, SegmentHeader] = {}
        self._kept: dict[str, list[object]] | None = None  # headers of sealed segments, from disk
        self._opened: set[int] = set()  # segments that were opened for their header
        self._held = _Held()

    def forget(self) -> None:
        """Forget what was read of the files: others are to take their place."""
        self._numbers, self._headers, self._kept, self._opened = [], {}, None, set()

    def path(self, number: int) -> str:
        """The segment's file."""
        return f"{self.folder}/{number:08d}{SUFFIX}"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Open each file once that this thread reads lines of meanwhile, at most `_HELD_MAX`.

        For one answer: what takes a file's place by rename is seen by the next one. Who reads a
        segment as a whole opens it anew: what it finds is remembered with the file's stat.
        """
        held = self._held
        if held.fds is not None:
            yield
            return
        fds = held.fds = {}
        try:
            yield
        finally:
            held.fds = None
            for fd in fds.values():
                os.close(fd)

    def take(self, number: int) -> int:
        """A descriptor for reading the segment; give it to `release` behind that."""
        fds = self._held.fds
        if fds is None:
            return nofollow.open_file(self.path(number))
        fd = fds.get(number)
        if fd is None:
            fd = nofollow.open_file(self.path(number))
            if len(fds) < _HELD_MAX:
                fds[number] = fd
        return fd

    def release(self, number: int, fd: int) -> None:
        """Close what `take` opened, unless it is held."""
        fds = self._held.fds
        if fds is None or fds.get(number) != fd:
            os.close(fd)

    @property
    def purging_path(self) -> str:
        """The note of a purge that is under way: see `memplane.log.writer`."""
        return f"{self.folder}/.purging"

    def broken_path(self, number: int) -> str:
        """The file whose presence says that a sync of the segment failed."""
        return f"{self.folder}/{number:08d}.broken"

    def numbers(self, *, fresh: bool = False) -> list[int]:
        """The numbers in use, ascending; empty before the first append. `fresh`: look again.

        Raises HomeError for the log of another plane.
        """
        known = self._numbers
        if known and not fresh and not os.access(self.path(known[-1] + 1), os.F_OK):
            return known
        found, strays = segment_numbers(self.folder)
        if not found and not strays:
            return []
        headers: dict[int, SegmentHeader | None] = {}
        foreign: HomeError | None = None
        for number in found:
            try:
                headers[number] = self.header(number)
            except HomeError as error:
                foreign = foreign or error
                strays[number] = str(error).partition(": ")[2]
        if foreign is not None and not any(headers.values()):
            raise foreign  # not a segment that strayed: a whole log, or the plane's name is wrong
        strays |= out_of_order(
            {each: None if h is None else h.prev_seq for each, h in headers.items()},
            lambda each: os.lstat(self.path(each)).st_size,
        )
        self.strays = strays
        self._numbers = [each for each in headers if each not in strays]
        return self._numbers

    def after(self, number: int) -> int | None:
        """The next segment's number, None for the active one."""
        return next((each for each in self.numbers() if each > number), None)

    def header(self, number: int) -> SegmentHeader | None:
        """The segment's header; None where damaged or missing; a foreign or newer one raises."""
        header = self._headers.get(number) or self._kept_header(number)
        if header is None:
            try:
                fd = self.take(number)
            except FileNotFoundError:
                return None
            try:
                data = nofollow.pread(fd, 4096, 0)
            finally:
                self.release(number, fd)
            header = self.parse_header(number, data)
            if header is not None:
                self._headers[number] = header
                self._opened.add(number)
        return header

    @property
    def opened_sealed(self) -> bool:
        """Whether a sealed segment had to be opened for its header."""
        return any(each in self._opened for each in self._numbers[:-1])

    def headers_to_keep(self) -> bytes | None:
        """Headers of sealed segments in the form of `HEADERS`; None where the file has them.

        With size and time of each file: a reader that finds the same need not open it. So an answer
        opens as many files behind a hundred segments as behind two.
        """
        rows: dict[str, list[object]] = {}
        for number in self._numbers[:-1]:
            header, seen = self._headers.get(number), self._signature(number)
            if header is not None and seen is not None:
                texts = [header.prev_h.decode(), header.h.decode()]
                rows[str(number)] = [*seen, header.prev_seq, *texts, header.end]
        if rows == (self._rows() or {}):
            return None
        self._kept = rows
        return json.dumps({"plane": self.plane_id, "segments": rows}).encode()

    def _kept_header(self, number: int) -> SegmentHeader | None:
        """The header as an earlier process saw it, where the file has not changed since."""
        row = self._rows().get(str(number))
        if row is None or row[:2] != self._signature(number):
            return None
        try:
            prev_seq, prev_h, h, end = row[2:]
            if not (isinstance(prev_seq, int) and isinstance(end, int)):
                return None
            header = SegmentHeader(prev_seq, str(prev_h).encode(), str(h).encode(), end)
        except ValueError:
            return None
        self._headers[number] = header
        return header

    def _signature(self, number: int) -> list[object] | None:
        try:
            found = os.lstat(self.path(number))
        except OSError:
            return None
        return [found.st_size, found.st_mtime_ns]

    def _rows(self) -> dict[str, list[object]]:
        if self._kept is None:
            self._kept = {}
            try:
                said = json.loads(nofollow.read_bytes(f"{self.home}/{HEADERS}"))
                rows = said["segments"]
                if said["plane"] == self.plane_id and all(map(_is_row, rows.values())):
                    self._kept = rows
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
                pass
        return self._kept

    def beginning(self, number: int, most: int) -> bytes:
        """The first bytes of the segment, at most so many; none where it is missing."""
        return self.bytes_before(number, most, most)

    def bytes_before(self, number: int, offset: int, most: int) -> bytes:
        """The last bytes before that one, at most so many; none where the segment is missing."""
        start = max(offset - most, 0)
        try:
            fd = self.take(number)
        except FileNotFoundError:
            return b""
        try:
            return nofollow.pread(fd, offset - start, start)
        finally:
            self.release(number, fd)

    def parse_header(self, number: int, data: bytes) -> SegmentHeader | None:
        """The header at the beginning of a segment's bytes, checked against itself."""
        end = data.find(b"\n")
        raw = data[: max(end, 0)]
        usual = _USUAL.fullmatch(raw)  # as this memplane writes it: all of them are read at a start
        if usual is not None and usual[2] == self._plane:
            h, prev = usual[5], usual[4]
            if chain_hash(prev, raw[:-SUFFIX_BYTES]) == h and int(usual[1]) == int(usual[3]) + 1:
                return SegmentHeader(int(usual[3]), prev, h, end + 1)
        h, first = stated_hash(raw), opening(raw)
        if h is None or first is None:
            return None
        try:
            fields = json.loads(raw)
            said = fields["data"]
            prev_h = said["prev_h"].encode()
            prev_seq = int(said["prev_seq"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        if chain_hash(prev_h, raw[:-SUFFIX_BYTES]) != h or first.seq != prev_seq + 1:
            return None
        if said.get("format") != FORMAT:
            raise FormatError(
                f"{self.path(number)}: format {said.get('format')}; "
                f"this memplane reads format {FORMAT}: use the release that wrote it"
            )
        if said.get("plane") != self.plane_id:
            raise HomeError(
                f"{self.path(number)}: belongs to the plane {said.get('plane')!r}, "
                f"expected {self.plane_id!r}: a file was moved here from another plane"
            )
        return SegmentHeader(prev_seq, prev_h, h, end + 1)


def read_segment_file(path: str, offset: int = 0) -> bytes:
    """The file of a folder of the home, from `offset` to its end, in one go."""
    fd = nofollow.open_file(path)
    try:
        return read_fd(fd, offset)
    finally:
        os.close(fd)


def read_fd(fd: int, offset: int = 0) -> bytes:
    """What an open file holds from `offset` to its end."""
    parts = []
    while size := os.fstat(fd).st_size - offset:
        if size < 0:
            break
        part = nofollow.pread(fd, size, offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def segment_lines(
    plane_id: str, number: int, prev: Point, now: str, drafts: Iterable[Draft]
) -> list[bytes]:
    """The first lines of a segment that follows `prev`: its header, and the drafts."""
    rec = max(prev.rec, now)
    header = own_draft(
        "segment",
        {"format": FORMAT, "plane": plane_id, "prev_seq": prev.seq, "prev_h": prev.h.decode()},
        derived_ulid(rec, prev.h, b"segment", b"%d" % number),
    )
    seq, h = prev.seq, prev.h
    lines = []
    for draft in (header, *drafts):
        seq += 1
        line, h = stamp_line(seq, 0, prepared(draft), draft.ts, rec, draft.rest, h)
        lines.append(line)
    return lines


def make_segment(
    segments: Segments, disk: Disk, number: int, prev: Point, now: str, drafts: list[Draft]
) -> None:
    """Make a segment that follows `prev` and holds a header and the drafts: durable, or not there.

    Under the lock. Raises OSError; then the log is as it was, or ends with this segment.
    """
    lines = segment_lines(segments.plane_id, number, prev, now, drafts)
    # Where only the sync of the name fails, the segment stays and the next writer syncs that before
    # it acknowledges. Taken away it could come back after a power cut, and end the one before it.
    disk.publish(segments.path(number), b"".join(lines))


class Erased(NamedTuple):
    """A purged line: its seq and id, the purge event, how many documents an index had of it.

    Their places in an index stay.
    """

    seq: int
    id: str
    by: int
    documents: int


def may_be_purge(data: bytes) -> bool:
    """Whether among the lines of these bytes may be a purge event."""
    return _PURGE in data


def erased_by(event: Event) -> Iterator[Erased]:
    """What a purge event says that it erased; nothing for what is not said as it should be."""
    said = event.data.get("purge") if event.kind == "purge" else None
    if not isinstance(said, dict):
        return
    columns = [said.get(name) for name in ("seqs", "ids", "documents")]
    if not all(isinstance(column, list) for column in columns):
        return
    for seq, id_, documents in zip(*columns, strict=False):
        if type(seq) is int and type(id_) is str and type(documents) is int:
            yield Erased(seq, id_, event.seq, min(max(documents, 0), _DOCUMENTS_MAX))


class Purges:
    """Collects purge events as they are read; searches the log for others when asked."""

    def __init__(self, segments: Segments, loads: Callable[[bytes], Any]) -> None:
        self._segments, self._loads = segments, loads
        self.known: dict[int, Erased] = {}  # by seq; never falls
        self._looked: dict[int, int] = {}  # segment -> bytes
        self._stood: tuple[int, int] = (0, 0)  # the newest segment and its size at the last look
        self._since = 0  # all purges of lines behind this seq were read by then

    def note(self, event: Event) -> None:
        """Take a purge event to knowledge."""
        for one in erased_by(event):
            self.known[one.seq] = one

    def of(self, seq: int) -> Erased | None:
        """What is known of an erased line; where nothing is, the log is searched behind it."""
        if seq not in self.known:
            self._look(seq)
        return self.known.get(seq)

    def all_of(self, seqs: Iterable[int]) -> bool:
        """Whether each of these lines is erased, as the log says."""
        return all(self.of(seq) is not None for seq in seqs)

    def between(self, first: int, last: int) -> list[Erased]:
        """What is known of the erased lines first..last, in order; the span may have any width."""
        if first > last:
            return []
        self._look(first)
        wide = last - first > len(self.known)
        seqs = sorted(self.known) if wide else range(first, last + 1)
        return [self.known[seq] for seq in seqs if first <= seq <= last and seq in self.known]

    def _look(self, seq: int) -> None:
        """Read the purge events of the segments that reach behind `seq`, each byte once."""
        numbers = self._segments.numbers(fresh=True)
        if not numbers:
            return
        stands = numbers[-1], file_size(self._segments.path(numbers[-1]))
        if stands == self._stood and self._since <= seq:
            return
        self._since = seq if stands != self._stood else min(seq, self._since)
        self._stood = stands
        for number, following in zip(numbers, [*numbers[1:], None], strict=False):
            header = None if following is None else self._segments.header(following)
            if header is None or header.prev_seq >= seq:
                try:
                    data = read_segment_file(
                        self._segments.path(number), self._looked.get(number, 0)
                    )
                except FileNotFoundError:
                    continue
                end = data.rfind(b"\n") + 1
                self._read(data[:end])
                self._looked[number] = self._looked.get(number, 0) + end

    def may_come_behind(self, number: int, offset: int) -> bool:
        """Whether a purge event may lie behind that byte of that segment; decodes no line."""
        for segment in self._segments.numbers(fresh=True):
            if segment >= number:
                try:
                    path = self._segments.path(segment)
                    data = read_segment_file(path, offset if segment == number else 0)
                except (FileNotFoundError, StrangeFileError):
                    return True
                if may_be_purge(data):
                    return True
        return False

    def _read(self, data: bytes) -> None:
        at = data.find(_PURGE)
        while at >= 0:
            end = data.find(b"\n", at)
            start = data.rfind(b"\n", 0, at) + 1
            with suppress(*NO_EVENT):  # a damaged line says nothing
                self.note(decode(self._loads(data[start:end])))
            at = data.find(_PURGE, end)


def file_size(path: str) -> int:
    """The bytes of a file, 0 where it is gone."""
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0


def body_path(home: str, digest: str) -> str:
    """Where the body with this SHA-256 lies."""
    return os.path.join(home, "bodies", "sha256", digest[:2], digest[2:])


def body_hash(event: Event) -> str | None:
    """The SHA-256 of the event's body, if its text did not fit the line."""
    body = event.data.get("body")
    return _hash_in(body)


def recalled_hashes(event: Event) -> list[str]:
    """The SHA-256 of each block that was moved out of the event's text, in order."""
    named = event.data.get("recalled")
    if not isinstance(named, list):
        return []
    return [digest for one in named if (digest := _hash_in(one)) is not None]


def named_bodies(kind: str, data: Mapping[str, Any]) -> Iterator[str]:
    """The hashes of the files in bodies/ that an event of this kind and data names."""
    recalled = data.get("recalled")
    for one in recalled if isinstance(recalled, list) else ():
        if (digest := _hash_in(one)) is not None:
            yield digest
    said: list[Any] = [data] if kind == "artifact" else [data.get("body")]
    while said:
        one = said.pop()
        if isinstance(one, dict):
            said += [value for value in one.values() if isinstance(value, dict)]
            if (digest := _hash_in(one)) is not None:
                yield digest


def bodies_of(draft: Draft) -> Iterator[bytes]:
    """What must be durable in bodies/ before the draft's line is written."""
    if draft.body is not None:
        yield draft.body
    yield from draft.recalled


def store_body(home: str, body: bytes, disk: Disk) -> str:
    """Make the body durable; storing it again does nothing."""
    digest = sha256(body).hexdigest()
    path = body_path(home, digest)
    folder = os.path.dirname(path)
    nofollow.make_folder(folder, home)
    if not _intact(home, digest):
        disk.publish(path, body, home)
    # Even where everything was there: whoever made it may not have come to its own sync yet.
    for _ in ("ab", "sha256", "bodies", "home"):
        disk.sync_directory(folder, home)
        folder = os.path.dirname(folder)
    return digest


def store_bodies(home: str, drafts: Iterable[Draft], disk: Disk) -> None:
    """Make the bodies of these drafts durable, or raise WriteError."""
    for draft in drafts:
        for body in bodies_of(draft):
            try:
                store_body(home, body, disk)
            except OSError as error:
                raise WriteError(
                    f"{home}/bodies: {error.strerror}; nothing was recorded"
                ) from error


def keep_bodies(home: str, drafts: Iterable[Draft], disk: Disk) -> None:
    """Store again what a purge has removed since. Under the log's lock, which a purge holds too."""
    for draft in drafts:
        for body in bodies_of(draft):
            digest = sha256(body).hexdigest()
            if not os.path.exists(body_path(home, digest)):
                store_bodies(home, [draft], disk)


def load_body(home: str, event: Event, digest: str) -> bytes:
    """The body's bytes; raises NotFoundError where the file is missing or not what was stored."""
    return b"".join(_stored(home, event, digest))


def body_text(home: str, event: Event, digest: str) -> str:
    """The body as text, decoded piece by piece; raises as `load_body` does."""
    decode = getincrementaldecoder("utf-8")().decode
    pieces = [decode(piece) for piece in _stored(home, event, digest)]
    return "".join([*pieces, decode(b"", final=True)])


class Judgement(NamedTuple):
    """`good` bytes chain from the segment's beginning and end with line `last`.

    whole: nothing else is there. torn: what follows was never acknowledged and holds
    no believed line. scattered: the same, but it does (`later`). corrupt: what
    follows, or should follow, was durable once.
    """

    case: Case
    good: int
    last: int
    h: bytes
    watermark: int
    later: tuple[Run, ...]


def judge(data: bytes, believed: list[Run], known: int) -> Judgement:
    """Judge an active segment; `known` is a seq that someone knows to have been durable."""
    first = believed[0]
    watermark = max(known, *(run.dur for run in believed))
    case: Case
    if first.last < watermark:
        case = "corrupt"
    elif len(believed) > 1:
        case = "scattered"
    else:
        # A segment appears with its header or not at all: an empty one has lost it.
        case = "whole" if data and first.end == len(data) else "torn"
    return Judgement(case, first.end, first.last, first.h, watermark, tuple(believed[1:]))


def corrupt(path: str, judged: Judgement) -> CorruptError:
    """The refusal to append behind damage."""
    return CorruptError(
        f"{path}: byte {judged.good}: no valid line follows seq {judged.last}, expected seq "
        f"{judged.last + 1}, and up to seq {judged.watermark} was durable; "
        "`memplane repair --salvage` keeps all that verifies, sets the rest aside and goes on",
        segment=os.path.basename(path),
        offset=judged.good,
        seq=judged.last,
    )


def headless(segments: Segments, number: int, last: int) -> CorruptError:
    """The refusal to append to a segment that lost its first line, which was durable."""
    path = segments.path(number)
    begins = "the log begins again" if not last else f"the log goes on behind seq {last}"
    return CorruptError(
        f"{path}: expected the segment's header in its first line, found none: what it held is "
        "lost; bring the file back from a copy, or run `memplane repair`, which moves what is left "
        f"of it to log/quarantine and records the loss; {begins}",
        segment=os.path.basename(path),
        offset=0,
        seq=last,
    )


class Restart(NamedTuple):
    """A place where a repair replaced a segment, or a whole log, of which no line was left.

    `seq` and `rec` are those of the repair event, `behind` is the last seq before the loss (0: the
    log began again), `quarantine` the file with the bytes that were left ("" for none).
    """

    seq: int
    rec: str
    behind: int
    quarantine: str

    def __str__(self) -> str:
        """One clause for `doctor` and `status`."""
        what = "started again" if not self.behind else f"went on behind seq {self.behind}"
        left = f"; what was left of it: log/quarantine/{self.quarantine}" if self.quarantine else ""
        return f"{what} on {self.rec[:10]} (repair event {self.seq}): earlier events are lost{left}"


def restarts(segments: Segments) -> list[Restart]:
    """The restarts that the log records, oldest first; reads 64 KiB of each segment at most.

    The repair event of a restart is the second line of its segment.
    """
    found = []
    for number in segments.numbers():
        header = segments.header(number)
        if header is None:
            continue
        begin = segments.beginning(number, _BEGINNING_BYTES)
        raw = begin[header.end :].partition(b"\n")[0]
        if b'"kind":"repair"' not in raw:
            continue
        try:
            event = decode(json.loads(raw))
        except NO_EVENT:
            continue
        data = event.data
        lost = data.get("case") == RESTARTED or (
            data.get("case") in ("torn", "scattered") and data.get("offset") == 0
        )
        if lost or (data.get("case") == "ended" and not data.get("last_seq")):
            left = data.get("quarantine")
            left = left if isinstance(left, str) else ""
            found.append(Restart(event.seq, event.rec or event.ts, header.prev_seq, left))
    return found


def marker(segments: Segments, number: int, synced: int) -> bytes:
    """The content of a marker of a failed sync: up to where the segment was durable before."""
    note = {"segment": number, "watermark": synced, "plane": segments.plane_id}
    return encode(note).encode()


def watermark_of(segments: Segments, number: int) -> int:
    """The watermark in such a marker; 0 where it is missing, torn or of another plane."""
    try:
        note = json.loads(nofollow.read_bytes(segments.broken_path(number), 4096))
        ours = note["plane"] == segments.plane_id and note["segment"] == number
        return int(note["watermark"]) if ours else 0
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return 0


def stray(segments: Segments) -> CorruptError:
    """The error for a file that has the name of a segment and is not one of this log."""
    number, what = min(segments.strays.items())
    path = segments.path(number)
    return CorruptError(
        f"{path}: {what}; `memplane repair --salvage` moves it to log/quarantine and goes on",
        segment=os.path.basename(path),
        offset=0,
        seq=0,
    )


def keep_aside(segments: Segments, disk: Disk, number: int, offset: int, data: bytes) -> str:
    """Copy bytes to quarantine, durably; the file's name. The same bytes get the same name."""
    home, folder = segments.home, f"{segments.folder}/quarantine"
    if not os.path.isdir(folder):
        nofollow.make_folder(folder, home)
        disk.sync_directory(segments.folder)
    name = f"{number:08d}-{offset}-{sha256(data).hexdigest()[:16]}"
    disk.publish(f"{folder}/{name}", data, home)
    return name


def repair_draft(case: str, number: int, offset: int, size: int, kept: str, last: Point) -> Draft:
    """The event that says what was taken out of the log, and where it lies now."""
    data: dict[str, object] = {
        "segment": number,
        "offset": offset,
        "bytes": size,
        "quarantine": kept,
        "case": case,
    }
    return own_draft("repair", data, derived_ulid(last.rec, last.h, b"%d-%d" % (number, offset)))


def region_of(event: Event) -> tuple[int, int, int]:
    """The region that a repair event names: segment, first byte, end; no other is accepted."""
    segment, offset, size = (event.data.get(name) for name in ("segment", "offset", "bytes"))
    if isinstance(segment, int) and isinstance(offset, int) and isinstance(size, int):
        return segment, offset, offset + size
    return -1, -1, -1


def stray_draft(name: str, what: str, size: int, kept: str, last: Point) -> Draft:
    """The event that says which file was no segment, why, and where it lies now."""
    data: dict[str, object] = {
        "segment": 0,
        "offset": 0,
        "bytes": size,
        "quarantine": kept,
        "case": "stray",
        "file": name,
        "what": what,
    }
    return own_draft("repair", data, derived_ulid(last.rec, last.h, name.encode()))


def repeats(data: bytes, later: tuple[Run, ...]) -> list[Draft]:
    """The events of those runs as drafts with the same ids and content, to append them again."""
    drafts = []
    for run in later:
        ends = [*run.starts[1:], run.end]
        for start, end in zip(run.starts, ends, strict=True):
            raw = data[start : end - 1]
            said = opening(raw)
            if said is None:  # what was purged is not said again
                continue
            rest = raw[said.rest : -SUFFIX_BYTES]
            if rest.startswith(b'"kind":"segment"'):
                continue
            drafts.append(Draft(said.id, False, said.ts, "", "", None, None, None, "", rest))
    return drafts


def last_rec(data: bytes, run: Run) -> str:
    """Return when the run's last line was recorded; "" for an empty run."""
    if not run.starts:
        return ""
    said = opening(data[run.starts[-1] : run.end - 1])
    return "" if said is None else said.rec


class _Held(_local):
    fds: dict[int, int] | None = None  # by number, while this thread holds files open


def _is_row(row: object) -> bool:
    return isinstance(row, list) and len(row) == 6


def _hash_in(named: object) -> str | None:
    digest = named.get("sha256") if isinstance(named, dict) else None
    # The name comes from a file; it must not lead anywhere else.
    if isinstance(digest, str) and len(digest) == 64 and set(digest) <= set("0123456789abcdef"):
        return digest
    return None


def _stored(home: str, event: Event, digest: str) -> Iterator[bytes]:
    """The body in pieces; what they come to is checked behind the last one."""
    holds = "the whole text" if digest == body_hash(event) else "what was moved out of the text"
    path = body_path(home, digest)
    hashed = sha256()
    try:
        with nofollow.open_regular(path, home=home) as file:
            while piece := file.read(_PIECE):
                hashed.update(piece)
                yield piece
    except FileNotFoundError:
        raise NotFoundError(
            f"{path}: missing; it holds {holds} of event {event.seq}; restore it from a copy"
        ) from None
    except StrangeFileError as error:
        raise NotFoundError(
            f"{path}: {error.strerror}; it holds the whole text of event {event.seq}"
        ) from None
    if hashed.hexdigest() != digest:
        raise NotFoundError(
            f"{path}: damaged; it holds {holds} of event {event.seq}; restore it from a copy"
        )


def _intact(home: str, digest: str) -> bool:
    try:
        hashed = sha256()
        with nofollow.open_regular(body_path(home, digest), home=home) as file:
            while piece := file.read(_PIECE):
                hashed.update(piece)
        return hashed.hexdigest() == digest
    except FileNotFoundError:
        return False
