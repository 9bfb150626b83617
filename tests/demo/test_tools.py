"""Each script of `tools/` and `benchmarks/` runs to its end on a little data and prints figures.

`build_bound1.py` is run in tests/tokens, `serve_nodes.py` with servers in tests/serve, `demo.py` and `run.py` with `side_engines.py` beside this; `record_sessions.py`
needs the real clients: only its help is asked for.
"""

import contextlib
import gzip
import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import memplane
from memplane.index.segment import THINGS, KindTable

ROOT = Path(__file__).parents[2]
# Modules of others, which have nothing to run; or run by the tests named above.
ELSEWHERE = {
    "build_bound1",
    "demo",
    "rank_collection",
    "run",
    "serve_nodes",
    "side_engines",
    "trace_steps",
}
PARTS = {
    "table_formats",
    "chunks", "crowds", "engine_works", "framework_works", "hook_works", "index_peers", "index_works", "large_log", "layouts",
    "mcp_works", "measure", "observer_works", "memory_peers", "memory_works", "peers", "place", "process_works", "shelf",
    "shared_works", "side_by_side", "store_works",
    "text_works", "workload", "works", "writing_works",
}  # fmt: skip


def ran(script, *arguments, stdin="", **more):
    done = subprocess.run(
        [sys.executable, str(ROOT / script), *map(str, arguments)],
        input=stdin, capture_output=True, text=True, check=False, timeout=280, **more,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def written(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in rows)


def said(number, text, **more):
    return {
        "conversation_id": "c", "event_id": f"e{number}", "ts": f"2026-01-05T12:{number:02}:00Z",
        "session_id": "s1", "role": "user" if number % 2 else "assistant", "speaker": "Ana",
        "text": text, **more,
    }  # fmt: skip


def asked(category, *events, **more):
    return {
        "conversation_id": "c", "question_id": f"q{category}", "question": f"Which database is used ({category})?",
        "category": category, "asked_at": "2026-01-06T12:00:00Z", "answer": "SQLite",
        "evidence_event_ids": events, **more,
    }  # fmt: skip


def transcript():
    """A session of an agent: a prompt, and reads of files behind it; twice, so that some return."""
    usual = {"sessionId": "s1", "cwd": "/home/ana/herons", "version": "2.0.0"}
    number = 0
    for prompt in ("Please read the nest and count the herons", "Please count the herons again"):
        number += 1
        message = {"role": "user", "content": prompt}
        yield {"type": "user", "uuid": f"u{number}", "message": message, **usual,
               "timestamp": f"2026-01-05T12:{number:02}:00Z"}  # fmt: skip
        for file in ("nest.py", "lake.py", "nest.py", "heron.py", "pier.py", "lake.py"):
            number += 1
            call = {"type": "tool_use", "id": f"t{number}", "name": "Read",
                    "input": {"file_path": f"/home/ana/herons/{file}"}}  # fmt: skip
            yield {"type": "assistant", "uuid": f"u{number}", **usual,
                   "timestamp": f"2026-01-05T12:{number:02}:00Z",
                   "message": {"id": f"m{number}", "role": "assistant", "content": [call]}}  # fmt: skip
            result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"in {file}"}
            yield {"type": "user", "uuid": f"r{number}", **usual,
                   "timestamp": f"2026-01-05T12:{number:02}:30Z",
                   "message": {"role": "user", "content": [result]}}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Sets in the neutral form that the scripts ask for, made up."""
    folder = tmp_path_factory.mktemp("data")
    long = "We decided to use Postgres for the nests, as the herons of the lake are many. " * 6
    turns = [
        said(1, long), said(2, "Noted."), said(3, "Always answer in English."),
        said(4, "I will."), said(5, "We use SQLite instead of Postgres now."), said(6, "Done."),
    ]  # fmt: skip
    roles = {"old": ["e1"], "new": ["e5"]}
    questions = [
        asked("knowledge_update", "e1", "e5", evidence_by_role=roles),
        asked("instruction_following", "e3"),
    ]
    for name in ("beam_100K", "beam_500K", "locomo", "realtalk"):
        written(folder / name / "events.jsonl.gz", turns)
        written(folder / name / "questions.jsonl.gz", questions)
    written(folder / "claude_code_raw" / "one.jsonl.gz", transcript())
    needed = [
        said(1, "Please look at the nest", kind="message", branch="main"),
        said(2, "reading", kind="tool_call", branch="main", path="nest.py", tool="Read"),
        said(3, "And now the lake", kind="message", branch="main"),
    ]
    written(folder / "next_need" / "events.jsonl.gz", needed)
    points = [
        {"point": kind, "session_id": "s1", "event_id": "e3", "ts": "2026-01-05T12:03:00Z",
         "gold_paths": ["nest.py"], "all_next_paths": ["nest.py"]}
        for kind in ("prompt", "session_start", "compaction")
    ]  # fmt: skip
    written(folder / "next_need" / "points.jsonl.gz", points)
    return folder


def test_files_of_memory_programs_are_written_where_the_program_is_there(tmp_path):
    ran("tools/write_memories.py", "ledger", tmp_path / "branch")
    assert list((tmp_path / "branch" / "ledger" / "shards").glob("*.jsonl"))


def test_digests_are_measured_against_labels(data, tmp_path):
    label = {
        "file": "one.jsonl", "title": "Count the herons", "outcome_quotes": [], "left": [],
        "open_failures": [], "decisions": [],
    }  # fmt: skip
    labels = tmp_path / "labels.jsonl"
    labels.write_text(json.dumps(label) + "\n")
    words = ran("tools/measure_digests.py", data / "claude_code_raw", labels, "--show", "--planted")
    assert "title" in words
    assert "Count the herons" in words


def test_the_longest_wait_of_a_loop_is_measured_in_a_process_of_its_own(tmp_path):
    memplane.init(tmp_path / "plane", trusted=False).close()
    assert float(ran("benchmarks/session_works.py", tmp_path / "plane", 2)) > 0


def test_every_script_is_run_by_a_test():
    here = Path(__file__).read_text()
    for folder in ("tools", "benchmarks"):
        for path in (ROOT / folder).glob("*.py"):
            assert path.stem in ELSEWHERE | PARTS or f'"{folder}/{path.name}"' in here, path
            assert path.stem not in PARTS or "__main__" not in path.read_text(), path


def test_a_large_plane_is_built_once_and_measured(tmp_path):
    words = ran("benchmarks/large_plane.py", tmp_path / "large", "--events", 600)
    names = [row.rpartition(", ")[0] for row in words.splitlines()]
    assert names[0] == "record_many, first"
    assert {"deep pack, p95", "search, first", "hook, prompt", "memplane verify"} <= {*names}
    assert all(float(row.split()[-1].replace(",", "")) >= 0 for row in words.splitlines())


def test_the_files_that_come_next_are_measured(data):
    words = ran("tools/measure_files.py", data / "next_need")
    assert {line.split()[0] for line in words.splitlines()} >= {"prompt", "session_start"}


def test_markers_are_measured(data):
    words = ran("tools/measure_markers.py", "--data", data, "--show", 2)
    assert "custom:instruction" in words
    assert "claude_code_raw" in words


def test_statements_that_disagree_are_measured(data):
    words = ran("tools/measure_updates.py", "--data", data, "--sets", "beam_100K", "-v")
    assert "beam_100K knowledge_update: both shown" in words
    assert " of 1," in words


def test_what_facts_cost_or_bring_is_measured(data):
    one = data / "beam_100K"
    words = ran("tools/measure_facts.py", one / "events.jsonl.gz", one / "questions.jsonl.gz")
    first, head, *rows = words.splitlines()
    assert first.endswith(" facts")
    assert head.split()[:3] == ["budget", "without", "with"]
    assert [row.split()[0] for row in rows] == ["500", "1000", "2000"]


def test_traces_are_measured(data):
    words = ran(
        "tools/measure_traces.py", data, "--parts", "steps,next_need", "--budgets", "1000", "--json"
    )
    found = json.loads(words)
    assert found["steps"]["rows"]
    assert found["next_need"]["rows"]


def test_the_walk_of_a_query_goes_up_through_the_one_port_alone():
    words = ran("tools/trace_query.py", "--fast", "-v")
    assert "pack/evidence.py" in words
    up = [line for line in ran("tools/trace_query.py").splitlines() if line.startswith("up: ")]
    assert up == ["up: pack/evidence.py > search/retriever.py:LogRetriever.find"]


def test_counters_are_compared():
    pytest.importorskip("rs_bpe", reason="exact counts need rs-bpe")
    words = ran("tools/counter_ratio.py")
    assert [line.split()[0] for line in words.splitlines()] == ["text", "English", "code", "JSON"]


def test_the_builder_of_the_neighbours_of_words_says_what_it_needs():
    assert "static.i8" in ran("tools/build_static.py", "--help")


@pytest.mark.long  # of the first words `tests/index/test_nearest.py` does the same
def test_the_neighbours_of_words_are_built_to_the_byte(tmp_path):
    data = ROOT / "memplane" / "index" / "data"
    target = shutil.copy(data / "static.i8", tmp_path)
    assert "near.bin" in ran("tools/build_static.py", target)
    assert (tmp_path / "near.bin").read_bytes() == (data / "near.bin").read_bytes()
    assert (tmp_path / "common.txt").read_bytes() == (data / "common.txt").read_bytes()


# A WordNet of a few nouns: offset, file, type, words with their ids, pointers, gloss.
NOUNS = {
    "data.noun": """  1 a line of the licence
00000001 03 n 01 animal 0 000 | a living thing
00000002 05 n 02 heron 0 Grey_heron 0 001 @ 00000001 n 0000 | a wading bird
00000003 05 n 01 mouse 0 001 @ 00000001 n 0000 | a small rodent
00000004 06 n 01 mouse 0 000 | a pointing device
00000005 05 n 01 crane 0 001 @ 00000001 n 0000 | another wading bird
00000006 06 n 01 crane 0 000 | lifts and moves heavy objects
""",
    "index.noun": """  1 a line of the licence
animal n 1 0 1 1 00000001
crane n 2 1 @ 2 2 00000006 00000005
heron n 1 1 @ 1 0 00000002
mouse n 2 1 @ 2 2 00000003 00000004
""",
    "index.verb": "crane v 1 0 1 0 00000001\n",
    "index.adj": "",
    "index.adv": "",
    "cntlist.rev": "mouse%1:05:00:: 1 9\ncrane%1:06:00:: 1 8\n",
    "noun.exc": "mice mouse\noxen ox\n",
}


def test_the_table_of_kinds_is_built_from_wordnet_and_the_list(tmp_path):
    for name, text in NOUNS.items():
        (tmp_path / name).write_text(text)
    rows = [f"kind {name}\nask {name}s?\nfrom animal\nalso Ibis\nnot animal" for name in THINGS]
    (tmp_path / "list.txt").write_text("# a list\nperson I\ntime May\n" + "\n".join(rows))
    target = tmp_path / "kinds.bin"
    words = ran(
        "tools/build_kinds.py", "--wordnet", tmp_path, "--list", tmp_path / "list.txt", target
    )
    assert words.startswith(f"kinds.bin: {target.stat().st_size} bytes")
    table = KindTable(target.read_bytes())
    every = (1 << len(THINGS)) - 1
    for word in ("heron", "Herons", "mouse", "mice", "Ibis"):
        assert table.word(word) == every
    for word in ("crane", "animal", "ibis", "oxen"):  # most cranes lift
        assert table.word(word) == 0
    assert table.question("Which PETS?") == 1 << THINGS.index("pet")


def test_two_reports_of_an_evaluation_are_compared(tmp_path):
    for name, whole in (("before", 1), ("after", 2)):
        rows = [
            {"system": "memplane", "budget": 500, "conversation": one, "question": "q",
             "whole": whole if one == "a" else 1, "evidence": 2}
            for one in ("a", "b")
        ]  # fmt: skip
        (tmp_path / f"{name}.json").write_text(json.dumps({"questions": rows}))
    words = ran("tools/measure_recall.py", tmp_path / "before.json", tmp_path / "after.json")
    figures = words.splitlines()[1].replace("[", " ").replace(",", " ").replace("]", " ").split()
    assert figures == [
        "500",
        "50.00",
        "75.00",
        "+25.00",
        "+0.00",
        "+50.00",
        "+0.00",
        "+50.00",
        "1",
        "0",
    ]


def test_the_recorder_of_sessions_says_what_it_needs():
    assert "claude-code" in ran("tools/record_sessions.py", "--help")


def test_redaction_is_measured(tmp_path):
    spans, texts = tmp_path / "spans.jsonl.gz", tmp_path / "texts.jsonl.gz"
    secret = "DB_PASSWORD=hunter2x9"
    written(spans, [{"text": secret, "spans": [{"start": 12, "end": 21, "rule": "Password"}]}])
    written(texts, [{"text": "nothing"}, {"text": secret}])
    words = ran("benchmarks/redaction.py", "--code-bytes", 100_000, "--spans", spans,
                "--texts", texts, "--json")  # fmt: skip
    found = json.loads(words)
    assert found["spans"]["built in"]["recall"] == 1
    assert found["code"]["bytes"] <= 100_000


def test_the_replay_of_policies_is_timed(tmp_path):
    words = ran("benchmarks/policy_replay.py", "--events", 300, "--packs", 3, cwd=tmp_path)
    assert words.count("3 packs, ") == words.count(", 0 failed") == 2


@pytest.mark.parametrize("kind", ["raw", "os", "record", "sqlite-normal"])
def test_a_writer_writes_what_it_is_asked_for(tmp_path, kind):
    path = tmp_path / "written"
    if kind == "os":
        path.mkdir()
    if kind == "record":
        memplane.init(path, trusted=False).close()
    if kind == "sqlite-normal":
        with contextlib.closing(sqlite3.connect(path)) as made:
            made.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, line TEXT)")
    words = ran("benchmarks/writers.py", kind, path, 80, stdin="2 3\n")
    ready, times = words.splitlines()
    assert ready == "ready"
    begun, ended = map(float, times.split())
    assert begun < ended


def test_the_picture_of_the_readme_is_what_the_script_draws(tmp_path):
    ran("tools/picture.py", tmp_path / "demo.svg")
    drawn = (tmp_path / "demo.svg").read_text()
    assert drawn == (ROOT / "docs" / "images" / "demo.svg").read_text()
    assert not any(word in drawn for word in ("href", "src=", "url(", "<script", "<image"))


@pytest.mark.long  # in tests/index each word of it is held against the stemmer
def test_the_table_of_stems_is_built_again_with_the_same_bytes(tmp_path):
    target = tmp_path / "stems-en.txt"
    assert "words" in ran("tools/build_stems.py", target)
    shipped = ROOT / "memplane" / "index" / "data" / "stems-en.txt"
    assert target.read_bytes() == shipped.read_bytes()
