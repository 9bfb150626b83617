"""The five files by name: what builds the record of each, and what only its own rules see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.policy import budgets, channels, plane, privacy, scoring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memplane.policy.document import Fault
    from memplane.policy.values import Json

__all__ = ["FILLED", "FORMATS", "NAMES", "VERSION", "Format"]

VERSION: Final = 1  # of the files' formats
NAMES: Final = ("budgets.yaml", "privacy.yaml", "channels.yaml", "scoring.yaml", "plane.yaml")
# What such a file leaves out is filled in from memplane's own: its record has no defaults.
FILLED: Final = ("scoring.yaml",)


class Format(NamedTuple):
    """What is particular to one file."""

    build: Callable[[Json], Any]
    faults: Callable[[Json], Iterator[Fault]]


FORMATS: Final = {
    "budgets.yaml": Format(budgets.build, budgets.faults),
    "privacy.yaml": Format(privacy.build, privacy.faults),
    "channels.yaml": Format(channels.build, channels.faults),
    "scoring.yaml": Format(scoring.build, scoring.faults),
    "plane.yaml": Format(plane.build, plane.faults),
}
