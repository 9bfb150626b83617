"""`memplane import git` and `--detect`, and a question that a commit answers."""

import json
import os
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
MESSAGES = (
    "Begin with a ledger of plain text",
    "Move the cache to SQLite\n\nThe JSON file was read whole for every key, which took seconds.",
    "Sort tasks by their number",
)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    path = tmp_path / "work"
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for field in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{field}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{field}_EMAIL", "ada@example.org")

    def git(*argv, stdin=b""):
        subprocess.run(["git", "-C", path, *argv], input=stdin, check=True, capture_output=True)

    path.mkdir()
    git("init", "-q", "-b", "main")
    for number, message in enumerate(MESSAGES):
        (path / f"file{number}.py").write_text(message)
        git("add", "-A")
        git("commit", "-q", "-F", "-", stdin=message.encode())
    monkeypatch.chdir(path)
    return path


def test_the_repository_here_is_imported_once_and_says_why(run, home, repository):
    done = run("import", "git", "--home", home)
    assert done == (0, "recorded  3 events from 1 repository\n", "")
    again = run("import", "git", ".", "--home", home)
    assert again == (0, "recorded  0 events from 1 repository (1 without news)\n", "")
    block = json.loads(run("pack", "why did the cache move?", "--home", home, "--json").out)
    head = json.loads(run("log", "--kind", "observation", "--home", home, "--json").out)[1]
    (entry,) = [one for one in block["entries"] if head["id"] in one["events"]]
    assert "read whole for every key" in entry["text"]


def test_the_newest_commits_alone_where_that_is_asked(run, home, repository):
    done = run("import", "git", ".", "--max-count", "1", "--home", home, "--json")
    assert json.loads(done.out)["events"] == 1
    assert "Sort tasks" in run("log", "--limit", "1", "--home", home).out


def test_detect_says_what_there_is_and_writes_nothing(run, home, repository, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    before = sorted(tmp_path.rglob("*"))
    assert run("import", "--detect") == (0, ".: git, 3 commits: memplane import git .\n", "")
    (repository / "odd.json").write_text("[]\n")
    found = json.loads(run("import", "--detect", repository, "--json").out)
    assert found == [
        {"path": str(repository), "source": "git", "items": 3,
         "command": f"memplane import git {repository}"},
        {"path": str(repository), "source": None, "items": 1, "command": None},
    ]  # fmt: skip
    (repository / "odd.json").unlink()
    assert sorted(tmp_path.rglob("*")) == before
    transcripts = tmp_path / ".claude" / "projects"
    transcripts.mkdir(parents=True)
    (transcripts / "a.jsonl").write_text(
        '{"type": "user", "uuid": "u", "sessionId": "s", "message": {"content": "hello"}}\n'
    )
    assert f"memplane import claude-code {transcripts}\n" in run("import", "--detect").out
    plain = tmp_path / "plain"
    plain.mkdir()
    assert run("import", "--detect", plain).out == "nothing here that memplane imports\n"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "expected [SOURCE] PATH, found none"),
        (["."], "`memplane import git .` takes its commits"),
        (["git", "/"], "/: no git repository here or above"),
        (["git", "none"], "none: no such file or folder"),
        (["git", ".", "--max-count", "0"], "--max-count"),
        (["jsonl", ".", "--max-count", "1"], "only with the source git"),
        (["--detect", "none"], "none: no such file or folder"),
    ],
)
def test_wrong_use_is_told_and_stores_nothing(run, home, repository, stored, argv, said):
    before = stored(home)
    done = run("import", *argv, "--home", home)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert stored(home) == before


def test_without_git_an_import_says_what_is_missing(run, home, repository, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run("import", "git", ".", "--home", home)
    assert (done.code, "git: the program cannot be run" in done.err) == (2, True)
