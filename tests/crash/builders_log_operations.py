"""What is done to a log while something fails: the table of operations.

Each is `prepare` (makes the home, with nothing failing) and `act`, which tells `ack` of all that
was acknowledged. `act` goes on after a refusal, as a caller would; any other error is a finding.
"""

from contextlib import suppress
from typing import Any, NamedTuple

from checks_promises import PLANE, Promised, QuickDisk, clock, draft

from memplane.errors import PlaneError
from memplane.log import FileLog, repair_log

EVENTS = 8


class Operation(NamedTuple):
    """`prepare(home, rng)`, then `act(home, ack, rng)`. `damaged`: what is prepared is, for good."""

    name: str
    prepare: Any
    act: Any
    damaged: bool = False


def table(*operations):
    return {one.name: one for one in operations}


def nothing(home, rng):
    home.mkdir(parents=True, exist_ok=True)


def opened_log(home, rng, **options):
    options = {"segment_bytes_max": rng.choice((700, 1300, 3000))} | options
    return FileLog(home, PLANE, clock=clock, **options)


def acked(log, ack, receipts):
    """Tell of everything that these receipts promise, as it reads now."""
    found = []
    for receipt in receipts:
        line = log.line(receipt.seq)
        assert line is not None, f"acknowledged and not there: {receipt}"
        event = line.event
        found.append(Promised(event, log.text(event) if "body" in event.data else ""))
    if found:
        ack(found)


def append_some(log, ack, rng, prefix, events=EVENTS):
    """Appends of one and of several, each acknowledged or refused; close syncs the rest."""
    waiting = []
    for n in range(events):
        texts = ["x" * rng.randrange(120) for _ in range(rng.choice((1, 1, 2, 5)))]
        batch = [draft(f"{prefix}{n}-{at}", text) for at, text in enumerate(texts)]
        with suppress(PlaneError):
            receipts = log.append(batch)
            if log._durable:
                acked(log, ack, receipts)
            else:
                waiting += receipts
        if not log._durable and rng.random() < 0.2:
            waiting = flushed(log, ack, waiting)
    waiting = flushed(log, ack, waiting)
    with suppress(PlaneError):
        log.close()


def flushed(log, ack, waiting):
    """After a flush what was appended at level `os` survives a power cut too."""
    try:
        log.flush()
    except PlaneError:
        return []  # that is never promised again
    acked(log, ack, [one for one in waiting if log.line(one.seq) is not None])
    return []


def append_at_sync(home, ack, rng):
    append_some(opened_log(home, rng), ack, rng, "m")


def append_at_os(home, ack, rng):
    append_some(opened_log(home, rng, durability="os"), ack, rng, "m")


def written(home, rng, durability="sync", events=6):
    nothing(home, rng)
    log = opened_log(home, rng, durability=durability, disk=QuickDisk(), segment_bytes_max=1300)
    append_some(log, lambda _: None, rng, "old", events)


def newest(home):
    return max((home / "log").glob("*.jsonl"))


def torn(home, rng):
    written(home, rng)
    with newest(home).open("ab") as file:
        file.write(b'{"seq":99,"id":"half a li'[: rng.randrange(1, 25)])


def scattered(home, rng):
    """Bytes behind the watermark are gone, and a line behind them is not."""
    nothing(home, rng)
    log = opened_log(home, rng, durability="os", disk=QuickDisk(), segment_bytes_max=10**6)
    for n in range(6):
        log.append([draft(f"old{n}", "y" * 40)])
    lines = list(log.read())
    path = newest(home)
    data = bytearray(path.read_bytes())
    hit = rng.choice(lines[2:-2])
    data[hit.offset : hit.end - 1] = bytes(hit.end - hit.offset - 1)
    path.write_bytes(data)
    log._writer.active = None  # without a sync, which would be a lie


def corrupt(home, rng):
    written(home, rng)
    first = min((home / "log").glob("*.jsonl"))
    data = bytearray(first.read_bytes())
    data[len(data) // 2] ^= 4
    first.write_bytes(data)


def repaired(home, ack, rng):
    with suppress(PlaneError):
        repair_log(home, PLANE, clock=clock, salvage=True)
    append_at_sync(home, ack, rng)


def bodies(home, ack, rng):
    """Texts too large for a line."""
    log = opened_log(home, rng)
    for n in range(3):
        body = f"body {n} ".encode() * rng.randrange(1, 300)
        with suppress(PlaneError):
            acked(log, ack, log.append([draft(f"b{n}", body.decode()[:20], body)]))
    with suppress(PlaneError):
        log.close()


def append_sharing(home, ack, rng):
    """Two writers whose syncs are slow: one syncs while the other, which has written, waits."""
    one, two = (opened_log(home, rng, segment_bytes_max=1300) for _ in range(2))
    shared = two._writer.shared
    taken, asked = shared._taken, []

    def meanwhile():
        asked.append(None)
        if len(asked) % 2 == 0:
            return taken()
        with suppress(PlaneError):
            acked(one, ack, one.append([draft(f"s{len(asked)}", "x" * rng.randrange(90))]))
        return False

    shared._taken = meanwhile
    for n in range(EVENTS):
        for log in (one, two):
            log._writer.shared._took = [0.002] * 16
        with suppress(PlaneError):
            acked(two, ack, two.append([draft(f"t{n}", "y" * rng.randrange(90))]))
        if rng.random() < 0.3:
            with suppress(PlaneError):
                acked(one, ack, one.append([draft(f"u{n}", "z")]))
    for log in (one, two):
        with suppress(PlaneError):
            log.close()


LOG = table(
    Operation("append with shared syncs", nothing, append_sharing),
    Operation("append at level sync", nothing, append_at_sync),
    Operation("append at level os", nothing, append_at_os),
    Operation("append to a log that is there", written, append_at_sync),
    Operation("append behind a torn tail", torn, append_at_sync),
    Operation("append behind scattered damage", scattered, append_at_sync),
    Operation("salvage and append", corrupt, repaired, damaged=True),
    Operation("spill bodies", nothing, bodies),
)
