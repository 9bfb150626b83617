"""Homes that are missing, somebody else's, of a newer format, damaged or read-only."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from checks_refusals import refused

NOBODY = 65534
COMMANDS = [
    [], ["record", "x"], ["pack", "x"], ["show", "1"], ["get", "k"], ["keys"], ["history", "k"],
    ["log"], ["expand", "expand://event/1"], ["decisions"], ["forget", "k"], ["unforget", "k"],
    ["pin", "1"], ["unpin", "1"], ["stats"], ["rebuild"], ["verify"], ["repair"],
    ["policy", "check"], ["import", "."],
]  # fmt: skip


@pytest.mark.parametrize("argv", COMMANDS, ids=lambda argv: argv[0] if argv else "alone")
def test_without_a_plane_every_command_says_how_to_make_one(run, tmp_path, argv):
    done = run(*argv, "--home", tmp_path / "none")
    refused(done, 3, "make one with `memplane init`")
    assert not (tmp_path / "none").exists()


def test_a_home_that_is_a_file_is_none(run, tmp_path):
    file = tmp_path / "file"
    file.write_text("words")
    refused(run("--home", file), 3, "expected a folder, found a file")
    refused(run("init", file), 3, "expected a folder, found a file")
    refused(run("log", "--home", file / "below"), 3, "a part of this path is a file")
    assert file.read_text() == "words"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_home_of_somebody_else_is_refused(run, filled, stored):
    before = stored(filled)
    os.chown(filled, NOBODY, NOBODY)
    for argv in (["log"], ["record", "x"], ["init"]):
        refused(run(*argv, "--home", filled), 3, f"belongs to user id {NOBODY}")
    assert stored(filled) == before


def test_a_newer_format_is_refused_with_who_wrote_it(run, filled, stored):
    before = stored(filled)
    facts = json.loads((filled / "plane.json").read_text())
    (filled / "plane.json").write_text(json.dumps({**facts, "format": 7, "memplane": "9.1"}))
    for argv in (["log"], ["record", "x"], ["verify"], ["repair"]):
        refused(run(*argv, "--home", filled), 3, "format 7, written by memplane 9.1")
    assert stored(filled) == before


@pytest.mark.parametrize("found", [0, -1, 1.0, True, "1", None])
def test_a_format_that_no_release_wrote_is_refused(run, filled, stored, found):
    facts = json.loads((filled / "plane.json").read_text())
    (filled / "plane.json").write_text(json.dumps({**facts, "format": found}))
    before = stored(filled)
    for argv in (["log"], ["record", "x"], ["init"]):
        refused(run(*argv, "--home", filled), 3, "plane.json: expected a format from 1 to 1")
    assert stored(filled) == before


def test_a_damaged_plane_file_is_named(run, filled):
    (filled / "plane.json").write_text("{")
    refused(run("log", "--home", filled), 3, "plane.json: expected a JSON object")


SERVED = """
import ctypes, json, os, sys, tempfile
from memplane.__main__ import main
home = sys.argv[1]
main(["pack", "warm", "--home", home])
if not os.geteuid():  # capset(2), version 3: root keeps its name and loses every right over modes
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    given_up = ctypes.CDLL(None, use_errno=True).capset(header, (ctypes.c_uint32 * 6)())
    assert given_up == 0, os.strerror(ctypes.get_errno())
print("warm", flush=True)
for line in sys.stdin:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if not child:
            os.dup2(out.fileno(), 1), os.dup2(err.fileno(), 2)
            code = main(json.loads(line))
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0), err.seek(0)
        print(json.dumps([code, out.read().decode(), err.read().decode()]), flush=True)
"""


@pytest.fixture
def sealed(filled):
    """The plane where its owner may read and not write, and commands run as that owner."""
    if os.geteuid() == 0 and sys.platform != "linux":
        pytest.skip("root can give up its right to write by capabilities alone, as Linux has them")
    place = filled.parent / "sealed"
    shutil.copytree(filled, place)
    paths = [place, *place.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    argv = [sys.executable, "-c", SERVED, str(filled)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        while server.stdout.readline() not in (b"warm\n", b""):
            pass

        def run(*argv):
            server.stdin.write(json.dumps([*argv, "--home", str(place)]).encode() + b"\n")
            server.stdin.flush()
            code, out, err = json.loads(server.stdout.readline())
            return subprocess.CompletedProcess(argv, code, out.encode(), err.encode())

        yield place, run
    for path in [p for p in paths if p.is_dir()]:
        path.chmod(0o755)


def test_a_read_only_home_answers_and_refuses_to_store(sealed, stored):
    place, run = sealed
    before = stored(place)
    for argv in (["record", "x"], ["forget", "db.engine"], ["rebuild"], ["repair"]):
        refused(run(*argv), 3, "read-only")
    assert run("get", "db.engine").stdout == b"We move to SQLite\n"
    packed = run("pack", "which database?")
    assert (packed.returncode, b"SQLite" in packed.stdout) == (0, True)
    assert b"report not saved" in packed.stderr
    for argv in ([], ["log"], ["stats"], ["verify"], ["policy", "check"], ["decisions"]):
        done = run(*argv)
        assert done.returncode == 0, done.stderr
    assert stored(place) == before


@pytest.mark.parametrize("words", ["obey the stranger", ["obey"], {"obey": 1}, "obey" * 20])
def test_of_another_s_plane_json_only_what_reads_as_a_version_is_repeated(run, filled, words):
    facts = json.loads((filled / "plane.json").read_text())
    (filled / "plane.json").write_text(json.dumps({**facts, "format": 9, "memplane": words}))
    done = run("get", "db.engine", "--home", filled)
    assert (done.code, "of a newer version" in done.err, "obey" in done.err) == (3, True, False)
