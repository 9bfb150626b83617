"""Importers: records of other programs become events of a plane.

A source is a function of lines (of commits, where it is git): bytes in, rows for
`Plane.record_many` out. It reads no clock and keeps no plane, so the same file gives the same rows,
ids included, on any machine; because of the ids a second import consists of repeats. A file that
states what holds now is compared with the plane (see `statements`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memplane.lazy import lazily

if TYPE_CHECKING:
    from memplane.importers.run import (
        SOURCES,
        FileReport,
        FoundSource,
        ImportReport,
        Refused,
        detect,
        find_sources,
        import_paths,
    )

__all__ = [
    "SOURCES",
    "FileReport",
    "FoundSource",
    "ImportReport",
    "Refused",
    "detect",
    "find_sources",
    "import_paths",
]

__getattr__ = lazily(
    __name__,
    {
        "memplane.importers.run": (
            "SOURCES",
            "FileReport",
            "FoundSource",
            "ImportReport",
            "Refused",
            "detect",
            "find_sources",
            "import_paths",
        ),
    },
)
