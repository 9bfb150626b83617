"""`memplane why`: the story of an event, on the command line."""

import json

import memplane


def test_the_story_of_an_event_goes_from_the_log_to_its_place(run, filled):
    run("pack", "which database do we use?", "--home", filled)
    done = run("why", "last", "4", "--home", filled)
    assert done.code == 0
    steps = [line.split()[0] for line in done.out.splitlines()[1:]]
    assert steps == ["log", "projection", "source", "score", "allocation", "place"]
    assert done.out.splitlines()[0].endswith("(#4): placed")


def test_what_was_replaced_names_what_replaced_it(run, filled):
    run("pack", "which database do we use?", "--home", filled)
    with memplane.open(filled) as plane:
        newer = plane.event(4).id
    done = run("why", "last", "#2", "--home", filled)
    assert f"left out    superseded: replaced by {newer} (#4)" in done.out


def test_json_has_the_same_steps(run, filled):
    run("pack", "which database do we use?", "--home", filled)
    found = json.loads(run("why", "last", "2", "--json", "--home", filled).out)
    (story,) = found["stories"]
    assert found["same"] is True
    assert story["log"]["seq"] == 2
    assert [one["reason"] for one in story["left_out"]] == ["superseded"]


def test_an_event_that_is_not_there_and_one_that_is_hidden_are_answered_alike(run, filled):
    with memplane.open(filled) as plane:
        hidden = plane.record("the key", kind="fact", sensitivity="high").seq
    run("pack", "key", "--channel", "public", "--home", filled)
    one = run("why", "last", hidden, "--home", filled)
    two = run("why", "last", "999", "--home", filled)
    assert (one.code, one.out, one.err.replace(str(hidden), "N")) == (
        1, "", two.err.replace("999", "N"),
    )  # fmt: skip
    assert two.code == 1
    assert run("why", "last", hidden, "--channel", "private", "--home", filled).code == 0


def test_an_entry_is_told_by_its_number(run, filled):
    run("pack", "which database do we use?", "--home", filled)
    done = run("why", "last", "entry:1", "--home", filled)
    assert done.out.startswith("entry 1: ")
    assert run("why", "last", "entry:one", "--home", filled).code == 2
