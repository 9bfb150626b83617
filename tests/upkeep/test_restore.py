"""Where an export is restored to: an empty plane, a clone, or a plane with events of its own."""

import shutil

import pytest
from builders_exports import clock, exported, is_well, made, opened, tree

import memplane
from memplane.errors import HomeError, WriteError
from memplane.event import Draft
from memplane.log import Disk
from memplane.log.spool import Spool


def test_the_clone_of_a_project_whose_log_git_ignored_gets_its_log_back(filled, tmp_path):
    exported(filled, tmp_path / "e.jsonl")
    home = tmp_path / "clone"
    for name in ("policies", "views"):
        shutil.copytree(filled / name, home / name)
    shutil.copy(filled / "plane.json", home)
    (home / "views" / "rules.md").write_text("- be kind\n")
    memplane.restore(tmp_path / "e.jsonl", home, clock=clock)
    assert tree(home) == tree(filled)
    assert (home / "views" / "rules.md").read_text() == "- be kind\n"
    is_well(home)


def test_an_empty_plane_takes_on_the_id_and_keeps_what_people_wrote(filled, tmp_path):
    report = exported(filled, tmp_path / "e.jsonl")
    home = tmp_path / "empty"
    with made(home) as plane:
        assert plane.id != report.plane
        plane.pack("anything")
    (home / "views" / "rules.md").write_text("- be kind\n")
    memplane.restore(tmp_path / "e.jsonl", home, clock=clock)
    with opened(home) as plane:
        assert plane.id == report.plane
        assert plane.pack("anything").entries
    assert (home / "views" / "rules.md").read_text() == "- be kind\n"
    assert tree(home) == tree(filled)
    is_well(home)


def test_a_log_folder_that_holds_what_nobody_knows_is_not_replaced(filled, tmp_path):
    exported(filled, tmp_path / "e.jsonl")
    made(tmp_path / "odd").close()
    (tmp_path / "odd" / "log" / "quarantine").mkdir(exist_ok=True)
    (tmp_path / "odd" / "log" / "quarantine" / "00000001-0-abc").write_bytes(b"mine")
    before = tree(tmp_path / "odd", caches=True)
    with pytest.raises(HomeError, match="move it away"):
        memplane.restore(tmp_path / "e.jsonl", tmp_path / "odd", clock=clock)
    assert tree(tmp_path / "odd", caches=True) == before


def test_what_waits_in_the_spool_is_exported_and_makes_a_plane_not_empty(tmp_path, filled):
    exported(filled, tmp_path / "e.jsonl")
    home = tmp_path / "spooled"
    with made(home) as plane:
        id_ = plane.id
    rest = b'"kind":"message","text":"spooled"'
    waiting = Draft("sp1", True, None, "message", "/global", None, None, None, "spooled", rest)
    (home / "log").mkdir(exist_ok=True)
    Spool(f"{home}", id_, Disk()).put([waiting], clock())
    back = memplane.restore(tmp_path / "e.jsonl", home, clock=clock)
    assert back.merged is not None
    with opened(home) as plane:
        assert plane.event("sp1").text == "spooled"
        assert plane.id == id_
    exported(home, tmp_path / "2.jsonl")
    assert b"spooled" in (tmp_path / "2.jsonl").read_bytes()


def test_another_plane_takes_each_event_once_and_says_where_it_is_from(filled, tmp_path):
    report = exported(filled, tmp_path / "e.jsonl")
    home = tmp_path / "other"
    with made(home) as plane:
        plane.record("mine", id="mine")
    first = memplane.restore(tmp_path / "e.jsonl", home, clock=clock).merged
    assert (first.repeated, first.refusals) == (0, 0)
    assert first.recorded + first.skipped == report.events
    before = tree(home)
    again = memplane.restore(tmp_path / "e.jsonl", home, clock=clock).merged
    assert (again.recorded, again.repeated) == (0, first.recorded)
    assert tree(home) == before
    with opened(home) as ours, opened(filled) as theirs:
        for line in theirs._log.read():
            event = line.event
            if event.kind == "segment":
                continue
            taken = ours._log.find(event.id).event
            assert taken.data["origin"] == {"plane": report.plane, "seq": event.seq}
            assert ours._log.text(taken) == theirs._log.text(event)
            same = ("ts", "kind", "ns", "session", "key", "sensitivity", "refs", "tags")
            assert [getattr(taken, name) for name in same] == [
                getattr(event, name) for name in same
            ]
        for path in (home.parent / "report.md", home.parent / "picture.bin"):
            ours.work.artifacts.export(path.name, tmp_path / f"out-{path.name}")
            assert (tmp_path / f"out-{path.name}").read_bytes() == path.read_bytes()
    is_well(home)


def test_the_plane_that_was_exported_takes_nothing_from_its_own_export(filled, tmp_path):
    exported(filled, tmp_path / "e.jsonl")
    before = tree(filled)
    merged = memplane.restore(tmp_path / "e.jsonl", filled, clock=clock).merged
    assert (merged.recorded, merged.refusals) == (0, 0)
    assert tree(filled) == before


def test_an_id_that_is_taken_by_another_event_is_listed_and_the_others_are_recorded(tmp_path):
    for name, text in (("a", "this"), ("b", "that")):
        with made(tmp_path / name) as plane:
            plane.record(text, id="x")
            plane.record("fine", id=f"fine-{name}")
    exported(tmp_path / "a", tmp_path / "e.jsonl")
    merged = memplane.restore(tmp_path / "e.jsonl", tmp_path / "b", clock=clock).merged
    assert (merged.recorded, merged.refusals) == (1, 1)
    assert [(one.seq, one.id, one.reason) for one in merged.refused] == [(2, "x", "conflict")]


def test_what_an_export_forgets_is_its_own_and_not_what_is_here(plane, tmp_path):
    plane.record("Perl", kind="fact", key="k9", id="theirs")
    plane.forget("k9")
    plane.record("gone with its session", session="s1", id="said")
    plane.forget(session="s1")
    plane.upkeep.export(tmp_path / "e.jsonl")
    with memplane.init(tmp_path / "other", durability="os") as other:
        other.record("Oracle", kind="fact", key="k10", id="ours")
        other.record("heard here", session="s1", id="heard")
    memplane.restore(tmp_path / "e.jsonl", tmp_path / "other")
    memplane.restore(tmp_path / "e.jsonl", tmp_path / "other")
    with memplane.open(tmp_path / "other") as other:
        assert [other.work.archived(other.event(id_)) is None for id_ in ("ours", "heard")] == [
            True
        ] * 2
        assert [other.work.archived(other.event(id_))[0] for id_ in ("theirs", "said")] == [
            "forgotten", "forgotten",
        ]  # fmt: skip
        assert sum(event.kind == "forget" for event in other.events()) == 2


class FullDisk(Disk):
    """Takes nothing."""

    def write(self, *_):
        raise OSError(28, "No space left on device")


def full(*_):
    raise OSError(28, "No space left on device")


def test_on_a_full_disk_it_is_a_restore_that_is_refused(filled, tmp_path, monkeypatch):
    exported(filled, tmp_path / "e.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr("memplane.log.disk.os.pwrite", full)
        with pytest.raises(WriteError) as refusal:
            memplane.restore(tmp_path / "e.jsonl", tmp_path / "new", clock=clock)
    assert str(refusal.value).endswith(
        "No space left on device; nothing was changed; make room, and restore it again"
    )
    assert not (tmp_path / "new").exists()


def test_taken_in_as_an_import_it_says_how_much_was_recorded_and_goes_on_from_there(
    filled, tmp_path
):
    exported(filled, tmp_path / "e.jsonl")
    with made(tmp_path / "own") as plane:
        plane.record("mine")
        plane._log._writer.disk = FullDisk()
        with (tmp_path / "e.jsonl").open("rb") as file, pytest.raises(WriteError) as refusal:
            plane.upkeep.merge(file, "e.jsonl")
    said = str(refusal.value)
    assert "No space left on device; 0 events of the export were recorded; make room" in said
    assert "nothing was recorded" not in said
    merged = memplane.restore(tmp_path / "e.jsonl", tmp_path / "own", clock=clock).merged
    assert merged.recorded > 3


def test_projections_of_the_log_that_was_there_before_do_not_outlive_it(filled, tmp_path):
    exported(filled, tmp_path / "e.jsonl")
    home = shutil.copytree(filled, tmp_path / "home")
    with opened(home) as plane:
        for number in range(4):
            plane.record(f"behind the export {number}")
        plane.upkeep.rebuild()
    shutil.rmtree(home / "log")
    memplane.restore(tmp_path / "e.jsonl", home, clock=clock)
    with opened(home) as plane:
        assert plane.upkeep.verify(deep=True).problems == ()
    is_well(home)
