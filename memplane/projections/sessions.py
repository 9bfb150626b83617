"""Sessions: agent, beginning and end, how they ended, and figures about them.

Bounds: the newest 200 sessions and `bytes_max` of JSON; of each project of a parted plane the
newest 50 and a quarter, whatever other projects have. Over a bound the session that has ended and
was silent longest goes first, an open one only when no other is left; the log still has it
(`session_facts` folds it alone). The names of dropped sessions are kept as hashes, with the range
of their seqs, so that a session that goes on is recognised as longer than what is kept of it, and
only its part of the log is read.

Figures may be shown to every reader, names may not. Each name carries the seqs of the events that
it is from, the newest of each origin (kind, sensitivity, namespace), so that a reader can check
whether it may see one of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from json.encoder import encode_basestring
from typing import Any, Final

from memplane.event import KINDS, PROJECTS, UPKEEP_KINDS, Event
from memplane.harness import is_interruption
from memplane.lazy import word_table
from memplane.ports import Line, TokenCounter
from memplane.projections.groups import VisibilityGroup, share_of
from memplane.projections.in_force import Moment, forget_of, moment_of
from memplane.projections.projector import Replayable, canonical

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


def is_extract(event: Event) -> bool:
    """Whether it is a generated summary, which quotes the events in its `refs`."""
    return event.kind == "summary" and event.data.get("extract") is True


def is_derived(event: Event) -> bool:
    """Whether it was made by rules of the events in its `refs`, and goes where they go."""
    return is_extract(event) or event.data.get("derived") is True


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
