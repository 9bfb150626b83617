"""A session that a hook recorded and whose transcript is imported later stands in the plane once."""

import json

import pytest

import memplane
from memplane import hook
from memplane.importers import import_paths

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def plane(tmp_path):
    with memplane.init(tmp_path / "plane", durability="os") as plane:
        yield plane


def hooked(plane, *said, agent="claude-code"):
    for one in said:
        for row in hook.read_payload(agent, {"session_id": "s1", "cwd": "/w", **one}).rows:
            plane.record(**row)


def record(uuid, kind, content, **more):
    return {
        "type": kind, "uuid": uuid, "sessionId": "s1", "cwd": "/w",
        "timestamp": "2026-01-05T12:00:00.000Z", "message": {"content": content}, **more,
    }  # fmt: skip


PROMPT = {"hook_event_name": "UserPromptSubmit", "prompt": f"look, {SECRET}\n", "prompt_id": "p1"}
USED = {
    "hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_use_id": "t1",
    "tool_input": {"command": "ls"}, "tool_response": {"stdout": "a.py", "stderr": "w"},
}  # fmt: skip
STOP = {"hook_event_name": "Stop", "last_assistant_message": "It is a.py"}
TRANSCRIPT = [
    record("u1", "user", f"look, {SECRET}"),
    record("u2", "assistant", [{"type": "text", "text": "Let me see."}]),
    record("u3", "assistant", [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}]),
    record("u4", "user", [{"type": "tool_result", "tool_use_id": "t1", "content": "a.py\nw"}]),
    record("u5", "assistant", [{"type": "text", "text": "It is a.py"}]),
]


def texts(plane):
    return [event.text for event in plane.events() if event.kind not in ("segment", "session")]


def imported(plane, tmp_path, records=TRANSCRIPT, agent="claude-code"):
    path = tmp_path / "s1.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    return import_paths(plane, agent, [path])


@pytest.mark.parametrize("source", ["startup", "resume", None])
def test_only_what_no_hook_was_told_is_added(plane, tmp_path, source):
    """Hooks may have been installed while the session ran."""
    start = [] if source is None else [{"hook_event_name": "SessionStart", "source": source}]
    hooked(plane, *start, PROMPT, USED, STOP)
    before = texts(plane)
    report = imported(plane, tmp_path)
    assert texts(plane) == [*before, "Let me see."]
    assert report.per_file[0].repeated >= 4


def test_a_session_that_hooks_came_to_later_is_taken_without_what_they_were_told(plane, tmp_path):
    hooked(plane, USED, STOP)
    before = texts(plane)
    imported(plane, tmp_path)
    assert texts(plane)[:-2] == before
    assert [text[:6] for text in texts(plane)[-2:]] == ["look, ", "Let me"]


def test_a_session_without_hooks_is_taken_whole(plane, tmp_path):
    others = {"session_id": "s2"}
    hooked(plane, {**PROMPT, **others}, {**USED, **others}, {**STOP, **others})
    before = texts(plane)
    imported(plane, tmp_path)
    added = texts(plane)[len(before) :]
    assert added[1:5] == ["Let me see.", "Bash", "a.py\nw", "It is a.py"]


def test_what_was_forgotten_does_not_come_back(plane, tmp_path):
    start = {"hook_event_name": "SessionStart", "source": "startup"}
    hooked(plane, start, PROMPT, USED, STOP)
    said = next(event for event in plane.events() if event.text.startswith("look"))
    plane.forget(id=said.id)
    imported(plane, tmp_path)
    assert "look" not in plane.pack("look", session="s1").text


START = {"hook_event_name": "SessionStart", "source": "startup"}
NOTICE = "<task-notification>\n<task-id>a1</task-id>\n</task-notification>"
SUMMARY = "They looked at a.py"


def prompted(text, **more):
    return {"hook_event_name": "UserPromptSubmit", "prompt": text, "prompt_id": "p1", **more}


def used(call, **more):
    given = {"tool_name": "Bash", "tool_use_id": call, "tool_input": {"command": f"make {call}"}}
    return {"hook_event_name": "PostToolUse", "tool_response": "done", **given, **more}


def called(uuid, call, text, **more):
    """A call and its result in a transcript."""
    use = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": f"make {call}"}}
    result = {"type": "tool_result", "tool_use_id": call, "content": text}
    return [
        record(f"{uuid}c", "assistant", [use], **more),
        record(f"{uuid}r", "user", [result], **more),
    ]


def test_a_call_that_failed_and_words_amid_a_turn_and_a_summary_are_known_again(plane, tmp_path):
    hooked(
        plane, START, prompted("look"), prompted("and mind the keel"),
        {**used("t1"), "hook_event_name": "PostToolUseFailure", "error": "Exit code 3\nboom"},
        {
            "hook_event_name": "PostCompact", "prompt_id": "p1",
            "compact_summary": f"<analysis>So.</analysis>\n<summary>\n{SUMMARY}\n</summary>",
        },
    )  # fmt: skip
    before = texts(plane)
    assert len(before) == 5
    told = (
        "This session is being continued from a previous conversation that ran out of context. "
        f"The summary below covers the earlier portion.\n\nSummary:\n{SUMMARY}\n\n"
        "If you need specific details from before compaction, read the transcript."
    )
    records = [
        record("u1", "user", "look"), record("u2", "user", "and mind the keel"),
        *called("u3", "t1", "Exit code 3\nboom"), record("u4", "user", told, isCompactSummary=True),
    ]  # fmt: skip
    imported(plane, tmp_path, records)
    assert texts(plane) == before


@pytest.mark.parametrize("source", ["system", ""])
def test_what_the_client_said_in_a_prompt_is_known_again(plane, tmp_path, source):
    hooked(plane, START, prompted(NOTICE, source=source))
    imported(plane, tmp_path, [record("u1", "user", NOTICE, promptSource="system")])
    assert texts(plane) == [NOTICE]
    [notice] = [event for event in plane.events() if event.text == NOTICE]
    assert (notice.role, notice.markers) == ("system", ())


def test_what_a_sub_agent_of_claude_code_did_is_known_again(plane, tmp_path):
    hooked(plane, START, prompted("look"), used("t1", agent_id="a1", agent_type="explorer"))
    side = {"isSidechain": True, "agentId": "a1"}
    imported(
        plane, tmp_path,
        [record("u1", "user", "look"), record("v1", "user", "Always look", **side),
         *called("v2", "t1", "done", **side)],
    )  # fmt: skip
    assert texts(plane) == ["look", 'Bash command="make t1"', "done", "Always look"]
    below = [event for event in plane.events() if "sidechain" in event.tags]
    assert {event.actor for event in below} == {"a1"}
    assert len(below) == 3


def test_what_a_sub_agent_of_codex_did_is_known_again(plane, tmp_path):
    sub = {"agent_id": "t2", "agent_type": "default", "turn_id": "p2"}
    order = "Always look into the cellar"
    hooked(
        plane, START, prompted("look", turn_id="p1"), prompted(order, **sub), used("t1", **sub),
        agent="codex",
    )  # fmt: skip
    before = texts(plane)
    meta = {"id": "t2", "cwd": "/w", "thread_source": "subagent", "parent_thread_id": "s1"}
    call = {"type": "function_call", "name": "exec_command", "call_id": "t1", "arguments": "{}"}
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": order}]},
        call,
        {"type": "function_call_output", "call_id": "t1", "output": "done"},
    ]
    records = [{"type": "session_meta", "payload": meta}]
    records += [{"type": "response_item", "payload": item} for item in items]
    time = "2026-01-05T12:00:00.000Z"
    imported(plane, tmp_path, [{"timestamp": time, **one} for one in records], "codex")
    assert texts(plane) == before
    assert [event.text for event in plane.events() if event.role == "user"] == ["look"]
