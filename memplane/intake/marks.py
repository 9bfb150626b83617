"""What stands where a secret stood: `[redacted:<rule>]`. Marks are never broken by other rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memplane.lazy import regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["MARK", "Span", "widened"]

Span = tuple[int, int]

MARK: Final = regex(r"\[redacted:[a-z0-9-]{1,40}\]")


def widened(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    """Spans from left to right; one that touches marks takes them in whole, empty ones go."""
    marks = [mark.span() for mark in MARK.finditer(text)] if "[redacted:" in text else []
    at = 0
    for first, last in spans:
        start, end = first, last
        if start == end:
            continue
        while at < len(marks) and marks[at][1] <= start:
            at += 1
        inside = at
        while inside < len(marks) and marks[inside][0] < end:
            mark_start, mark_end = marks[inside]
            start, end = min(start, mark_start), max(end, mark_end)
            inside += 1
        yield start, end
