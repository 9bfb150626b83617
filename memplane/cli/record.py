"""`memplane record`: one event from arguments, one from stdin, or many from JSON lines."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

from memplane.cli import commands
from memplane.cli.commands import Argument, Home, Json, Option, command
from memplane.cli.output import print_answer, say, say_aside
from memplane.errors import ConflictError, InputError
from memplane.intake.redact import quoted_value
from memplane.plane import Plane
from memplane.wiring import open_plane

_THERE_ALREADY = "it was there already; nothing was added"
_Stdin = Annotated[
    bool,
    Option(
        "--stdin",
        help="Read the text from stdin: UTF-8, at most 64 MiB. Each byte that is not UTF-8 is "
        "stored as U+FFFD, counted in data.replaced, and reported.",
    ),
]
_Jsonl = Annotated[
    str | None,
    Option(
        "--jsonl",
        metavar="FILE|-",
        help="Read one JSON object of event fields a line, at most 64 MiB. All lines are checked "
        "before any is stored.",
    ),
]
_NoWait = Annotated[
    bool,
    Option(
        "--no-wait",
        help="Where another process holds the log, leave the event to the next writer, as safe.",
    ),
]


@command("record", example='record "We keep PostgreSQL" --kind decision --key db.engine')
def record(
    text: Annotated[str | None, Argument(metavar="TEXT", help="What happened.")] = None,
    *,
    stdin: _Stdin = False,
    jsonl: _Jsonl = None,
    kind: commands.Kind = None,
    key: commands.Key = None,
    ns: commands.EventNs = None,
    session: commands.EventSession = None,
    task: commands.Task = None,
    actor: commands.Actor = None,
    role: commands.Role = None,
    tag: commands.Tags = None,
    marker: commands.Markers = None,
    ref: commands.Refs = None,
    sensitivity: commands.Sensitivity = None,
    importance: commands.Importance = None,
    ts: commands.Time = None,
    valid_from: commands.Time = None,
    valid_until: commands.Time = None,
    data: commands.Data = None,
    event_id: commands.Id = None,
    no_wait: _NoWait = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Store what happened, durably, and print its seq and id."""
    given: dict[str, Any] = {
        "id": event_id,
        "ts": ts,
        "kind": kind,
        "ns": ns,
        "session": session,
        "task": task,
        "actor": actor,
        "role": role,
        "key": key,
        "tags": tag or None,
        "markers": marker or None,
        "refs": [commands.ref(one) for one in ref or ()] or None,
        "sensitivity": sensitivity,
        "importance": commands.number(importance),
        "valid_from": valid_from,
        "valid_until": valid_until,
        "data": commands.object_of(data),
    }
    given = {name: value for name, value in given.items() if value is not None}
    if (text is not None) + stdin + (jsonl is not None) > 1:
        raise InputError("expected one of TEXT, --stdin and --jsonl, found several")
    if jsonl is not None:
        if no_wait:
            raise InputError("expected one event, found --jsonl", where="--no-wait")
        if given:
            raise InputError(f"the lines of --jsonl have their own fields: leave out {list(given)}")
        _record_lines(jsonl, home, as_json=as_json)
        return
    if text is None and not stdin and not given:
        raise InputError("expected TEXT, --stdin or --jsonl, found none")
    words = decode_input(read_input("-")) if stdin else text or ""
    (_spool_one if no_wait else _record_one)(words, given, home, as_json=as_json)


def _spool_one(text: str, given: dict[str, Any], home: str | None, *, as_json: bool) -> None:
    with open_plane(home) as plane:
        receipt = plane.work.spool(text, **given)
    say_aside(plane)
    waits = receipt.seq is None
    print_answer(
        receipt.as_json(), f"{'spooled' if waits else receipt.seq} {receipt.id}", as_json=as_json
    )
    if waits:
        say("another process holds the log; the next one that writes takes the event in")
    if receipt.duplicate:
        say(_THERE_ALREADY)


def _record_one(text: str, given: dict[str, Any], home: str | None, *, as_json: bool) -> None:
    with open_plane(home) as plane:
        receipt = plane.record(text, **given)
        replaced = None if receipt.duplicate else receipt.event.data.get("replaced")
    say_aside(plane)
    print_answer(receipt.as_json(), f"{receipt.seq or 'waiting'} {receipt.id}", as_json=as_json)
    if not receipt.seq:
        say("the shared log gets the event when it is reached again")
    if receipt.duplicate:
        say(_THERE_ALREADY)
    if replaced:
        say(f"{replaced} bytes or characters that no text can hold were stored as U+FFFD")


def _record_lines(source: str, home: str | None, *, as_json: bool) -> None:
    numbered = list(objects(read_input(source)))
    with open_plane(home) as plane:
        receipt = _all_or_none(plane, numbered)
    say_aside(plane)
    words = f"{receipt.count} recorded"
    if receipt.first_seq:
        words += f", seq {receipt.first_seq} to {receipt.last_seq}"
    if receipt.duplicates:
        words += f"; {receipt.duplicates} were there already"
    print_answer(receipt.as_json(), words, as_json=as_json)


def _all_or_none(plane: Plane, numbered: list[tuple[int, dict[str, Any]]]) -> Any:
    rows = [row for _, row in numbered]
    try:
        # One batch: a line whose id is another event's stops them all, as one with a mistake does.
        return plane.record_many(rows, batch=max(1, len(rows)))
    except InputError as error:
        raise at_line(error, [number for number, _ in numbered]) from error
    except ConflictError as error:
        lines = ", ".join(str(number) for number, row in numbered if row.get("id") == error.id)
        raise ConflictError(f"line {lines}: {error}", id=error.id, seq=error.seq) from error


# What `record` reads from stdin or a file: bounded, and every mistake with its line.

BYTES_MAX: Final = 64 * 1024 * 1024
_PIECE: Final = 1 << 18  # characters
_BYTES: Final = re.compile("[\udc80-\udcff]")  # that are no UTF-8, as a text has them
_ROW: Final = re.compile(r"rows\[(\d+)\]")


def read_input(source: str) -> bytes:
    """The bytes of a file, or of stdin for `-`. Raises InputError for more than 64 MiB."""
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


def decode_input(data: bytes) -> str:
    """The bytes as text; invalid UTF-8 becomes lone surrogates, which intake replaces and counts.

    Raises InputError for what would then be too large: three bytes replace each of them.
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
    """The objects of JSON lines, each with its line number; blank lines are skipped."""
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except (ValueError, RecursionError) as error:
            raise _no_object(number, str(error)) from error
        if not isinstance(row, dict):
            raise _no_object(number, f"found {quoted_value(line.decode(errors='replace'))}")
        yield number, row


def at_line(error: InputError, lines: list[int]) -> InputError:
    """The error with a line number of the file in place of the row number."""
    found = _ROW.match(error.where)
    if found is None:
        return error
    where = f"line {lines[int(found[1])]}{error.where[found.end() :]}"
    message = str(error).removeprefix(f"{error.where}: ")
    return InputError(f"{message}; nothing was stored", where=where)


def _no_object(number: int, found: str) -> InputError:
    message = f"expected a JSON object of event fields: {found}; nothing was stored"
    return InputError(message, where=f"line {number}")
