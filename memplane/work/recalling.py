"""`plane.recall`: the candidates of a recall, gathered for one reader, and its answer.

Turns of the current episode and marked turns come from the fold of the episodes, all others and
facts from the one search of the log. What the reader may not see, and what is out of force, is no
candidate. Nothing is written.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from memplane.context.calls import check_text, checked_request
from memplane.context.folds import seq_by
from memplane.errors import BudgetError, NotFoundError
from memplane.event import TYPED_KINDS, lifting
from memplane.harness import remembered
from memplane.intake.redact import unexpected
from memplane.lazy import NamedTuple
from memplane.observe import hashed, note
from memplane.policy.scoring import RECALL_PROFILES
from memplane.ports import ONE
from memplane.projections.episodes import MARKED_MAX, TURNS
from memplane.recall import profiles
from memplane.recall.profiles import RecallCandidate
from memplane.search.search import found_by_words, scope_of_request
from memplane.search.service import IndexReach
from memplane.work.episodes import (
    ContextAssembly,
    ContextItem,
    RecallOmission,
    episode_name,
    episodes_of,
    time_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memplane.context.context import PlaneContext
    from memplane.context.event_access import EventAccess
    from memplane.context.folds import Folds
    from memplane.event import Event
    from memplane.pack.request import Request
    from memplane.policy import Policies
    from memplane.policy.scoring import EpisodeRules, RecallProfiles
    from memplane.ports import FoundEvent, TokenCounter
    from memplane.projections.episodes import SessionEpisodes
    from memplane.recall.profiles import KeptCandidate, RecallChoice, RecallScore
    from memplane.recall.suppress import Scope
    from memplane.search.retriever import LogRetriever

SCOPES: Final = ("session", "plane")
_FOUND_MAX: Final = 200  # turns and facts that the search may bring
_OMISSIONS_MAX: Final = 100
_TEXTS_KEPT: Final = 4_096
_CHARACTERS_KEPT: Final = 16_384  # a longer text is read each time
_FACTS: Final = tuple(kind for kind in TYPED_KINDS if kind != "summary")
_KINDS: Final = tuple(f"kind:{kind}" for kind in (*sorted(TURNS), *_FACTS))
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
