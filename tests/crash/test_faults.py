"""Disks that refuse, writers that die: no acknowledged event is ever lost or changed."""

import errno
import json
import multiprocessing
import os
import resource
import shutil
import signal
import threading
import time
from contextlib import suppress

import pytest

from memplane.errors import PlaneError, WriteError
from memplane.event import Draft, encode
from memplane.log import Disk, FileLog, verify

EVENTS = 14
FORK = multiprocessing.get_context("fork")


def clock():
    return "2026-01-05T12:00:00.000000Z"


def draft(id_, text="hello"):
    rest = encode({"kind": "message", "text": text})[1:-1].encode()
    return Draft(id_, True, None, "message", "/global", None, None, None, text, rest)


class FailingDisk(Disk):
    """The k-th call fails as told, and every later one for as long as `lasting`; counts all calls."""

    def __init__(self, k, fault, *, lasting=1):
        self.calls, self.k, self.fault, self.lasting = 0, k, fault, lasting

    def due(self):
        self.calls += 1
        return self.k <= self.calls < self.k + self.lasting

    def fail(self, code):
        raise OSError(code, os.strerror(code))

    def write(self, fd, data):
        if not self.due():
            return super().write(fd, data)
        if self.fault == "short 1":
            return super().write(fd, data[:1])
        if self.fault == "short half":
            return super().write(fd, data[: len(data) // 2])
        if self.fault == "all but newline":
            return super().write(fd, data[:-1])
        return self.fail(errno.ENOSPC)

    def fdatasync(self, fd):
        if self.due():
            self.fail(errno.EIO)
        os.fstat(fd)

    def ftruncate(self, fd, size):
        if self.due():
            self.fail(errno.EIO)
        super().ftruncate(fd, size)

    def replace(self, source, target):
        if self.due():
            self.fail(errno.ENOSPC)
        super().replace(source, target)

    def sync_directory(self, path):
        if self.due():
            self.fail(errno.EIO)
        os.access(path, os.F_OK)


def record(home, disk, start=0, events=EVENTS, segment_bytes_max=900):
    """Append one by one and in pairs; the receipts of what was acknowledged, by id."""
    acknowledged = {}
    log = FileLog(home, "demo", clock=clock, disk=disk, segment_bytes_max=segment_bytes_max)
    for n in range(start, start + events):
        batch = [draft(f"m{n}")] if n % 3 else [draft(f"m{n}"), draft(f"m{n}b")]
        try:
            for receipt in log.append(batch):
                acknowledged[receipt.id] = receipt.seq
        except WriteError:
            continue
    with suppress(WriteError):
        log.close()
    return acknowledged


def check_kept(home, acknowledged):
    with FileLog(home, "demo", clock=clock, segment_bytes_max=900, disk=FailingDisk(0, "")) as log:
        log.append([draft("afterwards")])
        stored = {}
        for line in log.read():
            assert line.event.id not in stored
            stored[line.event.id] = line.event.seq
        assert stored.items() >= acknowledged.items()
        assert log.gaps() == ()
    report = verify(home, "demo")
    assert report.ok, report.problems


FAULTS = ["error", "short 1", "short half", "all but newline"]


@pytest.mark.parametrize("lasting", [1, 2, 5])
@pytest.mark.parametrize("fault", FAULTS)
def test_whichever_call_fails_nothing_acknowledged_is_lost_and_recording_goes_on(
    tmp_path, fault, lasting
):
    disk = FailingDisk(0, fault)
    everything = record(tmp_path / "0", disk)
    assert len(everything) == EVENTS + len(range(0, EVENTS, 3))
    for k in range(1, disk.calls + 1):
        home = tmp_path / str(k)
        home.mkdir()
        acknowledged = record(home, FailingDisk(k, fault, lasting=lasting))
        assert len(acknowledged) >= len(everything) - 2 * lasting
        acknowledged |= record(home, FailingDisk(0, fault), start=100, events=3)
        check_kept(home, acknowledged)
        shutil.rmtree(home)


def test_a_short_write_is_taken_back_and_nothing_of_its_batch_is_stored(tmp_path):
    disk = FailingDisk(0, "short half")
    with FileLog(tmp_path, "demo", clock=clock, disk=disk) as log:
        log.append([draft("first")])
        before = (tmp_path / "log" / "00000001.jsonl").read_bytes()
        disk.k = disk.calls + 1
        with pytest.raises(WriteError):
            log.append([draft(f"m{n}") for n in range(9)])
        assert (tmp_path / "log" / "00000001.jsonl").read_bytes() == before
        assert log.append([draft("second")])[0].seq == 3


class LosingDisk(Disk):
    """Keeps what a power cut would leave: the bytes of the last successful sync.

    A failed sync drops the bytes that it was for: the kernel calls those pages
    clean, so that the next sync succeeds without them.
    """

    def __init__(self):
        self.calls, self.failing = 0, set()
        self.durable, self.dropped = {}, {}
        self.pins = {}

    def content(self, fd):
        return os.pread(fd, os.fstat(fd).st_size, 0)

    def fdatasync(self, fd):
        self.calls += 1
        inode, data = os.fstat(fd).st_ino, self.content(fd)
        if inode not in self.pins:
            self.pins[inode] = os.dup(fd)  # or another file would get its number
        before = self.durable.get(inode, b"")
        dropped = self.dropped.setdefault(inode, [])
        if self.calls in self.failing:
            dropped.append((len(before), len(data)))
            self.fail()
        kept = bytearray(data)
        for start, end in dropped:
            kept[start:end] = bytes(len(kept[start:end]))
        self.durable[inode] = bytes(kept)

    def fail(self):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def ftruncate(self, fd, size):
        super().ftruncate(fd, size)
        inode = os.fstat(fd).st_ino
        self.dropped[inode] = [(a, min(b, size)) for a, b in self.dropped.get(inode, [])]

    def power_cut(self, home, after):
        """A copy of the log as it would be found after the lights went out now."""
        (after / "log").mkdir(parents=True)
        for path in sorted((home / "log").glob("0*")):
            data = self.durable.get(path.stat().st_ino, b"")
            (after / "log" / path.name).write_bytes(data)

    def unpin(self):
        for fd in self.pins.values():
            os.close(fd)


@pytest.mark.parametrize("failing", range(24))
def test_after_a_failed_sync_nothing_is_acknowledged_that_a_power_cut_could_take(tmp_path, failing):
    disk = LosingDisk()
    disk.failing = {failing, failing + 7}
    home = tmp_path / "home"
    home.mkdir()
    acknowledged = {}
    log = FileLog(home, "demo", clock=clock, disk=disk, segment_bytes_max=900)
    for n in range(EVENTS):
        with suppress(WriteError):
            acknowledged[f"m{n}"] = log.append([draft(f"m{n}")])[0].seq
        after = tmp_path / "after the cut"
        disk.power_cut(home, after)
        check_kept(after, acknowledged)
        shutil.rmtree(after)
    assert len(acknowledged) >= EVENTS - 2
    with suppress(WriteError):
        log.close()
    disk.unpin()


def test_a_sealed_segment_is_durable_even_where_no_append_waits_for_a_sync(tmp_path):
    disk = LosingDisk()
    home, after = tmp_path / "home", tmp_path / "after the cut"
    home.mkdir()
    log = FileLog(home, "demo", clock=clock, disk=disk, segment_bytes_max=900, durability="os")
    seqs = [log.append([draft(f"m{n}")])[0].seq for n in range(EVENTS)]
    disk.power_cut(home, after)
    with FileLog(after, "demo", clock=clock) as found:
        sealed = found.head().segment - 1
        kept = [line.event.seq for line in found.read()]
    assert sealed > 1
    assert kept == list(range(1, len(kept) + 1))
    assert verify(after, "demo").ok
    assert kept[-1] < seqs[-1]
    log.close()
    disk.unpin()


def test_nobody_appends_to_a_segment_whose_sync_failed(tmp_path):
    disk = LosingDisk()
    failing = FileLog(tmp_path, "demo", clock=clock, disk=disk)
    other = FileLog(tmp_path, "demo", clock=clock)
    failing.append([draft("a")])
    other.append([draft("b")])
    disk.failing = {disk.calls + 1}
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
    disk.unpin()
    assert verify(tmp_path, "demo").ok


def limited(home, limit):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    acknowledged, refused = {}, 0
    log = FileLog(home, "demo", clock=clock)
    for n in range(40):
        try:
            acknowledged[f"m{n}"] = log.append([draft(f"m{n}", "x" * 60)])[0].seq
        except WriteError:
            refused += 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    acknowledged["room again"] = log.append([draft("room again")])[0].seq
    log.close()
    assert refused
    (home / "receipts").write_text(json.dumps(acknowledged))


@pytest.mark.parametrize("limit", [700, 1111, 2222, 3333])
def test_a_full_disk_refuses_and_recording_goes_on_when_there_is_room(tmp_path, limit):
    child = FORK.Process(target=limited, args=(tmp_path, limit))
    child.start()
    child.join()
    assert child.exitcode == 0
    acknowledged = json.loads((tmp_path / "receipts").read_text())
    assert "room again" in acknowledged
    check_kept(tmp_path, acknowledged)


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
    report = verify(tmp_path, "demo")
    assert report.ok, report.problems
    with FileLog(tmp_path, "demo", clock=clock, read_only=True) as log:
        stored = [(line.event.id, line.event.seq) for line in log.read()]
    assert [seq for _, seq in stored] == list(range(1, len(stored) + 1))
    assert len(stored) == len(receipts) + report.segments
    assert dict(stored).items() >= receipts.items()


class TearingDisk(Disk):
    """Writes in two pieces, with time to be killed between them."""

    def write(self, fd, data):
        middle = len(data) * (data[-5] % 7) // 7
        written = os.write(fd, data[:middle]) if middle else 0
        time.sleep(0.0005)
        return written + os.write(fd, data[written:])


def write_until_killed(home, name, pipe, tearing):
    log = FileLog(
        home, "demo", clock=clock, segment_bytes_max=4000, disk=TearingDisk() if tearing else None
    )
    n = 0
    while True:
        n += 1
        for receipt in log.append([draft(f"{name}-{n}-{each}") for each in range(n % 3 + 1)]):
            os.write(pipe, f"{receipt.id} {receipt.seq}\n".encode())


def kill_writers(home, seconds, tearing):
    """Kill writers at odd moments, again and again; the receipts that reached us."""
    acknowledged, rounds = {}, 0
    stop = time.monotonic() + seconds
    while time.monotonic() < stop:
        rounds += 1
        reading, writing = os.pipe()
        children = [
            FORK.Process(target=write_until_killed, args=(home, f"r{rounds}w{n}", writing, tearing))
            for n in range(3)
        ]
        for child in children:
            child.start()
        os.close(writing)
        time.sleep(0.02 + rounds % 10 * 0.006)
        for child in children:
            os.kill(child.pid, signal.SIGKILL)
        for child in children:
            child.join()
            child.close()
        with os.fdopen(reading, "rb") as file:
            for line in file.read().splitlines():
                id_, seq = line.decode().split()
                acknowledged[id_] = int(seq)
    return acknowledged, rounds


@pytest.mark.parametrize("tearing", [False, True])
def test_writers_killed_at_any_moment_lose_nothing_that_was_acknowledged(tmp_path, tearing):
    acknowledged, _ = kill_writers(tmp_path, 6, tearing)
    assert acknowledged
    check_kept(tmp_path, acknowledged)


@pytest.mark.long
@pytest.mark.parametrize("tearing", [False, True])
def test_writers_killed_for_minutes_lose_nothing_that_was_acknowledged(tmp_path, tearing):
    acknowledged, rounds = kill_writers(tmp_path, 100, tearing)
    assert rounds > 100
    check_kept(tmp_path, acknowledged)


def test_a_plane_in_a_folder_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "log").write_text("in the way")
    log = FileLog(tmp_path, "demo", clock=clock)
    with pytest.raises(PlaneError):
        log.append([draft("a")])
