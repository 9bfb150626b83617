"""Every command is documented by its own help, and what the help shows works."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest
import typer

import memplane
from memplane.cli.app import app
from memplane.cli.commands import COMMANDS as MODULES, GROUPS, load_command
from memplane.cli.run import run_command_line as run_here

READING = {
    "": [],
    "pack": ["which database?", "--no-report"],
    "search": ["which database"],
    "show": ["2"],
    "get": ["db.engine"],
    "keys": [],
    "history": ["db.engine"],
    "log": [],
    "expand": ["session/s1?depth=2"],
    "decisions": [],
    "artifact list": [],
    "session list": [],
    "session show": ["s1"],
    "task list": [],
    "stats": [],
    "verify": [],
    "policy check": [],
}
WITH_CHANNEL = [
    "pack",
    "search",
    "show",
    "get",
    "keys",
    "history",
    "log",
    "expand",
    "decisions",
    "artifact list",
    "session list",
    "session show",
    "task list",
]


def commands():
    load_command("")
    root = typer.main.get_command(app)
    for name, one in root.commands.items():
        if name in GROUPS:
            yield from ((f"{name} {sub}", each) for sub, each in one.commands.items())
        else:
            yield name, one


COMMANDS = dict(commands())


def test_the_tree_holds_the_commands_that_help_puts_in_order():
    assert sorted({name.split()[0] for name in COMMANDS}) == sorted(MODULES)
    assert callable(run_here)


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_every_command_has_home_json_and_help_with_an_example(run, name):
    done = run(*name.split(), "--help")
    assert done.code == 0
    assert done.err == ""
    for said in ("--home", "--json", "--help", "Example:\n    memplane"):
        assert said in done.out
    assert "[[" not in done.out
    assert max(map(len, done.out.splitlines())) <= 100


@pytest.mark.parametrize("name", COMMANDS)
def test_every_parameter_says_what_it_is_for(name):
    for parameter in COMMANDS[name].params:
        assert parameter.help, parameter.name


def parted(run, user, monkeypatch):
    """The user's own plane, with two projects and a session that is nobody's."""
    home = user / ".memplane"
    with memplane.init(home) as plane:
        said = {"status": "start", "folder": "other"}
        plane.record("", kind="session", session="s1", tags=["hook"], data=said)
        said = {"status": "start", "folder": "app"}
        plane.record("", kind="session", session="s2", tags=["hook"], data=said)
    for folder in ("web", "app"):
        (user / folder).mkdir()
        monkeypatch.chdir(user / folder)
        run("record", "begun", "--home", home)
    monkeypatch.chdir(user)
    return home


def with_token(run, name, top, monkeypatch):
    """A file of tokens of this example's own, with one to remove."""
    monkeypatch.setenv("XDG_STATE_HOME", str(top / "state"))
    if name == "token remove":
        run("token", "add", "ci", "--agent", "builder")


# These two end or outlive the process: tests of their own run their examples.
@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("hook", "serve")])
def test_every_example_does_what_it_shows(run, filled, tmp_path, monkeypatch, name):
    transcripts = tmp_path / ".claude" / "projects"
    transcripts.mkdir(parents=True)
    (tmp_path / "Shared" / "memory").mkdir(parents=True)
    (transcripts / "empty.jsonl").touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)  # what an example writes, it writes here
    filled = parted(run, tmp_path, monkeypatch) if name.startswith("projects ") else filled
    filled = tmp_path / "new" if name == "demo" else filled
    argv = [re.sub("^~", str(tmp_path), word) for word in shlex.split(example_of(name))]
    assert argv[: len(name.split())] == name.split()
    if name.startswith("task ") and name != "task open":
        run("task", "open", "parser", "goal", "--plan", "write tests", "--home", filled)
    with_token(run, name, tmp_path, monkeypatch)
    if name.startswith("artifact "):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "report.md").write_text("# Herons\n")
        if name != "artifact add":
            run("artifact", "add", "report.md", "--home", filled)
        if name == "artifact revoke":
            run("artifact", "approve", "report.md", "--home", filled)
    if name == "eval":
        row = {"conversation_id": "c", "event_id": "1", "text": "a mast of spruce"}
        asks = {"question_id": "q", "question": "of what?", "evidence_event_ids": ["1"]}
        (tmp_path / "events.jsonl").write_text(json.dumps(row))
        (tmp_path / "questions.jsonl").write_text(json.dumps({**row, **asks}))
        monkeypatch.chdir(tmp_path)
    if name == "embed":
        monkeypatch.setenv("MEMPLANE_PLANE__INDEX__EMBEDDER", "static")
    if name in ("replay", "why"):
        run("pack", "which database do we use?", "--home", filled)
    if name == "scenario run":
        monkeypatch.chdir(tmp_path)
        (tmp_path / "scenarios").mkdir()
        text = "version: 1\nscenario: a\nwhen: [pack: a]\nassertions: [acb_max_tokens: 4000]\n"
        (tmp_path / "scenarios" / "a.yaml").write_text(text)
    if name in ("policy log", "policy diff", "policy replay"):
        for words in (
            "init -q",
            *("-c user.name=a -c user.email=a@b commit -qm a --allow-empty",) * 2,
        ):
            subprocess.run(["git", "-C", filled, *words.split()], check=True)
    if name == "unforget":
        run("forget", "db.engine", "--home", filled)
    if name == "restore":
        run("export", tmp_path / "plane.jsonl", "--home", filled)
    assert run(*argv, "--home", filled)[0] == 0


def example_of(name):
    return re.search(r"Example:\n\s+memplane (.*)", COMMANDS[name].epilog)[1]


@pytest.mark.parametrize("before", ["", "--home {home} --json"])
def test_the_example_of_a_hook_does_what_it_shows(filled, tmp_path, before):
    """In a process of its own: it ends the one that it runs in."""
    told = {"hook_event_name": "SessionStart", "source": "startup", "session_id": "new"}
    (tmp_path / "event.json").write_text(json.dumps(told))
    words = f"{sys.executable} -m memplane {before.format(home=filled)} {example_of('hook')}"
    done = subprocess.run(
        ["sh", "-c", words], cwd=tmp_path, capture_output=True, check=False,
        env={**os.environ, "MEMPLANE_HOME": str(filled)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    answer = json.loads(done.stdout)["hookSpecificOutput"]
    assert answer["hookEventName"] == "SessionStart"
    assert "We move to SQLite" in answer["additionalContext"]


def test_the_help_of_a_hook_says_what_it_records_and_where_its_faults_are(run):
    said = " ".join(run("hook", "--help").out.split())
    for words in (
        "prompts, tool calls and their results", "claude-code or codex", "hooks.log", "--catch-up",
        "ends with 0 whatever happens", "policies/plane.yaml", "~/.memplane", "the spool",
    ):  # fmt: skip
        assert words in said
    assert "  hook " in run("--help").out


@pytest.mark.parametrize("name", READING)
def test_json_of_every_reading_command_is_one_value_and_nothing_else(run, filled, name):
    done = run(*name.split(), *READING[name], "--home", filled, "--json")
    assert done.code == 0
    assert done.out.count("\n") == 1
    json.loads(done.out)


@pytest.mark.parametrize("name", READING)
def test_reading_never_changes_the_log(run, filled, stored, name):
    before = stored(filled)
    run(*name.split(), *READING[name], "--home", filled)
    assert stored(filled) == before


@pytest.mark.parametrize("name", WITH_CHANNEL)
def test_every_reading_command_takes_a_channel(run, filled, name):
    done = run(*name.split(), *READING[name], "--home", filled, "--channel", "team")
    assert (done.code, done.err.startswith("memplane: No such option")) == (0, False)


def test_home_and_json_may_stand_before_the_command_too(run, filled):
    for before in (["--home", filled], [f"--home={filled}", "--json"]):
        first = run(*before, "get", "db.engine")
        last = run("get", "db.engine", *before)
        assert (first.code, first.out) == (0, last.out)
    assert run("--home", filled, "policy", "check").code == 0
    assert run("--version", "get", "db.engine").code == 2
