"""Chats as arrays of messages, in the style of OpenAI or Anthropic.

A file is one array of messages, an object with `messages` (and `system`), an array of such
objects, or lines: an object with `messages` or an array each (the shape that fine-tuning takes),
or a message each, which together are one chat. Items of the Responses API may stand among the
messages (see `importers.codex`). A part of a message is an event; images and files are counted.

Nothing in such a file need have an id, so an id is `chat:<hash>:<part>`, the hash one of the
message and of those before it in its chat: the same in whatever file the chat stands, and unchanged
when the chat has grown. The session is the id of the chat (`id`, `conversation_id`,
`session_id`, `thread_id`) where it has one, else `chat/<file>/<n>-<hash of the first message>`.
A beginning that two chats share is recorded once, with the first of them. Times are taken where
messages have them; what the system says is a message of the system. Thinking is left out unless
it is asked for.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import InputError
from memplane.importers.codex import ITEMS, Calls, item_row, others_in, reasoning_of, text_parts
from memplane.importers.rows import ReadOutcome, Row, json_digest, name, short_text, type_word
from memplane.intake.check import NAME_MAX, timestamp

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SOURCE: Final = "chat"

_ROLES: Final = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_NAMES: Final = ("conversation_id", "session_id", "thread_id", "id")
_TIMES: Final = ("timestamp", "ts", "created_at", "create_time", "created")
_TOOL_USES: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_TOOL_RESULTS: Final = frozenset({"tool_result", "mcp_tool_result"})
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
_EPOCH_MAX: Final = 253_402_300_799  # the last second of the year 9999
_MILLISECONDS: Final = 10**11  # a larger number counts them


class Chat:
    """The reader of this source. `reasoning` takes thinking as messages tagged so."""

    def __init__(self, *, reasoning: bool = False) -> None:
        self._reasoning = reasoning
        self._file = ""
        self._chats = 0  # of this file, so far
        self._lines = _Talk("", "")  # the chat whose messages are the lines of this file

    def begin(self, state: Mapping[str, Any], file: str = "") -> None:
        """Begin a file, or go on with one where `state()` was left."""
        self._file = file.split(".", 1)[0] or file
        chats = state.get("chats")
        self._chats = chats if type(chats) is int else 0
        session, stem = (short_text(state, field) for field in ("session", "hash"))
        self._lines = _Talk(session, stem, Calls(state.get("calls")))

    def state(self) -> dict[str, Any]:
        """Return how many chats there were, and where the one of single lines stands."""
        lines = self._lines
        calls = lines.calls.state()
        return {"chats": self._chats, "session": lines.session, "hash": lines.hash, "calls": calls}

    def read(self, record: dict[str, Any], body: bytes) -> ReadOutcome:
        """Say what the record comes to; never raises, whatever it holds."""
        del body  # an id comes from the messages before
        messages = record.get("messages")
        if isinstance(messages, list):
            return self._chat(record, messages)
        if is_message(record):
            return self._message(self._lines, record)
        return ReadOutcome(skipped=("no message",))

    def _chat(self, record: Mapping[str, Any], messages: list[Any]) -> ReadOutcome:
        self._chats += 1
        given = next((str(record[one]) for one in _NAMES if _is_name(record.get(one))), "")
        talk = _Talk(name(given) if given else "", json_digest(given)[:32] if given else "")
        rows: list[Row] = []
        skipped: list[str] = []
        if record.get("system"):
            messages = [{"role": "system", "content": record["system"]}, *messages]
        for message in messages:
            outcome = (
                self._message(talk, message)
                if isinstance(message, dict)
                else ReadOutcome(skipped=("no message",))
            )
            rows += outcome.rows
            skipped += outcome.skipped
        return ReadOutcome(tuple(rows), tuple(skipped or ([] if rows else ["empty chat"])))

    def _message(self, talk: _Talk, message: Mapping[str, Any]) -> ReadOutcome:
        said = {key: value for key, value in message.items() if key != "cache_control"}
        if isinstance(said.get("content"), list):
            said["content"] = [_uncached(part) for part in said["content"]]
        talk.hash = json_digest(talk.hash, said)[:32]
        if not talk.session:
            number = f"{self._chats}-" if self._chats > 1 else ""
            talk.session = name(SOURCE, self._file, f"{number}{talk.hash[:8]}", joint="/")
        frame: Row = {"session": talk.session}
        if ts := _time_of(message):
            frame["ts"] = ts
        rows, skipped = [], []
        for part, made in enumerate(self._parts(talk, message)):
            if isinstance(made, str):
                skipped.append(made)
            else:
                rows.append({"id": name(SOURCE, talk.hash, str(part)), **frame, **made})
        return ReadOutcome(tuple(rows), tuple(skipped or ([] if rows else ["empty message"])))

    def _parts(self, talk: _Talk, message: Mapping[str, Any]) -> Iterator[Row | str]:
        """Each part that makes an event, or the reason why it makes none."""
        kind, role = short_text(message, "type"), _ROLES.get(short_text(message, "role"), "")
        if not role and kind in ITEMS and "role" not in message:
            yield from self._item(talk, kind, message)
            return
        if not role:
            yield f"unknown role {type_word(short_text(message, 'role'))}"
            return
        if role == "tool":
            call = short_text(message, "tool_call_id") or short_text(message, "name")
            yield from _result(talk, call, message.get("content"))
            return
        thought = message.get("reasoning_content")
        if isinstance(thought, str) and thought.strip():
            yield self._thought(thought)
        content = message.get("content")
        # A message that only calls has none.
        if content is not None and (content or not message.get("tool_calls")):
            yield from self._content(talk, role, content, message)
        if isinstance(refusal := message.get("refusal"), str) and refusal.strip():
            yield {"kind": "message", "role": role, "text": refusal}
        yield from _calls(talk, message)

    def _item(self, talk: _Talk, kind: str, item: Mapping[str, Any]) -> Iterator[Row | str]:
        if kind == "reasoning":
            yield self._thought(reasoning_of(item))
        elif kind in {"message", "agent_message"}:
            yield "unknown role (none)"
        else:
            yield item_row(item, talk.calls, ())
            yield from others_in(item.get("output"))

    def _content(
        self, talk: _Talk, role: str, content: Any, message: Mapping[str, Any]
    ) -> Iterator[Row | str]:
        speaker = short_text(message, "name").strip()
        for block in content if isinstance(content, list) else [content]:
            shape = short_text(block, "type") if isinstance(block, dict) else ""
            if shape in _TOOL_USES:
                call = {"type": "function_call", "name": block.get("name")}
                call |= {"call_id": block.get("id"), "arguments": block.get("input")}
                yield item_row(call, talk.calls, ())
            elif shape in _TOOL_RESULTS:
                output = {"content": block.get("content")}
                failed = block.get("is_error") is True
                yield from _result(talk, short_text(block, "tool_use_id"), output, failed=failed)
            elif shape in _THOUGHTS:
                thought = block.get("thinking") or block.get("text")
                yield self._thought(thought if isinstance(thought, str) else "")
            else:
                for part in text_parts(block if isinstance(block, str) else [block]):
                    row: Row = {"kind": "message", "role": role, "text": part.text}
                    if speaker and speaker.isprintable() and len(speaker) <= NAME_MAX:
                        row["actor"] = speaker
                    yield row if part.text else part.reason

    def _thought(self, text: str) -> Row | str:
        if not self._reasoning:
            return "reasoning"
        if not text.strip():
            return "empty text"
        return {"kind": "message", "role": "assistant", "text": text, "tags": ["reasoning"]}


class _Talk:
    """One chat as far as it was read."""

    def __init__(self, session: str, stem: str, calls: Calls | None = None) -> None:
        self.session, self.hash = session, stem
        self.calls = Calls() if calls is None else calls


def is_chat(record: Mapping[str, Any]) -> bool:
    """Tell an object with messages; the first one says."""
    messages = record.get("messages")
    if not isinstance(messages, list) or not messages:
        return False
    return isinstance(messages[0], dict) and is_message(messages[0])


def is_message(record: Mapping[str, Any]) -> bool:
    """Whether the record is a message, or another item of the Responses API."""
    if short_text(record, "role") in _ROLES:
        return not {"content", "tool_calls", "function_call", "refusal"}.isdisjoint(record)
    kind = short_text(record, "type")
    return kind in ITEMS and not {"call_id", "summary", "action"}.isdisjoint(record)


def _calls(talk: _Talk, message: Mapping[str, Any]) -> Iterator[Row | str]:
    given = message.get("tool_calls")
    for call in given if isinstance(given, list) else []:
        called = call.get("function", call.get("custom")) if isinstance(call, dict) else None
        if not isinstance(called, dict):
            yield "unknown tool call"
            continue
        kind = "function_call" if "function" in call else "custom_tool_call"
        yield item_row({**called, "type": kind, "call_id": call.get("id")}, talk.calls, ())
    called = message.get("function_call")
    if isinstance(called, dict):
        # Before calls had ids, a function's answer named the function.
        item = {**called, "type": "function_call", "call_id": called.get("name")}
        yield item_row(item, talk.calls, ())


def _result(talk: _Talk, call: str, output: Any, *, failed: bool = False) -> Iterator[Row | str]:
    item = {"type": "function_call_output", "call_id": call, "output": output}
    made = item_row(item, talk.calls, ())
    if failed and not isinstance(made, str):
        made["data"]["status"] = "error"
    yield made
    yield from others_in(output)


def _uncached(part: Any) -> Any:
    """A part without the mark that moves on as a chat grows."""
    if isinstance(part, dict) and "cache_control" in part:
        return {key: value for key, value in part.items() if key != "cache_control"}
    return part


def _is_name(value: Any) -> bool:
    return type(value) is int or (isinstance(value, str) and 0 < len(value) <= NAME_MAX)


def _time_of(message: Mapping[str, Any]) -> str:
    """The time of a message, where it has one that can be read."""
    for field in _TIMES:
        value = message.get(field)
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if value > _MILLISECONDS else value
            if 0 < seconds <= _EPOCH_MAX:
                return datetime.fromtimestamp(seconds, UTC).isoformat()
        if isinstance(value, str):
            try:
                return timestamp(value, where=field)
            except InputError:
                continue
    return ""
