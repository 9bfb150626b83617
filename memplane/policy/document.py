"""YAML bytes to plain values, each with its place in the file.

Stricter than YAML where YAML surprises: duplicate keys, tags and a second
document are mistakes; numbers are decimal and finite (`1:30`, `0x10`, `.nan` and
`yes` are texts, `true` and `false` the only booleans); keys are always texts.
Bounded before anything is built: 256 KiB, 32 levels, 10,000 values with aliases
written out, so that no file can cost more than a moment.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from memplane.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Fault", "Node", "Path", "Place", "key_text", "plain", "read", "scalar", "shown"]

BYTES_MAX: Final = 256 * 1024
DEPTH_MAX: Final = 32
VALUES_MAX: Final = 10_000
SHOWN_MAX: Final = 60

Path: TypeAlias = tuple[str | int, ...]
Place: TypeAlias = tuple[int, int]  # line and column, both from 1

# As text: a process whose policies are cached compiles none of them.
_WHOLE: Final = r"[-+]?(?:0|[1-9][0-9]{0,17})"
_DECIMAL: Final = (
    r"[-+]?(?!0[0-9])(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][-+]?[0-9]{1,4})?"
)
# What YAML calls printable, less the byte order mark.
_UNPRINTABLE: Final = (
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_BREAK: Final = r"\r\n|[\r\n\x85\u2028\u2029]"  # the line breaks of YAML 1.1


class Fault(NamedTuple):
    """One mistake at one place of a document, before its line is known."""

    path: Path
    message: str


class Node(NamedTuple):
    """A value and where it stands; `keys` has the places of a mapping's keys.

    `size` is the number of values in it, aliases written out.
    """

    value: dict[str, Node] | list[Node] | str | int | float | bool | None
    at: Place
    size: int = 1
    keys: dict[str, Place] = {}  # noqa: RUF012 - read only, and most nodes are scalars

    def place(self, path: Path) -> Place:
        """Where the key or item at `path` stands; of what is missing, where its parent stands."""
        node, at = self, self.at
        for step in path:
            if isinstance(node.value, dict) and step in node.keys:
                node, at = node.value[str(step)], node.keys[str(step)]
            elif isinstance(node.value, list) and isinstance(step, int):
                node = node.value[step]
                at = node.at
            else:
                break
        return at


def key_text(path: Path) -> str:
    """Write a path as people do: `channels[0].name`."""
    text = ""
    for step in path:
        dot = "." if text else ""
        text += f"[{step}]" if isinstance(step, int) else f"{dot}{_short(step)}"
    return text


def shown(value: object) -> str:
    """Say what was found, in one short line."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list):
        items = "item" if len(value) == 1 else "items"
        return f"a list of {len(value)} {items}" if value else "an empty list"
    if value == "":
        return "an empty text"
    if isinstance(value, str):
        looks_like_more = not isinstance(scalar(value), str)
        return f"the text `{value}`" if looks_like_more else f"`{_short(value)}`"
    return f"`{str(value).lower()}`"


def _short(text: str) -> str:
    line = text if text.isprintable() else repr(text)[1:-1]
    return line if len(line) <= SHOWN_MAX else f"{line[:SHOWN_MAX]}…"


def scalar(text: str) -> str | int | float | bool | None:
    """Return what a scalar without quotes stands for."""
    if text in {"", "~", "null"}:
        return None
    if text in {"true", "false"}:
        return text == "true"
    if re.fullmatch(_WHOLE, text):
        return int(text)
    if re.fullmatch(_DECIMAL, text) and not text.lstrip("+-").isdigit():
        # 007 and whole numbers of 19 digits stay texts: nobody means them.
        number = float(text)
        return number if math.isfinite(number) else text
    return text


def plain(node: Node) -> Any:
    """Return the value without its places."""
    if isinstance(node.value, dict):
        return {key: plain(item) for key, item in node.value.items()}
    if isinstance(node.value, list):
        return [plain(item) for item in node.value]
    return node.value


def read(file: str, data: bytes) -> tuple[Node | None, list[Problem]]:
    """Read one document; None where the file is empty or cannot be read at all.

    Mistakes that leave the rest readable (a key given twice, a tag) come beside
    the node, which then holds the first of two values.
    """
    if len(data) > BYTES_MAX:
        return None, [
            Problem(file, 0, "", f"expected at most {BYTES_MAX} bytes, found {len(data)}")
        ]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        byte = error.object[error.start]
        return None, [Problem(file, line, "", f"expected UTF-8 text, found the byte 0x{byte:02x}")]
    odd = re.search(_UNPRINTABLE, text)
    if odd:
        line = len(re.findall(_BREAK, text[: odd.start()])) + 1
        found = f"expected printable text, found the character U+{ord(odd[0]):04X}"
        return None, [Problem(file, line, "", found)]
    composer = _Composer(file)
    try:
        return composer.compose(text), composer.problems
    except _RefusedError as refused:
        return None, [*composer.problems, Problem(file, refused.line, "", refused.message)]


class _RefusedError(Exception):
    """The rest of the file cannot be read."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line, self.message = line, message


class _Composer:
    """Events of the YAML parser to nodes.

    Own, because PyYAML's composer recurses without a bound and forgets the keys it overwrites.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.anchors: dict[str, Node] = {}
        self.events: Iterator[Any] = iter(())
        self.values = 0

    def compose(self, text: str) -> Node | None:
        import yaml  # noqa: PLC0415 - a plane whose policies are cached reads no YAML

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self.events = (
            event
            for event in yaml.parse(text, Loader=loader)
            if not isinstance(
                event,
                yaml.StreamStartEvent
                | yaml.StreamEndEvent
                | yaml.DocumentStartEvent
                | yaml.DocumentEndEvent,
            )
        )
        try:
            first = next(self.events, None)
            root = None if first is None else self._node(first, (), 0)
            second = next(self.events, None)
        except yaml.YAMLError as error:
            raise _syntax(error, text) from None
        if second is not None:
            raise _RefusedError(_at(second)[0], "expected one document, found a second one")
        return root

    def _node(self, event: Any, path: Path, depth: int) -> Node:
        at = _at(event)
        kind = type(event).__name__
        if kind == "AliasEvent":
            return self._alias(event.anchor, at)
        self._spend(1, at)
        if depth >= DEPTH_MAX:
            raise _RefusedError(at[0], f"expected at most {DEPTH_MAX} levels, found more")
        if event.tag is not None:
            self._mistake(at, path, f"expected a value without a tag, found `{_short(event.tag)}`")
        if kind == "MappingStartEvent":
            node = self._mapping(at, path, depth)
        elif kind == "SequenceStartEvent":
            node = self._sequence(at, path, depth)
        else:
            node = Node(event.value if event.style else scalar(event.value), at)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def _mapping(self, at: Place, path: Path, depth: int) -> Node:
        value: dict[str, Node] = {}
        keys: dict[str, Place] = {}
        size = 1
        while type(key_event := next(self.events)).__name__ != "MappingEndEvent":
            key_at = _at(key_event)
            key = self._key(key_event, path, depth)
            inner = path if key is None else (*path, key)
            node = self._node(next(self.events), inner, depth + 1)
            if key is None:
                continue
            if key in value:
                self._mistake(key_at, inner, f"given twice; line {keys[key][0]} has it already")
                continue
            value[key], keys[key] = node, key_at
            size += node.size
        return Node(value, at, size, keys)

    def _key(self, event: Any, path: Path, depth: int) -> str | None:
        if type(event).__name__ == "ScalarEvent" and event.tag is None and event.anchor is None:
            return str(event.value)
        self._node(event, path, depth + 1)
        self._mistake(_at(event), path, "expected a plain text as key, found something else")
        return None

    def _sequence(self, at: Place, path: Path, depth: int) -> Node:
        items: list[Node] = []
        while type(event := next(self.events)).__name__ != "SequenceEndEvent":
            items.append(self._node(event, (*path, len(items)), depth + 1))
        return Node(items, at, 1 + sum(item.size for item in items))

    def _alias(self, anchor: str, at: Place) -> Node:
        # An anchor is known once its node is complete, so nothing can hold itself.
        node = self.anchors.get(anchor)
        if node is None:
            raise _RefusedError(
                at[0], f"expected an anchor that ends before its alias, found `*{_short(anchor)}`"
            )
        self._spend(node.size, at)
        return node._replace(at=at)

    def _spend(self, values: int, at: Place) -> None:
        self.values += values
        if self.values > VALUES_MAX:
            raise _RefusedError(
                at[0], f"expected at most {VALUES_MAX} values, aliases written out, found more"
            )

    def _mistake(self, at: Place, path: Path, message: str) -> None:
        self.problems.append(Problem(self.file, at[0], key_text(path), message))


def _at(event: Any) -> Place:
    return event.start_mark.line + 1, event.start_mark.column + 1


def _syntax(error: Any, text: str) -> _RefusedError:
    """Say in one line what the YAML parser stumbled over."""
    mark = getattr(error, "problem_mark", None)
    begun = getattr(error, "context_mark", None)
    # An end of file that comes too early is marked behind the last line that people see.
    lines = re.split(_BREAK, text.rstrip())
    line = min(mark.line, len(lines) - 1) if mark is not None else 0
    broken = lines[line]
    if "\t" in broken[: len(broken) - len(broken.lstrip())]:
        return _RefusedError(line + 1, "expected spaces, found a tab in the indentation")
    what = getattr(error, "problem", None) or "no YAML"
    start = 0 if begun is None else min(begun.line, len(lines) - 1) + 1
    since = f" ({error.context}, begun in line {start})" if start else ""
    return _RefusedError(line + 1, f"expected YAML, found a mistake: {what}{since}")
