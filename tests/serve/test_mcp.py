"""The official client talks to it, in both modes of the protocol."""

import anyio
import httpx
import pytest
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

MODES = ("auto", "legacy")


def talk(served, script, token="ann", mode="auto", path="/mcp"):
    async def main():
        said = {"Authorization": f"Bearer {served.secrets[token]}"}
        async with httpx.AsyncClient(headers=said, timeout=30) as http:
            transport = streamable_http_client(f"{served.address}{path}", http_client=http)
            info = types.Implementation(name="bob", version="1")
            async with Client(transport, mode=mode, client_info=info) as client:
                return await script(client)

    return anyio.run(main)


@pytest.mark.parametrize("mode", MODES)
def test_tools_are_listed_and_called(served, mode):
    async def script(client):
        names = [one.name for one in (await client.list_tools()).tools]
        stored = await client.call_tool(
            "memory_store", {"content": f"Pilots board at the {mode} buoy", "type": "fact"}
        )
        found = await client.call_tool("memory_search", {"query": f"where do pilots board {mode}"})
        return names, stored, found

    names, stored, found = talk(served, script, mode=mode)
    assert "memory_curate" in names
    assert not stored.is_error
    texts = [hit["text"] for hit in found.structured_content["hits"]]
    assert any(f"the {mode} buoy" in text for text in texts)


def test_the_agent_is_the_tokens_whatever_the_client_calls_itself(served):
    """The client says that it is bob; its token says that it is ann."""

    async def script(client):
        return await client.call_tool(
            "memory_store",
            {"content": "the anchor is rusty", "type": "fact", "key": "anchor", "ns": "/agent/ann"},
        )

    stored = talk(served, script)
    assert not stored.is_error
    _, got = served.ask("GET", "/v1/get?key=anchor&ns=/agent/ann")
    assert got["actor"] == "ann"

    async def other(client):
        return await client.call_tool("memory_get", {"key": "anchor", "ns": "/agent/ann"})

    read = talk(served, other, token="bob")
    assert read.is_error or "rusty" not in str(read.structured_content)


def test_a_token_that_is_bound_to_namespaces_keeps_and_finds_there_alone(served):
    async def script(client):
        kept = await client.call_tool(
            "memory_store", {"content": "Red lamps hang at the gate", "type": "fact", "key": "lamp"}
        )
        got = await client.call_tool("memory_get", {"key": "lamp"})
        refused = [
            await client.call_tool(name, given)
            for name, given in (
                ("memory_store", {"content": "x", "type": "fact", "ns": "/global"}),
                ("memory_get", {"key": "lamp", "ns": "/project/blue"}),
                ("memory_search", {"query": "lamps", "ns": "/task/a"}),
                ("memory_list_keys", {"ns": "/agent/ann"}),
                ("memory_task", {"action": "open", "content": "Clean the lamps"}),
            )
        ]
        return kept, got, refused

    kept, got, refused = talk(served, script, token="red")
    assert not kept.is_error
    assert got.structured_content["text"] == "Red lamps hang at the gate"
    assert all(one.is_error for one in refused)
    words = [one.content[0].text for one in refused]
    assert all("is not for agent" in one or "you may use" in one for one in words[:-1]), words
    assert "bound to namespaces" in words[-1]
    _, there = served.ask("GET", "/v1/get?key=lamp&ns=/project/red", token="red")
    assert (there["ns"], there["actor"]) == ("/project/red", "red")
    status, _ = served.ask("GET", "/v1/get?key=lamp", token="blue")
    assert status == 404


def test_a_plane_of_another_token_has_no_tools(served):
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert served.ask("POST", "/mcp/quay", call)[0] == 403
    assert served.ask("POST", "/mcp/nowhere", call)[0] == 403
