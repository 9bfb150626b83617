"""What a coding agent's JSON comes to: rows for the log, whatever stands in it."""

import json

import pytest
from hypothesis import given, strategies as st

from memplane import hook
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
        "compact_summary", "reason", "transcript_path", "agent_id", "error",
    ]
)  # fmt: skip
events = st.sampled_from(
    [
        "SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop",
        "PostCompact", "SessionEnd", "New",
    ]
)  # fmt: skip
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(st.dictionaries(names, values), events, st.sampled_from(hook.AGENTS))
def test_any_json_gives_rows_that_the_log_takes_and_raises_nothing(said, event, agent):
    found = hook.read_payload(agent, {**said, "hook_event_name": event})
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
        (
            {
                "filePath": "/w/a",
                "originalFile": "x\n" * 9000,
                "oldString": "x",
                "newString": "y",
                "structuredPatch": [{"oldStart": 1, "lines": [" a", "-x", "+y"]}],
            },
            " a\n-x\n+y",
            "ok",
        ),
        (
            {"type": "image", "file": {"base64": "iVBO" * 9000, "type": "image/png"}},
            '{"type":"image","file":{"type":"image/png"}}',
            "ok",
        ),
        ([{"type": "text", "text": "b"}, {"type": "image", "data": "iVBO" * 99}], "b", "ok"),
        (
            {"matches": ["m" * 50] * 99},
            '{"matches":[' + f'"{"m" * 50}",' * 37 + '"' + "m" * 26 + "…",
            "ok",
        ),
    ],
)
def test_an_answer_is_what_the_model_was_shown(response, text, status):
    call, result = hook.read_payload("claude-code", {**USED, "tool_response": response}).rows
    assert call["text"] == "Read file_path=src/a.py"
    assert (result["text"], result["data"]["status"]) == (text, status)
    assert result["data"]["path"] == "src/a.py"


def test_what_memplane_answered_is_not_recorded_again():
    said = {**USED, "tool_name": "mcp__memplane__memory_search", "tool_response": "old words"}
    assert hook.read_payload("claude-code", said).rows == ()


FAILED = {**USED, "hook_event_name": "PostToolUseFailure", "error": "Exit code 3\nboom"}


def test_a_call_that_failed_is_told_as_one_that_did_not():
    call, result = hook.read_payload("claude-code", FAILED).rows
    worked = hook.read_payload("claude-code", {**USED, "tool_response": "boom"}).rows
    assert call == worked[0]
    assert (result["text"], result["data"]["status"]) == ("Exit code 3\nboom", "error")
    assert result["id"] == worked[1]["id"]
    _, blank = hook.read_payload("claude-code", {**FAILED, "error": "", "is_interrupt": True}).rows
    assert (blank["text"], blank["data"]["status"]) == ("failed", "error")
    assert (
        hook.read_payload("claude-code", {**FAILED, "tool_name": "mcp__memplane__memory_get"}).rows
        == ()
    )


def test_what_codex_heard_of_a_command_does_not_say_whether_it_failed():
    _, result = hook.read_payload("codex", {**USED, "tool_response": "boom\n"}).rows
    assert (result["text"], result["data"].get("status")) == ("boom\n", None)
    _, result = hook.read_payload(
        "codex", {**USED, "tool_response": {"content": [], "isError": True}}
    ).rows
    assert result["data"]["status"] == "error"


TURNS = [("claude-code", "prompt_id"), ("codex", "turn_id")]


@pytest.mark.parametrize(("agent", "turn"), TURNS)
@pytest.mark.parametrize(
    ("event", "field"),
    [
        ("UserPromptSubmit", "prompt"),
        ("Stop", "last_assistant_message"),
        ("PostCompact", "compact_summary"),
    ],
)
def test_what_is_said_has_one_id_however_often_it_is_told_and_each_saying_its_own(
    agent, turn, event, field
):
    said = {"hook_event_name": event, "session_id": "s1", turn: "p1", field: "hello"}
    first, again = (hook.read_payload(agent, said).rows[0] for _ in range(2))
    others = [{turn: "p2"}, {field: "and this, while you are at it"}, {"session_id": "s2"}]
    ids = [hook.read_payload(agent, {**said, **other}).rows[0]["id"] for other in others]
    assert first == again
    assert len({first["id"], *ids}) == 4


@pytest.mark.parametrize("source", ["system", "loop_wakeup", "schedule_wakeup", "poll_event"])
def test_a_prompt_that_the_client_wrote_is_no_users_and_asks_nothing(source):
    found = hook.read_payload("claude-code", {**PROMPT, "prompt": "go on", "source": source})
    assert [(row["role"], row["tags"]) for row in found.rows] == [("system", ["meta", "hook"])]
    assert (found.asks, found.query) == ("", "")


@pytest.mark.parametrize(
    ("text", "role", "tag"),
    [
        ("<system-reminder> Always obey\n</system-reminder>", "system", "meta"),
        ("<task-notification>\n<task-id>a1</task-id>", "system", "meta"),
        ("<local-command-stdout>3 files</local-command-stdout>", "tool", "command"),
        ("[Request interrupted by user for tool use]", "system", "interrupted"),
    ],
)
def test_what_the_client_says_in_a_prompt_is_no_users_and_asks_nothing(text, role, tag):
    found = hook.read_payload("claude-code", {**PROMPT, "prompt": text, "source": "user"})
    [row] = found.rows
    assert (row["role"], row["tags"], row["text"]) == (role, [tag, "hook"], text)
    assert (found.asks, found.query) == ("", "")


def test_what_a_person_typed_is_asked_for_without_what_the_editor_added():
    text = "<ide_opened_file>The user opened a.py</ide_opened_file>\nwhich mast?"
    for source in ("user", "sdk", ""):
        found = hook.read_payload("claude-code", {**PROMPT, "prompt": text, "source": source})
        assert [(row["role"], row["text"]) for row in found.rows] == [("user", "which mast?")]
        assert (found.asks, found.query) == ("prompt", "which mast?")


@pytest.mark.parametrize(
    "text",
    [
        "/exit",
        "<system-reminder>\nmind the keel\n</system-reminder>",
        "[Request interrupted by user]",
        "<task-notification>\ndone\n</task-notification>",
        "<command-name>/clear</command-name>",
    ],
)
def test_a_prompt_that_is_nothing_but_its_clients_words_asks_nothing(text):
    for agent in hook.AGENTS:
        told = hook.read_payload(agent, {**PROMPT, "prompt": text})
        assert (told.asks, told.query) == ("", "")
        assert told.rows


def test_what_a_client_adds_to_a_prompt_is_recorded_and_not_asked_for():
    reminder = "<system-reminder>\nmind the keel\n</system-reminder>"
    told = hook.read_payload("claude-code", {**PROMPT, "prompt": f"use hemp\n{reminder}"})
    assert (told.asks, told.query) == ("prompt", "use hemp")
    assert told.rows[0]["text"].endswith(reminder)


def test_why_a_person_refused_a_call_is_his_message():
    error = "The user doesn't want to proceed with this tool use. {} the user said:\nuse a map"
    failed = {**USED, "hook_event_name": "PostToolUseFailure", "error": error}
    rows = hook.read_payload("claude-code", failed).rows
    assert [row["kind"] for row in rows] == ["tool_call", "tool_result", "message"]
    assert (rows[2]["role"], rows[2]["text"]) == ("user", "use a map")
    assert rows[2]["tags"] == ["reason", "hook"]
    assert rows[1]["data"]["rejected"] == "reason"
    assert rows[2]["id"] == "claude-code:s1:reason:toolu_1"


def test_what_a_sub_agent_of_claude_code_does_is_its_own():
    sub = {"agent_id": "a1", "agent_type": "general-purpose"}
    [order] = hook.read_payload("claude-code", {**PROMPT, **sub, "prompt": "Always look"}).rows
    assert order["role"] == "system"
    done = hook.read_payload("claude-code", {**FAILED, **sub}).rows
    end = {**PROMPT, **sub, "hook_event_name": "PostCompact", "compact_summary": "they looked"}
    [summary] = hook.read_payload("claude-code", end).rows
    for row in (order, *done, summary):
        assert (row["session"], row["actor"]) == ("s1", "a1")
        assert row["tags"][0] == "sidechain"
    main = hook.read_payload(
        "claude-code", {**FAILED, "agent_type": "reviewer"}
    ).rows  # with --agent
    assert not [row for row in main if "actor" in row or "sidechain" in row["tags"]]


def test_a_sub_agent_of_codex_is_a_session_below_the_one_that_spawned_it():
    sub = {**PROMPT, "agent_id": "t2", "agent_type": "default", "turn_id": "p1"}
    begun, order = hook.read_payload("codex", {**sub, "prompt": "Always look"}).rows
    assert (begun["id"], begun["data"]["parent"]) == ("codex:t2:start", "s1")
    assert (order["role"], order["tags"]) == ("system", ["sidechain", "hook"])
    for row in (order, *hook.read_payload("codex", {**sub, **USED, "tool_response": "x"}).rows):
        assert (row["session"], row["actor"]) == ("t2", "t2")
        assert row["id"].startswith("codex:t2:")


@pytest.mark.parametrize("agent", hook.AGENTS)
@pytest.mark.parametrize("source", ["startup", "compact", "resume"])
@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit", "PostCompact"])
def test_a_sub_agent_is_never_answered_and_what_was_shown_stays_shown(agent, source, event):
    said = {**PROMPT, "hook_event_name": event, "source": source, "prompt": "look"}
    found = hook.read_payload(agent, {**said, "agent_id": "a1"})
    assert (found.asks, found.query, found.begins, found.compacted) == ("", "", False, False)


def test_a_fork_begins_a_session_that_holds_another_one_already():
    start = {"hook_event_name": "SessionStart", "session_id": "s2", "cwd": "/w", "source": "fork"}
    forked = hook.read_payload("claude-code", start)
    assert [row["id"] for row in forked.rows] == ["claude-code:s2:start"]
    assert (forked.asks, forked.begins) == ("", False)


def test_a_compaction_is_told_by_its_summary_alone():
    said = {**PROMPT, "hook_event_name": "PostCompact"}
    text = "<analysis>Let me think.</analysis>\n\n<summary>\nThey looked at a.py\n</summary>"
    [row] = hook.read_payload("claude-code", {**said, "compact_summary": text}).rows
    assert (row["kind"], row["text"]) == ("summary", "They looked at a.py")


def test_a_session_that_goes_on_is_not_begun_again():
    start = {"hook_event_name": "SessionStart", "session_id": "s1", "cwd": "/w/project"}
    begun = hook.read_payload("codex", {**start, "source": "startup"})
    assert json.dumps(begun.rows[0]["data"]) == '{"status": "start", "folder": "project"}'
    assert (begun.begins, begun.compacted) == (True, False)
    resumed = hook.read_payload("codex", {**start, "source": "resume"})
    assert ([row["data"]["status"] for row in resumed.rows], resumed.begins) == (["resume"], False)
    compacted = hook.read_payload("codex", {**start, "source": "compact"})
    assert (compacted.rows, compacted.begins, compacted.compacted) == ((), True, True)


def test_of_a_file_that_was_written_the_call_says_all():
    written = {"type": "create", "content": "all of it", "structuredPatch": []}
    (call,) = hook.read_payload("claude-code", {**USED, "tool_response": written}).rows
    assert call["kind"] == "tool_call"


def test_what_an_editor_puts_before_a_prompt_of_codex_is_not_said_by_the_user():
    framed = "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nrun it\n"
    found = hook.read_payload("codex", {**PROMPT, "prompt": framed})
    assert [row["text"] for row in found.rows] == ["run it"]
    assert found.query == "run it"
