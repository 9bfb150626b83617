"""When a memory is said to be stale: at the request's clock, or as of a session's own moments.

A word that came with the clock would break the prefix that the next pack of a session repeats
(R9). So before the tail it is said as of the session's epoch, which moves with a listed cause alone
(start, checkpoint), and in the evidence of a prompt as of that prompt. In the tail, and everywhere
in a block that belongs to no session, it is said at the request's clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from memplane.recall.decay import fades, is_stale

if TYPE_CHECKING:
    from memplane.pack.ground import Ground
    from memplane.projections.item import Item

__all__ = ["staleness"]


def staleness(ground: Ground) -> Callable[[Item, str], bool]:
    """Whether an event is stale, as the entries of an area may say it; asked once of each."""
    request, materials, prompt = ground.request, ground.materials, ground.prompt
    scoring, touched, moment = materials.policies.scoring, materials.touched, materials.moment
    half_lives = scoring.half_lives
    times: dict[int, str] = {}
    known: dict[tuple[int, int | None], bool] = {}

    def seq_of(area: str) -> int | None:
        """As of which event the area speaks; None: at the request's clock."""
        if request.session is None or area == "G":
            return None
        return prompt.seq if area == "E" and prompt is not None else ground.epoch

    def at(seq: int) -> str:
        if seq not in times:
            times[seq] = moment(seq) if moment is not None else ""
        return times[seq]

    def by(item: Item, now: str, last: str | None, *, pinned: bool) -> bool:
        return is_stale(
            item, last, pinned=pinned, now=now, half_lives=half_lives,
            after_days=scoring.stale_after_days,
        )  # fmt: skip

    def stale(item: Item, area: str) -> bool:
        if not fades(item, half_lives, pinned=False):
            return False
        seq = seq_of(area)
        found = known.get((item.seq, seq))
        if found is None:
            now, upto = (request.now, request.as_of) if seq is None else (at(seq), seq)
            found = by(item, now, None, pinned=False)
            if found and touched is not None:
                last, pinned = touched(item, upto)
                found = by(item, now, last, pinned=pinned)
            known[item.seq, seq] = found
        return found

    return stale
