"""Laws of the reader of rollouts, for any JSON in any place."""

import json

from builders_json import comes_to_something, json_values
from hypothesis import given, strategies as st

from memplane.importers.codex import Codex

texts = st.sampled_from(
    ["hi", " ", "<skill>x", "<turn_aborted>", "*** Begin Patch\n*** Add File: a", '{"output":1}']
)
parts = st.fixed_dictionaries(
    {"type": st.sampled_from(["input_text", "output_text", "input_image", "refusal", "x"])},
    optional={"text": texts | json_values, "refusal": json_values},
)
items = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            [
                "message",
                "reasoning",
                "function_call",
                "function_call_output",
                "custom_tool_call",
                "local_shell_call",
                "web_search_call",
                "agent_message",
                "compaction",
                "y",
            ]
        )
    },
    optional={
        "role": st.sampled_from(["user", "assistant", "developer"]) | json_values,
        "content": st.lists(parts | json_values, max_size=3) | texts | json_values,
        "summary": st.lists(parts, max_size=2) | json_values,
        "name": st.sampled_from(["shell", "Read"]) | json_values,
        "arguments": st.sampled_from(['{"command": ["a"]}', "[", "null"]) | json_values,
        "call_id": st.sampled_from(["c1", "c2"]) | json_values,
        "input": texts | json_values,
        "output": st.lists(parts | json_values, max_size=2) | texts | json_values,
        "action": json_values,
        "author": st.text(max_size=200) | json_values,
        "internal_chat_message_metadata_passthrough": json_values
        | st.fixed_dictionaries({"content_item_kinds": st.lists(json_values) | json_values}),
    },
)
metas = st.fixed_dictionaries(
    {},
    optional={
        "id": st.text(max_size=200) | json_values,
        "cwd": json_values | st.just("/a/b"),
        "git": json_values | st.fixed_dictionaries({"branch": json_values}),
        "source": json_values
        | st.fixed_dictionaries({"subagent": json_values})
        | st.fixed_dictionaries({"subagent": st.fixed_dictionaries({"thread_spawn": json_values})}),
        "agent_nickname": json_values,
        "timestamp": json_values,
    },
)
records = (
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["response_item", "compacted", "event_msg"]) | json_values,
            "payload": items | st.fixed_dictionaries({"message": texts | json_values}),
        },
        optional={"timestamp": json_values},
    )
    | st.fixed_dictionaries({"type": st.just("session_meta"), "payload": metas | json_values})
    | items
    | st.dictionaries(
        st.sampled_from(["id", "timestamp", "git", "session", "items", "record_type", "type"]),
        json_values | metas | st.lists(items | json_values, max_size=2),
        max_size=4,
    )
)


@given(st.lists(records, max_size=6), st.booleans())
def test_any_record_comes_to_something_and_every_row_passes_the_check_of_events(made, reasoning):
    reader = Codex(reasoning=reasoning)
    reader.begin({})
    comes_to_something(reader, made)


@given(st.lists(records, max_size=6), st.data())
def test_reading_on_from_any_place_gives_what_reading_at_once_gives(made, data):
    at = data.draw(st.integers(0, len(made)))
    whole, first, second = Codex(), Codex(), Codex()
    whole.begin({})
    expected = [whole.read(record, b"") for record in made]
    first.begin({})
    outcomes = [first.read(record, b"") for record in made[:at]]
    second.begin(json.loads(json.dumps(first.state())))
    outcomes += [second.read(record, b"") for record in made[at:]]
    assert repr(outcomes) == repr(expected)


@given(json_values)
def test_any_state_is_taken(state):
    reader = Codex()
    reader.begin(state if isinstance(state, dict) else {"file": state, "calls": state})
    reader.read({"type": "message", "role": "user", "content": "hi"}, b"")
    json.dumps(reader.state())
