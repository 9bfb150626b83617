"""An exported plane as one file of JSON lines: its format, and how it is written.

A whole export is a backup. It holds the log's lines byte by byte, in order, among lines of its own
(each one JSON object, UTF-8, ended by LF)::

    {"export":"memplane","format":1,"plane":ID,"head":{"seq":N,"h":HEX16},"whole":true}
    {"segment":N}                                   a segment file begins; its header follows
    {"seq":...                                      a line of the log as it is
    {"body":SHA256,"bytes":N,"at":N,"utf8":TEXT}    a part of a text or file in bodies/, from byte
    {"body":SHA256,"bytes":N,"at":N,"base64":TEXT}  `at`; before the first line that names it
    {"lost":SHA256}                                 one that was missing or damaged
    {"damaged":BASE64}                              bytes of a segment that do not verify; none: a
                                                    part of the log is missing
    {"end":{"lines":N,"events":N,"bodies":N,"damaged":N,"lost":N,"bytes":N,"sha256":HEX64}}

`lines` counts those before the last, `events` those of the log, `bodies`, `damaged` and `lost` what
their lines name; `bytes` and `sha256` are of all that stands before the last line.

A partial export says `"whole":false` and what was asked for. Instead of the log's lines it holds
events, each as `{"seq":...}` with its whole text and without `dur` and `h`; no segments, no bodies.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from memplane.event import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memplane.log.format import Run

__all__ = [
    "EXPORT_FORMAT", "NAME", "Body", "Damage", "End", "Export", "Item", "LogLines", "Lost",
    "Opened", "Row", "Segment", "end_line",
]  # fmt: skip

EXPORT_FORMAT: Final = 1
NAME: Final = "memplane"
_PART_BYTES: Final = 256 * 1024


class Opened(NamedTuple):
    """The first line."""

    plane: str
    seq: int
    h: str
    whole: bool


class Segment(NamedTuple):
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


class Lost(NamedTuple):
    """A body that the exported plane had lost."""

    sha256: str


class Row(NamedTuple):
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


Item: TypeAlias = Opened | Segment | LogLines | Damage | Body | Lost | Row | End


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

    def begin(self, opened: Opened, asked: dict[str, Any] | None = None) -> None:
        """Write the first line."""
        head = {"seq": opened.seq, "h": opened.h}
        said = {} if opened.whole else {"asked": asked or {}}
        self._say(
            {"export": NAME, "format": EXPORT_FORMAT, "plane": opened.plane, "head": head,
             "whole": opened.whole, **said}
        )  # fmt: skip

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
        """Write the last line; without it an export is none."""
        end = End(
            self.lines, self.events, self.bodies, self.damaged, self.lost, self.bytes,
            self._hash.hexdigest(),
        )  # fmt: skip
        self._write(end_line(end))
        return end

    def _say(self, fields: dict[str, Any]) -> None:
        self._put(encode(fields).encode() + b"\n", 1)

    def _put(self, data: bytes, lines: int) -> None:
        self._hash.update(data)
        self.lines += lines
        self.bytes += len(data)
        self._write(data)
