"""`memplane task`: a task's way from the first word to the last, through commands alone."""

import json

import pytest


@pytest.fixture
def task(run, home):
    """Run `memplane task ...`, or another command, on one plane."""

    def task(*argv, group="task"):
        return run(*([group] if group else []), *argv, "--home", home)

    return task


def test_the_digest_names_the_open_failure_and_the_last_decision(task):
    done = task("open", "parser", "Parse nested lists", "--plan", "write tests", "--plan", "port")
    assert (done.code, done.out) == (0, "parser: open\n")
    record = ["--session", "s1"]
    task("record", "Use recursion", "--kind", "decision", *record, group=None)
    task("record", "Use a stack", "--kind", "decision", *record, group=None)
    broke = ["--kind", "tool_result", "--role", "tool", *record]
    task("record", "2 failed: test_deep", *broke, "--data", '{"tool":"Bash","status":"error"}',
         group=None)  # fmt: skip
    assert task("update", "parser", "tests are red", "--done", "1", "--doing", "2").code == 0
    shown = task("show", "parser").out
    assert shown == (
        "task parser (active): Parse nested lists\n"
        " - done step 1: write tests\n"
        " - doing step 2: port\n"
        " - note: tests are red\n"
        " - decided: Use recursion\n"
        " - decided: Use a stack\n"
        " - failing Bash: 2 failed: test_deep\n"
    )
    block = task("pack", "", "--session", "s1", "--no-report", group=None).out
    assert "- failing Bash: 2 failed: test_deep" in block
    assert "- decided: Use a stack" in block
    assert task("list").out == (
        "* parser                open       Parse nested lists. Failing Bash: 2 failed: test_deep.\n"
    )
    task("record", "all green", *broke, "--data", '{"tool":"Bash","status":"ok"}', group=None)
    assert "failing" not in task("show", "parser").out


def test_a_task_is_opened_blocked_taken_up_again_and_closed(task):
    assert task("open", "Write the docs").out == "write-the-docs: open\n"
    assert task("open", "build", "Mend the build").out == "build: open\n"
    assert task("block", "write-the-docs", "waits for the build").out == "write-the-docs: blocked\n"
    assert task("switch", "build").out == "build: active\n"
    listed = task("list").out.splitlines()
    assert listed == [
        "* build                 open       Mend the build.",
        "  write-the-docs        blocked    Write the docs. Blocked: waits for the build.",
    ]
    assert task("done", "build", "green again").out == "build: done\n"
    assert task("done", "write-the-docs", "--cancelled").out == "write-the-docs: cancelled\n"
    assert task("list").out == ""
    assert task("list").err == "memplane: no task is open\n"
    assert "Done: green again." in task("list", "--all").out


def test_a_switch_for_a_session_changes_what_its_blocks_tell_and_no_others(task):
    task("open", "a", "goal of a")
    task("open", "b", "goal of b")
    task("switch", "b", "--session", "s1")
    for session, first in (("s1", "task b (active)"), ("s2", "task a (active)")):
        block = task("pack", "", "--session", session, "--no-report", group=None).out
        assert block.split("## Tasks\n")[1].startswith(first)


def test_json_of_each_command_is_one_value(task):
    opened = json.loads(task("open", "t", "goal", "--plan", "one", "--spec", "x", "--json").out)
    assert (opened["task"], opened["duplicate"]) == ("t", False)
    assert json.loads(task("update", "t", "note", "--json").out)["task"] == "t"
    (row,) = json.loads(task("list", "--json").out)
    assert row == {
        "id": "t", "status": "open", "active": True, "short": "goal. Next, step 1 of 1: one.",
        "sessions": [],
    }  # fmt: skip
    shown = json.loads(task("show", "t", "--json").out)
    assert shown["plan"] == [{"text": "one", "state": "todo"}]
    assert shown["specs"] == ["x"]
    assert json.loads(task("list", "--all", "--json").out)[0]["id"] == "t"


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["open", "parser"], 2, "name: task 'parser' is open already; update it, or switch to it"),
        (["show", "praser"], 1, "no task 'praser'; did you mean 'parser'?"),
        (["switch", "unheard-of-this"], 1, "no task 'unheard-of-this'"),
        (["update", "parser", "--done", "3"], 2, "done: found 3; expected 1 to 1"),
        (["update", "parser"], 2, "expected a text, a plan or steps to mark, found none"),
    ],
)
def test_what_cannot_be_done_says_why_and_stores_nothing(task, stored, home, argv, code, said):
    task("open", "parser", "goal", "--plan", "one")
    before = stored(home)
    done = task(*argv)
    assert (done.code, done.err) == (code, f"memplane: {said}\n")
    assert stored(home) == before
    error = json.loads(task(*argv, "--json").out)["error"]
    assert (error["exit"], error["message"]) == (code, said)


def test_home_and_json_may_stand_before_the_group(run, home):
    run("task", "open", "t", "goal", "--home", home)
    first = run("--home", home, "--json", "task", "list")
    assert first.code == 0
    assert first.out == run("task", "list", "--home", home, "--json").out
