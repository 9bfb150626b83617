"""Arrays of messages, in the styles of OpenAI and Anthropic."""

import json

import pytest
from builders_json import blocks, json_values
from hypothesis import given, strategies as st

from memplane.importers import import_paths
from memplane.importers.codex import Chat, is_chat, is_message
from memplane.importers.records import parse_array, parse_document
from memplane.intake import normalise

OPENAI = [
    {"role": "system", "content": "You are brief."},
    {"role": "user", "name": "ada", "content": [
        {"type": "text", "text": "what is in a.py?"},
        {"type": "image_url", "image_url": {"url": "data:"}},
    ]},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c1", "type": "function",
         "function": {"name": "Read", "arguments": '{"file_path": "a.py"}'}},
    ]},
    {"role": "tool", "tool_call_id": "c1", "content": "x = 1"},
    {"role": "assistant", "content": "It sets x.", "refusal": None},
]  # fmt: skip
ANTHROPIC = {
    "system": "You are brief.",
    "messages": [
        {"role": "user", "content": "what is in a.py?"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "I should look.", "signature": "s"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a.py"}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": [
                {"type": "text", "text": "no such file"}, {"type": "image", "source": {}},
            ]},
        ]},
    ],
}  # fmt: skip


def rows_of(*records, file="talk.json", **options):
    reader = Chat(**options)
    reader.begin({}, file)
    outcomes = [reader.read(record, b"") for record in records]
    rows = [row for outcome in outcomes for row in outcome.rows]
    return rows, [reason for outcome in outcomes for reason in outcome.skipped]


def told(rows):
    return [(row["kind"], row["role"], row["text"]) for row in rows]


def test_messages_of_openai_with_parts_calls_and_answers():
    rows, skipped = rows_of({"messages": OPENAI})
    assert told(rows) == [
        ("message", "system", "You are brief."),
        ("message", "user", "what is in a.py?"),
        ("tool_call", "assistant", "Read file_path=a.py"),
        ("tool_result", "tool", "x = 1"),
        ("message", "assistant", "It sets x."),
    ]
    assert skipped == ["part type image_url"]
    assert rows[1]["actor"] == "ada"
    assert rows[3]["data"] == {"tool": "Read", "call": "c1", "path": "a.py", "status": "ok"}


def test_messages_of_anthropic_with_blocks_and_a_system_of_their_own():
    rows, skipped = rows_of(ANTHROPIC)
    assert told(rows) == [
        ("message", "system", "You are brief."),
        ("message", "user", "what is in a.py?"),
        ("message", "assistant", "I look."),
        ("tool_call", "assistant", "Read file_path=a.py"),
        ("tool_result", "tool", "no such file"),
    ]
    assert skipped == ["reasoning", "part type image"]
    assert rows[4]["data"]["status"] == "error"


def test_thinking_is_taken_where_it_is_asked_for_and_no_other_id_changes():
    rows, _ = rows_of(ANTHROPIC)
    more, skipped = rows_of(ANTHROPIC, reasoning=True)
    (thought,) = [row for row in more if row.get("tags") == ["reasoning"]]
    assert (thought["role"], thought["text"]) == ("assistant", "I should look.")
    assert [row for row in more if row is not thought] == rows
    assert skipped == ["part type image"]


def test_functions_of_the_first_years_are_calls():
    rows, _ = rows_of(
        {
            "messages": [
                {"role": "assistant", "content": None,
                 "function_call": {"name": "look_up", "arguments": '{"what": "x"}'}},
                {"role": "function", "name": "look_up", "content": "y"},
            ]
        }
    )  # fmt: skip
    assert told(rows) == [
        ("tool_call", "assistant", "look_up what=x"), ("tool_result", "tool", "y"),
    ]  # fmt: skip
    assert rows[1]["data"]["tool"] == "look_up"


def test_items_of_the_responses_api_may_stand_among_messages():
    rows, _ = rows_of(
        {
            "messages": [
                {"role": "user", "content": "look"},
                {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"},
                {"type": "function_call_output", "call_id": "c", "output": "seen"},
            ]
        }
    )
    assert [row["text"] for row in rows] == ["look", "f", "seen"]


def test_a_chat_that_grew_keeps_its_ids_and_session():
    short, _ = rows_of({"messages": OPENAI[:2]})
    long, _ = rows_of({"messages": OPENAI})
    assert long[: len(short)] == short
    assert len({row["id"] for row in long}) == len(long)
    assert len({row["session"] for row in long}) == 1


def test_the_mark_of_a_cache_that_moves_on_changes_no_id():
    def marked(at):
        parts = [{"type": "text", "text": text} for text in "ab"]
        parts[at]["cache_control"] = {"type": "ephemeral"}
        return rows_of({"messages": [{"role": "user", "content": parts}]})[0]

    assert marked(0) == marked(1)


def test_ids_do_not_depend_on_the_file_and_sessions_tell_chats_apart():
    here, _ = rows_of({"messages": OPENAI}, file="a.json")
    there, _ = rows_of({"messages": OPENAI}, file="b.json")
    assert [row["id"] for row in here] == [row["id"] for row in there]
    assert here[0]["session"].startswith("chat/a/")
    assert there[0]["session"].startswith("chat/b/")
    two, _ = rows_of({"messages": OPENAI[:1]}, {"messages": OPENAI[1:2]})
    assert len({row["session"] for row in two}) == 2


def test_the_id_of_a_chat_is_its_session_and_makes_its_messages_its_own():
    one, _ = rows_of({"id": "first", "messages": OPENAI[:1]})
    two, _ = rows_of({"id": "second", "messages": OPENAI[:1]})
    assert (one[0]["session"], two[0]["session"]) == ("first", "second")
    assert one[0]["id"] != two[0]["id"]


@pytest.mark.parametrize(
    ("field", "value", "ts"),
    [
        ("timestamp", "2026-03-01T10:00:00Z", "2026-03-01T10:00:00.000000Z"),
        ("created_at", 1772359200, "2026-03-01T10:00:00+00:00"),
        ("create_time", 1772359200000, "2026-03-01T10:00:00+00:00"),
        ("timestamp", "yesterday", None),
        ("created", True, None),
        ("created", 1e300, None),
    ],
)
def test_a_time_is_taken_where_a_message_has_one_that_can_be_read(field, value, ts):
    rows, _ = rows_of({"role": "user", "content": "hi", field: value})
    assert rows[0].get("ts") == ts


def test_a_chat_that_has_not_begun_is_no_mistake_and_is_taken_when_it_has(plane, tmp_path):
    path = tmp_path / "talk.json"
    path.write_text("[]\n")
    assert import_paths(plane, "chat", [path]).events == 0
    path.write_text(json.dumps(OPENAI))
    assert import_paths(plane, "chat", [path]).events == 5


def test_lines_of_single_messages_are_one_chat():
    whole, _ = rows_of(*OPENAI)
    assert [row["text"] for row in whole] == [
        row["text"] for row in rows_of({"messages": OPENAI})[0]
    ]
    assert len({row["session"] for row in whole}) == 1


def test_what_is_left_out_is_counted_by_its_reason():
    rows, skipped = rows_of(
        {"messages": []},
        {"messages": [7, {"role": "narrator", "content": "x"}, {"role": "user", "content": "  "}]},
        {"messages": [{"role": "user", "content": [{"type": "odour"}, 7]}]},
        {"messages": [{"role": "assistant", "content": "", "tool_calls": [7]}]},
        {"a": 1},
    )
    assert rows == []
    assert skipped == [
        "empty chat", "no message", "unknown role narrator", "empty text",
        "unknown part type odour", "unknown part type (none)", "unknown tool call", "no message",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "records"),
    [
        (OPENAI, [{"messages": OPENAI}]),
        ([{"messages": OPENAI}, ANTHROPIC], [{"messages": OPENAI}, ANTHROPIC]),
        ([OPENAI, OPENAI[:1]], [{"messages": OPENAI}, {"messages": OPENAI[:1]}]),
        ([], []),
        ([1, 2], []),
        ([{"a": 1}], []),
    ],
)
def test_arrays_of_messages_of_chats_and_of_arrays_are_told_from_others(value, records):
    assert list(parse_document(json.dumps(value, indent=2).encode()).records) == records
    assert list(parse_array(json.dumps(value).encode())) == records


def test_an_object_over_many_lines_is_a_chat_if_it_has_messages():
    assert parse_document(json.dumps(ANTHROPIC, indent=1).encode()).records == (ANTHROPIC,)
    assert parse_document(b'{"messages": []}') == ((), False)
    assert parse_document(b"{") == ((), True)
    assert parse_array(b"{}") == ()


calls = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("id", "function", "custom", "type"), json_values)
) | st.fixed_dictionaries(
    {"function": st.fixed_dictionaries({"name": json_values, "arguments": json_values})}
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system", "x"]) | json_values},
    optional={
        "content": st.lists(blocks | json_values, max_size=3) | json_values,
        "tool_calls": st.lists(calls | json_values, max_size=3) | json_values,
        "function_call": json_values,
        "tool_call_id": json_values,
        "reasoning_content": json_values,
        "refusal": json_values,
        "name": json_values,
        "timestamp": json_values,
        "created": json_values,
    },
) | st.fixed_dictionaries(
    {"type": st.sampled_from(["function_call", "function_call_output", "reasoning", "message"])},
    optional=dict.fromkeys(("name", "arguments", "call_id", "output", "summary"), json_values),
)
chats = st.fixed_dictionaries(
    {"messages": st.lists(messages | json_values, max_size=4) | json_values},
    optional={"id": json_values, "system": json_values, "thread_id": st.text()},
)


@given(st.lists(chats | messages | st.dictionaries(st.text(), json_values), max_size=4))
def test_any_record_comes_to_something_and_every_row_passes_the_check_of_events(made):
    reader = Chat(reasoning=True)
    reader.begin({}, "any.json")
    for record in made:
        is_chat(record)
        is_message(record)
        outcome = reader.read(record, b"")
        assert outcome.rows or outcome.skipped
        for row in outcome.rows:
            normalise(row)
    json.dumps(reader.state())


@given(st.lists(messages, max_size=6), st.data())
def test_a_beginning_of_a_chat_gives_the_beginning_of_its_rows(made, data):
    at = data.draw(st.integers(0, len(made)))
    short, long = (rows_of({"messages": some})[0] for some in (made[:at], made))
    assert repr(long[: len(short)]) == repr(short)
    first, second = Chat(), Chat()
    first.begin({}, "a.jsonl")
    rows = [row for record in made[:at] for row in first.read(record, b"").rows]
    second.begin(json.loads(json.dumps(first.state())), "a.jsonl")
    rows += [row for record in made[at:] for row in second.read(record, b"").rows]
    assert repr(rows) == repr(rows_of(*made, file="a.jsonl")[0])


@given(json_values)
def test_any_json_is_looked_at_as_a_document(value):
    text = json.dumps(value).encode()
    reader = Chat()
    reader.begin({}, "a.json")
    for record in (*parse_document(text).records, *parse_array(text)):
        reader.read(record, b"")
