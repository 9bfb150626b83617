"""What became of a value, by which event, at which time; and what the newer one replaced."""

import pytest

import memplane
from memplane.errors import NotFoundError

EARLY, NOON, LATE = (f"2026-01-0{day}T12:00:00.000000Z" for day in (4, 5, 6))


def fates(plane, key, **asked):
    return [(one.event.id, one.reason, one.by_seq) for one in plane.history(key, **asked)]


def test_each_archived_value_says_why_and_by_which_event_and_the_newer_names_the_older(plane):
    first = plane.record("PostgreSQL", id="a", kind="decision", key="db")
    second = plane.record("SQLite", id="b", kind="decision", key="db")
    gone = plane.forget("db")
    assert fates(plane, "db") == [("a", "superseded", second.seq), ("b", "forgotten", gone.seq)]
    assert [one.supersedes for one in plane.history("db")] == [None, first.seq]
    assert plane.work.archived(plane.event("a")) == ("superseded", second.seq)
    assert plane.work.standing(plane.event("b")).supersedes == first.seq
    assert plane.event("a").text == "PostgreSQL"


def test_a_value_holds_from_valid_from_until_valid_until_at_the_requests_clock(plane):
    plane.record("old", id="a", kind="fact", key="k")
    plane.record("new", id="b", kind="fact", key="k", valid_from=NOON, valid_until=LATE)
    assert plane.get("k", now=NOON).id == "b"
    assert plane.keys("k", now=NOON) == ["k"]
    assert plane.work.archived(plane.event("b"), now=LATE) is None
    assert plane.work.archived(plane.event("b"), now="2026-01-06T12:00:00.000001Z") == (
        "expired",
        None,
    )


def test_an_expired_value_does_not_bring_its_predecessor_back(plane):
    plane.record("old", id="a", kind="fact", key="k")
    plane.record("new", id="b", kind="fact", key="k", valid_until=NOON)
    assert plane.get("k", now=LATE) is None
    assert plane.keys(now=LATE) == []
    assert fates(plane, "k", now=LATE) == [
        ("a", "superseded", plane.event("b").seq), ("b", "expired", None),
    ]  # fmt: skip
    assert fates(plane, "k", now=EARLY)[1] == ("b", None, None)


def test_a_value_that_is_not_valid_yet_is_pending_and_not_archived(plane):
    plane.record("soon", id="a", kind="fact", key="k", valid_from=LATE)
    assert plane.get("k") is None
    assert fates(plane, "k") == [("a", "pending", None)]
    assert plane.work.archived(plane.event("a")) is None


def test_keys_are_as_many_as_asked_for_whatever_is_passed_over(plane):
    for n in range(20):
        hidden = {"valid_until": EARLY} if n % 2 else {"sensitivity": "secret"} if n % 3 else {}
        plane.record("x", kind="fact", key=f"k{n:02}", **hidden)
    assert plane.keys(limit=3) == ["k00", "k06", "k12"]
    assert plane.keys(limit=4) == ["k00", "k06", "k12", "k18"]


def test_what_the_channel_may_not_see_is_answered_as_what_is_not_there(plane):
    plane.record("the salary", id="pay", kind="fact", key="pay", sensitivity="high")
    assert plane.get("pay", channel="team") is None
    assert plane.history("pay", channel="team") == []
    for call in (
        lambda: plane.event("pay", channel="team"),
        lambda: plane.expand("#2", channel="team"),
    ):
        with pytest.raises(NotFoundError):
            call()
    assert plane.keys(channel="team") == []
    assert plane.search("salary", channel="team") == []
    assert "salary" not in plane.pack("what is the salary?", channel="team").text
    assert plane.get("pay").id == "pay"


def test_a_history_leaves_out_the_values_that_the_channel_may_not_see(plane):
    plane.record("open", id="a", kind="fact", key="k")
    plane.record("closed", id="b", kind="fact", key="k", sensitivity="high")
    assert fates(plane, "k", channel="team") == [("a", "superseded", None)]
    assert plane.get("k", channel="team") is None


def test_a_key_that_never_was_has_no_value_no_history_and_cannot_be_touched(plane):
    assert plane.get("none") is None
    assert plane.history("none") == []
    with pytest.raises(NotFoundError):
        plane.touch(key="none")


def test_a_value_that_was_read_is_read_anew_once_anybody_replaced_or_forgot_it(plane):
    with memplane.open(plane.home, durability="os") as other:
        for number in range(4):
            written = (plane, other)[number % 2].record(str(number), kind="fact", key="k")
            assert plane.get("k").id == other.get("k").id == written.id
        other.forget("k")
        assert plane.get("k") is other.get("k") is None
        plane.unforget("k")
        assert other.get("k").text == "3"
