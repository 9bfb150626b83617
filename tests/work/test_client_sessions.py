"""Sessions of a client that tells of them as they go: what sums them up when they are over."""

import threading

import pytest
from builders_sessions import THREE, later, status, summary, talk

import memplane

END = {"status": "end", "reason": "other", "agent": "claude-code"}


@pytest.fixture
def told(plane):
    """Begin a session as a hook does, say things in it, and end it, or not."""

    def told(session, *texts, ends=True):
        begun = {"kind": "session", "text": "Session started", "data": {"status": "start"}}
        plane.record(**begun, session=session, tags=["hook"])
        talk(plane, session, *texts)
        if ends:
            plane.record(kind="session", text="Session ended", session=session, data=END)

    return told


def test_a_session_that_its_client_ended_gets_the_summary_that_session_end_would_write(plane, told):
    told("s", *THREE)
    told("t", *THREE, ends=False)
    (made,) = plane.work.sessions.sum_up("hook")
    plane.work.sessions.end("t")
    assert made.session == "s"
    assert summary(plane, "s").text == summary(plane, "t").text
    assert plane.work.sessions.get("s").reason == "other"


def test_a_second_time_writes_nothing_also_when_two_do_it_at_once(plane, told):
    for n in range(40):
        told(f"s{n}", *THREE)
    others = [memplane.open(plane.home) for _ in range(2)]
    threads = [threading.Thread(target=one.work.sessions.sum_up, args=["hook"]) for one in others]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    for one in others:
        one.close()
    while plane.work.sessions.sum_up("hook"):
        pass
    head = plane.head()
    assert plane.work.sessions.sum_up("hook") == []
    assert plane.head() == head
    made = [event.session for event in plane.events(kind="summary")]
    assert sorted(made) == sorted(f"s{n}" for n in range(40))


def test_what_comes_later_is_summed_up_when_it_has_ended_again(plane, told, clock):
    told("s", *THREE)
    plane.work.sessions.sum_up("hook")
    later(clock, 1)
    told("s", "and the ibises", ends=False)
    assert plane.work.sessions.sum_up("hook") == []
    plane.record(kind="session", text="Session ended", session="s", data=END)
    plane.work.sessions.sum_up("hook")
    assert "ibises" in summary(plane, "s").text


def test_a_session_that_was_left_open_ends_when_it_was_silent_for_longer_than_the_gap(
    plane, told, clock
):
    told("s", *THREE, ends=False)
    talk(plane, "mine", *THREE)
    assert plane.work.sessions.sum_up("hook") == []
    later(clock, 60 * 24)
    assert [one.session for one in plane.work.sessions.sum_up("hook")] == ["s"]
    assert status(plane) == {"s": "ended", "mine": "idle"}


def test_who_wanted_no_summary_and_what_was_forgotten_gets_none(plane, told):
    told("s", *THREE, ends=False)
    plane.work.sessions.end("s", summary=False)
    told("t", *THREE)
    plane.forget(session="t")
    told("u", "one", "two")
    assert plane.work.sessions.sum_up("hook") == []


def test_a_pack_of_the_log_as_it_was_says_what_it_said(plane, told):
    told("s", *THREE)
    before, seq = plane.pack(intent="orient", budget=2000).text, plane.head().seq
    plane.work.sessions.sum_up("hook")
    told("s", "Fix the ibises")
    assert plane.pack(intent="orient", budget=2000).text != before
    assert plane.at(seq).pack(intent="orient", budget=2000).text == before


def test_what_an_import_added_of_the_time_before_is_not_what_was_said_last(plane, told):
    told("s", *THREE, ends=False)
    plane.record("All are fixed", role="assistant", session="s")
    early = {"ts": "2025-12-31T12:00:00Z", "session": "s"}
    plane.record("Let me see", role="assistant", **early)
    plane.record("Mend the birds", role="user", **early)
    plane.record(kind="session", text="Session ended", session="s", data=END)
    plane.work.sessions.sum_up("hook")
    text = summary(plane, "s").text
    assert text == '"Mend the birds"\nCame to: All are fixed'
