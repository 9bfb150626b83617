"""Runs something in a child that may die of it, or is killed; what it said until then is not lost."""

import os
import pickle
import signal
import sys
import time
import traceback
from contextlib import suppress

REAL_WRITE = os.write


def forked(run):
    """Run in a child; what it returned, or None where it died of the fault, or its traceback."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            try:
                answer = ("done", run(lambda part: write_all(writing, ("ack", part))))
            except BaseException:  # noqa: BLE001 - whatever it was, the parent is told
                answer = ("raised", traceback.format_exc())
            write_all(writing, answer)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        data = file.read()
    _, status = os.waitpid(child, 0)
    return unpacked(data), os.waitstatus_to_exitcode(status)


def write_all(fd, answer):
    data = pickle.dumps(answer)
    view = memoryview(len(data).to_bytes(8, "little") + data)
    while view:
        view = view[REAL_WRITE(fd, view) :]


def unpacked(data):
    found = []
    while data:
        size = int.from_bytes(data[:8], "little")
        found.append(pickle.loads(data[8 : 8 + size]))
        data = data[8 + size :]
    return found


class Child:
    """A fork of this process that runs `run(*args)` until it ends or is killed.

    It ends with 0, or with 3 where it raised. `said`: a folder for what it prints, by its name:
    NAME.out and NAME.err; else it prints where this process does.
    """

    def __init__(self, run, *args, name="", said=None):
        self.name, self.code = name, None
        self.out, self.err = (said and said / f"{name}.{end}" for end in ("out", "err"))
        self.pid = os.fork()
        if self.pid:
            return
        code = 3
        try:
            if said:
                for fd, path in ((1, self.out), (2, self.err)):
                    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), fd)
                sys.stdout, sys.stderr = (os.fdopen(fd, "w", closefd=False) for fd in (1, 2))
            run(*args)
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it was, it is printed
            traceback.print_exc()
        finally:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def poll(self):
        """The exit code, None while it runs."""
        if self.code is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if found else None
        return self.code

    def wait(self):
        """The exit code when it has ended by itself."""
        while self.poll() is None:
            time.sleep(0.005)
        return self.code

    def kill(self):
        """End it now, unless it has ended; its exit code."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        return self.wait()

    def lines(self):
        """What it printed, in whole lines."""
        return self.out.read_text().split("\n")[:-1] if self.out.exists() else []
