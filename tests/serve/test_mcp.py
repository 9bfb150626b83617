"""The official client talks to it, in both modes of the protocol."""

import json
import socket

import anyio
import httpx
import pytest
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

from tests.serve.conftest import furnished, serving

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


@pytest.fixture(scope="module")
def with_sessions(tmp_path_factory):
    top = tmp_path_factory.mktemp("sessions")
    with serving(top, "--sessions", "--rate", "5000", secrets=furnished(top)) as one:
        yield one


@pytest.mark.parametrize("mode", MODES)
def test_with_sessions_the_same_client_is_answered_by_streams(with_sessions, mode):
    async def script(client):
        stored = await client.call_tool(
            "memory_store", {"content": f"Tugs wait at the {mode} pier", "type": "fact"}
        )
        found = await client.call_tool("memory_search", {"query": f"where do tugs wait {mode}"})
        return stored, found, (await client.list_resources()).resources

    stored, found, resources = talk(with_sessions, script, mode=mode)
    assert not stored.is_error
    assert any(f"the {mode} pier" in hit["text"] for hit in found.structured_content["hits"])
    assert len(resources) == 3


MCP = [
    ("Content-Type", "application/json"),
    ("Accept", "application/json, text/event-stream"),
]
BEGIN = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {},
               "clientInfo": {"name": "bob", "version": "1"}},
}  # fmt: skip


def begun(served, token="ann"):
    status, body, sent = served.raw("POST", "/mcp", BEGIN, token, MCP)
    assert status == 200
    return body, sent


def test_an_answer_is_json_or_a_stream_as_the_server_was_started(served, with_sessions):
    body, sent = begun(served)
    assert sent["Content-Type"] == "application/json"
    assert sent["Mcp-Session-Id"] is None
    assert json.loads(body)["result"]["serverInfo"]["name"] == "memplane"
    body, sent = begun(with_sessions)
    assert sent["Content-Type"].startswith("text/event-stream")
    assert sent["Mcp-Session-Id"]
    assert b'"memplane"' in body


def test_a_session_is_of_the_token_that_began_it(with_sessions):
    _, sent = begun(with_sessions)
    session = [*MCP, ("Mcp-Session-Id", sent["Mcp-Session-Id"])]
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    assert with_sessions.raw("POST", "/mcp", listing, "ann", session)[0] == 200
    absent = [*MCP, ("Mcp-Session-Id", "0" * 32)]
    expected = with_sessions.raw("POST", "/mcp", listing, "bob", absent)
    found = with_sessions.raw("POST", "/mcp", listing, "bob", session)
    assert found[:2] == expected[:2]
    assert found[0] == 404
    assert with_sessions.raw("DELETE", "/mcp", None, "bob", session)[0] == 404
    assert with_sessions.raw("DELETE", "/mcp", None, "ann", session)[0] == 200
    assert with_sessions.raw("POST", "/mcp", listing, "ann", session)[0] == 404


def test_an_open_stream_does_not_hold_up_the_end(start):
    with start("--sessions", times="_GRACE_S=600") as served:
        _, sent = begun(served)
        lines = (
            "Accept: text/event-stream",
            f"Mcp-Session-Id: {sent['Mcp-Session-Id']}",
            f"Authorization: Bearer {served.secrets['ann']}",
        )
        head = "\r\n".join(("GET /mcp HTTP/1.1", f"Host: 127.0.0.1:{served.port}", *lines, "", ""))
        with socket.create_connection(("127.0.0.1", served.port), timeout=30) as stream:
            stream.sendall(head.encode())
            assert b" 200 " in stream.recv(4096)
            assert served.end() == 0
