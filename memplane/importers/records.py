"""Read files as records: JSON lines (plain or gzip) with their damage, and whole JSON documents.

Transcripts grow while they are read, lose newlines and are copied in part. So a line says whether
it ended in a newline, and a damaged line is a value, not an error.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import orjson

from memplane.importers import codex
from memplane.importers.chat import is_chat, is_message
from memplane.lazy import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

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
    except (OSError, EOFError, zlib.error):
        # A copy that was cut short: what could be unpacked has been given out.
        yield SourceLine(number + 1, b"", end, disk.tell(), fault="damaged")


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
