"""Hooks in the user's own plane: a day in two projects, a stranger's repository, excluded folders."""

import io
import json
import sys

import pytest
from folders import repository, work_tree

from memplane.hook import run
from memplane.wiring import open_found, open_light

SECRET = "ACME customer contract: the discount is 42 percent"
ORIGIN = "https://ann:token@git.example/acme/contract.git"


@pytest.fixture
def told(own, monkeypatch, capsys):
    """Call a hook of Claude Code in this process: (folder, session, event, more) -> what it says."""
    import os

    monkeypatch.setattr(run.signal, "setitimer", lambda *_: None)
    monkeypatch.setattr(run.signal, "signal", lambda *_: None)

    def told(folder, session, event, **more):
        given = {"session_id": session, "cwd": str(folder), "hook_event_name": event, **more}
        stdin = io.TextIOWrapper(io.BytesIO(json.dumps(given).encode()))
        monkeypatch.setattr(sys, "stdin", stdin)
        environment = {**os.environ, "CLAUDE_PROJECT_DIR": str(folder)}
        openers = run.Openers(open_light, open_found)
        run.run_hook(["claude-code"], environment, openers)
        out = capsys.readouterr().out
        log = own.home / "hooks.log"
        assert not log.exists(), log.read_text()
        return json.loads(out)["hookSpecificOutput"]["additionalContext"] if out else ""

    return told


def started(told, folder, session, **more):
    return told(folder, session, "SessionStart", source="startup", **more)


def prompted(told, folder, session, text, n=1):
    return told(folder, session, "UserPromptSubmit", prompt=text, prompt_id=f"p{n}")


def indexed(own):
    with own.whole() as plane:
        plane.upkeep.index()


def test_nothing_crosses_from_one_project_to_the_next(own, told, tmp_path):
    alpha, beta = (repository(tmp_path / name) for name in ("alpha", "beta"))
    started(told, alpha, "s1")
    prompted(told, alpha, "s1", SECRET)
    indexed(own)
    assert "ACME" not in started(told, beta, "s2")
    assert "42 percent" not in prompted(told, beta, "s2", "what discount has the ACME contract?")
    assert "42 percent" in started(told, alpha, "s3")
    indexed(own)
    assert "42 percent" in prompted(told, alpha, "s4", "what discount has the ACME contract?")


def test_a_git_that_claims_a_customers_origin_is_shown_nothing(own, told, tmp_path):
    ours = repository(tmp_path / "ours" / "contract", ORIGIN)
    started(told, ours, "s1")
    prompted(told, ours, "s1", SECRET)
    indexed(own)
    evil = repository(tmp_path / "evil" / "contract", ORIGIN.replace("ann:token@", ""))
    assert started(told, evil, "s2") == ""
    assert "42" not in prompted(told, evil, "s2", "what discount has the ACME contract?")
    assert "42" not in prompted(told, evil, "s2", SECRET, 2)
    pointed = tmp_path / "pointed"
    pointed.mkdir()
    (pointed / ".git").write_text(f"gitdir: {ours}/.git\n")
    assert started(told, pointed, "s3") == ""
    forged = work_tree(ours, tmp_path / "forged", listed=tmp_path / "other")
    assert started(told, forged, "s4") == ""
    assert b"token" not in next(own.home.glob("log/*.jsonl")).read_bytes()
    with own.at(evil) as plane:
        plane.work.projects.join(str(evil))
    assert "42 percent" in started(told, evil, "s5")


def test_a_work_tree_sees_its_project_and_names_files_alike(own, told, tmp_path):
    main = repository(tmp_path / "app", ORIGIN)
    started(told, main, "s1")
    prompted(told, main, "s1", SECRET)
    tree = work_tree(main, tmp_path / "app-fix")
    assert "42 percent" in started(told, tree, "s2")
    used = {"tool_name": "Read", "tool_response": "text", "tool_use_id": "t1"}
    told(tree, "s2", "PostToolUse", tool_input={"file_path": f"{tree}/src/a.py"}, **used)
    inner = {**used, "tool_use_id": "t2"}
    told(main, "s1", "PostToolUse", tool_input={"file_path": f"{tree}/src/a.py"}, **inner)
    with own.at(main) as plane:
        paths = [event.data["path"] for event in plane.events(kind="tool_call")]
        assert paths == ["src/a.py", "src/a.py"]


def test_paths_are_named_from_the_root_wherever_the_agent_went(own, told, tmp_path):
    root = repository(tmp_path / "app")
    (root / "src").mkdir()
    used = {"tool_name": "Edit", "tool_response": "done", "tool_use_id": "t1"}
    told(root / "src", "s1", "PostToolUse", tool_input={"file_path": f"{root}/src/a.py"}, **used)
    with own.at(root) as plane:
        assert [event.data["path"] for event in plane.events(kind="tool_call")] == ["src/a.py"]


def test_of_an_excluded_folder_nothing_is_recorded_or_answered(own, told, tmp_path):
    private = repository(tmp_path / "private" / "app")
    started(told, tmp_path, "s1")
    prompted(told, tmp_path, "s1", SECRET)
    plane = own.home / "policies" / "plane.yaml"
    text = plane.read_text()
    assert "\n  exclude: []" in text
    plane.write_text(text.replace("\n  exclude: []", f"\n  exclude: [{tmp_path}/private]"))
    before = own.lines()
    assert started(told, private, "s2") == ""
    assert prompted(told, private, "s2", SECRET) == ""
    assert own.lines() == before
    started(told, tmp_path, "s3")
    assert own.lines() > before


def test_a_session_without_a_folder_is_shown_nothing(own, told, tmp_path):
    started(told, tmp_path, "s1")
    prompted(told, tmp_path, "s1", SECRET)
    assert "42" not in told("", "s2", "SessionStart", source="startup")
    with own.whole(project="unknown") as plane:
        assert [event.session for event in plane.events(kind="session")] == ["s2"]


def test_sessions_of_before_come_by_the_clients_own_folder(own, told, tmp_path, monkeypatch):
    from memplane.projects import client_folder

    root = tmp_path / "work" / "alpha"
    root.mkdir(parents=True)
    with own.whole() as plane:  # as version 0.1.0 recorded it
        for session in ("old1", "old2"):
            row = {"kind": "session", "session": session, "tags": ["hook"]}
            said = {"status": "start", "folder": "alpha" if session == "old1" else "elsewhere"}
            plane.record("Session started", **row, id=f"claude-code:{session}:start", data=said)
            plane.record(f"{SECRET} in {session}", role="user", session=session, tags=["hook"])
    kept = own.home.parent / ".claude" / "projects" / client_folder(str(root))
    kept.mkdir(parents=True)
    (kept / "old1.jsonl").touch()
    answer = started(told, root, "new", transcript_path=str(kept / "new.jsonl"))
    assert "in old1" in answer
    assert "in old2" not in answer
    with own.at(root) as plane:
        found = {one.name: one for one in plane.work.projects.list(str(root))}
        assert found["unknown"].sessions == 1
        moved = plane.work.projects.assign("old2", "alpha")
        assert plane.event(moved.seq).kind == "project"
        assert plane.work.projects.assign("old2", "alpha").seq is None
    assert "in old2" in started(told, root, "newer")
