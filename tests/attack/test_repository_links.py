"""A repository that brings a plane with links in it: what it must not do to the user's files.

The plane is named by MEMPLANE_HOME, so that what is tested is how its files are opened, not
whether it is trusted.
"""

import io
import json
import os
import shutil
import subprocess
import sys
from typing import NamedTuple

import pytest

import memplane
from memplane.__main__ import main

pytestmark = pytest.mark.timeout(60)  # what hangs is a fault
SECRET = b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI key of the user\nanother key of the user\n"


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(capsys, monkeypatch):
    """Run a command on a plane, here; a traceback on stderr is a fault."""

    def run(*words, home):
        monkeypatch.setenv("MEMPLANE_HOME", str(home))
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
        capsys.readouterr()
        ran = Ran(main([*words]), *capsys.readouterr())
        assert "Traceback" not in ran.err
        return ran

    return run


def git(folder, *words):
    names = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True)


def hook(event, home, **more):
    """Run a hook as an agent does, as a process; give back what is wrong with it, if anything."""
    asked = {"hook_event_name": event, "session_id": "s1", "cwd": str(home.parent), **more}
    surroundings = {**os.environ, "MEMPLANE_HOME": str(home), "HOME": str(home.parent.parent)}
    done = subprocess.run(
        [sys.executable, "-m", "memplane", "hook", "claude-code"], input=json.dumps(asked),
        capture_output=True, text=True, check=False, timeout=60, env=surroundings, cwd=home.parent,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.fixture
def target(tmp_path):
    """A file of the user, outside of every repository."""
    file = tmp_path / "user" / "authorized_keys"
    file.parent.mkdir()
    file.write_bytes(SECRET)
    os.utime(file, ns=(10**18, 10**18))
    return file


@pytest.fixture
def seeded(tmp_path):
    home = tmp_path / "repository" / ".memplane"
    home.parent.mkdir()
    with memplane.init(home) as plane:
        plane.record("seed")
    return home


def clone(home, tmp_path):
    """The plane as a clone of its repository has it."""
    (home / ".gitignore").unlink()
    git(home.parent, "init", "-q")
    git(home.parent, "add", "-Af", ".")
    git(home.parent, "commit", "-qm", "x")
    git(tmp_path, "clone", "-q", str(home.parent), "clone")
    for folder in ("views", "scenarios", "bodies", "projections", "reports"):
        (tmp_path / "clone" / ".memplane" / folder).mkdir(exist_ok=True)
    return tmp_path / "clone" / ".memplane"


def untouched(target):
    return target.read_bytes() == SECRET and target.stat().st_mtime_ns == 10**18


@pytest.mark.skipif(shutil.which("git") is None, reason="no git here")
@pytest.mark.parametrize("lock", ["log/.lock", "projections/.lock", "index/.lock"])
def test_a_lock_that_is_a_link_overwrites_no_file_of_the_user(seeded, target, tmp_path, lock, run):
    link = seeded / lock
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to("../../../user/authorized_keys")
    home = clone(seeded, tmp_path)
    assert (home / lock).resolve() == target
    assert hook("SessionStart", home, source="startup") == (0, "")
    for words in (("record", "more"), ("rebuild",), ("search", "seed"), ("repair",)):
        run(*words, home=home)
    assert untouched(target)


def test_a_segment_that_is_a_link_takes_no_prompt_out_of_the_plane(seeded, tmp_path, run):
    """The link names a valid log of this plane: all but the name says that it is its own."""
    segment = seeded / "log" / "00000001.jsonl"
    outside = tmp_path / "elsewhere.jsonl"
    segment.rename(outside)
    segment.symlink_to(outside)
    before = outside.read_bytes()
    assert hook("UserPromptSubmit", seeded, prompt="what only this plane may hold") == (0, "")
    done = run("record", "more", home=seeded)
    assert done.code == 3
    assert "00000001.jsonl: is a link" in done.err
    assert outside.read_bytes() == before


@pytest.mark.parametrize(
    "part", ["log", "log/spool", "log/quarantine", "bodies", "projections", "index", "reports",
             "policies", "views", "plane.json", "hooks.log", ".gitignore"],
)  # fmt: skip
def test_a_home_with_a_part_that_leaves_it_is_refused_with_the_remedy(seeded, tmp_path, part, run):
    inside, outside = seeded / part, tmp_path / "outside"
    if inside.exists():
        inside.rename(outside)
    elif part == "hooks.log":
        outside.write_bytes(SECRET)
    else:
        outside.mkdir()
    inside.symlink_to(outside)
    before = sorted(outside.rglob("*")) if outside.is_dir() else outside.read_bytes()
    expected = "a folder" if outside.is_dir() else "a file"
    for words in (("record", "more"), ("pack", "seed"), ("verify",), ("log",)):
        done = run(*words, home=seeded)
        assert done.code == 3
        assert f"{seeded / part}: is a link to '{outside}', expected {expected}" in done.err
        assert "remove it, or put" in done.err
    assert before == (sorted(outside.rglob("*")) if outside.is_dir() else outside.read_bytes())


def test_a_home_that_is_a_link_itself_is_the_plane_it_names(seeded, tmp_path, run):
    named = tmp_path / "named"
    named.symlink_to(seeded)
    assert run("record", "through the link", home=named).code == 0
    assert "through the link" in run("log", home=seeded).out


@pytest.mark.parametrize("name", ["policies/privacy.yaml", "policies/budgets.yaml", "views/a.md"])
def test_a_pipe_as_a_policy_or_view_holds_nobody_up(seeded, name, run):
    (seeded / name).unlink(missing_ok=True)
    os.mkfifo(seeded / name)
    assert run("record", "password: hunter2Xq9Zt", home=seeded).code == 0
    assert "hunter2Xq9Zt" not in run("log", home=seeded).out  # the built-in rules go on
    for words in (("pack", "seed"), ("verify",), ("policy", "check")):
        done = run(*words, home=seeded)
        if words[0] == "pack" and name.startswith("policies"):
            assert name in done.err
            assert "is a pipe, expected a file" in done.err


def test_a_pipe_as_plane_json_is_named(seeded, run):
    (seeded / "plane.json").unlink()
    os.mkfifo(seeded / "plane.json")
    for words in (("record", "more"), ("pack", "seed"), ("verify",)):
        done = run(*words, home=seeded)
        assert done.code == 3
        assert "plane.json: is a pipe, expected a file" in done.err
