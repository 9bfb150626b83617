"""`memplane hook <agent>`: the command that a coding agent runs at its events.

It must never harm the agent that runs it: it reads JSON from stdin, exits with 0 whatever happens,
prints nothing but its answer, is ended by its own timer, and writes faults to `HOME/hooks.log`. It
leaves no process and no lock behind.

Here its JSON becomes rows, and it is found where the session works; `run` puts the rows into the
log or the spool, packs what the agent does not have yet, and catches up when the agent has stopped.

Claude Code and Codex send the same shape (fields that only one of them has are marked)::

    {"session_id", "transcript_path", "cwd", "hook_event_name",
     "prompt_id" | "turn_id"                                     but at starts and ends
     "agent_id"                                                  in a sub-agent
     "source"                                                    SessionStart
     "prompt", "source" (Claude Code)                            UserPromptSubmit
     "tool_name", "tool_input", "tool_response", "tool_use_id"   PostToolUse
     "error" in place of "tool_response" (Claude Code)           PostToolUseFailure
     "last_assistant_message"                                    Stop
     "compact_summary" (Claude Code)                             PostCompact
     "reason"}                                                   SessionEnd

The same payload given twice (by two installs, or again by the client) gives the same ids, and is
recorded once.

Rows are those that an import of the transcript would give. Text that no person typed has another
role than `user`, and gets no answer; nor does a prompt that is nothing but its client's words.
Prompts and acts of a sub-agent have the tag `sidechain` and the sub-agent as actor; for Codex they
are a session of their own.

Formats of other programs change weekly: a field that is missing or of another type is left out, an
unknown event gives no rows, and nothing raises.

**Where a session works** (`work_place`): the plane as it sees it, the roots of its paths, what they
say. All else here is pure: values in, rows out. The client gives its agent CLAUDE.md or AGENTS.md,
and README is at hand: a start need not say what stands there. Of the project's files only hashes of
sentences go further, without secrets; whoever writes them can have a start leave something out, and
no more.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from memplane import nofollow
from memplane.event import Event
from memplane.harness import rejection_reason, remembered
from memplane.importers.rows import (
    ASKING,
    HOOK_TAG,
    REASON_TAG,
    Row,
    Spoken,
    asked_of_codex,
    begins_decision,
    compaction,
    name,
    own_command,
    reason_row,
    render_tool_call,
    short_text,
    spoken,
    told,
    touched,
)
from memplane.intake import is_own_tool
from memplane.intake.redact import masked_name
from memplane.lazy import NamedTuple, late, late_calls, regex, word_set
from memplane.projects import (
    NOWHERE,
    UNKNOWN,
    for_folder,
    is_clients_folder,
    is_excluded,
    roots_of_folder,
    session_project,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from memplane.home import Home
    from memplane.importers import plans as importers_plans
    from memplane.importers.decided import (
        Talk,
        answers_given,
        decision_row,
        may_decide,
        plan_accepted,
        refused,
    )
    from memplane.importers.plans import PlanChange, Step
    from memplane.projections.reports import title_of
    from memplane.recall import gate
else:
    importers_plans = late("memplane.importers.plans")
    gate = late("memplane.recall.gate")
    Talk, answers_given, decision_row, may_decide, plan_accepted, refused = late_calls(
        "memplane.importers.decided",
        "Talk",
        "answers_given",
        "decision_row",
        "may_decide",
        "plan_accepted",
        "refused",
    )
    (title_of,) = late_calls("memplane.projections.reports", "title_of")


AGENTS: Final = ("claude-code", "codex")
# Where a session begins. In a fork the client holds, and goes on with, all of another one.
_BEGINS: Final = frozenset({"startup", "clear"})
_FORKS: Final = "fork"
_FORGETS: Final = "compact"
_SIDECHAIN: Final = "sidechain"


class HookPayload(NamedTuple):
    """One call of a hook.

    `asks`: "start" where the session begins or the client has dropped what it held, "prompt" where
    a person typed one, "tool" where a tool failed or worked on a file, else "". `event_id`: of that
    prompt or call. `begins`: nothing was shown to this session before, or the client holds it no
    longer. `compacted`: the client has dropped what it held of its session. `marks`:
    the row says that the session ended or went on, and is named by these words and by what came
    before it, which only the log knows: see `memplane.hook.run`. `change`: the call changed
    the agent's to-do list, of which the log knows the rest; see `completed`.
    """

    event: str
    session: str
    folder: str
    rows: tuple[Row, ...]
    asks: str = ""
    query: str = ""
    event_id: str = ""
    begins: bool = False
    compacted: bool = False
    marks: tuple[str, ...] = ()
    change: PlanChange | None = None

    @property
    def replies(self) -> bool:
        """Whether a person answers something in it, so that what was said before matters."""
        words = self.rows[-1] if self.asks == "prompt" and self.rows else None
        text = "" if words is None else words["text"]
        return begins_decision(text) and may_decide(text)


def completed(agent: str, said: HookPayload, events: Iterable[Event]) -> list[Row]:
    """The rows with those that take what the log has of the session: `events`, in log order.

    The agent's to-do list as it is now, and what a person's reply decides.
    """
    own = [
        event for event in events if event.session == said.session and _SIDECHAIN not in event.tags
    ]
    if said.change is not None:
        return [*said.rows, *_planned(agent, said, said.change, own)]
    return [*said.rows, *_replied(said, own)] if said.replies else list(said.rows)


def _planned(
    agent: str, said: HookPayload, change: PlanChange, events: Sequence[Event]
) -> Iterator[Row]:
    """The agent's to-do list as a change makes it."""
    steps: list[Step] | None = None
    asked = of = ""
    task = importers_plans.task_name(said.session)
    for event in events:
        if event.kind == "task" and event.task == task:
            steps = importers_plans.known_steps(event.data.get("plan"))
        elif event.role == "user" and event.kind == "message":
            begins = not asked or (steps is not None and importers_plans.is_done(steps))
            if begins and (title := title_of(event.text)):
                asked, of = title, event.id
    plan, call = importers_plans.changed(steps or [], change), _call_of(said.rows)
    if importers_plans.is_other(steps, plan):
        begins = steps is None or importers_plans.is_done(steps)
        row = importers_plans.plan_row(
            said.session, plan, goal=asked if begins else "", of=of, call=call
        )
        named = {"id": name(agent, said.session, "plan", call)} if call else {}
        yield {"session": said.session, **named, **_hooked(row)}


def _replied(said: HookPayload, events: Sequence[Event]) -> Iterator[Row]:
    """What the prompt decides by what the agent said before it."""
    talk, words = Talk(), said.rows[-1]
    for event in events:
        if event.kind == "message" and event.role == "assistant":
            talk.answered(said.session, event.id, event.text)
        elif event.kind == "message" and event.role == "user":
            talk = Talk()
    id_ = words.get("id", "")
    for number, row in enumerate(talk.replied(said.session, id_, words["text"])):
        refs = [one for one in row["refs"] if one]
        named = {"id": name(*id_.split(":"), "decided", str(number))} if id_ else {}
        yield {"session": said.session, **named, **_hooked({**row, "refs": refs})}


def _call_of(rows: Sequence[Row]) -> str:
    return next((call for row in rows if (call := row.get("data", {}).get("call", ""))), "")


def event_name(said: Mapping[str, Any]) -> str:
    """The client's name of what happened, "" where it says none."""
    return short_text(said, "hook_event_name")


def read_payload(agent: str, said: Mapping[str, Any], roots: tuple[str, ...] = ()) -> HookPayload:
    """Say what a hook was told by one of AGENTS.

    `roots`: files that lie in one of them are named from there, others from the folder.
    """
    said = _clean(said)
    event, sub = short_text(said, "hook_event_name"), short_text(said, "agent_id")
    session, folder = _session(agent, said), short_text(said, "cwd")
    frame: Row = {"session": name(session)} if session else {}
    made = _ROWS[event](agent, said) if event in _ROWS else []
    if roots and event in _CALLING:
        made = [_rooted(row, said, roots) for row in made]
    rows = tuple(_framed(frame, row, sub) for row in made)
    marks = (agent, session, word) if rows and (word := _mark(event, said)) else ()
    found = HookPayload(event, frame.get("session", ""), folder, rows, marks=marks)
    if sub:  # it holds what the agent above it has told it, and that is enough
        return found
    source = short_text(said, "source")
    tool = short_text(said, "tool_name")
    if event == "PostToolUse" and tool in importers_plans.PLANNING:
        change = importers_plans.change_of(tool, said.get("tool_input"), said.get("tool_response"))
        return found._replace(change=change if rows and frame else None)
    if event == "SessionStart" and source != _FORKS:
        compacted = source == _FORGETS
        begins = compacted or source in _BEGINS
        return found._replace(asks="start", begins=begins, compacted=compacted)
    if event == "UserPromptSubmit" and (query := _asked(_spoken(agent, said))):
        own = rows[-1].get("id", "") if rows else ""
        return found._replace(asks="prompt", query=query, event_id=own)
    if event in _CALLING:
        return asked_at_tool(found)
    return found


def asked_at_tool(found: HookPayload) -> HookPayload:
    """Ask about a failure, or about the file that a call worked on; not about a call without id.

    The query is what is asked about once in a session.
    """
    for row in reversed(found.rows):
        data = row.get("data", {})
        failed = row["kind"] == "tool_result" and data.get("status") == "error"
        about = data.get("path", "") if row["kind"] == "tool_call" else ""
        about = f"failed {data.get('command') or data.get('tool')}" if failed else about
        if about and row.get("id"):
            return found._replace(asks="tool", query=about, event_id=row["id"])
    return found


def _asked(words: Spoken) -> str:
    """What a person asked, without what his client put there; "" for what nobody asked."""
    if words.role != "user":
        return ""
    tags = (words.tag,) if words.tag else ()
    kept = remembered(Event(0, "", "", "", "message", role="user", text=words.text, tags=tags))
    return kept.text if kept.role == "user" else ""


def _clean(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same without secrets in identifiers, which would be refused, and the event lost.

    Sessions and sub-agents keep a masked name. What names a turn or a call is left out: masked, two
    of them would be one.
    """
    changed: dict[str, str] = {}
    for field in _WHOSE + _WHICH:
        given = short_text(said, field)
        if given and (masked := masked_name(given)) != given:
            changed[field] = masked if field in _WHOSE else ""
    return {**said, **changed} if changed else said


_WHOSE: Final = ("session_id", "agent_id")
_WHICH: Final = ("prompt_id", "turn_id", "tool_use_id")


def _mark(event: str, said: Mapping[str, Any]) -> str:
    if event == "SessionEnd":
        return "end"
    goes_on = event == "SessionStart" and short_text(said, "source") not in (*_BEGINS, _FORKS)
    return "resumed" if goes_on else ""


def _framed(frame: Row, row: Row, sub: str) -> Row:
    if not sub or row["kind"] == "session":
        return {**frame, **row}
    return {**frame, "actor": name(sub), **row, "tags": [_SIDECHAIN, *row.get("tags", ())]}


def _begun(agent: str, said: Mapping[str, Any]) -> list[Row]:
    session, source = _session(agent, said), short_text(said, "source")
    if not session or source == _FORGETS:
        return []
    if source in _BEGINS or source == _FORKS:
        return [_started(agent, said)]
    row: Row = {"kind": "session", "text": "Session resumed", "data": {"status": "resume"}}
    return [_hooked(row)]


def _started(agent: str, said: Mapping[str, Any]) -> Row:
    """That a session began, named as an import of the transcript names it."""
    folder = short_text(said, "cwd").rstrip("/\\").replace("\\", "/").rpartition("/")[2]
    session, parent = _session(agent, said), short_text(said, "session_id")
    above = parent if parent != session else ""
    data = told({"status": "start", "folder": folder, "parent": above})
    row: Row = {"kind": "session", "text": "Session started", "data": data}
    return _hooked({**row, "id": name(agent, session, "start")})


def _prompted(agent: str, said: Mapping[str, Any]) -> list[Row]:
    words = _spoken(agent, said)
    if not words.text.strip():
        return []
    row: Row = {"kind": "message", "role": words.role, "text": words.text}
    if words.tag:
        row["tags"] = [words.tag]
    # What is typed while the agent works belongs to the same turn.
    row |= _named(agent, said, "prompt", words.text)
    if _session(agent, said) == short_text(said, "session_id"):
        return [_hooked(row)]
    return [_started(agent, said), _hooked(row)]  # nothing else says that a sub-agent's begins


def _used(agent: str, said: Mapping[str, Any]) -> list[Row]:
    text, status = tool_answer(said.get("tool_response"))
    if agent == "codex" and isinstance(said.get("tool_response"), str):
        status = ""  # what a command printed, whether it failed or not
    return _called(agent, said, text, status)


def _rooted(row: Row, said: Mapping[str, Any], roots: tuple[str, ...]) -> Row:
    """The row of a call with its file named from the root that it lies in."""
    data = row.get("data", {})
    if "path" not in data:
        return row
    tool, folder = short_text(said, "tool_name") or "tool", short_text(said, "cwd")
    path = touched(tool, said.get("tool_input"), (*roots, folder))
    return {**row, "data": {**data, "path": path}}


def _failed(agent: str, said: Mapping[str, Any]) -> list[Row]:
    return _called(agent, said, _text(said, "error") or "failed", "error")


def _called(agent: str, said: Mapping[str, Any], text: str, status: str) -> list[Row]:
    """A call and what came of it."""
    tool, call = short_text(said, "tool_name") or "tool", short_text(said, "tool_use_id")
    if is_own_tool(tool):  # its answer is memory that came back
        return []
    given, folder = said.get("tool_input"), short_text(said, "cwd")
    data = told({"tool": tool, "call": call, "path": touched(tool, given, (folder,))})
    asked: Row = {
        "kind": "tool_call",
        "role": "assistant",
        "text": render_tool_call(tool, given, folder),
    }
    rows = [{**asked, "data": data}]
    if text.strip():
        answered: Row = {"kind": "tool_result", "role": "tool", "text": text}
        more = {"status": status, "command": own_command(tool, given)}
        reason = rejection_reason(text)
        more["rejected"] = REASON_TAG if reason else ""
        rows.append({**answered, "data": told({**data, **more})})
        if reason:
            rows.append(reason_row(reason, data))
    session = _session(agent, said)
    if call:
        for row, part in zip(rows, ("call", "result", REASON_TAG), strict=False):
            row["id"] = name(agent, session, part, call)
    if not short_text(said, "agent_id"):
        rows += _acts(said, tool, call, rows)
        decided = [row for row in rows if row["kind"] == "decision"]
        for number, row in enumerate(decided if call else ()):
            row["id"] = name(agent, session, "decided", call, str(number))
    return [_hooked(row) for row in rows]


def _acts(said: Mapping[str, Any], tool: str, call: str, rows: list[Row]) -> list[Row]:
    """What a call decides, as an import of the transcript says it."""
    given, answer = said.get("tool_input"), said.get("tool_response")
    failed = len(rows) > 1 and rows[1].get("data", {}).get("status") == "error"
    refs = [row["id"] for row in rows[1:] if "id" in row]
    if len(rows) > 2:
        path = rows[0].get("data", {}).get("path", "")
        found = refused(rows[2]["text"], f"{tool} {path}".strip())
        return [] if found is None else [decision_row(found, refs[::-1], call=call)]
    if failed:
        return []
    if tool in ASKING:
        return [decision_row(one, refs, call=call) for one in answers_given(given, answer)]
    if tool == "ExitPlanMode":
        plan = next((text for one in (answer, given) if (text := _plan_in(one))), "")
        accepted = plan_accepted(plan)
        return [] if accepted is None else [decision_row(accepted, refs, call=call)]
    return []


def _plan_in(given: Any) -> str:
    plan = given.get("plan") if isinstance(given, dict) else None
    return plan if isinstance(plan, str) else ""


def _stopped(agent: str, said: Mapping[str, Any]) -> list[Row]:
    text = _text(said, "last_assistant_message")
    if not text.strip():
        return []
    row: Row = {"kind": "message", "role": "assistant", "text": text}
    # A hook that holds the agent up is asked again, with the same words or with others.
    return [_hooked({**row, **_named(agent, said, "said", text)})]


def _compacted(agent: str, said: Mapping[str, Any]) -> list[Row]:
    text = _text(said, "compact_summary")
    if not text.strip():
        return []
    bare = compaction(text) or text
    row: Row = {"kind": "summary", "role": "system", "text": bare, "tags": ["compact"]}
    return [_hooked({**row, **_named(agent, said, "compact", bare)})]


def _ended(agent: str, said: Mapping[str, Any]) -> list[Row]:
    session, reason = _session(agent, said), short_text(said, "reason")
    if not session or reason == "resume":
        return []
    data = told({"status": "end", "reason": reason})
    return [{"kind": "session", "text": "Session ended", "data": {**data, "agent": agent}}]


_ROWS: Final[dict[str, Callable[[str, Mapping[str, Any]], list[Row]]]] = {
    "SessionStart": _begun,
    "UserPromptSubmit": _prompted,
    "PostToolUse": _used,
    "PostToolUseFailure": _failed,
    "Stop": _stopped,
    "PostCompact": _compacted,
    "SessionEnd": _ended,
}


_CALLING: Final = frozenset({"PostToolUse", "PostToolUseFailure"})


def _hooked(row: Row) -> Row:
    """Tag what the transcript will hold too: an import knows it again by that."""
    return {**row, "tags": [*row.get("tags", ()), HOOK_TAG]}


def _named(agent: str, said: Mapping[str, Any], part: str, text: str) -> Row:
    """The id of what was said in a turn; none where the client names no turn.

    Of what was said as little as tells it from the rest of its turn: the id outlives a purge.
    """
    turn = short_text(said, "prompt_id") or short_text(said, "turn_id")
    if not turn:
        return {}
    digest = hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).hexdigest()
    return {"id": name(agent, _session(agent, said), part, turn, digest[:8])}


def _session(agent: str, said: Mapping[str, Any]) -> str:
    """The session as its transcript names it: each sub-agent of Codex has one of its own."""
    sub = short_text(said, "agent_id") if agent == "codex" else ""
    return sub or short_text(said, "session_id")


def _spoken(agent: str, said: Mapping[str, Any]) -> Spoken:
    """A prompt, and whose words it is: the orders of a sub-agent are no user's."""
    text = _text(said, "prompt")
    words = (
        spoken(text, short_text(said, "source"))
        if agent == "claude-code"
        else Spoken(asked_of_codex(text))
    )
    ordered = words.role == "user" and short_text(said, "agent_id")
    return words._replace(role="system") if ordered else words


def _text(said: Mapping[str, Any], field: str) -> str:
    value = said.get(field)
    return value if isinstance(value, str) else ""


# What a tool answered, as a model was shown it: text. Pure.
#
# Clients hand a hook the tool's own object, not what they made of it for the model: an edit comes
# with the whole file as it was before, an image with its bytes. What a call says already, and what
# is no text, is left out; of an object that nobody knows stands a short form.

# Fields that a model is shown, one under another.
_SHOWN: Final = ("stdout", "stderr", "error", "content", "result")
_FAILED: Final = ("is_error", "isError", "interrupted")
# What an object of an unknown tool may hold and nobody reads.
_LEFT_OUT: Final = word_set("""
    originalFile originalContent structuredPatch oldString newString oldTodos newTodos base64 data
    blob signature
""")
_CHARACTERS_MAX: Final = 2_000  # of what has no text of its own
_PATCH_LINES_MAX: Final = 400
_DEPTH_MAX: Final = 20


def tool_answer(response: Any) -> tuple[str, str]:
    """The text of a tool's answer, and ok or error.

    Clients give a text, a list of blocks, or an object of their own.
    """
    if isinstance(response, str):
        return response, "ok"
    if isinstance(response, list):
        return _text_of(response) or _short(response), "ok"
    if not isinstance(response, dict):
        return _short(response), "ok"
    failed = any(response.get(field) is True for field in _FAILED)
    status = "error" if failed or "error" in response else "ok"
    file = response.get("file")
    if isinstance(file, dict) and isinstance(file.get("content"), str):
        return file["content"], status
    if "structuredPatch" in response:  # an edit, or a file that was written: the call has the rest
        return _patched(response["structuredPatch"]), status
    texts = [text for field in _SHOWN if (text := _text_of(response.get(field)))]
    return "\n".join(texts) if texts else _short(response), status


def _text_of(part: Any) -> str:
    """A text, or the text blocks of a list."""
    if isinstance(part, str):
        return part if part.strip() else ""
    if isinstance(part, list):
        blocks = (each.get("text") if isinstance(each, dict) else each for each in part)
        return "\n".join(each for each in blocks if isinstance(each, str))
    return ""


def _patched(hunks: Any) -> str:
    """The lines of a patch, as `diff -u` has them."""
    lines: list[str] = []
    for hunk in hunks if isinstance(hunks, list) else ():
        said = hunk.get("lines") if isinstance(hunk, dict) else None
        lines += [line for line in said if isinstance(line, str)] if isinstance(said, list) else []
    return "\n".join(lines[:_PATCH_LINES_MAX])


def _short(value: Any) -> str:
    kept = _without(value, _DEPTH_MAX)
    if kept in (None, "", [], {}):
        return ""
    text = json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= _CHARACTERS_MAX else f"{text[:_CHARACTERS_MAX]}…"


def _without(value: Any, depth: int) -> Any:
    """The value without what nobody reads."""
    if not depth:
        return "(too deep to show)"
    if isinstance(value, dict):
        kept = {key: _without(item, depth - 1) for key, item in value.items()}
        return {key: item for key, item in kept.items() if key not in _LEFT_OUT}
    if isinstance(value, list):
        return [_without(item, depth - 1) for item in value]
    return value


_FILES: Final = ("CLAUDE.md", "AGENTS.md", "README.md")
_LABEL: Final = regex(r"^[-+*\s\d.]*\*\*[^*]{1,60}\*\*:? ")
_MARKS_MAX: Final = 400
_FILE_BYTES: Final = 32 * 1024  # of each: what stands behind is not read


class SessionFolders(NamedTuple):
    """What a client says of where its session works.

    `launched`: where it was started, "" where it does not say; `now`: where it is at. `kept`: its
    own folder of transcripts. `session`: its id.
    """

    launched: str
    now: str
    kept: str
    session: str

    @property
    def folder(self) -> str:
        """The one that decides: a session stays in its project wherever it goes."""
        return self.launched or self.now


class WorkPlace(NamedTuple):
    """The place of a session.

    `home`: the plane, for one project where it is parted. `ns`: of what is recorded, None for the
    usual. `rows`: what says of which project the folder is, for the first time. `roots`: where
    files lie that are named from their root, the deepest first. `root`: the one that the session
    works in, "" where there is none.
    """

    home: Home
    ns: str | None
    rows: tuple[Mapping[str, Any], ...]
    roots: tuple[str, ...]
    root: str = ""


def folders_of(
    agent: str, said: Mapping[str, Any], environment: Mapping[str, str]
) -> SessionFolders:
    """Read them from the environment and the payload; what is no absolute path counts as none."""
    # `cwd` follows the agent's `cd`; this does not. Other agents may have inherited it.
    launched = environment.get("CLAUDE_PROJECT_DIR", "") if agent == "claude-code" else ""
    given = [launched, said.get("cwd"), said.get("transcript_path"), said.get("session_id")]
    launched, now, transcript, session = (one if isinstance(one, str) else "" for one in given)
    kept = os.path.dirname(transcript)  # noqa: PTH120 - a text is asked for
    if not os.path.isabs(launched):  # noqa: PTH117 - likewise
        launched = ""
    return SessionFolders(launched, now if os.path.isabs(now) else "", kept, session)  # noqa: PTH117


def work_place(home: Home, folders: SessionFolders, exclude: tuple[str, ...]) -> WorkPlace | None:
    """The place of a session; None in a folder that plane.yaml excludes."""
    found = _work_place(home, folders, exclude)
    if found is None:
        return None
    above = (one for one in found.roots if f"{folders.folder}/".startswith(f"{one}/"))
    return found._replace(root=next(above, folders.folder))


def _work_place(home: Home, folders: SessionFolders, exclude: tuple[str, ...]) -> WorkPlace | None:
    if is_excluded([one for one in (folders.launched, folders.now) if one], exclude):
        return None
    folder = folders.folder
    if not home.parted:
        return WorkPlace(home, None, (), roots_of_folder(folder))
    if not folders.launched and folders.session:
        ns = session_project(home, folders.session)
        if ns is not None:
            roots = roots_of_folder(folder)
            return WorkPlace(home._replace(project=ns, entry=()), ns, (), roots)
    kept = folders.kept if is_clients_folder(folders.kept, folder) else ""
    found, entered = for_folder(home, folder, kept=kept)
    if entered is None:
        # Nobody knows whose it is: it is shown nothing of any project, and kept for the user.
        return WorkPlace(home._replace(project=NOWHERE), UNKNOWN, (), ())
    return WorkPlace(found, found.project, entered.rows, entered.place.folders)


def project_marks(root: str, redact: Callable[[str], str]) -> tuple[str, ...]:
    """Hashes of the sentences of a root's CLAUDE.md, AGENTS.md and README.md, at most 400.

    Each also without a label in bold before it. The first 32 KiB of each file, without what
    `redact` takes out; a link, and what is no file, counts as absent.
    """
    found: dict[str, None] = {}
    for file in _FILES if root else ():
        with suppress(OSError):
            data = nofollow.read_bytes(f"{root}/{file}", _FILE_BYTES, home=root)
            text = _paragraphs(redact(data.decode("utf-8", "replace")))
            behind = "\n".join(_LABEL.sub("", line, count=1) for line in text.splitlines())
            found |= dict.fromkeys((*gate.sentence_marks(text), *gate.sentence_marks(behind)))
    return tuple(found)[:_MARKS_MAX]


def _paragraphs(text: str) -> str:
    """The text with the lines of a paragraph joined: Markdown breaks sentences anywhere."""
    lines: list[str] = []
    for line in text.splitlines():
        said = line.strip()
        if lines and lines[-1] and said[:1].isalnum() and not said[:1].isdecimal():
            lines[-1] = f"{lines[-1]} {said}"
        else:
            lines.append(said)
    return "\n".join(lines)
