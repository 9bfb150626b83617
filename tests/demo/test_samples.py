"""The sample files: what the demo, the scenarios and the README stand on."""

import json
from pathlib import Path

import pytest

import memplane
from memplane.importers import import_paths

SAMPLES = Path(__file__).parents[2] / "scenarios" / "data"


@pytest.fixture
def plane(tmp_path):
    with memplane.init(tmp_path / "home", durability="os") as plane:
        yield plane


def test_the_sample_session_is_recognised_and_taken_whole(plane):
    report = import_paths(plane, None, [SAMPLES / "sample-session.jsonl"])
    assert report.per_file[0].source == "claude-code"
    assert (report.events, report.refusals, report.repeated) == (169, 0, 0)
    assert set(report.skipped) == {"record type file-history-snapshot"}


def test_the_sample_session_holds_what_a_long_job_holds(plane):
    import_paths(plane, None, [SAMPLES / "sample-session.jsonl"])
    events = list(plane.events())
    marks = [e.data["status"] for e in events if e.kind == "session"]
    assert marks == ["start", "checkpoint", "title", "start", "end", "end"]
    calls = {e.data["call"] for e in events if e.kind == "tool_call"}
    results = [e for e in events if e.kind == "tool_result"]
    assert {e.data["call"] for e in results} == calls
    assert sum(e.data["status"] == "error" for e in results) >= 5
    assert sum(e.role == "user" and e.kind == "message" for e in events) >= 12
    assert len({e.data["path"] for e in events if e.data.get("path")}) >= 10


def test_every_sample_decision_is_taken_and_the_later_of_a_key_holds(plane):
    text = (SAMPLES / "sample-decisions.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    assert plane.record_many(rows).count == len(rows)
    kinds = {row["kind"] for row in rows}
    assert {"decision", "rule", "preference", "fact", "plan"} <= kinds
    status = [version.reason for version in plane.history("redirect.status")]
    assert status == ["superseded", None]
