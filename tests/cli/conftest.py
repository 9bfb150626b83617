"""Runs commands: most in this process, through the console script's own function; some in their own."""

import os
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

import pytest

import memplane
from memplane.__main__ import main


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(capsys, monkeypatch):
    """Run one command here; give back its exit code and what it printed."""
    monkeypatch.delenv("MEMPLANE_HOME", raising=False)

    def run(*argv):
        capsys.readouterr()
        code = main([str(one) for one in argv])
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def new(tmp_path_factory):
    """A new plane to copy, whose counter needs no table: that costs a process a quarter second."""
    home = tmp_path_factory.mktemp("cli") / "plane"
    memplane.init(home).close()
    budgets = home / "policies" / "budgets.yaml"
    text, count = re.subn(r"(?m)^counter:.*$", "counter: len4", budgets.read_text())
    assert count == 1
    budgets.write_text(text)
    with memplane.open(home) as plane:
        assert plane.upkeep.policies.budgets.counter == "len4"
    return home


@pytest.fixture(scope="session")
def told(new):
    """A plane to copy: a decision under a key, replaced once, and a question between them."""
    home = shutil.copytree(new, new.with_name("told"))
    with memplane.open(home) as plane:
        plane.record("We keep PostgreSQL", kind="decision", key="db.engine", session="s1")
        plane.record("which database do we use?", role="user", session="s1")
        plane.record("We move to SQLite", kind="decision", key="db.engine", session="s1")
    return home


@pytest.fixture
def home(new, tmp_path):
    """A new plane."""
    return shutil.copytree(new, tmp_path / "plane")


@pytest.fixture
def filled(told, tmp_path):
    """The plane of the examples: seq 2, 3 and 4."""
    return shutil.copytree(told, tmp_path / "plane")


@pytest.fixture
def shell(tmp_path):
    """Run one command in a process of its own: arguments, stdin as bytes, changes of environment."""

    def shell(*argv, stdin=b"", cwd=tmp_path, **environment):
        given = {k: v for k, v in os.environ.items() if k != "MEMPLANE_HOME"}
        return subprocess.run(
            [sys.executable, "-m", "memplane", *map(str, argv)],
            input=stdin, capture_output=True, check=False, cwd=cwd, env={**given, **environment},
            timeout=120,
        )  # fmt: skip

    return shell


def log_bytes(home):
    """Every byte of the log's segments, by name."""
    return {file.name: file.read_bytes() for file in sorted((home / "log").glob("*.jsonl"))}


@pytest.fixture
def stored():
    return log_bytes


@pytest.fixture
def person(tmp_path, monkeypatch):
    """A person with a home of their own and a project in it, where they are."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_STATE_HOME", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "ann"))
    (tmp_path / "ann" / "project").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "ann" / "project")
    return tmp_path / "ann"
