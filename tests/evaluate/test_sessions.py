"""Transcripts replayed as hooks would have met them, with and without labels."""

import json

import pytest

from memplane.cli.trials import _hook_answer, _plane
from memplane.errors import InputError
from memplane.evaluate.sessions import (
    read_prompt_labels,
    replay_sessions,
    sessions_report,
    sessions_table,
)


def record(session, number, role, text, day):
    return {
        "type": role, "uuid": f"{session}-{number}", "sessionId": session, "cwd": "/srv/boat",
        "timestamp": f"2026-01-{day:02}T10:{number:02}:00.000Z",
        "message": {"role": role, "content": text},
    }  # fmt: skip


FIRST = [
    (("user"), "grease the windlass with tallow, oil drips onto the deck"),
    (("assistant"), "Done: windlass_grease.py uses tallow now."),
]
SECOND = [
    (("user"), "let us look at the sails of the barquentine today"),
    (("assistant"), "The sails are in order."),
    (("user"), "thanks"),
    (("user"), "why did we grease the windlass with tallow?"),
    (("assistant"), "Because of the deck, see windlass_grease.py."),
]


@pytest.fixture
def transcripts(tmp_path):
    for name, day, turns in (("one", 5, FIRST), ("two", 7, SECOND)):
        rows = [record(name, n, role, text, day) for n, (role, text) in enumerate(turns)]
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]


def labels(tmp_path, rows):
    path = tmp_path / "labels.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_prompt_labels(path)


def test_a_replay_says_what_was_answered_and_what_of_it_was_needed(transcripts, tmp_path):
    known = labels(tmp_path, [
        {"prompt": "thanks", "speak": "no", "session": "two", "ts": "2026-01-07T10:02:00Z"},
        {
            "prompt": "why did we grease the windlass with tallow?", "speak": "yes",
            "session": "two", "ts": "2026-01-07T10:03:00Z", "want": ["oil drips onto the deck"],
        },
        {"prompt": "good morning", "speak": "no"},
    ])  # fmt: skip
    run = replay_sessions(transcripts, known, _plane, _hook_answer, {})
    report = sessions_report(run)
    assert (report["sessions"], report["prompts"]["asked"]) == (2, 4)
    assert report["labelled"]["no"] == {
        "asked": 1, "answered": 0, "quoted": 0, "quoted_at_start": 0,
    }  # fmt: skip
    assert report["labelled"]["yes"]["quoted"] == 1
    assert report["apart"] == {"asked": 1, "answered": 0}
    lines = sessions_table(report).splitlines()
    assert lines[0].endswith("2 sessions")
    assert any(line.startswith("yes") and "a wanted quote at 1" in line for line in lines)


def test_nothing_of_what_comes_later_is_said(transcripts):
    run = replay_sessions(transcripts, [], _plane, _hook_answer, {})
    first = [one for one in run.injections if one.session == "one"]
    assert all(not one.spoken.passages for one in first)


def test_all_figures_stand_for_parts_of_the_sessions_by_time(transcripts, tmp_path):
    rows = [
        {"prompt": "thanks", "speak": "no", "session": "two", "ts": "2026-01-07T10:02:00Z"},
    ]
    run = replay_sessions(transcripts, labels(tmp_path, rows), _plane, _hook_answer, {})
    report = sessions_report(run)
    first, second = report["parts"]
    assert run.parts == (frozenset({"one"}), frozenset({"two"}))
    assert "labelled" not in first
    assert second["labelled"]["no"]["asked"] == 1
    for place in ("starts", "prompts", "tools"):
        for figure in ("asked", "answered", "passages", "tokens"):
            parts = [part[place][figure] for part in (first, second)]
            assert sum(parts) == report[place][figure], (place, figure)
    assert "part 2 of 2: 1 sessions" in sessions_table(report)
    whole = replay_sessions(transcripts, [], _plane, _hook_answer, {}, parts=1)
    assert [part["sessions"] for part in sessions_report(whole)["parts"]] == [2]


def test_what_would_be_said_at_tools_is_measured_though_it_is_off(tmp_path):
    trap = "never sort barquentine_rig.py, its order is the order of the masts"
    read = [{"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": ""}}]
    read[0]["input"]["file_path"] = "/srv/boat/barquentine_rig.py"
    rows = [
        record("one", 0, "user", trap, 5), record("one", 1, "assistant", "Understood.", 5),
        record("two", 0, "user", "tidy the rigging", 7), record("two", 1, "assistant", read, 7),
        record("two", 2, "assistant", "The foremast is first.", 7),
    ]  # fmt: skip
    path = tmp_path / "both.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = replay_sessions([path], [], _plane, _hook_answer, {})
    tools = [one for one in run.injections if one.when == "tool"]
    assert [one.session for one in tools] == ["two"]
    assert sessions_report(run)["tools"]["asked"] == 1
    start = [one for one in run.injections if one.when == "start" and one.session == "two"]
    assert trap in "".join(start[0].spoken.passages)
    assert not tools[0].spoken.passages  # the start of the session has said it


def test_a_prompt_longer_than_a_hook_reads_is_asked_about_as_a_hook_asks(tmp_path):
    fact = "grease the windlass with tallow, oil drips onto the deck of the barquentine"
    long = "why did we grease the windlass with tallow? " + "the log of the ship says: calm. " * 300
    rows = [
        record("one", 0, "user", fact, 5), record("one", 1, "assistant", "Done.", 5),
        record("two", 0, "user", "let us look at the sails", 7), record("two", 1, "assistant", "Yes.", 7),
        record("two", 2, "user", long, 7), record("two", 3, "assistant", "Because of the deck.", 7),
    ]  # fmt: skip
    path = tmp_path / "both.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = []

    def answer(plane, session, when, query, event_id):
        asked.append((when, len(query), event_id))
        return _hook_answer(plane, session, when, query, event_id)

    run = replay_sessions([path], [], _plane, answer, {})
    found = [one for one in run.injections if one.when == "prompt" and len(one.query) > 8_000]
    assert len(found) == 1
    assert all(event_id for when, _, event_id in asked if when == "prompt")
    assert "start" in {when for when, _, event_id in asked if not event_id}


def test_files_without_a_prompt_are_named(tmp_path):
    path = tmp_path / "none.jsonl"
    path.write_text(json.dumps(record("one", 0, "assistant", "hello", 5)) + "\n")
    with pytest.raises(InputError, match="--sessions: no prompt was found"):
        replay_sessions([path], [], _plane, _hook_answer, {})


def test_every_mistake_of_labels_is_named_with_its_line(tmp_path):
    with pytest.raises(InputError) as failed:
        labels(
            tmp_path,
            [{"speak": "no"}, {"prompt": "x", "speak": "often"}, {"prompt": "x", "want": 3}],
        )
    said = str(failed.value)
    assert ":1: prompt: expected the text of a prompt" in said
    assert ":2: speak: expected no, maybe or yes, found 'often'" in said
    assert ":3: want: expected a list of quotes" in said
