"""The arguments of a call, held to the tool's schema; mistakes are worded for the agent.

The vocabulary is the few keywords that `schemas` uses; a test holds the two together with
jsonschema, which would take longer to import than all tools take to check.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from memplane.errors import InputError
from memplane.intake.redact import shown
from memplane.mcp.schemas import Tool

__all__ = ["checked"]

_TYPES: Final[dict[str, tuple[str, Any]]] = {
    "string": ("a text", str),
    "integer": ("a whole number", (int, float)),
    "array": ("a list", list),
}


def checked(tool: Tool, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments with the defaults of those that were not given; null counts as not given.

    Raises InputError for the first that cannot be taken, saying what can.
    """
    takes: dict[str, Any] = tool.takes["properties"]
    given = {} if given is None else given
    for name in given:
        if name not in takes:
            close = get_close_matches(name[:64].lower(), takes, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise InputError(
                f"unknown argument {shown(name)} of {tool.name}; it takes {', '.join(takes)}{hint}"
            )
    found: dict[str, Any] = {}
    for name, schema in takes.items():
        value = given.get(name)
        if value is not None:
            found[name] = _held(value, schema, name)
        elif name in tool.takes.get("required", ()):
            raise InputError(f"{tool.name} needs it, found none", where=name)
        elif "default" in schema:
            found[name] = schema["default"]
    return found


def _held(value: Any, schema: dict[str, Any], where: str) -> Any:
    """The value where the schema takes it; a whole float becomes the number that it is."""
    kind = schema["type"]
    word, kinds = _TYPES[kind]
    whole = not isinstance(value, float) or value.is_integer()
    if isinstance(value, bool) or not isinstance(value, kinds) or not whole:
        raise InputError(f"expected {word}, found {shown(value)}", where=where)
    if kind == "array":
        return _each(list(value), schema, where)
    return (
        _in_range(int(value), schema, where) if kind == "integer" else _text(value, schema, where)
    )


def _each(values: list[Any], schema: dict[str, Any], where: str) -> list[Any]:
    most = schema.get("maxItems", len(values))
    if len(values) > most:
        raise InputError(f"expected at most {most}, found {len(values)}", where=where)
    return [_held(one, schema["items"], f"{where}[{at}]") for at, one in enumerate(values)]


def _in_range(value: int, schema: dict[str, Any], where: str) -> int:
    least, most = schema.get("minimum", value), schema.get("maximum", value)
    if not least <= value <= most:
        raise InputError(f"expected {least} to {most}, found {shown(value)}", where=where)
    return value


def _text(value: str, schema: dict[str, Any], where: str) -> str:
    if "enum" in schema and value not in schema["enum"]:
        known = ", ".join(schema["enum"])
        raise InputError(f"expected one of {known}, found {shown(value)}", where=where)
    most = schema.get("maxLength")
    if most is not None and len(value) > most:
        raise InputError(
            f"expected at most {most:,} characters, found {len(value):,}; split it", where=where
        )
    if len(value) < schema.get("minLength", 0):
        raise InputError("expected a text, found an empty one", where=where)
    return value
