"""TOML settings of other people: read by the standard library, changed by tomlkit as text.

A table of ours is put behind everything else and found again by its name, however it was moved.
Comments and layout stay. Every change is read back before it counts: the text must say what it said
before, with and without the table.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import InputError
from memplane.lazy import late

if TYPE_CHECKING:
    import tomlkit
    from tomlkit import exceptions as toml_errors
else:
    tomlkit = late("tomlkit")
    toml_errors = late("tomlkit.exceptions")

__all__ = ["add_table", "parse_toml", "remove_table", "set_values"]

Path = tuple[str, str]

_BOM: Final = "\ufeff"


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a text. Raises InputError naming line and column where it is no TOML."""
    try:
        return tomllib.loads(text.removeprefix(_BOM), parse_float=str)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"expected TOML: {error}") from None
    except RecursionError:
        raise InputError("expected TOML, found it nested too deep") from None


def add_table(text: str, path: Path, values: dict[str, Any]) -> tuple[str, str]:
    """Put a table at the end; return the text, and what divides the table from what was there.

    Raises InputError where the text cannot be extended like that.
    """
    newline = _newline(text)
    body = text.removeprefix(_BOM)
    joint = newline if body.strip() else ""
    if body and not body.endswith("\n"):
        joint = newline * 2
    table = f"[{'.'.join(path)}]\n{tomlkit.dumps(values)}"
    added = text + joint + table.replace("\n", newline)
    _must_say(added, path, _with(parse_toml(text), path, values))
    return added, joint


def set_values(text: str, path: Path, values: dict[str, Any]) -> str:
    """Give keys of a table other values. Raises InputError where tomlkit cannot."""
    tables = parse_toml(text)
    expected = _with(tables, path, {**tables[path[0]][path[1]], **values})
    body = text.removeprefix(_BOM)
    try:  # the table's own lines alone: a whole text may come back with its tables moved
        without: Any = _document(text, path)
        del without[path[0]][path[1]]
        start, end = _cut(body, tomlkit.dumps(without), path)
        changed = body[:start] + _changed(body[start:end], path, values) + body[end:]
    except (InputError, KeyError, toml_errors.TOMLKitError):
        changed = _changed(body, path, values)
    changed = _bom(text) + changed
    _must_say(changed, path, expected)
    return changed


def _changed(text: str, path: Path, values: dict[str, Any]) -> str:
    document = tomlkit.parse(text)
    table: Any = document
    for key in path:
        table = table[key]
    for key, value in values.items():
        table[key] = value
    return tomlkit.dumps(document)


def remove_table(text: str, path: Path, joint: str) -> str:
    """Take out a table and those below it; at the end of the text, `joint` before it too.

    What is taken out must be lines of its own in one place; else InputError.
    """
    expected = _with(parse_toml(text), path, None)
    body = text.removeprefix(_BOM)
    document: Any = _document(text, path)
    del document[path[0]][path[1]]
    start, end = _cut(body, tomlkit.dumps(document), path)
    # Blank lines and comments at the end of a table belong to what stands behind it.
    lines = [line + "\n" for line in body[start:end].removesuffix("\n").split("\n")]
    while lines and lines[-1].strip(" \t\r\n")[:1] in ("", "#"):
        end -= len(lines.pop())
    head, tail = body[:start], body[end:]
    if joint and head.endswith(joint):
        head = head.removesuffix(joint)
        if tail and head and not head.endswith("\n") and not tail.startswith(("\n", "\r\n")):
            head += _newline(text)
    left = _bom(text) + head + tail
    _must_say(left, path, expected)
    return left


def _cut(body: str, left: str, path: Path) -> tuple[int, int]:
    """Where the lines of `body` begin and end that are not in `left`; InputError for other cuts."""
    size = len(body) - len(left)
    pairs = enumerate(zip(body, left, strict=False))
    same = next((at for at, (one, other) in pairs if one != other), len(left))
    starts = [0, *(found.end() for found in re.finditer("\n", body[:same]))]
    for start in reversed(starts):
        end = start + size
        if body[:start] + body[end:] == left and (end == len(body) or body[end - 1] == "\n"):
            return start, end
    raise _refusal(path)


def _document(text: str, path: Path) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text.removeprefix(_BOM))
    except toml_errors.TOMLKitError:
        raise _refusal(path) from None


def _bom(text: str) -> str:
    return _BOM if text.startswith(_BOM) else ""


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


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
        raise _refusal(path)


def _refusal(path: Path) -> InputError:
    return InputError(
        f"is written in a way that is not changed here; write it as [{'.'.join(path)}], or change "
        "it by hand",
        where=path[0],
    )
