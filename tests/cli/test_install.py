"""`install` and `uninstall` on the command line: what goes where, what is said, and no more."""

import json
import os
import stat
import sys
import tomllib
from itertools import permutations
from pathlib import Path

import pytest
from builders_people import THEIRS, fill, names, paths, tree, without_state
from checks_refusals import refused

AGENTS = ("claude-code", "codex")
SCOPES = ("--user", "--project")


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("scope", SCOPES)
def test_it_goes_into_settings_that_are_there_and_out_to_the_byte(run, person, agent, scope):
    hooks, servers = fill(person, agent, scope)
    before = tree(person)
    done = run("install", agent, scope)
    assert done.code == 0
    backups = [path for path in person.rglob("*.memplane-backup-1") if path.is_file()]
    assert len(backups) == 2
    for path in (hooks, servers):
        assert f"{path}: changed; what it was is in " in done.out
        assert f"{path.name}.memplane-backup-1\n" in done.out
        assert b"memplane" in path.read_bytes()
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
    for copy in backups:
        assert "memplane-backup" not in copy.read_text()
        assert b"model" in copy.read_bytes()
    after = tree(person)
    again = run("install", agent, scope)
    assert (again.code, again.out.count("as it was")) == (0, 4)
    assert tree(person) == after
    done = run("uninstall", agent, scope)
    assert (done.code, done.err, done.out.count(": restored\n")) == (0, "", 2)
    assert done.out.count(": deleted\n") == 1
    assert without_state(tree(person)) == before


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("scope", SCOPES)
def test_where_there_was_nothing_there_is_nothing_again(run, person, agent, scope):
    before = tree(person)
    assert run("install", agent, scope).out.count(": created\n") == 3
    hooks, servers = paths(person, agent, scope)
    assert "SessionStart" in json.loads(hooks.read_bytes())["hooks"]
    read = tomllib.loads if agent == "codex" else json.loads
    assert "memplane" in next(iter(read(servers.read_text()).values()))
    private = 0o600 if scope == "--user" else 0o666 & ~umask()
    assert stat.S_IMODE(hooks.stat().st_mode) == private
    assert run("uninstall", agent).out.count(": deleted\n") == 3
    assert without_state(tree(person)) == before


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("order", [*permutations(["--hooks", "--mcp", "--skill"])])
def test_the_parts_may_come_and_go_one_by_one_in_any_order(run, person, agent, order):
    before = tree(person)
    for part in order:
        run("install", agent, part)
    for part in (order[1], order[2], order[0]):
        run("uninstall", agent, part)
    assert without_state(tree(person)) == before


def umask():
    now = os.umask(0)
    os.umask(now)
    return now


def test_claude_code_gets_its_hooks_word_for_word_and_one_in_the_background(run, person):
    run("install", "claude-code", "--hooks")
    hooks, servers = paths(person, "claude-code", "--user")
    assert not servers.exists()
    script = str(Path(sys.executable).with_name("memplane"))
    events = json.loads(hooks.read_bytes())["hooks"]
    assert [*events] == [
        "SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop",
        "PostCompact", "SessionEnd",
    ]  # fmt: skip
    plain = {"type": "command", "command": script, "args": ["hook", "claude-code"], "timeout": 5}
    for event in ("PostToolUse", "PostToolUseFailure"):
        assert events[event] == [{"matcher": "*", "hooks": [plain]}]
    background = {**plain, "args": ["hook", "claude-code", "--catch-up"], "timeout": 60}
    assert events["Stop"] == [{"hooks": [plain, {**background, "async": True}]}]
    assert events["SessionEnd"][0]["hooks"][0]["timeout"] <= 1.5


def test_codex_gets_its_hooks_for_a_shell_and_says_that_it_will_ask(run, person, tmp_path):
    done = run("install", "codex", "--home", tmp_path / "a plane")
    assert "start codex and see /hooks" in done.err
    hooks, servers = paths(person, "codex", "--user")
    script = str(Path(sys.executable).with_name("memplane"))
    events = json.loads(hooks.read_bytes())["hooks"]
    said = f"{script} hook codex --catch-up --home '{tmp_path / 'a plane'}'"
    assert events["Stop"][0]["hooks"][1] == {"type": "command", "command": said, "timeout": 10}
    assert tomllib.loads(servers.read_text())["mcp_servers"]["memplane"] == {
        "command": script, "args": ["mcp", "--home", str(tmp_path / "a plane")],
    }  # fmt: skip
    assert (tmp_path / "a plane" / "plane.json").exists()
    assert not (person / ".memplane").exists()


def test_what_the_user_set_for_the_agent_moves_the_files(run, person, monkeypatch):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(person / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(person / "codex"))
    monkeypatch.setenv("XDG_STATE_HOME", str(person / "state"))
    run("install", "claude-code")
    run("install", "codex")
    assert names(person / "claude") == {"settings.json", ".claude.json", "skills"}
    assert names(person / "codex") == {"hooks.json", "config.toml", "AGENTS.md"}
    assert len(names(person / "state" / "memplane" / "clients")) == 6
    assert not (person / ".claude").exists()
    run("uninstall", "claude-code")
    run("uninstall", "codex")
    assert not (person / "claude").exists()
    assert names(person / "state") == set()


def test_an_older_claude_code_keeps_its_servers_elsewhere(run, person):
    older = person / ".claude" / ".config.json"
    older.parent.mkdir()
    older.write_text("{}")
    run("install", "claude-code", "--mcp")
    assert "memplane" in json.loads(older.read_bytes())["mcpServers"]


@pytest.mark.parametrize(
    ("scope", "place"), [("--user", ".memplane"), ("--project", "project/.memplane")]
)
def test_it_makes_the_plane_that_will_be_used_and_uninstall_leaves_it(run, person, scope, place):
    done = run("install", "claude-code", scope, "--json")
    assert json.loads(done.out)["plane"] == {"path": str(person / place), "made": True}
    assert (person / place / "plane.json").exists()
    assert json.loads(run("install", "claude-code", scope, "--json").out)["plane"]["made"] is False
    run("uninstall", "claude-code")
    assert (person / place / "plane.json").exists()


def test_a_project_below_the_users_plane_gets_one_of_its_own(run, person):
    run("install", "claude-code", "--user")
    done = run("install", "claude-code", "--project")
    assert (person / "project" / ".memplane" / "plane.json").exists()
    assert "it is installed with --user too; hooks would run twice" in done.err


@pytest.mark.parametrize("agent", AGENTS)
def test_a_dry_run_shows_the_change_and_makes_none(run, person, agent):
    hooks, servers = fill(person, agent, "--user")
    before = tree(person)
    done = run("install", agent, "--dry-run")
    assert done.code == 0
    for path in (hooks, servers):
        assert f"--- {path}\n+++ {path}\n" in done.out
    assert "\\ No newline at end of file" in done.out
    assert tree(person) == before
    assert not (person / ".memplane").exists()
    run("install", agent)
    before = tree(person)
    files_of = json.loads(run("uninstall", agent, "--user", "--dry-run", "--json").out)["files"]
    assert [one["did"] for one in files_of] == ["deleted", "changed", "changed"]
    assert all("-" in one["diff"] for one in files_of)
    assert tree(person) == before


@pytest.mark.parametrize("flags", [(), ("--json",), ("--dry-run",), ("--dry-run", "--json")])
def test_a_secret_beside_our_entry_is_not_shown(run, person, flags):
    key = "sk-ant-" + "api03-" + "Zk3" * 20
    _, servers = paths(person, "claude-code", "--user")
    servers.write_text(
        json.dumps({"mcpServers": {"a": {"command": "x", "env": {"KEY": key}}}}, indent=1)
    )
    for word in ("install", "uninstall"):
        done = run(word, "claude-code", *flags)
        assert (done.code, key in done.out + done.err) == (0, False)
        assert "--dry-run" in flags or (key in servers.read_text())


def test_from_what_was_edited_since_only_ours_go_and_that_is_kept(run, person):
    hooks, _ = fill(person, "claude-code", "--user")
    run("install", "claude-code")
    value = json.loads(hooks.read_bytes())
    value["hooks"]["Stop"].insert(0, {"hooks": [{"command": "mine"}]})
    value["hooks"]["SessionStart"][0]["hooks"][0]["timeout"] = 30
    value["hooks"] = dict(reversed(value["hooks"].items()))
    hooks.write_text(json.dumps(value))
    done = run("uninstall", "claude-code")
    assert f"{hooks}: removed; what it was is in settings.json.memplane-backup-2" in done.out
    theirs = json.loads(THEIRS)["hooks"]["Stop"]
    assert json.loads(hooks.read_bytes()) == {
        "model": "opus", "hooks": {"Stop": [{"hooks": [{"command": "mine"}]}, *theirs]},
    }  # fmt: skip


def test_ours_go_without_the_record_of_the_install_too(run, person):
    """As in a project that somebody else installed it in."""
    fill(person, "claude-code", "--project")
    run("install", "claude-code", "--project")
    for file in (person / ".local" / "state" / "memplane" / "clients").glob("*.json"):
        file.write_text("{}")
    assert run("uninstall", "claude-code").out.count(": removed") == 2
    hooks, servers = paths(person, "claude-code", "--project")
    value = json.loads(hooks.read_bytes())
    assert value["hooks"].pop("Stop") == json.loads(THEIRS)["hooks"]["Stop"]
    assert not any(value["hooks"].values())
    assert "memplane" not in json.loads(servers.read_bytes())["mcpServers"]


def test_a_copy_that_moved_is_found_again(run, person):
    hooks, _ = fill(person, "claude-code", "--user")
    before = hooks.read_bytes()
    run("install", "claude-code", "--hooks")
    script = str(Path(sys.executable).with_name("memplane"))
    hooks.write_bytes(hooks.read_bytes().replace(script.encode(), b"/gone/bin/memplane"))
    assert ": changed" in run("install", "claude-code", "--hooks").out
    assert b"/gone" not in hooks.read_bytes()
    run("uninstall", "claude-code")
    assert hooks.read_bytes() == before


def test_ours_on_one_line_is_left_as_it_is_and_uninstall_says_so(run, person):
    _, servers = paths(person, "codex", "--user")
    servers.parent.mkdir()
    script = Path(sys.executable).with_name("memplane")
    text = f'mcp_servers = {{ memplane = {{ command = "{script}", args = ["mcp"] }} }}'
    servers.write_text(text)
    assert f"{servers}: as it was" in run("install", "codex", "--mcp").out
    refused(run("uninstall", "codex", "--mcp"), 2, "mcp_servers: is written in a way that")
    assert servers.read_text() == text


def test_without_the_extra_only_the_hooks_go_in(run, person, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    done = run("install", "claude-code")
    assert done.code == 0
    assert "without the MCP server, which needs: pip install 'memplane[mcp]'" in done.err
    assert not (person / ".claude.json").exists()
    refused(run("install", "codex", "--mcp"), 3, "pip install 'memplane[mcp]'")


def test_shared_settings_have_the_name_that_path_finds_outside_of_an_environment(
    run, person, monkeypatch
):
    folder = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    hooks, _ = paths(person, "claude-code", "--project")
    run("install", "claude-code", "--project")
    found = json.loads(hooks.read_bytes())["hooks"]["SessionStart"][0]["hooks"][0]
    assert found["command"] == "memplane"
    monkeypatch.setenv("VIRTUAL_ENV", str(folder.parent))
    done = run("install", "claude-code", "--project")
    assert "is a path of this machine; do not share these settings" in done.err
    found = json.loads(hooks.read_bytes())["hooks"]["SessionStart"][0]["hooks"][0]
    assert found["command"] == str(folder / "memplane")


@pytest.mark.parametrize(
    ("agent", "place", "text"),
    [
        ("claude-code", ".claude/settings.json", '{"disableAllHooks": true}'),
        ("codex", ".codex/config.toml", "[features]\nhooks = false\n"),
    ],
)
def test_hooks_that_are_switched_off_are_said_to_be(run, person, agent, place, text):
    (person / place).parent.mkdir()
    (person / place).write_text(text)
    assert "runs no hooks now: " in run("install", agent, "--hooks").err


def test_what_was_not_installed_is_said_and_no_error(run, person):
    done = run("uninstall", "codex")
    assert (done.code, done.err) == (0, "memplane: was not installed for Codex\n")
    refused(run("install", "cursor"), 2, "'cursor'")
    refused(run("install", "codex", "--user", "--project"), 2, "found both")
