"""The views of the plane itself: what was kept out, and how it is.

Counts alone where texts would give away what was taken out: rules, reasons, bytes.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memplane import nofollow
from memplane.errors import PolicyError
from memplane.inspect.records import Found
from memplane.inspect.visible import Visible, cut_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memplane.ports import Line
    from memplane.upkeep.doctor import Check

# Points of the curve of growth: each is one look at a line of the log.
GROWTH_POINTS: Final = 48
VALUES_MAX: Final = 1_500
_VALUE_CHARS: Final = 300
_PARTS: Final = ("log", "bodies", "projections", "index", "reports")
# Of these files the owner alone is shown values: they list what must not be read.
_PRIVATE_FILES: Final = ("privacy.yaml",)


def privacy_view(visible: Visible, found: Found) -> dict[str, Any]:
    """Secrets that were masked, by rule; events that stay out, by reason; what was purged."""
    return {
        "id": "privacy",
        "label": "Redaction",
        "masked": list(found.masked.items()),
        "withheld": list(visible.withheld.items()),
        "purges": found.purges,
        "purged": found.purged,
        "begin": found.begin,
    }


def health_view(visible: Visible, checks: Sequence[Check], kinds: dict[str, int]) -> dict[str, Any]:
    """Sizes, growth, the state of log, projections and index, and the policy in force.

    `checks` are those of `memplane doctor`; their words name places, so they are for the owner.
    """
    plane = visible.plane
    head = plane.head()
    return {
        "id": "health",
        "label": "Health",
        "seq": head.seq,
        "segments": head.segment,
        "chain": head.h,
        "waiting": plane.upkeep.waiting,
        "read_only": plane.read_only,
        "gaps": [
            {"segment": gap.segment, "first": gap.first, "last": gap.last}
            for gap in plane.context.log.gaps()
        ],
        "sizes": [[name, folder_bytes(plane.home / name)] for name in _PARTS],
        "kinds": sorted(kinds.items(), key=lambda one: (-one[1], one[0])),
        "growth": _growth(visible, head.seq),
        "checks": [
            {
                "name": check.name,
                "status": check.status,
                "found": visible.text(check.found) if visible.private else "",
                "remedy": visible.text(check.remedy) if visible.private else "",
            }
            for check in checks
        ],
        "policies": _policies(visible),
    }


def _growth(visible: Visible, head: int) -> list[list[Any]]:
    """When the log had how many lines: points spread evenly over its seqs."""
    log = visible.plane.context.log
    wanted = sorted({1 + at * (head - 1) // (GROWTH_POINTS - 1) for at in range(GROWTH_POINTS)})
    lines: list[Line | None] = [log.line(seq) for seq in wanted if 0 < seq <= head]
    return [[line.event.rec[:19], line.event.seq] for line in lines if line is not None]


def _policies(visible: Visible) -> list[dict[str, Any]]:
    """Every value in force with its origin; of what lists secrets the values are the owner's."""
    rows: list[dict[str, Any]] = []
    with suppress(PolicyError):
        for one in visible.plane.upkeep.policy_values()[:VALUES_MAX]:
            told = visible.private or one.file not in _PRIVATE_FILES
            value = visible.text(repr(one.value), _VALUE_CHARS) if told else "\u2026"
            origin = one.origin if one.line is None else f"line {one.line}"
            rows.append(
                {
                    "file": one.file,
                    "key": cut_to(one.key, 200),
                    "value": value,
                    "origin": one.variable or origin,
                    "own": one.origin != "default",
                }
            )
    return rows


def folder_bytes(folder: Path) -> int:
    """The bytes of the files in a folder and below it."""
    total = 0
    for path in nofollow.walk_files(folder):
        with suppress(OSError):
            total += Path(path).lstat().st_size
    return total
