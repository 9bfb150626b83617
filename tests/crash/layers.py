"""How much each layer of faults does: so many seconds in the short form, so many in the long one.

A layer runs until it has done its share or its time is over; `least` of it is done whatever the
clock says, so that a slow machine tests less, never nothing.
"""

import fcntl
import json
import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

SUMMARY = Path(__file__).parents[2] / "reports" / "faults.json"


class Share(NamedTuple):
    """Of a layer: how many at least, how many at most, for how many seconds."""

    least: int
    most: int
    seconds: float


SHORT = {
    "cuts": Share(200, 100_000, 3),
    "states of the log": Share(400, 100_000, 8),
    "states of a recovery": Share(100, 100_000, 4),
    "states of a plane": Share(6, 100_000, 0.8),
    "calls of the log": Share(100, 100_000, 4),
    "calls of a plane": Share(8, 100_000, 0.6),
    "calls of a command": Share(2, 100_000, 0.2),
    "kills": Share(20, 100_000, 6),
    "flips": Share(2_000, 1_000_000, 2),
    "changed files": Share(50, 100_000, 2),
    "full disk": Share(2, 100, 2),
}
LONG = {
    "cuts": Share(500_000, 500_000, 0),
    "states of the log": Share(450_000, 450_000, 0),
    "states of a recovery": Share(40_000, 40_000, 0),
    "states of a plane": Share(400, 2_000, 60),
    "calls of the log": Share(10**9, 10**9, 0),
    "calls of a plane": Share(10**9, 10**9, 0),
    "calls of a command": Share(10**9, 10**9, 0),
    "kills": Share(10_000, 10_000, 0),
    "flips": Share(1_000_000, 1_000_000, 0),
    "changed files": Share(20_000, 20_000, 0),
    "full disk": Share(500, 500, 0),
}

# A test of a layer, in both forms: it is given `shares`, by the names of the layers.
both = pytest.mark.parametrize(
    "shares",
    [pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=pytest.mark.long)],
)


class Count:
    """What a layer did and what it found."""

    def __init__(self, layer, operation=""):
        self.layer, self.operation = layer, operation
        self.done = 0
        self.named = 0  # how often an error named the command that helped
        self.violations = []
        self.began = time.monotonic()

    def add(self, violations, done=1):
        self.done += done
        self.violations += violations

    def name(self):
        """An error named the command that helps, and it was run."""
        self.named += 1

    def goes_on(self, share):
        """Whether there is more to do."""
        if self.done >= share.most or len(self.violations) >= 20:
            return False
        return self.done < share.least or time.monotonic() - self.began < share.seconds

    def as_json(self):
        return {
            "layer": self.layer,
            "operation": self.operation,
            "done": self.done,
            "named_a_command": self.named,
            "violations": self.violations[:20],
            "seconds": round(time.monotonic() - self.began, 1),
        }


def keep_summary(counts):
    """Put the counts into the summary; those of the same layer and operation are replaced."""
    with (SUMMARY.parent / ".faults.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = json.loads(SUMMARY.read_text())["rows"] if SUMMARY.exists() else []
        new = [count.as_json() for count in counts]
        names = {(row["layer"], row["operation"]) for row in new}
        rows = [row for row in rows if (row["layer"], row["operation"]) not in names] + new
        rows.sort(key=lambda row: (row["layer"], row["operation"]))
        totals = {}
        for row in rows:
            total = totals.setdefault(row["layer"], {"done": 0, "violations": 0, "seconds": 0})
            total["done"] += row["done"]
            total["violations"] += len(row["violations"])
            total["seconds"] = round(total["seconds"] + row["seconds"], 1)
        SUMMARY.write_text(json.dumps({"layers": totals, "rows": rows}, indent=1) + "\n")


@contextmanager
def quick_folder():
    memory = Path("/dev/shm")
    parent = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="memplane-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
