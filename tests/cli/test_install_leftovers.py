"""What an install leaves beside its entries, and what an uninstall leaves: no more than it says."""

import json
import sys
from pathlib import Path

import pytest
from builders_people import fill, names, paths, tree, without_state

from memplane.clients import settings_files

SCRIPT = str(Path(sys.executable).with_name("memplane"))


def copies(folder):
    return {path for path in folder.rglob("*memplane-backup*") if path.is_file()}


def edit(path):
    """As Claude Code does at each start."""
    value = json.loads(path.read_bytes())
    value["numStartups"] = value.get("numStartups", 0) + 1
    path.write_text(json.dumps(value, indent=2))


@pytest.mark.parametrize("scope", ["--user", "--project"])
def test_of_files_that_were_edited_since_one_copy_stays_and_is_told(run, person, scope):
    hooks, servers = fill(person, "claude-code", scope)
    run("install", "claude-code", scope)
    for path in (hooks, servers):
        edit(path)
    before = {path.name: path.read_bytes() for path in (hooks, servers)}
    done = run("uninstall", "claude-code")
    left = copies(person)
    assert {path.name.partition(".memplane")[0]: path.read_bytes() for path in left} == before
    for path in left:
        told = path.name if scope == "--user" else str(path)
        assert f": removed; what it was is in {told}\n" in done.out


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_no_copy_lies_in_a_project_that_others_see(run, person, agent):
    for path in fill(person, agent, "--project"):
        path.with_name("of-theirs").touch()
    run("install", agent, "--project")
    found = copies(person)
    assert len(found) == 2
    assert not copies(person / "project")
    assert {path.stat().st_mode & 0o777 for path in found} == {0o640}
    assert {path.parent.stat().st_mode & 0o777 for path in found} == {0o700}
    run("uninstall", agent)
    assert not copies(person)
    assert names(person / ".local" / "state" / "memplane") == {"trust"}


def move(*both):
    """Make it look as if another copy of memplane had been installed."""
    for path in both:
        path.write_bytes(path.read_bytes().replace(SCRIPT.encode(), b"/old/bin/memplane"))


@pytest.mark.parametrize("there", [True, False])
def test_copies_of_every_install_go_with_the_uninstall(run, person, there):
    both = paths(person, "claude-code", "--user")
    if there:
        fill(person, "claude-code", "--user")
    before = tree(person)
    for _ in range(3):
        run("install", "claude-code")
        move(*both)
    assert len(copies(person)) == (6 if there else 4)
    run("uninstall", "claude-code")
    assert without_state(tree(person)) == before


def test_two_installs_at_once_leave_no_copy_that_nobody_knows(run, person, monkeypatch):
    fill(person, "claude-code", "--user")
    before = tree(person)
    take, taken = settings_files.back_up, []

    def slow(path, data, folder):
        copy = take(path, data, folder)
        taken.append(copy)
        if len(taken) == 1:
            assert run("install", "claude-code").code == 0
        return copy

    monkeypatch.setattr(settings_files, "back_up", slow)
    assert run("install", "claude-code").code == 0
    assert len(taken) == 4  # of each file: one of the install that came too late
    assert copies(person) == {*taken[1:3]}
    run("uninstall", "claude-code")
    assert without_state(tree(person)) == before


def test_copies_go_too_where_our_entries_were_taken_out_by_hand(run, person):
    hooks, servers = fill(person, "claude-code", "--user")
    texts = [path.read_bytes() for path in (hooks, servers)]
    before = tree(person)
    for _ in range(2):
        run("install", "claude-code", "--hooks", "--mcp")
        for path, text in zip((hooks, servers), texts, strict=True):
            path.write_bytes(text)
    assert len(copies(person)) == 4
    assert "was not installed" in run("uninstall", "claude-code").err
    assert without_state(tree(person)) == before


def test_a_copy_stays_where_it_is_all_there_is_or_was_written_to(run, person):
    hooks, servers = fill(person, "claude-code", "--user")
    run("install", "claude-code")
    hooks.unlink()
    kept = servers.with_name(f"{servers.name}.memplane-backup-1")
    kept.write_text("mine")
    done = run("uninstall", "claude-code", "--user")
    assert f"{hooks}: is not there" in done.out
    assert copies(person) == {kept, hooks.with_name("settings.json.memplane-backup-1")}
    assert kept.read_text() == "mine"


def test_an_uninstall_that_fails_leaves_the_copies_and_the_record(run, person):
    _, servers = fill(person, "claude-code", "--user")
    run("install", "claude-code")
    before = tree(person)
    servers.chmod(0o440)
    assert run("uninstall", "claude-code").code == 3
    servers.chmod(0o640)
    assert tree(person) == before


def test_an_uninstall_that_another_program_disturbs_keeps_one_copy(run, person, monkeypatch):
    _, servers = fill(person, "claude-code", "--user")
    run("install", "claude-code", "--mcp")
    edit(servers)
    take = settings_files.back_up

    def disturbed(path, data, folder):
        copy = take(path, data, folder)
        if json.loads(data)["numStartups"] < 3:
            edit(path)
        return copy

    monkeypatch.setattr(settings_files, "back_up", disturbed)
    done = run("uninstall", "claude-code", "--mcp", "--user")
    (left,) = copies(person)
    assert f"{servers}: removed; what it was is in {left.name}\n" in done.out
    assert json.loads(left.read_bytes())["numStartups"] == 3
    assert json.loads(servers.read_bytes())["numStartups"] == 3


def test_a_file_that_is_not_there_is_said_to_be_so(run, person):
    hooks, servers = paths(person, "claude-code", "--user")
    servers.write_text("{}")
    done = run("uninstall", "claude-code", "--user")
    assert f"{hooks}: is not there\n" in done.out
    assert f"{servers}: as it was\n" in done.out
    did = json.loads(run("uninstall", "claude-code", "--user", "--json").out)["files"]
    assert [one["did"] for one in did] == ["absent", "unchanged", "absent"]


def test_a_dry_run_tells_of_the_plane_that_would_be_made(run, person):
    said = f"a plane would be made in {person / '.memplane'}\n"
    assert said in run("install", "claude-code", "--dry-run").err
    done = run("install", "claude-code")
    assert "would be" not in done.err
    done = run("install", "claude-code", "--dry-run")
    assert ("would be" in done.err, done.out) == (False, "no settings would change\n")


@pytest.mark.parametrize("mark", [".git", ".memplane"])
def test_a_part_of_a_project_is_said_to_be_one(run, person, monkeypatch, mark):
    project = person / "project"
    if mark == ".git":
        (project / ".git").mkdir()
    else:
        run("init")
    (project / "sub").mkdir()
    monkeypatch.chdir(project / "sub")
    said = f"{project / 'sub'} is a part of {project}; an agent started there does not read this"
    assert said in run("install", "claude-code", "--project").err
    assert said not in run("install", "claude-code", "--user").err
    monkeypatch.chdir(project)
    assert "is a part of" not in run("install", "claude-code", "--project").err


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_a_plane_that_the_environment_names_stands_in_the_settings(run, person, monkeypatch, agent):
    """The agent may be started from a desktop, where that variable is not."""
    monkeypatch.setenv("MEMPLANE_HOME", "~/planes/one")
    plane = person / "planes" / "one"
    done = run("install", agent)
    assert f"MEMPLANE_HOME names the plane, so the settings do too: {plane}" in done.err
    assert (plane / "plane.json").exists()
    for path in paths(person, agent, "--user"):
        assert str(plane) in path.read_text()
        assert "--home" in path.read_text()
    again = tree(person)
    assert "MEMPLANE_HOME" not in run("install", agent).err
    assert run("install", agent, "--home", plane).out.count("as it was") == 4
    assert tree(person) == again
    assert f"{plane} is a path of this machine" in run("install", agent, "--project").err
    monkeypatch.delenv("MEMPLANE_HOME")
    run("install", agent, "--home", person / "other")
    for path in paths(person, agent, "--user"):
        assert str(person / "other") in path.read_text()
        assert str(plane) not in path.read_text()


def test_what_names_a_folder_with_a_plane_in_it_writes_the_plane_itself(run, person, monkeypatch):
    run("init", "--home", person / "work" / ".memplane")
    monkeypatch.chdir(person)
    run("install", "codex", "--home", "work")
    hooks, servers = paths(person, "codex", "--user")
    for path in (hooks, servers):
        assert f"{person / 'work' / '.memplane'}" in path.read_text()


@pytest.mark.parametrize(
    "words",
    [
        "--home /x hook claude-code", "--home=/x hook claude-code", "hook --home /x claude-code",
        "hook --home=/x claude-code", "hook claude-code --home=/x", "hook claude-code",
    ],
)  # fmt: skip
def test_our_hooks_are_known_with_their_plane_in_any_place(run, person, words):
    hooks, _ = paths(person, "claude-code", "--user")
    hooks.parent.mkdir()
    hooks.write_text(
        json.dumps({"hooks": {"Stop": [{"hooks": [{"command": f"/x/memplane {words}"}]}]}})
    )
    run("uninstall", "claude-code")
    assert "memplane" not in hooks.read_text()


@pytest.mark.parametrize("words", ["hooks claude-code", "--home hook claude-code", "pack hook"])
def test_what_only_looks_like_our_hook_stays(run, person, words):
    hooks, _ = paths(person, "claude-code", "--user")
    hooks.parent.mkdir()
    hooks.write_text(
        json.dumps({"hooks": {"Stop": [{"hooks": [{"command": f"memplane {words}"}]}]}})
    )
    before = hooks.read_bytes()
    run("uninstall", "claude-code")
    assert hooks.read_bytes() == before
