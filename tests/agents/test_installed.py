"""The agents themselves read what `memplane install` wrote, and accept the plugin.

MEMPLANE_CLAUDE and MEMPLANE_CODEX name the programs; without them they are looked for on PATH, and
Claude Code in the package claude-agent-sdk too.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
from process_clients import CLAUDE, CODEX, SCRIPT

from memplane.clients import AGENTS, Program

PLUGINS = Path(__file__).parents[2] / "plugins"
with_claude = pytest.mark.skipif(CLAUDE is None, reason="Claude Code is not here: MEMPLANE_CLAUDE")
with_codex = pytest.mark.skipif(CODEX is None, reason="Codex is not here: MEMPLANE_CODEX")


@pytest.fixture
def do(tmp_path):
    """Run a program as a person with an empty home, in a project below it."""
    project = tmp_path / "ann" / "project"
    project.mkdir(parents=True)
    environment = {
        "PATH": f"{SCRIPT.parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path / "ann"), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }  # fmt: skip

    def do(*argv, **more):
        done = subprocess.run(
            [str(one) for one in argv], cwd=project, env={**environment, **more}, text=True,
            capture_output=True, check=False, timeout=240, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    do.home = tmp_path / "ann"
    return do


@with_claude
@pytest.mark.parametrize("folder", [PLUGINS / "claude-code", PLUGINS])
def test_claude_code_accepts_the_plugin_and_the_marketplace(do, folder):
    assert "Validation passed" in do(CLAUDE, "plugin", "validate", "--strict", folder)


@with_claude
def test_claude_code_installs_the_plugin_and_reaches_its_server(do):
    do(SCRIPT, "init", do.home / ".memplane")
    do(CLAUDE, "plugin", "marketplace", "add", PLUGINS)
    do(CLAUDE, "plugin", "install", "memplane@memplane")
    assert "plugin:memplane:memplane: memplane mcp - ✔ Connected" in do(CLAUDE, "mcp", "list")


@with_claude
@pytest.mark.parametrize("moved", [False, True])
def test_claude_code_reaches_the_server_until_it_is_uninstalled(do, moved):
    more = {"CLAUDE_CONFIG_DIR": str(do.home / "moved")} if moved else {}
    do(SCRIPT, "install", "claude-code", "--user", **more)
    assert f"memplane: {SCRIPT} mcp - ✔ Connected" in do(CLAUDE, "mcp", "list", **more)
    servers = (do.home / "moved" if moved else do.home) / ".claude.json"
    written = json.loads(servers.read_bytes())  # by Claude Code too, meanwhile
    do(SCRIPT, "uninstall", "claude-code", **more)
    assert "memplane" not in do(CLAUDE, "mcp", "list", **more)
    del written["mcpServers"]
    left = json.loads(servers.read_bytes()) if servers.exists() else {}
    assert {key: left.get(key) for key in written} == written


@with_claude
def test_claude_code_sees_the_server_of_a_project_and_asks_before_it_runs(do):
    do(SCRIPT, "install", "claude-code", "--project")
    assert "memplane: memplane mcp - ⏸ Pending approval" in do(CLAUDE, "mcp", "list")


@with_codex
def test_codex_lists_the_server_until_it_is_uninstalled(do):
    do(CODEX, "mcp", "add", "other", "--", "/bin/true")
    config = do.home / ".codex" / "config.toml"
    before = config.read_bytes()
    do(SCRIPT, "install", "codex", "--user")
    listed = {one["name"]: one for one in json.loads(do(CODEX, "mcp", "list", "--json"))}
    assert listed["memplane"]["transport"]["command"] == str(SCRIPT)
    assert listed["memplane"]["transport"]["args"] == ["mcp"]
    do(SCRIPT, "uninstall", "codex")
    assert config.read_bytes() == before
    assert [one["name"] for one in json.loads(do(CODEX, "mcp", "list", "--json"))] == ["other"]


@with_codex
def test_codex_finds_every_hook_and_asks_before_it_runs_one(do):
    do(SCRIPT, "install", "codex", "--hooks")
    asked = {"clientInfo": {"name": "test", "title": "test", "version": "1"}}
    requests = [
        {"id": 1, "method": "initialize", "params": asked},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [str(do.home / "project")]}},
    ]
    with subprocess.Popen(
        [CODEX, "app-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL, env={"PATH": os.environ["PATH"], "HOME": str(do.home)},
    ) as server:  # fmt: skip
        server.stdin.write("".join(json.dumps(one) + "\n" for one in requests))
        server.stdin.flush()
        answers = map(json.loads, server.stdout)
        [found] = next(one for one in answers if one.get("id") == 2)["result"]["data"]
        server.terminate()
    assert (found["warnings"], found["errors"]) == ([], [])
    wanted = AGENTS["codex"].wanted(Program((str(SCRIPT),)))
    assert sorted((one["command"], one["timeoutSec"]) for one in found["hooks"]) == sorted(
        (one.handler["command"], one.handler["timeout"]) for one in wanted
    )
    assert {one["trustStatus"] for one in found["hooks"]} == {"untrusted"}


@with_codex
def test_codex_takes_our_server_out_as_its_own(do):
    """What Codex does to the file, we can still read: it writes the same form."""
    do(SCRIPT, "install", "codex", "--mcp")
    do(CODEX, "mcp", "remove", "memplane")
    assert json.loads(do(CODEX, "mcp", "list", "--json")) == []
    do(CODEX, "mcp", "add", "memplane", "--", SCRIPT, "mcp")
    before = (do.home / ".codex" / "config.toml").read_bytes()
    do(SCRIPT, "install", "codex", "--mcp")
    assert (do.home / ".codex" / "config.toml").read_bytes() == before
    do(SCRIPT, "uninstall", "codex")
    assert json.loads(do(CODEX, "mcp", "list", "--json")) == []
