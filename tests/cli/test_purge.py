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
        (("--archived", "old"), 2, "expected some of forgotten, superseded, evicted, forgotten:TEXT; found 'old'"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_and_changes_nothing(run, filled, given, code, words):
    before = kept(filled)
    found, _, err = run("purge", *given, "--home", filled)
    assert found == code
    assert words in err
    assert kept(filled) == before


def test_a_second_purge_says_when_the_first_was_and_answers_as_one_that_is_done(run, filled):
    run("purge", "it", "--home", filled)
    before = kept(filled)
    code, out, _ = run("purge", "it", "--home", filled)
    assert code == 0
    assert out.startswith("already purged: 2 it by event 6 at 2")
    assert len(out.splitlines()) == 1
    said = json.loads(run("purge", "2", "--json", "--home", filled)[1])
    assert said["events"] == []
    assert [(one["seq"], one["id"], one["by"]) for one in said["already_purged"]] == [(2, "it", 6)]
    assert kept(filled) == before


def test_what_comes_back_is_said_before_and_behind_a_purge(run, filled, tmp_path):
    (tmp_path / "a.md").write_text("Herons nest in trees")
    run("artifact", "add", tmp_path / "a.md", "--home", filled)
    run("artifact", "approve", "6", "--home", filled)
    run("artifact", "revoke", "6", "--home", filled)
    for option, said in ((("--dry-run",), "would be"), ((), "is")):
        code, out, _ = run("purge", "5", "8", *option, "--home", filled)
        assert code == 0
        lines = out.splitlines()
        at = lines.index(f"{said} in force again: 2 events")
        assert lines[at + 1].startswith("  4 ")
        assert lines[at + 2].startswith("  6 artifact-")
        assert lines[at + 2].endswith(": its approval holds again, prompts may show it")


def test_an_event_that_a_salvage_set_aside_is_named_with_the_place_that_it_had(run, filled):
    path = filled / "log" / "00000001.jsonl"
    path.write_bytes(path.read_bytes().replace(b"third door", b"third dxor", 1))
    assert run("repair", "--salvage", "--home", filled)[0] == 0
    code, out, _ = run("purge", "it", "--home", filled)
    assert code == 0
    assert "  it: lost before (seq 2), " in out
    assert ", 1 copy in log/quarantine/\n" in out
    assert run("verify", "--home", filled)[0] == 0
    assert out.count("quote: has its text") == 0  # one letter differs


def test_a_session_of_which_nothing_but_its_end_is_left_is_none_for_every_command(run, home):
    run("record", SECRET, "--id", "it", "--session", "s1", "--home", home)
    run("record", "herons", "--session", "s2", "--home", home)
    run("session", "end", "s1", "--home", home)
    assert json.loads(run("stats", "--json", "--home", home)[1])["sessions"] == 2
    assert run("purge", "it", "--home", home)[0] == 0
    listed = json.loads(run("session", "list", "--json", "--home", home)[1])
    assert len(listed) == 1
    assert run("session", "show", "s1", "--home", home)[0] == 1
    assert json.loads(run("stats", "--json", "--home", home)[1])["sessions"] == 1


def test_a_purge_under_a_generated_summary_is_refused_and_a_dry_run_says_so(run, home):
    for n in range(6):
        more = ("--kind", "decision", "--id", f"notes:{n}", "--home", home)
        run("record", f"{SECRET} {n}", "--session", "s1", *more)
    run("session", "end", "s1", "--home", home)
    before = kept(home)
    code, out, _ = run("purge", "--source", "notes", "--dry-run", "--home", home)
    assert code == 0
    assert "refused without --summaries or --cascade: 1 generated summary rests on it" in out
    code, _, err = run("purge", "--source", "notes", "--home", home)
    assert code == 2
    assert "generated summaries rest on what is to be purged: 8 session:summary:" in err
    assert kept(home) == before
    code, out, _ = run("purge", "--source", "notes", "--summaries", "--home", home)
    assert (code, out.splitlines()[0]) == (
        0, "erased: 7 events, 1 of them quoting what was named (event 10)"
    )  # fmt: skip
    assert SECRET.encode() not in kept(home)
