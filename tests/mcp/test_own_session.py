"""A server of a client whose hooks record it: both work for one session, and the client has it."""

import json
import os
import subprocess
import sys

import pytest

import memplane

OWN = "the cellar pump makes noise tonight"
OTHER = "the cellar pump was mended in March"


def hooked(opened, text, **more):
    opened.record(text, **{"session": "s1", "role": "user", "tags": ["hook"], **more})


def mark(opened, status):
    hooked(opened, f"Session {status}", kind="session", role=None, data={"status": status})


@pytest.fixture
def block(done):
    """What the client is given; `held` is the seq behind which it has its session before it."""
    from memplane.mcp.server import Own

    def block(query="the cellar pump", held=0, **more):
        own = Own("heron", "s1", lambda _: held)
        (found,) = done(("memory_curate", {"query": query, "mode": "deep"}), own=own, **more)
        return found["text"]

    return block


@pytest.fixture(autouse=True)
def _told(opened):
    opened.record(OTHER, session="s0", role="user")
    mark(opened, "start")
    hooked(opened, OWN)
    opened.upkeep.index()


def test_a_client_is_not_given_back_what_it_has_before_it(block, opened):
    assert OTHER in block()
    assert OWN not in block()
    hooked(opened, "and the cellar pump leaks")
    opened.record("The pump is of 1998", kind="fact", session="s1", actor="heron")
    found = block("what of the cellar pump?")
    assert OTHER in found
    assert not [words for words in (OWN, "pump leaks", "of 1998") if words in found]


def test_nor_what_was_said_long_ago_in_a_long_session(block, opened):
    opened.record_many(
        [
            {"text": f"step {n} is done", "role": "assistant", "session": "s1", "tags": ["hook"]}
            for n in range(150)
        ]
    )
    opened.upkeep.index()
    assert OTHER in block()
    assert OWN not in block()


def test_what_a_client_stores_belongs_to_its_session(done, opened):
    from memplane.mcp.server import Own

    asked = {"content": "The pump is of 1998", "type": "fact"}
    (stored,) = done(("memory_store", asked), session="mcp-1", own=Own("heron", "s1", lambda _: 0))
    assert opened.event(stored["seq"]).session == "s1"


def test_another_program_in_the_same_surroundings_has_a_session_of_its_own(block, done, opened):
    """What a client starts inherits its environment."""
    from memplane.mcp.server import Own

    assert OWN in block(client="crow", session="mcp-1")
    asked = {"content": "The pump is of 1998", "type": "fact"}
    own = Own("heron", "s1", lambda _: 0)
    (stored,) = done(("memory_store", asked), session="mcp-1", own=own, client="crow")
    assert opened.event(stored["seq"]).session == "mcp-1"


def test_what_the_client_has_dropped_is_given_again(block, opened):
    held = opened.head().seq
    hooked(opened, "the cellar pump is silent now")
    found = block("what of the cellar pump?", held)
    assert OWN in found
    assert "silent now" not in found


def test_of_a_session_that_is_over_all_is_given(block, opened):
    """The client went on to another one in the same process, as by `/clear`."""
    mark(opened, "end")
    assert OWN in block()


def test_a_session_that_was_resumed_is_had_by_the_client_again(block, opened):
    mark(opened, "end")
    mark(opened, "resume")
    hooked(opened, "what of the cellar pump?")
    assert OWN not in block()


def test_the_command_asks_the_hooks_of_claude_code_what_it_has(home, opened):
    """In both processes the session is the one that the client names to both."""
    from memplane.hook.run import ShownEntries

    session = "5d1e"
    opened.record("the cellar pump hums", session=session, role="user")
    shown = ShownEntries(opened.home, session)
    shown.forget(opened.head().seq)
    shown.save()
    opened.record("the cellar pump is silent", session=session, role="user")
    opened.upkeep.index()
    info = {"protocolVersion": "2025-11-25", "capabilities": {}}
    for client, expected in (("claude-code", (True, False)), ("codex", (True, True))):
        call = {"name": "memory_curate", "arguments": {"query": "cellar pump", "mode": "deep"}}
        lines = (
            {"id": 0, "method": "initialize", "params": {**info, "clientInfo": {"name": client, "version": "1"}}},
            {"method": "notifications/initialized"},
            {"id": 1, "method": "tools/call", "params": call},
        )  # fmt: skip
        ran = subprocess.run(
            [sys.executable, "-m", "memplane", "mcp", "--home", str(home)], text=True, check=True,
            input="\n".join(json.dumps({"jsonrpc": "2.0", **line}) for line in lines),
            capture_output=True, env={**os.environ, "CLAUDE_CODE_SESSION_ID": session},
        )  # fmt: skip
        text = json.loads(ran.stdout.splitlines()[-1])["result"]["structuredContent"]["text"]
        assert ("pump hums" in text, "is silent" in text) == expected


def test_stores_of_claude_code_are_in_the_session_that_its_hooks_record(home, opened):
    call = {"name": "memory_store", "arguments": {"content": "Herons stay", "type": "fact"}}
    info = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "claude-code", "version": "1"}}  # fmt: skip
    lines = (
        {"id": 0, "method": "initialize", "params": info},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/call", "params": call},
    )
    for named in ((), ("--session", "mine")):
        subprocess.run(
            [sys.executable, "-m", "memplane", "mcp", "--home", str(home), *named], text=True,
            input="\n".join(json.dumps({"jsonrpc": "2.0", **line}) for line in lines), check=True,
            capture_output=True, env={**os.environ, "CLAUDE_CODE_SESSION_ID": "5d 1"},
        )  # fmt: skip
        call["arguments"]["content"] += ", "
    with memplane.open(home) as plane:
        sessions = [event.session for event in plane.events(kind="fact")]
    assert sessions == ["5d%201", "mine"]
