"""How much each layer of faults does in the short form and in the long one.

A layer runs until it has done its share, or all that there is: a slow machine takes longer, and
tests as much.
"""

import fcntl
import json
import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from memplane.cli import figures
from memplane.inspect import document, write_page

SUMMARY = Path(__file__).parents[2] / "reports" / "faults.json"


# Of a layer: how many. Of planes, their calls and commands: of each operation.
SHORT = {
    "cuts": 100,
    "states of the log": 250,
    "states of a recovery": 150,
    "states of a plane": 1,
    "calls of the log": 56,
    "calls of a plane": 1,
    "calls of a command": 1,
    "kills": 16,
    "flips": 800,
    "changed files": 150,
    "full disk": 2,
}
ALL = 10**9
LONG = {
    "cuts": 500_000,
    "states of the log": 450_000,
    "states of a recovery": 40_000,
    "states of a plane": 300,
    "calls of the log": ALL,
    "calls of a plane": ALL,
    "calls of a command": ALL,
    "kills": 10_000,
    "flips": 1_000_000,
    "changed files": 20_000,
    "full disk": 500,
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
        return self.done < share and len(self.violations) < 20

    def as_json(self):
        return {
            "layer": self.layer,
            "operation": self.operation,
            "done": self.done,
            "named_a_command": self.named,
            "violations": self.violations[:20],
            "seconds": round(time.monotonic() - self.began, 1),
        }


def split(share, parts):
    """The part of a layer's share that one of its operations has."""
    return -(-share // parts)


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
        summary = {"layers": totals, "rows": rows}
        SUMMARY.write_text(json.dumps(summary, indent=1) + "\n")
        write_page(SUMMARY.with_suffix(".html"), document(figures.faults_page(summary)))


@contextmanager
def quick_folder():
    memory = Path("/dev/shm")
    parent = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="memplane-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
