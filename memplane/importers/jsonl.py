"""JSON lines that memplane defines, in two forms told apart by the fields of each line.

Conversations (any line with `conversation_id` or `event_id`): conversation_id,
event_id, session_id, ts, role, speaker, text, and where they are known kind,
branch, sidechain, tool, call_id, path, is_error. The id is
`jsonl:<conversation_id>:<event_id>`, the session `<conversation_id>/<session_id>`.
The kind `reasoning` becomes a message tagged so (whoever wrote the file chose to
keep it), `compact_summary` a summary, `meta` a message of the system.

Events (any other line with `kind` or `text`): the fields of an event as they are,
so that an exported log and rows written by hand import. What only a log can give
(seq, dur, rec, h, tokens) is left out and given anew; events about the old log
itself (segments, repairs, purges) are skipped. A row without an id gets one from
its line: the same line twice is one event.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from memplane.event import KINDS, ROLES
from memplane.importers.rows import Outcome, Row, name, text_of
from memplane.intake.check import NAME_MAX, OWN_KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SOURCE", "Jsonl"]

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


class Jsonl:
    """The reader of this source. It keeps nothing between lines."""

    def begin(self, state: Mapping[str, Any]) -> None:
        """Begin a file; there is nothing to go on with."""

    def state(self) -> dict[str, Any]:
        """Keep nothing: every line stands for itself."""
        return {}

    def read(self, record: dict[str, Any], body: bytes) -> Outcome:
        """Say what the record comes to; never raises, whatever it holds."""
        if "conversation_id" in record or "event_id" in record:
            return _turn(record, body)
        if record.get("purged") is True:
            return Outcome(skipped=("purged event",))
        if "kind" not in record and "text" not in record:
            return Outcome(skipped=("no event",))
        kind = text_of(record, "kind")
        if kind in OWN_KINDS:
            return Outcome(skipped=(f"event about the old log: {kind}",))
        row = {field: value for field, value in record.items() if field not in _OF_THE_LOG}
        if row.get("id") is None:
            row["id"] = _id_of_line(body)
        return Outcome(rows=(row,))


def _turn(record: Mapping[str, Any], body: bytes) -> Outcome:
    text = record.get("text")
    if not isinstance(text, str) or not text.strip():
        return Outcome(skipped=("empty text",))
    conversation, event = _label(record, "conversation_id"), _label(record, "event_id")
    kind, tags = _KINDS.get(text_of(record, "kind"), ("", []))
    kind = kind or (text_of(record, "kind") if record.get("kind") in KINDS else "message")
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
    return Outcome(rows=(row,))


def _who(record: Mapping[str, Any], row: Row) -> None:
    given, speaker = text_of(record, "role"), text_of(record, "speaker").strip()
    role = "system" if record.get("kind") == "meta" else _ROLES.get(given.lower(), "")
    if role:
        row["role"] = role
    says = speaker or ("" if role else given)
    if says and says.lower() not in {role, given.lower() if role else ""}:
        row["actor"] = says if len(says) <= NAME_MAX and says.isprintable() else name(says)


def _data(record: Mapping[str, Any], kind: str) -> dict[str, str]:
    data = {ours: text_of(record, theirs) for theirs, ours in _DATA.items()}
    if kind == "tool_result":
        data["status"] = "error" if record.get("is_error") is True else "ok"
    return {field: value for field, value in data.items() if value}


def _label(record: Mapping[str, Any], field: str) -> str:
    """Return an identifier as text; files written by hand number things."""
    value = record.get(field)
    return str(value) if type(value) is int else text_of(record, field)


def _id_of_line(body: bytes) -> str:
    return name(SOURCE, "line", hashlib.sha256(body.strip()).hexdigest())
