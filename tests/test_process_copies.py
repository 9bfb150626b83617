"""A copy of a process that has imported memplane is what a process of its own would have been."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

WORDS = [sys.executable, "-m", "memplane"]
REAL = subprocess.Popen  # as it was when this file was read

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="copies are for Linux")


def started(which, *argv, **how):
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return which([*WORDS, *map(str, argv)], **{**pipes, **how})


def both(*argv, said=b"", **how):
    """Exit code, stdout and stderr of a copy and of a fresh process."""
    ends = []
    for which in (subprocess.Popen, REAL):
        with started(which, *argv, **how) as process:
            out, err = process.communicate(said, timeout=60)
        ends.append((process.returncode, out, err))
    return ends


@pytest.mark.parametrize("argv", [["--version"], ["nosuch"], ["get", "a"], ["pack", "--help"]])
def test_it_answers_and_ends_as_a_fresh_one(tmp_path, argv):
    copy, fresh = both(*argv, cwd=tmp_path)
    assert copy == fresh


def test_stdin_folder_and_environment_are_its_own(plane, tmp_path):
    plane.close()
    env = {**os.environ, "MEMPLANE_HOME": "plane"}
    with started(subprocess.Popen, "record", "--stdin", cwd=tmp_path, env=env) as process:
        process.communicate("ein Fuß".encode(), timeout=60)
    assert process.returncode == 0
    (_, out, _), _ = both("log", "--json", cwd=tmp_path, env=env)
    assert "ein Fuß" in {event["text"] for event in json.loads(out)}
    assert "MEMPLANE_HOME" not in os.environ


@linux
def test_it_is_a_child_of_its_own_that_signals_reach(plane):
    argv = ["log", "--follow", "--json", "--home", plane.home]
    with started(subprocess.Popen, *argv) as process:
        assert type(process) is not REAL
        state = Path(f"/proc/{process.pid}/stat").read_text()
        assert int(state.rpartition(")")[2].split()[1]) == os.getpid()
        process.send_signal(signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL


@linux
def test_what_the_interpreter_reads_as_it_starts_makes_a_fresh_one(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('custom')\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    copy, fresh = both("--version", env=env)
    assert copy == fresh
    assert b"custom" in copy[1]


@linux
def test_a_module_in_the_folder_goes_before_ours_as_ever(tmp_path):
    (tmp_path / "typer.py").write_text("raise SystemExit(7)\n")
    copy, fresh = both("pack", "a", cwd=tmp_path)
    assert copy[0] == fresh[0]
