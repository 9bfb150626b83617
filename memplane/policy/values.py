"""Values of a checked document as the integers and tuples that records hold.

A document that comes from the cache was checked by whoever wrote it, so a
value of another type raises TypeError or ValueError here: the cached form is
then ignored and the YAML is read.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

__all__ = ["PERMILLE", "PPM", "Json", "mapping", "parts", "texts", "whole"]

Json: TypeAlias = dict[str, Any]

PERMILLE: Final = 1_000
PPM: Final = 1_000_000


def mapping(value: object) -> Json:
    """Return a mapping with text keys as it is."""
    if not isinstance(value, dict):
        raise TypeError(f"expected a mapping, found {type(value).__name__}")
    return value


def texts(value: object) -> tuple[str, ...]:
    """Return a list of texts as a tuple."""
    if not isinstance(value, list):
        raise TypeError(f"expected a list, found {type(value).__name__}")
    return tuple(_text(item) for item in value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, found {type(value).__name__}")
    return value


def whole(value: object) -> int:
    """Return a whole number; `4000.0` is one, as JSON Schema has it, and `true` is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise TypeError(f"expected a whole number, found {value!r}")
    return int(value)


def parts(value: object, unit: int) -> int:
    """Return a number as so many parts of `unit`, rounded: records hold no floats."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"expected a number, found {value!r}")
    return round(value * unit)
