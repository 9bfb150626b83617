"""Sessions that end while somebody else writes: what was forgotten is in no summary."""

import pytest

import memplane

THREE = ("Fix the herons", "and the storks", "then the cranes")
NOW = "2026-01-05T12:00:00.000000Z"


class Busy:
    """A clock that lets somebody else write first when it is asked; the log asks under its lock."""

    def __init__(self):
        self.acts = {}
        self.asked = 0

    def __call__(self):
        self.asked += 1
        act = self.acts.pop(self.asked, None)
        if act is not None:
            act()
        return NOW

    def at(self, act, *calls):
        """Do it at the next calls, counted from 1."""
        self.acts = {self.asked + call: act for call in calls}


@pytest.fixture
def busy():
    return Busy()


@pytest.fixture
def both(tmp_path, busy):
    """Two who have one plane open; the first one's clock is busy."""
    memplane.init(tmp_path / "plane", clock=lambda: NOW).close()
    with (
        memplane.open(tmp_path / "plane", durability="os", clock=busy) as plane,
        memplane.open(tmp_path / "plane", durability="os", clock=lambda: NOW) as other,
    ):
        for number, text in enumerate(THREE):
            plane.record(text, role="user", session="s", id=f"crm:{number}")
        plane.pack("")
        yield plane, other


def in_force(plane):
    """The generated summaries that nothing took out of force."""
    return [e for e in plane.events(kind="summary") if plane.work.archived(e) is None]


# An end asks the clock for the sources and for each of its two rows, before the log does.
@pytest.mark.parametrize("call", [1, 2, 3])
@pytest.mark.parametrize("named", [{"id": "crm:0"}, {"source": "crm"}, {"session": "s"}])
def test_what_is_forgotten_while_a_session_ends_is_in_no_summary(both, busy, call, named):
    plane, other = both
    busy.at(lambda: other.forget(**named), call)
    ended = plane.work.sessions.end("s")
    assert busy.acts == {}, "the other one wrote"
    assert (ended.reason, ended.already) == ("explicit", False)
    for each in both:
        assert not any("herons" in summary.text for summary in in_force(each))
        assert "herons" not in each.pack("herons").text
    assert len(list(plane.events(kind="session"))) == 1


def test_a_session_that_ends_while_it_is_being_forgotten_leaves_no_summary(both, busy):
    plane, other = both
    busy.at(lambda: other.work.sessions.end("s"), 1)
    plane.forget(id="crm:0")
    assert busy.acts == {}
    assert len(list(plane.events(kind="summary"))) == 1
    assert in_force(plane) == []
    assert "herons" not in other.pack("herons").text


@pytest.mark.parametrize("call", [1, 2, 3])
def test_of_two_who_end_a_session_one_does_and_the_other_says_so(both, busy, call):
    plane, other = both
    busy.at(lambda: other.work.sessions.end("s"), call)
    again = plane.work.sessions.end("s")
    assert busy.acts == {}
    assert (again.already, again.reason) == (True, "explicit")
    assert len(list(plane.events(kind="session"))) == len(list(plane.events(kind="summary"))) == 1


def test_two_who_end_it_for_other_reasons_and_with_other_words_write_one_end(both, busy):
    plane, other = both
    busy.at(lambda: other.work.sessions.end("s", summary=False), 2)
    assert plane.work.sessions.end("s").already
    added = [event.kind for event in plane.events() if event.kind not in ("message", "segment")]
    assert added == ["session"]


def test_a_session_that_comes_alive_is_not_ended_as_idle(tmp_path, busy):
    memplane.init(tmp_path / "plane", clock=lambda: NOW).close()
    with memplane.open(tmp_path / "plane", clock=lambda: "2026-01-05T10:00:00.000000Z") as early:
        for name in ("a", "b"):
            early.record("long ago", role="user", session=name)
    with (
        memplane.open(tmp_path / "plane", clock=busy) as plane,
        memplane.open(tmp_path / "plane", clock=lambda: NOW) as other,
    ):
        busy.at(lambda: other.record("here again", role="user", session="a"), 2)
        assert [one.session for one in plane.work.sessions.end_idle()] == ["b"]
        assert busy.acts == {}
        assert {one.id: one.status for one in other.work.sessions.list()} == {
            "a": "open", "b": "ended",
        }  # fmt: skip


def test_where_somebody_always_writes_first_a_session_ends_without_a_summary(both, busy):
    plane, other = both
    # Three calls a try, and five tries; in the last one nobody may hold the write up.
    busy.at(lambda: other.record("me first", session="t"), *range(1, 16))
    ended = plane.work.sessions.end("s")
    assert busy.acts == {}
    assert (ended.reason, ended.already, ended.summary) == ("explicit", False, None)
    assert plane.work.sessions.get("s").status == "ended"
    assert list(plane.events(kind="summary")) == []


def test_where_others_write_on_and_on_every_one_of_many_sessions_is_summed_up(tmp_path, busy):
    memplane.init(tmp_path / "plane", clock=lambda: NOW).close()
    home = tmp_path / "plane"
    with memplane.open(home, durability="os", clock=lambda: "2026-01-05T10:00:00.000000Z") as early:
        for number in range(199):
            early.record_many(
                [{"text": text, "role": "user", "session": f"s{number}"} for text in THREE]
            )
    with (
        memplane.open(home, durability="os", clock=busy) as plane,
        memplane.open(home, durability="os", clock=lambda: NOW) as other,
    ):
        # A try asks once for what is idle; a group of 32 for its sources, each row, and the log's
        # time. So somebody writes before each second group, more often than there are tries.
        busy.at(lambda: other.record("me first", session="t"), *(132 * n + 2 for n in range(6)))
        ended = plane.work.sessions.end_idle()
        assert busy.acts == {}
        assert sorted(one.session for one in ended) == sorted(f"s{n}" for n in range(199))
        assert all(one.summary is not None for one in ended)


@pytest.mark.parametrize("how", ["end", "checkpoint"])
def test_what_is_said_of_an_agents_own_session_stays_in_its_namespace(plane, how):
    for number in range(3):
        plane.record(f"turn {number}", role="user", session="quiet", ns="/agent/al", actor="al")
    head = plane.head().seq
    getattr(plane.work.sessions, how)("quiet")
    said = [line.event for line in plane._log.read(head)]
    assert {event.ns for event in said} == {"/agent/al"}
    assert [event.session for event in plane.events(agent="bo") if event.seq > head] == []
    assert [event for event in plane.events(agent="al") if event.seq > head] != []
    assert plane.work.sessions.list(agent="bo") == []
    if how == "end":
        assert plane.work.sessions.end("quiet").already


def test_what_is_said_of_a_session_that_others_know_is_for_all(plane):
    plane.record("private", role="user", session="mixed", ns="/agent/al", actor="al")
    plane.record("public", role="user", session="mixed", actor="al")
    plane.work.sessions.end("mixed")
    assert list(plane.events(kind="session"))[-1].ns == "/global"
