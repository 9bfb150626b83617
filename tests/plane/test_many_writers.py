"""Several processes and threads record into one plane; some of them are killed."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

import memplane
from memplane.log import verify_log

WRITER = """
import json, sys, threading, memplane
home, name, threads, events = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
out = threading.Lock()
with memplane.open(home, durability=sys.argv[5]) as plane:
    def work(thread):
        for number in range(events):
            r = plane.record(f"turn {number} of {name}.{thread}", id=f"{name}.{thread}.{number}",
                             session=name, role="assistant")
            with out:
                sys.stdout.write(json.dumps([r.seq, r.id]) + "\\n")
                sys.stdout.flush()
    workers = [threading.Thread(target=work, args=(t,)) for t in range(threads)]
    [w.start() for w in workers]
    [w.join() for w in workers]
"""


def start(home, name: str, threads: int, events: int, durability: str, out) -> subprocess.Popen:
    arguments = [
        sys.executable,
        "-c",
        WRITER,
        str(home),
        name,
        str(threads),
        str(events),
        durability,
    ]
    return subprocess.Popen(arguments, stdout=out, stderr=subprocess.PIPE)


def receipts(file) -> list[tuple[int, str]]:
    whole = file.read_text().split("\n")[:-1]
    return [tuple(json.loads(line)) for line in whole]


def check(home, acknowledged) -> int:
    with memplane.open(home) as plane:
        found = [(event.seq, event.id) for event in plane.events()]
        seqs = [seq for seq, _ in found]
        assert seqs == list(range(1, len(seqs) + 1)), "seq is not dense"
        there = set(found)
        assert all(receipt in there for receipt in acknowledged), "an acknowledged event is lost"
        assert len({id_ for _, id_ in found}) == len(found)
        report = verify_log(plane.home, plane.id)
        assert report.ok, report.problems
        assert plane.rebuild() == len(seqs)
        return len(seqs)


def test_four_processes_of_eight_threads_record_ten_thousand_events(tmp_path):
    home = memplane.init(tmp_path / "p").home
    files = [tmp_path / f"out{n}" for n in range(4)]
    running = []
    for number, file in enumerate(files):
        with file.open("wb") as out:
            running.append(start(home, f"w{number}", 8, 313, "os", out))
    for process in running:
        _, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors.decode()
    acknowledged = [receipt for file in files for receipt in receipts(file)]
    assert len(acknowledged) == 4 * 8 * 313
    assert check(home, acknowledged) >= 10_000


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2, 3))])
def test_nothing_acknowledged_is_lost_when_writers_are_killed(tmp_path, seed):
    chance = random.Random(seed)
    home = memplane.init(tmp_path / "p").home
    acknowledged = []
    for turn in range(3):
        files = [tmp_path / f"out{turn}.{n}" for n in range(4)]
        running = []
        for number, file in enumerate(files):
            with file.open("wb") as out:
                durability = chance.choice(["os", "sync"])
                running.append(start(home, f"k{turn}.{number}", 2, 4000, durability, out))
        # However slow the machine is, they are killed while they write, not while they start.
        deadline = time.monotonic() + 60
        while not any(file.stat().st_size for file in files) and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.1 + chance.random() / 2)
        for process in running:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate(timeout=60)
        acknowledged += [receipt for file in files for receipt in receipts(file)]
        check(home, acknowledged)
    assert acknowledged, "the writers were killed before they wrote: the test shows nothing"
