"""TOML that other people keep: read by the standard library, changed as text.

A table of ours is put behind everything else and found again by its name, however it was moved.
Every change is read back before it counts: it must say what was there, with and without the table.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from memplane.errors import InputError

__all__ = ["add_table", "parse_toml", "remove_table", "set_values"]

Path = tuple[str, ...]

_BOM: Final = "\ufeff"
_KEY: Final = re.compile(r"""[ \t]*("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+)[ \t]*""")
# What a value is made of where brackets and line ends count: texts, comments, and all the rest.
_TOKEN: Final = re.compile(
    r'\"{3}(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}'
    r"|'{3}(?:[^']|'{1,2}(?!'))*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*|[\[\]{}\n]|[^\"'\#\[\]{}\n]+",
    re.DOTALL,
)


class _Statement(NamedTuple):
    """A line or more that say one thing: the path that it is about, and where its value is."""

    path: Path
    start: int
    value: int
    end: int


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a text. Raises InputError naming line and column where it is no TOML."""
    try:
        return tomllib.loads(text.removeprefix(_BOM), parse_float=str)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"expected TOML: {error}") from None
    except RecursionError:
        raise InputError("expected TOML, found it nested too deep") from None


def add_table(text: str, path: Path, values: dict[str, Any]) -> tuple[str, str]:
    """Put a table at the end; gives the text, and what stands between it and what was there."""
    newline = _newline(text)
    body = text.removeprefix(_BOM)
    joint = newline if body.strip() else ""
    if body and not body.endswith("\n"):
        joint = newline * 2
    lines = [f"[{'.'.join(path)}]", *(f"{key} = {_value(one)}" for key, one in values.items())]
    added = text + joint + "".join(line + newline for line in lines)
    _must_say(added, path, _with(parse_toml(text), path, values))
    return added, joint


def set_values(text: str, path: Path, values: dict[str, Any]) -> str:
    """Give keys of a table other values; those that it has not come first in it."""
    expected = _with(parse_toml(text), path, {**_at(parse_toml(text), path), **values})
    for key, value in values.items():
        found = list(_statements(text))
        place = next((one for one in found if one.path == (*path, key)), None)
        if place is not None:
            line_end = "\n" if text[place.start : place.end].endswith("\n") else ""
            line_end = "\r" + line_end if text[: place.end].endswith("\r\n") else line_end
            text = f"{text[: place.value]} {_value(value)}{line_end}{text[place.end :]}"
            continue
        head = next((one for one in found if one.path == path and one.value == one.end), None)
        at = len(text) if head is None else head.end
        text = f"{text[:at]}{key} = {_value(value)}{_newline(text)}{text[at:]}"
    _must_say(text, path, expected)
    return text


def remove_table(text: str, path: Path, joint: str) -> str:
    """Take out a table and those below it; at the end of the text, `joint` before it too."""
    expected = _with(parse_toml(text), path, None)
    gone = [one for one in _statements(text) if one.path[: len(path)] == path]
    for one in reversed(gone):
        text = text[: one.start] + text[one.end :]
    if gone and joint and text[: gone[0].start].endswith(joint):
        head, tail = text[: gone[0].start].removesuffix(joint), text[gone[0].start :]
        if tail and not head.endswith("\n") and not tail.startswith(("\n", "\r\n")):
            head += _newline(text)
        text = head + tail
    _must_say(text, path, expected)
    return text


def _statements(text: str) -> Iterator[_Statement]:
    """What a text that is TOML says, statement by statement; blank lines and comments are none."""
    at = len(_BOM) if text.startswith(_BOM) else 0
    table: Path = ()
    while at < len(text):
        start, lead = at, text[at:].lstrip(" \t")[:2]
        if lead[:1] in ("", "#", "\n", "\r"):
            at = _line_end(text, at)
        elif lead[:1] == "[":
            opening = text.index("[", at) + lead.count("[")
            table, _ = _keys(text, opening)
            at = _line_end(text, at)
            yield _Statement(table, start, at, at)
        else:
            key, value = _keys(text, at)
            at = _value_end(text, value + 1)
            yield _Statement((*table, *key), start, value + 1, at)


def _keys(text: str, at: int) -> tuple[Path, int]:
    """A dotted key, and where what follows it stands."""
    keys: list[str] = []
    while (key := _KEY.match(text, at)) is not None:
        word = key[1]
        keys.append(next(iter(tomllib.loads(f"{word} = 0"))))
        at = key.end()
        if text[at : at + 1] != ".":
            break
        at += 1
    return tuple(keys), at


def _value_end(text: str, at: int) -> int:
    """The end of the line that a value ends on."""
    depth = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        assert token is not None
        at = token.end()
        depth += (token[0] in "[{") - (token[0] in "]}")
        if token[0] == "\n" and not depth:
            break
    return at


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _value(value: Any) -> str:
    """A text or a list of texts: as JSON, but for the one character that JSON leaves raw."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _at(tables: Any, path: Path) -> Any:
    for key in path:
        tables = tables[key]
    return tables


def _with(tables: dict[str, Any], path: Path, values: dict[str, Any] | None) -> dict[str, Any]:
    """The tables with another one at a path of two keys, or without it; no empty first one."""
    first, second = path
    below = {key: one for key, one in tables.get(first, {}).items() if key != second}
    if values is not None:
        below[second] = values
    rest = {key: one for key, one in tables.items() if key != first}
    return {**rest, first: below} if below else rest


def _must_say(text: str, path: Path, expected: dict[str, Any]) -> None:
    try:
        said = parse_toml(text)
    except InputError:
        said = {}
    if not said.get(path[0], True):
        del said[path[0]]
    if said != expected:
        raise InputError(
            f"is written in a way that is not changed here; write it as [{'.'.join(path)}], or "
            "change it by hand",
            where=path[0],
        )
