"""Read YAML bytes into plain values, each with its line and column, and check them by a schema.

Stricter than YAML where YAML surprises: duplicate keys, tags and a second
document are mistakes; numbers are decimal and finite (`1:30`, `0x10`, `.nan` and
`yes` are texts, `true` and `false` the only booleans); keys are always texts.
Bounded before anything is built: 256 KiB, 32 levels, 10,000 values with aliases
written out, so that no file can cost more than a moment.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from memplane.errors import Problem
from memplane.lazy import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

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


def found_value(value: object) -> str:
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


def without_places(node: Node) -> Any:
    """Return the value without its places."""
    if isinstance(node.value, dict):
        return {key: without_places(item) for key, item in node.value.items()}
    if isinstance(node.value, list):
        return [without_places(item) for item in node.value]
    return node.value


def read_document(file: str, data: bytes) -> tuple[Node | None, list[Problem]]:
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


# Values of a checked document as the integers and tuples that records hold.
#
# A document that comes from the cache was checked by whoever wrote it, so a value of another type
# raises TypeError or ValueError here: the cached form is then ignored and the YAML is read.

Json: TypeAlias = dict[str, Any]
Record = TypeVar("Record", bound=tuple[Any, ...])

PERMILLE: Final = 1_000
PPM: Final = 1_000_000


def mapping(value: object) -> Json:
    """Return a mapping with text keys as it is."""
    if not isinstance(value, dict):
        raise TypeError(f"expected a mapping, found {type(value).__name__}")
    return value


def texts_of_list(value: object) -> tuple[str, ...]:
    """Return a list of texts as a tuple."""
    if not isinstance(value, list):
        raise TypeError(f"expected a list, found {type(value).__name__}")
    return tuple(_text(item) for item in value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, found {type(value).__name__}")
    return value


def whole_number(value: object) -> int:
    """Return a whole number; accepts `4000.0`, as JSON Schema does, but not `true`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise TypeError(f"expected a whole number, found {value!r}")
    return int(value)


def parts_per(value: object, unit: int) -> int:
    """Return a number as so many parts of `unit`, rounded: records hold no floats."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"expected a number, found {value!r}")
    return round(value * unit)


def filled_record(usual: Record, given: Json) -> Record:
    """Return a record with the values that a mapping without mistakes names in place of its own.

    A NamedTuple of numbers, texts, lists of texts and other such records, by the names of the
    fields. A number or a switch is taken where the record has one.
    """
    record: Any = usual
    taken = {name: _value(getattr(record, name), given[name]) for name in given}
    return cast("Record", record._replace(**taken))


def _value(usual: object, value: object) -> object:
    if isinstance(usual, tuple):
        is_record = hasattr(usual, "_fields")
        return filled_record(usual, mapping(value)) if is_record else texts_of_list(value)
    if isinstance(usual, bool):
        return bool(value)
    return whole_number(value) if isinstance(usual, int) else _text(value)


# What is wrong with a document, in words for the person who wrote it.
#
# The schemas say what may stand where: of each value, `title` says what it must be (`a number of
# tokens`), `description` what it does. jsonschema finds the places; the words are ours.

PROBLEMS_MAX: Final = 100
LISTED_MAX: Final = 12
# Where the value itself would not show what is wrong with it.
_COUNTED: Final[dict[str, Callable[[str, Any], str]]] = {
    "maxLength": lambda _, error: (
        f"expected at most {error.validator_value} characters, found {len(error.instance)}"
    ),
    "maxProperties": lambda wanted, error: (
        f"expected {wanted}, found a mapping of {len(error.instance)} keys"
    ),
    "uniqueItems": lambda _, error: (
        f"expected each item once, found {found_value(error.instance)} again"
    ),
}


def problems(file: str, root: Node, faults: Iterable[Fault]) -> list[Problem]:
    """Give each fault its line; in the order of the file, at most 100 and a count of the rest."""
    placed = sorted(
        {(root.place(fault.path), key_text(fault.path), fault.message) for fault in faults}
    )
    found = [Problem(file, at[0], key, message) for at, key, message in placed[:PROBLEMS_MAX]]
    more = len(placed) - len(found)
    if more:
        found.append(Problem(file, 0, "", f"and {more} more mistakes"))
    return found


def meant(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean …?` where a known word is close, else nothing."""
    close = closest(word, known)
    return f"; did you mean `{close}`?" if close else ""


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is close enough to have been meant, if there is one."""
    import difflib  # noqa: PLC0415 - only people who made a mistake need it

    close = difflib.get_close_matches(word[:80], sorted(known), n=1, cutoff=0.7)
    return close[0] if close else None


def text_items(value: object, most: int | None = None) -> Iterator[tuple[int, str]]:
    """Yield the texts of what may be a list, with positions; looks at the first `most` only."""
    if isinstance(value, list):
        for position, item in enumerate(value[:most]):
            if isinstance(item, str):
                yield position, item


def against_schema(document: object, schema: bytes) -> Iterator[Fault]:
    """Name every place where the document is not what the schema says."""
    import jsonschema  # noqa: PLC0415 - a plane whose policies are cached needs none

    def each_once(_: Any, wanted: bool, items: Any, __: Any) -> Iterator[Any]:
        # jsonschema's own takes quadratic time and does not say which item.
        first: dict[str, int] = {}
        for position, item in enumerate(items if wanted and isinstance(items, list) else ()):
            if first.setdefault(json.dumps(item), position) != position:
                yield jsonschema.ValidationError("repeated", path=[position], instance=item)

    draft = jsonschema.Draft202012Validator
    keywords = {"uniqueItems": each_once}
    validator = jsonschema.validators.extend(draft, keywords)  # type: ignore[no-untyped-call]
    rules = json.loads(schema)
    for error in validator(rules).iter_errors(document):
        yield from _faults(error, rules.get("$defs", {}))


def _faults(error: Any, definitions: Any) -> Iterator[Fault]:
    path: Path = tuple(error.absolute_path)
    schema, found = error.schema, error.instance
    if error.validator == "additionalProperties":
        known = schema["properties"]
        for key in found:
            if key not in known:
                hint = meant(key, known) or f"; expected {one_of(known)}"
                yield Fault((*path, key), f"unknown{hint}")
    elif error.validator == "required":
        for key in error.validator_value:
            if key not in found:
                wanted = expected(resolved(schema["properties"][key], definitions))
                yield Fault((*path, key), f"missing; expected {wanted}")
    elif "propertyNames" in error.absolute_schema_path:
        yield Fault(
            (*path, found), f"expected {expected(schema)} as key, found {found_value(found)}"
        )
    elif error.validator in _COUNTED:
        yield Fault(path, _COUNTED[error.validator](expected(schema), error))
    else:
        words = _words(schema)
        hint = meant(found, words) if isinstance(found, str) else ""
        wanted = schema["title"] if hint and len(words) > LISTED_MAX else expected(schema)
        yield Fault(path, f"expected {wanted}, found {found_value(found)}{hint}")


def resolved(schema: Any, definitions: Any) -> Any:
    """Follow a reference into the definitions of its own file."""
    if "$ref" not in schema:
        return schema
    return definitions[schema["$ref"].removeprefix("#/$defs/")]


def expected(schema: Any) -> str:
    """Say what a value must be, in the words of its schema."""
    if "const" in schema:
        return str(schema["const"])
    if words := _words(schema):
        return one_of(words)
    title = str(schema["title"])
    if "maximum" in schema:
        return f"{title} from {schema['minimum']} to {schema['maximum']}"
    most = schema.get("maxItems", schema.get("maxProperties"))
    return title if most is None else f"{title} (at most {most})"


def _words(schema: Any) -> list[str]:
    """The words of a schema that lists them; of one that takes names too, those and their form."""
    if "anyOf" in schema and "enum" in schema["anyOf"][0]:
        return [*schema["anyOf"][0]["enum"], "custom:<name>"]
    return list(schema.get("enum", ()))


def one_of(words: Iterable[str]) -> str:
    """List words to choose from."""
    return "one of " + ", ".join(f"`{word}`" for word in words)
