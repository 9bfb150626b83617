"""Transcripts of Claude Code: one JSON record a line, appended while it runs.

What is taken (everything else is counted by its type, never fatal; the format is
internal to its writer and changes):

* `user` and `assistant`: one event a block of `message.content`, with the id
  `claude-code:<uuid>:<block>`. One API message is spread over several records;
  its id stays in `data.message`. `toolUseResult` repeats the content: not read.
* `attachment` with a `queued_command`: what a person typed while the agent was at work.
* `queue-operation`: the same in older versions, of which no other record has the words. What was
  taken from the queue for a record of its own is left to that one; a command and a note of the
  client's are dropped.
* The reason that a person gave in refusing a call: a message of role user behind the call's result.
* `system` with the subtype `compact_boundary`: a `session` event with status
  checkpoint; `api_error`: a message.
* `summary`: the client's name for a session, where the record that it names (`leafUuid`) is in one
  of this file: a `session` event with status title, `claude-code:title:<leaf>:<digest>`. `pr-link`:
  a `session` event that names the pull request.
* `progress` of a sub-agent (`agent_progress`): calls that change a file, and their results.
* Of what tools and replies say: a to-do list is a `task` event (`memplane.importers.plans`), an
  answered question, an accepted plan, a pick among options and the like a `decision`
  (`memplane.importers.decided`). Their ids are those of the block with `plan` or `decided` behind.
* The first record of a session that gives a row: a `session` event with status
  start, id `claude-code:<session>:start`.
* After the import, a session that has been silent for longer than the plane's gap: a
  `session` event with status end, id `claude-code:<session>:end:<last uuid>:<block>`,
  and a summary, both dated to the last event. One that goes on later ends again.

Role `user` is for what a person typed, because packs are made for the newest of
those. What the client writes under the user's name (see `rows`; a sub-agent's
orders) or in a model's place gets role `system`, the output of a local command role
`tool`. Thinking is left out unless it is asked for. Calls of memplane's own
tools and their answers are memory going and coming back: counted and not recorded again.

The same records stand in many files (a resumed or copied session), so a record
whose uuid gave rows before in this run is repeated, and costs one look-up.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, Final

from memplane.harness import rejection_reason
from memplane.importers.decided import Talk, answers_given, decision_row, plan_accepted, refused
from memplane.importers.plans import PLANNING, PlanBook, change_of
from memplane.importers.rows import (
    FILE_ARGUMENTS,
    OWN_ANSWER,
    OWN_CALL,
    REASON_TAG,
    Call,
    ReadOutcome,
    Row,
    compaction,
    name,
    own_command,
    reason_row,
    render_tool_call,
    short_text,
    spoken,
    told,
    touched,
    type_word,
)
from memplane.intake import is_own_tool
from memplane.lazy import NamedTuple, word_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SOURCE: Final = "claude-code"

_WITHOUT_MEMORY: Final = word_set("""
    api-request api-request-blob api-request-shape atis-latch attachment cost-state
    file-history-snapshot last-prompt mode pr-link progress summary tools-used
""")
_CALLS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_RESULTS: Final = frozenset({"tool_result", "mcp_tool_result"})
_OPEN_CALLS_MAX: Final = 200
_QUEUE: Final = "queue-operation"
_QUEUED_MAX: Final = 50
# Under this name the client writes answers of its own, of which no model knows.
_NO_MODEL: Final = "<synthetic>"
_NO_ANSWER: Final = "No response requested."
_TITLES_MAX: Final = 50  # of a file, whose records were not met yet
_TITLE_CHARS: Final = 200
_GIVEN_KEPT: Final = PLANNING | {"AskUserQuestion", "ExitPlanMode"}
_EDITS: Final = frozenset(FILE_ARGUMENTS) - {"Read", "NotebookRead"}
# Tags of a user's words that answer nothing the agent said.
_NO_REPLY: Final = frozenset(("command", "meta", "interrupted", "transcript-only", "reason"))


class ClaudeCode:
    """The reader of this source. `reasoning` takes thinking blocks as messages tagged so.

    `roots` gives the roots from which files of a session are named that began in a folder.
    """

    def __init__(
        self, *, reasoning: bool = False, roots: Callable[[str], tuple[str, ...]] = lambda _: ()
    ) -> None:
        self._reasoning, self._roots = reasoning, roots
        self._seen: dict[str, int] = {}  # uuid -> rows
        self._folders: dict[str, str] = {}  # session -> where it began
        self._started: set[str] = set()
        self._sessions: set[str] = set()  # the ones of this file
        self._calls: dict[str, Call] = {}
        self._open: dict[str, Call] = {}  # the ones of this file without a result
        self._ts = self._turn = ""
        self._queue: list[_QueuedMessage] = []
        self._given: list[str] = []  # digests of what waited in it at the end of the file
        self._attaches = False
        self._talk, self._plans = Talk(), PlanBook()
        self._given_to: dict[str, dict[str, Any]] = {}  # calls that plan or ask -> their arguments
        self._titles: dict[str, str] = {}  # of records that were not met yet
        self._places: dict[str, tuple[str, str]] = {}  # uuid -> session, time

    def begin(self, state: Mapping[str, Any], file: str = "") -> None:
        """Begin a file, or go on with one where `state()` was left."""
        del file  # its records say whose they are
        self._ts, self._turn = short_text(state, "ts"), short_text(state, "turn")
        self._open = {}
        calls = state.get("calls")
        for call, known in calls.items() if isinstance(calls, dict) else ():
            if (open_call := Call.of(known)) is not None:
                self._calls[call] = self._open[call] = open_call
        sessions = state.get("sessions")
        self._sessions = set()
        for session, folder in sessions.items() if isinstance(sessions, dict) else ():
            if _is_text(folder):
                self._folders.setdefault(session, folder)
                self._sessions.add(session)
        self._started |= self._sessions
        queue, given = state.get("queue"), state.get("given")
        known = queue if isinstance(queue, list) else []
        self._queue = [found for one in known if (found := _QueuedMessage.known(one)) is not None]
        self._given = [one for one in given if _is_text(one)] if isinstance(given, list) else []
        self._attaches = state.get("attaches") is True
        self._talk.begin(state.get("talk"))
        self._plans.begin(state.get("plans"))
        titles = state.get("titles")
        self._titles = {
            leaf: title
            for leaf, title in (titles.items() if isinstance(titles, dict) else ())
            if _is_text(title)
        }
        self._places = {}

    def state(self) -> dict[str, Any]:
        """Return the calls that wait for a result, the sessions met, the last time and turn.

        And what waits in the queue, what the agent said last, its to-do lists, and titles of
        records that were not met, where there is something.
        """
        waiting = list(self._open.items())[-_OPEN_CALLS_MAX:]
        queue = [list(one) for one in self._queue[-_QUEUED_MAX:]]
        queued = {"queue": queue, "given": self._given, "attaches": self._attaches}
        queued |= {"talk": self._talk.state(), "plans": self._plans.state(sorted(self._sessions))}
        queued |= {"titles": dict(list(self._titles.items())[-_TITLES_MAX:])}
        return {
            **{name: kept for name, kept in queued.items() if kept},
            "ts": self._ts,
            "turn": self._turn,
            "calls": {call: known.state() for call, known in waiting},
            "sessions": {each: self._folders.get(each, "") for each in sorted(self._sessions)},
        }

    def read(self, record: dict[str, Any], body: bytes) -> ReadOutcome:
        """Say what the record comes to; never raises, whatever it holds."""
        self._attaches = self._attaches or record.get("type") == "attachment"
        record = _with_turn(record)
        kind = short_text(record, "type")
        if kind == _QUEUE:
            return self._queued(record)
        if kind == "summary":
            return self._titled(record)
        if kind == "pr-link":
            return self._pull_request(record)
        if kind == "progress" and (step := _sub_agent_step(record)) is not None:
            return self._read("assistant" if step["type"] == "assistant" else "user", step, body)
        outcome = self._read(kind, record, body)
        outcome = self._with_title(record, outcome)
        return self._with_queued(kind, outcome) if self._queue or self._given else outcome

    def rest(self) -> ReadOutcome:
        """What still waits in the queue at the end of a file: it was typed, whatever came of it."""
        rows = self._give(self._queue)
        self._given = [*self._given, *map(_digest, rows)][-_QUEUED_MAX:]
        return ReadOutcome(tuple(rows))

    def _titled(self, record: Mapping[str, Any]) -> ReadOutcome:
        """Keep the client's title of a session until the record comes that it names."""
        leaf, title = short_text(record, "leafUuid"), short_text(record, "summary").strip()
        if not leaf or not title:
            return ReadOutcome(skipped=("record type summary",))
        if leaf in self._places:
            return ReadOutcome((self._title_row(leaf, title),))
        self._titles[leaf] = title
        return ReadOutcome(skipped=("record type summary",))

    def _with_title(self, record: Mapping[str, Any], outcome: ReadOutcome) -> ReadOutcome:
        """The outcome with the title that waited for this record."""
        uuid, session = short_text(record, "uuid"), short_text(record, "sessionId")
        if not uuid or not session:
            return outcome
        self._places[uuid] = session, self._ts
        if uuid not in self._titles or session not in self._started:
            return outcome
        row = self._title_row(uuid, self._titles.pop(uuid))
        return outcome._replace(rows=(*outcome.rows, row))

    def _title_row(self, leaf: str, title: str) -> Row:
        session, ts = self._places[leaf]
        digest = hashlib.sha256(title.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        return {
            "id": name(SOURCE, "title", leaf, digest),
            **({"ts": ts} if ts else {}),
            "session": name(session),
            "kind": "session",
            "text": title[:_TITLE_CHARS],
            "data": {"status": "title"},
        }

    def _pull_request(self, record: Mapping[str, Any]) -> ReadOutcome:
        number, session = record.get("prNumber"), short_text(record, "sessionId")
        if not isinstance(number, int) or session not in self._started:
            return ReadOutcome(skipped=("record type pr-link",))
        ts, url = short_text(record, "timestamp"), short_text(record, "prUrl")
        row: Row = {
            "id": name(SOURCE, "pr", session, str(number)),
            **({"ts": ts} if ts else {}),
            "session": name(session),
            "kind": "session",
            "text": f"Pull request #{number}",
            "data": told({"status": "note", "pull_request": f"PR #{number}", "url": url}),
        }
        return ReadOutcome((row,))

    def _queued(self, record: Mapping[str, Any]) -> ReadOutcome:
        """Follow the queue of what a person types while the agent is at work."""
        operation, words = short_text(record, "operation"), record.get("content")
        rows: list[Row] = []
        session = short_text(record, "sessionId")
        waiting = [one for one in self._queue if not one.taken and one.session == session]
        if operation == "enqueue" and isinstance(words, str):
            self._queue.append(_QueuedMessage.of(record, words))
        elif operation in {"dequeue", "remove"} and waiting:
            said = words.strip() if isinstance(words, str) else None
            one = next((each for each in waiting if each.text == said), waiting[0])
            if operation == "dequeue" or not one.text:  # a record of its own follows
                self._queue.remove(one)
            elif self._attaches:  # so may one here
                self._queue[self._queue.index(one)] = one._replace(taken=True)
            else:
                rows = self._give([one])
        elif operation == "popAll":  # a person has taken them back
            self._queue = [one for one in self._queue if one not in waiting]
        return ReadOutcome(tuple(rows), () if rows else (f"record type {_QUEUE}",))

    def _with_queued(self, kind: str, outcome: ReadOutcome) -> ReadOutcome:
        """The outcome behind the queued messages before it; one that comes twice counts once."""
        typed = [row for row in outcome.rows if row.get("role") == "user"]
        said = {_digest(row) for row in typed}
        self._queue = [one for one in self._queue if not (one.taken and one.digest in said)]
        again = [row for row in typed if _digest(row) in self._given]
        if again:
            self._given = [one for one in self._given if one not in said]
            rows = tuple(row for row in outcome.rows if row not in again)
            outcome = outcome._replace(rows=rows, repeated=outcome.repeated + len(again))
        if not typed and kind != "assistant":
            return outcome
        given = self._give([one for one in self._queue if one.taken])
        return outcome._replace(rows=(*given, *outcome.rows)) if given else outcome

    def _give(self, messages: list[_QueuedMessage]) -> list[Row]:
        """Take them from the queue as rows, if they have words and their session has begun."""
        given = [one for one in messages if one.session in self._started]
        self._queue = [one for one in self._queue if one not in given]
        given = [one for one in given if one.text]
        return [one.row() for one in given]

    def _read(self, kind: str, record: dict[str, Any], body: bytes) -> ReadOutcome:
        if kind not in {"user", "assistant", "system"}:
            known = "" if kind in _WITHOUT_MEMORY else "unknown "
            return ReadOutcome(skipped=(f"{known}record type {type_word(kind)}",))
        uuid = short_text(record, "uuid")
        if uuid in self._seen:
            return ReadOutcome(repeated=self._seen[uuid])
        ts = short_text(record, "timestamp")
        # A record without a time happened no earlier than the one before it.
        self._ts = ts or self._ts
        self._turn = short_text(record, "promptId") or self._turn
        session = short_text(record, "sessionId")
        if folder := short_text(record, "cwd"):
            self._folders.setdefault(session, folder)
        rows, skipped = [], []
        stem = uuid or hashlib.sha256(body).hexdigest()[:32]
        for made in self._parts(kind, record):
            if isinstance(made, str):
                skipped.append(made)
                continue
            block, row = made
            frame = self._frame(session, record, row.pop("tags", []))
            rows.append({"id": name(SOURCE, stem, block), **frame, **row})
        rows = list(self._with_acts(stem, session, record, rows))
        if not rows and not skipped:
            skipped.append("empty record")
        if uuid and rows:
            self._seen[uuid] = len(rows)
        if rows and session:
            self._sessions.add(session)
            if session not in self._started:
                self._started.add(session)
                rows.insert(0, self._start(session, record))
        return ReadOutcome(tuple(rows), tuple(skipped), turn=self._turn)

    def _with_acts(
        self, stem: str, session: str, record: Mapping[str, Any], rows: list[Row]
    ) -> Iterator[Row]:
        """The rows, each with what it decides or plans behind it."""
        for row in rows:
            yield row
            if record.get("isSidechain") is True or not session:
                continue
            made = self._acts(session, record, row)
            frame: Row = {one: row[one] for one in ("ts", "session") if one in row}
            block = row["id"].removeprefix(name(SOURCE, stem, ""))
            for number, act in enumerate(made):
                word = "plan" if act["kind"] == "task" else f"decided:{number}"
                named = name(SOURCE, stem, f"{block}:{word}")
                yield {"id": named, **frame, **act}

    def _acts(self, session: str, record: Mapping[str, Any], row: Row) -> list[Row]:
        """What a row decides or plans, without ids."""
        kind, role, tags = row["kind"], row.get("role"), row.get("tags", ())
        if kind == "message" and role == "assistant" and "reasoning" not in tags:
            self._talk.answered(session, row["id"], row["text"])
        elif kind == "message" and role == "user" and _NO_REPLY.isdisjoint(tags):
            return self._asked(session, record, row)
        elif kind == "message" and role == "user" and REASON_TAG in tags:
            tool, path, _ = self._calls.get(row["data"].get("call", ""), Call())
            found = refused(row["text"], f"{tool} {path}".strip())
            refs = [row["id"], row["id"].removesuffix(f":{REASON_TAG}")]
            return [] if found is None else [decision_row(found, refs)]
        elif kind == "tool_result" and row["data"].get("status") == "ok":
            return self._settled(session, record, row)
        return []

    def _asked(self, session: str, record: Mapping[str, Any], row: Row) -> list[Row]:
        """What a person's words decide: an accepted plan begins a session of its own."""
        plan = record.get("planContent")
        if isinstance(plan, str) and plan.strip():
            found = plan_accepted(plan)
            return [] if found is None else [decision_row(found, [row["id"]])]
        self._plans.asked(session, row["id"], row["text"])
        return self._talk.replied(session, row["id"], row["text"])

    def _settled(self, session: str, record: Mapping[str, Any], row: Row) -> list[Row]:
        """What a call came to that the client answered for the person, or that plans."""
        tool, call = row["data"].get("tool", ""), row["data"].get("call", "")
        answer = record.get("toolUseResult")
        if tool in PLANNING:
            given = self._given_to.pop(call, None)
            change = change_of(tool, given, answer)
            made = None if change is None else self._plans.row(session, change, call)
            return [] if made is None else [made]
        if tool == "AskUserQuestion":
            found = answers_given(self._given_to.pop(call, None), answer)
            return [decision_row(one, [row["id"]], call=call) for one in found]
        if tool == "ExitPlanMode":
            given = self._given_to.pop(call, None)
            plan = next(
                (said for one in (answer, given) if isinstance(one, dict)
                 and isinstance(said := one.get("plan"), str) and said.strip()), "",
            )  # fmt: skip
            one = plan_accepted(plan)
            return [] if one is None else [decision_row(one, [row["id"]], call=call)]
        return []

    def folder_of(self, session: str) -> str:
        """The folder in which a session of this file began, by its events; "" if unknown."""
        return next((its for one, its in self._folders.items() if one and name(one) == session), "")

    def _frame(self, session: str, record: Mapping[str, Any], tags: list[str]) -> Row:
        frame: Row = {"ts": self._ts} if self._ts else {}
        if session:
            frame["session"] = name(session)
        if record.get("isSidechain") is True:
            tags = ["sidechain", *tags]
            if agent := short_text(record, "agentId"):
                frame["actor"] = name(agent)
        return {**frame, "tags": tags} if tags else frame

    def _start(self, session: str, record: Mapping[str, Any]) -> Row:
        folder = re.split(r"[/\\]", short_text(record, "cwd").rstrip("/\\"))[-1]
        data = {"status": "start", "branch": short_text(record, "gitBranch"), "folder": folder}
        return {
            "id": name(SOURCE, session, "start"),
            **({"ts": self._ts} if self._ts else {}),
            "kind": "session",
            "session": name(session),
            # The same in every file that holds this session, or its copies would be conflicts.
            "text": "Session started",
            "data": told(data),
        }

    def _parts(self, kind: str, record: dict[str, Any]) -> Iterator[tuple[str, Row] | str]:
        """Each part that makes an event, with its block number, or the reason why it makes none."""
        if kind == "system":
            yield _system(record)
            return
        message = record.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not isinstance(blocks, list) or not blocks:
            yield "empty record"
            return
        for number, block in enumerate(blocks):
            made = self._block(kind, record, block) if isinstance(block, dict) else "unknown block"
            yield made if isinstance(made, str) else (str(number), made)
            if not isinstance(made, str) and made["kind"] == "tool_result":
                reason = rejection_reason(made["text"])
                if reason:
                    made["data"]["rejected"] = REASON_TAG
                    yield f"{number}:{REASON_TAG}", reason_row(reason, made["data"])
            yield from _images_within(block)

    def _block(self, kind: str, record: Mapping[str, Any], block: Mapping[str, Any]) -> Row | str:
        shape = short_text(block, "type")
        if shape == "text":
            text = block.get("text")
            if not isinstance(text, str) or not text.strip():
                return "empty text"
            return _from_user(record, text) if kind == "user" else _from_assistant(record, text)
        if shape == "thinking":
            return self._thinking(record, block)
        if shape in _CALLS:
            return self._call(record, block)
        if shape in _RESULTS:
            return self._result(record, block)
        known = shape in {"image", "document", "redacted_thinking"}
        return f"{'' if known else 'unknown '}block type {type_word(shape)}"

    def _thinking(self, record: Mapping[str, Any], block: Mapping[str, Any]) -> Row | str:
        text = block.get("thinking")
        if not isinstance(text, str) or not text.strip():
            return "empty text"
        if not self._reasoning:
            return "reasoning"
        row: Row = {"kind": "message", "role": "assistant", "text": text}
        if message := _message_id(record):
            row["data"] = {"message": message}
        return {**row, "tags": ["reasoning"]}

    def _call(self, record: Mapping[str, Any], block: Mapping[str, Any]) -> Row | str:
        tool, call = short_text(block, "name") or "tool", short_text(block, "id")
        given, folder = block.get("input"), short_text(record, "cwd")
        # An agent changes its folder as it goes. The text must be the same in every file that
        # holds the record; the path is to be the same in the whole session.
        home = self._folders.get(short_text(record, "sessionId"), "")
        path = touched(tool, given, (*self._roots(home), home, folder))
        if call:
            self._calls[call] = self._open[call] = Call(tool, path, own_command(tool, given))
            if tool in _GIVEN_KEPT and isinstance(given, dict):
                self._given_to[call] = given
                if len(self._given_to) > _OPEN_CALLS_MAX:
                    del self._given_to[next(iter(self._given_to))]
        if is_own_tool(tool):
            return OWN_CALL
        data = {"tool": tool, "call": call, "path": path, "branch": short_text(record, "gitBranch")}
        return {
            "kind": "tool_call",
            "role": "assistant",
            "text": render_tool_call(tool, given, folder),
            "data": told({**data, "message": _message_id(record)}),
        }

    def _result(self, record: Mapping[str, Any], block: Mapping[str, Any]) -> Row | str:
        call = short_text(block, "tool_use_id")
        tool, path, command = self._calls.get(call, Call())
        self._open.pop(call, None)
        if is_own_tool(tool):
            return OWN_ANSWER
        text = _result_text(block.get("content"))
        if not text.strip():
            return "empty text"
        status = "error" if block.get("is_error") is True else "ok"
        data = {"tool": tool, "call": call, "path": path, "status": status, "command": command}
        return {
            "kind": "tool_result",
            "role": "tool",
            "text": text,
            "data": told({**data, "branch": short_text(record, "gitBranch")}),
        }


class _QueuedMessage(NamedTuple):
    """What a person typed while the agent was at work; without a text it is no message of his.

    `taken`: from the queue, for the turn that runs.
    """

    id: str
    session: str
    ts: str
    text: str
    digest: str
    taken: bool = False

    @classmethod
    def of(cls, record: Mapping[str, Any], words: str) -> _QueuedMessage:
        """The message of a record that puts it into the queue."""
        said, ts = spoken(words), short_text(record, "timestamp")
        text = said.text.strip() if said.role == "user" and not said.tag else ""
        text = "" if text.startswith("/") else text
        named = hashlib.sha256(f"{ts}\n{words}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        row = {"text": text}
        return cls(
            name(SOURCE, "queued", named), short_text(record, "sessionId"), ts, text, _digest(row)
        )

    @classmethod
    def known(cls, kept: Any) -> _QueuedMessage | None:
        """A message from what `state` gave; None for anything else."""
        if not isinstance(kept, list) or len(kept) != len(cls._fields):
            return None
        *texts, taken = kept
        if not all(isinstance(one, str) for one in texts):
            return None
        return cls._make((*texts, taken is True))

    def row(self) -> Row:
        """The row of the message."""
        row: Row = {"id": self.id, **({"ts": self.ts} if self.ts else {})}
        row |= {"session": name(self.session), "kind": "message", "role": "user"}
        return {**row, "text": self.text, "tags": ["queued"]}


def _digest(row: Row) -> str:
    text = row["text"].strip().encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:16]


def claude_end_id(session: str, word: str, last: str) -> str:
    """Name what is added behind the last event of a session."""
    return name(SOURCE, session, word, last.removeprefix(f"{SOURCE}:"))


def claude_sessions_in(state: Mapping[str, Any]) -> list[str]:
    """The sessions of a file, by what `state()` kept of it, as their events name them."""
    known = state.get("sessions")
    return [name(session) for session in known if session] if isinstance(known, dict) else []


def _with_turn(record: dict[str, Any]) -> dict[str, Any]:
    """The record, and as one of a user what a person typed while the agent was at work."""
    said = record.get("attachment")
    if not isinstance(said, dict) or short_text(said, "type") != "queued_command":
        return record
    if short_text(said, "commandMode") != "prompt" or said.get("isMeta") is True:
        return record
    origin = said.get("origin")
    if isinstance(origin, dict) and short_text(origin, "kind") not in {"", "human"}:
        return record
    return {**record, "type": "user", "message": {"content": said.get("prompt")}}


def _sub_agent_step(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """The record of a sub-agent's step that changes a file, or holds its result.

    Clients write such steps into the transcript of the session alone, as its progress.
    """
    data = record.get("data")
    if not isinstance(data, dict) or data.get("type") != "agent_progress":
        return None
    said = data.get("message")
    message = said.get("message") if isinstance(said, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(said, dict) or not isinstance(content, list):
        return None
    edits = [one for one in content if isinstance(one, dict) and one.get("name") in _EDITS]
    if said.get("type") != "assistant" or not edits:
        return None
    return {
        "type": "assistant",
        "uuid": said.get("uuid"),
        "timestamp": said.get("timestamp"),
        "message": {**message, "content": edits} if isinstance(message, dict) else {},
        "isSidechain": True,
        "agentId": data.get("agentId"),
        **{one: record.get(one) for one in ("sessionId", "cwd", "gitBranch")},
    }


def _from_user(record: Mapping[str, Any], text: str) -> Row:
    if record.get("isCompactSummary") is True:
        bare = compaction(text) or text
        return {"kind": "summary", "role": "system", "text": bare, "tags": ["compact"]}
    said = spoken(text, short_text(record, "promptSource"))
    text, role, tags = said.text, said.role, [said.tag] if said.tag else []
    if said.tag != "command" or role != "user":
        if record.get("isMeta") is True:
            role, tags = "system", ["meta"]
        elif record.get("isVisibleInTranscriptOnly") is True:
            role, tags = "system", ["transcript-only"]
    if record.get("isSidechain") is True:
        role = "system" if role == "user" else role  # the orders of the agent above it
    data = told({"branch": short_text(record, "gitBranch")})
    row: Row = {"kind": "message", "role": role, "text": text, "data": data}
    return {**row, "tags": tags} if tags else row


def _from_assistant(record: Mapping[str, Any], text: str) -> Row | str:
    row: Row = {"kind": "message", "role": "assistant", "text": text}
    if record.get("isApiErrorMessage") is True:
        return {**row, "role": "system", "tags": ["api-error"], "data": {"status": "error"}}
    message = record.get("message")
    if isinstance(message, dict) and message.get("model") == _NO_MODEL:
        return "no answer" if text == _NO_ANSWER else {**row, "role": "system", "tags": ["meta"]}
    if named := _message_id(record):
        row["data"] = {"message": named}
    return row


def _system(record: Mapping[str, Any]) -> tuple[str, Row] | str:
    subtype, content = short_text(record, "subtype"), record.get("content")
    text = content if isinstance(content, str) and content.strip() else ""
    branch = short_text(record, "gitBranch")
    if subtype == "compact_boundary":
        data = told({"status": "checkpoint", "branch": branch})
        return "0", {"kind": "session", "text": text or "Conversation compacted", "data": data}
    if subtype == "api_error":
        error = record.get("error")
        if isinstance(error, dict):
            error = error.get("message")
        text = text or (error if isinstance(error, str) else "") or "API error"
        data = {"status": "error"}
        row = {"kind": "message", "role": "system", "text": text, "tags": ["api-error"]}
        return "0", {**row, "data": data}
    return f"record type system {type_word(subtype)}"


def _images_within(block: Any) -> Iterator[str]:
    parts = block.get("content") if isinstance(block, dict) else None
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and part.get("type") == "image":
            yield "block type image"


def _result_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (block.get("text") for block in content if isinstance(block, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def _message_id(record: Mapping[str, Any]) -> str:
    message = record.get("message")
    return short_text(message, "id") if isinstance(message, dict) else ""


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 4096
