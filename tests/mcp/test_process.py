"""The server as clients start it: a process, pipes, signals."""

import json
import os
import signal
import subprocess
import sys
import time

import anyio
import pytest

import memplane
from memplane.home import VERSION

MODES = ("auto", "legacy")
TOOLS = 7


def request(number, method, **params):
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def opening():
    info = {"name": "pipe", "version": "1"}
    first = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    said = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})
    return [request(0, "initialize", **first), said]


def storing(number, content, kind="fact"):
    arguments = {"content": content, "type": kind}
    return request(number, "tools/call", name="memory_store", arguments=arguments)


@pytest.fixture
def start(home):
    """Start a server with pipes of ours."""
    started = []

    def start(*options, home=home, **more):
        begun = subprocess.Popen(
            [sys.executable, "-m", "memplane", "mcp", "--home", str(home), *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            **more,
        )  # fmt: skip
        started.append(begun)
        return begun

    yield start
    for one in started:
        one.kill()
        one.communicate()


def say(process, *lines):
    process.stdin.write("".join(f"{line}\n" for line in lines))
    process.stdin.flush()


def answers(text):
    return {one["id"]: one for one in map(json.loads, text.splitlines()) if "id" in one}


@pytest.mark.parametrize("mode", MODES)
def test_the_sdks_client_drives_a_server_of_its_own(process, mode, opened):
    from mcp import Client

    async def main():
        async with Client(process("--session", "s9"), mode=mode) as client:
            tools = await client.list_tools()
            asked = {"content": "Herons stay", "type": "decision", "key": "herons"}
            stored = await client.call_tool("memory_store", asked)
            wrong = await client.call_tool("memory_store", {"content": "a", "type": "b"})
            read = await client.read_resource("memplane://decisions")
            return tools, stored, wrong, read, client.server_info

    tools, stored, wrong, read, info = anyio.run(main)
    assert len(tools.tools) == TOOLS
    assert wrong.is_error
    assert "Herons stay" in read.contents[0].text
    assert (info.name, info.version) == ("memplane", VERSION)
    event = opened.event(stored.structured_content["seq"])
    assert (event.session, event.text) == ("s9", "Herons stay")


def test_tools_are_listed_before_anything_heavy_is_imported(home):
    code = (
        "import sys, json, memplane.mcp.server as server\n"
        "from memplane.cli import agents\n"
        "made, _ = server.server_of(server.Serving(lambda: 1 / 0, print, 'agent', 's'))\n"
        "import anyio\n"
        "from mcp import Client\n"
        "async def main():\n"
        "    async with Client(made, mode='legacy') as client:\n"
        "        return await client.list_tools()\n"
        "assert len(anyio.run(main).tools) == 7\n"
        "print(*sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert not loaded & {"numpy", "yaml", "snowballstemmer"}
    light = {f"memplane.index.{name}" for name in ("storage", "fill_order", "terms", "stems")}
    assert {one for one in loaded if one.startswith("memplane.index.")} <= light


def test_the_end_of_the_input_ends_the_server_and_all_that_was_asked_is_answered(start, opened):
    server = start()
    lines = [*opening(), *(storing(number, f"heron {number}") for number in range(1, 31))]
    out, err = server.communicate("\n".join(lines))
    assert (server.returncode, err) == (0, "")
    found = answers(out)
    assert set(found) == set(range(31))
    seqs = {found[number]["result"]["structuredContent"]["seq"] for number in range(1, 31)}
    assert {event.seq for event in opened.events(kind="fact")} == seqs


def test_nothing_but_the_protocol_is_on_stdout_even_where_something_prints(start, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import memplane, os, sys\n"
        "def loud(*a, **b):\n"
        "    print('loud'); os.write(1, b'louder\\n'); raise RuntimeError('loudest')\n"
        "memplane.Plane.keys = loud\n"
    )
    server = start(env={**os.environ, "PYTHONPATH": str(tmp_path)})
    asked = request(1, "tools/call", name="memory_list_keys", arguments={})
    out, err = server.communicate("\n".join([*opening(), asked]))
    assert set(answers(out)) == {0, 1}
    assert all(line.startswith("{") for line in out.splitlines())
    assert "loudest" not in out
    assert all(word in err for word in ("loud\n", "louder\n", "RuntimeError: loudest"))


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_ends_the_server_and_loses_nothing_that_was_acknowledged(start, home, name):
    server = start()
    say(server, *opening())
    server.stdout.readline()
    say(server, *(storing(number, f"heron {number}") for number in range(1, 200)))
    first = [server.stdout.readline() for _ in range(5)]
    server.send_signal(getattr(signal, name))
    rest, err = server.communicate()
    assert (server.returncode, err) == (0, "")
    acknowledged = [one["result"]["structuredContent"] for one in map(json.loads, first)]
    acknowledged += [
        one["result"]["structuredContent"] for one in answers(rest).values() if "result" in one
    ]
    with memplane.open(home) as plane:
        stored = {event.seq for event in plane.events(kind="fact")}
        assert {one["seq"] for one in acknowledged} <= stored
        assert plane.upkeep.verify(deep=True).ok


def test_a_signal_ends_a_server_that_waits_for_its_client(start):
    server = start()
    say(server, *opening())
    server.stdout.readline()
    server.send_signal(signal.SIGTERM)
    assert server.wait(60) == 0


def test_a_client_that_goes_away_in_the_middle_leaves_no_server_behind(start, opened):
    server = start()
    say(server, *opening(), *(storing(number, f"heron {number}") for number in range(1, 50)))
    server.stdout.close()
    _, err = server.communicate()
    assert (server.returncode, err) == (0, "")
    assert opened.upkeep.verify(deep=True).ok


NO_MESSAGES = (
    "",
    "{",
    "null",
    "[]",
    '{"jsonrpc":"2.0"}',
    "\x00\x01",
    '{"id":1,"method":5}',
    "[" * 5000,
)


def test_lines_that_are_no_messages_do_not_end_the_session(start):
    server = start()
    asked = (request(number, "tools/list") for number in range(2, 2 + len(NO_MESSAGES)))
    lines = [line for pair in zip(NO_MESSAGES, asked, strict=True) for line in pair]
    out, _ = server.communicate("\n".join([*opening(), *lines]))
    assert server.returncode == 0
    found = answers(out)
    tools = [found[number]["result"]["tools"] for number in range(2, 2 + len(NO_MESSAGES))]
    assert [len(one) for one in tools] == [TOOLS] * len(NO_MESSAGES)


@pytest.mark.parametrize("named", [[1], {"a": 1}, None, 1.5, True, "7"])
def test_a_cancellation_that_names_no_request_does_not_end_the_session(start, named):
    server = start()
    said = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": named}}
    out, _ = server.communicate("\n".join([*opening(), json.dumps(said), storing(7, "heron")]))
    assert server.returncode == 0
    assert "result" in answers(out)[7]


def test_bytes_that_are_no_utf8_do_not_end_the_session(home):
    lines = [
        *(line.encode() for line in opening()),
        b'{"a":"\xff\xfe"}',
        request(7, "ping").encode(),
    ]
    ran = subprocess.run(
        [sys.executable, "-m", "memplane", "mcp", "--home", str(home)],
        input=b"\n".join(lines), capture_output=True, check=True,
    )  # fmt: skip
    assert 7 in answers(ran.stdout.decode())


def test_init_makes_the_plane_at_the_first_call_and_not_before(start, tmp_path):
    folder = tmp_path / "new"
    for asked, there in ((request(1, "tools/list"), False), (storing(1, "Herons stay"), True)):
        server = start("--init", home=folder)
        out, _ = server.communicate("\n".join([*opening(), asked]))
        assert "error" not in answers(out)[1]
        assert folder.exists() is there
    with memplane.open(folder) as plane:
        assert [event.text for event in plane.events(kind="fact")] == ["Herons stay"]


def test_the_plane_is_found_by_its_variable(tmp_path, home):
    ran = subprocess.run(
        [sys.executable, "-m", "memplane", "mcp"], cwd=tmp_path, text=True, capture_output=True,
        input="\n".join([*opening(), storing(1, "Herons stay")]), check=True,
        env={**os.environ, "MEMPLANE_HOME": str(home)},
    )  # fmt: skip
    assert answers(ran.stdout)[1]["result"]["structuredContent"]["duplicate"] is False


def test_without_the_extra_the_command_names_it(tmp_path, home):
    (tmp_path / "mcp_types.py").write_text("raise ModuleNotFoundError('no', name='mcp_types')")
    ran = subprocess.run(
        [sys.executable, "-m", "memplane", "mcp", "--home", str(home)], text=True, check=False,
        capture_output=True, stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (3, "")
    said = "memplane: `memplane mcp` needs an optional dependency: pip install 'memplane[mcp]'\n"
    assert ran.stderr == said


def test_half_a_character_is_replaced_and_the_message_is_answered(start, opened):
    server = start()
    asked = storing(1, "@").replace("@", r"half \ud83d, whole \ud83d\ude00, \\ud83d")
    out, _ = server.communicate("\n".join([*opening(), asked]))
    assert "result" in answers(out)[1]
    (event,) = opened.events(kind="fact")
    assert event.text == "half \ufffd, whole \U0001f600, \\ud83d"


def slow(tmp_path, name):
    """The environment of a process where searching (`search`) or recording is not done before
    there is a file `go`, and some time passes then."""
    owner = {"search": "memplane.Plane", "append": "memplane.context.context.PlaneContext"}[name]
    (tmp_path / "sitecustomize.py").write_text(
        "import memplane, memplane.context.context, os, time, sys\n"
        f"real = {owner}.{name}\n"
        "def slow(*a, **b):\n"
        "    print('begun', file=sys.stderr, flush=True)\n"
        "    for _ in range(6_000):\n"
        f"        if os.path.exists({str(tmp_path / 'go')!r}):\n"
        "            break\n"
        "        time.sleep(0.01)\n"
        "    time.sleep(0.2)\n"
        "    return real(*a, **b)\n"
        f"{owner}.{name} = slow\n"
    )
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


def test_a_search_that_takes_long_is_answered_behind_the_end_of_the_input(start, tmp_path):
    server = start(env=slow(tmp_path, "search"))
    asked = request(1, "tools/call", name="memory_search", arguments={"query": "herons"})
    (tmp_path / "go").touch()
    out, _ = server.communicate("\n".join([*opening(), asked]))
    assert server.returncode == 0
    assert answers(out)[1]["result"]["structuredContent"]["hits"] == []


@pytest.mark.parametrize(("name", "stored"), [("search", 0), ("append", 1)])
def test_a_signal_cuts_a_search_short_and_no_record(start, tmp_path, opened, name, stored):
    server = start(env=slow(tmp_path, name))
    asked = {
        "search": request(1, "tools/call", name="memory_search", arguments={"query": "herons"}),
        "append": storing(1, "Herons stay"),
    }[name]
    say(server, *opening(), asked)
    assert server.stderr.readline() == "begun\n"
    server.send_signal(signal.SIGTERM)
    if stored:  # a search is not waited for
        time.sleep(1.2)  # behind a signal there is a second for all but records
        (tmp_path / "go").touch()
    out, err = server.communicate()
    # Before the first record comes that the session began, behind it that it ended.
    assert (server.returncode, set(err.split()) - ({"begun"} if stored else set())) == (0, set())
    assert answers(out)[1]["error"]["message"] == "Connection closed"
    assert len(list(opened.events(kind="fact"))) == stored


SAID = [f"We will keep heron number {n} at the lock" for n in range(4)]


def leave(server, how):
    if how != "EOF":
        server.send_signal(getattr(signal, how))
    server.communicate(timeout=30)  # closes stdin


@pytest.mark.parametrize("how", ["EOF", "SIGTERM", "SIGINT"])
def test_the_servers_session_has_the_client_as_its_agent_and_ends_with_a_summary(start, home, how):
    server = start()
    say(server, *opening(), *(storing(n + 1, text, "decision") for n, text in enumerate(SAID)))
    for _ in range(len(SAID) + 1):
        server.stdout.readline()
    leave(server, how)
    with memplane.open(home) as plane:
        (session,) = plane.work.sessions.list()
        assert (session.agent, session.status, session.reason) == ("pipe", "ended", "explicit")
        assert session.id.startswith("mcp-")
        assert "heron number" in plane.work.sessions.get(session.id).summary.text
        kinds = [event.kind for event in plane.events(session=session.id)]
    assert kinds[0] == "session"
    assert kinds.count("decision") == len(SAID)


def test_a_server_that_recorded_nothing_leaves_no_session(start, home):
    server = start()
    say(server, *opening(), request(1, "tools/call", name="memory_list_keys", arguments={}))
    for _ in range(2):
        server.stdout.readline()
    leave(server, "EOF")
    with memplane.open(home) as plane:
        assert plane.work.sessions.list() == []


def test_a_session_that_is_named_is_not_the_servers_to_begin_or_end(start, home):
    with memplane.open(home) as plane:
        plane.work.sessions.start("theirs", agent="somebody")
    server = start("--session", "theirs")
    say(server, *opening(), storing(1, "Herons stay"))
    for _ in range(2):
        server.stdout.readline()
    leave(server, "SIGTERM")
    with memplane.open(home) as plane:
        session = plane.work.sessions.get("theirs")
    assert (session.agent, session.status) == ("somebody", "open")
