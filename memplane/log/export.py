"""The file of an exported plane, JSON lines: its format, writer and reader.

The reader checks every byte.

A whole export is a backup. It holds the log's lines byte by byte, in order, among lines of its
own (each one JSON object, UTF-8, ended by LF)::

    {"export":"memplane","format":1,"plane":ID,"head":{"seq":N,"h":HEX16},"whole":true}
    {"segment":N}                                   a segment file begins; its header follows
    {"seq":...                                      a line of the log as it is
    {"body":SHA256,"bytes":N,"at":N,"utf8":TEXT}    a part of a text or file in bodies/, from byte
    {"body":SHA256,"bytes":N,"at":N,"base64":TEXT}  `at`; before the first line that names it
    {"lost":SHA256}                                 one that was missing or damaged
    {"damaged":BASE64}                              bytes of a segment that do not verify; none: a
                                                    part of the log is missing
    {"end":{"lines":N,"events":N,"bodies":N,"damaged":N,"lost":N,"bytes":N,"sha256":HEX64}}

`lines` counts those before the last, `events` those of the log, `bodies`, `damaged` and `lost`
what their lines name; `bytes` and `sha256` are of all that stands before the last line.

A partial export says `"whole":false` and what was asked for. Instead of the log's lines it holds
events, each as `{"seq":...}` with its whole text and without `dur` and `h`; no segments, no
bodies.
"""

from __future__ import annotations

import json
import time
from base64 import b64decode, b64encode
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias

from memplane.errors import FormatError, HomeError, InputError
from memplane.event import encode
from memplane.lazy import NamedTuple
from memplane.log.segments import Run, Segments, chained, genesis, read_segment_file, runs, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memplane.ports import Position

_FIRST_BYTES_MAX: Final = 64 * 1024
_LINE_BYTES_MAX: Final = 512 * 1024 * 1024  # a text of 64 MiB, each byte of it escaped
_BATCH_BYTES: Final = 1024 * 1024
_DO: Final = "nothing was changed; export the plane again, or take another copy"


def read_export(
    file: IO[bytes], name: str, progress: Callable[[int, int], None] | None = None
) -> Iterator[Item]:
    """What an export holds, from its first byte to its last, each checked before it is given.

    The chain of the log, the hash of each body, and at the end the counts and the hash of all.
    Raises InputError with `name:line` for what is damaged, cut or no export, FormatError for one
    that a newer memplane wrote. Nothing is certain before `End` has come.
    """
    file.seek(0, 2)
    size = file.tell()
    file.seek(0)
    reading = _Reading(file, name)
    for item in reading.items():
        yield item
        if progress is not None:
            progress(reading.bytes, size)


class _Reading:
    """One reading of an export."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file, self._name = file, name
        self._hash = sha256()
        self._line = 0  # lines read
        self.bytes = 0
        self._events = self._bodies = self._damaged = self._lost = 0
        self._opened = ExportHeader("", 0, "", whole=False)
        self._seq, self._h = 0, b""
        self._segment = 0
        self._header_due = False
        self._damage: list[bytes] | None = None  # what stands between two runs of a segment
        self._part: tuple[str, int, int, Any, int] | None = None  # a body that is not yet whole

    def items(self) -> Iterator[Item]:
        yield self._begin()
        whole, waiting = self._opened.whole, 0
        lines: list[bytes] = []
        while line := self._next():
            is_event = line.startswith(b'{"seq":')
            if lines and (not is_event or waiting > _BATCH_BYTES):
                yield self._chain(lines, behind=1)
                lines, waiting = [], 0
            if is_event and whole:
                if self._part is not None:
                    raise self._broken("a body ends before its last byte", "the rest of it")
                lines.append(line)
                waiting += len(line)
                continue
            fields = self._parsed(line)
            if "end" in fields:
                yield self._end(line, fields)
                return
            self._take(line)
            yield self._item(fields, len(line))
        raise self._broken("the file ends here", 'a last line with `"end"`: it was cut short')

    def _begin(self) -> ExportHeader:
        line = self._file.readline(_FIRST_BYTES_MAX)
        self._line = 1
        try:
            fields = json.loads(line)
            foreign = fields["export"] != NAME
            version = fields["format"]
        except (ValueError, KeyError, TypeError, RecursionError):
            foreign, version = True, 0
        if foreign or type(version) is not int:
            raise self._broken("no export of memplane", "what `memplane export` wrote")
        if version > EXPORT_FORMAT:
            raise FormatError(
                f"{self._name}:1: export format {version}; this memplane reads up to format "
                f"{EXPORT_FORMAT}: nothing was changed; upgrade memplane"
            )
        try:
            head = fields["head"]
            opened = ExportHeader(fields["plane"], head["seq"], head["h"], fields["whole"])
            form = [type(value) for value in opened] == [str, int, str, bool]
        except (KeyError, TypeError):
            form = False
        if not form or version != EXPORT_FORMAT or not line.endswith(b"\n"):
            raise self._broken("a first line that was changed", "plane, head and whole in it")
        self._take(line)
        self._opened = opened
        self._h = genesis(opened.plane)
        return opened

    def _next(self) -> bytes:
        line = self._file.readline(_LINE_BYTES_MAX)
        if line:
            self._line += 1
            if not line.endswith(b"\n"):
                raise self._broken("a line without its end", "a newline: the file was cut short")
        return line

    def _take(self, line: bytes) -> None:
        self._hash.update(line)
        self.bytes += len(line)

    def _parsed(self, line: bytes) -> dict[str, Any]:
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            raise self._broken("a line that is no JSON object", "a line of an export")
        return fields

    def _item(self, fields: dict[str, Any], size: int) -> Item:
        whole = self._opened.whole
        if self._part is not None and "body" not in fields:
            raise self._broken("a body ends before its last byte", "the rest of it")
        try:
            if not whole and "seq" in fields:
                self._events += 1
                return ExportedEvent(fields)
            if whole and "segment" in fields:
                return self._begin_segment(int(fields["segment"]))
            if whole and "body" in fields:
                return self._body(fields, size)
            if whole and "lost" in fields:
                self._lost += 1
                return LostBody(str(fields["lost"]))
            if whole and "damaged" in fields:
                return self._note_damage(b64decode(fields["damaged"], validate=True))
        except (ValueError, KeyError, TypeError) as error:
            raise self._broken("a line that was changed", f"its fields in form: {error}") from None
        raise self._broken("a line that no export has", "a line of an export")

    def _begin_segment(self, number: int) -> ExportedSegment:
        empty = self._header_due and self._damage is None
        if number <= self._segment or number >= 10**8 or empty:
            raise self._broken(f"segment {number} behind {self._segment}", "a higher number")
        self._segment, self._header_due = number, True
        if self._damage is not None:
            self._damage = []
        return ExportedSegment(number)

    def _note_damage(self, data: bytes) -> Damage:
        self._damaged += 1
        self._damage = [*(self._damage or ()), data]
        return Damage(data)

    def _body(self, fields: dict[str, Any], size: int) -> Body:
        digest, total, at = fields["body"], int(fields["bytes"]), int(fields["at"])
        text = fields.get("utf8")
        data = text.encode() if text is not None else b64decode(fields["base64"], validate=True)
        known = self._part
        if known is None:
            known = (digest, total, 0, sha256(), self.bytes - size)
        if (digest, total, at) != known[:3] or at + len(data) > total:
            raise self._broken("a part of a body out of place", f"byte {known[2]} of {known[0]}")
        known[3].update(data)
        self._part = (digest, total, at + len(data), known[3], known[4])
        if at + len(data) == total:
            if known[3].hexdigest() != digest:
                raise self._broken(f"a body with sha256 {known[3].hexdigest()}", digest)
            self._part = None
            self._bodies += 1
        elif not data:
            raise self._broken("an empty part of a body", "bytes")
        return Body(digest, total, at, data, known[4])

    def _chain(self, lines: list[bytes], behind: int) -> LogLines:
        """Check that lines follow those before; `behind`: lines that were read since."""
        data = b"".join(lines)
        first = self._line - behind - len(lines) + 1
        if not self._segment:
            raise self._broken("a line of the log before any segment", "a segment", first)
        if self._header_due:
            self._check_header(lines[0], first)
        if self._damage is not None:
            run = self._believed_again(data)
        else:
            run = chained(data, 0, len(data), self._seq, self._h)
        if run is None or run.end != len(data):
            at = first + (0 if run is None else len(run.starts))
            raise self._broken(
                "a line that does not follow the one before",
                f"seq {self._seq + 1} in its chain"
                if run is None
                else f"seq {run.last + 1} in its chain",
                at,
            )
        self._take(data)
        self._damage, self._header_due = None, False
        self._seq, self._h = run.last, run.h
        self._events += len(lines)
        return LogLines(data, run)

    def _check_header(self, line: bytes, at: int) -> None:
        """The first line of a segment names the plane, and the line that it follows."""
        torn = self._damage is not None
        try:
            header = Segments(self._name, self._opened.plane).parse_header(self._segment, line)
        except HomeError:
            raise self._broken("a segment of another plane", self._opened.plane, at) from None
        except FormatError as error:
            raise FormatError(f"{self._name}:{at}: {error}; nothing was changed") from None
        if header is None:
            if not torn:
                raise self._broken("a segment without its header", "an event of kind segment", at)
            return
        if not torn and (header.prev_seq, header.prev_h) != (self._seq, self._h):
            found = f"a segment that follows seq {header.prev_seq}"
            raise self._broken(found, f"one that follows seq {self._seq}", at)
        self._seq, self._h, self._damage = header.prev_seq, header.prev_h, None

    def _believed_again(self, data: bytes) -> Run | None:
        """The run that readers believe behind what is damaged."""
        damaged = b"".join(self._damage or ())
        for run in runs(damaged + data, 0, self._seq, self._h):
            if run.start == len(damaged) and run.starts:
                starts = [start - run.start for start in run.starts]
                return run._replace(start=0, end=run.end - run.start, starts=starts)
        return None

    def _end(self, line: bytes, fields: dict[str, Any]) -> End:
        end = End(
            self._line - 1,
            self._events,
            self._bodies,
            self._damaged,
            self._lost,
            self.bytes,
            self._hash.hexdigest(),
        )
        if line != end_line(end):
            told = fields["end"] if isinstance(fields["end"], dict) else {}
            wrong = [name for name, value in end._asdict().items() if told.get(name) != value]
            name = wrong[0] if wrong else "end"
            found = f"{name} {getattr(end, name, '')} of all before"
            raise self._broken(found, f"{told.get(name, 'a last line in form')}")
        if self._opened.whole and (self._seq, self._h.decode()) != self._opened[1:3]:
            raise self._broken(f"seq {self._seq} at the end", f"seq {self._opened.seq}")
        if self._file.read(1):
            raise self._broken("more behind the last line", "the end of the file")
        self.bytes += len(line)
        return end

    def _broken(self, found: str, expected: str, line: int | None = None) -> InputError:
        return InputError(
            f"{self._name}:{line or self._line}: found {found}, expected {expected}; {_DO}"
        )


EXPORT_FORMAT: Final = 1
NAME: Final = "memplane"
_PART_BYTES: Final = 256 * 1024


class ExportHeader(NamedTuple):
    """The first line."""

    plane: str
    seq: int
    h: str
    whole: bool


class ExportedSegment(NamedTuple):
    """A segment file begins."""

    number: int


class LogLines(NamedTuple):
    """Lines of the log that chain from those before; `run` says where each stands in `data`."""

    data: bytes
    run: Run


class Damage(NamedTuple):
    """Bytes of a segment that did not verify when they were exported."""

    data: bytes


class Body(NamedTuple):
    """A part of a body; `place` is where its first part's line begins in the export."""

    sha256: str
    size: int
    at: int
    data: bytes
    place: int


class LostBody(NamedTuple):
    """A body that the exported plane had lost."""

    sha256: str


class ExportedEvent(NamedTuple):
    """An event of a partial export."""

    fields: dict[str, Any]


class End(NamedTuple):
    """The last line: what the export holds, and the SHA-256 of all before it."""

    lines: int
    events: int
    bodies: int
    damaged: int
    lost: int
    bytes: int
    sha256: str


Item: TypeAlias = (
    ExportHeader | ExportedSegment | LogLines | Damage | Body | LostBody | ExportedEvent | End
)


def _body_lines(digest: str, body: bytes) -> Iterator[bytes]:
    """A body as lines, as text where it is text."""
    text, at = _is_text(body), 0
    while True:
        end = min(at + _PART_BYTES, len(body))
        while text and end < len(body) and body[end] & 0xC0 == 0x80:
            end -= 1  # a character stays whole
        part = body[at:end]
        said = {"utf8": part.decode()} if text else {"base64": b64encode(part).decode()}
        yield encode({"body": digest, "bytes": len(body), "at": at, **said}).encode() + b"\n"
        if end == len(body):
            return
        at = end


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def end_line(end: End) -> bytes:
    """The last line of an export."""
    return encode({"end": end._asdict()}).encode() + b"\n"


class Export:
    """Writes an export line by line, each through `write`, and counts what goes by."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write, self._hash = write, sha256()
        self.lines = self.events = self.bodies = self.damaged = self.lost = self.bytes = 0

    def begin(self, opened: ExportHeader, asked: dict[str, Any] | None = None) -> None:
        """Write the first line."""
        head = {"seq": opened.seq, "h": opened.h}
        said = {} if opened.whole else {"asked": asked or {}}
        self._say(
            {
                "export": NAME,
                "format": EXPORT_FORMAT,
                "plane": opened.plane,
                "head": head,
                "whole": opened.whole,
                **said,
            }
        )

    def segment(self, number: int) -> None:
        """Say that a segment file begins."""
        self._say({"segment": number})

    def log_lines(self, data: bytes, lines: int) -> None:
        """Write lines of the log as they are."""
        self.events += lines
        self._put(data, lines)

    def row(self, fields: dict[str, Any]) -> None:
        """Write an event of a partial export."""
        self.events += 1
        self._say(fields)

    def damage(self, data: bytes) -> None:
        """Write bytes of a segment that do not verify."""
        self.damaged += 1
        self._say({"damaged": b64encode(data).decode()})

    def body(self, digest: str, body: bytes | None) -> None:
        """Write a body, or that it is lost."""
        if body is None:
            self.lost += 1
            self._say({"lost": digest})
            return
        self.bodies += 1
        for line in _body_lines(digest, body):
            self._put(line, 1)

    def end(self) -> End:
        """Write the last line; a file without it is not a valid export."""
        end = End(
            self.lines,
            self.events,
            self.bodies,
            self.damaged,
            self.lost,
            self.bytes,
            self._hash.hexdigest(),
        )
        self._write(end_line(end))
        return end

    def _say(self, fields: dict[str, Any]) -> None:
        self._put(encode(fields).encode() + b"\n", 1)

    def _put(self, data: bytes, lines: int) -> None:
        self._hash.update(data)
        self.lines += lines
        self.bytes += len(data)
        self._write(data)


# The log as bytes, piece by piece, for whoever carries it elsewhere: nothing is parsed or lost.
#
# Read without the lock, up to one head: writers go on meanwhile.

# A line that is being overwritten by a purge, or a write that is being taken back, is whole soon.
_LOOKS: Final = 4
_PAUSE_SECONDS: Final = 0.01


class Begun(NamedTuple):
    """A segment file begins here."""

    number: int


class ExportedLines(NamedTuple):
    """Lines that chain without a break; `data` is theirs alone."""

    data: bytes
    run: Run


class Damaged(NamedTuple):
    """Bytes of a segment that no reader believes; none where a part of the log is missing."""

    data: bytes


Piece: TypeAlias = Begun | ExportedLines | Damaged


def export_pieces(segments: Segments, head: Position) -> Iterator[Piece]:
    """Everything up to a head, in order; what lies behind the end of a sealed segment is left out.

    Holds one segment in memory. Between two `Lines` of a segment there is a `Damaged`.
    """
    seq, h, torn = 0, segments.genesis, False
    numbers = [each for each in segments.numbers(fresh=True) if each <= head.segment]
    for number, following in zip(numbers, [*numbers[1:], None], strict=False):
        header = segments.header(number)
        if not head.seq:  # nothing believed: a line that is here now came later
            if header is None:
                yield from (Begun(number), Damaged(read_segment_file(segments.path(number))))
            continue
        if header is not None:
            if (header.prev_seq, header.prev_h) != (seq, h) and not torn:
                yield Damaged(b"")  # a segment is missing, or the one before has lost its end
            seq, h = header.prev_seq, header.prev_h
        yield Begun(number)
        for piece in _segment(segments, number, following, seq, h, head):
            yield piece
            torn = isinstance(piece, Damaged)
            if isinstance(piece, ExportedLines):
                seq, h = piece.run.last, piece.run.h


def _segment(
    segments: Segments, number: int, following: int | None, seq: int, h: bytes, head: Position
) -> list[Piece]:
    """The pieces of one file, read again where something in it does not verify."""
    bound: int | None = head.seq
    if following is not None:
        header = segments.header(following)
        bound = None if header is None else header.prev_seq
    for look in range(_LOOKS):
        if look:
            time.sleep(_PAUSE_SECONDS)
        data = read_segment_file(segments.path(number))
        found = _split(data, seq, h, bound)
        if not any(isinstance(piece, Damaged) for piece in found):
            break
    return found


def _split(data: bytes, seq: int, h: bytes, bound: int | None) -> list[Piece]:
    found: list[Piece] = []
    at = 0
    for each in runs(data, 0, seq, h):
        run = each if bound is None else until(each, bound)
        if not run.starts:
            continue
        if run.start > at or run.first > seq + 1:
            found.append(Damaged(data[at : run.start]))
        found.append(ExportedLines(data[run.start : run.end], _moved(run, data)))
        at, seq = run.end, run.last
    if (bound is None and at < len(data)) or (bound is not None and seq < bound):
        found.append(Damaged(data[at:]))
    return found


def _moved(run: Run, data: bytes) -> Run:
    """The run as it stands in its own bytes. One that was cut still said the hash of its end."""
    starts = [start - run.start for start in run.starts]
    erased = frozenset(start - run.start for start in run.erased)
    return run._replace(
        start=0,
        end=run.end - run.start,
        starts=starts,
        h=data[run.end - 19 : run.end - 3],
        erased=erased.intersection(starts),
    )
