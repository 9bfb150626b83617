"""Files that state what holds now: the plane follows them, and forgets nothing on its own."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import memplane
from memplane.importers import import_paths, statements
from tests.examples import examples

FORMATS = Path(__file__).parent / "formats"


@pytest.fixture
def notes(tmp_path):
    """A memory folder of a project, written by name."""
    folder = tmp_path / "harbour" / "memory"
    folder.mkdir(parents=True)
    (folder / "MEMORY.md").write_text("# Memory\n\n## Build\nmake all\n")

    def write(text, name="MEMORY.md"):
        path = folder / name
        if text is None:
            path.unlink()
        else:
            path.write_text(text)
        return folder

    return write


@pytest.fixture
def graph(tmp_path):
    """The file of a memory server, written from entities and relations."""

    def write(*records):
        path = tmp_path / "memory.jsonl"
        path.write_text("\n".join(json.dumps(record) for record in records) + "\n")
        return path

    return write


def entity(name, *observations, kind="person"):
    return {
        "type": "entity", "name": name, "entityType": kind, "observations": list(observations),
    }  # fmt: skip


def run(plane, path, **options):
    report = import_paths(plane, None, [path], **options)
    assert report.items == (
        report.events + report.repeated + report.refusals + sum(report.skipped.values())
    )
    return report


def in_force(plane):
    return sorted(plane.get(key).text for key in plane.keys(""))


def test_a_section_is_a_fact_under_its_file_and_headings_with_the_time_of_the_file(plane, notes):
    folder = notes("# Memory\n\n## Build\n\n- make all\n- make check\n")
    os.utime(folder / "MEMORY.md", (1772359200, 1772359200))
    report = run(plane, folder)
    assert (report.events, report.skipped) == (1, {})
    event = plane.get("claude-memory/harbour/MEMORY.md#Memory > Build")
    assert event.kind == "fact"
    assert event.text == "Memory > Build\n- make all\n- make check"
    assert event.ts == "2026-03-01T10:00:00.000000Z"
    assert event.id.startswith("claude-memory:")
    assert event.data == {"from": "harbour/MEMORY.md"}


def test_a_topic_says_what_it_is_about_and_what_is_liked_is_a_preference(plane):
    run(plane, FORMATS / "claude-memory-2.1" / "harbour" / "memory")
    found = {key.partition("/")[2]: plane.get(key) for key in plane.keys("claude-memory/")}
    assert {key: event.kind for key, event in found.items()} == {
        "harbour/MEMORY.md#Memory": "fact",
        "harbour/MEMORY.md#Memory > Build": "fact",
        "harbour/MEMORY.md#Memory > How the user likes it: preferences": "preference",
        "harbour/feedback_style.md#": "preference",
        "harbour/tides.md#": "fact",
        "harbour/tides.md#Why": "fact",
    }
    assert found["harbour/feedback_style.md#"].text == (
        "Write commit messages in the imperative\n**Why:** the log is read aloud."
    )
    assert found["harbour/feedback_style.md#"].tags == ("feedback",)
    assert found["harbour/tides.md#"].tags == ("project",)
    assert "# no heading" in found["harbour/MEMORY.md#Memory > Build"].text
    # The line that points to a topic is left out; the one that points nowhere is all there is.
    assert found["harbour/MEMORY.md#Memory"].text == (
        "Memory\n- [Gone](gone.md) — a topic without its file"
    )


def test_what_is_left_out_of_the_index_is_counted(plane, notes):
    notes("text\n", "a.md")
    folder = notes("- [A](a.md): about a\n")
    assert run(plane, folder).skipped == {"index line": 1}
    assert run(plane, notes("", "b.md")).skipped == {"empty file": 1}


def test_an_edit_supersedes_and_an_edit_that_is_taken_back_does_so_again(plane, notes):
    key = "claude-memory/harbour/MEMORY.md#Build"
    for text in ("make all", "make one", "make all", "make all"):
        run(plane, notes(f"# Build\n{text}\n"))
    assert plane.get(key).text == "Build\nmake all"
    assert [v.event.text.split("\n")[1] for v in plane.history(key)] == [
        "make all", "make one", "make all",
    ]  # fmt: skip
    assert run(plane, notes("# Build\nmake all\n"), full=True).events == 0


def test_what_went_away_is_archived_and_comes_back_with_the_file(plane, notes):
    run(plane, notes("# A\none\n# B\ntwo\n"))
    report = run(plane, notes("# A\none\n"))
    assert (report.events, report.archived) == (0, 1)
    assert in_force(plane) == ["A\none"]
    assert [e.text for e in plane.events(kind="forget")] == [
        "claude-memory: no longer in harbour/MEMORY.md"
    ]
    assert run(plane, notes("# A\none\n# B\ntwo\n")).events == 1
    assert in_force(plane) == ["A\none", "B\ntwo"]
    assert run(plane, notes("# A\none\n# B\ntwo\n"), full=True).events == 0


def test_what_somebody_forgot_in_the_plane_stays_forgotten(plane, notes):
    folder = notes("# A\none\n# B\ntwo\n")
    run(plane, folder)
    plane.forget(key="claude-memory/harbour/MEMORY.md#A", reason="wrong")
    report = run(plane, folder, full=True)
    assert (report.events, report.skipped) == (0, {"forgotten here": 1})
    assert in_force(plane) == ["B\ntwo"]


def test_what_somebody_corrected_in_the_plane_stands_until_the_file_says_something_new(
    plane, notes
):
    key = "claude-memory/harbour/MEMORY.md#A"
    run(plane, notes("# A\none\n"))
    plane.record("A\nfour", kind="fact", key=key)
    assert run(plane, notes("# A\none\n"), full=True).events == 0
    assert plane.get(key).text == "A\nfour"
    assert run(plane, notes("# A\nfive\n")).events == 1
    assert plane.get(key).text == "A\nfive"


def test_a_file_that_says_nothing_archives_nothing(plane, notes):
    run(plane, notes("# A\none\n"))
    assert run(plane, notes("")).archived == 0
    assert in_force(plane) == ["A\none"]


def test_a_topic_whose_file_is_deleted_is_archived_where_the_index_is_still_there(plane, notes):
    notes("topic\n", "a.md")
    folder = notes("# Memory\nkept\n")
    run(plane, folder)
    report = run(plane, notes(None, "a.md"))
    assert (report.archived, report.unchanged) == (1, 1)
    assert in_force(plane) == ["Memory\nkept"]
    assert run(plane, folder).archived == 0


def test_headings_that_come_twice_are_told_apart(plane, notes):
    run(plane, notes("# A\none\n# B\ntwo\n# A\nthree\n"))
    assert [key.partition("#")[2] for key in plane.keys("claude-memory/")] == ["A", "A (2)", "B"]


def test_entities_observations_and_relations_are_facts(plane):
    run(plane, FORMATS / "mcp-memory-2026.7.jsonl")
    assert in_force(plane) == [
        "Ada maintains Harbour",
        "Ada works on the tide tables",
        "Ada: person",
        "Ada: prefers short answers",
        "Harbour: keeps berths in SQLite",
        "Harbour: project",
    ]
    keys = plane.keys("mcp-memory/Ada/")
    assert {plane.get(key).tags for key in keys} == {("Ada", "person")}
    assert len(keys) == 3


def test_an_observation_that_was_deleted_is_archived_and_another_is_added(plane, graph):
    run(plane, graph(entity("Ada", "likes tea", "has a boat")))
    report = run(plane, graph(entity("Ada", "likes tea", "sold the boat")))
    assert (report.events, report.archived, report.repeated) == (1, 1, 2)
    assert in_force(plane) == ["Ada: likes tea", "Ada: person", "Ada: sold the boat"]


def test_a_file_with_a_broken_line_archives_nothing(plane, graph):
    path = graph(entity("Ada", "likes tea"), entity("Bo", "rows"))
    run(plane, path)
    path.write_text(json.dumps(entity("Bo", "rows")) + '\n{"type": "ent')
    report = run(plane, path)
    assert report.archived == 0
    assert report.skipped == {"malformed line": 1}


def test_two_graphs_share_what_both_state_and_archive_only_their_own(plane, tmp_path):
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        lines = [entity("Ada", "likes tea", f"is in {place}")]
        (tmp_path / place / "memory.json").write_text("\n".join(map(json.dumps, lines)))
    run(plane, tmp_path)
    assert "Ada: is in b" in in_force(plane)
    (tmp_path / "a" / "memory.json").write_text(json.dumps(entity("Ada", "likes tea")))
    assert run(plane, tmp_path).archived == 1
    assert in_force(plane) == ["Ada: is in b", "Ada: likes tea", "Ada: person"]


def test_the_graph_that_the_server_moved_is_the_same(plane, graph, tmp_path):
    moved = graph(entity("Ada", "likes tea", "rows"))
    moved.rename(tmp_path / "memory.json")
    run(plane, tmp_path / "memory.json")
    report = run(plane, graph(entity("Ada", "likes tea")))
    assert (report.events, report.repeated, report.archived) == (0, 2, 1)


def test_what_read_graph_answers_is_taken_too(plane, tmp_path):
    made = {"entities": [{"name": "Ada", "entityType": "person", "observations": ["rows"]}],
            "relations": [{"from": "Ada", "to": "Bo", "relationType": "knows"}]}  # fmt: skip
    (tmp_path / "graph.json").write_text(json.dumps(made, indent=2))
    assert run(plane, tmp_path / "graph.json").events == 3
    (tmp_path / "graph.json").write_text(json.dumps(made))
    assert run(plane, tmp_path / "graph.json").repeated == 3


def test_what_is_no_entity_is_counted(plane, graph):
    report = run(
        plane,
        graph(
            entity("Ada", "rows", " ", 7), entity("Ada", "rows"), entity(""), {"type": "relation"},
            {"type": "entity", "name": "Bo", "observations": None}, {"type": "tag"},
            entity("Cy", kind=""),
        ),
    )  # fmt: skip
    assert report.events == 2
    assert report.repeated == 2
    assert report.skipped == {
        "malformed entity": 2, "empty entity": 1, "empty text": 1, "malformed observation": 1,
        "malformed relation": 1, "unknown record type tag": 1,
    }  # fmt: skip


def test_a_secret_in_a_name_is_in_no_key(plane, graph):
    secret = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
    path = graph(entity(f"key {secret}", "rows"))
    run(plane, path)
    run(plane, path, full=True)
    log = b"".join(p.read_bytes() for p in sorted((plane.home / "log").glob("*.jsonl")))
    assert secret.encode() not in log


def test_purged_statements_stay_purged(plane, notes):
    folder = notes("# A\none\n")
    run(plane, folder)
    plane.upkeep.purge(plane.get("claude-memory/harbour/MEMORY.md#A").id, reason="mine")
    report = run(plane, folder, full=True)
    assert (report.events, report.skipped) == (0, {"purged": 1})


words = st.sampled_from(["A", "B", "one", "two", "#", "# A", "## B", "```", "---", "- [x](a.md)"])
texts = st.one_of(st.lists(words, max_size=8).map("\n".join), st.text(max_size=60))


@settings(
    max_examples=examples(16),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(texts, min_size=1, max_size=4))
def test_after_any_edits_the_plane_holds_what_the_file_states(tmp_path_factory, edits):
    folder = tmp_path_factory.mktemp("edits") / "p" / "memory"
    folder.mkdir(parents=True)
    with memplane.init(folder.parent / "home") as plane:
        for text in edits:
            (folder / "MEMORY.md").write_bytes(text.encode("utf-8", "replace"))
            run(plane, folder)
            told = statements.statements_of_claude(
                folder / "MEMORY.md", (folder / "MEMORY.md").read_bytes()
            )
            if told.statements:
                assert plane.keys() == sorted((s.key for s in told.statements), key=str.encode)
                for statement in told.statements:
                    recorded = plane.get(statement.key)
                    assert recorded.id.startswith("claude-memory:")
            seq = plane.head().seq
            run(plane, folder, full=True)
            assert plane.head().seq == seq


@given(st.binary(max_size=300) | texts.map(str.encode))
def test_any_bytes_are_looked_at(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "memory" / "a.md"
    for told in (
        statements.statements_of_claude(path, content),
        statements.statements_of_mcp(path, content),
    ):
        assert told.statements or told.skipped
        assert len({len(s.key) <= 256 and s.key.isprintable() for s in told.statements}) <= 1
