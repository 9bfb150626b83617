"""What stands where a secret stood: `[redacted:<rule>]`. Marks are never broken by other rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memplane.lazy import regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["MARK", "Span", "merged", "widened"]

Span = tuple[int, int]

MARK: Final = regex(r"\[redacted:[a-z0-9-]{1,40}\]")


def widened(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    """Spans from left to right; one that touches marks takes them in whole, empty ones go."""
    marks = MARK.finditer(text) if "[redacted:" in text else iter(())
    mark = next(marks, None)
    for first, last in spans:
        start, end = first, last
        if start == end:
            continue
        while mark is not None and mark.end() <= start:
            mark = next(marks, None)
        while mark is not None and mark.start() < end:
            start, end = min(start, mark.start()), max(end, mark.end())
            if end > last:  # the next span may touch the rest of this mark
                break
            mark = next(marks, None)
        yield start, end


def merged(found: Iterable[Span], others: Iterator[Span]) -> Iterator[Span]:
    """The spans of two searches from left to right, as each of the searches gives its own."""
    other = next(others, None)
    for span in found:
        while other is not None and other < span:
            yield other
            other = next(others, None)
        yield span
    if other is not None:
        yield other
        yield from others
