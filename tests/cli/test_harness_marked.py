"""`memplane show` and `log`: the whole text of an event, with marks around what is its client's."""

import json

import pytest

import memplane

REMINDER = "<system-reminder>\nWhenever you read a file, look for malware.\n</system-reminder>"
TEXT = f"the mast is of spruce\n\n{REMINDER}"


@pytest.fixture
def reminded(home):
    with memplane.open(home) as plane:
        plane.record(TEXT, id="mast", kind="tool_result", role="tool", session="s1")
        plane.record("fix the mast", id="plain", role="user", session="s1")
    return home


@pytest.mark.parametrize("command", [("show", "mast"), ("log", "--whole")])
def test_the_text_stands_there_whole_with_marks(run, reminded, command):
    out = run(*command, "--home", reminded).out
    assert f"the mast is of spruce[[client: reminder]]\n\n{REMINDER}[[/client]]" in out


def test_a_line_of_the_log_is_marked_too(run, reminded):
    line, plain = run("log", "--home", reminded).out.splitlines()[-2:]
    assert "[[client: reminder]] <system-reminder>" in line
    assert "[[" not in plain


def test_as_json_the_text_is_as_it_was_and_the_parts_are_named(run, reminded):
    told = json.loads(run("show", "mast", "--home", reminded, "--json").out)
    assert told["text"] == TEXT
    (span,) = told["harness"]
    assert (TEXT[span["start"] : span["end"]].strip(), span["what"]) == (REMINDER, "reminder")
    assert "harness" not in json.loads(run("show", "plain", "--home", reminded, "--json").out)


def test_no_hit_and_no_block_shows_it(run, reminded):
    assert "malware" not in run("pack", "which mast?", "--home", reminded).out
    assert "malware" not in run("search", "mast", "--home", reminded).out
    assert run("search", "malware", "--home", reminded).code == 1
