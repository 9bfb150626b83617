"""`scoring.yaml: times`: the words in which questions name a time, a table for each language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from memplane.policy.document import (
    Fault,
    Json,
    found_value,
    mapping,
    texts_of_list,
    whole_number,
)

# What a phrase may mean, and the units that are counted.
RELATIVE: Final = (
    "today",
    "yesterday",
    "before_yesterday",
    "this_week",
    "last_week",
    "this_month",
    "last_month",
    "this_year",
    "last_year",
)
UNITS: Final = ("day", "week", "month")
_ROW: Final = "|"  # between names of one month or weekday
_PART: Final = re.compile(r"\{(n|unit)\}")


class TimeWords(NamedTuple):
    """The words of one language, in small letters.

    `relative` and `units`: phrases for each of `RELATIVE` and `UNITS`. `months` and `weekdays`:
    their names in order, from January and from Monday. `numbers`: words for counts. `ago` and
    `past`: frames with `{n}` and `{unit}`. `before_dates` may stand before a date; names in
    `ambiguous` count as a month only behind one of these. `idle`: words that ask for nothing.
    """

    relative: tuple[tuple[str, tuple[str, ...]], ...]
    last_session: tuple[str, ...]
    session_before: tuple[str, ...]
    months: tuple[tuple[str, ...], ...]
    weekdays: tuple[tuple[str, ...], ...]
    units: tuple[tuple[str, tuple[str, ...]], ...]
    numbers: tuple[tuple[str, int], ...]
    ago: tuple[str, ...]
    past: tuple[str, ...]
    since: tuple[str, ...]
    before_dates: tuple[str, ...]
    ambiguous: frozenset[str]
    idle: frozenset[str]


def build_times(document: Json) -> tuple[TimeWords, ...]:
    """Build the tables from a document without mistakes, in the order of the languages' names."""
    return tuple(_build(mapping(table)) for _, table in sorted(document.items()))


def time_faults(document: object) -> Iterator[Fault]:
    """Name what the schema cannot see: missing names, frames without a place for the number."""
    if not isinstance(document, dict):
        return
    for language, table in document.items():
        if not isinstance(table, dict):
            continue
        for name, count in (("months", 12), ("weekdays", 7)):
            names = table.get(name)
            if isinstance(names, list) and len(names) != count:
                why = f"expected {count} names in order, found {len(names)}"
                yield Fault(("times", language, name), why)
        for name in ("ago", "past"):
            frames = table.get(name, [])
            for at, frame in enumerate(frames if isinstance(frames, list) else ()):
                if isinstance(frame, str) and _frame_parts(frame) != ["n", "unit"]:
                    why = f"expected one {{n}} and then one {{unit}}, found {found_value(frame)}"
                    yield Fault(("times", language, name, at), why)


def _frame_parts(frame: str) -> list[str]:
    return _PART.findall(frame)


def _build(table: Json) -> TimeWords:
    def phrases(name: str) -> tuple[str, ...]:
        return tuple(text.lower() for text in texts_of_list(table.get(name, [])))

    def names(name: str) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(row.split(_ROW)) for row in phrases(name))

    units = mapping(table.get("units", {}))
    numbers = mapping(table.get("numbers", {}))
    return TimeWords(
        relative=tuple((name, phrases(name)) for name in RELATIVE),
        last_session=phrases("last_session"),
        session_before=phrases("session_before"),
        months=names("months"),
        weekdays=names("weekdays"),
        units=tuple((name, texts_of_list(units.get(name, []))) for name in UNITS),
        numbers=tuple(sorted((word.lower(), whole_number(n)) for word, n in numbers.items())),
        ago=phrases("ago"),
        past=phrases("past"),
        since=phrases("since"),
        before_dates=phrases("before_dates"),
        ambiguous=frozenset(phrases("ambiguous")),
        idle=frozenset(phrases("idle")),
    )
