"""The lines of events as an index keeps them, beside the first document of each.

A search in a process of its own then opens no older segment of the log for what it found. What is
kept of a line, little-endian::

    before     8 bytes  the hash that the line chains from
    segment    u32      where the line stands in the log: the segment,
    offset     u32      its first byte there,
    length     u32      and its bytes, newline included
    hole       u32      where the event's text was taken out, as the documents have it already;
                        NOWHERE: it was not
    rest                the line without newline and that text; nothing of a long one

A line is given back only if its hash is the one that it states: a damaged index shows no other
text than the log has.
"""

from __future__ import annotations

import struct
from binascii import unhexlify
from typing import TYPE_CHECKING, Final

from memplane.event import encode
from memplane.lazy import regex
from memplane.log.ids import id_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from memplane.index.document import Document
    from memplane.index.store import View
    from memplane.log import FileLog
    from memplane.ports import Line

__all__ = ["KeptLines", "keeping", "raw_lines"]

_FIELDS: Final = struct.Struct("<8s4I")
NOWHERE: Final = (1 << 32) - 1
_REST_MAX: Final = 32_768
_HASH_BYTES: Final = 16
_HASH: Final = regex(rb"[0-9a-f]{16}")
_SUFFIX_BYTES: Final = 19  # of a line and its newline, from its hash on


def raw_lines(log: FileLog, lines: Sequence[Line]) -> Iterator[tuple[bytes, bytes]]:
    """The hash before each line and its bytes without newline; empty where they are gone.

    The lines lie behind each other; each segment of them is read once.
    """
    start = 0
    while start < len(lines):
        first = lines[start]
        end = next(
            (at for at in range(start, len(lines)) if lines[at].segment != first.segment),
            len(lines),
        )
        last = lines[end - 1]
        begin = max(first.offset - _SUFFIX_BYTES, 0)
        data = log.bytes_before(first.segment, last.end, last.end - begin)
        for line in lines[start:end]:
            at = line.offset - begin
            before = data[max(at - _SUFFIX_BYTES, 0) : at][:_HASH_BYTES]
            yield before, data[at : line.end - begin - 1]
        start = end


def keeping(
    documents: list[Document], line: Line, before: bytes, raw: bytes
) -> list[Document]:  # fmt: skip
    """The documents of an event, the first with its line and the hash of its id."""
    if not documents or not _HASH.fullmatch(before) or line.end > NOWHERE:
        return documents
    said = "".join(document.text for document in documents)
    hole = raw.find(_text_of(said)) if said == line.event.text else -1
    if hole < 0:
        hole, rest = NOWHERE, raw
    else:
        rest = raw[:hole] + raw[hole + len(_text_of(said)) :]
    place = _FIELDS.pack(unhexlify(before), line.segment, line.offset, line.end - line.offset, hole)
    kept = place + (rest if len(rest) <= _REST_MAX else b"")
    first = documents[0]._replace(name=id_hash(line.event.id), kept=kept)
    return [first, *documents[1:]]


def _text_of(said: str) -> bytes:
    return encode({"text": said})[1:-1].encode()


class KeptLines:
    """How a search looks at lines: in the index, and in the log where that is all there is.

    `view` gives all documents there are. `newest` is the log's newest segment, whose lines are read
    there: it is open anyway, and what it has lost is no answer. None where an event is missing in
    the view: a line that was purged since may still be kept.
    """

    def __init__(
        self, log: FileLog, view: Callable[[], View], newest: Callable[[], int | None]
    ) -> None:  # fmt: skip
        self._log, self._view, self._newest = log, view, newest

    def line(self, seq: int) -> Line | None:
        """Return the line with that seq, if it is there and verifies."""
        newest = self._newest()
        kept = None if newest is None else self._kept(seq, newest)
        return self._log.line(seq) if kept is None else kept

    def find(self, id_: str) -> Line | None:
        """Return the line with that id, if the event has documents."""
        for seq in self._view().named(id_hash(id_)):
            line = self.line(seq)
            if line is not None and line.event.id == id_:
                return line
        return None

    def _kept(self, seq: int, newest: int) -> Line | None:
        view = self._view()
        span = view.span(seq)
        kept = view.kept(span.start) if span else b""
        if len(kept) < _FIELDS.size:
            return None
        before, segment, offset, length, hole = _FIELDS.unpack_from(kept)
        raw = kept[_FIELDS.size :]
        if not raw or segment == newest:
            return self._log.line_at(seq, segment, offset, length)
        if hole != NOWHERE:
            try:
                said = "".join(map(view.text, span))
            except ValueError:  # a damaged index
                return None
            raw = raw[:hole] + _text_of(said) + raw[hole:]
        return self._log.line_kept(seq, before.hex().encode(), raw, segment, offset)
