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


def test_forget_by_words_shows_what_it_would_take_and_undo_takes_it_back(run, filled, stored):
    before = stored(filled)
    for flags in ((), ("--dry-run",)):
        done = run("forget", "--query", "Spike 2", *flags, "--home", filled)
        assert done.code == 0
        assert "spike 2" in done.out
        assert "spike 3" not in done.out
        assert "1 event would be forgotten: nothing was written, --yes does it" in done.err
        assert stored(filled) == before
    run("forget", "--query", "spike", "--since", "1d", "--yes", "--home", filled)
    found = run("search", "spike", "--home", filled).out
    assert ("spike 2" in found, "spike 4" in found) == (False, True)
    assert run("undo", "--home", filled).code == 0
    assert "spike 2" in run("search", "spike", "--home", filled).out


@pytest.fixture
def own(tmp_path, monkeypatch, run):
    """The user's own plane with two projects; this process is in neither."""
    user = tmp_path / "user"
    user.mkdir()
    monkeypatch.setenv("HOME", str(user))
    monkeypatch.delenv("MEMPLANE_HOME", raising=False)
    run("init", "--home", user / ".memplane")
    for name in ("app", "web"):
        folder = tmp_path / "work" / name
        folder.mkdir(parents=True)
        monkeypatch.chdir(folder)
        run("record", f"spike in {name}", "--kind", "fact", "--tag", "spike")
        run("record", f"kept in {name}", "--kind", "decision")
    run("record", "spike everywhere", "--kind", "fact", "--ns", "/global")
    return tmp_path / "work"


def named(done):
    return [one["text"] for one in json.loads(done.out)["taken"]]


def test_a_project_that_is_named_loses_what_was_said_there_and_nothing_else_does(run, own):
    assert named(run("forget", "--project", "app", "--json")) == ["spike in app"]
    assert named(run("--project", "app", "forget", "--decisions", "--json")) == [
        "spike in app", "kept in app",
    ]  # fmt: skip
    run("forget", "--project", "app", "--query", "spike", "--yes")
    assert "spike in app" not in run("search", "spike", "--project", "app").out
    assert "spike everywhere" in run("search", "spike", "--project", "app").out
    assert "spike in web" in run("search", "spike").out
    run("undo", "--project", "app")
    assert "spike in app" in run("search", "spike", "--project", "app").out
    done = run("forget", "--project", "nope")
    assert (done.code, "no project 'nope'" in done.err) == (1, True)


def test_what_is_described_is_not_taken_from_other_projects(run, own):
    assert named(run("forget", "--tag", "spike", "--json")) == ["spike in web"]
    assert named(run("forget", "--query", "spike", "--json")) == [
        "spike in web", "spike everywhere",
    ]  # fmt: skip
    assert len(named(run("forget", "--query", "spike", "--project", "*", "--json"))) == 3
    assert run("forget", "--project", "*", "--yes").code == 2


def test_words_that_do_not_go_together_are_refused(run, filled):
    for argv in (
        ("forget", "--yes"),
        ("forget", "db", "--tag", "spike"),
        ("forget", "db", "--query", "spike"),
        ("forget", "db", "--dry-run"),
        ("forget", "--dry-run"),
        ("forget", "--query", "spike", "--dry-run", "--yes"),
        ("forget", "--query", ""),
        ("forget", "--project", "x"),
        ("forget", "db", "--decisions"),
        ("purge", "2", "--tag", "spike"),
        ("purge", "--kind", "fact"),
    ):
        assert run(*argv, "--home", filled).code == 2, argv
