"""A machine that follows a shared log in NATS until it is killed: home, address, name."""

import sys
import warnings
from contextlib import suppress
from pathlib import Path

from memplane.errors import SharedLogError
from memplane.shared.follower import FollowerLog
from memplane.shared.nats import NatsSharedLog


def clock():
    return "2026-01-05T12:00:00.000000Z"


def main(home, plane, address, name):
    warnings.simplefilter("ignore")
    log = FollowerLog(
        Path(home), plane, clock=clock, connect=lambda: NatsSharedLog(address, name),
        lock_wait_ms_max=60_000,
    )  # fmt: skip
    sys.stdout.write("follows\n")
    sys.stdout.flush()
    while True:
        with suppress(SharedLogError):
            log.exchange()
            log.wait(5)


if __name__ == "__main__":
    main(*sys.argv[1:])
