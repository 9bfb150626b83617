"""Other programs' records become events of a plane.

A source is a function of lines (of commits, where it is git): bytes in, rows for
`Plane.record_many` out. It reads no clock and keeps no plane, so the same file gives
the same rows, ids included, on any machine; the ids make a second import a row of
repeats.
"""

from __future__ import annotations

from memplane.importers.detect import Found, detect, sources_of
from memplane.importers.report import FileReport, ImportReport, Refused
from memplane.importers.run import SOURCES, import_paths

__all__ = [
    "SOURCES",
    "FileReport",
    "Found",
    "ImportReport",
    "Refused",
    "detect",
    "import_paths",
    "sources_of",
]
