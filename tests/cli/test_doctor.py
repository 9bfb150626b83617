"""`memplane doctor`: each check on planes that have what it looks for."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import memplane
from memplane.upkeep.doctor import network_kind, space, synced_by

MB = 1024 * 1024


@pytest.fixture
def examined(run, filled):
    """Run the command on a plane: its exit code, and the checks by name."""

    def examined(home=filled):
        done = run("doctor", "--home", home, "--json")
        found = json.loads(done.out)
        checks = {check["name"]: check for check in found["checks"]}
        assert len(checks) == len(found["checks"])
        assert found["ok"] == all(check["status"] != "fail" for check in checks.values())
        assert (done.code == 0) == found["ok"]
        return done.code, checks

    return examined


def every_file(home):
    return {
        path: (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(home.rglob("*"))
    }


def test_a_sound_plane_has_no_failure_and_nothing_in_it_is_written(examined, filled, run):
    run("rebuild", "--home", filled)
    before = every_file(filled)
    code, checks = examined()
    assert code == 0
    assert {name for name, check in checks.items() if check["status"] != "ok"} <= {"git"}
    assert list(checks) == [
        "home", "permissions", "lock", "spool", "space", "filesystem", "trust", "policies", "views",
        "counter", "log", "projections", "index", "vectors", "engine", "leftovers", "hard-links", "clock", "git-ignore",
        "versions", "extra tokens", "git",
    ]  # fmt: skip
    assert every_file(filled) == before
    words = run("doctor", "--home", filled).out.splitlines()
    assert words[0].startswith("ok    home          ")


def test_without_a_plane_it_says_so_and_looks_around_all_the_same(run, examined, tmp_path):
    code, checks = examined(tmp_path / "none")
    assert (code, checks["home"]["status"], checks["versions"]["status"]) == (3, "fail", "ok")
    assert not (tmp_path / "none").exists()


def test_a_plane_that_cannot_be_opened_is_looked_at_as_far_as_that_goes(examined, filled):
    facts = json.loads((filled / "plane.json").read_text())
    (filled / "plane.json").write_text(json.dumps({**facts, "format": 9}))
    code, checks = examined()
    assert (code, checks["home"]["status"]) == (3, "fail")
    assert "upgrade memplane" in checks["home"]["found"]
    assert checks["log"]["found"].startswith("not looked at")
    assert checks["policies"]["status"] == checks["lock"]["status"] == "ok"


def test_a_home_that_others_may_enter_is_a_failure_and_a_file_below_it_a_warning(examined, filled):
    (filled / "views" / "rules.md").write_text("shared on purpose")
    (filled / "views" / "rules.md").chmod(0o644)
    assert examined()[1]["permissions"]["status"] == "ok"
    (filled / "log" / "00000001.jsonl").chmod(0o644)
    code, checks = examined()
    assert (code, checks["permissions"]["status"]) == (0, "warn")
    assert "log/00000001.jsonl" in checks["permissions"]["found"]
    filled.chmod(0o755)
    code, checks = examined()
    assert (code, checks["permissions"]["status"]) == (1, "fail")
    assert checks["permissions"]["remedy"] == f"chmod 700 {filled}"


def test_a_view_that_is_no_file_is_a_failure(examined, filled, tmp_path):
    view = filled / "views" / "rules.project.md"
    view.write_text("Deploy on Mondays")
    assert examined()[1]["views"] == {
        "name": "views",
        "status": "ok",
        "found": "1 loaded",
        "remedy": "",
    }
    view.unlink()
    os.mkfifo(view)
    code, checks = examined()
    assert (code, checks["views"]["status"]) == (1, "fail")
    assert checks["views"]["found"].startswith("views/rules.project.md: is a pipe, expected a file")
    view.unlink()
    (tmp_path / "elsewhere.md").write_text("Deploy on Fridays")
    view.symlink_to(tmp_path / "elsewhere.md")
    assert "views/rules.project.md" in examined()[1]["views"]["found"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_a_failure(examined, filled):
    os.chown(filled / "log" / "00000001.jsonl", 65534, 65534)
    code, checks = examined()
    assert (code, "not yours: log/00000001.jsonl" in checks["permissions"]["found"]) == (1, True)


def test_who_holds_the_lock_and_who_held_it_last(examined, filled, tmp_path):
    memplane.init(tmp_path / "fresh").close()
    assert examined(tmp_path / "fresh")[1]["lock"]["found"] == "nobody has written yet"
    assert f"process {os.getpid()}, which is alive" in examined()[1]["lock"]["found"]
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    (filled / "log" / ".lock").write_bytes(b"%-20d x\n" % done.pid)
    assert f"process {done.pid}, which has ended" in examined()[1]["lock"]["found"]
    with (filled / "log" / ".lock").open("rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        code, checks = examined()
    assert (code, checks["lock"]["status"]) == (0, "warn")
    assert "held for more than" in checks["lock"]["found"]


def test_little_room_is_a_warning_and_none_a_failure():
    assert [space(free).status for free in (0, 8 * MB - 1, 8 * MB, 100 * MB - 1, 100 * MB)] == [
        "fail", "fail", "warn", "warn", "ok",
    ]  # fmt: skip


def test_a_network_file_system_is_told_by_the_innermost_mount():
    mounts = (
        "/dev/a / ext4 rw 0 0\nserver:/x /home nfs4 rw 0 0\n/dev/b /home/me/local xfs rw 0 0\n"
        "host: /home/my\\040share fuse.sshfs rw 0 0\nshort line\n/dev/c /home/over ext4 rw 0 0\n"
        "//s/y /home/over cifs rw 0 0\n"
    )
    assert network_kind(mounts, Path("/var/plane")) == ("ext4", False)
    assert network_kind(mounts, Path("/home/me/plane")) == ("nfs4", True)
    assert network_kind(mounts, Path("/home/me/local/plane")) == ("xfs", False)
    assert network_kind(mounts, Path("/home/my share/plane")) == ("fuse.sshfs", True)
    assert network_kind(mounts, Path("/home/over/plane")) == ("cifs", True)
    assert network_kind("", Path("/plane")) == ("", False)


@pytest.mark.parametrize(
    ("folder", "service"),
    [
        ("/home/me/Dropbox/code/.memplane", "Dropbox"),
        ("/home/me/Dropbox (Work)/.memplane", "Dropbox"),
        ("/Users/me/Library/CloudStorage/Dropbox/.memplane", "Dropbox"),
        ("/mnt/c/Users/me/OneDrive/Documents/.memplane", "OneDrive"),
        ("/mnt/c/Users/me/OneDrive - Contoso Ltd/.memplane", "OneDrive"),
        ("/Users/me/Library/CloudStorage/OneDrive-Personal/.memplane", "OneDrive"),
        ("/Users/me/Library/Mobile Documents/com~apple~CloudDocs/.memplane", "iCloud"),
        ("/mnt/c/Users/me/iCloudDrive/.memplane", "iCloud"),
        ("/Users/me/Library/CloudStorage/GoogleDrive-me@example.com/My Drive", "Google Drive"),
        ("/home/me/dropbox-client/.memplane", None),
        ("/home/me/OneDriver/.memplane", None),
    ],
)
def test_a_folder_that_a_cloud_copies_is_known_by_its_name(folder, service):
    assert synced_by(Path(folder)) == service


def test_doctor_init_and_restore_warn_of_a_folder_that_a_cloud_copies(
    examined, filled, run, tmp_path
):
    home = shutil.copytree(filled, tmp_path / "Dropbox" / "plane")
    check = examined(home)[1]["filesystem"]
    assert check["status"] == "warn"
    assert check["found"].startswith("in a folder of Dropbox, which copies files")
    made = run("init", tmp_path / "OneDrive" / ".memplane")
    assert made.code == 0
    assert "a poor place for a plane: in a folder of OneDrive, which copies files" in made.err
    assert json.loads(run("init", home, "--json").out)["unfit"].startswith("in a folder of Dropbox")
    run("export", tmp_path / "plane.jsonl", "--home", filled)
    restored = run(
        "restore", tmp_path / "plane.jsonl", "--into", tmp_path / "iCloudDrive" / "plane"
    )
    assert "a poor place for a plane: in a folder of iCloud" in restored.err
    marked = tmp_path / "synced"
    (marked / ".stfolder").mkdir(parents=True)
    assert "Syncthing" in run("init", marked / "sub" / ".memplane").err


def test_init_warns_of_a_network_folder(run, tmp_path, monkeypatch):
    read = Path.read_text
    mounts = f"server:/x {tmp_path} nfs4 rw 0 0\n"
    monkeypatch.setattr(
        Path, "read_text",
        lambda self, *a, **k: mounts if str(self) == "/proc/self/mounts" else read(self, *a, **k),
    )  # fmt: skip
    done = run("init", tmp_path / "plane")
    assert done.err == (
        "memplane: a poor place for a plane: nfs4, which is shared over a network: locks and syncs "
        "may not hold there: keep the plane on a local disk\n"
    )


def test_broken_policies_are_a_failure_that_names_the_first(examined, filled):
    (filled / "policies" / "budgets.yaml").write_text("version: 1\nreserve_tokens: lots\n")
    code, checks = examined()
    assert (code, checks["policies"]["status"]) == (1, "fail")
    assert "policies/budgets.yaml:2" in checks["policies"]["found"]
    assert checks["log"]["status"] == "ok"


def test_a_variable_with_a_mistake_is_a_failure_and_a_sound_one_is_in_force(examined, monkeypatch):
    monkeypatch.setenv("MEMPLANE_BUDGETS__DEFAULT_PACK_TOKENS", "lots")
    code, checks = examined()
    assert (code, checks["policies"]["status"]) == (1, "fail")
    assert "environment: MEMPLANE_BUDGETS__DEFAULT_PACK_TOKENS: " in checks["policies"]["found"]
    monkeypatch.setenv("MEMPLANE_BUDGETS__DEFAULT_PACK_TOKENS", "700")
    monkeypatch.setenv("MEMPLANE_BUDGETS__COUNTER", "bound/1")
    code, checks = examined()
    assert (code, checks["counter"]["found"].split(";")[0]) == (0, "bound/1")


def test_damage_at_the_end_of_the_log_is_told_from_a_torn_tail(examined, filled):
    segment = filled / "log" / "00000001.jsonl"
    whole = segment.read_bytes()
    with segment.open("ab") as file:
        file.write(b'{"seq":5,"id":"half')
    code, checks = examined()
    assert (code, checks["log"]["status"]) == (0, "warn")
    assert "19 bytes behind its last line" in checks["log"]["found"]
    segment.write_bytes(whole)
    with memplane.open(filled) as plane:
        for number in range(3):
            plane.record(f"note {number}")
    segment.write_bytes(segment.read_bytes().replace(b"note 0", b"note 9"))
    code, checks = examined()
    assert (code, checks["log"]["status"], checks["log"]["remedy"]) == (
        3, "fail", "`memplane verify`",
    )  # fmt: skip


def test_a_segment_whose_sync_failed_is_named(examined, filled):
    (filled / "log" / "00000001.broken").write_text("{}")
    assert "a sync failed once: 00000001.broken" in examined()[1]["log"]["found"]


def test_projections_say_how_far_behind_they_are_and_which_are_no_good(
    examined, filled, run, tmp_path
):
    run("rebuild", "--home", filled)
    run("record", "one more", "--home", filled)
    kept = examined()[1]["projections"]
    assert (kept["status"], "the oldest 1 events behind" in kept["found"]) == ("ok", True)
    (filled / "projections" / "hotset.json").write_bytes(b"junk")
    (filled / "projections" / "cache.sqlite").write_bytes(b"junk")
    kept = examined()[1]["projections"]
    assert kept["status"] == "warn"
    assert kept["found"].endswith("not of this log: hotset.json, cache.sqlite")
    assert kept["remedy"].startswith("`memplane rebuild`")
    shutil.rmtree(filled / "projections")
    assert examined()[1]["projections"]["status"] == "ok"


def test_what_was_begun_and_never_finished_is_listed_and_so_is_the_quarantine(examined, filled):
    (filled / "log" / "quarantine").mkdir(mode=0o700)
    (filled / "log" / "quarantine" / "x").write_bytes(b"123")
    assert "3 bytes in 1 files" in examined()[1]["leftovers"]["found"]
    (filled / "projections" / "hotset.json.tmp").write_bytes(b"")
    found = examined()[1]["leftovers"]
    assert (found["status"], found["found"]) == (
        "warn", "begun and never finished: projections/hotset.json.tmp",
    )  # fmt: skip


def test_what_a_dead_export_or_restore_left_is_listed(examined, filled):
    (filled / "backup.jsonl.12345.new").write_bytes(b"half of the plane")
    found = examined()[1]["leftovers"]
    assert "backup.jsonl.12345.new" in found["found"]
    (filled / "backup.jsonl.12345.new").unlink()
    (filled / "bodies" / "restoring" / "log").mkdir(parents=True, mode=0o700)
    found = examined()[1]["leftovers"]
    assert (found["status"], found["found"]) == (
        "warn", "begun and never finished: bodies/restoring",
    )  # fmt: skip


def test_a_purge_that_was_interrupted_is_told_with_the_command_that_finishes_it(
    examined, filled, run
):
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    note = {"pid": done.pid, "events": [], "lines": {}, "files": [], "holes": []}
    (filled / "log" / ".purging").write_text(json.dumps(note))
    code, checks = examined()
    assert (code, checks["log"]["status"]) == (0, "warn")
    assert "a purge was interrupted" in checks["log"]["found"]
    assert checks["log"]["remedy"].startswith("`memplane repair` ")
    assert run("repair", "--home", filled).code == 0
    assert examined()[1]["log"]["status"] == "ok"


def test_projections_of_a_longer_log_are_told(examined, filled, run):
    run("rebuild", "--home", filled)
    segment = filled / "log" / "00000001.jsonl"
    segment.write_bytes(b"".join(segment.read_bytes().splitlines(keepends=True)[:-1]))
    kept = examined()[1]["projections"]
    assert kept["status"] == "warn"
    assert kept["found"].endswith("knows of seq 4, and the log ends with seq 3")
    assert "`memplane verify`" in kept["remedy"]


def test_a_clock_behind_the_log_is_a_warning(examined, filled):
    with memplane.open(filled, clock=lambda: "2999-01-01T00:00:00.000000Z") as plane:
        plane.record("from the future")
    code, checks = examined()
    assert (code, checks["clock"]["status"]) == (0, "warn")
    assert "is before the last event, 2999-01-01" in checks["clock"]["found"]


def test_a_plane_in_a_work_tree_must_be_kept_out_of_git(examined, filled):
    work = filled.parent
    (work / ".git").mkdir()
    assert examined()[1]["git-ignore"]["status"] == "ok"
    (filled / ".gitignore").unlink()
    found = examined()[1]["git-ignore"]
    assert (found["status"], str(filled / ".gitignore") in found["remedy"]) == ("warn", True)
    (work / ".gitignore").write_text(f"/{filled.name}/\n")
    assert examined()[1]["git-ignore"]["status"] == "ok"


def test_git_that_is_not_there_is_a_warning(examined, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    code, checks = examined()
    assert (code, checks["git"]["status"]) == (0, "warn")


def test_the_faults_of_hooks_are_counted_and_the_last_is_shown(examined, filled):
    assert "hooks" not in examined()[1]
    log = filled / "hooks.log"
    log.write_bytes(b"2026-01-05T12:00:00Z 41 stdin: expected a JSON object \xff\n")
    code, checks = examined()
    assert (code, checks["hooks"]["status"]) == (0, "warn")
    assert checks["hooks"]["found"].startswith("1 fault: 2026-01-05T12:00:00Z 41 stdin: expected")
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    log.write_bytes(log.read_bytes() + f"2026-01-06T12:00:00Z 42 no {token}\n".encode())
    found = examined()[1]["hooks"]
    assert found["found"].startswith("2 faults, the last: 2026-01-06T12:00:00Z 42 no ")
    assert token not in found["found"]
    assert str(log) in found["remedy"]
    log.unlink()
    log.mkdir()
    assert "cannot be read" in examined()[1]["hooks"]["found"]
