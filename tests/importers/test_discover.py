"""What is found of agents on a machine, and what is of the project here."""

import gzip
import json
import os
import shutil
from pathlib import Path

import pytest

from memplane.importers.discovery import discover, usual_places

PROGRAMS = Path(__file__).parent / "programs"
GRAPH = '{"type": "entity", "name": "Ada", "entityType": "person", "observations": []}\n'


@pytest.fixture
def machine(tmp_path):
    """A home with what agents keep, and a project."""
    return Machine(tmp_path / "home", tmp_path / "work" / "my.app")


class Machine:
    def __init__(self, home, project):
        self.home, self.project = home, project
        self.environment = {}
        project.mkdir(parents=True)
        home.mkdir()

    def write(self, path, text="{}\n", day=1):
        path = self.home / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (1772359200 + day * 86400,) * 2)
        return path

    def rollout(self, name, cwd):
        meta = {"type": "session_meta", "payload": {"id": name, "cwd": str(cwd)}}
        place = f".codex/sessions/2026/03/01/rollout-{name}.jsonl"
        return self.write(place, json.dumps(meta) + "\n")

    def found(self, **options):
        return discover(self.project, self.home, self.environment, **options)

    @property
    def slug(self):
        return "".join(c if c.isascii() and c.isalnum() else "-" for c in str(self.project))


def told(discovery):
    return [(one.source, one.files, one.here) for one in discovery.found]


def test_a_machine_without_agents_has_nothing(machine):
    assert machine.found() == ([], True)


def test_projects_of_claude_code_are_found_with_their_memory_this_one_first(machine):
    machine.write(".claude/projects/-elsewhere/a.jsonl")
    for number in range(2):
        machine.write(f".claude/projects/{machine.slug}/{number}.jsonl", day=number)
    machine.write(f".claude/projects/{machine.slug}/s/subagents/b.jsonl")
    machine.write(f".claude/projects/{machine.slug}/memory/MEMORY.md", "# A\n")
    machine.write(".claude/projects/-elsewhere/memory/notes.md", "no index\n")
    discovery = machine.found()
    assert told(discovery) == [
        ("claude-code", 3, True),
        ("claude-memory", 1, True),
        ("claude-code", 1, False),
    ]
    first = discovery.found[0]
    assert first.command == f"memplane import claude-code {first.paths[0]}"
    assert (first.bytes, first.first, first.last) == (9, "2026-03-01", "2026-03-02")


def test_rollouts_are_told_apart_by_the_folder_that_their_first_line_names(machine):
    for name, cwd in (("a", machine.project), ("b", "/elsewhere"), ("c", machine.project)):
        machine.rollout(name, cwd)
    machine.write(".codex/sessions/2026/03/01/rollout-d.jsonl", "not json\n")
    ours, others = machine.found().found
    assert (ours.files, ours.here, ours.command) == (2, True, None)
    assert [path[-7:] for path in ours.paths] == ["a.jsonl", "c.jsonl"]
    assert (others.files, others.here) == (2, False)
    assert others.command.endswith(".codex/sessions")


def test_a_first_line_that_is_too_long_to_be_read_still_says_its_folder(machine):
    meta = {"payload": {"cwd": str(machine.project), "base_instructions": "x" * 400_000}}
    machine.write(".codex/archived_sessions/rollout-a.jsonl", json.dumps(meta))
    (one,) = machine.found().found
    assert (one.here, one.what) == (True, "rollouts of Codex, archived")


def test_a_repository_is_one_project_with_the_folders_in_it(machine):
    machine.rollout("a", machine.project)
    (machine.project / ".git").mkdir()
    machine.project /= "src"
    machine.project.mkdir()
    assert told(machine.found()) == [("codex", 1, True)]


def test_variables_say_where_agents_keep_things(machine, tmp_path):
    machine.rollout("a", "/x")
    (machine.home / ".codex").rename(tmp_path / "codex")
    machine.write("settings/projects/-x/a.jsonl")
    assert machine.found().found == []
    machine.environment = {
        "CODEX_HOME": str(tmp_path / "codex"),
        "CLAUDE_CONFIG_DIR": str(machine.home / "settings"),
    }
    assert told(machine.found()) == [("claude-code", 1, False), ("codex", 1, False)]


def test_the_memory_servers_file_is_found_where_it_is_known_to_be(machine):
    server = {"command": "npx", "env": {"MEMORY_FILE_PATH": "~/graph/memory.json"}}
    machine.write("graph/memory.json", GRAPH)
    machine.write(".claude.json", json.dumps({"projects": {"/x": {"mcpServers": {"m": server}}}}))
    cached = "node_modules/@modelcontextprotocol/server-memory/dist/memory.jsonl"
    machine.write(f".npm/_npx/0a/{cached}", GRAPH)
    machine.write("Downloads/memory.json", GRAPH)
    assert told(machine.found()) == [("mcp-memory", 1, False)] * 2
    machine.environment["MEMORY_FILE_PATH"] = str(machine.home / "Downloads" / "memory.json")
    assert len(machine.found().found) == 3
    config = {"mcpServers": {"m": {"env": {"MEMORY_FILE_PATH": "notes.json"}}}}
    (machine.project / ".mcp.json").write_text(json.dumps(config))
    (machine.project / "notes.json").write_text('{"notes": "of something else"}')
    assert len(machine.found().found) == 3
    (machine.project / "notes.json").write_text(GRAPH)
    assert machine.found().found[0].paths == (str(machine.project / "notes.json"),)
    assert machine.found().found[0].here


@pytest.mark.parametrize("text", ["", "[" * 5000, '{"env": {"MEMORY_FILE_PATH": 3}}', "\x00"])
def test_a_configuration_of_any_form_is_looked_at(machine, text):
    machine.write(".claude.json", text)
    (machine.project / ".mcp.json").write_text('{"env": {"MEMORY_FILE_PATH": "a\\u0000b"}}')
    assert machine.found().found == []


def test_no_more_files_are_looked_at_than_allowed_and_that_is_said(machine):
    for number in range(30):
        machine.write(f".claude/projects/-p{number}/a.jsonl")
    discovery = machine.found(files_max=20)
    assert len(discovery.found) <= 20
    assert not discovery.complete
    assert machine.found(files_max=2000).complete


def test_nothing_is_written(machine):
    machine.rollout("a", machine.project)
    machine.write(f".claude/projects/{machine.slug}/a.jsonl")
    before = {path: path.stat().st_mtime_ns for path in machine.home.parent.rglob("*")}
    machine.found()
    assert {path: path.stat().st_mtime_ns for path in machine.home.parent.rglob("*")} == before


def keep(machine, program, place):
    """What a program wrote, as it lies on a machine."""
    path = Path(place)
    path.parent.mkdir(parents=True, exist_ok=True)
    source = PROGRAMS / program
    if source.suffix == ".gz":
        path.write_bytes(gzip.decompress(source.read_bytes()))
    elif source.is_dir():
        shutil.copytree(source, path)
    else:
        shutil.copyfile(source, path)
    return path


def test_memory_programs_are_found_where_they_keep_what_they_know(machine):
    home, project = machine.home, machine.project
    keep(machine, "mem0-2.2/history.db", home / ".mem0" / "history.db")
    keep(machine, "claude-mem-13.25/claude-mem.db.gz", home / ".claude-mem" / "claude-mem.db")
    keep(machine, "basic-memory-0.24", home / "basic-memory")
    keep(machine, "basic-memory-0.24", home / "notes" / "work")
    machine.write(
        ".basic-memory/config.json",
        json.dumps({"projects": {"main": str(home / "basic-memory"),
                                 "work": {"path": "~/notes/work"}, "gone": "/nowhere", "odd": 5}}),
    )  # fmt: skip
    keep(machine, "langgraph-3.1/store.db", project / "items.sqlite")
    keep(machine, "ledger-1.1/map", project / "ledgers")  # a folder like any other
    tree = keep(machine, "ledger-1.1/map", machine.project.parent / "branch")
    (project / ".git" / "worktrees" / "branch").mkdir(parents=True)
    (project / ".git" / "worktrees" / "branch" / "gitdir").write_text(f"{tree}/.git\n")
    (project / "notes.db").write_text("no database\n")
    found = machine.found().found
    assert [(one.source, one.files, one.here) for one in found] == [
        ("langgraph", 1, True),
        ("ledger", 3, True),
        ("mem0", 1, False),
        ("claude-mem", 1, False),
        ("basic-memory", 2, False),
        ("basic-memory", 2, False),
    ]
    assert found[1].command == f"memplane import ledger {tree}"
    assert [one.paths for one in found[4:]] == [
        (str(home / "basic-memory"),),
        (str(home / "notes" / "work"),),
    ]
    assert usual_places(project, home, {}) == [
        ".",
        *(one.paths[0] for one in found[2:]),
    ]


def test_a_variable_names_another_place_of_a_memory_program(machine):
    place = machine.home / "elsewhere"
    keep(machine, "mem0-2.2/history.db", place / "history.db")
    assert machine.found().found == []
    machine.environment = {"MEM0_DIR": str(place)}
    assert told(machine.found()) == [("mem0", 1, False)]


def test_no_link_out_of_a_home_is_followed_and_no_file_of_another_user_read(machine, monkeypatch):
    outside = machine.home.parent / "outside"
    keep(machine, "mem0-2.2/history.db", outside / "history.db")
    keep(machine, "basic-memory-0.24", outside / "notes")
    (machine.home / ".mem0").symlink_to(outside)
    (machine.home / "basic-memory").symlink_to(outside / "notes")
    (machine.project / "store.db").symlink_to(outside / "history.db")
    os.mkfifo(machine.project / "pipe.db")
    assert machine.found().found == []
    keep(machine, "mem0-2.2/history.db", machine.project / "own.db")
    assert told(machine.found()) == [("mem0", 1, True)]
    monkeypatch.setattr(os, "geteuid", lambda: machine.home.stat().st_uid + 1)
    assert machine.found().found == []
    assert usual_places(machine.project, machine.home, {}) == ["."]


def test_what_lies_there_and_is_of_no_program_is_passed_over(machine):
    for place in (".mem0/history.db", ".claude-mem/claude-mem.db", "basic-memory/a.md"):
        machine.write(place, "SQLite format 3\0 and then nothing\n")
    machine.write(".basic-memory/config.json", '{"projects": [')
    assert machine.found().found == []
