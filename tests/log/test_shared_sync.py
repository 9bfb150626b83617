"""Writers whose syncs are slow share them: an acknowledged line was in the file before a sync began."""

import errno
import itertools
import os
import threading
import time
from contextlib import suppress

import pytest
from builders_damaged_logs import QuickDisk
from hypothesis import given, settings, strategies as st

from memplane.errors import WriteError
from memplane.event import Draft, encode
from memplane.log import FileLog, disk as disks, verify_log
from memplane.log.disk import SharedSync
from tests.examples import examples

NOW = "2026-01-05T12:00:00.000000Z"
SLOW = 0.004


def draft(id_, text="hello"):
    rest = encode({"kind": "message", "text": text})[1:-1].encode()
    return Draft(id_, False, None, "message", "/global", None, None, None, text, rest)


class CountingDisk(QuickDisk):
    """Syncs that take their time; notes in one order how writes end and syncs begin and end."""

    ticks = itertools.count()
    noting = threading.Lock()  # no sync begins between a write and the note of its end

    def __init__(self, story, seconds=SLOW):
        self.story, self.seconds = story, seconds

    def write(self, fd, data):
        with self.noting:
            done = super().write(fd, data)
            self.story.append(("written", next(self.ticks), threading.get_ident()))
        return done

    def fdatasync(self, fd):
        os.fstat(fd)
        with self.noting:
            begun = next(self.ticks)
        time.sleep(self.seconds)
        self.story.append(("synced", begun, next(self.ticks)))


def slow(log):
    """A log that has found its syncs slow."""
    log._writer.shared._took = [SLOW] * 16
    return log


@pytest.fixture
def log(tmp_path):
    opened = []

    def make(disk):
        opened.append(slow(FileLog(tmp_path, "demo", disk=disk, clock=lambda: NOW)))
        return opened[-1]

    yield make
    for one in opened:
        with suppress(WriteError):  # whose sync failed
            one.close()


def appended(logs, each):
    """Each log appends so many lines in a thread of its own; what was acknowledged, and when."""
    acknowledged, lock = [], threading.Lock()
    gate = threading.Barrier(len(logs))

    def run(number, one):
        gate.wait(20)
        for at in range(each):
            (receipt,) = one.append([draft(f"{number}-{at}")])
            with lock:
                acknowledged.append((receipt.id, next(CountingDisk.ticks), threading.get_ident()))

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(logs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return acknowledged


def test_many_writers_make_fewer_syncs_than_they_record_events(log, tmp_path):
    story = []
    logs = [log(CountingDisk(story)) for _ in range(6)]
    logs[0].append([draft("first")])
    del story[:]
    done = appended(logs, 12)
    assert len(done) == 72
    syncs = [one for one in story if one[0] == "synced"]
    assert len(syncs) <= 72 // 2
    assert verify_log(tmp_path, "demo").problems == ()


def test_no_receipt_comes_before_the_end_of_a_sync_that_began_behind_its_write(log):
    story = []
    logs = [log(CountingDisk(story, 0.003)) for _ in range(5)]
    logs[0].append([draft("first")])
    del story[:]
    done = appended(logs, 10)
    syncs = [(begun, ended) for kind, begun, ended in story if kind == "synced"]
    for _, acknowledged, thread in done:
        written = max(
            at for kind, at, by in story if kind == "written" and by == thread and at < acknowledged
        )
        assert any(written < begun and ended < acknowledged for begun, ended in syncs)


def test_where_syncs_are_quick_each_process_makes_its_own(log):
    story = []
    logs = [log(CountingDisk(story, 0)) for _ in range(3)]
    for one in logs:
        one._writer.shared._took = [0.0] * 16
    logs[0].append([draft("first")])
    del story[:]
    appended(logs, 5)
    assert sum(one[0] == "synced" for one in story) >= 15


def test_a_writer_behind_a_process_that_was_stopped_in_its_sync_makes_its_own(log, monkeypatch):
    monkeypatch.setattr(disks, "_LOOKING_SECONDS_MAX", 0.02)
    story = []
    one, other = log(CountingDisk(story)), log(CountingDisk(story))
    one.append([draft("first")])
    other.append([draft("second")])
    one.append([draft("third")])
    stopped = one._writer.shared
    assert stopped._taken()
    del story[:]
    other.append([draft("fourth")])
    assert sum(kind == "synced" for kind, *_ in story) == 1


class FailingSync(CountingDisk):
    """The next sync fails; what it was for may be lost."""

    fails = False

    def fdatasync(self, fd):
        if self.fails:
            self.fails = False
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().fdatasync(fd)


def test_what_a_failed_sync_was_for_is_not_called_durable_by_the_sync_of_another(log, tmp_path):
    story = []
    failing, other = FailingSync(story), CountingDisk(story)
    one, two = log(failing), log(other)
    one.append([draft("first")])
    two.append([draft("second")])
    failing.fails = True
    with pytest.raises(WriteError):
        one.append([draft("lost")])
    path = tmp_path / "log" / "00000001.jsonl"
    fd = os.open(path, os.O_RDONLY)
    try:
        file = b"%d %d " % (os.fstat(fd).st_dev, os.fstat(fd).st_ino)
        syncs = []
        shared = two._writer.shared
        for _ in range(3):
            shared._took = [SLOW] * 16
            shared.sync(fd, os.fstat(fd).st_size, lambda: syncs.append(1))
            assert shared._mark().startswith(file + b"failed")
        assert len(syncs) == 3
    finally:
        os.close(fd)


def test_a_writer_beside_whose_sync_another_one_failed_acknowledges_nothing(log, tmp_path):
    """What the failed one lost may be its lines, and its own sync does not bring them back."""
    story = []
    failing = FailingSync(story)
    one, two = log(failing), log(CountingDisk(story))
    one.append([draft("first")])
    two.append([draft("second")])
    one.append([draft("third")])
    taken = two._writer.shared._taken
    tried = []

    def meanwhile():
        if not tried:
            tried.append(None)
            failing.fails = True
            with pytest.raises(WriteError):
                one.append([draft("lost")])
        return taken()

    two._writer.shared._taken = meanwhile
    with pytest.raises(WriteError, match="a sync of another process failed"):
        two.append([draft("lost as well")])
    slow(two)
    assert len(two.append([draft("in a new segment")])) == 1
    assert (tmp_path / "log" / "00000002.jsonl").exists()


@pytest.fixture
def shared(tmp_path):
    made = SharedSync(str(tmp_path / ".sync"))
    yield made
    made.close()


def synced(shared, path, end):
    """How many syncs it takes until that much of the file is durable, where they are slow."""
    count = []
    shared._took = [SLOW] * 16
    fd = os.open(path, os.O_RDWR)
    try:
        shared.sync(fd, end, lambda: count.append(1))
    finally:
        os.close(fd)
    return len(count)


LINE = b'{"seq":%d,"h":"%016x"}\n'


def lines(*numbers):
    return b"".join(LINE % (number, number) for number in numbers)


def test_what_one_sync_covered_spares_the_next_one(shared, tmp_path):
    path = tmp_path / "segment"
    path.write_bytes(lines(1, 2, 3))
    assert synced(shared, path, len(lines(1))) == 1
    assert synced(shared, path, len(lines(1, 2))) == 0
    assert synced(shared, path, len(lines(1, 2, 3))) == 0
    path.write_bytes(lines(1, 2, 3, 4))
    assert synced(shared, path, len(lines(1, 2, 3, 4))) == 1


@pytest.mark.parametrize("now", [lines(1, 2, 4), lines(1, 2, 4, 5), lines(1), lines(7, 8, 9, 10)])
def test_a_file_that_was_cut_or_written_anew_since_is_synced_again(shared, tmp_path, now):
    path = tmp_path / "segment"
    path.write_bytes(lines(1, 2, 3))
    assert synced(shared, path, len(lines(1, 2, 3))) == 1
    path.write_bytes(now)
    assert synced(shared, path, len(now)) == 1


def test_another_file_with_the_same_bytes_is_synced(shared, tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(lines(1, 2))
    other.write_bytes(lines(1, 2))
    assert synced(shared, one, len(lines(1))) == 1
    assert synced(shared, other, len(lines(1))) == 1


@settings(max_examples=examples(100), deadline=None)
@given(mark=st.one_of(st.binary(max_size=120), st.text("0123456789 abcdef", max_size=60)))
def test_nothing_that_stands_in_the_mark_by_chance_spares_a_sync(tmp_path_factory, mark):
    folder = tmp_path_factory.mktemp("log")
    path = folder / "segment"
    path.write_bytes(lines(1, 2))
    found = path.stat()
    said = mark if isinstance(mark, bytes) else mark.encode()
    for begin in (b"", b"%d %d " % (found.st_dev, found.st_ino)):
        (folder / ".sync").write_bytes(begin + said)
        made = SharedSync(str(folder / ".sync"))
        try:
            assert synced(made, path, len(lines(1, 2))) == 1
        finally:
            made.close()


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_where_the_mark_cannot_be_had_each_writer_syncs(tmp_path, kind):
    path, mark = tmp_path / "segment", tmp_path / ".sync"
    path.write_bytes(lines(1, 2))
    target = tmp_path / "elsewhere"
    target.write_bytes(b"untouched")
    if kind == "link":
        mark.symlink_to(target)
    elif kind == "folder":
        mark.mkdir()
    else:
        os.mkfifo(mark)
    made = SharedSync(str(mark))
    assert [synced(made, path, len(lines(1))) for _ in range(3)] == [1, 1, 1]
    assert target.read_bytes() == b"untouched"
    made.close()
