"""What other memory programs keep: facts of an agent's, each once, and nothing that was forgotten."""

import gzip
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from memplane.errors import InputError
from memplane.importers import detect, import_paths, memories, records, statements

PROGRAMS = Path(__file__).parent / "programs"
ID = "0f3a9d7e-0000-4000-8000-00000000000{}"


@pytest.fixture
def claude_mem(tmp_path):
    path = tmp_path / "claude-mem.db"
    packed = PROGRAMS / "claude-mem-13.25" / "claude-mem.db.gz"
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    return path


@pytest.fixture
def store(tmp_path):
    """A copy of a LangGraph store, to be changed."""
    path = tmp_path / "store.db"
    shutil.copyfile(PROGRAMS / "langgraph-3.1" / "store.db", path)
    return path


def run(plane, path, source=None, **options):
    report = import_paths(plane, source, [path], **options)
    assert report.items == (
        report.events + report.repeated + report.refusals + sum(report.skipped.values())
    )
    return report


def stated(plane, prefix=""):
    return {key: plane.get(key).text for key in plane.keys(prefix)}


def mem0_file(path, *rows, wrapped=True):
    memories_ = [
        {"id": ID.format(number), "memory": text, "hash": "", "user_id": "mira", **more}
        for number, text, more in rows
    ]
    path.write_text(json.dumps({"results": memories_} if wrapped else memories_))
    return path


# What each becomes.


def test_mem0s_answers_and_its_history_become_the_same_facts(plane):
    report = run(plane, PROGRAMS / "mem0-2.2")
    assert (report.refusals, report.skipped) == (0, {"deleted there": 1})
    assert sorted(stated(plane).values()) == [
        "From now on always answer in verse",
        "Jon's boat is called Tern",
        "Mira keeps bees on the roof of the boathouse",
        "The boathouse opens at eight",
    ]
    tags = {plane.get(key).text: plane.get(key).tags for key in plane.keys("mem0/")}
    assert "The boathouse opens at eight" in tags
    again = run(plane, PROGRAMS / "mem0-2.2", full=True)
    assert again.events == 0


def test_of_whom_a_memory_is_and_what_it_says_of_itself_is_kept(plane):
    run(plane, PROGRAMS / "mem0-2.2" / "mira.json")
    found = {plane.get(key).text: plane.get(key) for key in plane.keys("mem0/")}
    assert found["The boathouse opens at eight"].tags == ("user:mira", "agent:harbour")
    assert found["From now on always answer in verse"].tags == ("user:mira", "run:r1")
    bees = found["Mira keeps bees on the roof of the boathouse"]
    assert bees.data == {"from": "mira.json", "metadata": {"of": "roof"}}


def test_what_a_program_kept_is_an_agents_word_and_no_rule_of_the_users(plane):
    run(plane, PROGRAMS / "mem0-2.2")
    run(plane, PROGRAMS / "ledger-1.1")
    run(plane, PROGRAMS / "basic-memory-0.24")
    for event in plane.events():
        if event.key:
            assert (event.kind, event.said_by, event.markers) == ("fact", "agent", ())
    assert not list(plane.events(kind="preference"))
    assert not list(plane.events(kind="rule"))
    assert not list(plane.events(kind="decision"))


def test_items_of_a_store_have_its_namespaces_and_an_item_of_an_hour_ends(plane):
    report = run(plane, PROGRAMS / "langgraph-3.1" / "store.db")
    assert (report.events, report.skipped) == (5, {})
    profile = '{"name": "Mira", "speaks": ["German", "English"]}'
    assert stated(plane) == {
        "langgraph/memories/jon/m1": "Jon's boat is called Tern",
        "langgraph/memories/mira/m1": "Mira keeps bees\ntopic: garden",
        "langgraph/memories/mira/m2": "The boathouse opens at eight",
        "langgraph/profiles/mira": profile,
    } | stated(plane, "langgraph/notes")
    hour = next(one for one in plane.events() if one.text == "The tide turns at noon")
    assert hour.valid_until > hour.ts
    assert hour.tags == ("notes",)


def test_rows_of_a_table_in_postgres_are_items_too(plane, tmp_path, store):
    with sqlite3.connect(store) as file:
        file.row_factory = sqlite3.Row
        rows = [dict(row) for row in file.execute("SELECT * FROM store")]
    lines = [json.dumps({**row, "value": json.loads(row["value"])}) for row in rows]
    (tmp_path / "store.jsonl").write_text("\n".join(lines) + "\n{broken\n")
    report = run(plane, tmp_path / "store.jsonl")
    assert (report.events, report.skipped) == (5, {"malformed line": 1})
    assert run(plane, store).events == 0


def test_sessions_of_claude_mem_become_observations_and_summaries(plane, claude_mem):
    report = run(plane, claude_mem)
    assert (report.events, report.skipped) == (3, {"prompt": 1})
    session = "claude-mem/beef0000-0000-4000-8000-000000000001"
    found = {key.removeprefix(session): plane.get(key) for key in plane.keys(session)}
    assert found["/1"].text == (
        "The door gets a code lock\nin the boathouse\nA code lock was chosen over a key.\n"
        "- The code is changed each spring"
    )
    assert (found["/1"].kind, found["/s1"].kind) == ("observation", "summary")
    assert found["/1"].tags == ("decision", "how-it-works")
    assert found["/1"].ts == "2026-03-01T10:00:00.000000Z"
    assert found["/1"].data["modified"] == ["door.py"]
    assert found["/s1"].text.startswith("request: Replace the lock\ninvestigated: the door")


def test_a_note_is_its_observations_its_relations_and_the_rest_by_section(plane):
    run(plane, PROGRAMS / "basic-memory-0.24")
    assert set(stated(plane).values()) == {
        "Boathouse\nThe boathouse stands on the north quay.",
        "Boathouse: It holds four boats",
        "Boathouse: The lock of the door is replaced in spring #locks (agreed with Mira)",
        "Boathouse owned_by Mira (since 2019)",
        "Boathouse relates_to Tide tables",
        "Tide tables\nRead them at the pier.\n\n- [ ] print them anew",
        "Tide tables: Ask the harbour master at seven #daily",
        "Tide tables see Boathouse",
    }
    lock = next(one for one in plane.events() if "lock" in one.text)
    assert lock.tags == ("harbour", "decision", "locks")
    assert lock.data["from"] == "main/places/boathouse"


def openmemory_rows():
    return [
        {
            "id": ID.format(1), "content": "Mira keeps bees", "metadata": {"of": "roof"},
            "created_at": "2026-03-01T10:00:00+00:00", "updated_at": "2026-03-01T10:00:00+00:00",
            "state": "active", "app": "cursor", "categories": ["hobbies"],
        },
        {
            "id": ID.format(2), "content": "The slipway is blue", "metadata": {},
            "created_at": None, "updated_at": None, "state": "deleted", "app": None,
            "categories": [],
        },
    ]  # fmt: skip


def test_openmemorys_zip_its_document_and_its_database_are_one_memory(plane, tmp_path):
    lines = "".join(json.dumps(row) + "\n" for row in openmemory_rows())
    with zipfile.ZipFile(tmp_path / "memories_export_mira.zip", "w") as archive:
        archive.writestr("memories.json", "{}")
        archive.writestr("memories.jsonl.gz", gzip.compress(lines.encode()))
    assert detect(tmp_path / "memories_export_mira.zip") == "mem0"
    report = run(plane, tmp_path / "memories_export_mira.zip")
    assert (report.events, report.skipped) == (1, {"deleted there": 1})
    event = plane.get(f"mem0/{ID.format(1)}")
    assert (event.text, event.tags) == ("Mira keeps bees", ("hobbies", "app:cursor"))

    document = {
        "user": {"id": "u1", "user_id": "mira"},
        "apps": [{"id": "a1", "name": "cursor"}],
        "categories": [{"id": "c1", "name": "hobbies"}],
        "memories": [
            {**openmemory_rows()[0], "app_id": "a1", "category_ids": ["c1"]},
            {**openmemory_rows()[0], "id": ID.format(3), "content": "Jon sails", "app_id": "a1"},
        ],
        "memory_categories": [{"memory_id": ID.format(1), "category_id": "c1"}],
    }
    (tmp_path / "memories.json").write_text(json.dumps(document, indent=2))
    assert detect(tmp_path / "memories.json") == "mem0"
    assert run(plane, tmp_path / "memories.json").events == 1

    with sqlite3.connect(tmp_path / "openmemory.db") as file:
        file.executescript(
            "CREATE TABLE memories (id CHAR(32), user_id CHAR(32), app_id CHAR(32), content TEXT,"
            " vector TEXT, metadata JSON, state VARCHAR(8), created_at DATETIME,"
            " updated_at DATETIME);"
            "CREATE TABLE apps (id CHAR(32), name TEXT);"
            f"INSERT INTO apps VALUES ('a1', 'cursor');"
            f"INSERT INTO memories VALUES ('{ID.format(1).replace('-', '')}', 'u1', 'a1',"
            " 'Mira keeps bees', NULL, '{}', 'active', '2026-03-01 10:00:00', NULL);"
            f"INSERT INTO memories VALUES ('{ID.format(3).replace('-', '')}', 'u1', 'a1',"
            " 'Jon sails', NULL, '{}', 'archived', '2026-03-01 10:00:00', NULL);"
        )
    report = run(plane, tmp_path / "openmemory.db")
    assert (report.events, report.repeated, report.archived) == (0, 1, 1)
    assert stated(plane) == {f"mem0/{ID.format(1)}": "Mira keeps bees"}


# Again, later, and in any order.


def test_a_grown_store_adds_what_is_new_and_a_deletion_there_archives_here(plane, store):
    run(plane, store)
    assert run(plane, store).unchanged == 1
    with sqlite3.connect(store) as file:
        file.execute("INSERT INTO store VALUES ('notes', 'n', '{\"text\": \"new\"}',"
                     " '2026-12-01 10:00:00', '2026-12-01 10:00:00', NULL, NULL)")  # fmt: skip
        file.execute("UPDATE store SET value='{\"content\": \"it opens at nine\"}',"
                     " updated_at='2026-12-01 10:00:00' WHERE key='m2'")  # fmt: skip
        file.execute("DELETE FROM store WHERE prefix='profiles'")
    report = run(plane, store)
    assert (report.events, report.archived) == (2, 1)
    assert stated(plane)["langgraph/memories/mira/m2"] == "it opens at nine"
    assert len(plane.history("langgraph/memories/mira/m2")) == 2
    assert "langgraph/profiles/mira" not in stated(plane)


def test_an_older_export_does_not_bring_an_older_text_back(plane, tmp_path):
    old = mem0_file(tmp_path / "old.json", (1, "at seven", {"updated_at": "2026-03-01T10:00:00Z"}))
    new = mem0_file(
        tmp_path / "new.json",
        (1, "at eight", {"updated_at": "2026-03-02T10:00:00Z"}),
        (2, "blue", {"updated_at": "2026-03-02T10:00:00Z"}),
    )
    assert run(plane, new).events == 2
    assert run(plane, old).skipped == {"older than what is here": 1}
    assert stated(plane) == {f"mem0/{ID.format(1)}": "at eight", f"mem0/{ID.format(2)}": "blue"}
    # One that is of some memories only archives none of the others.
    assert run(plane, old, full=True).archived == 0


def test_what_was_forgotten_here_stays_forgotten_and_what_was_purged_does_not_come_back(
    plane, tmp_path
):
    path = mem0_file(tmp_path / "a.json", (1, "at seven", {}), (2, "blue", {}), (3, "oak", {}))
    run(plane, path)
    plane.forget(key=f"mem0/{ID.format(1)}")
    plane.upkeep.purge(plane.get(f"mem0/{ID.format(2)}").id, reason="asked for")
    report = run(plane, path, full=True)
    assert (report.events, report.repeated) == (0, 1)
    assert report.skipped == {"forgotten here": 1, "purged": 1}
    assert list(stated(plane).values()) == ["oak"]
    mem0_file(tmp_path / "b.json", (1, "at seven", {}))
    assert run(plane, tmp_path / "b.json").events == 0


def test_a_secret_in_a_memory_is_masked_when_it_is_recorded(plane, tmp_path):
    token = "ghp_" + "a1B2" * 9
    run(plane, mem0_file(tmp_path / "a.json", (1, f"the token is {token}", {})))
    assert (
        token
        not in (plane.home / "log").joinpath(next(os.walk(plane.home / "log"))[2][0]).read_text()
    )


# Files that are damaged, hostile or large.


def test_a_damaged_export_gives_what_can_be_read_and_says_so(plane, tmp_path):
    path = mem0_file(tmp_path / "a.json", (1, "one", {}), (2, "two", {}))
    path.write_text(path.read_text()[:-20])
    report = run(plane, path, source="mem0")
    assert (report.events, report.skipped) == (1, {"damaged file": 1})


def test_control_characters_deep_json_and_odd_types_are_taken_or_counted(plane, tmp_path):
    rows = [
        {"id": ID.format(1), "memory": "a\x1b[31mred\x00\u202e", "metadata": {"d": _deep(200)}},
        {"id": ID.format(2), "memory": ["no", "text"], "hash": ""},
        {"id": {"no": "id"}, "memory": "text", "hash": ""},
        {"id": ID.format(3), "memory": "  ", "hash": ""},
        {"id": "x\ny", "memory": "text", "hash": ""},
    ]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"results": rows}))
    report = run(plane, path, source="mem0")
    assert (report.events, report.refusals) == (1, 0)
    assert report.skipped == {"empty text": 2, "malformed memory": 2}


def _deep(depth):
    made = []
    for _ in range(depth):
        made = [made]
    return made


def test_a_value_that_is_nested_too_deep_is_no_reason_to_stop(plane, tmp_path):
    deep = "[" * 5000 + "]" * 5000
    row = f'{{"prefix": "a", "key": "k", "value": {deep}, "updated_at": "2026-03-01"}}\n'
    fine = '{"prefix": "a", "key": "l", "value": {"text": "oak"}, "updated_at": "2026-03-01"}\n'
    (tmp_path / "a.jsonl").write_text(row + fine)
    report = run(plane, tmp_path / "a.jsonl", source="langgraph")
    assert (report.events, sum(report.skipped.values())) == (1, 1)


def test_a_link_in_a_folder_of_notes_is_not_followed(plane, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "other.md").write_text("---\npermalink: a\n---\nnot to be read\n")
    (tmp_path / "notes" / "a.md").symlink_to(tmp_path / "other.md")
    report = run(plane, tmp_path / "notes", source="basic-memory")
    assert (report.events, report.skipped) == (0, {"damaged or overlong file": 1})


def test_a_database_is_never_written_and_its_journal_is_read(plane, store):
    writer = sqlite3.connect(store, isolation_level=None)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("PRAGMA wal_autocheckpoint=0")
    writer.execute("INSERT INTO store VALUES ('notes', 'wal', '{\"text\": \"in the journal\"}',"
                   " '2026-03-01', '2026-03-01', NULL, NULL)")  # fmt: skip
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("DELETE FROM store")
    before = {path: path.read_bytes() for path in store.parent.iterdir() if "store" in path.name}
    assert run(plane, store).events == 6  # what was committed, and no more
    assert "langgraph/notes/wal" in stated(plane)
    assert all(path.read_bytes() == content for path, content in before.items())
    assert sorted(path.name for path in store.parent.iterdir()) == sorted(
        {path.name for path in before} | {path.name for path in store.parent.iterdir()
                                         if "store" not in path.name}
    )  # fmt: skip
    writer.execute("ROLLBACK")
    writer.execute("INSERT INTO store VALUES ('notes', 'more', '{\"text\": \"later\"}',"
                   " '2026-03-01', '2026-03-01', NULL, NULL)")  # fmt: skip
    assert run(plane, store).events == 1  # only the journal has grown
    writer.close()


def test_a_program_that_is_killed_in_a_transaction_leaves_what_was_before_it(plane, store):
    code = (
        "import sqlite3, os, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute('PRAGMA cache_size=1'); c.execute('BEGIN IMMEDIATE');"
        'c.execute("UPDATE store SET value = \'{\\"text\\": \\"half\\"}\'");'
        "[c.execute('INSERT INTO store (prefix, key, value) VALUES (?, ?, ?)',"
        " ('x', str(n), '{\"text\": \"' + 'y' * 900 + '\"}')) for n in range(500)]; os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, str(store)], check=False)
    assert (store.parent / "store.db-journal").exists()
    assert run(plane, store).events == 5
    assert "half" not in stated(plane).values()


def test_a_newer_schema_is_read_as_far_as_it_is_known_and_refused_where_it_is_not(
    plane, claude_mem
):
    with sqlite3.connect(claude_mem) as file:
        file.execute("ALTER TABLE observations ADD COLUMN mood TEXT DEFAULT 'calm'")
        file.execute("ALTER TABLE session_summaries RENAME COLUMN memory_session_id TO of_session")
        file.execute("INSERT INTO schema_versions (version, applied_at) VALUES (999, 'now')")
    assert run(plane, claude_mem).events == 2
    with sqlite3.connect(claude_mem) as file:
        file.execute("ALTER TABLE observations RENAME COLUMN type TO sort")
    assert memories.database_source(claude_mem) is None
    seq = plane.head().seq
    with pytest.raises(InputError, match="observations with created_at, id, memory_session_id"):
        import_paths(plane, "claude-mem", [claude_mem])
    assert plane.head().seq == seq


def test_a_database_of_views_that_never_end_is_no_source(tmp_path):
    path = tmp_path / "store.db"
    with sqlite3.connect(path) as file:
        file.execute(
            "CREATE VIEW store AS WITH RECURSIVE n(key) AS (SELECT 1 UNION ALL SELECT key + 1 FROM"
            " n) SELECT key, key AS prefix, key AS value FROM n"
        )
    assert detect(path) is None


def test_a_database_that_is_damaged_or_of_another_program_is_refused(plane, tmp_path, store):
    content = bytearray(store.read_bytes())
    content[4096 * 2 :] = b"\xff" * (len(content) - 4096 * 2)
    (tmp_path / "bad.db").write_bytes(content)
    report = run(plane, tmp_path / "bad.db", source="langgraph")
    assert report.events == 0
    assert sum(report.skipped.values()) == 1
    with pytest.raises(InputError, match="expected the table observations"):
        import_paths(plane, "claude-mem", [store])
    with sqlite3.connect(tmp_path / "other.db") as file:
        file.execute("CREATE TABLE songs (name TEXT)")
    with pytest.raises(InputError, match=r"observations with .*\(claude-mem\); or store with "):
        import_paths(plane, None, [tmp_path / "other.db"])


def test_a_database_that_never_stands_still_is_left_for_later(plane, store, monkeypatch):
    times = iter(range(1_000_000))
    monkeypatch.setattr(memories, "state_of_journals", lambda _: [1, 2])
    monkeypatch.setattr(memories, "_stats", lambda _: [("", 1, next(times))])
    with pytest.raises(InputError, match="was written to each of 4 times that it was copied"):
        import_paths(plane, "langgraph", [store])
    monkeypatch.undo()
    assert run(plane, store).events == 5


def test_an_import_of_what_is_no_memory_says_what_it_is(plane, tmp_path):
    (tmp_path / "a.md").write_text("# no permalink\n")
    report = run(plane, tmp_path, source="basic-memory")
    assert report.skipped == {"no note of basic-memory": 1}


# Documents that are read piece by piece.

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
objects = st.dictionaries(st.text(max_size=6), values, max_size=4)


@given(
    document=st.lists(objects | values, max_size=6)
    | st.dictionaries(st.text(max_size=6), st.lists(objects, max_size=4) | values, max_size=4),
    indent=st.sampled_from([None, 1]),
    chunk=st.integers(1, 40),
)
def test_the_objects_of_a_document_are_what_a_parser_finds(
    tmp_path_factory, document, indent, chunk
):
    path = tmp_path_factory.getbasetemp() / "document.json"
    path.write_text(json.dumps(document, indent=indent))
    arrays = {"": document} if isinstance(document, list) else document
    expected = [
        one for array in arrays.values() if isinstance(array, list)
        for one in array if isinstance(one, dict)
    ]  # fmt: skip
    kept, records._CHUNK = records._CHUNK, chunk
    try:
        found = list(records.read_elements(path))
    finally:
        records._CHUNK = kept
    assert [json.loads(one.body) for one in found] == expected
    assert not any(one.fault for one in found)


def test_brackets_without_end_are_damage_and_no_work(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b'{"memories": [{"a": 1}, ' + b"[" * (3 * 1024 * 1024))
    found = list(records.read_elements(path))
    assert [one.fault for one in found] == ["", "damaged"]
    assert found[-1].done < path.stat().st_size


def test_an_object_that_is_too_large_is_passed_over_and_what_is_behind_it_read(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"a": "x" * 100}, {"b": 1}]))
    found = list(records.read_elements(path, limit=50))
    assert [(one.body, one.fault) for one in found] == [(b"", "overlong"), (b'{"b": 1}', "")]


@given(st.binary(max_size=300) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_looked_at(tmp_path_factory, content):
    folder = tmp_path_factory.getbasetemp()
    for name in ("any.json", "any.md"):
        (folder / name).write_bytes(content)
        memories.packed_source(folder / name)
        memories.document_source(folder / name)
    (folder / "any.md").write_bytes(b"---\npermalink: a/b\n---\n" + content)
    told = memories.statements_of_basic_memory(folder / "any.md")
    assert all(len(one.key) <= 256 and one.key.isprintable() for one in told.statements)
    (folder / "any.db").write_bytes(b"SQLite format 3\0" + content)
    assert memories.database_source(folder / "any.db") is None


def test_a_large_export_is_read_with_no_more_than_a_piece_of_it_held(tmp_path):
    path = tmp_path / "a.json"
    with path.open("w") as file:
        file.write('{"results": [')
        for number in range(3000):
            file.write(json.dumps({"id": f"m{number}", "memory": "x" * 1000, "hash": ""}) + ", ")
        file.write('{"id": "last", "memory": "y", "hash": ""}]}')
    told = memories.statements_of_mem0(path)
    assert sum(1 for _ in told.statements) == 3001
    assert told.done == path.stat().st_size
    assert isinstance(told, statements.StatedFile)
