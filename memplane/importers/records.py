"""Files as records, how far each file was read, and the records that memplane defines itself.

Records are JSON lines (plain or gzip) with their damage, and whole JSON documents.

Transcripts grow while they are read, lose newlines and are copied in part. So a line says whether
it ended in a newline, and a damaged line is a value, not an error.

An import of a file that has grown reads only what is new. The position is kept in a cache,
`projections/imports.json`; without it an import reads everything again and records nothing twice.
It is written by tmp and rename, and ignored when it is broken, of another plane, or of a log that
no longer holds the event it names::

    {"format": 1, "plane": id, "seq": 812, "h": "…", "files": {"/abs/path": {...}},
     "repositories": {"/abs/path/.git": {"how": {...}, "heads": ["…"]}}}

Of a repository the last heads are kept, the newest last. Reading continues at `offset`
when the first and last bytes before it are those that were read; bytes behind it were
missing then, or not yet a whole line. A gzip file, or one that does not consist of lines,
is read whole, or not at all when size, time and those bytes have not changed. `Hooked` tells which
rows hooks have recorded already.

Source `jsonl` has lines in two forms, distinguished by the fields of each. Conversations (any line
with `conversation_id` or `event_id`): conversation_id, event_id, session_id, ts, role, speaker,
text, and where they are known kind, branch, sidechain, tool, call_id, path, is_error. The id is
`jsonl:<conversation_id>:<event_id>`, the session `<conversation_id>/<session_id>`. The kind
`reasoning` becomes a message tagged so (whoever wrote the file chose to keep it), `compact_summary`
a summary, `meta` a message of the system. A tool result that does not say so itself gets tool and
path of the call that it answers: the one with its `call_id`; where neither has an id, the oldest of
its session that waits for an answer.

Events (any other line with `kind` or `text`): the fields of an event as they are, so that an
exported log and rows written by hand import. What only a log can give (seq, dur, rec, h, tokens) is
left out and assigned again; events about the old log itself (segments, repairs, purges) are
skipped. A row without an id gets one from its line: the same line twice is one event.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import re
import zipfile
import zlib
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import orjson

from memplane import nofollow
from memplane.errors import MemplaneError
from memplane.event import ROLES, is_kind
from memplane.importers import codex
from memplane.importers.codex import is_chat, is_message
from memplane.importers.rows import HOOK_TAG, ReadOutcome, Row, compaction, name, short_text
from memplane.intake import NAME_MAX, OWN_KINDS, is_checksum
from memplane.intake.redact import masked_data
from memplane.lazy import NamedTuple, regex
from memplane.log.segments import erased_by, recalled_hashes
from memplane.work.sessions import minutes_before

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from memplane.event import Event
    from memplane.plane import Plane


LINE_BYTES_MAX: Final = 64 * 1024 * 1024
_CHUNK: Final = 1024 * 1024
_TIME_MAX: Final = 253_402_300_799  # the last second of the year 9999
_GLUED_MAX: Final = 1000
_ENDINGS: Final = (".jsonl", ".jsonl.gz", ".ndjson", ".json", ".json.gz", ".jsonl.zst")
_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_BOM: Final = b"\xef\xbb\xbf"
_DECODER: Final = json.JSONDecoder(strict=False)


class SourceLine(NamedTuple):
    """One line without its newline.

    `end` is the byte behind it in the text, `done` how far the file on disk was
    read. `fault` is "overlong" or "damaged" (nothing can be read behind it); the
    body is empty then. `whole`: the newline was there.
    """

    number: int
    body: bytes
    end: int
    done: int
    whole: bool = True
    fault: str = ""


class Parsed(NamedTuple):
    """The JSON objects on one line, and whether the line holds anything else."""

    records: tuple[dict[str, Any], ...]
    broken: bool


def files_below(folder: Path, endings: tuple[str, ...] = _ENDINGS) -> list[Path]:
    """List the files of a folder that may hold JSON lines, by path; linked folders are left out."""
    found = [
        Path(parent, name)
        for parent, _, names in os.walk(folder)
        for name in names
        if name.lower().endswith(endings)
    ]
    return sorted((path for path in found if path.is_file()), key=os.fspath)


def written_at(stat: os.stat_result) -> datetime:
    """When a file was written, as far as a calendar goes."""
    return datetime.fromtimestamp(min(max(stat.st_mtime, 0), _TIME_MAX), UTC)


def is_gzip(path: Path) -> bool:
    """Tell by its first bytes: names lie."""
    with path.open("rb") as file:
        return file.read(2) == _GZIP_MAGIC


def is_zstd(path: Path) -> bool:
    """Tell by its first bytes a file that nothing here can unpack."""
    with path.open("rb") as file:
        return file.read(4) == _ZSTD_MAGIC


def read_lines(path: Path, offset: int = 0, limit: int = LINE_BYTES_MAX) -> Generator[SourceLine]:
    """Yield the lines behind `offset`, a byte of the text at which a line begins.

    Holds one line of at most `limit` bytes in memory; a longer one is passed over.
    """
    with io.BufferedReader(io.FileIO(path), _CHUNK) as disk:
        if disk.read(2) == _GZIP_MAGIC:
            disk.seek(0)
            # No larger buffer around it: one that fills up loses what a cut file still gave.
            with gzip.GzipFile(fileobj=disk) as text:
                yield from _lines(text, disk, offset, limit)
        else:
            yield from _lines(disk, disk, offset, limit)


def _lines(
    text: IO[bytes] | gzip.GzipFile, disk: IO[bytes], offset: int, limit: int
) -> Iterator[SourceLine]:
    number, end = 0, offset
    try:
        text.seek(offset)
        while body := text.readline(limit + 1):
            number += 1
            end += len(body)
            if len(body) > limit and not body.endswith(b"\n"):
                rest = body
                while rest and not rest.endswith(b"\n"):
                    rest = text.readline(_CHUNK)
                    end += len(rest)
                yield SourceLine(number, b"", end, disk.tell(), fault="overlong")
                continue
            whole = body.endswith(b"\n")
            # Handed over: this frame holds no long line while its text is recorded.
            held = [body[:-1] if whole else body]
            del body
            yield SourceLine(number, held.pop(), end, disk.tell(), whole=whole)
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile):
        # A copy that was cut short: what could be unpacked has been given out.
        yield SourceLine(number + 1, b"", end, disk.tell(), fault="damaged")


def unpacked_lines(text: gzip.GzipFile, packed: IO[bytes]) -> Iterator[SourceLine]:
    """The lines of a text that is packed in another file, as `read_lines` gives those of a file."""
    return _lines(text, packed, 0, LINE_BYTES_MAX)


def parse_records(body: bytes) -> Parsed:
    """Return the objects on a line.

    Writers that crash lose newlines, so one line may hold several records. Bad
    UTF-8 becomes U+FFFD: a broken character is no reason to lose a turn.
    """
    body = body.removeprefix(_BOM)
    try:
        value = orjson.loads(body)
    except ValueError:
        return _parse_slowly(body.decode("utf-8", "replace"))
    return Parsed((value,), broken=False) if isinstance(value, dict) else Parsed((), broken=True)


def _parse_slowly(text: str) -> Parsed:
    records: list[dict[str, Any]] = []
    at, end = 0, len(text.rstrip())
    try:
        while at < end and len(records) < _GLUED_MAX:
            value, at = _DECODER.raw_decode(text, at)
            if not isinstance(value, dict):
                return Parsed(tuple(records), broken=True)
            records.append(value)
            while at < end and text[at].isspace():
                at += 1
    except (ValueError, RecursionError):
        return Parsed(tuple(records), broken=True)
    return Parsed(tuple(records), broken=at < end or not records)


ELEMENT_BYTES_MAX: Final = 16 * 1024 * 1024
_DEPTH_MAX: Final = 1000
_NAME_BYTES: Final = 200  # of the member that an array is
_OUTSIDE: Final = re.compile(rb'["{}\[\]]')
_INSIDE: Final = re.compile(rb'["\\]')


class DocumentElement(NamedTuple):
    """An object of an array in a JSON document.

    `name`: the member of the document that the array is, "" where the document is the array.
    `done`: bytes of the file read so far. `fault` is "overlong" or "damaged" (nothing can be read
    behind it); the body is empty then.
    """

    name: str
    body: bytes
    done: int
    fault: str = ""


def read_elements(
    path: Path, limit: int = ELEMENT_BYTES_MAX, most: int | None = None
) -> Generator[DocumentElement]:
    """Yield the objects of the arrays in a document, plain or gzip, however large it is.

    Of its text at most `most` bytes are read; what is nested deeper than 1,000 is damaged.

    The document is an array, or an object whose members are arrays. One object of at most `limit`
    bytes is held; a larger one is passed over. What lies between them is not checked.
    """
    with io.BufferedReader(io.FileIO(path), _CHUNK) as disk:
        magic = disk.read(2)
        disk.seek(0)
        if magic != _GZIP_MAGIC:
            yield from _Elements(limit, most).of(disk, disk)
            return
        with gzip.GzipFile(fileobj=disk) as text:
            yield from _Elements(limit, most).of(text, disk)


class _Elements:
    """Finds the objects by counting brackets outside of strings."""

    def __init__(self, limit: int, most: int | None) -> None:
        self._limit, self._left = limit, float("inf") if most is None else most
        self._depth = 0
        self._array = 1  # the depth at which objects are elements
        self._name = b""
        self._word: bytearray | None = None  # a string that may be a member's name
        self._held: bytearray | None = None  # an element so far
        self._string = self._overlong = False

    def of(self, text: IO[bytes] | gzip.GzipFile, disk: IO[bytes]) -> Iterator[DocumentElement]:
        at = 0
        try:
            while self._depth <= _DEPTH_MAX and (chunk := text.read(_CHUNK)):
                at = yield from self._chunk(chunk, at, disk)
                self._left -= len(chunk)
                if self._left <= 0:
                    return
        except (OSError, EOFError, zlib.error):
            self._depth = self._depth or 1
        if self._depth or self._string:
            yield DocumentElement(self._text(), b"", disk.tell(), "damaged")

    def _chunk(
        self, chunk: bytes, at: int, disk: IO[bytes]
    ) -> Generator[DocumentElement, Any, int]:
        """Take in a chunk from `at`; return where the next one begins to count."""
        begin = 0  # of what is to be kept
        while found := (_INSIDE if self._string else _OUTSIDE).search(chunk, at):
            sign, at = found[0], found.end()
            if sign == b"\\":
                at += 1
            elif sign == b'"':
                self._string = not self._string
                if self._depth == 1 and self._held is None:
                    self._quote(chunk, begin, at)
                    begin = at
            elif sign in b"{[":
                self._depth += 1
                if self._depth == self._array + 1 and sign == b"{" and self._held is None:
                    self._held, self._overlong, begin = bytearray(b"{"), False, at
                elif self._depth == 1:
                    self._array = 1 if sign == b"[" else 2
            else:
                self._depth -= 1
                if self._held is not None and self._depth == self._array:
                    self._keep(chunk[begin:at])
                    body, self._held = bytes(self._held), None
                    fault = "overlong" if self._overlong else ""
                    yield DocumentElement(self._text(), b"" if fault else body, disk.tell(), fault)
                    begin = at
        self._keep(chunk[begin:])
        if self._word is not None and len(self._word) <= _NAME_BYTES:
            self._word += chunk[begin:][: _NAME_BYTES + 1]
        return at - len(chunk) if at > len(chunk) else 0

    def _quote(self, chunk: bytes, begin: int, end: int) -> None:
        if self._string:
            self._word = bytearray()
        elif self._word is not None:
            self._word += chunk[begin : end - 1][: _NAME_BYTES + 1]
            self._name, self._word = bytes(self._word[:_NAME_BYTES]), None

    def _keep(self, part: bytes) -> None:
        if self._held is None or self._overlong:
            return
        if len(self._held) + len(part) > self._limit:
            self._held, self._overlong = bytearray(), True
        else:
            self._held += part

    def _text(self) -> str:
        return self._name.decode("utf-8", "replace")


_SNIFFED: Final = 64 * 1024
# What a document that is known holds near its beginning.
_SIGNS: Final = (b'"role"', b'"messages"', b'"entities"', b'"items"', b'"call_id"')


def read_all(path: Path) -> bytes | None:
    """The text of a file, plain or gzip; None where it is damaged or has more than 64 MiB."""
    text = bytearray()
    for line in read_lines(path):
        text += line.body
        if line.fault or len(text) > LINE_BYTES_MAX:
            return None
        text += b"\n" if line.whole else b""
    return bytes(text)


def may_be_document(path: Path) -> bool:
    """Tell by its first 64 KiB whether a file is worth being parsed as a whole."""
    begun = bytearray()
    lines = read_lines(path)
    try:
        for line in lines:
            begun += line.body[:_SNIFFED]
            if line.fault or len(begun) >= _SNIFFED:
                break
    finally:
        lines.close()
    looks = begun.removeprefix(b"\xef\xbb\xbf").lstrip().startswith((b"[", b"{"))
    return looks and any(sign in begun for sign in _SIGNS)


def parse_document(text: bytes) -> Parsed:
    """The records of a document of a kind that is known; none of another, which is not broken."""
    try:
        value = _loads(text)
    except (ValueError, RecursionError):
        return Parsed((), broken=True)
    if isinstance(value, list):
        return Parsed(_of_array(value), broken=False)
    if not isinstance(value, dict):
        return Parsed((), broken=False)
    if isinstance(value.get("entities"), list):
        return Parsed(_of_graph(value), broken=False)
    known = is_chat(value) or codex.is_record(value)
    return Parsed((value,) if known else (), broken=False)


def parse_array(line: bytes) -> tuple[dict[str, Any], ...]:
    """The records of an array that is a line; none where it is no array of messages or chats."""
    if not line.lstrip().startswith(b"["):
        return ()
    try:
        value = _loads(line)
    except (ValueError, RecursionError):
        return ()
    return _of_array(value) if isinstance(value, list) else ()


def _of_array(values: list[Any]) -> tuple[dict[str, Any], ...]:
    """One chat where the values are messages; the chats where they are chats."""
    first = values[0] if values else None
    if isinstance(first, dict) and is_chat(first):
        return tuple(value if isinstance(value, dict) else {"messages": value} for value in values)
    if isinstance(first, dict) and is_message(first):
        return ({"messages": values},)
    if isinstance(first, list) and first and isinstance(first[0], dict) and is_message(first[0]):
        return tuple({"messages": value} for value in values)
    return ()


def _of_graph(value: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    made: list[dict[str, Any]] = []
    for kind, field in (("entity", "entities"), ("relation", "relations")):
        listed = value.get(field)
        made += (
            {**one, "type": kind} if isinstance(one, dict) else {"type": kind}
            for one in (listed if isinstance(listed, list) else ())
        )
    return tuple(made)


def _loads(text: bytes) -> Any:
    text = text.removeprefix(b"\xef\xbb\xbf")
    try:
        return orjson.loads(text)
    except ValueError:
        return json.loads(text.decode("utf-8", "replace"), strict=False)


_FORMAT: Final = 1
_HEAD_BYTES: Final = 64 * 1024
_TAIL_BYTES: Final = 4 * 1024
_HEADS_MAX: Final = 20
_HASH: Final = regex(r"[0-9a-f]{40,64}")


class Consumed:
    """What is known of the files read into one plane."""

    def __init__(self, plane: Plane, *, fresh: bool = False) -> None:
        self._plane = plane
        self._path = Path(plane.home) / "projections" / "imports.json"
        known = self._load()
        self._files: dict[str, Any] = {} if fresh else _table(known, "files")
        self._repositories: dict[str, Any] = _table(known, "repositories")

    def offset(self, path: Path, how: dict[str, Any]) -> int:
        """Say where to go on reading; 0 for a file that is new, rewritten, or was read otherwise.

        -1: there is nothing new in it.
        """
        entry = self._files.get(os.fspath(path))
        if not isinstance(entry, dict) or entry.get("how") != how:
            return 0
        try:
            offset = int(entry["offset"])
            if offset < 0 or entry["hashes"] != _hashes(path, offset):
                return 0
            stat = path.stat()
            if is_gzip(path) or entry.get("whole") is True:
                same = [stat.st_size, stat.st_mtime_ns] == [entry["size"], entry["mtime_ns"]]
                return -1 if same else 0
        except (OSError, KeyError, TypeError, ValueError):
            return 0
        return -1 if stat.st_size == offset else offset

    def state(self, path: Path) -> dict[str, Any]:
        """Return what the reader asked to keep with this file."""
        entry = self._files.get(os.fspath(path))
        state = entry.get("state") if isinstance(entry, dict) else None
        return state if isinstance(state, dict) else {}

    def keep(
        self,
        path: Path,
        how: dict[str, Any],
        *,
        before: os.stat_result,
        offset: int,
        state: dict[str, Any],
        whole: bool = False,
    ) -> None:
        """Remember that the plane has recorded the file up to `offset`; to be saved later.

        `before` is the file's state before it was read: what came while it was read is new.
        One that was read as a `whole` has nothing to go on behind.
        """
        with contextlib.suppress(OSError):
            if whole or is_gzip(path):
                offset = before.st_size
            self._files[os.fspath(path)] = {
                "how": how,
                "size": before.st_size,
                "mtime_ns": before.st_mtime_ns,
                "hashes": _hashes(path, offset),
                "offset": offset,
                **({"whole": True} if whole else {}),
                "state": masked_data(state),  # it names calls as the file does
            }

    def heads(self, repository: Path, how: dict[str, Any]) -> list[str]:
        """The heads up to which a repository was read, if it was read like this."""
        entry = self._repositories.get(os.fspath(repository))
        if not isinstance(entry, dict) or entry.get("how") != how:
            return []
        heads = entry.get("heads")
        known = heads if isinstance(heads, list) else []
        return [each for each in known if isinstance(each, str) and _HASH.fullmatch(each)]

    def keep_heads(self, repository: Path, how: dict[str, Any], heads: list[str]) -> None:
        """Remember that the plane has recorded what these heads reach; to be saved later."""
        kept = list(dict.fromkeys(heads))[-_HEADS_MAX:]
        self._repositories[os.fspath(repository)] = {"how": how, "heads": kept}

    def save(self) -> None:
        """Write the cache; a disk that refuses costs the next import time and nothing else."""
        head = self._plane.head()
        files = {path: entry for path, entry in self._files.items() if Path(path).exists()}
        known = {path: e for path, e in self._repositories.items() if Path(path).exists()}
        whole = {"format": _FORMAT, "plane": self._plane.id, "seq": head.seq, "h": head.h}
        tmp = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
        with contextlib.suppress(OSError):
            nofollow.make_folder(self._path.parent)
            with os.fdopen(nofollow.create_draft(tmp), "w", encoding="utf-8") as file:
                json.dump({**whole, "files": files, "repositories": known}, file)
            nofollow.rename_name(tmp, self._path)
            return
        with contextlib.suppress(OSError):
            nofollow.remove_name(tmp)

    def _load(self) -> dict[str, Any]:
        try:
            whole = json.loads(nofollow.read_bytes(self._path))
            if whole["format"] != _FORMAT or whole["plane"] != self._plane.id:
                return {}
            # The log may be an older copy of itself: then what was read is not in it.
            line = self._plane.context.log.line(whole["seq"])
            if line is None or line.event.h != whole["h"]:
                return {}
            return dict(whole)
        except (OSError, ValueError, KeyError, TypeError, RecursionError, MemplaneError):
            return {}


def _table(known: dict[str, Any], name: str) -> dict[str, Any]:
    table = known.get(name)
    return dict(table) if isinstance(table, dict) else {}


def _hashes(path: Path, offset: int) -> list[str]:
    """Of the first 64 KiB and the last 4 KiB before the offset, in the bytes on disk."""
    with path.open("rb") as file:
        head = file.read(min(offset, _HEAD_BYTES))
        file.seek(max(0, offset - _TAIL_BYTES))
        tail = file.read(min(offset, _TAIL_BYTES))
    return [hashlib.sha256(part).hexdigest() for part in (head, tail)]


_QUOTED: Final = b'"%b"' % HOOK_TAG.encode()
_DIGITS: Final = 8  # of a digest of words, behind the turn in the id that a hook gives them
# What hooks' ids say of what a call comes to.
_CALLS: Final = {
    "tool_call": "call",
    "tool_result": "result",
    "task": "plan",
    "decision": "decided",
}
_RUNNING_MINUTES: Final = 10
_ANY: Final = ""  # in place of a session: in whichever


class Hooked:
    """What hooks recorded, asked for the rows of an import; `look` reads what came since.

    Reads the log at its first use, and then what was appended.

    A hook names a call by the client's id of it, and words by the client's id of the turn. By those
    its transcript, which says the same again under other ids, is known again, also where the words
    were purged; else by the words themselves. Words differ where clients tell hooks less or more
    than they write down: several blocks of an answer as one text, a summary without what stands
    around it, a note of their own as if a person had typed it. A hook that was not told that a call
    failed is no reason to leave out the answer that says so.

    A fork of a session holds a copy of it under its own name. What is older there than the session
    itself is looked for in all sessions.
    """

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._upto = -1  # the seq up to which the log was read
        self._known: set[tuple[str, str, str]] = set()
        # Of several lines, and the blocks that were moved out of each.
        self._answers: defaultdict[str, list[tuple[str, frozenset[str]]]] = defaultdict(list)
        self._begun: dict[str, str] = {}  # session -> when a hook says that it began, else ""
        # Ids; those of turns; of words in whichever turn; of words and calls in whichever session.
        self._purged: set[str] = set()
        self._last: dict[str, str] = {}  # session that runs -> when a hook last recorded something
        self.ended: dict[str, str] = {}  # session -> when it was said to end

    def look(self) -> None:
        """Take in what hooks have recorded since it was last read."""
        log = self._plane.context.log
        if self._upto < 0:
            head = log.head().seq
            if not log.says(_QUOTED):  # most planes have no hooks
                self._upto = head
                return
        for line in log.read(max(self._upto, 0)):
            event = line.event
            self._upto = event.seq
            if event.kind == "purge":
                for one in erased_by(event):
                    turn, _, last = one.id.rpartition(":")
                    self._purged |= {
                        one.id,
                        turn,
                        f"{turn.rpartition(':')[0]}::{last}",
                        f"::{last}",
                    }
            elif event.session is not None:
                self._take(event, event.session)
        self._upto = max(self._upto, 0)

    def was_there(self, session: str) -> bool:
        """Whether a hook recorded the session."""
        if self._upto < 0:
            self.look()
        return session in self._begun

    def running(self) -> bool:
        """Whether hooks recorded any session a moment ago."""
        if self._upto < 0:
            self.look()
        return any(last > self._since() for last in self._last.values())

    def may_be_told(self, source: str, row: Row, turn: str = "") -> bool:
        """Whether a hook may yet record it: an agent said it just now, in a session that runs."""
        if row.get("role") != "assistant" or self.holds(source, row, turn):
            return False
        last = min(self._last.get(str(row.get("session")), ""), str(row.get("ts", "")))
        return last > self._since()

    def holds(self, source: str, row: Row, turn: str = "") -> bool:
        """Whether the plane has it from a hook, or had it until it was purged."""
        session, kind = row.get("session"), str(row.get("kind"))
        if not isinstance(session, str) or kind == "session" or not self.was_there(session):
            return False
        copied = str(row.get("ts", "")) < self._begun[session]
        if self._purged and self._was_purged(source, session, row, turn, copied=copied):
            return True
        return any(self._has(one, kind, row) for one in ((session, _ANY) if copied else (session,)))

    def _since(self) -> str:
        context = self._plane.context
        return minutes_before(context.clock(), _RUNNING_MINUTES)

    def _has(self, session: str, kind: str, row: Row) -> bool:
        data = row.get("data")
        call = _said(data, "call")
        if kind in _CALLS and call:
            return (session, _told(kind, data), call) in self._known
        context = self._plane.context
        said = context.intake(context.watched.policies_or_last()).said(row)
        sort = _sort(kind, row.get("role"))
        for text, recalled in {(said.text, said.recalled), said.before}:
            if (session, sort, _digest(kind, text, recalled)) in self._known:
                return True
        whole, blocks = f"\n{said.text.strip()}\n", set(said.recalled)
        return row.get("role") == "assistant" and any(
            whole in answer and blocks <= its for answer, its in self._answers.get(session, ())
        )

    def _was_purged(self, source: str, session: str, row: Row, turn: str, *, copied: bool) -> bool:
        """Whether a call was, or words of a turn: then none of their sort comes back.

        Transcripts of older clients name no turn, copies one of their own; then these very words
        do not.
        """
        kind, call = str(row.get("kind")), _said(row.get("data"), "call")
        if kind in _CALLS and call:
            part, last = _CALLS[kind], call
            named = {name(source, session, part, call)}
        else:
            part = "compact" if kind == "summary" else "prompt"
            part = "said" if row.get("role") == "assistant" else part
            text = str(row.get("text", ""))
            last = _hash(compaction(text) if kind == "summary" else text)[:_DIGITS]
            named = {f"{name(source, session, part)}::{last}"}
            named |= {name(source, session, part, turn)} if turn else set()
        named |= {f"::{last}"} if copied else set()
        return not named.isdisjoint(self._purged)

    def _take(self, event: Event, session: str) -> None:
        status = _said(event.data, "status") if event.kind == "session" else ""
        if status == "end":  # by whomever
            self.ended[session] = max(event.ts, self.ended.get(session, ""))
            self._last.pop(session, None)
        if HOOK_TAG not in event.tags:
            return
        self._begun.setdefault(session, "")
        self._last[session] = event.rec
        if event.kind == "session":
            if status == "start":
                self._begun[session] = event.ts
            return
        call = _said(event.data, "call")
        if event.kind in _CALLS and call:
            for where in (session, _ANY):
                self._known.add((where, event.kind, call))
                self._known.add((where, _told(event.kind, event.data), call))
            return
        text, recalled = self._plane.text(event), _recalled(event)
        sort, digest = _sort(event.kind, event.role), _digest(event.kind, text, recalled)
        self._known |= {(session, sort, digest), (_ANY, sort, digest)}
        if event.role == "assistant" and "\n" in text:
            self._answers[session].append((f"\n{text.strip()}\n", frozenset(recalled)))


def _sort(kind: str, role: object) -> str:
    """Hooks are not always told which words the client wrote itself."""
    return f"{kind} assistant" if role == "assistant" else kind


def _told(kind: str, data: Any) -> str:
    return f"{kind} failed" if _said(data, "status") == "error" else kind


def _said(data: Any, field: str) -> str:
    said = data.get(field) if isinstance(data, dict) else None
    return said if isinstance(said, str) else ""


def _recalled(event: Event) -> tuple[str, ...]:
    """The blocks that were moved out of the event's text: their SHA-256, or as it was earlier."""
    named = event.data.get("recalled")
    checksums = [one for one in named if is_checksum(one)] if isinstance(named, list) else []
    return tuple(recalled_hashes(event) or checksums)


def _digest(kind: str, text: str, recalled: Sequence[str]) -> str:
    digest = _hash(" ".join(compaction(text).split()) if kind == "summary" else text)
    return _hash("\n".join([digest, *recalled])) if recalled else digest


def _hash(text: str) -> str:
    return hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).hexdigest()


JSONL: Final = "jsonl"

_ROLES: Final = {
    **{role: role for role in ROLES},
    "human": "user",
    "ai": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "function": "tool",
}
_KINDS: Final = {
    "reasoning": ("message", ["reasoning"]),
    "compact_summary": ("summary", ["compact"]),
    "meta": ("message", ["meta"]),
}
_OF_THE_LOG: Final = frozenset({"seq", "dur", "rec", "h", "tokens"})
_DATA: Final = {"tool": "tool", "call_id": "call", "path": "path", "branch": "branch"}
_OPEN_CALLS_MAX: Final = 200


class _Call(NamedTuple):
    """A call that waits for its result. `call`: its id, or "" where it has none."""

    session: str
    call: str
    tool: str
    path: str


class Jsonl:
    """The reader of source `jsonl`. Of earlier lines it keeps the calls that wait for a result."""

    def __init__(self) -> None:
        self._open: list[_Call] = []  # the oldest first

    def begin(self, state: Mapping[str, Any], file: str = "") -> None:
        """Begin a file, or go on with one where `state()` was left."""
        del file  # its records say whose they are
        calls = state.get("calls")
        self._open = [
            _Call(*known)
            for known in (calls if isinstance(calls, list) else ())
            if isinstance(known, list)
            and len(known) == len(_Call._fields)
            and all(isinstance(part, str) for part in known)
        ]

    def state(self) -> dict[str, Any]:
        """Return the calls that wait for a result."""
        return {"calls": [list(call) for call in self._open]} if self._open else {}

    def read(self, record: dict[str, Any], body: bytes) -> ReadOutcome:
        """Say what the record comes to; never raises, whatever it holds."""
        if "conversation_id" in record or "event_id" in record:
            return _turn(self._answered(record), body)
        if record.get("purged") is True:
            return ReadOutcome(skipped=("purged event",))
        if "kind" not in record and "text" not in record:
            return ReadOutcome(skipped=("no event",))
        kind = short_text(record, "kind")
        if kind in OWN_KINDS:
            return ReadOutcome(skipped=(f"event about the old log: {kind}",))
        row = {field: value for field, value in record.items() if field not in _OF_THE_LOG}
        if row.get("id") is None:
            row["id"] = _id_of_line(body)
        return ReadOutcome(rows=(row,))

    def _answered(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """Give a result with the tool and the path of its call, if that is known."""
        session = "/".join(_label(record, field) for field in ("conversation_id", "session_id"))
        call, kind = short_text(record, "call_id"), record.get("kind")
        if kind == "tool_call":
            self._open = self._open[1 - _OPEN_CALLS_MAX :]
            tool, path = short_text(record, "tool"), short_text(record, "path")
            self._open.append(_Call(session, call, tool, path))
        elif kind == "tool_result":
            for at, known in enumerate(self._open):
                if (known.session, known.call) == (session, call):
                    del self._open[at]
                    told = {"tool": known.tool, "path": known.path}
                    return {**record, **{f: v for f, v in told.items() if not record.get(f)}}
        elif record.get("role") == "user":
            # What a person says ends a turn: a call without id that is open then was never
            # answered, and must not pass its name on to the next one's result.
            self._open = [known for known in self._open if known.call or known.session != session]
        return record


def _turn(record: Mapping[str, Any], body: bytes) -> ReadOutcome:
    text = record.get("text")
    if not isinstance(text, str) or not text.strip():
        return ReadOutcome(skipped=("empty text",))
    conversation, event = _label(record, "conversation_id"), _label(record, "event_id")
    kind, tags = _KINDS.get(short_text(record, "kind"), ("", []))
    kind = kind or (
        short_text(record, "kind") if is_kind(short_text(record, "kind")) else "message"
    )
    row: Row = {
        "id": name(JSONL, conversation, event) if event else _id_of_line(body),
        "kind": kind,
        "text": text,
    }
    if record.get("ts") is not None:
        row["ts"] = record["ts"]
    session = _label(record, "session_id")
    if conversation or session:
        row["session"] = name(*filter(None, (conversation, session)), joint="/")
    _who(record, row)
    if record.get("sidechain") is True:
        tags = ["sidechain", *tags]
    if tags:
        row["tags"] = list(tags)
    if data := _data(record, kind):
        row["data"] = data
    return ReadOutcome(rows=(row,))


def _who(record: Mapping[str, Any], row: Row) -> None:
    given, speaker = short_text(record, "role"), short_text(record, "speaker").strip()
    role = "system" if record.get("kind") == "meta" else _ROLES.get(given.lower(), "")
    if role:
        row["role"] = role
    says = speaker or ("" if role else given)
    if says and says.lower() not in {role, given.lower() if role else ""}:
        row["actor"] = says if len(says) <= NAME_MAX and says.isprintable() else name(says)


def _data(record: Mapping[str, Any], kind: str) -> dict[str, str]:
    data = {ours: short_text(record, theirs) for theirs, ours in _DATA.items()}
    if kind == "tool_result":
        data["status"] = "error" if record.get("is_error") is True else "ok"
    return {field: value for field, value in data.items() if value}


def _label(record: Mapping[str, Any], field: str) -> str:
    """Return an identifier as text; files written by hand number things."""
    value = record.get(field)
    return str(value) if type(value) is int else short_text(record, field)


def _id_of_line(body: bytes) -> str:
    return name(JSONL, "line", hashlib.sha256(body.strip()).hexdigest())
