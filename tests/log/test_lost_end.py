"""A log that lost its end: what still knows of more is asked, and nothing goes on without a word."""

import shutil

import pytest
from builders_damaged_logs import (
    PLANE,
    clock,
    copied,
    draft,
    filled,
    messages,
    opened,
    segment,
    tree,
)

from memplane.errors import CorruptError
from memplane.log import repair_log, verify_log
from memplane.log.segments import Segments, marker
from memplane.log.verifying import EndEvidence


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A log of several segments, whose sealed ones have tables of ids."""
    folder = tmp_path_factory.mktemp("end")
    lines = filled(folder / "log of four")
    with opened(folder / "log of four") as log:
        assert log.find("m0") is not None
    return folder / "log of four", lines


@pytest.fixture
def home(made, tmp_path):
    return copied(made[0], tmp_path / "home")


def last(lines):
    return lines[-1].event.seq, lines[-1].segment


def repairs(home):
    with opened(home, read_only=True) as log:
        return [line.event.data for line in log.read() if line.event.kind == "repair"]


@pytest.mark.parametrize("left", [b"", b"garbage\n", b"\0" * 4096])
def test_a_newest_segment_without_its_first_line_takes_no_event_before_a_repair(home, made, left):
    newest = segment(home, made[1][-1].segment)
    newest.write_bytes(left)
    before = tree(home)
    (one,) = verify_log(home, PLANE).problems
    assert (one.file, one.offset) == (f"log/{newest.name}", 0)
    assert "what it held is lost" in one.found
    assert "`memplane repair` " in one.command
    assert len(repair_log(home, PLANE, clock=clock, dry_run=True).steps) == 1
    for _ in range(2):
        with opened(home) as log, pytest.raises(CorruptError, match="run `memplane repair`") as no:
            log.append([draft("next")])
        assert (no.value.segment, no.value.offset) == (newest.name, 0)
    assert {k: v for k, v in tree(home).items() if k != "log/.lock"} == {
        k: v for k, v in before.items() if k != "log/.lock"
    }
    (event,) = repair_log(home, PLANE, clock=clock).events
    assert (event.data["case"], event.data["bytes"]) == ("restarted", len(left))
    assert bool(event.data["quarantine"]) == bool(left)
    with opened(home) as log:
        log.append([draft("next")])
        (restart,) = log.restarts()
        assert log.headless() is None
    assert (restart.seq, restart.quarantine) == (event.seq, event.data["quarantine"])
    assert restart.behind == max(
        line.event.seq for line in made[1] if line.segment < last(made[1])[1]
    )
    kept = [line.event.id for line in made[1] if line.segment < last(made[1])[1]]
    assert messages(home)[0] == [*(i for i in kept if i.startswith("m")), "next"]
    assert verify_log(home, PLANE).ok


@pytest.mark.parametrize("left", [b"", b'{"seq":1,"id":"other"}\n'])
def test_a_log_whose_only_segment_lost_its_lines_begins_again_by_a_repair_alone(tmp_path, left):
    filled(tmp_path, 3)
    segment(tmp_path, 1).write_bytes(left)
    assert len(verify_log(tmp_path, PLANE).problems) == 1
    with opened(tmp_path) as log, pytest.raises(CorruptError, match="the log begins again"):
        log.append([draft("next")])
    assert segment(tmp_path, 1).read_bytes() == left
    (event,) = repair_log(tmp_path, PLANE, clock=clock).events
    assert (event.data["case"], event.data["segment"]) == ("restarted", 1)
    assert verify_log(tmp_path, PLANE).ok
    assert repair_log(tmp_path, PLANE, clock=clock) == ((), ())
    with opened(tmp_path) as log:
        (restart,) = log.restarts()
    assert restart.behind == 0
    assert "started again" in str(restart)


def test_a_table_of_ids_of_a_segment_that_is_gone_tells_that_it_was(home, made):
    _, newest = last(made[1])
    for number in (newest, newest - 1):
        segment(home, number).unlink()
    (one,) = verify_log(home, PLANE).problems
    assert one.file == f"index/ids/{newest - 1:08d}.ids"
    assert one.found == f"knows of segment {newest - 1}, and the newest is {newest - 2}"
    assert "`memplane repair`" in one.command
    (event,) = repair_log(home, PLANE, clock=clock).events
    assert event.data["case"] == "ended"
    assert event.data["known_segment"] == newest - 1
    assert event.data["told_by"] == [one.file]
    assert verify_log(home, PLANE).ok
    assert repair_log(home, PLANE, clock=clock) == ((), ())


def test_so_does_a_marker_of_a_failed_sync_and_what_lies_in_quarantine(home, made):
    _, newest = last(made[1])
    shutil.rmtree(home / "index")
    (home / "log" / "quarantine").mkdir()
    (home / "log" / "quarantine" / f"{newest + 2:08d}-17-{'ab' * 8}").write_bytes(b"torn")
    note = marker(Segments(f"{home}/log", PLANE), newest + 3, 99)
    (home / "log" / f"{newest + 3:08d}.broken").write_bytes(note)
    found = verify_log(home, PLANE).problems
    assert [one.file for one in found] == [
        f"log/{newest + 3:08d}.broken", f"log/quarantine/{newest + 2:08d}-17-{'ab' * 8}",
    ]  # fmt: skip
    (event,) = repair_log(home, PLANE, clock=clock).events
    assert (event.data["known_seq"], event.data["known_segment"]) == (99, newest + 3)
    assert verify_log(home, PLANE).ok
    repair_log(home, PLANE, clock=clock)
    assert verify_log(home, PLANE).notes == ()


def test_who_knows_of_a_seq_behind_the_end_is_believed_until_a_repair_has_recorded_it(home, made):
    seq, newest = last(made[1])
    at_the_end = EndEvidence("projections/x.json", seq, newest)
    beyond = EndEvidence("projections/y.json", seq + 3, newest)
    assert verify_log(home, PLANE, witnesses=[at_the_end]).ok
    (one,) = verify_log(home, PLANE, witnesses=[at_the_end, beyond]).problems
    assert one.file == "projections/y.json"
    assert one.found == f"knows of seq {seq + 3}, and the log ends with seq {seq}"
    plan = repair_log(home, PLANE, clock=clock, dry_run=True, witnesses=[beyond])
    assert [step.file for step in plan.steps] == ["projections/y.json"]
    (event,) = repair_log(home, PLANE, clock=clock, witnesses=[beyond]).events
    assert (event.seq, event.data["last_seq"], event.data["known_seq"]) == (seq + 1, seq, seq + 3)
    assert verify_log(home, PLANE, witnesses=[beyond]).ok
    assert repair_log(home, PLANE, clock=clock, witnesses=[beyond]) == ((), ())
    further = beyond._replace(seq=seq + 9)
    assert not verify_log(home, PLANE, witnesses=[further]).ok


FOLDED = '{"projector":"hotset","version":1,"plane":"%s","variant":"","segment":1,"seq":9}\n'


def test_a_log_is_not_begun_anew_where_a_projection_was_folded_from_one(tmp_path):
    (tmp_path / "projections").mkdir()
    told = tmp_path / "projections" / "hotset.json"
    told.write_text(FOLDED % PLANE)
    (tmp_path / "log").mkdir()
    for _ in range(2):
        with opened(tmp_path) as log, pytest.raises(CorruptError, match="`memplane repair`"):
            log.append([draft("m0")])
        assert not segment(tmp_path, 1).exists()
    known = EndEvidence("projections/hotset.json", 9, 1)
    assert not verify_log(tmp_path, PLANE, witnesses=[known]).ok
    (event,) = repair_log(tmp_path, PLANE, clock=clock, witnesses=[known]).events
    assert (event.seq, event.data["known_seq"], event.data["last_seq"]) == (2, 9, 0)
    assert not told.exists()
    with opened(tmp_path) as log:
        log.append([draft("m0")])
    assert verify_log(tmp_path, PLANE, witnesses=[known]).ok


@pytest.mark.parametrize("text", ["", "\0" * 500, FOLDED % "another", '{"rules":{}}\n'])
def test_what_is_torn_or_of_another_plane_hinders_no_first_record(tmp_path, text):
    (tmp_path / "projections").mkdir()
    (tmp_path / "projections" / "hotset.json").write_text(text)
    with opened(tmp_path) as log:
        assert log.append([draft("m0")])[0].seq == 2
