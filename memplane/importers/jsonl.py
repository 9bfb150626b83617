"""JSON lines that memplane defines, in two forms, distinguished by the fields of each line.

Conversations (any line with `conversation_id` or `event_id`): conversation_id,
event_id, session_id, ts, role, speaker, text, and where they are known kind,
branch, sidechain, tool, call_id, path, is_error. The id is
`jsonl:<conversation_id>:<event_id>`, the session `<conversation_id>/<session_id>`.
The kind `reasoning` becomes a message tagged so (whoever wrote the file chose to
keep it), `compact_summary` a summary, `meta` a message of the system. A tool result that
does not say so itself gets tool and path of the call that it answers: the one with its
`call_id`; where neither has an id, the oldest of its session that waits for an answer.

Events (any other line with `kind` or `text`): the fields of an event as they are,
so that an exported log and rows written by hand import. What only a log can give
(seq, dur, rec, h, tokens) is left out and assigned again; events about the old log
itself (segments, repairs, purges) are skipped. A row without an id gets one from
its line: the same line twice is one event.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from memplane.event import ROLES, is_kind
from memplane.importers.rows import ReadOutcome, Row, name, short_text
from memplane.intake.check import NAME_MAX, OWN_KINDS
from memplane.lazy import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCE: Final = "jsonl"

_ROLES: Final = {
    **{role: role for role in ROLES},
    "human": "user",
    "ai": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "function": "tool",
}
_KINDS: Final = {
    "reasoning": ("message", ["reasoning"]),
    "compact_summary": ("summary", ["compact"]),
    "meta": ("message", ["meta"]),
}
_OF_THE_LOG: Final = frozenset({"seq", "dur", "rec", "h", "tokens"})
_DATA: Final = {"tool": "tool", "call_id": "call", "path": "path", "branch": "branch"}
_OPEN_CALLS_MAX: Final = 200


class _Call(NamedTuple):
    """A call that waits for its result. `call`: its id, or "" where it has none."""

    session: str
    call: str
    tool: str
    path: str


class Jsonl:
    """The reader of this source. Of earlier lines it keeps the calls that wait for a result."""

    def __init__(self) -> None:
        self._open: list[_Call] = []  # the oldest first

    def begin(self, state: Mapping[str, Any], file: str = "") -> None:
        """Begin a file, or go on with one where `state()` was left."""
        del file  # its records say whose they are
        calls = state.get("calls")
        self._open = [
            _Call(*known)
            for known in (calls if isinstance(calls, list) else ())
            if isinstance(known, list)
            and len(known) == len(_Call._fields)
            and all(isinstance(part, str) for part in known)
        ]

    def state(self) -> dict[str, Any]:
        """Return the calls that wait for a result."""
        return {"calls": [list(call) for call in self._open]} if self._open else {}

    def read(self, record: dict[str, Any], body: bytes) -> ReadOutcome:
        """Say what the record comes to; never raises, whatever it holds."""
        if "conversation_id" in record or "event_id" in record:
            return _turn(self._answered(record), body)
        if record.get("purged") is True:
            return ReadOutcome(skipped=("purged event",))
        if "kind" not in record and "text" not in record:
            return ReadOutcome(skipped=("no event",))
        kind = short_text(record, "kind")
        if kind in OWN_KINDS:
            return ReadOutcome(skipped=(f"event about the old log: {kind}",))
        row = {field: value for field, value in record.items() if field not in _OF_THE_LOG}
        if row.get("id") is None:
            row["id"] = _id_of_line(body)
        return ReadOutcome(rows=(row,))

    def _answered(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """Give a result with the tool and the path of its call, if that is known."""
        session = "/".join(_label(record, field) for field in ("conversation_id", "session_id"))
        call, kind = short_text(record, "call_id"), record.get("kind")
        if kind == "tool_call":
            self._open = self._open[1 - _OPEN_CALLS_MAX :]
            tool, path = short_text(record, "tool"), short_text(record, "path")
            self._open.append(_Call(session, call, tool, path))
        elif kind == "tool_result":
            for at, known in enumerate(self._open):
                if (known.session, known.call) == (session, call):
                    del self._open[at]
                    told = {"tool": known.tool, "path": known.path}
                    return {**record, **{f: v for f, v in told.items() if not record.get(f)}}
        elif record.get("role") == "user":
            # What a person says ends a turn: a call without id that is open then was never
            # answered, and must not pass its name on to the next one's result.
            self._open = [known for known in self._open if known.call or known.session != session]
        return record


def _turn(record: Mapping[str, Any], body: bytes) -> ReadOutcome:
    text = record.get("text")
    if not isinstance(text, str) or not text.strip():
        return ReadOutcome(skipped=("empty text",))
    conversation, event = _label(record, "conversation_id"), _label(record, "event_id")
    kind, tags = _KINDS.get(short_text(record, "kind"), ("", []))
    kind = kind or (
        short_text(record, "kind") if is_kind(short_text(record, "kind")) else "message"
    )
    row: Row = {
        "id": name(SOURCE, conversation, event) if event else _id_of_line(body),
        "kind": kind,
        "text": text,
    }
    if record.get("ts") is not None:
        row["ts"] = record["ts"]
    session = _label(record, "session_id")
    if conversation or session:
        row["session"] = name(*filter(None, (conversation, session)), joint="/")
    _who(record, row)
    if record.get("sidechain") is True:
        tags = ["sidechain", *tags]
    if tags:
        row["tags"] = list(tags)
    if data := _data(record, kind):
        row["data"] = data
    return ReadOutcome(rows=(row,))


def _who(record: Mapping[str, Any], row: Row) -> None:
    given, speaker = short_text(record, "role"), short_text(record, "speaker").strip()
    role = "system" if record.get("kind") == "meta" else _ROLES.get(given.lower(), "")
    if role:
        row["role"] = role
    says = speaker or ("" if role else given)
    if says and says.lower() not in {role, given.lower() if role else ""}:
        row["actor"] = says if len(says) <= NAME_MAX and says.isprintable() else name(says)


def _data(record: Mapping[str, Any], kind: str) -> dict[str, str]:
    data = {ours: short_text(record, theirs) for theirs, ours in _DATA.items()}
    if kind == "tool_result":
        data["status"] = "error" if record.get("is_error") is True else "ok"
    return {field: value for field, value in data.items() if value}


def _label(record: Mapping[str, Any], field: str) -> str:
    """Return an identifier as text; files written by hand number things."""
    value = record.get(field)
    return str(value) if type(value) is int else short_text(record, field)


def _id_of_line(body: bytes) -> str:
    return name(SOURCE, "line", hashlib.sha256(body.strip()).hexdigest())
