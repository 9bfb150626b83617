"""What each command answers, where it prints it, and its exit code."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from checks_refusals import refused

import memplane


def test_alone_it_says_what_is_there_what_a_block_costs_and_what_to_do_next(run, filled):
    done = run("--home", filled)
    assert (done.code, done.err) == (0, "")
    said = dict(line.split(maxsplit=1) for line in done.out.splitlines())
    assert said["home"] == str(filled)
    assert (said["events"], said["session"]) == ("3", "s1")
    assert " of 4000 tokens" in said["pack"]
    assert said["next"] == 'memplane pack "your question"'


def test_alone_on_an_empty_plane_the_next_step_is_to_record(run, home):
    done = run("--home", home, "--json")
    found = json.loads(done.out)
    assert (done.code, found["events"], found["session"]) == (0, 0, None)
    assert found["next"].startswith("memplane record")


def test_init_on_a_plane_leaves_it_as_it_is(run, filled, stored):
    before = stored(filled)
    done = run("init", filled, "--json")
    assert (done.code, json.loads(done.out)["made"]) == (0, False)
    assert stored(filled) == before


def test_init_below_another_plane_says_which_is_used_where(run, tmp_path, monkeypatch):
    run("init", tmp_path / ".memplane")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    done = run("init")
    assert done.code == 0
    assert done.err == (
        f"memplane: {tmp_path / '.memplane'} is a plane too: in {below} and below, commands that "
        "name none now use the new one, and elsewhere that one\n"
    )
    again = run("init", "--json")
    assert (json.loads(again.out)["above"], again.err) == (None, "")
    aside = run("init", tmp_path / "plane", "--json")
    assert json.loads(aside.out)["above"] == str(tmp_path / ".memplane")


def test_the_plane_is_found_upward_and_by_the_environment(shell, filled, tmp_path):
    below = filled.parent / "a" / "b"
    below.mkdir(parents=True)
    filled.rename(filled.parent / ".memplane")
    refused(shell(cwd=below), 3, f"memplane trust {filled.parent / '.memplane'}")
    assert shell("trust", "--yes", cwd=below).returncode == 0
    assert b"events    3" in shell(cwd=below).stdout
    named = shell(cwd="/", MEMPLANE_HOME=str(filled.parent / ".memplane"))
    assert b"events    3" in named.stdout


def test_record_stores_every_field_of_an_event(run, home):
    first = run("record", "one", "--home", home).out.split()
    done = run(
        "record", "We keep it", "--kind", "decision", "--key", "db", "--id", "d-1", "--task", "t1",
        "--session", "s", "--actor", "ann", "--role", "user", "--tag", "a", "--tag", "b",
        "--marker", "constraint", "--ref", first[0], "--sensitivity", "low", "--importance", "0.9",
        "--ts", "2026-01-05T12:00:00+01:00", "--valid-from", "2026-01-01T00:00:00Z",
        "--valid-until", "2027-01-01T00:00:00Z", "--data", '{"tool":"psql"}', "--home", home,
        "--json",
    )  # fmt: skip
    receipt = json.loads(done.out)
    assert (done.code, receipt["id"], receipt["durability"]) == (0, "d-1", "sync")
    event = json.loads(run("show", "d-1", "--home", home, "--json").out)
    assert event["ts"] == "2026-01-05T11:00:00.000000Z"
    assert (event["tags"], event["markers"]) == (["a", "b"], ["constraint"])
    assert (event["refs"], event["importance"], event["ns"]) == ([first[1]], 900, "/task/t1")
    assert (event["actor"], event["role"], event["data"]) == ("ann", "user", {"tool": "psql"})
    assert (event["sensitivity"], event["key"], event["session"]) == ("low", "db", "s")
    assert event["valid_until"].startswith("2027") > event["valid_from"].startswith("2027")


def test_a_repeat_is_acknowledged_and_another_event_of_the_same_id_refused(run, home, stored):
    run("record", "a", "--id", "x", "--home", home)
    before = stored(home)
    again = run("record", "a", "--id", "x", "--home", home)
    assert (again.code, again.out) == (0, "2 x\n")
    assert "already" in again.err
    other = run("record", "b", "--id", "x", "--home", home, "--json")
    error = json.loads(other.out)["error"]
    assert (other.code, error["type"], error["id"], error["seq"]) == (1, "ConflictError", "x", 2)
    assert stored(home) == before


def test_one_record_writes_no_checkpoint(shell, filled):
    def caches():
        return {file.name for file in (filled / "projections").iterdir()}

    before = caches()
    assert shell("record", "more", "--home", filled).returncode == 0
    assert not {name for name in caches() - before if not name.startswith("policy-")}


def test_json_lines_are_stored_all_or_none_and_the_mistake_is_named_by_its_line(
    shell, home, stored
):
    before = stored(home)
    rows = b'{"text":"a"}\n\n{"text":"b","kind":"decisoin"}\n'
    done = shell("record", "--jsonl", "-", "--home", home, stdin=rows)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"memplane: line 3.kind: found 'decisoin'")
    assert stored(home) == before
    done = shell("record", "--jsonl", "-", "--home", home, stdin=rows.replace(b"soi", b"sio"))
    assert (done.returncode, done.stdout) == (0, b"2 recorded, seq 2 to 3\n")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (b"[1]\n", "line 2: expected a JSON object"),
        (b'{"text":"a"}\n{"text":\n', "line 3: expected a JSON object"),
        (b'{"text":"caf\xe9"}\n', "line 2: expected a JSON object"),
        (b'{"a":' * 5000, "line 2: expected a JSON object"),
        (b'{"text":"a","ts":"2026-01-05T12:00:00"}\n', "line 2.ts: found no zone"),
        (b'{"text":"a","seq":1}\n', "line 2: `seq` is set by the log"),
        (b'{"text":"a","id":"x"}\n{"text":"b","id":"x"}\n', "line 2, 3: id 'x' is taken"),
    ],
)
def test_no_line_is_stored_where_one_cannot_be_taken(run, home, stored, tmp_path, rows, said):
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b'{"text":"fine"}\n' + rows)
    done = run("record", "--jsonl", file, "--home", home)
    assert done.code in (1, 2)
    assert done.err.startswith(f"memplane: {said}")
    lines = [line for data in stored(home).values() for line in data.splitlines()]
    # The first append of a plane begins its first segment, even where it is refused then.
    assert [json.loads(line)["kind"] for line in lines] in ([], ["segment"])


def test_two_sources_of_text_are_wrong_use(run, home):
    for argv in (["x", "--stdin"], ["--stdin", "--jsonl", "-"], ["x", "--jsonl", "-"], []):
        done = run("record", *argv, "--home", home)
        assert (done.code, done.out) == (2, "")
    done = run("record", "--jsonl", "-", "--kind", "fact", "--home", home)
    assert (done.code, "kind" in done.err) == (2, True)


def test_import_counts_what_became_of_everything(run, home, tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text":"a","id":"1"}\n{"text":"b","id":"1"}\n{"no":1}\n{"text":"c"}\n')
    done = run("import", "jsonl", file, "--home", home)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0] == "recorded  2 events from 1 file"
    assert "skipped   1: no event 1" in done.out
    assert "refused   1:" in done.out
    assert ": 1: conflict: id '1' is taken" in done.out
    again = json.loads(run("import", file, "--home", home, "--json").out)
    assert (again["events"], again["unchanged"]) == (0, 1)
    whole = json.loads(run("import", file, "--home", home, "--json", "--full").out)
    assert (whole["events"], whole["repeated"]) == (0, 2)


def test_import_of_nothing_is_wrong_use(run, home, tmp_path):
    (tmp_path / "poem.txt").write_text("roses are red\n")
    for argv in (["jsonl"], ["/nowhere.jsonl"], [tmp_path / "poem.txt"], []):
        done = run("import", *argv, "--home", home)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("memplane: ")


def test_pack_prints_the_block_alone_on_stdout_and_its_cost_on_stderr(run, filled):
    done = run("pack", "which database do we use?", "--session", "s1", "--home", filled)
    with memplane.open(filled) as plane:
        block = plane.pack("which database do we use?", session="s1")
    assert (done.code, done.out.rstrip("\n")) == (0, block.text.rstrip("\n"))
    assert done.err.count("\n") == 1
    assert done.err.startswith(f"memplane: {block.tokens} of 4000 tokens, ")
    named = done.err.split("report ")[1].strip()
    assert json.loads(Path(named).read_text())["acb_sha256"] == block.report["acb_sha256"]


def test_pack_keeps_no_report_where_none_is_wanted(run, filled):
    done = run("pack", "x", "--no-report", "--home", filled)
    assert (done.code, "report" in done.err) == (0, False)
    assert list((filled / "reports").iterdir()) == []


def test_pack_takes_what_the_library_takes(run, filled):
    done = run(
        "pack", "database", "--budget", "1500", "--channel", "agent", "--intent", "fast",
        "--session", "s1", "--ns", "/global", "--agent", "a", "--section", "relevant_decisions",
        "--section", "expansions", "--expand", "expand://event/2", "--since",
        "2026-01-01T00:00:00Z", "--until", "2099-01-01T00:00:00Z", "--as-of", "2", "--now",
        "2026-01-05T12:00:00Z", "--json", "--home", filled,
    )  # fmt: skip
    block = json.loads(done.out)
    asked = block["report"]["request"]
    assert done.code == 0
    assert (asked["budget"], asked["as_of"], asked["agent"]) == (1500, 2, "a")
    assert asked["sections"] == ["relevant_decisions", "expansions"]
    assert "PostgreSQL" in block["text"]


def test_pack_in_a_providers_form(run, filled):
    openai = json.loads(run("pack", "x", "--messages", "openai", "--home", filled).out)
    assert openai[0]["role"] == "system"
    anthropic = json.loads(run("pack", "x", "--messages", "anthropic", "--home", filled).out)
    assert "".join(piece["text"] for piece in anthropic["system"]) == openai[0]["content"]
    assert run("pack", "x", "--messages", "aol", "--home", filled).code == 2


def test_an_empty_plane_packs_to_nothing_and_says_so(run, home):
    done = run("pack", "anything", "--home", home)
    assert (done.code, done.out) == (0, "")
    assert "nothing to show" in done.err


def test_values_of_keys_now_and_before(run, filled):
    assert run("get", "db.engine", "--home", filled).out == "We move to SQLite\n"
    assert run("keys", "db", "--home", filled).out == "db.engine\n"
    assert run("keys", "zz", "--home", filled) == (0, "", "")
    assert run("keys", "--limit", 1, "--home", filled) == (0, "db.engine\n", "")
    run("record", "x", "--kind", "fact", "--key", "db.x", "--home", filled)
    for argv in (["keys"], ["keys", "--json"]):
        listed = run(*argv, "--limit", 1, "--home", filled)
        assert "these are the first 1; there are more: raise --limit" in listed.err
    lines = run("history", "db.engine", "--home", filled).out.splitlines()
    assert ["superseded by 4" in lines[0], "in force" in lines[1]] == [True, True]
    assert "superseded  by 4" in run("show", "2", "--home", filled).out
    assert run("decisions", "--home", filled).out.split()[0] == "4"


@pytest.mark.parametrize(
    "argv", [["get", "no"], ["history", "no"], ["show", "99"], ["show", "no"], ["pin", "99"],
             ["expand", "expand://event/99"], ["forget", "no"], ["unforget", "no"],
             ["forget", "--session", "no"], ["forget", "--id", "99"], ["forget", "--source", "no"]],
)  # fmt: skip
def test_where_there_is_nothing_by_that_name_the_answer_is_no(run, filled, stored, argv):
    before = stored(filled)
    done = run(*argv, "--home", filled)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("memplane: no ")
    as_json = run(*argv, "--home", filled, "--json")
    error = json.loads(as_json.out)["error"]
    assert (as_json.code, error["type"], error["exit"]) == (1, "NotFoundError", 1)
    assert as_json.err == done.err == f"memplane: {error['message']}\n"
    assert stored(filled) == before


def test_what_a_channel_may_not_see_is_refused_on_it(run, home):
    run("record", "my salary", "--key", "pay", "--sensitivity", "high", "--home", home)
    assert run("show", "2", "--home", home).code == 0
    for argv in (["show", "2"], ["get", "pay"], ["expand", "expand://event/2"]):
        done = run(*argv, "--home", home, "--channel", "public")
        assert done.code == 1
        assert "salary" not in done.out + done.err
    assert "salary" not in run("log", "--channel", "public", "--home", home).out


def test_what_is_forgotten_is_gone_until_it_is_unforgotten(run, filled):
    assert run("forget", "db.engine", "--reason", "old", "--home", filled).code == 0
    assert run("get", "db.engine", "--home", filled).code == 1
    assert "forgotten   by 5" in run("show", "4", "--home", filled).out
    assert run("unforget", "db.engine", "--home", filled).code == 0
    assert run("get", "db.engine", "--home", filled).code == 0
    assert run("forget", "db.engine", "--session", "s1", "--home", filled).code == 2
    assert run("forget", "--home", filled).code == 2


def test_pins_are_recorded_by_number_and_by_id(run, filled):
    event = json.loads(run("show", "4", "--home", filled, "--json").out)
    assert run("pin", "4", "--home", filled).code == 0
    assert run("unpin", event["id"], "--home", filled).code == 0
    kinds = [one["kind"] for one in json.loads(run("log", "--json", "--home", filled).out)]
    assert kinds[-2:] == ["pin", "pin"]


def test_the_log_lists_the_last_ones_or_the_first_behind_a_number(run, home, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f'{{"text":"{n}","session":"s{n % 300}"}}\n' for n in range(600)))
    run("record", "--jsonl", rows, "--home", home)

    def seqs(*argv):
        done = run("log", *argv, "--json", "--home", home)
        return [event["seq"] for event in json.loads(done.out)]

    assert seqs() == list(range(582, 602))
    assert seqs("--limit", 2, "--after", 5) == [6, 7]
    assert seqs("--session", "s7") == [9, 309]
    assert seqs("--session", "s7", "--limit", 1) == [309]
    assert seqs("--kind", "segment") == [1]
    assert seqs("--limit", 0, "--after", 590) == list(range(591, 602))
    assert seqs("--ns", "/task/none") == []


def test_follow_goes_on_with_what_is_recorded_until_interrupted(run, filled):
    argv = [sys.executable, "-m", "memplane", "log", "--follow", "--json", "--home", str(filled)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            before = [json.loads(process.stdout.readline())["seq"] for _ in range(4)]
            run("record", "news", "--home", filled)
            new = json.loads(process.stdout.readline())
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (before, new["seq"], new["text"]) == ([1, 2, 3, 4], 5, "news")
    assert (process.returncode, out, err) == (0, b"", b"")


def test_stats_count_what_is_there(run, filled):
    found = json.loads(run("stats", "--home", filled, "--json").out)
    assert (found["events"], found["kinds"]) == (3, {"decision": 2, "message": 1})
    assert (found["sessions"], found["decisions"], found["hidden"]) == (1, 1, 0)
    assert found["bytes"]["log"] > 0
    assert "decision 2" in run("stats", "--home", filled).out


def test_expand_says_where_it_goes_on(run, home):
    run("record", "word " * 400, "--home", home)
    done = run("expand", "expand://event/2", "--budget", "100", "--home", home)
    assert (done.code, done.out.startswith("word word")) == (0, True)
    assert "goes on at expand://event/2?from=" in done.err


def test_the_version_is_told(run):
    assert run("--version").out.startswith("memplane ")


def test_a_closed_pipe_and_an_interrupt_are_quiet(run, home, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text":"some words that fill a pipe, one after the other"}\n' * 3000)
    run("record", "--jsonl", rows, "--home", home)
    command = [sys.executable, "-m", "memplane", "log", "--limit", "0", "--home", str(home)]
    reader, writer = os.pipe()
    with subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE) as process:
        os.close(writer)
        assert os.read(reader, 10)
        os.close(reader)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, b"")
    command = [sys.executable, "-m", "memplane", "record", "--stdin", "--home", str(home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            while not _reads_stdin(process.pid):
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, err) == (130, b"")


def _reads_stdin(pid):
    """Whether the process waits for its pipe; where that cannot be seen, it has had time enough."""
    try:
        call = Path(f"/proc/{pid}/syscall").read_text()
        return "pipe" in Path(f"/proc/{pid}/wchan").read_text() or call.startswith("0 0x0 ")
    except OSError:
        time.sleep(2)
        return True


@pytest.mark.parametrize(
    "environment",
    [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}, {"PYTHONIOENCODING": "ascii"}],
)
def test_every_locale_prints_utf8_without_colours(shell, filled, environment):
    text = "größe 日本 🙂"
    assert shell("record", "--stdin", "--home", filled, stdin=text.encode()).returncode == 0
    for argv in (["log"], ["log", "--json"]):
        done = shell(*argv, "--home", filled, **environment)
        assert (done.returncode, text in done.stdout.decode()) == (0, True)
        assert b"\x1b" not in done.stdout + done.stderr


def test_listings_never_drive_a_terminal(run, home):
    run("record", "a\x1b[31mred\x07\r\nnext", "--key", "k", "--home", home)
    out = run("log", "--home", home).out + run("history", "k", "--home", home).out
    assert all(char.isprintable() or char == "\n" for char in out)


def test_a_pack_says_that_nothing_is_recorded_of_a_session_or_task(run, filled):
    said = run("pack", "--session", "s1", "--home", filled).err
    assert "is the id right" not in said
    said = run("pack", "--session", "s9", "--task", "t9", "--home", filled).err
    for name, whose in (("session", "s9"), ("task", "t9")):
        assert (
            f"--{name} '{whose}': nothing that may be seen is recorded of it; is the id right?\n"
            in said
        )
