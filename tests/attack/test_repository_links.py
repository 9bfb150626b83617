"""A repository that brings a plane with links in it: what it must not do to the user's files.

The plane is named by MEMPLANE_HOME, so that what is tested is how its files are opened, not
whether it is trusted.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest

SECRET = b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI key of the user\nanother key of the user\n"
TIMEOUT_S = 60


def memplane(*words, home, stdin=""):
    """Run a command on that plane, as a process."""
    surroundings = {**os.environ, "MEMPLANE_HOME": str(home), "HOME": str(home.parent.parent)}
    return subprocess.run(
        [sys.executable, "-m", "memplane", *words], input=stdin, capture_output=True, text=True,
        check=False, timeout=TIMEOUT_S, env=surroundings, cwd=home.parent,
    )  # fmt: skip


def git(folder, *words):
    names = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True)


def hook(event, home, **more):
    asked = {"hook_event_name": event, "session_id": "s1", "cwd": str(home.parent), **more}
    return memplane("hook", "claude-code", home=home, stdin=json.dumps(asked))


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
    assert memplane("init", home=home).returncode == 0
    assert memplane("record", "seed", home=home).returncode == 0
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
def test_a_lock_that_is_a_link_overwrites_no_file_of_the_user(seeded, target, tmp_path, lock):
    link = seeded / lock
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to("../../../user/authorized_keys")
    home = clone(seeded, tmp_path)
    assert (home / lock).resolve() == target
    done = hook("SessionStart", home, source="startup")
    assert (done.returncode, done.stderr) == (0, "")
    for words in (("record", "more"), ("rebuild",), ("search", "seed"), ("repair",)):
        done = memplane(*words, home=home)
        assert "Traceback" not in done.stderr
    assert untouched(target)


def test_a_segment_that_is_a_link_takes_no_prompt_out_of_the_plane(seeded, tmp_path):
    """The link names a valid log of this plane: all but the name says that it is its own."""
    segment = seeded / "log" / "00000001.jsonl"
    outside = tmp_path / "elsewhere.jsonl"
    segment.rename(outside)
    segment.symlink_to(outside)
    before = outside.read_bytes()
    assert hook("UserPromptSubmit", seeded, prompt="what only this plane may hold").returncode == 0
    done = memplane("record", "more", home=seeded)
    assert done.returncode == 3
    assert "00000001.jsonl: is a link" in done.stderr
    assert outside.read_bytes() == before


@pytest.mark.parametrize(
    "part", ["log", "log/spool", "log/quarantine", "bodies", "projections", "index", "reports",
             "policies", "views", "plane.json", "hooks.log", ".gitignore"],
)  # fmt: skip
def test_a_home_with_a_part_that_leaves_it_is_refused_with_the_remedy(seeded, tmp_path, part):
    inside, outside = seeded / part, tmp_path / "outside"
    if inside.exists():
        inside.rename(outside)
    else:
        outside.mkdir()
    inside.symlink_to(outside)
    before = sorted(outside.rglob("*")) if outside.is_dir() else outside.read_bytes()
    for words in (("record", "more"), ("pack", "seed"), ("verify",), ("status",)):
        done = memplane(*words, home=seeded)
        assert done.returncode == 3, (words, done)
        assert f"{seeded / part}: is a link to '{outside}', expected a fi" in done.stderr.replace(
            "expected a folder", "expected a fi"
        )
        assert "remove it, or put" in done.stderr
    assert hook("SessionStart", seeded, source="startup").returncode == 0
    assert before == (sorted(outside.rglob("*")) if outside.is_dir() else outside.read_bytes())


def test_a_home_that_is_a_link_itself_is_the_plane_it_names(seeded, tmp_path):
    named = tmp_path / "named"
    named.symlink_to(seeded)
    assert memplane("record", "through the link", "--home", str(named), home=seeded).returncode == 0
    assert "through the link" in memplane("log", home=seeded).stdout


@pytest.mark.parametrize("name", ["policies/privacy.yaml", "policies/budgets.yaml", "views/a.md"])
def test_a_pipe_as_a_policy_or_view_holds_nobody_up(seeded, name):
    (seeded / name).unlink(missing_ok=True)
    os.mkfifo(seeded / name)
    assert memplane("record", "more", home=seeded).returncode == 0
    for words in (("pack", "seed"), ("verify",), ("policy", "check")):
        done = memplane(*words, home=seeded)
        assert "Traceback" not in done.stderr
        if words[0] == "pack" and name.startswith("policies"):
            assert name in done.stderr
            assert "is a pipe, expected a file" in done.stderr


def test_a_pipe_as_plane_json_is_named(seeded):
    (seeded / "plane.json").unlink()
    os.mkfifo(seeded / "plane.json")
    for words in (("record", "more"), ("pack", "seed"), ("verify",)):
        done = memplane(*words, home=seeded)
        assert done.returncode == 3
        assert "plane.json: is a pipe, expected a file" in done.stderr
