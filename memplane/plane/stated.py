"""Up to where the caches of a plane say that they go, by a look at their headers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from memplane import nofollow
from memplane.log.survey import Witness
from memplane.plane.reports import saved
from memplane.projections import projector
from memplane.projections.cache import CACHE_NAME, position_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from memplane.ports import Head

__all__ = ["stated", "witnesses"]

# In the same folder, and no projections: what importers have read, parsed policies.
_OTHERS = ("imports.json", "policy-")


def stated(home: Path, plane: str) -> Iterator[tuple[str, Head | None]]:
    """Each kept projection, by its name below `projections/`, and the line it stands behind.

    None for one that is torn, not a file, or of another plane.
    """
    folder = home / "projections"
    for name in nofollow.names(folder):
        if name.endswith(".json") and not name.startswith(_OTHERS):
            kept = projector.read(folder / name)
            yield name, kept.position if kept is not None and kept.plane == plane else None
    cache = folder / CACHE_NAME
    if os.path.lexists(cache):
        yield CACHE_NAME, position_of(cache, plane)


def witnesses(home: Path, plane: str) -> Iterator[Witness]:
    """Who knows of lines of the log: projections, the index, reports of packs.

    To be asked before the log is looked at: what they know then, it must hold.
    """
    for name, at in stated(home, plane):
        if at is not None:
            yield Witness(f"projections/{name}", at.seq, at.segment)
    from memplane.index.storage import fields_of  # noqa: PLC0415 - it brings arrays along

    index = fields_of(home / "index" / "manifest.json") or {}
    if index.get("plane") == plane and type(seq := index.get("seq")) is int:
        yield Witness("index/manifest.json", seq, 0)
    for one in saved(home):
        head = one.report["log"].get("head")
        if type(head) is int:
            yield Witness(f"reports/{one.path.name}", head, 0)
