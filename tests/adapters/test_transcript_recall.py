"""A session that hooks are told of, too, while its transcript is stored: recall has it once."""

import pytest
from builders_transcripts import KEY, SUB, Store, said, uuid

from memplane import hook

SESSION = KEY["session_id"]


@pytest.fixture
def hooked(plane):
    def hooked(event, **more):
        call = {"hook_event_name": event, "session_id": SESSION, "cwd": "/srv/shop", **more}
        plane.record_many(hook.read_payload("claude-code", {"prompt_id": "p1", **call}).rows)

    hooked("SessionStart", source="startup")
    return hooked


def texts(plane):
    return [event.text for event in plane.events() if event.role is not None]


def called(number):
    """An agent that calls a tool, with words before it."""
    entry = said(number, "Let me see", "assistant")
    entry["message"]["content"].append(
        {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    )
    return entry


def answered(number):
    entry = said(number, "")
    content = [{"type": "tool_result", "tool_use_id": "t1", "content": "a.py"}]
    return {**entry, "message": {"role": "user", "content": content}}


TOOL = {
    "tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"command": "ls"},
    "tool_response": "a.py",
}  # fmt: skip
TURN = [said(1, "which file?"), called(2), answered(3), said(4, "It is a.py", "assistant")]
SAID = ["which file?", "Bash command=ls", "a.py", "It is a.py"]


def test_a_turn_stored_after_its_hooks_were_told_adds_what_they_were_not_told(store, plane, hooked):
    hooked("UserPromptSubmit", prompt="which file?")
    hooked("PostToolUse", **TOOL)
    hooked("Stop", last_assistant_message="It is a.py")
    store.append(KEY, TURN)
    assert texts(plane) == [*SAID, "Let me see"]
    assert store.load(KEY) == TURN


def test_a_turn_stored_while_it_runs_is_recalled_once_too(store, plane, hooked):
    hooked("UserPromptSubmit", prompt="which file?")
    store.append(KEY, TURN[:1])
    store.append(KEY, TURN[1:2])
    hooked("PostToolUse", **TOOL)
    store.append(KEY, TURN[2:3])
    store.append(KEY, TURN[3:])
    hooked("Stop", last_assistant_message="It is a.py")
    store.append(KEY, [said(5, "thanks")])
    assert sorted(texts(plane)) == sorted([*SAID, "Let me see", "thanks"])


def test_what_no_hook_is_told_is_recalled_when_the_transcript_goes_on_or_the_store_is_closed(
    plane, hooked
):
    with Store(plane) as store:
        store.append(KEY, TURN[:3])
        assert sorted(texts(plane)) == sorted([*SAID[:3], "Let me see"])
        store.append(KEY, TURN[3:])
        store.append(SUB, [said(9, "Found it", "assistant")])
        assert "It is a.py" not in texts(plane)
    assert sorted(texts(plane)) == sorted([*SAID, "Let me see", "Found it"])


def test_a_deleted_transcript_says_nothing_afterwards(plane, hooked):
    with Store(plane) as store:
        store.append(KEY, TURN[3:])
        store.append(SUB, [said(9, "Found it", "assistant")])
        store.delete(KEY)
    assert texts(plane) == []


def test_a_session_without_hooks_is_recalled_at_once(store, plane):
    store.append(KEY, TURN)
    assert sorted(texts(plane)) == sorted([*SAID, "Let me see"])
    assert plane.event(f"claude-code:{uuid(4)}:0").text == "It is a.py"


def test_a_session_that_hooks_come_to_later_is_known_from_then_on(store, plane, hooked):
    other = {**KEY, "session_id": "99999999-2222-4333-8444-555555555555"}
    store.append(other, [said(11, "first", session=other["session_id"])])
    hooked("SessionStart", source="resume", session_id=other["session_id"])
    hooked("UserPromptSubmit", prompt="second", session_id=other["session_id"])
    store.append(other, [said(12, "second", session=other["session_id"])])
    assert texts(plane) == ["first", "second"]
