"""Whatever a client sends as arguments: an answer or an error for the agent, never a traceback."""

import anyio
import pytest
from hypothesis import given, settings, strategies as st
from jsonschema import validate

from memplane.mcp import TOOLS, tool_named
from memplane.wiring import init, make_counter, open_plane
from tests.examples import examples

MODES = ("auto", "legacy")
LONG_MESSAGE = 1_100


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("any") / "plane"
    with init(folder, durability="os") as plane:
        plane.record("Herons stay", kind="decision", key="herons", session="s1")
        plane.work.tasks.open("parser", "Parse lists")
    return folder


text = st.text(max_size=30) | st.sampled_from(
    ["#1", "#2", "#-1", "2", "event/2", "expand://", "expand://memory//global/herons", "session/s1",
     "task/parser?depth=9", "artifact/00000000", "views/identity", "views/../plane.json", "herons",
     "/global", "/task/parser", "/agent/x", "%", "?", "\x00", "a" * 300, "\u2028", "2030-01-01", "*",
     "https://u:p@h", "memplane:begin\n", "0" * 30]
)  # fmt: skip
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


def likely(schema):
    """Mostly what the schema takes, and what it might."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    return {
        "string": text,
        "integer": st.integers(
            schema.get("minimum", 0) - 1, min(schema.get("maximum", 0), 3000) + 1
        ),
        "array": st.lists(
            st.sampled_from(["fact", "decision", "a", ""]), max_size=3
        ),
    }[schema["type"]]  # fmt: skip


@st.composite
def calls(draw):
    tool = draw(st.sampled_from(TOOLS))
    given_ = {}
    for name, schema in tool.takes["properties"].items():
        if name in tool.takes.get("required", ()) or draw(st.booleans()):
            given_[name] = draw(likely(schema) if draw(st.integers(0, 5)) else anything)
    if not draw(st.integers(0, 9)):
        given_[draw(text)] = draw(anything)
    return tool.name, given_


def talk(home, mode, script):
    from mcp import Client

    from memplane.mcp.server import Serving, server_of

    serving = Serving(lambda: open_plane(home, durability="os"), make_counter, "agent", "s1")

    async def main():
        async with Client(server_of(serving)[0], mode=mode) as client:
            return await script(client)

    return anyio.run(main)


@pytest.mark.parametrize("mode", MODES)
@given(asked=st.lists(calls(), min_size=1, max_size=12))
@settings(max_examples=examples(16))
def test_any_arguments_are_answered_or_refused_in_words(home, mode, asked):
    async def script(client):
        results = [await client.call_tool(name, arguments) for name, arguments in asked]
        return results, await client.list_tools()

    results, tools = talk(home, mode, script)
    assert len(tools.tools) == len(TOOLS)
    for (name, _), result in zip(asked, results, strict=True):
        said = result.content[0].text
        if not result.is_error:
            validate(result.structured_content, tool_named(name).gives)
            continue
        assert said
        assert len(said) <= LONG_MESSAGE
        assert not any(word in said for word in ("a bug in memplane", "Traceback", "Error("))


@given(uris=st.lists(text | text.map("expand://{}".format), min_size=1, max_size=10))
@settings(max_examples=examples(16))
def test_any_uri_is_read_or_refused_in_words(home, uris):
    from mcp.shared.exceptions import MCPError

    async def script(client):
        said = []
        for uri in uris:
            try:
                await client.read_resource(uri)
            except MCPError as error:
                said.append(str(error))
        return said

    for said in talk(home, "auto", script):
        assert said
        assert "bug" not in said
