"""Regular expressions that people write into policies: whether they can be used, and why not."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Final

from memplane.policy.document import Fault, Path, shown
from memplane.policy.mistakes import text_items

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CHARACTERS_MAX", "PATTERNS_MAX", "pattern_faults", "pattern_mistake"]

PATTERNS_MAX: Final = 100
CHARACTERS_MAX: Final = 1_000  # as the schemas say


def pattern_faults(path: Path, patterns: object) -> Iterator[Fault]:
    """Name the regular expressions that do not compile, match where nothing stands, or blow up."""
    for position, pattern in text_items(patterns, PATTERNS_MAX):
        # What is empty or too long is no news: the schema says so.
        why = pattern_mistake(pattern) if 0 < len(pattern) <= CHARACTERS_MAX else ""
        if why:
            expected = "expected a regular expression"
            yield Fault((*path, position), f"{expected}, found {shown(pattern)}: {why}")


def pattern_mistake(pattern: str) -> str:
    """Say why a pattern cannot be used, nothing where it can."""
    if len(pattern) > CHARACTERS_MAX:
        return f"it is longer than {CHARACTERS_MAX} characters"
    with warnings.catch_warnings():
        # A pattern that Python warns about changes its meaning in a later Python.
        warnings.simplefilter("error")
        try:
            compiled = re.compile(pattern)
        except (re.error, OverflowError, RecursionError, Warning) as error:
            return str(error)
    return "it matches an empty text" if compiled.search("") else _blows_up(pattern)


def _blows_up(pattern: str) -> str:
    # Here, because a plane whose policies are cached asks about no pattern.
    from memplane.policy.ambiguity import ambiguous  # noqa: PLC0415
    from memplane.policy.automaton import TooLargeError  # noqa: PLC0415
    from memplane.policy.splitting import shared  # noqa: PLC0415

    try:
        text = ambiguous(pattern)
        if text is not None:
            why = f"a repeat in it matches a row of {shown(text)} in two ways"
            return f"it can take exponential time; {why}"
        text = shared(pattern)
    except (TooLargeError, RecursionError):
        return "it is too large to tell whether it can take exponential time"
    if text is not None:
        why = f"too many repeats in it can share a row of {shown(text)}"
        return f"it can take minutes on a short text; {why}"
    return ""
