"""What a coding agent's JSON comes to: rows for the log, whatever stands in it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.hook import told
from memplane.intake import Intake, Redactor

PROMPT = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "cwd": "/w"}
USED = {
    "hook_event_name": "PostToolUse",
    "session_id": "s1",
    "cwd": "/w",
    "tool_name": "Read",
    "tool_input": {"file_path": "/w/src/a.py"},
    "tool_use_id": "toolu_1",
}

names = st.sampled_from(
    [
        "hook_event_name", "session_id", "cwd", "source", "prompt", "prompt_id", "turn_id",
        "tool_name", "tool_input", "tool_response", "tool_use_id", "last_assistant_message",
        "compact_summary", "reason", "transcript_path",
    ]
)  # fmt: skip
events = st.sampled_from(
    ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "PostCompact", "SessionEnd", "New"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(st.dictionaries(names, values), events, st.sampled_from(told.AGENTS))
def test_any_json_gives_rows_that_the_log_takes_and_raises_nothing(said, event, agent):
    found = told.read(agent, {**said, "hook_event_name": event})
    intake = Intake(Redactor(()))
    for number, row in enumerate(found.rows):
        intake.prepare(row, id=f"{number:026}")


@pytest.mark.parametrize(
    ("response", "text", "status"),
    [
        ("plain", "plain", "ok"),
        ({"stdout": "out", "stderr": "err"}, "out\nerr", "ok"),
        ({"stdout": "", "stderr": "no", "interrupted": True}, "no", "error"),
        ({"type": "text", "file": {"filePath": "/w/a", "content": "x = 1\n"}}, "x = 1\n", "ok"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "image"}]}, "a", "ok"),
        ({"error": "not there"}, "not there", "error"),
        ({"filePath": "/w/a", "numLines": 3}, '{"filePath":"/w/a","numLines":3}', "ok"),
    ],
)
def test_an_answer_is_what_the_model_was_shown(response, text, status):
    call, result = told.read("claude-code", {**USED, "tool_response": response}).rows
    assert call["text"] == "Read file_path=src/a.py"
    assert (result["text"], result["data"]["status"]) == (text, status)
    assert result["data"]["path"] == "src/a.py"


def test_what_memplane_answered_is_not_recorded_again():
    said = {**USED, "tool_name": "mcp__memplane__memory_search", "tool_response": "old words"}
    assert told.read("claude-code", said).rows == ()


def test_a_prompt_has_one_id_however_often_it_is_told():
    said = {**PROMPT, "prompt": "hello", "prompt_id": "p1"}
    first, again = (told.read("claude-code", said).rows[0] for _ in range(2))
    other = told.read("claude-code", {**said, "prompt_id": "p2"}).rows[0]
    assert first["id"] == again["id"] != other["id"]


def test_a_session_that_goes_on_is_not_begun_again():
    start = {"hook_event_name": "SessionStart", "session_id": "s1", "cwd": "/w/project"}
    begun = told.read("codex", {**start, "source": "startup"})
    assert json.dumps(begun.rows[0]["data"]) == '{"status": "start", "folder": "project"}'
    assert (begun.begins, begun.compacted) == (True, False)
    resumed = told.read("codex", {**start, "source": "resume"})
    assert ([row["id"] for row in resumed.rows], resumed.begins) == (["codex:s1:resumed"], False)
    compacted = told.read("codex", {**start, "source": "compact"})
    assert (compacted.rows, compacted.begins, compacted.compacted) == ((), True, True)
