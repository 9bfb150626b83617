"""Purging beside others: who has the plane open, who writes meanwhile, who died on the way."""

import os
import shutil
import threading
import time
from hashlib import sha256
from pathlib import Path

import pytest
from builders_purges import SECRET, WORD, check_gone, fill, holds, used

import memplane
from memplane.log import verify_log
from memplane.log.segments import body_path
from memplane.search.service import index_service
from memplane.upkeep import purge


def test_planes_that_others_have_open_give_it_no_more_and_do_not_bring_it_back(plane):
    fill(plane)
    plane.record(SECRET, id="it", session="s1", role="user")
    fill(plane, 3)
    others = [memplane.open(plane.home) for _ in range(2)]
    for other in others:
        used(other)
    past = others[0].at(42)
    assert WORD in past.pack("door", session="s1", intent="deep").text
    plane.upkeep.purge("it")
    for other in others:
        check_gone(other)
    block = past.pack("door", session="s1", intent="deep")
    assert WORD not in block.text
    assert [one for one in block.omissions if one.reason == "gap"] == []
    for other in others:
        other.record("later")
        other.close()
    check_gone(plane)


def test_a_plane_that_folded_it_and_did_not_look_since_saves_nothing_of_it(plane):
    fill(plane)
    plane.record(SECRET, id="it", session="s1", role="user")
    other = memplane.open(plane.home)
    used(other)
    fill(other, 2)
    plane.upkeep.purge("it")
    folds = other.context._folds
    folds.hotset.unsaved = folds.decisions.unsaved = folds.memories.unsaved = 9
    assert folds.save() is False
    assert [folds.hotset.unsaved, folds.decisions.unsaved, folds.memories.unsaved] == [9, 9, 9]
    assert index_service(other.context)._indexed.save() is False
    other.close()
    check_gone(plane)


def test_a_purge_that_was_interrupted_behind_the_log_is_finished_by_who_writes_next(plane):
    fill(plane)
    plane.record(SECRET, id="it", session="s1", role="user")
    used(plane)
    context = plane.context
    said = {"seqs": [42], "ids": ["it"], "documents": [1]}
    row = {"kind": "purge", "data": {"purge": said}}
    reports = [f"reports/{path.name}" for path in (plane.home / "reports").iterdir()]
    context.log.erase([context.drafting(internal=True)(row, "")], {42: "it"}, reports)
    copy = plane.home.parent / "copy"
    shutil.copytree(plane.home, copy)
    assert holds(copy)
    assert verify_log(copy, plane.id).ok  # the process that purges is there yet
    note = copy / "log" / ".purging"
    note.write_text(note.read_text().replace(f'"pid":{os.getpid()}', '"pid":99999999'))
    assert [one.file for one in verify_log(copy, plane.id).problems] == ["log/.purging"]
    with memplane.open(copy) as other:
        other.record("next")
        check_gone(other)


def test_a_reader_alone_shows_nothing_of_a_purge_that_was_interrupted(plane):
    fill(plane)
    plane.record(SECRET, id="it", session="s1", role="user")
    used(plane)
    context = plane.context
    before = (plane.home / "log" / "00000001.jsonl").read_bytes()
    said = {"seqs": [42], "ids": ["it"], "documents": [1]}
    row = {"kind": "purge", "data": {"purge": said}}
    context.log.erase([context.drafting(internal=True)(row, "")], {42: "it"}, ())
    path = plane.home / "log" / "00000001.jsonl"
    path.write_bytes(before + path.read_bytes()[len(before) :])  # the overwriting never arrived
    with memplane.open(plane.home, read_only=True) as reading:
        assert reading.search(WORD) == []
        assert WORD not in reading.pack("door", session="s1", intent="deep").text
    assert any("erased it" in str(one) for one in verify_log(plane.home, plane.id).problems)
    plane.record("next")


def test_what_a_dead_process_or_a_snapshot_holds_goes_and_files_of_people_are_told(plane):
    fill(plane)
    plane.record(SECRET, id="it", session="s1", role="user")
    (plane.home / "views").mkdir(exist_ok=True)
    view = plane.home / "views" / "identity.md"
    view.write_text(f"- {SECRET}\n")
    plane.pack("door", session="s1", save_report=True)
    folder = plane.home / "bodies" / "sha256" / "ab"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{'c' * 62}.99999999.1.new").write_text(SECRET)
    (plane.home / "log" / "spool").mkdir(exist_ok=True)
    (plane.home / "log" / "spool" / "20260301.99999999.1.new").write_text(SECRET)
    (plane.home / "backup.jsonl").write_text(SECRET)
    assert len(holds(plane.home)) == 9
    report = plane.upkeep.purge("it")
    assert {one.name for one in report.quotes} == {"views/identity.md", "backup.jsonl"}
    assert holds(plane.home) == ["backup.jsonl", "views/identity.md"]
    view.unlink()
    (plane.home / "backup.jsonl").unlink()
    check_gone(plane)


def meanwhile(home, *texts):
    """What records through another plane while the log is looked through, once."""
    left = list(texts)

    def progress(*_):
        while left:
            with memplane.open(home) as other:
                receipts.append(other.record(left.pop(), session="s1"))

    receipts = []
    return progress, receipts


@pytest.mark.parametrize("text", [SECRET, f"{SECRET}\n" * 30_000], ids=["short", "long"])
def test_what_others_record_meanwhile_is_neither_a_hole_nor_without_its_body(plane, text):
    plane.record_many({"text": f"herons {n}", "session": "s1"} for n in range(1100))
    plane.record(text, id="it", session="s1")
    progress, receipts = meanwhile(plane.home, text, "and this")
    plane.upkeep.purge("it", progress=progress)
    assert len(receipts) == 2
    assert {plane._log.text(plane.event(one.seq)) for one in receipts} == {text, "and this"}
    report = verify_log(plane.home, plane.id)
    assert report.ok, report.problems
    assert plane.upkeep.differing() == []


def test_a_body_that_a_later_event_needs_stays_where_an_interrupted_purge_is_finished(plane):
    text = f"{SECRET}\n" * 30_000
    plane.record(text, id="it")
    context = plane.context
    bodies = [p.relative_to(plane.home).as_posix() for p in plane.home.glob("bodies/sha256/*/*")]
    row = {"kind": "purge", "data": {"purge": {"seqs": [2], "ids": ["it"], "documents": [9]}}}
    context.log.erase([context.drafting(internal=True)(row, "")], {2: "it"}, bodies)
    assert list(plane.home.glob("bodies/sha256/*/*")) == []
    again = plane.record(text).seq  # by one who has been writing all along
    with memplane.open(plane.home) as other:
        other.record("next")
        assert not (plane.home / "log" / ".purging").exists()
        assert other._log.text(other.event(again)) == text
    assert verify_log(plane.home, plane.id).ok


def test_a_file_that_is_added_while_a_purge_takes_its_copy_has_one_in_the_end(plane, file):
    report = file("report.md", "Herons nest in trees [1].\n")
    plane.record("herons")
    done = []

    def add():
        with memplane.open(plane.home) as other:
            done.append(other.work.artifacts.add(report, session="s1"))

    copy = Path(body_path(str(plane.home), sha256(report.read_bytes()).hexdigest()))
    with plane._log.exclusive():  # as who purges holds it, and removes what no line names
        thread = threading.Thread(target=add)
        thread.start()
        while not copy.exists():
            time.sleep(0.01)
        time.sleep(0.3)
        copy.unlink()
    thread.join()
    assert copy.exists()
    assert plane.work.artifacts.show(done[0].receipt.id).changed is None
    assert verify_log(plane.home, plane.id).ok


def test_a_purge_beside_who_adds_the_same_file_takes_the_copy_of_neither(plane, file):
    plane.record_many({"text": f"herons {n}", "session": "s1"} for n in range(1100))
    path = file("a.md", SECRET)
    first = plane.work.artifacts.add(path, session="s1").receipt
    added = []

    def progress(*_):
        while not added:
            with memplane.open(plane.home) as other:
                added.append(other.work.artifacts.add(path, name="b.md", session="s2").receipt)

    assert plane.upkeep.purge(first.id, progress=progress).bodies == 1
    assert plane.work.artifacts.show(added[0].id).changed is None
    assert verify_log(plane.home, plane.id).ok


def keyed(plane):
    """A purged key, a purged value of a key that stays, and more than one save's worth of others."""
    plane.record("first", kind="fact", key="gone", id="one")
    plane.record("first", kind="fact", key="stays", id="two")
    plane.record("second", kind="fact", key="stays")
    plane.record_many([{"text": f"f{n}", "kind": "fact", "key": f"f{n}"} for n in range(700)])


def keys_and_history(plane):
    keys = plane.keys(limit=2_000)
    return keys, [(one.event.seq, one.supersedes) for one in plane.history("stays")]


def test_who_packs_while_a_purge_clears_the_caches_keeps_no_purged_key(plane, monkeypatch):
    keyed(plane)
    plane.upkeep.rebuild()
    other = memplane.open(plane.home)
    assert "gone" in keys_and_history(other)[0]
    cleared = purge._cleared

    def meanwhile(home, cache):
        other.pack("anything")  # the log has lost it, and the files are still there
        return cleared(home, cache)

    monkeypatch.setattr(purge, "_cleared", meanwhile)
    plane.upkeep.purge("one", "two")
    found = keys_and_history(plane)
    assert "gone" not in found[0]
    assert keys_and_history(other) == found
    other.close()
    with memplane.open(plane.home) as fresh:
        assert keys_and_history(fresh) == found


def test_a_cache_from_before_a_purge_that_is_put_back_is_not_extended(plane):
    keyed(plane)
    plane.upkeep.rebuild()
    cache = Path(plane.home) / "projections" / "cache.sqlite"
    before = cache.read_bytes()
    plane.upkeep.purge("one", "two")
    cache.parent.mkdir(exist_ok=True)
    cache.write_bytes(before)
    plane.record_many([{"text": f"g{n}", "kind": "fact", "key": f"g{n}"} for n in range(700)])
    plane.pack("anything")
    found = keys_and_history(plane)
    plane.close()
    assert b"gone" not in cache.read_bytes()
    with memplane.open(plane.home) as fresh:
        assert keys_and_history(fresh) == found
        assert fresh.upkeep.verify(deep=True).problems == ()
