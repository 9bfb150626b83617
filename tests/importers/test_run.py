"""Whole imports into a real plane."""

import contextlib
import gzip
import json

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from memplane.errors import InputError
from memplane.importers import detect, import_paths
from tests.examples import examples


def texts(plane):
    return [event.text for event in plane.events(kind="message")]


def adds_up(report):
    assert report.items == (
        report.events + report.repeated + report.refusals + sum(report.skipped.values())
    )
    for file in report.per_file:
        assert file.items == (
            file.events + file.repeated + file.refused + sum(file.skipped.values())
        )
        assert file.items >= file.lines
    json.dumps(report.as_json())
    return report


def run(plane, *paths, source="claude-code", **options):
    return adds_up(import_paths(plane, source, paths, **options))


@pytest.fixture
def file(tmp_path, transcript):
    path = tmp_path / "one.jsonl"
    path.write_bytes(transcript().user("hello").says("good day").bytes)
    return path


def test_a_second_import_records_nothing(plane, file):
    assert run(plane, file).events == 3
    seq = plane.head().seq
    again = run(plane, file)
    assert (again.events, again.unchanged, again.lines) == (0, 1, 0)
    full = run(plane, file, full=True)
    assert (full.events, full.repeated, full.unchanged) == (0, 3, 0)
    assert plane.head().seq == seq


def test_events_stand_in_the_order_of_the_file_even_where_time_runs_backwards(
    plane, tmp_path, transcript
):
    made = transcript().user("first").user("second", timestamp="2020-01-01T00:00:00Z")
    (tmp_path / "a.jsonl").write_bytes(made.bytes)
    run(plane, tmp_path / "a.jsonl")
    assert texts(plane) == ["first", "second"]


def test_of_a_grown_file_only_what_is_new_is_read(plane, file, transcript):
    run(plane, file)
    longer = transcript().user("hello").says("good day").user("more")
    file.write_bytes(longer.bytes)
    report = run(plane, file)
    assert (report.lines, report.events, report.repeated) == (1, 1, 0)
    assert texts(plane) == ["hello", "good day", "more"]


def test_a_line_that_is_still_being_written_is_left_for_the_next_import(plane, file, transcript):
    longer = transcript().user("hello").says("good day").user("more").bytes
    file.write_bytes(longer[:-20])
    assert run(plane, file).skipped == {"unfinished line": 1}
    file.write_bytes(longer)
    assert run(plane, file).events == 1
    assert texts(plane) == ["hello", "good day", "more"]


def test_a_last_line_without_newline_is_taken_if_it_is_whole(plane, file):
    file.write_bytes(file.read_bytes()[:-1])
    assert run(plane, file).events == 3
    with file.open("ab") as grown:
        grown.write(b'\n{"type": "summary"}\n')
    assert run(plane, file).skipped == {"blank line": 1, "record type summary": 1}


def test_a_file_that_was_rewritten_is_read_from_its_start(plane, file, transcript):
    run(plane, file)
    file.write_bytes(transcript("s-two").user("another talk, of another session").bytes * 3)
    report = run(plane, file)
    assert (report.lines, report.events, report.repeated) == (3, 2, 2)


def test_what_stands_beside_a_sub_agent_s_transcript_is_no_file_of_the_source(plane, file):
    (file.parent / "agent-1.meta.json").write_text('{"agentType": "explorer"}')
    report = import_paths(plane, "claude-code", [file.parent])
    assert [one.path for one in report.per_file] == [str(file)]


def test_a_result_in_new_lines_knows_its_call_in_old_ones(plane, file, transcript):
    made = transcript().calls("Read", "t1", file_path="/proj/a.py")
    file.write_bytes(made.bytes)
    run(plane, file)
    file.write_bytes(made.result("t1", "text").bytes)
    run(plane, file)
    (event,) = plane.events(kind="tool_result")
    assert (event.data["tool"], event.data["path"]) == ("Read", "a.py")


def test_what_was_consumed_counts_for_one_log_only(plane, file, tmp_path):
    import memplane

    run(plane, file)
    kept = (plane.home / "projections" / "imports.json").read_bytes()
    with memplane.init(tmp_path / "other") as other:
        (other.home / "projections").mkdir(exist_ok=True)
        (other.home / "projections" / "imports.json").write_bytes(kept)
        assert run(other, file).events == 3


@pytest.mark.parametrize(
    "junk", [b"", b"null", b"[]", b"\xff", b'{"format":1}', b"[" * 9999, b'{"files": 7}']
)
def test_a_broken_cache_is_ignored(plane, file, junk):
    run(plane, file)
    (plane.home / "projections" / "imports.json").write_bytes(junk)
    assert run(plane, file).repeated == 3
    assert run(plane, file).unchanged == 1


def test_a_cache_with_broken_entries_is_ignored(plane, file):
    run(plane, file)
    cache = plane.home / "projections" / "imports.json"
    whole = json.loads(cache.read_bytes())
    for broken in (7, {}, {**whole["files"][str(file)], "offset": -4}, {"how": None}):
        cache.write_text(json.dumps({**whole, "files": {str(file): broken}}))
        assert run(plane, file).repeated == 3


def test_asking_for_reasoning_later_reads_the_file_again(plane, tmp_path, transcript):
    path = tmp_path / "a.jsonl"
    path.write_bytes(transcript().says({"type": "thinking", "thinking": "hm"}, "yes").bytes)
    assert run(plane, path).skipped == {"reasoning": 1}
    assert run(plane, path, reasoning=True).events == 1
    assert sorted(texts(plane)) == ["hm", "yes"]


def test_records_that_repeat_over_files_are_recorded_once(plane, tmp_path, transcript):
    made = transcript().user("hello").says("good day")
    (tmp_path / "a.jsonl").write_bytes(made.bytes)
    (tmp_path / "b.jsonl").write_bytes(made.user("and on").bytes)
    report = run(plane, tmp_path)
    assert (report.files, report.events, report.repeated) == (2, 4, 2)
    assert texts(plane) == ["hello", "good day", "and on"]


def test_a_record_copied_into_a_resumed_session_is_a_repeat_and_not_a_conflict(
    plane, tmp_path, transcript
):
    made = transcript().user("hello")
    (tmp_path / "a.jsonl").write_bytes(made.bytes)
    run(plane, tmp_path / "a.jsonl")
    made.records[0]["sessionId"] = "s-resumed"
    (tmp_path / "b.jsonl").write_bytes(made.bytes)
    report = run(plane, tmp_path / "b.jsonl")
    assert (report.repeated, report.refusals) == (1, 0)


def test_a_file_of_two_sessions_begins_both(plane, tmp_path, transcript):
    path = tmp_path / "a.jsonl"
    path.write_bytes(transcript("s-a").user("x").bytes + transcript("s-b").user("y").bytes)
    run(plane, path)
    told = [(event.session, event.data["status"]) for event in plane.events(kind="session")]
    assert told == [("s-a", "start"), ("s-b", "start"), ("s-a", "end"), ("s-b", "end")]
    texts_of_b = [event.text for event in plane.events(session="s-b")]
    assert texts_of_b == ["Session started", "y", "Session ended"]


def test_gzip_is_read_whole_or_not_at_all(plane, tmp_path, transcript):
    path, made = tmp_path / "a.jsonl.gz", transcript().user("hello")
    path.write_bytes(gzip.compress(made.bytes))
    assert run(plane, path).events == 2
    assert run(plane, path).unchanged == 1
    path.write_bytes(gzip.compress(made.user("more").bytes))
    report = run(plane, path)
    assert (report.events, report.repeated) == (1, 2)


def test_malformed_lines_are_counted_and_the_others_taken(plane, file):
    path = file
    path.write_bytes(b"\x00\xff\n{cut\n\n[1]\n" + path.read_bytes() + b'{"type":"new"}\n')
    report = run(plane, path)
    assert report.events == 3
    assert report.lines == 7
    assert report.skipped == {"malformed line": 3, "blank line": 1, "unknown record type new": 1}


def test_rows_that_the_plane_refuses_are_listed_with_their_reason(plane, tmp_path):
    path = tmp_path / "rows.jsonl"
    good = {"id": "a", "kind": "fact", "text": "one", "ts": "2026-01-01T00:00:00Z"}
    made = [good, {**good, "text": "two"}, {**good, "id": "b", "ts": "2026-01-01T00:00:00"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in made))
    report = run(plane, path, source="jsonl")
    assert report.events == 1
    assert [(row.id, row.reason) for row in report.refused] == [("a", "conflict"), ("b", "invalid")]
    assert report.refused[1].message.startswith("ts: ")
    assert [event.text for event in plane.events(kind="fact")] == ["one"]


def test_an_exported_log_comes_back_whole(plane, file, tmp_path):
    import memplane

    run(plane, file)
    with memplane.init(tmp_path / "other") as other:
        report = run(other, *sorted((plane.home / "log").glob("*.jsonl")), source="jsonl")
        assert (report.events, report.refusals) == (4, 0)  # three of the file, and the end
        assert texts(other) == texts(plane)


def test_a_plane_does_not_read_its_own_files_out_of_a_folder(plane, file):
    home = plane.home.parent
    (home / "talk.jsonl").write_bytes(file.read_bytes())
    report = run(plane, home)
    assert [each.path for each in report.per_file] == [str(home / "talk.jsonl")]


def test_progress_ends_with_everything_done(plane, file):
    told = []
    run(plane, file, progress=lambda *figures: told.append(figures))
    assert told[-1] == (file.stat().st_size, file.stat().st_size, 3)


@pytest.mark.parametrize("source", [None, "jsonl"])
def test_a_file_that_holds_no_json_lines_is_refused_before_anything_is_recorded(
    plane, tmp_path, file, source
):
    (tmp_path / "junk.jsonl").write_text("hello\nworld\n")
    seq = plane.head().seq
    with pytest.raises(InputError) as caught:
        import_paths(plane, source, [file, tmp_path / "junk.jsonl"])
    assert "hello" in str(caught.value)
    assert caught.value.where == "paths"
    assert plane.head().seq == seq


def test_in_a_folder_such_a_file_is_counted_and_the_others_are_taken(plane, tmp_path, file):
    (tmp_path / "junk.jsonl").write_text("hello\n")
    (tmp_path / "pretty.json").write_text('{\n "a": 1\n}\n')
    report = run(plane, tmp_path, source=None)
    assert report.events == 3
    assert report.skipped["not JSON lines"] == 2


def test_a_path_that_is_not_there_and_an_unknown_source_are_named(plane, tmp_path):
    with pytest.raises(InputError, match="no such file"):
        import_paths(plane, "jsonl", [tmp_path / "gone.jsonl"])
    with pytest.raises(InputError, match="claude-code"):
        import_paths(plane, "claude", [tmp_path])


def test_a_source_is_told_by_the_first_lines(plane, tmp_path, file):
    assert detect(file) == "claude-code"
    assert detect(tmp_path) == "claude-code"
    rows = tmp_path / "rows.jsonl"
    rows.write_text('\n{"conversation_id": "c", "event_id": 1, "text": "x"}\n')
    assert detect(rows) == "jsonl"
    rows.write_text('{"a": 1}\n')
    assert detect(rows) is None
    with pytest.raises(InputError):
        detect(tmp_path / "gone")
    assert run(plane, file, source=None).per_file[0].source == "claude-code"


lines = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            b'{"type":"user","uuid":"u1","sessionId":"s","message":{"content":"hi"}}',
            b'{"type":"user","uuid":"u1","sessionId":"t","message":{"content":"ho"}}',
            b'{"type":"assistant","message":{"content":[{"type":"text","text":"\\ud800"}]}}',
            b'{"kind":"forget","text":""}',
            b'{"kind":"pin","refs":["nothing"]}',
            b'{"text":"x","id":"same"}',
            b'{"text":"y","id":"same"}',
            b'{"text":7,"data":{"deep":' + b"[" * 60 + b"]" * 60 + b"}}",
            b'{"conversation_id":"c","event_id":3,"text":"t","ts":"yesterday"}',
            b'{"text":"a"}{"text":"b"}{',
        ]
    ),
)


@settings(
    max_examples=examples(16),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(lines, max_size=6).map(b"\n".join),
    st.sampled_from(["jsonl", "claude-code"]),
    st.sampled_from(["plain", "gzip", "cut"]),
)
def test_no_bytes_in_a_file_raise_anything_but_input_error(
    plane, tmp_path, content, source, packing
):
    if packing != "plain":
        content = gzip.compress(content)
    path = tmp_path / "fuzz.jsonl"
    path.write_bytes(content[: len(content) * 2 // 3] if packing == "cut" else content)
    with contextlib.suppress(InputError):
        run(plane, path, source=source)
    seq = plane.head().seq
    assert run(plane, tmp_path, source=source).events == 0
    assert run(plane, tmp_path, source=source, full=True).events == 0
    assert plane.head().seq == seq


def test_a_folder_that_cannot_be_written_costs_only_the_cache(plane, file):
    folder = plane.home / "projections"
    folder.mkdir(exist_ok=True)
    (folder / "imports.json").mkdir()
    assert run(plane, file).events == 3
    assert run(plane, file).repeated == 3
    assert list(folder.glob("*.tmp")) == []
