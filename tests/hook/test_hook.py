"""`memplane hook` as a coding agent runs it: a process, JSON on stdin, exit code 0 whatever happens."""

import fcntl
import json
import os
import resource
import shutil
import subprocess
import sys
import time

import pytest

import memplane

WORDS = "the ledger keeps one cursor for each tenant"


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A plane to copy, with sessions of others in it, indexed."""
    home = tmp_path_factory.mktemp("hook") / "work" / ".memplane"
    memplane.init(home).close()
    with memplane.open(home, durability="os") as plane:
        rows = [
            {"text": f"{WORDS} {n}", "role": "user", "session": f"old{n % 5}", "id": f"m{n}"}
            for n in range(100)
        ]
        plane.record_many(rows)
        plane.record("We keep PostgreSQL for the ledger", kind="decision", key="db", id="d1")
        plane.rebuild()
        plane.index()
    return home


@pytest.fixture
def home(filled, tmp_path):
    return shutil.copytree(filled, tmp_path / "work" / ".memplane")


def hook(home, said, *more, agent="claude-code", limit=None):
    """Run a hook; give back what it printed, after seeing that it did no harm."""

    def limited():
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    data = said if isinstance(said, bytes) else json.dumps(said).encode()
    done = subprocess.run(
        [sys.executable, "-m", "memplane", "hook", agent, *more],
        input=data,
        capture_output=True,
        cwd=home.parent if home.parent.is_dir() else "/",
        env={**os.environ, "HOME": str(home.parent), "MEMPLANE_HOME": ""},
        timeout=60,
        check=False,
        preexec_fn=limited,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def context(out):
    answer = json.loads(out)["hookSpecificOutput"]
    assert len(answer["additionalContext"]) <= 9500
    return answer["additionalContext"]


def said(event, home, **more):
    return {"hook_event_name": event, "session_id": "s1", "cwd": str(home.parent), **more}


def events_of(home, session="s1"):
    with memplane.open(home, environment={}) as plane:
        plane.flush()
        return [line.event for line in plane._log.read() if line.event.session == session]


def test_what_a_session_says_and_does_is_recorded(home):
    hook(home, said("SessionStart", home, source="startup"))
    hook(home, said("UserPromptSubmit", home, prompt="hello", prompt_id="p1"))
    used = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}
    hook(home, said("PostToolUse", home, tool_response={"stdout": "a.py"}, **used))
    hook(home, said("Stop", home, last_assistant_message="there is a.py"))
    hook(home, said("PostCompact", home, compact_summary="they looked at a.py"))
    hook(home, said("SessionEnd", home, reason="other"))
    assert [(one.kind, one.role, one.text) for one in events_of(home)] == [
        ("session", None, "Session started"),
        ("message", "user", "hello"),
        ("tool_call", "assistant", "Bash command=ls"),
        ("tool_result", "tool", "a.py"),
        ("message", "assistant", "there is a.py"),
        ("summary", "system", "they looked at a.py"),
        ("session", None, "Session ended"),
    ]
    assert not (home / "hooks.log").exists()


def test_a_start_tells_what_holds_and_a_prompt_what_speaks_to_it_once(home):
    start = context(hook(home, said("SessionStart", home, source="startup")))
    assert "We keep PostgreSQL for the ledger" in start
    prompt = said("UserPromptSubmit", home, prompt="which cursor does the ledger keep?")
    first = context(hook(home, {**prompt, "prompt_id": "p1"}))
    assert WORDS in first
    assert "which cursor does" not in first
    assert "We keep PostgreSQL" not in first
    again = hook(home, {**prompt, "prompt_id": "p2"})
    told = {line for line in first.splitlines() if WORDS in line}
    assert not again or told.isdisjoint(context(again).splitlines())


def test_after_a_compaction_what_was_shown_comes_again(home):
    first = context(hook(home, said("SessionStart", home, source="startup")))
    assert hook(home, said("SessionStart", home, source="resume")) == ""
    again = context(hook(home, said("SessionStart", home, source="compact")))
    assert "We keep PostgreSQL" in first
    assert "We keep PostgreSQL" in again


def test_what_another_session_said_is_found_after_a_catch_up(home):
    text = "The mast of the new boat is spruce"
    hook(home, {**said("UserPromptSubmit", home, prompt=text), "session_id": "s0"})
    hook(home, said("Stop", home), "--catch-up")
    asked = said("UserPromptSubmit", home, prompt="what is the mast of the boat made of?")
    assert text in context(hook(home, asked))


@pytest.mark.parametrize("data", [b"", b"garbage", b"[]", b'{"a":', b"\xff\xfe", b"null"])
def test_stdin_that_is_no_object_is_told_to_the_planes_own_log(home, data):
    before = events_of(home)
    assert hook(home, data) == ""
    assert events_of(home) == before
    assert "stdin" in (home / "hooks.log").read_text()


def test_without_a_plane_or_with_an_unknown_agent_nothing_happens(tmp_path, home):
    none = tmp_path / "none"
    none.mkdir()
    started = said("SessionStart", none / ".memplane", source="startup")
    assert hook(none / ".memplane", started) == ""
    assert list(none.iterdir()) == []
    assert hook(home, said("SessionStart", home, source="startup"), agent="other") == ""
    assert events_of(home) == []


def test_where_another_holds_the_log_the_event_waits_in_the_spool(home):
    with (home / "log" / ".lock").open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        began = time.monotonic()
        hook(home, said("UserPromptSubmit", home, prompt="kept meanwhile"))
        assert time.monotonic() - began < 30  # the lock is held until after this
        assert len(list((home / "log" / "spool").iterdir())) == 1
    assert [one.text for one in events_of(home)] == ["kept meanwhile"]


def test_a_full_disk_is_told_where_that_is_possible_and_harms_nobody(home):
    before = events_of(home, session="old1")
    hook(home, said("UserPromptSubmit", home, prompt="x" * 5000), limit=1000)
    assert events_of(home, session="old1") == before


@pytest.mark.parametrize("name", ["log/00000001.jsonl", "plane.json", "policies/plane.yaml"])
def test_a_damaged_plane_costs_the_agent_nothing(home, name):
    path = home / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x55
    path.write_bytes(data)
    hook(home, said("UserPromptSubmit", home, prompt="does it work?"))
    hook(home, said("SessionStart", home, source="startup"))


def test_a_prompt_of_five_megabytes_is_recorded_or_left_in_its_time(home):
    hook(home, said("UserPromptSubmit", home, prompt="word " * 1_000_000))
    with memplane.open(home, environment={}) as plane:
        assert plane.verify().ok


def test_many_hooks_at_once_lose_nothing(home):
    def start(n):
        child = subprocess.Popen(
            [sys.executable, "-m", "memplane", "hook", "claude-code"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            cwd=home.parent, env={**os.environ, "MEMPLANE_HOME": str(home)},
        )  # fmt: skip
        data = said("PostToolUse", home, tool_name="Bash", tool_use_id=f"t{n}", tool_response="ok")
        child.stdin.write(json.dumps(data).encode())
        child.stdin.close()
        return child

    children = [start(n) for n in range(16)]
    for child in children:
        assert (child.wait(120), child.stderr.read()) == (0, b"")
        child.stderr.close()
    calls = {one.data["call"] for one in events_of(home) if one.kind == "tool_result"}
    told = (home / "hooks.log").read_text() if (home / "hooks.log").exists() else ""
    assert calls == {f"t{n}" for n in range(16)}, told
