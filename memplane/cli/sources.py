"""What `record` reads from stdin or a file: bounded, and every mistake with its line."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from memplane.errors import InputError
from memplane.intake.redact import shown

__all__ = ["BYTES_MAX", "at_line", "objects", "read", "text_of"]

BYTES_MAX: Final = 64 * 1024 * 1024
_PIECE: Final = 1 << 18  # characters
_BYTES: Final = re.compile("[\udc80-\udcff]")  # that are no UTF-8, as a text has them
_ROW: Final = re.compile(r"rows\[(\d+)\]")


def read(source: str) -> bytes:
    """The bytes of a file or of stdin (`-`); InputError where there are more than 64 MiB."""
    name = "stdin" if source == "-" else source
    try:
        with contextlib.ExitStack() as stack:
            stdin = sys.stdin.buffer
            file = stdin if source == "-" else stack.enter_context(Path(source).open("rb"))
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=name) from error
    if len(data) > BYTES_MAX:
        raise InputError(
            "more than 64 MiB; nothing was stored (`memplane import` takes files of any size)",
            where=name,
        )
    return data


def text_of(data: bytes) -> str:
    """The bytes as text. What is no UTF-8 becomes lone surrogates: intake replaces and counts them.

    InputError for what would be too large then: three bytes stand for each one replaced.
    """
    text = data.decode("utf-8", "surrogateescape")
    if len(data) > BYTES_MAX // 3 and len(data) + 2 * _replaced(text) > BYTES_MAX:
        raise InputError(
            "is no text: with U+FFFD for each byte that is not UTF-8 it has more than 64 MiB; "
            "nothing was stored",
            where="stdin",
        )
    return text


def _replaced(text: str) -> int:
    """How many bytes were no UTF-8; in pieces, as each is an object where it is found."""
    if text.isascii():
        return 0
    pieces = range(0, len(text), _PIECE)
    return sum(len(_BYTES.findall(text[at : at + _PIECE])) for at in pieces)


def objects(data: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of JSON lines, each with its line's number; blank lines are passed over."""
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except (ValueError, RecursionError) as error:
            raise _no_object(number, str(error)) from error
        if not isinstance(row, dict):
            raise _no_object(number, f"found {shown(line.decode(errors='replace'))}")
        yield number, row


def at_line(error: InputError, lines: list[int]) -> InputError:
    """The same error with the file's line in place of the row's number."""
    found = _ROW.match(error.where)
    if found is None:
        return error
    where = f"line {lines[int(found[1])]}{error.where[found.end() :]}"
    message = str(error).removeprefix(f"{error.where}: ")
    return InputError(f"{message}; nothing was stored", where=where)


def _no_object(number: int, found: str) -> InputError:
    message = f"expected a JSON object of event fields: {found}; nothing was stored"
    return InputError(message, where=f"line {number}")
