"""`memplane import --discover`: what agents have kept, and which of it is imported."""

import io
import json
from pathlib import Path

import pytest

FORMATS = Path(__file__).parents[1] / "importers" / "formats"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A home with two projects of Claude Code and one of Codex; we stand in the first."""
    home, project = tmp_path / "user", tmp_path / "app"
    project.mkdir()
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "MEMORY_FILE_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(project)
    slug = "".join(c if c.isascii() and c.isalnum() else "-" for c in str(project))
    for name in (slug, "-other"):
        path = home / ".claude" / "projects" / name / "a.jsonl"
        path.parent.mkdir(parents=True)
        record = {"type": "user", "uuid": f"u{name}", "sessionId": f"s{name[-5:]}",
                  "timestamp": "2026-03-01T10:00:00Z", "message": {"content": f"hello {name}"}}  # fmt: skip
        path.write_text(json.dumps(record) + "\n")
    sessions = home / ".codex" / "sessions" / "2026" / "03" / "02"
    sessions.mkdir(parents=True)
    text = (FORMATS / "codex-0.169-envelope.jsonl").read_text()
    (sessions / "rollout-a.jsonl").write_text(text.replace("/srv/harbour", str(project), 1))
    (sessions / "rollout-b.jsonl").write_text(text.replace("0196f0aa", "0196f0bb"))
    return home


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_without_a_terminal_it_says_what_there_is_and_the_answer_is_no(run, home, machine, stored):
    before = stored(home)
    done = run("import", "--discover", "--home", home)
    assert done.code == 1
    lines = done.out.splitlines()
    assert [line[5:].split(":")[0] for line in lines[::2]] == [
        "transcripts of Claude Code, of this project",
        "rollouts of Codex, of this project",
        "transcripts of Claude Code",
        "rollouts of Codex, of other projects",
    ]
    assert lines[5].strip() == f"memplane import claude-code {machine}/.claude/projects/-other"
    assert "--yes" in done.err
    assert stored(home) == before


def test_where_nothing_is_of_this_project_no_word_would_take_it(
    run, home, machine, tmp_path, monkeypatch
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    done = run("import", "--discover", "--home", home)
    assert done.code == 1
    assert "nothing was imported; nothing is of this project" in done.err


def test_yes_takes_what_is_of_this_project_and_a_second_time_nothing(run, home, machine):
    done = run("import", "--discover", "--yes", "--home", home, "--json")
    report = json.loads(done.out)
    assert (done.code, report["files"], report["refusals"]) == (0, 2, 0)
    assert report["events"] == 2 + 9
    again = json.loads(run("import", "--discover", "--yes", "--home", home, "--json").out)
    assert (again["events"], again["unchanged"]) == (0, 2)


def test_a_dry_run_and_json_say_what_there_is(run, home, machine, stored):
    before = stored(home)
    done = run("import", "--discover", "--dry-run", "--json", "--home", home)
    assert done.code == 0
    assert [(one["source"], one["here"]) for one in json.loads(done.out)] == [
        ("claude-code", True), ("codex", True), ("claude-code", False), ("codex", False),
    ]  # fmt: skip
    assert run("import", "--discover", "--json", "--home", home).code == 1
    assert stored(home) == before


@pytest.mark.parametrize(
    ("answers", "code", "files"),
    [("\n", 0, 2), ("3\n", 0, 1), ("all\n", 0, 5), ("none\n", 1, 0), ("", 1, 0), ("9\n3\n", 0, 1)],
)
def test_on_a_terminal_it_asks_and_what_is_of_this_project_is_the_usual_answer(
    run, home, machine, monkeypatch, answers, code, files
):
    monkeypatch.setattr("sys.stdin", Terminal(answers))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    done = run("import", "--discover", "--home", home)
    assert done.code == code
    assert "[1,2]" in done.err
    assert (f"from {files} file" in done.out) == (files > 0)
    assert ("expected numbers" in done.err) == answers.startswith("9")


def test_where_no_agent_kept_anything_that_is_said(run, home, machine, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    done = run("import", "--discover", "--home", home)
    assert (done.code, done.out) == (
        1, "no agent has kept anything here that memplane imports\n",
    )  # fmt: skip
    assert run("import", "--discover", "--yes", "--home", home).code == 1


@pytest.mark.parametrize("argv", [["--discover", "x.jsonl"], ["--yes", "x.jsonl"], ["--dry-run"]])
def test_wrong_use_is_told(run, home, machine, argv):
    assert run("import", *argv, "--home", home).code == 2


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["codex", "codex-0.20-bare.jsonl"], "recorded  5 events from 1 file"),
        (["mcp-memory", "mcp-memory-2026.7.jsonl"], "recorded  6 events from 1 file"),
        (["chat", "chat-openai-2026.json"], "recorded  5 events from 1 file"),
        (["claude-memory", "claude-memory-2.1"], "recorded  6 events from 3 files"),
        (["chat-openai-2026.json"], "recorded  5 events from 1 file"),
    ],
)
def test_each_source_is_imported_by_its_name(run, home, argv, said):
    *source, name = argv
    done = run("import", *source, FORMATS / name, "--home", home)
    assert (done.code, done.out.splitlines()[0]) == (0, said)


def test_what_a_file_states_no_more_is_told(run, home, tmp_path):
    path = tmp_path / "memory.json"
    lines = [{"type": "entity", "name": "Ada", "entityType": "", "observations": ["a", "b"]}]
    path.write_text(json.dumps(lines[0]))
    run("import", "mcp-memory", path, "--home", home)
    lines[0]["observations"] = ["a"]
    path.write_text(json.dumps(lines[0]))
    done = run("import", "mcp-memory", path, "--home", home)
    assert "archived  1 that their file states no more" in done.out
