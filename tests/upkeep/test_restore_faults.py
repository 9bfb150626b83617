"""A restore that is refused or dies at any step: nothing was changed, or all of it is there."""

import errno
import multiprocessing
import os
import shutil
from contextlib import suppress

import pytest

import memplane
from memplane import home as homes
from memplane.errors import HomeError, PlaneError, WriteError
from memplane.log import Disk, verify_log
from memplane.policy import NAMES
from memplane.upkeep import restore as restoring
from tests.examples import paired

FORK = multiprocessing.get_context("fork")
TARGETS = ("missing", "deeply missing", "bare", "empty", "empty, of that id", "project")
FAULTS = (errno.EIO, errno.ENOSPC)
EVERY = (60, pytest.param(1, marks=pytest.mark.long))


def clock():
    return "2026-01-05T12:00:00.000000Z"


def opened(home):
    return memplane.open(home, durability="os", clock=clock, environment={})


def made(home):
    return memplane.init(home, durability="os", clock=clock, environment={})


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """A plane of several segments with bodies, and its export."""
    folder = tmp_path_factory.mktemp("given")
    with made(folder / "plane") as plane:
        plane._log._writer.segment_bytes_max = 700
        for n in range(6):
            plane.record(f"line {n}", role="user", session="s", id=f"m{n}")
        for name in ("a.txt", "b.txt"):
            (folder / name).write_text(f"{name}\n")
            plane.work.artifacts.add(folder / name)
        plane.upkeep.export(folder / "e.jsonl")
    return folder


class FaultyDisk(Disk):
    """Call `k` of those that write fails with `fault`, or ends the process; counts them all."""

    def __init__(self, k=0, fault=errno.EIO, *, dies=""):
        self.calls, self.k, self.fault, self.dies = 0, k, fault, dies

    def step(self, do, *arguments):
        self.calls += 1
        if self.calls != self.k:
            return do(*arguments)
        if self.dies == "before":
            os._exit(9)
        if self.dies == "after":
            do(*arguments)
            os._exit(9)
        raise OSError(self.fault, os.strerror(self.fault))

    def write(self, fd, data):
        return self.step(super().write, fd, data[: len(data) // 2 + 1])

    def fdatasync(self, fd):
        return self.step(os.fstat, fd)

    def replace(self, source, target, home=None):
        return self.step(super().replace, source, target, home)

    def sync_directory(self, path, *_):
        return self.step(os.stat, path)


def target(folder, name, plane_id):
    """A folder to restore into, of one sort; it is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    if name == "deeply missing":
        return folder / "a" / "b"
    if name == "bare":
        (folder / "views").mkdir(parents=True)
        (folder / "views" / "rules.md").write_text("- be kind\n")
    elif name.startswith("empty"):
        homes.create_home(
            folder, plane_id if "that id" in name else "another", clock(),
            homes.Assets("policies", NAMES),
        )  # fmt: skip
        (folder / "policies" / "budgets.yaml").write_text("version: 1\ncounter: len4\n")
    elif name == "project":
        folder.mkdir()
        facts = f'{{"format": 1, "plane": "{plane_id}", "created": "{clock()}"}}\n'
        (folder / "plane.json").write_text(facts)
    return folder


def restore(given, home, disk=None):
    with (given / "e.jsonl").open("rb") as file:
        checked = restoring.check_export(file, "e.jsonl")
        restoring.restore_whole(
            file, "e.jsonl", home, checked, created=clock(),
            policies=homes.Assets("policies", NAMES), disk=disk or FaultyDisk(),
        )  # fmt: skip


def tree(folder):
    """Everything below a folder: files with their bytes, folders; locks say who held them last."""
    return {
        os.fspath(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if path.name != ".lock"
    }


def segments(home):
    return {path.name: path.read_bytes() for path in sorted((home / "log").glob("*.jsonl"))}


def steps(calls, every):
    """Steps of a restore: the last ones, which give names, and of those before some or all."""
    return [*range(1, calls - 7, every), *range(max(calls - 7, 1), calls + 1)]


def is_same(given, home):
    """Log and bodies have the same bytes, under the same id, and nothing else lies there."""
    assert segments(home) == segments(given / "plane")
    assert tree(home / "bodies") == tree(given / "plane" / "bodies")
    assert homes.open_home(home).plane_id == homes.open_home(given / "plane").plane_id


def is_whole(given, home):
    is_same(given, home)
    with opened(home) as plane, opened(given / "plane") as original:
        assert plane.id == original.id
        assert plane.upkeep.differing() == []
        assert plane.pack("line 3").text == original.pack("line 3").text
        assert verify_log(home, plane.id).problems == ()


@pytest.fixture(scope="module")
def plane_id(given):
    return homes.open_home(given / "plane").plane_id


@pytest.mark.parametrize("sort", TARGETS)
@pytest.mark.parametrize("every", EVERY)
def test_a_disk_that_refuses_any_step_leaves_everything_as_it_was(
    given, plane_id, tmp_path, sort, every
):
    counting = FaultyDisk()
    restore(given, target(tmp_path / "x", sort, plane_id), counting)
    assert counting.calls > 20
    for k in steps(counting.calls, every):
        home, fault = target(tmp_path / "x", sort, plane_id), FAULTS[k % 2]
        before = tree(tmp_path)
        with pytest.raises((WriteError, HomeError)) as refusal:
            restore(given, home, FaultyDisk(k, fault))
        if "everything is in its place" in str(refusal.value):
            assert k == counting.calls
            is_same(given, home)
            continue
        assert tree(tmp_path) == before, k
        assert str(os.strerror(fault)) in str(refusal.value)
    restore(given, target(tmp_path / "x", sort, plane_id))
    is_whole(given, home)


@pytest.mark.parametrize(("sort", "when"), paired(TARGETS, ["before", "after"], 3))
@pytest.mark.parametrize("every", EVERY)
def test_killed_at_any_step_it_is_empty_or_whole_and_a_second_run_finishes(
    given, plane_id, tmp_path, sort, when, every
):
    counting = FaultyDisk()
    restore(given, target(tmp_path / "x", sort, plane_id), counting)
    for k in steps(counting.calls, every):
        home = target(tmp_path / "x", sort, plane_id)
        died = FORK.Process(target=restore, args=(given, home, FaultyDisk(k, dies=when)))
        died.start()
        died.join()
        assert died.exitcode == 9
        found = segments(home)
        assert found in ({}, segments(given / "plane")), k
        if not found:
            with suppress(HomeError), memplane.open(home, read_only=True, environment={}) as plane:
                assert plane.head().seq == 0
                assert plane.pack("line 3").entries == ()
        back = memplane.restore(given / "e.jsonl", home, clock=clock)
        assert (back.merged is None) == (not found)
        is_same(given, home)
    is_whole(given, home)


def test_who_records_while_a_restore_is_under_way_loses_nothing(given, tmp_path, monkeypatch):
    """Between looking and the last step somebody else's first event arrives: it stays."""
    home = tmp_path / "x"
    made(home).close()
    with opened(home) as other:
        settle = restoring._Restoring._settle_home

        def late(self, *arguments):
            settle(self, *arguments)
            (home / "log" / ".lock").unlink()  # as somebody does who thinks it is left over
            other.record("mine", id="mine")

        monkeypatch.setattr(restoring._Restoring, "_settle_home", late)
        with pytest.raises(PlaneError):
            restore(given, home)
        monkeypatch.undo()
        assert other.event("mine").text == "mine"
    with opened(home) as plane:
        assert plane.event("mine").text == "mine"
        assert verify_log(home, plane.id).problems == ()
    back = memplane.restore(given / "e.jsonl", home, clock=clock)
    assert back.merged is not None
    assert back.merged.recorded == 8


def test_a_restore_waits_for_the_lock_and_then_names_who_holds_it(given, tmp_path, monkeypatch):
    monkeypatch.setattr(restoring, "_LOCK_WAIT_MS", 30)
    home = tmp_path / "x"
    with made(home) as plane:
        (home / "log").mkdir(exist_ok=True)
        before = tree(tmp_path)
        plane._log._lock.acquire()
        try:
            with pytest.raises(PlaneError, match=str(os.getpid())):
                restore(given, home)
        finally:
            plane._log._lock.release()
        assert tree(tmp_path) == before
    restore(given, home)
    is_whole(given, home)


def test_two_restores_at_once_make_one_plane(given, tmp_path):
    home = tmp_path / "x"
    running = [
        FORK.Process(target=memplane.restore, args=(given / "e.jsonl", home)) for _ in range(4)
    ]
    for one in running:
        one.start()
    for one in running:
        one.join()
    assert any(one.exitcode == 0 for one in running)
    memplane.restore(given / "e.jsonl", home, clock=clock)
    is_whole(given, home)
