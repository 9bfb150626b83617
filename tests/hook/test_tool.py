"""What a hook says at a tool: nothing, unless plane.yaml asks for it and one passage names it."""

import json

import pytest
from checks_calls import context, events_of, said

import memplane
from memplane.explain.replay import replay_pack
from memplane.upkeep.reports import find_report

TRAP = "Never sort in barquentine_rig.py: the order of the masts must stay as the file has it"
LINT = "The linter mastcheck fails on bare returns, wrap them instead"


@pytest.fixture
def home(home):
    rules = home / "policies" / "plane.yaml"
    rules.write_text("version: 1\nhooks: {tool: {when: relevant}}\n")
    with memplane.open(home, durability="os", environment={}) as plane:
        plane.record(TRAP, role="user", session="old1", id="trap")
        plane.record(LINT.replace("mastcheck", "mast_check"), role="assistant", session="old1")
        plane.record("Let me look at tarred_rope.py because it fails", role="assistant")
        plane.record("tarred_rope.py fails", kind="tool_result", role="tool", session="old1")
        plane.upkeep.index()
    return home


def read(home, path="barquentine_rig.py", call="t1", **more):
    """What Claude Code says of a file that its agent has read."""
    given = {"file_path": f"{home.parent}/{path}"}
    used = {"tool_name": "Read", "tool_use_id": call, "tool_input": given, **more}
    return said("PostToolUse", home, tool_response={"file": {"content": "masts = 3"}}, **used)


def failed(home, error, call="t1", command="make check"):
    used = {"tool_name": "Bash", "tool_use_id": call, "tool_input": {"command": command}}
    return said("PostToolUseFailure", home, error=error, **used)


def test_a_file_that_is_read_brings_the_one_trap_that_names_it(fork, home):
    answer = fork(home, read(home))
    assert json.loads(answer)["hookSpecificOutput"]["hookEventName"] == "PostToolUse"
    assert TRAP in context(answer)
    assert "tarred_rope" not in answer
    report = find_report(home, "last").report
    assert report["request"]["remind"] == "tool"
    assert report["gate"]["opens"]
    with memplane.open(home, environment={}) as plane:
        assert replay_pack(plane, find_report(home, "last")).block.text in context(answer)


def test_a_failure_brings_what_was_said_of_an_identifier_in_it(fork, home):
    answer = fork(home, failed(home, "mast_check: 3 issues"))
    assert json.loads(answer)["hookSpecificOutput"]["hookEventName"] == "PostToolUseFailure"
    assert "wrap them instead" in context(answer)


def test_nothing_is_said_until_plane_yaml_asks_for_it(fork, home):
    (home / "policies" / "plane.yaml").write_text("version: 1\n")
    assert not fork(home, read(home))
    assert not fork(home, failed(home, "mast_check: 3 issues", call="t2"))
    assert len(events_of(home)) == 4


def test_each_file_and_command_is_asked_about_once_in_a_session(fork, home):
    assert fork(home, read(home))
    assert not fork(home, read(home, call="t2"))
    assert not fork(home, failed(home, "see barquentine_rig.py", call="t3"))  # it was shown
    assert fork(home, read(home, call="t4", session_id="s2"))


def test_after_a_compaction_it_is_said_again(fork, home):
    assert fork(home, failed(home, "mast_check: 3 issues"))
    assert not fork(home, failed(home, "mast_check: 2 issues", call="t2"))
    fork(home, said("SessionStart", home, source="compact"))
    assert fork(home, failed(home, "mast_check: 2 issues", call="t3"))


def test_a_session_gets_no_more_answers_than_the_policy_says(fork, home):
    rules = home / "policies" / "plane.yaml"
    rules.write_text("version: 1\nhooks: {tool: {when: relevant, answers: 1}}\n")
    assert fork(home, read(home))
    assert not fork(home, failed(home, "mast_check: 3 issues", call="t2"))


@pytest.mark.parametrize(
    "call",
    [
        {"path": "tarred_rope.py"},  # talk of what comes next, and what a tool gave back
        {"path": "keel.py"},  # nobody spoke of it
        {"tool_name": "Grep"},  # looks around
        {"agent_id": "a1"},  # a sub-agent
        {"tool_use_id": ""},  # no id that a report could name
    ],
)
def test_other_calls_are_met_by_silence(fork, home, call):
    assert not fork(home, read(home, **{"path": call.pop("path", "barquentine_rig.py")} | call))


def test_what_the_session_said_itself_is_not_said_to_it(fork, home):
    assert not fork(home, read(home, session_id="old1"))


def test_what_a_channel_hides_is_not_said(fork, home):
    with memplane.open(home, durability="os", environment={}) as plane:
        plane.record("Never open binnacle_lamp.py", role="user", sensitivity="high")
        plane.upkeep.index()
    assert not fork(home, read(home, path="binnacle_lamp.py"))


def test_an_answer_costs_no_more_than_the_policy_says(fork, home):
    with memplane.open(home, durability="os", environment={}) as plane:
        words = "because the planks rot where water stands on them " * 9
        plane.record(f"Never open plank_list.py {words}", role="user", session="old1")
        plane.upkeep.index()
    assert "plank_list" in context(fork(home, read(home, path="plank_list.py")))
    report = find_report(home, "last").report
    assert 0 < report["tokens"] <= report["budget"] == 80
