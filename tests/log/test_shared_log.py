"""Several at one log: positions, readers, threads, and processes."""

import os
import threading
import time

import pytest
from fakes_clock import draft

from memplane.errors import (
    HomeError,
    LockError,
    NotFoundError,
)
from memplane.log import verify_log
from memplane.log.segments import genesis
from memplane.ports import Position


def test_reading_goes_on_behind_any_position_and_refuses_one_that_is_not_in_the_log(opened):
    log = opened(segment_bytes_max=1200)
    start = log.head()
    assert start == Position(0, genesis("demo").decode(), 1, 0)
    assert list(log.read()) == list(log.read_from(start)) == []
    for n in range(30):
        log.append([draft(f"m{n}")])
    lines = list(log.read())
    assert list(log.read_from(start)) == lines
    for line in lines:
        position = Position(line.event.seq, line.event.h, line.segment, line.end)
        assert log.matches(position)
        assert list(log.read_from(position)) == lines[line.event.seq :]
        assert (
            list(log.read(line.event.seq, line.event.seq + 3))
            == lines[line.event.seq : line.event.seq + 3]
        )
        for wrong in (
            position._replace(h="0" * 16),
            position._replace(offset=position.offset + 1),
            position._replace(offset=10**9),
            position._replace(segment=99),
        ):
            assert not log.matches(wrong)
            with pytest.raises(NotFoundError):
                log.read_from(wrong)


def test_what_one_log_object_appends_another_one_sees(opened):
    one, two = opened(segment_bytes_max=2000), opened(segment_bytes_max=2000)
    watching = opened(read_only=True)
    for n in range(30):
        seq = (one, two)[n % 2].append([draft(f"m{n}")])[0].seq
        assert one.head() == two.head() == watching.head()
        assert watching.head().seq == seq
        assert watching.find(f"m{n}").event.seq == seq
    assert list(one.read()) == list(two.read())


def test_a_reader_stops_at_the_last_newline(opened, tmp_path):
    log = opened()
    log.append([draft("a")])
    reading = opened(read_only=True)
    before = list(reading.read())
    with (tmp_path / "log" / "00000001.jsonl").open("ab") as file:
        file.write(b'{"seq":3,"id":"half')
    assert list(reading.read()) == before
    assert reading.head().seq == 2
    with pytest.raises(HomeError):
        reading.append([draft("b")])


def test_the_lock_is_awaited_for_a_bounded_time_and_its_holder_named(opened):
    log, other = opened(), opened(lock_wait_ms_max=30)
    log.append([draft("a")])
    with log.exclusive(), pytest.raises(LockError) as error:
        other.append([draft("b")])
    assert error.value.holder == os.getpid()
    assert other.append([draft("b")])[0].seq == 3


def test_threads_of_one_log_wait_for_each_other_for_a_bounded_time(opened):
    log = opened(lock_wait_ms_max=30)
    log.append([draft("a")])
    entered, leave = threading.Event(), threading.Event()

    def hold():
        with log.exclusive():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait(10)
    with pytest.raises(LockError):
        log.append([draft("b")])
    leave.set()
    thread.join()
    assert log.append([draft("b")])[0].seq == 3


def test_a_deleted_lock_file_excludes_again_as_soon_as_it_is_noticed(opened, tmp_path):
    one, two = opened(), opened()
    one.append([draft("a")])
    two.append([draft("b")])
    (tmp_path / "log" / ".lock").unlink()
    for n in range(10):
        (one, two)[n % 2].append([draft(f"m{n}")])
    assert verify_log(tmp_path, "demo").events == 13


def test_a_forked_child_and_its_parent_both_append(opened, tmp_path):
    log = opened()
    log.append([draft("parent 1")])
    child = os.fork()
    if not child:
        try:
            for n in range(20):
                log.append([draft(f"child-{n}")])
            os._exit(0)
        finally:
            os._exit(1)
    for n in range(20):
        log.append([draft(f"parent-{n}")])
    assert os.waitpid(child, 0)[1] == 0
    report = verify_log(tmp_path, "demo")
    assert (report.ok, report.events) == (True, 42)
    assert {line.event.id for line in log.read()} >= {f"child-{n}" for n in range(20)}


def test_reading_while_writing_yields_a_growing_verified_log(opened):
    log, reading = opened(durability="os", segment_bytes_max=20_000), opened(read_only=True)
    log.append([draft("first")])
    stop = time.monotonic() + 1.5

    def write():
        n = 0
        while time.monotonic() < stop:
            n += 1
            log.append([draft(f"m{n}", "x" * (n % 700), given=False) for _ in range(n % 4 + 1)])

    thread = threading.Thread(target=write)
    thread.start()
    position, seqs = reading.head(), []
    try:
        while thread.is_alive():
            for line in reading.read_from(position):
                seqs.append(line.event.seq)
                position = Position(line.event.seq, line.event.h, line.segment, line.end)
            assert reading.head().seq >= position.seq
    finally:
        thread.join()
    seqs += [line.event.seq for line in reading.read_from(position)]
    assert seqs == list(range(3, log.head().seq + 1)) or seqs == list(
        range(seqs[0], log.head().seq + 1)
    )
    assert reading.gaps() == ()


def test_who_held_the_lock_for_something_else_looks_where_the_others_went_on(opened, tmp_path):
    """Nothing else tells of a segment that was sealed where this process wrote last."""
    ours, theirs = opened(segment_bytes_max=900), opened(segment_bytes_max=900)
    ours.append([draft("ours", "x" * 300)])
    theirs.append([draft("theirs", "x" * 600)])  # does not fit: a new segment
    with ours.exclusive():
        pass
    ours.append([draft("more")])
    assert [line.event.id for line in ours.read() if line.event.kind == "message"] == [
        "ours", "theirs", "more",
    ]  # fmt: skip
    assert verify_log(tmp_path, "demo").ok
