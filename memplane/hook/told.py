"""What a coding agent tells its hooks, as rows for the log. Pure: JSON values in, rows out.

Claude Code and Codex send the same shape (fields that only one of them has are marked)::

    {"session_id", "transcript_path", "cwd", "hook_event_name",
     "source"                                                    SessionStart
     "prompt", "prompt_id" | "turn_id"                           UserPromptSubmit
     "tool_name", "tool_input", "tool_response", "tool_use_id"   PostToolUse
     "last_assistant_message"                                    Stop
     "compact_summary"                                           PostCompact
     "reason"}                                                   SessionEnd

Formats of other programs change weekly: what is not there or is of another type is left out, an
event that is not known gives no rows, nothing raises.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.importers.calls import is_own, render, touched
from memplane.importers.rows import Row, name, text_of, told

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["AGENTS", "SOURCE_TAG", "Told", "read"]

AGENTS: Final = ("claude-code", "codex")
# By this an import of the transcript knows its words again: see `memplane.importers.hooked`.
SOURCE_TAG: Final = "hook"
_BEGINS: Final = frozenset({"startup", "clear", "fork"})
_FORGETS: Final = "compact"


class Told(NamedTuple):
    """One call of a hook.

    `asks`: "start" where the session begins or the client has dropped what it held, "prompt" where
    a person typed one, else "". `begins`: nothing was shown to this session before, or the client
    holds it no longer. `compacted`: the client has dropped what it held of its session.
    """

    event: str
    session: str
    folder: str
    rows: tuple[Row, ...]
    asks: str = ""
    query: str = ""
    begins: bool = False
    compacted: bool = False


def read(agent: str, said: Mapping[str, Any]) -> Told:
    """Say what a hook was told by one of AGENTS."""
    event = text_of(said, "hook_event_name")
    session, folder = text_of(said, "session_id"), text_of(said, "cwd")
    frame: Row = {"session": name(session)} if session else {}
    made = _ROWS[event](agent, said) if event in _ROWS else []
    rows = tuple({**frame, **row} for row in made)
    found = Told(event, frame.get("session", ""), folder, rows)
    source = text_of(said, "source")
    if event == "SessionStart":
        compacted = source == _FORGETS
        begins = compacted or source in _BEGINS
        return found._replace(asks="start", begins=begins, compacted=compacted)
    if event == "UserPromptSubmit":
        return found._replace(asks="prompt", query=_text(said, "prompt"))
    return found


def _begun(agent: str, said: Mapping[str, Any]) -> list[Row]:
    session, source = text_of(said, "session_id"), text_of(said, "source")
    if not session or source == _FORGETS:
        return []
    row: Row = {"kind": "session", "text": "Session resumed", "data": {"status": "resume"}}
    if source not in _BEGINS:
        return [_hooked({**row, "id": name(agent, session, "resumed")})]
    folder = text_of(said, "cwd").rstrip("/\\").replace("\\", "/").rpartition("/")[2]
    data = told({"status": "start", "folder": folder})
    # Named as an import of the transcript names it.
    begun = {"id": name(agent, session, "start"), "text": "Session started", "data": data}
    return [_hooked({**row, **begun})]


def _prompted(agent: str, said: Mapping[str, Any]) -> list[Row]:
    text = _text(said, "prompt")
    if not text.strip():
        return []
    row: Row = {"kind": "message", "role": "user", "text": text}
    turn = text_of(said, "prompt_id") or text_of(said, "turn_id")
    if turn:
        row["id"] = name(agent, text_of(said, "session_id"), "prompt", turn)
    return [_hooked(row)]


def _used(agent: str, said: Mapping[str, Any]) -> list[Row]:
    tool, call = text_of(said, "tool_name") or "tool", text_of(said, "tool_use_id")
    if is_own(tool):  # its answer is memory that came back
        return []
    given, folder = said.get("tool_input"), text_of(said, "cwd")
    data = told({"tool": tool, "call": call, "path": touched(tool, given, (folder,))})
    asked: Row = {"kind": "tool_call", "role": "assistant", "text": render(tool, given, folder)}
    text, status = _answer(said.get("tool_response"))
    answered: Row = {"kind": "tool_result", "role": "tool", "text": text}
    rows = [{**asked, "data": data}]
    if text.strip():
        rows.append({**answered, "data": {**data, "status": status}})
    session = text_of(said, "session_id")
    if call:
        for row, part in zip(rows, ("call", "result"), strict=False):
            row["id"] = name(agent, session, part, call)
    return [_hooked(row) for row in rows]


def _stopped(agent: str, said: Mapping[str, Any]) -> list[Row]:
    text = _text(said, "last_assistant_message")
    if not text.strip():
        return []
    row: Row = {"kind": "message", "role": "assistant", "text": text}
    turn = text_of(said, "prompt_id") or text_of(said, "turn_id")
    if turn:  # a hook that holds the agent up is asked again, with the same words or with others
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        row["id"] = name(agent, text_of(said, "session_id"), "said", turn, digest)
    return [_hooked(row)]


def _compacted(_: str, said: Mapping[str, Any]) -> list[Row]:
    text = _text(said, "compact_summary")
    if not text.strip():
        return []
    row: Row = {"kind": "summary", "role": "system", "text": text, "tags": ["compact"]}
    return [_hooked(row)]


def _ended(agent: str, said: Mapping[str, Any]) -> list[Row]:
    session, reason = text_of(said, "session_id"), text_of(said, "reason")
    if not session or reason == "resume":
        return []
    data = told({"status": "end", "reason": reason})
    return [{"kind": "session", "text": "Session ended", "data": {**data, "agent": agent}}]


_ROWS: Final[dict[str, Callable[[str, Mapping[str, Any]], list[Row]]]] = {
    "SessionStart": _begun,
    "UserPromptSubmit": _prompted,
    "PostToolUse": _used,
    "Stop": _stopped,
    "PostCompact": _compacted,
    "SessionEnd": _ended,
}


def _hooked(row: Row) -> Row:
    """Tag what the transcript will hold too: an import knows it again by that."""
    return {**row, "tags": [*row.get("tags", ()), SOURCE_TAG]}


def _text(said: Mapping[str, Any], field: str) -> str:
    value = said.get(field)
    return value if isinstance(value, str) else ""


def _answer(response: Any) -> tuple[str, str]:
    """The text of a tool's answer, and ok or error. Clients give a text, or an object of their own.

    Of an object the fields that a model is shown, one under another; others as JSON.
    """
    if isinstance(response, str):
        return response, "ok"
    if not isinstance(response, dict):
        return _shown(response), "ok"
    failed = response.get("is_error") is True or response.get("interrupted") is True
    status = "error" if failed or "error" in response else "ok"
    file = response.get("file")
    if isinstance(file, dict) and isinstance(file.get("content"), str):
        return file["content"], status
    parts = [response.get(field) for field in ("stdout", "stderr", "error", "content", "result")]
    texts = [text for part in parts if (text := _said(part))]
    return "\n".join(texts) if texts else _shown(response), status


def _said(part: Any) -> str:
    if isinstance(part, str):
        return part if part.strip() else ""
    if isinstance(part, list):
        found = (each.get("text") for each in part if isinstance(each, dict))
        return "\n".join(each for each in found if isinstance(each, str))
    return ""


def _shown(value: Any) -> str:
    if value in (None, "", [], {}):
        return ""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, ValueError):
        return "(too deep to show)"
