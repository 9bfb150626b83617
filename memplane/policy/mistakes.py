"""What is wrong with a document, in words for the person who wrote it.

The schemas say what may stand where: of each value, `title` says what it must
be (`a number of tokens`), `description` what it does. jsonschema finds the
places; the words are ours.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import Problem
from memplane.policy.document import Fault, Node, Path, key_text, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = [
    "against_schema",
    "closest",
    "expected",
    "meant",
    "one_of",
    "problems",
    "resolved",
    "text_items",
]

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
    "uniqueItems": lambda _, error: f"expected each item once, found {shown(error.instance)} again",
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
        yield Fault((*path, found), f"expected {expected(schema)} as key, found {shown(found)}")
    elif error.validator in _COUNTED:
        yield Fault(path, _COUNTED[error.validator](expected(schema), error))
    else:
        words = _words(schema)
        hint = meant(found, words) if isinstance(found, str) else ""
        wanted = schema["title"] if hint and len(words) > LISTED_MAX else expected(schema)
        yield Fault(path, f"expected {wanted}, found {shown(found)}{hint}")


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
