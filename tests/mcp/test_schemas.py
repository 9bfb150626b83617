"""What an agent reads in tools/list: small, true, and what is held to when it calls."""

import json

import pytest
from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator

from memplane.errors import InputError
from memplane.mcp import INSTRUCTIONS, TOOLS, checked, tool_named
from memplane.wiring import make_counter

MODES = ("auto", "legacy")
COUNTER = make_counter("bound/1", 1_000_000)
BY_NAME = {tool.name: tool for tool in TOOLS}


def listed(client):
    return client.list_tools()


@pytest.mark.parametrize("mode", MODES)
def test_all_of_tools_list_and_the_instructions_cost_an_agent_at_most_1800_tokens(talk, mode):
    answer = talk(listed, mode=mode)
    wire = answer.model_dump_json(by_alias=True, exclude_none=True)
    assert len(answer.tools) == 7
    assert COUNTER.count(wire) + COUNTER.count(INSTRUCTIONS) <= 1800
    assert COUNTER.count(INSTRUCTIONS) <= 100


@pytest.mark.parametrize("name", BY_NAME)
def test_every_schema_is_one_and_is_of_an_object(name):
    tool = tool_named(name)
    for schema in (tool.takes, tool.gives):
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert set(schema.get("required", ())) <= set(schema["properties"])


@pytest.mark.parametrize("name", BY_NAME)
def test_every_text_list_and_number_that_a_tool_takes_is_bounded(name):
    for schema in tool_named(name).takes["properties"].values():
        bounds = {
            "string": {"maxLength", "enum"},
            "integer": {"maximum"},
            "array": {"maxItems"},
        }[schema["type"]]
        assert bounds & set(schema)
    assert tool_named(name).takes["additionalProperties"] is False


def test_the_annotations_say_what_the_tools_do(talk):
    hints = {one.name: one.annotations for one in talk(listed).tools}
    assert not any(hint.open_world_hint for hint in hints.values())
    writing = {name for name, hint in hints.items() if not hint.read_only_hint}
    assert writing == {"memory_store", "memory_task", "memory_forget"}
    assert all(hints[name].idempotent_hint for name in writing)
    assert [hints[name].destructive_hint for name in sorted(writing)] == [True, False, False]


def test_a_server_that_reads_only_lists_no_tool_that_writes(talk):
    tools = talk(listed, read_only=True).tools
    assert len(tools) == 4
    assert all(tool.annotations.read_only_hint for tool in tools)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def arguments(draw):
    tool = draw(st.sampled_from(TOOLS))
    names = st.sampled_from([*tool.takes["properties"], "other"])
    likely = (
        st.sampled_from(["fact", "orient", "/global", "", "x" * 500])
        | st.lists(st.sampled_from(["fact", "a", "b" * 70]), max_size=20)
        | st.integers(-5, 100_000)
    )
    return tool, draw(st.dictionaries(names, likely | json_values, max_size=6))


@given(arguments())
def test_arguments_are_taken_exactly_where_the_schema_takes_them(asked):
    tool, given_ = asked
    there = {name: value for name, value in given_.items() if value is not None}
    valid = Draft202012Validator(tool.takes).is_valid(there)
    if None in given_.values() and "other" in given_:
        return  # null stands for what is not given, but not under a name that there is not
    try:
        found = checked(tool, given_)
    except InputError:
        assert not valid
    else:
        assert valid
        assert there.items() <= found.items()
        defaults = {n for n, s in tool.takes["properties"].items() if "default" in s}
        assert defaults <= set(found)
        json.dumps(found)
