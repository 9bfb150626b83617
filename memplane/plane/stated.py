"""Up to where the caches of a plane say that they go, by a look at their headers."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from memplane.ports import Head
from memplane.projections import checkpoint
from memplane.projections.cache import CACHE_NAME

__all__ = ["stated"]

# In the same folder, and no projections: what importers have read, parsed policies.
_OTHERS = ("imports.json", "policy-")


def stated(home: Path, plane: str) -> Iterator[tuple[str, Head | None]]:
    """Each kept projection, by its name below `projections/`, and the line it stands behind.

    None for one that is torn, not a file, or of another plane.
    """
    folder = home / "projections"
    for file in sorted(folder.glob("*.json")):
        if not file.name.startswith(_OTHERS):
            kept = checkpoint.read(file)
            yield file.name, kept.position if kept is not None and kept.plane == plane else None
    cache = folder / CACHE_NAME
    if cache.exists():
        yield CACHE_NAME, _cached(cache, plane)


def _cached(path: Path, plane: str) -> Head | None:
    with contextlib.suppress(sqlite3.Error):
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as cache:
            row = cache.execute(
                'SELECT seq, h, segment, "offset" FROM checkpoint WHERE plane=?', (plane,)
            ).fetchone()
        if row is not None and [type(value) for value in row] == [int, str, int, int]:
            return Head(*row)
    return None
