"""Every source of files, by a file of each format: found out, read once, read on."""

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import memplane
from memplane.importers import detect, find_sources, import_paths
from tests.examples import examples

FORMATS = Path(__file__).parent / "formats"
MEMORY = "claude-memory-2.1/harbour/memory"
FILES = {
    "codex-0.169-envelope.jsonl": ("codex", 9),
    "codex-0.20-bare.jsonl": ("codex", 5),
    "codex-0.1-session.json": ("codex", 5),
    "mcp-memory-2026.7.jsonl": ("mcp-memory", 6),
    "chat-openai-2026.json": ("chat", 5),
    "chat-anthropic-2026.json": ("chat", 5),
    "chat-finetuning-2026.jsonl": ("chat", 5),
    f"{MEMORY}/MEMORY.md": ("claude-memory", 3),
    f"{MEMORY}/tides.md": ("claude-memory", 2),
    f"{MEMORY}/feedback_style.md": ("claude-memory", 1),
}


def adds_up(report):
    for file in report.per_file:
        assert file.items == (
            file.events + file.repeated + file.refused + sum(file.skipped.values())
        )
        assert file.items >= file.lines
    json.dumps(report.as_json())
    return report


def run(plane, *paths, source=None, **options):
    return adds_up(import_paths(plane, source, paths, **options))


def told(plane):
    """What was recorded by an importer; what memplane itself adds is not in any file."""
    own = (":end:", ":summary:")
    return {
        (event.id, event.kind, event.role, event.session, event.key, event.text)
        for event in plane.events()
        if event.kind != "segment" and not any(word in event.id for word in own)
    }


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_each_format_is_known_by_its_beginning(name):
    assert detect(FORMATS / name) == FILES[name][0]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("named", [True, False])
def test_a_second_import_of_it_records_nothing(plane, name, named):
    source, events = FILES[name]
    given = source if named else None
    report = run(plane, FORMATS / name, source=given)
    assert (report.events, report.refusals) == (events, 0)
    head = plane.head().seq
    again = run(plane, FORMATS / name, source=given)
    assert (again.events, again.unchanged, again.lines) == (0, 1, 0)
    full = run(plane, FORMATS / name, source=given, full=True)
    assert (full.events, full.repeated) == (0, report.events + report.repeated)
    assert full.refusals == 0
    assert plane.head().seq == head


def test_all_formats_in_one_folder_are_told_apart(plane, tmp_path):
    shutil.copytree(FORMATS, tmp_path / "all")
    found = {one.source: one.items for one in find_sources(tmp_path / "all")}
    assert found == {"codex": 3, "mcp-memory": 1, "chat": 3, "claude-memory": 3}
    report = run(plane, tmp_path / "all")
    assert {file.source for file in report.per_file} == set(found)
    assert report.events == sum(events for _, events in FILES.values())
    assert report.refusals == 0
    assert run(plane, tmp_path / "all").events == 0


@pytest.mark.parametrize("source", ["codex", "chat", "mcp-memory", "claude-memory", "jsonl"])
def test_a_file_of_another_format_is_read_and_recorded_as_what_it_is_not_by_nobody(
    plane, tmp_path, transcript, source
):
    path = tmp_path / "talk.jsonl"
    path.write_bytes(transcript().user("hello").says("good day").bytes)
    assert detect(path) == "claude-code"
    report = run(plane, path, source=source)
    assert not list(plane.events(kind="message"))
    assert report.refusals == 0


@pytest.mark.parametrize(
    "text",
    ["{}", "[]", "[[]]", '[{"a": 1}]', '{"name": "x", "version": "1"}', '[{"role": "admin"}]',
     '{"type": "entity"}', '{"payload": {}, "type": "push"}', '{"session": {"id": 1}}',
     '{"messages": "none"}', '{"messages": [{"text": 1}]}', '{\n"role": "owner"\n}'],
)  # fmt: skip
def test_json_of_others_is_of_no_source(tmp_path, text):
    (tmp_path / "odd.json").write_text(text)
    assert detect(tmp_path / "odd.json") is None


def test_markdown_is_memory_only_in_a_memory_folder_with_an_index(tmp_path):
    for place in ("memory/a.md", "docs/memory.md", "docs/MEMORY.md"):
        path = tmp_path / place
        path.parent.mkdir(exist_ok=True)
        path.write_text("# A\ntext\n")
        assert detect(path) is None
    (tmp_path / "memory" / "MEMORY.md").write_text("# A\ntext\n")
    assert detect(tmp_path / "memory" / "a.md") == "claude-memory"


@pytest.mark.parametrize("name", [one for one in FILES if one.endswith(".jsonl")])
def test_of_a_file_that_grew_the_same_comes_as_of_the_whole_at_once(tmp_path, name):
    whole = (FORMATS / name).read_bytes()
    with memplane.init(tmp_path / "whole") as plane:
        run(plane, FORMATS / name)
        expected = told(plane)
    lines = whole.splitlines(keepends=True)
    for at in range(1, len(lines), 2):
        path = tmp_path / f"{at}" / name
        path.parent.mkdir()
        with memplane.init(tmp_path / f"plane-{at}") as plane:
            path.write_bytes(b"".join(lines[:at]) + lines[at][:9])
            before = run(plane, path, source=FILES[name][0])
            path.write_bytes(whole)
            report = run(plane, path, source=FILES[name][0])
            assert told(plane) == expected
            if before.events and FILES[name][0] != "mcp-memory":
                assert report.lines == len(lines) - at


def test_a_chat_that_is_written_anew_with_more_messages_gives_only_those(plane, tmp_path):
    path = tmp_path / "chat.json"
    messages = json.loads((FORMATS / "chat-openai-2026.json").read_bytes())
    path.write_text(json.dumps(messages[:3], indent=1))
    assert run(plane, path).events == 3
    path.write_text(json.dumps(messages, indent=1))
    report = run(plane, path)
    assert (report.events, report.repeated, report.refusals) == (2, 3, 0)
    assert len({event.session for event in plane.events() if event.session}) == 1


def test_a_chat_in_a_second_file_is_a_repeat(plane, tmp_path):
    for name in ("a.json", "b.json"):
        shutil.copy(FORMATS / "chat-openai-2026.json", tmp_path / name)
    report = run(plane, tmp_path)
    assert (report.events, report.repeated, report.refusals) == (5, 5, 0)


def test_a_fork_of_a_rollout_adds_only_what_is_its_own(plane, tmp_path):
    lines = (FORMATS / "codex-0.169-envelope.jsonl").read_text().splitlines()
    meta = json.loads(lines[0])
    meta["payload"] |= {"id": "fork", "session_id": "fork", "forked_from_id": meta["payload"]["id"]}
    said = json.loads(lines[5])
    said["payload"]["content"][0]["text"] = "And how are piers named?"
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "b.jsonl").write_text("\n".join([json.dumps(meta), *lines, json.dumps(said)]))
    report = run(plane, tmp_path)
    assert report.refusals == 0
    assert [file.events for file in report.per_file] == [9, 2]


def test_sessions_of_rollouts_that_are_over_end(plane):
    report = run(plane, FORMATS / "codex-0.169-envelope.jsonl")
    assert report.ended == 1
    (session,) = plane.work.sessions.list()
    assert (session.status, session.reason) == ("ended", "importer")
    assert session.branch == "main"
    assert run(plane, FORMATS / "codex-0.169-envelope.jsonl", full=True).ended == 0


@pytest.mark.parametrize(("command", "whose"), [("memplane pack crane", "own"), ("cat b", "other")])
def test_a_block_of_memory_is_moved_out_of_what_a_memplane_command_printed(
    plane, tmp_path, command, whose
):
    plane.record("The crane is booked on Mondays.", kind="fact", key="crane")
    block = plane.pack("crane").text
    lines = (FORMATS / "codex-0.20-bare.jsonl").read_text().splitlines()
    asked = {"type": "function_call", "call_id": "x", "name": "shell"}
    asked["arguments"] = json.dumps({"command": ["bash", "-lc", command]})
    output = {"type": "function_call_output", "call_id": "x", "output": f"got\n{block}"}
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, json.dumps(asked), json.dumps(output)]))
    run(plane, tmp_path)
    (event,) = [e for e in plane.events(kind="tool_result") if e.text.startswith("got")]
    assert ("Mondays" in event.text) == (whose == "other")
    assert plane.work.recalled(event) == ([block] if whose == "own" else [])
    assert run(plane, tmp_path, full=True).refusals == 0


def test_a_rollout_that_nothing_here_can_unpack_is_counted(plane, tmp_path):
    (tmp_path / "rollout-x.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd rest")
    assert run(plane, tmp_path, source="codex").skipped == {"file compressed with zstd": 1}


values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=6)
    | st.sampled_from(["user", "assistant", "entity", "relation", "message", "session_meta"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["role", "content", "type", "name", "entityType", "observations", "from",
                         "to", "relationType", "messages", "payload", "id", "text", "session",
                         "items", "call_id", "output", "timestamp"]), inner, max_size=4),
    max_leaves=16,
)  # fmt: skip


@settings(
    max_examples=examples(24),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(values, max_size=5),
    st.sampled_from(["codex", "chat", "mcp-memory", "claude-memory", None]),
    st.sampled_from(["lines", "document"]),
)
def test_any_json_is_taken_or_counted_and_a_second_import_repeats(
    plane, tmp_path, made, source, form
):
    folder = tmp_path / "fuzz" / "memory"
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join(map(json.dumps, made)) if form == "lines" else json.dumps(made, indent=1)
    for name in ("a.json", "MEMORY.md"):
        (folder / name).write_text(text)
    run(plane, tmp_path / "fuzz", source=source)
    again = run(plane, tmp_path / "fuzz", source=source)
    full = run(plane, tmp_path / "fuzz", source=source, full=True)
    assert (again.events, full.events, again.archived, full.archived) == (0, 0, 0, 0)
