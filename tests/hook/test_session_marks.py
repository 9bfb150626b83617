"""A session that ends and goes on, any number of times, told by one hook or by two at once."""

import itertools

import pytest
from hypothesis import given, strategies as st

import memplane
from memplane import hook
from memplane.hook.run import marked_rows

START = {"hook_event_name": "SessionStart", "source": "startup"}
RESUME = {"hook_event_name": "SessionStart", "source": "resume"}
END = {"hook_event_name": "SessionEnd", "reason": "other"}
SAID = {"hook_event_name": "Stop", "last_assistant_message": "done"}


numbers = itertools.count(1)


def rows(plane, one, agent="codex"):
    said = hook.read_payload(agent, {"session_id": "s1", "cwd": "/w", **one})
    return marked_rows(plane._log, said) if said.marks else said.rows


def tell(plane, one, *, hooks=1, at_once=False):
    """What one event comes to where several hooks tell it: each looks before or after others."""
    made = [rows(plane, one) for _ in range(hooks)] if at_once else None
    for n in range(hooks):
        for row in rows(plane, one) if made is None else made[n]:
            plane.record(**row)


def statuses(plane, session="s1"):
    return [one.data["status"] for one in plane.events(kind="session") if one.session == session]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with memplane.init(tmp_path_factory.mktemp("shared") / "plane", durability="os") as plane:
        yield plane


@pytest.fixture
def plane(tmp_path):
    with memplane.init(tmp_path / "plane", durability="os") as plane:
        yield plane


@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(1, 3), st.booleans()), max_size=5)
)
def test_each_end_and_each_return_is_recorded_once_however_many_hooks_tell_it(shared, lives):
    """A life: whether words are said in it, whether others speak behind it, who tells it, and how."""
    session = f"s{next(numbers)}"

    def say(one, **more):
        tell(shared, {**one, "session_id": session}, **more)

    say(START)
    expected = ["start"]
    for number, (speaks, others, hooks, at_once) in enumerate(lives):
        if number:
            say(RESUME, hooks=hooks, at_once=at_once)
            expected.append("resume")
        if speaks:
            say({**SAID, "turn_id": f"t{number}"}, hooks=hooks, at_once=at_once)
        say(END, hooks=hooks, at_once=at_once)
        expected.append("end")
        if others:
            shared.record(f"words {number}", session="others")
    assert statuses(shared, session) == expected


def test_who_comes_back_after_a_long_time_is_back(plane):
    tell(plane, RESUME)
    tell(plane, END)
    plane.record_many([{"text": f"words {n}", "session": "s2"} for n in range(1_200)])
    tell(plane, RESUME, hooks=2, at_once=True)
    tell(plane, RESUME)
    tell(plane, END)
    assert statuses(plane) == ["resume", "end"] * 2
    [found] = [one for one in plane.work.sessions.list() if one.id == "s1"]
    assert found.status == "ended"


def test_what_memplane_says_of_an_ended_session_does_not_end_it_again(plane):
    tell(plane, START)
    tell(plane, END)
    plane.record("They spoke", kind="summary", session="s1", data={"extract": True})
    tell(plane, END)
    assert statuses(plane) == ["start", "end"]
