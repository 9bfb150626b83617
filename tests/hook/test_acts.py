"""Plans and decisions out of hooks: the same as out of the transcript, and once for both."""

import pytest

from memplane import hook
from memplane.event import Event
from memplane.importers.plans import task_name

NOW = "2026-01-05T12:00:00.000000Z"
LIST = "Two ways:\n\n1. Oil paint, for the hull\n2. Varnish, for the deck\n\nWhich one?"
CALLED = {"hook_event_name": "PostToolUse", "session_id": "s1", "cwd": "/w", "tool_use_id": "c1"}
PROMPT = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "cwd": "/w", "prompt_id": "p2"}


def called(tool, given, response):
    said = {**CALLED, "tool_name": tool, "tool_input": given, "tool_response": response}
    return hook.read_payload("claude-code", said)


def event(seq, text, kind="message", role="user", **fields):
    return Event(seq, f"e{seq}", NOW, NOW, kind, text=text, role=role, session="s1", **fields)


def test_a_to_do_list_takes_its_goal_from_what_was_asked_for():
    todos = [{"content": "sew", "status": "completed"}, {"content": "rig", "status": "pending"}]
    found = called("TodoWrite", {"todos": todos}, {"newTodos": todos})
    asked = event(1, "Please rig the boat for the race")
    *_, row = hook.completed("claude-code", found, [asked])
    assert (row["kind"], row["task"], row["text"]) == (
        "task",
        task_name("s1"),
        "rig the boat for the race",
    )
    assert (row["id"], row["refs"]) == ("claude-code:s1:plan:c1", ["e1"])
    assert [one["state"] for one in row["data"]["plan"]] == ["done", "todo"]
    known = event(2, "", "task", "assistant", task=task_name("s1"), data=row["data"])
    assert hook.completed("claude-code", found, [asked, known]) == list(found.rows)


def test_a_step_is_added_to_the_plan_that_the_log_has():
    made = {"task": {"id": "2", "subject": "rig"}}
    found = called("TaskCreate", {"subject": "rig"}, made)
    before = {"plan": [{"step": "sew", "state": "doing", "id": "1"}]}
    known = event(1, "", "task", "assistant", task=task_name("s1"), data=before)
    *_, row = hook.completed("claude-code", found, [known])
    assert [one["step"] for one in row["data"]["plan"]] == ["sew", "rig"]


def test_answered_questions_and_approved_plans_are_decisions():
    question = {"question": "Which wood?", "options": [{"label": "Oak", "description": "hard"}]}
    found = called(
        "AskUserQuestion", {"questions": [question]}, {"answers": {"Which wood?": "Oak"}}
    )
    decision = found.rows[-1]
    assert (decision["kind"], decision["text"]) == ("decision", "Which wood? \u2192 Oak")
    assert decision["refs"] == [found.rows[1]["id"]]
    plan = "# Sails\n\nThe boat sails in light wind."
    found = called("ExitPlanMode", {"plan": plan}, {"plan": plan, "filePath": "/w/p.md"})
    assert found.rows[-1]["text"] == "Plan: Sails: The boat sails in light wind."
    assert {"hook"} <= {tag for row in found.rows for tag in row["tags"]}


def test_a_reply_decides_by_what_the_agent_said_before_it():
    found = hook.read_payload("claude-code", {**PROMPT, "prompt": "2"})
    assert found.replies
    events = [event(1, "paint it"), event(2, LIST, role="assistant")]
    *_, row = hook.completed("claude-code", found, events)
    assert (row["kind"], row["text"]) == ("decision", '"2" = Varnish, for the deck')
    assert row["refs"] == [found.rows[-1]["id"], "e2"]
    answered = [*events, event(3, "1")]
    assert hook.completed("claude-code", found, answered) == list(found.rows)
    side = [event(1, LIST, role="assistant", tags=("sidechain",))]
    assert hook.completed("claude-code", found, side) == list(found.rows)


@pytest.mark.parametrize("prompt", ["paint the hull red", "2 coats of paint are enough", ""])
def test_for_other_prompts_the_log_is_not_asked(prompt):
    assert not hook.read_payload("claude-code", {**PROMPT, "prompt": prompt}).replies


def test_codex_s_plan_is_taken_too():
    said = {**CALLED, "tool_name": "update_plan", "turn_id": "t1", "tool_response": "Plan updated"}
    given = {"plan": [{"step": "sew", "status": "in_progress"}]}
    found = hook.read_payload("codex", {**said, "tool_input": given})
    *_, row = hook.completed("codex", found, [])
    assert row["data"]["plan"] == [{"step": "sew", "state": "doing"}]
