"""Writers, a process that opens and saves, and one that packs: all killed at odd moments."""

import os
import random
import select
import shutil
import signal
import time

from builders_plane_operations import count_by_length
from checks_promises import Promised, broken_by_log, broken_by_plane, clock, draft
from process_children import REAL_WRITE, Child

import memplane
from memplane.log import Disk, FileLog

ROUNDS_PER_HOME = 25
# In between only reads: what is torn is for the next round's writers, all at once.
ROUNDS_PER_CHECK = 6


class TearingDisk(Disk):
    """Writes in two pieces, with time to be killed between them."""

    def write(self, fd, data):
        middle = len(data) * (data[-5] % 7) // 7
        written = os.write(fd, data[:middle]) if middle else 0
        time.sleep(0.0005)
        return written + os.write(fd, data[written:])


def write_on(home, plane, name, pipe, tearing):
    """Append and say so, until killed."""
    disk = TearingDisk() if tearing else None
    log = FileLog(home, plane, clock=clock, segment_bytes_max=4000, disk=disk)
    n = 0
    while True:
        n += 1
        for receipt in log.append([draft(f"{name}-{n}-{at}") for at in range(n % 3 + 1)]):
            REAL_WRITE(pipe, f"{receipt.id} {receipt.seq}\n".encode())


def save_on(home):
    """Open, fold, save and index, again and again."""
    while True:
        with memplane.open(home, clock=clock, durability="os", environment={}) as plane:
            plane.context.caught_up().save()
            plane.upkeep.index()


def pack_on(home):
    """Pack and save reports, again and again."""
    with memplane.open(home, clock=clock, durability="os", environment={}) as plane:
        while True:
            plane.pack("hello", budget=400, save_report=True)


def kill_round(home, plane, number, rng, *, tearing, readers):
    """One round: what was acknowledged as (id, seq), how many were killed, how many failed."""
    reading, writing = os.pipe()
    writers = rng.randrange(1, 9)
    children = [
        Child(write_on, home, plane, f"r{number}w{n}", writing, tearing) for n in range(writers)
    ]
    children += [Child(save_on, home), Child(pack_on, home)] if readers else []
    os.close(writing)
    if number % 4:  # in the other rounds, some may be killed before they have written
        select.select([reading], [], [], 60)
    time.sleep(0.01 + rng.random() * 0.08)
    for child in rng.sample(children, len(children)):
        os.kill(child.pid, signal.SIGKILL)
    ended = sum(child.wait() == 3 for child in children)
    with os.fdopen(reading, "rb") as file:
        rows = [line.decode().split() for line in file.read().splitlines()]
    return {id_: int(seq) for id_, seq in rows}, writers, ended


def broken_after(home, plane, acknowledged, check):
    """What the kills broke: every receipt is true; `check` the promises of the "log" or "plane"."""
    with FileLog(home, plane, clock=clock, read_only=True) as log:
        there = {line.event.id: line.event for line in log.read()}
    broken = [
        f"lost: {id_}, seq {seq}"
        for id_, seq in acknowledged.items()
        if id_ not in there or there[id_].seq != seq
    ]
    promised = [Promised(there[id_]) for id_ in acknowledged if id_ in there]
    if check == "plane":
        return broken + broken_by_plane(home, promised)
    if check != "log":
        return broken
    after = f"after {len(there)}"
    return broken + broken_by_log(home, promised, plane=plane, after=after, segment_bytes_max=4000)


def kill_often(place, count, share, *, tearing, readers):
    """Kill in rounds, in one home after another; the kills of writers are counted."""
    rng = random.Random(f"kills {tearing} {readers}")
    number = 0
    while count.goes_on(share):
        home = place / "home"
        shutil.rmtree(home, ignore_errors=True)
        with memplane.init(home, clock=clock, environment={}) as plane:
            id_ = plane.id
        count_by_length(home)
        acknowledged = {}
        for _ in range(ROUNDS_PER_HOME):
            number += 1
            told, killed, ended = kill_round(
                home, id_, number, rng, tearing=tearing, readers=readers
            )
            acknowledged |= told
            broken = [f"round {number}: {ended} processes failed"] if ended else []
            check = "log" if number % ROUNDS_PER_CHECK == 0 else ""
            broken += broken_after(home, id_, acknowledged, check)
            count.add([f"round {number}: {one}" for one in broken], done=killed)
            if not count.goes_on(share):
                break
        assert acknowledged
        count.add(broken_after(home, id_, acknowledged, "plane"), done=0)
