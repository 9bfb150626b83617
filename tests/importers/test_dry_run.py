"""A dry run says what an import would record and writes nothing; `ns` says where it goes."""

import gzip
import json
import shutil
from pathlib import Path

import pytest

import memplane
from memplane.errors import InputError
from memplane.importers import import_paths
from memplane.importers.run import WOULD_LISTED

HERE = Path(__file__).parent
PROGRAMS, FORMATS = HERE / "programs", HERE / "formats"


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A file or folder of each source, by its name."""
    place = tmp_path_factory.mktemp("sources")
    packed = PROGRAMS / "claude-mem-13.25" / "claude-mem.db.gz"
    (place / "claude-mem.db").write_bytes(gzip.decompress(packed.read_bytes()))
    rows = [{"id": f"r:{at}", "kind": "fact", "text": f"Heron {at} nests"} for at in range(30)]
    (place / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    turn = {"type": "user", "uuid": "u1", "sessionId": "s1", "timestamp": "2026-03-01T10:00:00Z",
            "cwd": "/srv/boat", "message": {"content": "Reef at 22 knots"}}  # fmt: skip
    (place / "transcript.jsonl").write_text(f"{json.dumps(turn)}\n")
    shutil.copytree(FORMATS / "claude-memory-2.1", place / "notes")
    return {
        "jsonl": place / "rows.jsonl",
        "claude-code": place / "transcript.jsonl",
        "codex": FORMATS / "codex-0.169-envelope.jsonl",
        "chat": FORMATS / "chat-openai-2026.json",
        "claude-memory": place / "notes",
        "mcp-memory": FORMATS / "mcp-memory-2026.7.jsonl",
        "mem0": PROGRAMS / "mem0-2.2" / "mira.json",
        "langgraph": PROGRAMS / "langgraph-3.1" / "store.db",
        "claude-mem": place / "claude-mem.db",
        "basic-memory": PROGRAMS / "basic-memory-0.24",
        "ledger": PROGRAMS / "ledger-1.1" / "map",
    }


SOURCES = (
    "jsonl", "claude-code", "codex", "chat", "claude-memory", "mcp-memory", "mem0", "langgraph",
    "claude-mem", "basic-memory", "ledger",
)  # fmt: skip


def files_of(home):
    """Every file below a folder, with its bytes and times."""
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(Path(home).rglob("*"))
        if path.is_file()
    }


def recorded(plane):
    return [one for one in plane.events() if one.kind != "segment"]


@pytest.mark.parametrize("source", SOURCES)
def test_a_dry_run_counts_what_the_import_then_records_and_writes_nothing(plane, sources, source):
    plane.close()
    before = files_of(plane.home)
    with memplane.open(plane.home, read_only=True) as reading:
        would = import_paths(reading, source, [sources[source]], dry_run=True)
    assert files_of(plane.home) == before
    with memplane.open(plane.home, clock=lambda: "2026-06-01T12:00:00.000000Z") as writing:
        done = import_paths(writing, source, [sources[source]])
        events = [one for one in recorded(writing) if not one.id.endswith(":end")]
    assert done.would is None
    assert (would.events, would.skipped) == (done.events, done.skipped)
    assert would.events > 0
    told = would.as_json()["dry_run"]
    assert sum(told["kinds"].values()) == sum(told["namespaces"].values()) == would.events
    assert set(told["kinds"]) <= {one.kind for one in events}
    assert set(told["namespaces"]) <= {one.ns for one in events}
    assert len(told["first"]) == min(would.events, WOULD_LISTED)
    texts = {one.text for one in events}
    assert {one.get("text", "") for one in told["first"]} <= texts | {""}


def test_a_dry_run_of_commits_counts_them_and_remembers_no_head(plane, repository):
    would = import_paths(plane, "git", [repository.path], dry_run=True)
    assert would.events == 1
    assert recorded(plane) == []
    assert import_paths(plane, "git", [repository.path]).events == 1
    assert import_paths(plane, "git", [repository.path], dry_run=True).unchanged == 1


def test_a_dry_run_knows_what_is_there_what_was_purged_and_what_cannot_be_taken(plane, tmp_path):
    path = tmp_path / "rows.jsonl"

    def write(*rows):
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    write({"id": "r:1", "kind": "fact", "text": "a"}, {"id": "r:2", "kind": "fact", "text": "b"})
    import_paths(plane, "jsonl", [path])
    plane.upkeep.purge("r:2")
    secret = "AKIA" + "IOSFODNN7EXAMPLQ"
    write(
        {"id": "r:1", "kind": "fact", "text": "a"},
        {"id": "r:2", "kind": "fact", "text": "b"},
        {"id": "r:3", "kind": "fact", "text": f"use {secret} now"},
        {"id": "r:4", "kind": "fact", "text": 5},
    )
    head = plane.head()
    would = import_paths(plane, "jsonl", [path], dry_run=True, full=True)
    assert (would.events, would.repeated, would.refusals) == (1, 1, 1)
    assert would.skipped == {"purged": 1}
    assert secret not in json.dumps(would.as_json())
    assert plane.head() == head


@pytest.mark.parametrize("source", SOURCES)
def test_what_is_imported_goes_where_it_is_asked_to_and_again_nowhere(plane, sources, source):
    report = import_paths(plane, source, [sources[source]], ns="/spec/boat")
    assert report.events > 0
    spaces = {one.ns for one in recorded(plane) if one.kind not in ("task", "session")}
    assert spaces == {"/spec/boat"}
    assert import_paths(plane, source, [sources[source]], full=True).events == 0
    assert import_paths(plane, source, [sources[source]], ns="/spec/sea", full=True).events == 0


def test_a_row_that_names_a_namespace_keeps_it(plane, tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = [{"id": "r:1", "kind": "fact", "text": "a", "ns": "/spec/own"},
            {"id": "r:2", "kind": "fact", "text": "b"}]  # fmt: skip
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    import_paths(plane, None, [path], ns="/spec/boat")
    assert [one.ns for one in recorded(plane)] == ["/spec/own", "/spec/boat"]
    with pytest.raises(InputError):
        import_paths(plane, None, [path], ns="boat")


def test_what_its_file_states_no_more_is_archived_where_it_was_put(plane, tmp_path):
    path = tmp_path / "memory.jsonl"

    def write(*said):
        entity = {"type": "entity", "name": "Heron", "entityType": "boat", "observations": said}
        path.write_text(json.dumps(entity) + "\n")

    write("reefs at 22 knots", "is green")
    import_paths(plane, "mcp-memory", [path], ns="/spec/boat")
    assert len(plane.keys("mcp-memory/", "/spec/boat")) == 3
    write("is green")
    would = import_paths(plane, "mcp-memory", [path], ns="/spec/boat", dry_run=True)
    assert would.archived == 1
    assert len(plane.keys("mcp-memory/", "/spec/boat")) == 3
    assert import_paths(plane, "mcp-memory", [path], ns="/spec/boat").archived == 1
    assert len(plane.keys("mcp-memory/", "/spec/boat")) == 2
    assert plane.keys("mcp-memory/") == []
