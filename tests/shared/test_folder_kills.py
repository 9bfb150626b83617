"""A sync that is killed at any call is ended by the next one, as if nothing had been."""

import os
import shutil

import pytest
from builders_folders import Ticking, befriended, everyone, files_in, in_force, made
from fakes_failing_calls import Failing
from hypothesis import settings
from process_children import forked

import memplane
from memplane.shared.device_file import mark_device
from memplane.shared.folder import own_device

LONG = settings.default.max_examples >= 500
FEW = 7


def opened(home):
    return memplane.open(home, durability="os", clock=Ticking(), environment={})


@pytest.fixture
def base(tmp_path):
    """Two planes with something of everything to take in, to send and to erase."""
    folder = tmp_path / "base" / "folder"
    folder.mkdir(parents=True)
    with made(tmp_path / "base" / "ann") as ann, made(tmp_path / "base" / "bob") as bob:
        befriended({"ann": ann, "bob": bob}, folder)
        for n in range(4):
            ann.record(f"of ann {n}", kind="fact", key="abc"[n % 3], id=f"ann:{n}")
            bob.record(f"of bob {n}", kind="fact", key="abcd"[n], id=f"bob:{n}")
        ann.record("x" * 400_000, kind="fact", key="long")
        everyone([ann, bob], folder)
        bob.upkeep.purge("ann:1", "bob:2")
        bob.forget("d")
        bob.record("new of bob", kind="fact", key="b")
        bob.upkeep.sync(folder)
        ann.record("forgotten before it was sent", kind="fact", key="e")
        ann.forget("e")
        ann.record("y" * 400_000, kind="fact", key="long")
        ann.upkeep.purge("ann:0")
    return tmp_path / "base"


def synced(top, k):
    """Sync as ann, die before the k-th call that changes a file; the calls, None where it died."""
    shutil.rmtree(top, ignore_errors=True)
    shutil.copytree(top.parent / "base", top)
    for name in ("ann", "bob"):  # a copy is another device, unless it is said to be this one
        (kept,) = (top / name / "shared").glob("folder-*.json")
        mark_device(str(top / name), kept.stem.removeprefix("folder-"))

    def run(_):
        with opened(top / "ann") as plane:
            failing = Failing(top, k, "die")
            with failing:
                plane.upkeep.sync(top / "folder")
            return failing.names

    answers, _ = forked(run)
    return answers[-1][1] if answers else None


def end_of(top):
    """What is there when ann has synced once more, and then what a further sync changes."""
    with opened(top / "ann") as plane:
        plane.upkeep.sync(top / "folder")
        head, files = plane.context.log.head().seq, files_in(top / "folder")
        plane.upkeep.sync(top / "folder")
        assert (plane.context.log.head().seq, files_in(top / "folder")) == (head, files)
        assert plane.upkeep.verify().ok
        ids = [line.event.id for line in plane.context.log.read()]
        assert len(ids) == len(set(ids))
        device = own_device(plane.context, top / "folder")
        kinds = sorted(line.event.kind for line in plane.context.log.read())
        return in_force(plane), kinds, files[f"{device}.jsonl"]


def test_a_sync_that_was_killed_is_ended_by_the_next(tmp_path, base):
    names = synced(tmp_path / "whole", 10**9)
    expected, kinds, own = end_of(tmp_path / "whole")
    assert expected[("/global", "b")] == "new of bob"
    assert len(names) > 40
    every = range(1, len(names) + 1)
    for k in every if LONG else every[:: max(1, len(names) // FEW)]:
        assert synced(tmp_path / "killed", k) is None
        found, found_kinds, found_own = end_of(tmp_path / "killed")
        assert found == expected, (k, names[k - 1])
        assert [one for one in found_kinds if one != "repair"] == kinds or (
            set(found_kinds) - {"repair", "segment"} == set(kinds) - {"segment"}
        ), (k, names[k - 1])
        # A purge in the log has an id of its own each time, and its time; all else is the same.
        assert len(found_own.splitlines()) == len(own.splitlines()), (k, names[k - 1])
        assert b"of ann 0" not in found_own
        assert not [one for one in os.listdir(tmp_path / "killed" / "folder") if ".new" in one]  # noqa: PTH208
