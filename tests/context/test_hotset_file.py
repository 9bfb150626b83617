"""projections/hotset.json: there from the first pack on, and names what is active by its id."""

import json

import memplane


def read(plane):
    return json.loads((plane.home / "projections" / "hotset.json").read_text())


def test_the_first_pack_writes_the_hotset_with_active_tasks_and_decisions_by_id(plane):
    kept = plane.record("We keep one file", kind="decision", key="files")
    old = plane.record("We keep tabs", kind="decision", key="tabs")
    new = plane.record("We keep blanks", kind="decision", key="tabs")
    plane.work.tasks.open("done", "It was done.")
    plane.work.tasks.done("done")
    plane.work.tasks.open("one", "Keep one file.", session="s1")
    plane.work.tasks.open("two", "Two of them.", session="s2")
    plane.work.tasks.open("idle", "Not active.", session="s2")
    assert not (plane.home / "projections" / "hotset.json").exists()
    plane.pack("")
    found = read(plane)["active"]
    assert found == {"tasks": ["one", "two"], "decisions": [kept.id, new.id]}
    assert old.id not in found["decisions"]


def test_the_hotset_that_is_there_is_read_and_not_written_again(plane):
    plane.record("We keep one file", kind="decision")
    plane.pack("")
    before = read(plane)
    plane.record("We keep two", kind="decision")
    for _ in range(2):
        with memplane.open(plane.home) as other:
            assert "We keep two" in other.pack("").text
    assert read(plane) == before


def test_a_reader_or_a_hook_writes_none(plane):
    plane.record("We keep one file", kind="decision")
    plane.close()
    with memplane.open(plane.home, read_only=True) as reader:
        reader.pack("")
    with memplane.open(plane.home) as again:
        again.record("x")
        again.at(1).pack("")
        assert not (plane.home / "projections" / "hotset.json").exists()


def test_topics_are_those_of_a_session(plane):
    for number in range(12):
        plane.record(f"turn {number}", session="s1", tags=[f"t{number}", "always"])
    plane.record("another", session="s2", tags=["other"])
    plane.record("nobody's", tags=["lost"])
    plane.pack("")
    ((high, space, hotset),) = read(plane)["state"]["groups"]
    assert (high, space) == (0, "")
    topics = dict(hotset["topics"])
    assert list(topics) == ["s1", "s2"]
    assert topics["s1"] == [*([f"t{number}", 1] for number in range(5, 12)), ["always", 12]]
    assert topics["s2"] == [["other", 1]]
