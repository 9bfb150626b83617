"""`verify` and `repair` on the command line, and what other commands say of a damaged log."""

import json
import shutil
import subprocess

import pytest

import memplane

TEXTS = [f"turn number {n} about heron{n}" for n in range(20)]


@pytest.fixture(scope="module")
def told_of_herons(new):
    """A plane whose log is durable but for its last line, without caches."""
    home = shutil.copytree(new, new.with_name("herons"))
    with memplane.open(home) as plane:
        for text in TEXTS:
            plane.record(text, role="user", session="s")
    for name in ("projections", "index"):
        shutil.rmtree(home / name, ignore_errors=True)
    return home


@pytest.fixture
def herons(told_of_herons, tmp_path):
    return shutil.copytree(told_of_herons, tmp_path / "plane")


def log_file(home):
    return home / "log" / "00000001.jsonl"


def flipped(home, needle=b"heron7"):
    data = bytearray(log_file(home).read_bytes())
    data[data.index(needle)] ^= 1
    log_file(home).write_bytes(data)
    return bytes(data)


def test_of_a_whole_plane_verify_finds_nothing(run, herons):
    done = run("verify", "--home", herons)
    assert (done.code, done.err) == (0, "")
    assert done.out == "1 segment, 21 lines, 0 bodies: nothing is wrong\n"
    found = json.loads(run("verify", "--home", herons, "--json").out)
    assert (found["ok"], found["problems"], found["notes"]) == (True, [], [])
    assert found["head"]["seq"] == found["events"] == 21


def test_a_finding_has_file_offset_found_expected_and_command_and_exits_1(run, herons):
    data = flipped(herons)
    done = run("verify", "--home", herons, "--json")
    (finding,) = json.loads(done.out)["problems"]
    assert done.code == 1
    assert set(finding) == {"file", "offset", "found", "expected", "command"}
    assert finding["file"] == "log/00000001.jsonl"
    assert data[finding["offset"] :].startswith(b'{"seq":9,')
    assert finding["command"].startswith("`memplane repair --salvage`")
    plain = run("verify", "--home", herons)
    assert plain.code == 1
    assert plain.out.splitlines()[0].startswith(f"log/00000001.jsonl: byte {finding['offset']}: ")


def test_what_is_torn_is_cut_by_repair_into_quarantine_and_said(run, herons):
    whole = log_file(herons).read_bytes()
    log_file(herons).write_bytes(whole + b'{"seq":22,"id"')
    assert run("verify", "--home", herons).code == 1
    dry = run("repair", "--dry-run", "--home", herons)
    assert (dry.code, dry.err) == (0, "")
    assert f"byte {len(whole)}: 14 bytes: " in dry.out
    assert not (herons / "log" / "quarantine").exists()
    done = run("repair", "--home", herons)
    assert (done.code, done.err) == (0, "")
    (kept,) = (herons / "log" / "quarantine").iterdir()
    assert done.out == (
        f"torn: segment 1, byte {len(whole)}: 14 bytes set aside in log/quarantine/{kept.name} "
        "(event 23)\n"
    )
    assert kept.read_bytes() == b'{"seq":22,"id"'
    assert run("verify", "--home", herons).code == 0
    assert run("repair", "--home", herons).out == "nothing to repair\n"
    again = json.loads(run("repair", "--home", herons, "--json").out)
    assert again == {"repairs": []}


def test_below_the_watermark_writers_refuse_readers_go_on_and_salvage_makes_it_good(run, herons):
    before = flipped(herons)
    packed = run("pack", "turn", "--session", "s", "--home", herons, "--no-report", "--json")
    report = json.loads(packed.out)["report"]
    assert report["gaps"] == [{"first": 9, "last": 9, "missing": 1}]
    assert report["omissions"]["counts"]["gap"] == 1
    for argv in (["pack", "turn", "--session", "s", "--no-report"], ["search", "heron6"]):
        done = run(*argv, "--home", herons)
        assert done.code == 0
        assert "heron6" in done.out
        assert "parts of the log do not verify and were left out; run `memplane verify`" in done.err
    refused = run("record", "one more", "--home", herons)
    assert refused.code == 3
    assert "`memplane repair --salvage`" in refused.err
    assert log_file(herons).read_bytes() == before
    assert "--salvage" in run("repair", "--home", herons).err
    assert "only with --salvage" in run("repair", "--dry-run", "--home", herons).out
    done = run("repair", "--salvage", "--home", herons, "--json")
    (one,) = json.loads(done.out)["repairs"]
    assert (one["case"], one["segment"]) == ("salvaged", 1)
    assert run("record", "one more", "--home", herons).code == 0
    verified = run("verify", "--home", herons)
    assert verified.code == 0
    assert "seq 9 to 9 were lost; a repair recorded that" in verified.out


def test_of_caches_repair_says_that_rebuild_makes_them_again(run, herons):
    assert run("rebuild", "--home", herons).code == 0
    (herons / "projections" / "hotset.json").write_bytes(b"torn")
    done = run("repair", "--home", herons)
    assert (done.code, done.out) == (0, "nothing to repair\n")
    assert "hotset.json" in done.err
    assert "`memplane rebuild`" in done.err
    assert run("rebuild", "--home", herons).code == 0
    assert run("repair", "--home", herons).err == ""


def test_a_file_that_is_no_segment_is_moved_to_quarantine_by_salvage_and_named(run, herons):
    (herons / "log" / "00000002.jsonl").mkdir()
    assert run("search", "heron6", "--home", herons).code == 0
    refused = run("record", "one more", "--home", herons)
    assert refused.code == 3
    assert "is a directory, expected a file" in refused.err
    done = run("repair", "--salvage", "--home", herons)
    assert done.code == 0
    assert done.out.startswith("stray: 00000002.jsonl is a directory, expected a file: ")
    assert "log/quarantine/00000002.jsonl.0" in done.out
    assert (herons / "log" / "quarantine" / "00000002.jsonl.0").is_dir()
    assert run("record", "one more", "--home", herons).code == 0
    assert run("verify", "--home", herons).code == 0


def test_no_command_hangs_on_a_pipe_among_the_segments(shell, herons):
    subprocess.run(["mkfifo", herons / "log" / "00000002.jsonl"], check=True)
    for argv, code in ((["verify"], 1), (["search", "heron6"], 0), (["record", "x"], 3)):
        done = shell(*argv, "--home", herons)
        assert done.returncode == code
        assert b"Traceback" not in done.stderr


def test_a_log_that_lost_its_end_is_told_by_what_knew_of_it_and_repair_records_that(run, herons):
    assert run("rebuild", "--home", herons).code == 0
    lines = log_file(herons).read_bytes().splitlines(keepends=True)
    log_file(herons).write_bytes(b"".join(lines[:-3]))
    done = run("verify", "--home", herons)
    assert done.code == 1
    assert "knows of seq 21, and the log ends with seq 18" in done.out
    dry = run("repair", "--dry-run", "--home", herons)
    assert "ends with seq 18: recorded as lost" in dry.out
    done = run("repair", "--home", herons)
    assert done.out.startswith("ended: the log ended with seq 18, and projections/")
    assert done.out.endswith("knew of seq 21: recorded as lost (event 19)\n")
    assert run("verify", "--home", herons).code == 0


def test_a_changed_cache_is_found_and_rebuild_is_named_and_helps(run, herons):
    from memplane.projections import projector

    with memplane.open(herons) as plane, plane.context.lock:
        plane.context.caught_up().save()
    path = herons / "projections" / "plane_map.json"
    there = projector.read_checkpoint(path)
    path.write_bytes(
        projector.encode_checkpoint(there._replace(state=there.state.replace(b"21", b"22")))
    )
    done = run("verify", "--home", herons)
    if done.code == 0:
        pytest.skip("the state has no such number")
    assert done.out.startswith("projections/plane_map.json: byte 0: is not what the log gives")
    assert "`memplane rebuild`" in done.out
    assert run("rebuild", "--home", herons).code == 0
    assert run("verify", "--home", herons).code == 0


def test_a_log_whose_only_segment_is_emptied_is_not_started_again_without_a_repair(run, herons):
    log_file(herons).write_bytes(b"")
    refused = run("record", "x", "--home", herons)
    assert refused.code == 3
    assert "`memplane repair`" in refused.err
    assert log_file(herons).read_bytes() == b""
    for command in (("pack", "heron"), ("search", "heron"), ("log",), ()):
        said = run(*command, "--home", herons)
        assert "expected the segment's header in its first line" in said.err
    status = run("--home", herons, "--json")
    found = json.loads(status.out)
    assert (status.code, found["next"], found["restarts"]) == (3, "memplane repair", [])
    assert "`memplane repair`" in found["damage"]
    assert "`memplane repair`" in run("doctor", "--home", herons).out
    assert run("verify", "--home", herons).code == 1

    assert "what it held is lost" in run("repair", "--home", herons).out
    assert run("record", "x", "--home", herons).code == 0
    status = run("--home", herons, "--json")
    (restart,) = json.loads(status.out)["restarts"]
    assert (status.code, restart["behind"], restart["seq"]) == (0, 0, 2)
    assert "started again on" in run("--home", herons).out
    assert "started again on" in run("doctor", "--home", herons).out
    assert run("verify", "--home", herons).code == 0


def test_what_hooks_record_beside_a_lost_log_waits_for_the_repair(shell, herons):
    log_file(herons).write_bytes(b"\0" * 100)
    said = {"hook_event_name": "UserPromptSubmit", "session_id": "s2", "prompt": "heron number 99"}
    shell("hook", "claude-code", stdin=json.dumps(said).encode(), MEMPLANE_HOME=str(herons))
    assert log_file(herons).read_bytes() == b"\0" * 100
    shell("repair", "--home", herons)
    assert b"heron number 99" in shell("log", "--home", herons).stdout
