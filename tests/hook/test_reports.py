"""What hooks keep of their answers: reports without the prompt's text, counts of silences."""

import fcntl
import json
import subprocess
import sys

import pytest
from checks_calls import asked, context, events_of, hook, said

import memplane
from memplane.upkeep.reports import saved


@pytest.fixture
def run_command():
    def run(home, *words, code=0):
        done = subprocess.run(
            [sys.executable, "-m", "memplane", *words, "--home", str(home)],
            capture_output=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    return run


def reports(home):
    return [one.report for one in saved(home)]


def test_an_answer_leaves_a_report_that_names_the_prompt_by_its_id(home):
    prompt = asked(home, "which cursor does the ledger keep?")
    answer = context(hook(home, prompt))
    [report] = reports(home)
    assert report["acb_sha256"]
    assert report["gate"]["opens"]
    assert report["request"]["query_event"] == events_of(home)[-1].id
    assert "which cursor" not in json.dumps(report)
    assert "the ledger keeps one cursor" in answer


def test_a_prompt_that_waits_for_the_log_is_answered_and_leaves_no_report(home):
    with (home / "log" / ".lock").open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answer = context(hook(home, asked(home, "which cursor does the ledger keep?")))
    assert "the ledger keeps one cursor" in answer
    assert reports(home) == []
    assert not [path for path in (home / "reports").rglob("*") if b"which" in path.read_bytes()]


LOG = "\n```\n" + "a line of some output\n" * 200 + "```\n"


@pytest.mark.parametrize("more", [LOG, 3 * LOG, " and why?" * 1_000])
def test_a_long_prompt_is_named_by_its_event_too(home, more):
    assert hook(home, asked(home, "which cursor does the ledger keep for each tenant?" + more))
    [report] = reports(home)
    assert not report["request"].get("query")
    assert report["request"]["query_event"] == events_of(home)[-1].id


def test_a_silence_is_counted_and_leaves_no_report(home):
    assert hook(home, asked(home, "thanks")) == ""
    assert reports(home) == []
    [kept] = (home / "projections" / "hooks").glob("*.json")
    counts = json.loads(kept.read_text())
    assert (counts["answers"], counts["silences"], counts["tokens"]) == (0, 1, 0)


def test_what_an_agent_was_shown_is_explained_afterwards(home):
    hook(home, asked(home, "which cursor does the ledger keep?"))
    with memplane.open(home, environment={}) as plane:
        [report] = reports(home)
        shown = [id_ for entry in report["entries"] for id_ in (*entry["events"], *entry["parts"])]
        assert shown
        assert all(plane.event(id_).text.startswith("the ledger") for id_ in shown)


def test_reports_of_hooks_stay_within_their_ring(home):
    (home / "policies" / "plane.yaml").write_text(
        "version: 1\nreports: {keep: 2}\nhooks: {answer: {when: always}}\n"
    )
    for n in range(4):
        hook(home, asked(home, f"the ledger of tenant {n}", prompt_id=f"p{n}", session_id=f"s{n}"))
    assert len(reports(home)) == 2


def test_a_start_leaves_a_report_too(home):
    hook(home, said("SessionStart", home, source="startup"))
    [report] = reports(home)
    assert report["request"]["remind"] == "start"


def test_stats_say_what_hooks_have_said_and_what_of_it_was_used(home, run_command):
    hook(home, asked(home, "which cursor does the ledger keep?"))
    hook(home, asked(home, "thanks", prompt_id="p2"))
    answer = run_command(home, "stats", "--use", "--json")
    assert (answer["answers"], answer["silences"]) == (1, 1)
    assert answer["tokens"] > 0
    assert answer["shown"] > 0
    assert answer["used"] <= answer["shown"]


def test_a_prompt_may_be_asked_of_the_gate_by_hand(home, run_command):
    block = run_command(home, "pack", "which cursor does the ledger keep?", "--gate", "--json")
    assert block["report"]["gate"]["opens"]
    silent = run_command(home, "pack", "thanks", "--gate", "--json", code=1)
    assert silent["text"] == ""
