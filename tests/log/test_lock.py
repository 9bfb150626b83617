"""The log's lock, held by real processes: the wait ends, the holder is named, the dead hold nothing."""

import fcntl
import os
import signal
import subprocess
import sys

import pytest

from memplane.errors import LockError
from memplane.event import Draft, encode
from memplane.log import FileLog

HOLD = """
import os, signal, sys, time
from memplane.log import FileLog
log = FileLog(sys.argv[1], "demo", clock=lambda: "2026-01-05T12:00:00.000000Z")
with log.exclusive():
    if sys.argv[2] == "with a child" and os.fork() == 0:
        print(os.getpid(), flush=True)
        time.sleep(600)
        os._exit(0)
    if sys.argv[2] == "alone":
        print(0, flush=True)
    time.sleep(600)
"""


def clock():
    return "2026-01-05T12:00:00.000000Z"


def draft(id_):
    rest = encode({"kind": "message", "text": "hello"})[1:-1].encode()
    return Draft(id_, True, None, "message", "/global", None, None, None, "hello", rest)


@pytest.fixture
def hold(tmp_path):
    """Start a process that holds the log's lock; give back it and its child's number."""
    started, children = [], []

    def hold(how="alone"):
        arguments = [sys.executable, "-c", HOLD, str(tmp_path), how]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE)
        started.append(process)
        child = int(process.stdout.readline())
        if child:
            children.append(child)
        return process, child

    yield hold
    for child in children:
        os.kill(child, signal.SIGKILL)
    for process in started:
        process.kill()
        process.stdout.close()
        process.wait()


def test_who_waits_in_vain_is_told_who_holds_the_lock_and_what_to_do(tmp_path, hold):
    holder, _ = hold()
    with FileLog(tmp_path, "demo", clock=clock, lock_wait_ms_max=150) as log:
        with pytest.raises(LockError) as error:
            log.append([draft("a")])
        assert error.value.holder == holder.pid
        assert str(error.value) == (
            f"{tmp_path}/log/.lock: held by process {holder.pid} for more than 150 ms; "
            "try again, or end that process"
        )
        holder.kill()
        holder.wait()
        assert log.append([draft("a")])[0].seq == 2


def test_a_killed_holder_stops_nobody(tmp_path, hold):
    with FileLog(tmp_path, "demo", clock=clock, lock_wait_ms_max=60_000) as log:
        for n in range(3):
            holder, _ = hold()
            holder.send_signal(signal.SIGKILL)
            holder.wait()
            log.append([draft(f"m{n}")], wait=False)
        assert log.head().seq == 4


def test_a_child_of_a_killed_holder_holds_nothing_either(tmp_path, hold):
    holder, child = hold("with a child")
    with FileLog(tmp_path, "demo", clock=clock, lock_wait_ms_max=150) as log:
        with pytest.raises(LockError):
            log.append([draft("a")])
        holder.kill()
        holder.wait()
        os.kill(child, 0)
        log.append([draft("a")], wait=False)


def test_a_holder_that_is_none_of_ours_is_not_taken_for_the_last_one_that_was(tmp_path, hold):
    holder, _ = hold()
    holder.kill()
    holder.wait()
    fd = os.open(tmp_path / "log" / ".lock", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    with FileLog(tmp_path, "demo", clock=clock, lock_wait_ms_max=50) as log:
        with pytest.raises(LockError, match="held by another process for more than 50 ms") as error:
            log.append([draft("a")])
        assert error.value.holder is None
        os.close(fd)
        log.append([draft("a")], wait=False)


def test_a_thread_that_waits_in_vain_for_another_is_told_so(tmp_path):
    with FileLog(tmp_path, "demo", clock=clock, lock_wait_ms_max=50) as log:
        with log.exclusive(), pytest.raises(LockError) as error:
            log.append([draft("a")])
        assert error.value.holder == os.getpid()
        assert "another thread of this process" in str(error.value)
        log.append([draft("a")])


def test_a_lock_file_that_somebody_deleted_is_made_again_and_excludes(tmp_path):
    with (
        FileLog(tmp_path, "demo", clock=clock, lock_wait_ms_max=50) as one,
        FileLog(tmp_path, "demo", clock=clock, lock_wait_ms_max=50) as two,
    ):
        one.append([draft("a")])
        (tmp_path / "log" / ".lock").unlink()
        one.append([draft("b")])
        with two.exclusive(), pytest.raises(LockError):
            one.append([draft("c")])
        assert two.append([draft("c")])[0].seq == 4
