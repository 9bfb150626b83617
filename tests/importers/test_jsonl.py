import json

import pytest
from hypothesis import given, strategies as st

from memplane.importers.records import Jsonl
from memplane.importers.rows import name
from memplane.intake import normalise


def rows(record, body=b"line"):
    return Jsonl().read(record, body).rows


def skipped(record):
    return Jsonl().read(record, b"line").skipped


TURN = {
    "conversation_id": "talk",
    "event_id": "D1:3",
    "session_id": "S1",
    "ts": "2026-01-02T03:04:05Z",
    "role": "user",
    "speaker": "Ada",
    "text": "I moved to Turin.",
}


def test_a_turn_keeps_its_place_its_time_and_who_spoke():
    assert rows(TURN) == (
        {
            "id": "jsonl:talk:D1:3",
            "kind": "message",
            "text": "I moved to Turin.",
            "ts": "2026-01-02T03:04:05Z",
            "session": "talk/S1",
            "role": "user",
            "actor": "Ada",
        },
    )


@pytest.mark.parametrize(
    ("role", "speaker", "actor"),
    [
        ("user", "User", None),
        ("human", "human", None),
        ("robot", "", "robot"),
        ("robot", "R2", "R2"),
    ],
)
def test_the_speaker_is_the_actor_where_it_says_more_than_the_role(role, speaker, actor):
    (row,) = rows({**TURN, "role": role, "speaker": speaker})
    assert row.get("actor") == actor


@pytest.mark.parametrize(
    ("kind", "becomes", "role", "tags"),
    [
        ("reasoning", "message", "assistant", ["reasoning"]),
        ("compact_summary", "summary", "assistant", ["compact"]),
        ("meta", "message", "system", ["meta"]),
        ("decision", "decision", "assistant", None),
        ("shrug", "message", "assistant", None),
    ],
)
def test_kinds_of_other_programs_become_kinds_of_events(kind, becomes, role, tags):
    (row,) = rows({**TURN, "role": "assistant", "kind": kind})
    assert (row["kind"], row["role"], row.get("tags")) == (becomes, role, tags)


def test_a_tool_result_keeps_its_call_its_file_and_its_status():
    (row,) = rows(
        {
            **TURN,
            "kind": "tool_result",
            "role": "tool",
            "speaker": "tool",
            "tool": "Read",
            "call_id": "c1",
            "path": "a.py",
            "branch": "main",
            "is_error": True,
            "sidechain": True,
        }
    )
    assert row["data"] == {
        "tool": "Read",
        "call": "c1",
        "path": "a.py",
        "branch": "main",
        "status": "error",
    }
    assert row["tags"] == ["sidechain"]


CALL = {**TURN, "kind": "tool_call", "role": "assistant", "event_id": "c"}
RESULT = {**TURN, "kind": "tool_result", "role": "tool", "speaker": "tool", "event_id": "r"}


def data_of(reader, record):
    (row,) = reader.read(record, b"line").rows
    return row.get("data", {})


def named(reader, **fields):
    data = data_of(reader, {**RESULT, **fields})
    return data.get("tool"), data.get("path")


def test_a_tool_result_has_the_tool_and_the_file_of_the_call_whose_id_it_names():
    reader = Jsonl()
    for call in ("1", "2"):
        data_of(reader, {**CALL, "call_id": call, "tool": f"Read{call}", "path": f"{call}.py"})
    assert named(reader, call_id="2") == ("Read2", "2.py")
    assert named(reader, call_id="1") == ("Read1", "1.py")
    assert named(reader, call_id="1") == (None, None)
    assert named(reader, call_id="3") == (None, None)


def test_what_a_result_says_itself_stands():
    reader = Jsonl()
    data_of(reader, {**CALL, "call_id": "1", "tool": "Read", "path": "a.py"})
    assert named(reader, call_id="1", tool="Cat") == ("Cat", "a.py")


def test_results_without_ids_answer_the_calls_of_their_session_in_order():
    reader = Jsonl()
    for tool in ("Read", "Bash"):
        data_of(reader, {**CALL, "tool": tool})
    data_of(reader, {**CALL, "tool": "Grep", "session_id": "S2"})
    assert [named(reader)[0] for _ in range(3)] == ["Read", "Bash", None]
    assert named(reader, session_id="S2") == ("Grep", None)


def test_a_call_without_an_id_that_nothing_answered_names_no_later_result():
    reader = Jsonl()
    data_of(reader, {**CALL, "tool": "Read"})
    reader.read(TURN, b"line")
    assert named(reader) == (None, None)


def test_a_result_in_the_next_part_of_a_file_has_the_tool_of_its_call():
    first, second = Jsonl(), Jsonl()
    for number in range(300):
        data_of(first, {**CALL, "call_id": f"{number}", "tool": f"Read{number}"})
    state = json.loads(json.dumps(first.state()))
    assert len(state["calls"]) == 200
    second.begin(state)
    assert named(second, call_id="299") == ("Read299", None)
    second.begin({})
    assert named(second, call_id="298") == (None, None)


def test_an_empty_result_answers_its_call_too():
    reader = Jsonl()
    for tool in ("Write", "Read"):
        data_of(reader, {**CALL, "tool": tool})
    assert reader.read({**RESULT, "text": ""}, b"line").rows == ()
    assert named(reader) == ("Read", None)


states = st.dictionaries(
    st.just("calls"), st.none() | st.lists(st.none() | st.lists(st.text() | st.integers()))
)


@given(states)
def test_a_state_that_is_none_is_no_error(state):
    reader = Jsonl()
    reader.begin(state)
    reader.begin(json.loads(json.dumps(reader.state())))


def test_the_fields_of_an_event_are_taken_as_they_are():
    event = {"id": "d1", "kind": "decision", "key": "db", "text": "PostgreSQL", "importance": 800}
    assert rows(event) == (event,)


def test_an_exported_line_of_a_log_loses_what_only_a_log_can_give():
    line = {
        "seq": 9,
        "dur": 8,
        "id": "d1",
        "ts": "t",
        "rec": "r",
        "kind": "fact",
        "text": "x",
        "tokens": 1,
        "h": "00",
    }
    assert rows(line) == ({"id": "d1", "ts": "t", "kind": "fact", "text": "x"},)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({**TURN, "text": " "}, "empty text"),
        ({"kind": "segment", "text": ""}, "event about the old log: segment"),
        ({"seq": 1, "id": "x", "purged": True}, "purged event"),
        ({"name": "not an event"}, "no event"),
    ],
)
def test_what_makes_no_event_has_a_reason(record, reason):
    assert skipped(record) == (reason,)


def test_a_row_without_an_id_is_named_after_its_line():
    (one,), (again,), (other,) = (rows({"text": "x"}, body) for body in (b"a", b"a ", b"b"))
    assert one["id"] == again["id"] != other["id"]


parts = st.tuples(st.text(max_size=80), st.text(max_size=80))


@given(parts, parts)
def test_names_are_always_ids_and_different_parts_give_different_names(one, other):
    for joint in ":/":
        made = name(*one, joint=joint)
        assert 1 <= len(made) <= 128
        assert made.isascii()
        assert made.isprintable()
        assert " " not in made
        assert (name(*other, joint=joint) == made) == (one == other)


values = st.none() | st.booleans() | st.integers() | st.text(max_size=150) | st.lists(st.text())


@given(
    st.dictionaries(
        st.sampled_from([*TURN, "kind", "sidechain", "tool", "call_id", "is_error"]), values
    )
)
def test_any_turn_comes_to_a_row_that_passes_the_check_of_events_or_to_a_reason(record):
    record["event_id"] = record.get("event_id")
    outcome = Jsonl().read(record, b"line")
    assert len(outcome.rows) + len(outcome.skipped) == 1
    for row in outcome.rows:
        normalise({**row, "ts": None})
