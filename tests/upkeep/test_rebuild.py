"""`rebuild` keeps what it makes, or says who or what stands in the way."""

import os
import threading

import pytest
from builders_exports import made

from memplane.errors import LockError, WriteError
from memplane.index.storage import alone
from memplane.projections import projector
from memplane.upkeep import verify


@pytest.fixture
def plane(tmp_path):
    with made(tmp_path / "plane") as plane:
        for number in range(5):
            plane.record(f"line {number}")
        plane.upkeep.index()
        plane.upkeep.rebuild()
        yield plane


def kept(plane):
    return {
        path.relative_to(plane.home).as_posix(): path.read_bytes()
        for name in ("projections", "index")
        for path in sorted((plane.home / name).rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


@pytest.mark.parametrize("folder", ["projections", "index"])
def test_while_another_process_writes_there_nothing_is_thrown_away_and_it_is_named(
    plane, monkeypatch, folder
):
    monkeypatch.setattr(verify, "_WAIT_SECONDS", 0.05)
    monkeypatch.setattr(verify._await, "__defaults__", (0.05,))
    before = kept(plane)
    assert len(before) > 5
    with alone(plane.home / folder) as held:
        assert held
        with pytest.raises(LockError, match="nothing was changed") as refusal:
            plane.upkeep.rebuild()
    assert refusal.value.holder == os.getpid()
    assert f"{folder}/.lock: held by process {os.getpid()}" in str(refusal.value)
    assert kept(plane) == before
    assert plane.upkeep.rebuild() == 6


def test_whoever_is_there_for_a_moment_is_waited_for(plane):
    begun, ended = threading.Event(), threading.Event()

    def writes():
        with alone(plane.home / "projections") as held:
            assert held
            begun.set()
            ended.wait(0.3)

    other = threading.Thread(target=writes)
    other.start()
    begun.wait()
    plane.upkeep.rebuild()
    other.join()
    there = projector.read_checkpoint(plane.home / "projections" / "hotset.json")
    assert there.position.seq == 6


def test_a_disk_that_takes_no_projection_is_told(plane, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("memplane.projections.projector.replace_bytes", full)
    with pytest.raises(WriteError, match="it was not kept"):
        plane.upkeep.rebuild()
    assert plane.pack("line 3").text
    monkeypatch.undo()
    assert plane.upkeep.rebuild() == 6


@pytest.mark.parametrize("starts", ["beside", "refused"])
def test_an_index_that_another_process_makes_is_the_same(plane, monkeypatch, starts):
    before, told = kept(plane), []
    monkeypatch.setattr(verify, "_LINES_MIN", 1)
    if starts == "refused":
        monkeypatch.setattr(verify, "_CHILD", "raise SystemExit(1)")
    assert (
        plane.upkeep.rebuild(processes=2, progress=lambda done, total: told.append(done / total))
        == plane.head().seq
    )
    after = kept(plane)
    del before["index/stamps.json"], after["index/stamps.json"]  # by the times of the files
    del before["projections/checkpoints.bin"], after["projections/checkpoints.bin"]
    assert after == before
    assert told == sorted(told)
    assert told[-1] == 1
    assert plane.search("line 3")[0].text == "line 3"
