"""The facade: `Plane`, which a program opens, records into, packs from and keeps in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memplane.lazy import lazily

if TYPE_CHECKING:
    from memplane.context.batches import BulkReceipt, Refusal, Spooled
    from memplane.context.calls import Receipt
    from memplane.context.event_access import KeyVersion, Standing
    from memplane.plane.plane import Plane
    from memplane.search.service import SearchHit, SearchHits
    from memplane.work.handles import Expanded

__all__ = [
    "BulkReceipt",
    "Expanded",
    "KeyVersion",
    "Plane",
    "Receipt",
    "Refusal",
    "SearchHit",
    "SearchHits",
    "Spooled",
    "Standing",
]

__getattr__ = lazily(
    __name__,
    {
        "memplane.work.handles": ("Expanded",),
        "memplane.plane.plane": ("Plane",),
        "memplane.context.event_access": (
            "Standing",
            "KeyVersion",
        ),
        "memplane.search.service": ("SearchHit", "SearchHits"),
        "memplane.context.batches": ("BulkReceipt", "Refusal", "Spooled"),
        "memplane.context.calls": ("Receipt",),
    },
)
