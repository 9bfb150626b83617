"""Bad input and broken planes: a clear message, the right exit code, and nothing stored changes."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import memplane
from memplane.cli import exits
from memplane.errors import (
    BudgetError,
    ConflictError,
    CorruptError,
    FormatError,
    HomeError,
    InputError,
    LockError,
    MissingExtraError,
    NotFoundError,
    PolicyError,
    ScopeError,
    WriteError,
)

NOBODY = 65534
MIB = 1024 * 1024
TIME = "2026-01-01T00:00:00Z"


def refused(done, code, said):
    """Whether a command failed as it should: no data, one kind of words, no traceback."""
    out, err = (done.out, done.err) if hasattr(done, "out") else (done.stdout, done.stderr)
    assert (done.code if hasattr(done, "code") else done.returncode) == code, err
    assert not out
    err = err if isinstance(err, str) else err.decode()
    assert err.startswith("memplane: ")
    assert "Traceback" not in err
    assert said in err


def test_each_error_has_one_code_and_the_table_says_which():
    codes = {
        1: [NotFoundError("x"), ScopeError("x"), ConflictError("x", id="i", seq=1)],
        2: [InputError("x"), BudgetError("x")],
        3: [HomeError("x"), FormatError("x"), LockError("x", holder=None), WriteError("x"),
            CorruptError("x", segment="s", offset=0, seq=0), PolicyError(()),
            MissingExtraError("x", "tokens"), OSError("x")],
    }  # fmt: skip
    for code, errors in codes.items():
        for error in errors:
            assert exits.exit_of(error) == code
            assert type(error).__name__ in exits.__doc__ or isinstance(error, memplane.PlaneError)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["record", "x", "--kind", "decisoin"], "did you mean `decision`?"),
        (["record", "x", "--key", "k" * 10_000], "key: found 10000 characters"),
        (["record", "x", "--ts", "2026-01-05T12:00:00"], "ts: found no zone"),
        (["record", "x", "--importance", "much"], "--importance: expected 0 to 1000"),
        (["record", "x", "--data", "{"], "--data: expected a JSON object"),
        (["record", "x", "--data", "[]"], "--data: expected a JSON object"),
        (["record", "x", "--ref", "99"], "no event with seq 99"),
        (["record", "x", "--role", "boss"], "role: found 'boss'"),
        (["record", "x", "--kind", "purge"], "written by memplane alone"),
        (["record", "x", "--kind", "repair"], "memplane alone (`memplane repair`)"),
        (["record", ""], "text: a message without text and data says nothing"),
        (["record", "x", "--kind", "pin"], "`memplane pin` or `unpin` writes one"),
        (["record", "x", "--kind", "forget"], "`memplane forget` or `unforget` writes one"),
        (["record", "x", "--kind", "touch"], "`memplane touch` writes one"),
        (
            ["record", "x", "--valid-from", "2999-01-01T00:00:00Z", "--valid-until", TIME],
            "valid_from: lies after valid_until",
        ),
        (["get", "db.engine", "--ns", "/globl"], "ns: found '/globl'; expected /global"),
        (["keys", "--ns", "global"], "ns: found 'global'; expected /global"),
        (["history", "db.engine", "--ns", "/task/"], "ns: found 0 characters"),
        (["log", "--ns", "/tsk/a"], "ns: found '/tsk/a'; expected /global"),
        (["decisions", "--ns", "/tsk/a"], "ns: found '/tsk/a'; expected /global"),
        (["pack", "--ns", "/tsk/a"], "ns: found '/tsk/a'; expected /global"),
        (["forget", "db.engine", "--ns", "/tsk/a"], "ns: found '/tsk/a'; expected /global"),
        (["pin"], "expected exactly one of ID|SEQ and --key, found none"),
        (["unpin", "2", "--key", "db.engine"], "ID|SEQ and --key, found both"),
        (["record", "--jsonl", "/nowhere"], "/nowhere: cannot be read"),
        (["record", "--jsonl", "/"], "cannot be read"),
        (["pack", "--budget", "0"], "budget"),
        (["pack", "--budget", "-5"], "budget"),
        (["pack", "--budget", "many"], "--budget"),
        (["pack", "--channel", "nonsense"], "unknown channel 'nonsense'"),
        (["pack", "--intent", "wild"], "intent: expected one of"),
        (["pack", "--section", "nope"], "unknown section"),
        (["pack", "--now", "yesterday"], "found no time that can be read"),
        (["pack", "--as-of", "99"], "as_of: expected a seq from 0"),
        (["expand", "nonsense"], "handle: expected expand://event/<seq>"),
        (["expand", "expand://event/2", "--budget", "0"], "budget: expected 1 token or more"),
        (["get"], "Missing argument"),
        (["get", "a", "b"], "extra argument"),
        (["log", "--limit", "-1"], "--limit"),
        (["bogus"], "No such command"),
        (["recrod", "x"], "Did you mean 'record'?"),
        (["policy"], "Missing command"),
    ],
)
def test_wrong_use_is_refused_in_words_and_stores_nothing(run, filled, stored, argv, said):
    before = stored(filled)
    home = [] if argv[0] in ("bogus", "recrod", "policy") else ["--home", filled]
    refused(run(*argv, *home), 2, said)
    done = run(*argv, *home, "--json")
    error = json.loads(done.out)["error"]
    assert (done.code, error["exit"]) == (2, 2)
    assert done.err == f"memplane: {error['message']}\n"
    assert stored(filled) == before


def test_a_key_of_ten_thousand_characters_is_no_key(run, filled):
    long = "k" * 10_000
    for argv in (
        ["get", long], ["history", long], ["forget", long], ["pin", "--key", long], ["show", long],
        ["forget", "--session", long], ["forget", "--id", long],
    ):  # fmt: skip
        done = run(*argv, "--home", filled)
        refused(done, 1, "no ")
        assert len(done.err) < 200
    assert run("keys", "k" * 10_000, "--home", filled) == (0, "", "")


def test_bytes_that_are_no_text_are_replaced_one_by_one_and_counted(shell, home):
    done = shell("record", "--stdin", "--home", home, stdin=b"caf\xe9 \x00 \xff\xfe ok")
    assert done.returncode == 0
    assert done.stderr.startswith(b"memplane: 4 bytes or characters")
    event = json.loads(shell("show", "2", "--home", home, "--json").stdout)
    assert (event["text"], event["data"]) == ("caf� � �� ok", {"replaced": 4})


def test_fifty_megabytes_of_text_are_stored_whole(shell, home):
    text = b"All work and no play.\n" * (50 * MIB // 22)
    done = shell("record", "--stdin", "--home", home, stdin=text)
    assert (done.returncode, done.stderr) == (0, b"")
    with memplane.open(home) as plane:
        assert plane.text(plane.event(2)).encode() == text


def test_fifty_megabytes_that_are_no_text_are_refused(shell, home, stored):
    before = stored(home)
    done = shell("record", "--stdin", "--home", home, stdin=b"\xff\x80\x00\xfe" * (50 * MIB // 4))
    refused(done, 2, "is no text")
    assert stored(home) == before


def test_more_than_the_largest_text_is_refused_without_reading_on(shell, home, stored):
    before = stored(home)
    for option in (["--stdin"], ["--jsonl", "-"]):
        done = shell("record", *option, "--home", home, stdin=b"x" * (65 * MIB))
        refused(done, 2, "stdin: more than 64 MiB; nothing was stored")
    assert stored(home) == before


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


def test_a_damaged_plane_file_is_named(run, filled):
    (filled / "plane.json").write_text("{")
    refused(run("log", "--home", filled), 3, "plane.json: expected a JSON object")


@pytest.fixture
def mistaken(filled):
    """A plane whose budgets have two mistakes."""
    file = filled / "policies" / "budgets.yaml"
    file.write_text("version: 1\nreserve_tokens: lots\ncuonter: len4\n")
    return filled


def test_every_mistake_in_the_policies_is_listed_with_its_line(run, mistaken):
    done = run("policy", "check", "--home", mistaken)
    assert (done.code, done.err) == (1, "")
    lines = done.out.splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        "policies/budgets.yaml:2", "policies/budgets.yaml:3",
    ]  # fmt: skip
    found = json.loads(run("policy", "check", "--home", mistaken, "--json").out)
    assert (found["ok"], [p["line"] for p in found["problems"]]) == (False, [2, 3])


def test_a_broken_policy_stops_packs_and_not_records(run, mistaken):
    refused(run("pack", "x", "--home", mistaken), 3, "reserve_tokens")
    error = json.loads(run("pack", "x", "--home", mistaken, "--json").out)["error"]
    assert (error["type"], len(error["problems"])) == ("PolicyError", 2)
    assert run("record", "still", "--home", mistaken).code == 0
    alone = run("--home", mistaken)
    assert alone.code == 3
    assert "refused: 2 mistakes" in alone.out
    assert "memplane policy check" in alone.out
    checked = run("verify", "--home", mistaken)
    assert checked.code == 0
    assert "were not compared" in checked.err
    assert "2 mistakes in the policies, the first: policies/budgets.yaml:2" in checked.err
    listed = json.loads(run("verify", "--home", mistaken, "--json").out)
    assert (listed["ok"], len(listed["policy_mistakes"])) == (True, 2)


def test_every_command_names_a_policy_file_by_its_path_in_the_home(run, mistaken):
    place = "policies/budgets.yaml:2: reserve_tokens: "
    for argv in (["pack", "x"], ["policy", "check"], ["policy", "show"], ["audit"], ["doctor"]):
        done = run(*argv, "--home", mistaken)
        assert place in done.out + done.err, argv
        assert "policies/policies" not in done.out + done.err
    error = json.loads(run("pack", "x", "--home", mistaken, "--json").out)["error"]
    assert {problem["file"] for problem in error["problems"]} == {"policies/budgets.yaml"}
    listed = json.loads(run("verify", "--home", mistaken, "--json").out)["policy_mistakes"]
    assert [one.startswith("policies/budgets.yaml:") for one in listed] == [True, True]


def test_an_unknown_counter_is_a_mistake_that_stops_packs_and_no_record(run, filled):
    budgets = filled / "policies" / "budgets.yaml"
    budgets.write_text("version: 1\ncounter: o100k\n")
    said = (
        "policies/budgets.yaml:2: counter: expected one of `bound/1`, `o200k`, `cl100k`, `len4`, "
        "found `o100k`; did you mean `o200k`?"
    )
    assert run("policy", "check", "--home", filled) == (1, f"{said}\n", "")
    refused(run("pack", "x", "--home", filled), 3, said)
    done = run("doctor", "--home", filled)
    assert done.code == 1
    assert said in done.out
    for argv in (
        ["record", "goes on"], ["task", "open", "Sort the tasks"], ["session", "start", "s9"],
        ["session", "end", "s9"],
    ):  # fmt: skip
        assert run(*argv, "--home", filled).code == 0, argv
    budgets.unlink()
    assert "goes on" in run("log", "--limit", "9", "--home", filled).out


def test_a_counter_whose_extra_is_missing_stops_packs_and_no_record(run, filled, monkeypatch):
    monkeypatch.setitem(sys.modules, "rs_bpe", None)  # as Python marks what is not there
    budgets = filled / "policies" / "budgets.yaml"
    budgets.write_text("version: 1\ncounter: o200k\nscale: 1.37\n")  # made nowhere else
    assert run("policy", "check", "--home", filled).code == 0
    refused(run("pack", "x", "--home", filled), 3, "pip install 'memplane[tokens]'")
    done = run("doctor", "--home", filled)
    assert (done.code, "memplane[tokens]" in done.out) == (1, True)
    for argv in (["record", "goes on"], ["task", "open", "Sort"], ["session", "start", "s9"]):
        assert run(*argv, "--home", filled).code == 0, argv
    with memplane.open(filled) as plane:
        for number in range(40):  # those that fold as they go
            plane.record(f"note {number}")
        with pytest.raises(MissingExtraError):
            plane.pack("note")
        assert plane.record("one more").event.tokens
    budgets.unlink()
    assert "note 39" in run("pack", "note 39", "--home", filled).out


def test_policies_without_mistakes_are_fine(run, filled):
    done = run("policy", "check", "--home", filled)
    assert (done.code, done.out.startswith("5 policies, no mistakes")) == (0, True)


def test_verify_names_what_is_damaged_and_the_command_that_helps(run, filled):
    with memplane.open(filled) as plane:  # one writer, whose later lines say what it had synced
        for number in range(3):
            plane.record(f"note {number}")
    assert run("verify", "--home", filled).code == 0
    segment = filled / "log" / "00000001.jsonl"
    data = segment.read_bytes()
    segment.write_bytes(data.replace(b"note 0", b"note 9"))
    done = run("verify", "--home", filled)
    assert done.code == 1
    assert done.out.startswith("log/00000001.jsonl: byte ")
    assert "`memplane repair --salvage`" in done.out
    found = json.loads(run("verify", "--home", filled, "--json").out)
    assert (found["ok"], len(found["problems"])) == (False, 1)
    refused(run("record", "x", "--home", filled), 3, "`memplane repair --salvage`")
    refused(run("repair", "--home", filled), 3, "`memplane repair --salvage`")
    alone = run("--home", filled)
    assert (alone.code, "memplane verify" in alone.out) == (3, True)
    packed = run("pack", "x", "--home", filled)
    assert (packed.code, "do not verify" in packed.err) == (0, True)
    saved = run("repair", "--salvage", "--home", filled)
    assert (saved.code, saved.out.startswith("salvaged: segment 1")) == (0, True)
    assert run("verify", "--home", filled).code == 0
    assert run("record", "x", "--home", filled).code == 0
    assert run("repair", "--home", filled) == (0, "nothing to repair\n", "")


def test_a_torn_end_is_set_aside_by_repair(run, filled):
    with (filled / "log" / "00000001.jsonl").open("ab") as file:
        file.write(b'{"seq":5,"id":"half')
    assert run("verify", "--home", filled).code == 1
    done = run("repair", "--home", filled)
    assert (done.code, "19 bytes set aside" in done.out) == (0, True)
    assert run("verify", "--home", filled).code == 0


def test_verify_finds_a_projection_that_the_log_does_not_fold_to(run, filled):
    run("rebuild", "--home", filled)
    assert run("verify", "--home", filled).code == 0
    import sqlite3

    with sqlite3.connect(filled / "projections" / "cache.sqlite") as cache:
        cache.execute("UPDATE memories SET key='db.motor' WHERE seq=4")
    cache.close()
    done = run("verify", "--home", filled)
    assert (done.code, "cache.sqlite" in done.out) == (1, True)
    assert "`memplane rebuild`" in done.out
    assert run("rebuild", "--home", filled).out == "4 lines of the log folded\n"
    assert run("verify", "--home", filled).code == 0


def test_the_repair_of_an_empty_plane_leaves_it_empty(run, home, stored):
    assert run("repair", "--home", home) == (0, "nothing to repair\n", "")
    assert stored(home) == {}


def test_a_budget_above_the_policy_is_capped_and_that_is_said(run, filled):
    done = run("pack", "x", "--budget", "9999999", "--home", filled)
    assert done.code == 0
    assert "--budget 9999999 is more than budgets.yaml allows: " in done.err
    assert "allows" not in run("pack", "x", "--budget", "500", "--home", filled).err


def test_the_log_shows_what_a_forget_and_a_pin_are_about(run, filled):
    event = json.loads(run("show", "4", "--home", filled, "--json").out)["id"]
    run("forget", "db.engine", "--reason", "outdated", "--home", filled)
    run("unforget", "db.engine", "--home", filled)
    run("pin", "--key", "db.engine", "--home", filled)
    run("unpin", event, "--home", filled)
    run("forget", "--session", "s1", "--home", filled)
    lines = run("log", "--limit", "5", "--home", filled).out.splitlines()
    assert [line.split("Z  ")[1].split(maxsplit=1)[1] for line in lines] == [
        "forget key db.engine in /global: outdated", "unforget key db.engine in /global:",
        f"pin id {event}:", f"unpin id {event}:", "forget session s1:",
    ]  # fmt: skip


def test_deleted_and_damaged_caches_change_no_answer(run, filled):
    run("rebuild", "--home", filled)
    before = run("get", "db.engine", "--home", filled), run("decisions", "--home", filled)
    for file in (filled / "projections").iterdir():
        file.write_bytes(b"junk")
    assert (run("get", "db.engine", "--home", filled), run("decisions", "--home", filled)) == before
    shutil.rmtree(filled / "projections")
    assert (run("get", "db.engine", "--home", filled), run("decisions", "--home", filled)) == before


AS_NOBODY = """
import os, sys
from memplane.__main__ import main
home, *argv = sys.argv[1:]
for warm in (["pack", "warm"], ["policy", "check"]):  # the modules lie where nobody may read
    main([*warm, "--home", home])
os.setgroups([]); os.setgid(65534); os.setuid(65534)
sys.stdout.flush(); os.ftruncate(1, 0); os.lseek(1, 0, 0)
os.ftruncate(2, 0); os.lseek(2, 0, 0)
sys.exit(main(argv))
"""


@pytest.fixture
def sealed(filled):
    """The plane where its owner may read and not write, and commands run as that owner."""
    if os.geteuid() != 0:
        folder, owner = filled.parent, os.geteuid()
    else:
        folder, owner = Path(tempfile.mkdtemp()), NOBODY
        folder.chmod(0o755)
    place = folder / "sealed"
    shutil.copytree(filled, place)
    paths = [place, *place.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
        if owner == NOBODY:
            os.chown(path, owner, owner)

    def run(*argv):
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            code = subprocess.run(
                [sys.executable, "-c", AS_NOBODY, str(filled), *argv, "--home", str(place)]
                if owner == NOBODY
                else [sys.executable, "-m", "memplane", *argv, "--home", str(place)],
                stdout=out, stderr=err, check=False,
            ).returncode  # fmt: skip
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(argv, code, out.read(), err.read())

    yield place, run
    for path in [p for p in paths if p.is_dir()]:
        path.chmod(0o755)
    if owner == NOBODY:
        shutil.rmtree(folder)


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


@pytest.mark.parametrize("words", ["log", "record herons", "export -", "status --help"])
def test_a_closed_stdout_is_no_traceback(tmp_path, words):
    home = tmp_path / "plane"
    memplane.init(home).close()
    shell = f'"{sys.executable}" -m memplane --home "{home}" {words} >&-'
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
