"""A second engine behind the built-in rules, held to what the port `Detector` promises.

Other people's code: what it answers is checked, and where it fails nothing is stored or shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from memplane.errors import InputError
from memplane.intake.marks import MARK, Span, widened
from memplane.lazy import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memplane.ports import Detector

__all__ = ["Found", "Second"]

_NAME: Final = regex(r"[a-z0-9-]{1,40}")
_RULE: Final = regex(r"[A-Za-z0-9_.-]{1,60}")


class Found(NamedTuple):
    """Where a detector's secret stands, and the name it counts under: `<detector>:<rule>`."""

    span: Span
    rule: str


class Second:
    """A detector whose answers can be relied on."""

    __slots__ = ("_detector", "name")

    def __init__(self, detector: Detector) -> None:
        name = getattr(detector, "name", None)
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise InputError(
                "expected a name of 1 to 40 lower-case letters, digits and dashes",
                where="detector.name",
            )
        self._detector, self.name = detector, name

    def find(self, text: str) -> Iterator[Found]:
        """What it finds, from left to right, without what overlaps or stands in a mark already."""
        failure = ""
        try:
            spans = sorted((int(s), int(e), str(rule)) for s, e, rule in self._detector.find(text))
        except Exception as error:  # noqa: BLE001 - other people's code
            failure, spans = type(error).__name__, []
        if failure:  # without its message or itself as a cause: they may quote the text
            raise self._failed(f"failed ({failure})")
        if any(not 0 <= start <= end <= len(text) for start, end, _ in spans):
            raise self._failed("named characters outside the text")
        last = 0
        spans = [span for span in spans if span[0] < span[1]]
        for (start, end), (_, _, rule) in zip(
            widened(text, [span[:2] for span in spans]), spans, strict=True
        ):
            if start >= last and MARK.fullmatch(text, start, end) is None:
                named = rule if _RULE.fullmatch(rule) else "other"
                yield Found((start, end), f"{self.name}:{named}")
                last = end

    def _failed(self, how: str) -> InputError:
        return InputError(
            f"the detector `{self.name}` {how}; what it cannot look at is neither stored nor shown",
            where="detector",
        )
