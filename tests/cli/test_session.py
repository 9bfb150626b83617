"""`memplane session`: what each command does, says and leaves alone."""

import json

import pytest

import memplane
from tests.providers.fakes_model_server import StubServer


@pytest.fixture
def left(home):
    """A plane in which two agents left a session each, long ago."""
    with memplane.open(home, clock=lambda: "2026-01-05T12:00:00.000000Z") as plane:
        for agent in ("ann", "bob"):
            plane.work.sessions.start(f"of-{agent}", agent=agent)
            for text in ("Find the herons", "Count the herons", "Name the herons"):
                plane.record(text, role="user", session=f"of-{agent}")
    return home


def test_a_session_from_start_to_end(run, home):
    assert (
        run("session", "start", "s1", "--agent", "ann", "--branch", "main", "--home", home).out
        == "s1\n"
    )
    for text in ("Fix the parser", "and its tests", "then the docs"):
        run("record", text, "--role", "user", "--session", "s1", "--home", home)
    assert run("session", "checkpoint", "s1", "tests are green", "--home", home).code == 0
    done = run("session", "end", "s1", "--home", home)
    assert (done.code, done.out) == (0, "ended s1 (explicit), summary in event 7\n")
    shown = run("session", "show", "s1", "--home", home).out
    for said in ("agent       ann", "branch      main", "status      ended (explicit)",
                 "prompts     3", '"Fix the parser" on main'):  # fmt: skip
        assert said in shown
    assert json.loads(run("session", "show", "s1", "--home", home, "--json").out)["prompts"] == 3


def test_a_session_without_a_name_is_given_one_that_can_be_used(run, home):
    name = run("session", "start", "--home", home).out.strip()
    assert len(name) == 26
    assert (
        run("session", "end", name, "--home", home).out == f"ended {name} (explicit), no summary\n"
    )


def test_to_end_twice_is_fine_and_says_so(run, left, stored):
    run("session", "end", "of-ann", "--no-summary", "--home", left)
    before = stored(left)
    again = run("session", "end", "of-ann", "--home", left)
    assert again.out == "of-ann had ended already (explicit); nothing was written\n"
    assert (again.code, stored(left)) == (0, before)


@pytest.mark.parametrize("name", ["end", "show", "checkpoint"])
def test_an_unknown_session_is_a_no_with_the_one_that_was_meant(run, left, stored, name):
    before = stored(left)
    done = run("session", name, "of-anna", "--home", left)
    assert (done.code, done.out) == (1, "")
    assert done.err == "memplane: no session 'of-anna'; did you mean of-ann?\n"
    told = run("session", name, "of-anna", "--home", left, "--json")
    assert json.loads(told.out)["error"]["type"] == "NotFoundError"
    assert stored(left) == before


def test_end_takes_a_name_or_idle_and_not_both_or_none(run, left):
    for wrong in ([], ["of-ann", "--idle"]):
        done = run("session", "end", *wrong, "--home", left)
        assert (done.code, done.err[:29]) == (2, "memplane: expected ID or --id")


def test_a_start_ends_the_session_that_its_agent_left_and_says_so(run, left):
    done = run("session", "start", "new", "--agent", "ann", "--home", left)
    assert done.out == "new\nended of-ann (gap), summary in event 10\n"
    listed = json.loads(run("session", "list", "--home", left, "--json").out)
    assert [(one["id"], one["status"]) for one in listed] == [
        ("of-bob", "idle"), ("of-ann", "ended"), ("new", "open"),
    ]  # fmt: skip


def test_all_idle_ones_are_ended_when_asked_for(run, left):
    assert run("session", "list", "--open", "--home", left).out.count(" idle ") == 2
    ended = run("session", "end", "--idle", "--home", left).out
    assert ended.count("(abandoned), summary in event") == 2
    assert run("session", "list", "--open", "--home", left).out == ""
    assert run("session", "end", "--idle", "--home", left).out == "no session is idle\n"
    assert (
        len(json.loads(run("session", "list", "--agent", "ann", "--home", left, "--json").out)) == 1
    )


def test_an_agent_is_told_what_is_in_its_namespace_and_others_are_not(run, home):
    for text in ("Count the herons", "by hand", "again"):
        run("record", text, "--role", "user", "--session", "s", "--ns", "/agent/ann",
            "--home", home)  # fmt: skip
    run("session", "end", "s", "--home", home)
    told = run("session", "show", "s", "--agent", "ann", "--home", home).out
    assert "herons" in told
    assert "agent       ann" in told
    told = run("session", "show", "s", "--home", home).out
    assert "prompts     3" in told
    assert "herons" not in told
    assert "ann" not in told
    bobs = run("session", "show", "s", "--agent", "bob", "--home", home)
    assert (bobs.code, bobs.out) == (1, "")
    assert "no session 's'" in bobs.err


def test_the_help_says_which_sessions_a_start_ends(run):
    told = " ".join(run("session", "start", "--help").out.split())
    assert "silent for longer than plane.yaml's gap_minutes are ended" in told


def test_options_may_stand_before_the_group(run, left):
    assert run("--home", left, "session", "list").out.count("\n") == 2


def test_two_agents_at_once_each_see_their_own_window_and_end_their_own_session(run, home):
    words = {"ann": "heron", "bob": "stork"}
    for agent in words:
        run("session", "start", f"of-{agent}", "--agent", agent, "--home", home)
    for turn in range(3):
        for agent, word in words.items():
            text = f"{word} {turn}"
            run("record", text, "--role", "user", "--session", f"of-{agent}", "--home", home)

    def window(agent):
        asked = ["--session", f"of-{agent}", "--no-report", "--json"]
        block = json.loads(run("pack", "", *asked, "--home", home).out)
        entries = [one for one in block["entries"] if one["section"] == "recent_window"]
        return "\n".join(one["text"] for one in entries)

    for agent, other in (("ann", "bob"), ("bob", "ann")):
        assert window(agent).count(words[agent]) == 3
        assert words[other] not in window(agent)
    run("session", "end", "of-ann", "--home", home)
    run("record", "stork 3", "--role", "user", "--session", "of-bob", "--home", home)
    assert window("bob").count("stork") == 4
    assert "heron" not in window("bob")
    listed = json.loads(run("session", "list", "--home", home, "--json").out)
    assert {one["id"]: one["status"] for one in listed} == {"of-ann": "ended", "of-bob": "open"}


def test_an_import_says_how_many_sessions_it_ended(run, home, tmp_path):
    record = {
        "type": "user", "uuid": "u1", "sessionId": "s", "timestamp": "2020-03-01T10:00:00Z",
        "message": {"role": "user", "content": "hello"},
    }  # fmt: skip
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\n")
    done = run("import", "claude-code", tmp_path / "a.jsonl", "--home", home)
    assert done.out == "recorded  2 events from 1 file\nended     1 session\n"


def test_a_session_is_shown_with_its_episodes_where_that_is_asked(run, left):
    plain = run("session", "show", "of-ann", "--home", left)
    shown = run("session", "show", "of-ann", "--episodes", "--home", left)
    assert shown.out.startswith(plain.out)
    assert shown.out.removeprefix(plain.out).startswith("  of-ann/")
    assert shown.out.endswith("  open\n")
    told = json.loads(run("session", "show", "of-ann", "--episodes", "--home", left, "--json").out)
    assert [len(one["turn_ids"]) for one in told["episodes"]] == [3]


def test_a_model_on_a_named_server_sums_a_session_up_and_a_lack_of_one_is_said(run, left):
    with StubServer() as stub:
        stub.facts = [{"content": "Count the herons", "turns": [2], "confidence": 1.0}]
        given = ("--summary", "model", "--model", "m", "--server", stub.url, "--home", left)
        done = run("session", "end", "of-ann", *given, "--json")
    answer = json.loads(done.out)
    assert (done.code, answer["degraded"]) == (0, None)
    shown = json.loads(run("show", answer["summary"]["id"], "--home", left, "--json").out)
    assert (shown["text"], shown["said_by"]) == ("Count the herons", "model")
    assert len(shown["source"]["prompt"]) == 64
    assert [one["name"] for one in shown["relations"]] == ["derived_from"]
    done = run("session", "end", "of-bob", "--summary", "model", "--home", left)
    assert (done.code, done.err) == (0, "memplane: no reflector: extractive\n")
    assert "summary in event" in done.out


@pytest.mark.parametrize(
    "given",
    [
        ("--summary", "llm"),
        ("--summary", "model", "--no-summary"),
        ("--model", "m"),
        ("--summary", "model", "--model", "m"),
        ("--summary", "model", "--server", "http://127.0.0.1:9"),
    ],
)
def test_options_that_do_not_go_together_end_nothing(run, left, given):
    assert run("session", "end", "of-ann", *given, "--home", left).code == 2
    assert (
        json.loads(run("session", "show", "of-ann", "--home", left, "--json").out)["reason"] is None
    )
