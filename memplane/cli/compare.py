"""Tells whether the projections on disk are what the log folds to."""

from __future__ import annotations

import orjson

from memplane.home import Home
from memplane.plane.engine import Engine
from memplane.policy import Policies
from memplane.projections.cache import CACHE_NAME
from memplane.wiring import clock, make_counter

__all__ = ["differing"]


def differing(home: Home, policies: Policies) -> list[str]:
    """The files below `projections/` whose state, caught up, is not that of a fold from the start.

    Writes nothing. A file that memplane would not believe anyway (torn, stale, of another
    version) is no difference: it is folded again when it is needed.
    """
    engine = Engine(
        home._replace(read_only=True),
        clock=clock,
        make_counter=make_counter,
        durability="sync",
        loads=orjson.loads,
        log=None,
        as_of=None,
    )
    try:
        kept = engine.caught_up(policies)
        position = kept.hotset.position
        made = engine.prefix(0 if position is None else position.seq, policies)
        pairs = {
            "hotset.json": (
                kept.hotset.projector.dump(kept.hotset.state),
                made.hotset.projector.dump(made.hotset.state),
            ),
            "decisions.json": (
                kept.decisions.projector.dump(kept.decisions.state),
                made.decisions.projector.dump(made.decisions.state),
            ),
            "cards.json": (
                kept.cards.projector.dump(kept.cards.state),
                made.cards.projector.dump(made.cards.state),
            ),
            CACHE_NAME: (kept.memories.dump(), made.memories.dump()),
        }
    finally:
        engine.close()
    return [name for name, (ours, fresh) in pairs.items() if ours != fresh]
