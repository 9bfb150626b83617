"""The summary of a session by a model: sentences that turns say, each with refs to them.

The model is asked once, by the interface of reflectors, about the session's turns as one episode:
the newest within `TOKENS_MAX`, as the channel `agent` may see them. What comes back is believed as
a reflector's facts are: a sentence that names no turn of the session is dropped. Whatever fails
raises ProviderError; the caller then has the extract. Its text is quoted data to the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Final, Protocol, cast

from memplane.errors import ConfigurationError, MemplaneError, ProviderError
from memplane.intake.redact import masked
from memplane.lazy import NamedTuple
from memplane.observe import note
from memplane.work.episodes import Episode, EpisodeStatus, Fact, Role, Turn, time_of

if TYPE_CHECKING:
    from memplane.event import Event
    from memplane.ports import TokenCounter

TOKENS_MAX: Final = 4_000  # of the turns that a model is given
_SENTENCE_CHARACTERS: Final = 2_000
_SENTENCES: Final = 20
_HIDDEN: Final = frozenset(("high", "secret"))


class SessionReflector(Protocol):
    """What reads turns and gives back sentences that they say: a reflector that blocks.

    Of an asynchronous one `memplane.providers.blocking` makes one.
    """

    def reflect(self, episode: Episode, turns: Sequence[Turn]) -> Sequence[Fact]: ...


class SummarySentence(NamedTuple):
    """One sentence, and the ids of the turns that say it."""

    text: str
    sources: tuple[str, ...]


class ModelSummary(NamedTuple):
    """What a model made of a session: `by` its name, `prompt` the SHA-256 of what it was asked."""

    sentences: tuple[SummarySentence, ...]
    by: str
    prompt: str

    def held(self, sources: Sequence[Event], counter: TokenCounter, tokens_max: int) -> str:
        """The sentences all of whose turns are among `sources`, as many as fit, a line each."""
        lines = [one.text for one in self.kept(sources)]
        while lines and counter.count("\n".join(lines)) > tokens_max:
            lines.pop()
        return "\n".join(lines)

    def kept(self, sources: Sequence[Event]) -> list[SummarySentence]:
        """The sentences all of whose turns are among `sources`."""
        known = {event.id for event in sources}
        return [one for one in self.sentences if known.issuperset(one.sources)]


def check_session_reflector(given: object) -> SessionReflector:
    """Return the reflector; raise ConfigurationError for what is none, or does not block."""
    reflect = getattr(given, "reflect", None)
    if not callable(reflect) or iscoroutinefunction(reflect):
        raise ConfigurationError(
            "reflector: expected one with `reflect(episode, turns)` that blocks "
            f"(memplane.providers.blocking makes one), found {type(given).__name__}"
        )
    return cast("SessionReflector", given)


def reflector_name(reflector: object) -> str:
    """What a reflector calls itself, else its class."""
    named = getattr(reflector, "name", None)
    return named if isinstance(named, str) and named else type(reflector).__name__


def ask_summary(
    reflector: SessionReflector,
    session: str,
    events: Sequence[Event],
    redact: Callable[[str], str],
) -> ModelSummary | None:
    """Ask the model about a session's `readable_turns`; None where it says nothing.

    Raises ProviderError, of which the observer is told. The plane's lock need not be held, and
    should not be.
    """
    by = reflector_name(reflector)
    turns = [_turn(event, session, redact) for event in events]
    episode = Episode(
        id=session,
        session_id=session,
        status=EpisodeStatus.CLOSED,
        turn_ids=tuple(turn.id for turn in turns),
        started_at=turns[0].created_at,
        ended_at=turns[-1].created_at,
        token_count=sum(turn.token_count for turn in turns),
    )
    try:
        facts = _answer(reflector, episode, turns, by)
    except ProviderError:
        note("degraded", {"part": "summary"})
        raise
    known = frozenset(episode.turn_ids)
    said: dict[str, SummarySentence] = {}
    for fact in facts:
        text, ids = " ".join(fact.content.split()), tuple(dict.fromkeys(fact.source_turn_ids))
        if text and len(text) <= _SENTENCE_CHARACTERS and ids and known.issuperset(ids):
            said.setdefault(text, SummarySentence(text, ids))
    prompts = (fact.metadata.get("prompt") for fact in facts)
    prompt = next((one for one in prompts if isinstance(one, str)), "")
    if not said:
        return None
    return ModelSummary(tuple(said.values())[:_SENTENCES], by, prompt[:64])


def readable_turns(sources: Sequence[Event], counter: TokenCounter) -> list[Event]:
    """The newest messages of users and assistants within the tokens, in order."""
    found: list[Event] = []
    room = TOKENS_MAX
    for event in reversed(sources):
        spoken = event.kind == "message" and event.role in ("user", "assistant")
        if not spoken or event.sensitivity in _HIDDEN:
            continue
        room -= counter.count(event.text) if event.tokens is None else event.tokens
        if room < 0 and found:
            break
        found.append(event)
    found.reverse()
    return found


def _turn(event: Event, session: str, redact: Callable[[str], str]) -> Turn:
    return Turn(
        id=event.id,
        session_id=session,
        episode_id=session,
        role=Role(event.role) if event.role in list(Role) else Role.USER,
        content=redact(event.text),
        actor_id=event.actor,
        markers=event.markers,
        created_at=time_of(event.ts),
        token_count=event.tokens or 0,
        seq=event.seq,
    )


def _answer(
    reflector: SessionReflector, episode: Episode, turns: list[Turn], by: str
) -> list[Fact]:
    try:
        found = reflector.reflect(episode, turns)
    except MemplaneError:
        raise
    except Exception as error:
        raise ProviderError(
            f"the reflector {by} failed ({type(error).__name__}: {masked(str(error))[:200]})",
            provider=by,
            retryable=isinstance(error, ConnectionError | TimeoutError),
            cause=error,
        ) from error
    if not isinstance(found, Sequence) or not all(isinstance(one, Fact) for one in found):
        raise ProviderError("expected a list of facts, found another answer", provider=by)
    return list(found)
