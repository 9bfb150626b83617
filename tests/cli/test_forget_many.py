"""`memplane forget` and `purge` by tag and age: a dry run until --yes."""

import json

import pytest


@pytest.fixture
def filled(run, home):
    for number, kind in enumerate(("message", "fact", "decision"), 2):
        run("record", f"spike {number}", "--kind", kind, "--tag", "spike", "--home", home)
    return home


def test_forget_by_tag_says_what_it_would_take_and_takes_it_with_yes(run, filled, stored):
    before = stored(filled)
    done = run("forget", "--tag", "spike", "--home", filled)
    assert done.code == 0
    assert "spike 2" in done.out
    assert "spike 4" not in done.out
    assert "2 events would be forgotten: nothing was written, --yes does it" in done.err
    assert "1 stays that lasts" in done.err
    assert stored(filled) == before
    found = json.loads(run("forget", "--tag", "spike", "--yes", "--json", "--home", filled).out)
    assert ([one["seq"] for one in found["taken"]], found["kept"]) == ([2, 3], 1)
    assert [one["seq"] for one in found["receipts"]] == [5]
    assert "spike 3" not in run("search", "spike", "--home", filled).out
    assert run("forget", "--tag", "spike", "--decisions", "--yes", "--home", filled).code == 0


def test_purge_by_tag_erases_with_yes_alone(run, filled, stored):
    before = stored(filled)
    done = run("purge", "--tag", "spike", "--home", filled)
    assert done.out.startswith("would be erased: 2 events")
    assert "nothing was erased: --yes does it" in done.err
    assert stored(filled) == before
    done = run("purge", "--tag", "spike", "--older-than", "0s", "--yes", "--home", filled)
    assert done.out.startswith("erased: 2 events (event 5)")
    assert run("purge", "--tag", "spike", "--older-than", "9d", "--home", filled).out == ""


def test_words_that_do_not_go_together_are_refused(run, filled):
    for argv in (
        ("forget", "--yes"),
        ("forget", "db", "--tag", "spike"),
        ("forget", "db", "--decisions"),
        ("purge", "2", "--tag", "spike"),
        ("purge", "--kind", "fact"),
    ):
        assert run(*argv, "--home", filled).code == 2, argv
