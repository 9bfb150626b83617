"""`memplane purge`: said plainly, tried before, and never by mistake."""

import json

import pytest

SECRET = "The quagga lives behind the third door"


@pytest.fixture
def filled(run, home):
    run("record", SECRET, "--id", "it", "--home", home)
    run("record", f"Noted: {SECRET}!", "--id", "quote", "--home", home)
    for value in ("PostgreSQL", "SQLite"):
        run("record", value, "--kind", "decision", "--key", "db", "--home", home)
    return home


def kept(home):
    return (home / "log" / "00000001.jsonl").read_bytes()


def test_a_dry_run_says_what_would_go_and_what_quotes_it_and_changes_nothing(run, filled):
    before = kept(filled)
    code, out, _ = run("purge", "it", "--dry-run", "--home", filled)
    assert code == 0
    assert out.splitlines() == [
        "would be erased: 1 event",
        "  2 it",
        "with 0 files of bodies/, 0 reports and 0 files of log/quarantine/",
        "1 place still quote or name it:",
        "  3 quote: has its text",
        "  --cascade takes the events among them too",
        "copies elsewhere keep it: backups, exports, clones",
    ]
    assert kept(filled) == before


def test_what_was_purged_is_gone_and_importing_it_again_is_answered_so(run, filled, tmp_path):
    code, out, _ = run(
        "purge", "2", "--cascade", "--reason", "asked to", "--json", "--home", filled
    )
    said = json.loads(out)
    assert code == 0
    assert [one["id"] for one in said["events"]] == ["it", "quote"]
    assert (said["cascaded"], said["by"], said["dry_run"]) == (1, [6], False)
    assert b"quagga" not in kept(filled)
    code, _, err = run("show", "it", "--home", filled)
    assert (code, err) == (1, "memplane: event 'it' was purged by event 6\n")
    code, _, err = run("record", SECRET, "--id", "it", "--home", filled)
    assert code == 1
    assert "is that of a purged event, seq 2" in err
    rows = [
        {"id": "it", "kind": "message", "text": SECRET},
        {"id": "new", "kind": "message", "text": "x"},
    ]
    (tmp_path / "again.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, _ = run("import", tmp_path / "again.jsonl", "--home", filled)
    assert code == 0
    assert "purged 1" in out
    assert b"quagga" not in kept(filled)
    assert run("verify", "--home", filled)[0] == 0


def test_what_is_archived_goes_at_once(run, filled):
    code, out, _ = run("purge", "--archived", "all", "--dry-run", "--json", "--home", filled)
    assert code == 0
    assert [one["seq"] for one in json.loads(out)["events"]] == [4]
    assert run("purge", "--archived", "superseded", "--home", filled)[0] == 0
    assert b"PostgreSQL" not in kept(filled)
    assert json.loads(run("get", "db", "--json", "--home", filled)[1])["text"] == "SQLite"


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ((), 2, "expected one of ID, --key, --session, --source and --archived"),
        (("it", "--key", "db"), 2, "expected one of ID, --key, --session, --source and --archived"),
        (("none",), 1, "no event 'none'"),
        (("1",), 2, "event 1 is a segment event: the log cannot be read without"),
        (("--archived", "old"), 2, "expected some of forgotten, superseded, evicted; found 'old'"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_and_changes_nothing(run, filled, given, code, words):
    before = kept(filled)
    found, _, err = run("purge", *given, "--home", filled)
    assert found == code
    assert words in err
    assert kept(filled) == before
