"""The sessions: who, from when to when, how it ended, and what it came to in figures.

Bounds: the newest 200 sessions and `bytes_max` of JSON. Over a bound the session that
ended and was silent longest goes first, an open one only when no other is left to go;
the log still has it (`session_facts` folds it alone). The names of those that went are
kept as hashes, so that one which goes on is known to be more than what is seen of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from json.encoder import encode_basestring
from typing import Any, Final

from memplane.event import KINDS, UPKEEP_KINDS, Event
from memplane.ports import Line, TokenCounter
from memplane.projections.forgetting import Forget, forget_of
from memplane.projections.projector import Replayable, canonical

__all__ = ["SessionFacts", "Sessions", "SessionsState", "is_extract", "session_facts"]

KEPT_MAX: Final = 200
# Rows as counted here; with the hashes and the checkpoint around it the file has 512 KiB at most.
BYTES_MAX: Final = 440 * 1024
GONE_MAX: Final = 2000
FILES_MAX: Final = 24
TASKS_MAX: Final = 8
NAME_MAX: Final = 200  # characters of a path, a branch, a folder
_HASH_DIGITS: Final = 12
# Bytes of a row without its names: numbers, times, an id of 128 characters, punctuation.
_ROW_BYTES: Final = 800
_COUNT_BYTES: Final = 24

_UPKEEP: Final = frozenset(UPKEEP_KINDS)
_KNOWN: Final = frozenset(KINDS)
_TOUCHING: Final = frozenset(("tool_call", "tool_result", "artifact", "message"))
_TELLABLE: Final = frozenset(("low", "normal"))
_FIELDS: Final = (
    "id", "agent", "started", "ended", "reason", "branch", "cwd", "first_seq", "last_seq",
    "first_ts", "last_ts", "last_rec", "last_id", "prompts", "errors", "tokens", "summary",
    "forgotten", "partial", "more",
)  # fmt: skip


class SessionFacts:
    """One session. Read it, never write it, outside `Sessions`.

    `ended` is the seq of the end in force, 0 while it is open. Times and ids are those of what
    happened in it: ends and generated summaries are none of that. `summary` is the seq of the
    newest generated one. `partial`: something of it lies before what was counted here. `more`:
    it touched more files or tasks than are named.
    """

    __slots__ = (*_FIELDS, "files", "kinds", "size", "tasks")

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
        self.prompts = self.errors = self.tokens = self.summary = 0
        self.files: dict[str, None] = {}  # the last touched last
        self.tasks: dict[str, None] = {}
        self.more = self.forgotten = self.partial = False
        self.size = _ROW_BYTES + _bytes(id)

    @property
    def events(self) -> int:
        """Events in it, generated summaries not counted."""
        return sum(self.kinds.values())


class SessionsState:
    """The fold's state: sessions in the order of their first events."""

    __slots__ = ("bytes", "gone", "sessions")

    def __init__(self) -> None:
        self.sessions: dict[str, SessionFacts] = {}
        self.gone: dict[str, None] = {}  # hashes of the names of those that bounds drove out
        self.bytes = 0


class Sessions:
    """The projector. `counter` names the variant: it counts what a light process left uncounted."""

    name = "sessions"
    version = 1

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
        facts = state.sessions.get(id_)
        extract = is_extract(event)
        ends = event.kind == "session" and event.data.get("status") == "end"
        if facts is None:
            if extract or ends:  # of a session that was let go of: it does not come back for this
                return
            facts = _begin(state, id_, event.seq)
        before = facts.size
        if extract:
            facts.summary = event.seq
            return
        _count(facts, event, self.counter)
        if ends:
            facts.ended, facts.reason = event.seq, _short(event.data.get("reason"))
        else:
            _happened(facts, event)
        state.bytes += facts.size - before
        if len(state.sessions) > self.kept_max or state.bytes > self.bytes_max:
            _shed(state, self.kept_max, self.bytes_max)

    def dump(self, state: SessionsState) -> bytes:
        rows = [_row(facts) for facts in state.sessions.values()]
        return canonical({"gone": list(state.gone), "sessions": rows})

    def load(self, data: bytes) -> SessionsState:
        fields, state = json.loads(data), SessionsState()
        state.gone = dict.fromkeys(fields["gone"])
        for row in fields["sessions"]:
            facts = _facts(row)
            state.sessions[facts.id] = facts
            state.bytes += facts.size
        return state


def is_extract(event: Event) -> bool:
    """Whether memplane itself made it of other events: a summary that quotes its `refs`."""
    return event.kind == "summary" and event.data.get("extract") is True


def session_facts(
    log: Replayable, ids: Collection[str], counter: TokenCounter
) -> dict[str, SessionFacts]:
    """Fold some sessions alone, in one pass over the whole log; those that are none are left out.

    For sessions that the projection let go of: here nothing is bounded but the names in each.
    """
    wanted = frozenset(ids)
    projector, state = Sessions(counter, kept_max=2**63, bytes_max=2**63), SessionsState()
    for line in log.read():
        if line.event.session in wanted or line.event.kind == "forget":
            projector.apply(state, line)
    return state.sessions


def _begin(state: SessionsState, id_: str, seq: int) -> SessionFacts:
    facts = state.sessions[id_] = SessionFacts(id_, seq)
    state.bytes += facts.size
    hashed = _hash(id_)
    if hashed in state.gone:
        del state.gone[hashed]
        facts.partial = True
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
        facts.prompts += 1
    elif kind == "tool_result" and event.data.get("status") == "error":
        facts.errors += 1


def _happened(facts: SessionFacts, event: Event) -> None:
    """Note what is no end: it is the latest, and an ended session goes on."""
    facts.ended, facts.reason = 0, None
    if facts.forgotten:  # it shows itself again with what comes now, not with what it was
        facts.forgotten = False
        _take_all(facts)
    ts = event.ts
    if not facts.first_ts or ts < facts.first_ts:
        facts.first_ts = ts
    facts.last_ts = max(facts.last_ts, ts)
    facts.last_rec, facts.last_id = event.rec, event.id
    if event.kind == "session":
        _marked(facts, event)
    elif not facts.started and facts.agent is None and event.ns.startswith("/agent/"):
        _set(facts, "agent", event.ns[len("/agent/") :])
    if event.sensitivity in _TELLABLE:  # figures may be told to anybody, names may not
        _touched(facts, event)


def _touched(facts: SessionFacts, event: Event) -> None:
    if event.task is not None:
        _put(facts, facts.tasks, event.task, TASKS_MAX)
    if event.kind in _TOUCHING:
        path = event.data.get("path")
        if isinstance(path, str) and 0 < len(path) <= NAME_MAX:
            _put(facts, facts.files, path, FILES_MAX)


def _marked(facts: SessionFacts, event: Event) -> None:
    if event.data.get("status", "start") == "start":
        facts.started = True
        if event.actor is not None:
            _set(facts, "agent", event.actor)
    for name in ("branch", "cwd"):
        told = _short(event.data.get(name))
        if told is not None and event.sensitivity in _TELLABLE:
            _set(facts, name, told)


def _set(facts: SessionFacts, field: str, value: str | None) -> None:
    facts.size += _bytes(value) - _bytes(getattr(facts, field))
    setattr(facts, field, value)


def _put(facts: SessionFacts, names: dict[str, None], name: str, most: int) -> None:
    if name in names:
        del names[name]
        names[name] = None
        return
    names[name] = None
    facts.size += _bytes(name)
    if len(names) > most:
        _take(facts, names, next(iter(names)))
        facts.more = True


def _take(facts: SessionFacts, names: dict[str, None], name: str) -> None:
    del names[name]
    facts.size -= _bytes(name)


def _take_all(facts: SessionFacts) -> None:
    for names in (facts.files, facts.tasks):
        for name in list(names):
            _take(facts, names, name)


def _forget(state: SessionsState, event: Event) -> None:
    forget = forget_of(event)
    if forget is None or (forget.session is None and forget.source is None):
        return
    for facts in state.sessions.values():
        if _names(forget, facts):
            facts.forgotten = not forget.undo


def _names(forget: Forget, facts: SessionFacts) -> bool:
    """Whether the session is meant: by its name, or by the importer that its last event is of."""
    if forget.session is not None:
        return facts.id == forget.session
    return facts.last_id.startswith(f"{forget.source}:")


def _shed(state: SessionsState, kept_max: int, bytes_max: int) -> None:
    sessions = state.sessions
    while len(sessions) > 1 and (len(sessions) > kept_max or state.bytes > bytes_max):
        # The one that was just written to has the highest seq and stays.
        gone = min(sessions.values(), key=lambda facts: (not facts.ended, facts.last_seq))
        if gone.last_seq == max(facts.last_seq for facts in sessions.values()):
            gone = min(sessions.values(), key=lambda facts: facts.last_seq)
        del sessions[gone.id]
        state.bytes -= gone.size
        state.gone[_hash(gone.id)] = None
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
    return [facts.size, values, kinds, list(facts.files), list(facts.tasks)]


def _facts(row: list[Any]) -> SessionFacts:
    size, values, kinds, files, tasks = row
    facts = SessionFacts("", 0)
    for field, value in zip(_FIELDS, values, strict=True):
        setattr(facts, field, value)
    facts.size = size
    facts.kinds = dict(kinds)
    facts.files, facts.tasks = dict.fromkeys(files), dict.fromkeys(tasks)
    return facts
