"""Two sessions as their hooks see them: what was planned and decided in one is there in the next."""

from checks_calls import asked, said, told

import memplane
from memplane.importers.plans import task_name

TODOS = [
    {"content": "sew the sails", "status": "completed"},
    {"content": "rig", "status": "pending"},
]
WOOD = {
    "question": "Which wood for the mast?",
    "options": [{"label": "Spruce", "description": "light"}],
}
PLAN = "# Paint for the hull\n\nThe hull stays dry for ten years."
OFFER = "Two ways:\n\n1. Oil paint, for the hull\n2. Varnish, for the deck\n\nWhich one first?"


def used(home, tool, given, response, call):
    more = {"tool_name": tool, "tool_input": given, "tool_response": response, "tool_use_id": call}
    return said("PostToolUse", home, **more)


def test_a_plan_and_decisions_of_one_session_stand_in_the_first_block_of_the_next(fork, home):
    fork(home, said("SessionStart", home, source="startup"))
    fork(home, asked(home, "Please rig the boat for the race", prompt_id="p1"))
    fork(home, used(home, "TodoWrite", {"todos": TODOS}, {"newTodos": TODOS}, "c1"))
    answers = {"answers": {WOOD["question"]: "Spruce"}}
    fork(home, used(home, "AskUserQuestion", {"questions": [WOOD]}, answers, "c2"))
    fork(home, used(home, "ExitPlanMode", {"plan": PLAN}, {"plan": PLAN}, "c3"))
    fork(home, said("Stop", home, last_assistant_message=OFFER))
    fork(home, asked(home, "2", prompt_id="p2"))
    fork(home, said("SessionEnd", home, reason="exit"))
    assert told(home) == ""
    with memplane.open(home, durability="os") as plane:
        decided = [event.text for event in plane.work.decisions()]
        [task] = [one for one in plane.work.tasks.list() if one.id == task_name("s1")]
    assert decided[1:] == [
        "Which wood for the mast? \u2192 Spruce",
        "Plan: Paint for the hull: The hull stays dry for ten years.",
        '"2" = Varnish, for the deck',
    ]
    assert task.goal == "rig the boat for the race"
    assert [(step.text, step.state) for step in task.plan] == [
        ("sew the sails", "done"),
        ("rig", "todo"),
    ]
    first = {**said("SessionStart", home, source="startup"), "session_id": "s2"}
    block = fork(home, first)
    assert "rig the boat for the race" in block
    for words in ("Which wood for the mast?", "Paint for the hull", "Varnish, for the deck"):
        assert words in block
