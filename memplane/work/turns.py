"""What a session is given of what was said: turns, episodes and the items of a recall, as values.

Each goes to JSON and back: `to_dict` gives plain values, times in RFC 3339, and `from_dict` takes
them, whatever other keys are beside them. Times have a zone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self

from memplane.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable


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
