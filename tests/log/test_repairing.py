"""`repair` at each step that can fail: nothing is lost, the next run finishes, nothing is silent."""

import errno
import shutil
from contextlib import suppress

import pytest
from builders_damaged_logs import (
    OTHER,
    PLANE,
    FailingDisk,
    QuickDisk,
    clock,
    copied,
    draft,
    filled,
    messages,
    opened,
    quarantined,
    segment,
    tree,
)

from memplane.errors import PlaneError
from memplane.event import Draft, encode
from memplane.log import repair_log, verify_log
from tests.examples import paired


def torn(home, _):
    path = segment(home, 4)
    path.write_bytes(path.read_bytes() + b'{"seq":99,"id":')


def broken(home, _):
    (home / "log" / "00000004.broken").write_text('{"segment":4,"watermark":24,"plane":"demo"}')


def flipped(home, _):
    path = segment(home, 2)
    data = bytearray(path.read_bytes())
    data[700] ^= 1
    path.write_bytes(data)


def several(home, theirs):
    """Damage in a sealed segment, two files that are no segments, and a torn end."""
    flipped(home, theirs)
    torn(home, theirs)
    shutil.copy(segment(theirs, 1), segment(home, 7))
    segment(home, 5).mkdir()


DAMAGE = [torn, broken, flipped, several]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    filled(folder / "ours")
    filled(folder / "theirs", plane=OTHER)
    return folder


@pytest.mark.parametrize(
    ("damage", "error"), paired(DAMAGE, [OSError(errno.EIO, "no"), KeyboardInterrupt()], 2)
)
def test_whichever_call_fails_a_second_repair_finishes_and_no_byte_is_lost(
    tmp_path, made, damage, error
):
    base = copied(made / "ours", tmp_path / "base")
    damage(base, made / "theirs")
    whole = copied(base, tmp_path / "whole")
    counting = FailingDisk(0, error)
    repair_log(whole, PLANE, clock=clock, salvage=True, disk=counting)
    ids, kept = messages(whole)[0], quarantined(whole)
    assert counting.calls > 4
    for k in range(1, counting.calls + 1):
        home = copied(base, tmp_path / "home")
        failing = FailingDisk(k, error)
        with suppress(PlaneError, KeyboardInterrupt):
            repair_log(home, PLANE, clock=clock, salvage=True, disk=failing)
        assert messages(home)[0] == ids
        repair_log(home, PLANE, clock=clock, salvage=True, disk=QuickDisk())
        report = verify_log(home, PLANE)
        assert report.problems == ()
        assert messages(home)[0] == ids
        assert set(kept) <= set(quarantined(home))
        with opened(home, read_only=True) as log:
            told = [line.event.data for line in log.read() if line.event.kind == "repair"]
        named = {one["quarantine"] for one in told if one["quarantine"]}
        there = {path.name for path in (home / "log").glob("quarantine/*")}
        assert {name for name in there if ".new" not in name} <= named  # nothing without a word
        with opened(home) as log:
            log.append([draft("next")])


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_a_dry_run_says_what_a_repair_does_and_touches_nothing(tmp_path, made, damage):
    home = copied(made / "ours", tmp_path / "home")
    damage(home, made / "theirs")
    before = tree(home)
    plain = repair_log(home, PLANE, clock=clock, dry_run=True)
    full = repair_log(home, PLANE, clock=clock, salvage=True, dry_run=True)
    assert tree(home) == before
    assert plain.events == full.events == ()
    assert len(plain.steps) == len(full.steps) > 0
    needs = [step for step in plain.steps if "--salvage" in step.what]
    assert bool(needs) == (damage in (flipped, several))
    done = repair_log(home, PLANE, clock=clock, salvage=True)
    assert done.steps == full.steps
    assert {event.data["bytes"] for event in done.events} >= {
        step.bytes for step in full.steps if step.bytes
    }


def test_a_repair_of_a_whole_log_writes_nothing(tmp_path, made):
    home = copied(made / "ours", tmp_path / "home")
    before = {name: found[1] for name, found in tree(home).items() if "jsonl" in name}
    for salvage in (False, True):
        assert repair_log(home, PLANE, clock=clock, salvage=salvage) == ((), ())
    after = {name: found[1] for name, found in tree(home).items() if "jsonl" in name}
    assert after == before


@pytest.mark.parametrize(
    "damage", [None, *DAMAGE], ids=lambda damage: getattr(damage, "__name__", "none")
)
def test_verify_changes_nothing(tmp_path, made, damage):
    home = copied(made / "ours", tmp_path / "home")
    if damage is not None:
        damage(home, made / "theirs")
    before = tree(home)
    report = verify_log(home, PLANE)
    assert tree(home) == before
    assert report.ok == (damage is None)


def test_one_salvage_is_enough_where_a_sealed_segment_and_an_unsynced_end_are_damaged(tmp_path):
    lines = filled(tmp_path, durability="os")
    flipped(tmp_path, None)
    newest = [line for line in lines if line.segment == lines[-1].segment]
    path = segment(tmp_path, newest[0].segment)
    data = bytearray(path.read_bytes())
    hit = newest[2]
    data[hit.offset + 30] ^= 1
    path.write_bytes(bytes(data) + b'{"seq":99,"id":')
    ids = messages(tmp_path)[0]
    repair_log(tmp_path, PLANE, clock=clock, salvage=True)
    assert verify_log(tmp_path, PLANE).problems == ()
    assert messages(tmp_path)[0] == ids
    assert repair_log(tmp_path, PLANE, clock=clock, salvage=True) == ((), ())
    with opened(tmp_path) as log:
        log.append([draft("next")])
    assert messages(tmp_path)[0] == [*ids, "next"]


def purged(home, id_):
    """Erase one event; the line that it had."""
    with opened(home) as log:
        line = log.find(id_)
        seq = line.event.seq
        said = encode(
            {"kind": "purge", "data": {"purge": {"seqs": [seq], "ids": [id_], "documents": [1]}}}
        )
        rest = said[1:-1].encode()
        of = Draft("p", False, None, "purge", "/global", None, None, None, "", rest)
        log.erased(log.erase([of], {seq: id_}, ()))
        log.append([draft("behind")])
        return line, log.find("p")


def test_a_tombstone_whose_purge_event_is_lost_is_salvaged_once(tmp_path):
    filled(tmp_path)
    _, event = purged(tmp_path, "m3")
    path = segment(tmp_path, event.segment)
    data = bytearray(path.read_bytes())
    data[event.offset + 40] ^= 1
    path.write_bytes(data)
    assert any("by no purge" in one.found for one in verify_log(tmp_path, PLANE).problems)
    repair_log(tmp_path, PLANE, clock=clock, salvage=True)
    assert verify_log(tmp_path, PLANE).problems == ()
    assert repair_log(tmp_path, PLANE, clock=clock, salvage=True) == ((), ())


def test_a_line_that_was_to_be_erased_and_is_too_damaged_for_it_is_blanked_and_lost(tmp_path):
    lines = filled(tmp_path)
    last = max(  # of a sealed segment: nothing behind it says where it ends
        (line for line in lines if line.segment == 2), key=lambda line: line.event.seq
    )
    whole = segment(tmp_path, 2).read_bytes()
    purged(tmp_path, last.event.id)
    bad = bytearray(whole)
    bad[last.end - 10] ^= 1  # in its hash
    bad[last.end - 25 : last.end - 19] = b"xxxxxx"
    segment(tmp_path, 2).write_bytes(bad)
    assert not verify_log(tmp_path, PLANE).ok
    with pytest.raises(PlaneError, match="repair --salvage"):
        repair_log(tmp_path, PLANE, clock=clock)
    repair_log(tmp_path, PLANE, clock=clock, salvage=True)
    assert verify_log(tmp_path, PLANE).problems == ()
    text = last.event.text.encode()
    assert not any(text in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert repair_log(tmp_path, PLANE, clock=clock, salvage=True) == ((), ())
