"""Sessions: agent, beginning and end, how they ended, figures about them; and their episodes.

Bounds: the newest 200 sessions and `bytes_max` of JSON; of each project of a parted plane the
newest 50 and a quarter, whatever other projects have. Over a bound the session that has ended and
was silent longest goes first, an open one only when no other is left; the log still has it
(`session_facts` folds it alone). The names of dropped sessions are kept as hashes, with the range
of their seqs, so that a session that goes on is recognised as longer than what is kept of it, and
only its part of the log is read.

Figures may be shown to every reader, names may not. Each name carries the seqs of the events that
it is from, the newest of each origin (kind, sensitivity, namespace), so that a reader can check
whether it may see one of them.

**Episodes** are the turns of each session, divided by rules, so that each turn is in exactly one.
The rules are a policy (`policy.records.EpisodeRules`), and their hash is the variant of the fold:
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
from collections.abc import Collection
from datetime import datetime
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, Final

from memplane.event import KINDS, PROJECTS, UPKEEP_KINDS, Event, is_extract, lifting
from memplane.harness import is_interruption
from memplane.lazy import NamedTuple, word_table
from memplane.ports import Line, TokenCounter
from memplane.projections.groups import VisibilityGroup, share_of
from memplane.projections.in_force import Moment, forget_of, moment_of
from memplane.projections.projector import Replayable, canonical

if TYPE_CHECKING:
    from memplane.policy.records import EpisodeRules


KEPT_MAX: Final = 200
# Rows as counted here; with the hashes and the checkpoint around it the file has 512 KiB at most.
BYTES_MAX: Final = 420 * 1024
GONE_MAX: Final = 2000
FILES_MAX: Final = 24
TASKS_MAX: Final = 8
NAME_MAX: Final = 200  # characters of a path, a branch, a folder
PROJECTS_MAX: Final = 64
ORIGINS_MAX: Final = 32  # of one session; what comes from others has no name here
_HASH_DIGITS: Final = 12
# Bytes of a row without its names: numbers, times, two ids of 128 characters, punctuation.
_ROW_BYTES: Final = 1100
_COUNT_BYTES: Final = 24
_NAME_BYTES: Final = 6  # brackets and commas around a name
_PLACE_BYTES: Final = 16  # an origin's number and a seq
_WHOLE_MAX: Final = 8  # sessions folded alone that are remembered until they go on

_UPKEEP: Final = frozenset(UPKEEP_KINDS)
_KNOWN: Final = frozenset(KINDS)
# No artifact: one is shown only where an approval covers it.
_TOUCHING: Final = frozenset(("tool_call", "tool_result", "message"))
_TELLABLE: Final = frozenset(("low", "normal"))
_FIELDS: Final = word_table("""
    id agent started ended reason branch cwd first_seq last_seq first_ts last_ts last_rec last_id
    prompts errors tokens summary summary_at judged forgotten partial more agent_seq branch_seq
    cwd_seq asked interrupted
""")


Origin = tuple[str, str, str]  # kind, sensitivity, namespace of events
Named = dict[str, dict[int, int]]  # name -> number of an origin -> seq of the newest event there


class SessionFacts:
    """One session. Read it, never write it, outside `Sessions`.

    `ended` is the seq of the end in force, 0 while it is open. Times and ids are those of what
    happened in it: ends and generated summaries are none of that. `summary` is the seq of the
    newest generated one, `summary_at` its moment, `judged` the seq of the last forget that names
    it. `partial`: something of it, from `first_seq` on, lies before what was counted here. `more`:
    it touched more files or tasks than are named. `asked` stands for its latest prompt;
    `interrupted`: the agent was stopped since, and the same words again are that prompt.
    `agent_seq` and the like are of the events that said so.
    """

    __slots__ = (*_FIELDS, "files", "kinds", "origins", "size", "tasks")

    def __init__(self, id: str, seq: int) -> None:  # noqa: A002 - the field's name
        self.id = id
        self.agent: str | None = None
        self.started = False  # by an event that says so
        self.ended = 0
        self.reason: str | None = None
        self.branch: str | None = None
        self.cwd: str | None = None
        self.first_seq = self.last_seq = seq
        self.first_ts = self.last_ts = self.last_rec = self.last_id = ""
        self.kinds: dict[str, int] = {}
        self.prompts = self.errors = self.tokens = self.summary = self.judged = 0
        self.summary_at: Moment | None = None
        self.agent_seq = self.branch_seq = self.cwd_seq = 0
        self.origins: dict[Origin, int] = {}  # of what happened in it, numbered; no secrets
        self.files: Named = {}  # the last touched last
        self.tasks: Named = {}
        self.more = self.forgotten = self.partial = self.interrupted = False
        self.asked = ""
        self.size = _ROW_BYTES + _bytes(id)

    @property
    def space(self) -> str:
        """The namespace of the project in which it took place, "" for none."""
        return next((ns for _, _, ns in self.origins if ns.startswith(PROJECTS)), "")

    @property
    def events(self) -> int:
        """Events in it, generated summaries not counted."""
        return sum(self.kinds.values())


class SessionsState:
    """The fold's state: sessions in the order of their first events.

    `spent`: how many sessions each project has here, "" for none, and their bytes.
    """

    __slots__ = ("bytes", "gone", "sessions", "spent", "whole")

    def __init__(self) -> None:
        self.sessions: dict[str, SessionFacts] = {}
        # Of those that bounds drove out: hash of the name -> first seq and last.
        self.gone: dict[str, list[int]] = {}
        self.bytes = 0
        self.spent: dict[str, tuple[int, int]] = {}
        self.whole: dict[str, SessionFacts] = {}  # folded alone, as of now; in no checkpoint


class SessionsProjector:
    """The projector. `counter` names the variant: it counts what a light process left uncounted.

    Each project of a parted plane has a quarter of the places for itself (`share_of`), and the 64
    projects that something happened in last have any.
    """

    name = "sessions"
    version = 6

    def __init__(
        self, counter: TokenCounter, *, kept_max: int = KEPT_MAX, bytes_max: int = BYTES_MAX
    ) -> None:
        self.counter = counter
        self.kept_max, self.bytes_max = kept_max, bytes_max

    def initial(self) -> SessionsState:
        return SessionsState()

    def apply(self, state: SessionsState, line: Line) -> None:
        event = line.event
        id_ = event.session
        if event.kind in _UPKEEP:
            if event.kind == "forget":
                _forget(state, event)
            return
        if id_ is None:
            return
        state.whole.pop(id_, None)
        facts = state.sessions.get(id_)
        extract = is_extract(event)
        ends = event.kind == "session" and event.data.get("status") == "end"
        if facts is None:
            if extract or ends:  # of a session that was let go of: it does not come back for this
                _lengthen(state, id_, event.seq)
                return
            facts = _begin(state, id_, event.seq)
        before, was = facts.size, facts.space
        if extract:
            at = moment_of(event, facts.summary_at)
            if facts.summary_at is None or at > facts.summary_at:
                facts.summary, facts.summary_at = event.seq, at
            return
        _count(facts, event, self.counter)
        if ends:
            facts.ended, facts.reason = event.seq, _short(event.data.get("reason"))
        else:
            _happened(facts, event)
        state.bytes += facts.size - before
        _spend(state, was, -1, -before)
        self._bound(state, facts)

    def _bound(self, state: SessionsState, facts: SessionFacts) -> None:
        """Count a session that was just written to, and hold the bounds of its project."""
        space = facts.space
        _spend(state, space, 1, facts.size)
        group = VisibilityGroup(False, space)
        kept_max, bytes_max = share_of(group, self.kept_max), share_of(group, self.bytes_max)
        count, size = state.spent[space]
        if count > kept_max or size > bytes_max:
            _shed(state, space, kept_max, bytes_max)
        if len(state.spent) > PROJECTS_MAX:
            _shed_project(state)

    def dump(self, state: SessionsState) -> bytes:
        rows = [_row(facts) for facts in state.sessions.values()]
        gone = [[hashed, *span] for hashed, span in state.gone.items()]
        return canonical({"gone": gone, "sessions": rows})

    def load(self, data: bytes) -> SessionsState:
        fields, state = json.loads(data), SessionsState()
        state.gone = {hashed: span for hashed, *span in fields["gone"]}
        for row in fields["sessions"]:
            facts = _facts(row)
            state.sessions[facts.id] = facts
            state.bytes += facts.size
            _spend(state, facts.space, 1, facts.size)
        return state


def session_facts(
    log: Replayable, state: SessionsState, ids: Collection[str], counter: TokenCounter
) -> dict[str, SessionFacts]:
    """Fold the given sessions alone, from their part of the log; unknown ids are left out.

    For sessions that the projection let go of: here nothing is bounded but the names in each.
    `state` is the projection at the log's head.
    """
    found = {id_: state.whole[id_] for id_ in ids if id_ in state.whole}
    wanted = frozenset(ids) - found.keys()
    spans = [span for id_ in wanted if (span := _span(state, id_)) is not None]
    if len(spans) < len(wanted) and len(state.gone) >= GONE_MAX:
        spans.append((1, log.head().seq))  # one of them may be older than all hashes
    if not spans:
        return found
    first, last = min(span[0] for span in spans), max(span[1] for span in spans)
    projector, alone = SessionsProjector(counter, kept_max=2**63, bytes_max=2**63), SessionsState()
    for line in log.read(first - 1, last):
        if line.event.session in wanted or line.event.kind == "forget":
            projector.apply(alone, line)
        if line.event.seq >= last:
            break
    for id_, facts in alone.sessions.items():
        known = state.sessions.get(id_)
        if known is not None and known.judged > facts.judged:  # behind its last event
            facts.forgotten, facts.judged = known.forgotten, known.judged
        found[id_] = facts
        if len(state.whole) < _WHOLE_MAX:
            state.whole[id_] = facts
    return found


def _span(state: SessionsState, id_: str) -> tuple[int, int] | None:
    """The seqs between which everything of a session lies, as far as that is known."""
    facts = state.sessions.get(id_)
    if facts is not None:
        return facts.first_seq, max(facts.last_seq, facts.summary, facts.judged)
    span = state.gone.get(_hash(id_))
    return None if span is None else (span[0], span[1])


def _begin(state: SessionsState, id_: str, seq: int) -> SessionFacts:
    facts = state.sessions[id_] = SessionFacts(id_, seq)
    state.bytes += facts.size
    _spend(state, "", 1, facts.size)
    span = state.gone.pop(_hash(id_), None)
    if span is not None:
        facts.partial, facts.first_seq = True, span[0]
    return facts


def _count(facts: SessionFacts, event: Event, counter: TokenCounter) -> None:
    kind = event.kind if event.kind in _KNOWN else "other"
    if kind not in facts.kinds:
        facts.size += _COUNT_BYTES + len(kind)
    facts.kinds[kind] = facts.kinds.get(kind, 0) + 1
    if event.tokens is not None:
        facts.tokens += event.tokens
    elif event.text:  # a light process wrote it
        facts.tokens += counter.count(event.text)
    facts.last_seq = event.seq
    if kind == "message" and event.role == "user":
        _asked(facts, event)
    elif is_interruption(event):
        facts.interrupted = True
    elif kind == "tool_result" and event.data.get("status") == "error":
        facts.errors += 1


def _asked(facts: SessionFacts, event: Event) -> None:
    """Count a prompt; one that is typed again after an interruption counts once."""
    asked = _hash(event.text.strip())
    facts.prompts += not (facts.interrupted and facts.asked == asked)
    facts.asked, facts.interrupted = asked, False


def _happened(facts: SessionFacts, event: Event) -> None:
    """Note what is no end: it is the latest, and an ended session goes on."""
    facts.ended, facts.reason = 0, None
    facts.forgotten = False
    ts = event.ts
    if not facts.first_ts or ts < facts.first_ts:
        facts.first_ts = ts
    facts.last_ts = max(facts.last_ts, ts)
    facts.last_rec, facts.last_id = event.rec, event.id
    if event.sensitivity == "secret":
        return
    if event.kind == "session":
        _marked(facts, event)
    elif not facts.started and facts.agent is None and event.ns.startswith("/agent/"):
        _set(facts, "agent", event.ns[len("/agent/") :], event.seq)
    number = _origin(facts, event)
    if number is not None and event.sensitivity in _TELLABLE:
        _touched(facts, event, number)


def _origin(facts: SessionFacts, event: Event) -> int | None:
    origin = (event.kind if event.kind in _KNOWN else "other", event.sensitivity, event.ns)
    number = facts.origins.get(origin)
    if number is None and len(facts.origins) < ORIGINS_MAX:
        number = facts.origins[origin] = len(facts.origins)
        facts.size += sum(map(_bytes, origin)) + _NAME_BYTES
    return number


def _touched(facts: SessionFacts, event: Event, number: int) -> None:
    if event.task is not None:
        _put(facts, facts.tasks, event.task, TASKS_MAX, number, event.seq)
    if event.kind in _TOUCHING:
        path = event.data.get("path")
        if isinstance(path, str) and 0 < len(path) <= NAME_MAX:
            _put(facts, facts.files, path, FILES_MAX, number, event.seq)


def _marked(facts: SessionFacts, event: Event) -> None:
    if event.data.get("status", "start") == "start":
        facts.started = True
        if event.actor is not None:  # decides what a start ends, whoever may read it
            _set(facts, "agent", event.actor, event.seq)
    for name in ("branch", "cwd"):
        told = _short(event.data.get(name))
        if told is not None and event.sensitivity in _TELLABLE:
            _set(facts, name, told, event.seq)


def _set(facts: SessionFacts, field: str, value: str, seq: int) -> None:
    facts.size += _bytes(value) - _bytes(getattr(facts, field))
    setattr(facts, field, value)
    setattr(facts, f"{field}_seq", seq)


def _put(facts: SessionFacts, names: Named, name: str, most: int, number: int, seq: int) -> None:
    places = names.pop(name, None)
    if places is None:
        places = {}
        facts.size += _bytes(name) + _NAME_BYTES
    if number not in places:
        facts.size += _PLACE_BYTES
    places[number] = seq
    names[name] = places
    if len(names) > most:
        gone = next(iter(names))
        facts.size -= _bytes(gone) + _NAME_BYTES + _PLACE_BYTES * len(names.pop(gone))
        facts.more = True


def _forget(state: SessionsState, event: Event) -> None:
    forget = forget_of(event)
    state.whole.clear()
    if forget is None or (forget.session is None and forget.source is None):
        return
    for facts in state.sessions.values():
        # By its name, or by the importer that its last event is of.
        if forget.names(facts.last_id, facts.id):
            facts.forgotten, facts.judged = not forget.undo, event.seq
    # One that was let go of is to be read up to here.
    if forget.source is not None:
        for span in state.gone.values():
            span[1] = event.seq
    elif forget.session is not None:
        _lengthen(state, forget.session, event.seq)


def _lengthen(state: SessionsState, id_: str, seq: int) -> None:
    """Note that something of a session that was let go of stands here."""
    span = state.gone.get(_hash(id_))
    if span is not None:
        span[1] = seq


def _spend(state: SessionsState, space: str, count: int, size: int) -> None:
    """Count sessions and their bytes to a project."""
    sessions, taken = state.spent.get(space, (0, 0))
    state.spent[space] = (sessions + count, taken + size)
    if not sessions + count:
        del state.spent[space]


def _shed(state: SessionsState, space: str, kept_max: int, bytes_max: int) -> None:
    """Let go of sessions of a project, "" for those of none, until the rest has room."""
    own = [facts for facts in state.sessions.values() if facts.space == space]
    newest = max(own, key=lambda facts: facts.last_seq)  # just written to: it stays
    for facts in sorted(own, key=lambda facts: (not facts.ended, facts.last_seq)):
        count, size = state.spent[space]
        if count <= kept_max and size <= bytes_max:
            return
        if facts is not newest:
            _drop(state, facts)


def _shed_project(state: SessionsState) -> None:
    """Let go of all sessions of the project in which nothing has happened for longest."""
    latest: dict[str, int] = {}
    for facts in state.sessions.values():
        latest[facts.space] = max(latest.get(facts.space, 0), facts.last_seq)
    oldest = min((space for space in latest if space), key=latest.__getitem__)
    for facts in [one for one in state.sessions.values() if one.space == oldest]:
        _drop(state, facts)


def _drop(state: SessionsState, facts: SessionFacts) -> None:
    del state.sessions[facts.id]
    state.bytes -= facts.size
    _spend(state, facts.space, -1, -facts.size)
    last = max(facts.last_seq, facts.summary, facts.judged)
    state.gone[_hash(facts.id)] = [facts.first_seq, last]
    if len(state.gone) > GONE_MAX:
        del state.gone[next(iter(state.gone))]


def _hash(id_: str) -> str:
    return hashlib.sha256(id_.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]


def _bytes(name: str | None) -> int:
    if name is None:
        return 0
    quoted = encode_basestring(name)
    return 1 + (len(quoted) if quoted.isascii() else len(quoted.encode("utf-8", "surrogatepass")))


def _short(value: object) -> str | None:
    return value[:NAME_MAX] if isinstance(value, str) and value else None


def _row(facts: SessionFacts) -> list[Any]:
    values = [getattr(facts, field) for field in _FIELDS]
    kinds = [[kind, number] for kind, number in facts.kinds.items()]
    names = [
        [[name, [one for place in places.items() for one in place]] for name, places in of.items()]
        for of in (facts.files, facts.tasks)
    ]
    return [facts.size, values, kinds, list(facts.origins), *names]


def _facts(row: list[Any]) -> SessionFacts:
    size, values, kinds, origins, files, tasks = row
    facts = SessionFacts("", 0)
    for field, value in zip(_FIELDS, values, strict=True):
        setattr(facts, field, value)
    facts.summary_at = facts.summary_at and Moment(*facts.summary_at)
    facts.size = size
    facts.kinds = dict(kinds)
    facts.origins = {(kind, level, ns): at for at, (kind, level, ns) in enumerate(origins)}
    facts.files, facts.tasks = _named(files), _named(tasks)
    return facts


def _named(rows: list[Any]) -> Named:
    return {name: dict(zip(flat[::2], flat[1::2], strict=True)) for name, flat in rows}


TURNS: Final = frozenset(("message", "tool_call", "tool_result"))
EPISODES_MAX: Final = 1_000  # of one session
TURNS_MAX: Final = 2_000  # seqs of the latest episode's turns
MARKED_MAX: Final = 500  # marked turns of a session
_CARRIED_MAX: Final = 20  # last turns of the episode before the latest
_SESSIONS_MAX: Final = 256
_NUMBERS_MAX: Final = 48_000  # in the state: some 400 KB of JSON
_GONE_MAX: Final = 4_000
_SPANS_MAX: Final = 512
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
            if event.kind == "episode" or _name_hash(session) in state.gone:
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
            _shed_episodes(state)

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
    first = state.gone.get(_name_hash(session))
    if known is not None and not known.partial:
        return known
    if known is None and first is None and not state.full:
        return None
    found = every_episode(log, session, projector, first or 1)
    if found is not None:
        while len(state.whole) >= _SPANS_MAX:
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


def _shed_episodes(state: EpisodesState) -> None:
    name = next(iter(state.sessions))
    gone = state.sessions.pop(name)
    state.numbers -= gone.numbers
    state.whole.pop(name, None)
    state.gone[_name_hash(name)] = gone.first_seq
    if len(state.gone) > _GONE_MAX:
        del state.gone[next(iter(state.gone))]
        state.full = True


def _name_hash(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
