"""Which plane a server serves: the one that the hooks of the same agent use, or none, in words."""

import json
import os
import subprocess
import sys

import pytest

import memplane
from memplane.wiring import init

INFO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "p", "version": "1"},
}
OPENING = (
    {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INFO},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
)
STORING = {"name": "memory_store", "arguments": {"content": "Herons stay", "type": "fact"}}


@pytest.fixture
def user(tmp_path):
    folder = tmp_path / "user"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "work" / "project" / "src"
    folder.mkdir(parents=True)
    return folder


def store(user, folder, *options, before="", said="", **environment):
    """Start a server in a folder, store one fact; give back whether it was refused, and the words.

    `said`: a part of what the person is told on stderr, where that is anything.
    """
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": STORING}
    words = [sys.executable, "-m", "memplane", "mcp", *options]
    if before:
        words = ["sh", "-c", f'{before}; exec "$@"', "sh", *words]
    ran = subprocess.run(
        words, cwd=folder, env={**os.environ, "HOME": str(user), **environment}, text=True,
        capture_output=True, input="\n".join(json.dumps(one) for one in (*OPENING, call)),
        check=True,
    )  # fmt: skip
    assert (said in ran.stderr and ran.stderr.count("\n") == 1) if said else ran.stderr == ""
    answers = {one["id"]: one for one in map(json.loads, ran.stdout.splitlines()) if "id" in one}
    result = answers[1]["result"]
    return result.get("isError", False), result["content"][0]["text"]


def facts(home):
    with memplane.open(home, environment={}) as plane:
        return [event.text for event in plane.events(kind="fact")]


def test_where_a_project_has_no_plane_the_users_own_is_served(user, project):
    init(user / ".memplane").close()
    assert not store(user, project)[0]
    assert facts(user / ".memplane") == ["Herons stay"]
    assert not list(project.iterdir())


def test_a_projects_plane_goes_before_the_users_and_a_named_one_before_both(
    user, project, tmp_path
):
    for home in (user / ".memplane", project.parent / ".memplane", tmp_path / "named"):
        init(home).close()
    assert not store(user, project)[0]
    assert facts(project.parent / ".memplane") == ["Herons stay"]
    assert not store(user, project, MEMPLANE_HOME=str(tmp_path / "named"))[0]
    assert facts(tmp_path / "named") == ["Herons stay"]
    assert facts(user / ".memplane") == []


def test_a_projects_plane_that_is_not_trusted_is_passed_over(user, project):
    home = project.parent / ".memplane"
    init(home, trusted=False).close()
    before = {path: path.lstat().st_mtime_ns for path in (home, *home.rglob("*"))}
    refused, words = store(user, project, said=f"memplane trust {home}")
    assert refused
    assert f"memplane trust {home}" in words
    init(user / ".memplane").close()
    assert not store(user, project, said=f"{user / '.memplane'} is served")[0]
    assert facts(user / ".memplane") == ["Herons stay"]
    assert {path: path.lstat().st_mtime_ns for path in (home, *home.rglob("*"))} == before


def test_the_project_that_a_client_names_goes_before_the_folder(user, project, tmp_path):
    init(project.parent / ".memplane").close()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert not store(user, elsewhere, CLAUDE_PROJECT_DIR=str(project))[0]
    assert facts(project.parent / ".memplane") == ["Herons stay"]


def test_without_any_plane_a_tool_says_what_makes_one_and_nothing_is_made(user, project):
    refused, words = store(user, project)
    assert refused
    assert words == (
        f"no plane in {project} or above, and no .memplane in {user}; `memplane init` makes one "
        "for a project, `memplane install claude-code` or `memplane install codex` one for every "
        "project; it is used from then on"
    )
    assert not [*project.iterdir(), *user.iterdir()]


def test_init_makes_the_users_own_where_none_is_named_or_found(user, project):
    assert not store(user, project, "--init")[0]
    assert facts(user / ".memplane") == ["Herons stay"]
    assert not list(project.iterdir())


def test_a_server_whose_folder_is_gone_serves_the_users_own(user, project):
    init(user / ".memplane").close()
    assert not store(user, project, before='rmdir "$PWD"')[0]
    assert facts(user / ".memplane") == ["Herons stay"]


def test_a_hook_and_a_server_started_in_the_same_folder_use_the_same_plane(user, project):
    init(user / ".memplane").close()
    store(user, project)
    said = {
        "hook_event_name": "UserPromptSubmit",
        "session_id": "s1",
        "cwd": str(project),
        "prompt": "which bird?",
    }
    subprocess.run(
        [sys.executable, "-m", "memplane", "hook", "codex"], cwd=project, check=True, text=True,
        env={**os.environ, "HOME": str(user)}, input=json.dumps(said), capture_output=True,
    )  # fmt: skip
    with memplane.open(user / ".memplane", environment={}) as plane:
        texts = [event.text for event in plane.events() if event.kind in ("fact", "message")]
    assert texts == ["Herons stay", "which bird?"]
