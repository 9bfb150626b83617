"""An agent's client that breaks every habit, on a machine that lacks something.

Who attacks: the program that runs the hook, and the machine it runs on. What they control: every
byte on stdin, the pipes, the environment, the folder, what the process may use, the plane's state.

What is promised: `memplane hook` ends with 0, says nothing on stderr, and prints JSON that its
client takes, or nothing. What it acknowledged before is there. See also tests/hook.
"""

import json
import os
import resource
import shutil
import signal
from pathlib import Path

import pytest
from process_commands import HUNG, fresh

import memplane

AGENTS = ("claude-code", "codex")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A plane with something to answer with."""
    home = tmp_path_factory.mktemp("made") / "work" / ".memplane"
    with memplane.init(home) as plane:
        plane.record("The herons nest at the lake", kind="decision", key="herons")
        plane.record_many({"text": f"turn {n} on herons", "session": "old"} for n in range(80))
        plane.upkeep.rebuild()
        plane.upkeep.index()
    return home


@pytest.fixture
def home(made, tmp_path):
    return shutil.copytree(made, tmp_path / "work" / ".memplane")


def environment(home, **more):
    usual = {
        "PATH": os.environ["PATH"], "HOME": str(home.parent), "MEMPLANE_HOME": str(home),
        "XDG_STATE_HOME": str(home.parent / "state"),
    }  # fmt: skip
    return {name: value for name, value in {**usual, **more}.items() if value is not None}


def events(home):
    """What clients say, in the order of a session."""
    usual = {"session_id": "s1", "cwd": str(home.parent)}
    call = {"tool_name": "Bash", "tool_use_id": "u1", "tool_input": {"command": "ls"}}
    return [
        {**usual, "hook_event_name": "SessionStart", "source": "startup"},
        {**usual, "hook_event_name": "UserPromptSubmit", "prompt": "herons?", "prompt_id": "p1"},
        {**usual, "hook_event_name": "PostToolUse", "tool_response": {"stdout": "x"}, **call},
        {**usual, "hook_event_name": "Stop", "last_assistant_message": "done"},
        {**usual, "hook_event_name": "SessionEnd", "reason": "exit"},
    ]


def wrong(ran):
    """What a hook owes its client and did not do."""
    found = []
    if ran.code != 0:
        found.append("it hung" if ran.code == HUNG else f"exit code {ran.code}")
    if ran.err:
        found.append(f"stderr: {ran.err[-600:]}")
    if ran.out:
        try:
            assert isinstance(json.loads(ran.out), dict)
        except (ValueError, AssertionError):
            found.append(f"stdout: {ran.out[:200]}")
    return found


def whole(home):
    """What is wrong with a plane that was not damaged by the test."""
    with memplane.open(home, environment={}) as plane:
        plane.flush()
        return [str(one) for one in plane.upkeep.verify(deep=True).problems]


# Fields of wrong types

FIELDS = (
    "hook_event_name", "session_id", "cwd", "source", "prompt", "prompt_id", "tool_name",
    "tool_input", "tool_response", "tool_use_id", "last_assistant_message", "reason",
    "transcript_path", "agent_id", "turn_id",
)  # fmt: skip
VALUES = (
    None, True, -1, 10**400, 1.5e308, "", "\ud800\x00\u202e", "x" * 300_000, "../../x", [],
    [["a", {"b": [None]}]], {}, {"type": "text", "text": {"a": 1}}, [{"type": "text", "text": 5}] * 9,
)  # fmt: skip


def asked_wrongly(home):
    """Every field with every value, in every event that has it; one that lacks it has it too."""
    for field in FIELDS:
        for number, value in enumerate(VALUES):
            yield {**events(home)[number % 5], field: value}
    for event in events(home):
        for field in event:
            yield {key: value for key, value in event.items() if key != field}


RAW = {
    "empty": b"", "null": b"null", "a list": b"[]", "a BOM": b"\xef\xbb\xbf{}", "words": b"hello",
    "utf-16": '{"prompt":"x"}'.encode("utf-16"), "not utf-8": b'{"prompt":"\xff\xfe"}',
    "NaN": b'{"hook_event_name":"Stop","prompt":NaN}', "doubled": b'{"cwd":1,"cwd":"/","cwd":[]}',
    "deep": b'{"prompt":' + b"[" * 1_000_000, "deep and whole": b"[" * 99_000 + b"]" * 99_000,
    "two": b"{}{}", "zeros": bytes(100_000), "long number": b'{"prompt":' + b"9" * 100_000 + b"}",
    "large": b'{"prompt":"' + b"x" * (40 << 20) + b'"}',
}  # fmt: skip


def run_all(forks, home, many):
    """Run hooks, with agents in turn; what was wrong."""
    broken = []
    for number, said in enumerate(many):
        data = said if isinstance(said, bytes) else json.dumps(said).encode()
        ran = forks("hook", AGENTS[number % 2], cwd=home.parent, env=environment(home), stdin=data)
        broken += [f"{data[:200]}: {one}" for one in wrong(ran)]
    return broken


def test_a_client_may_say_anything(forks, home):
    few = [*asked_wrongly(home)][::16]
    assert run_all(forks, home, [*few, *list(RAW.values())[:-1:4]]) == []
    assert whole(home) == []


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_client_may_say_anything_in_any_field(forks, home):
    many = [*asked_wrongly(home), *RAW.values()]
    assert len(many) > 200
    assert run_all(forks, home, many) == []
    assert whole(home) == []


# What a process lacks


def limited(which, most):
    return lambda: resource.setrlimit(which, (most, most))


def closed(*numbers):
    return lambda: [os.close(number) for number in numbers]


def full(number):
    def prepared():
        os.dup2(os.open("/dev/full", os.O_RDWR), number)

    return prepared


def ignored():
    for name in ("SIGPIPE", "SIGALRM", "SIGTERM", "SIGINT", "SIGHUP", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)


# Below these Python itself does not start, and nothing of memplane is run.
LACKS = {
    "stdin": closed(0), "stdout": closed(1), "stderr": closed(2), "all pipes": closed(0, 1, 2),
    "room on stdout": full(1), "room on stderr": full(2), "signals": ignored,
    "files of any size": limited(resource.RLIMIT_FSIZE, 0),
    "files beyond 1,000 bytes": limited(resource.RLIMIT_FSIZE, 1000),
    "files beyond 20,000 bytes": limited(resource.RLIMIT_FSIZE, 20_000),
    "descriptors but 5": limited(resource.RLIMIT_NOFILE, 5),
    "descriptors but 7": limited(resource.RLIMIT_NOFILE, 7),
    "descriptors but 9": limited(resource.RLIMIT_NOFILE, 9),
    "memory": limited(resource.RLIMIT_AS, 160 << 20),
    "much memory": limited(resource.RLIMIT_AS, 60 << 20),
    "stack": limited(resource.RLIMIT_STACK, 256 << 10),
    "processes": limited(resource.RLIMIT_NPROC, 1),
    "a folder": lambda: (Path("gone").mkdir(), os.chdir("gone"), Path("../gone").rmdir()),
    "a umask": lambda: os.umask(0o777),
}  # fmt: skip
LONG = "/" + "x" * 5000
VARIABLES = {
    "no HOME": {"HOME": None}, "HOME nowhere": {"HOME": "/nowhere"}, "HOME empty": {"HOME": ""},
    "HOME long": {"HOME": LONG}, "no PATH": {"PATH": None}, "a plane nowhere": {"MEMPLANE_HOME": "/nowhere/x"},
    "a plane that is a file": {"MEMPLANE_HOME": "/dev/null"}, "a plane in /": {"MEMPLANE_HOME": "/"},
    "a plane in /proc": {"MEMPLANE_HOME": "/proc/self"}, "a long plane": {"MEMPLANE_HOME": LONG},
    "a project nowhere": {"MEMPLANE_HOME": None, "CLAUDE_PROJECT_DIR": "/nowhere"},
    "a relative project": {"MEMPLANE_HOME": None, "CLAUDE_PROJECT_DIR": "../../.."},
    "a long project": {"MEMPLANE_HOME": None, "CLAUDE_PROJECT_DIR": LONG},
    "no state": {"XDG_STATE_HOME": None}, "state in a file": {"XDG_STATE_HOME": "/dev/null"},
    "state nowhere": {"XDG_STATE_HOME": "/proc/nowhere"}, "relative state": {"XDG_STATE_HOME": "x"},
    "an odd locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"},
    "a policy in a variable": {"MEMPLANE_PLANE__HOOKS__WAIT_MS": "soon"},
    "warnings as errors": {"PYTHONWARNINGS": "error"}, "a cut session": {"CLAUDE_CODE_SESSION_ID": "\x01"},
}  # fmt: skip


def lacking(home, name, numbers):
    """Run events of a session where something is lacking; what was wrong."""
    broken = []
    for number in numbers:
        ran = fresh(
            "hook", AGENTS[number % 2], cwd=home.parent, prepared=LACKS.get(name),
            env=environment(home, **VARIABLES.get(name, {})),
            stdin=json.dumps(events(home)[number]).encode(),
        )  # fmt: skip
        broken += [f"without {name}, event {number}: {one}" for one in wrong(ran)]
    return broken + [f"without {name}: {one}" for one in whole(home)]


@pytest.mark.parametrize("name", ["all pipes", "descriptors but 7"])
def test_a_hook_that_lacks_something_harms_nobody(home, name):
    assert lacking(home, name, [1]) == []


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", [*LACKS, *VARIABLES])
def test_a_hook_that_lacks_anything_harms_nobody(home, name):
    assert lacking(home, name, range(5)) == []
