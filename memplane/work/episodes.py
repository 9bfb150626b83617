"""`plane.episodes`: the episodes of a session as one reader sees them, and closing the open one.

Which turns are of which episode says the fold of `projections.episodes`, under the rules of
plane.yaml. An episode of which the reader may see no turn is none for that reader; turns that were
forgotten are named in none.

What a session is given of what was said are values: turns, episodes and the items of a recall.
Each goes to JSON and back: `to_dict` gives plain values, times in RFC 3339, and `from_dict` takes
them, whatever other keys are beside them. Times have a zone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from memplane.context.calls import check_count, check_text
from memplane.context.context import OfPlane
from memplane.errors import EpisodeNotFoundError, InputError, SessionNotFoundError
from memplane.event import TYPED_KINDS
from memplane.intake.redact import quoted_value, unexpected
from memplane.lazy import NamedTuple
from memplane.observe import hashed, note
from memplane.projections.episodes import (
    TURNS,
    EpisodesProjector,
    closed_reason,
    every_episode,
    session_episodes,
)
from memplane.search.service import vectors_upto

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from memplane.context.context import PlaneContext
    from memplane.context.event_access import EventAccess
    from memplane.context.folds import Folds
    from memplane.event import Event
    from memplane.policy.scoring import EpisodeRules
    from memplane.projections.episodes import EpisodeSpan, SessionEpisodes


class Role(StrEnum):
    """Who said a turn."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class EpisodeStatus(StrEnum):
    """Whether an episode has ended; one that has never opens again."""

    OPEN = "open"
    CLOSED = "closed"


class _Value:
    """A frozen dataclass that goes to JSON and back."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values of JSON, in their order."""
        return {one.name: _plain(getattr(self, one.name)) for one in _fields_of(self)}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Build the value from what `to_dict` gave; keys that it does not know are ignored.

        Raises InputError for a missing field, a time without a zone, and what is no mapping.
        """
        if not isinstance(given, Mapping):
            raise InputError(f"expected a mapping of fields, found {type(given).__name__}")
        known: dict[str, Any] = {}
        for one in _fields_of(cls):
            if one.name in given:
                read = _READERS.get(one.name)
                value = given[one.name]
                known[one.name] = value if read is None or value is None else read(value, one.name)
            elif one.default is MISSING and one.default_factory is MISSING:
                raise InputError("missing", where=one.name)
        return cls(**known)


def _fields_of(value: Any) -> tuple[Any, ...]:
    return fields(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(_Value):
    """One thing said: by a user, a model or a tool. `seq` is its place in the log."""

    id: str
    session_id: str
    episode_id: str
    role: Role
    content: str
    actor_id: str | None = None
    markers: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: datetime
    token_count: int
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode(_Value):
    """Turns of a session that belong together. `ended_at` is the time of the last, once closed."""

    id: str
    session_id: str
    status: EpisodeStatus
    turn_ids: tuple[str, ...]
    started_at: datetime
    ended_at: datetime | None = None
    close_reason: str | None = None
    token_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact(_Value):
    """What was made of turns, or stated outright, and holds."""

    id: str
    session_id: str
    episode_id: str
    content: str
    source_turn_ids: tuple[str, ...]
    confidence: float = 1.0
    created_at: datetime
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextItem(_Value):
    """One item of a recall. `source`: current_episode, marked, search or fact.

    `tokens` is what it takes of the budget: its content, and 4 for what stands around it. `score`
    is the sum of `parts`; `relevance` (0 to 1) and `marker_boost` are two of them, whatever their
    weight. What stands first unscored, the current episode's turns, has a score of 0.
    """

    id: str
    source: str
    role: str
    content: str
    tokens: int
    score: float
    relevance: float
    marker_boost: float
    markers: tuple[str, ...]
    episode_id: str | None
    created_at: datetime
    metadata: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallOmission(_Value):
    """A candidate that is not in a recall. `reason`: budget, episode_share, relevance."""

    id: str
    source: str
    reason: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextAssembly(_Value):
    """What a recall gives: items in the order in which they are shown, never above the budget.

    `warnings` says in words what was left out that should not be; `as_of_seq` is the last event
    that it could have been made of, `degraded` names what it was made without.
    """

    query: str
    items: tuple[ContextItem, ...]
    total_tokens: int
    token_budget: int
    omissions: tuple[RecallOmission, ...] = ()
    warnings: tuple[str, ...] = ()
    as_of_seq: int = 0
    degraded: tuple[str, ...] = ()

    @property
    def budget_remaining(self) -> int:
        """Tokens of the budget that are left."""
        return self.token_budget - self.total_tokens

    def __str__(self) -> str:
        """The items as text, each with who said it."""
        return "\n".join(f"{item.role}: {item.content}" for item in self.items)

    def _repr_markdown_(self) -> str:
        """How notebooks show it."""
        return "\n".join(f"- *{item.role}*: {item.content}" for item in self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStats(_Value):
    """Figures of a session, counted from its events."""

    session_id: str
    turn_count: int
    turns_by_role: dict[str, int]
    episode_count: int
    open_episode_id: str | None
    fact_count: int
    marker_counts: dict[str, int]
    token_count: int
    embedded_count: int
    first_turn_at: datetime | None
    last_turn_at: datetime | None


def time_of(value: str | datetime, where: str = "") -> datetime:
    """A time with its zone; raises InputError for one without, and for what is none."""
    try:
        found = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (ValueError, TypeError):
        raise InputError(f"expected a time, found {type(value).__name__}", where=where) from None
    if found.tzinfo is None:
        raise InputError("expected a time with its zone, found one without", where=where)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, _Value):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, StrEnum) else value


def _texts(value: Any, where: str) -> tuple[str, ...]:
    if isinstance(value, str) or not all(isinstance(one, str) for one in value):
        raise InputError(f"expected a list of texts, found {type(value).__name__}", where=where)
    return tuple(value)


def _one_of(words: type[StrEnum]) -> Callable[[Any, str], StrEnum]:
    def read(value: Any, where: str) -> StrEnum:
        try:
            return words(value)
        except ValueError:
            known = ", ".join(words)
            raise InputError(f"expected one of {known}", where=where) from None

    return read


# How a field is read, by its name: one name has one meaning in all of these.
_READERS: Final[dict[str, Callable[[Any, str], Any]]] = {
    **dict.fromkeys(
        ("created_at", "started_at", "ended_at", "first_turn_at", "last_turn_at"), time_of
    ),
    **dict.fromkeys(("markers", "turn_ids", "source_turn_ids", "warnings", "degraded"), _texts),
    "items": lambda value, _: tuple(ContextItem.from_dict(one) for one in value),
    "omissions": lambda value, _: tuple(RecallOmission.from_dict(one) for one in value),
    "status": _one_of(EpisodeStatus),
}


def _role(value: Any, where: str) -> str:
    """A role: one of the seed's three where it is one, else as it is (system)."""
    if not isinstance(value, str):
        raise InputError(f"expected a role, found {type(value).__name__}", where=where)
    return Role(value) if value in tuple(Role) else value


_READERS["role"] = _role


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
            note("episode_closed", {"session": hashed(session)})
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
        reader = context.reader("private", agent=context.agent_of(agent), policies=policies)
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


def turn_of(event: Event, episode: str) -> Turn:
    """The turn that an event is, in the episode with that id; `content` is what its line holds."""
    metadata = event.data.get("metadata")
    return Turn(
        id=event.id,
        session_id=event.session or "",
        episode_id=episode,
        role=Role(event.role) if event.role in list(Role) else Role.USER,
        content=event.text,
        actor_id=event.actor,
        markers=event.markers,
        metadata=metadata if isinstance(metadata, dict) else {},
        created_at=time_of(event.ts),
        token_count=event.tokens or 0,
        seq=event.seq,
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
