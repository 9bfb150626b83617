"""Sessions on a real plane: who ends what and when, and who sees it."""

import json

import pytest
from builders_sessions import THREE, later, status, summary, talk

import memplane
from memplane.errors import InputError, NotFoundError


def test_a_session_is_started_marked_ended_and_summed_up(plane):
    started = plane.work.sessions.start("s", agent="coder", branch="main", cwd="/work")
    assert started.receipt.event.data == {"status": "start", "branch": "main", "cwd": "/work"}
    ids = talk(plane, "s", *THREE)
    assert plane.work.sessions.checkpoint("s", "half way").event.text == "half way"
    ended = plane.work.sessions.end("s")
    assert (ended.reason, ended.already) == ("explicit", False)
    found = plane.work.sessions.get("s")
    assert (found.agent, found.branch, found.cwd) == ("coder", "main", "/work")
    assert (found.status, found.reason, found.prompts) == ("ended", "explicit", 3)
    assert found.events == {"session": 3, "message": 3}
    assert found.summary.text == '"Fix the herons"\nAsked: then the cranes'
    assert found.summary.id == ended.summary.id
    event = ended.summary.event
    assert (event.kind, event.role, event.session, event.key) == (
        "summary", "system", "s", "session/s/summary",
    )  # fmt: skip
    assert event.refs == (ids[0], ids[2])
    assert event.data == {"extract": True}
    json.dumps([found.as_json(), started.as_json(), ended.as_json()])


def test_a_session_without_a_name_gets_one_and_no_two_the_same(plane):
    names = [plane.work.sessions.start().session for _ in range(3)]
    assert len(set(names)) == 3
    assert [len(name) for name in names] == [26] * 3


def test_to_end_twice_writes_nothing_and_says_so(plane):
    talk(plane, "s", *THREE)
    plane.work.sessions.end("s")
    seq = plane.head().seq
    again = plane.work.sessions.end("s")
    assert (again.already, again.reason) == (True, "explicit")
    assert plane.head().seq == seq


def test_an_unknown_session_is_refused_with_the_one_that_was_meant(plane):
    talk(plane, "parser-work", "x")
    for refused in (
        plane.work.sessions.end,
        plane.work.sessions.get,
        plane.work.sessions.checkpoint,
    ):
        with pytest.raises(NotFoundError, match=r"'parser-wrok'; did you mean parser-work\?"):
            refused("parser-wrok")
    assert plane.head().seq == 2


def test_to_record_with_an_unknown_session_writes_one_event_and_it_is_one(plane):
    plane.record("of no session")
    seq = plane.head().seq
    talk(plane, "s", "x")
    assert plane.head().seq == seq + 1
    assert status(plane) == {"s": "open"}


def test_a_start_ends_what_the_same_agent_left_and_touches_no_other(plane, clock):
    for agent in ("a", "b", None):
        plane.work.sessions.start(f"old-{agent}", agent=agent)
        talk(plane, f"old-{agent}", *THREE)
    later(clock, 31)
    started = plane.work.sessions.start("new-a", agent="a")
    assert [(one.session, one.reason) for one in started.ended] == [("old-a", "gap")]
    assert started.ended[0].summary is not None
    assert status(plane) == {
        "old-a": "ended", "old-b": "idle", "old-None": "idle", "new-a": "open",
    }  # fmt: skip
    assert [one.session for one in plane.work.sessions.start("new").ended] == ["old-None"]
    assert plane.work.sessions.get("old-b").status == "idle"


def test_what_is_still_alive_is_left_open(plane, clock):
    plane.work.sessions.start("one", agent="a")
    later(clock, 30)
    assert plane.work.sessions.start("two", agent="a").ended == ()
    later(clock, 29)
    talk(plane, "two", "still here")
    later(clock, 2)
    ended = plane.work.sessions.start("three", agent="a").ended
    assert [one.session for one in ended] == ["one"]
    assert status(plane) == {"one": "ended", "two": "open", "three": "open"}


def test_the_gap_counts_from_the_recording_whatever_the_events_say_of_themselves(plane, clock):
    talk(plane, "s", "long ago", ts="2020-01-01T00:00:00Z")
    later(clock, 10)
    assert plane.work.sessions.start().ended == ()
    assert plane.work.sessions.get("s").status == "open"


def test_a_session_that_is_started_again_goes_on(plane, clock):
    plane.work.sessions.start("s", agent="a")
    later(clock, 99)
    assert plane.work.sessions.start("s", agent="a").ended == ()
    assert status(plane) == {"s": "open"}


def test_a_mistake_at_the_start_ends_nothing(plane, clock):
    talk(plane, "s", *THREE)
    later(clock, 99)
    with pytest.raises(InputError):
        plane.work.sessions.start("x" * 200)
    assert status(plane) == {"s": "idle"}


def test_all_that_is_idle_is_ended_when_asked_for(plane, clock):
    plane.work.sessions.start("a", agent="a")
    talk(plane, "b", *THREE)
    later(clock, 31)
    plane.work.sessions.start("c", agent="c")
    assert [(one.session, one.reason) for one in plane.work.sessions.end_idle()] == [
        ("a", "abandoned"),
        ("b", "abandoned"),
    ]
    assert plane.work.sessions.end_idle() == []


def test_reading_writes_nothing_and_idle_is_a_matter_of_the_clock(plane, clock):
    talk(plane, "s", *THREE)
    seq = plane.head().seq
    assert status(plane) == {"s": "open"}
    later(clock, 31)
    assert status(plane) == {"s": "idle"}
    assert [one.id for one in plane.work.sessions.list(only_open=True)] == ["s"]
    assert plane.at(seq).work.sessions.get("s").status == "open"
    assert plane.head().seq == seq


def test_a_forgotten_session_is_in_no_list(plane):
    talk(plane, "s", *THREE)
    talk(plane, "t", "x")
    plane.forget(session="s")
    assert status(plane) == {"t": "open"}
    plane.unforget(session="s")
    assert status(plane) == {"s": "open", "t": "open"}


def test_two_agents_at_once_each_see_their_own_window_and_end_their_own_session(plane):
    for agent in ("ann", "bob"):
        plane.work.sessions.start(f"of-{agent}", agent=agent)
    for turn in range(5):
        talk(plane, "of-ann", f"heron {turn}")
        talk(plane, "of-bob", f"stork {turn}")
    for mine, other, word in (("of-ann", "of-bob", "heron"), ("of-bob", "of-ann", "stork")):
        window = {
            event
            for entry in plane.pack("", session=mine, budget=4000).entries
            if entry.section == "recent_window"
            for event in (*entry.events, *entry.parts)
        }
        shown = [plane.event(event) for event in window]
        assert {event.session for event in shown} == {mine}
        assert {event.text.split()[0] for event in shown} == {word}
        assert other not in {event.session for event in shown}
    plane.work.sessions.end("of-ann")
    assert status(plane) == {"of-ann": "ended", "of-bob": "open"}
    talk(plane, "of-bob", "stork 5")
    assert "stork 5" in plane.pack("", session="of-bob").text
    assert plane.work.sessions.get("of-bob").prompts == 6


def test_ending_many_old_sessions_puts_no_live_one_out_of_the_hotset(plane, clock):
    for number in range(20):
        talk(plane, f"old-{number}", *THREE)
    later(clock, 60)
    for number in range(8):
        plane.work.sessions.start(f"live-{number}", agent=f"agent-{number}")
        talk(plane, f"live-{number}", "here")
    assert len(plane.work.sessions.end_idle()) == 20
    assert set(plane.upkeep.hotset().sessions) == {f"live-{number}" for number in range(8)}


def test_a_session_that_the_projection_let_go_of_is_read_from_the_log(plane):
    talk(plane, "first", *THREE)
    plane.record_many([{"text": "x", "session": f"s{n}", "role": "user"} for n in range(201)])
    assert "first" not in status(plane)
    assert plane.work.sessions.get("first").prompts == 3
    talk(plane, "first", "and on")
    assert {one.id: one.partial for one in plane.work.sessions.list()}["first"]
    found = plane.work.sessions.get("first")
    assert (found.prompts, found.partial) == (4, False)
    plane.work.sessions.end("first")
    assert summary(plane, "first").text.startswith('"Fix the herons"')
    with pytest.raises(NotFoundError):
        plane.work.sessions.get("nowhere")


def test_the_file_is_read_by_who_asks_and_by_no_pack(plane):
    talk(plane, "s", *THREE)
    plane.pack("herons", session="s")
    plane.upkeep.rebuild()
    assert not (plane.home / "projections" / "sessions.json").exists()
    plane.record_many([{"text": "x", "session": "s"} for _ in range(70)])
    plane.work.sessions.list()
    plane.close()
    assert (plane.home / "projections" / "sessions.json").exists()
    with memplane.open(plane.home) as again:
        assert again.work.sessions.get("s").prompts == 3
        assert again.upkeep.differing() == []
        again.upkeep.rebuild()
        assert not (again.home / "projections" / "sessions.json").exists()


def test_two_who_end_the_same_session_at_once_write_its_end_once(plane, clock):
    talk(plane, "s", *THREE)
    with memplane.open(plane.home, clock=clock) as other:
        other.work.sessions.list()
        ended = plane.work.sessions.end("s")
        seq = plane.head().seq
        assert other.work.sessions.end("s").already
        assert other.head().seq == seq
    assert ended.summary.event.id.startswith("session:summary:")


def test_the_plane_of_an_earlier_seq_and_a_read_only_one_show_sessions_and_end_none(plane):
    talk(plane, "s", *THREE)
    seq = plane.head().seq
    plane.work.sessions.end("s")
    earlier = plane.at(seq)
    assert status(earlier) == {"s": "open"}
    for act in (earlier.work.sessions.start, lambda: earlier.work.sessions.end("s")):
        with pytest.raises(memplane.HomeError):
            act()
    plane.close()
    with memplane.wiring.open_plane(plane.home, read_only=True) as again:
        assert again.work.sessions.get("s").summary is not None
        with pytest.raises(memplane.HomeError):
            again.work.sessions.start()


@pytest.mark.parametrize("wrong", [None, 5, b"s", ["s"]])
def test_what_is_no_text_is_refused_and_nothing_is_written(plane, wrong):
    talk(plane, "s", "x")
    seq = plane.head().seq
    acts = [
        lambda: plane.work.sessions.end(wrong),
        lambda: plane.work.sessions.get(wrong),
        lambda: plane.work.sessions.checkpoint(wrong),
        lambda: plane.work.sessions.checkpoint("s", wrong),
    ]
    if wrong is not None:
        acts += [
            lambda: plane.work.sessions.start(wrong),
            lambda: plane.work.sessions.start(agent=wrong),
            lambda: plane.work.sessions.start(branch=wrong),
            lambda: plane.work.sessions.start(cwd=wrong),
            lambda: plane.work.sessions.list(agent=wrong),
            lambda: plane.work.sessions.get("s", agent=wrong),
        ]
    for act in acts:
        with pytest.raises(InputError, match="expected a text, found "):
            act()
    assert plane.head().seq == seq


def test_a_channel_without_sessions_sees_none_and_an_unknown_one_is_refused(plane):
    talk(plane, "s", "x")
    with pytest.raises(InputError):
        plane.work.sessions.list(channel="nobody")
    privacy = plane.home / "policies" / "privacy.yaml"
    privacy.write_text(
        "version: 1\nload:\n  channel_rules:\n    team: {suppress_kinds: [session]}\n"
    )
    assert plane.work.sessions.list(channel="team") == []
    with pytest.raises(NotFoundError, match=r"^no session 's'$"):
        plane.work.sessions.get("s", channel="team")
