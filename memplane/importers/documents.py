"""Parse JSON files that are not JSON lines: arrays on one line, documents over many lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import orjson

from memplane.importers import codex
from memplane.importers.chat import is_chat, is_message
from memplane.importers.records import LINE_BYTES_MAX, Parsed, read_lines

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["may_be_document", "parse_array", "parse_document", "read_all"]

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
