"""`plane.episodes`: the episodes of a session as one reader sees them, and closing the open one.

Which turns are of which episode says the fold of `projections.episodes`, under the rules of
plane.yaml. An episode of which the reader may see no turn is none for that reader; turns that were
forgotten are named in none.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, TypeAlias

from memplane.context.calls import check_count, check_text
from memplane.context.context import OfPlane
from memplane.errors import EpisodeNotFoundError, InputError, SessionNotFoundError
from memplane.event import TYPED_KINDS
from memplane.intake.redact import quoted_value, unexpected
from memplane.lazy import NamedTuple
from memplane.projections.episodes import (
    TURNS,
    EpisodesProjector,
    closed_reason,
    every_episode,
    session_episodes,
)
from memplane.search.service import vectors_upto
from memplane.work.turns import Episode, EpisodeStatus, SessionStats, time_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memplane.context.context import PlaneContext
    from memplane.context.event_access import EventAccess
    from memplane.context.folds import Folds
    from memplane.event import Event
    from memplane.policy.recall import EpisodeRules
    from memplane.projections.episodes import EpisodeSpan, SessionEpisodes

_LIMIT_MAX: Final = 10_000
_FACTS: Final = frozenset(TYPED_KINDS) - {"summary"}
_Episodes: TypeAlias = list[Episode]  # `list` is a method of the class below
_Spans: TypeAlias = list["EpisodeSpan"]


class PlaneEpisodes(OfPlane):
    """The episodes of an open plane. `rules` None: those of plane.yaml."""

    def __init__(self, context: PlaneContext, rules: EpisodeRules | None = None) -> None:
        self._context, self._rules = context, rules

    def list(
        self,
        session: str,
        *,
        limit: int = 100,
        status: str | None = None,
        channel: str = "private",
        agent: str | None = None,
    ) -> _Episodes:
        """The newest episodes of a session, oldest first; none of a session without turns.

        `status`: only those that are open, or closed. Raises InputError.
        """
        check_text(session, "session")
        if check_count(limit, "limit", 1) > _LIMIT_MAX:
            raise InputError(f"expected at most {_LIMIT_MAX}, found {limit}", where="limit")
        wanted = None if status is None else _status(status)
        with self._context.lock:
            folds, found = self._found(session)
            if found is None:
                return []
            spans = found.spans
            if found.before and limit > len(spans):
                whole = every_episode(folds.log, session, self._projector(folds))
                spans = spans if whole is None else whole.spans
            if wanted is not None:
                spans = [one for one in spans if _is(one) == wanted]
            return self._shown(session, spans[-limit:], folds, channel, agent)

    def get(self, id: str, *, channel: str = "private", agent: str | None = None) -> Episode:  # noqa: A002
        """One episode by its id (`session/seq`); raises EpisodeNotFoundError."""
        session, _, first = check_text(id, "id").rpartition("/")
        with self._context.lock:
            folds, found = self._found(session)
            spans = [] if found is None else found.spans
            if found is not None and found.before and spans[0].first_seq > _number(first):
                whole = every_episode(folds.log, session, self._projector(folds))
                spans = spans if whole is None else whole.spans
            named = [one for one in spans if str(one.first_seq) == first]
            shown = self._shown(session, named, folds, channel, agent)
        if not shown:
            raise EpisodeNotFoundError(f"no episode {quoted_value(id)}")
        return shown[0]

    def close(self, session: str, reason: str = "manual") -> str:
        """Close the open episode of a session; return its id. The next turn opens another one.

        Raises EpisodeNotFoundError where none is open, SessionNotFoundError where the session has
        no turn, and what a record does.
        """
        check_text(session, "session")
        if not check_text(reason, "reason") or reason != closed_reason(reason):
            raise InputError("expected 1 to 40 characters", where="reason")
        context = self._context
        with context.lock:
            context.take_in_waiting()
            _, found = self._found(session)
            if found is None:
                raise SessionNotFoundError(f"no session {quoted_value(session)}")
            if found.open is None:
                raise EpisodeNotFoundError(f"no episode of {quoted_value(session)} is open")
            name = episode_name(session, found.open)
            row = {
                "kind": "episode",
                "session": session,
                "data": {"status": "closed", "reason": reason, "episode": name},
            }
            context.write(dict(context.placed(row)))
        return name

    def _found(self, session: str) -> tuple[Folds, SessionEpisodes | None]:
        context = self._context
        policies = context.watched.policies_or_last()
        folds = context.caught_up(policies)
        return folds, episodes_of(folds, session, self._rules or policies.plane.episodes)

    def _projector(self, folds: Folds) -> EpisodesProjector:
        rules = self._rules or self._context.watched.policies_or_last().plane.episodes
        return folds.episodes(rules)[1]

    def _shown(
        self, session: str, spans: _Spans, folds: Folds, channel: str, agent: str | None
    ) -> _Episodes:
        """The episodes of which the reader may see a turn."""
        reader = self._context.reader(channel, agent=self._context.agent_of(agent))
        turns = _turns(folds, session, spans, reader)
        return [_episode(session, span, seen) for span in spans if (seen := turns[span.first_seq])]


def session_stats(
    context: PlaneContext, session: str, rules: EpisodeRules, agent: str | None = None
) -> SessionStats:
    """Figures of a session, counted from its events in force that the reader may see."""
    with context.lock:
        policies = context.watched.policies_or_last()
        folds = context.caught_up(policies)
        reader = context.reader("private", agent=context.agent_of(agent))
        known = episodes_of(folds, session, rules)
        first = known.first_seq if known is not None else 1
        events = [
            event
            for line in folds.log.read(first - 1)
            if (event := line.event).session == session
            and reader.shows(event)
            and folds.memories.archived(event) is None
        ]
        embedded = vectors_upto(context, policies)
    turns = [event for event in events if event.kind in TURNS]
    opened = None if known is None else known.open
    return SessionStats(
        session_id=session,
        turn_count=len(turns),
        turns_by_role=dict(sorted(Counter(one.role or "system" for one in turns).items())),
        episode_count=0 if known is None else known.before + len(known.spans),
        open_episode_id=None if opened is None else episode_name(session, opened),
        fact_count=sum(one.kind in _FACTS for one in events),
        marker_counts=dict(sorted(Counter(name for one in turns for name in one.markers).items())),
        token_count=sum(one.tokens or 0 for one in turns),
        embedded_count=sum(one.seq <= embedded for one in turns),
        first_turn_at=time_of(turns[0].ts) if turns else None,
        last_turn_at=time_of(turns[-1].ts) if turns else None,
    )


class _SeenTurn(NamedTuple):
    """A turn that the reader may see."""

    id: str
    ts: str
    tokens: int


def episodes_of(folds: Folds, session: str, rules: EpisodeRules) -> SessionEpisodes | None:
    """The episodes of a session under these rules, caught up. Hold the plane's lock."""
    state, projector = folds.episodes(rules)
    return session_episodes(folds.log, state, session, projector)


def episode_name(session: str, span: EpisodeSpan) -> str:
    """The id of an episode."""
    return f"{session}/{span.first_seq}"


def _turns(
    folds: Folds, session: str, spans: list[EpisodeSpan], reader: EventAccess
) -> dict[int, list[_SeenTurn]]:
    """The turns that a reader may see, by the first seq of their episode."""
    found: dict[int, list[_SeenTurn]] = {span.first_seq: [] for span in spans}
    rest = iter(spans)
    span = next(rest, None)
    if span is None:
        return found
    events = (line.event for line in folds.log.read(span.first_seq - 1, spans[-1].last_seq))
    for event in _of_session(events, session):
        while span is not None and event.seq > span.last_seq:
            span = next(rest, None)
        if span is None:
            break
        if reader.shows(event) and folds.memories.archived(event) is None:
            found[span.first_seq].append(_SeenTurn(event.id, event.ts, event.tokens or 0))
    return found


def _of_session(events: Iterable[Event], session: str) -> Iterable[Event]:
    return (one for one in events if one.session == session and one.kind in TURNS)


def _episode(session: str, span: EpisodeSpan, turns: list[_SeenTurn]) -> Episode:
    return Episode(
        id=episode_name(session, span),
        session_id=session,
        status=_is(span),
        turn_ids=tuple(one.id for one in turns),
        started_at=time_of(turns[0].ts),
        ended_at=time_of(turns[-1].ts) if span.reason else None,
        close_reason=span.reason or None,
        token_count=sum(one.tokens for one in turns),
    )


def _is(span: EpisodeSpan) -> EpisodeStatus:
    return EpisodeStatus.CLOSED if span.reason else EpisodeStatus.OPEN


def _status(given: str) -> EpisodeStatus:
    try:
        return EpisodeStatus(given)
    except ValueError:
        raise unexpected("open or closed", given, "status") from None


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0
