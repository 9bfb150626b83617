"""The façade: opens a plane, catches its projections up, runs the stages and times them."""

from __future__ import annotations

from memplane.plane.expanding import Expanded
from memplane.plane.plane import Plane
from memplane.plane.reading import Standing, Version
from memplane.plane.searching import SearchHit
from memplane.plane.writing import BulkReceipt, Receipt, Refusal, Spooled

__all__ = [
    "BulkReceipt",
    "Expanded",
    "Plane",
    "Receipt",
    "Refusal",
    "SearchHit",
    "Spooled",
    "Standing",
    "Version",
]
