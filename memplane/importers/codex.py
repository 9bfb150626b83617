"""Rollouts of Codex, and chats as arrays of messages, which hold items of one kind.

**Rollouts**: one JSON record a line, appended while Codex runs. With an envelope, `{"timestamp",
"ordinal"?, "type", "payload"}`, what is taken is:

* `response_item`: what the model and the client exchanged (see `Calls`). `event_msg` repeats it
  for the screen and is counted by its type, as everything else is.
* `compacted`: a `session` event with status checkpoint, and its summary.
* `session_meta`: the first one names the session of the file. One that names another session
  begins a part that a fork copied from it.
* Of what calls and replies say: `update_plan` is a `task` event (`memplane.importers.plans`), a
  pick among options and the like a `decision` (`memplane.importers.decided`).
* `turn_context`: only the folder, for the paths of later calls, and the turn's id.

Older rollouts have no envelope: a header (`id`, `timestamp`, `git`), then the items, which
happened no earlier than the header. Files of the first months hold `{"session", "items"}`.

Items have no id of their own, so an id is `codex:<session>:<hash>:<part>`, the hash one of the
item and of those before it: a copy has the id of the original, whatever file it stands in, and
the same words said again have another.

Role `user` is for what a person typed. What the client puts into the user's mouth (AGENTS.md,
the environment, skills, notes about sub-agents) is not recorded, nor are messages of the
developer, which hold the context that hooks gave: both are counted. Newer rollouts say which parts
a person typed (`content_item_kinds`); in others the beginning of the part decides. A note of an
interruption has role `system`; a command that the user ran, and a sub-agent's orders, are no
user's words either. Reasoning is left out unless it is asked for.

**Chats** in the style of OpenAI or Anthropic. A file is one array of messages, an object with
`messages` (and `system`), an array of such objects, or lines: an object with `messages` or an array
each (the shape that fine-tuning takes), or a message each, which together are one chat. Items of
the Responses API may stand among the messages (see `Calls`). A part of a message is an event;
images and files are counted.

Nothing in such a file need have an id, so an id is `chat:<hash>:<part>`, the hash one of the
message and of those before it in its chat: the same in whatever file the chat stands, and unchanged
when the chat has grown. The session is the id of the chat (`id`, `conversation_id`,
`session_id`, `thread_id`) where it has one, else `chat/<file>/<n>-<hash of the first message>`.
A beginning that two chats share is recorded once, with the first of them. Times are taken where
messages have them; what the system says is a message of the system. Thinking is left out unless
it is asked for.
"""

from __future__ import annotations

import json
import re
import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import InputError
from memplane.importers.decided import Talk, answers_given, decision_row
from memplane.importers.plans import PLANNING, PlanBook, change_of
from memplane.importers.rows import (
    ASKING,
    OWN_ANSWER,
    OWN_CALL,
    Call,
    ReadOutcome,
    Row,
    asked_of_codex,
    below,
    compaction,
    json_digest,
    name,
    own_command,
    render_tool_call,
    short_text,
    told,
    touched,
    type_word,
)
from memplane.intake import NAME_MAX, is_own_tool, timestamp
from memplane.lazy import NamedTuple, word_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


SOURCE: Final = "codex"
CHAT: Final = "chat"  # the source of chats
_ASKED_MAX: Final = 4  # questions that wait
_ASKED_CHARS_MAX: Final = 8_000

_WITHOUT_MEMORY: Final = word_set("""
    inter_agent_communication_metadata realtime_item retained_context security_risk_score
    session_meta session_state state token_usage_record turn_context world_state
""")
# The types of records in an envelope.
_RECORDS: Final = frozenset(
    {"response_item", "event_msg", "compacted", "inter_agent_communication", *_WITHOUT_MEMORY}
)
# An item is the same with or without them: they differ between versions, and in copies.
_VOLATILE: Final = word_set("""
    id status phase end_turn metadata encrypted_content internal_chat_message_metadata_passthrough
""")
# How a text begins that the client wrote under the user's name, and that is not taken.
_CLIENT_TEXT: Final = re.compile(
    r"\s*(?:"
    r"<(environment_context|user_instructions|INSTRUCTIONS|permissions[ _]instructions"
    r"|collaboration_mode|personality_spec|skill|skills_instructions|apps_instructions|plugins"
    r"|plugins_instructions|recommended_plugins|model_switch|token_budget|goal_context"
    r"|codex_internal_context|subagent_notification|hook_prompt|hook_context"
    r"|realtime_conversation|additional_context|extension_context)\b"
    r"|(# AGENTS\.md instructions)\b"
    r"|(Another language model started to solve this problem)\b)",
    re.IGNORECASE,
)
# Those that say something of the talk: role, tag.
_MARKED_TEXTS: Final = (
    ("<user_shell_command>", "tool", "command"),
    ("<turn_aborted>", "system", "interrupted"),
)

# Of chats: roles, and the names of fields and parts.
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


class Codex:
    """The reader of this source. `reasoning` takes reasoning items as messages tagged so.

    `roots` gives the roots from which files of a session are named that began in a folder.
    """

    def __init__(
        self, *, reasoning: bool = False, roots: Callable[[str], tuple[str, ...]] = lambda _: ()
    ) -> None:
        self._reasoning, self._roots = reasoning, roots
        self._started: set[str] = set()
        self._file: dict[str, str] = {}
        self._sidechain = False
        self._calls = Calls()
        self._talk, self._plans = Talk(), PlanBook()
        self._asked: dict[str, Any] = {}  # the arguments of questions that wait for an answer

    def folder_of(self, session: str) -> str:
        """Where the session of this file began."""
        del session
        return self._of("home")

    def _where(self) -> tuple[str, ...]:
        home = self._of("home")
        return (*self._roots(home), home, self._of("folder"))

    def begin(self, state: Mapping[str, Any], file: str = "") -> None:
        """Begin a file, or go on with one where `state()` was left."""
        del file  # its records say whose they are
        kept = state.get("file")
        self._file = {
            key: value
            for key, value in (kept.items() if isinstance(kept, dict) else ())
            if isinstance(value, str)
        }
        self._sidechain = state.get("sidechain") is True
        self._calls = Calls(state.get("calls"))
        self._talk.begin(state.get("talk"))
        self._plans.begin(state.get("plans"))
        asked = state.get("asked")
        self._asked = dict(asked) if isinstance(asked, dict) else {}
        if state.get("started") is True:
            self._started.add(self._of("session"))

    def state(self) -> dict[str, Any]:
        """Return the session, where the hash stands, and the calls that wait for an output.

        And what the agent said last, planned and asks, where there is something.
        """
        session = self._of("session")
        kept = {"talk": self._talk.state(), "plans": self._plans.state([session])}
        kept["asked"] = self._asked
        return {
            **{name: what for name, what in kept.items() if what},
            "file": self._file,
            "sidechain": self._sidechain,
            "started": self._of("session") in self._started,
            "calls": self._calls.state(),
        }

    def read(self, record: dict[str, Any], body: bytes) -> ReadOutcome:
        """Say what the record comes to; never raises, whatever it holds."""
        del body  # an id comes from the items before
        kind, payload = short_text(record, "type"), record.get("payload")
        if ts := short_text(record, "timestamp"):
            self._file["ts"] = ts
        if isinstance(payload, dict):
            return self._enveloped(kind, payload)
        if kind in ITEMS and "payload" not in record:
            return self._item(record)
        if _is_header(record):
            self._meta(record)
            return ReadOutcome(skipped=("record type session_meta",))
        if _is_rollout(record):
            return self._rollout(record["session"], record["items"])
        return ReadOutcome(skipped=(_unknown(kind or short_text(record, "record_type")),))

    def _rollout(self, session: dict[str, Any], items: list[Any]) -> ReadOutcome:
        self._meta(session)
        rows: list[Row] = []
        skipped = ["record type session_meta"]
        for item in items:
            outcome = self._item(item if isinstance(item, dict) else {})
            rows += outcome.rows
            skipped += outcome.skipped
        return ReadOutcome(tuple(rows), tuple(skipped))

    def _enveloped(self, kind: str, payload: dict[str, Any]) -> ReadOutcome:
        if kind == "response_item":
            return self._item(payload)
        if kind == "compacted":
            return self._compacted(payload)
        if kind == "inter_agent_communication":
            return self._item({**payload, "type": "agent_message"})
        if kind == "event_msg":
            return ReadOutcome(skipped=(f"event_msg {type_word(short_text(payload, 'type'))}",))
        if kind == "session_meta":
            self._meta(payload)
        if kind == "turn_context":
            named = told(
                {"folder": short_text(payload, "cwd"), "turn": short_text(payload, "turn_id")}
            )
            self._file |= named
        return ReadOutcome(skipped=(_unknown(kind),))

    def _of(self, field: str) -> str:
        return self._file.get(field, "")

    def _meta(self, meta: Mapping[str, Any]) -> None:
        """Take the session of the file from the first one; a later one of another is a copy's."""
        session = short_text(meta, "id") or short_text(meta, "session_id")
        if ts := short_text(meta, "timestamp"):
            self._file.setdefault("ts", ts)
        if "session" not in self._file:
            git, source = meta.get("git"), meta.get("source")
            spawned = source.get("subagent") if isinstance(source, dict) else None
            if isinstance(spawned, dict) and isinstance(spawned.get("thread_spawn"), dict):
                spawned = spawned["thread_spawn"]
            parent = spawned if isinstance(spawned, dict) else {}
            self._sidechain = spawned is not None or meta.get("thread_source") == "subagent"
            named = short_text(meta, "agent_nickname") or short_text(parent, "agent_nickname")
            folder = short_text(meta, "cwd")
            self._file |= told(
                {
                    "home": folder,
                    "folder": folder,
                    "branch": short_text(git, "branch") if isinstance(git, dict) else "",
                    "parent": short_text(parent, "parent_thread_id")
                    or short_text(meta, "parent_thread_id")
                    or short_text(meta, "forked_from_id"),
                    "agent": (named or session) if self._sidechain else "",
                }
            )
            self._file["session"] = session
        if session != self._of("of"):
            # Written again in its own file, when the session is resumed, it changes nothing.
            self._file["of"], self._file["hash"] = session, ""

    def _item(self, item: Mapping[str, Any]) -> ReadOutcome:
        kind = short_text(item, "type")
        made = list(self._parts(kind, item))
        content = {key: value for key, value in item.items() if key not in _VOLATILE}
        stem = json_digest(self._of("hash"), content)[:32]
        rows = [
            {"id": name(SOURCE, self._of("of"), stem, str(part)), **self._frame(row), **row}
            for part, row in enumerate(made)
            if not isinstance(row, str)
        ]
        rows = list(self._with_acts(item, rows))
        if (rows or OWN_CALL in made) and kind != "reasoning":
            # What is left out of some imports, or of some copies, does not name what follows.
            self._file["hash"] = stem
        skipped = tuple(one for one in made if isinstance(one, str))
        return ReadOutcome((*self._start(rows), *rows), skipped, turn=self._of("turn"))

    def _with_acts(self, item: Mapping[str, Any], rows: list[Row]) -> Iterator[Row]:
        """The rows, each with what it decides or plans behind it."""
        session = self._of("session")
        for row in rows:
            yield row
            if self._sidechain or not session:
                continue
            frame: Row = {one: row[one] for one in ("ts", "session") if one in row}
            for number, act in enumerate(self._acts(session, item, row)):
                word = "plan" if act["kind"] == "task" else f"decided:{number}"
                yield {"id": f"{row['id']}:{word}", **frame, **act}

    def _acts(self, session: str, item: Mapping[str, Any], row: Row) -> list[Row]:
        kind, role, tags = row["kind"], row.get("role"), row.get("tags", ())
        if kind == "message" and role == "assistant" and "reasoning" not in tags:
            self._talk.answered(session, row["id"], row["text"])
        elif kind == "message" and role == "user":
            self._plans.asked(session, row["id"], row["text"])
            return self._talk.replied(session, row["id"], row["text"])
        elif kind == "tool_call" and row.get("data", {}).get("tool") in PLANNING:
            change = change_of(row["data"]["tool"], _arguments(short_text(item, "type"), item))
            call = row["data"].get("call", "")
            made = None if change is None else self._plans.row(session, change, call)
            return [] if made is None else [made]
        elif kind == "tool_call" and row.get("data", {}).get("tool") in ASKING:
            self._ask(row["data"].get("call", ""), _arguments(short_text(item, "type"), item))
        elif kind == "tool_result" and row.get("data", {}).get("tool") in ASKING:
            call = row["data"].get("call", "")
            decided = answers_given(self._asked.pop(call, None), row["text"])
            return [decision_row(one, [row["id"]], call=call) for one in decided]
        return []

    def _ask(self, call: str, given: Any) -> None:
        """Note what a person is asked, in a bounded form, until the answer comes."""
        if call and len(json.dumps(given)) <= _ASKED_CHARS_MAX:
            self._asked[call] = given
            if len(self._asked) > _ASKED_MAX:
                del self._asked[next(iter(self._asked))]

    def _compacted(self, payload: Mapping[str, Any]) -> ReadOutcome:
        text = payload.get("message")
        stem = json_digest(self._of("hash"), "compacted", text if isinstance(text, str) else "")[
            :32
        ]
        self._file["hash"] = stem
        checkpoint = told({"status": "checkpoint", "branch": self._of("branch")})
        made: list[Row] = [
            {"kind": "session", "text": "Conversation compacted", "data": checkpoint}
        ]
        if isinstance(text, str) and text.strip():
            bare = compaction(text) or text
            made.append({"kind": "summary", "role": "system", "text": bare, "tags": ["compact"]})
        rows = [
            {"id": name(SOURCE, self._of("of"), stem, str(part)), **self._frame(row), **row}
            for part, row in enumerate(made)
        ]
        return ReadOutcome((*self._start(rows), *rows), turn=self._of("turn"))

    def _frame(self, row: Row) -> Row:
        """Time, session and who, put on in place of a row's own tags and branch."""
        frame: Row = {"ts": self._of("ts")} if self._of("ts") else {}
        if session := self._of("session"):
            frame["session"] = name(session)
        if self._sidechain:
            frame["actor"] = name(self._of("agent")) if self._of("agent") else None
            row["tags"] = list(dict.fromkeys(["sidechain", *row.get("tags", [])]))
        branch = self._of("branch")
        if branch and (row["kind"].startswith("tool") or row.get("role") == "user"):
            row["data"] = {**row.get("data", {}), "branch": branch}
        return {key: value for key, value in frame.items() if value is not None}

    def _start(self, rows: list[Row]) -> Iterator[Row]:
        session = self._of("session")
        if not rows or not session or session in self._started:
            return
        self._started.add(session)
        folder = re.split(r"[/\\]", self._of("home").rstrip("/\\"))[-1]
        data = {"branch": self._of("branch"), "folder": folder, "parent": self._of("parent")}
        yield {
            "id": name(SOURCE, session, "start"),
            **({"ts": rows[0]["ts"]} if "ts" in rows[0] else {}),
            "kind": "session",
            "session": name(session),
            "text": "Session started",
            "data": told({"status": "start", **data}),
        }

    def _parts(self, kind: str, item: Mapping[str, Any]) -> Iterator[Row | str]:
        """Each part that makes an event, or the reason why it makes none."""
        if kind in {"message", "agent_message"}:
            origins = _origins(item)
            for number, part in enumerate(text_parts(item.get("content"))):
                origin = origins[number] if number < len(origins) else ""
                yield self._said(kind, item, part.text, origin) if part.text else part.reason
        elif kind == "reasoning":
            yield self._thought(item)
        else:
            yield item_row(item, self._calls, self._where())
            yield from others_in(item.get("output"))

    def _said(self, kind: str, item: Mapping[str, Any], text: str, origin: str) -> Row | str:
        role = short_text(item, "role")
        if kind == "agent_message":
            row: Row = {"kind": "message", "role": "system", "text": text, "tags": ["sidechain"]}
            author = short_text(item, "author")
            return {**row, "actor": name(author)} if author else row
        if role == "assistant":
            return {"kind": "message", "role": "assistant", "text": text}
        if role != "user":
            return f"message of role {type_word(role)}"
        if client := _client_text(text, origin):
            return f"client text {type_word(client)}"
        for beginning, its_role, tag in _MARKED_TEXTS:
            if text.lstrip().startswith(beginning):
                return {"kind": "message", "role": its_role, "text": text, "tags": [tag]}
        text = asked_of_codex(text)
        # The orders of a sub-agent come from the agent above it.
        return {"kind": "message", "role": "system" if self._sidechain else "user", "text": text}

    def _thought(self, item: Mapping[str, Any]) -> Row | str:
        if not self._reasoning:
            return "reasoning"
        text = reasoning_of(item)
        if not text:
            return "empty text"
        return {"kind": "message", "role": "assistant", "text": text, "tags": ["reasoning"]}


def is_record(record: Mapping[str, Any]) -> bool:
    """Whether it is a record of a rollout; items without envelope may be of any client."""
    if isinstance(record.get("payload"), dict):
        return short_text(record, "type") in _RECORDS
    return _is_header(record) or _is_rollout(record) or record.get("record_type") == "state"


def _is_header(record: Mapping[str, Any]) -> bool:
    if "type" in record or "payload" in record or "record_type" in record:
        return False
    named = bool(short_text(record, "id")) and bool(short_text(record, "timestamp"))
    return named and ("instructions" in record or "git" in record)


def _is_rollout(record: Mapping[str, Any]) -> bool:
    session = record.get("session")
    return isinstance(session, dict) and "id" in session and isinstance(record.get("items"), list)


def codex_end_id(session: str, said: str, last: str) -> str:
    """Name what is added behind the last event of a session."""
    return name(SOURCE, session, said, last.removeprefix(f"{SOURCE}:"))


def codex_sessions_in(state: Mapping[str, Any]) -> list[str]:
    """The session of a file, by what `state()` kept of it, as its events name it."""
    kept = state.get("file")
    session = kept.get("session") if isinstance(kept, dict) else None
    return [name(session)] if isinstance(session, str) and session else []


def _origins(item: Mapping[str, Any]) -> list[str]:
    """What newer rollouts say of each part: `user.text`, or what of the client it is."""
    said = item.get("internal_chat_message_metadata_passthrough")
    kinds = said.get("content_item_kinds") if isinstance(said, dict) else None
    return [one if isinstance(one, str) else "" for one in kinds] if isinstance(kinds, list) else []


def _client_text(text: str, origin: str) -> str:
    """Which text of the client it is; "" for what a person typed and marks of the talk."""
    if origin.startswith("user."):
        return ""
    if found := _CLIENT_TEXT.match(text):
        tag = found[1]
        return tag.lower() if isinstance(tag, str) else "agents.md" if found[2] else "summary"
    marked = any(text.lstrip().startswith(beginning) for beginning, _, _ in _MARKED_TEXTS)
    return "" if marked or origin in {"", "unknown"} else origin


def _unknown(kind: str) -> str:
    return f"{'' if kind in _RECORDS else 'unknown '}record type {type_word(kind)}"


# Items that a model and its client exchange, as the Responses API writes them: rows or reasons.
#
# Codex keeps them in its rollouts, and chat files may hold them. `message` items have content
# parts; calls name a tool, outputs answer the call with their `call_id`. Arguments are JSON in a
# string; a shell's argv reads as the command that it is. The file of a patch is the first that it
# names. What memplane's own tools answered is memory coming back: it is not recorded again.

# Tools of the item types whose calls name none.
_TOOLS: Final = {"local_shell_call": "local_shell", "web_search_call": "web_search"}
_CALLS: Final = frozenset({"function_call", "custom_tool_call", *_TOOLS})
_OUTPUTS: Final = frozenset(
    {"function_call_output", "custom_tool_call_output", "local_shell_call_output"}
)
_ITEM_WITHOUT_MEMORY: Final = word_set("""
    additional_tools compaction compaction_summary compaction_trigger configuration_update
    context_compaction file_search_call ghost_snapshot image_generation_call item_reference
    mcp_list_tools other tool_search_call tool_search_output
""")
ITEMS: Final = frozenset(
    {"message", "reasoning", "agent_message", *_CALLS, *_OUTPUTS, *_ITEM_WITHOUT_MEMORY}
)
_TEXTS: Final = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text"})
_MEDIA: Final = frozenset(
    {"input_image", "image_url", "image", "input_file", "file", "input_audio", "audio", "document"}
)
_SHELLS: Final = frozenset({"bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/bin/zsh"})
_PATCHED: Final = re.compile(r"(?m)^\*\*\* (?:Add|Update|Delete) File: (.{1,4096})$")
_HEAD_OF_OUTPUT: Final = 400
_EXIT: Final = re.compile(r"(?m)^(?:Exit code:|Process exited with code) (-?\d+)\s*$")
_OPEN_CALLS_MAX: Final = 200


class Calls:
    """The calls that wait for an output, the newest 200."""

    def __init__(self, known: Any = None) -> None:
        self._open: dict[str, Call] = {}
        for call, named in known.items() if isinstance(known, dict) else ():
            if (found := Call.of(named)) is not None:
                self._open[call] = found

    def add(self, call: str, named: Call) -> None:
        """Note a call; without an id nothing can answer it."""
        if call:
            self._open[call] = named
            if len(self._open) > _OPEN_CALLS_MAX:
                del self._open[next(iter(self._open))]

    def take(self, call: str) -> Call:
        """Return the call, which waits no longer; one of nothing where it is not known."""
        return self._open.pop(call, Call())

    def state(self) -> dict[str, list[str]]:
        """Return what the constructor takes."""
        return {call: named.state() for call, named in self._open.items()}


class MessagePart(NamedTuple):
    """A text of a message, or the reason why it has none."""

    text: str
    reason: str


def item_row(item: Mapping[str, Any], calls: Calls, folders: tuple[str, ...]) -> Row | str:
    """The row of an item that is no message and no reasoning, or the reason why it makes none."""
    kind = short_text(item, "type")
    if kind in _CALLS:
        return _call(kind, item, calls, folders)
    if kind in _OUTPUTS:
        return _output(item, calls)
    return f"{'' if kind in ITEMS else 'unknown '}item type {type_word(kind)}"


def text_parts(content: Any) -> Iterator[MessagePart]:
    """The texts of a message's content, in order, and what stands between them."""
    if isinstance(content, str):
        yield MessagePart(content, "") if content.strip() else MessagePart("", "empty text")
        return
    if not isinstance(content, list) or not content:
        yield MessagePart("", "empty message")
        return
    for part in content:
        if isinstance(part, str):
            yield MessagePart(part, "") if part.strip() else MessagePart("", "empty text")
            continue
        shape = short_text(part, "type") if isinstance(part, dict) else ""
        text = part.get("text") if shape in _TEXTS else None
        if shape == "refusal":
            text = part.get("refusal")
        if isinstance(text, str) and text.strip():
            yield MessagePart(text, "")
        elif shape in _TEXTS or shape == "refusal":
            yield MessagePart("", "empty text")
        else:
            yield MessagePart(
                "", f"{'' if shape in _MEDIA else 'unknown '}part type {type_word(shape)}"
            )


def others_in(output: Any) -> Iterator[str]:
    """Why parts of a tool's answer make no event: images and the like; not those without text."""
    parts = output.get("content") if isinstance(output, dict) else output
    for part in text_parts(parts) if isinstance(parts, list) and parts else ():
        if part.reason and part.reason != "empty text":
            yield part.reason


def reasoning_of(item: Mapping[str, Any]) -> str:
    """What a reasoning item says: its content, else its summary; "" where it is encrypted."""
    for field in ("content", "summary"):
        said = [part.text for part in text_parts(item.get(field)) if part.text]
        if said:
            return "\n".join(said)
    return ""


def _call(kind: str, item: Mapping[str, Any], calls: Calls, folders: tuple[str, ...]) -> Row | str:
    tool = short_text(item, "name") or _TOOLS.get(kind, "tool")
    if space := short_text(item, "namespace").rstrip("_"):
        tool = f"{space}__{tool}"
    call = short_text(item, "call_id") or (short_text(item, "id") if kind in _TOOLS else "")
    given = _arguments(kind, item)
    folder = folders[-1] if folders else ""
    path = touched(tool, given, folders) or _patched(given, folders)
    calls.add(call, Call(tool, path, own_command(tool, given)))
    if is_own_tool(tool):
        return OWN_CALL
    text = (
        f"{tool}\n{given}"
        if isinstance(given, str) and given
        else render_tool_call(tool, given, folder)
    )
    data = {"tool": tool, "call": call, "path": path}
    return {"kind": "tool_call", "role": "assistant", "text": text, "data": told(data)}


def _arguments(kind: str, item: Mapping[str, Any]) -> Any:
    """The arguments as an object where they are one, else as they stand."""
    given = item.get("arguments" if kind == "function_call" else "input")
    if kind in _TOOLS:
        action = item.get("action")
        given = {k: v for k, v in action.items() if k != "type"} if isinstance(action, dict) else {}
    if isinstance(given, str) and kind == "function_call":
        try:
            read = json.loads(given)
        except (ValueError, RecursionError):
            read = None
        given = read if isinstance(read, dict) else given
    if isinstance(given, dict):
        given = {key: value for key, value in given.items() if value is not None}
        for key in ("command", "cmd"):
            if (command := _command(given.get(key))) is not None:
                given[key] = command
    return given


def _command(argv: Any) -> str | None:
    """The command line of an argv; what a shell was given to run stands for itself."""
    if not isinstance(argv, list) or not argv or not all(isinstance(one, str) for one in argv):
        return None
    if len(argv) == 3 and argv[0] in _SHELLS and argv[1] in {"-lc", "-c"}:
        return str(argv[2])
    if len(argv) == 2 and "*** Begin Patch" in argv[1]:
        return "\n".join(argv)
    return shlex.join(argv)


def _patched(given: Any, folders: tuple[str, ...]) -> str:
    texts = given.values() if isinstance(given, dict) else (given,)
    for text in texts:
        if isinstance(text, str) and "*** Begin Patch" in text and (found := _PATCHED.search(text)):
            path = found[1].strip()
            return next((s for folder in folders if (s := below(path, folder)) != path), path)
    return ""


def _output(item: Mapping[str, Any], calls: Calls) -> Row | str:
    call = short_text(item, "call_id")
    tool, path, command = calls.take(call)
    if is_own_tool(tool):
        return OWN_ANSWER
    text, failed = _output_text(item.get("output"))
    if not text.strip():
        return "empty text"
    status = "error" if failed else "ok"
    data = {"tool": tool, "call": call, "path": path, "status": status, "command": command}
    return {"kind": "tool_result", "role": "tool", "text": text, "data": told(data)}


def _output_text(output: Any) -> tuple[str, bool]:
    """The answer of a tool, and whether it failed, if the output says so."""
    failed = False
    if isinstance(output, dict):
        failed = output.get("success") is False
        output = output.get("content", output.get("output"))
    if isinstance(output, list):
        text = "\n".join(part.text for part in text_parts(output) if part.text)
        return text, failed
    if not isinstance(output, str):
        return "", failed
    code: Any = None
    if output.startswith('{"'):
        # The shell of 2025 answered in JSON: {"output": …, "metadata": {"exit_code": 0, …}}.
        try:
            read = json.loads(output)
        except (ValueError, RecursionError):
            read = None
        if isinstance(read, dict) and isinstance(read.get("output"), str) and "metadata" in read:
            output, metadata = read["output"], read["metadata"]
            code = metadata.get("exit_code") if isinstance(metadata, dict) else None
    elif found := _EXIT.search(output[:_HEAD_OF_OUTPUT]):
        code = int(found[1]) if len(found[1]) < 12 else 1
    return output, failed or (isinstance(code, int) and code != 0)


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
            talk.session = name(CHAT, self._file, f"{number}{talk.hash[:8]}", joint="/")
        frame: Row = {"session": talk.session}
        if ts := _time_of(message):
            frame["ts"] = ts
        rows, skipped = [], []
        for part, made in enumerate(self._parts(talk, message)):
            if isinstance(made, str):
                skipped.append(made)
            else:
                rows.append({"id": name(CHAT, talk.hash, str(part)), **frame, **made})
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
