"""Imports in the user's own plane: what is there keeps its event, what is new has its project."""

import gzip
import json
import sqlite3
from pathlib import Path

import pytest
from folders import repository, work_tree

from memplane.importers import import_paths
from memplane.projects import UNKNOWN, client_folder

KEPT = Path(__file__).parents[1] / "importers" / "programs"


def record(uuid, kind, content, *, session="s1", cwd="/gone/app", **more):
    at = f"2026-01-05T10:00:{int(uuid.lstrip('u')):02}.000Z"
    line = {"type": kind, "uuid": uuid, "sessionId": session, "cwd": cwd, "timestamp": at}
    return {**line, "message": {"role": kind, "content": content}, **more}


def transcript(path, *, session="s1", cwd="/gone/app", file="src/a.py", first=1):
    path.parent.mkdir(parents=True, exist_ok=True)
    used = {"type": "tool_use", "id": f"t{first}", "name": "Read", "input": {"file_path": file}}
    lines = [
        record(f"u{first}", "user", f"look at the ledger of {session}", session=session, cwd=cwd),
        record(f"u{first + 1}", "assistant", [used], session=session, cwd=cwd),
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def spaces(own):
    with own.whole() as plane:
        return {one.session: one.ns for one in plane.events(kind="session")}


def test_what_was_imported_before_keeps_its_events_and_nothing_is_refused(own, tmp_path):
    root = repository(tmp_path / "alpha")
    files = [
        transcript(tmp_path / "t" / "a.jsonl", cwd=str(root), file=f"{root}/src/a.py"),
        transcript(tmp_path / "t" / "b.jsonl", session="s2", first=10),
    ]
    with own.whole() as plane:  # as version 0.1.0 recorded it: into /global
        plane.context.registry = None
        assert import_paths(plane, "claude-code", files).events == 6
    assert set(spaces(own).values()) == {UNKNOWN}
    before = own.lines()
    for full in (False, True):
        with own.at(root) as plane:
            report = import_paths(plane, "claude-code", files, full=full)
            assert (report.events, report.refusals, len(report.refused)) == (0, 0, 0)
    assert own.lines() == before


def test_a_session_that_goes_on_is_of_its_project(own, tmp_path):
    root = repository(tmp_path / "alpha")
    file = transcript(tmp_path / "t" / "a.jsonl", cwd=str(root), file=f"{root}/src/a.py")
    with own.at(tmp_path) as plane:
        assert import_paths(plane, "claude-code", [file]).events == 3
    with own.at(root) as plane:
        ns = plane.context.home.project
        assert {event.ns for event in plane.events(session="s1")} == {ns}
        assert [event.data["path"] for event in plane.events(kind="tool_call")] == ["src/a.py"]
        assert plane.work.projects.list()[0].roots == (str(root),)
    with file.open("a") as more:
        more.write(json.dumps(record("u7", "user", "and then?", cwd="/elsewhere")) + "\n")
    with own.at(tmp_path) as plane:
        assert import_paths(plane, "claude-code", [file]).events == 1
    assert spaces(own)["s1"] == ns


def test_folders_that_are_not_there_are_taken_by_their_words(own, tmp_path, monkeypatch):
    kept = tmp_path / "projects" / client_folder("/gone/work/app")
    files = [
        transcript(kept / "s1.jsonl", cwd="/gone/work/app/src"),
        transcript(kept / "s2.jsonl", session="s2", cwd="/gone/work/app", first=10),
        transcript(tmp_path / "s3.jsonl", session="s3", cwd="/gone/work/other", first=20),
        transcript(tmp_path / "s4.jsonl", session="s4", cwd="/gone/work/app/sub", first=30),
    ]
    looked = []
    lstat = __import__("os").lstat
    monkeypatch.setattr(
        "memplane.projects.os.lstat", lambda path: (looked.append(path), lstat(path))[1]
    )
    with own.at(tmp_path) as plane:
        looked.clear()
        import_paths(plane, "claude-code", files)
    found = spaces(own)
    assert found["s1"] == found["s2"] == found["s4"] != found["s3"]
    assert found["s1"].startswith("/project/app-")
    assert not [path for path in looked if "/gone" in str(path) and str(path).endswith(".git")]


def test_a_work_tree_that_is_gone_is_of_the_root_that_it_lay_in(own, tmp_path):
    root = repository(tmp_path / "app")
    tree = root / ".claude" / "worktrees" / "fix"
    file = transcript(tmp_path / "s1.jsonl", cwd=str(root), file=f"{tree}/src/a.py")
    other = transcript(tmp_path / "s2.jsonl", session="s2", cwd=str(tree), first=10)
    with own.at(root) as plane:
        plane.record("the root is met")
        import_paths(plane, "claude-code", [file, other])
        ns = plane.context.home.project
        assert [event.data["path"] for event in plane.events(kind="tool_call")] == ["src/a.py"] * 2
    assert set(spaces(own).values()) == {ns}


def test_a_folder_that_is_excluded_is_not_imported(own, tmp_path):
    plane = own.home / "policies" / "plane.yaml"
    plane.write_text(plane.read_text().replace("  exclude: []", "  exclude: [/gone/secret*]"))
    files = [
        transcript(tmp_path / "s1.jsonl", cwd="/gone/secret/app"),
        transcript(tmp_path / "s2.jsonl", session="s2", first=10),
    ]
    with own.at(tmp_path) as plane:
        report = import_paths(plane, "claude-code", files)
        assert report.skipped == {"excluded folder": 3}
        assert report.events == 3


@pytest.mark.parametrize("listed", [True, False])
def test_an_import_believes_no_origin_that_is_known(own, tmp_path, listed):
    main = repository(tmp_path / "app", "https://git.example/app")
    tree = work_tree(main, tmp_path / "fix", listed=None if listed else tmp_path / "x")
    with own.at(main) as plane:
        plane.record("the root is met")
        ns = plane.context.home.project
    file = transcript(tmp_path / "s1.jsonl", cwd=str(tree))
    with own.at(tmp_path) as plane:
        import_paths(plane, "claude-code", [file])
    assert (spaces(own)["s1"] == ns) is listed


def test_commits_are_of_the_project_of_their_repository(own, tmp_path):
    import subprocess

    root = tmp_path / "repo"
    git = ["git", "-c", "user.name=ann", "-c", "user.email=ann@git.example", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q", "repo"], check=True)
    (root / "a.py").write_text("1\n")
    subprocess.run([*git, "-C", "repo", "add", "."], check=True)
    subprocess.run([*git, "-C", "repo", "commit", "-qm", "Begin the ledger"], check=True)
    for events in (1, 0):
        with own.at(tmp_path) as plane:
            assert import_paths(plane, "git", [root]).events == events
    with own.at(root) as plane:
        assert plane.search("ledger")
    with own.at(tmp_path) as plane:
        assert not plane.search("ledger")


def test_an_observation_of_claude_mem_goes_to_the_project_whose_folder_has_its_name(own, tmp_path):
    packed = KEPT / "claude-mem-13.25" / "claude-mem.db.gz"
    (tmp_path / "claude-mem.db").write_bytes(gzip.decompress(packed.read_bytes()))
    with own.at(tmp_path) as plane:
        assert import_paths(plane, None, [tmp_path / "claude-mem.db"]).events == 3
        assert {event.ns for event in plane.events(kind="observation")} <= {UNKNOWN}
    root = repository(tmp_path / "harbour")
    with own.at(root) as plane:
        plane.record("begun", kind="fact", key="begun")
        ns = plane.context.home.project
    with sqlite3.connect(tmp_path / "claude-mem.db") as file:
        file.execute("UPDATE observations SET id = id + 10")
    with own.at(tmp_path) as plane:
        assert import_paths(plane, None, [tmp_path / "claude-mem.db"]).events == 2
    with own.whole() as plane:
        assert [event.ns for event in plane.events(kind="observation")] == [UNKNOWN] * 2 + [ns] * 2
