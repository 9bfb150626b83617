"""The last sessions, for a pack whose reader has to find his way: what each of them came to."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from memplane.pack.request import LastSession
from memplane.plane.folds import items_of_event
from memplane.recall.suppress import WITHHELD

if TYPE_CHECKING:
    from memplane.pack.request import Request
    from memplane.plane.engine import Engine
    from memplane.plane.folds import Folds, Seen
    from memplane.policy import Policies
    from memplane.projections.hotset import HotsetState
    from memplane.projections.item import Item
    from memplane.recall.suppress import Scope

__all__ = ["last_sessions"]

_SESSIONS_MAX: Final = 8
# What says most about where a session stands, in the order in which it is shown first.
_WORDS: Final = ("summary", "plan", "user", "assistant")


def last_sessions(
    engine: Engine, folds: Folds, request: Request, policies: Policies, seen: Seen
) -> tuple[LastSession, ...]:
    """The newest sessions but the asking one, the newest first, as far as whoever asks sees them.

    Those in which nothing was said are passed over: agents open and close many. Of each its
    summary; where there is none, or something happened since, the last summary and plan that were
    recorded in it, its last prompt and the last answer, as far as the hotset has them. Behind the
    sessions of the hotset come those of which only the summary is left there, by that. Nothing
    else decides who is shown: what happens out of the reader's sight moves no session.
    """
    scope, hotset = engine.scope(request, policies), seen.hotset
    last = _newest(hotset)
    newest = sorted(last, key=lambda id_: -last[id_])
    newest += [id_ for id_ in reversed(hotset.summed) if id_ not in last]
    told = (
        LastSession(id_, tuple(items))
        for id_ in newest
        if id_ != request.session
        and (items := _items(engine, folds, request, policies, seen, scope, id_))
    )
    return tuple(islice(told, _SESSIONS_MAX))


def _newest(hotset: HotsetState) -> dict[str, int]:
    """The newest event of each session that the hotset has."""
    items = hotset.items
    newest = {items[seq].session: seq for seq in hotset.plane}  # in log order: the last one stays
    return {id_: max(ring.seen, newest.get(id_, 0)) for id_, ring in hotset.sessions.items()}


def _items(
    engine: Engine, folds: Folds, request: Request, policies: Policies, seen: Seen, scope: Scope,
    session: str,
) -> list[Item]:  # fmt: skip
    """What is shown of a session; nothing of one that was forgotten."""
    summed = seen.hotset.summed.get(session, 0)
    summary = _summary(engine, folds, request, policies, summed)
    if summary is not None and scope.hides(summary) in WITHHELD:
        summary = None  # it quotes what the reader may not see: his words are there all the same
    words = _last_words(seen.hotset, session, 0 if summary is None else summed)
    if all(item.forgotten for item in words):
        words = []
    found = words if summary is None else [summary, *words]
    return [item for item in found if scope.hides(item) not in WITHHELD]


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
    ring, items = hotset.sessions.get(session), hotset.items
    found: dict[str, Item] = {}
    for turn in reversed(ring.ring if ring is not None else ()):
        seq = turn[0]
        if seq <= after:
            break
        item = items[seq]
        kind = item.kind
        if kind == "message":
            word = item.role or ""
        elif kind in _WORDS:
            word = kind
        else:
            continue  # most of them: tools
        if word not in found:
            found[word] = item
    return [found[word] for word in _WORDS if word in found]
