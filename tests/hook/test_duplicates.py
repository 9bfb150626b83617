"""Hooks installed twice, or told again by the client: a session is recorded once, whatever it says."""

import pytest
from checks_calls import asked, events_of, said, told

BASH = {"tool_name": "Bash", "tool_input": {"command": "make"}}
COMPACTED = "PostCompact", {"compact_summary": "they looked at a.py"}
SESSION = [
    ("SessionStart", {"source": "startup"}),
    ("UserPromptSubmit", {"prompt": "look"}),
    ("UserPromptSubmit", {"prompt": "and mind the keel"}),  # while the agent is at work
    ("PostToolUse", {**BASH, "tool_use_id": "t1", "tool_response": "done"}),
    ("PostToolUseFailure", {**BASH, "tool_use_id": "t2", "error": "Exit code 2"}),
    ("Stop", {"last_assistant_message": "there is a.py"}),
    COMPACTED,
    ("SessionEnd", {"reason": "other"}),
    ("SessionStart", {"source": "resume"}),
    ("UserPromptSubmit", {"prompt": "look", "turn": "p2"}),
    COMPACTED,
    (COMPACTED[0], {**COMPACTED[1], "turn": "p2"}),
    ("SessionEnd", {"reason": "other"}),
    ("SessionStart", {"source": "resume"}),
    ("SessionEnd", {"reason": "other"}),
]
RECORDED = [
    "Session started", "look", "and mind the keel", "Bash command=make", "done",
    "Bash command=make", "Exit code 2", "there is a.py", "they looked at a.py", "Session ended",
    "Session resumed", "look", "they looked at a.py", "Session ended",
    "Session resumed", "Session ended",
]  # fmt: skip


@pytest.mark.parametrize(
    ("agent", "names", "turns"),
    [
        ("claude-code", "prompt_id", {"UserPromptSubmit", "Stop", "PostCompact", "SessionEnd"}),
        ("codex", "turn_id", {"UserPromptSubmit", "Stop", "PostCompact"}),
    ],
)
def test_a_session_that_is_told_twice_is_recorded_once(fork, home, agent, names, turns):
    for event, more in SESSION:
        turn = {names: more.get("turn", "p1")} if event in turns else {}
        given = said(event, home, **{**more, **turn})
        for _ in range(2):
            fork(home, given, agent=agent)
    assert [event.text for event in events_of(home)] == RECORDED
    assert told(home) == ""


def test_what_the_client_says_in_the_users_place_is_answered_by_nobody(fork, home):
    words = "which cursor does the ledger keep?"
    assert fork(home, asked(home, words, source="loop_wakeup")) == ""
    assert fork(home, asked(home, f"<task-notification>{words}</task-notification>")) == ""
    sub = {"agent_id": "a1", "agent_type": "explorer"}
    assert fork(home, asked(home, words, **sub)) == ""
    assert fork(home, said("SessionStart", home, source="fork", session_id="s2")) == ""
    assert [event.role for event in events_of(home)] == ["system"] * 2  # the same words are one
    assert words in "".join(event.text for event in events_of(home))
    assert fork(home, asked(home, words)) != ""
