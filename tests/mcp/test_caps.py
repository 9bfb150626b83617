"""Every answer keeps to its tokens, in the plane's counter, whatever the plane holds."""

import json

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from memplane.mcp import TOKENS_MIN
from memplane.wiring import init, make_counter, open_plane
from tests.examples import examples

COUNTER = make_counter("bound/1", 1_000_000)
TEXTS = (
    '"quoted" \\ back\n\n\t' * 300,
    "東京の空は青い。" * 400,
    "A heron stands in the pond near the mill. " * 300,
    "x" * 9000,
    "\n".join("{" * number for number in range(150)),
    "\U0001f9a9" * 900,
)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A plane with long and awkward texts, keys and names."""
    folder = tmp_path_factory.mktemp("caps") / "plane"
    with init(folder, durability="os") as plane:
        for number in range(120):
            plane.record(
                f"{TEXTS[number % len(TEXTS)]} heron {number}", session=f"s{number % 9}",
                kind=("decision", "fact", "observation")[number % 3],
                key=None if number % 2 else f"{'ключ' * 40}.{number}",
            )  # fmt: skip
        for number in range(30):
            plane.work.tasks.open(f"task-{number}", TEXTS[number % len(TEXTS)][:2000])
        plane.upkeep.index()
    return folder


def tokens_of(result):
    wire = json.dumps(result.structured_content, ensure_ascii=False, separators=(",", ":"))
    return COUNTER.count(wire), COUNTER.count(result.content[0].text)


cap = st.integers(TOKENS_MIN, 3000) | st.integers(TOKENS_MIN, TOKENS_MIN + 40)
calls = st.one_of(
    st.builds(
        lambda handle, most: ("memory_get", {"handle": handle, "max_tokens": most}),
        st.sampled_from([*(f"#{seq}" for seq in range(2, 20)), "session/s1?depth=3",
                         "session/s2?depth=1", "task/task-3?depth=2"]),
        cap,
    ),
    st.builds(
        lambda query, limit, most: (
            "memory_search", {"query": query, "limit": limit, "max_tokens": most},
        ),
        st.sampled_from(["heron", "東京", "pond mill", "quoted"]), st.integers(1, 50), cap,
    ),
    st.builds(
        lambda query, mode, most: (
            "memory_curate", {"query": query, "mode": mode, "max_tokens": most},
        ),
        st.sampled_from(["", "heron", "東京の空"]),
        st.sampled_from(["auto", "fast", "deep", "orient"]), cap,
    ),
    st.builds(lambda most: ("memory_list_keys", {"max_tokens": most, "limit": 1000}), cap),
)  # fmt: skip


@given(st.lists(calls, min_size=1, max_size=8))
@settings(max_examples=examples(8))
def test_no_answer_costs_more_than_was_asked_for_in_either_form(full, asked):
    from mcp import Client

    from memplane.mcp.server import Serving, server_of

    serving = Serving(lambda: open_plane(full), make_counter, "agent", "s1")

    async def main():
        async with Client(server_of(serving)[0]) as client:
            return [await client.call_tool(name, arguments) for name, arguments in asked]

    for (name, arguments), result in zip(asked, anyio.run(main), strict=True):
        assert not result.is_error, (name, arguments, result.content[0].text)
        most = arguments["max_tokens"]
        assert max(tokens_of(result)) <= most, (name, arguments)


@pytest.mark.parametrize("uri", ["memplane://decisions", "memplane://tasks", "memplane://report"])
def test_no_resource_costs_more_than_4000_tokens(full, uri):
    from mcp import Client

    from memplane.mcp.server import Serving, server_of

    serving = Serving(lambda: open_plane(full), make_counter, "agent", "s1")

    async def main():
        async with Client(server_of(serving)[0]) as client:
            await client.call_tool("memory_curate", {"query": "heron", "max_tokens": 60_000})
            opened = await client.read_resource("expand://session/s1?depth=3")
            return [(await client.read_resource(uri)).contents[0].text, opened.contents[0].text]

    read, opened = anyio.run(main)
    assert all(1000 < COUNTER.count(text) <= 4000 for text in (read, opened))


@pytest.mark.parametrize("query", ["heron", "東京" * 2000])
def test_a_report_that_is_cut_is_json_that_says_where_all_of_it_is(full, query):
    from mcp import Client

    from memplane.mcp.server import Serving, server_of

    serving = Serving(lambda: open_plane(full), make_counter, "agent", "s1")

    async def main():
        async with Client(server_of(serving)[0]) as client:
            asked = {"query": query, "max_tokens": 60_000}
            block = (await client.call_tool("memory_curate", asked)).structured_content
            text = (await client.read_resource("memplane://report")).contents[0].text
            return block, text

    block, text = anyio.run(main)
    report = json.loads(text)
    assert COUNTER.count(text) <= 4000
    assert report["cut"].startswith(f"all of it is reports/{report['id']}")
    assert report["tokens"] == block["tokens"]
    assert len(report["entries"]) + report.get("more_entries", 0) == len(block["entries"])
