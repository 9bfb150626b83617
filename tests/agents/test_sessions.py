"""Real clients, offline: what was said in one session is before the model in the next."""

import os
import subprocess

import pytest
from models import Model
from test_installed import CLAUDE, CODEX, SCRIPT, with_claude, with_codex

import memplane
from memplane.importers import import_paths

SAID = "The mast of the Albatros is made of spruce"
ASKED = "Which wood is the mast of the Albatros made of?"


@pytest.fixture
def person(tmp_path):
    """A person's home with a project in it, and how they run a program there."""
    home = tmp_path / "ann"
    project = home / "project"
    project.mkdir(parents=True)

    def run(*argv, **more):
        environment = {
            "PATH": f"{SCRIPT.parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(home),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "ANTHROPIC_API_KEY": "none",
            "ENABLE_TOOL_SEARCH": "false", "MCP_CONNECTION_NONBLOCKING": "false",
            "MCP_TIMEOUT": "60000", **more,
        }  # fmt: skip
        done = subprocess.run(
            [str(one) for one in argv], cwd=project, env=environment, text=True,
            capture_output=True, check=False, timeout=200, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run.home = home
    return run


@pytest.fixture
def model():
    model = Model()
    yield model
    model.close()


def words_of(plane, role):
    return [event.text for event in plane.events(kind="message") if event.role == role]


def imported_once(home, source, pattern):
    """The transcripts import, and say nothing that the hooks had recorded already."""
    with memplane.open(home / ".memplane", environment={}) as plane:
        before = words_of(plane, "user")
        files = sorted(home.rglob(pattern))
        assert len(files) == 2
        assert import_paths(plane, source, files).items
        assert words_of(plane, "user") == before
        assert plane.verify().ok


@with_claude
def test_claude_code_remembers_the_session_before(person, model):
    person(SCRIPT, "install", "claude-code", "--user")
    ask = [CLAUDE, "--allowedTools", "mcp__memplane", "-p"]
    person(*ask, SAID, ANTHROPIC_BASE_URL=model.url)
    with memplane.open(person.home / ".memplane", environment={}) as plane:
        assert words_of(plane, "user") == [SAID]
        assert words_of(plane, "assistant") == ["done"]
        plane.index()
    model.requests.clear()
    model.calls = [("mcp__memplane__memory_search", {"query": "Albatros"})]
    person(*ask, ASKED, ANTHROPIC_BASE_URL=model.url)
    assert any(SAID in text for text in model.seen())
    answers = [text for text in model.seen() if '"tool_result"' in text]
    assert any(SAID in text for text in answers)
    imported_once(person.home, "claude-code", "projects/**/*.jsonl")


@with_codex
def test_codex_remembers_the_session_before(person, model):
    codex = person.home / ".codex"
    codex.mkdir()
    (codex / "config.toml").write_text(
        'model = "mock"\nmodel_provider = "mock"\n[model_providers.mock]\nname = "mock"\n'
        f'base_url = "{model.url}/v1"\nwire_api = "responses"\n'
    )
    person(SCRIPT, "install", "codex", "--user", "--hooks")
    ask = [CODEX, "exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"]
    person(*ask, SAID)
    with memplane.open(person.home / ".memplane", environment={}) as plane:
        assert words_of(plane, "user") == [SAID]
        plane.index()
    model.requests.clear()
    person(*ask, ASKED)
    assert any(SAID in text for text in model.seen())
    imported_once(person.home, "codex", "sessions/**/*.jsonl")
