"""Sum up, fold and index what hooks have recorded, so that the next answer finds it.

Clients run it when the agent has stopped, in the background where they can. If another process is
doing it already, this one leaves it to that process; the hook's timer ends it like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memplane.importers.client_records import HOOK_TAG

if TYPE_CHECKING:
    from memplane.plane import Plane

__all__ = ["catch_up_plane"]


def catch_up_plane(plane: Plane) -> None:
    """Sum up the sessions that are over; bring projections and index up to the log, keep them."""
    plane.index()  # first: who runs this may end it after a second
    plane.sessions.sum_up(HOOK_TAG)
    plane.pack("", budget=1_000)
    plane.index()
    plane.flush()
