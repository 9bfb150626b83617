"""The last sessions, for a pack whose reader has to find his way: what each of them came to."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from memplane.pack.request import LastSession
from memplane.plane.folds import items_of_event
from memplane.projections.hotset import HotsetState
from memplane.projections.item import Item

if TYPE_CHECKING:
    from memplane.pack.request import Request
    from memplane.plane.engine import Engine
    from memplane.plane.folds import Folds
    from memplane.policy import Policies
    from memplane.projections.sessions import SessionFacts

__all__ = ["last_sessions"]

_SESSIONS_MAX: Final = 8
# What says most about where a session stands, in the order in which it is shown first.
_WORDS: Final = ("summary", "plan", "user", "assistant")


def last_sessions(
    engine: Engine, folds: Folds, request: Request, policies: Policies
) -> tuple[LastSession, ...]:
    """The newest sessions but the asking one, the newest first; the pack decides who may see what.

    Those in which nothing was said are passed over: agents open and close many. Of each its
    summary; where there is none, or something happened since, the last summary and plan that were
    recorded in it, its last prompt and the last answer, as far as the hotset has them.
    """
    facts = engine.sessions(folds).sessions.values()
    newest = sorted(facts, key=lambda one: -one.last_seq)
    chosen = (one for one in newest if one.id != request.session and not one.forgotten)
    told = (
        LastSession(one.id, tuple(items))
        for one in chosen
        if (items := _items(engine, folds, request, policies, one))
    )
    return tuple(islice(told, _SESSIONS_MAX))


def _items(
    engine: Engine, folds: Folds, request: Request, policies: Policies, facts: SessionFacts
) -> list[Item]:
    summary = _summary(engine, folds, request, policies, facts.summary)
    if summary is not None and facts.ended:
        return [summary]
    words = _last_words(folds.hotset.state, facts.id, facts.summary)
    return words if summary is None else [summary, *words]


def _summary(
    engine: Engine, folds: Folds, request: Request, policies: Policies, seq: int
) -> Item | None:
    line = engine.log.line(seq) if seq else None
    if line is None:
        return None
    archived = folds.memories.archived(line.event, upto=request.as_of)
    return None if archived else items_of_event(line.event, engine.counter(policies))


def _last_words(hotset: HotsetState, session: str, after: int) -> list[Item]:
    """The last of each sort of words that the session has behind a seq."""
    ring = hotset.sessions.get(session)
    found: dict[str, Item] = {}
    for turn in reversed(ring.ring if ring is not None else ()):
        item = hotset.items[turn.seq]
        if turn.seq > after:
            found.setdefault((item.role or "") if item.kind == "message" else item.kind, item)
    return [found[word] for word in _WORDS if word in found]
