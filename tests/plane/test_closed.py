"""A closed plane says so; what was asked wrongly says so too, and neither writes."""

import pytest

import memplane
from memplane.errors import HomeError, InputError, NotFoundError

USES = {
    "record": lambda plane: plane.record("x"),
    "record_many": lambda plane: plane.record_many([{"text": "x"}]),
    "forget": lambda plane: plane.forget("k"),
    "forget id": lambda plane: plane.forget(id="a"),
    "forget session": lambda plane: plane.forget(session="s"),
    "pin": lambda plane: plane.pin(2),
    "pack": lambda plane: plane.pack("x"),
    "event": lambda plane: plane.event(2),
    "archived": lambda plane: plane.work.archived(None),
    "events": lambda plane: list(plane.events()),
    "get": lambda plane: plane.get("k"),
    "keys": lambda plane: plane.keys(),
    "history": lambda plane: plane.history("k"),
    "decisions": lambda plane: plane.work.decisions(),
    "expand": lambda plane: plane.expand("expand://event/2"),
    "head": lambda plane: plane.head(),
    "at": lambda plane: plane.at(1),
    "hotset": lambda plane: plane.upkeep.hotset(),
    "rebuild": lambda plane: plane.upkeep.rebuild(),
    "differing": lambda plane: plane.upkeep.differing(),
    "flush": lambda plane: plane.flush(),
}


@pytest.fixture
def closed(plane):
    plane.record("We keep it", kind="decision", key="k", session="s")
    plane.upkeep.rebuild()
    plane.close()
    return plane


def everything(home):
    return {path: path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("use", USES)
def test_a_closed_plane_refuses_every_use_and_nothing_on_disk_changes(closed, use):
    before = everything(closed.home)
    with pytest.raises(HomeError, match="this plane was closed; open it again"):
        USES[use](closed)
    assert everything(closed.home) == before


def test_closing_again_does_nothing_and_a_receipt_can_still_be_read(plane):
    receipt = plane.record("x")
    plane.close()
    plane.close()
    assert receipt.event.text == "x"
    with memplane.open(plane.home) as again:
        assert again.event(receipt.seq).text == "x"


@pytest.mark.parametrize(
    "read",
    [
        lambda plane, ns: plane.get("k", ns),
        lambda plane, ns: plane.keys("", ns),
        lambda plane, ns: plane.history("k", ns),
        lambda plane, ns: plane.work.decisions(ns=ns),
        lambda plane, ns: plane.events(ns=ns),
        lambda plane, ns: plane.pack("x", ns=ns),
        lambda plane, ns: plane.pack("x", ns=["/global", ns]),
        lambda plane, ns: plane.forget("k", ns=ns),
        lambda plane, ns: plane.unforget("k", ns=ns),
        lambda plane, ns: plane.pin(key="k", ns=ns),
    ],
)
def test_a_misspelt_namespace_is_a_mistake_and_no_empty_answer(plane, read):
    with pytest.raises(
        InputError, match=r"^ns: found '/tsk/a'; expected /global, /project/<name>, /task/<id>"
    ):
        read(plane, "/tsk/a")


def test_a_pin_takes_a_key_and_means_the_value_it_has_now(plane):
    plane.record("old", kind="decision", key="k")
    new = plane.record("new", kind="decision", key="k")
    other = plane.record("theirs", kind="decision", key="k", ns="/task/t")
    assert plane.pin(key="k").event.refs == (new.id,)
    assert plane.pin(key="k", ns="/task/t").event.refs == (other.id,)
    taken = plane.unpin(key="k").event
    assert (taken.refs, taken.data) == ((new.id,), {"undo": True})
    for wrong in ({}, {"id": new.id, "key": "k"}):
        with pytest.raises(InputError, match="expected exactly one of id and key"):
            plane.pin(**wrong)
    with pytest.raises(NotFoundError, match="no value under 'none' in /global"):
        plane.pin(key="none")


def test_bodies_are_for_the_owner_alone_whoever_makes_their_folders(plane):
    plane.record("x" * (2 * 1024 * 1024))
    plane.pack("x", save_report=True)
    below = list((plane.home / "bodies").rglob("*"))
    assert len(below) > 5
    for path in below:
        assert path.stat().st_mode & 0o077 == 0, path


def test_bodies_of_a_pack_alone_are_for_the_owner_alone(plane):
    plane.pack("x", save_report=True)
    for path in (plane.home / "bodies").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_the_repair_of_a_plane_without_events_begins_no_log(plane, clock):
    from memplane import log

    assert log.repair_log(plane.home, plane.id, clock=clock).events == ()
    assert list((plane.home / "log").iterdir()) == []
