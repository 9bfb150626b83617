"""A session that a hook recorded and whose transcript is imported later stands in the plane once."""

import json

import pytest

import memplane
from memplane.hook import told
from memplane.importers import import_paths

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def plane(tmp_path):
    with memplane.init(tmp_path / "plane", durability="os") as plane:
        yield plane


def hooked(plane, *said):
    for one in said:
        for row in told.read("claude-code", {"session_id": "s1", "cwd": "/w", **one}).rows:
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


def imported(plane, tmp_path):
    path = tmp_path / "s1.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in TRANSCRIPT))
    return import_paths(plane, "claude-code", [path])


@pytest.mark.parametrize("source", ["startup", "resume"])
def test_only_what_no_hook_was_told_is_added(plane, tmp_path, source):
    hooked(plane, {"hook_event_name": "SessionStart", "source": source}, PROMPT, USED, STOP)
    before = texts(plane)
    report = imported(plane, tmp_path)
    assert texts(plane) == [*before, "Let me see."]
    assert report.per_file[0].repeated >= 4


def test_a_session_without_hooks_is_taken_whole(plane, tmp_path):
    hooked(plane, PROMPT, USED, STOP)  # nothing says that a hook was there from the start
    before = texts(plane)
    imported(plane, tmp_path)
    assert len(texts(plane)) == len(before) + 5


def test_what_was_forgotten_does_not_come_back(plane, tmp_path):
    start = {"hook_event_name": "SessionStart", "source": "startup"}
    hooked(plane, start, PROMPT, USED, STOP)
    said = next(event for event in plane.events() if event.text.startswith("look"))
    plane.forget(id=said.id)
    imported(plane, tmp_path)
    assert "look" not in plane.pack("look", session="s1").text
