"""A transcript's entry, any JSON object, as the `data` of events, and back.

An entry that fits is kept as it is, under `entry`. One that is too large, too deep, or holds what
an event's data cannot (NUL, lone surrogates, integers beyond 64 bits, NaN) is taken to its leaves,
in order, over as many events as it needs::

    leaves   [[path, form, value], ...]; path: keys and numbers from the outside in
    forms    v  the value itself
             s  a piece of a long string; pieces with the same path belong together
             j  the JSON of a value, in ASCII: a piece of a string, or a number
             c  an empty object or list

A path with a key that data cannot hold is written as its JSON. Secrets are masked in the whole
entry before it is cut, so that none is missed for lying on a cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

from memplane.errors import InputError

__all__ = ["Counts", "packed", "unpacked"]

Counts: TypeAlias = Mapping[str, int]
Leaf: TypeAlias = list[Any]
_BYTES_MAX: Final = 44 * 1024  # of data's 64 KiB: names, places and marks of secrets need some
_DEPTH_MAX: Final = 24  # of data's 32
_PIECE: Final = 3_000  # characters: 14 bytes each at worst, as JSON of JSON in ASCII
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
_LONG_NUMBER: Final = re.compile(r"[0-9]{19}")
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1


def packed(
    entry: Mapping[str, Any], redact: Callable[[Any], tuple[Any, Counts]]
) -> list[dict[str, Any]]:
    """Return the parts of an entry, in order; each goes into the data of one event.

    Raises InputError for what is no JSON object, or one nested deeper than Python goes.
    """
    try:
        if _fits(entry):
            return [{"entry": dict(entry)}]
        clean, counts = redact(dict(entry))
        parts: list[dict[str, Any]] = [{"leaves": some} for some in _portions(_leaves(clean, []))]
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"no JSON object that can be stored: {error}", where="entry") from error
    if counts:
        parts[0]["redactions"] = dict(sorted(counts.items()))
    return parts


def unpacked(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the entry that these parts, all of them and in order, hold; None where they are none.

    What a caller gave is not believed: a part of another form holds nothing.
    """
    whole = parts[0].get("entry")
    if len(parts) == 1 and isinstance(whole, dict):
        return whole
    root: dict[str, Any] = {}
    try:
        for path, values in _by_path(leaf for part in parts for leaf in part["leaves"]):
            _put(root, path, _joined(values))
    except (LookupError, TypeError, ValueError, AttributeError):
        return None
    return root


def _fits(entry: Mapping[str, Any]) -> bool:
    try:
        written = json.dumps(entry, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(written.encode())
    except ValueError:  # NaN, a lone surrogate, or a circle, which has no leaves either
        return False
    if size > _BYTES_MAX or "\\u0000" in written or _LONG_NUMBER.search(written):
        return False
    return _depth(entry) <= _DEPTH_MAX


def _depth(value: Any) -> int:
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return 0
    return 1 + max(map(_depth, value), default=0)


def _leaves(value: Any, path: list[str | int]) -> Iterator[Leaf]:
    if isinstance(value, Mapping | list | tuple) and value:
        inner = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, item in inner:
            yield from _leaves(item, [*path, key])
        return
    place = _place(path)
    if isinstance(value, Mapping | list | tuple):
        yield [place, "c", {} if isinstance(value, Mapping) else []]
    elif isinstance(value, str):
        yield from ([place, *_piece(value[at : at + _PIECE])] for at in _cuts(value))
    elif isinstance(value, bool) or value is None:
        yield [place, "v", value]
    elif isinstance(value, int | float):
        plain = isinstance(value, int) and _INT_MIN <= value <= _INT_MAX
        plain = plain or (isinstance(value, float) and value - value == 0)
        yield [place, "v", value] if plain else [place, "j", json.dumps(value)]
    else:
        raise TypeError(f"found {type(value).__name__}")


def _cuts(text: str) -> Iterable[int]:
    return range(0, len(text), _PIECE) if text else (0,)


def _piece(text: str) -> tuple[str, str]:
    return ("j", json.dumps(text)) if _UNSTORABLE.search(text) else ("s", text)


def _place(path: list[str | int]) -> list[str | int] | str:
    strange = any(isinstance(key, str) and _UNSTORABLE.search(key) for key in path)
    return json.dumps(path) if strange else path


def _portions(leaves: Iterator[Leaf]) -> Iterator[list[Leaf]]:
    """As many leaves at once as the data of one event holds."""
    some: list[Leaf] = []
    size = 0
    for leaf in leaves:
        cost = len(json.dumps(leaf, ensure_ascii=False).encode())
        if cost > _BYTES_MAX:
            raise ValueError("a name in it is too long")
        if some and size + cost > _BYTES_MAX:
            yield some
            some, size = [], 0
        some.append(leaf)
        size += cost
    yield some


def _by_path(leaves: Iterator[Any]) -> Iterator[tuple[list[str | int], list[Any]]]:
    at: list[str | int] | None = None
    values: list[Any] = []
    for place, form, value in leaves:
        path = json.loads(place) if isinstance(place, str) else place
        if path != at:
            if at is not None:
                yield at, values
            at, values = path, []
        values.append(_read(value) if form == "j" else value)
    if at is not None:
        yield at, values


def _read(written: str) -> Any:
    try:
        return json.loads(written)
    except ValueError:  # a mask was put over a part of it
        return written


def _joined(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else "".join(values)


def _put(root: dict[str, Any], path: list[str | int], value: Any) -> None:
    at: Any = root
    for key, inner in pairwise(path):
        at = _within(at, key, [] if isinstance(inner, int) else {})
    _within(at, path[-1], value)


def _within(at: Any, key: str | int, new: Any) -> Any:
    """What stands in an object or list under a key; `new` where there is nothing yet."""
    if isinstance(key, int):
        if key == len(at):
            at.append(new)
        return at[key]
    return at.setdefault(key, new)
