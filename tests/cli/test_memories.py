"""Memories on the command line: what became of them, how they fade, who may read them."""

import json

import pytest

import memplane

LATER = "2099-01-01T00:00:00Z"


def told(run, *argv):
    done = run(*argv, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


@pytest.fixture
def notes(home):
    with memplane.open(home) as plane:
        plane.record("the build takes nine minutes", id="slow", kind="observation")
        plane.record("ci", id="old", kind="fact", key="ci")
        plane.record("two runners", id="new", kind="fact", key="ci")
        plane.record("mine alone", id="own", kind="fact", key="own", ns="/agent/ann")
    return home


def test_show_says_what_became_of_an_event_and_the_newer_names_the_older(run, notes):
    old = told(run, "show", "old", "--home", notes)
    assert old["archived"] == {"reason": "superseded", "by": 4}
    new = told(run, "show", "new", "--home", notes)
    assert (new["archived"], new["supersedes"]) == (None, 3)
    words = run("show", "new", "--now", LATER, "--home", notes).out
    assert "supersedes  3\n" in words
    assert "stale\n" in words
    assert "of 500 importance\n" in words


def test_an_event_is_named_as_blocks_and_hits_write_it(run, notes):
    agents = {"kind": "fact", "role": "assistant"}
    with memplane.open(notes) as plane:
        said = plane.record("Jobs wait in a table", **agents)
        other = plane.record("Ports wait, too", **agents)
    assert told(run, "show", f"#{said.seq}", "--home", notes)["seq"] == said.seq
    made = told(run, "confirm", f"#{said.seq}", "--home", notes)
    assert told(run, "show", f"#{made['seq']}", "--home", notes)["said_by"] == "user"
    assert run("update", f"#{made['seq']}", "Jobs wait", "--home", notes).code == 0
    assert run("pin", f"#{other.seq}", "--home", notes).code == 0
    assert run("forget", "--id", f"#{other.seq}", "--home", notes).code == 0
    missing = run("show", "#999", "--home", notes)
    assert (missing.code, missing.err) == (1, "memplane: no event 999\n")


def test_history_and_get_tell_the_same_as_json(run, notes):
    rows = told(run, "history", "ci", "--home", notes)
    assert [(row["reason"], row["by_seq"], row["supersedes"]) for row in rows] == [
        ("superseded", 4, None), (None, None, 3),
    ]  # fmt: skip
    found = told(run, "get", "ci", "--now", LATER, "--home", notes)
    assert found["stale"]
    assert found["importance_now"] < found.get("importance", 500)


def test_evict_tells_first_then_archives_and_a_touch_keeps_what_still_holds(run, notes):
    run("touch", "--key", "ci", "--home", notes)
    asked = ("evict", "--below", "0.9", "--now", "2099-01-01T00:00:00Z", "--home", notes)
    dry = run(*asked, "--dry-run")
    assert dry.code == 0
    assert "nine minutes" in dry.out
    assert dry.err.startswith("memplane: 3 memories would be archived")
    done = told(run, *asked, "--kind", "observation")
    assert [(row["id"], row["importance_now"]) for row in done["taken"]] == [("slow", 0)]
    shown = told(run, "show", "slow", "--home", notes)
    assert shown["archived"] == {"reason": "evicted", "by": done["receipts"][0]["seq"]}
    assert "evict id slow" in run("log", "--home", notes).out
    assert "touch id new" in run("log", "--home", notes).out
    run("unforget", "--id", "slow", "--home", notes)
    assert told(run, "show", "slow", "--home", notes)["archived"] is None


def test_a_line_or_kind_that_cannot_be_is_refused_by_its_name(run, notes):
    for argv, said in (
        (["--below", "many"], "--below"),
        (["--below", "2000"], "below"),
        (["--below", "1", "--kind", "decision"], "kind"),
        (["--below", "1", "--ns", "here"], "ns"),
    ):
        done = run("evict", *argv, "--home", notes)
        assert (done.code, done.out) == (2, "")
        assert said in done.err


def test_an_agents_namespace_opens_to_it_and_to_the_owner_who_names_it(run, notes):
    def code(*argv):
        return run(*argv, "--home", notes).code

    assert code("get", "own", "--ns", "/agent/ann") == 0
    assert code("get", "own", "--ns", "/agent/ann", "--channel", "agent", "--agent", "ann") == 0
    assert code("show", "own") == 0
    for who in (["--agent", "bob"], ["--channel", "agent"], ["--channel", "team"]):
        assert code("get", "own", "--ns", "/agent/ann", *who) == 1
        assert code("keys", "--ns", "/agent/ann", *who) == 1
        assert code("history", "own", "--ns", "/agent/ann", *who) == 1
        assert code("log", "--ns", "/agent/ann", *who) == 1
        assert code("show", "own", *who) == 1
        assert "mine alone" not in run("log", "--home", notes, *who).out
    assert "mine alone" in run("log", "--agent", "ann", "--home", notes).out
    assert "mine alone" in run("log", "--ns", "/agent/ann", "--home", notes).out


def test_search_marks_what_is_stale(run, notes):
    found = told(run, "search", "build", "--now", LATER, "--home", notes)
    assert [row["stale"] for row in found] == [True]
    assert "  stale\n" in run("search", "build", "--now", LATER, "--home", notes).out
    assert not told(run, "search", "build", "--home", notes)[0]["stale"]
