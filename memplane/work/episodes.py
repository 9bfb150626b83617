"""The episodes of a session as one reader sees them, and a recall: values to JSON and back.

Which turns are of which episode says the fold of `projections.episodes`, under the rules of
plane.yaml. An episode of which the reader may see no turn is none for that reader; turns that were
forgotten are named in none (`plane.episodes`, which also closes the open one).

What a session is given of what was said are values: turns, episodes and the items of a recall.
Each goes to JSON and back: `to_dict` gives plain values, times in RFC 3339, and `from_dict` takes
them, whatever other keys are beside them. Times have a zone.

`plane.recall` gathers its candidates for one reader. Turns of the current episode and marked turns
come from the fold of the episodes, all others and facts from the one search of the log. What the
reader may not see, and what is out of force, is no candidate. Nothing is written.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from memplane.context.calls import check_count, check_text, checked_request
from memplane.context.context import OfPlane
from memplane.context.folds import seq_by
from memplane.errors import (
    BudgetError,
    EpisodeNotFoundError,
    InputError,
    NotFoundError,
    SessionNotFoundError,
)
from memplane.event import TYPED_KINDS, lifting
from memplane.harness import remembered
from memplane.intake.redact import quoted_value, unexpected
from memplane.lazy import NamedTuple
from memplane.observe import hashed, note
from memplane.policy.records import RECALL_PROFILES
from memplane.ports import ONE
from memplane.projections.sessions import (
    MARKED_MAX,
    TURNS,
    EpisodesProjector,
    closed_reason,
    every_episode,
    session_episodes,
)
from memplane.recall import profiles
from memplane.recall.profiles import RecallCandidate
from memplane.search.service import IndexReach, found_by_words, scope_of_request, vectors_upto

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from memplane.context.context import PlaneContext
    from memplane.context.event_access import EventAccess
    from memplane.context.folds import Folds
    from memplane.event import Event
    from memplane.pack.request import Request
    from memplane.policy import Policies
    from memplane.policy.records import EpisodeRules, RecallProfiles
    from memplane.ports import FoundEvent, TokenCounter
    from memplane.projections.sessions import EpisodeSpan, SessionEpisodes
    from memplane.recall.profiles import KeptCandidate, RecallChoice, RecallScore
    from memplane.recall.suppress import Scope
    from memplane.search.retriever import LogRetriever


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
        fact_count=sum(one.kind in _FACT_KINDS for one in events),
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


SCOPES: Final = ("session", "plane")
_FOUND_MAX: Final = 200  # turns and facts that the search may bring
_OMISSIONS_MAX: Final = 100
_TEXTS_KEPT: Final = 4_096
_CHARACTERS_KEPT: Final = 16_384  # a longer text is read each time
_FACT_KINDS: Final = tuple(kind for kind in TYPED_KINDS if kind != "summary")
_KINDS: Final = tuple(f"kind:{kind}" for kind in (*sorted(TURNS), *_FACT_KINDS))
_PERMILLE: Final = 1_000


class RecallSettings(NamedTuple):
    """What a recall goes by: the rules of episodes, the profiles, and who counts tokens."""

    rules: EpisodeRules
    profiles: RecallProfiles
    counter: TokenCounter


class RecallQuery(NamedTuple):
    """What is asked of a recall; see `Plane.recall`."""

    query: str
    session: str
    budget: int = 4_000
    profile: str = "acms-v2"
    min_relevance: float = 0.0
    include_current_episode: bool = True
    scope: str = "plane"
    channel: str = "private"
    agent: str | None = None
    now: Any = None


class RecallTexts:
    """Texts and token counts of events, by the policy and counter that they are of; of a plane."""

    def __init__(self, _: PlaneContext) -> None:
        self._kept: OrderedDict[tuple[object, ...], tuple[str, int]] = OrderedDict()

    def get(self, key: tuple[object, ...]) -> tuple[str, int] | None:
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def keep(self, key: tuple[object, ...], made: tuple[str, int]) -> tuple[str, int]:
        if len(made[0]) <= _CHARACTERS_KEPT:
            self._kept[key] = made
            if len(self._kept) > _TEXTS_KEPT:
                self._kept.popitem(last=False)
        return made

    def follow(self, seq: int, count: int) -> None:
        """An event is written once: what is kept of others stays."""

    def close(self) -> None:
        self._kept.clear()


def recall_plane(
    context: PlaneContext, asked: RecallQuery, settings: RecallSettings | None = None
) -> ContextAssembly:
    """Recall what a session is given; `settings` None: as the plane's policies say."""
    _check(asked)
    said: dict[str, Any] = {
        "channel": asked.channel,
        "agent": hashed(asked.agent),
        "session": hashed(asked.session),
    }
    with context.span("recall", said), context.lock, context.log.held():
        policies = context.watched.policies()
        folds = context.caught_up(policies)
        request = checked_request(
            asked.query,
            context.asked({"channel": asked.channel, "agent": asked.agent, "now": asked.now}),
            policies,
            head=folds.log.head().seq,
            clock=context.clock,
            seq_by=partial(seq_by, context.log),
            redactor=context.intake(policies).redactor,
        )
        used = settings or RecallSettings(
            policies.plane.episodes, policies.scoring.profiles, context.counter(policies)
        )
        found = _Recall(context, policies, folds, request, asked, used).answer()
        said |= {"tokens": found.total_tokens, "count": len(found.items)}
        if found.warnings:
            note("marked_overflow", {"count": len(found.warnings)})
        return found


def _check(asked: RecallQuery) -> None:
    """Raise InputError for what cannot be asked, naming the argument."""
    check_text(asked.session, "session")
    if isinstance(asked.budget, bool) or not isinstance(asked.budget, int):
        raise unexpected("tokens", asked.budget, "budget")
    if asked.budget <= 0:
        raise BudgetError(f"expected 1 token or more, found {asked.budget}", where="budget")
    if asked.profile not in RECALL_PROFILES:
        known = " or ".join(RECALL_PROFILES)
        raise unexpected(known, asked.profile, "profile")
    if asked.scope not in SCOPES:
        known = " or ".join(SCOPES)
        raise unexpected(known, asked.scope, "scope")
    least = asked.min_relevance
    if isinstance(least, bool) or not isinstance(least, int | float) or not 0 <= least < math.inf:
        raise unexpected("a number from 0", least, "min_relevance")
    if not isinstance(asked.include_current_episode, bool):
        raise unexpected("true or false", asked.include_current_episode, "include_current_episode")


class _Recall:
    """One recall. The plane's lock is held."""

    def __init__(
        self,
        context: PlaneContext,
        policies: Policies,
        folds: Folds,
        request: Request,
        asked: RecallQuery,
        used: RecallSettings,
    ) -> None:
        self._context, self._folds, self._asked, self._used = context, folds, asked, used
        self._request = request
        self._reader: EventAccess = context.reader_of(request)
        self._scope: Scope = scope_of_request(context, folds, request, policies)
        self._floor = policies.scoring.evidence_floor
        self._policies = policies
        self._texts = context.part(RecallTexts)
        # The text of an event depends on the policy and the reader, its count on the counter.
        self._stamp = (policies.hashes["privacy.yaml"], request.channel, request.agent)
        self._episodes: dict[str, SessionEpisodes | None] = {}
        self._begins: dict[str, list[int]] = {}  # of episodes, by session
        self._events: dict[int, Event] = {}
        self._content: dict[int, str] = {}

    def answer(self) -> ContextAssembly:
        asked, used = self._asked, self._used
        current = self._current()
        shown = current if asked.include_current_episode else []
        first = asked.profile == "acms-v2"
        never = current if first or not asked.include_current_episode else []
        retriever, found, degraded = self._found(never)
        relevance = self._relevance(found)
        self._retriever = retriever
        marked = self._marked(frozenset(current)) if first else []
        episode = self._turns(shown, "current_episode", relevance)
        apart = frozenset((*current, *marked))
        past = [
            *self._turns(marked, "marked", relevance),
            *self._searched([seq for seq in relevance if seq not in apart], relevance),
        ]
        least = math.ceil(asked.min_relevance * _PERMILLE)
        if first:
            choice = profiles.episode_first(
                used.profiles.episode_first,
                episode,
                past,
                budget=asked.budget,
                least=least,
                cost=self._cost,
            )
        else:
            choice = profiles.blended(
                used.profiles.blended,
                episode,
                past,
                budget=asked.budget,
                least=least,
                now=self._request.now,
                cost=self._cost,
            )
        return self._assembly(choice, degraded)

    # --- candidates ---

    def _current(self) -> list[int]:
        """The seqs of the current episode's turns, and of those that are carried over to it."""
        known = self._of_session(self._asked.session)
        if known is None:
            return []
        carry = self._used.profiles.episode_first.carry_last_turns
        if self._asked.profile != "acms-v2":
            carry = 0
        before = known.carried if known.open is not None else known.turns
        return [
            *before[len(before) - min(carry, len(before)) :],
            *(known.turns if known.open is not None else []),
        ]

    def _marked(self, current: frozenset[int]) -> list[int]:
        """The seqs of marked turns of past episodes, of all sessions in scope: the newest 500."""
        sessions = [self._asked.session]
        if self._asked.scope == "plane":
            state, _ = self._folds.episodes(self._used.rules)
            sessions = list(dict.fromkeys((*sessions, *state.sessions)))
        every = {
            seq
            for name in sessions
            if (known := self._of_session(name)) is not None
            for seq in known.marked
        }
        return sorted(every - current)[-MARKED_MAX:]

    def _found(self, never: list[int]) -> tuple[LogRetriever, list[FoundEvent], list[str]]:
        """What the search finds in scope, as a value of the policies; what it went without."""
        only: list[tuple[str, ...]] = [_KINDS]
        if self._asked.scope == "session":
            only.append((f"session:{self._asked.session}",))
        retriever, finding, degraded = found_by_words(
            self._context,
            self._policies,
            self._folds,
            self._request,
            self._scope,
            _FOUND_MAX + MARKED_MAX,
            only,
            IndexReach(),
            never=never,
        )
        return retriever, list(finding.found), degraded

    def _relevance(self, found: list[FoundEvent]) -> dict[int, int]:
        """How well events answer, 0 to 1000, the best first: without what their markers add."""
        own = {one.seq: one.score - one.markers for one in found}
        best = max(own.values(), default=0)
        floor = max(1, best * self._floor // _PERMILLE)
        ranked = sorted(own, key=lambda seq: (-own[seq], -seq))
        return {
            seq: min(_PERMILLE, own[seq] * _PERMILLE // ONE) for seq in ranked if own[seq] >= floor
        }

    def _turns(
        self, seqs: Iterable[int], source: str, relevance: dict[int, int]
    ) -> list[RecallCandidate]:
        """Turns by their seqs, as far as the reader may see them."""
        found = []
        for seq in seqs:
            try:
                item = self._retriever.item(seq)
            except NotFoundError:
                continue
            event = self._event(seq)
            if event is None or not event.text or self._scope.hides(item) is not None:
                continue
            found.append(self._candidate(event, source, relevance.get(seq, 0)))
        return found

    def _searched(self, seqs: list[int], relevance: dict[int, int]) -> list[RecallCandidate]:
        """Turns and facts that the search found: the first 200."""
        found = []
        for seq in seqs[:_FOUND_MAX]:
            event = self._event(seq)
            if event is not None and event.text:
                source = "search" if event.kind in TURNS else "fact"
                found.append(self._candidate(event, source, relevance[seq]))
        return found

    def _candidate(self, event: Event, source: str, relevance: int) -> RecallCandidate:
        return RecallCandidate(
            event.seq,
            event.id,
            source,
            relevance,
            event.ts,
            lifting(event.markers),
            self._episode(event),
        )

    def _event(self, seq: int) -> Event | None:
        if seq not in self._events:
            line = self._retriever.line(seq)
            if line is None:
                return None
            self._events[seq] = remembered(line.event)
        return self._events[seq]

    def _of_session(self, name: str) -> SessionEpisodes | None:
        if name not in self._episodes:
            self._episodes[name] = episodes_of(self._folds, name, self._used.rules)
        return self._episodes[name]

    def _episode(self, event: Event) -> str | None:
        """The id of the episode that a turn is of, or in whose time a fact was stated."""
        known = None if event.session is None else self._of_session(event.session)
        if event.session is None or known is None:
            return None
        begins = self._begins.get(event.session)
        if begins is None:
            begins = self._begins[event.session] = [span.first_seq for span in known.spans]
        at = bisect_right(begins, event.seq) - 1
        return episode_name(event.session, known.spans[at]) if at >= 0 else None

    # --- texts and the answer ---

    def _cost(self, candidate: RecallCandidate) -> int:
        """The tokens of a candidate's text, as the reader is shown it."""
        key = (candidate.seq, candidate.id, self._used.counter, *self._stamp)
        made = self._texts.get(key)
        if made is None:
            event = self._events[candidate.seq]
            text = self._retriever.text(candidate.seq) if "body" in event.data else event.text
            text = self._reader.emit(event._replace(text=text)).text
            made = self._texts.keep(key, (text, self._used.counter.count(text)))
        self._content[candidate.seq] = made[0]
        return made[1]

    def _assembly(self, choice: RecallChoice, degraded: list[str]) -> ContextAssembly:
        return ContextAssembly(
            query=self._request.query,
            items=tuple(map(self._item, choice.kept)),
            total_tokens=choice.tokens,
            token_budget=self._asked.budget,
            omissions=tuple(
                RecallOmission(
                    id=one.scored.candidate.id,
                    source=one.scored.candidate.source,
                    reason=one.reason,
                    score=_unit(one.scored.score),
                )
                for one in choice.passed[:_OMISSIONS_MAX]
            ),
            warnings=choice.warnings,
            as_of_seq=self._request.as_of,
            degraded=tuple(degraded),
        )

    def _item(self, kept: KeptCandidate) -> ContextItem:
        candidate = kept.scored.candidate
        event = self._events[candidate.seq]
        metadata = None
        if event.data and "metadata" in event.data:  # masked as the text is
            metadata = self._reader.emit(event._replace(text="")).data.get("metadata")
        parts = _parts(kept.scored)
        return ContextItem(
            id=candidate.id,
            source=candidate.source,
            role=event.role or ("tool" if event.kind.startswith("tool") else "system"),
            content=self._content[candidate.seq],
            tokens=kept.tokens,
            score=sum(parts.values()),
            relevance=_unit(candidate.relevance),
            marker_boost=parts.get("markers", _unit(0)),
            markers=event.markers,
            episode_id=candidate.episode,
            created_at=time_of(event.ts),
            metadata=metadata if isinstance(metadata, dict) else {},
            parts=parts,
        )


def _parts(scored: RecallScore) -> dict[str, float]:
    return {name: _unit(value) for name, value in scored.parts.items()}


def _unit(permille: int) -> float:
    """Thousandths as a part of one."""
    return permille / _PERMILLE
