"""Episodes: the turns of each session, divided by rules, so that each turn is in exactly one.

The rules are a policy (`policy.scoring.EpisodeRules`), and their hash is the variant of the fold:
under other rules the whole log is folded again, and nothing was written. Turns are events of kind
message, tool_call and tool_result. An episode is named by its session and its first turn's seq,
`s1/412`, which is the same however the log is split.

A turn that comes too long after the one before it first ends the open episode; it then joins the
open one, or opens the next; then the first of these that holds ends it: so many turns, a tool's
result, a pattern found in its text. An event of kind `episode` with `data.status` closed ends the
open one, for `data.reason`. No episode opens again.

Bounds: 256 sessions, the one that was silent longest goes first, and of each its newest 1,000
episodes; `session_episodes` folds others alone, from the first seq that is known of them.
"""

from __future__ import annotations

import hashlib
import json
import re
from datetime import datetime
from typing import TYPE_CHECKING, Final

from memplane.event import lifting
from memplane.lazy import NamedTuple
from memplane.projections.projector import Replayable, canonical

if TYPE_CHECKING:
    from memplane.event import Event
    from memplane.policy.records import EpisodeRules
    from memplane.ports import Line, TokenCounter

TURNS: Final = frozenset(("message", "tool_call", "tool_result"))
EPISODES_MAX: Final = 1_000  # of one session
TURNS_MAX: Final = 2_000  # seqs of the latest episode's turns
MARKED_MAX: Final = 500  # marked turns of a session
_CARRIED_MAX: Final = 20  # last turns of the episode before the latest
_SESSIONS_MAX: Final = 256
_NUMBERS_MAX: Final = 48_000  # in the state: some 400 KB of JSON
_GONE_MAX: Final = 4_000
_WHOLE_MAX: Final = 512
_HASH_DIGITS: Final = 12
_REASON_MAX: Final = 40  # characters
_PATTERN_CHARACTERS: Final = 20_000  # of a text are looked at
_SPAN_NUMBERS: Final = 5
_MINUTE: Final = 60  # seconds
_TO_MINUTE: Final = len("2026-01-05T12:17")


class EpisodeSpan(NamedTuple):
    """One episode: its first and last turn, how many they are, their tokens, and why it ended.

    `reason` is "" while it is open.
    """

    first_seq: int
    last_seq: int
    turns: int
    tokens: int
    reason: str


class SessionEpisodes:
    """The episodes of a session, oldest first. Read it, never write it, outside the fold.

    `before`: how many older ones there are that `spans` does not hold. `turns`: the seqs of the
    latest episode's turns, whether or not it has ended; `carried`: the last of those before it.
    `marked`: the seqs of turns with a marker, of all episodes. `partial`: turns came before.
    """

    __slots__ = ("before", "carried", "last_ts", "marked", "partial", "spans", "turns")

    def __init__(self, *, partial: bool = False) -> None:
        self.spans: list[EpisodeSpan] = []
        self.before = 0
        self.last_ts = ""
        self.turns: list[int] = []
        self.carried: list[int] = []
        self.marked: list[int] = []
        self.partial = partial

    @property
    def open(self) -> EpisodeSpan | None:
        """The open episode; None where the last one has ended."""
        return self.spans[-1] if self.spans and not self.spans[-1].reason else None

    @property
    def first_seq(self) -> int:
        """A seq before which nothing of the session stands, as far as that is known; 1 else."""
        return 1 if self.partial or self.before or not self.spans else self.spans[0].first_seq

    @property
    def numbers(self) -> int:
        """How much it takes in the state."""
        lists = len(self.turns) + len(self.carried) + len(self.marked)
        return 20 + _SPAN_NUMBERS * len(self.spans) + lists


class EpisodesState:
    """The fold's state: sessions, the one with the latest turn last."""

    __slots__ = ("full", "gone", "numbers", "sessions", "whole")

    def __init__(self) -> None:
        self.sessions: dict[str, SessionEpisodes] = {}
        self.gone: dict[str, int] = {}  # hash of a session that bounds drove out -> its first seq
        self.full = False  # some of these were forgotten: an unknown session may be an old one
        self.numbers = 0
        self.whole: dict[str, SessionEpisodes] = {}  # folded alone, and followed; in no checkpoint


class EpisodesProjector:
    """The projector; `rules` and `counter` name the variant."""

    name = "episodes"
    version = 1

    def __init__(
        self,
        rules: EpisodeRules,
        counter: TokenCounter,
        *,
        sessions_max: int = _SESSIONS_MAX,
        numbers_max: int = _NUMBERS_MAX,
        episodes_max: int = EPISODES_MAX,
    ) -> None:
        self.rules, self.counter = rules, counter
        self.sessions_max, self.numbers_max = sessions_max, numbers_max
        self.episodes_max = episodes_max
        self._patterns = [re.compile(pattern) for pattern in rules.close_on_patterns]

    def initial(self) -> EpisodesState:
        return EpisodesState()

    def apply(self, state: EpisodesState, line: Line) -> None:
        event = line.event
        session = event.session
        if session is None or (event.kind not in TURNS and event.kind != "episode"):
            return
        alone = state.whole.get(session)
        if alone is not None:
            self._fold(alone, event)
        known = state.sessions.pop(session, None)
        if known is None:
            if event.kind == "episode" or _hash(session) in state.gone:
                return
            known = SessionEpisodes(partial=state.full)
        else:
            state.numbers -= known.numbers
        self._fold(known, event)
        state.sessions[session] = known  # the latest stands last
        state.numbers += known.numbers
        while len(state.sessions) > self.sessions_max or (
            state.numbers > self.numbers_max and len(state.sessions) > 1
        ):
            _shed(state)

    def _fold(self, known: SessionEpisodes, event: Event) -> None:
        if event.kind == "episode":
            if event.data.get("status") == "closed":
                _close(known, closed_reason(event.data.get("reason")))
            return
        rules = self.rules
        if known.open is not None and self.lapsed(known, event.ts):
            _close(known, "time_gap")
        known.last_ts = event.ts
        self._join(known, event)
        opened = known.spans[-1]
        if opened.turns == rules.max_turns:
            _close(known, "max_turns")
        elif rules.close_on_tool_result and (event.role == "tool" or event.kind == "tool_result"):
            _close(known, "tool_result")
        elif any(one.search(event.text, 0, _PATTERN_CHARACTERS) for one in self._patterns):
            _close(known, "pattern")

    def lapsed(self, known: SessionEpisodes, ts: str) -> bool:
        """Whether a turn at that time comes too long after the session's last one."""
        gap = self.rules.gap_seconds
        if not gap or not known.last_ts:
            return False
        if gap >= _MINUTE and known.last_ts[:_TO_MINUTE] == ts[:_TO_MINUTE]:
            return False  # most turns: no time is read for them
        return _seconds(known.last_ts, ts) > gap

    def _join(self, known: SessionEpisodes, event: Event) -> None:
        """Put a turn into the open episode, or into a new one."""
        seq, tokens = event.seq, event.tokens
        if tokens is None:  # a light process wrote it
            tokens = self.counter.count(event.text) if event.text else 0
        if known.open is None:
            known.spans.append(EpisodeSpan(seq, seq, 1, tokens, ""))
            known.carried, known.turns = known.turns[-_CARRIED_MAX:], [seq]
            if len(known.spans) > self.episodes_max:
                del known.spans[0]
                known.before += 1
        else:
            before = known.spans[-1]
            known.spans[-1] = EpisodeSpan(
                before.first_seq, seq, before.turns + 1, before.tokens + tokens, ""
            )
            known.turns.append(seq)
            del known.turns[:-TURNS_MAX]
        if lifting(event.markers):
            known.marked.append(seq)
            del known.marked[:-MARKED_MAX]

    def dump(self, state: EpisodesState) -> bytes:
        rows = [
            [
                name,
                one.before,
                one.last_ts,
                one.partial,
                one.spans,
                one.turns,
                one.carried,
                one.marked,
            ]
            for name, one in state.sessions.items()
        ]
        return canonical({"full": state.full, "gone": state.gone, "sessions": rows})

    def load(self, data: bytes) -> EpisodesState:
        fields, state = json.loads(data), EpisodesState()
        state.full, state.gone = fields["full"], fields["gone"]
        for name, before, last_ts, partial, spans, turns, carried, marked in fields["sessions"]:
            one = state.sessions[name] = SessionEpisodes(partial=partial)
            one.before, one.last_ts = before, last_ts
            one.spans = [EpisodeSpan(*span) for span in spans]
            one.turns, one.carried, one.marked = turns, carried, marked
            state.numbers += one.numbers
        return state


def session_episodes(
    log: Replayable, state: EpisodesState, session: str, projector: EpisodesProjector
) -> SessionEpisodes | None:
    """The episodes of a session, folded alone where the state let go of it; None: it has no turn.

    `state` is that of the projector at the log's head.
    """
    known = state.whole.get(session) or state.sessions.get(session)
    first = state.gone.get(_hash(session))
    if known is not None and not known.partial:
        return known
    if known is None and first is None and not state.full:
        return None
    found = every_episode(log, session, projector, first or 1)
    if found is not None:
        while len(state.whole) >= _WHOLE_MAX:
            del state.whole[next(iter(state.whole))]
        state.whole[session] = found
    return found


def every_episode(
    log: Replayable, session: str, projector: EpisodesProjector, first: int = 1
) -> SessionEpisodes | None:
    """All episodes of a session, from the log, whatever the bounds; None: it has no turn."""
    alone, state = EpisodesProjector(projector.rules, projector.counter), EpisodesState()
    alone.numbers_max = alone.episodes_max = 2**63
    for line in log.read(first - 1):
        if line.event.session == session:
            alone.apply(state, line)
    return state.sessions.get(session)


def closed_reason(given: object) -> str:
    """The reason of a close, as it is kept: a word of 1 to 40 characters, else `manual`."""
    return given[:_REASON_MAX] if isinstance(given, str) and given else "manual"


def _close(known: SessionEpisodes, reason: str) -> None:
    if known.open is not None:
        known.spans[-1] = known.spans[-1]._replace(reason=reason)


def _seconds(before: str, after: str) -> float:
    """The time between two turns; 0 where clocks ran backwards, or a time is none."""
    try:
        passed = datetime.fromisoformat(after) - datetime.fromisoformat(before)
    except (ValueError, TypeError):
        return 0
    return max(0, passed.total_seconds())


def _shed(state: EpisodesState) -> None:
    name = next(iter(state.sessions))
    gone = state.sessions.pop(name)
    state.numbers -= gone.numbers
    state.whole.pop(name, None)
    state.gone[_hash(name)] = gone.first_seq
    if len(state.gone) > _GONE_MAX:
        del state.gone[next(iter(state.gone))]
        state.full = True


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
