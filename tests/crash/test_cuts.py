"""A log cut at any byte recovers exactly its whole lines."""

import random
import shutil

from builders_log_operations import opened_log
from checks_layers import both
from checks_promises import PLANE, Promised, QuickDisk, broken_by_log, clock, draft

from memplane.log import FileLog, repair_log


def shaped(home, seed):
    """A log of some shape: segments of some size, batches, levels, ids, sometimes tombstones."""
    rng = random.Random(seed)
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    durability = rng.choice(("sync", "sync", "os"))
    log = opened_log(home, rng, durability=durability, disk=QuickDisk())
    for n in range(rng.randrange(2, 12)):
        batch = [
            draft(f"m{n}-{at}", rng.choice('aé\n"\\') * rng.randrange(90))
            for at in range(rng.choice((1, 1, 3)))
        ]
        log.append(batch)
    if rng.random() < 0.3 and log.head().seq > 3:
        purge_one(log, rng)
    lines = list(log.read())
    log._writer.active = None
    return lines


def purge_one(log, rng):
    """Erase a line, as a purge does."""
    from memplane.event import Draft, encode

    lines = [line.event for line in log.read() if line.event.kind == "message"]
    gone = rng.choice(lines)
    said = {"seqs": [gone.seq], "ids": [gone.id], "documents": [0]}
    rest = encode({"kind": "purge", "text": "why", "data": {"purge": said}})[1:-1].encode()
    event = Draft(f"p{gone.seq}", True, None, "purge", "/global", None, None, None, "why", rest)
    log.erased(log.erase([event], {gone.seq: gone.id}, []))
    log.append([draft("after the purge")])


def segments(home):
    return {path.name: path.read_bytes() for path in sorted((home / "log").glob("*.jsonl"))}


def cut_each(place, count, share):
    """Cut one log after another at every byte of its newest segment."""
    seed = 0
    while True:
        seed += 1
        lines = shaped(place / "made", seed)
        found = segments(place / "made")
        *_, newest = found
        number = int(newest[:8])
        # A purge is durable before it overwrites anything: behind it there is no such cut.
        first = max((one.end for one in lines if one.event.kind == "purge"), default=0)
        for cut in range(first, len(found[newest]) + 1):
            put_log(place / "cut", {**found, newest: found[newest][:cut]})
            if b"\n" not in found[newest][:cut]:
                # The header is durable before the segment has its name: no crash cuts it, and
                # only a repair goes on behind it.
                repair_log(place / "cut", PLANE, clock=clock)
            whole = [one for one in lines if one.segment < number or one.end <= cut]
            promised = [Promised(one.event) for one in whole]
            count.add(at_cut(seed, cut, broken_by_cut(place / "cut", promised)))
            if not count.goes_on(share):
                return


def at_cut(seed, cut, broken):
    return [f"log {seed} cut at {cut}: {one}" for one in broken]


def broken_by_cut(home, promised):
    """What is not as it was, or is there and was cut off."""
    broken = broken_by_log(home, promised)
    with FileLog(home, PLANE, clock=clock, read_only=True) as log:
        ids = [line.event.id for line in log.read() if line.event.kind in ("message", "purge")]
    own = [one.id for one in promised if one.event.kind in ("message", "purge")]
    return broken if ids == [*own, "afterwards"] else [*broken, f"{ids} of {own}"]


def put_log(home, found):
    """A log that consists of these segments."""
    shutil.rmtree(home, ignore_errors=True)
    (home / "log").mkdir(parents=True)
    for name, data in found.items():
        (home / "log" / name).write_bytes(data)


@both
def test_a_log_of_any_shape_cut_at_any_byte_keeps_its_whole_lines(place, counted, shares):
    count = counted("cuts")
    cut_each(place, count, shares["cuts"])
    assert count.violations == []
