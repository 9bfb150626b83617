"""`memplane record --no-wait`, and what status and doctor say of what waits."""

import json

import pytest

import memplane
from memplane.clock import clock
from memplane.log import FileLog


@pytest.fixture
def held(home):
    """The log's lock, held by somebody else while the block runs."""
    with memplane.open(home) as plane:
        id_ = plane.id
    with FileLog(home, id_, clock=clock) as log:
        yield log.exclusive


def waiting(home):
    return [path.name for path in sorted((home / "log" / "spool").glob("*.spool"))]


def test_record_without_waiting_spools_where_the_log_is_held_and_the_next_command_takes_it_in(
    run, home, held
):
    with held():
        done = run("record", "hello", "--no-wait", "--id", "m1", "--home", home, "--json")
        assert done.code == 0
        assert json.loads(done.out) == {
            "id": "m1", "durability": "spool", "seq": None, "duplicate": False
        }  # fmt: skip
        assert "the next one that writes takes the event in" in done.err
        words = run("record", "--no-wait", "again", "--home", home).out.split()
        assert words[0] == "spooled"
        assert len(waiting(home)) == 2
        assert json.loads(run("--home", home, "--json").out)["waiting"] == 2
        assert "spool     2 events waiting" in run("--home", home).out
        checks = json.loads(run("doctor", "--home", home, "--json").out)["checks"]
        (told,) = [check for check in checks if check["name"] == "spool"]
        assert (told["status"], told["found"][:12]) == ("warn", "2 files wait")
    found = json.loads(run("log", "--home", home, "--json").out)
    assert {event.get("text") for event in found} >= {"hello", "again"}
    assert waiting(home) == []
    again = run("record", "hello", "--no-wait", "--id", "m1", "--home", home)
    assert "it was there already" in again.err


def test_record_without_waiting_records_where_nobody_holds_the_log(run, home):
    done = run("record", "hello", "--no-wait", "--home", home)
    assert (done.code, done.out.split()[0]) == (0, "2")
    assert waiting(home) == []


def test_what_is_spooled_is_redacted_before_the_first_byte_is_written(run, home, held):
    secret = "ghp_" + "a1B2" * 9
    with held():
        run("record", f"the token is {secret}", "--no-wait", "--home", home)
        (name,) = waiting(home)
        raw = (home / "log" / "spool" / name).read_bytes()
    assert secret.encode() not in raw
    assert b"[redacted:" in raw


def test_a_file_that_is_no_good_is_told_of_by_whoever_finds_it(run, home):
    folder = home / "log" / "spool"
    folder.mkdir(mode=0o700)
    (folder / "notes").write_text("things to do")
    done = run("record", "hello", "--home", home)
    assert done.code == 0
    assert "log/spool: notes is torn, or no spool file" in done.err
    assert "log/quarantine/spool-" in done.err
    assert run("verify", "--home", home).code == 0


def test_lines_are_not_spooled(run, home):
    done = run("record", "--jsonl", "-", "--no-wait", "--home", home)
    assert (done.code, "--no-wait" in done.err) == (2, True)
