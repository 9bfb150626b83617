"""Planes for hooks to be called at."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from checks_calls import WORDS, checked, surroundings

import memplane


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    """A plane to copy, with sessions of others in it, indexed."""
    home = tmp_path_factory.mktemp("hook") / "work" / ".memplane"
    memplane.init(home).close()
    with memplane.open(home, durability="os") as plane:
        rows = [
            {"text": f"{WORDS} {n}", "role": "user", "session": f"old{n % 5}", "id": f"m{n}"}
            for n in range(100)
        ]
        plane.record_many(rows)
        plane.record("We keep PostgreSQL for the ledger", kind="decision", key="db", id="d1")
        plane.upkeep.rebuild()
        plane.upkeep.index()
    return home


@pytest.fixture
def home(filled, tmp_path):
    return shutil.copytree(filled, tmp_path / "work" / ".memplane")


@pytest.fixture(scope="session")
def fork(tmp_path_factory):
    """Run a hook as `checks_calls.hook` does, in a copy of a process that has all imported already."""
    folder = tmp_path_factory.mktemp("fork")
    pipes = [folder / name for name in ("stdin", "stdout", "stderr")]
    asked, requests = os.pipe()
    answers, answered = os.pipe()
    script = Path(__file__).with_name("process_forks.py")
    child = subprocess.Popen(
        [sys.executable, script, str(asked), str(answered)], pass_fds=(asked, answered)
    )
    os.close(asked)
    os.close(answered)

    def fork(home, given, *more, agent="claude-code", **environment):
        for path, data in zip(pipes, (given, b"", b""), strict=True):
            path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
        where = surroundings(home, **environment)
        files = {path.name: str(path) for path in pipes}
        request = {"argv": ["hook", agent, *more], **files, **where, "cwd": str(where["cwd"])}
        writing.write(json.dumps(request) + "\n")
        writing.flush()
        code = int(reading.readline())
        return checked(code, pipes[1].read_bytes(), pipes[2].read_bytes())

    with os.fdopen(requests, "w") as writing, os.fdopen(answers) as reading:
        yield fork
    assert child.wait(60) == 0
