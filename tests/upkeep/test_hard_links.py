"""A backup made of hard links (`cp -al`) keeps its bytes, whatever is done to the plane after it."""

import multiprocessing
import os
from contextlib import suppress
from pathlib import Path

import pytest

import memplane
from memplane.upkeep.doctor import hard_links


def linked(home, backup):
    """Copy a plane by hard links; the bytes of every file."""
    for root, _, names in os.walk(home):
        there = backup / Path(root).relative_to(home)
        there.mkdir(parents=True, exist_ok=True)
        for name in names:
            os.link(Path(root, name), there / name)
    return bytes_of(backup)


def bytes_of(folder):
    return {
        path.relative_to(folder): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def filled(home, **settings):
    plane = memplane.init(home, durability="os", **settings)
    for number in range(70):
        plane.record(
            f"fact {number} of the ledger", kind="fact", key=f"k{number % 5}", id=f"f{number}"
        )
    plane.pack("ledger", budget=2000)
    plane.search("ledger")
    return plane


def used(plane):
    """All that writes: appends, repeats, packs, searches, tasks, a purge, a rebuild."""
    for number in range(70):
        plane.record(f"later {number} of the ledger", kind="fact", key=f"k{number % 5}")
    plane.record("fact 3 of the ledger", kind="fact", key="k3", id="f3")
    plane.pack("ledger", budget=2000)
    plane.search("ledger")
    plane.upkeep.purge("f7", reason="a test")
    plane.upkeep.rebuild()


@pytest.mark.parametrize("when", ["while it is open", "while it is closed"])
def test_a_backup_of_hard_links_keeps_its_bytes_whatever_follows(tmp_path, when):
    home, backup = tmp_path / "plane", tmp_path / "backup"
    plane = filled(home)
    if when == "while it is closed":
        plane.close()
    kept = linked(home, backup)
    if when == "while it is closed":
        plane = memplane.open(home)
    used(plane)
    plane.close()
    with memplane.open(home) as again:
        assert again.upkeep.verify(deep=True).ok
        assert len([event for event in again.events() if event.kind == "fact"]) == 139
    assert bytes_of(backup) == kept
    assert b"fact 7 of the ledger" not in b"".join(
        path.read_bytes() for path in sorted((home / "log").glob("*.jsonl"))
    )
    with memplane.open(backup) as old:
        assert "fact 7" in old.event("f7").text


def test_each_of_several_backups_keeps_what_it_had(tmp_path):
    home = tmp_path / "plane"
    plane = filled(home)
    kept = []
    for number in range(3):
        backup = tmp_path / f"backup{number}"
        kept.append((backup, linked(home, backup)))
        plane.record(f"note {number}")
        plane.pack(f"note {number}")
        plane.flush()
    plane.close()
    assert [bytes_of(folder) == before for folder, before in kept] == [True] * 3


def append(home, name, count):
    with memplane.open(home) as plane:
        for number in range(count):
            plane.record(f"{name} {number}", id=f"{name}-{number}")


def test_processes_that_append_while_backups_are_made_lose_nothing(tmp_path):
    """Each backup is the log as it was then: whole lines of it, from its beginning."""
    home, names, count = tmp_path / "plane", ("a", "b", "c"), 40
    memplane.init(home, durability="os").close()
    context = multiprocessing.get_context("fork")
    running = [context.Process(target=append, args=(home, name, count)) for name in names]
    for one in running:
        one.start()
    backups = []
    while any(one.is_alive() for one in running) and len(backups) < 200:
        with suppress(FileNotFoundError):  # before the first append
            backup = tmp_path / f"backup{len(backups)}"
            backup.mkdir(exist_ok=True)
            for name in (".lock", "00000001.jsonl"):
                os.link(home / "log" / name, backup / name)
            backups.append(backup)
        for one in running:
            one.join(0.01)
    for one in running:
        one.join(60)
        assert one.exitcode == 0
    with memplane.open(home) as plane:
        found = [event.id for event in plane.events() if event.kind == "message"]
        assert sorted(found) == sorted(f"{name}-{n}" for name in names for n in range(count))
        assert plane.upkeep.verify(deep=True).ok
    log = (home / "log" / "00000001.jsonl").read_bytes()
    for backup in backups:
        assert log.startswith((backup / "00000001.jsonl").read_bytes())


def test_doctor_says_which_files_have_other_names(tmp_path):
    home = tmp_path / "plane"
    filled(home).close()
    assert hard_links(home).status == "ok"
    linked(home, tmp_path / "backup")
    said = hard_links(home)
    assert (said.status, "files have other names too" in said.found) == ("warn", True)
    assert "cp -a" in said.remedy
