"""Segments that are missing, doubled, swapped, foreign or no files at all.

Readers answer from what verifies and hang on nothing; writers refuse in one line that names the
command, or go on where the table says so; `repair --salvage` makes the log writable and says what
it moved; the second time there is nothing to do.
"""

import os
import shutil

import pytest
from builders_damaged_logs import (
    OTHER,
    PLANE,
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

from memplane.errors import CorruptError, HomeError
from memplane.log import repair_log, verify_log

NEWEST = 4
NUMBERS = {"first": 1, "middle": 3, "last": NEWEST}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A log of four segments, and one of another plane."""
    folder = tmp_path_factory.mktemp("segments")
    lines = filled(folder / "ours")
    filled(folder / "theirs", plane=OTHER)
    assert lines[-1].segment == NEWEST
    return folder, lines


def ids_in(lines, *numbers):
    return [
        line.event.id for line in lines if line.event.kind == "message" and line.segment in numbers
    ]


def gone(path, _):
    path.unlink()


def empty(path, _):
    path.write_bytes(b"")


def zeroed(path, _):
    path.write_bytes(bytes(path.stat().st_size))


def directory(path, _):
    path.unlink()
    path.mkdir()
    (path / "inside").write_text("something")


def dangling(path, _):
    path.unlink()
    path.symlink_to("nowhere")


def pipe(path, _):
    path.unlink()
    os.mkfifo(path)


def foreign(path, theirs):
    shutil.copy(segment(theirs, int(path.name[:8])), path)


LOST = [gone, empty, zeroed, directory, dangling, pipe, foreign]
STRAYS = [directory, dangling, pipe, foreign]


def salvaged(home, seen):
    """Repair in both ways; the log goes on with what was seen, and nothing is left to do."""
    report = verify_log(home, PLANE)
    if report.problems:
        assert any("`memplane repair" in one.command for one in report.problems)
    before = tree(home)
    steps = repair_log(home, PLANE, clock=clock, salvage=True, dry_run=True).steps
    assert tree(home) == before
    done = repair_log(home, PLANE, clock=clock, salvage=True)
    assert done.steps == steps
    assert len(done.events) >= len(steps) - 1  # what has no bytes leaves no trace
    assert verify_log(home, PLANE).problems == ()
    assert repair_log(home, PLANE, clock=clock, salvage=True) == ((), ())
    with opened(home) as log:
        log.append([draft("next")])
        seqs = [line.event.seq for line in log.read()]
    assert seqs == sorted(set(seqs))
    assert messages(home)[0] == [*seen, "next"]
    assert verify_log(home, PLANE).problems == ()
    return done.events


@pytest.mark.parametrize("where", NUMBERS)
@pytest.mark.parametrize("change", LOST, ids=lambda change: change.__name__)
def test_a_segment_that_is_lost_costs_its_own_events_and_is_listed(tmp_path, made, change, where):
    folder, lines = made
    number = NUMBERS[where]
    home = copied(folder / "ours", tmp_path / "home")
    change(segment(home, number), folder / "theirs")
    ids, gaps = messages(home)
    left = ids_in(lines, *(each for each in range(1, NEWEST + 1) if each != number))
    assert ids == left
    if where != "last":
        (gap,) = gaps
        seqs = [line.event.seq for line in lines if line.segment == number]
        assert (gap.first, gap.last) == (seqs[0], seqs[-1])
        assert verify_log(home, PLANE).problems
    if change in STRAYS:
        with opened(home) as log, pytest.raises(CorruptError) as error:
            log.append([draft("next")])
        assert "\n" not in str(error.value)
        assert "`memplane repair --salvage` moves it to log/quarantine" in str(error.value)
        assert error.value.segment == segment(home, number).name
    elif where != "last":
        with opened(home) as log:
            list(log.read())
            with pytest.raises(CorruptError, match="`memplane repair --salvage`"):
                log.append([draft("next")])
    events = salvaged(home, left)
    told = [event.data for event in events if event.data["case"] == "stray"]
    assert [one["file"] for one in told] == ([segment(home, number).name] * (change in STRAYS))
    kept = home / "log" / "quarantine"
    assert all(os.path.lexists(kept / one["quarantine"]) for one in told)
    if change is foreign:
        assert quarantined(home) == [segment(folder / "theirs", number).read_bytes()]


@pytest.mark.parametrize("original", [1, 2, 3, NEWEST])
@pytest.mark.parametrize("number", [NEWEST + 1, NEWEST + 9, 0])
def test_a_copy_of_a_segment_under_another_number_hides_nothing(tmp_path, made, original, number):
    folder, lines = made
    home = copied(folder / "ours", tmp_path / "home")
    shutil.copy(segment(home, original), segment(home, number))
    every = ids_in(lines, 1, 2, 3, NEWEST)
    assert messages(home) == (every, ())
    with opened(home) as log:
        with pytest.raises(CorruptError, match="not behind the segments before it"):
            log.append([draft("next")])
        assert log.head().seq == lines[-1].event.seq
        assert log.find("m20").event.text == "turn number 20 about heron20"
    salvaged(home, every)


@pytest.mark.parametrize(("one", "two"), [(1, 2), (2, 3), (3, 4), (1, 4)])
def test_of_segments_whose_names_were_swapped_nothing_is_read_twice_or_out_of_order(
    tmp_path, made, one, two
):
    folder, _ = made
    home = copied(folder / "ours", tmp_path / "home")
    segment(home, one).rename(tmp_path / "aside")
    segment(home, two).rename(segment(home, one))
    (tmp_path / "aside").rename(segment(home, two))
    ids, gaps = messages(home)
    numbers = [int(id_[1:]) for id_ in ids]
    assert numbers == sorted(set(numbers))
    assert len(numbers) > 10
    assert gaps or numbers[-1] < 23
    with opened(home) as log, pytest.raises(CorruptError, match="under the wrong name"):
        log.append([draft("next")])
    missing = {f"m{n}" for n in range(24)} - set(ids)
    salvaged(home, ids)
    # What could not be placed is set aside whole, not thrown away.
    aside = b"".join(quarantined(home))
    assert all(f'"id":"{id_}"'.encode() in aside for id_ in missing)


def test_a_segment_that_was_renamed_out_of_the_way_is_missing_and_counts_again_when_it_is_back(
    tmp_path, made
):
    folder, lines = made
    home = copied(folder / "ours", tmp_path / "home")
    segment(home, 2).rename(home / "log" / "segment two")
    assert messages(home)[0] == ids_in(lines, 1, 3, NEWEST)
    (home / "log" / "segment two").rename(segment(home, 2))
    assert messages(home) == (ids_in(lines, 1, 2, 3, NEWEST), ())
    segment(home, NEWEST).rename(segment(home, NEWEST + 5))  # a number may be left out
    assert messages(home) == (ids_in(lines, 1, 2, 3, NEWEST), ())
    salvaged(home, ids_in(lines, 1, 2, 3, NEWEST))


@pytest.mark.parametrize("change", [gone, directory], ids=lambda change: change.__name__)
@pytest.mark.parametrize("number", [1, 2, NEWEST])
def test_a_segment_that_goes_while_the_log_is_open_costs_its_events_and_no_answer(
    tmp_path, made, number, change
):
    folder, lines = made
    home = copied(folder / "ours", tmp_path / "home")
    shutil.rmtree(home / "index")
    with opened(home, read_only=True) as log:
        assert len(list(log.read())) == len(lines)
        change(segment(home, number), None)
        left = [line for line in lines if line.segment != number]
        assert log.find("nobody's") is None
        for line in lines:
            there = line if line in left else None
            assert log.line(line.event.seq) == there
            assert log.find(line.event.id) == there
        assert list(log.read()) == left
        assert log.head().seq == left[-1].event.seq


def test_a_whole_log_of_another_plane_is_refused_and_no_repair_takes_it_apart(tmp_path, made):
    home = copied(made[0] / "theirs", tmp_path / "home")
    before = tree(home)
    for salvage in (False, True):
        with pytest.raises(HomeError, match="belongs to the plane 'other', expected 'demo'"):
            repair_log(home, PLANE, clock=clock, salvage=salvage)
    with opened(home) as log, pytest.raises(HomeError):
        log.append([draft("next")])
    assert {k: v[1] for k, v in tree(home).items() if "jsonl" in k} == {
        k: v[1] for k, v in before.items() if "jsonl" in k
    }


def test_what_is_no_segment_by_its_name_is_left_alone(tmp_path, made):
    folder, lines = made
    home = copied(folder / "ours", tmp_path / "home")
    for name in ("x.jsonl", "1.jsonl", "000000010.jsonl", "٠٠٠٠٠٠٠٩.jsonl", "00000009.jsonl~"):
        (home / "log" / name).write_text("{}\n")
    assert messages(home) == (ids_in(lines, 1, 2, 3, NEWEST), ())
    with opened(home) as log:
        log.append([draft("next")])
    assert verify_log(home, PLANE).problems == ()
