"""Machines that write to one engine while it is killed: nothing lost, nothing twice, equal logs."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from builders_machines import written

import memplane
from memplane.errors import SharedLogError
from memplane.log import verify_log
from memplane.wiring import init_shared

HERE = Path(__file__).parent
QUERIES = ["copper lamp", "which harbour?", "mast of spruce", "river valley", "ledger", "orchard"]


class Machines:
    """Three machines and four writers on one shared log; `environment` has its address."""

    def __init__(self, root, name, environment):
        self.root, self.environment = root, {**os.environ, **environment}
        self.homes = [root / each for each in "abc"]
        self.name = name
        for at, home in enumerate(self.homes):
            init_shared(home, name, join=at > 0, environment=self.environment).close()
        self.writers, self.followers = [], []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for one in (*self.writers, *self.followers):
            killed(one)

    def start(self, count):
        for label, home in zip("wxyz", [*self.homes, self.homes[0]], strict=True):
            command = [sys.executable, HERE / "process_writer.py", home, label, str(count)]
            with (self.root / f"{label}.out").open("w") as out:
                one = subprocess.Popen(
                    command, env=self.environment, stdout=out, stderr=subprocess.STDOUT
                )
            self.writers.append(one)

    def follow(self, home):
        """A process that only follows, to be killed."""
        command = [sys.executable, "-m", "memplane", "shared", "follow", "--home", home]
        self.followers.append(
            subprocess.Popen(command, env=self.environment, stderr=subprocess.DEVNULL)
        )
        return self.followers[-1]

    def acknowledged(self):
        found = []
        for label in "wxyz":
            path = self.root / f"{label}.out"
            lines = path.read_text().split() if path.exists() else []
            found += [line for line in lines if line.startswith(f"{label}-")]
        return found

    def wait_for(self, count, seconds=600):
        deadline = time.monotonic() + seconds
        while len(self.acknowledged()) < count:
            assert time.monotonic() < deadline, "the writers are stuck"
            assert not [one for one in self.writers if one.poll() not in (None, 0)], self.said()
            time.sleep(0.02)

    def said(self):
        return "\n".join((self.root / f"{label}.out").read_text()[-800:] for label in "wxyz")

    def end(self):
        for one in self.writers:
            assert one.wait(600) == 0, self.said()

    def check(self, packs):
        """All that was acknowledged is in each log once, whose bytes are equal, as are packs."""
        late = self.root / "late"
        init_shared(late, self.name, join=True, environment=self.environment).close()
        homes, found = [*self.homes, late], []
        planes = [memplane.open(home, environment=self.environment) for home in homes]
        try:
            for plane in planes:
                met(plane)
            for plane in planes:
                ids = [line.event.id for line in plane.context.log.read()]
                assert len(ids) == len(set(ids))
                assert set(self.acknowledged()) <= set(ids)
            for n in range(packs):
                asked = {"budget": 300 + 40 * n, "now": "2026-11-26T12:00:00Z"}
                query = f"{QUERIES[n % len(QUERIES)]} {n}"
                found.append({plane.pack(query, **asked).text for plane in planes})
            assert all(len(one) == 1 for one in found)
        finally:
            for plane in planes:
                plane.close()
        logs = [written(home) for home in homes]
        assert all(log == logs[0] for log in logs)
        for home, plane in zip(homes, planes, strict=True):
            assert not verify_log(home, plane.id).problems
        return sum(map(len, logs[0]))


def met(plane):
    """Exchange until the engine is there again."""
    for _ in range(600):
        with suppress(SharedLogError):
            plane.context.log.exchange()
            return
        time.sleep(0.1)
    raise AssertionError(plane.context.log.status())


def killed(process):
    """End a process that the test started, without warning."""
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.wait()
