"""`memplane expand`: tasks, sessions and memories by depths; what it cannot open, in words."""

import json
import re

import pytest


@pytest.fixture
def tasked(run, filled):
    """The plane of the examples, with a task in its session."""
    run("task", "open", "parser", "Parse nested lists.", "--session", "s1", "--home", filled)
    run("record", "at most 40 deep", "--kind", "fact", "--session", "s1", "--home", filled)
    run(
        "record", "quiet word", "--kind", "fact", "--session", "s1", "--sensitivity", "high",
        "--home", filled,
    )  # fmt: skip
    return filled


@pytest.mark.parametrize("name", ["task/parser", "session/s1"])
def test_each_depth_prints_the_one_before_and_more(run, tasked, name):
    before = ""
    for depth in range(4):
        done = run("expand", f"{name}?depth={depth}", "--budget", "800", "--home", tasked)
        assert done.code == 0
        assert done.out.startswith(before)
        assert int(re.match(r"memplane: (\d+) tokens", done.err)[1]) <= 800
        before = done.out
    assert "fact: at most 40 deep\n" in before


def test_what_was_left_out_is_counted_on_stderr(run, tasked):
    done = run("expand", "session/s1?depth=2", "--channel", "public", "--home", tasked)
    assert "quiet" not in done.out
    assert done.err.endswith("left out: 1 sensitivity, 1 superseded\n")


def test_json_names_the_events_behind_the_words(run, tasked):
    done = run("expand", "task/parser?depth=2", "--json", "--home", tasked)
    shard = json.loads(done.out)
    assert shard["handle"] == "expand://task/parser?depth=2"
    assert len(shard["events"]) == 3
    assert (shard["next"], shard["event"], shard["left_out"]) == (None, None, {})


def test_the_pages_of_a_session_are_followed_by_their_handles(run, tasked):
    for number in range(40):
        run("record", f"turn {number} on lists", "--session", "s1", "--home", tasked)
    handle, told = "session/s1?depth=3", ""
    while handle:
        done = run("expand", handle, "--budget", "150", "--json", "--home", tasked)
        shard = json.loads(done.out)
        assert shard["tokens"] <= 150
        handle, told = shard["next"], told + shard["text"]
    assert all(f"turn {number} on lists\n" in told for number in range(40))


def test_a_memory_is_printed_with_its_history(run, filled):
    done = run("expand", "memory/global/db.engine?depth=1", "--home", filled)
    assert done.out == (
        "decision db.engine: We move to SQLite\n"
        "decision db.engine: [superseded by #4] We keep PostgreSQL\n"
    )


@pytest.mark.parametrize(
    ("handle", "code", "said"),
    [
        ("tsak/parser", 2, "did you mean task/…?"),
        ("task/parser?depth=7", 2, "depth: task has the depths 0 to 3, found 7"),
        ("task/parsr", 1, "no task 'parsr'; did you mean 'parser'?"),
        ("session/s", 1, "no session 's'"),
        ("memory/global/db.engin", 1, "did you mean 'db.engine'?"),
        ("memory/db.engine", 2, "expected memory/global/<key>"),
        ("event/nowhere", 1, "no event 'nowhere'"),
    ],
)
def test_what_cannot_be_opened_is_said_with_what_could(run, tasked, handle, code, said):
    done = run("expand", handle, "--home", tasked)
    assert (done.code, done.out) == (code, "")
    assert said in done.err


def test_pack_takes_every_form(run, tasked):
    handles = ["task/parser?depth=2", "session/s1?depth=0", "memory/global/db.engine", "#3"]
    asked = [word for handle in handles for word in ("--expand", handle)]
    done = run(
        "pack", "--section", "expansions", "--budget", "900", *asked, "--json", "--home", tasked
    )
    sources = [entry["source"] for entry in json.loads(done.out)["entries"]]
    assert sources == ["projection:tasks", "projection:sessions", "projection:memories"]
