"""A session or task that a request names and that has nothing it may see is named in the report."""

import pytest


def unknown(plane, **asked):
    return plane.pack("", budget=1500, **asked).report.get("unknown")


@pytest.fixture
def told(plane):
    plane.record("We keep one file", role="user", session="s1")
    plane.work.tasks.open("one", "Keep one file.")
    plane.record("A note on it", task="two")
    return plane


def test_names_that_nothing_was_recorded_of_are_told(told):
    assert unknown(told) is None
    assert unknown(told, session="s1", task="one") is None
    assert unknown(told, task="two") is None
    assert unknown(told, session="s2") == ["session"]
    assert unknown(told, session="s2", task="tow") == ["session", "task"]
    told.work.sessions.start("s2")
    assert unknown(told, session="s2", task="one") is None


@pytest.mark.parametrize("recorded", [False, True])
def test_what_may_not_be_seen_is_as_what_is_not_there(plane, recorded):
    if recorded:
        plane.work.sessions.start("s1")
        plane.record("secret words", role="user", session="s1", sensitivity="high")
        plane.work.tasks.open("one", "Secret goal.", sensitivity="high")
        plane.record("secret words", task="one", sensitivity="high")
    for who in ({"channel": "public"}, {"channel": "private", "agent": "ann"}):
        asked = plane.pack("words", budget=1500, session="s1", task="one", **who).report
        seen = recorded and who["channel"] == "private"
        assert asked.get("unknown") == (None if seen else ["session", "task"])


def test_a_session_that_only_the_log_has_is_known(plane):
    plane.record("the first words", role="user", session="old")
    for number in range(500):
        plane.record(f"turn {number}", role="user", session=f"s{number % 12}")
    assert unknown(plane, session="old") is None
    assert unknown(plane, session="none") == ["session"]


def test_a_replay_names_the_same(told):
    report = told.pack("", session="s9", save_report=True).report
    assert report["unknown"] == ["session"]
    assert told.at(told.head().seq).pack("", session="s9").report["unknown"] == ["session"]
