"""Bring strings and free JSON data into the form that a line of the log can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from memplane.errors import InputError
from memplane.event import DATA_BYTES_MAX, encode
from memplane.intake.redact import masked
from memplane.lazy import regex

__all__ = ["DATA_DEPTH_MAX", "PART", "Cleaner"]

DATA_DEPTH_MAX: Final = 32
# Of a place in data, its keys apart by NUL, until secrets are masked in it for an error.
_PATH_MAX: Final = 4096
_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**64 - 1
# Characters that are looked at at once: encoded, or replaced one by one, they take several times
# their room.
PART: Final = 1 << 18
# No value takes more bytes of JSON than this, and six for each of its characters.
_ITEM_BYTES: Final = 32
_UNSTORABLE: Final = regex("[\0\ud800-\udfff]")


class Cleaner:
    """Cleans the strings of one event and counts the characters that it had to replace."""

    __slots__ = ("_bound", "replaced")

    def __init__(self) -> None:
        self.replaced = 0
        self._bound = 0  # bytes that the data seen so far can take at most

    def text(self, text: str) -> str:
        """Put U+FFFD for NUL and lone surrogates, which JSON readers do not agree on."""
        if "\0" not in text:
            if text.isascii():
                return text
            try:
                for at in range(0, len(text), PART):
                    text[at : at + PART].encode()
            except UnicodeEncodeError:
                pass
            else:
                return text
        cleaned = []
        for at in range(0, len(text), PART):
            part, number = _UNSTORABLE.subn("\ufffd", text[at : at + PART])
            cleaned.append(part)
            self.replaced += number
        return "".join(cleaned)

    def data(self, value: Any, where: str) -> dict[str, Any]:
        """Bring data to JSON types; what JSON cannot hold is refused by its place in it."""
        if not isinstance(value, Mapping):
            raise InputError(
                f"found {type(value).__name__}; expected an object with string keys", where=where
            )
        self._bound = _ITEM_BYTES
        out = self._object(value, where, 1)
        size = len(encode(out).encode()) if self._bound > DATA_BYTES_MAX else 0
        if size > DATA_BYTES_MAX:
            raise InputError(
                f"found {size} bytes of JSON; expected at most {DATA_BYTES_MAX}; "
                "put what a model would read into text",
                where=where,
            )
        return out

    def _object(self, value: Mapping[Any, Any], where: str, depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise InputError(
                    f"found a key of type {type(key).__name__}; expected a string",
                    where=_shown(where),
                )
            self._bound += 6 * len(key)
            out[self.text(key)] = self._any(item, where, key, depth + 1)
        return out

    def _any(self, value: Any, where: str, key: object, depth: int) -> Any:
        self._bound += _ITEM_BYTES
        if isinstance(value, str):
            self._bound += 6 * len(value)
            return self.text(str(value))
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return int(value) if _INT_MIN <= value <= _INT_MAX else str(int(value))
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else _NOT_FINITE[repr(float(value))]
        return self._nested(value, f"{where}\0{key}"[:_PATH_MAX], depth)

    def _nested(self, value: Any, where: str, depth: int) -> Any:
        if not isinstance(value, Mapping | list | tuple):
            raise InputError(
                f"found {type(value).__name__}; expected JSON: "
                "null, boolean, number, string, list or object",
                where=_shown(where),
            )
        if depth > DATA_DEPTH_MAX:
            raise InputError(
                f"nested deeper than {DATA_DEPTH_MAX} levels; store it as text instead",
                where=_shown(where)[:80],
            )
        if isinstance(value, Mapping):
            return self._object(value, where, depth)
        return [self._any(item, where, number, depth + 1) for number, item in enumerate(value)]


def _shown(where: str) -> str:
    """A place in data for an error: its keys came from outside, and a secret may be one."""
    return ".".join(masked(key) for key in where.split("\0"))[:200]


_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
