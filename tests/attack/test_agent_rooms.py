"""An agent writes where it has nothing to write: other agents' rooms, and values it cannot read."""

import json
import os
import subprocess
import sys
import threading
from functools import partial
from importlib.util import find_spec

import pytest

import memplane
from memplane import mcp
from memplane.adapters.memory_tool import MemoryFiles
from memplane.errors import MemplaneError, NotFoundError, ScopeError
from memplane.mcp import Desk, checked, server, tool_named
from memplane.wiring import make_counter, open_plane

WORD = "quibblefrost"
ACTS = {
    "memory_store": mcp.store, "memory_forget": mcp.forget_tool, "memory_get": mcp.get_tool,
    "memory_list_keys": mcp.list_keys, "memory_search": mcp.search_tool,
}  # fmt: skip


def desk_of(plane, *, agent="heron", channel="agent"):
    return Desk(plane, make_counter, channel, "s1", agent, None, lambda *_: None)


def call(plane, name, how=None, **arguments):
    """The structured answer of a tool."""
    given = checked(tool_named(name), arguments)
    return ACTS[name](desk_of(plane, **how or {}), given).data


def refusal(plane, name, how=None, **arguments):
    with pytest.raises(MemplaneError) as error:
        call(plane, name, how, **arguments)
    return f"{type(error.value).__name__}: {error.value}"


def stored(plane, key, ns="/global", how=None, content="told", **more):
    return call(plane, "memory_store", how, content=content, type="fact", key=key, ns=ns, **more)


def in_force(plane, key, ns="/global"):
    return plane.context.caught_up().memories.current(ns, key)


@pytest.mark.parametrize("channel", ["agent", "private", "public"])
@pytest.mark.parametrize("key", [None, "k"])
def test_nothing_is_written_into_another_agents_room(plane, channel, key):
    plane.record(WORD, kind="fact", key="k", ns="/agent/bo")
    head = plane.head()
    how, more = {"channel": channel}, {} if key is None else {"key": key}
    what = "a statement" if key is None else "'k'"
    assert refusal(
        plane, "memory_store", how, content="x", type="fact", ns="/agent/bo", **more
    ) == (
        f"ScopeError: {what} in '/agent/bo' is not for agent 'heron' on channel {channel} to write; "
        "choose another place"
    )
    # In the same words where nobody ever was.
    empty = refusal(plane, "memory_store", how, content="x", type="fact", ns="/agent/no", **more)
    assert "in '/agent/no' is not for agent 'heron'" in empty
    assert plane.head() == head


def test_an_agents_own_room_is_for_it_to_read_and_write(plane):
    stored(plane, "k", "/agent/heron", content=WORD)
    stored(plane, "k", "/agent/heron", content=f"{WORD} again")
    assert call(plane, "memory_get", key="k", ns="/agent/heron")["text"] == f"{WORD} again"
    assert call(plane, "memory_list_keys", ns="/agent/heron")["keys"] == ["k"]
    assert len(call(plane, "memory_search", query=WORD)["hits"]) == 1
    other = {"agent": "bo"}
    assert call(plane, "memory_search", other, query=WORD)["hits"] == []
    assert "is not for agent 'bo'" in refusal(
        plane, "memory_get", other, key="k", ns="/agent/heron"
    )
    assert call(plane, "memory_forget", key="k", ns="/agent/heron")["seq"]


def test_a_room_that_is_shared_is_read_and_not_written(plane):
    policy = plane.home / "policies" / "plane.yaml"
    policy.write_text("version: 1\nnamespaces: {shared: [/agent/bo]}\n")
    seq = plane.record(WORD, kind="fact", key="k", ns="/agent/bo").seq
    head = plane.head()
    assert call(plane, "memory_get", key="k", ns="/agent/bo")["text"] == WORD
    for name, given in (
        ("memory_store", {"content": "x", "type": "fact", "key": "k", "ns": "/agent/bo"}),
        ("memory_forget", {"key": "k", "ns": "/agent/bo"}),
        ("memory_forget", {"id": f"#{seq}"}),
    ):
        assert refusal(plane, name, **given).startswith("ScopeError: ")
    files = MemoryFiles(plane, ns="/agent/bo", agent="heron")
    with pytest.raises(ScopeError):
        files.create("/memories/a.md", "x")
    assert plane.head() == head


@pytest.mark.parametrize(
    "hidden", [{"sensitivity": "high"}, {"sensitivity": "secret"}, {"kind": "preference"}]
)
def test_a_value_that_the_agent_cannot_read_is_not_replaced_or_forgotten(plane, hidden):
    plane.record("of old", kind="fact", key="salary.ana")
    value = plane.record(WORD, key="salary.ana", **{"kind": "fact", **hidden})
    head, how = plane.head(), {"channel": "public"}
    said = refusal(plane, "memory_store", how, content="0", type="fact", key="salary.ana")
    assert said == (
        "ScopeError: 'salary.ana' in '/global' is not for agent 'heron' on channel public to "
        "write; choose another place"
    )
    none = "no value under {} in /global; memory_list_keys shows what there is"
    for key in ("salary.ana", "salary.bo"):  # one is hidden, and one is not there
        note = none.format(key)
        assert call(plane, "memory_forget", how, key=key) == {"note": note}
        assert call(plane, "memory_get", how, key=key) == {"text": "", "note": note}
    for name in (f"#{value.seq}", value.id):
        told = call(plane, "memory_forget", how, id=name)
        assert [*told] == ["note"]
        assert told["note"].startswith("no event ")
    assert plane.head() == head
    assert in_force(plane, "salary.ana").id == value.id


def test_a_hidden_value_that_comes_while_an_agent_writes_is_not_replaced(plane, monkeypatch):
    """Another writer between the look and the write: the look is repeated."""
    context = plane.context
    append, once = context.append, iter([True])

    def late(drafts, **how):
        if next(once, False):
            with memplane.open(plane.home, durability="os") as other:
                other.record(WORD, kind="fact", key="k", sensitivity="secret")
        return append(drafts, **how)

    monkeypatch.setattr(context, "append", late)
    assert refusal(plane, "memory_store", content="x", type="fact", key="k").startswith(
        "ScopeError"
    )
    assert in_force(plane, "k").sensitivity == "secret"


def test_a_value_out_of_time_is_replaced_as_by_anybody(plane):
    plane.record("of old", kind="fact", key="k", valid_until="2020-01-01T00:00:00Z")
    stored(plane, "k", content="now")
    assert plane.get("k").text == "now"


def test_what_replaces_a_value_is_no_less_sensitive(plane):
    plane.record(WORD, kind="fact", key="k", sensitivity="high")
    stored(plane, "k", how={"channel": "private"}, content=f"{WORD} plus 5")
    assert in_force(plane, "k").sensitivity == "high"
    assert plane.search(WORD, channel="agent") == []


def test_the_same_said_of_what_is_hidden_is_stored_as_if_it_were_new(plane):
    """A client of another channel finds out nothing by saying again what may be there."""
    given = {"content": "no sugar", "type": "preference"}
    first = call(plane, "memory_store", {"channel": "private"}, **given)
    again = call(plane, "memory_store", {"channel": "private"}, **given)
    assert again["duplicate"]
    other = call(plane, "memory_store", {"channel": "public"}, **given)
    assert not other["duplicate"]
    assert other["seq"] == first["seq"] + 1


def test_many_agents_that_write_one_key_lose_nothing(plane):
    def write(number):
        with open_plane(plane.home, durability="os") as own:
            for count in range(5):
                stored(own, "k", content=f"{number} {count}")

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(plane.history("k")) == 15


def test_resources_and_reports_are_those_of_the_agent(plane):
    plane.record(WORD, kind="decision", key="d", ns="/agent/bo")
    plane.work.tasks.open("t", WORD, ns="/agent/bo")
    plane.pack(WORD, channel="agent", agent="bo", save_report=True)
    desk = desk_of(plane)
    assert server.read_resource(desk, "memplane://decisions")[0] == "none\n"
    assert server.read_resource(desk, "memplane://tasks")[0] == "none\n"
    with pytest.raises(NotFoundError, match="no report is saved yet"):
        server.read_resource(desk, "memplane://report")
    for uri in ("expand://task/t", "expand://memory/global/d", "expand://session/none"):
        with pytest.raises(NotFoundError):
            server.read_resource(desk, uri)


@pytest.mark.skipif(find_spec("mcp") is None, reason="the extra mcp is not installed")
def test_a_client_of_a_server_keeps_to_its_room(plane):
    import anyio
    from mcp import Client, types

    from memplane.mcp.server import Serving, server_of

    plane.record(WORD, kind="fact", key="salary.ana", sensitivity="secret")
    opened = partial(open_plane, plane.home, durability="os")
    serving = Serving(opened, make_counter, "agent", "s1", False, None)

    async def main():
        info = types.Implementation(name="heron", version="1")
        async with Client(server_of(serving)[0], client_info=info) as client:
            for given in ({"ns": "/agent/bo"}, {"key": "salary.ana"}):
                row = {"content": "x", "type": "fact", **given}
                result = await client.call_tool("memory_store", row)
                assert result.is_error
                assert "choose another place" in result.content[0].text
            own = {"content": "x", "type": "fact", "key": "k", "ns": "/agent/heron"}
            assert not (await client.call_tool("memory_store", own)).is_error

    anyio.run(main)
    assert in_force(plane, "salary.ana").sensitivity == "secret"


def test_a_hook_writes_no_key_and_into_no_room_whatever_it_is_told(plane):
    plane.record(WORD, kind="fact", key="salary.ana", sensitivity="secret")
    plane.close()
    odd = {"ns": "/agent/bo", "key": "salary.ana", "sensitivity": "low", "kind": "fact"}
    told = [
        {"hook_event_name": "UserPromptSubmit", "prompt": "hello", **odd},
        {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_use_id": "t1",
         "tool_input": {"command": "ls", **odd}, "tool_response": {"stdout": "x", **odd}, **odd},
        {"hook_event_name": "SessionStart", "source": "startup", **odd},
    ]  # fmt: skip
    for event in told:
        subprocess.run(
            [sys.executable, "-m", "memplane", "hook", "claude-code"], check=True,
            input=json.dumps({"session_id": "s1", "cwd": str(plane.home), **event}).encode(),
            env={**os.environ, "MEMPLANE_HOME": str(plane.home)}, capture_output=True,
        )  # fmt: skip
    with memplane.open(plane.home) as again:
        hooked = [line.event for line in again._log.read() if line.event.session == "s1"]
        assert len(hooked) >= 3
        assert {event.ns for event in hooked} == {"/global"}
        assert {event.key for event in hooked} == {None}
        assert in_force(again, "salary.ana").sensitivity == "secret"
