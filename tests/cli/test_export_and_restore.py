"""`export` and `restore` on the command line: what they print, where, and with which exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import memplane
import memplane.clock
from memplane.home import open_home
from memplane.wiring import open_light


def test_a_plane_goes_through_a_file_and_comes_back_as_it_was(run, filled, tmp_path, stored):
    done = run("export", tmp_path / "e.jsonl", "--home", filled)
    assert done.code == 0
    assert done.out.startswith("exported  4 lines of the log, 0 bodies, as of seq 4, to /")
    assert done.err == (
        "memplane: it holds everything, also what is secret: keep it as you keep the plane\n"
    )
    done = run("restore", tmp_path / "e.jsonl", "--into", tmp_path / "copy")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"restored  {tmp_path}/copy: 4 lines of the log, up to seq 4\n"
    assert stored(tmp_path / "copy") == stored(filled)
    assert run("get", "db.engine", "--home", tmp_path / "copy").out.strip() == "We move to SQLite"
    assert run("verify", "--home", tmp_path / "copy").code == 0


def test_a_restored_plane_is_searched_by_hooks_at_once(run, filled, tmp_path):
    run("export", tmp_path / "e.jsonl", "--home", filled)
    run("restore", tmp_path / "e.jsonl", "--into", tmp_path / "copy")
    found = open_home(tmp_path / "copy")
    with open_light(found, memplane.clock.clock, {}) as light:
        block = light.pack("which database, SQLite or PostgreSQL?", remind="prompt", budget=300)
        assert block.report["request"]["index_seq"] == light.head().seq


def test_it_goes_through_a_pipe_too(shell, filled, tmp_path, stored):
    sent = shell("export", "--home", filled)
    assert sent.returncode == 0
    assert sent.stdout.startswith(b'{"export":"memplane","format":1,"plane":')
    assert b"exported  4 lines" in sent.stderr
    taken = shell("restore", "-", "--into", tmp_path / "copy", "--json", stdin=sent.stdout)
    said = json.loads(taken.stdout)
    assert (said["mode"], said["events"], said["seq"]) == ("whole", 4, 4)
    assert stored(tmp_path / "copy") == stored(filled)
    cut = shell("restore", "-", "--into", tmp_path / "no", stdin=sent.stdout[:-2])
    assert cut.returncode == 2
    assert cut.stderr.startswith(b"memplane: stdin:7: found ")
    assert not (tmp_path / "no").exists()


def test_an_export_that_its_reader_did_not_take_ends_quietly_and_is_no_success(
    shell, filled, tmp_path
):
    """Neither a large one, which fails half-way, nor a small one, which does at the last flush."""
    for _ in range(2):
        reader, writer = os.pipe()
        os.close(reader)
        command = [sys.executable, "-m", "memplane", "export", "-", "--home", str(filled)]
        with subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE) as process:
            os.close(writer)
            _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (141, b"")
        with memplane.open(filled) as plane:
            for number in range(40):
                plane.record(f"{number} " * 4000)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
def test_an_export_to_a_full_disk_says_so(filled):
    command = [sys.executable, "-m", "memplane", "export", "-", "--home", str(filled)]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 3
    assert b"stdout: No space left on device; what was written has no last line" in done.stderr


def test_a_part_says_what_it_withholds_and_is_recorded_once(run, filled, tmp_path):
    run("record", "for nobody", "--sensitivity", "secret", "--home", filled)
    path = tmp_path / "part.jsonl"
    done = run("export", path, "--session", "s1", "--session", "s2", "--home", filled)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("exported  3 events, 0 bodies, as of seq 5, to ")
    done = run("export", path, "--redact", "--replace", "--home", filled, "--json")
    assert json.loads(done.out)["withheld"] == {"hidden": 1}
    for said in ("recorded  3 events from plane ", "recorded  0 events from plane "):
        done = run("restore", path, "--into", tmp_path / "other")
        assert (done.code, done.out.startswith(said)) == (0, True)
    assert "repeated  3 that were there already" in done.out
    done = run("restore", path, "--into", tmp_path / "other", "--json")
    assert json.loads(done.out)["mode"] == "import"


def test_what_cannot_be_recorded_is_listed_with_its_place_in_the_exported_plane(
    run, filled, tmp_path
):
    home = tmp_path / "other"
    run("init", home)
    run("record", "this", "--id", "x", "--home", filled)
    run("record", "that", "--id", "x", "--home", home)
    run("export", tmp_path / "e.jsonl", "--home", filled)
    done = run("restore", tmp_path / "e.jsonl", "--into", home)
    assert done.code == 0
    assert "refused   1:\n  seq 5: x: conflict: id 'x' is taken by another event" in done.out


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["export", "there.jsonl"], 2, "is there already; name another, or say to replace it"),
        (["export", "--json"], 2, "--json: stdout has the export; name a file"),
        (["export", "new.jsonl", "--kind", "desicion"], 2, "kind: unknown kind 'desicion'"),
        (["export", "new.jsonl", "--secret"], 2, "secret: a whole export holds what is secret"),
        (["export", "no/such/folder.jsonl"], 3, "No such file or directory; nothing was exported"),
        (["restore", "no.jsonl"], 2, "no.jsonl: cannot be read: No such file or directory"),
        (["restore", "there.jsonl"], 2, "there.jsonl:1: found no export of memplane, expected"),
    ],
)
def test_what_cannot_be_done_is_said_in_words_and_nothing_is_changed(
    run, filled, tmp_path, monkeypatch, stored, argv, code, said
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.jsonl").write_text('{"text":"mine"}\n')
    before = stored(filled)
    done = run(*argv, "--home", filled)
    assert done.code == code
    assert said in done.err
    assert stored(filled) == before
    assert (tmp_path / "there.jsonl").read_text() == '{"text":"mine"}\n'
    assert not (tmp_path / "new.jsonl").exists()


def test_without_a_folder_it_is_restored_here(run, filled, tmp_path, monkeypatch):
    run("export", tmp_path / "e.jsonl", "--home", filled)
    (tmp_path / "project" / "src").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    assert run("restore", tmp_path / "e.jsonl").code == 0
    assert (tmp_path / "project" / ".memplane" / "plane.json").exists()
    monkeypatch.chdir(tmp_path / "project" / "src")
    assert "recorded  0 events" in run("restore", tmp_path / "e.jsonl").out
