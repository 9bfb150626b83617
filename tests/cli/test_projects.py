"""`memplane projects`, `memplane remember`, `--project`, and the fall back to the user's own plane."""

import json

import pytest

import memplane


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The user's own plane, and this process in a folder outside of it."""
    user, work = tmp_path / "user", tmp_path / "work" / "app"
    user.mkdir()
    work.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(user))
    monkeypatch.setenv("MEMPLANE_BUDGETS__COUNTER", "len4")
    monkeypatch.delenv("MEMPLANE_HOME", raising=False)
    memplane.init(user / ".memplane").close()
    monkeypatch.chdir(work)
    return user / ".memplane"


def test_commands_fall_back_to_the_users_own_plane_and_name_it(run, own):
    ran = run("record", "the ledger keeps a cursor")
    assert (ran.code, ran.err.count(str(own))) == (0, 1)
    assert "no .memplane here or above: your own plane is used" in ran.err
    assert "the ledger" in run("search", "ledger").out
    assert run("doctor").code == 0
    assert run().code == 0


def test_a_plane_here_or_named_is_used_in_its_place(run, own, tmp_path):
    memplane.init(tmp_path / "work" / ".memplane").close()
    ran = run("record", "in the project's own")
    assert ran.err == ""
    assert json.loads(run("projects", "--json").out)["error"]["type"] == "HomeError"
    ran = run("--home", own, "projects")
    assert ran.code == 0
    assert ran.err == ""


def test_a_folder_sees_its_own_project_and_another_one_by_name(run, own, tmp_path, monkeypatch):
    run("record", "the ledger keeps a cursor")
    other = tmp_path / "work" / "web"
    other.mkdir()
    monkeypatch.chdir(other)
    assert run("search", "ledger").code == 1
    run("record", "the page has a button")
    assert "ledger" not in run("log").out
    assert "ledger" in run("search", "ledger", "--project", "app").out
    assert "ledger" in run("--project", "app", "pack", "ledger").out
    assert "ledger" in run("--project", "*", "log").out
    refused = run("search", "ledger", "--project", "ap")
    assert refused.code == 1
    assert "no project 'ap'; known: app, web" in refused.err


def test_projects_are_listed_with_their_roots_and_sessions(run, own, tmp_path):
    run("session", "start", "s1")
    ran = run("projects")
    root = tmp_path / "work" / "app"
    assert ran.out.splitlines() == ["app  1 session  (here)", f"    root    {root}"]
    [row] = json.loads(run("projects", "--json").out)
    assert (row["name"], row["here"], row["sessions"]) == ("app", True, 1)
    assert row["recent"][0]["session"] == "s1"


def test_sessions_are_assigned_and_it_is_an_event(run, own, tmp_path, monkeypatch):
    run("session", "start", "s1")
    run("record", "the ledger keeps a cursor", "--session", "s1")
    other = tmp_path / "work" / "web"
    other.mkdir()
    ran = run("projects", "assign", "s1", str(other))
    assert ran.code == 0
    assert "1 session given to web" in ran.out
    assert run("search", "ledger").code == 1
    monkeypatch.chdir(other)
    assert run("search", "ledger").code == 0
    assert "Given to /project/web-" in run("log").out
    assert "it is so already" in run("projects", "assign", "s1", "web").out
    refused = run("projects", "assign", "nosuch", "web", "--json")
    assert refused.code == 1
    assert "no session 'nosuch', and none in a folder of that name" in refused.out


def test_a_root_is_joined_by_its_claim_or_by_a_name(run, own, tmp_path, monkeypatch):
    run("record", "the ledger keeps a cursor")
    copy = tmp_path / "copy"
    copy.mkdir()
    monkeypatch.chdir(copy)
    refused = run("projects", "join")
    assert refused.code == 2
    assert "claims no origin of another root" in refused.err
    assert "memplane projects join --to NAME" in refused.err
    joined = json.loads(run("projects", "join", "--to", "app", "--json").out)
    assert joined["project"] == "app"
    assert joined["what"] == [str(copy)]
    assert run("search", "ledger").code == 0
    assert "it is so already" in run("projects", "join", ".", "--to", "app").out


def test_what_is_remembered_for_everywhere_is_seen_in_every_project(
    run, own, tmp_path, monkeypatch
):
    assert run("remember", "--everywhere", "I write British English").out.endswith("everywhere\n")
    assert run("remember", "I like tabs", "--kind", "preference").out.endswith("everywhere\n")
    here = json.loads(run("remember", "the ledger is in cents", "--json").out)
    assert here["ns"].startswith("/project/app-")
    monkeypatch.chdir(tmp_path)
    assert run("search", "British").code == 0
    assert run("search", "tabs").code == 0
    assert run("search", "cents").code == 1
    assert run("remember", " ").code == 2
    assert run("remember", "x", "--kind", "nosuch").code == 2


def test_a_plane_that_is_not_parted_takes_no_project(run, own, tmp_path):
    memplane.init(tmp_path / "work" / ".memplane").close()
    refused = run("search", "x", "--project", "app")
    assert refused.code == 2
    assert "is one project's plane, and is not parted" in refused.err


def test_the_last_report_is_of_this_project(run, own, tmp_path, monkeypatch):
    run("record", "the ledger keeps a cursor")
    run("pack", "ledger")
    monkeypatch.chdir(tmp_path)
    refused = run("replay", "last")
    assert (refused.code, "no report is saved yet" in refused.err) == (1, True)
    monkeypatch.chdir(tmp_path / "work" / "app")
    assert run("replay", "last").code == 0


def test_doctor_passes_behind_an_install_for_the_user(run, own, tmp_path):
    assert run("install", "claude-code", "--user", "--hooks").code == 0
    ran = run("doctor")
    assert ran.code == 0
    assert f"{own}" in ran.out
