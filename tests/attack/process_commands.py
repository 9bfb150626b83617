"""Runs commands of memplane as somebody else's machine would, each in a process of its own.

`Forks` keeps one process in which everything is imported already; each command runs in a fork of
it, in a session of its own, so that a command that hangs is ended with all that it started. That
takes a tenth of the time of a fresh interpreter. `fresh` starts a fresh one, as a client does.
"""

import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import NamedTuple

SECONDS = 20
HUNG = "hung"


class Ran(NamedTuple):
    """How a command ended: its exit code, or HUNG; what it printed."""

    argv: tuple[str, ...]
    code: int | str
    out: bytes
    err: bytes

    @property
    def said(self):
        return (self.out + b"\n" + self.err).decode("utf-8", "replace")


class Forks:
    """One process that runs commands in copies of itself; `folder` is for its pipes."""

    def __init__(self, folder):
        self._files = [str(folder / name) for name in ("stdin", "stdout", "stderr")]
        asked, requests = os.pipe()
        answers, answered = os.pipe()
        self._child = subprocess.Popen(
            [sys.executable, __file__, str(asked), str(answered)], pass_fds=(asked, answered)
        )
        os.close(asked)
        os.close(answered)
        self._requests, self._answers = os.fdopen(requests, "w"), os.fdopen(answers)

    def __call__(self, *argv, cwd, env, stdin=b"", seconds=SECONDS):
        """Run `memplane ARGV` there; what is not in `env` is not in its environment."""
        for path, data in zip(self._files, (stdin, b"", b""), strict=True):
            Path(path).write_bytes(data)
        request = {"argv": [*map(str, argv)], "cwd": str(cwd), "env": env, "files": self._files}
        self._requests.write(json.dumps({**request, "seconds": seconds}) + "\n")
        self._requests.flush()
        code = json.loads(self._answers.readline())
        out, err = (Path(path).read_bytes() for path in self._files[1:])
        return Ran(tuple(map(str, argv)), code, out, err)

    def close(self):
        self._requests.close()
        self._answers.close()
        assert self._child.wait(60) == 0


def fresh(*argv, cwd, env, stdin=b"", seconds=SECONDS, prepared=None):
    """Run `python -m memplane ARGV` there, in a session of its own, and end it when it hangs.

    `prepared` runs in its process before all else.
    """
    words = [sys.executable, "-m", "memplane", *map(str, argv)]
    own = {"preexec_fn": prepared, "start_new_session": True}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, cwd=cwd, env=env, **own, **pipes) as process:
        try:
            out, err = process.communicate(stdin, timeout=seconds)
            code = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            code = HUNG
    return Ran(tuple(map(str, argv)), code, out, err)


def forked(request):
    """Run one in a fork of this process; its exit code, or HUNG."""
    child = os.fork()
    if not child:
        run(request)
    until = time.monotonic() + request["seconds"]
    pause = 0.0005
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return HUNG
        time.sleep(pause)
        pause = min(pause * 2, 0.01)


def run(request):
    """In the fork: become the command. Never returns."""
    code = 99
    try:
        os.setsid()
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        for number, path in enumerate(request["files"]):
            flags = os.O_RDONLY if number == 0 else os.O_WRONLY
            file = os.open(path, flags)
            os.dup2(file, number)
            os.close(file)
        from memplane.__main__ import main

        code = main(request["argv"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - none may get into the loop of the parent
        traceback.print_exc()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def serve():
    """Run what is asked for, line by line, until there is no more."""
    sys.path.append(str(Path(__file__).parents[2]))
    from tests.process_copies import import_everything, read_once, warm, warm_hook

    import_everything()
    read_once(setattr)
    warm()
    warm_hook()
    gc.collect()
    gc.freeze()  # no search for garbage touches what the forks share
    with os.fdopen(int(sys.argv[1])) as asked, os.fdopen(int(sys.argv[2]), "w") as answers:
        for line in asked:
            answers.write(json.dumps(forked(json.loads(line))) + "\n")
            answers.flush()


if __name__ == "__main__":
    serve()
