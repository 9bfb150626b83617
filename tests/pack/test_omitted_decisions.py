"""What a pack says of decisions in force that no place is kept for."""

import pytest

import memplane


def decide(plane, numbers, **fields):
    plane.record_many(
        {
            "kind": "decision",
            "key": f"d.{n}",
            "id": f"d-{n}",
            "text": f"Port {n} is taken",
            **fields,
        }
        for n in numbers
    )


def named(block) -> list[str]:
    """The ids of what is left out for the ledger's bound, in log order."""
    rows = block.report["omissions"]["listed"]
    mine = [row for row in rows if row["section"] == "relevant_decisions"]
    return [row["id"] for row in sorted(mine, key=lambda row: row["seq"])]


def limit_of(block) -> int:
    return block.report["omissions"]["counts"].get("limit", 0)


def bury(plane):
    """Two hundred turns, so that no window shows what was recorded before."""
    plane.record_many({"role": "user", "text": f"turn {n} about herons"} for n in range(200))


@pytest.mark.parametrize("intent", ["fast", "deep", "orient"])
def test_decisions_beyond_a_hundred_are_omissions_for_the_limit(plane, intent):
    decide(plane, range(130))
    bury(plane)
    block = plane.pack("", budget=8000, intent=intent)
    rows = {row["id"]: row for row in block.report["omissions"]["listed"]}
    gone = [f"d-{n}" for n in range(30)]
    assert named(block)[:30] == gone
    assert {rows[id_]["reason"] for id_ in gone} == {"limit"}
    assert {rows[id_]["tokens"] > 0 for id_ in gone} == {True}
    assert limit_of(block) == 30
    assert block.report["omissions"]["more_decisions"] is False


def test_one_that_is_replaced_forgotten_or_out_of_time_is_counted_no_longer(plane):
    decide(plane, range(3), valid_until="2026-01-06T00:00:00Z")
    decide(plane, range(3, 110))
    bury(plane)
    first = [f"d-{n}" for n in range(10)]
    assert named(plane.pack(""))[:10] == first
    plane.record("Port 3 is free", kind="decision", key="d.3")  # d-10 leaves for it
    plane.forget(key="d.5")
    left = [f"d-{n}" for n in (0, 1, 2, 4, 6, 7, 8, 9, 10)]
    block = plane.pack("")
    assert (named(block)[:9], limit_of(block)) == (left, 9)
    late = plane.pack("", now="2026-02-01T00:00:00Z")
    assert (named(late)[:6], limit_of(late)) == (left[3:], 6)
    plane.unforget(key="d.5")
    assert limit_of(plane.pack("")) == 10


def test_what_is_hidden_from_a_channel_is_neither_named_nor_counted(plane):
    decide(plane, range(104))
    decide(plane, range(1000, 1130), sensitivity="high")
    decide(plane, range(2000, 2110), ns="/agent/other")
    decide(plane, range(3000, 3600), ns="/agent/third")
    bury(plane)
    block = plane.pack("", channel="public")
    assert named(block)[:4] == [f"d-{n}" for n in range(4)]
    assert limit_of(block) == 4
    assert block.report["omissions"]["more_decisions"] is False
    assert limit_of(plane.pack("")) == 34
    third = plane.pack("", channel="public", agent="third")
    assert limit_of(third) > 100
    assert third.report["omissions"]["more_decisions"] is True


def test_what_stands_in_the_block_for_another_reason_is_no_omission(plane):
    decide(plane, range(130))
    bury(plane)
    block = plane.pack("Which is the case of Port 7?", budget=8000, intent="deep")
    assert any("d-7" in entry.events for entry in block.entries)
    assert "d-7" not in named(block)


def test_every_event_is_shown_or_counted_once(plane):
    decide(plane, range(100), text="Port is taken by the " + "long list of what follows " * 5)
    plane.record_many({"role": "user", "text": f"port {n}"} for n in range(700))
    block = plane.pack("Which port?", budget=1000, intent="deep")
    shown = {id_ for entry in block.entries for id_ in (*entry.events, *entry.parts)}
    counts = dict(block.report["omissions"]["counts"])
    counts.pop("missing")  # views
    assert sum(counts.values()) + len(shown) == 800


def test_of_more_than_three_hundred_the_report_says_that_it_does_not_know_them_all(plane):
    decide(plane, range(301))
    assert plane.pack("", budget=1000).report["omissions"]["more_decisions"] is True
    assert len(plane.work.decisions()) == 300


def test_the_report_is_the_same_from_a_saved_ledger(plane, clock):
    decide(plane, range(130))
    bury(plane)
    before = plane.pack("", budget=2000).report["omissions"]
    plane.close()
    with memplane.open(plane.home, clock=clock) as again:
        assert again.pack("", budget=2000).report["omissions"] == before
