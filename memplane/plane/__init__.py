"""The façade: opens a plane, catches its projections up, runs the stages and times them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memplane.lazy import lazily

if TYPE_CHECKING:
    from memplane.plane.expanding import Expanded
    from memplane.plane.plane import Plane
    from memplane.plane.reading import Standing, Version
    from memplane.plane.searching import SearchHit, SearchHits
    from memplane.plane.writing import BulkReceipt, Receipt, Refusal, Spooled

__all__ = [
    "BulkReceipt",
    "Expanded",
    "Plane",
    "Receipt",
    "Refusal",
    "SearchHit",
    "SearchHits",
    "Spooled",
    "Standing",
    "Version",
]

__getattr__ = lazily(
    __name__,
    {
        "memplane.plane.expanding": ("Expanded",),
        "memplane.plane.plane": ("Plane",),
        "memplane.plane.reading": (
            "Standing",
            "Version",
        ),
        "memplane.plane.searching": ("SearchHit", "SearchHits"),
        "memplane.plane.writing": (
            "BulkReceipt",
            "Receipt",
            "Refusal",
            "Spooled",
        ),
    },
)
