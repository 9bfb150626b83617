"""What an agent may put on stdin, and what may become of a hook's pipes: neither harms anybody.

Each call is held to `checks_calls.checked`: exit code 0, nothing on stderr, an answer that is JSON or none.
"""

import fcntl
import json
import os
import shutil
import signal
import struct
import subprocess
import termios
import time

import pytest
from checks_calls import (
    asked,
    checked,
    command,
    events_of,
    hook,
    said,
    surroundings,
    told,
    unhurried,
)
from hypothesis import given, settings, strategies as st

import memplane
from tests.examples import examples

MANY = 16 * 1024 * 1024


@pytest.mark.parametrize("data", [b"", b"garbage", b"[]", b'{"a":', b"\xff\xfe", b"null"])
def test_stdin_that_is_no_object_is_told_to_the_planes_own_log(fork, home, data):
    before = events_of(home)
    assert fork(home, data) == ""
    assert events_of(home) == before
    assert "stdin" in told(home)


@pytest.fixture(scope="module")
def standing(filled, tmp_path_factory):
    """A plane for many calls, which is not copied for each."""
    return shutil.copytree(filled, tmp_path_factory.mktemp("standing") / "work" / ".memplane")


fields = st.sampled_from(
    ["hook_event_name", "session_id", "cwd", "source", "prompt", "prompt_id", "tool_name",
     "tool_input", "tool_response", "tool_use_id", "last_assistant_message", "reason"]
)  # fmt: skip
events = st.sampled_from(
    ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "PostCompact", "SessionEnd"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40) | events,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
objects = st.tuples(st.dictionaries(fields, values, max_size=8), events).map(
    lambda pair: json.dumps({**pair[0], "hook_event_name": pair[1]}).encode()
)


cut = st.tuples(objects, st.integers(1, 80)).map(lambda pair: pair[0][: -pair[1]])


@settings(max_examples=examples(20))
@given(st.binary(max_size=60) | objects | cut)
def test_whatever_is_on_stdin_the_agent_goes_on(fork, standing, data):
    fork(standing, data)


def test_after_whatever_was_on_stdin_the_log_is_whole(fork, standing):
    for text in ("\ud800", "\x00", "a\u2028b", "\U0001f600" * 9, "memplane:begin", "x" * 70_000):
        fork(standing, asked(standing, text, session_id=text))
        fork(standing, said("PostToolUse", standing, tool_name=text, tool_response={"a": text}))
    fork(
        standing,
        b'{"hook_event_name":"PostToolUse","tool_response":' + b"[" * 90_000 + b"]" * 90_000 + b"}",
    )
    with memplane.open(standing, environment={}) as plane:
        assert plane.upkeep.verify(deep=True).ok


def test_a_prompt_of_five_megabytes_is_recorded_whole(home):
    prompt = "word " * 999_999 + "word!"
    hook(home, asked(home, prompt))
    answer = said("PostToolUse", home, tool_name="Bash", tool_response={"stdout": prompt[:-1]})
    hook(home, answer)
    found = events_of(home)
    assert [one.data["body"]["bytes"] for one in (found[0], found[2])] == [5_000_000, 4_999_999]
    assert told(home) == ""


def test_more_than_an_agent_can_mean_is_told_and_not_recorded(home):
    assert hook(home, json.dumps(asked(home, "w" * MANY)).encode()) == ""
    assert "more than" in told(home)
    assert events_of(home) == []


def begun(home, agent="claude-code", *, slowly=False, **more):
    """A hook whose stdin and end are the test's; `slowly`: its own timer does not end it."""
    slow = unhurried(home.parent / "slowly") if slowly else {}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command(agent), **{**pipes, **more}, **surroundings(home, **slow))


def test_a_hook_whose_stdin_is_never_closed_ends_by_itself(home):
    children = [begun(home), begun(home), begun(home, "codex")]
    children[1].stdin.write(json.dumps(asked(home)).encode())  # whole, but is it all?
    children[1].stdin.flush()
    for child in children:
        code = child.wait(60)
        checked(code, child.stdout.read(), child.stderr.read())
        for pipe in (child.stdin, child.stdout, child.stderr):
            pipe.close()
    assert events_of(home) == []
    assert told(home).count("ended after") == len(children)


def broken_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize(
    "stdout", [broken_pipe, lambda: os.open("/dev/full", os.O_WRONLY)], ids=["broken", "full"]
)
def test_where_nobody_takes_the_answer_the_prompt_is_recorded_all_the_same(home, stdout):
    descriptor = stdout()
    with begun(home, stdout=descriptor) as child:
        os.close(descriptor)
        _, err = child.communicate(json.dumps(asked(home)).encode())
    checked(child.returncode, b"", err)
    assert [one.text for one in events_of(home)] == [asked(home)["prompt"]]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_hook_without_one_of_its_pipes_does_no_harm(home, number):
    hook(home, asked(home), before=lambda: os.close(number))
    assert len(events_of(home)) == (number != 0)


def unread(pipe):
    """How many bytes lie in a pipe."""
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_in_the_middle_loses_nothing_that_was_there_and_says_nothing(home, name):
    number = getattr(signal, name)
    before = signal.signal(number, signal.SIG_DFL)  # `nohup` has children ignore SIGHUP
    try:
        started = begun(home, slowly=True)
    finally:
        signal.signal(number, before)
    with started as child:
        child.stdin.write(json.dumps(asked(home)).encode())
        child.stdin.flush()
        while unread(child.stdin) and child.poll() is None:
            time.sleep(0.01)
        child.send_signal(number)  # it has read all and waits for the end
        out, err = child.communicate()
    assert (out, err) == (b"", b"")
    assert events_of(home) == []
    assert not list(home.rglob("*.tmp"))


@pytest.mark.parametrize("many", [6, pytest.param(60, marks=pytest.mark.long)])
def test_a_hook_that_is_killed_at_any_moment_leaves_a_plane_for_the_next(home, many):
    prompts = [f"the cursor of the ledger, {number}" for number in range(many)]
    for number, prompt in enumerate(prompts):
        with begun(home) as child:
            child.stdin.write(json.dumps(asked(home, prompt, prompt_id=f"p{number}")).encode())
            child.stdin.close()
            time.sleep(0.2 * number / many)
            child.send_signal(signal.SIGKILL if number % 2 else signal.SIGTERM)
    texts = [one.text for one in events_of(home)]
    assert texts == [prompt for prompt in prompts if prompt in texts]
    hook(home, asked(home, "and now?", prompt_id="last"))
    assert [one.text for one in events_of(home)] == [*texts, "and now?"]
