"""Clocks that jump or run backwards: the order is that of the log, and nothing fails for a time."""

import datetime as dt

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import memplane
from tests.examples import examples

NOW = "2026-01-05T12:00:00.000000Z"
ODD = [
    "0001-01-01T00:00:00.000000Z", "1969-12-31T23:59:59.999999Z", "1970-01-01T00:00:00.000000Z",
    "2025-12-31T23:59:59.999999Z", NOW, "2038-01-19T03:14:08.000000Z",
    "9999-12-31T23:59:59.999999Z",
]  # fmt: skip


class Clock:
    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


def moments():
    stamps = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))  # noqa: DTZ001
    written = stamps.map(lambda moment: f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z".rjust(27, "0"))
    return st.one_of(st.sampled_from(ODD), written)


@settings(max_examples=examples(10), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(moments(), min_size=1, max_size=8))
def test_whatever_the_clock_says_recording_times_never_run_backwards_and_all_of_it_works(
    tmp_path_factory, times
):
    clock = Clock()
    home = tmp_path_factory.mktemp("clock") / "plane"
    with memplane.init(home, durability="os", clock=clock) as plane:
        for number, moment in enumerate(times):
            clock.now = moment
            plane.record(f"turn {number} about herons", role="user", session="s")
            plane.record(f"value {number}", kind="decision", key="k")
            assert plane.pack("herons", session="s", budget=800).tokens <= 800
        assert plane.get("k").text == f"value {len(times) - 1}"
        events = list(plane.events())
    recorded = [event.rec for event in events]
    assert recorded == sorted(recorded)
    assert len({event.id for event in events}) == len(events)
    assert all(len(event.id) == 26 for event in events)
    assert [event.seq for event in events] == sorted(event.seq for event in events)
    clock.now = NOW
    with memplane.open(home, clock=clock) as plane:
        assert plane.upkeep.verify(deep=True).problems == ()
        assert plane.search("herons")
        block = plane.pack("herons", session="s", budget=800)
        assert "herons" in block.text
        assert plane.work.sessions.list()
        plane.record("one more")
        assert plane.upkeep.rebuild() == plane.head().seq


@pytest.mark.parametrize("first", ODD)
def test_a_plane_recorded_at_an_odd_time_answers_now_as_if_that_were_its_time(tmp_path, first):
    clock = Clock()
    clock.now = first
    with memplane.init(tmp_path / "plane", durability="os", clock=clock) as plane:
        plane.record("we keep SQLite", kind="decision", key="db", session="s")
        plane.record("which database?", role="user", session="s")
        plane.record("for a while", kind="fact", key="f", valid_until="2026-01-05T11:00:00Z")
        plane.record("from now on", kind="fact", key="g", valid_from="2026-01-05T13:00:00Z")
    clock.now = NOW
    with memplane.open(tmp_path / "plane", clock=clock) as plane:
        assert "SQLite" in plane.pack("database", session="s").text
        # What is in force is a matter of the clock of now, not of when it was recorded.
        assert plane.get("f") is None
        assert plane.get("g") is None
        assert plane.get("f", now="2026-01-05T10:00:00Z").text == "for a while"
        assert plane.get("g", now="2026-01-05T14:00:00Z").text == "from now on"
        seq = plane.record("later").seq
        assert plane.event(seq).rec >= plane.event(seq - 1).rec
        assert plane.at(seq - 1).head().seq == seq - 1
        assert [one.id for one in plane.work.sessions.list()] == ["s"]
        plane.touch(key="db")
        plane.work.sessions.end("s")
