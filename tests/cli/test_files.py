"""`memplane files`, from the log to what a person reads."""

import json

import pytest


@pytest.fixture
def touched(run, home):
    for session, branch, text, path in (
        ("a", "login", "the login fails", "src/login.py"),
        ("b", "main", "docs are old", "docs/guide.md"),
    ):
        data = {"branch": branch, "path": path, "tool": "Edit"}
        assert run("record", text, "--role", "user", "--session", session, "--home", home).code == 0
        row = ["--kind", "tool_call", "--session", session, "--data", json.dumps(data)]
        assert run("record", f"Edit {path}", *row, "--home", home).code == 0
    return home


def test_files_lists_what_the_query_and_the_branch_ask_for(run, touched):
    ran = run("files", "why does the login fail?", "--home", touched)
    assert (ran.code, [line.split()[1] for line in ran.out.splitlines()]) == (
        0, ["src/login.py", "docs/guide.md"],
    )  # fmt: skip
    ran = run("files", "--branch", "main", "--limit", "1", "--home", touched)
    assert ran.out.split()[1:3] == ["docs/guide.md", "main"]


def test_files_of_a_session_begin_with_its_own_and_json_has_every_field(run, touched):
    found = json.loads(run("files", "--session", "a", "--json", "--home", touched).out)
    assert list(found[0]) == ["path", "branch", "seq", "id", "touches", "score", "why"]
    assert (found[0]["path"], found[0]["why"]) == ("src/login.py", ["session"])
    assert found[1]["path"] == "docs/guide.md"


def test_files_of_a_plane_without_any_is_an_empty_answer(run, home):
    assert run("files", "--home", home)[:2] == (0, "")
    assert json.loads(run("files", "--json", "--home", home).out) == []


def test_a_wrong_limit_is_refused_as_wrong_use(run, home):
    assert run("files", "--limit", "0", "--home", home).code == 2
