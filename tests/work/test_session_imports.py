"""Sessions of imported transcripts: ended once, when they are over."""

import json

from builders_sessions import THREE, later, status, summary

from memplane.importers import import_paths


def transcript(path, session, texts, start="2026-01-05T10:00"):
    lines = [
        {
            "type": "user", "uuid": f"{session}-{number}", "sessionId": session, "cwd": "/p",
            "timestamp": f"{start}:{number:02}.000Z", "message": {"role": "user", "content": text},
        }
        for number, text in enumerate(texts)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_an_import_ends_what_is_over_with_the_time_of_its_last_event(plane, tmp_path):
    file = tmp_path / "a.jsonl"
    transcript(file, "s", THREE)
    report = import_paths(plane, "claude-code", [file])
    assert (report.events, report.ended) == (4, 1)
    made, end = list(plane.events(session="s"))[-2:]
    assert (end.id, end.ts) == ("claude-code:s:end:s-2:0", "2026-01-05T10:00:02.000000Z")
    assert end.data == {"status": "end", "reason": "importer"}
    assert (made.id, made.ts) == ("claude-code:s:summary:s-2:0", end.ts)
    seq = plane.head().seq
    for again in (False, True):
        assert import_paths(plane, "claude-code", [file], full=again).ended == 0
    assert plane.head().seq == seq


def test_a_transcript_that_grew_opens_its_session_and_ends_it_again(plane, tmp_path):
    file = tmp_path / "a.jsonl"
    transcript(file, "s", THREE)
    import_paths(plane, "claude-code", [file])
    transcript(file, "s", [*THREE, "and the ibises"])
    assert import_paths(plane, "claude-code", [file]).ended == 1
    assert [event.data["status"] for event in plane.events(kind="session")] == [
        "start", "end", "end",
    ]  # fmt: skip
    assert summary(plane, "s").text.endswith("Asked: and the ibises")


def test_a_transcript_that_may_still_go_on_is_ended_by_a_later_import(plane, clock, tmp_path):
    file = tmp_path / "a.jsonl"
    transcript(file, "s", THREE, start="2026-01-05T11:45")
    assert import_paths(plane, "claude-code", [file]).ended == 0
    assert status(plane) == {"s": "open"}
    later(clock, 31)
    report = import_paths(plane, "claude-code", [file])
    assert (report.unchanged, report.ended) == (1, 1)
    assert status(plane) == {"s": "ended"}


def test_an_import_of_more_sessions_than_are_kept_ends_every_one_once(plane, tmp_path):
    for number in range(230):
        transcript(tmp_path / f"{number:03}.jsonl", f"s{number:03}", THREE)
    assert import_paths(plane, "claude-code", [tmp_path]).ended == 230
    assert len(list(plane.events(kind="summary"))) == 230
    seq = plane.head().seq
    assert import_paths(plane, "claude-code", [tmp_path], full=True).ended == 0
    assert import_paths(plane, "claude-code", [tmp_path]).ended == 0
    assert plane.head().seq == seq
    assert plane.work.sessions.get("s000").status == "ended"


def test_json_lines_end_no_session_and_forgetting_their_source_takes_summaries_along(
    plane, tmp_path
):
    file = tmp_path / "rows.jsonl"
    rows = [{"id": f"r{n}", "text": text, "session": "s"} for n, text in enumerate(THREE)]
    dated = [{**row, "role": "user", "ts": "2020-01-01T00:00:00Z"} for row in rows]
    file.write_text("".join(json.dumps(row) + "\n" for row in dated))
    assert import_paths(plane, "jsonl", [file]).ended == 0
    assert status(plane) == {"s": "open"}
    transcript(tmp_path / "a.jsonl", "t", THREE)
    import_paths(plane, "claude-code", [tmp_path / "a.jsonl"])
    plane.forget(source="claude-code")
    assert summary(plane, "t") is None
    assert status(plane) == {"s": "open"}
