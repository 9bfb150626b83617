"""Several processes and threads record into one plane; some of them are killed."""

import json
import random
import sys
import threading
import time

import pytest
from process_children import Child

import memplane
from memplane.log import verify_log
from tests.process_copies import import_everything


def write(home, name, threads, events, durability):
    """Record in some threads at once, and print the receipt of each event."""
    out = threading.Lock()
    with memplane.open(home, durability=durability) as plane:

        def work(thread):
            for number in range(events):
                text, id_ = f"turn {number} of {name}.{thread}", f"{name}.{thread}.{number}"
                got = plane.record(text, id=id_, session=name, role="assistant")
                with out:
                    sys.stdout.write(json.dumps([got.seq, got.id]) + "\n")
                    sys.stdout.flush()

        workers = [threading.Thread(target=work, args=(one,)) for one in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


def receipts(processes) -> list[tuple[int, str]]:
    return [tuple(json.loads(line)) for process in processes for line in process.lines()]


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
        assert plane.upkeep.rebuild() == len(seqs)
        return len(seqs)


@pytest.mark.parametrize("events", [20, pytest.param(313, marks=pytest.mark.long)])
def test_four_processes_of_eight_threads_record_at_once(tmp_path, events):
    import_everything()  # or threads of a child would
    home = memplane.init(tmp_path / "p").home
    running = [
        Child(write, home, f"w{n}", 8, events, "os", name=f"w{n}", said=tmp_path) for n in range(4)
    ]
    for process in running:
        assert process.wait() == 0, process.err.read_text()
    acknowledged = receipts(running)
    assert len(acknowledged) == 4 * 8 * events
    assert check(home, acknowledged) >= 4 * 8 * events


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2, 3))])
def test_nothing_acknowledged_is_lost_when_writers_are_killed(tmp_path, seed):
    import_everything()
    chance = random.Random(seed)
    home = memplane.init(tmp_path / "p").home
    acknowledged = []
    for turn in range(3):
        running = []
        for number in range(4):
            name, durability = f"k{turn}.{number}", chance.choice(["os", "sync"])
            running.append(Child(write, home, name, 2, 4000, durability, name=name, said=tmp_path))
        # However slow the machine is, they are killed while they write, not while they start.
        enough = chance.randrange(20, 400)
        while len(receipts(running)) < enough:
            assert all(process.poll() is None for process in running)
            time.sleep(0.01)
        for process in running:
            process.kill()
        acknowledged += receipts(running)
        check(home, acknowledged)
