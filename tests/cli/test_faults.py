"""Bad input: a clear message, the right exit code, and nothing stored changes."""

import io
import json
import subprocess
import sys

import pytest
from checks_refusals import refused

import memplane
from memplane.cli import commands, record
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

MIB = 1024 * 1024
TIME = "2026-01-01T00:00:00Z"


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
            assert commands.exit_of(error) == code
            assert type(error).__name__ in commands.__doc__ or isinstance(
                error, memplane.PlaneError
            )


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
        (["record", " \n"], "text: a message without text and data says nothing"),
        (["record", "x", "--importance", "2.0"], "importance: found 2.0; expected an integer from"),
        (["record", "x", "--importance", "nan"], "--importance: expected 0 to 1000, or 0.0 to 1.0"),
        (["evict", "--below", "2.0"], "below: found 2.0; expected an integer from 0 to 1000"),
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


@pytest.mark.parametrize("size", [8 * MIB, pytest.param(50 * MIB, marks=pytest.mark.long)])
def test_megabytes_of_text_are_stored_whole(shell, home, size):
    text = b"All work and no play.\n" * (size // 22)
    done = shell("record", "--stdin", "--home", home, stdin=text)
    assert (done.returncode, done.stderr) == (0, b"")
    with memplane.open(home) as plane:
        assert plane.text(plane.event(2)).encode() == text


def test_what_would_be_too_large_as_a_text_is_refused(run, home, stored, monkeypatch):
    monkeypatch.setattr(record, "BYTES_MAX", MIB)
    stdin = io.TextIOWrapper(io.BytesIO(b"\xff\x80\x00\xfe" * (MIB // 8)))
    monkeypatch.setattr(sys, "stdin", stdin)
    before = stored(home)
    refused(run("record", "--stdin", "--home", home), 2, "is no text")
    assert stored(home) == before


@pytest.mark.long
def test_megabytes_that_are_no_text_are_refused(shell, home, stored):
    before = stored(home)
    done = shell("record", "--stdin", "--home", home, stdin=b"\xff\x80\x00\xfe" * (26 * MIB // 4))
    refused(done, 2, "is no text")
    assert stored(home) == before


def test_more_than_the_largest_text_is_refused_without_reading_on(shell, home, stored):
    before = stored(home)
    for option in (["--stdin"], ["--jsonl", "-"]):
        done = shell("record", *option, "--home", home, stdin=b"x" * (65 * MIB))
        refused(done, 2, "stdin: more than 64 MiB; nothing was stored")
    assert stored(home) == before


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


@pytest.mark.parametrize("words", ["log", "record herons", "export -", "status --help"])
def test_a_closed_stdout_is_no_traceback(tmp_path, words):
    home = tmp_path / "plane"
    memplane.init(home).close()
    shell = f'"{sys.executable}" -m memplane --home "{home}" {words} >&-'
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
