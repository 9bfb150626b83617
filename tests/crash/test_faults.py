"""Single faults, looked at closely: what is refused, what is taken back, where writing goes on."""

import json
import multiprocessing
import os
import threading

import pytest
from builders_crash_states import Recording, World, put
from checks_promises import clock, draft

from memplane.errors import PlaneError, WriteError
from memplane.log import Disk, FileLog, verify_log

FORK = multiprocessing.get_context("fork")


class OnceDisk(Disk):
    """The next write is short, or the next sync fails, where a test says so."""

    short = sync_fails = False

    def write(self, fd, data):
        half, self.short = self.short, False
        return super().write(fd, data[: len(data) // 2] if half else data)

    def fdatasync(self, fd):
        fails, self.sync_fails = self.sync_fails, False
        if fails:
            raise OSError(5, os.strerror(5))
        super().fdatasync(fd)


def test_a_short_write_is_taken_back_and_nothing_of_its_batch_is_stored(tmp_path):
    disk = OnceDisk()
    with FileLog(tmp_path, "demo", clock=clock, disk=disk) as log:
        log.append([draft("first")])
        before = (tmp_path / "log" / "00000001.jsonl").read_bytes()
        disk.short = True
        with pytest.raises(WriteError):
            log.append([draft(f"m{n}") for n in range(9)])
        assert (tmp_path / "log" / "00000001.jsonl").read_bytes() == before
        assert log.append([draft("second")])[0].seq == 3


def test_a_sealed_segment_is_durable_even_where_no_append_waits_for_a_sync(tmp_path):
    home, after = tmp_path / "home", tmp_path / "after the cut"
    home.mkdir()
    recording = Recording(home)
    log = FileLog(home, "demo", clock=clock, segment_bytes_max=900, durability="os")
    with recording.running():
        seqs = [log.append([draft(f"m{n}")])[0].seq for n in range(14)]
    world = World(recording.trace[0].data)
    for op in recording.trace[1:]:
        world.step(op)
    put(world.durable(), after)
    with FileLog(after, "demo", clock=clock) as found:
        sealed = found.head().segment - 1
        kept = [line.event.seq for line in found.read()]
    assert sealed > 1
    assert kept == list(range(1, len(kept) + 1))
    assert verify_log(after, "demo").ok
    assert kept[-1] < seqs[-1]
    log.close()


def test_nobody_appends_to_a_segment_whose_sync_failed(tmp_path):
    disk = OnceDisk()
    failing = FileLog(tmp_path, "demo", clock=clock, disk=disk)
    other = FileLog(tmp_path, "demo", clock=clock)
    failing.append([draft("a")])
    other.append([draft("b")])
    disk.sync_fails = True
    with pytest.raises(WriteError):
        failing.append([draft("c")])
    assert json.loads((tmp_path / "log" / "00000001.broken").read_text())["segment"] == 1
    size = (tmp_path / "log" / "00000001.jsonl").stat().st_size
    receipts = [*other.append([draft("d")]), *failing.append([draft("e")])]
    assert (tmp_path / "log" / "00000001.jsonl").stat().st_size == size
    assert not (tmp_path / "log" / "00000001.broken").exists()
    kinds = [line.event.kind for line in other.read()]
    assert kinds == ["segment", *["message"] * 3, "segment", "repair", *["message"] * 2]
    assert [other.line(receipt.seq).event.id for receipt in receipts] == ["d", "e"]
    assert failing.append([draft("c")])[0].duplicate
    failing.close()
    other.close()
    assert verify_log(tmp_path, "demo").ok


def write_with_threads(home, name, events):
    log = FileLog(home, "demo", clock=clock, segment_bytes_max=8000)
    receipts = {}

    def write(thread):
        for n in range(events):
            batch = [draft(f"{name}-{thread}-{n}-{each}") for each in range(n % 3 + 1)]
            for receipt in log.append(batch):
                receipts[receipt.id] = receipt.seq

    threads = [threading.Thread(target=write, args=(each,)) for each in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    (home / f"{name}.receipts").write_text(json.dumps(receipts))


def test_processes_and_threads_write_at_once_and_every_receipt_is_true(tmp_path):
    children = [
        FORK.Process(target=write_with_threads, args=(tmp_path, f"p{n}", 60)) for n in range(4)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 4
    receipts = {}
    for path in tmp_path.glob("*.receipts"):
        receipts |= json.loads(path.read_text())
    assert len(receipts) == 4 * 2 * 120
    report = verify_log(tmp_path, "demo")
    assert report.ok, report.problems
    with FileLog(tmp_path, "demo", clock=clock, read_only=True) as log:
        stored = [(line.event.id, line.event.seq) for line in log.read()]
    assert [seq for _, seq in stored] == list(range(1, len(stored) + 1))
    assert len(stored) == len(receipts) + report.segments
    assert dict(stored).items() >= receipts.items()


def test_a_plane_in_a_folder_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "log").write_text("in the way")
    log = FileLog(tmp_path, "demo", clock=clock)
    with pytest.raises(PlaneError):
        log.append([draft("a")])
