"""What goes wrong reaches the agent in words that help it, and never as a traceback."""

import os

import pytest
from jsonschema import validate

import memplane
from memplane.mcp import tool_named
from memplane.wiring import init, open_plane

MODES = ("auto", "legacy")
TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("memory_store", {"content": "a"}, "type: memory_store needs it, found none"),
        (
            "memory_store",
            {"content": "a", "type": "factt"},
            "type: expected one of fact, decision, observation, plan, summary, preference, rule, insight, found 'factt'",
        ),
        (
            "memory_store",
            {"content": "x" * 100_001, "type": "fact"},
            "content: expected at most 100,000 characters, found 100,001; split it",
        ),
        ("memory_store", {"content": "", "type": "fact"}, "content: expected a text, found an empty one"),
        (
            "memory_store",
            {"content": "a", "type": "fact", "tags": ["a", 1]},
            "tags[1]: expected a text, found 1",
        ),
        (
            "memory_store",
            {"content": "a", "type": "fact", "importance": 1001},
            "importance: expected 0 to 1000, found 1001",
        ),
        ("memory_search", {"query": "a", "limit": True}, "limit: expected a whole number, found True"),
        ("memory_search", {"query": "a", "limit": 51}, "limit: expected 1 to 50, found 51"),
        ("memory_search", {"query": "a", "type": ["fact"] * 9}, "type: expected at most 8, found 9"),
        (
            "memory_get",
            {"keys": "a"},
            "unknown argument 'keys' of memory_get; it takes key, handle, ns, max_tokens; did you mean key?",
        ),
        ("memory_get", {}, "give exactly one of key and handle"),
        ("memory_forget", {"id": "#1", "key": "a"}, "give exactly one of id and key"),
        ("memory_search", {"query": "a", "type": "decisions"}, "type: expected a list, found 'decisions'"),
        ("memory_search", {"query": "a", "type": ["factt"]}, "type: unknown kind 'factt'; known: "),
        ("memory_search", {"query": "a", "ns": "/global", "project": "x"}, "project: give ns or project"),
        ("memory_get", {"handle": "nothing/1"}, "handle: expected expand://event/<seq>, "),
        ("memory_task", {}, "action: memory_task needs it, found none"),
        ("memory_task", {"action": "close"}, "action: expected one of open, plan, done, list, found 'close'"),
        ("memory_task", {"action": "open"}, "content: expected the goal, found nothing"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_what_can_be_taken(refused, name, arguments, said):
    assert refused(name, arguments).startswith(said)


KEYS = "memory_list_keys shows what there is"
HANDLES = "memory_search finds handles"
LIST = "list shows the open ones"


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("memory_get", {"key": "nope"}, f"no value under nope in /global; {KEYS}"),
        ("memory_get", {"handle": "#99"}, f"no event 99; {HANDLES}"),
        ("memory_get", {"handle": "nobody"}, f"no event 'nobody'; {HANDLES}"),
        ("memory_get", {"handle": "task/nope"}, f"no task 'nope'; {HANDLES}"),
        ("memory_forget", {"key": "nope"}, f"no value under nope in /global; {KEYS}"),
        ("memory_forget", {"id": "#99"}, f"no event 99; {HANDLES}"),
        ("memory_search", {"query": "walrus"}, "nothing found; try other words"),
        (
            "memory_search",
            {"query": "walrus", "file": "a.py", "until": "2026-01-01T00:00:00Z"},
            "nothing found; try other words, or leave out file, until",
        ),
        (
            "memory_search",
            {"query": "herons", "session": "nope"},
            "no session 'nope'; leave session out",
        ),
        (
            "memory_search",
            {"query": "herons", "project": "nope"},
            "this plane is one project's; leave project out",
        ),
        ("memory_task", {"action": "plan", "task": "nope"}, f"no task 'nope'; {LIST}"),
        ("memory_task", {"action": "done", "task": "nope"}, f"no task 'nope'; {LIST}"),
        ("memory_task", {"action": "list", "task": "nope"}, f"no task 'nope'; {LIST}"),
        ("memory_task", {"action": "done"}, "no task is active; name one, or open one"),
        ("memory_task", {"action": "list"}, "no open task; open makes one"),
    ],
)
def test_what_is_not_there_is_an_answer_that_says_so_and_writes_nothing(
    call, opened, name, arguments, said
):
    opened.record("Herons stay", kind="fact", session="s0")
    head = opened.head()
    (result,) = call((name, arguments))
    assert not result.is_error
    assert result.content[0].text == said
    assert result.structured_content["note"] == said
    validate(result.structured_content, tool_named(name).gives)
    assert opened.head() == head


@pytest.mark.parametrize("mode", MODES)
def test_what_the_plane_refuses_reaches_the_agent_in_its_own_words(refused, mode):
    said = refused("memory_store", {"content": "a", "type": "fact", "ns": "nowhere"}, mode=mode)
    assert said.startswith("ns: ")
    assert "/task/" in said
    secret = refused("memory_store", {"content": "a", "type": "fact", "key": TOKEN}, mode=mode)
    assert secret.startswith("key: ")
    assert TOKEN not in secret
    assert "since" in refused("memory_search", {"query": "a", "since": "yesterday"}, mode=mode)


def test_neither_an_error_nor_a_miss_quotes_a_secret(call):
    asked = [
        ("memory_get", arguments) for arguments in ({"key": TOKEN}, {"handle": TOKEN}, {TOKEN: 1})
    ]
    asked += [("memory_forget", {"id": TOKEN}), ("memory_search", {"query": "a", "session": TOKEN}),
              ("memory_task", {"action": "done", "task": TOKEN})]  # fmt: skip
    for result in call(*asked):
        assert TOKEN not in result.model_dump_json()


def test_an_error_and_a_miss_are_short_whatever_was_given(call):
    for arguments in (
        {"key": "k" * 256},
        {"handle": "h" * 400},
        {"x" * 9000: 1},
        {"key": 10**4000},
    ):
        (result,) = call(("memory_get", arguments))
        assert len(result.content[0].text) < 600


def test_an_unknown_tool_is_an_error_of_the_protocol(talk):
    from mcp.shared.exceptions import MCPError

    async def script(client):
        with pytest.raises(MCPError, match="no tool 'memory_stor'; known: memory_store") as error:
            await client.call_tool("memory_stor", {})
        return error.value.code

    assert talk(script) == -32602


def test_a_bug_is_told_as_one_and_its_traceback_goes_to_stderr_without_secrets(
    refused, monkeypatch, capsys
):
    def fails(*_args, **_more):
        raise RuntimeError(f"deep inside, {TOKEN}")

    monkeypatch.setattr(memplane.Plane, "search", fails)
    said = refused("memory_search", {"query": "a"})
    assert (
        said == "memory_search failed: a bug in memplane; its traceback is in the server's stderr"
    )
    told = capsys.readouterr().err
    assert "RuntimeError: deep inside" in told
    assert TOKEN not in told


def test_what_the_system_refuses_is_told_with_its_file_and_is_no_bug(call, tmp_path, capsys):
    home = tmp_path / "piped"
    memplane.init(home).close()
    (home / "log").rename(tmp_path / "log")
    os.mkfifo(home / "log")
    (result,) = call(("memory_search", {"query": "a"}), open_here=lambda: open_plane(home))
    assert result.is_error
    assert result.content[0].text == f"{home}/log: Not a directory"
    assert capsys.readouterr().err == ""


def test_without_a_plane_every_tool_says_which_command_makes_one(call, tmp_path):
    from memplane.mcp import TOOLS

    least = {"memory_store": {"content": "a", "type": "fact"}, "memory_search": {"query": "a"},
             "memory_get": {"key": "a"}, "memory_forget": {"key": "a"},
             "memory_task": {"action": "list"}}  # fmt: skip
    calls = [(tool.name, least.get(tool.name, {})) for tool in TOOLS]
    for result in call(*calls, open_here=lambda: open_plane(tmp_path / "nowhere")):
        assert result.is_error
        said = result.content[0].text
        assert "no plane here; make one with `memplane init`" in said


def test_a_plane_that_is_made_while_the_server_runs_is_used_from_then_on(talk, tmp_path):
    folder = tmp_path / "later"

    async def script(client):
        before = await client.call_tool("memory_list_keys", {})
        init(folder).close()
        return before.is_error, (await client.call_tool("memory_list_keys", {})).is_error

    assert talk(script, open_here=lambda: open_plane(folder)) == (True, False)


def test_a_server_that_reads_only_refuses_to_write_and_writes_nothing(refused, done, opened):
    opened.record("Herons stay", kind="fact")
    before = opened.head()
    said = refused("memory_store", {"content": "a", "type": "fact"}, read_only=True)
    assert said == "this server reads only (--read-only); memory_store writes"
    found, block = done(
        ("memory_search", {"query": "herons"}), ("memory_curate", {"query": "herons"}),
        read_only=True,
    )  # fmt: skip
    assert [hit["text"] for hit in found["hits"]] == ["Herons stay"]
    assert "Herons stay" in block["text"]
    assert opened.head() == before


@pytest.mark.parametrize("content", [" ", "\n\t\r\n", "\u3000"])
def test_a_statement_that_says_nothing_is_refused(refused, opened, content):
    said = refused("memory_store", {"content": content, "type": "fact"})
    assert said.startswith("content: expected a statement, found only blanks")
    assert list(opened.events(kind="fact")) == []


def test_a_block_that_memory_gave_is_no_new_statement(done, refused, opened):
    opened.record("Herons stay", kind="decision")
    (block,) = done(("memory_curate", {"query": "herons"}))
    said = refused("memory_store", {"content": block["text"], "type": "fact"})
    assert said.startswith("content: expected a statement, found only blanks or a block that")
    assert list(opened.events(kind="fact")) == []


def test_what_the_log_says_of_itself_is_not_forgotten(done, opened):
    opened.record("Herons stay", kind="fact", key="herons")
    opened.forget("herons")
    head = opened.head()
    for event in opened.events():
        if event.kind in ("segment", "forget"):
            (told,) = done(("memory_forget", {"id": f"#{event.seq}"}))
            assert told == {"note": f"no event {event.seq}; {HANDLES}"}
    assert opened.head() == head


def test_an_unknown_channel_is_named_with_the_known_ones(refused):
    said = refused("memory_search", {"query": "a"}, channel="heron")
    assert said.startswith("channel: unknown channel 'heron'; known: ")


def test_broken_policies_stop_no_record_and_are_told_to_who_reads(home, call):
    (home / "policies" / "budgets.yaml").write_text("version: 1\ntotal: many\n")
    stored, found = call(
        ("memory_store", {"content": "Herons stay", "type": "fact"}),
        ("memory_search", {"query": "herons"}),
    )
    assert not stored.is_error
    assert found.is_error
    assert "budgets.yaml:2" in found.content[0].text
